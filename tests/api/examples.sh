#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: examples.sh FOLDER TEMPER PYTHON SOURCE_DIR: the examples of FOLDER read the drawn seven, from the model and from
# its plan, and photographs as the program reads them, and end with the documented statuses.
set -euo pipefail
classify=$1/classify run=$1/run pictures=$1/pictures pictures_c=$1/pictures_c detect=$1/detect temper=$2 python=$3 source=$4
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

# A stream in chunks: C++ and Python hear the two sounds where they are, from the same plan.
"$python" - "$folder" "$source" <<'PYTHON'
import sys, wave
folder, source = sys.argv[1:]
sys.path.insert(0, f"{source}/examples/streaming")
import model, numpy as np, onnx
onnx.save(model.detector(), f"{folder}/detector.onnx")
for rate in (8000, 16000):
    with wave.open(f"{folder}/{rate}.wav", "wb") as file:
        file.setnchannels(1); file.setsampwidth(2); file.setframerate(rate)
        file.writeframes((model.beeps(rate) * 32767).astype("<i2").tobytes())
PYTHON
for rate in 8000 16000; do
  "$temper" build "$folder/detector.onnx" -o "$folder/detector.plan" --shapes input=1x$((rate * 32 / 1000)) --shapes state=1x1 --threads 1 \
    --no-timing-cache --quick --force --quiet
  heard=$("$detect" "$folder/detector.plan" "$folder/$rate.wav")
  "$python" - "$heard" <<'PYTHON' || fail "detect heard: $heard"
import re, sys
times = [float(t) for t in re.findall(r"[\d.]+(?= s)", sys.argv[1])]
assert len(times) == 4, times
# A sound is heard within two chunks, and its energy fades for some chunks after its end.
for heard, (sound, latest) in zip(times, ((1.0, 0.07), (1.5, 0.6), (2.5, 0.07), (3.25, 0.6))):
    assert -0.04 <= heard - sound <= latest, times
PYTHON
done
ends_with 2 usage "$detect"
ends_with 3 no_such.plan "$detect" "$folder/no_such.plan" "$folder/8000.wav"
ends_with 3 "no WAV file" "$detect" "$folder/detector.plan" "$source/README.md"
ends_with 2 "has no 'input'" "$detect" "$folder/digits.plan" "$folder/8000.wav"

# Photographs through a plan: C++, C and the program give the same classes.
photos=$(PYTHONPATH=$source/python "$python" -c 'import digits_data; print(digits_data.sklearn_folder() / "images")')
mkdir "$folder/photos"; cp "$photos/china.jpg" "$folder/photos/china, 1.jpg"; cp "$photos/flower.jpg" "$folder/photos/"
"$temper" zoo cifar_cnn -o "$folder/c.onnx" --quiet
"$temper" build "$folder/c.onnx" -o "$folder/c.plan" --threads 1 --no-measure --quiet
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
