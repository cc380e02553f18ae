#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: gpu_runners.py MODEL.onnx PACKAGE: builds and runs digits_cnn on a GPU as programs do that hold their buffers with PACKAGE: cudart
(cuda-python), pycuda, torch, cupy. Both styles of running where the release has them; every answer is compared with ONNX Runtime's."""
import sys

import numpy
import onnxruntime
import tensorrt as trt


class Cudart:
    def __init__(self):
        from cuda.bindings import runtime

        self.cudart = runtime

    def ok(self, answer):
        assert int(answer[0]) == 0, answer[0]
        return answer[1] if len(answer) > 1 else None

    def put(self, array):
        at = self.ok(self.cudart.cudaMalloc(array.nbytes))
        self.ok(self.cudart.cudaMemcpy(at, array.ctypes.data, array.nbytes, self.cudart.cudaMemcpyKind.cudaMemcpyHostToDevice))
        return at

    def get(self, at, array):
        self.ok(self.cudart.cudaMemcpy(array.ctypes.data, at, array.nbytes, self.cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost))
        return array

    def stream(self):
        self.kept = self.ok(self.cudart.cudaStreamCreate())
        return int(self.kept), lambda: self.ok(self.cudart.cudaStreamSynchronize(self.kept))


class Pycuda:
    def __init__(self):
        import pycuda.autoinit  # noqa: F401
        import pycuda.driver

        self.cuda = pycuda.driver

    def put(self, array):
        at = self.cuda.mem_alloc(array.nbytes)
        self.cuda.memcpy_htod(at, array)
        return at

    def get(self, at, array):
        self.cuda.memcpy_dtoh(array, at)
        return array

    def stream(self):
        stream = self.cuda.Stream()
        self.kept = stream
        return stream.handle, stream.synchronize


class Torch:
    def __init__(self):
        import torch

        self.torch, self.tensors = torch, {}

    def put(self, array):
        tensor = self.torch.from_numpy(array).cuda()
        self.tensors[tensor.data_ptr()] = tensor
        return tensor.data_ptr()

    def get(self, at, array):
        return self.tensors[at].cpu().numpy().reshape(array.shape)

    def stream(self):
        self.torch.cuda.synchronize()
        stream = self.kept = self.torch.cuda.Stream()
        return stream.cuda_stream, stream.synchronize


class Cupy:
    def __init__(self):
        import cupy

        self.cupy, self.arrays = cupy, {}

    def put(self, array):
        held = self.cupy.asarray(array)
        self.arrays[held.data.ptr] = held
        return held.data.ptr

    def get(self, at, array):
        return self.arrays[at].get()

    def stream(self):
        self.cupy.cuda.Device().synchronize()
        stream = self.kept = self.cupy.cuda.Stream(non_blocking=True)
        return stream.ptr, stream.synchronize


def main():
    path, package = sys.argv[1:]
    memory = {"cudart": Cudart, "pycuda": Pycuda, "torch": Torch, "cupy": Cupy}[package]()
    logger = trt.Logger(trt.Logger.ERROR)
    builder = trt.Builder(logger)
    network = builder.create_network(1)
    assert trt.OnnxParser(network, logger).parse_from_file(path)
    config = builder.create_builder_config()
    config.clear_flag(trt.BuilderFlag.TF32)
    profile = builder.create_optimization_profile()
    profile.set_shape("image", min=(1, 1, 8, 8), opt=(4, 1, 8, 8), max=(8, 1, 8, 8))
    config.add_optimization_profile(profile)
    engine = trt.Runtime(logger).deserialize_cuda_engine(builder.build_serialized_network(network, config))
    context = engine.create_execution_context()
    x = numpy.random.default_rng(0).uniform(0, 1, (4, 1, 8, 8)).astype("float32")
    expected = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"image": x})[0]
    styles = []

    def compare(style, got):
        off = numpy.abs(got - expected).max()
        assert off < 1e-3, f"{style} is off by {off}"
        styles.append(style)

    at, out = memory.put(x), memory.put(numpy.zeros_like(expected))
    assert context.set_input_shape("image", x.shape)
    assert context.set_tensor_address("image", int(at)) and context.set_tensor_address("logits", int(out))
    handle, synchronize = memory.stream()
    assert context.execute_async_v3(stream_handle=handle)
    synchronize()
    compare("execute_async_v3", memory.get(out, numpy.zeros_like(expected)))
    second = memory.put(numpy.zeros_like(expected))
    assert context.execute_v2(bindings=[int(at), int(second)])
    compare("execute_v2", memory.get(second, numpy.zeros_like(expected)))
    if hasattr(context, "execute_async_v2"):
        third = memory.put(numpy.zeros_like(expected))
        context.set_binding_shape(0, x.shape)
        assert context.execute_async_v2(bindings=[int(at), int(third)], stream_handle=handle)
        synchronize()
        compare("execute_async_v2", memory.get(third, numpy.zeros_like(expected)))
    print(", ".join(styles))


if __name__ == "__main__":
    main()
