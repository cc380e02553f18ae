#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A picture by the small configuration, beside PyTorch's. usage: test.sh TEMPER PYTHON
set -euo pipefail
temper=$1 python=$2
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
cd "$(dirname "$0")/../.."
# One thread of PyTorch: on a loaded machine its threads wait for one another most of the time.
export OMP_NUM_THREADS=1 PYTHONPATH="$(dirname "$temper")/python"
# That the pictures agree is an assertion of the script; here that both came out and that there is something in them.
"$python" examples/diffusion/run.py --out "$folder" --pixels 128 --steps 8 --quick | tee "$folder/log.txt"
# All keys and values of the prompt are made beforehand: of the small configuration two for each of 10 attentions to it.
grep -q "20 values of the noise predictor are computed once a prompt" "$folder/log.txt"
"$python" - "$folder" <<'PY'
import re, sys
import numpy as np
from PIL import Image
pictures = [np.asarray(Image.open(f"{sys.argv[1]}/{name}.png"), dtype=float) for name in ("temper", "pytorch")]
assert all(p.shape == (128, 128, 3) and p.std() > 5 for p in pictures), [(p.shape, p.std()) for p in pictures]
assert re.search(r"PSNR of Temper's picture to it: (inf|\d+\.\d) dB", open(f"{sys.argv[1]}/log.txt").read())
PY
echo "the diffusion example ran from start to end"
