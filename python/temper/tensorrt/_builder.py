# SPDX-License-Identifier: Apache-2.0
"""Builds engines: what a build is told, calibrators that it asks, monitors that it tells."""
from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from .. import _temper
from .._error import Error
from . import _host_cuda
from ._enums import (BuilderFlag, CalibrationAlgoType, DeviceType, EngineCapability, HardwareCompatibilityLevel, MemoryPoolType,
                     ProfilingVerbosity, RuntimePlatform, Severity, TilingOptimizationLevel)  # fmt: skip
from ._network import INetworkDefinition, IOptimizationProfile
from ._runtime import ICudaEngine, IGpuAllocator, Runtime, gpu_allocator
from ._values import IHostMemory, Log, Refusing, Scoped, address_of, error_recorder, log_of, made, property_of

_TF32 = BuilderFlag.TF32
_LEGACY, _MINMAX = CalibrationAlgoType.LEGACY_CALIBRATION, CalibrationAlgoType.MINMAX_CALIBRATION
default_device = ""
"""That builders build for; "": GPU 0, or the CPU where there is none."""
release = 0
"""Whose names are in use: an index of _api.RELEASES."""


class ITimingCache(Refusing):
    """Measured times that builds read and extend."""

    __slots__ = ("_native",)

    def __init__(self, data: bytes) -> None:
        self._native = _temper.Timings(bytes(data))

    def serialize(self) -> IHostMemory:
        return IHostMemory(self._native.to_bytes())

    def combine(self, input_cache: ITimingCache, ignore_mismatch: Any) -> Any:
        self._native.add(input_cache._native)
        return True

    def reset(self) -> Any:
        """Empties it."""
        self._native = _temper.Timings(b"")
        return True


class IInt8Calibrator:
    """To be subclassed: it gives batches by their addresses, and keeps a cache."""

    def __init__(self) -> None:
        self._made = True

    def get_batch_size(self) -> int:
        return 1

    def get_batch(self, names: list[str]) -> Sequence[Any] | None:
        raise NotImplementedError('Tried to call pure virtual function "IInt8Calibrator::get_batch"')

    def read_calibration_cache(self) -> Any:
        return None

    def write_calibration_cache(self, cache: Any) -> None:
        return None

    def get_algorithm(self) -> Any:
        raise NotImplementedError('Tried to call pure virtual function "IInt8Calibrator::get_algorithm"')


class IInt8EntropyCalibrator2(IInt8Calibrator):
    def get_algorithm(self) -> Any:
        return CalibrationAlgoType.ENTROPY_CALIBRATION_2


class IInt8EntropyCalibrator(IInt8Calibrator):
    def get_algorithm(self) -> Any:
        return CalibrationAlgoType.ENTROPY_CALIBRATION


class IInt8MinMaxCalibrator(IInt8Calibrator):
    def get_algorithm(self) -> Any:
        return CalibrationAlgoType.MINMAX_CALIBRATION


class IInt8LegacyCalibrator(IInt8Calibrator):
    """Programs ask whether a calibrator is one; a build with one is refused."""

    def get_algorithm(self) -> Any:
        return CalibrationAlgoType.LEGACY_CALIBRATION


class _Batches:
    """A calibrator as the build asks it."""

    def __init__(self, calibrator: IInt8Calibrator) -> None:
        self._calibrator = calibrator

    def read(self) -> bytes:
        cache = self._calibrator.read_calibration_cache()
        return b"" if cache is None else bytes(cache)

    def write(self, cache: bytes) -> None:
        self._calibrator.write_calibration_cache(memoryview(cache))  # as the bindings do: programs call tobytes()

    def next(self, names: list[str]) -> list[int] | None:
        batch = self._calibrator.get_batch(names)
        if not batch:
            return None
        return [address_of(pointer) for pointer in batch]

    def check(self, address: int, size: int, name: str) -> str:
        """Why a batch of so many bytes may not be read there, where the program's memory is known; else ""."""
        if _host_cuda.is_installed():
            try:
                _host_cuda.check(address, size, name)
            except _host_cuda.Error as error:
                return str(error)
        return ""


class IProgressMonitor:
    """To be subclassed: it is told of phases inside phases, and may end a build by ``step_complete``, which gives False then."""

    def __init__(self) -> None:
        self._made = True

    def phase_start(self, phase_name: str, parent_phase: str | None, num_steps: int) -> None:
        raise NotImplementedError('Tried to call pure virtual function "IProgressMonitor::phase_start"')

    def step_complete(self, phase_name: str, step: int) -> Any:
        raise NotImplementedError('Tried to call pure virtual function "IProgressMonitor::step_complete"')

    def phase_finish(self, phase_name: str) -> None:
        raise NotImplementedError('Tried to call pure virtual function "IProgressMonitor::phase_finish"')


