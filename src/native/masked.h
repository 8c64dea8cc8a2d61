// Pursuits for signals with missing entries, from correlations and rows of a Gram matrix made for each signal.
//
// The Gram matrix of the atoms cut down to the known entries differs from signal to signal. Only its rows of chosen
// atoms are needed: a sum over the known features, or the row of the complete Gram matrix minus a sum over the missing
// ones, whichever is shorter. The steps are then those of complete signals.
#pragma once
#include "gram.h"

namespace coupledict::COUPLEDICT_LEVEL {
namespace {

// Writes 1 over the norms of the atoms, cut down to the known entries of each of n signals, and scales the correlations
// by them.
template <class T>
void normalize_masked_atoms(const Dictionary<T> &d, index_t n, const T *known, T *inverse_norms, T *a) {
    Dictionary<T> squares = d;
    squares.panels = d.squares;
    correlate(squares, n, known, d.n_features, inverse_norms);
    for (index_t i = 0; i < n; ++i) {
        T *own = inverse_norms + i * d.stride, *correlations = a + i * d.stride;
        vec<T> top = {};
        for (index_t k = 0; k < d.stride; k += kLanes<T>) {
            const vec<T> squared = load(own + k);
            top = select<T>(squared > top, squared, top);
        }
        const vec<T> least = splat(static_cast<T>(kLeastKnown) * static_cast<T>(largest_lane(top)));
        for (index_t k = 0; k < d.stride; k += kLanes<T>) {
            const vec<T> squared = load(own + k);
            const vec<T> factor = select<T>(squared > least, inverse_root<T>(squared), vec<T>{});
            store(own + k, factor);
            store(correlations + k, load(correlations + k) * factor);
        }
    }
}

// Lists the known features of a signal, or the missing ones if there are fewer and the Gram matrix is at hand.
template <class T>
void list_features(const Dictionary<T> &d, index_t n_known, Mask<T> &mask, std::int32_t *features) {
    mask.lists_missing = d.gram && 2 * n_known > d.n_features;
    const T listed = mask.lists_missing ? T(0) : T(1);
    index_t n = 0;
    for (index_t f = 0; f < d.n_features; ++f)
        if (mask.known[f] == listed) features[n++] = static_cast<std::int32_t>(f);
    mask.features = features;
    mask.n_features = n;
}

// Does N panels of columns, from `column` on, of the Gram row of atom k.
template <class T, int N>
inline void masked_columns(const Dictionary<T> &d, const Mask<T> &mask, index_t k, index_t column, T *row) {
    constexpr index_t lanes = kLanes<T>, width = kPanelWidth<T>;
    const T *atom = d.rows + k * d.n_features, *panel = d.panels + column * d.n_features;
    const index_t next_panel = d.n_features * width;
    const std::int32_t *feature = mask.features, *const end = feature + mask.n_features;
    vec<T> sum[N][kTileVectors] = {};
    for (; feature != end; ++feature) {
        const vec<T> c = splat(atom[*feature]);
        const T *entry = panel + *feature * width;
        for (int j = 0; j < N; ++j, entry += next_panel)
            for (int v = 0; v < kTileVectors; ++v) sum[j][v] += c * load(entry + v * lanes);
    }
    const T own = mask.inverse_norms[k];
    for (int j = 0; j < N; ++j)
        for (int v = 0; v < kTileVectors; ++v) {
            const index_t at = column + j * width + v * lanes;
            const vec<T> g = mask.lists_missing ? load(d.gram + k * d.stride + at) - sum[j][v] : sum[j][v];
            store(row + at, g * own * load(mask.inverse_norms + at));
        }
}

// Whether the difference of two sums is too imprecise for the Gram row of atom k.
template <class T>
bool loses_digits(const Mask<T> &mask, index_t k) {
    return mask.lists_missing && mask.inverse_norms[k] * mask.inverse_norms[k] * static_cast<T>(kShortKnown) > 1;
}

// The Gram row of atom k, summed over the known features.
template <class T>
void sum_known(const Dictionary<T> &d, const Mask<T> &mask, index_t k, T *atom, T *row) {
    for (index_t f = 0; f < d.n_features; ++f) atom[f] = d.rows[k * d.n_features + f] * mask.known[f];
    correlate(d, 1, atom, d.n_features, row);
    for (index_t l = 0; l < d.stride; ++l) row[l] *= mask.inverse_norms[k] * mask.inverse_norms[l];
}

// The Gram row of atom k; `atom` is scratch.
template <class T>
void masked_row(const Dictionary<T> &d, const Mask<T> &mask, index_t k, T *atom, T *row) {
    constexpr int panels = kBlockVectors / kTileVectors;
    if (loses_digits(mask, k)) return sum_known(d, mask, k, atom, row);
    index_t column = 0;
    for (; column + panels * kPanelWidth<T> <= d.stride; column += panels * kPanelWidth<T>)
        masked_columns<T, panels>(d, mask, k, column, row);
    for (; column < d.stride; column += kPanelWidth<T>) masked_columns<T, 1>(d, mask, k, column, row);
}

template <class T, class Choice>
struct MaskedMethod {
    using Signal = GramSignal<T>;
    static constexpr bool kMasked = true;
    static constexpr index_t kBlockBytes = 384 << 10, kBlockTiles = 8;
    static constexpr index_t kGroupBytes = 192 << 10, kGroup = 16;  // rows of P, and signals, that advance together
    T *rows;                                                        // Gram rows of the signals at work
    T *atom;

    MaskedMethod(Arena &arena, const Dictionary<T> &d, const Settings &settings, index_t block) {
        rows = arena.take<T>(group_size(d, settings, block) * d.stride);
        atom = arena.take<T>(d.n_features);
    }
    static index_t group_size(const Dictionary<T> &d, const Settings &settings, index_t block) {
        const index_t fit = kGroupBytes / (settings.n_nonzero * d.stride * static_cast<index_t>(sizeof(T)));
        const index_t most = block < kGroup ? block : kGroup;
        return fit < 1 ? 1 : fit > most ? most : fit;
    }

    void advance(const Dictionary<T> &d, index_t n, const index_t *working, const Signal *signals,
                 Coding<T, Choice> *codings) const {
        constexpr int panels = kBlockVectors / kTileVectors;
        index_t column = 0;
        // Columns outside, signals inside: a few panels of the dictionary stay in the L1 cache for all signals.
        for (; column + panels * kPanelWidth<T> <= d.stride; column += panels * kPanelWidth<T>)
            for (index_t w = 0; w < n; ++w) columns<panels>(d, signals[working[w]], column, rows + w * d.stride);
        for (; column < d.stride; column += kPanelWidth<T>)
            for (index_t w = 0; w < n; ++w) columns<1>(d, signals[working[w]], column, rows + w * d.stride);
        for (index_t w = 0; w < n; ++w) {
            const Signal &signal = signals[working[w]];
            const Mask<T> &mask = signal.support.mask;
            if (loses_digits(mask, newest(signal))) sum_known(d, mask, newest(signal), atom, rows + w * d.stride);
            Coding<T, Choice> &coding = codings[working[w]];
            Choice choice;
            signal.advance(d, rows + w * d.stride, coding.a, coding.norms, choice);
            coding.choice = choice;
        }
    }

  private:
    static index_t newest(const Signal &signal) { return signal.support.atoms[signal.support.size - 1]; }
    template <int N>
    static void columns(const Dictionary<T> &d, const Signal &signal, index_t column, T *row) {
        masked_columns<T, N>(d, signal.support.mask, newest(signal), column, row);
    }
};

}  // namespace
}  // namespace coupledict::COUPLEDICT_LEVEL
