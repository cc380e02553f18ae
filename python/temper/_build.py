# SPDX-License-Identifier: Apache-2.0
"""From a model to an engine."""
from __future__ import annotations

import dataclasses
import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Union

from . import _temper
from ._calibrate import Ranges, _calibrated
from ._data import DataSource, data_of
from ._engine import Engine, _cuda_folders
from ._check import flag, limits, names, number, text, whole
from ._error import ArgumentTypeError, Error, UnsupportedError, must_exist
from ._model import Model, model_of
from ._progress import Progress, shows_progress
from ._show import rows_of, table
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
    # Of an array without axes `array.shape` is ().
    return {name: ((),) * 3 if shape == () else _range_of(shape) for name, shape in shapes.items()}


class Timings:
    """Measured times in memory, for ``timing_cache`` of :func:`build`, which reads and extends them; several builds may at once.

    ``Timings(data)`` starts with the bytes of :meth:`to_bytes`, or of a timing cache file. Raises Error: ``bad_file`` for what is neither,
    ``unsupported`` for those of a later version. Times of other machines are kept and not used.
    """

    def __init__(self, data: bytes = b"") -> None:
        self._native = _temper.Timings(bytes(data))

    def add(self, other: Timings) -> None:
        """Takes what ``other`` holds; of what both know, the time of the quieter machine, then the later one."""
        self._native.add(other._native)

    def to_bytes(self) -> bytes:
        """JSON, as a timing cache file has it."""
        return self._native.to_bytes()


def timing_cache_of(path: str | os.PathLike[str] | Timings | None) -> str:
    if path is None or isinstance(path, Timings):
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
    """The precision of the build, or ``"fp16"``, ``"bf16"`` or ``"fp32"``."""


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

    def _rows(self) -> list[dict[str, Any]]:
        return rows_of(list(self.layers))

    def _repr_html_(self) -> str:
        kept = "keeps" if self.holds else "does not keep"
        return table(("layer", "drop", "noise / signal", "saves ms", "decision"),
                     ((la.layer, la.drop, la.noise_share, la.saves_ms, la.decision) for la in self.layers[:20]),
                     caption=f"{self.precision} {kept} the budget of {100 * self.max_drop:g} % by {self.metric}: {100 * self.drop:.3g} %; the worst layers")  # fmt: skip


def mixed_of(record: dict[str, Any], ranges: Ranges | None = None) -> MixedPrecision:
    same = {name: record[name] for name in ("precision", "metric", "max_drop", "drop", "holds", "samples", "candidates")}
    layers = tuple(LayerDecision(**layer) for layer in record["layers"])
    return MixedPrecision(**same, drop_all=record[f"drop_all_{record['precision']}"], layers=layers, ranges=ranges, record=record)


