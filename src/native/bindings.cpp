// The only file that depends on Python. Arrays must have the exact number type; nothing is converted or copied here.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#if defined(__linux__)
#include <sched.h>
#endif

#include <algorithm>
#include <memory>
#include <new>
#include <stdexcept>
#include <utility>

#include "compiler.h"
#include "dispatch.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace coupledict {
namespace {

constexpr std::align_val_t kAlignment{64};

struct Free {
    void operator()(void *p) const { ::operator delete(p, kAlignment); }
};
template <class T>
using Buffer = std::unique_ptr<T[], Free>;

template <class T>
Buffer<T> aligned_buffer(index_t count) {
    return Buffer<T>(static_cast<T *>(::operator new(static_cast<std::size_t>(count) * sizeof(T), kAlignment)));
}

// No object here has a lock, for none needs a GIL either: a workspace belongs to one call at a time (it is written
// while the GIL is released), and a plan is complete before a second thread gets it, and only read from then on. There
// is no state besides.

// Scratch memory of one thread, kept between chunks.
class Workspace {
  public:
    void *reserve(index_t bytes) {
        if (bytes > size_) {
            buffer_.reset();
            size_ = 0;
            buffer_ = aligned_buffer<char>(bytes);
            size_ = bytes;
        }
        return buffer_.get();
    }

  private:
    Buffer<char> buffer_;
    index_t size_ = 0;
};

template <class T>
using Matrix = nb::ndarray<const T, nb::ndim<2>, nb::device::cpu>;
template <class T>
using Table = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T>
using Out = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void expect(bool condition, const char *message) {
    if (!condition) throw std::invalid_argument(message);
}

// Whether all of n numbers are at least 0 and below `limit`. Negative numbers are the largest unsigned ones.
bool in_range(const std::int32_t *numbers, index_t n, index_t limit) {
    std::uint32_t largest = 0;
    for (index_t i = 0; i < n; ++i) largest = std::max(largest, static_cast<std::uint32_t>(numbers[i]));
    return n == 0 || (largest <= INT32_MAX && static_cast<index_t>(largest) < limit);
}

template <class T>
const Kernels<T> &kernels_of(const std::string &level) {
    const Level &found = find_level(level);
    if constexpr (sizeof(T) == 4)
        return *found.f32;
    else
        return *found.f64;
}

// The rows of some views, as the kernels take them.
template <class T>
struct ViewRows {
    std::vector<View<T>> laid;
    index_t n = -1, n_features = 0;

    ViewRows(const nb::list &views, const std::vector<double> &scales) {
        expect(views.size() == scales.size() && views.size() > 0, "expected one scale for each view");
        for (std::size_t v = 0; v < views.size(); ++v) {
            const auto view = nb::cast<Matrix<T>>(views[v], false);
            laid.push_back({view.data(), view.stride(0), view.stride(1), static_cast<index_t>(view.shape(1)),
                            static_cast<T>(scales[v])});
            expect(n < 0 || n == static_cast<index_t>(view.shape(0)), "views differ in samples");
            n = static_cast<index_t>(view.shape(0));
            n_features += laid.back().n_features;
        }
    }
};

// A dictionary ready for coding: atoms packed for one instruction set, and their Gram matrix if wanted.
template <class T>
class Plan {
    using Rows = ViewRows<T>;

  public:
    Plan(const nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu> &atoms,
         const nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu> &norms, const std::string &level)
        : kernels_(kernels_of<T>(level)) {
        d_.n_atoms = static_cast<index_t>(atoms.shape(0));
        d_.n_features = static_cast<index_t>(atoms.shape(1));
        expect(d_.n_atoms > 0 && d_.n_features > 0, "atoms must not be empty");
        expect(static_cast<index_t>(norms.shape(0)) == d_.n_atoms, "norms and atoms differ in length");
        d_.stride = (d_.n_atoms + kernels_.panel_width - 1) / kernels_.panel_width * kernels_.panel_width;
        panels_ = aligned_buffer<T>(d_.stride * d_.n_features);
        kernels_.pack(d_.n_atoms, d_.n_features, atoms.data(), panels_.get());
        norms_ = aligned_buffer<double>(d_.n_atoms);
        std::copy_n(norms.data(), d_.n_atoms, norms_.get());
        d_.panels = panels_.get();
        d_.norms = norms_.get();
        d_.gram = nullptr;
        d_.squares = nullptr;
        d_.rows = nullptr;
        d_.ordinary_norms = std::all_of(norms_.get(), norms_.get() + d_.n_atoms,
                                        [](double x) { return x == 0 || (x > 1e-30 && x < 1e30); });
    }

