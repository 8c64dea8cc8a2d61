// Chosen atoms and the inverse of their Gram matrix, from which atoms enter and leave in any order.
//
// Products with the inverse have no long chains of dependent operations, as triangular solves have. Its rounding errors
// do not accumulate: correlations are computed afresh for each step, and correct what was wrong in the step before.
#pragma once
#include "masked.h"

namespace coupledict::COUPLEDICT_LEVEL {
namespace {

// Does N vectors of columns, from `column` on, of base - sum_j c_j rows_j.
template <class T, int N>
inline void subtract_rows(index_t n, const T *c, const T *const *rows, const T *base, index_t column,
                          vec<T> (&out)[N]) {
    constexpr int lanes = kLanes<T>;
    for (int v = 0; v < N; ++v) out[v] = base ? load(base + column + v * lanes) : vec<T>{};
    for (index_t j = 0; j < n; ++j) {
        const vec<T> cj = splat(c[j]);
        const T *row = rows[j] + column;
        hide_origin(row);  // one address for all vectors; compilers would keep one for each, in memory
        for (int v = 0; v < N; ++v) out[v] -= cj * load(row + v * lanes);
    }
}

// The same for all columns; `use(v, value, column)` gets vector v of a block.
template <class T, class Use>
inline void for_columns(index_t stride, index_t n, const T *c, const T *const *rows, const T *base, Use &&use) {
    constexpr int lanes = kLanes<T>;
    index_t column = 0;
    for (; column + kBlockWidth<T> <= stride; column += kBlockWidth<T>) {
        vec<T> value[kBlockVectors];
        subtract_rows<T, kBlockVectors>(n, c, rows, base, column, value);
        for (int v = 0; v < kBlockVectors; ++v) use(v, value[v], column + v * lanes);
    }
    for (; column < stride; column += kPanelWidth<T>) {
        vec<T> value[kTileVectors];
        subtract_rows<T, kTileVectors>(n, c, rows, base, column, value);
        for (int v = 0; v < kTileVectors; ++v) use(v, value[v], column + v * lanes);
    }
}

template <class T, class Choice, bool Masked>
class InverseSet : Chosen<T> {
  public:
    static constexpr bool kCareful = false;
    T *target;  // the coefficients that solve the equations
    T *signs;   // 1 or -1: the sign that each coefficient must have

    InverseSet(Arena &arena, const Dictionary<T> &d, const Settings &settings)
        : Chosen<T>(arena, d.n_atoms, settings.n_nonzero), limit_(settings.n_nonzero) {
        const bool stored = !Masked && d.gram;
        target = arena.take<T>(stride);
        signs = arena.take<T>(stride);
        inverse_ = arena.take<T>(limit_ * stride);
        solution_ = arena.take<T>(stride);
        given_ = arena.take<T>(stride);
        rows_ = arena.take<const T *>(limit_);
        places_ = arena.take<std::int32_t>(limit_);
        own_ = arena.take<T>(stored ? 0 : limit_ * d.stride);
        atom_ = arena.take<T>(stored ? 0 : d.n_features);
    }
    Chosen<T> &chosen() { return *this; }
    void start() {
        this->clear();
        for (index_t j = 0; j < limit_; ++j) places_[j] = static_cast<std::int32_t>(j);
    }

    // Takes atom k, whose coefficient is 0 so far, and solves the equations; false if it almost depends on the others.
    // `extra` holds the remaining norms, or the penalties. With `a` null, the equations of the atoms before it are
    // taken for solved, and `gradient` is that of atom k.
    bool enter(const Dictionary<T> &d, index_t k, T sign, const T *, const T *a, T *extra, T gradient = 0) {
        constexpr index_t lanes = kLanes<T>;
        const index_t m = size, width = round_up(m, lanes);
        const T *row = find_row(d, k);
        if constexpr (Masked)
            if (mask.is_doubtful(k)) return false;
        for (index_t j = 0; j < m; ++j) given_[j] = row[atoms[j]];
        multiply(m, given_, solution_);
        T left = 1;
        for (index_t j = 0; j < m; ++j) left -= given_[j] * solution_[j];
        if (!(left > static_cast<T>(kDoubtfulPivotGram<T>))) return false;
        if constexpr (Choice::kNeedsNorms) add_squares(d, row, solution_, T(-1) / left, extra);
        const T scale = T(1) / left;
        T *fresh = inverse_ + m * stride;
        for (index_t j = 0; j < m; ++j) {
            T *own = inverse_ + j * stride;
            const T cj = scale * solution_[j];
            for (index_t i = 0; i < width; i += lanes) store(own + i, load(own + i) + cj * load(solution_ + i));
            if (m == width) store(own + m, vec<T>{});
            own[m] = -cj;
        }
        for (index_t i = 0; i < width; i += lanes) store(fresh + i, -scale * load(solution_ + i));
        if (m == width) store(fresh + m, vec<T>{});
        fresh[m] = scale;
        rows_[m] = row;
        signs[m] = sign;
        coefficients[m] = 0;
        this->append(k);
        if (a) {
            for (index_t j = 0; j <= m; ++j) given_[j] = Choice::gradient(a[atoms[j]], extra, atoms[j], signs[j]);
            multiply(size, given_, target);
        } else {
            for (index_t i = 0; i < size; i += lanes) store(target + i, load(fresh + i) * gradient);
        }
        for (index_t j = 0; j <= m; ++j) target[j] += coefficients[j];
        return true;
    }

