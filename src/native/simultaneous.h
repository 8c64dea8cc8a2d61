// Simultaneous orthogonal matching pursuit: views that share their atoms, each with coefficients of its own.
//
// Every view runs a pursuit with its own Gram matrix. Views share the choice of atoms, the largest sum over the views
// of squared correlations, and the stopping rule.
#pragma once
#include "gram.h"
#include "gramfree.h"
#include "settle.h"
#include "simultaneous_positive.h"

namespace coupledict::COUPLEDICT_LEVEL {
namespace {

// Ignores the columns of one view: the choice is made over all views together.
template <class T>
struct NoChoice {
    static constexpr bool kNeedsNorms = false;
    void see(int, vec<T>, vec<T>, index_t) {}
};

template <class T, class Signal>
struct SupportView {
    Signal signal;
    T *x, *a, *gram_row, *atom;

    SupportView(Arena &arena, const Dictionary<T> &d, const Limits &limits) : signal(arena, d, limits) {
        x = arena.take<T>(d.n_features);
        a = arena.take<T>(d.stride);
        gram_row = arena.take<T>(d.stride);
        atom = arena.take<T>(d.n_features);
    }

    // Updates the correlations after an atom was taken.
    void advance(const Dictionary<T> &d) const {
        const index_t m = signal.support.size - 1;
        if constexpr (Signal::kHasBasis) {
            T *q = signal.basis + m * d.n_features;
            for (index_t f = 0; f < d.n_features; ++f) q[f] *= signal.support.inverse_diagonal[m];
            correlate(d, 1, q, d.n_features, gram_row);
            const T z = signal.support.projection[m];
            for (index_t k = 0; k < d.stride; ++k) a[k] -= z * gram_row[k];
        } else {
            const index_t k = signal.support.atoms[m];
            const T *row = gram_row;
            if (d.gram) {
                row = d.gram + k * d.stride;
            } else {
                unpack_atom(d, k, atom);
                correlate(d, 1, atom, d.n_features, gram_row);
            }
            NoChoice<T> nobody;
            signal.advance(d, row, a, static_cast<T *>(nullptr), nobody);
        }
    }
};

template <class T, bool Careful>
class SupportEncoder {
    using Signal = std::conditional_t<Careful, GramFreeSignal<T>, GramSignal<T>>;
    using OneView = SupportView<T, Signal>;

  public:
    SupportEncoder(Arena &arena, index_t n_views, const Dictionary<T> *dictionaries, const Limits &limits)
        : n_views_(n_views), d_(dictionaries), limits_(limits) {
        n_features_ = 0;
        for (index_t v = 0; v < n_views; ++v) n_features_ += d_[v].n_features;
        x_ = arena.take<T>(n_features_);
        residual_ = arena.take<double>(n_features_);
        views_ = arena.take<OneView>(n_views);
        for (index_t v = 0; v < n_views; ++v) {
            const OneView view(arena, d_[v], limits);
            if (views_) views_[v] = view;
        }
    }

    // Codes one signal; returns its atoms, sorted, and the coefficients of each view.
    index_t code(const View<T> *views, index_t row, std::int32_t *indices, T *const *values, double *energy,
                 std::uint8_t *status) {
        const Arrival arrival = arrive(n_views_, views, row, n_features_, x_);
        *energy = ldexp(arrival.energy, 2 * arrival.exponent);
        *status = !arrival.finite ? kNotFinite : arrival.energy == 0 ? kZero : kLimit;
        if (*status != kLimit) return 0;
        tol_ = limits_.tol < 0 ? -1 : ldexp(limits_.tol, -2 * arrival.exponent);
        const T *x = x_;
        for (index_t v = 0; v < n_views_; x += d_[v].n_features, ++v) {
            views_[v].signal.support.clear();
            for (index_t f = 0; f < d_[v].n_features; ++f) views_[v].x[f] = x[f];
            correlate(d_[v], 1, views_[v].x, d_[v].n_features, views_[v].a);
        }
        double left = arrival.energy;
        *status = pursue(arrival.energy, &left);
        if (!solve(arrival, &left)) *status = kDoubtful;
        if (*status == kDoubtful) return 0;
        if (*status == kTolerance && left > tol_) *status = kDependent;
        *energy = left > 0 ? ldexp(left, 2 * arrival.exponent) : 0;
        bool fits = true, all_fit = true;
        index_t n = 0;
        for (index_t v = 0; v < n_views_; ++v) {
            n = write_codes(views_[v].signal.support, d_[v], arrival.exponent, limits_.narrow, indices, values[v],
                            &fits);
            all_fit = all_fit && fits;
        }
        if (!all_fit) *status = kOverflow;
        return n;
    }

