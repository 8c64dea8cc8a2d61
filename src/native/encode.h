// Codes a chunk of signals: reads and correlates them in blocks, runs the pursuit in groups, writes codes in order.
#pragma once
#include "active_set.h"
#include "block.h"
#include "checked_solution.h"
#include "gram_free.h"

namespace coupledict::COUPLEDICT_LEVEL {
namespace {

// Codes signals with one of the methods.
template <class T, class Choice, template <class, class> class MethodOf, bool Careful = false>
class Encoder {
    using Method = MethodOf<T, Choice>;
    using Signal = typename Method::Signal;

  public:
    Encoder(Arena &arena, const Dictionary<T> &d, const Settings &settings)
        : d_(d),
          settings_(settings),
          block_(arena, d, Method::kBlockBytes, Method::kBlockTiles),
          group_(Method::group_size(d, settings, block_.size)),
          method_(arena, d, settings, block_.size) {
        residual_ = arena.take<double>(d.n_features);
        features_ = arena.take<std::int32_t>(Method::kMasked ? group_ * d.n_features : 0);
        codings_ = arena.take<Coding<T, Choice>>(group_);
        working_ = arena.take<index_t>(group_);
        signals_ = arena.take<Signal>(group_);
        for (index_t i = 0; i < group_; ++i) {
            const Signal signal(arena, d, settings);
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
            const SignalInfo &info = block_.infos[first + i];
            if (initial_status(info, settings_.tol) != kLimit) continue;
            if constexpr (Method::kMasked)
                signals_[i].support.mask = block_.mask(d_, first + i, features_ + i * d_.n_features);
            codings_[i] =
                Coding<T, Choice>(d_, settings_, info, &signals_[i].support, block_.x + (first + i) * d_.n_features,
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
            const SignalInfo &info = block_.infos[first + i];
            const Status status = initial_status(info, settings_.tol);
            if (status != kLimit)
                writer.skip(start + first + i, info, status);
            else
                finish(start + first + i, info, codings_[i], writer);
        }
    }

    bool take(Coding<T, Choice> &coding, const Signal &signal) {
        if constexpr (Careful)
            return coding.take_carefully(d_, settings_, residual_, signal);
        else
            return coding.take(d_, residual_, signal);
    }

    void finish(index_t i, const SignalInfo &info, Coding<T, Choice> &coding, Writer<T> &writer) {
        Support<T> &support = *coding.support;
        if constexpr (Careful) {
            const double energy = solve_checked(d_, settings_, support, coding.x, info.exponent, info.energy,
                                                coding.stop.energy, residual_);
            const bool missed = coding.status == kTolerance && energy > coding.stop.tol;
            writer.write(i, info, support, missed ? kDependent : coding.status, energy);
        } else {
            support.solve();
            if (coding.status == kDoubtful || support.has_large_coefficients(info.energy))
                writer.skip(i, info, kDoubtful);
            else
                writer.write(i, info, support, coding.status, coding.stop.energy);
        }
    }

    const Dictionary<T> &d_;
    const Settings &settings_;
    Block<T, Method::kMasked> block_;
    index_t group_;
    Method method_;
    double *residual_;
    std::int32_t *features_;
    Coding<T, Choice> *codings_;
    index_t *working_;
    Signal *signals_;
};

template <class T, class AnyEncoder>
index_t scratch_of(const Dictionary<T> &d, const Settings &settings) {
    Arena arena(nullptr);
    AnyEncoder(arena, d, settings);
    return arena.used();
}

template <class T, class AnyEncoder>
index_t encode_with(const Dictionary<T> &d, const Settings &settings, index_t n, index_t n_views, const View<T> *views,
                    const int *stop, void *scratch, const Codes<T> &codes) {
    Arena arena(scratch);
    AnyEncoder encoder(arena, d, settings);
    Writer<T> writer(d, settings, codes);
    encoder.run(n, n_views, views, stop, writer);
    return writer.written();
}

template <class T>
struct EncoderFunctions {
    decltype(Kernels<T>::encode_scratch) scratch;
    decltype(Kernels<T>::encode) encode;
};
template <class T, class AnyEncoder>
constexpr EncoderFunctions<T> kFunctions = {scratch_of<T, AnyEncoder>, encode_with<T, AnyEncoder>};

// The encoders of one pursuit: for complete signals and for masked ones, by kGram, kGramFree and kCareful. Only double
// has the careful method.
template <class T>
struct EncodersOfPursuit {
    EncoderFunctions<T> functions[2][3];
};

template <class T, class GramChoice, class FreeChoice = GramChoice>
constexpr EncodersOfPursuit<T> kUnconstrained = {{
    {kFunctions<T, Encoder<T, GramChoice, GramMethod>>, kFunctions<T, Encoder<T, FreeChoice, CompleteMethod>>,
     kFunctions<T, Encoder<T, FreeChoice, CompleteMethod, sizeof(T) == 8>>},
    {kFunctions<T, Encoder<T, GramChoice, MaskedMethod>>, kFunctions<T, Encoder<T, FreeChoice, MaskedFreeMethod>>,
     kFunctions<T, Encoder<T, FreeChoice, MaskedFreeMethod, sizeof(T) == 8>>},
}};

template <class T, class Choice, class CarefulChoice, bool Masked>
using CarefulConstrained =
    std::conditional_t<sizeof(T) == 8, ConstrainedEncoder<T, CarefulChoice, Masked, OrthogonalSet>,
                       ConstrainedEncoder<T, Choice, Masked, InverseSet>>;

template <class T, class Choice, class CarefulChoice = Choice>
constexpr EncodersOfPursuit<T> kConstrained = {{
    {kFunctions<T, ConstrainedEncoder<T, Choice, false, InverseSet>>,
     kFunctions<T, ConstrainedEncoder<T, Choice, false, InverseSet>>,
     kFunctions<T, CarefulConstrained<T, Choice, CarefulChoice, false>>},
    {kFunctions<T, ConstrainedEncoder<T, Choice, true, InverseSet>>,
     kFunctions<T, ConstrainedEncoder<T, Choice, true, InverseSet>>,
     kFunctions<T, CarefulConstrained<T, Choice, CarefulChoice, true>>},
}};

// OMP, OLS and the lasso, with coefficients of both signs and with non-negative ones.
template <class T>
constexpr EncodersOfPursuit<T> kEncoders[2][3] = {
    {kUnconstrained<T, LargestCorrelation<T>>,
     kUnconstrained<T, LargestDecrease<T, kGram>, LargestDecrease<T, kGramFree>>,
     kConstrained<T, LargestExcess<T, false>>},
    {kConstrained<T, PositiveCorrelation<T>>,
     kConstrained<T, PositiveDecrease<T, kGram>, PositiveDecrease<T, kGramFree>>,
     kConstrained<T, LargestExcess<T, true>>},
};

template <class T>
const EncoderFunctions<T> &find_encoder(const Settings &settings) {
    return kEncoders<T>[settings.positive][settings.pursuit].functions[settings.masked][settings.method];
}

template <class T>
index_t encode_scratch(const Dictionary<T> &d, const Settings &settings) {
    return find_encoder<T>(settings).scratch(d, settings);
}

template <class T>
index_t encode(const Dictionary<T> &d, const Settings &settings, index_t n, index_t n_views, const View<T> *views,
               const int *stop, void *scratch, const Codes<T> &codes) {
    return find_encoder<T>(settings).encode(d, settings, n, n_views, views, stop, scratch, codes);
}

}  // namespace
}  // namespace coupledict::COUPLEDICT_LEVEL
