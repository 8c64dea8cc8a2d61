// How wide the vectors of the instruction set are that this file is compiled for, and how many of them fit its
// registers.
#pragma once
#include <cstdint>
#include <type_traits>

#include "compiler.h"
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
constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(T));
template <class T>
constexpr int kPanelWidth = kTileVectors * kLanes<T>;
template <class T>
constexpr int kBlockWidth = kBlockVectors * kLanes<T>;

// Whole numbers of the same size.
template <class T>
using Index = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;

}  // namespace
}  // namespace coupledict::COUPLEDICT_LEVEL