  private:
    Status pursue(double signal_energy, double *energy) {
        Support<T> &shared = views_[0].signal.support;
        const double noise = noise_share<T>(n_features_) * noise_share<T>(n_features_) * signal_energy;
        const double nothing = Careful && limits_.narrow ? kNothingLeftNarrow : kNothingLeft<T>;
        least_pivot_ = 1;
        while (true) {
            const double band = kEnergyBand<T> * signal_energy / least_pivot_;
            if (tol_ >= 0 && *energy <= tol_ + band) {
                if (*energy >= tol_ - band) *energy = true_energy();
                if (*energy <= tol_) return kTolerance;
            }
            if (shared.size == limits_.n_nonzero) return kLimit;
            const bool rest = *energy > nothing * signal_energy;
            index_t k = best_atom();
            if (Careful && (k < 0 || shared.is_closed(k))) k = slow_best();
            if (k < 0 || shared.is_chosen(k) || !(score(k) > noise) || (Careful && !rest)) {
                if (!Careful && true_energy() > nothing * signal_energy) return kDoubtful;
                return shared.any_barred ? kDependent : kExhausted;
            }
            const Taken taken = take(k, energy);
            if (taken == kInDoubt) return kDoubtful;
            if (taken == kDepends) {
                shared.bar(k);
                continue;
            }
            if (shared.size < limits_.n_nonzero)
                for (index_t v = 0; v < n_views_; ++v) views_[v].advance(d_[v]);
        }
    }

    double score(index_t k) const {
        double sum = 0;
        for (index_t v = 0; v < n_views_; ++v)
            sum += static_cast<double>(views_[v].a[k]) * static_cast<double>(views_[v].a[k]);
        return sum;
    }

    index_t best_atom() const {
        LargestCorrelation<T> choice;
        for (index_t i = 0; i < d_[0].stride; i += kPanelWidth<T>)
            for (int u = 0; u < kTileVectors; ++u) {
                const index_t column = i + u * kLanes<T>;
                vec<T> sum = {};
                for (index_t v = 0; v < n_views_; ++v) {
                    const vec<T> a = load(views_[v].a + column);
                    sum += a * a;
                }
                choice.see(u, sum, sum, column);
            }
        return choice.winner();
    }

    index_t slow_best() const {
        index_t best = -1;
        double top = 0;
        for (index_t k = 0; k < d_[0].n_atoms; ++k) {
            const double sum = views_[0].signal.support.is_closed(k) ? 0 : score(k);
            if (sum > top) top = sum, best = k;
        }
        return best;
    }

    enum Taken { kTaken, kDepends, kInDoubt };

    // Takes atom k in every view, unless it depends on the chosen ones in all of them. In a view in which it depends on
    // them, or is zero, its coefficient is 0.
    Taken take(index_t k, double *energy) {
        constexpr double least = Careful ? kDependentPivot : Signal::kDoubtfulPivot;
        bool any = false;
        for (index_t v = 0; v < n_views_; ++v) {
            Support<T> &s = views_[v].signal.support;
            const bool empty = d_[v].norms[k] == 0;
            const T left = views_[v].signal.project(d_[v], k, s.next_row());
            const bool open = !empty && left > static_cast<T>(least);
            if (!Careful && !open && !empty) return kInDoubt;
            any = any || open;
            s.inverse_diagonal[s.size] = open ? T(1) / square_root(left) : T(0);
            if (open && static_cast<double>(left) < least_pivot_) least_pivot_ = static_cast<double>(left);
        }
        if (!any) return kDepends;
        for (index_t v = 0; v < n_views_; ++v) {
            Support<T> &s = views_[v].signal.support;
            const T inverse_pivot = s.inverse_diagonal[s.size];
            const T z = views_[v].signal.correlation(d_[v], views_[v].x, views_[v].a[k]) * inverse_pivot;
            s.add(k, inverse_pivot, z);
            *energy -= static_cast<double>(z) * static_cast<double>(z);
        }
        return kTaken;
    }

