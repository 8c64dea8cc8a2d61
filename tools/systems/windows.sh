#!/usr/bin/env bash
# coupledict on Windows, as far as that can be had on another system: compiled by Clang for Windows (MinGW-w64), put into
# a wheel, and tested by CPython for Windows, run by Wine. That is the DLL that python.org gives out (panda3d's wheel has
# it, with the modules of the standard library that are compiled) and the wheels of NumPy and the others for Windows. It
# is not Windows: files, processes and signals are as Wine has them. All that is loaded or built lands in build/windows;
# what is there is used again. Afterwards build/windows/python is that Python:
# build/windows/python -m pytest tests/kernels/test_codes.py -k patches | cat
# TESTS names other tests to run than those below.
set -euo pipefail
cd "$(dirname "$0")/../.."
windows=$PWD/build/windows
parts=tools/systems/windows
home=$windows/home  # of the Python for Windows
panda3d=1.10.16  # the wheel for 3.12 has Python 3.12.10
version=3.12
dll=python312
mkdir -p "$windows/lib"

fail() {
  echo "windows: $1" >&2
  exit 1
}

# The compiler, and Wine.
mingw=x86_64-w64-mingw32
wine=/usr/lib/wine/wine64
if ! command -v clang++ $mingw-g++-posix >/dev/null || [ ! -x $wine ]; then
  command -v apt-get >/dev/null && [ "$(id -u)" = 0 ] ||
    fail "clang, g++-mingw-w64-x86-64-posix and wine64 are needed. Install them, or run this as root on Debian."
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \
    clang g++-mingw-w64-x86-64-posix wine64 >/dev/null
fi

# A Python of the same version on this machine: it builds the wheel, and its library is that of Windows, too, but for the
# modules that are compiled.
python=
for candidate in "python$version" "$HOME/.pyenv/versions/$version".*/bin/python; do
  ! "$candidate" -c '' 2>/dev/null || python=$candidate
done
[ -n "$python" ] || fail "python$version is needed here, too: it builds the wheel, and gives its library."
if [ ! constraints.txt -ot "$windows/tools/done" ]; then
  "$python" -m venv "$windows/tools"
  "$windows/tools/bin/pip" install --quiet -c constraints.txt scikit-build-core nanobind cmake ninja pefile abi3info \
    abi3audit
  touch "$windows/tools/done"
fi
tools=$windows/tools/bin
pip="$tools/python -m pip --disable-pip-version-check"

