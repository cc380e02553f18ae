# SPDX-License-Identifier: Apache-2.0
"""TensorRT's Python API for engines of Temper: programs that were written for TensorRT build from ONNX and run, unchanged.

``python -m temper.tensorrt SCRIPT`` runs one, with this module in the place of ``tensorrt``; ``import temper.tensorrt as trt`` works, too.
docs/tensorrt.md says what is there. What is not is absent: ``hasattr`` tells, and the AttributeError says why. Where TensorRT gives None or
False, so does this, and the program's logger has a line that says why.
"""
from . import _api

_api.use("8.6")


def __getattr__(name: str) -> object:
    return _api.attribute_of_module(name)


def __dir__() -> list[str]:
    return _api.names_of_module()
