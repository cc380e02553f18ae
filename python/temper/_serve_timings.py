# SPDX-License-Identifier: Apache-2.0
"""The process that times candidates of NVIDIA's libraries while another one builds: it may lose the GPU, the other may not."""
from __future__ import annotations

import os
import sys


def command() -> list[str]:
    """What starts it, without the device; empty where this Python cannot be started again."""
    if not sys.executable:
        return []
    # This very package, whatever the current folder holds.
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return [sys.executable, "-c", f"import sys; sys.path[0] = {package!r}; from temper._serve_timings import main; main(sys.argv[1:])"]


def main(arguments: list[str]) -> None:
    from . import _temper

    os._exit(_temper.serve_timings(arguments))
