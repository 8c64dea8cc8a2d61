// Vectors as GCC and Clang have them, with instructions of the processor where these compilers have no operator.
#pragma once
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "width.h"

namespace coupledict::COUPLEDICT_LEVEL {
namespace {

template <class T>
struct Simd;
template <>
struct Simd<float> {
    typedef float vec __attribute__((vector_size(kVectorBytes), may_alias));
    typedef std::int32_t ivec __attribute__((vector_size(kVectorBytes), may_alias));
};
template <>
struct Simd<double> {
    typedef double vec __attribute__((vector_size(kVectorBytes), may_alias));
    typedef std::int64_t ivec __attribute__((vector_size(kVectorBytes), may_alias));
};
template <class T>
using vec = typename Simd<T>::vec;
template <class T>
using ivec = typename Simd<T>::ivec;

template <class T>
inline vec<T> load(const T *p) {
    return *reinterpret_cast<const vec<T> *>(p);
}
template <class T>
inline void store(T *p, vec<T> v) {
    *reinterpret_cast<vec<T> *>(p) = v;
}
template <class T>
inline void store_index(Index<T> *p, ivec<T> v) {
    *reinterpret_cast<ivec<T> *>(p) = v;
}
template <class T>
inline vec<T> splat(T x) {
    return x - vec<T>{};
}
template <class T>
inline vec<T> absolute(vec<T> v) {
    constexpr Index<T> magnitude = std::numeric_limits<Index<T>>::max();  // all bits but the sign
    return (vec<T>)((ivec<T>)v & magnitude);
}
template <class T>
inline ivec<T> splat_index(index_t i) {
    return static_cast<Index<T>>(i) - ivec<T>{};
}
// In each lane a where the comparison holds, else b.
template <class T, class Where>
inline vec<T> select(Where where, vec<T> a, vec<T> b) {
    return where ? a : b;
}
template <class T, class Where>
inline ivec<T> select(Where where, ivec<T> a, ivec<T> b) {
    return where ? a : b;
}

// Bit i is set where lane i of a equals lane i of b.
#if defined(__AVX512F__)
inline unsigned equal_lanes(vec<float> a, vec<float> b) { return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_EQ_OQ); }
inline unsigned equal_lanes(vec<double> a, vec<double> b) {
    return _mm512_cmp_pd_mask((__m512d)a, (__m512d)b, _CMP_EQ_OQ);
}
#elif defined(__AVX2__)
inline unsigned equal_lanes(vec<float> a, vec<float> b) {
    return static_cast<unsigned>(_mm256_movemask_ps((__m256)(a == b)));
}
inline unsigned equal_lanes(vec<double> a, vec<double> b) {
    return static_cast<unsigned>(_mm256_movemask_pd((__m256d)(a == b)));
}
#elif defined(__SSE2__)
inline unsigned equal_lanes(vec<float> a, vec<float> b) {
    return static_cast<unsigned>(_mm_movemask_ps((__m128)(a == b)));
}
inline unsigned equal_lanes(vec<double> a, vec<double> b) {
    return static_cast<unsigned>(_mm_movemask_pd((__m128d)(a == b)));
}
#elif defined(__aarch64__)
inline unsigned equal_lanes(vec<float> a, vec<float> b) {
    constexpr uint32x4_t bits = {1, 2, 4, 8};
    return vaddvq_u32(vandq_u32((uint32x4_t)(a == b), bits));
}
inline unsigned equal_lanes(vec<double> a, vec<double> b) {
    constexpr uint64x2_t bits = {1, 2};
    return static_cast<unsigned>(vaddvq_u64(vandq_u64((uint64x2_t)(a == b), bits)));
}
#else
template <class V>
inline unsigned equal_lanes(V a, V b) {
    unsigned mask = 0;
    for (unsigned i = 0; i < sizeof(V) / sizeof(a[0]); ++i) mask |= (a[i] == b[i] ? 1u : 0u) << i;
    return mask;
}
#endif

// The largest lane, by halves.
#if defined(__x86_64__)
inline float largest_lane(__m128 v) {
    v = _mm_max_ps(v, _mm_movehl_ps(v, v));
    return _mm_cvtss_f32(_mm_max_ss(v, _mm_shuffle_ps(v, v, 1)));
}
inline double largest_lane(__m128d v) { return _mm_cvtsd_f64(_mm_max_sd(v, _mm_unpackhi_pd(v, v))); }
#if defined(__AVX2__)
inline float largest_lane(__m256 v) {
    return largest_lane(_mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1)));
}
inline double largest_lane(__m256d v) {
    return largest_lane(_mm_max_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1)));
}
#endif
#if defined(__AVX512F__)
inline float largest_lane(__m512 v) {
    return largest_lane(_mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1)));
}
inline double largest_lane(__m512d v) {
    return largest_lane(_mm256_max_pd(_mm512_castpd512_pd256(v), _mm512_extractf64x4_pd(v, 1)));
}
#endif
#elif defined(__aarch64__)
inline float largest_lane(vec<float> v) { return vmaxnmvq_f32((float32x4_t)v); }
inline double largest_lane(vec<double> v) { return vmaxnmvq_f64((float64x2_t)v); }
#else
template <class V>
inline auto largest_lane(V v) {
    auto top = v[0];
    for (unsigned i = 1; i < sizeof(V) / sizeof(v[0]); ++i) top = v[i] > top ? v[i] : top;
    return top;
}
#endif

}  // namespace
}  // namespace coupledict::COUPLEDICT_LEVEL
