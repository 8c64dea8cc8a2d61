// What GCC and Clang have beyond the standard, and the same in plain C++ for other compilers.
//
// COUPLEDICT_PLAIN_VECTORS asks for plain C++ whatever the compiler, so that it can be tested everywhere (`make
// plain`). Nothing here is a function of the standard library that headers define: see simd.h. All of it is in a
// namespace without a name, so that each file has functions of its own instruction set.
#pragma once
#include <cstdint>
#include <limits>

#if !defined(__GNUC__) && !defined(__clang__) && !defined(COUPLEDICT_PLAIN_VECTORS)
#define COUPLEDICT_PLAIN_VECTORS 1
#endif
#if defined(COUPLEDICT_PLAIN_VECTORS)
#include <math.h>
#if defined(_MSC_VER) && !defined(__clang__)
#pragma fp_contract(off)  // see cmake/flags.cmake; before Visual Studio 2022, /fp:precise contracts
#endif
#endif

namespace coupledict {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

#if !defined(COUPLEDICT_PLAIN_VECTORS)

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

#else

// Arguments have the exact type of the functions of C: overloads of C++ are inline, and would be shared.
inline float square_root(float x) { return ::sqrtf(x); }
inline double square_root(double x) { return ::sqrt(x); }
inline double fabs(double x) { return ::fabs(x); }
inline double ldexp(double x, int exponent) { return ::ldexp(x, exponent); }
inline double frexp(double x, int *exponent) { return ::frexp(x, exponent); }
inline int ilogb(double x) { return ::ilogb(x); }
template <class T>
inline bool is_finite(T x) {
    return x - x == 0;
}
inline int lowest_bit(std::uint64_t bits) {
    int place = 0;
    for (int half = 32; half > 0; half /= 2)
        if ((bits & ((std::uint64_t(1) << half) - 1)) == 0) bits >>= half, place += half;
    return place;
}
inline int lowest_bit(unsigned bits) { return lowest_bit(std::uint64_t(bits)); }
template <class T>
inline void hide_origin(const T *&) {}
inline void prefetch(const void *) {}
inline bool is_raised(const int *flag) { return *static_cast<const volatile int *>(flag) != 0; }

#endif

}  // namespace
}  // namespace coupledict
