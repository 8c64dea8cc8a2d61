#!/usr/bin/env bash
# The sources compiled for processors that this machine does not have; nothing is run. Everything lands in
# build/compilers.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=$PWD/build/compilers
rm -rf "$out"
mkdir -p "$out"

fail() {
  echo "compilers: $1" >&2
  exit 1
}

needed="g++-riscv64-linux-gnu g++-powerpc64le-linux-gnu g++-s390x-linux-gnu"
for program in riscv64-linux-gnu-g++ powerpc64le-linux-gnu-g++ s390x-linux-gnu-g++; do
  command -v $program >/dev/null && continue
  command -v apt-get >/dev/null && [ "$(id -u)" = 0 ] ||
    fail "$needed are needed. Install them, or run this as root on Debian."
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $needed >/dev/null
done

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
