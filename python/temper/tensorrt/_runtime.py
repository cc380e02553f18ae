# SPDX-License-Identifier: Apache-2.0
"""Runs engines: what a context is given, what it tells, and what an engine says of itself."""
from __future__ import annotations

import atexit
import json
import operator
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from .. import _temper
from .._engine import _cuda_folders
from .._error import Error
from . import _host_cuda
from ._enums import (DataType, EngineCapability, ExecutionContextAllocationStrategy, HardwareCompatibilityLevel, LayerInformationFormat, ProfilingVerbosity,
                     Severity, TensorFormat, TensorIOMode, TensorLocation, WeightsRole)  # fmt: skip
from ._layers import Weights, weights_of
from ._values import SIZES, TYPES, Dims, IHostMemory, Log, Refusing, Scoped, address_of, dims_of, error_recorder, log_of, made, property_of, volume

_STATIC, _DETAILED, _STANDARD, _NONE = (ExecutionContextAllocationStrategy.STATIC, ProfilingVerbosity.DETAILED, EngineCapability.STANDARD,
                                        HardwareCompatibilityLevel.NONE)  # fmt: skip
_ANY = WeightsRole.ANY


class IStreamReader:
    """To be subclassed: a plan is read from it."""

    def __init__(self) -> None:
        self._made = True

    def read(self, size: int) -> bytes:
        raise NotImplementedError('Tried to call pure virtual function "IStreamReader::read"')


class IStreamReaderV2:
    """To be subclassed: a plan is read from it."""

    def __init__(self) -> None:
        self._made = True

    def read(self, num_bytes: int, stream: int) -> bytes:
        raise NotImplementedError('Tried to call pure virtual function "IStreamReaderV2::read"')

    def seek(self, offset: int, where: Any) -> Any:
        """Is not called: a plan is read from where the reader is."""
        raise NotImplementedError('Tried to call pure virtual function "IStreamReaderV2::seek"')


def _bytes_of(source: Any) -> bytes:
    """Of a plan, or of what a reader has still."""
    if isinstance(source, IStreamReader):
        next_part: Callable[[int], bytes] = made(source, IStreamReader).read
    elif isinstance(source, IStreamReaderV2):
        next_part = lambda size: made(source, IStreamReaderV2).read(size, 0)  # noqa: E731
    else:
        return source if isinstance(source, bytes) else bytes(memoryview(source))  # a number is no plan
    parts = []
    while part := next_part(1 << 24):
        parts.append(bytes(part))
    return b"".join(parts)


class IGpuAllocator:
    """To be subclassed: memory of the device that contexts work in. It is not asked to resize."""

    def __init__(self) -> None:
        self._made = True

    def allocate(self, size: int, alignment: int, flags: int) -> Any:
        """An address of at least ``size`` bytes, aligned as is asked for. None ends the run."""
        raise NotImplementedError('Tried to call pure virtual function "IGpuAllocator::allocate"')

    def reallocate(self, address: int, alignment: int, new_size: int) -> Any:
        return None

    def deallocate(self, memory: int) -> Any:
        raise NotImplementedError('Tried to call pure virtual function "IGpuAllocator::deallocate"')

    def allocate_async(self, size: int, alignment: int, flags: int, stream: int) -> Any:
        return self.allocate(size, alignment, flags)

    def deallocate_async(self, memory: int, stream: int) -> Any:
        return self.deallocate(memory)


class IGpuAsyncAllocator(IGpuAllocator):
    """The same in the order of a stream, which is that of none here."""

    def allocate(self, size: int, alignment: int, flags: int) -> Any:
        return self.allocate_async(size, alignment, flags, 0)

    def deallocate(self, memory: int) -> Any:
        return self.deallocate_async(memory, 0)

    def allocate_async(self, size: int, alignment: int, flags: int, stream: int) -> Any:
        raise NotImplementedError('Tried to call pure virtual function "IGpuAsyncAllocator::allocate_async"')

    def deallocate_async(self, memory: int, stream: int) -> Any:
        raise NotImplementedError('Tried to call pure virtual function "IGpuAsyncAllocator::deallocate_async"')


