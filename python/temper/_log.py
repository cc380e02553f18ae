# SPDX-License-Identifier: Apache-2.0
"""Messages of the library."""
from __future__ import annotations

from collections.abc import Callable

from . import _temper
from ._speech import python_of


def set_log_callback(callback: Callable[[str, str], object] | None) -> None:
    """Has ``callback(level, message)`` called for every message; None, as at first: for none.

    ``level`` is ``"debug"``, ``"info"`` or ``"warning"``. It is called from whatever thread the message comes from; what
    it raises goes to ``sys.unraisablehook``.
    """
    if callable(callback):
        tell = callback
        _temper.set_log_callback(lambda level, message: tell(level, python_of(message)))
    else:
        _temper.set_log_callback(callback)  # None, or refused
