// The interface of the kernels, independent of Python and of instruction sets.
//
// Inside the kernels there are no views: a signal is the row of its views side by side, view v multiplied by
// sqrt(w_v), and an atom is the same row of the dictionaries divided by its norm. Ordinary OMP on these rows is
// the joint OMP of the views. Only the rows of a few signals at a time are built, in scratch memory.
#pragma once
#include <cstdint>

namespace coupledict {

using index_t = std::int64_t;

// Why the coding of one signal ended.
enum Status : std::uint8_t {
    kLimit = 0,      // it has as many atoms as allowed
    kTolerance = 1,  // its squared residual is at most tol
    kExhausted = 2,  // what is left is rounding error, or orthogonal to every atom
    kDependent = 3,  // what is left correlates only with atoms that depend on those chosen
    kZero = 4,       // the signal is zero
    kDoubtful = 5,   // not coded: rounding errors may be large here, and the careful method must do it
    kUnknown = 6,    // no entry of the signal is known
    kFull = 7,       // not coded: its code has more atoms than there is room for (lasso)
    kNotFinite = 8,  // the signal holds NaN or infinity, and was not coded
    kOverflow = 9,   // a coefficient does not fit the number type
};

// One view of a chunk of signals, as it lies in memory; strides are counted in elements and may be negative.
template <class T>
struct View {
    const T *data;
    index_t row_stride, column_stride;
    index_t n_features;
    T scale;  // sqrt of the view's weight
};

// Unit-norm joint atoms, packed for the kernels of one instruction set.
template <class T>
struct Dictionary {
    index_t n_atoms, n_features;
    index_t stride;       // n_atoms rounded up to whole panels; the padding atoms are zero
    const T *panels;      // stride / panel_width panels of (n_features, panel_width)
    const T *gram;        // (n_atoms, stride), or null: rows are then computed when they are needed
    const T *squares;     // the panels with every entry squared, or null; masked signals need them,
    const T *rows;        // and the atoms one after the other, or null
    const double *norms;  // of the atoms before they were normalised
    bool ordinary_norms;  // division by any norm neither overflows nor underflows
};

enum Pursuit : int { kOmp = 0, kOls = 1, kLasso = 2 };
// kGram and kGramFree are fast, and return kDoubtful for a signal whose atoms are so close to dependent that rounding
// errors matter. kCareful, for double only, is kGramFree with every check.
enum Method : int { kGram = 0, kGramFree = 1, kCareful = 2 };

struct Settings {
    index_t n_nonzero;  // at most this many atoms; at least 1, at most min(n_atoms, n_features)
    double tol;         // squared residual to stop at; negative for no tolerance
    double alpha;       // penalty of the coefficients of the atoms before they were normalised (kLasso)
    Pursuit pursuit;
    Method method;
    bool float32;   // kCareful: signals were float32, and coefficients will be
    bool masked;    // NaN stands for a missing entry
    bool positive;  // coefficients are not negative
};

// Results of one chunk. `indices` and `values` are written without gaps, in the order of the signals.
template <class T>
struct Codes {
    std::int32_t *counts;  // nonzeros of each signal
    std::int32_t *indices;
    T *values;
    double *energy;  // squared residual of each signal
    std::uint8_t *status;
};

// The layout of joint rows: views side by side, as everywhere here, but not scaled by their weights.
struct Layout {
    index_t n_views;
    const index_t *starts;  // n_views + 1 first columns
    const double *weights;  // of the views
    const bool *positive;   // views in which atoms are not negative
    bool joint;             // atoms have norm 1 over all views (weighted), not in each view
    index_t n_atoms, n_features;
    index_t n_fixed;  // the first atoms are not changed
};

// Codes by columns: the samples that use an atom, and their coefficients.
template <class T>
struct Columns {
    const index_t *starts;  // n_atoms + 1
    const std::int32_t *samples;
    T *values;
};

// The kernels of one instruction set for one number type.
template <class T>
struct Kernels {
    index_t panel_width;

    // Copies n_atoms rows of unit norm (contiguous, n_features long) into panels.
    void (*pack)(index_t n_atoms, index_t n_features, const T *atoms, T *panels);

    // Rows start..stop-1 of the Gram matrix, each dictionary.stride long.
    void (*gram_rows)(const Dictionary<T> &dictionary, index_t start, index_t stop, void *scratch, T *rows);
    index_t (*gram_scratch)(const Dictionary<T> &dictionary);

    // Codes n signals; returns the nonzeros written. A nonzero *stop ends the work early, with results to be discarded.
    index_t (*encode)(const Dictionary<T> &dictionary, const Settings &settings, index_t n, index_t n_views,
                      const View<T> *views, const int *stop, void *scratch, const Codes<T> &codes);
    index_t (*encode_scratch)(const Dictionary<T> &dictionary, const Settings &settings);

    // The same for views that share the atoms but not the coefficients: one dictionary per view. Coefficients of view v
    // go to values[v]. `settings.method` is kGram or kCareful.
    index_t (*encode_support)(index_t n_views, const Dictionary<T> *dictionaries, const Settings &settings, index_t n,
                              const View<T> *views, const int *stop, void *scratch, const Codes<T> &codes,
                              T *const *values);
    index_t (*encode_support_scratch)(index_t n_views, const Dictionary<T> *dictionaries, const Settings &settings);

    // Adds the upper triangle of C^T C to a (n_atoms, n_atoms), C^T X to b (n_atoms, n_features) and the number of
    // samples that use each atom to uses.
    void (*accumulate)(index_t n, index_t n_views, const View<T> *views, const std::int32_t *counts,
                       const std::int32_t *indices, const T *values, index_t n_atoms, index_t n_features, T *x, T *a,
                       T *b, index_t *uses);

    // For views with missing entries, NaN: `fill_missing` writes them to filled (n, n_features), with the missing ones
    // taken from codes times atoms; `accumulate_known` adds up the squared coefficients of samples that know a feature.
    // `row` has n_features numbers.
    void (*fill_missing)(index_t n, const View<T> &view, const std::int32_t *counts, const std::int32_t *indices,
                         const T *values, const T *atoms, T *row, T *filled);
    void (*accumulate_known)(index_t n, const View<T> &view, const std::int32_t *counts, const std::int32_t *indices,
                             const T *values, T *row, T *sums);

    // One sweep over atoms first..last-1 with frozen codes; a is symmetric. Changes atoms (n_atoms, n_features) and
    // fresh (n_features).
    void (*sweep)(const Layout &layout, index_t first, index_t last, const T *a, const T *b, T *fresh, T *atoms);

    // One sweep of the paper's update over atoms first..last-1. Changes atoms, the coefficients and the residual
    // (n_samples, n_features) of all views. With `mean`, an unused atom becomes the mean residual; with `frozen`, the
    // coefficients stay as they are; with `positive`, they do not become negative.
    void (*sequential)(const Layout &layout, index_t first, index_t last, index_t n_samples, bool mean, bool frozen,
                       bool positive, const Columns<T> &codes, T *scratch, T *residual, T *atoms);
};

// One per instruction set that was compiled in.
struct Level {
    const char *name;
    const Kernels<float> *f32;
    const Kernels<double> *f64;
};

}  // namespace coupledict