    // Makes room for the Gram matrix; fill_gram must write all of its rows, several threads different ones, before the
    // next encode.
    void allocate_gram() {
        gram_ = aligned_buffer<T>(d_.n_atoms * d_.stride);
        d_.gram = gram_.get();
    }
    // Prepares for signals with missing entries.
    void prepare_masks(const Table<const T> &atoms) {
        expect(
            static_cast<index_t>(atoms.shape(0)) == d_.n_atoms && static_cast<index_t>(atoms.shape(1)) == d_.n_features,
            "atoms do not fit the plan");
        rows_ = aligned_buffer<T>(d_.n_atoms * d_.n_features);
        std::copy_n(atoms.data(), d_.n_atoms * d_.n_features, rows_.get());
        d_.rows = rows_.get();
        squares_ = aligned_buffer<T>(d_.stride * d_.n_features);
        std::transform(panels_.get(), panels_.get() + d_.stride * d_.n_features, squares_.get(),
                       [](T x) { return x * x; });
        d_.squares = squares_.get();
    }
    void fill_gram(index_t start, index_t stop, Workspace &workspace) {
        expect(gram_ && 0 <= start && start <= stop && stop <= d_.n_atoms, "rows out of range");
        void *scratch = workspace.reserve(kernels_.gram_scratch(d_));
        nb::gil_scoped_release released;
        kernels_.gram_rows(d_, start, stop, scratch, gram_.get() + start * d_.stride);
    }

    index_t encode(const nb::list &views, const std::vector<double> &scales, index_t n_nonzero, double tol,
                   const std::string &pursuit, double alpha, bool positive, bool gram_free, bool careful, bool narrow,
                   bool masked, Workspace &workspace, const Out<const int> &stop, const Out<std::int32_t> &counts,
                   const Out<std::int32_t> &indices, const Out<T> &values, const Out<double> &energy,
                   const Out<std::uint8_t> &status) const {
        const Rows rows(views, scales);
        const index_t n = rows.n;
        expect(rows.n_features == d_.n_features, "views and dictionary differ in features");
        expect(n_nonzero >= 1 && n_nonzero <= std::min(d_.n_atoms, d_.n_features), "n_nonzero out of range");
        expect(stop.size() == 1, "stop must hold one number");
        const auto holds = [](const auto &array, index_t size) { return static_cast<index_t>(array.size()) >= size; };
        expect(holds(counts, n) && holds(energy, n) && holds(status, n) && holds(indices, n * n_nonzero) &&
                   holds(values, n * n_nonzero),
               "an output is too short");
        expect_double(careful);
        expect(!masked || squares_, "prepare_masks must come before masked signals");
        const Limits limits = {n_nonzero, tol,    alpha,   find_pursuit(pursuit), find_method(gram_free, careful),
                               narrow,    masked, positive};
        const Codes<T> codes = {counts.data(), indices.data(), values.data(), energy.data(), status.data()};
        void *scratch = workspace.reserve(kernels_.encode_scratch(d_, limits));
        nb::gil_scoped_release released;
        return kernels_.encode(d_, limits, n, static_cast<index_t>(rows.laid.size()), rows.laid.data(), stop.data(),
                               scratch, codes);
    }

