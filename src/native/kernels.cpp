// Compiled once per instruction set, with COUPLEDICT_LEVEL its name.
#include "encode.h"
#include "simultaneous.h"
#include "updates.h"

#define COUPLEDICT_TEXT_(x) #x
#define COUPLEDICT_TEXT(x) COUPLEDICT_TEXT_(x)

namespace coupledict::COUPLEDICT_LEVEL {
namespace {

template <class T>
constexpr Kernels<T> kTable = {
    kPanelWidth<T>, pack<T>,           gram_rows<T>,        gram_scratch<T>,
    encode<T>,      encode_scratch<T>, encode_support<T>,   encode_support_scratch<T>,
    accumulate<T>,  fill_missing<T>,   accumulate_known<T>, sweep<T>,
    sequential<T>,
};

}  // namespace

extern const Level level;
const Level level = {COUPLEDICT_TEXT(COUPLEDICT_LEVEL), &kTable<float>, &kTable<double>};

}  // namespace coupledict::COUPLEDICT_LEVEL
