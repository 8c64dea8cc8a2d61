// Coefficients whose residual is as small as the pursuit claims.
//
// Atoms that almost depend on each other get large coefficients of both signs, and the rounding errors of their factor
// grow with these: the residual may then be larger than the running one, even larger than the signal. If coefficients
// are large, the residual itself is computed and used to refine them (corrected semi-normal equations). If that is not
// enough, the atoms taken last are dropped.
#pragma once
#include "support.h"

namespace coupledict::COUPLEDICT_LEVEL {
namespace {

template <class T>
class Settlement {
  public:
    Settlement(Arena &arena, index_t n_features, index_t limit) : n_trusted_(0) {
        residual_ = arena.take<double>(n_features);
        change_ = arena.take<double>(limit);
        before_ = arena.take<T>(limit);
        diagonal_ = arena.take<T>(limit);
    }
    double *residual() const { return residual_; }
    // Number of atoms that the last call of settle() kept; those taken after them have coefficient 0.
    index_t n_trusted() const { return n_trusted_; }

    // Solves for the coefficients; returns the squared residual, which the pursuit says is `claimed`. If it is larger,
    // atoms are dropped until it is not, and of all these supports the one with the smallest residual is kept.
    double settle(const Dictionary<T> &d, Support<T> &s, const T *x, double signal_energy, double claimed) {
        n_trusted_ = s.size;
        s.solve();
        if (!are_large(s, signal_energy)) return claimed;
        for (index_t j = 0; j < s.size; ++j) diagonal_[j] = s.inverse_diagonal[j];
        double least = refine(d, s, x), energy = least;
        index_t n_best = s.size;
        while (n_trusted_ > 0 && energy > (claimed > 0 ? claimed : 0) + kTrustedShare<T> * signal_energy) {
            const double z = static_cast<double>(s.projection[--n_trusted_]);
            claimed += z * z;
            s.inverse_diagonal[n_trusted_] = 0;
            s.solve();
            energy = refine(d, s, x);
            if (energy < least) least = energy, n_best = n_trusted_;
        }
        if (n_trusted_ == n_best) return energy;
        for (; n_trusted_ < n_best; ++n_trusted_) s.inverse_diagonal[n_trusted_] = diagonal_[n_trusted_];
        s.solve();
        return refine(d, s, x);
    }

  private:
    static bool are_large(const Support<T> &s, double signal_energy) {
        double sum = 0;
        for (index_t j = 0; j < s.size; ++j)
            sum += static_cast<double>(s.coefficients[j]) * static_cast<double>(s.coefficients[j]);
        return !(sum <= kLargeCoefficients<T> * signal_energy);
    }

    // Refines the coefficients as long as each round halves the squared residual; returns the squared residual.
    double refine(const Dictionary<T> &d, Support<T> &s, const T *x) {
        double energy = s.residual_energy(d, x, residual_);
        for (int round = 0; round < 4; ++round) {
            correct(d, s);
            const double now = s.residual_energy(d, x, residual_);
            if (now >= energy) {  // no better: undo this round
                for (index_t j = 0; j < s.size; ++j) s.coefficients[j] = before_[j];
                return energy;
            }
            const bool done = now > 0.5 * energy;
            energy = now;
            if (done) break;
        }
        return energy;
    }

    // Adds to the coefficients the solution for the residual.
    void correct(const Dictionary<T> &d, Support<T> &s) const {
        constexpr index_t width = kPanelWidth<T>;
        for (index_t i = 0; i < s.size; ++i) {
            const T *atom = d.panels + s.atoms[i] / width * d.n_features * width + s.atoms[i] % width;
            const T *row = s.factor + i * s.stride;
            double sum = 0;
            for (index_t f = 0; f < d.n_features; ++f) sum += residual_[f] * static_cast<double>(atom[f * width]);
            for (index_t j = 0; j < i; ++j) sum -= static_cast<double>(row[j]) * change_[j];
            change_[i] = sum * static_cast<double>(s.inverse_diagonal[i]);
        }
        for (index_t i = s.size - 1; i >= 0; --i) {
            const T *row = s.factor + i * s.stride;
            change_[i] *= static_cast<double>(s.inverse_diagonal[i]);
            for (index_t j = 0; j < i; ++j) change_[j] -= change_[i] * static_cast<double>(row[j]);
            before_[i] = s.coefficients[i];
            s.coefficients[i] = static_cast<T>(static_cast<double>(s.coefficients[i]) + change_[i]);
        }
    }

    double *residual_, *change_;
    T *before_, *diagonal_;
    index_t n_trusted_;
};

}  // namespace
}  // namespace coupledict::COUPLEDICT_LEVEL
