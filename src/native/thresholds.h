// Thresholds of precision: what counts as rounding error, and when the result of a fast method is in doubt.
#pragma once
#include "simd.h"

namespace coupledict::COUPLEDICT_LEVEL {
namespace {

template <class T>
struct Precision;
template <>
struct Precision<float> {
    static constexpr double epsilon = 0x1p-23;
    // Squared norms outside this range are scaled to about 1 first: squares of correlations must not over- or
    // underflow.
    static constexpr double smallest_energy = 1e-10, largest_energy = 1e20;
};
template <>
struct Precision<double> {
    static constexpr double epsilon = 0x1p-52;
    static constexpr double smallest_energy = 1e-100, largest_energy = 1e100;
};

// An atom with less of its squared norm left outside the span of the chosen ones makes a signal doubtful. Correlations
// that are updated with the Gram matrix lose as many digits as this has zeros; directions in the space of the features
// lose half as many.
template <class T>
constexpr double kDoubtfulPivotGram = sizeof(T) == 4 ? 3e-4 : 1e-8;
template <class T>
constexpr double kDoubtfulPivotFree = sizeof(T) == 4 ? 1e-5 : 1e-13;
// With at least this left, one round of Gram-Schmidt is enough.
constexpr double kCleanPivot = 0.1;
// For the careful method, an atom with less than this left depends on the chosen ones. tests/support/twins.py has the
// same.
constexpr double kDependentPivot = 0x1p-84;  // (1,000 epsilon)^2
// OLS by the careful method: times 1 over the remaining squared norm of an atom, the relative error of the decrease of
// the squared residual. It is 64 epsilon, for rounding, and the square of that of float32, to which coefficients may be
// rounded.
constexpr double kDecreaseError = 0x1p-46;
// Squared coefficients of unit atoms, summed and relative to the squared norm of the signal, above which a signal is
// doubtful: the rounding error of a residual is about epsilon times the cube of the size of the coefficients.
template <class T>
constexpr double kLargeCoefficients = sizeof(T) == 4 ? 400 : 1e8;
// A squared residual of at most this share of the squared norm of the signal is rounding error.
template <class T>
constexpr double kNegligible = sizeof(T) == 4 ? 1e-11 : 1e-24;
// The same for the careful method and float32 signals: the rounding error of the signals themselves.
constexpr double kNegligibleFloat32 = 64 * Precision<float>::epsilon * Precision<float>::epsilon;
// How far the squared residual of the careful method may exceed the running one, relative to the squared norm of the
// signal; for float32 signals, kNegligible<float> is that.
constexpr double kTrustedShare = 100 * Precision<double>::epsilon;
// Of atoms that one pass over the dictionary has seen, those are taken whose excess is at least this share of the best
// one's (lasso).
constexpr double kShareOfBest = 0.2;
// Duality gap of the lasso, relative to the squared norm of the signal, above which a signal is doubtful.
template <class T>
constexpr double kTrustedGap = sizeof(T) == 4 ? 1e-5 : 1e-12;
// Squared residual beyond that of least squares over the chosen atoms, relative to the squared norm of the signal,
// above which a signal is doubtful (non-negative pursuits).
template <class T>
constexpr double kTrustedExcess = sizeof(T) == 4 ? 1e-7 : 1e-18;
template <class T>
constexpr double kEnergyBand = 8 * Precision<T>::epsilon;  // relative rounding error of the running squared residual

// Correlations below this share of the signal's norm are rounding error.
template <class T>
inline double noise_share(index_t n_features) {
    return Precision<T>::epsilon * (8 + 0.5 * square_root(static_cast<double>(n_features)));
}

// Of atoms cut down to the known entries of a signal, one whose squared norm is at most this share of the largest is
// rounding error, and is never chosen. tests/support/twins.py has the same.
constexpr double kLeastKnown = 1e-10;
// Squared norm over the known entries below which the Gram row of an atom is summed over the known features, for the
// difference of two long sums would lose digits; and below which a signal is doubtful if it chooses the atom.
constexpr double kShortKnown = 0.25, kDoubtfulKnown = 1e-3;

}  // namespace
}  // namespace coupledict::COUPLEDICT_LEVEL