    // The correlation of the residual with atom k.
    T correlation(const T *b, index_t k) const {
        T even = b[k], odd = 0;
        index_t j = 0;
        for (; j + 2 <= size; j += 2) {
            even -= coefficients[j] * rows_[j][k];
            odd -= coefficients[j + 1] * rows_[j + 1][k];
        }
        return j < size ? even + odd - coefficients[j] * rows_[j][k] : even + odd;
    }

    // Whether the coefficients solve the equations of least squares: the squared residual is above its least value by
    // a^T G^-1 a, where a are the correlations of the residual with the chosen atoms, and G is their Gram matrix.
    bool is_solved(const T *a, double signal_energy) {
        for (index_t j = 0; j < size; ++j) given_[j] = a[atoms[j]];
        multiply(size, given_, solution_);
        double excess = 0;
        for (index_t j = 0; j < size; ++j) excess += static_cast<double>(given_[j]) * static_cast<double>(solution_[j]);
        return fabs(excess) <= kTrustedExcess<T> * signal_energy;
    }

    // Takes out the atom at place j, and solves the equations of the others.
    void leave(const Dictionary<T> &d, index_t j, T *extra) {
        constexpr index_t lanes = kLanes<T>;
        const index_t last = size - 1, width = round_up(size, lanes);
        for (index_t i = 0; i < width; i += lanes) store(solution_ + i, load(inverse_ + j * stride + i));
        const T scale = T(1) / solution_[j], drop = target[j] * scale;
        if constexpr (Choice::kNeedsNorms) add_squares(d, static_cast<const T *>(nullptr), solution_, scale, extra);
        for (index_t i = 0; i < size; ++i) {
            T *own = inverse_ + i * stride;
            target[i] -= drop * solution_[i];
            const T ci = scale * solution_[i];
            for (index_t l = 0; l < width; l += lanes) store(own + l, load(own + l) - ci * load(solution_ + l));
            own[j] = own[last];
            own[last] = 0;
        }
        T *gone = inverse_ + j * stride;
        const T *moved = inverse_ + last * stride;
        for (index_t l = 0; l < width; l += lanes) store(gone + l, load(moved + l));
        const std::int32_t place = places_[j];
        target[j] = target[last], signs[j] = signs[last], rows_[j] = rows_[last], places_[j] = places_[last];
        places_[last] = place;
        this->replace_by_last(j);
    }

    // Computes the correlations of the residual; `seen(v, a, column)` gets them. Returns the squared residual.
    template <class Seen>
    double correlate_rest(const Dictionary<T> &d, const T *, double signal_energy, const T *b, T *a, T *, double *,
                          Seen &&seen) {
        for_columns<T>(d.stride, size, coefficients, rows_, b, [&](int v, vec<T> rest, index_t column) {
            store(a + column, rest);
            seen(v, rest, column);
        });
        double explained = 0;
        for (index_t j = 0; j < size; ++j)
            explained += static_cast<double>(coefficients[j]) *
                         (static_cast<double>(b[atoms[j]]) + static_cast<double>(a[atoms[j]]));
        return signal_energy - explained;
    }

  private:
    using Chosen<T>::size;
    using Chosen<T>::stride;
    using Chosen<T>::atoms;
    using Chosen<T>::coefficients;
    using Chosen<T>::mask;

    const T *find_row(const Dictionary<T> &d, index_t k) {
        if (!Masked && d.gram) return d.gram + k * d.stride;
        T *row = own_ + places_[size] * d.stride;
        if constexpr (Masked) {
            masked_row(d, mask, k, atom_, row);
        } else {
            unpack_atom(d, k, atom_);
            correlate(d, 1, atom_, d.n_features, row);
        }
        return row;
    }
    // out = inverse v, over n atoms; writes whole vectors.
    void multiply(index_t n, const T *v, T *out) const {
        constexpr index_t lanes = kLanes<T>;
        const index_t width = round_up(n, lanes);
        index_t i = 0;
        for (; i + 4 * lanes <= width; i += 4 * lanes) multiply_columns<4>(n, v, i, out);
        for (; i < width; i += lanes) multiply_columns<1>(n, v, i, out);
    }
    template <int N>
    void multiply_columns(index_t n, const T *v, index_t column, T *out) const {
        constexpr index_t lanes = kLanes<T>;
        vec<T> even[N] = {}, odd[N] = {};
        const T *row = inverse_ + column;
        index_t j = 0;
        for (; j + 2 <= n; j += 2, row += 2 * stride)
            for (int u = 0; u < N; ++u) {
                even[u] += splat(v[j]) * load(row + u * lanes);
                odd[u] += splat(v[j + 1]) * load(row + stride + u * lanes);
            }
        if (j < n)
            for (int u = 0; u < N; ++u) even[u] += splat(v[j]) * load(row + u * lanes);
        for (int u = 0; u < N; ++u) store(out + column + u * lanes, even[u] + odd[u]);
    }
    // Adds weight (base - sum_j c_j rows_j)^2 to the remaining norms.
    void add_squares(const Dictionary<T> &d, const T *base, const T *c, T weight, T *norms) const {
        for_columns<T>(d.stride, size, c, rows_, base, [&](int, vec<T> value, index_t column) {
            store(norms + column, load(norms + column) + weight * value * value);
        });
    }

    index_t limit_;
    T *inverse_;  // zero from column `size` on, up to a whole vector
    T *solution_, *given_;
    const T **rows_;  // Gram rows of the chosen atoms
    std::int32_t *places_;
    T *own_, *atom_;  // for Gram rows that are not stored
};

}  // namespace
}  // namespace coupledict::COUPLEDICT_LEVEL
