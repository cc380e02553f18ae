#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: demo.sh TEMPER PYTHON FOLDER     called by ./dev demo. Every command is shown before it runs.
set -euo pipefail
temper=$(realpath "$1") python=$2 here=$(dirname "$(dirname "$(realpath "$0")")")
mkdir -p "$3"; cd "$3"

title() { printf '\n== %s\n' "$*"; }
say() { printf '   %s\n' "$@"; }
show() { printf '   $ temper%s\n' "$(printf ' %q' "$@")"; "$temper" "$@"; }

title "1. Handwritten digits: a small trained network, in FP32 and INT8, on pictures that it has never seen"
show zoo digits_cnn -o digits_cnn.onnx --quiet
"$python" "$here/python/digits_data.py" . >/dev/null
show study digits_cnn.onnx --data digits_test.npz --precision fp32,int8 --max-drop 1% --batch 32 --duration 2s -o digits --quiet
say "Half of scikit-learn's 599 held-out digits set the ranges of INT8, the other half were classified. top-1 is the share that" \
  "was right, with the interval that chance leaves; agreement, how often INT8 answers like FP32. Both were timed in turns;" \
  "FASTER means that the whole 99 % interval of the ratio lies above 1. A study that is interrupted goes on where it stopped."

title "2. Photographs through ResNet-50"
photos=$("$python" -c 'import pathlib, sklearn.datasets as d; print(pathlib.Path(d.__file__).parent / "images")')
mkdir -p photos; cp "$photos/china.jpg" "$photos/flower.jpg" photos/
show zoo resnet50 -o resnet50.onnx --quiet
show build resnet50.onnx -o resnet50.plan --shapes image=1x3x224x224
say "What was built: the time of a whole run, then of its steps by the kernel that runs them (how many steps, their" \
  "milliseconds when each is timed alone). A reorder moves a tensor into another memory layout. Activations and constants" \
  "are the memory that the plan needs while it runs."
show run resnet50.plan --input photos --top 5 --output-dir photos-out
say "The percentages are the softmax of the outputs: how sure the network is of each class." \
  "The weights come from a seed, not from training, so the classes mean nothing; the work is that of the real network." \
  "Each row is one picture, resized, cropped and normalised as for ImageNet; photos-out/logits.npy holds all 1000 outputs."

title "3. A line of text, read by PP-OCRv4"
recognition=$("$python" "$here/python/demo_ocr.py" model)
"$python" "$here/python/demo_ocr.py" draw "${DEMO_TEXT:-Measured, not guessed: 42.7 ms}" .
width=$("$python" -c 'import numpy; print(numpy.load("line.npy").shape[3])')
show build "$recognition" -o text.plan --shapes "x=1x3x48x64:1x3x48x${width}:1x3x48x1024" --quiet
show run text.plan --input line.npy --output-dir text-out
say "The output: for each position along the line, the probability of each of 6625 characters." \
  "line.png is the picture; the network reads: \"$("$python" "$here/python/demo_ocr.py" decode "$recognition" text-out/*.npy)\""

title "4. How fast"
show bench resnet50.plan text.plan --duration 2s --json bench.json --quiet
say "One row is one model at one batch size. median, p90 and p99 are milliseconds of one run of one batch; items/s is batch times runs per second." \
  "The 95 % interval is that of the median. first ms: the first run after loading, apart from the samples; samples: how many were timed;" \
  "peak memory: the most that the measuring process held. n/a: too few runs for that percentile to be honest." \
  "Warnings name what disturbed the measurement, and a remedy."

title "5. The report"
show report digits/study.json digits/result.json digits/profile.fp32.json digits/profile.int8.json digits/explain.json bench.json -o report.html --quiet
say "Everything made here lies in $PWD" "The report, to open in a browser: $PWD/report.html"
