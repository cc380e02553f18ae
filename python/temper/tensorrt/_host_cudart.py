# SPDX-License-Identifier: Apache-2.0
"""Stands in for the few calls of cuda-python's runtime by which programs for TensorRT hold buffers, on a machine without a GPU (``cuda.cudart``, and
``cuda.bindings.runtime`` of later releases). What holds of _host_cuda.py holds here; calls give tuples that begin with an error, as cuda-python's do.
"""
from __future__ import annotations

import ctypes
import enum
import importlib.machinery
import sys
import types
from typing import Any

import numpy

from . import _host_cuda


class cudaError_t(enum.IntEnum):
    cudaSuccess = 0
    cudaErrorInvalidValue = 1
    cudaErrorMemoryAllocation = 2


class cudaMemcpyKind(enum.IntEnum):
    cudaMemcpyHostToHost = 0
    cudaMemcpyHostToDevice = 1
    cudaMemcpyDeviceToHost = 2
    cudaMemcpyDeviceToDevice = 3
    cudaMemcpyDefault = 4


class CUresult(enum.IntEnum):
    """Of cuda.bindings.driver, which programs compare statuses with."""

    CUDA_SUCCESS = 0


class cudaStream_t(int):
    """Everything that is put into it is done at once."""


_SUCCESS = cudaError_t.cudaSuccess
_device: dict[int, _host_cuda.DeviceAllocation] = {}
_host: dict[int, Any] = {}


def _refused(why: Any) -> cudaError_t:
    print(f"temper: {why}", file=sys.stderr)
    return cudaError_t.cudaErrorInvalidValue


def cudaMalloc(size: int) -> tuple[Any, ...]:
    try:
        allocation = _host_cuda.DeviceAllocation(int(size))
    except _host_cuda.Error as error:
        _refused(error)
        return cudaError_t.cudaErrorMemoryAllocation, 0
    _device[int(allocation)] = allocation
    return _SUCCESS, int(allocation)


def cudaMallocAsync(size: int, stream: Any) -> tuple[Any, ...]:
    return cudaMalloc(size)


def cudaFree(pointer: Any) -> tuple[Any, ...]:
    if not int(pointer):
        return (_SUCCESS,)
    allocation = _device.pop(int(pointer), None)
    if allocation is None:
        return (_refused(f"cudaFree: no allocation of this process begins at {int(pointer):#x}"),)
    allocation.free()
    return (_SUCCESS,)


def cudaFreeAsync(pointer: Any, stream: Any) -> tuple[Any, ...]:
    return cudaFree(pointer)


def cudaMallocHost(size: int) -> tuple[Any, ...]:
    held = numpy.zeros(max(int(size), 1), numpy.uint8)
    _host[int(held.ctypes.data)] = held
    return _SUCCESS, int(held.ctypes.data)


def cudaFreeHost(pointer: Any) -> tuple[Any, ...]:
    if _host.pop(int(pointer), None) is None:
        return (_refused(f"cudaFreeHost: no allocation of this process begins at {int(pointer):#x}"),)
    return (_SUCCESS,)


def _at(of: Any, size: int, writes: bool) -> int:
    """The address of bytes: a number, or that of an array of the host, which holds as many."""
    if isinstance(of, (numpy.ndarray, bytes, bytearray, memoryview)):
        at, held = _host_cuda.at_array(of, writes)
        if held < size:
            raise _host_cuda.Error(f"the array holds {held} bytes, and {size} are copied")
        return at
    return int(of.value or 0 if isinstance(of, ctypes.c_void_p) else of)


def cudaMemcpy(dst: Any, src: Any, count: int, kind: Any) -> tuple[Any, ...]:
    size = int(count)
    try:
        _host_cuda.copy(_at(dst, size, True), _at(src, size, False), size, int(kind))
    except (_host_cuda.Error, TypeError, ValueError) as error:
        return (_refused(error),)
    return (_SUCCESS,)


def cudaMemcpyAsync(dst: Any, src: Any, count: int, kind: Any, stream: Any = 0) -> tuple[Any, ...]:
    return cudaMemcpy(dst, src, count, kind)


def cudaMemset(pointer: Any, value: int, count: int) -> tuple[Any, ...]:
    try:
        _host_cuda.fill(pointer, int(value) & 255, int(count))
    except _host_cuda.Error as error:
        return (_refused(error),)
    return (_SUCCESS,)


def cudaMemsetAsync(pointer: Any, value: int, count: int, stream: Any) -> tuple[Any, ...]:
    return cudaMemset(pointer, value, count)


def cudaStreamCreate() -> tuple[Any, ...]:
    return _SUCCESS, cudaStream_t(0)


def cudaStreamSynchronize(stream: Any) -> tuple[Any, ...]:
    return (_SUCCESS,)


def cudaStreamDestroy(stream: Any) -> tuple[Any, ...]:
    return (_SUCCESS,)


def cudaDeviceSynchronize() -> tuple[Any, ...]:
    return (_SUCCESS,)


def cudaGetErrorString(error: Any) -> tuple[Any, ...]:
    return _SUCCESS, cudaError_t(int(error)).name.encode()


NAMES = ("cudaMalloc", "cudaMallocAsync", "cudaFree", "cudaFreeAsync", "cudaMallocHost", "cudaFreeHost", "cudaMemcpy", "cudaMemcpyAsync", "cudaMemset",
         "cudaMemsetAsync", "cudaStreamCreate", "cudaStreamSynchronize", "cudaStreamDestroy", "cudaDeviceSynchronize", "cudaGetErrorString", "cudaError_t",
         "cudaMemcpyKind", "cudaStream_t")  # fmt: skip


def install() -> None:
    """Makes this cuda.cudart, cuda.bindings.runtime and cuda.bindings.driver of the process."""
    runtime, driver = types.ModuleType("cuda.bindings.runtime", __doc__), types.ModuleType("cuda.bindings.driver")
    for name in NAMES:
        setattr(runtime, name, globals()[name])
    driver.CUresult = CUresult  # type: ignore[attr-defined]
    package, bindings = types.ModuleType("cuda"), types.ModuleType("cuda.bindings")
    package.__path__ = bindings.__path__ = []  # type: ignore[attr-defined]
    package.cudart, package.cuda, package.bindings = runtime, driver, bindings  # type: ignore[attr-defined]
    bindings.runtime, bindings.driver = runtime, driver  # type: ignore[attr-defined]
    modules = {"cuda": package, "cuda.cudart": runtime, "cuda.cuda": driver, "cuda.bindings": bindings, "cuda.bindings.runtime": runtime, "cuda.bindings.driver": driver}
    for name, module in modules.items():
        module.__getattr__ = _host_cuda.absent(name, "cuda-python")  # type: ignore[method-assign]
        module.__spec__ = importlib.machinery.ModuleSpec(name, None)  # programs ask whether it is there
        sys.modules[name] = module
