// The same pursuits for dictionaries so large that their Gram matrix would not fit in memory.
//
// Each signal of a group orthogonalises its new atom in the space of the features; one matrix product then gives the
// rows P_m = D q_m of the whole group.
#pragma once
#include "choice.h"

namespace coupledict::COUPLEDICT_LEVEL {
namespace {

// What one signal needs in addition to its Coding.
template <class T>
struct GramFreeSignal {
    Support<T> support;
    T *basis;  // the rows of Q
    T *norms;  // remaining squared norms (OLS)

    GramFreeSignal(Arena &arena, const Dictionary<T> &d, const Limits &limits)
        : support(arena, d.n_atoms, limits.n_nonzero) {
        basis = arena.take<T>(limits.n_nonzero * d.n_features);
        norms = arena.take<T>(limits.pursuit == kOls ? d.stride : 0);
    }

    // Writes the part of atom k that is orthogonal to the basis to its next row. Gram-Schmidt runs twice: one round
    // loses orthogonality if atoms are almost dependent.
    T project(const Dictionary<T> &d, index_t k, T *r) const {
        const index_t m = support.size;
        T *q = basis + m * d.n_features;
        unpack_atom(d, k, q);
        for (index_t j = 0; j < m; ++j) r[j] = 0;
        for (int round = 0; round < (m > 0 ? 2 : 0); ++round)
            for (index_t j = 0; j < m; ++j) {
                const T *qj = basis + j * d.n_features;
                const T part = dot(d.n_features, q, qj);
                r[j] += part;
                for (index_t f = 0; f < d.n_features; ++f) q[f] -= part * qj[f];
            }
        return dot(d.n_features, q, q);
    }
    static constexpr bool kHasBasis = true;
    static constexpr double kDoubtfulPivot = kDoubtfulPivotFree<T>;
    // Correlation of the signal with that part. It is more precise than that of the residual with the atom.
    T correlation(const Dictionary<T> &d, const T *x, T) const {
        return dot(d.n_features, x, basis + support.size * d.n_features);
    }
};

template <class T, class Choice>
struct GramFreeMethod {
    using Signal = GramFreeSignal<T>;
    static constexpr index_t kBlockBytes = 48 << 20;  // a large block saves passes over the dictionary
    static constexpr index_t kBlockTiles = 32;
    T *directions;  // (block, n_features): the newest row of Q of every signal still at work
    T *rows;        // (block, stride)

    GramFreeMethod(Arena &arena, const Dictionary<T> &d, const Limits &, index_t block) {
        directions = arena.take<T>(block * d.n_features);
        rows = arena.take<T>(block * d.stride);
    }
    static index_t group_size(const Dictionary<T> &, const Limits &, index_t block) { return block; }

    void advance(const Dictionary<T> &d, index_t n, const index_t *working, const Signal *signals,
                 Coding<T, Choice> *codings) const {
        for (index_t w = 0; w < n; ++w) {
            const Support<T> &support = signals[working[w]].support;
            T *q = signals[working[w]].basis + (support.size - 1) * d.n_features;
            for (index_t f = 0; f < d.n_features; ++f)
                directions[w * d.n_features + f] = q[f] *= support.inverse_diagonal[support.size - 1];
        }
        correlate(d, n, directions, d.n_features, rows);
        for (index_t w = 0; w < n; ++w) absorb(d, rows + w * d.stride, codings[working[w]]);
    }

    // Updates the correlations and remaining norms with a new row of P.
    static void absorb(const Dictionary<T> &d, const T *row, Coding<T, Choice> &coding) {
        const T z = coding.support->projection[coding.support->size - 1];
        Choice choice;
        for (index_t i = 0; i < d.stride; i += kPanelWidth<T>)
            for (int v = 0; v < kTileVectors; ++v) {
                const index_t column = i + v * kLanes<T>;
                const vec<T> p = load(row + column);
                const vec<T> rest = load(coding.a + column) - z * p;
                store(coding.a + column, rest);
                vec<T> norm = {};
                if constexpr (Choice::kNeedsNorms) {
                    norm = load(coding.norms + column) - p * p;
                    store(coding.norms + column, norm);
                }
                choice.see(v, rest, norm, column);
            }
        coding.choice = choice;
    }
};

}  // namespace
}  // namespace coupledict::COUPLEDICT_LEVEL
