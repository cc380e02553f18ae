#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: gpu_stress.py MODEL.onnx [--repeats N] [--only NAME] [--plan FILE]: a program for TensorRT that uses a GPU together with PyTorch in every
way that goes wrong without an error: streams of its own, threads, recordings, a context of its own, objects that go in another order, a fork.
MODEL is digits_cnn; its plan is read from FILE, or written there where there is none. Every answer is compared with ONNX Runtime's. Run it behind
`temper as-tensorrt --`, or with TensorRT."""
import argparse
import ctypes
import os
import pathlib
import sys
import threading

import numpy
import onnxruntime
import tensorrt as trt
import torch

from gpu_facts import Driver, Failed


class Program:
    def __init__(self, path, repeats, plan):
        self.repeats = repeats
        self.logger = trt.Logger(trt.Logger.ERROR)
        if plan and plan.exists():
            self.plan = plan.read_bytes()
        else:
            self.plan = self.build(path)
            if plan:
                plan.write_bytes(self.plan)
        self.engine = self.load()
        random = numpy.random.default_rng(0)
        self.pictures = random.uniform(0, 1, (64, 4, 1, 8, 8)).astype("float32")
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        self.answers = [session.run(None, {"image": x})[0] for x in self.pictures]

    def build(self, path):
        builder = trt.Builder(self.logger)
        network = builder.create_network(1)
        with open(path, "rb") as file:
            assert trt.OnnxParser(network, self.logger).parse(file.read())
        config = builder.create_builder_config()
        config.clear_flag(trt.BuilderFlag.TF32)
        profile = builder.create_optimization_profile()
        profile.set_shape("image", (1, 1, 8, 8), (4, 1, 8, 8), (8, 1, 8, 8))
        config.add_optimization_profile(profile)
        plan = builder.build_serialized_network(network, config)
        assert plan is not None
        return plan

    def load(self):
        return trt.Runtime(self.logger).deserialize_cuda_engine(self.plan)

    def context(self, engine=None):
        context = (engine or self.engine).create_execution_context()
        assert context.set_input_shape("image", (4, 1, 8, 8))
        return context

    def check(self, i, logits):
        off = numpy.abs(logits - self.answers[i % 64]).max()
        assert off < 1e-3, f"run {i} is off by {off}"

    def run_on(self, context, stream, i, x, y):
        """One run in a stream of PyTorch's, with a copy in front of it and one behind it."""
        with torch.cuda.stream(stream):
            x.copy_(torch.from_numpy(self.pictures[i % 64]), non_blocking=True)
            assert context.set_tensor_address("image", x.data_ptr()) and context.set_tensor_address("logits", y.data_ptr())
            assert context.execute_async_v3(stream.cuda_stream)
            return y.to("cpu", non_blocking=False).numpy()


def buffers():
    x, y = torch.zeros(4, 1, 8, 8, device="cuda"), torch.zeros(4, 10, device="cuda")
    torch.cuda.synchronize()  # they are zeroed in another stream than they are used in
    return x, y


def streams(program):
    """streams of the program, PyTorch's default stream, other addresses each time"""
    context = program.context()
    own = [torch.cuda.default_stream(), torch.cuda.Stream(), torch.cuda.Stream()]
    for i in range(program.repeats):
        with torch.cuda.stream(own[i % 3]):  # made elsewhere, the zeros may come behind the copy
            x, y = buffers()
        program.check(i, program.run_on(context, own[i % 3], i, x, y))


def pageable(program):
    """a copy on the default stream right in front of a run in stream 0, as pycuda's programs do it"""
    context, (x, y) = program.context(), buffers()
    for i in range(program.repeats):
        x.copy_(torch.from_numpy(program.pictures[i % 64]))
        y.zero_()
        context.set_tensor_address("image", x.data_ptr()), context.set_tensor_address("logits", y.data_ptr())
        assert context.execute_async_v3(0)
        program.check(i, y.cpu().numpy())


