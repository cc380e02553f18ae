#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: debian.sh CPACK BUILD_DIR: the packages that ./dev deb makes name what they need, share no file, and run where they are unpacked.
set -euo pipefail
cpack=$1 build=$2
for tool in dpkg-shlibdeps dpkg-deb file; do
  command -v "$tool" >/dev/null || { echo "$tool is not installed; ./dev deb installs it"; exit 77; }
done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
die() { echo "$*" >&2; exit 1; }
# Not compressed: xz takes most of the time, and nothing here asks how small a package is.
"$cpack" --config "$build/CPackConfig.cmake" -D CPACK_DEBIAN_COMPRESSION_TYPE=none -B "$folder" >"$folder/log" 2>&1 || { cat "$folder/log" >&2; exit 1; }
# By package: a part of each name that it must depend on, and paths that it must hold.
check() {  # $1: package; $2: what it needs; the rest: paths
  local deb depends word path
  deb=$(ls "$folder/$1"_*.deb); depends=$(dpkg-deb -f "$deb" Depends)
  for word in $2; do
    [[ $depends == *$word* ]] || die "$1 does not ask for $word: $depends"
  done
  dpkg-deb -x "$deb" "$folder/$1"
  dpkg-deb -x "$deb" "$folder/root"
  for path in "usr/share/doc/$1/copyright" "${@:3}"; do
    [[ -e $folder/$1/$path || -e $folder/$1/$path.gz ]] || die "$1 has no $path"
  done
  (cd "$folder/$1"; find . ! -type d) >>"$folder/files"
}
check libtemper0 "libdnnl libprotobuf libjpeg libwebp libre2 zlib1g" usr/lib/libtemper.so.0 usr/lib/libtemper_runtime.so.0 usr/lib/libtemper_nvinfer.so.0
check libtemper-dev "libtemper0" usr/include/temper/temper.h usr/lib/cmake/temper/temper-config.cmake usr/lib/pkgconfig/temper.pc usr/lib/libtemper_build.a
check temper "libdnnl libjpeg zlib1g" usr/bin/temper usr/share/man/man1/temper-build.1 usr/share/bash-completion/completions/temper
check temper-triton "libtemper0 temper" usr/lib/temper/backends/temper/libtriton_temper.so usr/lib/systemd/system/temper-serve@.service
twice=$(sort "$folder/files" | uniq -d)
[[ -z $twice ]] || die "several packages hold $twice"
[[ $(find "$folder" -maxdepth 1 -name '*.deb' | wc -l) == 4 ]] || die "there are other packages: $(ls "$folder")"
[[ -e $folder/root/usr/lib/libtemper.so && -e $folder/root/usr/lib/temper/tensorrt/lib/libnvinfer.so ]] || die "a link leads nowhere"
"$folder/temper/usr/bin/temper" zoo digits_cnn -o "$folder/d.onnx" --quiet
# Nothing of the build folder is looked in: the backend finds its library where the packages put it, and so does the program the backend.
needs=$(ldd "$folder/root/usr/lib/temper/backends/temper/libtriton_temper.so")
[[ $needs == *"$folder/root/usr/lib/"*libtemper_runtime.so.0* ]] || die "the backend needs $needs"
mkdir "$folder/models"
said=$("$folder/root/usr/bin/temper" serve --repository "$folder/models" --dry-run)
[[ $said == *"--backend-directory=$folder/root/usr/lib/temper/backends "* ]] || die "temper serve would run $said"
