# SPDX-License-Identifier: Apache-2.0
"""A model in two parts."""
from __future__ import annotations

import os
from collections.abc import Iterable

from . import _temper
from ._check import limits, names
from ._error import must_exist


def split(model: str | os.PathLike[str], inputs: str | Iterable[str], first: str | os.PathLike[str], rest: str | os.PathLike[str], *, force: bool = False, memory_limit: int | None = None, node_limit: int | None = None, depth_limit: int | None = None) -> list[str]:
    """Writes the ONNX file ``model`` as two: ``first`` has what depends on these ``inputs`` alone, ``rest`` everything else.

    Gives the names of the values between them, outputs of the one and inputs of the other. While the inputs stay as they are from run to
    run, as the prompt of a diffusion model does, the first part runs once::

        temper.split("unet.onnx", "states", "prompt.onnx", "steps.onnx")

    Only what Temper wrote is replaced, other files with ``force``. ``memory_limit``, ``node_limit`` and ``depth_limit`` as for :func:`build`.
    """
    return _temper.split(must_exist(model, "the model"), names("inputs", inputs), os.fspath(first), os.fspath(rest), force, limits(memory_limit=memory_limit, node_limit=node_limit, depth_limit=depth_limit))
