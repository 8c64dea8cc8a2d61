#!/usr/bin/env bash
# coupledict on a Python without a GIL (3.14t): the wheel is built for it, installed into a bare environment, used and
# tested there; what it computes must have the very bits that an ordinary Python computes. The interpreter is
# FREETHREADED_PYTHON or python3.14t if there is one, else it is built from Debian's source. All that is loaded or built
# lands in build/freethreaded; what is there is used again.
set -euo pipefail
cd "$(dirname "$0")/../.."
here=$PWD/build/freethreaded
ordinary=${PYTHON:-python3}
mkdir -p "$here"
export PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONDONTWRITEBYTECODE=

fail() {
  echo "freethreaded: $1" >&2
  exit 1
}

# What Python is built with. A module that lacks its library is left out, so they are asked for one by one.
libraries() {
  command -v apt-get >/dev/null || fail "Debian's apt-get is needed to get a Python; or set FREETHREADED_PYTHON."
  needed="gcc make xz-utils libffi-dev zlib1g-dev libssl-dev libbz2-dev liblzma-dev libsqlite3-dev"
  dpkg -s $needed >/dev/null 2>&1 && return
  [ "$(id -u)" = 0 ] || fail "Some of these packages are missing: $needed. Install them, or run this as root."
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=600 install -qq -y --no-install-recommends $needed \
    >/dev/null
}

# The newest source of Python 3.14, from the mirror of this machine. Apt keeps lists of its own for it, and checks them.
# A mirror may list a version that it does not have yet: then this one, if it is still there.
version=3.14.7
digest=3b48dac8fb59f62eaa67ac83c1eb12bda1b7a08406dd286e252c11a66be27f81  # in python3.14_3.14.7-1.dsc, which is signed
download() {
  mirror=$(apt-get indextargets --format '$(ORIGIN) $(REPO_URI)' 'Created-By: Packages' |
    sed -n 's/^Debian //p' | grep -v security | head -n 1)
  [ -n "$mirror" ] || fail "This machine has no mirror of Debian among its sources; set FREETHREADED_PYTHON."
  for suite in forky sid; do
    apt=$here/apt-$suite
    rm -rf "$apt"
    mkdir -p "$apt/lists/partial" "$apt/archives/partial"
    touch "$apt/status"
    echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" >"$apt/sources.list"
    options="-qq -o APT::Sandbox::User= -o Dir::State=$apt -o Dir::State::status=$apt/status -o Dir::Cache=$apt
      -o Dir::Etc::sourcelist=$apt/sources.list -o Dir::Etc::sourceparts=-"
    if (cd "$apt" && apt-get $options update && apt-get $options --download-only source python3.14) \
      >"$apt/log" 2>&1; then
      cp "$apt"/python3.14_*.orig.tar.xz "$here/python.tar.xz"
      return
    fi
  done
  echo "The mirror has none of the sources that it lists; version $version is tried."
  "$ordinary" - "${mirror%/}/pool/main/p/python3.14/python3.14_$version.orig.tar.xz" "$here/part.tar.xz" <<'END'
import sys, urllib.request
urllib.request.urlretrieve(*sys.argv[1:])
END
  echo "$digest  $here/part.tar.xz" | sha256sum --check --quiet ||
    fail "Expected the source of Python $version as Debian signed it, got another file."
  mv "$here/part.tar.xz" "$here/python.tar.xz"
}

# Without profiling and tests of its own: that would take an hour.
interpreter() {
  python=${FREETHREADED_PYTHON:-$(command -v python3.14t || echo "$here/python/bin/python3.14t")}
  if [ ! -x "$python" ]; then
    libraries
    [ -e "$here/python.tar.xz" ] || download
    rm -rf "$here/source" "$here/python"
    mkdir -p "$here/source"
    tar -xJf "$here/python.tar.xz" -C "$here/source" --strip-components=1
    echo "Building Python without a GIL ..."
    (cd "$here/source" && ./configure -q --disable-gil --prefix="$here/python" && make -s -j2 && make -s install) \
      >"$here/python.log" 2>&1 || fail "Python could not be built; $here/python.log says why."
  fi
  "$python" -c 'import sys; sys.exit(sys._is_gil_enabled())' || fail "Expected a Python without a GIL, got $python."
}

# environment NAME PYTHON TAG: build the wheel, check its tag, install it with what it needs and nothing else.
environment() {
  local tools="$here/tools-$1"
  if [ ! constraints.txt -ot "$tools/done" ]; then
    rm -rf "$tools"
    "$2" -m venv "$tools"
    "$tools/bin/python" -m pip install --quiet -c constraints.txt scikit-build-core nanobind cmake ninja
    touch "$tools/done"
  fi
  rm -rf "${here:?}/$1" "$here/wheel-$1"
  "$tools/bin/python" -m pip wheel --quiet --no-deps --no-build-isolation -C build-dir="$here/cmake-$1" \
    -w "$here/wheel-$1" .
  ls "$here/wheel-$1"/coupledict-*-$3-linux_*.whl >/dev/null ||
    fail "Expected a wheel for $3, got $(ls "$here/wheel-$1")."
  "$2" -m venv "$here/$1"
  "$here/$1/bin/python" -m pip install --quiet -c constraints.txt "$here/wheel-$1"/*.whl
  (cd "$here" && "$here/$1/bin/python" -W error ../../tests/minimal.py)
}

interpreter
"$python" -VV
echo "The wheel in a bare environment, without a GIL:"
environment free "$python" cp314-cp314t
echo "The wheel in a bare environment of $("$ordinary" -V):"
environment gil "$ordinary" 'cp31*-*'

echo "What both compute, with every instruction set and number type:"
for name in free gil; do
  "$here/$name/bin/python" -W error tests/digest.py >"$here/digests-$name.tsv"
done
diff "$here/digests-free.tsv" "$here/digests-gil.tsv" || fail "The results of the two interpreters differ."
echo "$(wc -l <"$here/digests-free.tsv") results have the same bits."

# The oracle of files has no release for this Python yet, only a version to come.
"$here/free/bin/python" -m pip install --quiet -c constraints.txt \
  pytest pytest-timeout pytest-xdist hypothesis psutil pandas
"$here/free/bin/python" -m pip install --quiet --only-binary :all: --pre safetensors
# Threads, streams, kernels, learning and files; all tests run on ordinary Pythons, with which the digests agree.
"$here/free/bin/python" -m pytest -q -n 2 --dist loadfile -p no:cacheprovider $(printf 'tests/%s.py ' \
  parallel/test_free_threading parallel/test_processes kernels/test_codes kernels/test_levels parallel/test_ordered \
  coding/test_sparse_encode estimators/test_learner estimators/test_online estimators/test_streams files/test_models)
