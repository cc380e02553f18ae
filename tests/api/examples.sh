#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: examples.sh FOLDER TEMPER PYTHON SOURCE_DIR: the examples of FOLDER read the drawn seven, from the model and from
# its plan, and photographs as the program reads them, and end with the documented statuses.
set -euo pipefail
classify=$1/classify run=$1/run pictures=$1/pictures pictures_c=$1/pictures_c temper=$2 python=$3 source=$4
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { echo "$*" >&2; exit 1; }

built=$("$classify" "$source/models/digits_cnn.onnx" "$source/examples/cpp/seven.txt" "$folder/digits.plan")
[[ $built == "class 7, probability 0."* || $built == "class 7, probability 1."* ]] || fail "classify said: $built"
[[ -s $folder/digits.plan ]] || fail "classify left no plan"
loaded=$("$classify" no_such_model.onnx "$source/examples/cpp/seven.txt" "$folder/digits.plan")
[[ $loaded == "$built" ]] || fail "from the plan, classify said: $loaded"

scores=$("$run" "$folder/digits.plan" "$source/examples/cpp/seven.txt")
[[ $scores == "logits 1x10: "* ]] || fail "run printed: $scores"
best=$(tr ' ' '\n' <<<"${scores#*: }" | awk 'NR == 1 || $1 > max { max = $1; at = NR - 1 } END { print at, NR }')
[[ $best == "7 10" ]] || fail "run's largest of its scores: $best ($scores)"

ends_with() {  # STATUS TEXT COMMAND...
  local status=$1 text=$2 code=0 said; shift 2
  said=$("$@" 2>&1) || code=$?
  [[ $code == "$status" && $said == *"$text"* ]] || fail "$*: ended with $code ($status is right): $said"
}
ends_with 3 no_such.plan "$run" "$folder/no_such.plan" "$source/examples/cpp/seven.txt"
ends_with 2 "does not hold as many numbers" "$run" "$folder/digits.plan" "$source/README.md"
ends_with 2 usage "$run"
ends_with 3 no_such.onnx "$classify" "$folder/no_such.onnx" "$source/examples/cpp/seven.txt" "$folder/other.plan"
ends_with 3 "64 numbers" "$classify" "$source/models/digits_cnn.onnx" "$source/README.md" "$folder/digits.plan"
[[ ! -e $folder/other.plan ]] || fail "a build that failed left a plan"

# Photographs through a plan: C++, C and the program give the same classes.
photos=$("$python" -c 'import pathlib, sklearn.datasets as d; print(pathlib.Path(d.__file__).parent / "images")')
mkdir "$folder/photos"; cp "$photos/china.jpg" "$folder/photos/china, 1.jpg"; cp "$photos/flower.jpg" "$folder/photos/"
"$temper" zoo cifar_cnn -o "$folder/c.onnx" --quiet
"$temper" build "$folder/c.onnx" -o "$folder/c.plan" --threads 1 --no-timing-cache --quiet
printf 'class %s\n' {0..9} >"$folder/names.txt"
"$pictures" "$folder/c.plan" "$folder/photos" "$folder/cc.csv" --threads 3 --class-names "$folder/names.txt" >"$folder/said"
"$pictures_c" "$folder/c.plan" "$folder/photos" "$folder/c.csv" 2 >>"$folder/said"
"$temper" run "$folder/c.plan" --input "$folder/photos" --top 1 --output-dir "$folder/run" --quiet >/dev/null
"$python" - "$folder" <<'PYTHON' || fail "the tables of pictures.cc and pictures.c differ from temper run"
import csv, sys
import numpy as np
folder = sys.argv[1]
logits = np.load(f"{folder}/run/logits.npy")
e = np.exp(logits - logits.max(1, keepdims=True))
want = [("china, 1.jpg", "flower.jpg")[i] for i in range(2)], logits.argmax(1), (e / e.sum(1, keepdims=True)).max(1)
for name in ("cc", "c"):
    rows = list(csv.DictReader(open(f"{folder}/{name}.csv")))
    assert [r["picture"] for r in rows] == want[0], rows
    assert [int(r["class"]) for r in rows] == list(want[1]), rows
    assert np.allclose([float(r["probability"]) for r in rows], want[2], atol=2e-6), rows
    if name == "cc":
        assert [r["name"] for r in rows] == [f"class {c}" for c in want[1]], rows
PYTHON
for program in "$pictures" "$pictures_c"; do
  ends_with 2 usage "$program"
  ends_with 3 no_such.plan "$program" "$folder/no_such.plan" "$folder/photos" "$folder/x.csv"
  ends_with 3 "" "$program" "$folder/c.plan" "$folder/nowhere" "$folder/x.csv"
  mkdir -p "$folder/bad"; echo "no picture" >"$folder/bad/a.jpg"
  ends_with 3 a.jpg "$program" "$folder/c.plan" "$folder/bad" "$folder/x.csv"
  [[ ! -e $folder/x.csv ]] || fail "$program left a table of a run that failed"
done
