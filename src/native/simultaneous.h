// Simultaneous orthogonal matching pursuit: views that share their atoms, each with coefficients of its own.
//
// Every view runs a pursuit with its own Gram matrix. Views share the choice of atoms, the largest sum over the views
// of squared correlations, and the stopping rule.
#pragma once
#include "gram.h"
#include "settle.h"

namespace coupledict::COUPLEDICT_LEVEL {
namespace {

// Ignores the columns of one view: the choice is made over all views together.
template <class T>
struct NoChoice {
    static constexpr bool kNeedsNorms = false;
    void see(int, vec<T>, vec<T>, index_t) {}
};

template <class T>
struct SupportView {
    GramSignal<T> signal;
    T *x, *a, *gram_row, *atom;
    Settlement<T> settlement;

    SupportView(Arena &arena, const Dictionary<T> &d, const Limits &limits)
        : signal(arena, d, limits), settlement(arena, d.n_features, limits.n_nonzero) {
        x = arena.take<T>(d.n_features);
        a = arena.take<T>(d.stride);
        gram_row = arena.take<T>(d.gram ? 0 : d.stride);
        atom = arena.take<T>(d.gram ? 0 : d.n_features);
    }
};

template <class T>
class SupportEncoder {
  public:
    SupportEncoder(Arena &arena, index_t n_views, const Dictionary<T> *dictionaries, const Limits &limits)
        : n_views_(n_views), d_(dictionaries), limits_(limits) {
        n_features_ = 0;
        for (index_t v = 0; v < n_views; ++v) n_features_ += d_[v].n_features;
        x_ = arena.take<T>(n_features_);
        views_ = arena.take<SupportView<T>>(n_views);
        for (index_t v = 0; v < n_views; ++v) {
            const SupportView<T> view(arena, d_[v], limits);
            if (views_) views_[v] = view;
        }
    }

    // Codes one signal; returns its atoms, sorted, and the coefficients of each view.
    index_t code(const View<T> *views, index_t row, std::int32_t *indices, T *const *values, double *energy,
                 std::uint8_t *status) {
        const Arrival arrival = arrive(n_views_, views, row, n_features_, x_);
        *energy = __builtin_ldexp(arrival.energy, 2 * arrival.exponent);
        *status = !arrival.finite ? kNotFinite : arrival.energy == 0 ? kZero : kLimit;
        if (*status != kLimit) return 0;
        tol_ = limits_.tol < 0 ? -1 : __builtin_ldexp(limits_.tol, -2 * arrival.exponent);
        const T *x = x_;
        for (index_t v = 0; v < n_views_; x += d_[v].n_features, ++v) {
            views_[v].signal.support.clear();
            for (index_t f = 0; f < d_[v].n_features; ++f) views_[v].x[f] = x[f];
            correlate(d_[v], 1, views_[v].x, d_[v].n_features, views_[v].a);
        }
        double left = arrival.energy;
        *status = pursue(arrival.energy, &left);
        left = settle(left);
        if (*status == kTolerance && left > tol_) *status = kDependent;
        *energy = left > 0 ? __builtin_ldexp(left, 2 * arrival.exponent) : 0;
        bool fits = true, all_fit = true;
        index_t n = 0;
        for (index_t v = 0; v < n_views_; ++v) {
            n = write_codes(views_[v].signal.support, d_[v], arrival.exponent, indices, values[v], &fits);
            all_fit = all_fit && fits;
        }
        if (!all_fit) *status = kOverflow;
        return n;
    }