class _WorkMemory:
    """An allocator as a context asks it."""

    def __init__(self, allocator: IGpuAllocator) -> None:
        # Those in the order of a stream are absent in releases that do not have them.
        self._allocate = getattr(allocator, "allocate_async", None) or (lambda size, alignment, flags, _: allocator.allocate(size, alignment, flags))
        self._deallocate = getattr(allocator, "deallocate_async", None) or (lambda memory, _: allocator.deallocate(memory))

    def allocate(self, size: int, alignment: int) -> int | None:
        at = self._allocate(size, alignment, 0, 0)
        if at is None:
            return None
        address = address_of(at)
        if address and _host_cuda.is_installed():
            _host_cuda.check(address, size, "the allocator's memory")
        return address

    def release(self, address: int) -> None:
        self._deallocate(address, 0)


def _set_gpu_allocator(self: Any, allocator: IGpuAllocator | None) -> None:
    self._gpu_allocator = None if allocator is None else made(allocator, IGpuAllocator)


gpu_allocator = property(lambda self: self._gpu_allocator, _set_gpu_allocator,
                         doc="Contexts of engines that are made from then on work in its memory; None: in Temper's own.")  # fmt: skip


class Runtime(Scoped):
    """Loads engines."""

    __slots__ = ("logger", "_log", "_gpu_allocator", "_max_threads", "_engine_host_code_allowed", "_temporary_directory", "_tempfile_control_flags")

    def __init__(self, logger: Any) -> None:
        self.logger = logger
        self._log = log_of(logger)
        self._gpu_allocator: IGpuAllocator | None = None
        self._max_threads, self._engine_host_code_allowed, self._temporary_directory, self._tempfile_control_flags = 1, False, None, 3

    error_recorder = error_recorder
    gpu_allocator = gpu_allocator
    max_threads = property_of("max_threads", "Loading takes one.")
    engine_host_code_allowed = property_of("engine_host_code_allowed", "A plan has code for a GPU alone.")
    temporary_directory = property_of("temporary_directory", "No temporary files are made there.")
    tempfile_control_flags = property_of("tempfile_control_flags", "No temporary files are made.")

    @property
    def num_DLA_cores(self) -> int:
        return 0

    def deserialize_cuda_engine(self, serialized_engine: Any) -> ICudaEngine | None:
        """Of a plan of Temper, as bytes or from a reader; None, with an error in the log, for anything else."""
        data = _bytes_of(serialized_engine)
        engine = _temper.nv_load(data, _cuda_folders(None), self._log)
        return None if engine is None else ICudaEngine(engine, self._log, data if _temper.nv_is_refittable(data) else None, self._gpu_allocator)


class IRuntimeConfig(Refusing):
    """How contexts are to be made."""

    __slots__ = ("_strategy",)

    def __init__(self) -> None:
        self._strategy = _STATIC

    def set_execution_context_allocation_strategy(self, strategy: Any) -> None:
        """A context owns its memory in any case."""
        self._strategy = strategy

    def get_execution_context_allocation_strategy(self) -> Any:
        return self._strategy


_live: weakref.WeakSet[Any] = weakref.WeakSet()
"""Engines and contexts, which go before the CUDA context that they are in does."""


def _let_go() -> None:
    for held in [*_live]:
        held._native = None
        if isinstance(held, IExecutionContext):
            held._of = None
        else:
            held._inspector = None


def _goes_at_exit(held: Any) -> None:
    """pycuda.autoinit destroys its CUDA context when Python ends, before it destroys what modules hold. What is registered last runs first, and an
    engine is always made after its CUDA context."""
    _live.add(held)
    atexit.unregister(_let_go)
    atexit.register(_let_go)


