// A plan: dictionaries packed for one instruction set, and the coding of chunks of signals with them.
//
// Signals are coded by a fast method first. Two things can keep it from coding a signal, and are put right here:
// kFull, a code with more atoms than there is room for, takes more room; kDoubtful, atoms so close to dependent that
// rounding errors matter, takes the careful method in double. Both depend on the signal and the dictionaries alone.
#pragma once
#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include "compiler.h"
#include "kernels.h"

namespace coupledict {

constexpr std::align_val_t kAlignment{64};
constexpr index_t kRoomGrowth = 4;

struct Free {
    void operator()(void *p) const { ::operator delete(p, kAlignment); }
};
template <class T>
using Buffer = std::unique_ptr<T[], Free>;

template <class T>
Buffer<T> aligned_buffer(index_t count) {
    return Buffer<T>(static_cast<T *>(::operator new(static_cast<std::size_t>(count) * sizeof(T), kAlignment)));
}

// Scratch memory of one thread, kept between chunks. It belongs to one call at a time.
class Workspace {
  public:
    void *reserve(index_t bytes) {
        if (bytes > size_) {
            buffer_.reset();
            size_ = 0;
            buffer_ = aligned_buffer<char>(bytes);
            size_ = bytes;
        }
        return buffer_.get();
    }

  private:
    Buffer<char> buffer_;
    index_t size_ = 0;
};

// A chunk of signals, and where their results go.
template <class T>
struct Chunk {
    index_t n_signals;
    std::vector<View<T>> views;
    const int *stop;  // nonzero once the results are no longer wanted
    double *energy;
    std::uint8_t *status;
};

// The codes of a chunk of signals, in their order and without gaps.
template <class T>
struct ChunkCodes {
    Buffer<std::int32_t> counts, indices;
    std::vector<Buffer<T>> values;  // one for each dictionary
    index_t n_nonzeros = 0;

    ChunkCodes(index_t n_signals, index_t capacity, std::size_t n_dictionaries)
        : counts(aligned_buffer<std::int32_t>(n_signals)), indices(aligned_buffer<std::int32_t>(capacity)) {
        std::fill_n(counts.get(), n_signals, 0);
        for (std::size_t i = 0; i < n_dictionaries; ++i) values.push_back(aligned_buffer<T>(capacity));
    }
};

// Dictionaries packed for one instruction set: a joint one, or one for each view if views share their atoms but not
// their coefficients.
template <class T>
class PackedDictionaries {
  public:
    PackedDictionaries(const Kernels<T> &kernels, bool masked) : kernels_(&kernels), masked_(masked) {}

    // Adds a dictionary: n_atoms rows of unit norm, and their norms before.
    void add(index_t n_atoms, index_t n_features, const T *atoms, const double *norms) {
        Dictionary<T> d = {};
        d.n_atoms = n_atoms;
        d.n_features = n_features;
        d.stride = (n_atoms + kernels_->panel_width - 1) / kernels_->panel_width * kernels_->panel_width;
        T *panels = own<T>(d.stride * n_features);
        kernels_->pack(n_atoms, n_features, atoms, panels);
        d.panels = panels;
        double *own_norms = own<double>(n_atoms);
        std::copy_n(norms, n_atoms, own_norms);
        d.norms = own_norms;
        d.ordinary_norms =
            std::all_of(norms, norms + n_atoms, [](double x) { return x == 0 || (x > 1e-30 && x < 1e30); });
        if (masked_) {
            T *rows = own<T>(n_atoms * n_features), *squares = own<T>(d.stride * n_features);
            std::copy_n(atoms, n_atoms * n_features, rows);
            std::transform(panels, panels + d.stride * n_features, squares, [](T x) { return x * x; });
            d.rows = rows;
            d.squares = squares;
        }
        dictionaries_.push_back(d);
    }

    std::size_t size() const { return dictionaries_.size(); }
    const Dictionary<T> &operator[](std::size_t i) const { return dictionaries_[i]; }
    bool masked() const { return masked_; }

    // Makes room for the Gram matrices; fill_gram must write all of their rows before signals are coded.
    void allocate_gram() {
        for (Dictionary<T> &d : dictionaries_) {
            grams_.push_back(own<T>(d.n_atoms * d.stride));
            d.gram = grams_.back();
        }
    }
    // Several threads may fill different rows.
    void fill_gram(std::size_t i, index_t start, index_t stop, Workspace &workspace) const {
        const Dictionary<T> &d = dictionaries_[i];
        kernels_->gram_rows(d, start, stop, workspace.reserve(kernels_->gram_scratch(d)), grams_[i] + start * d.stride);
    }

