#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds and runs in the style that a program of 8.x was ported to for 10.x: build_serialized_network, num_io_tensors, get_tensor_*.
usage: infer_named.py MODEL.onnx INPUT.npy OUTPUT.npy"""
import sys

import numpy
import pycuda.autoinit  # noqa: F401
import pycuda.driver as cuda
import tensorrt as trt

model, input_path, output_path = sys.argv[1:4]
x = numpy.load(input_path)
logger = trt.Logger(trt.Logger.WARNING)
builder = trt.Builder(logger)
network = builder.create_network(0)
parser = trt.OnnxParser(network, logger)
if not parser.parse_from_file(model):
    sys.exit(str(parser.get_error(0)))
config = builder.create_builder_config()
config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, 2 << 30)
profile = builder.create_optimization_profile()
profile.set_shape(network.get_input(0).name, (1, *x.shape[1:]), x.shape, x.shape)
config.add_optimization_profile(profile)
engine = trt.Runtime(logger).deserialize_cuda_engine(builder.build_serialized_network(network, config))
context, stream = engine.create_execution_context(), cuda.Stream()
host, device = {}, {}
for name in [engine.get_tensor_name(i) for i in range(engine.num_io_tensors)]:
    if engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT:
        context.set_input_shape(name, x.shape)
for name in [engine.get_tensor_name(i) for i in range(engine.num_io_tensors)]:
    host[name] = cuda.pagelocked_empty(trt.volume(context.get_tensor_shape(name)), trt.nptype(engine.get_tensor_dtype(name)))
    device[name] = cuda.mem_alloc(host[name].nbytes)
    context.set_tensor_address(name, int(device[name]))
    if engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT:
        host[name][:] = x.ravel()
        cuda.memcpy_htod_async(device[name], host[name], stream)
    else:
        out = name
assert context.execute_async_v3(stream_handle=stream.handle)
cuda.memcpy_dtoh_async(host[out], device[out], stream)
stream.synchronize()
assert numpy.isfinite(host[out]).all()
numpy.save(output_path, host[out].reshape(tuple(context.get_tensor_shape(out))))
