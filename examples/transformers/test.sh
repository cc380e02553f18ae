#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The three examples from start to end with small settings. usage: test.sh TEMPER PYTHON
set -euo pipefail
temper=$1 python=$2
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
cd "$(dirname "$0")/../.."
# One thread of PyTorch: on a loaded machine its threads wait for one another most of the time.
export OMP_NUM_THREADS=1 PYTHONPATH="$(dirname "$temper")/python" XDG_CACHE_HOME="${XDG_CACHE_HOME:-$HOME/.cache}"
# Each asserts its answers itself: cosines, topics and tokens beside PyTorch's.
"$python" examples/transformers/embed.py --out "$folder" --count 240 --quick | tee "$folder/embed.txt"
"$python" examples/transformers/classify.py --out "$folder" --quick --say "play me a song" | tee "$folder/classify.txt"
"$python" examples/transformers/generate.py --out "$folder" --quick --steps 120 | tee "$folder/generate.txt"
for precision in fp32 bf16 int8; do grep -q "Temper $precision .*cosine to PyTorch's" "$folder/embed.txt" || { echo "no vectors in $precision" >&2; exit 1; }; done
grep -q "play me a song: music" "$folder/classify.txt"
[[ $(sed -n 's/^\([0-9]*\) of 15 right.*/\1/p' "$folder/classify.txt") -ge 12 ]]
grep -q "PyTorch chooses the same tokens" "$folder/generate.txt"
# The plan that was saved goes on from tokens in the program, too.
"$temper" generate "$folder/generate.plan" --prompt-ids 5,6,7 --max-tokens 4 --json --quiet >"$folder/said.json"
"$python" -c 'import json, sys; said = json.load(open(sys.argv[1])); assert len(json.dumps(said)) > 20, said' "$folder/said.json"
echo "the examples of transformers ran from start to end"
