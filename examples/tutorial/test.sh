#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# docs/tutorial.md as it stands, and what came out of it. usage: test.sh TEMPER PYTHON
set -euo pipefail
temper=$1 python=$2
cd "$(dirname "$0")/../.."
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
PYTHONPATH="$(dirname "$temper")/python" "$python" tests/run_documents.py "$temper" "$python" docs/tutorial.md
# The network that was trained for INT8 answers as in PyTorch, and computes in integers.
"$python" examples/tutorial/qat.py "$folder/qat.onnx" "$folder/test.npz" | tee "$folder/said"
"$temper" build "$folder/qat.onnx" -o "$folder/qat.plan" --no-measure --quiet
"$temper" evaluate "$folder/qat.plan" --data "$folder/test.npz" --metric top1 --json --quiet >"$folder/evaluated.json"
"$temper" inspect "$folder/qat.plan" --layers --json >"$folder/layers.json"
"$python" - "$folder" <<'PY'
import json, re, sys
folder = sys.argv[1]
wanted = float(re.search(r"([\d.]+) % right", open(f"{folder}/said").read())[1])
got = 100 * json.load(open(f"{folder}/evaluated.json"))["top1"]["rate"]
assert abs(got - wanted) < 0.5, (got, wanted)
text = open(f"{folder}/layers.json").read()
assert "s8" in text or "i8" in text, "no layer computes in integers"
print(f"PyTorch {wanted} %, Temper {got:.2f} %")
PY
