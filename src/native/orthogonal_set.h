// Chosen atoms and an orthonormal basis of their span: the careful counterpart of the inverse of a Gram matrix.
#pragma once
#include "gram_free.h"

namespace coupledict::COUPLEDICT_LEVEL {
namespace {

template <class T>
inline void rotate(T cosine, T sine, T &first, T &second) {
    const T old = first;
    first = cosine * old + sine * second;
    second = cosine * second - sine * old;
}

template <class T, class Choice, bool Masked>
class OrthogonalSet {
  public:
    static constexpr bool kCareful = true;
    T *target;  // the coefficients that solve the equations
    T *signs;   // 1 or -1: the sign that each coefficient must have

    OrthogonalSet(Arena &arena, const Dictionary<T> &d, const Settings &settings)
        : signal_(arena, d, with_one_more(settings)) {
        const index_t stride = signal_.support.stride;
        target = arena.take<T>(stride);
        signs = arena.take<T>(stride);
        penalty_parts_ = arena.take<T>(stride);
        weights_ = arena.take<T>(stride);
        rest_ = arena.take<T>(d.n_features);
        row_ = arena.take<T>(d.stride);
    }
    Chosen<T> &chosen() { return signal_.support; }
    void start() { signal_.support.clear(); }

    // Takes atom k, whose coefficient is 0 so far, and solves the equations; false if it depends on the others.
    bool enter(const Dictionary<T> &d, index_t k, T sign, const T *x, const T *, T *extra) {
        Support<T> &s = signal_.support;
        const index_t m = s.size;
        T *r = s.next_row();
        const T left = signal_.project(d, k, r);
        if (!(left > static_cast<T>(kDependentPivot))) return false;
        const T inverse_pivot = T(1) / square_root(left), z = signal_.correlation(d, x, T(0)) * inverse_pivot;
        T *q = signal_.basis + m * d.n_features;
        for (index_t f = 0; f < d.n_features; ++f) q[f] *= inverse_pivot;
        T penalty_part = -Choice::gradient(T(0), extra, k, sign);
        for (index_t j = 0; j < m; ++j) penalty_part -= r[j] * penalty_parts_[j];
        penalty_parts_[m] = penalty_part * inverse_pivot;
        signs[m] = sign;
        s.coefficients[m] = 0;
        s.add(k, inverse_pivot, z - penalty_parts_[m]);
        s.solve_for(s.projection, target);
        return true;
    }

    // Takes out the atom at place j, and solves the equations of the others.
    void leave(const Dictionary<T> &d, index_t j, T *) {
        Support<T> &s = signal_.support;
        const index_t n = s.size, p = d.n_features;
        for (index_t i = j; i + 1 < n; ++i) {
            T *row = s.factor + i * s.stride;
            for (index_t l = 0; l <= i; ++l) row[l] = row[s.stride + l];
            signs[i] = signs[i + 1];
        }
        // Now row i ends at column i + 1, with what was its diagonal; rotations of columns bring it back to column i.
        for (index_t i = j; i + 1 < n; ++i) {
            const T here = s.factor[i * s.stride + i], there = T(1) / s.inverse_diagonal[i + 1];
            const T diagonal = square_root(here * here + there * there);
            const T cosine = here / diagonal, sine = there / diagonal;
            s.inverse_diagonal[i] = T(1) / diagonal;
            for (index_t l = i + 1; l + 1 < n; ++l)
                rotate(cosine, sine, s.factor[l * s.stride + i], s.factor[l * s.stride + i + 1]);
            rotate(cosine, sine, s.projection[i], s.projection[i + 1]);
            rotate(cosine, sine, penalty_parts_[i], penalty_parts_[i + 1]);
            T *q = signal_.basis + i * p;
            for (index_t f = 0; f < p; ++f) rotate(cosine, sine, q[f], q[p + f]);
        }
        s.erase(j);
        s.solve_for(s.projection, target);
    }

    // For an atom k that depends on the chosen ones: changes their coefficients in favour of k, so that the
    // approximation stays as it is, until one of them is 0. Returns its place, or -1 if none becomes 0.
    index_t exchange(const Dictionary<T> &d, index_t k, T sign) {
        Support<T> &s = signal_.support;
        signal_.project(d, k, row_);
        s.solve_for(row_, weights_);
        index_t first = -1;
        T step = 0;
        for (index_t j = 0; j < s.size; ++j) {
            const T fall = sign * weights_[j];
            if (fall * signs[j] > 0 && (first < 0 || s.coefficients[j] / fall < step))
                first = j, step = s.coefficients[j] / fall;
        }
        if (first < 0) return -1;
        for (index_t j = 0; j < s.size; ++j) s.coefficients[j] -= step * sign * weights_[j];
        s.coefficients[first] = 0;
        given_ = step * sign;
        return first;
    }
    // The coefficient that the exchange has given to the new atom.
    T given() const { return given_; }

    // Rounds the coefficients to the float32 that will be written. Each makes up for the rounding of those before it,
    // unless one of them would change its sign.
    void round_to_float32(const Dictionary<T> &d, int exponent) {
        Support<T> &s = signal_.support;
        for (index_t j = 0; j < s.size; ++j) target[j] = s.coefficients[j];
        s.solve_in_float32(d, exponent);
        bool keeps_signs = true;
        for (index_t j = 0; j < s.size; ++j) keeps_signs = keeps_signs && s.coefficients[j] * signs[j] > 0;
        if (keeps_signs) return;
        for (index_t j = 0; j < s.size; ++j) s.coefficients[j] = target[j];
        s.round_to_float32(d, exponent);
    }

    // Computes the correlations of the residual, and the remaining norms; `seen(v, a, column)` gets the correlations.
    // Returns the squared residual.
    template <class Seen>
    double correlate_rest(const Dictionary<T> &d, const T *x, double, const T *, T *a, T *extra, double *residual,
                          Seen &&seen) {
        Support<T> &s = signal_.support;
        const double energy = s.residual_energy(d, x, residual);
        for (index_t f = 0; f < d.n_features; ++f) rest_[f] = static_cast<T>(residual[f]);
        correlate(d, 1, rest_, d.n_features, a);
        if constexpr (Masked)
            for (index_t k = 0; k < d.stride; ++k) a[k] *= s.mask.inverse_norms[k];
        if constexpr (Choice::kNeedsNorms) {
            Choice::fill_norms(d, s.mask, extra);
            for (index_t j = 0; j < s.size; ++j) {
                correlate(d, 1, signal_.basis + j * d.n_features, d.n_features, row_);
                for (index_t k = 0; k < d.stride; ++k) {
                    const T part = row_[k] * s.mask.inverse_norm_of(k);
                    extra[k] -= part * part;
                }
            }
        }
        for (index_t i = 0; i < d.stride; i += kPanelWidth<T>)
            for (int v = 0; v < kTileVectors; ++v) seen(v, load(a + i + v * kLanes<T>), i + v * kLanes<T>);
        return energy;
    }

  private:
    // An atom that is only compared with the chosen ones needs room as well.
    static Settings with_one_more(Settings settings) {
        ++settings.n_nonzero;
        return settings;
    }

    GramFreeSignal<T> signal_;
    T *penalty_parts_;  // what the penalties take from the projections: R^-1 times signs times penalties
    T *weights_, *rest_, *row_;
    T given_ = 0;
};

}  // namespace
}  // namespace coupledict::COUPLEDICT_LEVEL
