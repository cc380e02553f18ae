# SPDX-License-Identifier: Apache-2.0
"""Stands in for the few calls of pycuda by which programs for TensorRT hold buffers, on a machine without a GPU; and for those of the CUDA
runtime that Polygraphy makes by ctypes.

It is asked for (``--device cpu``), for one process. "Device memory" is memory of the host; an address is looked up before anything reads or
writes there, so that a stray number is an error. What is not here raises AttributeError: kernels, modules, events, graphs.
"""
from __future__ import annotations

import ctypes
import importlib.machinery
import os
import sys
import types
from typing import Any

import numpy

from .. import _temper
from .._error import Error as TemperError

_installed = False


class Error(Exception):
    """Of pycuda's classes of errors, all of them."""


def _tried(call: Any, *arguments: Any) -> Any:
    """What a call of the library gives; Error where it fails."""
    try:
        return call(*arguments)
    except TemperError as error:
        raise Error(str(error)) from None
    except TypeError:
        raise Error(f"no address or no number of bytes is among {arguments}") from None


class DeviceAllocation:
    """Bytes that the program calls memory of the device."""

    def __init__(self, size: int) -> None:
        self.size, self._is_free = size, True
        self._address: int = _tried(_temper.nv_host_allocate, size)
        if not self._address:
            raise Error(f"cuMemAlloc failed: there is no room for {size} bytes")
        self._is_free = False

    def __int__(self) -> int:
        return self._address

    __index__ = __int__

    def free(self) -> None:
        if self._is_free:
            raise Error("cuMemFree failed: the memory is free already")
        self._is_free = True
        beyond = _temper.nv_host_free(self._address)
        if beyond:
            print(f"temper: the program wrote {beyond} bytes beyond a buffer of {self.size}", file=sys.stderr)

    def __del__(self) -> None:
        if not self._is_free:
            self.free()


def check(address: Any, size: int, what: str) -> None:
    """Error where a run may not have these bytes: they are in no live allocation, nor right behind it."""
    _tried(_temper.nv_host_check, int(address), size, what)


_EITHER = 2
_ENDS = {0: (0, 0), 1: (1, 0), 2: (0, 1), 3: (1, 1), 4: (_EITHER, _EITHER)}
"""Whether both ends of a copy are a device's, by the numbers of cudaMemcpyKind."""


def copy(to: Any, source: Any, size: int, kind: int) -> None:
    """Error where a byte is in no allocation of the device that it should be in, or nowhere."""
    if kind not in _ENDS:
        raise Error(f"there is no cudaMemcpyKind {kind}")
    to_end, from_end = _ENDS[kind]
    _tried(_temper.nv_host_copy, int(to), to_end, int(source), from_end, size)


def fill(address: Any, value: int, size: int) -> None:
    _tried(_temper.nv_host_set, int(address), value, size)


def is_installed() -> bool:
    return _installed


def at_array(array: Any, writes: bool = False) -> tuple[int, int]:
    """Where the bytes of an array of the host begin, and how many they are."""
    view = memoryview(array)
    if not view.c_contiguous:
        raise ValueError("ndarray is not contiguous")
    if writes and view.readonly:
        raise ValueError("the destination cannot be written")
    if not view.nbytes:
        return 0, 0
    return int(numpy.frombuffer(view.cast("B"), numpy.uint8).ctypes.data), view.nbytes


def mem_alloc(size: int) -> DeviceAllocation:
    return DeviceAllocation(int(size))


def memcpy_htod(dest: Any, src: Any) -> None:
    at, size = at_array(src)
    copy(dest, at, size, 1)


def memcpy_dtoh(dest: Any, src: Any) -> None:
    at, size = at_array(dest, writes=True)
    copy(at, src, size, 2)


def memcpy_htod_async(dest: Any, src: Any, stream: Any = None) -> None:
    memcpy_htod(dest, src)


def memcpy_dtoh_async(dest: Any, src: Any, stream: Any = None) -> None:
    memcpy_dtoh(dest, src)


def pagelocked_empty(shape: Any, dtype: Any, order: str = "C", mem_flags: int = 0) -> Any:
    return numpy.empty(shape, dtype, order)


class Stream:
    """Everything that is put into it is done at once."""

    def __init__(self, flags: int = 0) -> None:
        self.handle = 0

    def synchronize(self) -> None:
        return None


class Context:
    """There is nothing to switch."""

    def push(self) -> None:
        return None

    @staticmethod
    def pop() -> None:
        return None

    def detach(self) -> None:
        return None

    @staticmethod
    def synchronize() -> None:
        return None


