# SPDX-License-Identifier: Apache-2.0
"""From a model to an engine."""
from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Union

from . import _temper
from ._engine import Engine
from ._error import Error

Model = Any
"""A path of an ONNX file, its bytes, or an ``onnx.ModelProto``."""
Shape = Sequence[int]
Shapes = Union[Mapping[str, Union[Shape, Sequence[Shape]]], Shape, Sequence[Shape]]
DEFAULT = "default"


def model_of(model: Model) -> str | bytes:
    """What the native module takes: a path, or bytes."""
    if isinstance(model, (bytes, bytearray, memoryview)):
        return bytes(model)
    if isinstance(model, (str, os.PathLike)):
        return os.fspath(model)
    if hasattr(model, "SerializeToString"):
        return model.SerializeToString()
    raise Error(f"the model is a {type(model).__name__}; it must be a path, the bytes of an ONNX file or an onnx.ModelProto")


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


def shapes_of(shapes: Shapes | None, model: str | bytes) -> dict[str, Any]:
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
    return os.path.join(_temper.cache_folder(), "timings.json") if path == DEFAULT else path


def build(
    model: Model,
    *,
    precision: str = "fp32",
    shapes: Shapes | None = None,
    calibration: Any = None,
    device: str = "cpu",
    threads: int = 0,
    timing_cache: str | os.PathLike[str] | None = DEFAULT,
    workspace: int | None = None,
    keep_first: bool = False,
    keep_last: bool = False,
    keep_fp32: Iterable[str] = (),
    keep_bf16: Iterable[str] = (),
    disable: Iterable[str] = (),
    quick: bool = False,
    progress: Callable[[str], object] | None = None,
) -> Engine:
    """Imports, optimises and measures: seconds to minutes, without the GIL.

    Parameters
    ----------
    model
        A path of an ONNX file, its bytes, or an ``onnx.ModelProto``.
    precision
        ``"fp32"``, ``"bf16"`` or ``"int8"``, and on a GPU also ``"tf32"`` and ``"fp16"``.
    shapes
        Of inputs that leave dimensions open, by name (the name may be dropped where there is one input): a shape, or
        (min, opt, max). An open batch without one means 1, said in :attr:`Engine.notes`.
    calibration
        For ``"int8"``: the path of a ranges file.
    device
        ``"cpu"``, ``"cuda:0"`` or ``"reference"``.
    threads
        Of the CPU, for one run; 0: all that this process may use.
    timing_cache
        A file of measured times, read and extended. The default is the one that the program uses; None: none.
    workspace
        Bytes of scratch memory that a kernel may take at most.
    keep_first, keep_last, keep_fp32, keep_bf16
        For ``"int8"``: layers that stay in a higher precision, by position or by name.
    disable
        Passes to leave out; ``["all"]`` for none.
    quick
        Whether slices of the batch are left unsearched, which shortens the build.
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
    options = {
        "precision": precision,
        "shapes": shapes_of(shapes, source),
        "calibration": "" if calibration is None else os.fspath(calibration),
        "device": device,
        "threads": threads,
        "timing_cache": timing_cache_of(timing_cache),
        "workspace": -1 if workspace is None else workspace,
        "keep_first": keep_first,
        "keep_last": keep_last,
        "keep_fp32": list(keep_fp32),
        "keep_bf16": list(keep_bf16),
        "disable": list(disable),
        "segments": not quick,
        "command": f"temper.build({source if isinstance(source, str) else '<bytes>'!r}, precision={precision!r})",
    }
    return Engine(_temper.build(source, options, progress))
