# SPDX-License-Identifier: Apache-2.0
"""The exceptions of the package: one class, with a subclass for each kind that is also what Python calls such an error."""
from __future__ import annotations

import os

from ._speech import python_of


class Error(Exception):
    """What ends an operation of Temper. The message says what, where and what to do next.

    Every error is an instance of a subclass: :class:`UsageError` (a ``ValueError``), :class:`FileError` (an ``OSError``),
    :class:`UnsupportedError` (a ``NotImplementedError``), :class:`MachineError` (a ``RuntimeError``) or :class:`CheckFailed`.

    Attributes
    ----------
    kind : str
        ``"usage"`` (wrong arguments: a name, dtype, shape, order or device; a closed engine), ``"bad_file"`` (missing,
        damaged or not what it should be), ``"unsupported"`` (not implemented exactly, or made for another machine or
        version), ``"machine"`` (out of memory, disk full, device failure) or ``"check_failed"`` (a limit was not met).
    """

    kind: str

    def __new__(cls, message: str = "", kind: str = "usage") -> Error:
        made = _CLASSES[kind] if cls is Error else cls
        return super(Error, made).__new__(made, message)

    def __init__(self, message: str, kind: str = "usage") -> None:
        super().__init__(message)
        self.kind = _KINDS.get(type(self), kind)

    def __str__(self) -> str:
        return str(self.args[0])

    def __reduce__(self) -> tuple[type[Error], tuple[str, str]]:
        return type(self), (str(self), self.kind)  # across processes with its kind


class UsageError(Error, ValueError):
    """Wrong arguments."""


class ArgumentTypeError(UsageError, TypeError):
    """An argument of a type that is not taken."""


class FileError(Error, OSError):
    """A file that is damaged, or not what it should be."""


class MissingFileError(FileError, FileNotFoundError):
    """A file that is not there."""


class UnsupportedError(Error, NotImplementedError):
    """Not implemented exactly, or made for another machine or version."""


class MissingPackageError(UnsupportedError, ImportError):
    """A package that is not installed."""


class MachineError(Error, RuntimeError):
    """Out of memory, disk full, device failure."""


class CheckFailed(Error):
    """A limit was not met."""


_CLASSES = {"usage": UsageError, "bad_file": FileError, "unsupported": UnsupportedError, "machine": MachineError, "check_failed": CheckFailed}
_KINDS = {UsageError: "usage", ArgumentTypeError: "usage", FileError: "bad_file", MissingFileError: "bad_file", UnsupportedError: "unsupported",
          MissingPackageError: "unsupported", MachineError: "machine", CheckFailed: "check_failed"}  # fmt: skip


def raised(message: str, kind: str) -> Error:
    """What the native module raises: the library's words, which name flags of the program, in those of Python."""
    return Error(python_of(message), kind)


def must_exist(path: str | os.PathLike[str], what: str) -> str:
    """The path, of a file or folder that is there."""
    text = os.fspath(path)
    if not os.path.exists(text):
        raise MissingFileError(f"{what} '{text}' is not there", "bad_file")
    return text
