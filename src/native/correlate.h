// Correlations of signals with all atoms: a matrix product made for a short, wide dictionary that stays in cache.
//
// It is written here, not taken from BLAS, for two reasons. Every entry is one sum over the features in their order,
// whatever block the signal falls into, so codes do not depend on chunks or threads (BLAS picks other kernels for other
// shapes). And its result is still in the cache when the pursuit reads it.
#pragma once
#include "simd.h"

namespace coupledict::COUPLEDICT_LEVEL {
namespace {

constexpr index_t kDepth = 256;  // features taken at a time: a panel of this depth stays in the L2 cache

template <class T>
void pack(index_t n_atoms, index_t n_features, const T *atoms, T *panels) {
    constexpr index_t width = kPanelWidth<T>;
    for (index_t first = 0; first < n_atoms; first += width, panels += n_features * width)
        for (index_t f = 0; f < n_features; ++f)
            for (index_t i = 0; i < width; ++i)
                panels[f * width + i] = first + i < n_atoms ? atoms[(first + i) * n_features + f] : T(0);
}

// Copies one atom out of the panels.
template <class T>
void unpack_atom(const Dictionary<T> &d, index_t atom, T *out) {
    constexpr index_t width = kPanelWidth<T>;
    const T *p = d.panels + atom / width * d.n_features * width + atom % width;
    for (index_t f = 0; f < d.n_features; ++f) out[f] = p[f * width];
}

template <class T, int Rows>
void tile(index_t depth, const T *x, index_t x_stride, const T *panel, bool first, T *out, index_t out_stride) {
    constexpr int lanes = kLanes<T>;
    vec<T> sum[Rows][kTileVectors];
    for (int i = 0; i < Rows; ++i)
        for (int v = 0; v < kTileVectors; ++v) sum[i][v] = first ? vec<T>{} : load(out + i * out_stride + v * lanes);
    for (index_t f = 0; f < depth; ++f) {
        vec<T> atoms[kTileVectors];
        for (int v = 0; v < kTileVectors; ++v) atoms[v] = load(panel + (f * kTileVectors + v) * lanes);
        for (int i = 0; i < Rows; ++i) {
            const vec<T> xi = splat(x[i * x_stride + f]);
            for (int v = 0; v < kTileVectors; ++v) sum[i][v] += xi * atoms[v];
        }
    }
    for (int i = 0; i < Rows; ++i)
        for (int v = 0; v < kTileVectors; ++v) store(out + i * out_stride + v * lanes, sum[i][v]);
}

template <class T, int Rows = kTileRows>
void tile_of(index_t rows, index_t depth, const T *x, index_t x_stride, const T *panel, bool first, T *out,
             index_t out_stride) {
    if (rows == Rows)
        tile<T, Rows>(depth, x, x_stride, panel, first, out, out_stride);
    else if constexpr (Rows > 1)
        tile_of<T, Rows - 1>(rows, depth, x, x_stride, panel, first, out, out_stride);
}

// out (n, d.stride) = x (n, n_features) times the atoms.
template <class T>
void correlate(const Dictionary<T> &d, index_t n, const T *x, index_t x_stride, T *out) {
    constexpr index_t width = kPanelWidth<T>;
    for (index_t f = 0; f < d.n_features; f += kDepth) {
        const index_t depth = d.n_features - f < kDepth ? d.n_features - f : kDepth;
        for (index_t j = 0; j * width < d.stride; ++j) {
            const T *panel = d.panels + (j * d.n_features + f) * width;
            for (index_t i = 0; i < n; i += kTileRows)
                tile_of<T>(n - i < kTileRows ? n - i : kTileRows, depth, x + i * x_stride + f, x_stride, panel, f == 0,
                           out + i * d.stride + j * width, d.stride);
        }
    }
}

constexpr index_t kGramBlock = 16 * kTileRows;  // rows that share one pass over the dictionary

template <class T>
struct GramScratch {
    T *atoms;
    GramScratch(Arena &arena, const Dictionary<T> &d) { atoms = arena.take<T>(kGramBlock * d.n_features); }
};

template <class T>
index_t gram_scratch(const Dictionary<T> &d) {
    Arena arena(nullptr);
    GramScratch<T>(arena, d);
    return arena.used();
}

template <class T>
void gram_rows(const Dictionary<T> &d, index_t start, index_t stop, void *scratch, T *rows) {
    Arena arena(scratch);
    const GramScratch<T> s(arena, d);
    for (index_t i = start; i < stop; i += kGramBlock) {
        const index_t n = stop - i < kGramBlock ? stop - i : kGramBlock;
        for (index_t j = 0; j < n; ++j) unpack_atom(d, i + j, s.atoms + j * d.n_features);
        correlate(d, n, s.atoms, d.n_features, rows + (i - start) * d.stride);
    }
}

}  // namespace
}  // namespace coupledict::COUPLEDICT_LEVEL
