// Simultaneous OMP with non-negative coefficients: every view solves its own non-negative least-squares problem over
// the shared atoms, and thus uses some of them only. An atom that no view uses leaves.
#pragma once
#include "active_set.h"
#include "joint_signal.h"

namespace coupledict::COUPLEDICT_LEVEL {
namespace {

template <class T, template <class, class, bool> class SetOf>
class NonnegativeSolver {
    using Set = SetOf<T, PositiveCorrelation<T>, false>;

    struct OneView {
        Set set;
        const T *x = nullptr;
        T *b, *a;
        double signal_energy = 0, energy = 0, noise = 0;

        OneView(Arena &arena, const Dictionary<T> &d, const Settings &settings) : set(arena, d, settings) {
            b = arena.take<T>(d.stride);
            a = arena.take<T>(d.stride);
        }
    };

  public:
    static constexpr bool kCareful = Set::kCareful, kAtomsLeave = true, kChecksTolFirst = true;

    NonnegativeSolver(Arena &arena, const JointSignal<T> &joint, const Settings &settings)
        : joint_(joint),
          d_(joint.dictionaries),
          settings_(settings),
          shared_(arena, d_[0].n_atoms, settings.n_nonzero + 1),
          views_(arena.take<OneView>(joint.n_views)) {
        for (index_t v = 0; v < joint.n_views; ++v) {
            const OneView view(arena, d_[v], settings);
            if (views_) views_[v] = view;
        }
    }

    Chosen<T> &shared() { return shared_; }
    const Chosen<T> &chosen(index_t v) const { return views_[v].set.chosen(); }
    double energy() const {
        double sum = 0;
        for (index_t v = 0; v < joint_.n_views; ++v) sum += views_[v].energy;
        return sum;
    }

    void start() {
        shared_.clear();
        noise_ = noise_share<T>(joint_.n_features) * square_root(joint_.energy);
        const T *x = joint_.x;
        for (index_t v = 0; v < joint_.n_views; x += d_[v].n_features, ++v) {
            OneView &view = views_[v];
            view.set.start();
            view.x = x;
            view.signal_energy = view.energy = squared_norm(d_[v].n_features, x);
            view.noise = noise_share<T>(d_[v].n_features) * square_root(view.signal_energy);
            correlate(d_[v], 1, x, d_[v].n_features, view.b);
            for (index_t k = 0; k < d_[v].stride; ++k) view.a[k] = view.b[k];
        }
    }

    bool reached(double tol) {
        if (tol < 0) return false;
        double sum = joint_.energy;
        for (index_t v = 0; v < joint_.n_views; ++v) sum += views_[v].set.chosen().squared_coefficients();
        if (energy() > tol + 8 * kEnergyBand<T> * sum) return false;
        compute_energies();
        return energy() <= tol;
    }

    // The atom with the largest sum of squared positive correlations, if that is more than rounding error, or -1.
    index_t choose() const {
        const double negligible = kCareful && settings_.float32 ? kNegligibleFloat32 : kNegligible<T>;
        if (kCareful && energy() <= negligible * joint_.energy) return -1;
        index_t best = -1;
        double top = noise_ * noise_;
        for (index_t k = 0; k < d_[0].n_atoms; ++k) {
            double sum = 0;
            for (index_t v = 0; v < joint_.n_views; ++v) {
                const double a = static_cast<double>(views_[v].a[k]);
                sum += a > 0 ? a * a : 0;
            }
            if (sum > top && !shared_.is_closed(k)) top = sum, best = k;
        }
        return best;
    }

    // Whether a fast method that has chosen no atom leaves something to explain, and an atom correlates with it, though
    // so faintly that it may be rounding error.
    bool stops_in_doubt() {
        if constexpr (kCareful) return false;
        bool faint = false;
        for (index_t k = 0; k < d_[0].n_atoms && !faint; ++k)
            for (index_t v = 0; v < joint_.n_views && !faint; ++v) faint = views_[v].a[k] > 0 && !shared_.is_chosen(k);
        if (!faint) return false;
        compute_energies();
        return energy() > kNegligible<T> * joint_.energy;
    }

