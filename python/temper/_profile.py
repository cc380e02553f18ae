# SPDX-License-Identifier: Apache-2.0
"""Where the time of an engine goes, and what to change."""
from __future__ import annotations

import dataclasses
import json
import os
from typing import Any

from . import _temper
from ._build import DEFAULT
from ._check import number, text, whole
from ._engine import Engine, Inputs, _cuda_folders
from ._error import Error, must_exist
from ._progress import Progress, shows_progress
from ._show import rows_of, table
from ._speech import python_of



@dataclasses.dataclass(frozen=True)
class ProfiledStep:
    """One step of a plan, timed alone."""

    node: str
    op: str
    ms: float
    share: float
    """Of the sum over the steps."""
    bytes: int
    """That it moves at least, constants included."""
    operations: int | None
    """Of arithmetic; a product and its sum are two."""
    of_arithmetic_peak: float | None
    """How near it is to what the machine computes, 1 being as fast as that."""
    of_memory_peak: float | None
    """How near it is to the machine's memory; above 1 where it read from a cache."""
    precision_in: str
    precision_out: str
    tactic: str
    config: str
    threads: int
    calls: float
    """In a run of the model."""


@dataclasses.dataclass(frozen=True)
class Profile:
    """What came out of :func:`profile`. ``record`` is all of it, as ``temper profile --json`` prints it."""

    name: str
    device: str
    precision: str
    threads: int
    runs: int
    run_ms: float
    """Median of whole runs, not taken apart."""
    steps_ms: float
    """Sum of the steps, each timed alone."""
    load_by_others: float | None
    """Cores that other processes used meanwhile."""
    steps: tuple[ProfiledStep, ...]
    """In the order in which they run."""
    record: dict[str, Any] = dataclasses.field(repr=False)
    _files: tuple[str, ...] = dataclasses.field(default=(), repr=False, compare=False)

    def longest(self, count: int = 10) -> list[ProfiledStep]:
        """The steps that take longest, the longest first."""
        return sorted(self.steps, key=lambda step: -step.ms)[: whole("count", count, 1)]

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Writes the record, which ``temper report`` reads. Only ``force`` replaces a file of another kind, and nothing one that was read for it."""
        _temper.refuse_inputs(os.fspath(path), [], list(self._files))
        _temper.write_output(os.fspath(path), "profile", json.dumps(self.record), force)

    def _rows(self) -> list[dict[str, Any]]:
        return rows_of(list(self.steps))

    def __str__(self) -> str:
        lines = [f"{step.ms:10.4f} ms {100 * step.share:5.1f} %  {step.node} ({step.op}, {step.tactic})" for step in self.longest()]
        return "\n".join([f"{self.run_ms:.4g} ms a run, {self.steps_ms:.4g} ms in {len(self.steps)} steps; the longest:", *lines])

    def _repr_html_(self) -> str:
        return table(
            ("step", "op", "ms", "share", "tactic", "of the limit"),
            ((s.node, s.op, s.ms, f"{100 * s.share:.1f} %", s.tactic, _limit(s)) for s in self.longest()),
            caption=f"{self.name}: {self.run_ms:.4g} ms a run, {self.precision} on {self.device}; the longest of {len(self.steps)} steps")  # fmt: skip


def _limit(step: ProfiledStep) -> str:
    arithmetic, memory = step.of_arithmetic_peak or 0, step.of_memory_peak or 0
    if not arithmetic and not memory:
        return "n/a"
    return f"arithmetic {100 * arithmetic:.0f} %" if arithmetic >= memory else f"memory {100 * memory:.0f} %"


def _options(duration: float, batch: int | None, timing_cache: str | os.PathLike[str] | None, cuda_path: str | os.PathLike[str] | None) -> dict[str, Any]:
    return {
        "duration": number("duration", duration, 0),
        "batch": 0 if batch is None else whole("batch", batch, 1),
        "timing_cache": "" if timing_cache in (None, DEFAULT) else os.fspath(timing_cache),  # type: ignore[arg-type]
        "cuda_path": _cuda_folders(cuda_path),
    }


@shows_progress
def profile(
    engine: Engine | str | os.PathLike[str],
    inputs: Inputs | None = None,
    *,
    batch: int | None = None,
    duration: float = 3.0,
    timing_cache: str | os.PathLike[str] = DEFAULT,
    cuda_path: str | os.PathLike[str] | None = None,
    progress: Progress = None,
) -> Profile:
    """Times an engine step by step, as ``temper profile``, and says how near each step is to the machine's limits.

    Parameters
    ----------
    engine
        An engine, or the path of a plan.
    inputs
        As :meth:`Engine.run` takes them, and seeded random numbers for what a dict leaves out.
    batch
        The batch that is run; what the engine is tuned for without.
    duration
        Seconds of timing.
    timing_cache
        The file that keeps the machine's limits.
    cuda_path
        As for :func:`build`; of a plan's path.
    progress
        Called with a line of text now and then; without it a terminal and a notebook show a bar, with False nothing does. What it raises ends the profile and comes back as it is; so does Ctrl-C.

    Raises
    ------
    Error
        As :func:`load` and :meth:`Engine.run`.
    """
    what = engine._native if isinstance(engine, Engine) else _plan(engine)
    record = json.loads(_temper.profile(what, inputs, _options(duration, batch, timing_cache, cuda_path), progress))
    fields = [field.name for field in dataclasses.fields(ProfiledStep)]
    steps = tuple(ProfiledStep(**{name: step[name] for name in fields}) for step in record["steps"])
    same = {name: record[name] for name in ("device", "precision", "threads", "runs", "run_ms", "steps_ms", "load_by_others")}
    return Profile(name=record["plan"], steps=steps, record=record, _files=_files_of(what), **same)


def _files_of(what: _temper.Engine | str) -> tuple[str, ...]:
    return (os.path.abspath(what),) if isinstance(what, str) else tuple(what.files())


def _plan(path: Any) -> str:
    if not isinstance(path, (str, os.PathLike)):
        raise Error(f"a {type(path).__name__} has no steps; give an engine, or the path of a plan")
    given = must_exist(path, "the plan")
    if not _temper.is_plan(given):
        raise Error(f"'{given}' is no plan; build an engine first: temper.build({given!r})")
    return given


@dataclasses.dataclass(frozen=True)
class Finding:
    """One thing to know or to change."""

    id: str
    what: str
    evidence: tuple[str, ...]
    change: str
    gain_share: float | None
    """Of the time of all layers, estimated; None where nothing tells it."""
    gain_ms: float | None
    at_most: bool
    """The gain is a bound from above."""
    layers: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class ExplainedEngine:
    """What was found of one engine."""

    name: str
    asked: str | None
    """The precision that was asked for."""
    answer: str
    """Whether it got that, in a sentence or two."""
    run_ms: float | None
    layers_ms: float | None
    findings: tuple[Finding, ...]
    """The most valuable first."""
    notes: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Explanation:
    """What came out of :func:`explain`; ``str()`` is the text of ``temper explain``, and ``record`` its JSON."""

    engines: tuple[ExplainedEngine, ...]
    """From the widest precision to the narrowest, the slowest of each first."""
    answers: tuple[str, ...]
    """What several engines show together."""
    text: str = dataclasses.field(repr=False)
    record: dict[str, Any] = dataclasses.field(repr=False)
    _files: tuple[str, ...] = dataclasses.field(default=(), repr=False, compare=False)

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Writes the record, which ``temper report`` reads. Only ``force`` replaces a file of another kind, and nothing one that was read for it."""
        _temper.refuse_inputs(os.fspath(path), [], list(self._files))
        _temper.write_output(os.fspath(path), "explain", json.dumps(self.record), force)

    def __str__(self) -> str:
        return self.text

    def _rows(self) -> list[dict[str, Any]]:
        return [{"engine": engine.name, **row} for engine in self.engines for row in rows_of(list(engine.findings))]

    def _repr_html_(self) -> str:
        return "".join(
            table(
                ("what", "change", "gain"),
                ((f.what, f.change, "n/a" if f.gain_share is None else f"{'at most ' if f.at_most else ''}{100 * f.gain_share:.1f} %") for f in engine.findings),
                caption=f"{engine.name}: {engine.answer}")
            for engine in self.engines)  # fmt: skip


