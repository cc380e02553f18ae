#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs an engine in the style of 8.x. It sets the shape of its input after it has made its bindings, so that those of open outputs are None
when it calls: TypeError, in TensorRT, too. With --repaired it makes them afterwards.
usage: infer_bindings.py ENGINE INPUT.npy OUTPUT.npy [--repaired]"""
import sys

import numpy
import pycuda.autoinit  # noqa: F401
import pycuda.driver as cuda
import tensorrt as trt

engine_path, input_path, output_path = sys.argv[1:4]
logger = trt.Logger(trt.Logger.WARNING)
with open(engine_path, "rb") as file, trt.Runtime(logger) as runtime:
    engine = runtime.deserialize_cuda_engine(file.read())
context = engine.create_execution_context()
stream = cuda.Stream()
x = numpy.load(input_path)
if "--repaired" in sys.argv:
    context.set_binding_shape(0, x.shape)
bindings, host, device = [None] * engine.num_bindings, {}, {}
for i in range(engine.num_bindings):
    shape = context.get_binding_shape(i)
    if any(dim < 0 for dim in shape) and not engine.binding_is_input(i):
        continue  # it is allocated when the shape is known, which never comes
    if engine.binding_is_input(i):
        shape = x.shape
    host[i] = cuda.pagelocked_empty(trt.volume(shape), trt.nptype(engine.get_binding_dtype(i)))
    device[i] = cuda.mem_alloc(host[i].nbytes)
    bindings[i] = int(device[i])
context.set_binding_shape(0, x.shape)
host[0][:] = x.ravel()
cuda.memcpy_htod_async(device[0], host[0], stream)
if not context.execute_async_v2(bindings, stream.handle):
    sys.exit("the run failed")
last = engine.num_bindings - 1
cuda.memcpy_dtoh_async(host[last], device[last], stream)
stream.synchronize()
numpy.save(output_path, host[last].reshape(tuple(context.get_binding_shape(last))))
print("has_implicit_batch_dimension:", engine.has_implicit_batch_dimension)
