#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Gives trtexec an input from a file and reads outputs and times from its JSON, as a runner of trtexec does.
usage: outputs.py MODEL.onnx INPUT X.npy OUTPUT.npy"""
import json
import subprocess
import sys

import numpy

model, name, x, out = sys.argv[1], sys.argv[2], numpy.load(sys.argv[3]), sys.argv[4]
x.tofile("runner_input.bin")
shapes = f"--shapes={name}:{'x'.join(map(str, x.shape))}"
done = subprocess.run(["trtexec", f"--onnx={model}", shapes, f"--loadInputs='{name}':runner_input.bin", "--exportOutput=runner_output.json", "--exportTimes=runner_times.json",
                       "--iterations=10", "--warmUp=0", "--duration=0"], capture_output=True, text=True)  # fmt: skip
if done.returncode:
    sys.exit(done.stderr[-500:])
with open("runner_output.json") as file:
    (result,) = json.load(file)
with open("runner_times.json") as file:
    latencies = [row["latencyMs"] for row in json.load(file)]
numpy.save(out, numpy.array(result["values"], numpy.float32).reshape([int(dim) for dim in result["dimensions"].split("x")]))
print(f"{result['name']}: median {numpy.median(latencies):.3f} ms")
