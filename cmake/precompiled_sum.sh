#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# precompiled_sum.sh COMPILER ARGUMENTS: runs it; of a precompiled header it also writes the digest of what it was compiled from, as
# FILE.sum. GCC never writes the same precompiled header twice, and ccache knows a source that was compiled with one by the header's
# bytes: in a checkout with another copy of it, nothing would be found. ccache takes FILE.sum in their place (CCACHE_PCH_EXTSUM).
set -uo pipefail
"$@" || exit
before='' out='' headers=''
for word; do
  case $before in
    -o) out=$word ;;
    -MF) headers=$word ;;
  esac
  before=$word
done
case $out in
  # The compiler lists the headers as make reads them; xargs takes backslashes for the same. Without a digest ccache reads the bytes.
  *.gch) sed 's/^.*\.gch: *//; s/\\$//' "$headers" | xargs cat -- | sha256sum >"$out.sum" || rm -f "$out.sum" ;;
esac
