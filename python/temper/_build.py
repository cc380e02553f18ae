# SPDX-License-Identifier: Apache-2.0
"""From a model to an engine."""
from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Union

from . import _temper
from ._calibrate import Ranges, _calibrated
from ._data import DataSource, data_of
from ._engine import Engine, _cuda_folders
from ._error import Error
from ._model import Model, model_of
from ._serve_timings import command as _timing_helper

Shape = Sequence[int]
Shapes = Union[Mapping[str, Union[Shape, Sequence[Shape]]], Shape, Sequence[Shape]]
DEFAULT = "default"


def _range_of(shape: Any) -> tuple[Any, Any, Any]:
    """(min, opt, max) of a shape or of three."""
    try:
        parts = [tuple(part) if isinstance(part, (tuple, list)) else int(part) for part in shape]
    except (TypeError, ValueError):
        parts = []
    if parts and all(isinstance(part, int) for part in parts):
        return (tuple(parts),) * 3
    if len(parts) == 3 and all(isinstance(part, tuple) and all(isinstance(dim, int) for dim in part) for part in parts):
        return tuple(parts)
    raise Error(f"{shape!r} is neither a shape, like (8, 3, 224, 224), nor three of them: (min, opt, max)")


def shapes_of(shapes: Shapes | None, model: Any) -> dict[str, Any]:
    if shapes is None:
        return {}
    if not isinstance(shapes, Mapping):
        names = _temper.input_names(model)
        if len(names) != 1:
            raise Error(f"shapes must be a dict by input name where there are several inputs: {', '.join(names)}")
        shapes = {names[0]: shapes}
    return {name: _range_of(shape) for name, shape in shapes.items()}


def timing_cache_of(path: str | os.PathLike[str] | None) -> str:
    if path is None:
        return ""
    path = os.fspath(path)
    return _temper.default_timing_cache() if path == DEFAULT else path


@dataclasses.dataclass(frozen=True)
class LayerDecision:
    """One layer of a model under a budget."""

    layer: str
    drop: float | None
    """Of the model with this layer alone in the lower precision; None where all of them together hold, as with the noise."""
    noise_share: float | None
    """Noise / signal of the worst output, likewise."""
    saves_ms: float | None
    """What the lower precision saves, as measured."""
    decision: str
    """``"int8"``, ``"fp16"``, ``"bf16"`` or ``"fp32"``."""


@dataclasses.dataclass(frozen=True)
class MixedPrecision:
    """What a budget (``max_drop``) did to a model. ``record`` is all of it, as ``temper build --json`` prints it."""

    precision: str
    metric: str
    max_drop: float
    drop: float
    """Of the result beside FP32, by the metric, as a share."""
    drop_all: float
    """With every layer in the lower precision."""
    holds: bool
    """Whether the result keeps the budget."""
    samples: int
    """That every candidate was tried on."""
    candidates: int
    layers: tuple[LayerDecision, ...]
    """The worst first."""
    ranges: Ranges | None
    """What was calibrated for it, where no ranges were given."""
    record: dict[str, Any] = dataclasses.field(repr=False)


def mixed_of(record: dict[str, Any], ranges: Ranges | None = None) -> MixedPrecision:
    same = {name: record[name] for name in ("precision", "metric", "max_drop", "drop", "holds", "samples", "candidates")}
    layers = tuple(LayerDecision(**layer) for layer in record["layers"])
    return MixedPrecision(**same, drop_all=record[f"drop_all_{record['precision']}"], layers=layers, ranges=ranges, record=record)


def build_options(
    source: Any,
    *,
    precision: str = "fp32",
    shapes: Shapes | None = None,
    calibration: Ranges | str | os.PathLike[str] | None = None,
    device: str = "cpu",
    threads: int = 0,
    timing_cache: str | os.PathLike[str] | None = DEFAULT,
    workspace: int | None = None,
    memory_limit: int | None = None,
    keep_first: bool = False,
    keep_last: bool = False,
    keep_fp32: Iterable[str] = (),
    keep_bf16: Iterable[str] = (),
    disable: Iterable[str] = (),
    quick: bool = False,
    cuda_path: str | os.PathLike[str] | None = None,
) -> dict[str, Any]:
    """What the native module takes of :func:`build`'s arguments. ``source``: what it takes as the model."""
    if threads < 0:
        raise Error(f"threads is {threads}; 0 means all that the process may use")
    options: dict[str, Any] = {
        "precision": precision,
        "shapes": shapes_of(shapes, source),
        "device": device,
        "threads": threads,
        "timing_cache": timing_cache_of(timing_cache),
        "workspace": -1 if workspace is None else workspace,
        "memory_limit": -1 if memory_limit is None else memory_limit,
        "keep_first": keep_first,
        "keep_last": keep_last,
        "keep_fp32": list(keep_fp32),
        "keep_bf16": list(keep_bf16),
        "disable": list(disable),
        "segments": not quick,
        "cuda_path": _cuda_folders(cuda_path),
        "timing_helper": _timing_helper() if device.startswith("cuda") else [],
        "command": f"temper.build({source if isinstance(source, str) else '<bytes>'!r}, precision={precision!r})",
    }
    if isinstance(calibration, Ranges):
        options["ranges"] = calibration._native
    elif calibration is not None:
        options["calibration"] = os.fspath(calibration)
    return options


