#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs engines on samples, batch by batch, with named tensors and buffers that are made for each batch, times them and writes what each
answered. usage: compare_named.py SAMPLES.npy RESULT.json BATCH ENGINE..."""
import json
import sys
import time

import numpy
import pycuda.autoinit  # noqa: F401
import pycuda.driver as cuda
import tensorrt as trt

logger = trt.Logger(trt.Logger.WARNING)
samples, batch = numpy.load(sys.argv[1]).astype(numpy.float32), int(sys.argv[3])


def infer(engine, context, x):
    names = [engine.get_tensor_name(i) for i in range(engine.num_io_tensors)]
    is_input = {name: engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT for name in names}
    (into,), (out,) = [n for n in names if is_input[n]], [n for n in names if not is_input[n]]
    if not context.set_input_shape(into, list(x.shape)):
        sys.exit("the shape was refused")
    y = numpy.empty(tuple(context.get_tensor_shape(out)), numpy.float32)
    memory = {into: cuda.mem_alloc(x.nbytes), out: cuda.mem_alloc(y.nbytes)}
    cuda.memcpy_htod(memory[into], numpy.ascontiguousarray(x))
    for name, at in memory.items():
        context.set_tensor_address(name, at)
    if not context.execute_async_v3(0):
        sys.exit("the run failed")
    cuda.memcpy_dtoh(y, memory[out])
    for at in memory.values():
        at.free()
    return y


results = {}
for path in sys.argv[4:]:
    with open(path, "rb") as file:
        engine = trt.Runtime(logger).deserialize_cuda_engine(file.read())
    if engine is None:
        sys.exit(f"{path}: no engine")
    context = engine.create_execution_context()
    start = time.perf_counter()
    answers = numpy.concatenate([infer(engine, context, samples[i : i + batch]) for i in range(0, len(samples), batch)])
    seconds = time.perf_counter() - start
    results[path] = {"samples_per_second": len(samples) / seconds, "answers": answers.tolist()}
with open(sys.argv[2], "w") as file:
    json.dump({"tensorrt": trt.__version__, "results": results}, file)
