# SPDX-License-Identifier: Apache-2.0
"""TensorRT's trtexec as a contestant: a program that is started for every turn, with the engine that it built before."""
import contextlib
import json
import os
import re
import statistics
import subprocess
import time

from .turns import SETTLE_S, Failure


class Trtexec:
    """Has what turns.Child has. Times are those of the GPU (computeMs), as `temper bench` has them without transfers."""

    process = None

    def __init__(self, name, program, model, shapes, precision, gpu, folder, start_limit_s, turn_limit_s):
        self.name, self.program, self.folder, self.turn_limit_s = name, program, folder, turn_limit_s
        self.engine, self.times = os.path.join(folder, "trtexec.engine"), os.path.join(folder, "trtexec.times.json")
        self.count, self.shapes, self.gpu = 1, shapes, [f"--device={gpu}"]
        flags = {"fp32": ["--noTF32"], "tf32": [], "fp16": ["--fp16"], "bf16": ["--bf16"], "int8": []}
        if precision not in flags:
            raise Failure(f"trtexec knows no precision {precision}")
        start = time.perf_counter()
        said = self.run([f"--onnx={model}", f"--saveEngine={self.engine}", "--skipInference", *self.shape_flags("optShapes"), *flags[precision]], start_limit_s)
        self.start_s = time.perf_counter() - start
        version = re.search(r"TensorRT[ .]v?(?:ersion: )?([\d.]+)", said)
        self.ready = {"name": "trtexec", "version": version[1] if version else "", "how": precision, "load_s": self.start_s, "first_run_ms": None, "peak_rss": None}

    def shape_flags(self, word):
        return [f"--{word}=" + ",".join(f"{name}:{'x'.join(map(str, dims))}" for name, dims in self.shapes.items())] if self.shapes else []

    def run(self, arguments, limit_s):
        try:
            done = subprocess.run([self.program, *arguments, *self.gpu], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  errors="replace", timeout=limit_s)
        except subprocess.TimeoutExpired as late:
            raise Failure(f"trtexec did not end within {limit_s:.0f} s") from late
        except OSError as error:
            raise Failure(f"trtexec cannot be started: {error}") from error
        if done.returncode:
            lines = [line for line in done.stdout.splitlines() if "[E]" in line] or done.stdout.splitlines()[-1:] or [""]
            raise Failure(f"trtexec ended with {done.returncode}: {lines[0].strip()}")
        return done.stdout

    def ask(self, line):
        """`output FILE`: the answers to the inputs of the folder, as trtexec's JSON."""
        word, _, rest = line.partition(" ")
        if word != "output":
            raise Failure(f"trtexec cannot be asked for '{line}'")
        with open(os.path.join(self.folder, "raw.json")) as file:
            raw = json.load(file)
        inputs = ["--loadInputs=" + ",".join(f"{name}:{path}" for name, path in raw.items())] if raw else []
        self.run([f"--loadEngine={self.engine}", *self.shape_flags("shapes"), *inputs, f"--exportOutput={rest}", "--iterations=1", "--warmUp=0", "--duration=0"], self.turn_limit_s)
        return "saved"

    def calibrate(self, seconds, least):
        self.count = min(max(least, int(seconds * 1e3 / max(statistics.median(self.measured(10)), 1e-6))), 100000)

    def turn(self, watch=contextlib.nullcontext):
        """As Child.turn has it; trtexec's loading of the engine is watched, too."""
        time.sleep(SETTLE_S)
        with watch(self.name):
            return self.measured(self.count)

    def measured(self, count):
        self.run([f"--loadEngine={self.engine}", *self.shape_flags("shapes"), f"--exportTimes={self.times}", "--duration=0",
                  f"--iterations={count}", "--warmUp=200", "--noDataTransfers", "--useCudaGraph"], self.turn_limit_s)
        with open(self.times) as file:
            times = [one["computeMs"] for one in json.load(file)]
        if not times:
            raise Failure("trtexec exported no times")
        if self.ready["first_run_ms"] is None:
            self.ready["first_run_ms"] = statistics.median(times)
        return times

    def close(self, patience_s=20):
        pass
