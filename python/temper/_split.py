# SPDX-License-Identifier: Apache-2.0
"""A model in two parts."""
from __future__ import annotations

import os
from collections.abc import Iterable

from . import _temper
from ._check import names
from ._error import must_exist


def split(model: str | os.PathLike[str], inputs: str | Iterable[str], first: str | os.PathLike[str], rest: str | os.PathLike[str], *, force: bool = False) -> list[str]:
    """Writes the ONNX file ``model`` as two: ``first`` has what depends on these ``inputs`` alone, ``rest`` everything else.

    Gives the names of the values between them, outputs of the one and inputs of the other. While the inputs stay as they are from run to
    run, as the prompt of a diffusion model does, the first part runs once::

        temper.split("unet.onnx", "states", "prompt.onnx", "steps.onnx")

    Only what Temper wrote is replaced, other files with ``force``.
    """
    return _temper.split(must_exist(model, "the model"), names("inputs", inputs), os.fspath(first), os.fspath(rest), force)