    // Codes a chunk by one method.
    ChunkCodes<T> encode(const Chunk<T> &chunk, const Settings &settings, Workspace &workspace) const {
        ChunkCodes<T> codes(chunk.n_signals, chunk.n_signals * settings.n_nonzero, size());
        const Codes<T> out = {codes.counts.get(), codes.indices.get(), codes.values[0].get(), chunk.energy,
                              chunk.status};
        std::vector<Dictionary<T>> dictionaries = dictionaries_;
        if (settings.method == kCareful)
            for (Dictionary<T> &d : dictionaries) d.gram = nullptr;
        const Dictionary<T> *d = dictionaries.data();
        const index_t n_views = static_cast<index_t>(chunk.views.size());
        if (size() == 1) {
            void *scratch = workspace.reserve(kernels_->encode_scratch(*d, settings));
            codes.n_nonzeros =
                kernels_->encode(*d, settings, chunk.n_signals, n_views, chunk.views.data(), chunk.stop, scratch, out);
        } else {
            std::vector<T *> values;
            for (const Buffer<T> &own : codes.values) values.push_back(own.get());
            void *scratch = workspace.reserve(kernels_->encode_support_scratch(n_views, d, settings));
            codes.n_nonzeros = kernels_->encode_support(n_views, d, settings, chunk.n_signals, chunk.views.data(),
                                                        chunk.stop, scratch, out, values.data());
        }
        return codes;
    }

  private:
    template <class U>
    U *own(index_t count) {
        Buffer<char> piece = aligned_buffer<char>(count * static_cast<index_t>(sizeof(U)));
        U *start = reinterpret_cast<U *>(piece.get());
        memory_.push_back(std::move(piece));
        return start;
    }

    const Kernels<T> *kernels_;
    bool masked_;
    std::vector<Dictionary<T>> dictionaries_;
    std::vector<T *> grams_;
    std::vector<Buffer<char>> memory_;
};

// A value made when it is first needed. There is no lock, which a forked process could inherit locked: two threads may
// both make the value, and all use the one that is ready first.
template <class Value>
class Lazy {
  public:
    explicit Lazy(std::function<Value()> make) : make_(std::move(make)) {}
    Lazy(const Lazy &) = delete;
    Lazy &operator=(const Lazy &) = delete;
    ~Lazy() { delete value_.load(); }

    const Value &get() const {
        const Value *found = value_.load(std::memory_order_acquire);
        if (found) return *found;
        auto made = std::make_unique<const Value>(make_());
        if (value_.compare_exchange_strong(found, made.get(), std::memory_order_acq_rel)) found = made.release();
        return *found;
    }

  private:
    std::function<Value()> make_;
    mutable std::atomic<const Value *> value_{nullptr};
};

// Some signals of a chunk, copied and converted, with results of their own.
template <class From, class To>
class Selection {
  public:
    Selection(const Chunk<From> &chunk, const std::vector<double> &scales, const std::vector<index_t> &signals)
        : energy_(signals.size()), status_(signals.size()) {
        const index_t n = static_cast<index_t>(signals.size());
        chunk_ = {n, {}, chunk.stop, energy_.data(), status_.data()};
        for (std::size_t v = 0; v < chunk.views.size(); ++v) {
            const View<From> &view = chunk.views[v];
            rows_.push_back(aligned_buffer<To>(n * view.n_features));
            To *out = rows_.back().get();
            chunk_.views.push_back({out, view.n_features, 1, view.n_features, static_cast<To>(scales[v])});
            for (const index_t i : signals)
                for (index_t f = 0; f < view.n_features; ++f)
                    *out++ = static_cast<To>(view.data[i * view.row_stride + f * view.column_stride]);
        }
    }
    const Chunk<To> &chunk() const { return chunk_; }

  private:
    std::vector<double> energy_;
    std::vector<std::uint8_t> status_;
    std::vector<Buffer<To>> rows_;
    Chunk<To> chunk_;
};

// Returns `codes` with those of `added` for the given signals, which have none yet.
template <class T, class U>
ChunkCodes<T> merge(index_t n_signals, const ChunkCodes<T> &codes, const std::vector<index_t> &signals,
                    const ChunkCodes<U> &added) {
    ChunkCodes<T> merged(n_signals, codes.n_nonzeros + added.n_nonzeros, codes.values.size());
    const auto copy = [&](const auto &from, index_t start, index_t count) {
        std::copy_n(from.indices.get() + start, count, merged.indices.get() + merged.n_nonzeros);
        for (std::size_t v = 0; v < codes.values.size(); ++v)
            std::transform(from.values[v].get() + start, from.values[v].get() + start + count,
                           merged.values[v].get() + merged.n_nonzeros, [](auto c) { return static_cast<T>(c); });
        merged.n_nonzeros += count;
    };
    index_t old_start = 0, new_start = 0;
    auto next = signals.begin();
    for (index_t i = 0; i < n_signals; ++i) {
        const bool is_new = next != signals.end() && *next == i;
        const index_t count = is_new ? added.counts[next - signals.begin()] : codes.counts[i];
        merged.counts[i] = static_cast<std::int32_t>(count);
        if (is_new) {
            copy(added, new_start, count);
            new_start += count;
            ++next;
        } else {
            copy(codes, old_start, count);
            old_start += count;
        }
    }
    return merged;
}

// The coding of one chunk.
template <class T>
class ChunkCoder {
  public:
    // `room` is that for the nonzeros of a signal at first, where their number has no other limit.
    ChunkCoder(const Chunk<T> &chunk, const PackedDictionaries<T> &dictionaries, const std::vector<double> &scales,
               const Settings &settings, index_t room, Workspace &workspace)
        : chunk_(chunk),
          dictionaries_(dictionaries),
          scales_(scales),
          settings_(settings),
          room_(room),
          workspace_(workspace),
          codes_(chunk.n_signals, 0, dictionaries.size()) {}