    // Views that share atoms but not coefficients; `plans` holds one plan per view.
    static index_t encode_support(const std::vector<const Plan *> &plans, const nb::list &views,
                                  const std::vector<double> &scales, index_t n_nonzero, double tol, bool positive,
                                  bool careful, bool narrow, Workspace &workspace, const Out<const int> &stop,
                                  const Out<std::int32_t> &counts, const Out<std::int32_t> &indices,
                                  const std::vector<Out<T>> &values, const Out<double> &energy,
                                  const Out<std::uint8_t> &status) {
        const Rows rows(views, scales);
        expect(plans.size() == views.size() && values.size() == views.size(),
               "expected one plan and one output for each view");
        std::vector<Dictionary<T>> dictionaries;
        std::vector<T *> outputs;
        for (std::size_t v = 0; v < plans.size(); ++v) {
            dictionaries.push_back(plans[v]->d_);
            expect(rows.laid[v].n_features == dictionaries[v].n_features, "views and dictionary differ in features");
            expect(dictionaries[v].n_atoms == dictionaries[0].n_atoms, "plans differ in atoms");
            expect(n_nonzero >= 1 && n_nonzero <= std::min(dictionaries[v].n_atoms, dictionaries[v].n_features),
                   "n_nonzero out of range");
            expect(static_cast<index_t>(values[v].size()) >= rows.n * n_nonzero, "an output is too short");
            outputs.push_back(values[v].data());
        }
        const auto holds = [](const auto &array, index_t size) { return static_cast<index_t>(array.size()) >= size; };
        expect(stop.size() == 1 && holds(counts, rows.n) && holds(energy, rows.n) && holds(status, rows.n) &&
                   holds(indices, rows.n * n_nonzero),
               "an output is too short");
        expect_double(careful);
        const Limits limits = {n_nonzero, tol, 0, kOmp, find_method(false, careful), narrow, false, positive};
        const Codes<T> codes = {counts.data(), indices.data(), nullptr, energy.data(), status.data()};
        const Kernels<T> &kernels = plans[0]->kernels_;
        const index_t n_views = static_cast<index_t>(plans.size());
        void *scratch = workspace.reserve(kernels.encode_support_scratch(n_views, dictionaries.data(), limits));
        nb::gil_scoped_release released;
        return kernels.encode_support(n_views, dictionaries.data(), limits, rows.n, rows.laid.data(), stop.data(),
                                      scratch, codes, outputs.data());
    }

    index_t n_atoms() const { return d_.n_atoms; }
    index_t n_features() const { return d_.n_features; }
    bool has_gram() const { return d_.gram != nullptr; }

  private:
    static Pursuit find_pursuit(const std::string &name) {
        expect(name == "omp" || name == "ols" || name == "lasso", "pursuit must be 'omp', 'ols' or 'lasso'");
        return name == "omp" ? kOmp : name == "ols" ? kOls : kLasso;
    }
    static Method find_method(bool gram_free, bool careful) {
        return careful ? kCareful : gram_free ? kGramFree : kGram;
    }
    static void expect_double(bool careful) {
        expect(!careful || sizeof(T) == 8, "the careful method is for float64 only");
    }

    const Kernels<T> &kernels_;
    Dictionary<T> d_;
    Buffer<T> panels_, gram_, squares_, rows_;
    Buffer<double> norms_;
};

// The layout of atoms and views in joint rows; the caller keeps its arrays alive.
struct LayoutArgument {
    Layout layout;

