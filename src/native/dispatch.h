// Which instruction sets were compiled in, and which of them this processor has.
#pragma once
#include <string>
#include <vector>

#include "kernels.h"

namespace coupledict {

// Levels that this processor supports, slowest first.
std::vector<const Level *> available_levels();

// The level by that name, or the fastest one for an empty name; throws std::invalid_argument with the choices.
const Level &find_level(const std::string &name);

}  // namespace coupledict
