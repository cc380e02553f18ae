#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: gpu_facts.py: what the CUDA driver of this machine does where a program and an engine have contexts of their own. Each fact is tried in
a process of its own, since a fault takes a context with it. Needs libcuda alone.

1. a kernel of the primary context on memory of another context
2. a recorded graph of the primary context, launched into a stream of another context
3. the same launch while that stream captures
4. an event of one context that a stream of another one waits for
5. a copy of 16 MiB of pageable memory on the default stream, and a kernel in a non-blocking stream right behind it: how often it reads old bytes
"""
import ctypes
import subprocess
import sys

# Two kernels: p[i] += 1, and errors += (p[i] != wanted), of 32-bit words.
PTX = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry add_one(.param .u64 p, .param .u32 n) {
  .reg .pred %q; .reg .b32 %r<6>; .reg .b64 %d<4>;
  ld.param.u64 %d1, [p]; ld.param.u32 %r1, [n];
  mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x; mad.lo.s32 %r2, %r2, %r3, %r4;
  setp.ge.u32 %q, %r2, %r1; @%q bra done;
  mul.wide.u32 %d2, %r2, 4; add.s64 %d1, %d1, %d2;
  ld.global.u32 %r5, [%d1]; add.s32 %r5, %r5, 1; st.global.u32 [%d1], %r5;
done: ret;
}
.visible .entry count_others(.param .u64 p, .param .u32 n, .param .u32 wanted, .param .u64 errors) {
  .reg .pred %q; .reg .b32 %r<8>; .reg .b64 %d<4>;
  ld.param.u64 %d1, [p]; ld.param.u32 %r1, [n]; ld.param.u32 %r6, [wanted]; ld.param.u64 %d3, [errors];
  mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x; mad.lo.s32 %r2, %r2, %r3, %r4;
  setp.ge.u32 %q, %r2, %r1; @%q bra done;
  mul.wide.u32 %d2, %r2, 4; add.s64 %d1, %d1, %d2;
  ld.global.u32 %r5, [%d1]; setp.eq.u32 %q, %r5, %r6; @%q bra done;
  atom.global.add.u32 %r7, [%d3], 1;
done: ret;
}
"""

POINTER, WORD = ctypes.c_void_p, ctypes.c_uint32
NON_BLOCKING, NO_TIMING, THREAD_LOCAL = 1, 2, 1
SIZE = 1 << 24


class Failed(Exception):
    pass