    LayoutArgument(const Out<const index_t> &starts, const Out<const double> &weights, const Out<const bool> &positive,
                   bool joint, index_t n_fixed, index_t n_atoms, index_t n_features) {
        const auto n_views = static_cast<index_t>(weights.size());
        expect(n_views > 0 && static_cast<index_t>(starts.size()) == n_views + 1 && starts(0) == 0 &&
                   starts(static_cast<std::size_t>(n_views)) == n_features &&
                   std::is_sorted(starts.data(), starts.data() + n_views + 1),
               "starts do not fit the atoms");
        expect(positive.size() == weights.size(), "expected one sign for each view");
        expect(n_fixed >= 0 && n_fixed <= n_atoms, "n_fixed out of range");
        layout = {n_views, starts.data(), weights.data(), positive.data(), joint, n_atoms, n_features, n_fixed};
    }
};

// Throws unless the codes fit their samples and atoms.
void expect_codes(index_t n, const Out<const std::int32_t> &counts, const Out<const std::int32_t> &indices,
                  std::size_t n_values, index_t n_atoms) {
    const std::int32_t *count = counts.data();
    index_t total = 0;
    std::int32_t least = 0;
    expect(static_cast<index_t>(counts.size()) == n && indices.size() == n_values, "codes do not fit");
    for (index_t i = 0; i < n; ++i) {
        total += count[i];
        least = std::min(least, count[i]);
    }
    expect(least == 0 && total == static_cast<index_t>(indices.size()), "counts and indices do not fit");
    expect(in_range(indices.data(), total, n_atoms), "indices out of range");
}

template <class T>
void accumulate(const nb::list &views, const Out<const std::int32_t> &counts, const Out<const std::int32_t> &indices,
                const Out<const T> &values, const Table<T> &a, const Table<T> &b, const Out<index_t> &uses,
                Workspace &workspace, const std::string &level) {
    const ViewRows<T> rows(views, std::vector<double>(views.size(), 1.0));
    const auto n_atoms = static_cast<index_t>(a.shape(0));
    expect(static_cast<index_t>(a.shape(1)) == n_atoms && static_cast<index_t>(b.shape(0)) == n_atoms &&
               static_cast<index_t>(b.shape(1)) == rows.n_features && static_cast<index_t>(uses.size()) == n_atoms,
           "sums do not fit the atoms and features");
    expect_codes(rows.n, counts, indices, values.size(), n_atoms);
    T *x = static_cast<T *>(workspace.reserve(rows.n_features * static_cast<index_t>(sizeof(T))));
    nb::gil_scoped_release released;
    kernels_of<T>(level).accumulate(rows.n, static_cast<index_t>(rows.laid.size()), rows.laid.data(), counts.data(),
                                    indices.data(), values.data(), n_atoms, rows.n_features, x, a.data(), b.data(),
                                    uses.data());
}

// One view with missing entries, as the kernels take it.
template <class T>
View<T> view_of(const Matrix<T> &view) {
    return {view.data(), view.stride(0), view.stride(1), static_cast<index_t>(view.shape(1)), T(1)};
}

template <class T>
void fill_missing(const Matrix<T> &view, const Out<const std::int32_t> &counts, const Out<const std::int32_t> &indices,
                  const Out<const T> &values, const Table<const T> &atoms, const Table<T> &filled,
                  const std::string &level) {
    const auto n = static_cast<index_t>(view.shape(0)), width = static_cast<index_t>(view.shape(1));
    expect(static_cast<index_t>(filled.shape(0)) == n && static_cast<index_t>(filled.shape(1)) == width &&
               static_cast<index_t>(atoms.shape(1)) == width,
           "outputs and atoms do not fit the view");
    expect_codes(n, counts, indices, values.size(), static_cast<index_t>(atoms.shape(0)));
    const View<T> own = view_of(view);
    const Buffer<T> row = aligned_buffer<T>(width);
    nb::gil_scoped_release released;
    kernels_of<T>(level).fill_missing(n, own, counts.data(), indices.data(), values.data(), atoms.data(), row.get(),
                                      filled.data());
}

template <class T>
void accumulate_known(const Matrix<T> &view, const Out<const std::int32_t> &counts,
                      const Out<const std::int32_t> &indices, const Out<const T> &values, const Table<T> &sums,
                      const std::string &level) {
    const auto n = static_cast<index_t>(view.shape(0)), width = static_cast<index_t>(view.shape(1));
    expect(static_cast<index_t>(sums.shape(1)) == width, "sums do not fit the view");
    expect_codes(n, counts, indices, values.size(), static_cast<index_t>(sums.shape(0)));
    const View<T> own = view_of(view);
    const Buffer<T> row = aligned_buffer<T>(width);
    nb::gil_scoped_release released;
    kernels_of<T>(level).accumulate_known(n, own, counts.data(), indices.data(), values.data(), row.get(), sums.data());
}

void sweep(const Out<const index_t> &starts, const Out<const double> &weights, const Out<const bool> &positive,
           bool joint, index_t n_fixed, index_t first, index_t last, const Table<const double> &a,
           const Table<const double> &b, const Table<double> &atoms, const std::string &level) {
    const auto n_atoms = static_cast<index_t>(atoms.shape(0)), n_features = static_cast<index_t>(atoms.shape(1));
    const LayoutArgument layout(starts, weights, positive, joint, n_fixed, n_atoms, n_features);
    expect(static_cast<index_t>(a.shape(0)) == n_atoms && static_cast<index_t>(a.shape(1)) == n_atoms &&
               static_cast<index_t>(b.shape(0)) == n_atoms && static_cast<index_t>(b.shape(1)) == n_features,
           "sums do not fit the atoms");
    expect(0 <= first && first <= last && last <= n_atoms, "atoms out of range");
    const Buffer<double> fresh = aligned_buffer<double>(n_features);
    nb::gil_scoped_release released;
    kernels_of<double>(level).sweep(layout.layout, first, last, a.data(), b.data(), fresh.get(), atoms.data());
}

template <class T>
void sequential(const Out<const index_t> &starts, const Out<const double> &weights, const Out<const bool> &positive,
                bool joint, index_t n_fixed, index_t first, index_t last, bool mean, bool frozen, bool positive_code,
                const Out<const index_t> &column_starts, const Out<const std::int32_t> &samples, const Out<T> &values,
                const Table<T> &residual, const Table<T> &atoms, const std::string &level) {
    const auto n_atoms = static_cast<index_t>(atoms.shape(0)), n_features = static_cast<index_t>(atoms.shape(1));
    const auto n_samples = static_cast<index_t>(residual.shape(0));
    const LayoutArgument layout(starts, weights, positive, joint, n_fixed, n_atoms, n_features);
    expect(static_cast<index_t>(residual.shape(1)) == n_features, "residual does not fit the atoms");
    expect(0 <= first && first <= last && last <= n_atoms, "atoms out of range");
    expect(static_cast<index_t>(column_starts.size()) == n_atoms + 1 && samples.size() == values.size() &&
               column_starts(0) == 0 &&
               column_starts(static_cast<std::size_t>(n_atoms)) == static_cast<index_t>(samples.size()) &&
               std::is_sorted(column_starts.data(), column_starts.data() + n_atoms + 1),
           "codes do not fit the atoms");
    const Buffer<T> scratch = aligned_buffer<T>(3 * n_features);
    nb::gil_scoped_release released;
    // Only those that this call reads: a sweep is many calls.
    const index_t begin = column_starts.data()[first], end = column_starts.data()[last];
    expect(in_range(samples.data() + begin, end - begin, n_samples), "samples out of range");
    const Columns<T> codes = {column_starts.data(), samples.data(), values.data()};
    kernels_of<T>(level).sequential(layout.layout, first, last, n_samples, mean, frozen, positive_code, codes,
                                    scratch.get(), residual.data(), atoms.data());
}

// Copies the rows with these numbers, and converts them.
template <class From, class To>
void gather(const nb::ndarray<const From, nb::ndim<2>, nb::device::cpu> &view, const Out<const index_t> &rows,
            const Table<To> &out) {
    const auto n = static_cast<index_t>(rows.size()), width = static_cast<index_t>(view.shape(1));
    expect(static_cast<index_t>(out.shape(0)) == n && static_cast<index_t>(out.shape(1)) == width,
           "the output does not fit the rows");
    const index_t *numbers = rows.data();
    const index_t last = static_cast<index_t>(view.shape(0)) - 1, row_stride = view.stride(0);
    expect(std::all_of(numbers, numbers + n, [=](index_t i) { return i >= 0 && i <= last; }), "rows out of range");
    const index_t column_stride = view.stride(1);
    nb::gil_scoped_release released;
    constexpr index_t ahead = 4;  // rows are far apart, so the processor is told early which ones will be read
    for (index_t i = 0; i < n; ++i) {
        const From *in = view.data() + numbers[i] * row_stride;
        const From *later = view.data() + numbers[std::min(i + ahead, n - 1)] * row_stride;
        To *row = out.data() + i * width;
        if (column_stride == 1) {
            for (index_t f = 0; f < width; f += 64 / static_cast<index_t>(sizeof(From))) prefetch(later + f);
            for (index_t f = 0; f < width; ++f) row[f] = static_cast<To>(in[f]);
        } else {
            for (index_t f = 0; f < width; ++f) row[f] = static_cast<To>(in[f * column_stride]);
        }
    }
}

template <class From, class To>
void bind_gather(nb::module_ &m) {
    m.def("gather", &gather<From, To>, nb::arg("view").noconvert(), nb::arg("rows").noconvert(),
          nb::arg("out").noconvert());
}

template <class T>
void bind_plan(nb::module_ &m, const char *name) {
    nb::class_<Plan<T>>(m, name)
        .def(nb::init<const nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu> &,
                      const nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu> &,
                      const std::string &>(),
             nb::arg("atoms").noconvert(), nb::arg("norms").noconvert(), "level"_a)
        .def("allocate_gram", &Plan<T>::allocate_gram)
        .def("prepare_masks", &Plan<T>::prepare_masks, nb::arg("atoms").noconvert())
        .def("fill_gram", &Plan<T>::fill_gram, "start"_a, "stop"_a, "workspace"_a)
        .def("encode", &Plan<T>::encode, "views"_a, "scales"_a, nb::kw_only(), "n_nonzero"_a, "tol"_a, "pursuit"_a,
             "alpha"_a, "positive"_a, "gram_free"_a, "careful"_a, "narrow"_a, "masked"_a, "workspace"_a,
             nb::arg("stop").noconvert(), nb::arg("counts").noconvert(), nb::arg("indices").noconvert(),
             nb::arg("values").noconvert(), nb::arg("energy").noconvert(), nb::arg("status").noconvert())
        .def_static("encode_support", &Plan<T>::encode_support, "plans"_a, "views"_a, "scales"_a, nb::kw_only(),
                    "n_nonzero"_a, "tol"_a, "positive"_a, "careful"_a, "narrow"_a, "workspace"_a,
                    nb::arg("stop").noconvert(), nb::arg("counts").noconvert(), nb::arg("indices").noconvert(),
                    nb::arg("values").noconvert(), nb::arg("energy").noconvert(), nb::arg("status").noconvert())
        .def_prop_ro("n_atoms", &Plan<T>::n_atoms)
        .def_prop_ro("n_features", &Plan<T>::n_features)
        .def_prop_ro("has_gram", &Plan<T>::has_gram);
    m.def("accumulate", &accumulate<T>, "views"_a, nb::arg("counts").noconvert(), nb::arg("indices").noconvert(),
          nb::arg("values").noconvert(), nb::arg("a").noconvert(), nb::arg("b").noconvert(),
          nb::arg("uses").noconvert(), "workspace"_a, "level"_a);
    m.def("fill_missing", &fill_missing<T>, nb::arg("view").noconvert(), nb::arg("counts").noconvert(),
          nb::arg("indices").noconvert(), nb::arg("values").noconvert(), nb::arg("atoms").noconvert(),
          nb::arg("filled").noconvert(), "level"_a);
    m.def("accumulate_known", &accumulate_known<T>, nb::arg("view").noconvert(), nb::arg("counts").noconvert(),
          nb::arg("indices").noconvert(), nb::arg("values").noconvert(), nb::arg("sums").noconvert(), "level"_a);
    m.def("sequential", &sequential<T>, nb::arg("starts").noconvert(), nb::arg("weights").noconvert(),
          nb::arg("positive").noconvert(), "joint"_a, "n_fixed"_a, "first"_a, "last"_a, "mean"_a, "frozen"_a,
          "positive_code"_a, nb::arg("column_starts").noconvert(), nb::arg("samples").noconvert(),
          nb::arg("values").noconvert(), nb::arg("residual").noconvert(), nb::arg("atoms").noconvert(), "level"_a);
}

}  // namespace
}  // namespace coupledict

