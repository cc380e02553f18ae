# SPDX-License-Identifier: Apache-2.0
"""Ranges of a model's values, for int8."""
from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable
from typing import Any

from . import _temper
from ._engine import Inputs
from ._check import limits, names, seed_of, whole
from ._data import Data, DataSource, data_of
from ._error import must_exist
from ._model import Model, model_of
from ._progress import Progress, shows_progress
from ._show import rows_of, table
from ._speech import python_of


@dataclasses.dataclass(frozen=True)
class TensorRange:
    """What was seen of one value, and what of it int8 keeps: up to ``127 * scale``."""

    name: str
    min: float
    max: float
    scale: float
    method: str
    clipped_share: float


@dataclasses.dataclass(frozen=True)
class MethodTrial:
    """What the answers of int8 with one method's ranges are beside those of FP32, on samples that were not calibrated on."""

    method: str
    agreement: float | None
    """Share of samples with the same best class; None where no output holds classes."""
    cosine: float
    """Of the worst output; 1 where nothing differs."""
    snr_db: float
    """Of the worst output; infinite where nothing differs."""
    chosen: bool


class Ranges:
    """What calibration knows of a model; :func:`build` takes it for int8."""

    def __init__(self, native: _temper.Ranges, trials: Iterable[MethodTrial] = (), models: Iterable[str] = (), read: Iterable[str] = ()) -> None:
        self._native = native
        self._inputs = list(models), list(read)  # files that save() replaces not even by force
        self.trials = list(trials)
        """Every method with its figures, where ``"auto"`` tried them just now; a file keeps only the one chosen."""

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Ranges:
        """Reads a file of ranges, those of ``temper calibrate`` too."""
        return Ranges(_temper.Ranges.load(must_exist(path, "the ranges")))

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Writes a file of ranges, which ``temper build --calibration`` reads.

        A file of another kind is replaced only with ``force``, and the model and the data that these ranges are of never
        (Error of kind ``usage``).
        """
        _temper.refuse_inputs(os.fspath(path), *self._inputs)
        self._native.save(os.fspath(path), force)

    def to_bytes(self) -> bytes:
        """The bytes of the file that :meth:`save` would write."""
        return self._native.to_bytes()

    @staticmethod
    def of_bytes(data: bytes) -> Ranges:
        """Of such bytes."""
        return Ranges(_temper.Ranges.of_bytes(bytes(data)))

    def __reduce__(self) -> Any:
        return Ranges.of_bytes, (self.to_bytes(),)

    @property
    def values(self) -> list[TensorRange]:
        """By value of the optimised graph, in its order."""
        return [TensorRange(*value) for value in self._native.values()]

    @property
    def method(self) -> str:
        return self._native.method

    @property
    def samples(self) -> int:
        return self._native.samples

    @property
    def preprocess(self) -> dict[str, str]:
        """By input that took pictures: how they became tensors, in words that :class:`Data` takes; engines remember it."""
        return self._native.preprocess

    @property
    def model_sha256(self) -> str:
        return self._native.model_sha256

    @property
    def notes(self) -> list[str]:
        return [python_of(note) for note in self._native.notes]

    def _rows(self) -> list[dict[str, Any]]:
        return rows_of(self.values)

    def _repr_html_(self) -> str:
        widest = sorted(self.values, key=lambda value: -value.clipped_share)[:20]
        return table(("value", "min", "max", "kept up to", "clipped", "method"),
                     ((v.name, v.min, v.max, 127 * v.scale, f"{100 * v.clipped_share:.2f} %", v.method) for v in widest),
                     caption=f"{len(self.values)} ranges, {self.method} on {self.samples} samples; those that clip most", notes=self.notes)  # fmt: skip

    def __repr__(self) -> str:
        return f"<temper.Ranges of {len(self.values)} values, {self.method} on {self.samples} samples>"


def _calibrated(
    model: Any, data: Iterable[Inputs] | DataSource, method: str, seed: int, options: dict[str, Any], progress: Progress
) -> Ranges:
    seed = seed_of(seed)
    tell = (lambda text: None) if progress is None else progress
    calibrator = _temper.Calibrator(model, options, method, seed)
    samples = 0
    preprocess: dict[str, str] = {}
    read = []
    if isinstance(data, (str, os.PathLike, Data)):
        given = data_of(data, None, 0, options.get("memory_limit"))
        read = [given["path"]] if "path" in given else []
        reader = _temper.Samples(model, options, given, 0, False, progress)
        preprocess = reader.preprocess()
        data = (found[2] for found in iter(reader.next, None))
    for batch in data:
        samples += calibrator.observe(batch)
        tell(f"calibrating: {samples} samples")
    while calibrator.try_methods():
        tell("trying the methods on samples held apart")
    trials = [MethodTrial(*trial) for trial in calibrator.trials()]
    return Ranges(calibrator.finish(preprocess), trials, [model] if isinstance(model, str) else [], read)


@shows_progress
def calibrate(
    model: Model,
    data: Iterable[Inputs] | DataSource,
    *,
    method: str = "auto",
    seed: int = 0,
    threads: int = 0,
    disable: Iterable[str] = (),
    memory_limit: int | None = None,
    node_limit: int | None = None,
    depth_limit: int | None = None,
    loop_limit: int | None = None,
    progress: Progress = None,
) -> Ranges:
    """Runs the model in FP32 on every batch of ``data`` and observes its values. Memory does not grow with the data.

    Parameters
    ----------
    model
        As for :func:`build`.
    data
        Any iterable of batches, each as :meth:`Engine.run` takes its inputs; the first axis counts samples. Dimensions
        other than the batch that the model leaves open are those of the first one. Or a path (a folder of pictures, ``.npy``,
        ``.npz``, CSV), or :class:`Data`.
    method
        ``"auto"``: a fifth of the samples, at most 500 of them, is held apart (and kept in memory), each method judged
        by its answers on them; :attr:`Ranges.trials` has the figures. Where fewer than 16 can be held apart, all are
        calibrated on by ``"mse"``, and :attr:`Ranges.notes` says so. Or one of the methods: ``"entropy"``,
        ``"minmax"``, ``"percentile"``, ``"percentile:99.99"``, ``"mse"``.
    seed
        Of the choice of those samples.
    threads, disable, memory_limit, node_limit, depth_limit, loop_limit
        As for :func:`build`.
    progress
        Called with a line of text now and then; without it a terminal and a notebook show a bar, with False nothing does.

    Raises
    ------
    Error
        ``check_failed`` for a NaN or an infinity, naming the value and the sample; ``usage`` for wrong arrays, and where
        no batch came.
    Exception
        What the iterator raises comes back as it is.
    """
    options = {"threads": whole("threads", threads, 0), "disable": names("disable", disable),
               **limits(memory_limit=memory_limit, node_limit=node_limit, depth_limit=depth_limit, loop_limit=loop_limit)}  # fmt: skip
    return _calibrated(model_of(model), data, method, seed, options, progress)