def build_options(
    source: Any,
    *,
    precision: str = "fp32",
    shapes: Shapes | None = None,
    profiles: Iterable[Shapes] = (),
    calibration: Ranges | str | os.PathLike[str] | None = None,
    device: str = "cpu",
    threads: int = 0,
    timing_cache: str | os.PathLike[str] | Timings | None = DEFAULT,
    workspace: int | None = None,
    memory_limit: int | None = None,
    node_limit: int | None = None,
    depth_limit: int | None = None,
    loop_limit: int | None = None,
    build_limit: float | None = None,
    time_limit: float = 120,
    activation_scales: str = "tensor",
    keep_first: bool = False,
    keep_last: bool = False,
    keep_fp32: Iterable[str] = (),
    keep_bf16: Iterable[str] = (),
    keep_fp16: Iterable[str] = (),
    disable: Iterable[str] = (),
    quick: bool = False,
    measure: bool = True,
    cuda_path: str | os.PathLike[str] | None = None,
    cuda_context: int = 0,
    preprocess: str | os.PathLike[str] | None = None,
    input_pictures: bool | Iterable[str] = False,
    cache: int | None = None,
) -> dict[str, Any]:
    """What the native module takes of :func:`build`'s arguments. ``source``: what it takes as the model."""
    if isinstance(time_limit, (int, float)) and not time_limit > 0:
        raise Error(f"time_limit is {time_limit}; it must be above 0, in seconds")
    options: dict[str, Any] = {
        "precision": text("precision", precision),
        "shapes": shapes_of(shapes, source),
        "profiles": [shapes_of(profile, source) for profile in profiles],
        "device": text("device", device),
        "threads": whole("threads", threads, 0, "0 means all that the process may use"),
        "timing_cache": timing_cache_of(timing_cache) if measure else "",
        "workspace": -1 if workspace is None else whole("workspace", workspace, 0),
        "cache": 0 if cache is None else whole("cache", cache, 1),
        **limits(memory_limit=memory_limit, node_limit=node_limit, depth_limit=depth_limit, loop_limit=loop_limit, build_limit=build_limit),
        "time_limit": number("time_limit", time_limit),
        "activation_scales": text("activation_scales", activation_scales),
        "keep_first": flag("keep_first", keep_first),
        "keep_last": flag("keep_last", keep_last),
        "keep_fp32": names("keep_fp32", keep_fp32),
        "keep_bf16": names("keep_bf16", keep_bf16),
        "keep_fp16": names("keep_fp16", keep_fp16),
        "disable": names("disable", disable),
        "segments": not flag("quick", quick),
        "measure": flag("measure", measure),
        "cuda_path": _cuda_folders(cuda_path),
        "cuda_context": whole("cuda_context", cuda_context, 0),
        "timing_helper": _timing_helper() if device.startswith("cuda") else [],
        "input_pictures": [""][: int(input_pictures)] if isinstance(input_pictures, bool) else names("input_pictures", input_pictures),
        "command": f"temper.build({source if isinstance(source, str) else '<bytes>'!r}, precision={precision!r})",
    }
    if preprocess is not None:
        options["preprocess"] = os.fspath(preprocess)
    if isinstance(timing_cache, Timings):
        options["timings"] = timing_cache._native
    if isinstance(calibration, Ranges):
        options["ranges"] = calibration._native
    elif calibration is not None:
        if not isinstance(calibration, (str, os.PathLike)):
            raise ArgumentTypeError(f"calibration is a {type(calibration).__name__}; it must be Ranges, or the path of a file of them")
        options["calibration"] = must_exist(calibration, "the ranges")
    return options


def _is_data(calibration: Any) -> bool:
    """Batches, a folder or arrays in a file, to calibrate on; not ranges."""
    if isinstance(calibration, (str, os.PathLike)):
        path = os.fspath(calibration)
        return os.path.isdir(path) or path.lower().endswith((".npy", ".npz", ".csv"))
    return calibration is not None and not isinstance(calibration, Ranges)