class ICudaEngine(Scoped):
    """An engine of Temper, by TensorRT's names."""

    __slots__ = ("_native", "_log", "_tensors", "_names", "_inspector", "_refittable", "_gpu_allocator", "_ranges", "__weakref__")

    def __init__(self, native: Any, log: Log, refittable: bytes | None = None, gpu_allocator: IGpuAllocator | None = None) -> None:
        self._gpu_allocator = gpu_allocator
        self._ranges: list[dict[str, Any]] = []
        self._native, self._log, self._inspector = native, log.child(), _temper.NvInspector(native)
        self._refittable = refittable  # what it was loaded from, where its weights can be replaced
        _goes_at_exit(self)
        self._tensors = {name: (TYPES.get(dtype, dtype), Dims(dims), is_input) for name, dtype, dims, is_input in _temper.nv_tensors(native)}
        self._names = list(self._tensors)

    @property
    def name(self) -> str:
        return self._native.info()["model"]

    @property
    def refittable(self) -> Any:
        return self._refittable is not None

    @property
    def num_layers(self) -> int:
        return self._inspector.layers

    def _profiles(self) -> list[dict[str, Any]]:
        if not self._ranges:  # a refitted engine has the same
            described = json.loads(self._native.inspect(False, False, ""))
            self._ranges = described["profiles"] or [described["shapes"]]
        return self._ranges

    @property
    def num_optimization_profiles(self) -> int:
        return len(self._profiles())

    @property
    def num_io_tensors(self) -> int:
        return len(self._names)

    error_recorder = error_recorder
    # What is the same of every engine here.
    num_aux_streams = property(lambda self: 0)
    tactic_sources = property(lambda self: 0)
    profiling_verbosity = property(lambda self: _DETAILED, doc="A plan has all that an inspector shows.")
    engine_capability = property(lambda self: _STANDARD)
    hardware_compatibility_level = property(lambda self: _NONE)
    device_memory_size = property(lambda self: 0, doc="A context owns its memory: none has to be given to it.")
    device_memory_size_v2 = property(lambda self: 0, doc="As device_memory_size.")

    def get_device_memory_size_for_profile(self, profile_index: int) -> int:
        return 0

    get_device_memory_size_for_profile_v2 = get_device_memory_size_for_profile

    def _of(self, name: str) -> Any:
        if name not in self._tensors:
            self._log(int(Severity.ERROR), f"there is no tensor with the name {name!r}")
            return DataType.FLOAT, Dims((-1,)), None
        return self._tensors[name]

    def get_tensor_name(self, index: int) -> str | None:
        if 0 <= index < len(self._names):
            return self._names[index]
        self._log(int(Severity.ERROR), f"there is no tensor of the number {index}: there are {len(self._names)}")
        return None

    def get_tensor_mode(self, name: str) -> Any:
        is_input = self._of(name)[2]
        return TensorIOMode.NONE if is_input is None else TensorIOMode.INPUT if is_input else TensorIOMode.OUTPUT

    def get_tensor_dtype(self, name: str) -> Any:
        return self._of(name)[0]

    def get_tensor_shape(self, name: str) -> Dims:
        return Dims(self._of(name)[1])  # programs write into it

    def get_tensor_location(self, name: str) -> Any:
        return TensorLocation.DEVICE

    def get_tensor_profile_shape(self, name: str, profile_index: int) -> list[Dims]:
        profiles = self._profiles()
        ranges = profiles[profile_index].get(name) if 0 <= profile_index < len(profiles) else None
        if ranges is None:
            self._log(int(Severity.ERROR), f"there is no input {name!r} in a profile {profile_index}: the engine has {len(profiles)}")
            return []
        return [Dims(ranges[which]) for which in ("min", "opt", "max")]

    def get_tensor_profile_values(self, profile_index: int, name: str) -> list[Any]:
        """Of inputs whose values are shapes, which there are none of."""
        return []

    def get_tensor_format(self, name: str, profile_index: int = 0) -> Any:
        return TensorFormat.LINEAR

    def get_tensor_format_desc(self, name: str, profile_index: int = 0) -> str:
        return f"rows of {self._of(name)[0].name} (LINEAR)"

    def get_tensor_bytes_per_component(self, name: str, profile_index: int = 0) -> int:
        return SIZES.get(self._of(name)[0], 8)

    def get_tensor_components_per_element(self, name: str, profile_index: int = 0) -> int:
        return 1

    def get_tensor_vectorized_dim(self, name: str, profile_index: int = 0) -> int:
        return -1

    def is_shape_inference_io(self, name: str) -> Any:
        return False

    def is_debug_tensor(self, name: str) -> Any:
        return False

    def get_aliased_input_tensor(self, name: str) -> Any:
        """No output lies where an input is."""
        return None

    def create_execution_context(self, strategy: Any = None) -> IExecutionContext:
        """The context owns its memory, whatever ``strategy`` (or an IRuntimeConfig) says."""
        return IExecutionContext(self)

    def create_execution_context_without_device_memory(self) -> IExecutionContext:
        return IExecutionContext(self)

    def create_runtime_config(self) -> IRuntimeConfig:
        return IRuntimeConfig()

    def create_engine_inspector(self) -> EngineInspector:
        return EngineInspector(self)

    def serialize(self) -> IHostMemory:
        return IHostMemory(self._refittable) if self._refittable is not None else IHostMemory(self._native.to_bytes())

    # Bindings: the same tensors by number, once for each profile; "x [profile 1]" is the x of the second.
    @property
    def has_implicit_batch_dimension(self) -> Any:
        return False

    @property
    def max_batch_size(self) -> int:
        return 1

    @property
    def num_bindings(self) -> int:
        return len(self._bindings)

    @property
    def _bindings(self) -> list[str]:
        later = [f"{name} [profile {profile}]" for profile in range(1, self.num_optimization_profiles) for name in self._names]
        return self._names + later

    def _binding(self, binding: int | str) -> str:
        """The tensor that it is."""
        index = self._index_of(binding) if isinstance(binding, str) else operator.index(binding)
        return self._names[index % len(self._names)] if 0 <= index < self.num_bindings else f"binding {binding}"

    def get_binding_name(self, index: int) -> str | None:
        if 0 <= index < self.num_bindings:
            return self._bindings[index]
        self._log(int(Severity.ERROR), f"there is no binding of the number {index}: there are {self.num_bindings}")
        return None

    def _index_of(self, name: str) -> int:
        return self._names.index(name) if name in self._tensors else self._bindings.index(name) if name in self._bindings else -1

    def get_binding_index(self, name: str) -> int:
        return self._index_of(name)

    def get_binding_shape(self, binding: int | str) -> Dims:
        return self.get_tensor_shape(self._binding(binding))

    def get_binding_dtype(self, binding: int | str) -> Any:
        return self.get_tensor_dtype(self._binding(binding))

    def binding_is_input(self, binding: int | str) -> Any:
        return self.get_tensor_mode(self._binding(binding)) == TensorIOMode.INPUT

    def get_profile_shape(self, profile_index: int, binding: int | str) -> list[Dims]:
        return self.get_tensor_profile_shape(self._binding(binding), profile_index)

    def get_location(self, binding: int | str) -> Any:
        return TensorLocation.DEVICE

    def get_binding_format(self, index: int) -> Any:
        return TensorFormat.LINEAR

    def get_binding_format_desc(self, index: int) -> str:
        return self.get_tensor_format_desc(self._names[index])

    def get_binding_bytes_per_component(self, index: int) -> int:
        return self.get_tensor_bytes_per_component(self._names[index])

    def get_binding_components_per_element(self, index: int) -> int:
        return 1

    def get_binding_vectorized_dim(self, index: int) -> int:
        return -1

    def is_shape_binding(self, binding: int) -> Any:
        return False

    def is_execution_binding(self, binding: int) -> Any:
        return True

    def __len__(self) -> int:
        return self.num_bindings

    def __getitem__(self, key: int | str) -> Any:
        return self._bindings[key] if isinstance(key, int) else self._index_of(key)


