// The atoms chosen for one signal: their order, their triangular factor, and the coefficients that follow from it.
#pragma once
#include "correlate.h"
#include "signals.h"

namespace coupledict::COUPLEDICT_LEVEL {
namespace {

// The known entries of a signal with missing ones; null pointers for a signal without.
template <class T>
struct Mask {
    const T *known = nullptr;          // 1 for each entry that is not missing, else 0
    const T *inverse_norms = nullptr;  // 1 over the norm of each unit atom cut down to these entries; 0 for zero atoms
    const std::int32_t *features = nullptr;  // the known features, or the missing ones
    index_t n_features = 0;
    bool lists_missing = false;

    // Whether so little of atom k is known that the difference of two sums, in place of the sum over its known
    // entries, may have been too imprecise.
    bool is_doubtful(index_t k) const {
        return lists_missing && inverse_norms[k] * inverse_norms[k] * static_cast<T>(kDoubtfulKnown) > 1;
    }
    // The factor that brings unit atom k, cut down to the known entries, to norm 1.
    T inverse_norm_of(index_t k) const { return inverse_norms ? inverse_norms[k] : T(1); }
};

// The atoms chosen for one signal, and their coefficients.
template <class T>
struct Chosen {
    index_t size;
    index_t stride;         // of arrays with a number for each of them
    std::int32_t *atoms;    // in the order they were chosen
    T *coefficients;        // of the unit-norm atoms
    std::uint64_t *chosen;  // one bit per atom
    std::uint64_t *barred;  // one bit per atom; set for atoms that depend on those chosen
    bool any_barred;
    std::int32_t *slot;  // atom -> place in `atoms`, where chosen
    index_t n_words;
    Mask<T> mask;

    Chosen(Arena &arena, index_t n_atoms, index_t limit)
        : size(0), stride(round_up(limit, kLanes<T>)), n_words((n_atoms + 63) / 64) {
        atoms = arena.take<std::int32_t>(limit);
        coefficients = arena.take<T>(stride);
        chosen = arena.take<std::uint64_t>(n_words);
        barred = arena.take<std::uint64_t>(n_words);
        slot = arena.take<std::int32_t>(n_atoms);
    }
    void clear() {
        size = 0;
        for (index_t i = 0; i < n_words; ++i) chosen[i] = barred[i] = 0;
        any_barred = false;
    }
    bool is_chosen(index_t k) const { return chosen[k / 64] >> (k % 64) & 1; }
    bool is_closed(index_t k) const { return (chosen[k / 64] | barred[k / 64]) >> (k % 64) & 1; }
    void bar(index_t k) {
        barred[k / 64] |= std::uint64_t(1) << (k % 64);
        any_barred = true;
    }
    void unbar() {
        for (index_t i = 0; any_barred && i < n_words; ++i) barred[i] = 0;
        any_barred = false;
    }
    void append(index_t k) {
        chosen[k / 64] |= std::uint64_t(1) << (k % 64);
        slot[k] = static_cast<std::int32_t>(size);
        atoms[size++] = static_cast<std::int32_t>(k);
    }
    // Takes out the atom at place j; those after it move up.
    void erase(index_t j) {
        chosen[atoms[j] / 64] &= ~(std::uint64_t(1) << (atoms[j] % 64));
        --size;
        for (; j < size; ++j) {
            atoms[j] = atoms[j + 1];
            coefficients[j] = coefficients[j + 1];
            slot[atoms[j]] = static_cast<std::int32_t>(j);
        }
    }
    // Takes out the atom at place j; the last one takes its place.
    void replace_by_last(index_t j) {
        chosen[atoms[j] / 64] &= ~(std::uint64_t(1) << (atoms[j] % 64));
        if (j == --size) return;
        atoms[j] = atoms[size];
        coefficients[j] = coefficients[size];
        slot[atoms[j]] = static_cast<std::int32_t>(j);
    }
    // Rounds the coefficients to the float32 that will be written.
    void round_to_float32(const Dictionary<T> &d, int exponent) {
        for (index_t j = 0; j < size; ++j) {
            const double norm = d.norms[atoms[j]] / static_cast<double>(mask.inverse_norm_of(atoms[j]));
            const double c = static_cast<double>(coefficients[j]);
            const float written = static_cast<float>(ldexp(c / norm, exponent));
            if (norm > 0 && is_finite(written))
                coefficients[j] = static_cast<T>(ldexp(static_cast<double>(written) * norm, -exponent));
        }
    }
    double squared_coefficients() const { return squared_norm(size, coefficients); }
    // Squared residual that coefficients in double can have beyond the one computed from them: they are rounded when
    // they are divided by the norms of their atoms.
    double rounding_energy() const {
        constexpr double error = 2 * Precision<double>::epsilon;
        return error * error * squared_coefficients();
    }
    // Whether the squared coefficients are so large that rounding errors matter.
    bool has_large_coefficients(double signal_energy) const {
        return !(squared_coefficients() <= kLargeCoefficients<T> * signal_energy);
    }
    // Squared residual of signal x with the present coefficients, in double.
    double residual_energy(const Dictionary<T> &d, const T *x, double *residual) const {
        constexpr index_t width = kPanelWidth<T>;
        for (index_t f = 0; f < d.n_features; ++f) residual[f] = static_cast<double>(x[f]);
        for (index_t j = 0; j < size; ++j) {
            const double c = static_cast<double>(coefficients[j]) * static_cast<double>(mask.inverse_norm_of(atoms[j]));
            const T *atom = d.panels + atoms[j] / width * d.n_features * width + atoms[j] % width;
            for (index_t f = 0; f < d.n_features; ++f) residual[f] -= c * static_cast<double>(atom[f * width]);
        }
        if (mask.known)
            for (index_t f = 0; f < d.n_features; ++f) residual[f] *= static_cast<double>(mask.known[f]);
        return squared_norm(d.n_features, residual);
    }
};

// The chosen atoms are D_S = R Q with R lower triangular and the rows of Q orthonormal; the projection of the signal on
// them is sum_j z_j q_j, so the coefficients solve c R = z.
template <class T>
struct Support : Chosen<T> {
    using Chosen<T>::size;
    using Chosen<T>::stride;
    using Chosen<T>::atoms;
    using Chosen<T>::coefficients;
    using Chosen<T>::chosen;
    using Chosen<T>::mask;
    T *factor;  // rows of R, without the diagonal
    T *inverse_diagonal;
    T *projection;  // z

