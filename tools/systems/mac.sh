#!/usr/bin/env bash
# Wheels for macOS, on a machine of another kind: compiled by Zig's Clang, which brings Apple's headers of the C
# library, then looked into. Nothing is run, and no Mac is needed; that they work is for a Mac to show. Everything lands
# in build/mac. Python's headers are those of this machine: both systems have the same sizes of numbers, and the stable
# ABI hides the rest. The wheels of a release are made on a Mac, with Apple's compiler and libc++.
set -euo pipefail
cd "$(dirname "$0")/../.."
mac=$PWD/build/mac
export ZIG_GLOBAL_CACHE_DIR=${ZIG_GLOBAL_CACHE_DIR:-$mac/cache}  # libc++, compiled once
target=11.0  # the oldest macOS, as in pyproject.toml
mkdir -p "$mac"

fail() {
  echo "mac: $1" >&2
  exit 1
}

# The stable ABI needs Python 3.12 or newer.
for python in ${PYTHON_FOR_MAC:-} python3.14 python3.13 python3.12 \
  $(command -v pyenv >/dev/null && ls -d "$(pyenv root)"/versions/3.1[2-9]*/bin/python 2>/dev/null) none; do
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null && break
done
[ "$python" != none ] || fail "Python 3.12 or newer is needed. Install it, or name it by PYTHON_FOR_MAC=..."

if [ ! constraints.txt -ot "$mac/tools/done" ]; then
  rm -rf "$mac/tools"
  "$python" -m venv "$mac/tools"
  "$mac/tools/bin/pip" --disable-pip-version-check install --quiet -c constraints.txt \
    scikit-build-core nanobind cmake ninja ziglang abi3audit macholib
  touch "$mac/tools/done"
fi
zig="$mac/tools/bin/python -m ziglang"

for processor in ${PROCESSORS:-arm64 x86_64}; do
  folder=$mac/$processor
  rm -rf "$folder"
  mkdir -p "$folder"
  # Zig's linker takes no list of symbols from a file (-Wl,@...), as nanobind gives one of Python's: all that is
  # undefined is left to the loader, and compared with that list afterwards. Nor does it make bundles (0.17 crashes);
  # Python loads a dynamic library just as well.
  cat >"$folder/c++" <<EOF
#!/usr/bin/env bash
words=()
for word in "\$@"; do
  case \$word in
    -Wl,@*) word=-Wl,-undefined,dynamic_lookup ;;
    -bundle) word=-shared ;;
    -Wl,-dead_strip | -Wl,-x | -Wl,-S | -Wl,-headerpad_max_install_names) continue ;;
  esac
  words+=("\$word")
done
exec $zig c++ -target ${processor/arm64/aarch64}-macos.$target "\${words[@]}"
EOF
  printf '#!/bin/sh\nexec %s ar "$@"\n' "$zig" >"$folder/ar"
  printf '#!/bin/sh\nexec %s ranlib "$@"\n' "$zig" >"$folder/ranlib"
  printf '#!/bin/sh\nexit 1\n' >"$folder/install_name_tool"  # CMake asks for it, but has nothing to rename
  chmod +x "$folder"/*
  _PYTHON_HOST_PLATFORM=macosx-$target-$processor SETUPTOOLS_EXT_SUFFIX=.abi3.so PATH=$mac/tools/bin:$PATH \
    "$mac/tools/bin/python" -m pip --disable-pip-version-check wheel --quiet --no-cache-dir --no-deps \
    --no-build-isolation -w "$folder" -C build-dir="$folder/cmake" \
    -C cmake.define.CMAKE_SYSTEM_NAME=Darwin \
    -C cmake.define.CMAKE_SYSTEM_PROCESSOR="$processor" \
    -C cmake.define.CMAKE_OSX_SYSROOT= \
    -C cmake.define.CMAKE_CXX_COMPILER="$folder/c++" \
    -C cmake.define.CMAKE_AR="$folder/ar" \
    -C cmake.define.CMAKE_INSTALL_NAME_TOOL="$folder/install_name_tool" \
    -C cmake.define.CMAKE_RANLIB="$folder/ranlib" \
    -C cmake.define.CMAKE_COMPILE_WARNING_AS_ERROR=ON .
  "$mac/tools/bin/python" tools/systems/look_into_mac.py "$target" "$processor" "$folder"/coupledict-*.whl
  "$mac/tools/bin/abi3audit" --strict --verbose "$folder"/coupledict-*.whl
done
echo "Wheels for macOS were compiled, linked and looked into. Nothing of them was run."
