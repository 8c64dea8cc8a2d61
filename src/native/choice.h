// The choice of the next atom in a pursuit. It is made while the columns are updated; no second pass is needed.
#pragma once
#include "support.h"

namespace coupledict::COUPLEDICT_LEVEL {
namespace {

// The column of the largest lane; of equal lanes, the lowest column.
template <class T>
inline index_t column_of_largest(vec<T> score, ivec<T> place) {
    unsigned mask = equal_lanes(score, splat(static_cast<T>(largest_lane(score))));
    alignas(kVectorBytes) std::remove_const_t<decltype(Simd<T>::magnitude)> start[kLanes<T>];
    *reinterpret_cast<ivec<T> *>(start) = place;
    int lane = __builtin_ctz(mask);
    index_t column = start[lane] + lane;
    for (mask &= mask - 1; mask; mask &= mask - 1) {
        lane = __builtin_ctz(mask);
        column = start[lane] + lane < column ? start[lane] + lane : column;
    }
    return column;
}

// Orthogonal matching pursuit: the largest |a|.
template <class T>
struct LargestCorrelation {
    static constexpr bool kNeedsNorms = false;
    vec<T> top[2];
    ivec<T> place[2];  // two chains, so that one does not wait for the other

    LargestCorrelation() : top{}, place{} {}
    void see(int v, vec<T> a, vec<T>, index_t column) {
        const int chain = v % 2;
        const vec<T> size = absolute<T>(a);
        const auto better = size > top[chain];
        top[chain] = better ? size : top[chain];
        place[chain] = better ? splat_index<T>(column) : place[chain];
    }
    index_t winner() const {
        const auto second = (top[1] > top[0]) | ((top[1] == top[0]) & (place[1] < place[0]));
        return column_of_largest<T>(second ? top[1] : top[0], second ? place[1] : place[0]);
    }
};

// Orthogonal least squares: the largest decrease of the squared residual, a^2 / remaining norm. Fractions are compared
// by cross-multiplication: a division for every atom would cost more than the rest of the step.
template <class T>
struct LargestFall {
    static constexpr bool kNeedsNorms = true;
    vec<T> top[2], under[2];
    ivec<T> place[2];

    LargestFall() : top{}, under{splat(T(1)), splat(T(1))}, place{} {}
    void see(int v, vec<T> a, vec<T> norm, index_t column) {
        const int chain = v % 2;
        const vec<T> guard = splat(static_cast<T>(kCautiousGuard<T>));
        const auto open = norm > guard;
        const vec<T> square = open ? a * a : vec<T>{}, left = open ? norm : splat(T(1));
        const auto better = square * under[chain] > top[chain] * left;
        top[chain] = better ? square : top[chain];
        under[chain] = better ? left : under[chain];
        place[chain] = better ? splat_index<T>(column) : place[chain];
    }
    index_t winner() const {
        const vec<T> first = top[0] / under[0], other = top[1] / under[1];
        const auto second = (other > first) | ((other == first) & (place[1] < place[0]));
        return column_of_largest<T>(second ? other : first, second ? place[1] : place[0]);
    }
};

// The best atom that is neither chosen nor barred, or -1; for cases where rounding makes the fast choice useless.
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

// The state of one signal while it is coded.
template <class T, class Choice>
struct Coding {
    Support<T> *support;
    const T *x;
    T *a;      // correlations of the residual with all atoms
    T *norms;  // remaining squared norms of the atoms, or null
    Stop<T> stop;
    double noise;
    Status status;
    Choice choice;  // has seen the current correlations

    Coding(const Dictionary<T> &d, const Limits &limits, const Arrival &arrival, Support<T> *s, const T *signal,
           T *correlations, T *remaining)
        : support(s),
          x(signal),
          a(correlations),
          norms(Choice::kNeedsNorms ? remaining : nullptr),
          stop(arrival.energy, limits.tol, arrival.exponent),
          noise(noise_share<T>(d.n_features) * __builtin_sqrt(arrival.energy)),
          status(kExhausted) {
        s->clear();
        if (Choice::kNeedsNorms)
            for (index_t k = 0; k < d.stride; ++k) norms[k] = k < d.n_atoms && d.norms[k] > 0 ? T(1) : T(0);
        for (index_t i = 0; i < d.stride; i += kPanelWidth<T>)
            for (int v = 0; v < kTileVectors; ++v) {
                const index_t column = i + v * kLanes<T>;
                choice.see(v, load(a + column), Choice::kNeedsNorms ? load(norms + column) : vec<T>{}, column);
            }
    }

    // Tells whether the correlation with atom k is more than rounding error.
    bool heard(index_t k) const { return __builtin_fabs(static_cast<double>(a[k])) > noise; }

    // Takes the next atom; false when the signal is done. `project(k, r)` writes the new row of R and returns the
    // remaining squared norm of the atom.
    template <class Project>
    bool take(const Dictionary<T> &d, const Limits &limits, double *residual, Project &&project) {
        index_t k = choice.winner();
        while (true) {
            if (support->is_closed(k) || !heard(k)) k = careful_choice(d, *support, a, norms);
            if (k < 0 || !heard(k)) {
                status = support->any_barred ? kDependent : kExhausted;
                return false;
            }
            const T left = project(k, support->next_row());
            if (left > static_cast<T>(kPivotGuard<T>)) {
                const T inverse_pivot = T(1) / square_root(left), z = a[k] * inverse_pivot;
                support->add(k, inverse_pivot, z);
                stop.count(static_cast<double>(z), static_cast<double>(left));
                break;
            }
            support->bar(k);
        }
        if (stop.reached(*support, d, x, residual)) {
            status = kTolerance;
            return false;
        }
        status = kLimit;
        return support->size < limits.n_nonzero;
    }
};

}  // namespace
}  // namespace coupledict::COUPLEDICT_LEVEL
