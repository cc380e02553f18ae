# SPDX-License-Identifier: Apache-2.0
"""Temper from Python: build a model, run it, measure it. docs/python.md shows how.

>>> engine = temper.build("model.onnx")
>>> outputs = engine.run({"x": array})
"""
import importlib as _importlib
import os as _os
import sys as _sys

from ._error import (
    ArgumentTypeError,
    CheckFailed,
    Error,
    FileError,
    MachineError,
    MissingFileError,
    MissingPackageError,
    UnsupportedError,
    UsageError,
)

try:
    # TensorFlow shows its protobuf and its oneDNN to every library that is loaded after it. The libraries of this module have
    # their own, of other versions, and must look there first.
    _flags = _sys.getdlopenflags()
    _sys.setdlopenflags(_flags | getattr(_os, "RTLD_DEEPBIND", 0))
    try:
        _importlib.import_module("temper._temper")
    finally:
        _sys.setdlopenflags(_flags)
    from ._temper import Binding, DeviceArray, Session, __version__
    from ._engine import Engine, EngineStatistics, Port, ShapeLimits, load
    from ._graph import Graph
    from ._calibrate import MethodTrial, Ranges, TensorRange, calibrate
    from ._data import Data
    from ._build import LayerDecision, MixedPrecision, Timings, build
    from ._bench import BenchResult, Comparison, bench, compare, load_results, save_results
    from ._generate import GeneratedRow, Generation, Generations, Token, generate
    from ._evaluate import Evaluation, McNemar, OutputDifference, Perplexity, Share, evaluate
    from ._study import StudiedPrecision, Study, study
    from ._log import set_log_callback
    from ._pool import Pool, PoolDevice
    from ._profile import ExplainedEngine, Explanation, Finding, Profile, ProfiledStep, explain, profile
    from ._report import Gate, GatedRun, Report, gate, report
    from ._split import split
    from ._run import Answers, Batch, Batches, RankedClass, batches, run
    from ._show import frame
except ModuleNotFoundError as _absent:  # python -m temper export needs neither: in a checkout, or to say what to install
    if _absent.name not in ("temper._temper", "numpy"):
        raise
    _missing = _absent.name

    def __getattr__(name: str) -> object:
        if name in __all__:
            raise ImportError(f"temper.{name} needs {_missing}, which is not there; python -m pip install . in Temper's checkout brings it", name=_missing)
        raise AttributeError(f"module 'temper' has no attribute '{name}'")


__all__ = [
    "Answers",
    "ArgumentTypeError",
    "Batch",
    "Batches",
    "BenchResult",
    "Binding",
    "CheckFailed",
    "Comparison",
    "Data",
    "DeviceArray",
    "Engine",
    "EngineStatistics",
    "Error",
    "Evaluation",
    "ExplainedEngine",
    "Explanation",
    "FileError",
    "Finding",
    "Gate",
    "GatedRun",
    "GeneratedRow",
    "Generation",
    "Generations",
    "Graph",
    "LayerDecision",
    "MachineError",
    "McNemar",
    "MethodTrial",
    "MissingFileError",
    "MissingPackageError",
    "MixedPrecision",
    "OutputDifference",
    "Perplexity",
    "Pool",
    "PoolDevice",
    "Port",
    "Profile",
    "ProfiledStep",
    "Ranges",
    "RankedClass",
    "Report",
    "Session",
    "ShapeLimits",
    "Share",
    "StudiedPrecision",
    "Study",
    "TensorRange",
    "Timings",
    "Token",
    "UnsupportedError",
    "UsageError",
    "__version__",
    "batches",
    "bench",
    "build",
    "calibrate",
    "compare",
    "evaluate",
    "explain",
    "frame",
    "gate",
    "generate",
    "load",
    "load_results",
    "profile",
    "report",
    "run",
    "save_results",
    "set_log_callback",
    "split",
    "study",
]
