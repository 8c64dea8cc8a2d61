// The only file that knows Python. Arrays must come with the exact number type; nothing is converted or copied here.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#if defined(__linux__)
#include <sched.h>
#endif

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>
#include <stdexcept>

#include "dispatch.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace coupledict {
namespace {

struct Free {
    void operator()(void *p) const { std::free(p); }
};
template <class T>
using Buffer = std::unique_ptr<T[], Free>;

template <class T>
Buffer<T> aligned_buffer(index_t count) {
    constexpr std::size_t alignment = 64;
    const std::size_t bytes =
        (static_cast<std::size_t>(std::max<index_t>(count, 1)) * sizeof(T) + alignment - 1) / alignment * alignment;
    void *p = std::aligned_alloc(alignment, bytes);
    if (!p) throw std::bad_alloc();
    return Buffer<T>(static_cast<T *>(p));
}

// Scratch of one thread, kept between chunks.
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
using Out = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void expect(bool condition, const char *message) {
    if (!condition) throw std::invalid_argument(message);
}

// A dictionary ready for coding: atoms packed for one instruction set, and their Gram matrix if wanted.
template <class T>
class Plan {
  public:
    Plan(const nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu> &atoms,
         const nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu> &norms, const std::string &level)
        : kernels_(kernels_of(find_level(level))) {
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
        d_.ordinary_norms = std::all_of(norms_.get(), norms_.get() + d_.n_atoms,
                                        [](double x) { return x == 0 || (x > 1e-30 && x < 1e30); });
    }

    // Makes room for the Gram matrix; fill_gram must write all of its rows before the next encode.
    void allocate_gram() {
        gram_ = aligned_buffer<T>(d_.n_atoms * d_.stride);
        d_.gram = gram_.get();
    }
    void fill_gram(index_t start, index_t stop, Workspace &workspace) {
        expect(gram_ && 0 <= start && start <= stop && stop <= d_.n_atoms, "rows out of range");
        void *scratch = workspace.reserve(kernels_.gram_scratch(d_));
        nb::gil_scoped_release released;
        kernels_.gram_rows(d_, start, stop, scratch, gram_.get() + start * d_.stride);
    }

    index_t encode(const nb::list &views, const std::vector<double> &scales, index_t n_nonzero, double tol, bool ols,
                   bool gram_free, Workspace &workspace, const Out<const int> &stop, const Out<std::int32_t> &counts,
                   const Out<std::int32_t> &indices, const Out<T> &values, const Out<double> &energy,
                   const Out<std::uint8_t> &status) const {
        expect(views.size() == scales.size() && views.size() > 0, "one scale a view is expected");
        std::vector<View<T>> laid;
        index_t n = -1, n_features = 0;
        for (std::size_t v = 0; v < views.size(); ++v) {
            const auto view = nb::cast<Matrix<T>>(views[v], false);
            laid.push_back({view.data(), view.stride(0), view.stride(1), static_cast<index_t>(view.shape(1)),
                            static_cast<T>(scales[v])});
            expect(n < 0 || n == static_cast<index_t>(view.shape(0)), "views differ in samples");
            n = static_cast<index_t>(view.shape(0));
            n_features += laid.back().n_features;
        }
        expect(n_features == d_.n_features, "views and dictionary differ in features");
        expect(n_nonzero >= 1 && n_nonzero <= std::min(d_.n_atoms, d_.n_features), "n_nonzero out of range");
        expect(stop.size() == 1, "stop must hold one number");
        const auto holds = [](const auto &array, index_t size) { return static_cast<index_t>(array.size()) >= size; };
        expect(holds(counts, n) && holds(energy, n) && holds(status, n) && holds(indices, n * n_nonzero) &&
                   holds(values, n * n_nonzero),
               "an output is too short");
        const Limits limits = {n_nonzero, tol, ols ? kOls : kOmp, gram_free ? kGramFree : kGram};
        const Codes<T> codes = {counts.data(), indices.data(), values.data(), energy.data(), status.data()};
        void *scratch = workspace.reserve(kernels_.encode_scratch(d_, limits));
        nb::gil_scoped_release released;
        return kernels_.encode(d_, limits, n, static_cast<index_t>(laid.size()), laid.data(), stop.data(), scratch,
                               codes);
    }

    index_t n_atoms() const { return d_.n_atoms; }
    index_t n_features() const { return d_.n_features; }
    bool has_gram() const { return d_.gram != nullptr; }

  private:
    static const Kernels<T> &kernels_of(const Level &level) {
        if constexpr (sizeof(T) == 4)
            return *level.f32;
        else
            return *level.f64;
    }

    const Kernels<T> &kernels_;
    Dictionary<T> d_;
    Buffer<T> panels_, gram_;
    Buffer<double> norms_;
};

template <class T>
void bind_plan(nb::module_ &m, const char *name) {
    nb::class_<Plan<T>>(m, name)
        .def(nb::init<const nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu> &,
                      const nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu> &,
                      const std::string &>(),
             nb::arg("atoms").noconvert(), nb::arg("norms").noconvert(), "level"_a)
        .def("allocate_gram", &Plan<T>::allocate_gram)
        .def("fill_gram", &Plan<T>::fill_gram, "start"_a, "stop"_a, "workspace"_a)
        .def("encode", &Plan<T>::encode, "views"_a, "scales"_a, nb::kw_only(), "n_nonzero"_a, "tol"_a, "ols"_a,
             "gram_free"_a, "workspace"_a, nb::arg("stop").noconvert(), nb::arg("counts").noconvert(),
             nb::arg("indices").noconvert(), nb::arg("values").noconvert(), nb::arg("energy").noconvert(),
             nb::arg("status").noconvert())
        .def_prop_ro("n_atoms", &Plan<T>::n_atoms)
        .def_prop_ro("n_features", &Plan<T>::n_features)
        .def_prop_ro("has_gram", &Plan<T>::has_gram);
}

}  // namespace
}  // namespace coupledict

NB_MODULE(_native, m) {
    using namespace coupledict;
    m.doc() = "Compiled kernels of coupledict. Private: use coupledict.sparse_encode.";
    nb::class_<Workspace>(m, "Workspace").def(nb::init<>());
    bind_plan<float>(m, "Plan32");
    bind_plan<double>(m, "Plan64");
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
    for (const auto &[name, value] : {std::pair{"LIMIT", kLimit},
                                      {"TOLERANCE", kTolerance},
                                      {"EXHAUSTED", kExhausted},
                                      {"DEPENDENT", kDependent},
                                      {"ZERO", kZero},
                                      {"NOT_FINITE", kNotFinite},
                                      {"OVERFLOW", kOverflow}})
        m.attr(name) = static_cast<int>(value);
}
