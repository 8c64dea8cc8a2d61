// Orthogonal matching pursuit and orthogonal least squares from correlations and the Gram matrix.
//
// Step m chooses atom k and orthogonalises it, but never in the space of the features: with q_m the new orthonormal
// direction, the row P_m = D q_m = (G_k - sum_j P_j[k] P_j) / s holds its correlation with every atom, the
// correlations of the residual become a - z P_m, and the remaining squared norms of the atoms 1 - sum_j P_j^2.
#pragma once
#include "support.h"

namespace coupledict::COUPLEDICT_LEVEL {
namespace {

// Finds the largest |a|; ties go to the lowest index.
template <class T>
struct LargestCorrelation {
    static constexpr bool kNeedsNorms = false;
    static constexpr int kChains = 4;  // independent maxima, so that their latency is hidden
    vec<T> top[kChains] = {};

    void see(int v, vec<T> a, vec<T>, index_t) { top[v % kChains] = larger(top[v % kChains], absolute<T>(a)); }
    index_t winner(const T *a, index_t n) const {
        vec<T> all = larger(larger(top[0], top[1]), larger(top[2], top[3]));
        const vec<T> best = splat(largest_lane<T>(all));
        for (index_t i = 0; i < n; i += kLanes<T>)
            if (const unsigned mask = equal_lanes(absolute<T>(load(a + i)), best)) return i + __builtin_ctz(mask);
        return 0;  // all correlations are zero
    }
};

// Finds the largest a^2 / norm, the fall of the squared residual, by cross-multiplication; ties go to the lowest index.
template <class T>
struct LargestFall {
    static constexpr bool kNeedsNorms = true;
    vec<T> top = {}, under = splat(T(1));
    ivec<T> place = {};

    void see(int, vec<T> a, vec<T> norm, index_t column) {
        const vec<T> guard = splat(static_cast<T>(kPivotGuard<T>));
        const vec<T> square = norm > guard ? a * a : vec<T>{};
        const auto better = square * under > top * norm;
        top = better ? square : top;
        under = better ? norm : under;
        using lane_t = std::remove_reference_t<decltype(place[0])>;
        place = better ? static_cast<lane_t>(column) - ivec<T>{} : place;
    }
    index_t winner(const T *, index_t) const {
        int lane = 0;
        for (int i = 1; i < kLanes<T>; ++i) {
            const T mine = top[i] * under[lane], its = top[lane] * under[i];
            if (mine > its || (mine == its && place[i] + i < place[lane] + lane)) lane = i;
        }
        return static_cast<index_t>(place[lane]) + lane;
    }
};

template <class T>
struct PursuitScratch {
    Support<T> support;
    T *rows;      // P, in column blocks: block b holds its columns of all rows, so that one block is one stream
    T *norms;     // remaining squared norms (OLS)
    T *gram_row;  // where the Gram matrix is not stored
    T *atom;
    double *residual;

    PursuitScratch(Arena &arena, const Dictionary<T> &d, const Limits &limits)
        : support(arena, d.n_atoms, limits.n_nonzero) {
        rows = arena.take<T>(round_up(d.stride, kBlockWidth<T>) * limits.n_nonzero);
        norms = arena.take<T>(limits.pursuit == kOls ? d.stride : 0);
        gram_row = arena.take<T>(d.gram ? 0 : d.stride);
        atom = arena.take<T>(d.gram ? 0 : d.n_features);
        residual = arena.take<double>(d.n_features);
    }
};

// N vectors of columns, from `column` on, of one step: the new row of P, the correlations, the remaining norms.
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

template <class T, class Choice>
index_t advance(const Dictionary<T> &d, index_t m, index_t limit, const T *r, T inverse_pivot, T z, const T *gram_row,
                T *rows, T *a, T *norms) {
    constexpr int width = kBlockWidth<T>;
    Choice choice;
    index_t column = 0;
    for (; column + width <= d.stride; column += width)
        advance_columns<T, kBlockVectors>(m, r, inverse_pivot, z, column, gram_row, rows + column * limit, a, norms,
                                          choice);
    for (T *block = rows + column * limit; column < d.stride; column += kPanelWidth<T>, block += kPanelWidth<T>)
        advance_columns<T, kTileVectors>(m, r, inverse_pivot, z, column, gram_row, block, a, norms, choice);
    return choice.winner(a, d.stride);
}

template <class T, class Choice>
index_t first_choice(const Dictionary<T> &d, const T *a, T *norms) {
    Choice choice;
    for (index_t i = 0; i < d.stride; i += kTileVectors * kLanes<T>)
        for (int v = 0; v < kTileVectors; ++v) {
            const index_t column = i + v * kLanes<T>;
            vec<T> norm = {};
            if constexpr (Choice::kNeedsNorms) norm = load(norms + column);
            choice.see(v, load(a + column), norm, column);
        }
    return choice.winner(a, d.stride);
}

// The best atom that is neither chosen nor barred, or -1; the way out when rounding makes the fast choice useless.
template <class T>
index_t careful_choice(const Dictionary<T> &d, const Support<T> &s, const T *a, const T *norms) {
    index_t best = -1;
    double top = 0;
    for (index_t k = 0; k < d.n_atoms; ++k) {
        if (s.is_closed(k) || (norms && norms[k] <= static_cast<T>(kPivotGuard<T>))) continue;
        const double ak = static_cast<double>(a[k]);
        const double score = ak * ak / (norms ? static_cast<double>(norms[k]) : 1.0);
        if (score > top) top = score, best = k;
    }
    return best;
}

template <class T>
void start_norms(const Dictionary<T> &d, T *norms) {
    for (index_t k = 0; k < d.stride; ++k) norms[k] = k < d.n_atoms && d.norms[k] > 0 ? T(1) : T(0);
}

// One signal while it is coded: what it is, what it has, when it is done.
template <class T, class Choice>
struct Coding {
    Support<T> *support;
    const T *x;
    T *a;      // correlations of the residual with all atoms
    T *norms;  // remaining squared norms of the atoms, or null
    Stop<T> stop;
    double noise;
    index_t next;  // the atom that looks best now
    Status status = kExhausted;