class Refitter(Scoped):
    """Replaces weights of an engine that was built with BuilderFlag.REFIT, which is built again for it, with the times that it knows. Contexts of
    the engine run with the new weights from then on."""

    __slots__ = ("logger", "_log", "_engine", "_native", "_max_threads", "_weights_validation")

    def __init__(self, engine: ICudaEngine, logger: Any) -> None:
        self.logger, self._engine, self._max_threads, self._weights_validation = logger, engine, 1, True
        self._log = log_of(logger)
        if engine._refittable is None:
            raise RuntimeError("the engine was not built to be refitted (BuilderFlag.REFIT)")
        self._native = _temper.NvRefitter(engine._refittable)

    error_recorder = error_recorder
    max_threads = property_of("max_threads", "A build takes the threads that it needs.")
    weights_validation = property_of("weights_validation", "Weights are looked at in any case.")

    def _set(self, name: str, given: Any) -> Any:
        weights = weights_of(given)
        try:
            self._native.set(name, int(weights.dtype), weights._array.ctypes.data, weights.size)
        except Error as error:
            self._log(int(Severity.ERROR), str(error))
            return False
        return True

    def set_named_weights(self, name: str, weights: Any, location: Any = TensorLocation.HOST) -> Any:
        """False, with an error in the log, for a name that there is not, and for another number of weights."""
        if location != TensorLocation.HOST:
            self._log(int(Severity.ERROR), f"set_named_weights({name!r}): weights in a GPU's memory are not in Temper; copy them to the host")
            return False
        return self._set(name, weights)

    def set_weights(self, layer_name: str, role: Any, weights: Any) -> Any:
        """The same by a layer, and what they are to it."""
        for name, layer, of, _, _ in self._native.all():
            if layer == layer_name and (of == int(role) or role == _ANY):
                return self._set(name, weights)
        self._log(int(Severity.ERROR), f"the layer {layer_name!r} has no weights {role}")
        return False

    def get_all(self) -> tuple[list[str], list[Any]]:
        """Layers, and the roles of their weights."""
        rows = self._native.all()
        return [row[1] for row in rows], [WeightsRole(row[2]) for row in rows]

    def get_all_weights(self) -> list[str]:
        return [row[0] for row in self._native.all()]

    def get_missing(self) -> tuple[list[str], list[Any]]:
        """None: what is not replaced stays as it is."""
        return [], []

    def get_missing_weights(self) -> list[str]:
        return []

    def get_weights_prototype(self, weights_name: str) -> Weights:
        """Without numbers: the type that they have."""
        for name, _, _, dtype, _ in self._native.all():
            if name == weights_name:
                return Weights(DataType(dtype))
        return Weights()

    def refit_cuda_engine(self) -> Any:
        """Builds the engine again; False, with an error in the log, where that fails."""
        data = self._native.build(self._log)
        native = _temper.nv_load(data, _cuda_folders(None), self._log) if data else None
        if native is None:
            return False
        self._engine._native, self._engine._inspector, self._engine._refittable = native, _temper.NvInspector(native), data
        return True

    def refit_cuda_engine_async(self, stream_handle: int) -> Any:
        """It has been done when it returns."""
        return self.refit_cuda_engine()


