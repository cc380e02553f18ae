# SPDX-License-Identifier: Apache-2.0
"""Several devices that run batches of one engine."""
from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable
from typing import Any

from . import _temper
from ._check import text
from ._engine import Engine, Inputs, _cuda_folders
from ._show import table


@dataclasses.dataclass(frozen=True)
class PoolDevice:
    """One device of a :class:`Pool`."""

    name: str
    """``"cuda:1"``."""
    batches: int
    """That it has run, in all."""
    loss: str | None
    """Why it gets no more work; None for one that works."""


class Pool:
    """Several devices that run batches of one engine, each with a session and a thread: whichever is free takes the next batch.

    >>> pool = temper.Pool(engine, "cuda:*")
    >>> answers = pool.run(batches)

    Parameters
    ----------
    engine
        What runs. The devices of the list load its plans; they must be equal to its own device (by fingerprint).
    devices
        As ``--device`` of ``temper run``: ``"cuda:0,1"``, ``"cuda:*"`` (every GPU of the machine), ``"cpu,cpu"``. A GPU whose memory has no
        room even to open it is left out, with a warning (:func:`set_log_callback`).
    cuda_path
        As of :func:`build`.

    Raises
    ------
    Error
        ``usage`` for what is no list, a GPU that is named twice or not there, and a device of another kind than the engine's;
        ``unsupported`` for one that is not equal to it; ``machine`` where all GPUs were left out.
    """

    def __init__(self, engine: Engine, devices: str, *, cuda_path: str | os.PathLike[str] | None = None) -> None:
        self._native = _temper.Pool(engine._native, text("devices", devices), _cuda_folders(cuda_path))

    def run(self, batches: Iterable[Inputs]) -> list[dict[str, Any]]:
        """Runs all batches, without the GIL; each is what :meth:`Engine.run` takes, in the host's memory. They may have different shapes.

        Where a GPU is lost, or the plan has no room there, its batch goes to another device, a warning names it, and it gets nothing
        any more.

        Returns
        -------
        For each batch, in their order, what :meth:`Engine.run` gives: new arrays by output name, bit for bit those of one device.

        Raises
        ------
        Error
            ``usage`` for a batch that does not fit, with its number, before any runs, for a closed engine, and where the pool runs in
            another thread; ``machine``, with the reasons, where no device is left. Another error of a batch is that of this call. The
            pool may be used again. Ctrl-C ends it, too.
        """
        return self._native.run(list(batches))

    @property
    def devices(self) -> list[PoolDevice]:
        """In the order of the list."""
        return [PoolDevice(*device) for device in self._native.devices()]

    def _repr_html_(self) -> str:
        return table(("device", "batches", "out, because"), [(d.name, d.batches, d.loss or "") for d in self.devices])

    def __reduce__(self) -> Any:
        raise TypeError("a pool cannot be pickled: make one in the other process")

    def __repr__(self) -> str:
        return f"<temper.Pool of {', '.join(device.name for device in self.devices)}>"
