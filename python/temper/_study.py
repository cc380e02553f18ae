# SPDX-License-Identifier: Apache-2.0
"""One model in several precisions, side by side."""
from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterable
from typing import Any

from . import _temper
from ._bench import Comparison
from ._build import DEFAULT, MixedPrecision, build_options, mixed_of
from ._data import Data, DataSource, data_of
from ._check import number
from ._error import Error, must_exist
from ._evaluate import Share, share_of
from ._progress import Progress, shows_progress
from ._show import rows_of, table
from ._speech import python_of


@dataclasses.dataclass(frozen=True)
class StudiedPrecision:
    """One precision of a study, on the samples that nothing was calibrated on."""

    precision: str
    plan: str
    """The plan's file, for :func:`load`."""
    latency_ms: float
    throughput_per_s: float
    plan_bytes: int
    memory_bytes: int | None
    top1: Share | None
    agreement: Share | None
    """With FP32."""
    drop: float | None
    """Beside FP32, by the study's metric, as a share."""
    over_budget: bool | None
    """Whether it loses more than ``max_drop``; None where there is none."""
    far: str
    """Why the answers are too far from FP32's to be of use; empty where they are near."""
    speed: Comparison | None
    """Beside FP32."""


@dataclasses.dataclass(frozen=True)
class Study:
    """What came out of :func:`study`. ``record`` is all of it, as in study.json and as ``temper study --json`` prints it."""

    precisions: tuple[StudiedPrecision, ...]
    """FP32 first."""
    metric: str
    verdict: str
    """The fastest precision that keeps its answers, in a line."""
    over_budget: bool
    """A precision loses more than ``max_drop``."""
    mixed: MixedPrecision | None
    """What ``max_drop`` did to the first precision that quantizes; where none does, to the first in 16 bits."""
    notes: tuple[str, ...]
    report: str
    """The path of the page with everything."""
    record: dict[str, Any] = dataclasses.field(repr=False)

    def _rows(self) -> list[dict[str, Any]]:
        return rows_of(list(self.precisions))

    def _repr_html_(self) -> str:
        return table(("precision", "ms", "items/s", "top-1", "agreement", "beside FP32"),
                     ((p.precision, p.latency_ms, p.throughput_per_s, p.top1, p.agreement, p.speed) for p in self.precisions),
                     caption=self.verdict, notes=self.notes)  # fmt: skip


def _precision_of(row: dict[str, Any]) -> StudiedPrecision:
    answers, speed = row["answers"], row["speed"]
    same = {name: row[name] for name in (
        "precision", "plan", "latency_ms", "throughput_per_s", "plan_bytes", "memory_bytes", "drop", "over_budget", "far")}  # fmt: skip
    return StudiedPrecision(
        **same,
        top1=share_of(answers.get("top1"), "right", answers["samples"]),
        agreement=share_of(answers.get("agreement"), "same", answers["samples"]),
        speed=speed and Comparison(
            speed["ratio"], *speed["ci99"], speed["verdict"], speed["why"], speed["rounds"], speed["rounds_needed"], speed["seconds"],
            tuple(speed["a_ms"]), tuple(speed["b_ms"])),
    )  # fmt: skip


