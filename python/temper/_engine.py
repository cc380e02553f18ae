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
from ._check import text, whole
from ._error import Error, must_exist
from ._show import table
from ._speech import python_of

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
        return [python_of(note) for note in self._native.info()["notes"]]

    @property
    def preprocess(self) -> dict[str, str]:
        """By input that takes pictures: how they become tensors, as the calibration, :func:`build` or the model said it. What reads
        pictures for the engine goes by it, and warns where it is told otherwise."""
        return self._native.info()["preprocess"]

    def run(self, inputs: Inputs, outputs: Outputs | None = None, *, stream: int | None = None) -> dict[str, Any]:
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
        stream
            For arrays of a GPU: the address of a CUDA stream of the engine's context (``torch.cuda.Stream.cuda_stream``; 0 is the
            default stream), in whose order the run is put. Then ``outputs`` are given, nothing waits, and what only shows while
            the work is done (an index out of range) is the error of a later call that waits. While the stream is captured, the run
            becomes part of that CUDA graph; a run on the same shapes must have come before.

        Returns
        -------
        dict
            By output name: a new numpy array or, where the inputs lie on a GPU, a :class:`DeviceArray`, which
            ``torch.from_dlpack`` takes; or what was given as ``outputs``. All is written when this returns, but for a run in a ``stream``.

        Raises
        ------
        Error
            ``usage`` for a wrong name, dtype, shape, order or device, and for a closed engine.
        """
        try:
            session = self._local.session
        except AttributeError:
            session = self._local.session = _temper.Session(self._native)
        return session.run(inputs, outputs, stream=stream)

    def __call__(self, *inputs: Array, **named: Array) -> Any:
        """Runs once, as a function of the model's inputs: in their order, by name, or both.

        >>> scores = engine(pictures)

        Returns
        -------
        The answer where the model has one output, otherwise a tuple in the order of :attr:`outputs`.

        Raises
        ------
        Error
            As :meth:`run`; ``usage`` for too many inputs, and for one that is given twice.
        """
        ports = [port.name for port in self.inputs]
        if len(inputs) > len(ports):
            raise Error(f"{len(inputs)} inputs were given; the engine takes {len(ports)}: {', '.join(ports)}")
        given = dict(zip(ports, inputs))
        for name, value in named.items():
            if name in given:
                raise Error(f"the input '{name}' is given twice")
            if name not in ports:
                raise Error(f"there is no input '{name}'; the engine takes: {', '.join(ports)}")
            given[name] = value
        answers = tuple(self.run(given).values())
        return answers[0] if len(answers) == 1 else answers

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

    def session(self, *, state: Mapping[str, str] | None = None) -> _temper.Session:
        """A session of one's own, for one thread at a time. It keeps the memory that a run works in.

        Parameters
        ----------
        state
            Of a model that is run on one piece of a stream after the other: inputs, each with the output of a run that is this input
            of the next, such as ``{"state": "stateN"}``. Such inputs may be left out of :meth:`run`: at first they are zeros, then what
            the last run left, which is kept where it lies and not copied. One that is given is where the state goes on from. Such
            outputs are not among the results; ``session.state()`` copies what is kept, and ``session.reset()`` begins again.

        Raises
        ------
        Error
            ``usage`` for an unknown name, one that is in two states, and an output that cannot be that input.
        """
        return _temper.Session(self._native, {} if state is None else dict(state))

    def inspect(self, *, layers: bool = False, graph: bool = False, why: str = "") -> dict[str, Any]:
        """What the engine holds, as ``temper inspect --json`` has it of a plan file.

        ``layers``: every step with its kernel; ``graph``: the text of the optimised graph; ``why``: the name of a node,
        what was chosen for it, what lost and by how much (Error of kind ``usage`` with similar names where there is none).
        """
        return json.loads(self._native.inspect(layers, graph, why))

    def output_shapes(self, shapes: Mapping[str, Sequence[int]] | Sequence[Sequence[int]]) -> dict[str, tuple[int | None, ...]]:
        """The shape of each output for inputs of these shapes (by name, or in the order of :attr:`inputs`), without planning or running
        anything; None for a dimension that depends on data. Error of kind ``usage`` for shapes that the engine does not take."""
        if isinstance(shapes, Mapping):
            names = [port.name for port in self.inputs]
            if set(shapes) != set(names):
                raise Error(f"shapes of {', '.join(map(repr, shapes))} were given; the inputs are {', '.join(map(repr, names))}")
            shapes = [shapes[name] for name in names]
        given = [[whole("a dimension", dim, 0) for dim in shape] for shape in shapes]
        return dict(zip((port.name for port in self.outputs), self._native.output_shapes(given)))

    def to_bytes(self) -> bytes:
        """The bytes of the file that :meth:`save` would write, for :func:`load`."""
        return self._native.to_bytes()

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
        self._native.set_limits({name: whole(name, value) for name, value in given.items() if value is not None})

    def statistics(self) -> EngineStatistics:
        """How many plans the engine holds, what they take, and how many it made and let go."""
        return EngineStatistics(**self._native.statistics())

    def _repr_html_(self) -> str:
        if self.closed:
            return table(("engine",), [("closed",)])
        ports = [("input", p.name, p.dtype, str(p.shape)) for p in self.inputs] + [("output", p.name, p.dtype, str(p.shape)) for p in self.outputs]
        name = self._native.info()["model"]
        return table(("", "name", "dtype", "shape"), ports, caption=f"{name or 'engine'}: {self.precision} on {self.device}, {self.threads} threads", notes=self.notes)

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


def load(path: str | os.PathLike[str] | bytes, *, device: str | None = None, cuda_path: str | os.PathLike[str] | None = None,
         map_file: bool = False, cuda_context: int = 0) -> Engine:
    """Reads a plan file, written by :meth:`Engine.save` or ``temper build``, into memory: whoever replaces, rewrites or deletes the
    file afterwards changes nothing for the engine. Bytes are those of such a file (:meth:`Engine.to_bytes`). ``cuda_path`` and
    ``cuda_context``: as of :func:`build`. A plan is to be trusted like a program.

    ``device`` is where it runs, of the kind that the plan was built for: ``"cuda:1"`` for a plan of ``"cuda:0"``, which must be the
    same GPU by its fingerprint. Without it, the device that the plan names.

    ``map_file=True`` maps the file instead, so that processes share its pages. Then nobody may write to it or cut it while the engine
    or a session of it lives: a file that is cut ends the process by SIGBUS, one that is rewritten in place changes the answers.
    Replacing it by rename, as ``save`` and ``temper build`` do, is safe.

    Raises Error: ``bad_file`` for one that is missing or damaged, ``unsupported``, with the command that builds it
    again, for one of another machine or version, ``usage`` for a device of another kind.
    """
    if map_file and isinstance(path, bytes):
        raise Error("map_file is for a file; a plan in memory is always copied")
    if not isinstance(path, bytes):
        must_exist(path, "the plan")
    plan = path if isinstance(path, bytes) else os.fspath(path)
    return Engine(_temper.load(plan, text("device", device or ""), _cuda_folders(cuda_path), map_file, cuda_context))