@shows_progress
def build(
    model: Model,
    *,
    precision: str = "fp32",
    shapes: Shapes | None = None,
    profiles: Iterable[Shapes] = (),
    calibration: Ranges | DataSource | Iterable[Any] | None = None,
    method: str = "auto",
    seed: int = 0,
    device: str = "cpu",
    threads: int = 0,
    timing_cache: str | os.PathLike[str] | Timings | None = DEFAULT,
    workspace: int | None = None,
    memory_limit: int | None = None,
    node_limit: int | None = None,
    depth_limit: int | None = None,
    loop_limit: int | None = None,
    build_limit: float | None = None,
    time_limit: float = 120,
    activation_scales: str = "tensor",
    keep_first: bool = False,
    keep_last: bool = False,
    keep_fp32: Iterable[str] = (),
    keep_bf16: Iterable[str] = (),
    keep_fp16: Iterable[str] = (),
    disable: Iterable[str] = (),
    quick: bool = False,
    measure: bool = True,
    cuda_path: str | os.PathLike[str] | None = None,
    cuda_context: int = 0,
    preprocess: str | os.PathLike[str] | None = None,
    input_pictures: bool | Iterable[str] = False,
    cache: int | None = None,
    max_drop: float | None = None,
    data: DataSource | None = None,
    metric: str | None = None,
    raise_to: str = "",
    samples: int | None = None,
    output_name: str = "",
    progress: Progress = None,
) -> Engine:
    """Imports, optimises and measures: seconds to minutes, without the GIL.

    Parameters
    ----------
    model
        A path of an ONNX file, its bytes, an ``onnx.ModelProto``, or a :class:`Graph`.
    precision
        ``"fp32"``, ``"bf16"``, ``"int8"`` or ``"int8+bf16"``, and on a GPU also ``"tf32"``, ``"fp16"`` and ``"int8+fp16"``:
        layers in INT8 or 16 bits, whichever is faster, and everything else in 16 bits. ``"best"`` is the fastest of them, as
        measured (those with INT8 need ``calibration``), and with ``max_drop`` the fastest that keeps it; :attr:`Engine.notes`, or
        the ``tried`` of :attr:`MixedPrecision.record`, say what each took.
    shapes
        Of inputs that leave dimensions open, by name (the name may be dropped where there is one input): a shape, or
        (min, opt, max). An open batch without one means 1, said in :attr:`Engine.notes`.
    profiles
        Instead of ``shapes``: several of them. The engine takes shapes that one of them holds, and is tuned for all.
    calibration
        For ``"int8"``, alone or with 16 bits, and ``"fp16"``: :class:`Ranges`, the path of a file of them, or what to calibrate on first: an iterable of batches, a folder of pictures, an ``.npy``, ``.npz`` or CSV file, or :class:`Data`.
    method, seed
        Of that calibration; see :func:`calibrate`. ``"auto"`` judges with the layers kept that are to be kept here.
        With ``data``, the seed also chooses the samples.
    device
        ``"cpu"``, ``"cuda:0"`` or ``"reference"``.
    threads
        Of the CPU, for one run; 0: all that this process may use.
    timing_cache
        A file of measured times, or :class:`Timings`: read and extended. The default is the file that the program uses; None: none.
    workspace
        Bytes of scratch memory that a kernel may take at most.
    memory_limit
        Bytes that the model may take: read, its constants folded, its activations. None: so many times its size.
    node_limit, depth_limit, loop_limit
        What the model may ask for at most: nodes, with its functions in the place of their calls (None: 1,000,000), functions and subgraphs
        inside one another (None: 32), and iterations of a loop, each time that it runs (None: 16,777,216; the engine keeps it).
    build_limit
        Seconds that all of it may take, with its calibration and what ``max_drop`` tries; it ends in ``check_failed`` then. None: as long as it takes.
    time_limit
        Seconds that the search for one shape's plan may take. What is not measured by then is left out, and a note says so.
    activation_scales
        For ``"int8"``, alone or with 16 bits: ``"tensor"``, one scale for all of what a matrix product with constant weights reads, by its range,
        or ``"token"``, one for each row, computed as it comes; these products need no ``calibration``.
    keep_first, keep_last, keep_fp32, keep_bf16, keep_fp16
        For ``"int8"``, alone or with these 16 bits: layers that stay in a higher precision, by position or by name; ``keep_fp32``
        also for ``"fp16"`` and ``"bf16"``.
    disable
        Passes to leave out; ``["all"]`` for none.
    quick
        Whether slices of the batch are left unsearched, which shortens the build.
    measure
        False builds at once: each step takes the first kernel that can compute it, and none is timed. The answers are right; the
        engine may be several times slower.
    cuda_path
        A folder to look for NVIDIA's libraries in first; then come those that are packages of this Python, and the system's.
    cuda_context
        For a GPU: the address of a CUcontext in which the engine works, for callers whose memory and streams lie in one of their own
        making; it must outlive the engine. 0: the primary one, which PyTorch uses.
    preprocess
        Of a model that takes pictures: how they become inputs, for the engine to remember, as ``preprocess`` of :class:`Data`. Without, as
        the calibration, ``data`` or the model have it.
    input_pictures
        Whether the engine takes pictures as they are, u8 of [batch, height, width, channels], where the model takes floats, or the
        names of the inputs that do. Scale, mean, std and layout are steps of the engine then. ``shapes`` stay those of the model.
    cache
        Of a model that reads past keys and values: so many positions of them are kept for the next token, in place, and
        ``shapes`` are those of ``input_ids``; :func:`generate` runs it.
    max_drop
        For ``"int8"``, ``"fp16"``, ``"bf16"`` and INT8 with 16 bits: the loss that is allowed on ``data``, as a share (0.005 is
        0.5 %). The layers that lose most stay in FP32 (of INT8 in 16 bits, if that is enough) until the loss is within it. What was found is
        :attr:`Engine.mixed`, whose ``holds`` is False where even FP32 does not keep the budget.
    data
        What the loss is measured on: a path, arrays by input name with the right classes as ``"labels"``, or :class:`Data`.
        Without ``calibration``, these samples also calibrate.
    metric
        What ``max_drop`` limits: ``"top1"`` (with labels), ``"agreement"`` (a classifier without, and texts), ``"perplexity"``
        (of a language model, its rise as a share), ``"cosine"`` (1 - cosine),
        ``"snr"`` (noise / signal) or ``"difference"`` (the largest difference, as a share of the largest value).
    raise_to
        For ``"int8"``: ``"bf16"`` (FP32 where that loses too much) or ``"fp32"``; by default BF16 where the device has it. With
        INT8 and 16 bits these are the default.
    samples
        How many of the data are used, chosen by ``seed``; 500 without.
    output_name
        The output that holds the classes, where there are several, or it is a sequence.
    progress
        Called with a line of text now and then; without it a terminal and a notebook show a bar, with False nothing does. What it raises ends the build and comes back as it is; so does Ctrl-C.

    Raises
    ------
    Error
        ``usage``, ``bad_file`` or ``unsupported``; the message names the node and what to do.
    """
    begun = time.monotonic()
    source = model_of(model)
    passes = names("disable", disable)
    placement = {"activation_scales": text("activation_scales", activation_scales), "keep_first": keep_first, "keep_last": keep_last, "keep_fp32": names("keep_fp32", keep_fp32),
                 "keep_bf16": names("keep_bf16", keep_bf16), "keep_fp16": names("keep_fp16", keep_fp16)}  # fmt: skip
    if (max_drop is None) != (data is None):
        raise Error("data and max_drop go together; to calibrate alone: calibration=batches, or temper.calibrate")
    if max_drop is None and (metric is not None or raise_to or samples is not None or output_name):
        raise Error("metric, raise_to, samples and output_name belong to max_drop")
    if max_drop is not None and cache is not None:
        raise UnsupportedError("max_drop together with cache: answers of a model with caches depend on a prompt", "unsupported")
    if max_drop is not None and not 0 <= number("max_drop", max_drop) <= 1:
        raise Error(f"max_drop is {max_drop}; it must be a share from 0 to 1, like 0.005 for 0.5 %")
    if _is_data(calibration):
        if not precision.startswith("int8"):
            raise Error(f"calibration data are for precision int8, alone or with 16 bits, not {precision}")
        threads = whole("threads", threads, 0, "0 means all that the process may use")
        asked = limits(memory_limit=memory_limit, node_limit=node_limit, depth_limit=depth_limit, loop_limit=loop_limit, build_limit=build_limit)
        calibration = _calibrated(source, calibration, method, seed, {"threads": threads, "disable": passes, "begun": begun, **asked, **placement}, progress)
    options = build_options(
        source, precision=precision, shapes=shapes, profiles=profiles, calibration=calibration, device=device, threads=threads, timing_cache=timing_cache,
        workspace=workspace, memory_limit=memory_limit, node_limit=node_limit, depth_limit=depth_limit, loop_limit=loop_limit, build_limit=build_limit, time_limit=time_limit, disable=passes, quick=quick, measure=measure, cuda_path=cuda_path, cuda_context=cuda_context, preprocess=preprocess, input_pictures=input_pictures, cache=cache, **placement)  # fmt: skip
    options["begun"] = begun
    if max_drop is None or data is None:
        return Engine(_temper.build(source, options, progress))
    budget = {"max_drop": float(max_drop), "metric": metric, "raise_to": raise_to, "output": output_name, "method": method}
    given = data_of(data, samples, seed, memory_limit)
    native, found, ranges = _temper.build_within(source, options, given, budget, progress)
    return Engine(native, mixed_of(json.loads(found), None if ranges is None else Ranges(ranges)))
