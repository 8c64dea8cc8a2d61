// Simultaneous orthogonal matching pursuit with non-negative coefficients.
//
// Views share the choice of atoms, the largest sum over the views of squared positive correlations. Each view solves
// its own non-negative least-squares problem over the chosen atoms, and thus uses some of them only; an atom that no
// view uses leaves.
#pragma once
#include "constrained.h"

namespace coupledict::COUPLEDICT_LEVEL {
namespace {

template <class T, template <class, class, bool> class SetOf>
class PositiveSupportEncoder {
    using Set = SetOf<T, PositiveCorrelation<T>, false>;
    static constexpr bool kCareful = Set::kCareful;

    struct OneView {
        Set set;
        T *x, *b, *a;
        double signal_energy, energy, noise;

        OneView(Arena &arena, const Dictionary<T> &d, const Limits &limits) : set(arena, d, limits) {
            x = arena.take<T>(d.n_features);
            b = arena.take<T>(d.stride);
            a = arena.take<T>(d.stride);
            signal_energy = energy = noise = 0;
        }
    };

  public:
    PositiveSupportEncoder(Arena &arena, index_t n_views, const Dictionary<T> *dictionaries, const Limits &limits)
        : n_views_(n_views), d_(dictionaries), limits_(limits), shared_(arena, d_[0].n_atoms, limits.n_nonzero + 1) {
        n_features_ = 0;
        for (index_t v = 0; v < n_views; ++v) n_features_ += d_[v].n_features;
        x_ = arena.take<T>(n_features_);
        residual_ = arena.take<double>(n_features_);
        views_ = arena.take<OneView>(n_views);
        for (index_t v = 0; v < n_views; ++v) {
            const OneView view(arena, d_[v], limits);
            if (views_) views_[v] = view;
        }
    }

    // Codes one signal; returns its atoms, sorted, and the coefficients of each view.
    index_t code(const View<T> *views, index_t row, std::int32_t *indices, T *const *values, double *energy,
                 std::uint8_t *status) {
        const Arrival arrival = arrive(n_views_, views, row, n_features_, x_);
        *energy = ldexp(arrival.energy, 2 * arrival.exponent);
        *status = settled(arrival, limits_.tol);
        if (*status != kLimit) return 0;
        tol_ = limits_.tol < 0 ? -1 : ldexp(limits_.tol, -2 * arrival.exponent);
        signal_energy_ = arrival.energy;
        noise_ = noise_share<T>(n_features_) * square_root(arrival.energy);
        start();
        *status = pursue();
        if (!is_trusted()) *status = kDoubtful;
        if (*status == kDoubtful) return 0;
        if (kCareful) {
            round_off(arrival.exponent);
            if (*status == kTolerance && total_energy() > tol_) *status = kDependent;
        }
        const double left = total_energy();
        *energy = left > 0 ? ldexp(left, 2 * arrival.exponent) : 0;
        bool all_fit = true;
        for (index_t v = 0; v < n_views_; ++v) {
            Chosen<T> &chosen = views_[v].set.chosen();
            for (index_t j = 0; j < shared_.size; ++j)
                if (!chosen.is_chosen(shared_.atoms[j])) {
                    chosen.coefficients[chosen.size] = 0;
                    chosen.append(shared_.atoms[j]);
                }
            bool fits;
            write_codes(chosen, d_[v], arrival.exponent, limits_.narrow, indices, values[v], &fits);
            all_fit = all_fit && fits;
        }
        if (!all_fit) *status = kOverflow;
        return shared_.size;
    }

  private:
    void start() {
        shared_.clear();
        const T *x = x_;
        for (index_t v = 0; v < n_views_; x += d_[v].n_features, ++v) {
            OneView &view = views_[v];
            view.set.start();
            for (index_t f = 0; f < d_[v].n_features; ++f) view.x[f] = x[f];
            view.signal_energy = view.energy = squared_norm(d_[v].n_features, view.x);
            view.noise = noise_share<T>(d_[v].n_features) * square_root(view.signal_energy);
            correlate(d_[v], 1, view.x, d_[v].n_features, view.b);
            for (index_t k = 0; k < d_[v].stride; ++k) view.a[k] = view.b[k];
        }
    }

    Status pursue() {
        const index_t most_steps = (kCareful ? 50 : 4) * (limits_.n_nonzero + 16);
        const double nothing = kCareful && limits_.narrow ? kNothingLeftNarrow : kNothingLeft<T>;
        for (index_t steps = 0;; ++steps) {
            if (reached()) return kTolerance;
            if (shared_.size == limits_.n_nonzero) return kLimit;
            const index_t k = kCareful && total_energy() <= nothing * signal_energy_ ? -1 : best_atom();
            if (k < 0) break;
            if (steps >= most_steps) return kCareful ? kLimit : kDoubtful;
            shared_.append(k);
            for (index_t v = 0; v < n_views_; ++v)
                if (!solve(v)) return kDoubtful;
            drop_unused();
            if (shared_.is_chosen(k)) continue;
            if (!kCareful) return kDoubtful;
            shared_.bar(k);
        }
        return hears_faint() ? kDoubtful : shared_.any_barred ? kDependent : kExhausted;
    }

