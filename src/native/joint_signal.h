// One signal whose views share their atoms, each with coefficients of its own.
#pragma once
#include "signals.h"

namespace coupledict::COUPLEDICT_LEVEL {
namespace {

template <class T>
struct JointSignal {
    index_t n_views, n_features;
    const Dictionary<T> *dictionaries;  // one for each view
    T *x;                               // the views side by side
    double *residual;                   // scratch for one view
    double energy = 0;                  // squared norm

    JointSignal(Arena &arena, index_t n, const Dictionary<T> *d) : n_views(n), n_features(0), dictionaries(d) {
        for (index_t v = 0; v < n_views; ++v) n_features += d[v].n_features;
        x = arena.take<T>(n_features);
        residual = arena.take<double>(n_features);
    }
};

// What a solver says about an atom: it has it now; the atom depends on those it has; or rounding errors matter.
enum Outcome { kTaken, kDepends, kUncertain };

}  // namespace
}  // namespace coupledict::COUPLEDICT_LEVEL
