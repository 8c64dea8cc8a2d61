// Codes with constraints: non-negative pursuits, and the lasso.
//
// All of them use the active-set method: atoms enter one by one, and the coefficients of the chosen ones solve linear
// equations. Where a solution has a wrong sign, the coefficients move towards it until the first of them is 0, and that
// atom leaves. (C. L. Lawson and R. J. Hanson, "Solving Least Squares Problems", 1974, chapter 23.)
#pragma once
#include "block.h"
#include "inverse_set.h"
#include "orthogonal_set.h"

namespace coupledict::COUPLEDICT_LEVEL {
namespace {

// How the next atom is chosen: `see` looks at the correlations a of the residual, with the remaining norms (OLS) or the
// penalties (lasso) as `extra`. `is_significant` tells whether an atom is worth taking, `gradient` how the squared
// error, halved and with the penalties, falls with its coefficient.

// Non-negative orthogonal matching pursuit: the largest a.
template <class T>
struct PositiveCorrelation : LargestCorrelation<T> {
    static constexpr bool kNeedsExtra = false, kLasso = false;
    void see(int v, vec<T> a, vec<T>, index_t column) { this->take(v % 2, a, column); }
    static double score(double a, double) { return a; }
    static bool is_significant(double a, double, double noise) { return a > noise; }
    static T gradient(T a, const T *, index_t, T) { return a; }
};

// Non-negative orthogonal least squares: the largest decrease of the squared residual by a positive coefficient.
template <class T, Method M>
struct PositiveDecrease : LargestDecrease<T, M> {
    static constexpr bool kNeedsExtra = true, kLasso = false;
    using Base = LargestDecrease<T, M>;
    void see(int v, vec<T> a, vec<T> norm, index_t column) {
        Base::see(v, select<T>(a > vec<T>{}, a, vec<T>{}), norm, column);
    }
    static double score(double a, double norm) { return a > 0 && norm > Base::kLeastNorm ? a * a / norm : 0; }
    static bool is_significant(double a, double, double noise) { return a > noise; }
    static T gradient(T a, const T *, index_t, T) { return a; }
    static void fill_norms(const Dictionary<T> &d, const Mask<T> &mask, T *norms) {
        for (index_t k = 0; k < d.stride; ++k)
            norms[k] = k < d.n_atoms && d.norms[k] > 0 && mask.inverse_norm_of(k) > 0 ? T(1) : T(0);
    }
};

// The lasso: the largest excess of |a|, or of a, over the penalty.
template <class T, bool Positive>
struct LargestExcess : LargestCorrelation<T> {
    static constexpr bool kNeedsExtra = true, kLasso = true;
    void see(int v, vec<T> a, vec<T> penalty, index_t column) { this->take(v % 2, excess(a, penalty), column); }
    static vec<T> excess(vec<T> a, vec<T> penalty) { return (Positive ? a : absolute<T>(a)) - penalty; }
    // The first atom with the same excess as atom k.
    static index_t first_like(const T *a, const T *penalties, index_t k) {
        const index_t own = k - k % kLanes<T>;
        const vec<T> wanted = splat(excess(load(a + own), load(penalties + own))[k - own]);
        for (index_t column = 0; column < own; column += kLanes<T>)
            if (const unsigned same = equal_lanes(excess(load(a + column), load(penalties + column)), wanted))
                return column + lowest_bit(same);
        return own + lowest_bit(equal_lanes(excess(load(a + own), load(penalties + own)), wanted));
    }
    static double score(double a, double penalty) { return (Positive ? a : fabs(a)) - penalty; }
    static bool is_significant(double a, double penalty, double noise) { return score(a, penalty) > noise; }
    static T gradient(T a, const T *penalties, index_t k, T sign) { return a - sign * penalties[k]; }
};

// Moves the coefficients of a set to the solution of its equations; atoms whose coefficient becomes 0 leave. False if
// the newest one leaves at once. `extra` holds the remaining norms of the atoms, if they are needed.
template <class T, class Set>
bool make_feasible(const Dictionary<T> &d, Set &set, T *extra) {
    Chosen<T> &chosen = set.chosen();
    for (bool first_time = true;; first_time = false) {
        index_t first = -1;
        T step = 2;
        for (index_t j = 0; j < chosen.size; ++j) {
            if (set.target[j] * set.signs[j] > 0) continue;
            const T c = chosen.coefficients[j], own = c == 0 ? T(0) : c / (c - set.target[j]);
            if (!(own >= step)) step = own, first = j;
        }
        if (first < 0) break;
        for (index_t j = 0; j < chosen.size; ++j)
            chosen.coefficients[j] += step * (set.target[j] - chosen.coefficients[j]);
        chosen.coefficients[first] = 0;
        set.leave(d, first, extra);
        if (first_time && step == 0) return false;
        if constexpr (Set::kCareful) chosen.unbar();
    }
    for (index_t j = 0; j < chosen.size; ++j) chosen.coefficients[j] = set.target[j];
    return true;
}

template <class T, class Choice, bool Masked, template <class, class, bool> class SetOf>
class ConstrainedEncoder {
    using Set = SetOf<T, Choice, Masked>;
    static constexpr bool kCareful = Set::kCareful;

