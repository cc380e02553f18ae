#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The example from start to end with small settings. usage: test.sh TEMPER PYTHON
set -euo pipefail
temper=$1 python=$2
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
cd "$(dirname "$0")/../.."
PYTHONPATH="$(dirname "$temper")/python" "$python" examples/pytorch/run.py --out "$folder" --temper "$temper" \
  --models efficientnet_lite0,resnet18 --batch 1,4 --warmup 2 --iterations 8 --turns 1 --samples 24 --compile efficientnet_lite0 \
  --draw-with "${XDG_CACHE_HOME:-$HOME/.cache}/temper/venv/bin/python" | tee "$folder/log.txt"
# PyTorch's answers are an assertion of the script; here that every part came out.
grep -q "daisy" "$folder/log.txt"
[[ $(grep -c "top-5 as PyTorch" "$folder/log.txt") -ge 2 ]]
for file in result.json study/study.json report.html plot-latency.svg plot-throughput.svg plot-study.svg; do
  [[ -s $folder/$file ]] || { echo "$file was not written" >&2; exit 1; }
done
"$python" - "$folder/result.json" <<'PY'
import json, sys
runs = json.load(open(sys.argv[1]))["runs"]
seen = {(r["model"], r["precision"], r["batch"]) for r in runs}
for model in ("efficientnet_lite0, Temper", "efficientnet_lite0, PyTorch", "efficientnet_lite0, torch.compile", "efficientnet_lite0, ONNX Runtime", "resnet18, Temper"):
    for batch in (1, 4):
        assert (model, "fp32", batch) in seen, (model, batch, seen)
assert ("efficientnet_lite0, Temper", "int8", 4) in seen
assert all(r["samples"] == 8 and r["warmup_runs"] == 2 for r in runs)
PY
echo "the PyTorch example ran from start to end"
