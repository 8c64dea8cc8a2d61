// Simultaneous OMP with coefficients of both signs: every view orthogonalises the shared atoms in its own space.
#pragma once
#include "checked_solution.h"
#include "gram.h"
#include "gram_free.h"
#include "joint_signal.h"

namespace coupledict::COUPLEDICT_LEVEL {
namespace {

// Ignores the columns of one view: the choice is made over all views together.
template <class T>
struct NoChoice {
    static constexpr bool kNeedsNorms = false;
    void see(int, vec<T>, vec<T>, index_t) {}
};

template <class T, bool Careful>
class LeastSquaresSolver {
    using Signal = std::conditional_t<Careful, GramFreeSignal<T>, GramSignal<T>>;

    struct OneView {
        Signal signal;
        const T *x = nullptr;
        T *a, *gram_row, *atom;

        OneView(Arena &arena, const Dictionary<T> &d, const Settings &settings) : signal(arena, d, settings) {
            a = arena.take<T>(d.stride);
            gram_row = arena.take<T>(d.stride);
            atom = arena.take<T>(d.n_features);
        }

        // Updates the correlations after an atom was taken.
        void advance(const Dictionary<T> &d) const {
            const index_t m = signal.support.size - 1;
            if constexpr (Careful) {
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
                NoChoice<T> no_choice;
                signal.advance(d, row, a, static_cast<T *>(nullptr), no_choice);
            }
        }
    };

  public:
    static constexpr bool kCareful = Careful, kAtomsLeave = false, kChecksTolFirst = false;

    LeastSquaresSolver(Arena &arena, const JointSignal<T> &joint, const Settings &settings)
        : joint_(joint), d_(joint.dictionaries), settings_(settings), views_(arena.take<OneView>(joint.n_views)) {
        for (index_t v = 0; v < joint.n_views; ++v) {
            const OneView view(arena, d_[v], settings);
            if (views_) views_[v] = view;
        }
    }

    Chosen<T> &shared() { return views_[0].signal.support; }
    const Chosen<T> &chosen(index_t v) const { return views_[v].signal.support; }
    double energy() const { return energy_; }

    void start() {
        const T *x = joint_.x;
        for (index_t v = 0; v < joint_.n_views; x += d_[v].n_features, ++v) {
            views_[v].signal.support.clear();
            views_[v].x = x;
            correlate(d_[v], 1, x, d_[v].n_features, views_[v].a);
        }
        energy_ = joint_.energy;
        least_pivot_ = 1;
    }

    bool reached(double tol) {
        const double band = kEnergyBand<T> * joint_.energy / least_pivot_;
        if (tol < 0 || energy_ > tol + band) return false;
        if (energy_ >= tol - band) energy_ = true_energy();
        return energy_ <= tol;
    }

    // The next atom, or -1.
    index_t choose() {
        const double noise = noise_share<T>(joint_.n_features) * noise_share<T>(joint_.n_features) * joint_.energy;
        index_t k = best_atom();
        if (Careful && (k < 0 || shared().is_closed(k))) k = best_by_scan();
        if (k < 0 || shared().is_chosen(k) || !(score(k) > noise) || (Careful && !is_left(energy_))) return -1;
        return k;
    }
    // Whether a fast method that has chosen no atom leaves something to explain.
    bool stops_in_doubt() { return !Careful && is_left(true_energy()); }

    // Takes atom k in every view, unless it depends on the chosen ones in all of them. In a view in which it depends on
    // them, or is zero, its coefficient is 0.
    Outcome take(index_t k) {
        constexpr double least = Careful ? kDependentPivot : Signal::kDoubtfulPivot;
        bool any = false;
        for (index_t v = 0; v < joint_.n_views; ++v) {
            Support<T> &s = views_[v].signal.support;
            const bool empty = d_[v].norms[k] == 0;
            const T left = views_[v].signal.project(d_[v], k, s.next_row());
            const bool open = !empty && left > static_cast<T>(least);
            if (!Careful && !open && !empty) return kUncertain;
            any = any || open;
            s.inverse_diagonal[s.size] = open ? T(1) / square_root(left) : T(0);
            if (open && static_cast<double>(left) < least_pivot_) least_pivot_ = static_cast<double>(left);
        }
        if (!any) return kDepends;
        for (index_t v = 0; v < joint_.n_views; ++v) {
            Support<T> &s = views_[v].signal.support;
            const T inverse_pivot = s.inverse_diagonal[s.size];
            const T z = views_[v].signal.correlation(d_[v], views_[v].x, views_[v].a[k]) * inverse_pivot;
            s.add(k, inverse_pivot, z);
            energy_ -= static_cast<double>(z) * static_cast<double>(z);
        }
        if (shared().size < settings_.n_nonzero)
            for (index_t v = 0; v < joint_.n_views; ++v) views_[v].advance(d_[v]);
        return kTaken;
    }

    // Solves for the coefficients of every view; false where a fast method leaves them in doubt. The careful method
    // also computes the squared residual from them.
    bool finish(int exponent) {
        double sum = 0;
        for (index_t v = 0; v < joint_.n_views; ++v) {
            Support<T> &s = views_[v].signal.support;
            const double before = squared_norm(d_[v].n_features, views_[v].x);
            if constexpr (Careful) {
                double after = before;
                for (index_t j = 0; j < s.size; ++j)
                    after -= static_cast<double>(s.projection[j]) * static_cast<double>(s.projection[j]);
                const index_t size = s.size;
                sum += solve_checked(d_[v], settings_, s, views_[v].x, exponent, before, after, joint_.residual);
                for (index_t j = s.size; j < size; ++j) s.coefficients[j] = 0;  // atoms dropped here, but not elsewhere
                s.restore(size);
            } else {
                s.solve();
                if (s.has_large_coefficients(before)) return false;
            }
        }
        if (Careful) energy_ = sum;
        return true;
    }

  private:
    bool is_left(double energy) const {
        return energy > (Careful && settings_.float32 ? kNegligibleFloat32 : kNegligible<T>)*joint_.energy;
    }

    double score(index_t k) const {
        double sum = 0;
        for (index_t v = 0; v < joint_.n_views; ++v)
            sum += static_cast<double>(views_[v].a[k]) * static_cast<double>(views_[v].a[k]);
        return sum;
    }

    index_t best_atom() const {
        LargestCorrelation<T> choice;
        for (index_t i = 0; i < d_[0].stride; i += kPanelWidth<T>)
            for (int u = 0; u < kTileVectors; ++u) {
                const index_t column = i + u * kLanes<T>;
                vec<T> sum = {};
                for (index_t v = 0; v < joint_.n_views; ++v) {
                    const vec<T> a = load(views_[v].a + column);
                    sum += a * a;
                }
                choice.see(u, sum, sum, column);
            }
        return choice.winner();
    }

    index_t best_by_scan() {
        index_t best = -1;
        double top = 0;
        for (index_t k = 0; k < d_[0].n_atoms; ++k) {
            const double sum = shared().is_closed(k) ? 0 : score(k);
            if (sum > top) top = sum, best = k;
        }
        return best;
    }

    double true_energy() {
        double sum = 0;
        for (index_t v = 0; v < joint_.n_views; ++v) {
            views_[v].signal.support.solve();
            sum += views_[v].signal.support.residual_energy(d_[v], views_[v].x, joint_.residual);
        }
        return sum;
    }

    const JointSignal<T> &joint_;
    const Dictionary<T> *d_;
    const Settings &settings_;
    OneView *views_;
    double energy_ = 0, least_pivot_ = 1;
};

}  // namespace
}  // namespace coupledict::COUPLEDICT_LEVEL
