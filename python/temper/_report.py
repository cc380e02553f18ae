# SPDX-License-Identifier: Apache-2.0
"""Pages, tables and gates of what was measured."""
from __future__ import annotations

import dataclasses
import html
import json
import os
from collections.abc import Iterable
from typing import Any, Union

from . import _temper
from ._bench import BenchResult, _text_of, load_results
from ._check import number
from ._error import Error, must_exist
from ._profile import Explanation, Profile
from ._show import rows_of, table
from ._study import Study

Reported = Union[BenchResult, Study, Profile, Explanation, str, "os.PathLike[str]"]


class Report:
    """Measurements side by side, by :func:`report`. A notebook shows the page."""

    def __init__(self, sources: list[tuple[str, str]]) -> None:
        self._sources = sources

    def html(self) -> str:
        """One page with pictures, tables, environment and commands; it needs no network."""
        return _temper.report(self._sources, "html")

    def markdown(self) -> str:
        """The tables, for a log or a pull request."""
        return _temper.report(self._sources, "markdown")

    def csv(self) -> str:
        """Every field of every run."""
        return _temper.report(self._sources, "csv")

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Writes ``.html``, ``.md`` or ``.csv``, by the name. Only ``force`` replaces a file of another kind."""
        name = os.fspath(path)
        forms = {".html": ("html", self.html), ".htm": ("html", self.html), ".md": ("markdown", self.markdown), ".csv": ("csv", self.csv)}
        ending = os.path.splitext(name)[1].lower()
        if ending not in forms:
            raise Error(f"'{name}' ends in none of .html, .md and .csv, which say what to write")
        form, text = forms[ending]
        _temper.write_output(name, form, text(), force)

    def __str__(self) -> str:
        return self.markdown()

    def _repr_html_(self) -> str:
        # A frame of its own: the page's styles and its policy hold for it alone.
        return f'<iframe srcdoc="{html.escape(self.html())}" style="width:100%;height:40em;border:1px solid" sandbox="allow-scripts"></iframe>'


def report(*sources: Reported | Iterable[Reported]) -> Report:
    """A report of results, studies, profiles and explanations, as ``temper report`` makes it.

    Parameters
    ----------
    sources
        What :func:`bench`, :func:`study`, :func:`profile` and :func:`explain` gave, lists of such, or paths of their files.

    Raises
    ------
    Error
        ``bad_file`` for a file that is none of these.
    """
    named: list[tuple[str, str]] = []
    results: list[BenchResult] = []

    def add(source: Any) -> None:
        if isinstance(source, BenchResult):
            results.append(source)
        elif isinstance(source, Study):
            named.append(("study", json.dumps(source.record)))
        elif isinstance(source, (Profile, Explanation)):
            named.append((type(source).__name__.lower(), json.dumps(source.record)))
        elif isinstance(source, (str, os.PathLike)):
            path = must_exist(source, "the file")
            with open(path, encoding="utf-8", errors="replace") as file:
                named.append((os.path.basename(path), file.read()))
        elif isinstance(source, Iterable):
            for one in source:
                add(one)
        else:
            raise Error(f"a {type(source).__name__} cannot be reported; give results, studies, profiles, explanations, or paths of their files")

    add(sources)
    if results:
        named.insert(0, ("results", _text_of(results)))
    if not named:
        raise Error("nothing was given to report")
    _temper.report(named, "")  # refuses now what is damaged
    return Report(named)


@dataclasses.dataclass(frozen=True)
class GatedRun:
    """One run beside that of the baseline."""

    run: str
    baseline_ms: float
    result_ms: float
    slowdown: float
    """Time of the result over that of the baseline, less 1."""
    low: float | None
    """Of the slowdown's 99 % interval, as ``high``."""
    high: float | None
    verdict: str
    """``"PASS"``, ``"FAIL"`` or ``"UNSURE"``."""
    why: str
    samples_needed: float | None
    """Where more samples would decide: about how many."""


@dataclasses.dataclass(frozen=True)
class Gate:
    """What came out of :func:`gate`; true where it passes. ``record`` is all of it, ``junit`` the same as XML for CI."""

    passed: bool
    runs: tuple[GatedRun, ...]
    junit: str = dataclasses.field(repr=False)
    record: dict[str, Any] = dataclasses.field(repr=False)

    def __bool__(self) -> bool:
        return self.passed

    def _rows(self) -> list[dict[str, Any]]:
        return rows_of(list(self.runs))

    def _repr_html_(self) -> str:
        return table(("run", "baseline ms", "result ms", "slowdown", "verdict"),
                     ((r.run, r.baseline_ms, r.result_ms, f"{100 * r.slowdown:+.1f} %", r.verdict) for r in self.runs))  # fmt: skip


def _results(given: Any, what: str) -> tuple[str, str]:
    if isinstance(given, (str, os.PathLike)):
        return os.fspath(given), _text_of(load_results(given))
    listed = [given] if isinstance(given, BenchResult) else list(given)
    if not all(isinstance(one, BenchResult) for one in listed):
        raise Error(f"the {what} is no result; give what temper.bench gave, a list of such, or the path of a file of them")
    return what, _text_of(listed)


def gate(
    baseline: BenchResult | Iterable[BenchResult] | str | os.PathLike[str],
    result: BenchResult | Iterable[BenchResult] | str | os.PathLike[str],
    *,
    max_slowdown: float = 0.03,
    strict: bool = False,
    force: bool = False,
) -> Gate:
    """Whether a result is no slower than its baseline, as ``temper gate``: it fails only where the slowdown is beyond doubt.

    Parameters
    ----------
    baseline, result
        Results, lists of them, or paths of their files.
    max_slowdown
        The slowdown of the median that is allowed, as a share.
    strict
        An uncertain answer fails, too, and so does a run of the baseline that is missing.
    force
        Compares also what is unlike: another model, device or number of threads.
    """
    limit = number("max_slowdown", max_slowdown)
    if not 0 <= limit:
        raise Error(f"max_slowdown is {max_slowdown}; it must be a share of 0 or more, like 0.03 for 3 %")
    record_text, junit, failed = _temper.gate(*_results(baseline, "baseline"), *_results(result, "result"), limit, bool(strict), bool(force))
    record = json.loads(record_text)
    runs = tuple(
        GatedRun(run["run"], run["baseline_ms"], run["result_ms"], run["slowdown"], *(run["ci99"] or (None, None)), run["gate"], run["why"], run["samples_needed"])
        for run in record["runs"])  # fmt: skip
    return Gate(not failed, runs, junit, record)