class IStreamWriter:
    """To be subclassed: a plan is written to it."""

    def __init__(self) -> None:
        self._made = True

    def write(self, data: bytes) -> int:
        raise NotImplementedError('Tried to call pure virtual function "IStreamWriter::write"')


# What has no effect here, with what it is at first: the search is Temper's own (docs/trtexec.md has the reasons, by the flags of the same names).
_KEPT = {
    "builder_optimization_level": 3, "avg_timing_iterations": 1, "min_timing_iterations": 1, "profiling_verbosity": ProfilingVerbosity.LAYER_NAMES_ONLY,
    "profile_stream": 0, "max_aux_streams": -1, "tiling_optimization_level": TilingOptimizationLevel.NONE, "l2_limit_for_tiling": -1,
    "max_num_tactics": -1, "quantization_flags": 0}  # fmt: skip
# What may be nothing else: another value ends the build (src/nvinfer/refuse.cc).
_ONLY = {
    "engine_capability": EngineCapability.STANDARD, "hardware_compatibility_level": HardwareCompatibilityLevel.NONE,
    "runtime_platform": RuntimePlatform.SAME_AS_BUILD, "default_device_type": DeviceType.GPU, "DLA_core": -1, "plugins_to_serialize": []}  # fmt: skip


class IBuilderConfig(Scoped):
    """What a build is to do. Flags of precisions are permissions."""

    __slots__ = ("flags", "_release", "_log", "_calibrator", "_monitor", "_pools", "_profiles", "_calibration", "_cache", "_features", "_sources",
                 *(f"_{name}" for name in (*_KEPT, *_ONLY)))  # fmt: skip

    def __init__(self, log: Log) -> None:
        self._log, self._release = log, release
        self.reset()

    def reset(self) -> None:
        """Everything is as it was at first."""
        self.flags = 1 << int(_TF32)
        for name, value in _KEPT.items():
            setattr(self, f"_{name}", value)
        for name, value in _ONLY.items():
            setattr(self, f"_{name}", value)
        self._pools, self._features, self._sources = {}, {}, 0
        self._cache = self._calibrator = self._monitor = self._calibration = None
        self._profiles: list[IOptimizationProfile] = []

    def set_flag(self, flag: Any) -> None:
        self.flags |= 1 << int(flag)

    def clear_flag(self, flag: Any) -> None:
        self.flags &= ~(1 << int(flag))

    def get_flag(self, flag: Any) -> Any:
        return self.flags >> int(flag) & 1 == 1

    def set_quantization_flag(self, flag: Any) -> None:
        self.quantization_flags |= 1 << int(flag)

    def clear_quantization_flag(self, flag: Any) -> None:
        self.quantization_flags &= ~(1 << int(flag))

    def get_quantization_flag(self, flag: Any) -> Any:
        return self.quantization_flags >> int(flag) & 1 == 1

    def set_preview_feature(self, feature: Any, enable: Any) -> None:
        self._features[feature] = True if enable else False

    def get_preview_feature(self, feature: Any) -> Any:
        return self._features.get(feature, False)

    def set_tactic_sources(self, tactic_sources: int) -> Any:
        self._sources = int(tactic_sources)
        return True

    def get_tactic_sources(self) -> int:
        return self._sources

    def set_memory_pool_limit(self, pool: Any, pool_size: int) -> None:
        self._pools[pool] = operator.index(pool_size)

    def get_memory_pool_limit(self, pool: Any) -> int:
        return self._pools.get(pool, 0)

    @property
    def max_workspace_size(self) -> int:
        return self.get_memory_pool_limit(MemoryPoolType.WORKSPACE)

    @max_workspace_size.setter
    def max_workspace_size(self, size: int) -> None:
        self.set_memory_pool_limit(MemoryPoolType.WORKSPACE, int(size))

    @property
    def int8_calibrator(self) -> IInt8Calibrator | None:
        return self._calibrator

    @int8_calibrator.setter
    def int8_calibrator(self, calibrator: IInt8Calibrator | None) -> None:
        self._calibrator = None if calibrator is None else made(calibrator, IInt8Calibrator)

    @property
    def progress_monitor(self) -> IProgressMonitor | None:
        return self._monitor

    @progress_monitor.setter
    def progress_monitor(self, monitor: IProgressMonitor | None) -> None:
        self._monitor = None if monitor is None else made(monitor, IProgressMonitor)

    def add_optimization_profile(self, profile: IOptimizationProfile) -> int:
        self._profiles.append(profile)
        return len(self._profiles) - 1

    @property
    def num_optimization_profiles(self) -> int:
        return len(self._profiles)

    def set_calibration_profile(self, profile: IOptimizationProfile) -> Any:
        """Batches of a calibrator have its optimal shapes."""
        self._calibration = profile
        return True

    def get_calibration_profile(self) -> IOptimizationProfile | None:
        return self._calibration

    def create_timing_cache(self, serialized_timing_cache: bytes) -> ITimingCache:
        try:
            return ITimingCache(serialized_timing_cache)
        except Error as error:  # of TensorRT, or of a later version: an empty one, as TensorRT makes
            self._log(int(Severity.WARNING), f"the timing cache is not used: {error}")
            return ITimingCache(b"")

    def set_timing_cache(self, cache: ITimingCache, ignore_mismatch: Any) -> Any:
        self._cache = cache
        return True

    def get_timing_cache(self) -> ITimingCache | None:
        return self._cache

    def _refused(self) -> list[str]:
        """What was asked for and is not here, with reasons."""
        try:
            refused: list[str] = _temper.nv_refusals(
                self.flags & 0xFFFFFFFF, self._release, self._default_device_type != DeviceType.GPU or self._DLA_core != -1,
                int(self._engine_capability), int(self._hardware_compatibility_level), int(self._runtime_platform))  # fmt: skip
        except Error as error:  # a number that is no flag
            refused = [str(error)]
        if self._plugins_to_serialize:
            refused.append("IBuilderConfig.plugins_to_serialize: not in Temper (plugins of TensorRT cannot be run)")
        return refused


