#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: digits_accuracy.sh TEMPER PYTHON     fails unless digits_cnn, built into a plan, reads 98 % of the held-out digits
set -euo pipefail
temper=$1 python=$2 scripts=$(dirname "$(realpath "$0")")/../../python
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
"$python" "$scripts/digits_data.py" "$folder"
"$temper" zoo digits_cnn -o "$folder/digits_cnn.onnx" --quiet
"$temper" build "$folder/digits_cnn.onnx" -o "$folder/digits_cnn.plan" --shapes 1x1x8x8:16x1x8x8:32x1x8x8 --timing-cache "$folder/times.json" --quiet
"$temper" evaluate "$folder/digits_cnn.plan" --data "$folder/digits_test.npz" --batch 32 --json >"$folder/result.json"
"$python" - "$folder/result.json" <<'END'
import json, sys
result = json.load(open(sys.argv[1]))
print(result)
assert result["samples"] == 599 and result["top1"]["rate"] >= 0.98
END
