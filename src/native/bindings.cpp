// The only file that depends on Python. Arrays must have the exact number type; nothing is converted or copied here.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#if defined(__linux__)
#include <sched.h>
#endif

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "dispatch.h"
#include "plan.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace coupledict {
namespace {

// No object here has a lock, for none needs a GIL either: a workspace belongs to one call at a time, a plan is only
// read once it is complete, and there is no state besides.

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
    std::vector<View<T>> views;
    index_t n = -1, n_features = 0;

    ViewRows(const nb::list &arrays, const std::vector<double> &scales) {
        expect(arrays.size() == scales.size() && arrays.size() > 0, "expected one scale for each view");
        for (std::size_t v = 0; v < arrays.size(); ++v) {
            const auto view = nb::cast<Matrix<T>>(arrays[v], false);
            views.push_back({view.data(), view.stride(0), view.stride(1), static_cast<index_t>(view.shape(1)),
                             static_cast<T>(scales[v])});
            expect(n < 0 || n == static_cast<index_t>(view.shape(0)), "views differ in samples");
            n = static_cast<index_t>(view.shape(0));
            n_features += views.back().n_features;
        }
    }
};

// How to code, in the words of Python.
struct CodingSettings {
    Settings settings = {};
    index_t room;

    CodingSettings(index_t n_nonzero, index_t first_room, double tol, const std::string &pursuit, double alpha,
                   bool positive, const std::string &method)
        : room(first_room) {
        expect(pursuit == "omp" || pursuit == "ols" || pursuit == "lasso", "pursuit must be 'omp', 'ols' or 'lasso'");
        expect(method == "gram" || method == "gram_free" || method == "careful",
               "method must be 'gram', 'gram_free' or 'careful'");
        expect(room >= 1 && room <= n_nonzero, "room out of range");
        settings.n_nonzero = n_nonzero;
        settings.tol = tol;
        settings.alpha = alpha;
        settings.pursuit = pursuit == "omp" ? kOmp : pursuit == "ols" ? kOls : kLasso;
        settings.method = method == "gram" ? kGram : method == "gram_free" ? kGramFree : kCareful;
        settings.positive = positive;
    }
};

// Packs dictionaries that come as a list of pairs: atoms of unit norm, and their norms before.
template <class T>
PackedDictionaries<T> pack_dictionaries(const nb::list &pairs, const std::string &level, bool masked) {
    PackedDictionaries<T> packed(kernels_of<T>(level), masked);
    for (const nb::handle pair : pairs) {
        const auto atoms = nb::cast<Table<const T>>(pair[0], false);
        const auto norms = nb::cast<Out<const double>>(pair[1], false);
        const auto n_atoms = static_cast<index_t>(atoms.shape(0)), n_features = static_cast<index_t>(atoms.shape(1));
        expect(n_atoms > 0 && n_features > 0, "atoms must not be empty");
        expect(static_cast<index_t>(norms.shape(0)) == n_atoms, "norms and atoms differ in length");
        expect(packed.size() == 0 || packed[0].n_atoms == n_atoms, "dictionaries differ in atoms");
        packed.add(n_atoms, n_features, atoms.data(), norms.data());
    }
    expect(packed.size() == 1 || (packed.size() > 1 && !masked), "expected one dictionary for masked signals");
    return packed;
}

template <class T>
void make_plan(Plan<T> *plan, const nb::list &dictionaries, std::vector<double> scales, const std::string &level,
               bool masked, const nb::callable &make_precise) {
    PackedDictionaries<T> packed = pack_dictionaries<T>(dictionaries, level, masked);
    expect(scales.size() > 0 && (packed.size() == 1 || packed.size() == scales.size()),
           "expected one scale for each view");
    new (plan) Plan<T>(std::move(packed), std::move(scales), [make_precise, level, masked] {
        nb::gil_scoped_acquire acquired;
        return pack_dictionaries<double>(nb::cast<nb::list>(make_precise()), level, masked);
    });
}

