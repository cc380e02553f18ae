#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# package.sh BUILD DIR [--any-size]: of what lies in the build folder BUILD, DIR/temper with bin/, lib/, python/ and the licences of what lib/
# holds; DIR/temper-triton with backends/temper/, Triton's backend, to be laid over it; and an archive of each, which unpack into one
# folder. Program and backend find lib/ wherever that lies. The first is at most 60 MB, the second 8: glibc is the machine's own, and NVIDIA's
# libraries are opened at run time.
set -euo pipefail
build=$1 dir=$2 limit=60000000 limit_triton=8000000
[[ ${3:-} != --any-size ]] || limit=$((1 << 62)) limit_triton=$limit
source "$(dirname "$(readlink -f "$0")")/licences.sh"

glibc='^(linux-vdso|ld-linux[^.]*|libc|libm|libpthread|libdl|librt|libresolv)\.so'
mkdir -p "$dir"
new=$(mktemp -d "$dir/.new.XXXXXX")
trap 'rm -rf "$new"' EXIT
main=$new/temper backend=$new/temper-triton/backends/temper
mkdir -p "$main/bin" "$main/lib" "$main/licences" "$backend"
strip -o "$main/bin/temper" "$build/temper"

libraries_of() { sed -nE 's/^\s*(\S+) => (.+) \(0x.*/\1 \2/p; s/^\s*(\S+) => not found/\1 -/p'; }  # of what ldd says: a name and a path in each line

copy_needed() {  # $1: program or library; $2: where what it needs goes, if it is not in lib/ already
  local name path real
  while read -r name path; do
    [[ $name =~ $glibc || -e $main/lib/$name ]] && continue
    [[ -e $path ]] || { echo "package: $name, which $1 needs, is not here" >&2; exit 1; }
    real=$(readlink -f "$path")
    strip --strip-unneeded -o "$2/$name" "$real"
    [[ $name == libtemper_runtime.so* ]] || copy_licence "$real" "$main/licences"
  done < <(ldd "$1" | libraries_of)
}
copy_needed "$build/temper" "$main/lib"
strip --strip-unneeded -o "$backend/libtriton_temper.so" "$build/backends/temper/libtriton_temper.so"
copy_needed "$build/backends/temper/libtriton_temper.so" "$backend"
copy_static_licences "$main/licences" libcrypto.a libprotobuf.a libre2.a libwebp.a
for headers in libtomlplusplus-dev libfmt-dev; do cp /usr/share/doc/$headers/copyright "$main/licences/$headers"; done  # compiled in
here=$(dirname "$(readlink -f "$0")")/..
mkdir "$main/python"
# What temper export, versus and generate hand over to. What stands in for TensorRT, what Ray, PyTorch and Polygraphy call, metrics for
# evaluate and each module that says so itself need the Python package's native module, which is not here.
native=$(cd "$here/python" && grep -lE '^ *from \.(_temper import| import _temper)' temper/_[a-z]*.py)
tar -C "$here/python" --exclude=__pycache__ --exclude=temper/{tensorrt,ray,pytorch.py,polygraphy.py,metrics.py} $(printf -- '--exclude=%s ' $native) \
  -c temper | tar -C "$main/python" -x
cp "$here/LICENSE" "$here/THIRD_PARTY.md" "$here/README.md" "$main/"

# Each must find every library in these folders, laid over one another, and the program run.
mkdir "$new/both"; cp -al "$main/." "$new/temper-triton/." "$new/both/"
for program in bin/temper backends/temper/libtriton_temper.so; do
  while read -r name path; do
    [[ $name =~ $glibc ]] || [[ $(readlink -f "$path") == "$(readlink -f "$new/both")/"* ]] ||
      { echo "package: $program takes $name from $path, not from the package" >&2; exit 1; }
  done < <(env -i ldd "$new/both/$program" | libraries_of)
done
env -i HOME=/nowhere "$main/bin/temper" --version >/dev/null
rm -r "$new/both"

mb() { printf '%d.%d MB' $(($1 / 1000000)) $(($1 / 100000 % 10)); }
finish() {  # $1: folder; $2: the most bytes it may have
  local bytes; bytes=$(du -sb "$new/$1" | cut -f1)
  if ((bytes > $2)); then
    find "$new/$1" -type f -printf '%s %P\n' | sort -rn | sed -n 1,5p >&2
    echo "package: $1 has $bytes bytes; the limit is $2" >&2; exit 1
  fi
  rm -rf "${dir:?}/$1"; mv "$new/$1" "$dir/$1"; chmod 755 "$dir/$1"
  tar -C "$dir" --transform "s|^$1|temper|" -czf "$dir/.$1.tar.gz.new" "$1" && mv "$dir/.$1.tar.gz.new" "$dir/$1.tar.gz"
  echo "$dir/$1: $(mb "$bytes"); $dir/$1.tar.gz: $(mb "$(stat -c %s "$dir/$1.tar.gz")")"
}
finish temper "$limit"
finish temper-triton "$limit_triton"
