# How the kernels are compiled: `flags` for all of them, `flags_<level>` for one instruction set.
# Contracting a*b+c into one rounding is wanted in these loops, and said aloud because compilers' defaults differ. Not so
# where vectors are plain structs: compilers then contract some loops and not others, and bits would depend on chunks.
set(contract fast)
if(COUPLEDICT_PLAIN_VECTORS)
  set(contract off)
endif()
set(flags_baseline "")
set(flags_neon "")
if(CMAKE_CXX_COMPILER_ID STREQUAL "MSVC")
  message(STATUS "MSVC has no vector types: the kernels are compiled as plain C++, and expected to be several times "
                 "slower than Clang's. To use Clang: cmake -T ClangCL with Visual Studio, CXX=clang-cl with Ninja.")
  set(flags /O2 /fp:precise /bigobj)
  set(flags_avx2 /arch:AVX2)
  set(flags_avx512 /arch:AVX512)
elseif(CMAKE_CXX_COMPILER_FRONTEND_VARIANT STREQUAL "MSVC")
  # clang-cl ignores words of clang that have no /clang: before them, and means -Weverything by -Wall.
  set(flags /clang:-O3 /clang:-ffp-contract=fast /clang:-fno-math-errno /W3)
  set(flags_avx2 -mavx2 -mfma)
  set(flags_avx512 -mavx2 -mfma -mavx512f -mavx512dq -mavx512bw -mavx512vl /clang:-mprefer-vector-width=512)
else()
  set(flags -O3 -ffp-contract=${contract} -fno-math-errno -fvisibility=hidden -Wall -Wextra -Wno-psabi)
  set(flags_avx2 -mavx2 -mfma)
  set(flags_avx512 -mavx2 -mfma -mavx512f -mavx512dq -mavx512bw -mavx512vl -mprefer-vector-width=512)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND flags -Wno-maybe-uninitialized)
  list(APPEND flags_avx512 -Wno-uninitialized)  # GCC 12 finds fault with its own header
endif()
