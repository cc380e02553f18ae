#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds in the style of 8.x (max_workspace_size, build_engine, bindings) and writes what the engine is beside it, as JSON.
usage: convert_bindings.py MODEL.onnx ENGINE --precision fp32|fp16|int8 [--calibrator entropy|minmax] [--direct-io]"""
import argparse
import json
import os
import sys

import pycuda.autoinit  # noqa: F401
import pycuda.driver as cuda
import tensorrt as trt

parser = argparse.ArgumentParser()
parser.add_argument("model")
parser.add_argument("engine")
parser.add_argument("--precision", choices=["fp32", "fp16", "int8"], default="fp32")
parser.add_argument("--calibrator", choices=["entropy", "minmax"], default="entropy")
parser.add_argument("--direct-io", action="store_true")
given = parser.parse_args()

logger = trt.Logger(trt.Logger.INFO)
print(f"TensorRT {trt.__version__}, compute capability {cuda.Device(0).compute_capability()}")
with trt.Builder(logger) as builder, builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH)) as network, \
        trt.OnnxParser(network, logger) as onnx, builder.create_builder_config() as config:  # fmt: skip
    with open(given.model, "rb") as file:
        if not onnx.parse(file.read()):
            for i in range(onnx.num_errors):
                print(onnx.get_error(i))
            sys.exit(1)
    print(f"{network.num_layers} layers, {network.num_inputs} inputs")
    config.max_workspace_size = 1 << 30
    config.set_flag(trt.BuilderFlag.TF32)
    print(f"fast: fp16 {builder.platform_has_fast_fp16}, int8 {builder.platform_has_fast_int8}, tf32 {builder.platform_has_tf32}")
    if given.precision == "fp16":
        config.set_flag(trt.BuilderFlag.FP16)
    if given.direct_io:
        config.set_flag(trt.BuilderFlag.DIRECT_IO)
        config.set_flag(trt.BuilderFlag.PREFER_PRECISION_CONSTRAINTS)
    stream = None
    profile = builder.create_optimization_profile()
    for i in range(network.num_inputs):
        tensor = network.get_input(i)
        shape = [1 if dim == -1 else dim for dim in tensor.shape]
        profile.set_shape(tensor.name, shape, shape, [4 if dim == -1 else dim for dim in tensor.shape])
    config.add_optimization_profile(profile)
    if given.precision == "int8":
        sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
        import calibrators

        config.set_flag(trt.BuilderFlag.INT8)
        stream = calibrators.Stream(tuple(shape), 8)
        kind = calibrators.MinMaxCalibrator if given.calibrator == "minmax" else calibrators.EntropyCalibrator
        config.int8_calibrator = kind(stream, given.engine + ".cache")
    engine = builder.build_engine(network, config)
    if stream:
        stream.free()
    if engine is None:
        print("Failed to build the engine")
        sys.exit(1)
    print("Engine built successfully")
    with open(given.engine, "wb") as file:
        file.write(engine.serialize())
    bindings = [{"name": engine.get_binding_name(i), "dtype": str(engine.get_binding_dtype(i)), "shape": list(engine.get_binding_shape(i)),
                 "is_input": engine.binding_is_input(i)} for i in range(engine.num_bindings)]  # fmt: skip
    with open(given.engine + ".json", "w") as file:
        json.dump({"tensorrt_version": trt.__version__, "precision": given.precision, "device_memory_size": engine.device_memory_size,
                   "layers": engine.num_layers, "max_batch_size": engine.max_batch_size, "bindings": bindings}, file, indent=1)  # fmt: skip
