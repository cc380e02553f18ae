#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds FP16 with a memory pool, as tutorials show it. usage: snippet.py MODEL.onnx ENGINE explicit|none"""
import sys

import tensorrt as trt

logger = trt.Logger(trt.Logger.WARNING)
builder = trt.Builder(logger)
flags = 1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH) if sys.argv[3] == "explicit" else 0
network = builder.create_network(flags)
parser = trt.OnnxParser(network, logger)
with open(sys.argv[1], "rb") as model:
    if not parser.parse(model.read()):
        for error in range(parser.num_errors):
            print(parser.get_error(error))
config = builder.create_builder_config()
config.set_flag(trt.BuilderFlag.FP16)
config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, 1 << 30)
with open(sys.argv[2], "wb") as file:
    file.write(builder.build_serialized_network(network, config))
