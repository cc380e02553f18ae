#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: examples.sh CLASSIFY RUN SOURCE_DIR: the examples read the drawn seven, from the model and from its plan, and
# end with the documented statuses.
set -euo pipefail
classify=$1 run=$2 source=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { echo "$*" >&2; exit 1; }

built=$("$classify" "$source/models/digits_cnn.onnx" "$source/examples/seven.txt" "$folder/digits.plan")
[[ $built == "class 7, probability 0."* || $built == "class 7, probability 1."* ]] || fail "classify said: $built"
[[ -s $folder/digits.plan ]] || fail "classify left no plan"
loaded=$("$classify" no_such_model.onnx "$source/examples/seven.txt" "$folder/digits.plan")
[[ $loaded == "$built" ]] || fail "from the plan, classify said: $loaded"

scores=$("$run" "$folder/digits.plan" "$source/examples/seven.txt")
[[ $scores == "logits 1x10: "* ]] || fail "run printed: $scores"
best=$(tr ' ' '\n' <<<"${scores#*: }" | awk 'NR == 1 || $1 > max { max = $1; at = NR - 1 } END { print at, NR }')
[[ $best == "7 10" ]] || fail "run's largest of its scores: $best ($scores)"

ends_with() {  # STATUS TEXT COMMAND...
  local status=$1 text=$2 code=0 said; shift 2
  said=$("$@" 2>&1) || code=$?
  [[ $code == "$status" && $said == *"$text"* ]] || fail "$*: ended with $code ($status is right): $said"
}
ends_with 3 no_such.plan "$run" "$folder/no_such.plan" "$source/examples/seven.txt"
ends_with 2 "does not hold as many numbers" "$run" "$folder/digits.plan" "$source/README.md"
ends_with 2 usage "$run"
ends_with 3 no_such.onnx "$classify" "$folder/no_such.onnx" "$source/examples/seven.txt" "$folder/other.plan"
ends_with 3 "64 numbers" "$classify" "$source/models/digits_cnn.onnx" "$source/README.md" "$folder/digits.plan"
[[ ! -e $folder/other.plan ]] || fail "a build that failed left a plan"
