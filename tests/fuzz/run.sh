#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: run.sh BUILD NAME fixed|open [libFuzzer options]
#        run.sh BUILD NAME minimise
#        run.sh BUILD NAME read FOLDER
# Runs BUILD/tests/fuzz/NAME_fuzz from its seeds. fixed: from the seeds alone and one random seed, so that every call
# does the same; open: goes on from the corpus that earlier calls left; minimise: leaves of that corpus what reaches all that it
# reaches; read: each seed and each file of FOLDER once. Findings go to BUILD/findings/NAME/.
# Ends with 77 (skipped) where the harness was not built.
set -euo pipefail
tests=$(dirname "$(realpath "$0")") build=$(realpath -m "$1") name=$2 mode=$3; shift 3
program=$build/tests/fuzz/${name}_fuzz
[[ -x $program ]] || { echo "$program is not there: ./dev test and ./dev fuzz build it"; exit 77; }
work=$build/findings/$name
mkdir -p "$work"; cd "$work"
seeds=()
for folder in "$tests/seeds/$name" "$build/tests/fuzz/seeds/$name"; do [[ -d $folder ]] && seeds+=("$folder"); done
corpus=corpus
case $mode in
  fixed) rm -rf fixed; corpus=fixed; set -- -seed=1 "$@" ;;
  minimise) rm -rf smaller; mkdir -p smaller corpus; corpus=smaller; seeds=(corpus "${seeds[@]}"); set -- -merge=1 "$@" ;;
  read) corpus=$1; set -- -runs=0 ;;
esac
mkdir -p "$corpus"
[[ -e $tests/$name.dict ]] && set -- "-dict=$tests/$name.dict" "$@"
# Leaks are not looked for: protobuf and ONNX keep process-wide tables. Without weights of inputs by how rare what they reach
# is (-entropic) a harness runs two to eight times as often: counting that took longer than all else. A finding is run again with
# ASAN_OPTIONS of one's own, for whole stacks of where memory was taken.
export ASAN_OPTIONS=detect_leaks=0:malloc_context_size=1:quarantine_size_mb=32 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
"$program" -entropic=0 -detect_leaks=0 -rss_limit_mb=2048 -malloc_limit_mb=512 -timeout=20 -max_len=16384 "$@" "$corpus" "${seeds[@]}"
if [[ $mode == minimise ]]; then rm -rf corpus; mv smaller corpus; fi
