#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How far two engines agree on an .npy file, by bindings of 8.x. It does not look at what set_binding_shape says.
usage: edge_compare.py --fp32_engine E --int8_engine E --calib_npy FILE --input_name NAME --batch N"""
import argparse

import numpy
import pycuda.autoinit  # noqa: F401
import pycuda.driver as cuda
import tensorrt as trt

parser = argparse.ArgumentParser()
for name in ("--fp32_engine", "--int8_engine", "--calib_npy", "--input_name"):
    parser.add_argument(name, required=True)
parser.add_argument("--batch", type=int, default=16)
given = parser.parse_args()
data = numpy.load(given.calib_npy).astype(numpy.float32)
logger = trt.Logger(trt.Logger.WARNING)


def answers(path):
    with open(path, "rb") as file, trt.Runtime(logger) as runtime:
        engine = runtime.deserialize_cuda_engine(file.read())
    context = engine.create_execution_context()
    into = engine.get_binding_index(given.input_name)
    out = 1 - into
    found = []
    for at in range(0, len(data) - given.batch + 1, given.batch):
        x = numpy.ascontiguousarray(data[at : at + given.batch])
        context.set_binding_shape(into, x.shape)
        y = numpy.empty(tuple(context.get_binding_shape(out)), numpy.float32)
        memory = {into: cuda.mem_alloc(x.nbytes), out: cuda.mem_alloc(y.nbytes)}
        cuda.memcpy_htod(memory[into], x)
        context.execute_v2([int(memory[0]), int(memory[1])])
        cuda.memcpy_dtoh(y, memory[out])
        found.append(y.reshape(len(y), -1))
    return numpy.concatenate(found)


a, b = answers(given.fp32_engine), answers(given.int8_engine)
cosine = (a * b).sum(1) / numpy.maximum(numpy.linalg.norm(a, axis=1) * numpy.linalg.norm(b, axis=1), 1e-12)
samples = len(data) // given.batch * given.batch
print(f"Top-1 agreement: {(a.argmax(1) == b.argmax(1)).sum() / samples:.4f}")
print(f"Mean cosine similarity: {cosine.mean():.4f}")