  public:
    ConstrainedEncoder(Arena &arena, const Dictionary<T> &d, const Settings &settings)
        : d_(d), settings_(settings), block_(arena, d, 384 << 10, 8), set_(arena, d, settings) {
        residual_ = arena.take<double>(d.n_features);
        a_ = arena.take<T>(d.stride);
        extra_ = arena.take<T>(Choice::kNeedsExtra ? d.stride : 0);
        features_ = arena.take<std::int32_t>(Masked ? d.n_features : 0);
    }

    void run(index_t n, index_t n_views, const View<T> *views, const int *stop, Writer<T> &writer) {
        for (index_t start = 0; start < n; start += block_.size) {
            const index_t rows = n - start < block_.size ? n - start : block_.size;
            block_.read(d_, n_views, views, start, rows);
            for (index_t i = 0; i < rows; ++i) {
                if (is_raised(stop)) return;
                const Status status = initial_status(block_.infos[i], Choice::kLasso ? -1 : settings_.tol);
                if (status == kLimit)
                    code(start + i, i, stop, writer);
                else
                    writer.skip(start + i, block_.infos[i], status);
            }
        }
    }

  private:
    void code(index_t row, index_t i, const int *stop, Writer<T> &writer) {
        const SignalInfo &info = block_.infos[i];
        x_ = block_.x + i * d_.n_features;
        b_ = block_.a + i * d_.stride;
        energy_ = signal_energy_ = info.energy;
        noise_ = noise_share<T>(info.n_known) * square_root(info.energy);
        tol_ = settings_.tol < 0 ? -1 : ldexp(settings_.tol, -2 * info.exponent);
        most_ = info.n_known < settings_.n_nonzero ? info.n_known : settings_.n_nonzero;
        set_.start();
        set_.chosen().mask = block_.mask(d_, i, features_);
        prepare_extra(info.exponent);
        Status status = pursue(stop);
        if (kCareful && status != kFull) {
            round_off(info.exponent);
            if (status == kTolerance && energy_ > tol_) status = kDependent;
        }
        if (!kCareful && status != kFull && !is_trusted()) status = kDoubtful;
        if (status == kDoubtful || status == kFull)
            writer.skip(row, info, status);
        else
            writer.write(row, info, set_.chosen(), status, energy_);
    }

    // Remaining norms, or penalties of the unit atoms; zero atoms have infinite ones.
    void prepare_extra(int exponent) {
        const Mask<T> &mask = set_.chosen().mask;
        if constexpr (Choice::kNeedsNorms) {
            Choice::fill_norms(d_, mask, extra_);
        } else if constexpr (Choice::kLasso) {
            const bool ordinary = !Masked && exponent == 0;
            if (ordinary && extra_is_made_) return;
            extra_is_made_ = ordinary;
            least_penalty_ = kInfinity;
            const double alpha = ldexp(settings_.alpha, -exponent);
            for (index_t k = 0; k < d_.stride; ++k) {
                const bool open = k < d_.n_atoms && d_.norms[k] > 0 && mask.inverse_norm_of(k) > 0;
                extra_[k] = open ? static_cast<T>(alpha * static_cast<double>(mask.inverse_norm_of(k)) / d_.norms[k])
                                 : static_cast<T>(kInfinity);
                if (static_cast<double>(extra_[k]) < least_penalty_) least_penalty_ = static_cast<double>(extra_[k]);
            }
        }
    }

