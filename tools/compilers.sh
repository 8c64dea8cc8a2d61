#!/usr/bin/env bash
# The sources as compilers and processors take them that this machine does not have; nothing is run. Everything lands in
# build/compilers.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$PWD/build/compilers
rm -rf "$out"
mkdir -p "$out/msvc"

fail() {
  echo "make compilers: $1" >&2
  exit 1
}

needed="clang g++-riscv64-linux-gnu g++-powerpc64le-linux-gnu g++-s390x-linux-gnu"
for program in clang++ riscv64-linux-gnu-g++ powerpc64le-linux-gnu-g++ s390x-linux-gnu-g++; do
  command -v $program >/dev/null && continue
  command -v apt-get >/dev/null && [ "$(id -u)" = 0 ] ||
    fail "$needed are needed. Install them, or run this as root on Debian."
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $needed >/dev/null
done

# MSVC, as far as Clang can stand for it: its rules for types and templates, its macros and none of GCC's. The four
# headers stand for its own, and have no more than the kernels use.
cat >"$out/msvc/cstdint" <<'EOF'
#pragma once
namespace std {
using uint8_t = unsigned char;
using int32_t = int;
using uint32_t = unsigned;
using int64_t = long long;
using uint64_t = unsigned long long;
}
EOF
cat >"$out/msvc/limits" <<'EOF'
#pragma once
namespace std {
template <class T> struct numeric_limits;
template <> struct numeric_limits<double> { static constexpr double infinity() { return 1e300 * 1e300; } };
}
EOF
cat >"$out/msvc/type_traits" <<'EOF'
#pragma once
namespace std {
template <bool B, class T, class F> struct conditional { using type = T; };
template <class T, class F> struct conditional<false, T, F> { using type = F; };
template <bool B, class T, class F> using conditional_t = typename conditional<B, T, F>::type;
template <class T> struct remove_pointer { using type = T; };
template <class T> struct remove_pointer<T *> { using type = T; };
template <class T> using remove_pointer_t = typename remove_pointer<T>::type;
}
EOF
cat >"$out/msvc/math.h" <<'EOF'
#pragma once
extern "C" {
float sqrtf(float);
double sqrt(double), fabs(double), ldexp(double, int), frexp(double, int *);
int ilogb(double);
}
EOF
for level in baseline avx2 avx512; do
  case $level in baseline) macros= ;; avx2) macros=-D__AVX2__ ;; avx512) macros="-D__AVX2__ -D__AVX512F__" ;; esac
  msvc="clang++ --target=x86_64-pc-windows-msvc -fms-compatibility-version=19.40 -fms-extensions
    -fdelayed-template-parsing -nostdinc -I$out/msvc -U__GNUC__ -U__clang__ -U__x86_64__ -U__SSE2__ $macros
    -std=c++17 -DCOUPLEDICT_LEVEL=$level src/native/kernels.cpp"
  $msvc -fsyntax-only -Wall -Wextra -pedantic -Wgnu -Wlanguage-extension-token -Wno-unknown-pragmas -Werror
  # Clang takes its own builtins and attributes without a word.
  if $msvc -E -P | grep -n '__'; then fail "These lines are for GCC and Clang, and would reach MSVC."; fi
done
echo "MSVC: the kernels are plain C++17 under its rules, as Clang knows them."

# Clang and GCC see nothing in the plain vectors that the standard does not have; neither do they warn of anything.
warnings="-std=c++17 -Wall -Wextra -pedantic -Werror -fsyntax-only -DCOUPLEDICT_LEVEL=baseline"
clang++ $warnings -Wgnu -DCOUPLEDICT_PLAIN_VECTORS src/native/kernels.cpp
g++ $warnings -DCOUPLEDICT_PLAIN_VECTORS src/native/kernels.cpp
echo "Plain vectors: no extension of Clang or GCC."

# Processors that have no instruction set of their own here get the baseline.
for target in riscv64-linux-gnu powerpc64le-linux-gnu; do
  for source in kernels dispatch; do
    $target-g++ -std=c++17 -Wall -Wextra -Wno-psabi -Werror -c -DCOUPLEDICT_LEVEL=baseline \
      -o "$out/$source-$target.o" src/native/$source.cpp
  done
  echo "$target: kernels and their dispatch compile."
done

# Big-endian and 32-bit systems are refused: see the tests, none of which may be skipped here.
"${VENV:-.venv}/bin/python" -m pytest -q -n 0 -p no:cacheprovider tests/project/test_building.py -k refused |
  tee "$out/refused.txt"
grep -q '2 passed' "$out/refused.txt" || fail "Expected both refusals to be tested."
echo "Big-endian and 32-bit systems are refused in a sentence."
