#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds INT8 by a calibrator over an .npy file, with a cache.
usage: edge_int8.py --onnx MODEL --engine ENGINE --calib_npy FILE --calib_cache FILE --input_name NAME [--batch N]"""
import argparse
import os

import numpy
import pycuda.autoinit  # noqa: F401
import pycuda.driver as cuda
import tensorrt as trt

parser = argparse.ArgumentParser()
for name in ("--onnx", "--engine", "--calib_npy", "--calib_cache", "--input_name"):
    parser.add_argument(name, required=True)
parser.add_argument("--batch", type=int, default=16)
given = parser.parse_args()
logger = trt.Logger(trt.Logger.INFO)


class NpyCalibrator(trt.IInt8EntropyCalibrator2):
    def __init__(self):
        trt.IInt8EntropyCalibrator2.__init__(self)
        self.data, self.at = numpy.load(given.calib_npy).astype(numpy.float32), 0
        self.memory = cuda.mem_alloc(self.data[: given.batch].nbytes)

    def get_batch_size(self):
        return given.batch

    def get_batch(self, names):
        if self.at + given.batch > len(self.data):
            return None
        cuda.memcpy_htod(self.memory, numpy.ascontiguousarray(self.data[self.at : self.at + given.batch]))
        self.at += given.batch
        return [int(self.memory)]

    def read_calibration_cache(self):
        if os.path.exists(given.calib_cache):
            with open(given.calib_cache, "rb") as file:
                return file.read()
        return None

    def write_calibration_cache(self, cache):
        with open(given.calib_cache, "wb") as file:
            file.write(cache)


flag = 1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH)
with trt.Builder(logger) as builder, builder.create_network(flag) as network, trt.OnnxParser(network, logger) as onnx_parser:
    with open(given.onnx, "rb") as file:
        if not onnx_parser.parse(file.read()):
            raise SystemExit(str(onnx_parser.get_error(0)))
    config = builder.create_builder_config()
    config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, 1 << 30)
    config.set_flag(trt.BuilderFlag.INT8)
    config.int8_calibrator = NpyCalibrator()
    serialized = builder.build_serialized_network(network, config)
    if serialized is None:
        raise SystemExit("no engine")
    with open(given.engine, "wb") as file:
        file.write(serialized)
print(f"Saved INT8 engine: {given.engine}")