class Driver:
    """libcuda's functions; a status other than 0 is raised by its name."""

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")
        self.cuInit(0)
        self.device = ctypes.c_int()
        self.cuDeviceGet(ctypes.byref(self.device), 0)

    def __getattr__(self, name):
        function = getattr(self.library, name)

        def call(*arguments):
            status = function(*arguments)
            if status:
                text = ctypes.c_char_p()
                self.library.cuGetErrorName(status, ctypes.byref(text))
                raise Failed(f"{name}: {(text.value or b'?').decode()}")

        return call

    def made(self, name, *arguments, kind=POINTER):
        value = kind()
        getattr(self, name)(ctypes.byref(value), *arguments)
        return value

    def primary(self):
        context = self.made("cuDevicePrimaryCtxRetain", self.device)
        self.cuCtxSetCurrent(context)
        return context

    def another(self):
        """A context of its own, current, as pycuda.autoinit makes it."""
        try:  # CUDA 13 has one argument more
            return self.made("cuCtxCreate_v4", None, 0, self.device)
        except AttributeError:
            return self.made("cuCtxCreate_v2", 0, self.device)

    def kernels(self):
        module = self.made("cuModuleLoadData", PTX)
        return [self.made("cuModuleGetFunction", module, name) for name in (b"add_one", b"count_others")]

    def memory(self, size, word=0):
        at = self.made("cuMemAlloc_v2", ctypes.c_size_t(size), kind=ctypes.c_uint64)
        self.cuMemsetD32_v2(at, word, ctypes.c_size_t(size // 4))
        self.cuCtxSynchronize()
        return at

    def stream(self, flags=NON_BLOCKING):
        return self.made("cuStreamCreate", flags)

    def launch(self, kernel, stream, count, *arguments):
        held = (POINTER * len(arguments))(*(ctypes.cast(ctypes.byref(value), POINTER) for value in arguments))
        self.cuLaunchKernel(kernel, (count + 255) // 256, 1, 1, 256, 1, 1, 0, stream, held, None)

    def words(self, at, count):
        held = (WORD * count)()
        self.cuMemcpyDtoH_v2(held, at, ctypes.c_size_t(4 * count))
        return list(held)


def memory_of_another_context(cuda):
    primary = cuda.primary()
    add_one, _ = cuda.kernels()
    stream = cuda.stream()
    cuda.another()
    at = cuda.memory(4096, 5)
    cuda.cuCtxSetCurrent(primary)
    cuda.launch(add_one, stream, 1024, at, WORD(1024))
    cuda.cuStreamSynchronize(stream)
    return f"works: {set(cuda.words(at, 1024)) == {6}}"


def recorded(cuda):
    """A graph of the primary context that adds one to its memory; what has them."""
    primary = cuda.primary()
    add_one, _ = cuda.kernels()
    at, stream = cuda.memory(4096, 5), cuda.stream()
    cuda.cuStreamBeginCapture_v2(stream, THREAD_LOCAL)
    cuda.launch(add_one, stream, 1024, at, WORD(1024))
    graph = POINTER()
    cuda.cuStreamEndCapture(stream, ctypes.byref(graph))
    return primary, at, cuda.made("cuGraphInstantiateWithFlags", graph, ctypes.c_ulonglong(0))


def graph_into_another_context(cuda):
    primary, at, graph = recorded(cuda)
    cuda.another()
    stream = cuda.stream()
    cuda.cuGraphLaunch(graph, stream)
    cuda.cuStreamSynchronize(stream)
    cuda.cuCtxSetCurrent(primary)
    return f"works: {set(cuda.words(at, 1024)) == {6}}"


def graph_into_a_capture(cuda):
    _, at, graph = recorded(cuda)
    stream = cuda.stream()
    cuda.cuStreamBeginCapture_v2(stream, THREAD_LOCAL)
    try:
        cuda.cuGraphLaunch(graph, stream)
    except Failed as error:
        return f"refused: {error}"
    captured = POINTER()
    cuda.cuStreamEndCapture(stream, ctypes.byref(captured))
    return f"taken; before it is launched the memory is as it was: {set(cuda.words(at, 1024)) == {5}}"


def event_between_contexts(cuda):
    cuda.primary()
    first = cuda.stream()
    event = cuda.made("cuEventCreate", NO_TIMING)
    cuda.cuEventRecord(event, first)
    cuda.another()
    second = cuda.stream()
    cuda.cuStreamWaitEvent(second, event, 0)
    cuda.cuStreamSynchronize(second)
    return "works"


def race_of_a_pageable_copy(cuda):
    cuda.primary()
    _, count_others = cuda.kernels()
    at, errors, stream = cuda.memory(SIZE), cuda.memory(4), cuda.stream()
    late = 0
    rounds = 200
    for word in range(1, rounds + 1):
        host = (WORD * (SIZE // 4))()
        ctypes.memset(host, word & 255, SIZE)
        cuda.cuMemsetD32_v2(errors, 0, ctypes.c_size_t(1))
        cuda.cuCtxSynchronize()
        cuda.cuMemcpyHtoD_v2(at, host, ctypes.c_size_t(SIZE))  # returns when the bytes are staged
        cuda.launch(count_others, stream, SIZE // 4, at, WORD(SIZE // 4), WORD((word & 255) * 0x01010101), errors)
        cuda.cuCtxSynchronize()
        late += cuda.words(errors, 1)[0] > 0
    return f"{late} of {rounds} kernels read bytes that had not arrived"


FACTS = [memory_of_another_context, graph_into_another_context, graph_into_a_capture, event_between_contexts, race_of_a_pageable_copy]


def main():
    if len(sys.argv) == 2:
        try:
            print(globals()[sys.argv[1]](Driver()))
        except Failed as error:
            print(f"fails: {error}")
        return
    for fact in FACTS:
        done = subprocess.run([sys.executable, __file__, fact.__name__], capture_output=True, text=True, timeout=120)
        said = (done.stdout.strip() or done.stderr.strip() or f"ended with {done.returncode}").splitlines()[-1]
        print(f"{fact.__name__.replace('_', ' '):28} {said}", flush=True)


if __name__ == "__main__":
    main()
