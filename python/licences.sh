# SPDX-License-Identifier: Apache-2.0
# To be sourced. copy_licence LIBRARY DIR: the copyright file of the Debian package that LIBRARY is of goes to DIR, under the
# package's name.
copy_licence() {
  local real package
  real=$(readlink -f "$1")
  package=$(dpkg-query -S "$real" 2>/dev/null | head -1 | cut -d: -f1 || true)
  [[ -n $package ]] || package=$(dpkg-query -S "*/$(basename "$real")" 2>/dev/null | head -1 | cut -d: -f1 || true)
  if [[ -n $package && -e /usr/share/doc/$package/copyright ]]; then cp "/usr/share/doc/$package/copyright" "$2/$package"
  else echo "no licence was found for $real" >&2; return 1
  fi
}
# copy_static_licences DIR ARCHIVE...: the same for static libraries of the system.
copy_static_licences() {
  local dir=$1 name
  shift
  for name; do copy_licence "$(cc -print-file-name="$name")" "$dir" || return 1; done
}
