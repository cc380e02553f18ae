# SPDX-License-Identifier: Apache-2.0
"""Temper from Python: build a model, run it, measure it.

>>> engine = temper.build("model.onnx")
>>> outputs = engine.run({"x": array})
"""
from ._error import Error
from ._temper import Session, __version__
from ._engine import Engine, Port, load
from ._build import build

__all__ = ["Engine", "Error", "Port", "Session", "__version__", "build", "load"]
