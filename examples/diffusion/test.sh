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
# The steps of both schedulers beside diffusers', with a formula in the place of the network.
PYTHONPATH="$PYTHONPATH:examples/diffusion" "$python" - <<'PY'
import numpy as np, run, torch
predict = lambda x, step: [share * np.tanh(x + step / 1000) for share in (0.5, 0.9)]
noise = np.random.default_rng(1).standard_normal((1, 4, 8, 8)).astype("float32")
for name, steps in run.SCHEDULERS.items():
    for count in (1, 7, 50):
        scheduler, x = run.scheduler_of(name, count), torch.from_numpy(noise)
        x = x * scheduler.init_noise_sigma
        for step in scheduler.timesteps:
            scaled = scheduler.scale_model_input(x, step).numpy()
            without, with_prompt = predict(scaled, int(step))
            x = scheduler.step(torch.from_numpy(without + 7.5 * (with_prompt - without)), step, x).prev_sample
        got, want = steps(predict, noise, count, 7.5), x.numpy()
        worst = np.abs(got - want).max() / np.abs(want).max()
        assert worst < 1e-3, (name, count, worst)
        print(f"{name}, {count} steps: within {worst:.1e} of diffusers")
PY
echo "the diffusion example ran from start to end"
