#!/usr/bin/env bash
# The kernels on 64-bit ARM, on a machine of another kind: compiled by a cross-compiler, tested by a Python for ARM
# under qemu-user. Debian's packages and the wheels are those for ARM. All that is loaded or built lands in build/arm;
# what is there is used again. Afterwards build/arm/python is that Python:
# build/arm/python -m pytest tests/test_kernels.py -k patches
set -euo pipefail
cd "$(dirname "$0")/.."
arm=$PWD/build/arm
mkdir -p "$arm"

fail() {
  echo "make arm: $1" >&2
  exit 1
}

# The compiler and the emulator.
if ! command -v aarch64-linux-gnu-g++ >/dev/null || ! command -v qemu-aarch64-static >/dev/null; then
  command -v apt-get >/dev/null && [ "$(id -u)" = 0 ] ||
    fail "g++-aarch64-linux-gnu and qemu-user-static are needed. Install them, or run this as root on Debian."
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \
    g++-aarch64-linux-gnu qemu-user-static >/dev/null
fi

# A Python for ARM, unpacked from Debian's packages. Apt keeps lists of its own for it, and believes that nothing is
# installed.
apt="-qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User= -o Dir::State=$arm/apt
  -o Dir::State::status=$arm/apt/status -o Dir::Cache=$arm/apt"
if [ ! -e "$arm/sysroot/version" ]; then
  command -v apt-get >/dev/null || fail "Debian's apt-get is needed to get a Python for ARM."
  rm -rf "$arm/apt" "$arm/sysroot"
  mkdir -p "$arm/apt/lists/partial" "$arm/apt/archives/partial" "$arm/sysroot"
  touch "$arm/apt/status"
  apt-get $apt update || fail "This machine's sources of packages have none for arm64; those of Debian do."
  version=$(apt-cache $apt show --no-all-versions python3-minimal | sed -nE 's/^Version: (3\.[0-9]+).*/\1/p')
  [ -n "$version" ] || fail "This machine's sources of packages have no Python for arm64; those of Debian do."
  apt-get $apt -y --no-install-recommends --download-only install "libpython$version-dev" "python$version-minimal" \
    libstdc++6 >/dev/null
  for package in "$arm"/apt/archives/*.deb; do dpkg-deb -x "$package" "$arm/sysroot"; done
  echo "$version" >"$arm/sysroot/version"
fi
version=$(cat "$arm/sysroot/version")
cat >"$arm/python" <<EOF
#!/bin/sh
# An early processor, without SVE. Emulated threads are slow, so BLAS has one.
export QEMU_CPU=cortex-a72 OPENBLAS_NUM_THREADS=1 PYTHONPATH=$arm/package:$arm/libraries
exec qemu-aarch64-static -L $arm/sysroot $arm/sysroot/usr/bin/python$version "\$@"
EOF
chmod +x "$arm/python"

# Wheels are built and chosen by a Python of the same version on this machine.
command -v "python$version" >/dev/null || fail "python$version is needed here, too: it builds the wheel for ARM."
if [ ! constraints.txt -ot "$arm/tools/done" ]; then
  "python$version" -m venv "$arm/tools"
  "$arm/tools/bin/pip" install --quiet -c constraints.txt scikit-build-core nanobind cmake ninja
  touch "$arm/tools/done"
fi
pip="$arm/tools/bin/python -m pip --disable-pip-version-check"

# The libraries, while the kernels are compiled.
libraries() {
  [ ! constraints.txt -ot "$arm/libraries/done" ] || [ ! pyproject.toml -ot "$arm/libraries/done" ] || return 0
  rm -rf "$arm/libraries"
  "$arm/tools/bin/python" -c 'import tomllib
for line in tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"]: print(line)' >"$arm/requirements.txt"
  $pip install --quiet --target "$arm/libraries" -c constraints.txt -r "$arm/requirements.txt" \
    --platform manylinux_2_28_aarch64 --platform manylinux_2_27_aarch64 --platform manylinux2014_aarch64 \
    --python-version "$version" --only-binary :all: --no-compile pytest pytest-timeout hypothesis
  "$arm/tools/bin/python" -m compileall -q -x /tests/ "$arm/libraries"
  touch "$arm/libraries/done"
}
trap wait EXIT  # whatever happens, nothing is left running
libraries &
rm -rf "$arm/package" "$arm"/*.whl
_PYTHON_HOST_PLATFORM=linux-aarch64 SETUPTOOLS_EXT_SUFFIX=.cpython-${version/./}-aarch64-linux-gnu.so \
  PATH=$arm/tools/bin:$PATH $pip wheel --quiet --no-cache-dir --no-deps --no-build-isolation -w "$arm" \
  -C build-dir="$arm/cmake" \
  -C cmake.define.CMAKE_SYSTEM_NAME=Linux \
  -C cmake.define.CMAKE_SYSTEM_PROCESSOR=aarch64 \
  -C cmake.define.CMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ \
  -C cmake.define.CMAKE_CXX_FLAGS="-idirafter $arm/sysroot/usr/include" \
  -C cmake.define.Python_INCLUDE_DIR="$arm/sysroot/usr/include/python$version" .
"$arm/tools/bin/python" -m zipfile -e "$arm"/coupledict-*.whl "$arm/package"
wait $!

"$arm/python" -c '
import platform
import coupledict
found = platform.machine(), coupledict.build_info()["simd"]
assert found == ("aarch64", "neon"), f"Expected the kernels for NEON on aarch64, got {found}."
print("Kernels for", *found, "by", coupledict.build_info()["compiler"])'

# Left out is what keeps the slow twins busy for minutes under emulation: large cases, and cases whose like stays in.
slow="patches_with_tol or whole_loop or weighted_views or 64-64 or 257-40 or 40-300-ols or None- or neon-0-"
slow="$slow or (test_equals_twin_without_gram and not 130-17)"
"$arm/python" -m pytest -q -p no:cacheprovider -k "not ($slow)" \
  tests/test_levels.py tests/test_kernels.py tests/test_support.py tests/test_updates.py
