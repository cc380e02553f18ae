#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds FP32, FP16 and INT8 in the style of 10.x, the last with a calibrator that hands its batches on from another object, and saves them.
usage: precisions.py MODEL.onnx INPUT SAMPLES.npy BATCH FOLDER"""
import pathlib
import sys

import numpy
import pycuda.autoinit  # noqa: F401
import pycuda.driver as cuda
import tensorrt as trt

model, name, batch, folder = sys.argv[1], sys.argv[2], int(sys.argv[4]), pathlib.Path(sys.argv[5])
samples = numpy.ascontiguousarray(numpy.load(sys.argv[3]).astype(numpy.float32))
logger = trt.Logger(trt.Logger.WARNING)


class Batches:
    def __init__(self):
        self.next, self.memory = 0, cuda.mem_alloc(samples[:batch].nbytes)

    def pointer(self):
        if self.next + batch > len(samples):
            return None
        cuda.memcpy_htod(self.memory, samples[self.next : self.next + batch])
        self.next += batch
        return [int(self.memory)]


class Calibrator(trt.IInt8EntropyCalibrator2):
    def __init__(self, batches, cache):
        super().__init__()
        self.batches, self.cache = batches, cache

    def get_batch_size(self):
        return batch

    def get_batch(self, names):
        return self.batches.pointer()

    def read_calibration_cache(self):
        return self.cache.read_bytes() if self.cache.exists() else None

    def write_calibration_cache(self, cache):
        self.cache.write_bytes(cache)


for precision in ("fp32", "fp16", "int8"):
    builder = trt.Builder(logger)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH))
    parser = trt.OnnxParser(network, logger)
    with open(model, "rb") as file:
        assert parser.parse(file.read()), parser.get_error(0)
    config = builder.create_builder_config()
    config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, 1 << 30)
    if precision == "fp16":
        if not builder.platform_has_fast_fp16:
            print("FP16 is not fast here")
        config.set_flag(trt.BuilderFlag.FP16)
    if precision == "int8":
        config.set_flag(trt.BuilderFlag.INT8)
        config.int8_calibrator = Calibrator(Batches(), folder / "named.cache")
    profile = builder.create_optimization_profile()
    rest = tuple(network.get_input(0).shape)[1:]
    profile.set_shape(name, (batch, *rest), (batch, *rest), (batch, *rest))
    config.add_optimization_profile(profile)
    serialized = builder.build_serialized_network(network, config)
    if serialized is None:
        sys.exit(f"{precision}: Failed to build the engine")
    (folder / f"{precision}.trt").write_bytes(serialized)
    print(f"{precision}: {serialized.nbytes} bytes")
