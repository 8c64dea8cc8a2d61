// Vectors as structs of numbers, for compilers that have no vectors of their own. How fast they are depends on what the
// compiler makes of loops over a few lanes; their results are those of the other vectors.
#pragma once
#include "width.h"

namespace coupledict::COUPLEDICT_LEVEL {
namespace {

template <class T, int N>
struct Lanes {
    T lanes[N];
    T &operator[](int i) { return lanes[i]; }
    const T &operator[](int i) const { return lanes[i]; }
};
template <class T>
using vec = Lanes<T, kLanes<T>>;
template <class T>
using ivec = Lanes<Index<T>, kLanes<T>>;

// The lanes of one or two vectors, one after the other.
template <class Out, class T, int N, class F>
inline Lanes<Out, N> each(const Lanes<T, N> &a, F f) {
    Lanes<Out, N> out;
    for (int i = 0; i < N; ++i) out[i] = f(a[i]);
    return out;
}
template <class Out, class T, int N, class F>
inline Lanes<Out, N> each(const Lanes<T, N> &a, const Lanes<T, N> &b, F f) {
    Lanes<Out, N> out;
    for (int i = 0; i < N; ++i) out[i] = f(a[i], b[i]);
    return out;
}

template <class T, int N>
inline Lanes<T, N> operator+(const Lanes<T, N> &a, const Lanes<T, N> &b) {
    return each<T>(a, b, [](T x, T y) { return x + y; });
}
template <class T, int N>
inline Lanes<T, N> operator-(const Lanes<T, N> &a, const Lanes<T, N> &b) {
    return each<T>(a, b, [](T x, T y) { return x - y; });
}
template <class T, int N>
inline Lanes<T, N> operator*(const Lanes<T, N> &a, const Lanes<T, N> &b) {
    return each<T>(a, b, [](T x, T y) { return x * y; });
}
template <class T, int N>
inline Lanes<T, N> operator/(const Lanes<T, N> &a, const Lanes<T, N> &b) {
    return each<T>(a, b, [](T x, T y) { return x / y; });
}
template <class T, int N>
inline Lanes<T, N> operator*(const Lanes<T, N> &a, T b) {
    return each<T>(a, [b](T x) { return x * b; });
}
template <class T, int N>
inline Lanes<T, N> operator*(T a, const Lanes<T, N> &b) {
    return b * a;
}
template <class T, int N>
inline Lanes<T, N> &operator+=(Lanes<T, N> &a, const Lanes<T, N> &b) {
    return a = a + b;
}
template <class T, int N>
inline Lanes<T, N> &operator-=(Lanes<T, N> &a, const Lanes<T, N> &b) {
    return a = a - b;
}
template <class T, int N, class Factor>
inline Lanes<T, N> &operator*=(Lanes<T, N> &a, const Factor &b) {
    return a = a * b;
}

// Comparisons give -1 in lanes where they hold, and 0 in the others.
template <class T, int N>
inline Lanes<Index<T>, N> operator<(const Lanes<T, N> &a, const Lanes<T, N> &b) {
    return each<Index<T>>(a, b, [](T x, T y) { return x < y ? Index<T>(-1) : Index<T>(0); });
}
template <class T, int N>
inline Lanes<Index<T>, N> operator>(const Lanes<T, N> &a, const Lanes<T, N> &b) {
    return b < a;
}
template <class T, int N>
inline Lanes<Index<T>, N> operator==(const Lanes<T, N> &a, const Lanes<T, N> &b) {
    return each<Index<T>>(a, b, [](T x, T y) { return x == y ? Index<T>(-1) : Index<T>(0); });
}
template <class T, int N>
inline Lanes<T, N> operator&(const Lanes<T, N> &a, const Lanes<T, N> &b) {
    return each<T>(a, b, [](T x, T y) { return x & y; });
}
template <class T, int N>
inline Lanes<T, N> operator|(const Lanes<T, N> &a, const Lanes<T, N> &b) {
    return each<T>(a, b, [](T x, T y) { return x | y; });
}
template <class T, class U, int N>
inline Lanes<U, N> select(const Lanes<Index<T>, N> &where, const Lanes<U, N> &a, const Lanes<U, N> &b) {
    Lanes<U, N> out;
    for (int i = 0; i < N; ++i) out[i] = where[i] ? a[i] : b[i];
    return out;
}

template <class T>
inline vec<T> load(const T *p) {
    vec<T> out;
    for (int i = 0; i < kLanes<T>; ++i) out[i] = p[i];
    return out;
}
template <class T>
inline void store(T *p, const vec<T> &v) {
    for (int i = 0; i < kLanes<T>; ++i) p[i] = v[i];
}
template <class T>
inline void store_index(Index<T> *p, const ivec<T> &v) {
    for (int i = 0; i < kLanes<T>; ++i) p[i] = v[i];
}
template <class T>
inline vec<T> splat(T x) {
    vec<T> out;
    for (int i = 0; i < kLanes<T>; ++i) out[i] = x;
    return out;
}
template <class T>
inline ivec<T> splat_index(index_t index) {
    ivec<T> out;
    for (int i = 0; i < kLanes<T>; ++i) out[i] = static_cast<Index<T>>(index);
    return out;
}
// The sign of 0 stays as it is: lanes are only compared.
template <class T>
inline vec<T> absolute(const vec<T> &v) {
    return each<T>(v, [](T x) { return x < 0 ? -x : x; });
}

// Bit i is set where lane i of a equals lane i of b.
template <class T, int N>
inline unsigned equal_lanes(const Lanes<T, N> &a, const Lanes<T, N> &b) {
    unsigned mask = 0;
    for (int i = 0; i < N; ++i) mask |= (a[i] == b[i] ? 1u : 0u) << i;
    return mask;
}
template <class T, int N>
inline T largest_lane(const Lanes<T, N> &v) {
    T top = v[0];
    for (int i = 1; i < N; ++i) top = v[i] > top ? v[i] : top;
    return top;
}

}  // namespace
}  // namespace coupledict::COUPLEDICT_LEVEL