    // Takes atoms until the code is done.
    Status pursue(const int *stop) {
        Chosen<T> &chosen = set_.chosen();
        const index_t most_steps = (kCareful ? 50 : 4) * (most_ + 16);
        const index_t room = d_.n_atoms < d_.n_features ? d_.n_atoms : d_.n_features;
        observe();
        for (index_t steps = 0;; ++steps) {
            if constexpr (!Choice::kLasso) {
                if (reached()) return kTolerance;
                if (chosen.size == most_) return kLimit;
            }
            const index_t k = choose();
            if (excludes_candidate()) return kDoubtful;
            if (k < 0 || chosen.is_chosen(k) || !Choice::is_significant(now(k), extra(k), noise_))
                return stops_in_doubt() ? kDoubtful : chosen.any_barred ? kDependent : kExhausted;
            if (chosen.size == most_ && settings_.n_nonzero < room) return kFull;
            if (steps >= most_steps || is_raised(stop)) return kCareful ? kLimit : kDoubtful;
            const T sign = a_now_[k] > 0 ? T(1) : T(-1);
            if (chosen.size == settings_.n_nonzero || !set_.enter(d_, k, sign, x_, a_now_, extra_)) {
                if (!kCareful) return kDoubtful;
                if (!(Choice::kLasso && chosen.size > 0 && exchange(k, sign))) {
                    chosen.bar(k);
                    continue;
                }
            }
            if (!make_feasible(d_, set_, extra_)) {
                if (!kCareful) return kDoubtful;
                chosen.bar(k);
                continue;
            }
            if constexpr (!kCareful && !Masked && Choice::kLasso)
                if (!enter_more(static_cast<T>(kShareOfBest * Choice::score(now(k), extra(k))))) return kDoubtful;
            observe();
        }
    }

    // Takes more atoms that the last choice has seen, where their excess is still above `least`: each saves a pass over
    // all atoms. Which atoms the lasso tries first does not change its solution. False where rounding errors matter.
    bool enter_more(T least) {
        const Chosen<T> &chosen = set_.chosen();
        index_t columns[2 * kLanes<T>];
        if (static_cast<double>(least) < noise_) least = static_cast<T>(noise_);
        const index_t n = choice_.list(least, columns);
        const auto still_exceeds = [&](index_t k) {
            return !chosen.is_chosen(k) &&
                   Choice::score(static_cast<double>(set_.correlation(b_, k)), extra(k)) > static_cast<double>(least);
        };
        for (index_t i = 0; i < n && chosen.size < most_; ++i) {
            if (!still_exceeds(columns[i])) continue;
            const index_t k = Choice::first_like(a_now_, extra_, columns[i]);
            if (k != columns[i] && !still_exceeds(k)) continue;
            const T a = set_.correlation(b_, k), sign = a > 0 ? T(1) : T(-1);
            const T gradient = Choice::gradient(a, extra_, k, sign);
            if (!set_.enter(d_, k, sign, x_, nullptr, extra_, gradient) || !make_feasible(d_, set_, extra_))
                return false;
        }
        return true;
    }

    // Computes the correlations of the residual, its squared norm, and the next choice.
    void observe() {
        Choice choice;
        const auto seen = [&](int v, vec<T> a, index_t column) {
            choice.see(v, a, Choice::kNeedsExtra ? load(extra_ + column) : vec<T>{}, column);
        };
        Chosen<T> &chosen = set_.chosen();
        if (chosen.size == 0 && !kCareful) {
            a_now_ = b_;
            energy_ = signal_energy_;
            for (index_t i = 0; i < d_.stride; i += kPanelWidth<T>)
                for (int v = 0; v < kTileVectors; ++v) seen(v, load(b_ + i + v * kLanes<T>), i + v * kLanes<T>);
        } else {
            a_now_ = a_;
            energy_ = set_.correlate_rest(d_, x_, signal_energy_, b_, a_, extra_, residual_, seen);
        }
        choice_ = choice;
    }

    double now(index_t k) const { return static_cast<double>(a_now_[k]); }
    double extra(index_t k) const { return Choice::kNeedsExtra ? static_cast<double>(extra_[k]) : 0; }

    index_t choose() const {
        if constexpr (!kCareful) return choice_.winner();
        const double negligible = settings_.float32 ? kNegligibleFloat32 : kNegligible<T>;
        if (!Choice::kLasso && energy_ <= negligible * signal_energy_) return -1;
        index_t best = -1;
        double top = 0;
        for (index_t k = 0; k < d_.n_atoms; ++k) {
            const double score = set_.chosen().is_closed(k) ? 0 : Choice::score(now(k), extra(k));
            if (score > top) top = score, best = k;
        }
        if constexpr (Choice::kNeedsNorms)
            if (best >= 0) return most_stable_choice<true>(d_, set_.chosen(), a_now_, extra_, best);
        return best;
    }