# Python for Windows. python3.dll, for what was compiled for the stable ABI, passes everything on to the DLL.
make_python() {
  local from=$windows/panda3d/deploy_libs
  rm -rf "$home" "$windows/panda3d" "$windows/prefix"
  mkdir -p "$home/DLLs"
  $pip download --quiet --no-deps --only-binary :all: --platform win_amd64 --python-version $version \
    -d "$windows" "panda3d==$panda3d"
  "$tools/python" -m zipfile -e "$windows/panda3d-$panda3d"-*.whl "$windows/panda3d"
  cp "$from/$dll.dll" "$from"/VCRUNTIME140*.dll "$home"
  cp "$from"/*.pyd "$from"/lib*.dll "$from/sqlite3.dll" "$from/zlib1.dll" "$home/DLLs"
  rm -r "$windows/panda3d"* "$home/DLLs/_wmi.pyd"  # Wine ends a program that asks WMI; Python can do without
  cp -r "$("$python" -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')" "$home/Lib"
  rm -rf "$home"/Lib/{site-packages,lib-dynload,config-*,test,idlelib,tkinter,turtledemo}
  "$tools/python" $parts/exports.py "$home/$dll.dll" /usr/lib/x86_64-linux-gnu/wine/x86_64-windows/ucrtbase.dll \
    "$windows/lib"
  local gcc="$mingw-gcc-posix -O2 -s" lib=$windows/lib
  $mingw-dlltool -d "$lib/python3.def" -l "$lib/python3.lib"
  $mingw-dlltool -d "$lib/python.def" -l "$lib/$dll.lib"
  $gcc -municode $parts/python.c "$lib/$dll.lib" -o "$home/python.exe"
  echo | $gcc -shared -nostdlib -Wl,--entry=0 -x c - -x none "$lib/forward.def" -o "$home/python3.dll"
  $gcc -shared -static $parts/complex.c "$lib/complex.def" -o "$home/own-ms-win-crt-math-l1-1-0.dll"
  $gcc -shared -static $parts/random.c -ladvapi32 -o "$home/bcryptprimitives.dll"
  mkdir -p "$windows/include"
  cp -r "$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')/." "$windows/include"
  cp $parts/pyconfig.h "$windows/include/pyconfig.h"
  touch "$home/done"
}
[ -e "$home/done" ] && [ ! "$home/done" -ot $parts/exports.py ] || make_python
cat >"$windows/python" <<EOF
#!/bin/sh
# Wine cannot give a file to Python as its standard output: send it through a pipe. BLAS has one thread.
export WINEPREFIX=$windows/prefix WINEDEBUG=-all WINEDLLOVERRIDES=winedbg.exe=d OPENBLAS_NUM_THREADS=1
exec $wine $home/python.exe "\$@"
EOF
gcc_folder=$(dirname "$($mingw-g++-posix -print-libgcc-file-name)")
cat >"$windows/c++" <<EOF
#!/bin/sh
# Clang, with the C++ library of GCC, which it does not find by itself where Debian has it.
exec clang++ -target x86_64-w64-windows-gnu -nostdinc++ -isystem $gcc_folder/include/c++ \\
  -isystem $gcc_folder/include/c++/$mingw -L$gcc_folder -pthread -Qunused-arguments "\$@"
EOF
chmod +x "$windows/python" "$windows/c++"

# The libraries, while the kernels are compiled. Those that need complex functions of Windows, which Wine has not, are
# led to a library that has them.
libraries() {
  local site=$home/Lib/site-packages
  [ ! constraints.txt -ot "$site/done" ] || [ ! pyproject.toml -ot "$site/done" ] || return 0
  rm -rf "$site"
  "$tools/python" tools/needs.py images audio serve plot >"$windows/requirements.txt"
  $pip install --quiet --target "$site" -c constraints.txt -r "$windows/requirements.txt" \
    --platform win_amd64 --python-version $version --only-binary :all: --no-compile \
    pytest pytest-timeout hypothesis psutil packaging pandas safetensors colorama
  find "$site" '(' -name '*.pyd' -o -name '*.dll' ')' -exec \
    sed -i 's/api-ms-win-crt-math-l1-1-0[.]dll/own-ms-win-crt-math-l1-1-0.dll/' '{}' +
  "$tools/python" -m compileall -q -x /tests/ "$home/Lib" >/dev/null || true  # some files are there to be wrong
  touch "$site/done"
}
trap wait EXIT  # whatever happens, nothing is left running
libraries &
rm -f "$windows"/coupledict-*.whl
_PYTHON_HOST_PLATFORM=win-amd64 SETUPTOOLS_EXT_SUFFIX=.pyd PATH=$tools:$PATH \
  $pip wheel --quiet --no-cache-dir --no-deps --no-build-isolation -w "$windows" \
  -C build-dir="$windows/cmake" \
  -C cmake.define.CMAKE_SYSTEM_NAME=Windows \
  -C cmake.define.CMAKE_SYSTEM_PROCESSOR=AMD64 \
  -C cmake.define.CMAKE_CXX_COMPILER="$windows/c++" \
  -C cmake.define.CMAKE_RC_COMPILER=$mingw-windres \
  -C cmake.define.CMAKE_MODULE_LINKER_FLAGS="-static -s" \
  -C cmake.define.Python_INCLUDE_DIR="$windows/include" \
  -C cmake.define.Python_LIBRARY="$windows/lib/$dll.lib" \
  -C cmake.define.Python_SABI_LIBRARY="$windows/lib/python3.lib" \
  -C cmake.define.SKBUILD_SOSABI= .
wait $!
wheel=$windows/coupledict-$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)-cp312-abi3-win_amd64.whl
[ -e "$wheel" ] || fail "Expected $wheel, got $(ls "$windows"/coupledict-*.whl)."
"$tools/abi3audit" --strict "$wheel"
rm -rf "$home"/Lib/site-packages/coupledict*
"$tools/python" -m zipfile -e "$wheel" "$home/Lib/site-packages"
"$tools/python" -m compileall -q "$home/Lib/site-packages/coupledict"

[ -e "$windows/prefix/system.reg" ] || WINEPREFIX=$windows/prefix WINEDEBUG=-all $wine wineboot -i >/dev/null 2>&1
"$windows/python" -c '
import sys
import coupledict
print(f"Python {sys.version} for {sys.platform}, run by Wine;", "kernels:", *coupledict.build_info()["simd_available"])
assert sys.platform == "win32"' 2>&1 | cat
"$windows/python" tests/minimal.py 2>&1 | cat
# Zarr is not installed here.
"$windows/python" -m pytest -q -p no:cacheprovider -k "not zarr" \
  ${TESTS:-tests/kernels/test_levels.py tests/files/test_written_files.py tests/estimators/test_saving.py} 2>&1 | cat