    Support(Arena &arena, index_t n_atoms, index_t limit) : Chosen<T>(arena, n_atoms, limit) {
        factor = arena.take<T>(limit * stride);
        inverse_diagonal = arena.take<T>(stride);
        projection = arena.take<T>(stride);
    }
    T *next_row() const { return factor + size * stride; }
    // Takes atom k; its row of R has been written to next_row().
    void add(index_t k, T inverse_pivot, T z) {
        inverse_diagonal[size] = inverse_pivot;
        projection[size] = z;
        this->append(k);
    }
    // Drops the atoms taken after the first n.
    void shorten(index_t n) {
        for (; size > n; --size) chosen[atoms[size - 1] / 64] &= ~(std::uint64_t(1) << (atoms[size - 1] % 64));
    }
    // Takes back atoms that were dropped, up to the first n.
    void restore(index_t n) {
        for (; size < n; ++size) chosen[atoms[size] / 64] |= std::uint64_t(1) << (atoms[size] % 64);
    }
    // Solves c R = z for c.
    void solve_for(const T *z, T *c) const {
        for (index_t j = 0; j < size; ++j) c[j] = z[j];
        for (index_t i = size - 1; i >= 0; --i) {
            c[i] *= inverse_diagonal[i];
            const T ci = c[i];
            const T *row = factor + i * stride;
            for (index_t j = 0; j < i; ++j) c[j] -= ci * row[j];
        }
    }
    void solve() { solve_for(projection, coefficients); }
    // The same, in which every coefficient is rounded to the float32 that will be written before the others are
    // computed: they make up for the rounding, as far as their atoms allow.
    void solve_in_float32(const Dictionary<T> &d, int exponent) {
        for (index_t j = 0; j < size; ++j) coefficients[j] = projection[j];
        for (index_t i = size - 1; i >= 0; --i) {
            const double norm = d.norms[atoms[i]] / static_cast<double>(mask.inverse_norm_of(atoms[i]));
            T c = coefficients[i] * inverse_diagonal[i];
            const float written = static_cast<float>(ldexp(static_cast<double>(c) / norm, exponent));
            if (norm > 0 && is_finite(written))
                c = static_cast<T>(ldexp(static_cast<double>(written) * norm, -exponent));
            coefficients[i] = c;
            const T *row = factor + i * stride;
            for (index_t j = 0; j < i; ++j) coefficients[j] -= c * row[j];
        }
    }
};

// The running squared residual, and the stopping rule. The residual is updated by subtraction; its rounding error grows
// as the smallest pivot shrinks. Within this error of tol, the residual itself is computed.
template <class T>
struct Stop {
    double energy, tol, band, least_pivot = 1;

    Stop(double signal_energy, double tolerance, int exponent)
        : energy(signal_energy),
          tol(tolerance < 0 ? -1 : ldexp(tolerance, -2 * exponent)),
          band(kEnergyBand<T> * signal_energy) {}
    // Counts an atom that had `left` of its squared norm outside the span of the others.
    void count(double z, double left) {
        energy -= z * z;
        least_pivot = left < least_pivot ? left : least_pivot;
    }
    bool reached(Support<T> &support, const Dictionary<T> &d, const T *x, double *residual) {
        const double error = band / least_pivot;
        if (tol < 0 || energy > tol + error) return false;
        if (energy < tol - error) return true;
        support.solve();
        energy = support.residual_energy(d, x, residual);
        return energy <= tol;
    }
};

// Writes the codes of one signal, sorted by atom; returns how many, and whether all of them fit the number type, or
// float32 if they will be converted to it.
template <class T>
index_t write_codes(const Chosen<T> &s, const Dictionary<T> &d, int exponent, bool float32, std::int32_t *indices,
                    T *values, bool *fits) {
    index_t n = 0;
    *fits = true;
    const bool plain = exponent == 0 && d.ordinary_norms;
    for (index_t w = 0; w < s.n_words; ++w)
        for (std::uint64_t bits = s.chosen[w]; bits; bits &= bits - 1) {
            const index_t k = w * 64 + lowest_bit(bits);
            const double c =
                static_cast<double>(s.coefficients[s.slot[k]]) * static_cast<double>(s.mask.inverse_norm_of(k));
            indices[n] = static_cast<std::int32_t>(k);
            if (d.norms[k] == 0) {
                values[n] = 0;  // an atom that is zero in this view, taken because of another view
            } else if (plain) {
                values[n] = static_cast<T>(c / d.norms[k]);
            } else {
                int norm_exponent;
                const double norm = frexp(d.norms[k], &norm_exponent);
                values[n] = static_cast<T>(ldexp(c / norm, exponent - norm_exponent));
            }
            if (!is_finite(float32 ? static_cast<T>(static_cast<float>(values[n])) : values[n])) *fits = false;
            ++n;
        }
    return n;
}

}  // namespace
}  // namespace coupledict::COUPLEDICT_LEVEL
