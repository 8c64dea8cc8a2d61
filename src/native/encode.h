// Codes a chunk of signals: reads and correlates them in blocks, runs the pursuit in groups, writes codes in order.
#pragma once
#include "block.h"
#include "constrained.h"
#include "gramfree.h"
#include "settle.h"

namespace coupledict::COUPLEDICT_LEVEL {
namespace {

// Codes signals with one of the methods.
template <class T, class Choice, template <class, class> class MethodOf, bool Careful = false>
class Encoder {
    using Method = MethodOf<T, Choice>;
    using Signal = typename Method::Signal;

  public:
    Encoder(Arena &arena, const Dictionary<T> &d, const Limits &limits)
        : d_(d),
          limits_(limits),
          block_(arena, d, Method::kBlockBytes, Method::kBlockTiles),
          group_(Method::group_size(d, limits, block_.size)),
          method_(arena, d, limits, block_.size) {
        residual_ = arena.take<double>(d.n_features);
        features_ = arena.take<std::int32_t>(Method::kMasked ? group_ * d.n_features : 0);
        codings_ = arena.take<Coding<T, Choice>>(group_);
        working_ = arena.take<index_t>(group_);
        signals_ = arena.take<Signal>(group_);
        for (index_t i = 0; i < group_; ++i) {
            const Signal signal(arena, d, limits);
            if (signals_) signals_[i] = signal;
        }
    }

    void run(index_t n, index_t n_views, const View<T> *views, const int *stop, Writer<T> &writer) {
        for (index_t start = 0; start < n; start += block_.size) {
            const index_t rows = n - start < block_.size ? n - start : block_.size;
            block_.read(d_, n_views, views, start, rows);
            for (index_t i = 0; i < rows; i += group_) {
                if (is_raised(stop)) return;
                code_group(start, i, rows - i < group_ ? rows - i : group_, stop, writer);
            }
        }
    }

  private:
    // Codes signals first..first+n-1 of the block that starts at signal `start`.
    void code_group(index_t start, index_t first, index_t n, const int *stop, Writer<T> &writer) {
        index_t n_working = 0;
        for (index_t i = 0; i < n; ++i) {
            const Arrival &arrival = block_.arrivals[first + i];
            if (settled(arrival, limits_.tol) != kLimit) continue;
            if constexpr (Method::kMasked)
                signals_[i].support.mask = block_.mask(d_, first + i, features_ + i * d_.n_features);
            codings_[i] =
                Coding<T, Choice>(d_, limits_, arrival, &signals_[i].support, block_.x + (first + i) * d_.n_features,
                                  block_.a + (first + i) * d_.stride, signals_[i].norms);
            working_[n_working++] = i;
        }
        while (n_working > 0 && !is_raised(stop)) {
            index_t kept = 0;
            for (index_t w = 0; w < n_working; ++w) {
                const index_t i = working_[w];
                if (take(codings_[i], signals_[i])) working_[kept++] = i;
            }
            n_working = kept;
            method_.advance(d_, n_working, working_, signals_, codings_);
        }
        for (index_t i = 0; i < n; ++i) {
            const Arrival &arrival = block_.arrivals[first + i];
            const Status status = settled(arrival, limits_.tol);
            if (status != kLimit)
                writer.skip(start + first + i, arrival, status);
            else
                finish(start + first + i, arrival, codings_[i], writer);
        }
    }

    bool take(Coding<T, Choice> &coding, const Signal &signal) {
        if constexpr (Careful)
            return coding.take_carefully(d_, limits_, residual_, signal);
        else
            return coding.take(d_, residual_, signal);
    }

    void finish(index_t i, const Arrival &arrival, Coding<T, Choice> &coding, Writer<T> &writer) {
        Support<T> &support = *coding.support;
        if constexpr (Careful) {
            const double energy =
                settle(d_, limits_, support, coding.x, arrival.exponent, arrival.energy, coding.stop.energy, residual_);
            const bool missed = coding.status == kTolerance && energy > coding.stop.tol;
            writer.write(i, arrival, support, missed ? kDependent : coding.status, energy);
        } else {
            support.solve();
            if (coding.status == kDoubtful || support.has_large_coefficients(arrival.energy))
                writer.skip(i, arrival, kDoubtful);
            else
                writer.write(i, arrival, support, coding.status, coding.stop.energy);
        }
    }

    const Dictionary<T> &d_;
    const Limits &limits_;
    Block<T, Method::kMasked> block_;
    index_t group_;
    Method method_;
    double *residual_;
    std::int32_t *features_;
    Coding<T, Choice> *codings_;
    index_t *working_;
    Signal *signals_;
};

// Calls `with` with a null pointer to the encoder that the limits ask for.
template <class T, class With>
index_t choose_encoder(const Limits &limits, With &&with) {
    using Omp = LargestCorrelation<T>;
    using GramOls = LargestFall<T, kGram>;
    using FreeOls = LargestFall<T, kGramFree>;
    constexpr bool careful = sizeof(T) == 8;
    if (limits.positive || limits.pursuit == kLasso) return choose_constrained<T>(limits, with);
    if (limits.masked && limits.method == kGram)
        return limits.pursuit == kOmp ? with(static_cast<Encoder<T, Omp, MaskedMethod> *>(nullptr))
                                      : with(static_cast<Encoder<T, GramOls, MaskedMethod> *>(nullptr));
    if (limits.masked && limits.method == kGramFree)
        return limits.pursuit == kOmp ? with(static_cast<Encoder<T, Omp, MaskedFreeMethod> *>(nullptr))
                                      : with(static_cast<Encoder<T, FreeOls, MaskedFreeMethod> *>(nullptr));
    if (limits.masked)
        return limits.pursuit == kOmp ? with(static_cast<Encoder<T, Omp, MaskedFreeMethod, careful> *>(nullptr))
                                      : with(static_cast<Encoder<T, FreeOls, MaskedFreeMethod, careful> *>(nullptr));
    if (limits.method == kGram)
        return limits.pursuit == kOmp ? with(static_cast<Encoder<T, Omp, GramMethod> *>(nullptr))
                                      : with(static_cast<Encoder<T, GramOls, GramMethod> *>(nullptr));
    if (limits.method == kGramFree)
        return limits.pursuit == kOmp ? with(static_cast<Encoder<T, Omp, CompleteMethod> *>(nullptr))
                                      : with(static_cast<Encoder<T, FreeOls, CompleteMethod> *>(nullptr));
    return limits.pursuit == kOmp ? with(static_cast<Encoder<T, Omp, CompleteMethod, careful> *>(nullptr))
                                  : with(static_cast<Encoder<T, FreeOls, CompleteMethod, careful> *>(nullptr));
}

template <class T>
index_t encode_scratch(const Dictionary<T> &d, const Limits &limits) {
    return choose_encoder<T>(limits, [&](auto *type) {
        Arena arena(nullptr);
        std::remove_pointer_t<decltype(type)>(arena, d, limits);
        return arena.used();
    });
}

template <class T>
index_t encode(const Dictionary<T> &d, const Limits &limits, index_t n, index_t n_views, const View<T> *views,
               const int *stop, void *scratch, const Codes<T> &codes) {
    return choose_encoder<T>(limits, [&](auto *type) {
        Arena arena(scratch);
        std::remove_pointer_t<decltype(type)> encoder(arena, d, limits);
        Writer<T> writer(d, limits, codes);
        encoder.run(n, n_views, views, stop, writer);
        return writer.written();
    });
}

}  // namespace
}  // namespace coupledict::COUPLEDICT_LEVEL
