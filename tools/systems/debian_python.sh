#!/usr/bin/env bash
# A CPython of another release of Debian, or for another processor, unpacked into a folder and installed nowhere:
#   tools/systems/debian_python.sh trixie arm64 build/pythons/trixie-arm64
# Afterwards FOLDER/sysroot/usr/bin/python is that Python, with the loader and the libraries of its own release (under
# qemu-user where the processor is another one), FOLDER/include has its headers, and FOLDER/version its version. What is
# there stays.
set -euo pipefail
suite=$1 architecture=$2
mkdir -p "$3"
folder=$(cd "$3" && pwd)
[ ! -e "$folder/version" ] || exit 0

fail() {
  echo "debian_python.sh: $1" >&2
  exit 1
}
command -v apt-get >/dev/null || fail "Debian's apt-get is needed to get a Python of Debian $suite for $architecture."
keys=/usr/share/keyrings/debian-archive-keyring.gpg
mirror=$(apt-get indextargets --format '$(REPO_URI)' 2>/dev/null | grep -m 1 '/debian/$') || mirror=
[ -n "$mirror" ] && [ -e "$keys" ] || fail "This machine's sources of packages are not those of Debian."

# Apt keeps lists of its own here, and believes that nothing is installed.
rm -rf "$folder/apt" "$folder/sysroot"
mkdir -p "$folder/apt/lists/partial" "$folder/apt/archives/partial" "$folder/sysroot"
touch "$folder/apt/status"
echo "deb [signed-by=$keys] $mirror $suite main" >"$folder/apt/sources.list"
apt="-qq -o APT::Architecture=$architecture -o APT::Architectures=$architecture -o APT::Sandbox::User=
  -o Dir::State=$folder/apt -o Dir::State::status=$folder/apt/status -o Dir::Cache=$folder/apt
  -o Dir::Etc::sourcelist=$folder/apt/sources.list -o Dir::Etc::sourceparts=-"
apt-get $apt update || fail "$mirror has no Debian $suite for $architecture."
version=$(apt-cache $apt show --no-all-versions python3-minimal | sed -nE 's/^Version: (3\.[0-9]+).*/\1/p')
[ -n "$version" ] || fail "Debian $suite has no Python for $architecture."
apt-get $apt -y --no-install-recommends --download-only install "libpython$version-dev" "python$version-minimal" \
  libstdc++6 >/dev/null
for package in "$folder"/apt/archives/*.deb; do dpkg-deb -x "$package" "$folder/sysroot"; done
rm -rf "$folder/apt"

# Only the headers of Python: those of the C library beside them belong to another compiler.
mkdir -p "$folder/include"
cp -r "$folder/sysroot/usr/include/python$version" "$folder/include"
for headers in "$folder"/sysroot/usr/include/*-linux-gnu/python"$version"; do
  mkdir -p "$folder/include/$(basename "$(dirname "$headers")")"
  cp -r "$headers" "$folder/include/$(basename "$(dirname "$headers")")"
done

# Releases before trixie keep their loader in /lib. The name that a Python is called by tells it its environment.
library=$(dirname "$(find "$folder/sysroot" -name 'libc.so.6' | head -n 1)")
loader=$(find "$library" -name 'ld-linux-*.so.*' | head -n 1)
libraries=$library:$(dirname "$(find "$folder/sysroot/usr/lib" -name 'libstdc++.so.6' | head -n 1)")
case $architecture in
  amd64) emulator= ;;
  arm64) emulator="qemu-aarch64-static -L $folder/sysroot" ;;
  *) fail "Expected amd64 or arm64, got $architecture." ;;
esac
cat >"$folder/sysroot/usr/bin/python" <<EOF
#!/bin/sh
exec $emulator $loader --library-path $libraries --argv0 "\$0" $folder/sysroot/usr/bin/python$version "\$@"
EOF
chmod +x "$folder/sysroot/usr/bin/python"
echo "$version" >"$folder/version"
