// The choice of the next atom in a pursuit. It is made while the columns are updated; no second pass is needed.
#pragma once
#include "support.h"

namespace coupledict::COUPLEDICT_LEVEL {
namespace {

// The column of the largest lane; of equal lanes, the lowest column; -1 if a lane is not a number.
template <class T>
inline index_t column_of_largest(vec<T> score, ivec<T> place) {
    unsigned mask = equal_lanes(score, splat(static_cast<T>(largest_lane(score))));
    if (!mask) return -1;
    alignas(kVectorBytes) Index<T> start[kLanes<T>];
    store_index<T>(start, place);
    int lane = lowest_bit(mask);
    index_t column = start[lane] + lane;
    for (mask &= mask - 1; mask; mask &= mask - 1) {
        lane = lowest_bit(mask);
        column = start[lane] + lane < column ? start[lane] + lane : column;
    }
    return column;
}

// Orthogonal matching pursuit: the largest |a|.
template <class T>
struct LargestCorrelation {
    static constexpr bool kNeedsNorms = false;
    static constexpr double kLeastNorm = 0;
    vec<T> top[2];
    ivec<T> place[2];  // two chains, so that one does not wait for the other

    LargestCorrelation() : top{}, place{} {}
    void see(int v, vec<T> a, vec<T>, index_t column) { take(v % 2, absolute<T>(a), column); }
    void take(int chain, vec<T> size, index_t column) {
        const auto better = size > top[chain];
        top[chain] = select<T>(better, size, top[chain]);
        place[chain] = select<T>(better, splat_index<T>(column), place[chain]);
    }
    bool excludes_significant(double) const { return false; }
    // The best column of each lane where it is above `least`; returns how many.
    index_t list(T least, index_t *columns) const {
        const vec<T> one = splat(T(1));
        index_t n = 0;
        for (int chain = 0; chain < 2; ++chain) {
            alignas(kVectorBytes) Index<T> start[kLanes<T>];
            store_index<T>(start, place[chain]);
            const vec<T> above = select<T>(top[chain] > splat(least), one, vec<T>{});
            for (unsigned mask = equal_lanes(above, one); mask; mask &= mask - 1) {
                const int lane = lowest_bit(mask);
                columns[n++] = static_cast<index_t>(start[lane]) + lane;
            }
        }
        return n;
    }
    index_t winner() const {
        const auto second = (top[1] > top[0]) | ((top[1] == top[0]) & (place[1] < place[0]));
        return column_of_largest<T>(select<T>(second, top[1], top[0]), select<T>(second, place[1], place[0]));
    }
};

// Orthogonal least squares: the largest decrease of the squared residual, a^2 / remaining norm. Fractions are compared
// by cross-multiplication: a division for every atom would cost more than the rest of the step. Atoms whose remaining
// norm is not larger than its rounding error are excluded.
template <class T, Method M>
struct LargestDecrease {
    static constexpr bool kNeedsNorms = true;
    static constexpr double kLeastNorm = M == kGram ? kDoubtfulPivotGram<T> / 10 : kDoubtfulPivotFree<T>;
    vec<T> top[2], under[2], excluded;
    ivec<T> place[2];

    LargestDecrease() : top{}, under{splat(T(1)), splat(T(1))}, excluded{}, place{} {}
    void see(int v, vec<T> a, vec<T> norm, index_t column) {
        const int chain = v % 2;
        const auto open = norm > splat(static_cast<T>(kLeastNorm));
        const vec<T> all = a * a, square = select<T>(open, all, vec<T>{}), left = select<T>(open, norm, splat(T(1)));
        const vec<T> other = select<T>(open, vec<T>{}, all);
        excluded = select<T>(other > excluded, other, excluded);
        const auto better = square * under[chain] > top[chain] * left;
        top[chain] = select<T>(better, square, top[chain]);
        under[chain] = select<T>(better, left, under[chain]);
        place[chain] = select<T>(better, splat_index<T>(column), place[chain]);
    }
    // Whether an excluded atom, perhaps a chosen one, has a correlation beyond `noise`.
    bool excludes_significant(double noise) const {
        return static_cast<double>(largest_lane(excluded)) > noise * noise;
    }
    index_t winner() const {
        const vec<T> first = top[0] / under[0], other = top[1] / under[1];
        const auto second = (other > first) | ((other == first) & (place[1] < place[0]));
        return column_of_largest<T>(select<T>(second, other, first), select<T>(second, place[1], place[0]));
    }
};

// The best atom that is neither chosen nor barred, or -1; for cases where rounding makes the fast choice useless. With
// `norms`, an atom that has at most `least` left is taken only if there is no other.
template <class T>
index_t best_by_scan(const Dictionary<T> &d, const Chosen<T> &s, const T *a, const T *norms, double least) {
    index_t best = -1;
    double top = 0;
    bool best_is_open = false;
    for (index_t k = 0; k < d.n_atoms; ++k) {
        if (s.is_closed(k) || a[k] == 0) continue;
        const bool open = !norms || static_cast<double>(norms[k]) > least;
        const double ak = static_cast<double>(a[k]);
        const double score = ak * ak / (norms && open ? static_cast<double>(norms[k]) : 1.0);
        if (open > best_is_open || (open == best_is_open && score > top)) top = score, best = k, best_is_open = open;
    }
    return best;
}

// Of the atoms whose decrease of the residual cannot be told from that of atom k, the one with the largest remaining
// norm: its coefficient is the smallest, and loses least when it is rounded. Where a single direction is left to
// explain, all atoms decrease the residual alike. `Positive` leaves out atoms that would get a negative coefficient.
template <bool Positive, class T>
index_t most_stable_choice(const Dictionary<T> &d, const Chosen<T> &s, const T *a, const T *norms, index_t k) {
    const double ak = static_cast<double>(a[k]);
    double most = static_cast<double>(norms[k]);
    const double least = ak * ak / most * (1 - kDecreaseError / most);
    for (index_t j = 0; j < d.n_atoms; ++j) {
        const double aj = static_cast<double>(a[j]), left = static_cast<double>(norms[j]);
        if (left > most && aj * aj >= least * left && !(Positive && aj <= 0) && !s.is_closed(j)) most = left, k = j;
    }
    return k;
}

// The state of one signal while it is coded.
template <class T, class Choice>
struct Coding {
    Support<T> *support;
    const T *x;
    T *a;      // correlations of the residual with all atoms
    T *norms;  // remaining squared norms of the atoms, or null
    Stop<T> stop;
    double signal_energy, noise;
    index_t limit;  // of the number of atoms
    int exponent;
    Status status;
    Choice choice;  // has seen the current correlations