class EngineInspector(Refusing):
    """Layers of an engine, as text or JSON."""

    __slots__ = ("_engine", "_execution_context", "_log")

    def __init__(self, engine: ICudaEngine) -> None:
        self._engine, self._execution_context, self._log = engine, None, engine._log.child()

    error_recorder = error_recorder
    execution_context = property_of("execution_context", "Of it are the shapes; without one, of the engine's first plan.")

    def _shapes(self) -> list[Any]:
        context = self._execution_context
        if context is None or context._native.inputs_without_shape():
            return []
        return [context._native.shape(name) for name in self._engine._names if self._engine._tensors[name][2]]

    def get_layer_information(self, layer_index: int, format: Any) -> str:
        return self._engine._inspector.layer(layer_index, self._shapes(), format == LayerInformationFormat.JSON, self._log)

    def get_engine_information(self, format: Any) -> str:
        return self._engine._inspector.engine(self._shapes(), format == LayerInformationFormat.JSON, self._log)


class IProfiler:
    """To be subclassed: it is told the time of every layer of a run."""

    def __init__(self) -> None:
        self._made = True

    def report_layer_time(self, layer_name: str, ms: float) -> None:
        raise NotImplementedError('Tried to call pure virtual function "IProfiler::report_layer_time"')


class Profiler(IProfiler):
    """Writes the times to standard output."""

    def report_layer_time(self, layer_name: str, ms: float) -> None:
        print(f"{layer_name}: {ms:.6g}ms")


class IOutputAllocator:
    """To be subclassed: it gives an output its memory when its size is known."""

    def __init__(self) -> None:
        self._made = True

    def reallocate_output(self, tensor_name: str, memory: int, size: int, alignment: int) -> Any:
        """An address of at least ``size`` bytes; ``memory`` is what the output had. None ends the run."""
        raise NotImplementedError('Tried to call pure virtual function "IOutputAllocator::reallocate_output"')

    def reallocate_output_async(self, tensor_name: str, memory: int, size: int, alignment: int, stream: int) -> Any:
        return self.reallocate_output(tensor_name, memory, size, alignment)

    def notify_shape(self, tensor_name: str, shape: Dims) -> None:
        raise NotImplementedError('Tried to call pure virtual function "IOutputAllocator::notify_shape"')


