#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds without a profile, then runs, in the style of 10.x. usage: no_profile.py MODEL.onnx ENGINE"""
import sys

import numpy
import pycuda.autoinit  # noqa: F401
import pycuda.driver as cuda
import tensorrt as trt

logger = trt.Logger(trt.Logger.WARNING)
builder = trt.Builder(logger)
network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH))
parser = trt.OnnxParser(network, logger)
with open(sys.argv[1], "rb") as model:
    if not parser.parse(model.read()):
        for i in range(parser.num_errors):
            print(parser.get_error(i))
        sys.exit(2)
config = builder.create_builder_config()
config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, 1 << 30)
serialized = builder.build_serialized_network(network, config)
if serialized is None:
    print("Failed to build the engine")
    sys.exit(1)
with open(sys.argv[2], "wb") as file:
    file.write(serialized)
engine = trt.Runtime(logger).deserialize_cuda_engine(serialized)
context = engine.create_execution_context()
buffers = {}
for i in range(engine.num_io_tensors):
    name = engine.get_tensor_name(i)
    if engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT:
        shape = [1 if dim < 0 else dim for dim in engine.get_tensor_shape(name)]
        context.set_input_shape(name, shape)
    buffers[name] = cuda.mem_alloc(trt.volume(context.get_tensor_shape(name)) * 4)
    context.set_tensor_address(name, buffers[name])
    cuda.memcpy_htod(buffers[name], numpy.zeros(context.get_tensor_shape(name), numpy.float32))
context.execute_async_v3(0)
print("ran")
