# SPDX-License-Identifier: Apache-2.0
"""From a model to an engine."""
from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Union

from . import _temper
from ._calibrate import Ranges, _calibrated
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
    progress
        Called with a line of text now and then. What it raises ends the build and comes back as it is; so does Ctrl-C.

    Raises
    ------
    Error
        ``usage``, ``bad_file`` or ``unsupported``; the message names the node and what to do.
    """
    source = model_of(model)
    if threads < 0:
        raise Error(f"threads is {threads}; 0 means all that the process may use")
    passes = list(disable)
    placement = {"keep_first": keep_first, "keep_last": keep_last, "keep_fp32": list(keep_fp32), "keep_bf16": list(keep_bf16)}
    if calibration is not None and not isinstance(calibration, (Ranges, str, os.PathLike)):
        if precision != "int8":
            raise Error(f"calibration data are for precision int8, not {precision}")
        calibration = _calibrated(source, calibration, method, seed, {"threads": threads, "disable": passes, **placement}, progress)
    options: dict[str, Any] = {
        "precision": precision,
        "shapes": shapes_of(shapes, source),
        "device": device,
        "threads": threads,
        "timing_cache": timing_cache_of(timing_cache),
        "workspace": -1 if workspace is None else workspace,
        "memory_limit": -1 if memory_limit is None else memory_limit,
        **placement,
        "disable": passes,
        "segments": not quick,
        "cuda_path": _cuda_folders(cuda_path),
        "timing_helper": _timing_helper() if device.startswith("cuda") else [],
        "command": f"temper.build({source if isinstance(source, str) else '<bytes>'!r}, precision={precision!r})",
    }
    if isinstance(calibration, Ranges):
        options["ranges"] = calibration._native
    elif calibration is not None:
        options["calibration"] = os.fspath(calibration)
    return Engine(_temper.build(source, options, progress))