def build(
    model: Model,
    *,
    precision: str = "fp32",
    shapes: Shapes | None = None,
    calibration: Ranges | str | os.PathLike[str] | Iterable[Any] | None = None,
    method: str = "auto",
    seed: int = 0,
    device: str = "cpu",
    threads: int = 0,
    timing_cache: str | os.PathLike[str] | None = DEFAULT,
    workspace: int | None = None,
    memory_limit: int | None = None,
    keep_first: bool = False,
    keep_last: bool = False,
    keep_fp32: Iterable[str] = (),
    keep_bf16: Iterable[str] = (),
    disable: Iterable[str] = (),
    quick: bool = False,
    cuda_path: str | os.PathLike[str] | None = None,
    max_drop: float | None = None,
    data: DataSource | None = None,
    metric: str | None = None,
    raise_to: str = "",
    samples: int | None = None,
    output_name: str = "",
    progress: Callable[[str], object] | None = None,
) -> Engine:
    """Imports, optimises and measures: seconds to minutes, without the GIL.

    Parameters
    ----------
    model
        A path of an ONNX file, its bytes, an ``onnx.ModelProto``, or a :class:`Graph`.
    precision
        ``"fp32"``, ``"bf16"`` or ``"int8"``, and on a GPU also ``"tf32"`` and ``"fp16"``.
    shapes
        Of inputs that leave dimensions open, by name (the name may be dropped where there is one input): a shape, or
        (min, opt, max). An open batch without one means 1, said in :attr:`Engine.notes`.
    calibration
        For ``"int8"``: :class:`Ranges`, the path of a file of them, or an iterable of batches to calibrate on first.
    method, seed
        Of that calibration; see :func:`calibrate`. ``"auto"`` judges with the layers kept that are to be kept here.
        With ``data``, the seed also chooses the samples.
    device
        ``"cpu"``, ``"cuda:0"`` or ``"reference"``.
    threads
        Of the CPU, for one run; 0: all that this process may use.
    timing_cache
        A file of measured times, read and extended. The default is the one that the program uses; None: none.
    workspace
        Bytes of scratch memory that a kernel may take at most.
    memory_limit
        Bytes that the model may take: read, its constants folded, its activations. None: so many times its size.
    keep_first, keep_last, keep_fp32, keep_bf16
        For ``"int8"``: layers that stay in a higher precision, by position or by name; ``keep_fp32`` also for ``"fp16"`` and ``"bf16"``.
    disable
        Passes to leave out; ``["all"]`` for none.
    quick
        Whether slices of the batch are left unsearched, which shortens the build.
    cuda_path
        A folder to look for NVIDIA's libraries in first; then come those that are packages of this Python, and the system's.
    max_drop
        For ``"int8"``, ``"fp16"`` and ``"bf16"``: the loss that is allowed on ``data``, as a share (0.005 is 0.5 %). The layers
        that lose most stay in FP32 (of INT8 in BF16, if that is enough) until the loss is within it. What was found is
        :attr:`Engine.mixed`, whose ``holds`` is False where even FP32 does not keep the budget.
    data
        What the loss is measured on: a path, arrays by input name with the right classes as ``"labels"``, or :class:`Data`.
        Without ``calibration``, these samples also calibrate.
    metric
        What ``max_drop`` limits: ``"top1"`` (with labels), ``"agreement"`` (a classifier without), ``"cosine"`` (1 - cosine) or
        ``"snr"`` (noise / signal).
    raise_to
        For ``"int8"``: ``"bf16"`` (FP32 where that loses too much) or ``"fp32"``; by default BF16 where the CPU has it.
    samples
        How many of the data are used, chosen by ``seed``; 500 without.
    output_name
        The output that holds the classes, where there are several, or it is a sequence.
    progress
        Called with a line of text now and then. What it raises ends the build and comes back as it is; so does Ctrl-C.

    Raises
    ------
    Error
        ``usage``, ``bad_file`` or ``unsupported``; the message names the node and what to do.
    """
    source = model_of(model)
    passes = list(disable)
    placement = {"keep_first": keep_first, "keep_last": keep_last, "keep_fp32": list(keep_fp32), "keep_bf16": list(keep_bf16)}
    if (max_drop is None) != (data is None):
        raise Error("data and max_drop go together; to calibrate alone: calibration=batches, or temper.calibrate")
    if max_drop is None and (metric is not None or raise_to or samples is not None or output_name):
        raise Error("metric, raise_to, samples and output_name belong to max_drop")
    if max_drop is not None and not 0 <= max_drop <= 1:
        raise Error(f"max_drop is {max_drop}; it must be a share from 0 to 1, like 0.005 for 0.5 %")
    if calibration is not None and not isinstance(calibration, (Ranges, str, os.PathLike)):
        if precision != "int8":
            raise Error(f"calibration data are for precision int8, not {precision}")
        if threads < 0:
            raise Error(f"threads is {threads}; 0 means all that the process may use")
        calibration = _calibrated(source, calibration, method, seed, {"threads": threads, "disable": passes, **placement}, progress)
    options = build_options(
        source, precision=precision, shapes=shapes, calibration=calibration, device=device, threads=threads, timing_cache=timing_cache,
        workspace=workspace, memory_limit=memory_limit, disable=passes, quick=quick, cuda_path=cuda_path, **placement)  # fmt: skip
    if max_drop is None or data is None:
        return Engine(_temper.build(source, options, progress))
    budget = {"max_drop": float(max_drop), "metric": metric, "raise_to": raise_to, "output": output_name, "method": method}
    given = data_of(data, samples, seed, memory_limit)
    native, found, ranges = _temper.build_within(source, options, given, budget, progress)
    return Engine(native, mixed_of(json.loads(found), None if ranges is None else Ranges(ranges)))
