# SPDX-License-Identifier: Apache-2.0
"""A model in ray.data."""
from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy

from .. import _temper
from .._build import build
from .._check import names
from .._engine import Engine
from .._error import UnsupportedError, UsageError
from .._model import Model
from ._cluster import log, resolved
from ._machines import PlanSource, engine_of


@contextlib.contextmanager
def _alone_on_this_node() -> Iterator[None]:
    """Builds of one node come one after the other: they would disturb each other's times, and the later ones find those of the first."""
    folder = os.path.dirname(_temper.default_timing_cache())
    try:
        os.makedirs(folder, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY)
    except OSError as error:  # without a cache folder each build measures for itself
        log.warning("builds of this node are not kept apart: %s", error)
        yield
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


class Predictor:
    """Runs a model on batches of ray.data: ``dataset.map_batches(temper.ray.Predictor, fn_constructor_args=[plans], batch_size=32, compute=ray.data.ActorPoolStrategy(size=4))``.

    Each actor has one engine and one session. A batch's columns that are named as inputs are read where they lie; it gives back the outputs by
    name, one row for each of the batch's, and the columns that are no inputs. Batches may have any number of rows: what the engine does not take at once is
    run in pieces, and what is too few for it is filled up, with rows that are cut off again.

    Parameters
    ----------
    plan
        As :data:`PlanSource` says.
    model
        An ONNX model, as for :func:`calibrate`, that is built (with ``options``, as for :func:`temper.build`) on a machine that no plan is for. Builds of one node
        come one after the other, and the second finds the times of the first in the node's timing cache.
    columns
        By input name, the column that it is read from, where the two are not called the same. ``"picture"`` alone is that of a single input.
    keep
        The columns that are given back besides the outputs; without it all that are no inputs.
    device
        Where the plan runs; ``"cuda:0"`` together with ``num_gpus=1`` of ``map_batches``.

    Raises
    ------
    Error
        ``unsupported`` where no plan is for the machine; ``usage`` for a column that is missing, or of another dtype or shape than the input.
    """

    def __init__(
        self,
        plan: PlanSource | None = None,
        *,
        model: Model | None = None,
        columns: Mapping[str, str] | str | None = None,
        keep: Iterable[str] | None = None,
        device: str = "cpu",
        **options: Any,
    ) -> None:
        if plan is None and model is None:
            raise UsageError("a Predictor needs a plan, or a model to build one from")
        if model is None and options:
            raise UsageError(f"{', '.join(options)} of a plan cannot be changed; leave it out")
        self.engine = self._opened(plan, model, device, options)
        ports = [port.name for port in self.engine.inputs]
        if isinstance(columns, str):
            if len(ports) != 1:
                raise UsageError(f"columns must be a dict by input name where there are several inputs: {', '.join(ports)}")
            columns = {ports[0]: columns}
        for name in columns or {}:
            if name not in ports:
                raise UsageError(f"columns names the input '{name}'; the engine takes: {', '.join(ports)}")
        self._columns = {name: (columns or {}).get(name, name) for name in ports}
        self._keep = None if keep is None else names("keep", keep)
        self._outputs = [port.name for port in self.engine.outputs]
        self._session = self.engine.session()
        self._least, self._most = self._batches()

    @staticmethod
    def _opened(plan: Any, model: Any, device: str, options: dict[str, Any]) -> Engine:
        if plan is not None:
            try:
                return engine_of(plan, device)
            except UnsupportedError:
                if model is None:
                    raise
        with _alone_on_this_node():
            return build(resolved(model), device=device, progress=False, **options)

    def _batches(self) -> tuple[int, int]:
        """Fewest and most rows that the engine takes at once."""
        shapes = self.engine.inspect()["shapes"]
        least, most = 1, 1 << 62
        for port in self.engine.inputs:
            if port.shape:
                first = port.shape[0]
                low, high = (first, first) if isinstance(first, int) else (shapes[port.name]["min"][0], shapes[port.name]["max"][0])
                least, most = max(least, low), min(most, high)
        return least, most

    def __call__(self, batch: Mapping[str, numpy.ndarray]) -> dict[str, numpy.ndarray]:
        arrays = {}
        for name, column in self._columns.items():
            if column not in batch:
                raise UsageError(f"the batch has no column '{column}' for the input '{name}'; it has: {', '.join(batch)}. columns={{{name!r}: ...}} names another")
            arrays[name] = numpy.ascontiguousarray(batch[column])
        rows = {name: len(array) if array.ndim else 1 for name, array in arrays.items()}
        count = max(rows.values())
        if min(rows.values()) != count:
            raise UsageError(f"the columns of the inputs have other numbers of rows: {rows}")
        kept = [name for name in batch if name not in self._columns.values()] if self._keep is None else self._keep
        for name in kept:
            if name in self._outputs:
                raise UsageError(f"the column '{name}' is called as an output is; keep=[...] names the columns to keep")
            if name not in batch:
                raise UsageError(f"the batch has no column '{name}' to keep; it has: {', '.join(batch)}")
        return self._answers(arrays, count) | {name: batch[name] for name in kept}

    def _answers(self, arrays: dict[str, numpy.ndarray], count: int) -> dict[str, numpy.ndarray]:
        pieces = []
        for first in range(0, count, self._most):
            size = min(self._most, count - first)
            part = {name: array[first : first + size] for name, array in arrays.items()}
            filled = max(size, self._least)
            if filled > size:
                part = {name: numpy.concatenate([array, numpy.repeat(array[-1:], filled - size, axis=0)]) for name, array in part.items()}
            answers = self._session.run(part)
            for name, answer in answers.items():
                if answer.ndim == 0 or len(answer) != filled:
                    raise UnsupportedError(f"the output '{name}' has the shape {answer.shape} for {filled} rows: it is not one answer for each, so it cannot be a "
                                           "column", "unsupported")  # fmt: skip
            pieces.append({name: answer[:size] for name, answer in answers.items()})
        if len(pieces) == 1:
            return pieces[0]
        return {name: numpy.concatenate([piece[name] for piece in pieces]) for name in self._outputs}
