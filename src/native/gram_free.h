// The same pursuits without a Gram matrix: for dictionaries so large that it would not fit in memory, and for signals
// with missing entries, each of which would have its own.
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

    GramFreeSignal(Arena &arena, const Dictionary<T> &d, const Settings &settings)
        : support(arena, d.n_atoms, settings.n_nonzero) {
        basis = arena.take<T>(settings.n_nonzero * d.n_features);
        norms = arena.take<T>(settings.pursuit == kOls ? d.stride : 0);
    }

    // Writes the part of atom k, cut down to the known entries, that is orthogonal to the basis to its next row;
    // returns its squared norm. One round of Gram-Schmidt loses orthogonality where little is left, so there is a
    // second one.
    T project(const Dictionary<T> &d, index_t k, T *r) const {
        const index_t m = support.size, p = d.n_features;
        T *q = basis + m * p;
        if (support.mask.known) {
            const T *row = d.rows + k * p, inverse_norms = support.mask.inverse_norms[k];
            for (index_t f = 0; f < p; ++f) q[f] = row[f] * (support.mask.known[f] * inverse_norms);
        } else {
            unpack_atom(d, k, q);
        }
        for (index_t j = 0; j < m; ++j) r[j] = 0;
        T left = dot(p, q, q);
        for (int round = 0; round < 2 && m > 0 && left < static_cast<T>(round == 0 ? 2 : kCleanPivot); ++round) {
            for (index_t j = 0; j < m; ++j) {
                const T *qj = basis + j * p;
                const T part = dot(p, q, qj);
                r[j] += part;
                for (index_t f = 0; f < p; ++f) q[f] -= part * qj[f];
            }
            left = dot(p, q, q);
        }
        return left;
    }
    static constexpr double kDoubtfulPivot = kDoubtfulPivotFree<T>;
    // Correlation of the signal with that part. It is more precise than that of the residual with the atom.
    T correlation(const Dictionary<T> &d, const T *x, T) const {
        return dot(d.n_features, x, basis + support.size * d.n_features);
    }
};

template <class T, class Choice, bool Masked>
struct GramFreeMethod {
    using Signal = GramFreeSignal<T>;
    static constexpr bool kMasked = Masked;
    static constexpr index_t kBlockBytes = 48 << 20;  // a large block saves passes over the dictionary
    static constexpr index_t kBlockTiles = Masked ? 8 : 32;
    T *directions;  // (block, n_features): the newest row of Q of every signal still at work
    T *rows;        // (block, stride)

    GramFreeMethod(Arena &arena, const Dictionary<T> &d, const Settings &, index_t block) {
        directions = arena.take<T>(block * d.n_features);
        rows = arena.take<T>(block * d.stride);
    }
    static index_t group_size(const Dictionary<T> &, const Settings &, index_t block) { return block; }

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
        const T *inverse_norms = coding.support->mask.inverse_norms;
        Choice choice;
        for (index_t i = 0; i < d.stride; i += kPanelWidth<T>)
            for (int v = 0; v < kTileVectors; ++v) {
                const index_t column = i + v * kLanes<T>;
                vec<T> p = load(row + column);
                if constexpr (Masked) p *= load(inverse_norms + column);
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

template <class T, class Choice>
using CompleteMethod = GramFreeMethod<T, Choice, false>;
template <class T, class Choice>
using MaskedFreeMethod = GramFreeMethod<T, Choice, true>;

}  // namespace
}  // namespace coupledict::COUPLEDICT_LEVEL