  private:
    Status pursue(double signal_energy, double *energy) {
        Support<T> &shared = views_[0].signal.support;
        const double noise = noise_share<T>(n_features_) * noise_share<T>(n_features_) * signal_energy;
        const double band = kEnergyBand<T> * signal_energy;
        while (true) {
            if (tol_ >= 0 && *energy <= tol_ + band) {
                if (*energy >= tol_ - band) *energy = true_energy();
                if (*energy <= tol_) return kTolerance;
            }
            if (shared.size == limits_.n_nonzero) return kLimit;
            index_t k = best_atom();
            if (shared.is_closed(k)) k = careful_best();
            if (k < 0 || !(score(k) > noise)) return shared.any_barred ? kDependent : kExhausted;
            if (!take(k, energy)) {
                shared.bar(k);
                continue;
            }
            if (shared.size < limits_.n_nonzero) advance(k);
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

    index_t careful_best() const {
        index_t best = -1;
        double top = 0;
        for (index_t k = 0; k < d_[0].n_atoms; ++k) {
            const double sum = views_[0].signal.support.is_closed(k) ? 0 : score(k);
            if (sum > top) top = sum, best = k;
        }
        return best;
    }

    // Takes atom k in every view; false where it depends on the chosen ones in all of them. In a view in which it
    // depends on them, or is zero, its coefficient is 0.
    bool take(index_t k, double *energy) {
        bool any = false;
        for (index_t v = 0; v < n_views_; ++v) {
            Support<T> &s = views_[v].signal.support;
            const T left = d_[v].norms[k] > 0 ? views_[v].signal.project(d_[v], k, s.next_row()) : T(0);
            const bool open = left > static_cast<T>(kPivotGuard<T>);
            any = any || open;
            s.inverse_diagonal[s.size] = open ? T(1) / square_root(left) : T(0);
        }
        if (!any) return false;
        for (index_t v = 0; v < n_views_; ++v) {
            Support<T> &s = views_[v].signal.support;
            const T inverse_pivot = s.inverse_diagonal[s.size];
            const T z = views_[v].a[k] * inverse_pivot;
            s.add(k, inverse_pivot, z);
            *energy -= static_cast<double>(z) * static_cast<double>(z);
        }
        return true;
    }

    void advance(index_t k) {
        for (index_t v = 0; v < n_views_; ++v) {
            const T *row = views_[v].gram_row;
            if (d_[v].gram) {
                row = d_[v].gram + k * d_[v].stride;
            } else {
                unpack_atom(d_[v], k, views_[v].atom);
                correlate(d_[v], 1, views_[v].atom, d_[v].n_features, views_[v].gram_row);
            }
            NoChoice<T> nobody;
            views_[v].signal.advance(d_[v], row, views_[v].a, static_cast<T *>(nullptr), nobody);
        }
    }

    // Solves for the coefficients of every view; returns the squared residual, which the pursuit says is `claimed`.
    double settle(double claimed) {
        double sum = 0;
        bool checked = false;
        for (index_t v = 0; v < n_views_; ++v) {
            Support<T> &s = views_[v].signal.support;
            const double before = squared_norm(d_[v].n_features, views_[v].x);
            double after = before;
            for (index_t j = 0; j < s.size; ++j)
                after -= static_cast<double>(s.projection[j]) * static_cast<double>(s.projection[j]);
            const double settled = views_[v].settlement.settle(d_[v], s, views_[v].x, before, after);
            checked = checked || settled != after;
            sum += settled;
        }
        return checked ? sum : claimed;
    }

    double true_energy() {
        double sum = 0;
        for (index_t v = 0; v < n_views_; ++v) {
            views_[v].signal.support.solve();
            sum += views_[v].signal.support.residual_energy(d_[v], views_[v].x, views_[v].settlement.residual());
        }
        return sum;
    }

    index_t n_views_, n_features_;
    const Dictionary<T> *d_;
    const Limits &limits_;
    double tol_ = -1;
    T *x_;
    SupportView<T> *views_;
};

template <class T>
index_t encode_support_scratch(index_t n_views, const Dictionary<T> *dictionaries, const Limits &limits) {
    Arena arena(nullptr);
    SupportEncoder<T>(arena, n_views, dictionaries, limits);
    return arena.used();
}

template <class T>
index_t encode_support(index_t n_views, const Dictionary<T> *dictionaries, const Limits &limits, index_t n,
                       const View<T> *views, const int *stop, void *scratch, const Codes<T> &codes, T *const *values) {
    constexpr index_t kMostViews = 64;
    T *next[kMostViews];
    Arena arena(scratch);
    SupportEncoder<T> encoder(arena, n_views, dictionaries, limits);
    index_t written = 0;
    for (index_t i = 0; i < n && !__atomic_load_n(stop, __ATOMIC_RELAXED); ++i) {
        for (index_t v = 0; v < n_views; ++v) next[v] = values[v] + written;
        const index_t count = encoder.code(views, i, codes.indices + written, next, &codes.energy[i], &codes.status[i]);
        codes.counts[i] = static_cast<std::int32_t>(count);
        written += count;
    }
    return written;
}

}  // namespace
}  // namespace coupledict::COUPLEDICT_LEVEL
