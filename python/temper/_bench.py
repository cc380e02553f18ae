# SPDX-License-Identifier: Apache-2.0
"""Measuring and comparing, by the timer and into the result files of the program."""
from __future__ import annotations

import dataclasses
import functools
import json
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from . import _temper
from ._engine import Engine
from ._check import number, whole
from ._error import Error, must_exist
from ._progress import Progress, shows_progress
from ._show import table
from ._speech import python_of



@dataclasses.dataclass(frozen=True)
class BenchResult:
    """One measured run. Times are milliseconds; None where something is not known, and ``notes`` says why.

    ``temper.frame(results)`` is a table of them. ``record`` is the whole run as
    docs/results.md has it, ``environment`` what it was measured on.
    """

    model: str
    device: str
    backend: str
    precision: str | None
    batch: int | None
    threads: int | None
    streams: int | None
    median_ms: float
    median_low_ms: float | None
    """Of the median's 95 % interval, as ``median_high_ms``; both None where the samples are too few or each tells of the
    next (``notes["latency_ms.median_ci95"]`` says which)."""
    median_high_ms: float | None
    mean_ms: float
    stddev_ms: float
    min_ms: float
    max_ms: float
    p90_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    throughput_per_s: float | None
    """Items, so batch times runs, a second."""
    first_run_ms: float
    samples: int
    warmup_runs: int
    outliers: int | None
    drift: float | None
    load_by_others: float | None
    workspace_bytes: int | None
    peak_host_bytes: int | None
    build_s: float | None
    shapes: dict[str, list[int]]
    notes: dict[str, str]
    warnings: tuple[str, ...]
    """What disturbed the measurement, with the remedy."""
    samples_ms: tuple[float, ...] = dataclasses.field(repr=False)
    record: dict[str, Any] = dataclasses.field(repr=False)
    environment: dict[str, Any] = dataclasses.field(repr=False)
    _files: tuple[str, ...] = dataclasses.field(default=(), repr=False, compare=False)

    def _repr_html_(self) -> str:
        known = "" if self.median_low_ms is None else f"{self.median_low_ms:.4g} to {self.median_high_ms:.4g}"
        row = (self.model, self.precision, self.batch, self.median_ms, known, self.p99_ms, self.throughput_per_s, self.device)
        return table(("model", "precision", "batch", "median ms", "95 % interval", "p99 ms", "items/s", "device"), [row], notes=self.warnings)

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Writes a result file, which ``temper compare`` and ``temper report`` read. Only ``force`` replaces a file of another kind, and nothing
        one that the engine came from."""
        save_results(path, [self], force=force)


@dataclasses.dataclass(frozen=True)
class Comparison:
    """The second beside the first: above 1 it is ``ratio`` times as fast, in the 99 % interval ``low`` to ``high``."""

    ratio: float
    low: float | None
    high: float | None
    verdict: str
    """``"FASTER"``, ``"SLOWER"``, ``"SAME"`` or ``"UNSURE"``, of the second."""
    why: str
    """Where it is unsure: because of what."""
    rounds: int = 0
    rounds_needed: int = 0
    """Where more rounds would decide: about how many in all."""
    seconds: float = 0
    a_ms: tuple[float, ...] = dataclasses.field(default=(), repr=False)
    b_ms: tuple[float, ...] = dataclasses.field(default=(), repr=False)

    def _repr_html_(self) -> str:
        return f"<p>{self}</p>"

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            span = "too few rounds for an interval"
        else:
            span = f"{self.low:.2f} to {self.high:.2f}"
        return f"{self.ratio:.2f} times as fast ({span}): {self.verdict}"


def _text_of(results: Iterable[BenchResult]) -> str:
    listed = list(results)
    if not listed:
        raise Error("there is no result to save")
    return json.dumps({"schema": "temper.result/1", "environment": listed[-1].environment, "runs": [r.record for r in listed]})


def _results_of(text: str) -> list[BenchResult]:
    whole = json.loads(text)
    results = []
    for run in whole["runs"]:
        latency = run["latency_ms"]
        low, high = latency["median_ci95"] or (None, None)
        alone = json.dumps({"schema": whole["schema"], "environment": whole["environment"], "runs": [run]})
        same = {name: run[name] for name in (
            "model", "device", "backend", "precision", "batch", "threads", "streams", "throughput_per_s", "first_run_ms",
            "samples", "warmup_runs", "outliers", "drift", "load_by_others", "workspace_bytes", "peak_host_bytes", "build_s",
            "shapes", "notes")}  # fmt: skip
        times = {f"{name}_ms": latency[name] for name in ("median", "mean", "stddev", "min", "max", "p90", "p95", "p99")}
        results.append(BenchResult(
            **same, **times, median_low_ms=low, median_high_ms=high, samples_ms=tuple(run["samples_ms"] or ()),
            warnings=tuple(python_of(one) for one in _temper.warnings(alone)), record=run, environment=whole["environment"]))  # fmt: skip
    return results


def save_results(path: str | os.PathLike[str], results: Iterable[BenchResult], *, force: bool = False) -> None:
    """Writes several results into one file, with the environment of the last. As :meth:`BenchResult.save`."""
    results = list(results)
    _temper.refuse_inputs(os.fspath(path), [], [file for result in results for file in result._files])
    _temper.save_result(os.fspath(path), _text_of(results), force)


def load_results(path: str | os.PathLike[str]) -> list[BenchResult]:
    """The runs of a result file, those of ``temper bench`` too. Error of kind ``bad_file`` for what is none."""
    return _results_of(_temper.load_result(must_exist(path, "the result")))


def _call_of(function: Callable[..., Any], inputs: Any) -> Callable[[], Any]:
    if inputs is None:
        return function
    if isinstance(inputs, Mapping):
        return functools.partial(function, **inputs)
    if isinstance(inputs, (tuple, list)):
        return functools.partial(function, *inputs)
    return functools.partial(function, inputs)


def _shapes_of(inputs: Any, names: list[str]) -> dict[str, tuple[int, ...]]:
    if isinstance(inputs, Mapping):
        named = dict(inputs)
    else:
        listed = inputs if isinstance(inputs, (tuple, list)) else [inputs]
        named = {names[i] if i < len(names) else f"input{i}": value for i, value in enumerate(listed)}
    return {name: tuple(int(d) for d in value.shape) for name, value in named.items() if hasattr(value, "shape")}


def _check_counts(**counts: int | float | None) -> None:
    for name, value in counts.items():
        if value is not None:
            number(name, value, 0)


@shows_progress
def bench(
    what: Engine | Callable[..., Any],
    inputs: Any = None,
    *,
    name: str = "",
    batch: int | None = None,
    duration: float = 3.0,
    error: float = 0.005,
    warmup: int | None = None,
    iterations: int | None = None,
    streams: int = 1,
    rate: float | None = None,
    transfers: bool = False,
    state: Mapping[str, str] | None = None,
    device: str = "cpu",
    precision: str = "",
    threads: int = 0,
    model: str | os.PathLike[str] | None = None,
    progress: Progress = None,
) -> BenchResult:
    """Measures an engine, or any callable by the same timer and with the same record.

    Parameters
    ----------
    what
        An engine, or a function: a PyTorch or Keras model, a lambda. One that starts work on a GPU must wait for it.
    inputs
        Of an engine, as :meth:`Engine.run` takes them, and seeded random numbers for what a dict leaves out. Of a function, its arguments: a
        dict by name, a sequence, or one.
    name
        What the result calls it; the model's path or the function's name without.
    batch
        Of an engine, the batch that is run; of a function, the items that one call does (the first input's first
        dimension without).
    duration
        Longest time of sampling, in seconds.
    error
        Sampling ends when the median is known to within this share (half its 95 % interval).
    warmup, iterations
        Exactly so many calls, which switches the rules off that stop warming up and sampling.
    streams
        Of an engine: sessions that run at a time, each in a thread of C++.
    rate
        Of an engine: requests a second that come by chance, whether or not the last is done.
    transfers
        Of an engine on a GPU: the host's time with the copies in and out, not the GPU's own.
    state
        Of an engine: inputs with the output that is each of the next run, as for :meth:`Engine.session`.
    device, precision, threads, model
        Of a function: what the record says of it. ``model``, the ONNX file of the same model, makes it comparable with
        engines by ``temper compare``.
    progress
        Called with a line of text now and then; without it a terminal and a notebook show a bar, with False nothing does.

    Raises
    ------
    Exception
        What the function raises comes back as it is.
    """
    _check_counts(batch=batch, duration=duration, error=error, iterations=iterations, streams=streams, rate=rate)
    if warmup is not None:
        whole("warmup", warmup, 0)
    for count, value in (("batch", batch), ("iterations", iterations), ("streams", streams), ("threads", threads)):
        if value is not None:
            whole(count, value)
    options: dict[str, Any] = {
        "name": name,
        "duration": float(duration),
        "error": float(error),
        "warmup": -1 if warmup is None else int(warmup),
        "iterations": -1 if iterations is None else int(iterations),
    }
    if isinstance(what, Engine):
        if device != "cpu" or precision or threads or model is not None:
            raise Error("device, precision, threads and model are the engine's own; leave them out")
        options |= {"batch": batch or 0, "streams": streams, "rate": float(rate or 0), "transfers": transfers, "state": dict(state or {})}
        result = _results_of(_temper.bench_engine(what._native, inputs, options, progress))[0]
        return dataclasses.replace(result, _files=tuple(what._native.files()))
    if not callable(what):
        raise Error(f"a {type(what).__name__} cannot be measured; give an engine or a function")
    if streams != 1 or rate is not None or transfers or state:
        raise Error("streams, rate, transfers and state are of engines; a function is called one time after the other")
    path = None if model is None else os.fspath(model)
    shapes = _shapes_of(inputs, [] if path is None else _temper.input_names(path))
    options |= {
        "name": name or getattr(what, "__name__", type(what).__name__),
        "device": device,
        "precision": precision,
        "threads": threads,
        "batch": batch or next((shape[0] for shape in shapes.values() if shape and shape[0] > 0), 1),
        "shapes": shapes,
        "model_sha256": "" if path is None else _temper.model_sha256(path),
    }
    return _results_of(_temper.bench_callable(_call_of(what, inputs), options, progress))[0]


@shows_progress
def compare(
    a: Engine | Callable[..., Any] | BenchResult,
    b: Engine | Callable[..., Any] | BenchResult,
    *,
    inputs: Any = None,
    batch: int | None = None,
    duration: float = 6.0,
    same: float = 0.01,
    force: bool = False,
    progress: Progress = None,
) -> Comparison:
    """Whether ``b`` is faster than ``a``.

    Engines and functions are timed in turns, so that whatever slows the machine for a while slows both; two results are
    compared as they are.

    Parameters
    ----------
    inputs
        Of both, as for :func:`bench`.
    duration
        Seconds of all turns together.
    same
        Ratios within this of 1 are no difference worth a name.
    force
        Compares also what is unlike: another model, device or number of threads.

    Raises
    ------
    Error
        ``unsupported`` for what is unlike, with the differences.
    """
    _check_counts(batch=batch, duration=duration, same=same)
    if isinstance(a, BenchResult) and isinstance(b, BenchResult):
        return Comparison(**json.loads(_temper.compare_results(_text_of([a]), _text_of([b]), same, force)))
    sides = []
    for side in (a, b):
        if isinstance(side, Engine):
            sides.append((side._native, inputs))
        elif callable(side):
            sides.append(_call_of(side, inputs))
        else:
            raise Error(f"a {type(side).__name__} cannot be compared with this; give two engines or functions, or two results")
    options = {"duration": float(duration), "same": float(same), "batch": batch or 0, "force": force}
    fields = json.loads(_temper.compare_in_turns(*sides, options, progress))
    return Comparison(**{name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()})
