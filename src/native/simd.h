// The vectors of the instruction set this file is compiled for.
//
// Everything here lives in a namespace named after the instruction set and uses no function of the standard library:
// otherwise the linker could keep the AVX-512 copy of a shared inline function, also for machines without AVX-512.
#pragma once
#include "compiler.h"
#include "gnu_vectors.h"

namespace coupledict::COUPLEDICT_LEVEL {
namespace {

// 1 over the square roots; the loop becomes vector instructions.
template <class T>
inline vec<T> inverse_root(vec<T> v) {
    T lanes[kLanes<T>];
    for (int i = 0; i < kLanes<T>; ++i) lanes[i] = T(1) / square_root(v[i]);
    vec<T> out;
    for (int i = 0; i < kLanes<T>; ++i) out[i] = lanes[i];
    return out;
}

// Inner product with sixteen running sums: it vectorises, and the order of its sums is fixed.
template <class T>
T dot(index_t n, const T *x, const T *y) {
    constexpr int lanes = 16;
    T part[lanes] = {};
    index_t f = 0;
    for (; f + lanes <= n; f += lanes)
        for (int i = 0; i < lanes; ++i) part[i] += x[f + i] * y[f + i];
    for (int i = 0; f < n; ++f, ++i) part[i] += x[f] * y[f];
    for (int width = lanes / 2; width > 0; width /= 2)
        for (int i = 0; i < width; ++i) part[i] += part[i + width];
    return part[0];
}

inline index_t round_up(index_t n, index_t multiple) { return (n + multiple - 1) / multiple * multiple; }

// Hands out aligned pieces of one scratch buffer; with a null buffer it only counts, so that the same code gives the
// needed size and the layout.
class Arena {
  public:
    explicit Arena(void *buffer) : base_(static_cast<char *>(buffer)) {}
    template <class U>
    U *take(index_t count) {
        char *piece = base_ ? base_ + used_ : nullptr;
        used_ += round_up(count * static_cast<index_t>(sizeof(U)), 64);
        return reinterpret_cast<U *>(piece);
    }
    index_t used() const { return used_; }

  private:
    char *base_;
    index_t used_ = 0;
};

}  // namespace
}  // namespace coupledict::COUPLEDICT_LEVEL