    // Codes all signals by the method of the settings. Where that is the careful one, all of them are in doubt.
    void encode_all() {
        if (settings_.method == kCareful) {
            std::fill_n(chunk_.status, chunk_.n_signals, static_cast<std::uint8_t>(kDoubtful));
            return;
        }
        Settings settings = settings_;
        settings.n_nonzero = room_;
        codes_ = dictionaries_.encode(chunk_, settings, workspace_);
        encode_again(kFull, dictionaries_, settings, next_room(room_));
    }
    // Codes those in doubt carefully.
    void encode_doubtful(const PackedDictionaries<double> &dictionaries) {
        Settings settings = settings_;
        settings.method = kCareful;
        encode_again(kDoubtful, dictionaries, settings, room_);
    }
    // Whether there are signals in doubt, and codes are still wanted.
    bool has_doubtful() const { return !find(kDoubtful).empty(); }
    index_t n_retried() const { return n_retried_; }
    ChunkCodes<T> take_codes() { return std::move(codes_); }

  private:
    index_t next_room(index_t room) const { return std::min(kRoomGrowth * room, settings_.n_nonzero); }

    // Codes the signals that have this status, and those that then have no room, until all have.
    template <class U>
    void encode_again(Status status, const PackedDictionaries<U> &dictionaries, Settings settings, index_t room) {
        for (;; room = next_room(room), status = kFull) {
            const std::vector<index_t> signals = find(status);
            if (signals.empty()) return;
            n_retried_ += static_cast<index_t>(signals.size());
            settings.n_nonzero = room;
            const Selection<T, U> selection(chunk_, scales_, signals);
            const ChunkCodes<U> codes = dictionaries.encode(selection.chunk(), settings, workspace_);
            if (is_raised(chunk_.stop)) return;
            for (std::size_t i = 0; i < signals.size(); ++i) {
                chunk_.energy[signals[i]] = selection.chunk().energy[i];
                chunk_.status[signals[i]] = selection.chunk().status[i];
            }
            codes_ = merge(chunk_.n_signals, codes_, signals, codes);
        }
    }

    // The signals with this status; none once the codes are no longer wanted.
    std::vector<index_t> find(Status status) const {
        std::vector<index_t> found;
        if (is_raised(chunk_.stop)) return found;
        for (index_t i = 0; i < chunk_.n_signals; ++i)
            if (chunk_.status[i] == status) found.push_back(i);
        return found;
    }

    const Chunk<T> &chunk_;
    const PackedDictionaries<T> &dictionaries_;
    const std::vector<double> &scales_;
    const Settings settings_;
    const index_t room_;
    Workspace &workspace_;
    ChunkCodes<T> codes_;
    index_t n_retried_ = 0;
};

// Dictionaries, and the coding of chunks with them. A plan is complete before a second thread gets it, and only read
// from then on.
template <class T>
class Plan {
  public:
    using MakePrecise = std::function<PackedDictionaries<double>()>;

    // `scales` are the square roots of the weights of the views. `make_precise` returns the same dictionaries in
    // double; a plan in double does not call it.
    Plan(PackedDictionaries<T> dictionaries, std::vector<double> scales, MakePrecise make_precise)
        : dictionaries_(std::move(dictionaries)), scales_(std::move(scales)), precise_(std::move(make_precise)) {}

    PackedDictionaries<T> &dictionaries() { return dictionaries_; }
    const PackedDictionaries<T> &dictionaries() const { return dictionaries_; }
    const std::vector<double> &scales() const { return scales_; }
    // How many signals have been coded carefully or with more room so far.
    index_t n_retried() const { return n_retried_.load(std::memory_order_relaxed); }

    // Codes a chunk; once it is stopped, the results are to be discarded.
    ChunkCodes<T> encode(const Chunk<T> &chunk, Settings settings, index_t room, Workspace &workspace) const {
        settings.float32 = sizeof(T) == 4;
        settings.masked = dictionaries_.masked();
        ChunkCoder<T> coder(chunk, dictionaries_, scales_, settings, room, workspace);
        coder.encode_all();
        if (coder.has_doubtful()) coder.encode_doubtful(precise_dictionaries());
        n_retried_.fetch_add(coder.n_retried(), std::memory_order_relaxed);
        return coder.take_codes();
    }

  private:
    const PackedDictionaries<double> &precise_dictionaries() const {
        if constexpr (std::is_same_v<T, double>)
            return dictionaries_;
        else
            return precise_.get();
    }

    PackedDictionaries<T> dictionaries_;
    std::vector<double> scales_;
    Lazy<PackedDictionaries<double>> precise_;
    mutable std::atomic<index_t> n_retried_{0};
};

}  // namespace coupledict
