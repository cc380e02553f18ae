# SPDX-License-Identifier: Apache-2.0
"""Two calibrators in the style of 8.x, for convert_bindings.py: their batches lie in memory of pycuda's, which they free."""
import os

import numpy
import pycuda.autoinit  # noqa: F401
import pycuda.driver as cuda
import tensorrt as trt


class Stream:
    """Noise, as often as it was asked for."""

    def __init__(self, shape, count):
        self.random, self.shape, self.left = numpy.random.default_rng(0), shape, count
        self.memory = cuda.mem_alloc(int(trt.volume(shape)) * 4)

    def batch(self):
        if self.left == 0:
            return None
        self.left -= 1
        cuda.memcpy_htod(self.memory, self.random.uniform(0, 1, self.shape).astype(numpy.float32))
        return int(self.memory)

    def free(self):
        if self.memory:
            self.memory.free()
            self.memory = None


class _Cached:
    def get_batch_size(self):
        return self.stream.shape[0]

    def get_batch(self, names):
        at = self.stream.batch()
        return None if at is None else [at]

    def read_calibration_cache(self):
        if os.path.exists(self.cache_file):
            with open(self.cache_file, "rb") as file:
                return file.read()
        return None

    def write_calibration_cache(self, cache):
        with open(self.cache_file, "wb") as file:
            file.write(cache)


class EntropyCalibrator(_Cached, trt.IInt8EntropyCalibrator2):
    def __init__(self, stream, cache_file):
        trt.IInt8EntropyCalibrator2.__init__(self)
        self.stream, self.cache_file = stream, cache_file


class MinMaxCalibrator(_Cached, trt.IInt8MinMaxCalibrator):
    def __init__(self, stream, cache_file):
        trt.IInt8MinMaxCalibrator.__init__(self)
        self.stream, self.cache_file = stream, cache_file
