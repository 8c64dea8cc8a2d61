// Atom updates: sums over codes, and two rank-1 updates.
#pragma once
#include "signals.h"

namespace coupledict::COUPLEDICT_LEVEL {
namespace {

template <class T>
inline void add_scaled(index_t n, T scale, const T *x, T *y) {
    for (index_t f = 0; f < n; ++f) y[f] += scale * x[f];
}

template <class T>
void accumulate(index_t n, index_t n_views, const View<T> *views, const std::int32_t *counts,
                const std::int32_t *indices, const T *values, index_t n_atoms, index_t n_features, T *x, T *a, T *b,
                index_t *uses) {
    for (index_t i = 0; i < n; ++i) {
        copy_row(n_views, views, i, x);
        const index_t count = counts[i];
        for (index_t j = 0; j < count; ++j) {
            const index_t atom = indices[j];
            const T c = values[j];
            T *row = a + atom * n_atoms;
            for (index_t k = j; k < count; ++k) row[indices[k]] += c * values[k];
            add_scaled(n_features, c, x, b + atom * n_features);
            ++uses[atom];
        }
        indices += count;
        values += count;
    }
}

// Copies signals and fills in their missing entries, NaN, with what the codes say.
template <class T>
void fill_missing(index_t n, const View<T> &view, const std::int32_t *counts, const std::int32_t *indices,
                  const T *values, const T *atoms, T *rebuilt, T *filled) {
    const index_t p = view.n_features;
    for (index_t i = 0; i < n; ++i, filled += p) {
        copy_row(1, &view, i, filled);
        index_t n_missing = 0;
        for (index_t f = 0; f < p; ++f) n_missing += filled[f] != filled[f] ? 1 : 0;
        if (n_missing > 0) {
            for (index_t f = 0; f < p; ++f) rebuilt[f] = 0;
            for (index_t j = 0; j < counts[i]; ++j) add_scaled(p, values[j], atoms + indices[j] * p, rebuilt);
            for (index_t f = 0; f < p; ++f) filled[f] = filled[f] != filled[f] ? rebuilt[f] : filled[f];
        }
        indices += counts[i];
        values += counts[i];
    }
}

// Adds, for each atom and feature, the squared coefficients of the samples that know this feature to `sums`
// (n_atoms, n_features).
template <class T>
void accumulate_known(index_t n, const View<T> &view, const std::int32_t *counts, const std::int32_t *indices,
                      const T *values, T *known, T *sums) {
    const index_t p = view.n_features;
    for (index_t i = 0; i < n; ++i) {
        copy_row(1, &view, i, known);
        for (index_t f = 0; f < p; ++f) known[f] = known[f] == known[f] ? T(1) : T(0);
        for (index_t j = 0; j < counts[i]; ++j) add_scaled(p, values[j] * values[j], known, sums + indices[j] * p);
        indices += counts[i];
        values += counts[i];
    }
}

// Writes `fresh`, normalised, to `atom`; in non-negative views its positive part, which of all non-negative atoms of
// this norm is the closest. A view in which it vanishes keeps its old atom, because it has no direction there, unless
// norms are joint. Returns false, and changes no atom, where it vanishes altogether.
template <class T>
bool replace_atom(const Layout &layout, T *fresh, T *atom) {
    for (index_t v = 0; v < layout.n_views; ++v) {
        if (!layout.positive[v]) continue;
        for (index_t f = layout.starts[v]; f < layout.starts[v + 1]; ++f) fresh[f] = fresh[f] < 0 ? T(0) : fresh[f];
    }
    double joint = 0;
    for (index_t v = 0; v < layout.n_views; ++v)
        joint += layout.weights[v] * squared_norm(layout.starts[v + 1] - layout.starts[v], fresh + layout.starts[v]);
    if (!(joint > 0) || !is_finite(joint)) return false;
    for (index_t v = 0; v < layout.n_views; ++v) {
        const index_t start = layout.starts[v], size = layout.starts[v + 1] - start;
        const double square = layout.joint ? joint : squared_norm(size, fresh + start);
        if (!(square > 0)) continue;
        const double scale = 1 / square_root(square);
        for (index_t f = start; f < start + size; ++f) atom[f] = static_cast<T>(static_cast<double>(fresh[f]) * scale);
    }
    return true;
}

// y -= sum_s scale[s] * rows[s] over the nonzeros of scale, for n rows of length p; eight rows at a time so that y
// stays in registers. After few samples, most pairs of atoms have not been used together.
template <class T>
void subtract_rows(index_t n, index_t p, const T *scale, const T *rows, T *y) {
    T c[8];
    const T *r[8];
    int waiting = 0;
    for (index_t s = 0; s < n; ++s) {
        if (scale[s] == 0) continue;
        c[waiting] = scale[s];
        r[waiting++] = rows + s * p;
        if (waiting < 8) continue;
        waiting = 0;
        for (index_t f = 0; f < p; ++f)
            y[f] -= ((c[0] * r[0][f] + c[1] * r[1][f]) + (c[2] * r[2][f] + c[3] * r[3][f])) +
                    ((c[4] * r[4][f] + c[5] * r[5][f]) + (c[6] * r[6][f] + c[7] * r[7][f]));
    }
    for (int i = 0; i < waiting; ++i) add_scaled(p, -c[i], r[i], y);
}

template <class T>
void sweep(const Layout &layout, index_t first, index_t last, const T *a, const T *b, T *fresh, T *atoms) {
    const index_t n = layout.n_atoms, p = layout.n_features;
    for (index_t t = first < layout.n_fixed ? layout.n_fixed : first; t < last; ++t) {
        const T *row = a + t * n;
        if (!(row[t] > 0)) continue;
        for (index_t f = 0; f < p; ++f) fresh[f] = b[t * p + f];
        subtract_rows(n, p, row, atoms, fresh);
        add_scaled(p, row[t], atoms + t * p, fresh);
        replace_atom(layout, fresh, atoms + t * p);
    }
}

template <class T>
void sequential(const Layout &layout, index_t first, index_t last, index_t n_samples, bool mean, bool frozen,
                bool positive, const Columns<T> &codes, T *scratch, T *residual, T *atoms) {
    const index_t p = layout.n_features;
    T *fresh = scratch, *old = scratch + p, *weighted = scratch + 2 * p;
    for (index_t t = first < layout.n_fixed ? layout.n_fixed : first; t < last; ++t) {
        T *atom = atoms + t * p;
        const index_t start = codes.starts[t], stop = codes.starts[t + 1];
        for (index_t f = 0; f < p; ++f) fresh[f] = 0;
        if (start == stop) {
            if (!mean) continue;
            for (index_t i = 0; i < n_samples; ++i) add_scaled(p, T(1), residual + i * p, fresh);
            replace_atom(layout, fresh, atom);
            continue;
        }
        // c^T E with E = R + c d, without forming E.
        double square = 0;
        for (index_t j = start; j < stop; ++j) {
            const T c = codes.values[j];
            add_scaled(p, c, residual + static_cast<index_t>(codes.samples[j]) * p, fresh);
            square += static_cast<double>(c) * static_cast<double>(c);
        }
        add_scaled(p, static_cast<T>(square), atom, fresh);
        for (index_t f = 0; f < p; ++f) old[f] = atom[f];
        if (!replace_atom(layout, fresh, atom)) continue;
        double norm = 0;
        for (index_t v = 0; v < layout.n_views; ++v) {
            const T w = static_cast<T>(layout.weights[v]);
            for (index_t f = layout.starts[v]; f < layout.starts[v + 1]; ++f) weighted[f] = w * atom[f];
            norm += layout.weights[v] * squared_norm(layout.starts[v + 1] - layout.starts[v], atom + layout.starts[v]);
        }
        const T inverse = static_cast<T>(1 / norm), overlap = dot(p, old, weighted);
        for (index_t j = start; j < stop; ++j) {
            T *row = residual + static_cast<index_t>(codes.samples[j]) * p;
            const T before = codes.values[j];
            T after = frozen ? before : (dot(p, row, weighted) + before * overlap) * inverse;
            if (positive && after < 0) after = 0;
            for (index_t f = 0; f < p; ++f) row[f] += before * old[f] - after * atom[f];
            codes.values[j] = after;
        }
    }
}

}  // namespace
}  // namespace coupledict::COUPLEDICT_LEVEL
