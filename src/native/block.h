// Signals in and codes out: signals are read and correlated in blocks, codes are written in order.
#pragma once
#include "masked.h"

namespace coupledict::COUPLEDICT_LEVEL {
namespace {

// Writes the codes of signals one after the other.
template <class T>
class Writer {
  public:
    Writer(const Dictionary<T> &d, const Settings &settings, const Codes<T> &codes)
        : d_(d), float32_(settings.float32), codes_(codes) {}
    index_t written() const { return written_; }

    // Writes an empty code, for a signal that was not coded.
    void skip(index_t i, const SignalInfo &info, Status status) {
        codes_.counts[i] = 0;
        codes_.energy[i] = ldexp(info.energy, 2 * info.exponent);
        codes_.status[i] = status;
    }
    // Writes the code of a signal whose coefficients are final.
    void write(index_t i, const SignalInfo &info, const Chosen<T> &support, Status status, double energy) {
        bool fits;
        const index_t n = write_codes(support, d_, info.exponent, float32_, codes_.indices + written_,
                                      codes_.values + written_, &fits);
        codes_.counts[i] = static_cast<std::int32_t>(n);
        codes_.energy[i] = energy > 0 ? ldexp(energy, 2 * info.exponent) : 0;
        codes_.status[i] = fits ? status : kOverflow;
        written_ += n;
    }

  private:
    const Dictionary<T> &d_;
    bool float32_;
    const Codes<T> &codes_;
    index_t written_ = 0;
};

// A block of signals, and their correlations with the atoms.
template <class T, bool Masked>
struct Block {
    index_t size;
    T *x, *a;
    T *known, *inverse_norms;
    SignalInfo *infos;

    // As many signals, in whole tiles, as keep their correlations within so many bytes.
    Block(Arena &arena, const Dictionary<T> &d, index_t bytes, index_t tiles) {
        const index_t fit = bytes / (d.stride * static_cast<index_t>(sizeof(T))) / kTileRows;
        size = kTileRows * (fit < 1 ? 1 : fit > tiles ? tiles : fit);
        x = arena.take<T>(size * d.n_features);
        a = arena.take<T>(size * d.stride);
        known = arena.take<T>(Masked ? size * d.n_features : 0);
        inverse_norms = arena.take<T>(Masked ? size * d.stride : 0);
        infos = arena.take<SignalInfo>(size);
    }
    // Reads signals start..start+rows-1.
    void read(const Dictionary<T> &d, index_t n_views, const View<T> *views, index_t start, index_t rows) {
        for (index_t i = 0; i < rows; ++i) {
            const index_t first = i * d.n_features;
            if constexpr (Masked)
                infos[i] = read_masked_signal(n_views, views, start + i, d.n_features, x + first, known + first);
            else
                infos[i] = read_signal(n_views, views, start + i, d.n_features, x + first);
        }
        correlate(d, rows, x, d.n_features, a);
        if constexpr (Masked) normalize_masked_atoms(d, rows, known, inverse_norms, a);
    }
    // The mask of signal i; its features are listed in `features`.
    Mask<T> mask(const Dictionary<T> &d, index_t i, std::int32_t *features) const {
        Mask<T> mask;
        if constexpr (Masked) {
            mask.known = known + i * d.n_features;
            mask.inverse_norms = inverse_norms + i * d.stride;
            list_features(d, infos[i].n_known, mask, features);
        }
        return mask;
    }
};

// The status of a signal that needs no pursuit; kLimit for one that does.
inline Status initial_status(const SignalInfo &info, double tol) {
    if (!info.finite) return kNotFinite;
    if (info.n_known == 0) return kUnknown;
    if (info.energy == 0) return kZero;
    return tol >= 0 && info.energy <= ldexp(tol, -2 * info.exponent) ? kTolerance : kLimit;
}

}  // namespace
}  // namespace coupledict::COUPLEDICT_LEVEL