    // Solves for the coefficients of every view; false where a fast method leaves them in doubt. The careful method
    // also computes the squared residual from them.
    bool solve(const Arrival &arrival, double *energy) {
        double sum = 0;
        for (index_t v = 0; v < n_views_; ++v) {
            Support<T> &s = views_[v].signal.support;
            const double before = squared_norm(d_[v].n_features, views_[v].x);
            if constexpr (Careful) {
                double after = before;
                for (index_t j = 0; j < s.size; ++j)
                    after -= static_cast<double>(s.projection[j]) * static_cast<double>(s.projection[j]);
                const index_t size = s.size;
                sum += settle(d_[v], limits_, s, views_[v].x, arrival.exponent, before, after, residual_);
                for (index_t j = s.size; j < size; ++j) s.coefficients[j] = 0;  // atoms dropped here, but not elsewhere
                s.restore(size);
            } else {
                s.solve();
                if (s.has_large_coefficients(before)) return false;
            }
        }
        if (Careful) *energy = sum;
        return true;
    }

    double true_energy() {
        double sum = 0;
        for (index_t v = 0; v < n_views_; ++v) {
            views_[v].signal.support.solve();
            sum += views_[v].signal.support.residual_energy(d_[v], views_[v].x, residual_);
        }
        return sum;
    }

    index_t n_views_, n_features_;
    const Dictionary<T> *d_;
    const Limits &limits_;
    double tol_ = -1, least_pivot_ = 1;
    T *x_;
    double *residual_;
    OneView *views_;
};

// Calls `with` with a null pointer to the encoder that the limits ask for.
template <class T, class With>
index_t choose_support_encoder(const Limits &limits, With &&with) {
    constexpr bool careful = sizeof(T) == 8;
    if (limits.positive) {
        if constexpr (careful)
            if (limits.method == kCareful)
                return with(static_cast<PositiveSupportEncoder<T, OrthogonalSet> *>(nullptr));
        return with(static_cast<PositiveSupportEncoder<T, InverseSet> *>(nullptr));
    }
    return limits.method == kCareful ? with(static_cast<SupportEncoder<T, careful> *>(nullptr))
                                     : with(static_cast<SupportEncoder<T, false> *>(nullptr));
}

template <class T>
index_t encode_support_scratch(index_t n_views, const Dictionary<T> *dictionaries, const Limits &limits) {
    return choose_support_encoder<T>(limits, [&](auto *type) {
        Arena arena(nullptr);
        arena.take<T *>(n_views);
        std::remove_pointer_t<decltype(type)>(arena, n_views, dictionaries, limits);
        return arena.used();
    });
}

template <class T>
index_t encode_support(index_t n_views, const Dictionary<T> *dictionaries, const Limits &limits, index_t n,
                       const View<T> *views, const int *stop, void *scratch, const Codes<T> &codes, T *const *values) {
    return choose_support_encoder<T>(limits, [&](auto *type) {
        Arena arena(scratch);
        T **next = arena.take<T *>(n_views);
        std::remove_pointer_t<decltype(type)> encoder(arena, n_views, dictionaries, limits);
        index_t written = 0;
        for (index_t i = 0; i < n && !is_raised(stop); ++i) {
            for (index_t v = 0; v < n_views; ++v) next[v] = values[v] + written;
            const index_t count =
                encoder.code(views, i, codes.indices + written, next, &codes.energy[i], &codes.status[i]);
            codes.counts[i] = static_cast<std::int32_t>(count);
            written += count;
        }
        return written;
    });
}

}  // namespace
}  // namespace coupledict::COUPLEDICT_LEVEL