def without_stream(program):
    """the driver's copy from pageable memory, which returns when the bytes are staged, in front of execute_v2, which has no stream"""
    context, (x, y), cuda = program.context(), buffers(), Driver()
    for i in range(program.repeats):
        picture, logits = numpy.ascontiguousarray(program.pictures[i % 64]), numpy.zeros((4, 10), "float32")
        cuda.cuMemcpyHtoD_v2(ctypes.c_uint64(x.data_ptr()), ctypes.c_void_p(picture.ctypes.data), ctypes.c_size_t(picture.nbytes))
        assert context.execute_v2([x.data_ptr(), y.data_ptr()])
        cuda.cuMemcpyDtoH_v2(ctypes.c_void_p(logits.ctypes.data), ctypes.c_uint64(y.data_ptr()), ctypes.c_size_t(logits.nbytes))
        program.check(i, logits)


def threads(program):
    """8 threads with a context and a stream each"""
    failures = []

    def work(first):
        try:
            context, stream, (x, y) = program.context(), torch.cuda.Stream(), buffers()
            for i in range(first, program.repeats, 8):
                program.check(i, program.run_on(context, stream, i, x, y))
        except Exception as error:
            failures.append(repr(error))

    workers = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures, failures


def capture(program):
    """a run that PyTorch records into a graph of its own, and replays with other inputs"""
    context, (x, y) = program.context(), buffers()
    context.set_tensor_address("image", x.data_ptr()), context.set_tensor_address("logits", y.data_ptr())
    warm = torch.cuda.Stream()
    with torch.cuda.stream(warm):
        assert context.execute_async_v3(warm.cuda_stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        assert context.execute_async_v3(torch.cuda.current_stream().cuda_stream)
    for i in range(program.repeats):
        x.copy_(torch.from_numpy(program.pictures[i % 64]))
        graph.replay()
        program.check(i, y.cpu().numpy())


def order(program):
    """the runtime and the engine go before the context, and contexts in any order"""
    for i in range(max(1, program.repeats // 50)):
        engine = program.load()
        contexts = [program.context(engine) for _ in range(3)]
        del engine
        del contexts[i % 3]
        for context in contexts:
            program.check(i, program.run_on(context, torch.cuda.current_stream(), i, *buffers()))


def own_context(program):
    """memory, a stream and the current context of the program's own, as pycuda.autoinit makes them; PyTorch beside it"""
    cuda = Driver()
    before = cuda.made("cuCtxGetCurrent")
    own = cuda.another()
    context = program.context(program.load())
    x, y, stream = cuda.memory(1024), cuda.memory(160), cuda.stream(0)
    size = lambda bytes: ctypes.c_size_t(bytes)  # noqa: E731
    try:
        for i in range(program.repeats):
            picture, logits = numpy.ascontiguousarray(program.pictures[i % 64]), numpy.zeros((4, 10), "float32")
            cuda.cuMemcpyHtoD_v2(x, ctypes.c_void_p(picture.ctypes.data), size(1024))
            context.set_tensor_address("image", x.value), context.set_tensor_address("logits", y.value)
            assert context.execute_async_v3(stream.value if i % 2 else 0)
            assert cuda.made("cuCtxGetCurrent").value == own.value, "the current context is another one"
            if i % 2:
                cuda.cuStreamSynchronize(stream)
            cuda.cuMemcpyDtoH_v2(ctypes.c_void_p(logits.ctypes.data), y, size(160))
            program.check(i, logits)
    finally:
        cuda.cuCtxSetCurrent(before)
    program.check(0, program.run_on(program.context(), torch.cuda.current_stream(), 0, *buffers()))


def forks(program):
    """a child that does not touch the GPU comes and goes"""
    context = program.context()
    for i in range(max(1, program.repeats // 100)):
        child = os.fork()
        if child == 0:
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        program.check(i, program.run_on(context, torch.cuda.current_stream(), i, *buffers()))


TRIED = [streams, pageable, without_stream, threads, capture, order, own_context, forks]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--repeats", type=int, default=1000)
    parser.add_argument("--only", choices=[each.__name__ for each in TRIED])
    parser.add_argument("--plan", type=pathlib.Path)
    options = parser.parse_args()
    program, failed = Program(options.model, options.repeats, options.plan), 0
    for each in TRIED:
        if options.only in (None, each.__name__):
            try:
                each(program)
                print(f"passed  {each.__name__}: {each.__doc__}", flush=True)
            except (AssertionError, Failed, RuntimeError) as error:
                failed += 1
                print(f"FAILED  {each.__name__}: {each.__doc__}: {error}", flush=True)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