NB_MODULE(_native, m) {
    using namespace coupledict;
    m.doc() = "Compiled kernels of coupledict. Private: use coupledict.sparse_encode.";
    nb::class_<Workspace>(m, "Workspace").def(nb::init<>());
    bind_plan<float>(m, "Plan32");
    bind_plan<double>(m, "Plan64");
    bind_gather<float, float>(m);
    bind_gather<double, double>(m);
    bind_gather<double, float>(m);
    m.def("sweep", &sweep, nb::arg("starts").noconvert(), nb::arg("weights").noconvert(),
          nb::arg("positive").noconvert(), "joint"_a, "n_fixed"_a, "first"_a, "last"_a, nb::arg("a").noconvert(),
          nb::arg("b").noconvert(), nb::arg("atoms").noconvert(), "level"_a);
    m.def("levels", [] {
        std::vector<std::string> names;
        for (const Level *level : available_levels()) names.emplace_back(level->name);
        return names;
    });
    // The processor that the calling thread runs on, or -1 where the system does not tell.
    m.def("current_cpu", [] {
#if defined(__linux__)
        return sched_getcpu();
#else
        return -1;
#endif
    });
    m.attr("compiler") = COUPLEDICT_COMPILER;
    const std::pair<const char *, Status> statuses[] = {
        {"LIMIT", kLimit},         {"TOLERANCE", kTolerance}, {"EXHAUSTED", kExhausted},
        {"DEPENDENT", kDependent}, {"ZERO", kZero},           {"DOUBTFUL", kDoubtful},
        {"UNKNOWN", kUnknown},     {"FULL", kFull},           {"NOT_FINITE", kNotFinite},
        {"OVERFLOW", kOverflow}};
    for (const auto &[name, value] : statuses) m.attr(name) = static_cast<int>(value);
}
