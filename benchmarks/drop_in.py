#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a call by TensorRT's names costs beside engine.run, in C++ and in Python: pairs, in turns.

usage: drop_in.py BUILD [--turns 300] [--calls 50]     BUILD: a build folder with the Python module

The model is digits_cnn at batch 1 on one thread of the CPU: a call of some microseconds, in which the cost shows. The exit code is 1 where a
call takes more than 5 us (C++) or 15 us (Python) over engine.run.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIMITS = {"C++": 5, "Python": 15}


def of_cpp(build, plan, folder, options):
    """Two processes, since a program has one library of Temper; one waits while the other works."""
    behind = [build / "temper", "as-tensorrt", "--device", "cpu", "--"]
    children = []
    for name, before, flags in (("own", [], ["-DTEMPER_OWN", f"-I{ROOT}/include", f"-L{build}", "-ltemper", f"-Wl,-rpath,{build}"]), ("theirs", behind, ["-lnvinfer", "-lcudart"])):
        subprocess.run([*before, "c++", "-O2", "-std=c++17", ROOT / "benchmarks/drop_in.cc", "-o", folder / name, *flags], check=True, capture_output=True)
        children.append(subprocess.Popen([*before, folder / name, plan, str(options.calls)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True))
    turns = []
    for _ in range(options.turns):
        turns.append([])
        for child in children:
            child.stdin.write("\n")
            child.stdin.flush()
            turns[-1] += [float(word) for word in child.stdout.readline().split()]
    for child in children:
        child.stdin.close()
        child.wait()
    return rows_of(["Session::run", "setTensorAddress of two, enqueueV3", "enqueueV3", "executeV2"], turns)


def rows_of(names, turns):
    """By way: its name, its microseconds, and what it takes more than the first; medians, without the first turns."""
    turns = turns[len(turns) // 10 :]
    return [(name, statistics.median(of[w] for of in turns), statistics.median(of[w] - of[0] for of in turns)) for w, name in enumerate(names)]


def of_python(plan, options):
    import numpy

    import temper
    import temper.tensorrt as trt
    from temper.tensorrt import _host_cuda

    engine, x, y = temper.load(plan), numpy.zeros((1, 1, 8, 8), "float32"), numpy.zeros((1, 10), "float32")
    loaded = trt.Runtime(trt.Logger()).deserialize_cuda_engine(plan.read_bytes())
    context = loaded.create_execution_context()
    held = [_host_cuda.mem_alloc(array.nbytes) for array in (x, y)]

    def named(one, other):
        context.set_tensor_address("image", one)
        context.set_tensor_address("logits", other)
        return context.execute_async_v3(0)

    at = [x.ctypes.data, y.ctypes.data]
    ways = {"engine.run": lambda: engine.run(x), "set_tensor_address of two, execute_async_v3": lambda: named(*at), "execute_async_v3": lambda: context.execute_async_v3(0),
            "execute_v2": lambda: context.execute_v2(at)}  # fmt: skip

    def timed(call):
        start = time.perf_counter()
        for _ in range(options.calls):
            call()
        return (time.perf_counter() - start) / options.calls * 1e6

    rows = []
    for stand_in in (False, True):
        if stand_in:
            _host_cuda.install()
            ways = {"engine.run": ways["engine.run"], "set_tensor_address of two, execute_async_v3 (pycuda's stand-in)": lambda: named(*held),
                    "execute_v2 (pycuda's stand-in)": lambda: context.execute_v2([int(held[0]), int(held[1])])}  # fmt: skip
        for call in ways.values():
            assert call()
        rows += rows_of(ways, [[timed(call) for call in ways.values()] for _ in range(options.turns)])
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("build", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("--turns", type=int, default=300)
    parser.add_argument("--calls", type=int, default=50)
    options = parser.parse_args()
    sys.path.insert(0, str(options.build / "python"))
    os.environ["OMP_NUM_THREADS"] = "1"
    missed = False
    with tempfile.TemporaryDirectory() as folder:
        plan = pathlib.Path(folder, "digits.plan")
        subprocess.run([options.build / "temper", "build", ROOT / "models/digits_cnn.onnx", "--shapes", "1x1x8x8", "--threads", "1", "-o", plan], check=True, capture_output=True)
        for language, rows in (("C++", of_cpp(options.build, plan, pathlib.Path(folder), options)), ("Python", of_python(plan, options))):
            for name, us, more in rows:
                late = more > LIMITS[language]
                missed = missed or late
                print(f"{language:7} {us:8.2f} us  {more:+7.2f} us  {'MISSED  ' if late else ''}{name}")
    return missed


if __name__ == "__main__":
    sys.exit(main())
