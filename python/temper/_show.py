# SPDX-License-Identifier: Apache-2.0
"""Results as tables: pandas frames, where pandas is there, and what notebooks show."""
from __future__ import annotations

import dataclasses
import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ._error import MissingPackageError, UsageError


def cell(value: Any) -> str:
    """What people read of a value: numbers to four digits, nothing as a dash."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, caption: str = "", notes: Iterable[str] = ()) -> str:
    """An HTML table, which has no style but the notebook's own. Everything is escaped: names come out of files."""
    right = ' style="text-align:right"'
    head = "".join(f"<th>{html.escape(column)}</th>" for column in columns)
    body = "".join(
        "<tr>" + "".join(f"<td{right if isinstance(value, (int, float)) and not isinstance(value, bool) else ''}>{html.escape(cell(value))}</td>" for value in row) + "</tr>"
        for row in rows)  # fmt: skip
    title = f'<caption style="text-align:left">{html.escape(caption)}</caption>' if caption else ""
    below = "".join(f"<p>{html.escape(note)}</p>" for note in notes)
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{below}"


def _scalars(value: Any, prefix: str = "") -> dict[str, Any]:
    """The fields that fit into a cell; those of a result inside of it follow its name."""
    row: dict[str, Any] = {}
    for field in dataclasses.fields(value):
        inner = getattr(value, field.name)
        if dataclasses.is_dataclass(inner) and not isinstance(inner, type):
            row |= _scalars(inner, f"{prefix}{field.name}_")
        elif inner is None or isinstance(inner, (bool, int, float, str)):
            row[prefix + field.name] = inner
        elif field.name == "warnings":
            row[prefix + field.name] = len(inner)
    return row


def rows_of(results: Any) -> list[dict[str, Any]]:
    """One dict a row. Takes a result, or an iterable of them."""
    inner = getattr(results, "_rows", None)
    if inner is not None:
        return inner()
    if dataclasses.is_dataclass(results) and not isinstance(results, type):
        return [_scalars(results)]
    if isinstance(results, Mapping) or isinstance(results, (str, bytes)) or not isinstance(results, Iterable):
        raise UsageError(f"a {type(results).__name__} is no result of Temper's, and no list of them")
    rows: list[dict[str, Any]] = []
    for result in results:
        rows += rows_of(result)
    return rows


def frame(results: Any) -> Any:
    """A ``pandas.DataFrame`` of results: one row for each run, step, layer, range or precision.

    Parameters
    ----------
    results
        What :func:`bench`, :func:`compare`, :func:`evaluate`, :func:`study`, :func:`profile`, :func:`explain`, :func:`run`,
        :func:`calibrate` or :func:`load_results` gave, or a list of such. A figure that is not known is missing there, too.

    Raises
    ------
    MissingPackageError
        Where pandas is not installed (an ``ImportError``).
    """
    try:
        import pandas
    except ImportError as absent:
        raise MissingPackageError("a frame needs pandas, which is not installed: pip install pandas") from absent
    return pandas.DataFrame(rows_of(results))
