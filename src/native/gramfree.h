// The same pursuits for dictionaries so large that their Gram matrix would not fit in memory.
//
// A block of signals takes its steps together. Each signal orthogonalises its new atom in the space of the features;
// one matrix product then gives the rows P_m = D q_m of the whole block.
#pragma once
#include "pursuit.h"

namespace coupledict::COUPLEDICT_LEVEL {
namespace {

template <class T>
T dot(index_t n, const T *x, const T *y) {
    constexpr int lanes = 16;
    T part[lanes] = {};
    index_t f = 0;
    for (; f + lanes <= n; f += lanes)
        for (int i = 0; i < lanes; ++i) part[i] += x[f + i] * y[f + i];
    for (int i = 0; f < n; ++f, ++i) part[i] += x[f] * y[f];
    for (int width = lanes / 2; width > 0; width /= 2)
        for (int i = 0; i < width; ++i) part[i] += part[i + width];
    return part[0];
}

template <class T>
struct GramFreeScratch {
    index_t n_features;
    Support<T> support;
    T *basis;  // the rows of Q
    T *norms;  // remaining squared norms (OLS)

    GramFreeScratch(Arena &arena, const Dictionary<T> &d, const Limits &limits)
        : n_features(d.n_features), support(arena, d.n_atoms, limits.n_nonzero) {
        basis = arena.take<T>(limits.n_nonzero * d.n_features);
        norms = arena.take<T>(limits.pursuit == kOls ? d.stride : 0);
    }
    T *direction(index_t m) const { return basis + m * n_features; }

    // Writes what is orthogonal of atom k to the next row of the basis. Two rounds of Gram-Schmidt: one loses
    // orthogonality to atoms that almost depend on each other.
    T project(const Dictionary<T> &d, index_t k, T *r) const {
        const index_t m = support.size;
        T *q = direction(m);
        unpack_atom(d, k, q);
        for (index_t j = 0; j < m; ++j) r[j] = 0;
        for (int round = 0; round < 2; ++round)
            for (index_t j = 0; j < m; ++j) {
                const T *qj = direction(j);
                const T part = dot(n_features, q, qj);
                r[j] += part;
                for (index_t f = 0; f < n_features; ++f) q[f] -= part * qj[f];
            }
        return dot(n_features, q, q);
    }
};

// Folds a new row of P into the correlations and remaining norms; returns the next choice.
template <class T, class Choice>
index_t absorb(const Dictionary<T> &d, T z, const T *row, T *a, T *norms) {
    constexpr int lanes = kLanes<T>;
    Choice choice;
    for (index_t i = 0; i < d.stride; i += kTileVectors * lanes)
        for (int v = 0; v < kTileVectors; ++v) {
            const index_t column = i + v * lanes;
            const vec<T> p = load(row + column);
            const vec<T> rest = load(a + column) - z * p;
            store(a + column, rest);
            vec<T> norm = {};
            if constexpr (Choice::kNeedsNorms) {
                norm = load(norms + column) - p * p;
                store(norms + column, norm);
            }
            choice.see(v, rest, norm, column);
        }
    return choice.winner(a, d.stride);
}

template <class T, class Choice>
struct BlockScratch {
    GramFreeScratch<T> *signals;
    Coding<T, Choice> *codings;
    index_t *working;  // signals that are not done
    T *directions;     // (block, n_features): the newest row of Q of every signal still at work
    T *rows;           // (block, stride)
    double *residual;

    BlockScratch(Arena &arena, const Dictionary<T> &d, const Limits &limits, index_t block) {
        signals = arena.take<GramFreeScratch<T>>(block);
        codings = arena.take<Coding<T, Choice>>(block);
        working = arena.take<index_t>(block);
        directions = arena.take<T>(block * d.n_features);
        rows = arena.take<T>(block * d.stride);
        residual = arena.take<double>(d.n_features);
        for (index_t i = 0; i < block; ++i) {
            const GramFreeScratch<T> one(arena, d, limits);
            if (signals) signals[i] = one;
        }
    }
};

// Codes the first n_working signals of block.working; leaves their atoms in block.signals and the rest in block.codings.
template <class T, class Choice>
void pursue_together(const Dictionary<T> &d, const Limits &limits, index_t n_working,
                     const BlockScratch<T, Choice> &block, const int *stop_flag) {
    while (n_working > 0 && !__atomic_load_n(stop_flag, __ATOMIC_RELAXED)) {
        index_t kept = 0;
        for (index_t w = 0; w < n_working; ++w) {
            const index_t i = block.working[w];
            const GramFreeScratch<T> &mine = block.signals[i];
            const auto project = [&](index_t k, T *r) { return mine.project(d, k, r); };
            if (!block.codings[i].take(d, limits, block.residual, project)) continue;
            const index_t m = mine.support.size - 1;
            T *q = mine.direction(m);
            T *out = block.directions + kept * d.n_features;
            for (index_t f = 0; f < d.n_features; ++f) out[f] = q[f] *= mine.support.inverse_diagonal[m];
            block.working[kept++] = i;
        }
        n_working = kept;
        correlate(d, n_working, block.directions, d.n_features, block.rows);
        for (index_t w = 0; w < n_working; ++w) {
            Coding<T, Choice> &c = block.codings[block.working[w]];
            const T z = c.support->projection[c.support->size - 1];
            c.next = absorb<T, Choice>(d, z, block.rows + w * d.stride, c.a, c.norms);
        }
    }
}

}  // namespace
}  // namespace coupledict::COUPLEDICT_LEVEL
