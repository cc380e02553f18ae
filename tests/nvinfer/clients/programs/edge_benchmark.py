#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times an engine by trtexec and keeps its log. usage: edge_benchmark.py --engine ENGINE --warmup MS --iters N --batch N --log FILE [--run]"""
import argparse
import pathlib
import subprocess
import sys

parser = argparse.ArgumentParser()
parser.add_argument("--engine", required=True)
parser.add_argument("--warmup", type=int, default=200)
parser.add_argument("--iters", type=int, default=1000)
parser.add_argument("--batch", type=int, default=1)
parser.add_argument("--log", required=True)
parser.add_argument("--run", action="store_true")
given = parser.parse_args()
command = ["trtexec", f"--loadEngine={given.engine}", f"--warmUp={given.warmup}", f"--iterations={given.iters}", f"--shapes=input:{given.batch}x3x224x224", "--useSpinWait"]
if not given.run:
    sys.exit(" ".join(command))
done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
pathlib.Path(given.log).parent.mkdir(parents=True, exist_ok=True)
pathlib.Path(given.log).write_text(done.stdout)
sys.exit(done.returncode)
