// What GCC and Clang have beyond the standard, vectors aside.
//
// Nothing here is a function of the standard library that headers define: see simd.h. All of it is in a namespace
// without a name, so that each file has functions of its own instruction set.
#pragma once
#include <cstdint>
#include <limits>

namespace coupledict {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

inline float square_root(float x) { return __builtin_sqrtf(x); }
inline double square_root(double x) { return __builtin_sqrt(x); }
inline double fabs(double x) { return __builtin_fabs(x); }
inline double ldexp(double x, int exponent) { return __builtin_ldexp(x, exponent); }
inline double frexp(double x, int *exponent) { return __builtin_frexp(x, exponent); }
inline int ilogb(double x) { return __builtin_ilogb(x); }
template <class T>
inline bool is_finite(T x) {
    return __builtin_isfinite(x);
}
// The place of the lowest bit that is set; there is one.
inline int lowest_bit(unsigned bits) { return __builtin_ctz(bits); }
inline int lowest_bit(std::uint64_t bits) { return __builtin_ctzll(bits); }
// Hides where a pointer comes from.
template <class T>
inline void hide_origin(const T *&p) {
    __asm__("" : "+r"(p));
}
inline void prefetch(const void *p) { __builtin_prefetch(p); }
// Whether another thread has raised a flag.
inline bool is_raised(const int *flag) { return __atomic_load_n(flag, __ATOMIC_RELAXED) != 0; }

}  // namespace
}  // namespace coupledict