class Device:
    """Says that it is none."""

    def __init__(self, number: int) -> None:
        if number != 0:
            raise Error("cuDeviceGet failed: invalid device ordinal")

    @staticmethod
    def count() -> int:
        return 1

    def name(self) -> str:
        return "host memory (no CUDA device)"

    def compute_capability(self) -> tuple[int, int]:
        return (0, 0)

    def make_context(self, flags: int = 0) -> Context:
        return Context()


def init(flags: int = 0) -> None:
    return None


def _number(value: Any) -> int:
    return int((value.value if hasattr(value, "value") else value) or 0)


class _Cudart:
    """The calls of libcudart that Polygraphy makes, with ctypes' arguments. Each gives cudaSuccess, or cudaErrorInvalidValue with a line that
    says why; what is not here raises AttributeError."""

    def __init__(self) -> None:
        self._allocations: dict[int, DeviceAllocation] = {}

    def _done(self, body: Any) -> int:
        try:
            body()
        except (Error, KeyError) as error:
            print(f"temper: {error}", file=sys.stderr)
            return 1
        return 0

    def cudaMalloc(self, pointer: Any, size: Any) -> int:
        def allocate() -> None:
            allocation = DeviceAllocation(_number(size))
            self._allocations[int(allocation)] = allocation
            pointer._obj.value = int(allocation)

        return self._done(allocate)

    def cudaFree(self, pointer: Any) -> int:
        at = _number(pointer)
        return self._done(lambda: self._allocations.pop(at).free()) if at else 0

    def cudaMemcpy(self, to: Any, source: Any, size: Any, kind: Any) -> int:
        return self._done(lambda: copy(_number(to), _number(source), _number(size), _number(kind)))

    def cudaMemcpyAsync(self, to: Any, source: Any, size: Any, kind: Any, stream: Any) -> int:
        return self.cudaMemcpy(to, source, size, kind)

    def cudaStreamCreate(self, stream: Any) -> int:
        stream._obj.value = 1
        return 0

    def cudaStreamSynchronize(self, stream: Any) -> int:
        return 0

    cudaStreamDestroy = cudaStreamSynchronize

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{name} is not in Temper's stand-in for the CUDA runtime, which holds buffers in the host's memory and does nothing else")


_CDLL = ctypes.CDLL


class _Libraries(_CDLL):
    """ctypes.CDLL, but that Polygraphy finds the stand-in where it looks for the CUDA runtime."""

    def __new__(cls, name: Any = None, *arguments: Any, **named: Any) -> Any:
        caller = sys._getframe(1).f_globals.get("__name__", "")
        if caller.startswith("polygraphy.") and name and os.path.basename(name).startswith("libcudart.so"):
            return _Cudart()
        return super().__new__(cls)


def absent(module: str, of: str) -> Any:
    """What a module of the stand-in says of a name that it does not have."""

    def said(name: str) -> Any:
        raise AttributeError(f"{module}.{name} is not in Temper's stand-in for {of}, which holds buffers in the host's memory and does nothing else")

    return said


def install() -> None:
    """Makes this pycuda, pycuda.driver and pycuda.autoinit of the process, the CUDA runtime that Polygraphy finds in it, and that of cuda-python."""
    from . import _host_cudart

    global _installed
    driver = types.ModuleType("pycuda.driver", __doc__)
    for name in ("mem_alloc", "memcpy_htod", "memcpy_dtoh", "memcpy_htod_async", "memcpy_dtoh_async", "pagelocked_empty", "Stream", "Context",
                 "Device", "DeviceAllocation", "Error", "init"):  # fmt: skip
        setattr(driver, name, globals()[name])
    driver.LogicError = driver.MemoryError = driver.LaunchError = driver.RuntimeError = Error  # type: ignore[attr-defined]
    autoinit = types.ModuleType("pycuda.autoinit")
    autoinit.device, autoinit.context = Device(0), Context()  # type: ignore[attr-defined]
    package = types.ModuleType("pycuda")
    package.__path__ = []  # type: ignore[attr-defined]
    package.driver, package.autoinit = driver, autoinit  # type: ignore[attr-defined]

    for name, module in (("pycuda", package), ("pycuda.driver", driver), ("pycuda.autoinit", autoinit)):
        module.__getattr__ = absent(name, "pycuda")  # type: ignore[method-assign]
        module.__spec__ = importlib.machinery.ModuleSpec(name, None)  # programs ask whether it is there
        sys.modules[name] = module
    _host_cudart.install()
    ctypes.CDLL = _Libraries  # type: ignore[misc]
    if not _installed:
        print("temper: pycuda and cuda-python are stand-ins in this process: their device memory is the host's", file=sys.stderr)
    _installed = True
