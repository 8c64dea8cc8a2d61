# How the kernels are compiled: `flags` for all of them, `flags_<level>` for one instruction set.
# Contracting a*b+c into one rounding is wanted in these loops, and said aloud because compilers' defaults differ.
set(flags_baseline "")
set(flags_neon "")
if(CMAKE_CXX_COMPILER_FRONTEND_VARIANT STREQUAL "MSVC")
  # clang-cl ignores words of clang that have no /clang: before them, and means -Weverything by -Wall.
  set(flags /clang:-O3 /clang:-ffp-contract=fast /clang:-fno-math-errno /W3)
  set(flags_avx2 -mavx2 -mfma)
  set(flags_avx512 -mavx2 -mfma -mavx512f -mavx512dq -mavx512bw -mavx512vl /clang:-mprefer-vector-width=512)
else()
  set(flags -O3 -ffp-contract=fast -fno-math-errno -fvisibility=hidden -Wall -Wextra -Wno-psabi)
  set(flags_avx2 -mavx2 -mfma)
  set(flags_avx512 -mavx2 -mfma -mavx512f -mavx512dq -mavx512bw -mavx512vl -mprefer-vector-width=512)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND flags -Wno-maybe-uninitialized)
  list(APPEND flags_avx512 -Wno-uninitialized)  # GCC 12 finds fault with its own header
endif()