@shows_progress
def explain(
    *what: Engine | str | os.PathLike[str],
    asked: str = "",
    duration: float = 3.0,
    timing_cache: str | os.PathLike[str] = DEFAULT,
    cuda_path: str | os.PathLike[str] | None = None,
    progress: Progress = None,
) -> Explanation:
    """Says whether engines got the precision that was asked for, where their time goes, and what to change first.

    Parameters
    ----------
    what
        Engines, paths of plans, and files that TensorRT's trtexec exported: one of its layer information begins an engine, and
        its profile and times after it belong to that engine.
    asked
        The precision that the build was asked for, if the file does not say it: ``"fp32"``, ``"int8"``, …
    duration, timing_cache, cuda_path, progress
        As for :func:`profile`, by which engines and plans are timed.
    """
    if not what:
        raise Error("nothing was given to explain: give engines, or paths of plans")
    given = []
    for one in what:
        if isinstance(one, Engine):
            given.append(one._native)
            continue
        path = must_exist(one, "the file")
        if path.endswith(".onnx"):
            raise Error(f"'{path}' is a model, no plan; build an engine first: temper.build({path!r})")
        given.append(path)
    record_text, said = _temper.explain(given, text("asked", asked), _options(duration, None, timing_cache, cuda_path), progress)
    record = json.loads(record_text)
    files = tuple(file for one in given for file in _files_of(one))
    return Explanation(tuple(map(_engine_of, record["engines"])), tuple(record["answers"]), python_of(said), record, files)


def _engine_of(engine: dict[str, Any]) -> ExplainedEngine:
    findings = []
    for found in engine["findings"]:
        findings.append(Finding(
            found["id"], python_of(found["what"]), tuple(map(python_of, found["evidence"])), python_of(found["change"]), found.get("gain_share"),
            found.get("gain_ms"), bool(found.get("at_most")), tuple(found["layers"])))  # fmt: skip
    return ExplainedEngine(
        engine["name"], engine["asked"], python_of(engine["answer"]), engine.get("run_ms"), engine["layers_ms"], tuple(findings),
        tuple(map(python_of, engine["notes"])))  # fmt: skip
