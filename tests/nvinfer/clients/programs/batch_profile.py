#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds with a profile of batches 1, 16 and 32, by keywords, in the style of 10.x.
usage: batch_profile.py MODEL.onnx INPUT ENGINE"""
import sys

import tensorrt as trt

model, name, engine_path = sys.argv[1:4]
logger = trt.Logger(trt.Logger.WARNING)
builder = trt.Builder(logger)
network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH))
parser = trt.OnnxParser(network, logger)
with open(model, "rb") as file:
    if not parser.parse(file.read()):
        sys.exit(f"no model: {parser.get_error(0)}")
rest = tuple(network.get_input(0).shape)[1:]
config = builder.create_builder_config()
config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, 1 << 30)
profile = builder.create_optimization_profile()
profile.set_shape(name, min=(1, *rest), opt=(16, *rest), max=(32, *rest))
config.add_optimization_profile(profile)
serialized = builder.build_serialized_network(network, config)
if serialized is None:
    sys.exit("Failed to build the engine")
with open(engine_path, "wb") as file:
    file.write(serialized)
print(f"Engine saved, {len(serialized)} bytes")
