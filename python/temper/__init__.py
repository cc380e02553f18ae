# SPDX-License-Identifier: Apache-2.0
"""Temper from Python: build a model, run it, measure it.

>>> engine = temper.build("model.onnx")
>>> outputs = engine.run({"x": array})
"""
from ._error import Error

try:
    from ._temper import Session, __version__
    from ._engine import Engine, Port, load
    from ._build import build
except ModuleNotFoundError as _error:  # python -m temper export needs neither: in a checkout, or to say what to install
    if _error.name not in ("temper._temper", "numpy"):
        raise
    _missing = _error.name

    def __getattr__(name: str) -> object:
        if name in __all__:
            raise ImportError(f"temper.{name} needs {_missing}, which is not there; python -m pip install . in Temper's checkout brings it", name=_missing)
        raise AttributeError(f"module 'temper' has no attribute '{name}'")


__all__ = ["Engine", "Error", "Port", "Session", "__version__", "build", "load"]
