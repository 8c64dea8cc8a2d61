// The vectors of the instruction set this file is compiled for.
//
// Everything here lives in a namespace named after the instruction set and uses no function of the standard library:
// otherwise the linker could keep the AVX-512 copy of a shared inline function, also for machines without AVX-512.
#pragma once
#include <cstdint>
#include <type_traits>
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "kernels.h"

namespace coupledict::COUPLEDICT_LEVEL {
namespace {

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
constexpr int kTileRows = 6;      // signals in one tile of the matrix product: 6 x 4 accumulators of 32 registers
constexpr int kTileVectors = 4;   // vectors in one panel
constexpr int kBlockVectors = 8;  // vectors in one column block of the pursuit
#elif defined(__AVX2__)
constexpr int kVectorBytes = 32;
constexpr int kTileRows = 6;  // 6 x 2 of 16 registers
constexpr int kTileVectors = 2;
constexpr int kBlockVectors = 8;
#elif defined(__aarch64__)
constexpr int kVectorBytes = 16;
constexpr int kTileRows = 5;  // 5 x 4 of 32 registers: with a sixth row GCC keeps sums on the stack
constexpr int kTileVectors = 4;
constexpr int kBlockVectors = 8;
#else
constexpr int kVectorBytes = 16;
constexpr int kTileRows = 4;
constexpr int kTileVectors = 2;
constexpr int kBlockVectors = 4;
#endif

template <class T>
struct Simd;
template <>
struct Simd<float> {
    typedef float vec __attribute__((vector_size(kVectorBytes), may_alias));
    typedef std::int32_t ivec __attribute__((vector_size(kVectorBytes), may_alias));
    static constexpr std::int32_t magnitude = 0x7fffffff;
};
template <>
struct Simd<double> {
    typedef double vec __attribute__((vector_size(kVectorBytes), may_alias));
    typedef std::int64_t ivec __attribute__((vector_size(kVectorBytes), may_alias));
    static constexpr std::int64_t magnitude = 0x7fffffffffffffff;
};
template <class T>
using vec = typename Simd<T>::vec;
template <class T>
using ivec = typename Simd<T>::ivec;
template <class T>
constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(T));
template <class T>
constexpr int kPanelWidth = kTileVectors * kLanes<T>;
template <class T>
constexpr int kBlockWidth = kBlockVectors * kLanes<T>;

template <class T>
inline vec<T> load(const T *p) {
    return *reinterpret_cast<const vec<T> *>(p);
}
template <class T>
inline void store(T *p, vec<T> v) {
    *reinterpret_cast<vec<T> *>(p) = v;
}
template <class T>
inline vec<T> splat(T x) {
    return x - vec<T>{};
}
template <class T>
inline vec<T> absolute(vec<T> v) {
    return (vec<T>)((ivec<T>)v & Simd<T>::magnitude);
}
template <class T>
inline ivec<T> splat_index(index_t i) {
    return static_cast<std::remove_const_t<decltype(Simd<T>::magnitude)>>(i) - ivec<T>{};
}
inline float square_root(float x) { return __builtin_sqrtf(x); }
inline double square_root(double x) { return __builtin_sqrt(x); }

// 1 over the square roots; the loop becomes vector instructions.
template <class T>
inline vec<T> inverse_root(vec<T> v) {
    T lanes[kLanes<T>];
    for (int i = 0; i < kLanes<T>; ++i) lanes[i] = T(1) / square_root(v[i]);
    vec<T> out;
    for (int i = 0; i < kLanes<T>; ++i) out[i] = lanes[i];
    return out;
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
