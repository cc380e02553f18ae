#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# package.sh PROGRAM DIR: DIR/temper with bin/, lib/, python/ and the licences of what lib/ holds, and DIR/temper.tar.gz. The program
# finds lib/ beside it wherever the folder lies. All of it is at most 60 MB: glibc is the machine's own, and NVIDIA's libraries
# are opened at run time.
set -euo pipefail
program=$1 dir=$2 limit=60000000
source "$(dirname "$(readlink -f "$0")")/licences.sh"

glibc='^(linux-vdso|ld-linux[^.]*|libc|libm|libpthread|libdl|librt|libresolv)\.so'
mkdir -p "$dir"
new=$(mktemp -d "$dir/.new.XXXXXX")
trap 'rm -rf "$new"' EXIT
mkdir -p "$new/bin" "$new/lib" "$new/licences"
strip -o "$new/bin/temper" "$program"

while read -r name path; do
  [[ $name =~ $glibc ]] && continue
  [[ -e $path ]] || { echo "package: $name, which the program needs, is not here" >&2; exit 1; }
  real=$(readlink -f "$path")
  strip --strip-unneeded -o "$new/lib/$name" "$real"
  copy_licence "$real" "$new/licences"
done < <(ldd "$program" | sed -nE 's/^\s*(\S+) => (\S+) \(.*/\1 \2/p; s/^\s*(\S+) => not found/\1 -/p')
copy_static_licences "$new/licences" libcrypto.a libprotobuf.a
cp /usr/share/doc/libtomlplusplus-dev/copyright "$new/licences/libtomlplusplus-dev"  # headers alone, compiled in
here=$(dirname "$(readlink -f "$0")")/..
mkdir "$new/python"
tar -C "$here/python" --exclude=__pycache__ -c temper | tar -C "$new/python" -x  # what temper export hands over to
cp "$here/LICENSE" "$here/THIRD_PARTY.md" "$here/README.md" "$new/"

# It must find every library in its own folder, and run.
while read -r name path; do
  [[ $name =~ $glibc ]] || [[ $(readlink -f "$path") == "$(readlink -f "$new")/lib/"* ]] ||
    { echo "package: $name is taken from $path, not from the package" >&2; exit 1; }
done < <(env -i ldd "$new/bin/temper" | sed -nE 's/^\s*(\S+) => (\S+) \(.*/\1 \2/p')
env -i HOME=/nowhere "$new/bin/temper" --version >/dev/null
bytes=$(du -sb "$new" | cut -f1)
if ((bytes > limit)); then
  find "$new" -type f -printf '%s %P\n' | sort -rn | head -5 >&2
  echo "package: $bytes bytes; the limit is $limit" >&2; exit 1
fi

rm -rf "$dir/temper"; mv "$new" "$dir/temper"; chmod 755 "$dir/temper"
tar -C "$dir" -czf "$dir/.temper.tar.gz.new" temper && mv "$dir/.temper.tar.gz.new" "$dir/temper.tar.gz"
mb() { printf '%d.%d MB' $(($1 / 1000000)) $(($1 / 100000 % 10)); }
echo "$dir/temper: $(mb "$bytes"); $dir/temper.tar.gz: $(mb "$(stat -c %s "$dir/temper.tar.gz")")"
