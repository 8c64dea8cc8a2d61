// A chunk of signals from views to codes: arrive, correlate, pursue, write; a block of signals at a time.
#pragma once
#include "gramfree.h"

namespace coupledict::COUPLEDICT_LEVEL {
namespace {

// Signals in a block: as many as keep their correlations within `bytes`, in whole tiles.
template <class T>
index_t block_size(const Dictionary<T> &d, index_t bytes) {
    const index_t fit = bytes / (d.stride * static_cast<index_t>(sizeof(T))) / kTileRows;
    return kTileRows * (fit < 1 ? 1 : fit > 8 ? 8 : fit);
}

template <class T>
struct SignalBlock {
    index_t size;
    T *x;  // (size, n_features)
    T *a;  // (size, stride)
    Arrival *arrivals;

    SignalBlock(Arena &arena, const Dictionary<T> &d, index_t n) : size(n) {
        x = arena.take<T>(n * d.n_features);
        a = arena.take<T>(n * d.stride);
        arrivals = arena.take<Arrival>(n);
    }
};

// A signal that needs no pursuit has its status at once.
inline bool needs_pursuit(const Arrival &arrival, const Limits &limits, std::uint8_t *status) {
    *status = kLimit;
    if (!arrival.finite) *status = kNotFinite;
    else if (arrival.energy == 0) *status = kZero;
    else if (limits.tol >= 0 && arrival.energy <= __builtin_ldexp(limits.tol, -2 * arrival.exponent))
        *status = kTolerance;
    return *status == kLimit;
}

template <class T>
class Writer {
  public:
    explicit Writer(const Codes<T> &codes) : codes_(codes) {}
    index_t written() const { return written_; }
    void skip(index_t i, double energy) {
        codes_.counts[i] = 0;
        codes_.energy[i] = energy;
    }
    void write(index_t i, const Dictionary<T> &d, Support<T> &support, int exponent, Status status, double energy) {
        support.solve();
        bool fits;
        const index_t n = write_codes(support, d, exponent, codes_.indices + written_, codes_.values + written_, &fits);
        codes_.counts[i] = static_cast<std::int32_t>(n);
        codes_.energy[i] = energy > 0 ? __builtin_ldexp(energy, 2 * exponent) : 0;
        codes_.status[i] = fits ? status : kOverflow;
        written_ += n;
    }

  private:
    const Codes<T> &codes_;
    index_t written_ = 0;
};

constexpr index_t kCacheBytes = 384 << 10;  // correlations of a block beside the dictionary in the L2 cache
constexpr index_t kFreeBytes = 16 << 20;    // without the Gram matrix a large block saves passes over the dictionary

template <class T, class Choice>
struct GramMethod {
    SignalBlock<T> block;
    PursuitScratch<T> one;
    GramMethod(Arena &arena, const Dictionary<T> &d, const Limits &limits)
        : block(arena, d, block_size(d, kCacheBytes)), one(arena, d, limits) {}

    void code(const Dictionary<T> &d, const Limits &limits, index_t first, index_t n, const int *stop,
              const Codes<T> &codes, Writer<T> &writer) {
        for (index_t i = 0; i < n && !__atomic_load_n(stop, __ATOMIC_RELAXED); ++i) {
            const Arrival &arrival = block.arrivals[i];
            if (!needs_pursuit(arrival, limits, &codes.status[first + i])) {
                writer.skip(first + i, __builtin_ldexp(arrival.energy, 2 * arrival.exponent));
                continue;
            }
            double energy;
            const Status status = pursue<T, Choice>(d, limits, block.x + i * d.n_features, arrival,
                                                    block.a + i * d.stride, one, stop, &energy);
            writer.write(first + i, d, one.support, arrival.exponent, status, energy);
        }
    }
};

template <class T, class Choice>
struct GramFreeMethod {
    SignalBlock<T> block;
    BlockScratch<T, Choice> together;
    GramFreeMethod(Arena &arena, const Dictionary<T> &d, const Limits &limits)
        : block(arena, d, block_size(d, kFreeBytes)), together(arena, d, limits, block.size) {}

    void code(const Dictionary<T> &d, const Limits &limits, index_t first, index_t n, const int *stop,
              const Codes<T> &codes, Writer<T> &writer) {
        index_t n_working = 0;
        for (index_t i = 0; i < n; ++i) {
            if (!needs_pursuit(block.arrivals[i], limits, &codes.status[first + i])) continue;
            GramFreeScratch<T> &mine = together.signals[i];
            together.codings[i] = Coding<T, Choice>(d, limits, block.arrivals[i], &mine.support,
                                                    block.x + i * d.n_features, block.a + i * d.stride, mine.norms);
            together.working[n_working++] = i;
        }
        pursue_together(d, limits, n_working, together, stop);
        for (index_t i = 0; i < n; ++i) {
            const Arrival &arrival = block.arrivals[i];
            if (codes.status[first + i] != kLimit)
                writer.skip(first + i, __builtin_ldexp(arrival.energy, 2 * arrival.exponent));
            else
                writer.write(first + i, d, together.signals[i].support, arrival.exponent, together.codings[i].status,
                             together.codings[i].stop.energy);
        }
    }
};

// Calls `with` with the type of the method that the limits name.
template <class T, class With>
index_t choose_method(const Limits &limits, With &&with) {
    if (limits.method == kGram)
        return limits.pursuit == kOmp ? with(static_cast<GramMethod<T, LargestCorrelation<T>> *>(nullptr))
                                      : with(static_cast<GramMethod<T, LargestFall<T>> *>(nullptr));
    return limits.pursuit == kOmp ? with(static_cast<GramFreeMethod<T, LargestCorrelation<T>> *>(nullptr))
                                  : with(static_cast<GramFreeMethod<T, LargestFall<T>> *>(nullptr));
}

template <class T>
index_t encode_scratch(const Dictionary<T> &d, const Limits &limits) {
    return choose_method<T>(limits, [&](auto *type) {
        Arena arena(nullptr);
        (void)std::remove_pointer_t<decltype(type)>(arena, d, limits);
        return arena.used();
    });
}

template <class T>
index_t encode(const Dictionary<T> &d, const Limits &limits, index_t n, index_t n_views, const View<T> *views,
               const int *stop, void *scratch, const Codes<T> &codes) {
    return choose_method<T>(limits, [&](auto *type) {
        Arena arena(scratch);
        std::remove_pointer_t<decltype(type)> method(arena, d, limits);
        Writer<T> writer(codes);
        for (index_t first = 0; first < n && !__atomic_load_n(stop, __ATOMIC_RELAXED); first += method.block.size) {
            const index_t rows = n - first < method.block.size ? n - first : method.block.size;
            for (index_t i = 0; i < rows; ++i)
                method.block.arrivals[i] =
                    arrive(n_views, views, first + i, d.n_features, method.block.x + i * d.n_features);
            correlate(d, rows, method.block.x, d.n_features, method.block.a);
            method.code(d, limits, first, rows, stop, codes, writer);
        }
        return writer.written();
    });
}

}  // namespace
}  // namespace coupledict::COUPLEDICT_LEVEL
