#!/usr/bin/env bash
# The wheels for 64-bit ARM, on a machine of another kind: cross-compiled and repaired by wheels.py, tested by Pythons
# for ARM under qemu-user. Pythons and libraries are those for ARM, the wheels are what a user would get. All that is
# loaded or built lands in build; what is there is used again. Afterwards build/arm/python is the Python that has the
# kernels: build/arm/python -m pytest tests/kernels/test_codes.py -k patches
# The argument is the Python of an environment that has the group wheels; `make systems NAME=arm` makes it.
set -euo pipefail
cd "$(dirname "$0")/../.."
tools=$(realpath -s "$1")
mkdir -p build/arm
arm=$PWD/build/arm

# The compiler, the emulator and the wheels: for 3.11, and for the stable ABI.
"$tools" tools/systems/wheels.py --platforms manylinux_2_28_aarch64

# A Python for ARM with our wheel and its libraries, in folder $arm/$1: the one of a release of Debian.
prepare() {
  local folder=$arm/$1 python=$PWD/build/pythons/$1-arm64 version interface=abi3 platforms
  tools/systems/debian_python.sh "$1" arm64 "$python"
  version=$(cat "$python/version")
  [ "$version" != 3.11 ] || interface=cp311
  platforms="--platform manylinux_2_28_aarch64 --platform manylinux_2_27_aarch64 --platform manylinux2014_aarch64"
  if [ constraints.txt -nt "$folder/done" ] || [ pyproject.toml -nt "$folder/done" ]; then
    rm -rf "$folder"
    "$tools" tools/needs.py >"$arm/requirements.txt"
    "$tools" -m pip --disable-pip-version-check install --quiet --target "$folder" -c constraints.txt \
      -r "$arm/requirements.txt" $platforms --python-version "$version" --only-binary :all: --no-compile \
      pytest pytest-timeout hypothesis
    touch "$folder/done"
  fi
  rm -rf "$folder"/coupledict*
  "$tools" -m pip --disable-pip-version-check install --quiet --target "$folder" --no-deps --no-compile $platforms \
    --python-version "$version" --only-binary :all: build/wheels/manylinux_2_28_aarch64-$interface/repaired/*.whl
  cat >"$arm/python-$1" <<EOF
#!/bin/sh
# An early processor, without SVE. Emulated threads are slow, so BLAS has one.
export QEMU_CPU=cortex-a72 OPENBLAS_NUM_THREADS=1 PYTHONPATH=$folder PYTHONPYCACHEPREFIX=$arm/cache
exec $python/sysroot/usr/bin/python "\$@"
EOF
  chmod +x "$arm/python-$1"
}

kernels='
import platform, sys
import coupledict
found = platform.machine(), coupledict.build_info()["simd"]
assert found == ("aarch64", "neon"), f"Expected the kernels for NEON on aarch64, got {found}."
print("Python", sys.version.split()[0], "has kernels for", *found, "by", coupledict.build_info()["compiler"])'

# The newer Python is there to load the wheel of the stable ABI; its kernels are the same objects.
release=$(. /etc/os-release && echo "$VERSION_CODENAME")
for suite in trixie "$release"; do
  prepare "$suite"
  "$arm/python-$suite" -c "$kernels"
  "$arm/python-$suite" tests/minimal.py
done
ln -sf "python-$release" "$arm/python"

# Left out is what keeps the slow twins busy for minutes under emulation: large cases, and cases whose like stays in.
slow="patches_with_tol or whole_loop or weighted_views or 64-64 or 257-40 or 40-300-ols or None- or neon-0-"
slow="$slow or (test_equals_twin_without_gram and not 130-17)"
"$arm/python" -m pytest -q -p no:cacheprovider -k "not ($slow)" \
  tests/kernels/test_levels.py tests/kernels/test_codes.py tests/kernels/test_support.py tests/learning/test_updates.py