    // Offers atom k to every view.
    Outcome take(index_t k) {
        shared_.append(k);
        for (index_t v = 0; v < joint_.n_views; ++v)
            if (!solve(v)) return kUncertain;
        drop_unused();
        return shared_.is_chosen(k) ? kTaken : kCareful ? kDepends : kUncertain;
    }

    // Brings all views to the shared atoms; false where a fast method may not keep its result. The careful method also
    // rounds the coefficients.
    bool finish(int exponent) {
        for (index_t v = 0; v < joint_.n_views; ++v) {
            OneView &view = views_[v];
            if constexpr (kCareful)
                round_off(v, exponent);
            else if (view.set.chosen().has_large_coefficients(view.signal_energy) ||
                     !view.set.is_solved(view.a, view.signal_energy))
                return false;
            Chosen<T> &chosen = view.set.chosen();
            for (index_t j = 0; j < shared_.size; ++j)
                if (!chosen.is_chosen(shared_.atoms[j])) {
                    chosen.coefficients[chosen.size] = 0;
                    chosen.append(shared_.atoms[j]);
                }
        }
        return true;
    }

  private:
    // Solves the non-negative least-squares problem of one view over the shared atoms; false where rounding errors
    // matter to a fast method.
    bool solve(index_t v) {
        OneView &view = views_[v];
        Chosen<T> &chosen = view.set.chosen();
        for (index_t round = 0; round < 3 * shared_.size + 16; ++round) {
            index_t best = -1;
            double top = view.noise;
            for (index_t j = 0; j < shared_.size; ++j) {
                const index_t k = shared_.atoms[j];
                const double a = static_cast<double>(view.a[k]);
                if (a > top && !chosen.is_closed(k)) top = a, best = k;
            }
            if (best < 0) return true;
            T *const none = nullptr;
            if (!view.set.enter(d_[v], best, T(1), view.x, view.a, none) || !make_feasible(d_[v], view.set, none)) {
                if (!kCareful) return false;
                chosen.bar(best);
                continue;
            }
            view.energy = view.set.correlate_rest(d_[v], view.x, view.signal_energy, view.b, view.a, none,
                                                  joint_.residual, [](int, vec<T>, index_t) {});
        }
        return kCareful;
    }

    void drop_unused() {
        for (index_t j = shared_.size - 1; j >= 0; --j) {
            bool used = false;
            for (index_t v = 0; v < joint_.n_views; ++v)
                used = used || views_[v].set.chosen().is_chosen(shared_.atoms[j]);
            if (!used) shared_.erase(j);
        }
    }

    void compute_energies() {
        for (index_t v = 0; v < joint_.n_views; ++v)
            views_[v].energy = views_[v].set.chosen().residual_energy(d_[v], views_[v].x, joint_.residual);
    }

    // Rounds the coefficients of one view as they will be written; if that makes them worse than none, they are 0.
    void round_off(index_t v, int exponent) {
        OneView &view = views_[v];
        Chosen<T> &chosen = view.set.chosen();
        if constexpr (kCareful)
            if (settings_.float32) view.set.round_to_float32(d_[v], exponent);
        view.energy =
            chosen.residual_energy(d_[v], view.x, joint_.residual) + (settings_.float32 ? 0 : chosen.rounding_energy());
        if (view.energy <= view.signal_energy) return;
        chosen.clear();
        view.energy = view.signal_energy;
    }

    const JointSignal<T> &joint_;
    const Dictionary<T> *d_;
    const Settings &settings_;
    Chosen<T> shared_;
    OneView *views_;
    double noise_ = 0;
};

}  // namespace
}  // namespace coupledict::COUPLEDICT_LEVEL
