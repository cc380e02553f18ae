# SPDX-License-Identifier: Apache-2.0
"""Engines and sessions: what runs a model."""
from __future__ import annotations

import dataclasses
import json
import os
import sysconfig
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Union

import numpy

from . import _temper

if TYPE_CHECKING:
    from ._build import MixedPrecision

Array = Any
"""Whatever has the buffer protocol (a numpy array) or DLPack (a torch tensor), contiguous, in the host's memory or, for an
engine of a GPU, in that GPU's."""
Inputs = Union[Mapping[str, Array], Sequence[Array], Array]
Outputs = Inputs


def _cuda_folders(cuda_path: str | os.PathLike[str] | None) -> list[str]:
    """Where NVIDIA's libraries are looked for first: with PyTorch they come as packages of this Python, and a process that has
    two versions of them is in trouble."""
    packages = {sysconfig.get_path(name) for name in ("purelib", "platlib")}
    return ([] if cuda_path is None else [os.fspath(cuda_path)]) + sorted(p for p in packages if os.path.isdir(os.path.join(p, "nvidia")))


@dataclasses.dataclass(frozen=True)
class Port:
    """An input or output: its name, numpy's name of its dtype, and its shape with a string for an open dimension."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]


def _ports(listed: Iterable[tuple[str, str, tuple[int | str, ...]]]) -> list[Port]:
    return [Port(*port) for port in listed]


@dataclasses.dataclass(frozen=True)
class ShapeLimits:
    """What is kept for shapes that come at run time: what was used last. What was let go is planned, or made ready, again when it
    comes again. The latest is always kept; the plans that the engine was built or loaded with are, too, and are not counted."""

    plans: int
    """Plans of an engine."""
    plan_bytes: int
    """What they take together."""
    prepared: int
    """Shapes that each session is ready for."""
    prepared_bytes: int
    """What they take together, with an estimate for the kernels."""


@dataclasses.dataclass(frozen=True)
class EngineStatistics:
    """What :meth:`Engine.statistics` counts."""

    plans: int
    """Held now, with those that the engine was built or loaded with."""
    plan_bytes: int
    """Of those made since."""
    plans_made: int
    """For shapes that came at run time; each takes milliseconds and more."""
    evictions: int
    """Plans let go by the limits."""


class Engine:
    """A model made ready for this machine by :func:`build` or :func:`load`. Immutable; threads may share it.

    A context manager: ``with temper.load("m.plan") as engine:`` closes it at the end.
    """

    def __init__(self, native: _temper.Engine, mixed: MixedPrecision | None = None) -> None:
        self._native = native
        self._local = threading.local()
        self.mixed = mixed
        """What ``max_drop`` of :func:`build` did, in the process that built the engine; None without it."""

    @property
    def inputs(self) -> list[Port]:
        """What :meth:`run` takes, in order."""
        return _ports(self._native.inputs())

    @property
    def outputs(self) -> list[Port]:
        """What :meth:`run` gives, in order."""
        return _ports(self._native.outputs())

    @property
    def precision(self) -> str:
        return self._native.info()["precision"]

    @property
    def device(self) -> str:
        return self._native.info()["device"]

    @property
    def threads(self) -> int:
        """Threads of the CPU that one run uses."""
        return self._native.info()["threads"]

    @property
    def notes(self) -> list[str]:
        """What the build has to say: shapes it chose, layers it left in a higher precision."""
        return self._native.info()["notes"]

    def run(self, inputs: Inputs, outputs: Outputs | None = None) -> dict[str, Any]:
        """Runs once, without the GIL, in a session that this thread keeps for this engine.

        Parameters
        ----------
        inputs
            A dict by input name, a sequence in the order of :attr:`inputs`, or the array itself where there is one
            input. Arrays are read where they lie, never copied or converted: numpy arrays, and what has DLPack (a torch
            tensor), in C order, of exactly the dtype and a shape that the engine takes. They lie in the host's memory or, for
            an engine of a GPU, all of them in that GPU's: then nothing passes through the host.
        outputs
            Arrays to write into, named as the inputs are, where the inputs are, in memory of their own; without them new ones are
            made.

        Returns
        -------
        dict
            By output name: a new numpy array or, where the inputs lie on a GPU, a :class:`DeviceArray`, which
            ``torch.from_dlpack`` takes; or what was given as ``outputs``. All is written when this returns.

        Raises
        ------
        Error
            ``usage`` for a wrong name, dtype, shape, order or device, and for a closed engine.
        """
        try:
            session = self._local.session
        except AttributeError:
            session = self._local.session = _temper.Session(self._native)
        return session.run(inputs, outputs)

    def bind(self, inputs: Inputs, outputs: Outputs | None = None) -> _temper.Binding:
        """Checks arrays once, for many runs: ``binding.run()`` reads and writes them where they lie, converts and allocates nothing.

        Parameters
        ----------
        inputs, outputs
            As :meth:`run` takes them; without ``outputs``, new arrays are made once. An output shares memory with no other array.
            The binding keeps them: change what is in them, not where they lie (``numpy.ndarray.resize``, ``torch.Tensor.resize_``).

        Returns
        -------
        Binding
            ``run()`` runs once, without the GIL, on what the inputs hold by then, and returns ``outputs``; ``inputs`` and ``outputs``
            are the arrays by name, and the next ``run()`` writes the same ones again. It has a session of its own and is for one thread at a
            time; ``session.bind`` makes several that share the memory of one session, and its turn. On a GPU, where
            ``outputs`` must be given for tensors of that GPU, each run waits for what still writes or reads them, as :meth:`run` does.

        Raises
        ------
        Error
            Here as :meth:`run`, and ``unsupported`` for a model whose shapes depend on data; ``run()`` raises ``usage`` where the engine is
            closed or another thread is running the binding.
        """
        return self.session().bind(inputs, outputs)

    def session(self) -> _temper.Session:
        """A session of one's own, for one thread at a time. It keeps the memory that a run works in."""
        return _temper.Session(self._native)

    def inspect(self, *, layers: bool = False, graph: bool = False, why: str = "") -> dict[str, Any]:
        """What the engine holds, as ``temper inspect --json`` has it of a plan file.

        ``layers``: every step with its kernel; ``graph``: the text of the optimised graph; ``why``: the name of a node,
        what was chosen for it, what lost and by how much (Error of kind ``usage`` with similar names where there is none).
        """
        return json.loads(self._native.inspect(layers, graph, why))

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Writes a plan file for :func:`load`; what was there before stays if that fails.

        A file that is no plan is replaced only with ``force``, and one that this engine was loaded or built from never
        (Error of kind ``usage``).
        """
        self._native.save(os.fspath(path), force)

    @property
    def limits(self) -> ShapeLimits:
        """What is kept for shapes that come at run time; :meth:`set_limits` changes it."""
        return ShapeLimits(**self._native.limits())

    def set_limits(self, *, plans: int | None = None, plan_bytes: int | None = None, prepared: int | None = None,
                   prepared_bytes: int | None = None) -> None:
        """Changes the limits that are given, from now on and also for sessions that exist (with their next new shape); each is at least 1."""
        given = {"plans": plans, "plan_bytes": plan_bytes, "prepared": prepared, "prepared_bytes": prepared_bytes}
        self._native.set_limits({name: value for name, value in given.items() if value is not None})

    def statistics(self) -> EngineStatistics:
        """How many plans the engine holds, what they take, and how many it made and let go."""
        return EngineStatistics(**self._native.statistics())

    def close(self) -> None:
        """Lets go of the engine; it and its sessions refuse to run afterwards. A second call does nothing."""
        self._native.close()
        self._local = threading.local()  # with the sessions of all threads

    @property
    def closed(self) -> bool:
        return self._native.is_closed()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        raise TypeError("an engine cannot be pickled: save() it, and load() it in the other process")

    def __repr__(self) -> str:
        if self.closed:
            return "<temper.Engine, closed>"
        ports = lambda listed: ", ".join(f"{p.name}: {p.dtype}{list(p.shape)}" for p in listed)  # noqa: E731
        return f"<temper.Engine {self.precision} on {self.device}, {ports(self.inputs)} -> {ports(self.outputs)}>"


def load(path: str | os.PathLike[str], *, cuda_path: str | os.PathLike[str] | None = None, map_file: bool = False) -> Engine:
    """Reads a plan file, written by :meth:`Engine.save` or ``temper build``, into memory: whoever replaces, rewrites or deletes the
    file afterwards changes nothing for the engine. ``cuda_path``: as of :func:`build`. A plan is to be trusted like a program.

    ``map_file=True`` maps the file instead, so that processes share its pages. Then nobody may write to it or cut it while the engine
    or a session of it lives: a file that is cut ends the process by SIGBUS, one that is rewritten in place changes the answers.
    Replacing it by rename, as ``save`` and ``temper build`` do, is safe.

    Raises Error: ``bad_file`` for one that is missing or damaged, ``unsupported``, with the command that builds it
    again, for one of another machine or version.
    """
    return Engine(_temper.load(os.fspath(path), _cuda_folders(cuda_path), map_file))
