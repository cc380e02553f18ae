#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: run.sh BUILD NAME fixed|open [libFuzzer options]
# Runs BUILD/tests/fuzz/NAME_fuzz from its seeds. fixed: from the seeds alone and one random seed, so that every call
# does the same; open: goes on from the corpus that earlier calls left. Findings go to BUILD/findings/NAME/.
# Ends with 77 (skipped) where the harness was not built.
set -euo pipefail
tests=$(dirname "$(realpath "$0")") build=$(realpath -m "$1") name=$2 mode=$3; shift 3
program=$build/tests/fuzz/${name}_fuzz
[[ -x $program ]] || { echo "$program is not there: ./dev test and ./dev fuzz build it"; exit 77; }
work=$build/findings/$name
mkdir -p "$work"; cd "$work"
corpus=(corpus)
if [[ $mode == fixed ]]; then rm -rf fixed; corpus=(fixed); set -- -seed=1 "$@"; fi
mkdir -p "${corpus[0]}"
for folder in "$tests/seeds/$name" "$build/tests/fuzz/seeds/$name"; do [[ -d $folder ]] && corpus+=("$folder"); done
[[ -e $tests/$name.dict ]] && set -- "-dict=$tests/$name.dict" "$@"
# Leaks are not looked for: protobuf and ONNX keep process-wide tables.
export ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
exec "$program" -rss_limit_mb=2048 -malloc_limit_mb=512 -timeout=20 -max_len=16384 "$@" "${corpus[@]}"
