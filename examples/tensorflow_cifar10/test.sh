#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The example from start to end with small settings. usage: test.sh TEMPER PYTHON
set -euo pipefail
temper=$1 python=$2 build=$(dirname "$1")
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
cd "$(dirname "$0")/../.."
export PYTHONPATH="$build/python"
"$python" examples/tensorflow_cifar10/run.py --out "$folder/drawn" --temper "$temper" --rows "$build/examples/cpp/rows" \
  --train 3000 --test 200 --epochs 3 --batch 1,16 --warmup 2 --iterations 10 | tee "$folder/log.txt"
# Equal classes of Keras and FP32, in Python and C++, are an assertion of the script.
# So is what it learned: chance is 10 %.
[[ $(sed -nE "s/^Keras +([0-9]+)\..*/\1/p" "$folder/log.txt" | head -1) -ge 60 ]]
grep -q "Temper fp32 in C++" "$folder/log.txt"
for file in cifar.onnx cifar-int8.plan answers.csv result.json report.html; do
  [[ -s $folder/drawn/$file ]] || { echo "$file was not written" >&2; exit 1; }
done
"$python" - "$folder/drawn/result.json" <<'PY'
import json, sys
seen = {(r["model"], r["precision"], r["batch"]) for r in json.load(open(sys.argv[1]))["runs"]}
for engine in ("Temper", "TFLite"):
    for precision in ("fp32", "int8"):
        for batch in (1, 16):
            assert (engine, precision, batch) in seen, (engine, precision, batch, seen)
PY
# CIFAR-10's own files are read where they are given: here some of that form, which are drawn.
"$python" - "$folder" <<'PY'
import sys
sys.path.insert(0, "examples/tensorflow_cifar10")
import numpy as np, pictures
for i, name in enumerate([f"data_batch_{n}.bin" for n in range(1, 6)] + ["test_batch.bin"]):
    images, labels = pictures.drawn(20, i)
    np.concatenate([labels[:, None].astype(np.uint8), images.transpose(0, 3, 1, 2).reshape(20, -1)], 1).tofile(f"{sys.argv[1]}/{name}")
names, images, labels, test_images, test_labels = pictures.load(sys.argv[1], 90, 15)
assert names[0] == "airplane" and images.shape == (90, 32, 32, 3) and test_images.shape == (15, 32, 32, 3)
want = pictures.drawn(20, 0)
assert (images[:20] == want[0]).all() and (labels[:20] == want[1]).all()
PY
echo "the TensorFlow example ran from start to end"
