// Coefficients of the careful method, checked.
//
// Atoms that almost depend on each other get large coefficients of both signs. The residual is therefore computed from
// the coefficients as they will be written; where it is larger than the pursuit says, the atoms taken last are dropped.
#pragma once
#include "support.h"

namespace coupledict::COUPLEDICT_LEVEL {
namespace {

// Solves for the coefficients; returns the squared residual, which the pursuit says is `claimed`. Of all supports that
// were tried, the one with the smallest residual is kept.
template <class T>
double solve_checked(const Dictionary<T> &d, const Settings &settings, Support<T> &s, const T *x, int exponent,
                     double signal_energy, double claimed, double *residual) {
    const auto energy_of = [&](index_t n) {
        s.shorten(n);
        settings.float32 ? s.solve_in_float32(d, exponent) : s.solve();
        return s.residual_energy(d, x, residual) + (settings.float32 ? 0 : s.rounding_energy());
    };
    const double trusted = (settings.float32 ? kNegligible<float> : kTrustedShare) * signal_energy;
    const index_t size = s.size;
    double energy = energy_of(size), least = energy;
    index_t best = size;
    for (index_t n = size; n > 0 && !(energy <= (claimed > 0 ? claimed : 0) + trusted);) {
        const double z = static_cast<double>(s.projection[--n]);
        claimed += z * z;
        energy = energy_of(n);
        if (!(energy >= least)) least = energy, best = n;
    }
    if (s.size == best) return energy;
    s.restore(best);
    return energy_of(best);
}

}  // namespace
}  // namespace coupledict::COUPLEDICT_LEVEL
