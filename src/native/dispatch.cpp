#include "dispatch.h"

#include <stdexcept>

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

std::vector<const Level *> available_levels() {
#if defined(COUPLEDICT_ARM)
    std::vector<const Level *> found = {&neon::level};
#else
    std::vector<const Level *> found = {&baseline::level};
#endif
#if defined(COUPLEDICT_X86)
    const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (has_avx2) found.push_back(&avx2::level);
    if (has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
        found.push_back(&avx512::level);
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
