# SPDX-License-Identifier: Apache-2.0
"""A model over a folder of pictures, arrays or files of them."""
from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy

from . import _temper
from ._build import build_options
from ._check import whole
from ._data import DataSource, data_of
from ._engine import Engine
from ._error import Error, UnsupportedError
from ._model import Model, model_of
from ._progress import Progress, shows_progress
from ._show import table


@dataclasses.dataclass(frozen=True)
class RankedClass:
    """One class of a sample's answer."""

    index: int
    name: str
    """Of the class, where the data have names; otherwise its number."""
    value: float
    """As the model gives it."""
    probability: float
    """Softmax of the row, or the value itself where the row is a distribution already."""


@dataclasses.dataclass(frozen=True)
class Batch:
    """Some samples, read, and what the model answers."""

    names: tuple[str, ...]
    """Of the samples: the picture's path below its folder, or the sample's number."""
    labels: numpy.ndarray | None
    """The right classes, where the data have them."""
    inputs: dict[str, Any]
    """By name: what the model gets, after preprocessing."""
    outputs: dict[str, Any] | None
    """By name; None where the samples were only read."""


@dataclasses.dataclass(frozen=True)
class Answers:
    """What came out of :func:`run`."""

    names: tuple[str, ...]
    """Of the samples, in the order of the rows of ``outputs``."""
    outputs: dict[str, Any]
    """By name: the answers of all samples, along the first axis."""
    labels: numpy.ndarray | None
    class_names: tuple[str, ...]
    left_out: tuple[tuple[str, str], ...]
    """Pictures that cannot be read, each with the reason."""
    batch: int
    engine: Engine = dataclasses.field(repr=False)

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, output: str) -> Any:
        return self.outputs[output]

    def scores(self, output: str | None = None) -> tuple[str, numpy.ndarray]:
        """The name and the rows [samples, classes] of the output that holds classes. Error of kind ``usage`` where none or several do."""
        fitting = {name: rows for name, value in self.outputs.items() if (rows := _rows_of(value, len(self.names))) is not None}
        if output is not None:
            if output not in self.outputs:
                raise Error(f"there is no output '{output}'; there are: {', '.join(self.outputs)}")
            fitting = {output: fitting[output]} if output in fitting else {}
        if len(fitting) != 1:
            raise Error(f"{'no output is' if not fitting else 'several outputs are'} that of a classifier ([batch, classes] of floats)"
                        + (f": {', '.join(fitting)}; name one" if fitting else ""))  # fmt: skip
        return next(iter(fitting.items()))

    def top(self, k: int = 5, output: str | None = None) -> list[list[RankedClass]]:
        """For each sample its ``k`` best classes, the best first; of equal ones that with the lower number."""
        k = whole("k", k, 1)
        _, rows = self.scores(output)
        distribution = (rows >= 0).all(1) & (rows <= 1).all(1) & (abs(rows.sum(1) - 1) <= 1e-3)
        ranked = []
        for row, is_distribution in zip(rows.astype("float64"), distribution):
            best = numpy.argsort(-row, kind="stable")[:k]
            shares = row if is_distribution else numpy.exp(row - row.max()) / numpy.exp(row - row.max()).sum()
            ranked.append([RankedClass(int(i), self._class_name(int(i)), float(row[i]), float(shares[i])) for i in best])
        return ranked

    def _class_name(self, index: int) -> str:
        return self.class_names[index] if index < len(self.class_names) and self.class_names[index] else str(index)

    def _rows(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = [{"sample": name} for name in self.names]
        if self.labels is not None:
            for row, label in zip(rows, self.labels):
                row["label"] = int(label)
        try:
            ranked = self.top(1)
        except Error:
            ranked = []  # no classifier: the names and labels are what fits into cells
        for row, (best,) in zip(rows, ranked):
            row |= {"class": best.index, "name": best.name, "probability": best.probability}
        return rows

    def _repr_html_(self) -> str:
        rows = self._rows()
        shown = rows[:20]
        return table(tuple(shown[0]) if shown else ("sample",), (tuple(row.values()) for row in shown), caption=f"{len(rows)} samples",
                     notes=[f"and {len(rows) - len(shown)} more"] if len(rows) > len(shown) else [])  # fmt: skip


def _rows_of(value: Any, samples: int) -> numpy.ndarray | None:
    """[samples, classes], of an output that may be a classifier's."""
    flat = value.dtype.kind == "f" and value.ndim >= 2 and value.shape[0] == samples and value.shape[1] > 1 and all(n == 1 for n in value.shape[2:])
    return value.reshape(value.shape[0], value.shape[1]) if flat else None


class Batches:
    """Samples batch by batch: an iterator of :class:`Batch`, from :func:`batches`."""

    def __init__(self, native: _temper.Samples, runs: bool) -> None:
        self._native = native
        self._runs = runs

    def __len__(self) -> int:
        """How many batches there are in all."""
        return -(-self.samples // self._native.batch()) if self.samples else 0

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        found = self._native.next()
        if found is None:
            raise StopIteration
        names, labels, inputs, outputs = found
        return Batch(tuple(names), None if labels is None else numpy.array(labels), inputs, outputs)

    @property
    def samples(self) -> int:
        return self._native.size()

    @property
    def batch(self) -> int:
        """Samples in a batch; the last one may be smaller."""
        return self._native.batch()

    @property
    def class_names(self) -> tuple[str, ...]:
        return tuple(self._native.class_names())

    @property
    def left_out(self) -> tuple[tuple[str, str], ...]:
        """Pictures that cannot be read, each with the reason."""
        return tuple(tuple(one) for one in self._native.left_out())

    @property
    def text(self) -> str:
        """What the data are, and how pictures became inputs, in a line."""
        return self._native.text()

    @property
    def engine(self) -> Engine:
        """What runs them. Error of kind ``usage`` where they are only read."""
        if not self._runs:
            raise Error("the samples are only read; give runs=True for answers")
        return Engine(self._native.engine())


def batches(
    model: Engine | Model,
    data: DataSource,
    *,
    runs: bool = True,
    samples: int | None = None,
    seed: int = 0,
    batch: int | None = None,
    progress: Progress = None,
    **build: Any,
) -> Batches:
    """Reads data as the model takes them, batch by batch, and runs it on each: memory does not grow with the data.

    Parameters
    ----------
    model
        An engine, the path of a plan, or a model as for :func:`build`, which is built for the data first.
    data
        A path (a folder of pictures, ``.npy``, ``.npz``, CSV), arrays by input name, or :class:`Data`, which says how pictures become inputs.
    runs
        False only reads them.
    samples, seed
        So many samples, chosen by the seed; all of them without.
    batch
        Samples in a batch; what the engine is tuned for, or up to 32, without.
    progress
        Called with a line of text now and then; :func:`run` shows a bar in a terminal and a notebook without it, and nothing with False.
        What it raises comes back as it is; so does Ctrl-C.
    build
        Of a model: arguments of :func:`build`, like ``precision`` and ``calibration``.

    Raises
    ------
    Error
        ``usage`` for data that do not fit the model, ``bad_file`` for what cannot be read.
    """
    size = 0 if batch is None else whole("batch", batch, 1)
    given: Any = model._native if isinstance(model, Engine) else model_of(model)
    if build and (isinstance(model, Engine) or (isinstance(given, str) and _temper.is_plan(given))):
        raise Error(f"{', '.join(build)} of an engine cannot be changed; leave it out")
    options = build_options("" if isinstance(model, Engine) else given, **build)
    return Batches(_temper.Samples(given, options, data_of(data, samples, seed, build.get("memory_limit")), size, bool(runs), progress or None), bool(runs))


@shows_progress
def run(
    model: Engine | Model,
    data: DataSource,
    *,
    samples: int | None = None,
    seed: int = 0,
    batch: int | None = None,
    progress: Progress = None,
    **build: Any,
) -> Answers:
    """Runs a model over data, as ``temper run``: a folder of pictures, a file, or arrays.

    Arguments are those of :func:`batches`, which is for data whose answers do not fit into memory together.

    >>> answers = temper.run(engine, "photos/")
    >>> for name, best in zip(answers.names, answers.top(1)):
    ...     print(name, best[0].name, best[0].probability)

    Raises
    ------
    Error
        As :func:`batches`; ``unsupported`` for answers that cannot be joined, as their shapes differ from batch to batch.
    """
    reader = batches(model, data, samples=samples, seed=seed, batch=batch, progress=progress, **build)
    names: list[str] = []
    labels: list[Any] = []
    parts: dict[str, list[Any]] = {}
    counts: list[int] = []
    for one in reader:
        names += one.names
        counts.append(len(one.names))
        if one.labels is not None:
            labels.append(one.labels)
        for name, value in (one.outputs or {}).items():
            parts.setdefault(name, []).append(value)
    outputs = {name: _joined(name, values, counts) for name, values in parts.items()}
    return Answers(tuple(names), outputs, numpy.concatenate(labels) if labels else None, reader.class_names, reader.left_out, reader.batch, reader.engine)


def _joined(name: str, values: list[Any], counts: list[int]) -> Any:
    if len(values) == 1:
        return values[0]
    for value, count in zip(values, counts):
        if value.ndim == 0 or value.shape[0] != count or value.shape[1:] != values[0].shape[1:]:
            raise UnsupportedError(f"the output '{name}' has the shape {value.shape} for a batch of {count}, which cannot be joined over batches; "
                                   "temper.batches gives them one by one", "unsupported")  # fmt: skip
    return numpy.concatenate(values)