class _Allocator:
    """An allocator as a run asks it."""

    def __init__(self, allocator: IOutputAllocator) -> None:
        self._allocator = allocator
        # Absent in releases that do not have it; what a program has made of its own is asked in any.
        self._async = getattr(allocator, "reallocate_output_async", None)

    def reallocate(self, name: str, current: int, size: int, alignment: int, stream: int | None) -> int | None:
        if stream is not None and self._async:
            at = self._async(name, current, size, alignment, stream)
        else:
            at = self._allocator.reallocate_output(name, current, size, alignment)
        if at is None:
            return None
        address = address_of(at)
        if address and _host_cuda.is_installed():
            _host_cuda.check(address, size, name)
        return address

    def notify_shape(self, name: str, dims: tuple[int, ...]) -> None:
        self._allocator.notify_shape(name, Dims(dims))


class IExecutionContext(Scoped):
    """Runs an engine, for one thread at a time. Addresses are of the GPU's memory; of the host's for an engine of a CPU."""

    __slots__ = ("_engine", "_log", "_native", "_of", "_allocators", "_profiler", "_emits", "_name", "_debug_sync", "_nvtx_verbosity",
                 "_persistent_cache_limit", "_device_memory", "__weakref__")  # fmt: skip

    def __init__(self, engine: ICudaEngine) -> None:
        self._engine, self._of, self._log = engine, engine._native, engine._log.child()
        allocator = engine._gpu_allocator
        self._native = _temper.NvContext(engine._native, self._log, None if allocator is None else _WorkMemory(allocator))
        self._profiler, self._emits = None, True
        _goes_at_exit(self)
        self._allocators: dict[str, IOutputAllocator] = {}
        self._name, self._debug_sync, self._nvtx_verbosity, self._persistent_cache_limit, self._device_memory = "", False, _DETAILED, 0, 0

    error_recorder = error_recorder
    name = property_of("name")
    debug_sync = property_of("debug_sync", "Changes nothing: execute_v2 waits in any case.")
    nvtx_verbosity = property_of("nvtx_verbosity", "Nothing is sent to NVTX.")
    persistent_cache_limit = property_of("persistent_cache_limit", "No part of the L2 cache is set aside.")
    device_memory = property_of("device_memory", "A context owns its memory, and uses none that it is given.")

    def set_device_memory(self, memory: Any, size: int) -> None:
        self._device_memory = address_of(memory)

    def update_device_memory_size_for_shapes(self) -> int:
        return 0

    def set_aux_streams(self, aux_streams: Sequence[Any]) -> None:
        """A plan is one chain of launches: there is nothing to put into them."""

    @property
    def engine(self) -> ICudaEngine:
        return self._engine

    @property
    def active_optimization_profile(self) -> int:
        return self._native.profile

    @active_optimization_profile.setter
    def active_optimization_profile(self, profile_index: int) -> None:
        if not self.set_optimization_profile_async(profile_index, 0):
            raise RuntimeError(f"there is no optimization profile {profile_index}")

    def set_optimization_profile_async(self, profile_index: int, stream_handle: int) -> Any:
        """Shapes of inputs are those of this profile from then on; those that were set for another one are no longer."""
        return self._native.set_profile(profile_index)

    def set_input_shape(self, name: str, shape: Sequence[int]) -> Any:
        return self._native.set_input_shape(name, dims_of(shape))

    def get_tensor_shape(self, name: str) -> Dims:
        dims = self._native.shape(name)
        return Dims(self._engine._of(name)[1] if dims is None else dims)

    def get_tensor_strides(self, name: str) -> Dims:
        """In elements; -1 where a dimension behind is open."""
        strides: list[int] = []
        step = 1
        for dim in reversed(self.get_tensor_shape(name)):
            strides.insert(0, step)
            step = -1 if step < 0 or dim < 0 else step * dim
        return Dims(strides)

    def infer_shapes(self) -> list[str]:
        """Inputs whose shapes must be set still."""
        return self._native.inputs_without_shape()

    @property
    def all_shape_inputs_specified(self) -> Any:
        return True

    def set_tensor_address(self, name: str, memory: Any) -> Any:
        return self._native.set_address(name, address_of(memory))

    def get_tensor_address(self, name: str) -> int:
        return self._native.address(name)

    def get_max_output_size(self, name: str) -> int:
        """Bytes at most of an output; -1 where they depend on data."""
        return self._native.max_output_bytes(name)

    def set_output_allocator(self, name: str, output_allocator: IOutputAllocator | None) -> Any:
        wrapped = None if output_allocator is None else _Allocator(made(output_allocator, IOutputAllocator))
        if not self._native.set_output_allocator(name, wrapped):
            return False
        if output_allocator is None:
            self._allocators.pop(name, None)
        else:
            self._allocators[name] = output_allocator
        return True

    def get_output_allocator(self, name: str) -> IOutputAllocator | None:
        return self._allocators.get(name)

    @property
    def profiler(self) -> IProfiler | None:
        return self._profiler

    @profiler.setter
    def profiler(self, profiler: IProfiler | None) -> None:
        self._profiler = None if profiler is None else made(profiler, IProfiler)
        self._native.set_layer_times(None if profiler is None else profiler.report_layer_time)

    @property
    def enqueue_emits_profile(self) -> Any:
        return self._emits

    @enqueue_emits_profile.setter
    def enqueue_emits_profile(self, emits: Any) -> None:
        self._emits = True if emits else False
        self._native.set_layers_told_at_once(self._emits)

    def report_to_profiler(self) -> Any:
        return self._native.report_layers()

    def execute_v2(self, bindings: Sequence[Any]) -> Any:
        return self._set(bindings) and self._run(None)

    def execute_async_v3(self, stream_handle: Any) -> Any:
        return self._run(address_of(stream_handle))

    def _run(self, stream: int | None) -> Any:
        if self._of is not self._engine._native:  # it was refitted
            self._of = self._engine._native
            self._native.move_to(self._of)
        # Where the program's memory is known, what it points to is looked up: a stray number is an error, not a crash.
        if _host_cuda.is_installed() and not self._native.inputs_without_shape():
            for name in self._engine._names:
                if name in self._allocators:
                    continue
                at, size = self._native.address(name), volume(self._native.shape(name)) * SIZES.get(self._engine._tensors[name][0], 8)
                try:
                    if at:
                        _host_cuda.check(at, max(size, 0), name)
                except _host_cuda.Error as error:
                    self._log(int(Severity.ERROR), str(error))
                    return False
        return self._native.run(stream)

    def _set(self, bindings: Sequence[Any]) -> Any:
        addresses = [address_of(pointer) for pointer in bindings]  # None among them is a TypeError, before anything runs
        count = len(self._engine._names)
        first = self._native.profile * count if hasattr(type(self._engine), "num_bindings") else 0  # 8.6 has bindings for each profile
        if len(addresses) < first + count:
            self._log(int(Severity.ERROR), f"{len(addresses)} bindings were given; those of profile {self._native.profile} are {first} to {first + count - 1}")
            return False
        addresses = addresses[first : first + count]
        return all([self._native.set_address(name, at) for name, at in zip(self._engine._names, addresses)])

    def execute_async_v2(self, bindings: Sequence[Any], stream_handle: Any) -> Any:
        return self._set(bindings) and self._run(address_of(stream_handle))

    def set_binding_shape(self, binding: int, shape: Sequence[int]) -> Any:
        of = operator.index(binding) // len(self._engine._names)
        if of != self._native.profile:
            self._log(int(Severity.ERROR), f"the binding {binding} is of profile {of}, and profile {self._native.profile} is active")
            return False
        return self.set_input_shape(self._engine._binding(binding), shape)

    def get_binding_shape(self, binding: int) -> Dims:
        return self.get_tensor_shape(self._engine._binding(binding))

    def get_strides(self, binding: int) -> Dims:
        return self.get_tensor_strides(self._engine._binding(binding))

    @property
    def all_binding_shapes_specified(self) -> Any:
        return not self._native.inputs_without_shape()
