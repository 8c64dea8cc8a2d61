// Input of signals: views side by side in scratch memory, checked, and scaled if they would over- or underflow.
#pragma once
#include "thresholds.h"

namespace coupledict::COUPLEDICT_LEVEL {
namespace {

// What is known about a signal before it is coded.
struct SignalInfo {
    double energy;  // squared norm, after scaling
    int exponent;   // the signal was multiplied by 2^-exponent
    bool finite;
    index_t n_known;  // entries that are not missing
};

template <class T>
double squared_norm(index_t n, const T *x) {
    double part[8] = {};
    index_t f = 0;
    for (; f + 8 <= n; f += 8)
        for (int i = 0; i < 8; ++i) part[i] += static_cast<double>(x[f + i]) * static_cast<double>(x[f + i]);
    for (int i = 0; f < n; ++f, ++i) part[i] += static_cast<double>(x[f]) * static_cast<double>(x[f]);
    return ((part[0] + part[4]) + (part[1] + part[5])) + ((part[2] + part[6]) + (part[3] + part[7]));
}

template <class T>
double largest_magnitude(index_t n, const T *x) {
    double top = 0;
    for (index_t f = 0; f < n; ++f) {
        const double size = fabs(static_cast<double>(x[f]));
        top = size > top ? size : top;
    }
    return top;
}

template <class T>
SignalInfo rescale(index_t n, T *x) {
    for (index_t f = 0; f < n; ++f)
        if (!is_finite(x[f])) return {0, 0, false, n};
    const double top = largest_magnitude(n, x);
    if (top == 0) return {0, 0, true, n};
    const int exponent = ilogb(top);
    for (index_t f = 0; f < n; ++f) x[f] = static_cast<T>(ldexp(static_cast<double>(x[f]), -exponent));
    return {squared_norm(n, x), exponent, true, n};
}

// Copies signal `row` of every view to x, side by side.
template <class T>
void copy_row(index_t n_views, const View<T> *views, index_t row, T *x) {
    for (index_t v = 0; v < n_views; ++v) {
        const View<T> &view = views[v];
        const T *in = view.data + row * view.row_stride;
        if (view.column_stride == 1)
            for (index_t f = 0; f < view.n_features; ++f) x[f] = in[f] * view.scale;
        else
            for (index_t f = 0; f < view.n_features; ++f) x[f] = in[f * view.column_stride] * view.scale;
        x += view.n_features;
    }
}

template <class T>
SignalInfo measure(index_t n_features, T *x) {
    const double energy = squared_norm(n_features, x);
    if (energy >= Precision<T>::smallest_energy && energy <= Precision<T>::largest_energy)
        return {energy, 0, true, n_features};
    return rescale(n_features, x);  // rare; NaN ends up here too
}

template <class T>
SignalInfo read_signal(index_t n_views, const View<T> *views, index_t row, index_t n_features, T *x) {
    copy_row(n_views, views, row, x);
    return measure(n_features, x);
}

// The same for a signal with missing entries, which become 0. `known` gets 1 for each entry that is not missing, else
// 0.
template <class T>
SignalInfo read_masked_signal(index_t n_views, const View<T> *views, index_t row, index_t n_features, T *x, T *known) {
    copy_row(n_views, views, row, x);
    index_t n_known = 0;
    for (index_t f = 0; f < n_features; ++f) {
        const bool missing = x[f] != x[f];
        known[f] = missing ? T(0) : T(1);
        x[f] = missing ? T(0) : x[f];
        n_known += missing ? 0 : 1;
    }
    SignalInfo info = measure(n_features, x);
    info.n_known = n_known;
    return info;
}

}  // namespace
}  // namespace coupledict::COUPLEDICT_LEVEL