template <class T>
void fill_gram(Plan<T> &plan, index_t dictionary, index_t start, index_t stop, Workspace &workspace) {
    const PackedDictionaries<T> &packed = plan.dictionaries();
    expect(dictionary >= 0 && dictionary < static_cast<index_t>(packed.size()), "no such dictionary");
    const Dictionary<T> &d = packed[static_cast<std::size_t>(dictionary)];
    expect(d.gram && 0 <= start && start <= stop && stop <= d.n_atoms, "rows out of range");
    nb::gil_scoped_release released;
    packed.fill_gram(static_cast<std::size_t>(dictionary), start, stop, workspace);
}

// Hands an array over to Python.
template <class T>
nb::object as_array(Buffer<T> buffer, index_t size) {
    T *data = buffer.get();
    nb::capsule owner(data, [](void *p) noexcept { Free()(p); });
    buffer.release();
    return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(data, {static_cast<std::size_t>(size)}, owner));
}

// Returns counts, indices, and a list of values for each dictionary.
template <class T>
nb::tuple encode(const Plan<T> &plan, const nb::list &views, const CodingSettings &how, Workspace &workspace,
                 const Out<const int> &stop, const Out<double> &energy, const Out<std::uint8_t> &status) {
    const PackedDictionaries<T> &packed = plan.dictionaries();
    const ViewRows<T> rows(views, plan.scales());
    const Settings &settings = how.settings;
    for (std::size_t i = 0; i < packed.size(); ++i) {
        const index_t n_features = packed[i].n_features, most = std::min(packed[i].n_atoms, n_features);
        expect(n_features == (packed.size() == 1 ? rows.n_features : rows.views[i].n_features),
               "views and dictionary differ in features");
        expect(settings.n_nonzero <= most && (settings.pursuit != kLasso || settings.n_nonzero == most),
               "n_nonzero out of range");
    }
    expect(packed.size() == 1 || settings.pursuit == kOmp, "views that share their atoms alone are coded by 'omp'");
    expect(stop.size() == 1, "stop must hold one number");
    expect(static_cast<index_t>(energy.size()) >= rows.n && static_cast<index_t>(status.size()) >= rows.n,
           "an output is too short");
    const Chunk<T> chunk = {rows.n, rows.views, stop.data(), energy.data(), status.data()};
    ChunkCodes<T> codes = [&] {
        nb::gil_scoped_release released;
        return plan.encode(chunk, settings, how.room, workspace);
    }();
    nb::list values;
    for (Buffer<T> &own : codes.values) values.append(as_array(std::move(own), codes.n_nonzeros));
    return nb::make_tuple(as_array(std::move(codes.counts), rows.n),
                          as_array(std::move(codes.indices), codes.n_nonzeros), values);
}

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
    kernels_of<T>(level).accumulate(rows.n, static_cast<index_t>(rows.views.size()), rows.views.data(), counts.data(),
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
        .def("__init__", &make_plan<T>, "dictionaries"_a, "scales"_a, "level"_a, "masked"_a, "make_precise"_a)
        .def("allocate_gram", [](Plan<T> &plan) { plan.dictionaries().allocate_gram(); })
        .def("fill_gram", &fill_gram<T>, "dictionary"_a, "start"_a, "stop"_a, "workspace"_a)
        .def("encode", &encode<T>, "views"_a, "settings"_a, "workspace"_a, nb::arg("stop").noconvert(),
             nb::arg("energy").noconvert(), nb::arg("status").noconvert())
        .def_prop_ro("has_gram", [](const Plan<T> &plan) { return plan.dictionaries()[0].gram != nullptr; })
        .def_prop_ro("n_retried", &Plan<T>::n_retried);
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
    nb::class_<CodingSettings>(m, "Settings")
        .def(nb::init<index_t, index_t, double, const std::string &, double, bool, const std::string &>(),
             nb::kw_only(), "n_nonzero"_a, "room"_a, "tol"_a, "pursuit"_a, "alpha"_a, "positive"_a, "method"_a);
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