@shows_progress
def study(
    model: str | os.PathLike[str],
    data: DataSource,
    folder: str | os.PathLike[str],
    *,
    precisions: Iterable[str] = ("fp32", "int8"),
    max_drop: float | None = None,
    metric: str | None = None,
    raise_to: str = "",
    method: str = "auto",
    samples: int | None = None,
    calibration_samples: int | None = None,
    seed: int = 0,
    batch: int | None = None,
    duration: float = 6.0,
    output_name: str = "",
    force: bool = False,
    device: str = "cpu",
    threads: int = 0,
    timing_cache: str | os.PathLike[str] | None = DEFAULT,
    workspace: int | None = None,
    memory_limit: int | None = None,
    node_limit: int | None = None,
    depth_limit: int | None = None,
    loop_limit: int | None = None,
    build_limit: float | None = None,
    activation_scales: str = "tensor",
    keep_first: bool = False,
    keep_last: bool = False,
    keep_fp32: Iterable[str] = (),
    keep_bf16: Iterable[str] = (),
    keep_fp16: Iterable[str] = (),
    disable: Iterable[str] = (),
    quick: bool = False,
    cuda_path: str | os.PathLike[str] | None = None,
    progress: Progress = None,
) -> Study:
    """Builds a model in several precisions, evaluates and times them side by side, as ``temper study``. Without the GIL.

    One part of the samples calibrates, the other one judges. A study that was interrupted goes on from the steps that
    are saved in the folder, if everything that they depend on is the same.

    Parameters
    ----------
    model
        The path of an ONNX file.
    data
        A path, arrays by input name with the right classes as ``"labels"``, or :class:`Data`.
    folder
        Where plans, ranges.json, study.json, study.md, report.html and result.json go.
    precisions
        FP32 is always one of them. What the device has not got is left out with a warning.
    max_drop
        The loss that is allowed for each precision, as a share (0.005 is 0.5 %): layers go back to 16 bits or FP32 until it is kept.
    metric
        What ``max_drop`` limits: ``"top1"`` (with labels), ``"agreement"``, ``"perplexity"`` (of language models), ``"cosine"`` (1 - cosine), ``"snr"`` (noise / signal)
        or ``"difference"`` (the largest difference, as a share of the largest value).
    raise_to
        What layers go back to: ``"bf16"`` or ``"fp32"``; by default BF16 where the device has it.
    method
        Of calibration; see :func:`calibrate`.
    samples, seed
        So many samples, chosen by the seed; all of them without.
    calibration_samples
        How many of them calibrate; half of them, at most 500, without.
    batch
        What is built for, evaluated and timed; 1, or the model's own, without.
    duration
        Longest time of timing each precision, in seconds.
    output_name
        The output that holds the classes, where there are several, or it is a sequence.
    force
        Whether files of another kind may be replaced.
    device, threads, timing_cache, workspace, memory_limit, node_limit, depth_limit, loop_limit, build_limit, activation_scales, keep_first, keep_last, keep_fp32, keep_bf16, keep_fp16, disable, quick, cuda_path
        As for :func:`build`; ``build_limit`` is one of each build.
    progress
        Called with a line of text now and then; without it a terminal and a notebook show a bar, with False nothing does. What it raises ends the study and comes back as it is; so does Ctrl-C.

    Raises
    ------
    Error
        ``usage`` for too few samples and for a metric that cannot come out; what :func:`build` raises.
    """
    path = must_exist(model, "the model")
    names = [precisions] if isinstance(precisions, str) else list(precisions)
    for what, value in (("batch", batch), ("calibration_samples", calibration_samples), ("duration", duration)):
        if value is not None:
            number(what, value, 0)
    if max_drop is not None and not 0 <= number("max_drop", max_drop) <= 1:
        raise Error(f"max_drop is {max_drop}; it must be a share from 0 to 1, like 0.005 for 0.5 %")
    options = build_options(
        path, device=device, threads=threads, timing_cache=timing_cache, workspace=workspace, memory_limit=memory_limit,
        node_limit=node_limit, depth_limit=depth_limit, loop_limit=loop_limit, build_limit=build_limit, activation_scales=activation_scales, keep_first=keep_first, keep_last=keep_last, keep_fp32=keep_fp32, keep_bf16=keep_bf16, keep_fp16=keep_fp16, disable=disable, quick=quick,
        cuda_path=cuda_path)  # fmt: skip
    options["command"] = f"temper.study({path!r}, precisions={names!r})"
    classes = data.class_names if isinstance(data, Data) else None
    asked = {
        "folder": os.fspath(folder),
        "precisions": names,
        "max_drop": max_drop,
        "metric": metric,
        "raise_to": raise_to,
        "method": method,
        "calibration_samples": calibration_samples,
        "batch": batch,
        "duration": float(duration),
        "output": output_name,
        "force": force,
        "reads": [] if classes is None else [os.fspath(classes)],
    }
    text, verdict, over, page = _temper.study(path, options, data_of(data, samples, seed, memory_limit), asked, progress)
    record = json.loads(text)
    return Study(
        precisions=tuple(_precision_of(row) for row in record["precisions"]),
        metric=record["metric"],
        verdict=python_of(verdict),
        over_budget=over,
        mixed=None if record["mixed"] is None else mixed_of(record["mixed"]),
        notes=tuple(map(python_of, record["notes"])),
        report=page,
        record=record,
    )