    Coding(const Dictionary<T> &d, const Limits &limits, const Arrival &arrival, Support<T> *s, const T *signal,
           T *correlations, T *remaining)
        : support(s),
          x(signal),
          a(correlations),
          norms(Choice::kNeedsNorms ? remaining : nullptr),
          stop(arrival.energy, limits.tol, arrival.exponent),
          noise(noise_share<T>(d.n_features) * __builtin_sqrt(arrival.energy)) {
        s->clear();
        if (Choice::kNeedsNorms) start_norms(d, norms);
        next = first_choice<T, Choice>(d, a, norms);
    }

    // Takes the next atom; false when the signal is done. `project(k, r)` writes the new row of R and returns what is
    // left of the atom's squared norm.
    template <class Project>
    bool take(const Dictionary<T> &d, const Limits &limits, double *residual, Project &&project) {
        while (true) {
            if (support->is_closed(next)) next = careful_choice(d, *support, a, norms);
            if (next < 0 || !(__builtin_fabs(static_cast<double>(a[next])) > noise)) {
                status = support->any_barred ? kDependent : kExhausted;
                return false;
            }
            const T left = project(next, support->next_row());
            if (left > static_cast<T>(kPivotGuard<T>)) {
                const T inverse_pivot = T(1) / static_cast<T>(__builtin_sqrt(static_cast<double>(left)));
                support->add(next, inverse_pivot, a[next] * inverse_pivot);
                break;
            }
            support->bar(next);
        }
        const double z = static_cast<double>(support->projection[support->size - 1]);
        stop.energy -= z * z;
        if (stop.reached(*support, d, x, residual)) {
            status = kTolerance;
            return false;
        }
        status = kLimit;
        return support->size < limits.n_nonzero;
    }
};

// Codes one signal, given its correlations a (overwritten); leaves the atoms in scratch.support.
template <class T, class Choice>
Status pursue(const Dictionary<T> &d, const Limits &limits, const T *x, const Arrival &arrival, T *a,
              PursuitScratch<T> &scratch, const int *stop_flag, double *energy) {
    constexpr index_t width = kBlockWidth<T>;
    const index_t limit = limits.n_nonzero;
    Support<T> &s = scratch.support;
    Coding<T, Choice> coding(d, limits, arrival, &s, x, a, scratch.norms);
    const auto project = [&](index_t k, T *r) {
        const T *column = scratch.rows + k / width * width * limit + k % width;
        T part[4] = {};
        for (index_t j = 0; j < s.size; ++j) {
            r[j] = column[j * width];
            part[j % 4] += r[j] * r[j];
        }
        return T(1) - ((part[0] + part[1]) + (part[2] + part[3]));
    };
    while (coding.take(d, limits, scratch.residual, project) && !__atomic_load_n(stop_flag, __ATOMIC_RELAXED)) {
        const index_t m = s.size - 1, k = coding.next;
        const T *gram_row = scratch.gram_row;
        if (d.gram) {
            gram_row = d.gram + k * d.stride;
        } else {
            unpack_atom(d, k, scratch.atom);
            correlate(d, 1, scratch.atom, d.n_features, scratch.gram_row);
        }
        coding.next = advance<T, Choice>(d, m, limit, s.factor + m * s.stride, s.inverse_diagonal[m], s.projection[m],
                                         gram_row, scratch.rows, a, coding.norms);
    }
    *energy = coding.stop.energy;
    return coding.status;
}

}  // namespace
}  // namespace coupledict::COUPLEDICT_LEVEL
