#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: debian.sh CPACK BUILD_DIR: what ./dev deb makes names what it needs, and runs where it is unpacked.
set -euo pipefail
cpack=$1 build=$2
for tool in dpkg-shlibdeps dpkg-deb file; do
  command -v "$tool" >/dev/null || { echo "$tool is not installed; ./dev deb installs it"; exit 77; }
done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$cpack" --config "$build/CPackConfig.cmake" -B "$folder" >"$folder/log" 2>&1 || { cat "$folder/log" >&2; exit 1; }
deb=$(ls "$folder"/temper_*.deb)
depends=$(dpkg-deb -f "$deb" Depends)
for library in libdnnl libprotobuf libjpeg libwebp zlib1g; do
  [[ $depends == *$library* ]] || { echo "the package does not ask for $library: $depends" >&2; exit 1; }
done
dpkg-deb -x "$deb" "$folder/root"
"$folder/root/usr/bin/temper" zoo digits_cnn -o "$folder/d.onnx" --quiet
for path in usr/bin/temper usr/lib/temper/backends/temper/libtriton_temper.so usr/include/temper/temper.h usr/share/man/man1/temper-build.1 usr/share/bash-completion/completions/temper; do
  [[ -e $folder/root/$path || -e $folder/root/$path.gz ]] || { echo "the package has no $path" >&2; exit 1; }
done