    Coding(const Dictionary<T> &d, const Settings &settings, const SignalInfo &info, Support<T> *s, const T *signal,
           T *correlations, T *remaining)
        : support(s),
          x(signal),
          a(correlations),
          norms(Choice::kNeedsNorms ? remaining : nullptr),
          stop(info.energy, settings.tol, info.exponent),
          signal_energy(info.energy),
          noise(noise_share<T>(info.n_known) * square_root(info.energy)),
          limit(info.n_known < settings.n_nonzero ? info.n_known : settings.n_nonzero),
          exponent(info.exponent),
          status(kExhausted) {
        s->clear();
        if (Choice::kNeedsNorms)
            for (index_t k = 0; k < d.stride; ++k)
                norms[k] = k < d.n_atoms && d.norms[k] > 0 && s->mask.inverse_norm_of(k) > 0 ? T(1) : T(0);
        for (index_t i = 0; i < d.stride; i += kPanelWidth<T>)
            for (int v = 0; v < kTileVectors; ++v) {
                const index_t column = i + v * kLanes<T>;
                choice.see(v, load(a + column), Choice::kNeedsNorms ? load(norms + column) : vec<T>{}, column);
            }
    }

    // Whether the correlation with atom k is more than rounding error.
    bool is_significant(index_t k) const { return fabs(static_cast<double>(a[k])) > noise; }

    // Whether an atom that was not chosen correlates significantly, but has too little of its norm left to be compared.
    bool excludes_candidate(const Dictionary<T> &d) const {
        if (!choice.excludes_significant(noise)) return false;
        for (index_t k = 0; k < d.n_atoms; ++k)
            if (norms[k] <= static_cast<T>(Choice::kLeastNorm) && is_significant(k) && !support->is_chosen(k))
                return true;
        return false;
    }

    // Takes the next atom by a fast method; false when the signal is done, or doubtful. `project(k, r)` writes the new
    // row of R and returns the remaining squared norm of the atom; `correlation` is that of the signal with this
    // remaining part.
    template <class Signal>
    bool take(const Dictionary<T> &d, double *residual, const Signal &signal) {
        const index_t k = choice.winner();
        if (k < 0 || support->is_chosen(k) || !is_significant(k)) {
            support->solve();
            stop.energy = support->residual_energy(d, x, residual);
            status = stop.energy > kNegligible<T> * signal_energy ? kDoubtful : kExhausted;
            return false;
        }
        const T left = signal.project(d, k, support->next_row());
        if (!(left > static_cast<T>(Signal::kDoubtfulPivot)) || excludes_candidate(d) || support->mask.is_doubtful(k)) {
            status = kDoubtful;
            return false;
        }
        add(d, k, left, signal);
        return continues(d, residual);
    }

    // The same by the careful method, for which no signal is doubtful.
    template <class Signal>
    bool take_carefully(const Dictionary<T> &d, const Settings &settings, double *residual, const Signal &signal) {
        const double negligible = settings.float32 ? kNegligibleFloat32 : kNegligible<T>;
        while (stop.energy > negligible * signal_energy) {
            index_t k = choice.winner();
            if (k < 0 || support->is_closed(k) || !is_significant(k) ||
                (norms && norms[k] <= static_cast<T>(Choice::kLeastNorm)))
                k = best_by_scan(d, *support, a, norms, Choice::kLeastNorm);
            else if (norms)
                k = most_stable_choice<false>(d, *support, a, norms, k);
            if (k < 0 || !is_significant(k)) break;
            const T left = signal.project(d, k, support->next_row());
            if (left > static_cast<T>(kDependentPivot)) {
                add(d, k, left, signal);
                return continues(d, residual);
            }
            support->bar(k);
        }
        status = support->any_barred ? kDependent : kExhausted;
        return false;
    }

  private:
    template <class Signal>
    void add(const Dictionary<T> &d, index_t k, T left, const Signal &signal) {
        const T inverse_pivot = T(1) / square_root(left), z = signal.correlation(d, x, a[k]) * inverse_pivot;
        support->add(k, inverse_pivot, z);
        stop.count(static_cast<double>(z), static_cast<double>(left));
    }
    bool continues(const Dictionary<T> &d, double *residual) {
        const bool reached = stop.reached(*support, d, x, residual);
        status = reached ? kTolerance : kLimit;
        return !reached && support->size < limit;
    }
};

}  // namespace
}  // namespace coupledict::COUPLEDICT_LEVEL
