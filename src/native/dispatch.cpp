#include "dispatch.h"

#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#if defined(COUPLEDICT_X86) && defined(_MSC_VER) && !defined(__clang__)
#include <intrin.h>
#endif

namespace coupledict {

#if defined(COUPLEDICT_ARM)
namespace neon {
extern const Level level;
}
#else
namespace baseline {
extern const Level level;
}
#endif
#if defined(COUPLEDICT_X86)
namespace avx2 {
extern const Level level;
}
namespace avx512 {
extern const Level level;
}
#endif

#if defined(COUPLEDICT_X86)
namespace {

// Asks the processor itself: __builtin_cpu_supports needs a run-time library that linkers on Windows do not look for.
struct Registers {
    std::uint32_t a, b, c, d;
};
#if defined(_MSC_VER) && !defined(__clang__)
Registers cpuid(std::uint32_t leaf) {
    int found[4];
    __cpuidex(found, static_cast<int>(leaf), 0);
    return {static_cast<std::uint32_t>(found[0]), static_cast<std::uint32_t>(found[1]),
            static_cast<std::uint32_t>(found[2]), static_cast<std::uint32_t>(found[3])};
}
std::uint32_t saved_registers() { return static_cast<std::uint32_t>(_xgetbv(0)); }
#else
Registers cpuid(std::uint32_t leaf) {
    Registers found;
    asm volatile("cpuid" : "=a"(found.a), "=b"(found.b), "=c"(found.c), "=d"(found.d) : "a"(leaf), "c"(0));
    return found;
}
std::uint32_t saved_registers() {
    std::uint32_t low, high;
    asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}
#endif

// Bits by their numbers in Intel's manual (volume 2A, CPUID; volume 1, 13.2: XCR0).
bool has_bits(std::uint32_t word, std::initializer_list<int> bits) {
    for (int bit : bits)
        if (!(word >> bit & 1)) return false;
    return true;
}

struct Processor {
    bool avx2 = false, avx512 = false;
};

Processor find_processor() {
    Processor found;
    if (cpuid(0).a < 7 || !has_bits(cpuid(1).c, {12, 27, 28})) return found;  // FMA, XGETBV, AVX
    const std::uint32_t saved = saved_registers(), sets = cpuid(7).b;
    found.avx2 = has_bits(saved, {1, 2}) && has_bits(sets, {5});
#if defined(__APPLE__)
    const bool saves_all = true;  // macOS begins to save them when a thread first uses them
#else
    const bool saves_all = has_bits(saved, {5, 6, 7});
#endif
    found.avx512 = found.avx2 && saves_all && has_bits(sets, {16, 17, 30, 31});  // F, DQ, BW, VL
    return found;
}

}  // namespace
#endif

std::vector<const Level *> available_levels() {
#if defined(COUPLEDICT_ARM)
    std::vector<const Level *> found = {&neon::level};
#else
    std::vector<const Level *> found = {&baseline::level};
#endif
#if defined(COUPLEDICT_X86)
    static const Processor processor = find_processor();
    if (processor.avx2) found.push_back(&avx2::level);
    if (processor.avx512) found.push_back(&avx512::level);
#endif
    return found;
}

const Level &find_level(const std::string &name) {
    const std::vector<const Level *> levels = available_levels();
    if (name.empty()) return *levels.back();
    std::string choices;
    for (const Level *level : levels) {
        if (name == level->name) return *level;
        choices += (choices.empty() ? "'" : ", '") + std::string(level->name) + "'";
    }
    throw std::invalid_argument("Expected an instruction set that this processor has (" + choices + "), got '" + name +
                                "'.");
}

}  // namespace coupledict
