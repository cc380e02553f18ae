#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Peak resident memory of temper calibrate for few and for many pictures.

usage: calibrate_memory.py TEMPER [--few 100] [--many 10000] [--method entropy]
Writes seeded pictures of 32x32 into a temporary folder and calibrates cifar_cnn on them. The exit code is 1 where the
peak for many is more than 10 % above that for few.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
from PIL import Image

parser = argparse.ArgumentParser()
parser.add_argument("temper")
parser.add_argument("--few", type=int, default=100)
parser.add_argument("--many", type=int, default=10000)
parser.add_argument("--method", default="entropy")
arguments = parser.parse_args()


def peak_mib(model, data, samples, folder):
    command = [os.path.abspath(arguments.temper), "calibrate", model, "--data", data, "--method", arguments.method, "--samples",
               str(samples), "-o", str(folder / "ranges.json"), "--quiet"]
    with open(os.devnull, "w") as nothing:
        process = subprocess.Popen(command, stdout=nothing)
        _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{' '.join(command)} failed")
    return usage.ru_maxrss / 1024


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    (folder / "pictures").mkdir()
    random = np.random.default_rng(0)
    for i in range(arguments.many):
        Image.fromarray(random.integers(0, 256, (32, 32, 3), dtype=np.uint8)).save(folder / "pictures" / f"{i:05}.png", compress_level=1)
    model = str(folder / "cifar_cnn.onnx")
    subprocess.run([arguments.temper, "zoo", "cifar_cnn", "-o", model, "--quiet"], check=True)
    # The one with many samples reads the folder of the same size: what differs is the number of samples alone.
    peaks = [peak_mib(model, str(folder / "pictures"), n, folder) for n in (arguments.few, arguments.many)]
ratio = peaks[1] / peaks[0]
print(f"peak resident memory: {peaks[0]:.1f} MiB for {arguments.few} samples, {peaks[1]:.1f} MiB for {arguments.many}: {ratio:.3f}x")
sys.exit(ratio > 1.10)
