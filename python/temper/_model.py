# SPDX-License-Identifier: Apache-2.0
"""What a model may be given as."""
from __future__ import annotations

import os
from typing import Any

from . import _temper
from ._error import ArgumentTypeError, must_exist
from ._graph import Graph

Model = Any
"""A path of an ONNX file, its bytes, an ``onnx.ModelProto``, or a :class:`Graph`."""


def model_of(model: Model) -> str | bytes | _temper.Graph:
    """What the native module takes."""
    if isinstance(model, Graph):
        return model._native
    if isinstance(model, (bytes, bytearray, memoryview)):
        return bytes(model)
    if isinstance(model, (str, os.PathLike)):
        return must_exist(model, "the model")
    if hasattr(model, "SerializeToString"):
        return model.SerializeToString()
    raise ArgumentTypeError(f"the model is a {type(model).__name__}; it must be a path, the bytes of an ONNX file or an onnx.ModelProto")