    // Whether an atom that was not chosen correlates significantly, but has too little of its norm left for a fast
    // method to compare it (OLS).
    bool excludes_candidate() const {
        if constexpr (!kCareful && Choice::kNeedsNorms) {
            if (!choice_.excludes_significant(noise_)) return false;
            for (index_t k = 0; k < d_.n_atoms; ++k)
                if (extra(k) <= Choice::kLeastNorm && Choice::is_significant(now(k), 0, noise_) &&
                    !set_.chosen().is_chosen(k))
                    return true;
        }
        return false;
    }

    // Whether a fast method stops although something is left to explain and an atom correlates with it, so weakly that
    // it may be rounding error. An atom that almost depends on the chosen ones correlates weakly, and may yet explain
    // much.
    bool stops_in_doubt() {
        if constexpr (kCareful || Choice::kLasso) return false;
        const Chosen<T> &chosen = set_.chosen();
        bool faint = false;
        for (index_t k = 0; k < d_.n_atoms && !faint; ++k) faint = now(k) > 0 && !chosen.is_chosen(k);
        if (!faint) return false;
        energy_ = chosen.residual_energy(d_, x_, residual_);
        return energy_ > kNegligible<T> * signal_energy_;
    }

    // Whether the squared residual is at most tol; close to it, the residual itself is computed.
    bool reached() {
        if (tol_ < 0) return false;
        const double error = 8 * kEnergyBand<T> * (signal_energy_ + set_.chosen().squared_coefficients());
        if (energy_ > tol_ + error) return false;
        if (energy_ >= tol_ - error) energy_ = set_.chosen().residual_energy(d_, x_, residual_);
        return energy_ <= tol_;
    }

    // For the lasso, an atom that depends on the chosen ones but has a smaller penalty, taken with its share of them.
    bool exchange(index_t k, T sign) {
        if constexpr (kCareful) {
            Chosen<T> &chosen = set_.chosen();
            const index_t out = set_.exchange(d_, k, sign);
            if (out < 0) return false;
            set_.leave(d_, out, extra_);
            if (!set_.enter(d_, k, sign, x_, a_now_, extra_)) return false;
            chosen.coefficients[chosen.size - 1] = set_.given();
            return true;
        }
        return false;
    }

    // Whether a fast method may keep its result.
    bool is_trusted() const {
        if (set_.chosen().has_large_coefficients(signal_energy_)) return false;
        if constexpr (kCareful)
            return true;
        else if constexpr (Choice::kLasso)
            return gap() <= kTrustedGap<T> * signal_energy_;
        else
            return set_.is_solved(a_now_, signal_energy_);
    }

    // The duality gap: of all correlations that exceed their penalty, none does so by more than the choice has seen.
    double gap() const {
        const Chosen<T> &chosen = set_.chosen();
        const index_t k = choice_.winner();
        const double excess = k < 0 ? 0 : Choice::score(now(k), extra(k));
        const double shrink = excess > 0 ? least_penalty_ / (least_penalty_ + excess) : 1;
        double sum = 0.5 * energy_ * (1 - shrink) * (1 - shrink);
        for (index_t j = 0; j < chosen.size; ++j) {
            const double c = static_cast<double>(chosen.coefficients[j]);
            sum += fabs(c) * extra(chosen.atoms[j]) - shrink * c * now(chosen.atoms[j]);
        }
        return sum;
    }

    // Rounds the coefficients of the careful method as they will be written, and computes the squared residual from
    // them. A code that is worse than none is dropped.
    void round_off(int exponent) {
        Chosen<T> &chosen = set_.chosen();
        if constexpr (kCareful)
            if (settings_.float32) set_.round_to_float32(d_, exponent);
        double penalty = 0;
        if constexpr (Choice::kLasso)
            for (index_t j = 0; j < chosen.size; ++j)
                penalty += fabs(static_cast<double>(chosen.coefficients[j])) * extra(chosen.atoms[j]);
        energy_ = chosen.residual_energy(d_, x_, residual_) + (settings_.float32 ? 0 : chosen.rounding_energy());
        if (!(energy_ + 2 * penalty <= signal_energy_)) {
            chosen.clear();
            energy_ = signal_energy_;
        }
    }

    const Dictionary<T> &d_;
    const Settings &settings_;
    Block<T, Masked> block_;
    mutable Set set_;
    double *residual_;
    T *a_, *extra_;
    std::int32_t *features_;
    // Of the signal at work:
    const T *x_ = nullptr, *b_ = nullptr, *a_now_ = nullptr;
    Choice choice_;
    double signal_energy_ = 0, energy_ = 0, noise_ = 0, tol_ = -1, least_penalty_ = 0;
    index_t most_ = 0;
    bool extra_is_made_ = false;
};

}  // namespace
}  // namespace coupledict::COUPLEDICT_LEVEL
