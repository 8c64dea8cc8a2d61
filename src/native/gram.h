// Pursuits from correlations and the Gram matrix.
//
// Step m chooses atom k and orthogonalises it, but never in the space of the features: with q_m the new orthonormal
// direction, the row P_m = D q_m = (G_k - sum_j P_j[k] P_j) / s holds its correlation with every atom, the
// correlations of the residual become a - z P_m, and the remaining squared norms of the atoms 1 - sum_j P_j^2.
#pragma once
#include "choice.h"

namespace coupledict::COUPLEDICT_LEVEL {
namespace {

// Does step m for N vectors of columns, from `column` on: the new row of P, the correlations, the remaining norms.
template <class T, int N, class Choice>
inline void advance_columns(index_t m, const T *r, T inverse_pivot, T z, index_t column, const T *gram_row, T *block,
                            T *a, T *norms, Choice &choice) {
    constexpr int lanes = kLanes<T>;
    vec<T> p[N];
    for (int v = 0; v < N; ++v) p[v] = load(gram_row + column + v * lanes);
    const T *old = block;
    for (index_t j = 0; j < m; ++j, old += kBlockWidth<T>) {
        const vec<T> rj = splat(r[j]);
        for (int v = 0; v < N; ++v) p[v] -= rj * load(old + v * lanes);
    }
    T *fresh = block + m * kBlockWidth<T>;
    for (int v = 0; v < N; ++v) {
        p[v] *= inverse_pivot;
        store(fresh + v * lanes, p[v]);
        const vec<T> rest = load(a + column + v * lanes) - z * p[v];
        store(a + column + v * lanes, rest);
        vec<T> norm = {};
        if constexpr (Choice::kNeedsNorms) {
            norm = load(norms + column + v * lanes) - p[v] * p[v];
            store(norms + column + v * lanes, norm);
        }
        choice.see(v, rest, norm, column + v * lanes);
    }
}

// What one signal needs in addition to its Coding.
template <class T>
struct GramSignal {
    Support<T> support;
    index_t limit;
    T *rows;   // P, in column blocks: block b holds its columns of all rows, so that a block is read in sequence
    T *norms;  // remaining squared norms (OLS)

    GramSignal(Arena &arena, const Dictionary<T> &d, const Settings &settings)
        : support(arena, d.n_atoms, settings.n_nonzero), limit(settings.n_nonzero) {
        rows = arena.take<T>(round_up(d.stride, kBlockWidth<T>) * limit);
        norms = arena.take<T>(settings.pursuit == kOls ? d.stride : 0);
    }

    static constexpr double kDoubtfulPivot = kDoubtfulPivotGram<T>;
    // Correlation of the signal with the part of atom k that is orthogonal to the chosen ones: that of the residual.
    T correlation(const Dictionary<T> &, const T *, T a) const { return a; }
    T project(const Dictionary<T> &, index_t k, T *r) const {
        constexpr index_t width = kBlockWidth<T>;
        const T *column = rows + k / width * width * limit + k % width;
        T sum0 = 0, sum1 = 0;
        index_t j = 0;
        for (; j + 2 <= support.size; j += 2) {
            const T r0 = column[j * width], r1 = column[(j + 1) * width];
            r[j] = r0, r[j + 1] = r1;
            sum0 += r0 * r0, sum1 += r1 * r1;
        }
        if (j < support.size) {
            r[j] = column[j * width];
            sum0 += r[j] * r[j];
        }
        return T(1) - (sum0 + sum1);
    }

    // Updates the state after an atom was taken: computes its row of P, and subtracts it from the correlations and
    // norms.
    template <class Choice>
    void advance(const Dictionary<T> &d, const T *gram_row, T *a, T *remaining, Choice &choice) const {
        constexpr int width = kBlockWidth<T>;
        const index_t m = support.size - 1;
        const T *r = support.factor + m * support.stride;
        const T inverse_pivot = support.inverse_diagonal[m], z = support.projection[m];
        index_t column = 0;
        for (; column + width <= d.stride; column += width)
            advance_columns<T, kBlockVectors>(m, r, inverse_pivot, z, column, gram_row, rows + column * limit, a,
                                              remaining, choice);
        for (T *block = rows + column * limit; column < d.stride; column += kPanelWidth<T>, block += kPanelWidth<T>)
            advance_columns<T, kTileVectors>(m, r, inverse_pivot, z, column, gram_row, block, a, remaining, choice);
    }
};

template <class T, class Choice>
struct GramMethod {
    static constexpr bool kMasked = false;
    using Signal = GramSignal<T>;
    static constexpr index_t kBlockBytes = 384 << 10;  // correlations of a block, beside the dictionary in the L2 cache
    static constexpr index_t kBlockTiles = 8;
    T *gram_row;  // where the Gram matrix is not stored
    T *atom;

    GramMethod(Arena &arena, const Dictionary<T> &d, const Settings &, index_t) {
        gram_row = arena.take<T>(d.gram ? 0 : d.stride);
        atom = arena.take<T>(d.gram ? 0 : d.n_features);
    }
    // Signals that advance together, step by step: while one waits for its choice, the others keep the vector units
    // busy. Their rows must stay in the L1 cache.
    static index_t group_size(const Dictionary<T> &d, const Settings &settings, index_t) {
        const index_t fit = (16 << 10) / (settings.n_nonzero * d.stride * static_cast<index_t>(sizeof(T)));
        return fit < 1 ? 1 : fit > 4 ? 4 : fit;
    }
    void advance(const Dictionary<T> &d, index_t n, const index_t *working, const Signal *signals,
                 Coding<T, Choice> *codings) const {
        for (index_t w = 0; w < n; ++w) {
            const Signal &signal = signals[working[w]];
            const index_t k = signal.support.atoms[signal.support.size - 1];
            const T *row = gram_row;
            if (d.gram) {
                row = d.gram + k * d.stride;
            } else {
                unpack_atom(d, k, atom);
                correlate(d, 1, atom, d.n_features, gram_row);
            }
            Coding<T, Choice> &coding = codings[working[w]];
            Choice choice;
            signal.advance(d, row, coding.a, coding.norms, choice);
            coding.choice = choice;
        }
    }
};

}  // namespace
}  // namespace coupledict::COUPLEDICT_LEVEL
