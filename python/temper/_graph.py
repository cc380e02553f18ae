# SPDX-License-Identifier: Apache-2.0
"""The graph that a model is inside of Temper: portable, printable, parseable."""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy

from . import _temper
from ._engine import Inputs, Port, _ports
from ._show import table


class Graph:
    """A value: two graphs are equal when everything in them is. ``str(graph)`` is its text.

    Constants of more than 16 elements stand in the text as ``#0``, ``#1``, …: places in :attr:`blobs`.
    """

    def __init__(self, native: _temper.Graph) -> None:
        self._native = native

    @staticmethod
    def parse(text: str, blobs: Sequence[Any] = ()) -> Graph:
        """The inverse of ``str(graph)`` and :attr:`blobs`. Error of kind ``bad_file`` with the place of what is wrong."""
        return Graph(_temper.Graph.parse(text, list(blobs)))

    @staticmethod
    def from_onnx(model: Any) -> Graph:
        """Imports a model (as :func:`build` takes it), without any optimisation."""
        from ._model import model_of

        return Graph(_temper.Graph.from_onnx(model_of(model)))

    def _repr_html_(self) -> str:
        ports = [("input", *p) for p in ((p.name, p.dtype, str(p.shape)) for p in self.inputs)]
        ports += [("output", *p) for p in ((p.name, p.dtype, str(p.shape)) for p in self.outputs)]
        return table(("", "name", "dtype", "shape"), ports, caption=f"a graph of {self._native.node_count()} nodes")

    def to_onnx(self) -> bytes:
        """The bytes of an ONNX model. Error of kind ``unsupported`` for what ONNX cannot say exactly."""
        return self._native.to_onnx()

    def optimised(self, disable: Iterable[str] = ()) -> Graph:
        """After the passes, but for those named."""
        return Graph(self._native.optimised(list(disable)))

    def run(self, inputs: Inputs) -> dict[str, numpy.ndarray]:
        """Runs the reference of every op: slow, and what every kernel is judged by."""
        return self._native.run(inputs)

    @property
    def blobs(self) -> list[numpy.ndarray]:
        return self._native.text()[1]

    @property
    def inputs(self) -> list[Port]:
        return _ports(self._native.inputs())

    @property
    def outputs(self) -> list[Port]:
        return _ports(self._native.outputs())

    def __len__(self) -> int:
        return self._native.node_count()

    def __str__(self) -> str:
        return self._native.text()[0]

    def __repr__(self) -> str:
        return f"<temper.Graph of {len(self)} nodes>"

    def __eq__(self, other: object) -> bool:
        return self._native.equal(other._native) if isinstance(other, Graph) else NotImplemented

    def __hash__(self) -> int:
        return self._native.hash()
