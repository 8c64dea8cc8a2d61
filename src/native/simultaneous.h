// Simultaneous orthogonal matching pursuit: views that share their atoms, each with coefficients of its own.
//
// Views share the choice of atoms, the largest sum over the views of squared correlations, and the stopping rule. A
// solver finds the coefficients: LeastSquaresSolver those of both signs, NonnegativeSolver non-negative ones.
#pragma once
#include "simultaneous_least_squares.h"
#include "simultaneous_nonnegative.h"

namespace coupledict::COUPLEDICT_LEVEL {
namespace {

template <class T, class Solver>
class SimultaneousEncoder {
  public:
    SimultaneousEncoder(Arena &arena, index_t n_views, const Dictionary<T> *dictionaries, const Settings &settings)
        : settings_(settings), joint_(arena, n_views, dictionaries), solver_(arena, joint_, settings) {}

    // Codes one signal; writes its atoms, sorted, and the coefficients of each view. Returns how many atoms.
    index_t code(const View<T> *views, index_t row, std::int32_t *indices, T *const *values, double *energy,
                 std::uint8_t *status) {
        const SignalInfo info = read_signal(joint_.n_views, views, row, joint_.n_features, joint_.x);
        *energy = ldexp(info.energy, 2 * info.exponent);
        *status = initial_status(info, Solver::kChecksTolFirst ? settings_.tol : -1);
        if (*status != kLimit) return 0;
        const double tol = settings_.tol < 0 ? -1 : ldexp(settings_.tol, -2 * info.exponent);
        joint_.energy = info.energy;
        solver_.start();
        *status = pursue(tol);
        if (*status == kDoubtful || !solver_.finish(info.exponent)) {
            *status = kDoubtful;
            return 0;
        }
        const double left = solver_.energy();
        if (*status == kTolerance && left > tol) *status = kDependent;
        *energy = left > 0 ? ldexp(left, 2 * info.exponent) : 0;
        bool all_fit = true;
        index_t n = 0;
        for (index_t v = 0; v < joint_.n_views; ++v) {
            bool fits;
            n = write_codes(solver_.chosen(v), joint_.dictionaries[v], info.exponent, settings_.float32, indices,
                            values[v], &fits);
            all_fit = all_fit && fits;
        }
        if (!all_fit) *status = kOverflow;
        return n;
    }

  private:
    Status pursue(double tol) {
        Chosen<T> &shared = solver_.shared();
        const index_t most_steps = (Solver::kCareful ? 50 : 4) * (settings_.n_nonzero + 16);
        for (index_t steps = 0;; ++steps) {
            if (solver_.reached(tol)) return kTolerance;
            if (shared.size == settings_.n_nonzero) return kLimit;
            const index_t k = solver_.choose();
            if (k < 0) return solver_.stops_in_doubt() ? kDoubtful : shared.any_barred ? kDependent : kExhausted;
            if (Solver::kAtomsLeave && steps >= most_steps) return Solver::kCareful ? kLimit : kDoubtful;
            const Outcome outcome = solver_.take(k);
            if (outcome == kUncertain) return kDoubtful;
            if (outcome == kDepends) shared.bar(k);
        }
    }

    const Settings &settings_;
    JointSignal<T> joint_;
    Solver solver_;
};

template <class T, class Solver>
index_t simultaneous_scratch(index_t n_views, const Dictionary<T> *dictionaries, const Settings &settings) {
    Arena arena(nullptr);
    arena.take<T *>(n_views);
    SimultaneousEncoder<T, Solver>(arena, n_views, dictionaries, settings);
    return arena.used();
}

template <class T, class Solver>
index_t encode_simultaneously(index_t n_views, const Dictionary<T> *dictionaries, const Settings &settings, index_t n,
                              const View<T> *views, const int *stop, void *scratch, const Codes<T> &codes,
                              T *const *values) {
    Arena arena(scratch);
    T **next = arena.take<T *>(n_views);
    SimultaneousEncoder<T, Solver> encoder(arena, n_views, dictionaries, settings);
    index_t written = 0;
    for (index_t i = 0; i < n && !is_raised(stop); ++i) {
        for (index_t v = 0; v < n_views; ++v) next[v] = values[v] + written;
        const index_t count = encoder.code(views, i, codes.indices + written, next, &codes.energy[i], &codes.status[i]);
        codes.counts[i] = static_cast<std::int32_t>(count);
        written += count;
    }
    return written;
}

template <class T>
struct SimultaneousFunctions {
    decltype(Kernels<T>::encode_support_scratch) scratch;
    decltype(Kernels<T>::encode_support) encode;
};
template <class T, class Solver>
constexpr SimultaneousFunctions<T> kSimultaneous = {simultaneous_scratch<T, Solver>, encode_simultaneously<T, Solver>};

// For coefficients of both signs and for non-negative ones: the fast method, and the careful one, which double has.
template <class T>
constexpr SimultaneousFunctions<T> kSimultaneousEncoders[2][2] = {
    {kSimultaneous<T, LeastSquaresSolver<T, false>>, kSimultaneous<T, LeastSquaresSolver<T, sizeof(T) == 8>>},
    {kSimultaneous<T, NonnegativeSolver<T, InverseSet>>,
     kSimultaneous<
         T, std::conditional_t<sizeof(T) == 8, NonnegativeSolver<T, OrthogonalSet>, NonnegativeSolver<T, InverseSet>>>},
};

template <class T>
const SimultaneousFunctions<T> &find_simultaneous(const Settings &settings) {
    return kSimultaneousEncoders<T>[settings.positive][settings.method == kCareful];
}

template <class T>
index_t encode_support_scratch(index_t n_views, const Dictionary<T> *dictionaries, const Settings &settings) {
    return find_simultaneous<T>(settings).scratch(n_views, dictionaries, settings);
}

template <class T>
index_t encode_support(index_t n_views, const Dictionary<T> *dictionaries, const Settings &settings, index_t n,
                       const View<T> *views, const int *stop, void *scratch, const Codes<T> &codes, T *const *values) {
    return find_simultaneous<T>(settings).encode(n_views, dictionaries, settings, n, views, stop, scratch, codes,
                                                 values);
}

}  // namespace
}  // namespace coupledict::COUPLEDICT_LEVEL
