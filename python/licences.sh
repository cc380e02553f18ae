# SPDX-License-Identifier: Apache-2.0
# To be sourced. copy_licence LIBRARY DIR: the copyright file of the Debian package that LIBRARY is of goes to DIR, under the
# package's name; one that is there already, of another package of the same source, is linked.
copy_licence() {
  local real package file same
  real=$(readlink -f "$1")
  package=$(dpkg-query -S "$real" 2>/dev/null | head -1 | cut -d: -f1 || true)
  [[ -n $package ]] || package=$(dpkg-query -S "${real#/usr}" 2>/dev/null | head -1 | cut -d: -f1 || true)  # as named before /usr was merged
  [[ -n $package ]] || package=$(dpkg-query -S "*/$(basename "$real")" 2>/dev/null | head -1 | cut -d: -f1 || true)
  file=/usr/share/doc/$package/copyright
  if [[ -n $package && -e $file ]]; then
    for same in "$2"/*; do
      [[ $same == "$2/$package" ]] || ! cmp -s "$file" "$same" || { ln -f "$same" "$2/$package"; return; }
    done
    cp "$file" "$2/$package"
  else echo "no licence was found for $real" >&2; return 1
  fi
}
# copy_static_licences DIR ARCHIVE...: the same for static libraries of the system.
copy_static_licences() {
  local dir=$1 name
  shift
  for name; do copy_licence "$(cc -print-file-name="$name")" "$dir" || return 1; done
}
