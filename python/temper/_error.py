# SPDX-License-Identifier: Apache-2.0
"""The one exception of the package."""
from __future__ import annotations


class Error(Exception):
    """What ends an operation of Temper. The message says what, where and what to do next.

    Attributes
    ----------
    kind : str
        ``"usage"`` (wrong arguments: a name, dtype, shape, order or device; a closed engine), ``"bad_file"`` (missing,
        damaged or not what it should be), ``"unsupported"`` (not implemented exactly, or made for another machine or
        version), ``"machine"`` (out of memory, disk full, device failure) or ``"check_failed"`` (a limit was not met).
    """

    def __init__(self, message: str, kind: str = "usage") -> None:
        super().__init__(message)
        self.kind = kind

    def __reduce__(self) -> tuple[type[Error], tuple[str, str]]:
        return type(self), (str(self), self.kind)  # across processes with its kind