    // Whether a fast method may keep its result.
    bool is_trusted() {
        if constexpr (!kCareful)
            for (index_t v = 0; v < n_views_; ++v) {
                OneView &view = views_[v];
                if (view.set.chosen().has_large_coefficients(view.signal_energy) ||
                    !view.set.is_solved(view.a, view.signal_energy))
                    return false;
            }
        return true;
    }

    // Whether a fast method that ends hears an atom, but so faintly that it may be rounding error, and something is
    // left to explain.
    bool hears_faint() {
        if constexpr (kCareful) return false;
        bool faint = false;
        for (index_t k = 0; k < d_[0].n_atoms && !faint; ++k)
            for (index_t v = 0; v < n_views_ && !faint; ++v) faint = views_[v].a[k] > 0 && !shared_.is_chosen(k);
        if (!faint) return false;
        find_energies();
        return total_energy() > kNothingLeft<T> * signal_energy_;
    }

    // The atom with the largest sum of squared positive correlations, if that is more than rounding error, or -1.
    index_t best_atom() const {
        index_t best = -1;
        double top = noise_ * noise_;
        for (index_t k = 0; k < d_[0].n_atoms; ++k) {
            double sum = 0;
            for (index_t v = 0; v < n_views_; ++v) {
                const double a = static_cast<double>(views_[v].a[k]);
                sum += a > 0 ? a * a : 0;
            }
            if (sum > top && !shared_.is_closed(k)) top = sum, best = k;
        }
        return best;
    }

    // Solves the non-negative least-squares problem of one view over the shared atoms; false where rounding errors
    // matter to a fast method.
    bool solve(index_t v) {
        OneView &view = views_[v];
        Chosen<T> &chosen = view.set.chosen();
        for (index_t round = 0; round < 3 * shared_.size + 16; ++round) {
            index_t best = -1;
            double top = view.noise;
            for (index_t j = 0; j < shared_.size; ++j) {
                const index_t k = shared_.atoms[j];
                const double a = static_cast<double>(view.a[k]);
                if (a > top && !chosen.is_closed(k)) top = a, best = k;
            }
            if (best < 0) return true;
            T *const none = nullptr;
            if (!view.set.enter(d_[v], best, T(1), view.x, view.a, none) || !make_feasible(d_[v], view.set, none)) {
                if (!kCareful) return false;
                chosen.bar(best);
                continue;
            }
            view.energy = view.set.correlate_rest(d_[v], view.x, view.signal_energy, view.b, view.a, none, residual_,
                                                  [](int, vec<T>, index_t) {});
        }
        return kCareful;
    }

    void drop_unused() {
        for (index_t j = shared_.size - 1; j >= 0; --j) {
            bool used = false;
            for (index_t v = 0; v < n_views_; ++v) used = used || views_[v].set.chosen().is_chosen(shared_.atoms[j]);
            if (!used) shared_.erase(j);
        }
    }

    double total_energy() const {
        double sum = 0;
        for (index_t v = 0; v < n_views_; ++v) sum += views_[v].energy;
        return sum;
    }

    bool reached() {
        if (tol_ < 0) return false;
        double sum = signal_energy_;
        for (index_t v = 0; v < n_views_; ++v) sum += views_[v].set.chosen().squared_coefficients();
        if (total_energy() > tol_ + 8 * kEnergyBand<T> * sum) return false;
        find_energies();
        return total_energy() <= tol_;
    }
    void find_energies() {
        for (index_t v = 0; v < n_views_; ++v)
            views_[v].energy = views_[v].set.chosen().residual_energy(d_[v], views_[v].x, residual_);
    }

    // As for one view: rounds the coefficients as they will be written; those of a view that they make worse are 0.
    void round_off(int exponent) {
        for (index_t v = 0; v < n_views_; ++v) {
            OneView &view = views_[v];
            Chosen<T> &chosen = view.set.chosen();
            if constexpr (kCareful)
                if (limits_.narrow) view.set.round_narrow(d_[v], exponent);
            view.energy =
                chosen.residual_energy(d_[v], view.x, residual_) + (limits_.narrow ? 0 : chosen.rounding_energy());
            if (view.energy <= view.signal_energy) continue;
            chosen.clear();
            view.energy = view.signal_energy;
        }
    }

    index_t n_views_, n_features_;
    const Dictionary<T> *d_;
    const Limits &limits_;
    Chosen<T> shared_;
    double tol_ = -1, signal_energy_ = 0, noise_ = 0;
    T *x_;
    double *residual_;
    OneView *views_;
};

}  // namespace
}  // namespace coupledict::COUPLEDICT_LEVEL