for _name in (*_KEPT, *_ONLY):
    setattr(IBuilderConfig, _name, property_of(_name))


class Builder(Scoped):
    """Builds engines."""

    __slots__ = ("logger", "_log", "_device", "_gpu_allocator", "_max_batch_size", "_max_threads")

    def __init__(self, logger: Any) -> None:
        self.logger = logger
        self._log = log_of(logger)
        self._device = default_device or _temper.nv_device()
        self._gpu_allocator: IGpuAllocator | None = None
        self._max_batch_size = self._max_threads = 1

    error_recorder = error_recorder
    gpu_allocator = gpu_allocator
    max_batch_size = property_of("max_batch_size", "Of implicit batches, which there are none of.")
    max_threads = property_of("max_threads", "A build takes the threads that it needs.")

    @property
    def num_DLA_cores(self) -> int:
        return 0

    @property
    def platform_has_tf32(self) -> Any:
        return self._device != "cpu"

    @property
    def platform_has_fast_fp16(self) -> Any:
        return self._device != "cpu"

    @property
    def platform_has_fast_int8(self) -> Any:
        return True

    def reset(self) -> None:
        """A builder keeps nothing."""

    def create_network(self, flags: int = 0) -> INetworkDefinition:
        """The batch is always a dimension of the shapes."""
        return INetworkDefinition(self, int(flags), self._log, release)

    def create_builder_config(self) -> IBuilderConfig:
        return IBuilderConfig(self._log)

    def create_optimization_profile(self) -> IOptimizationProfile:
        return IOptimizationProfile()

    def is_network_supported(self, network: INetworkDefinition, config: IBuilderConfig) -> Any:
        """Whether a model was read, and nothing is asked for that is refused."""
        return network.num_outputs > 0 and not config._refused()

    def build_serialized_network(self, network: INetworkDefinition, config: IBuilderConfig) -> IHostMemory | None:
        """The bytes of a plan; None, with an error in the log, where it cannot be built."""
        refused = config._refused()
        for text in refused:
            self._log(int(Severity.ERROR), text)
        if refused:
            return None
        workspace = config._pools.get(MemoryPoolType.WORKSPACE)
        calibrator = config._calibrator
        algorithm = None if calibrator is None else calibrator.get_algorithm()
        if algorithm == _LEGACY:
            self._log(int(Severity.ERROR), "IInt8LegacyCalibrator: its quantiles are a search of its own, which is not in Temper; calibrate by entropy or minmax")
            return None
        minmax = algorithm == _MINMAX
        timings = None if config._cache is None else config._cache._native
        plan = _temper.nv_build(network._native, {
            "calibrator": None if calibrator is None else _Batches(calibrator), "method": "minmax" if minmax else "entropy",
            "device": self._device, "flags": config.flags & 0xFFFFFFFF, "release": config._release, "workspace": -1 if workspace is None else workspace,
            "profiles": [profile._shapes for profile in config._profiles], "calibration": config._calibration._shapes if config._calibration else {},
            "timings": timings, "monitor": config._monitor}, self._log)  # fmt: skip
        return IHostMemory(plan) if plan else None

    def build_serialized_network_to_stream(self, network: INetworkDefinition, config: IBuilderConfig, writer: IStreamWriter) -> Any:
        """Whether there is a plan, and the writer took all of it."""
        plan = self.build_serialized_network(network, config)
        return plan is not None and made(writer, IStreamWriter).write(bytes(plan)) == plan.nbytes

    def build_engine(self, network: INetworkDefinition, config: IBuilderConfig) -> ICudaEngine | None:
        plan = self.build_serialized_network(network, config)
        if plan is None:
            return None
        runtime = Runtime(self.logger)
        runtime.gpu_allocator = self._gpu_allocator
        return runtime.deserialize_cuda_engine(plan)

    build_engine_with_config = build_engine
