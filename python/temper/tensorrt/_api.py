# SPDX-License-Identifier: Apache-2.0
"""Gives the module the names of a release. Which name came and went with which, and what is refused, is in a table that all languages share
(src/nvinfer/api_table.cc)."""
from __future__ import annotations

import sys
from typing import Any, NamedTuple

from .. import _temper
from . import _builder, _enums, _host_cuda, _layers, _network, _runtime, _values

RELEASES: tuple[str, ...] = tuple(_temper.nv_releases())
_VERSIONS = {"8.6": "8.6.1", "10.13": "10.13.3", "11.1": "11.1.0"}


class Name(NamedTuple):
    """A name of TensorRT's Python API."""

    owner: str  # a class; "": the module
    name: str
    first: int  # of RELEASES
    last: int
    early: Any  # it harms nobody, and is shown in releases before the first, too
    refused: str  # why it is not here; "": it is

    def is_in(self, release: int) -> Any:
        """Whether programs for that release see it here."""
        return not self.refused and (self.early or self.first <= release) and release <= self.last


TABLE = [Name(*row) for row in _temper.nv_api()]

_EVERYTHING: dict[str, Any] = {**vars(_values), **vars(_layers), **vars(_network), **vars(_builder), **vars(_runtime), **_enums.ALL}
_EVERYTHING.update(_values.TYPES)
_removed: dict[tuple[str, str], Any] = {}
_shown: list[str] = []
_release = RELEASES[0]


def stand_in(name: str, api: str, device: str = "") -> None:
    """Makes temper.tensorrt the module of that name in this process, with the names of a release; ``device``: what builders build for."""
    use(api)
    module = sys.modules["temper.tensorrt"]
    _builder.default_device = device
    sys.modules[name] = sys.modules[name + ".tensorrt"] = module
    if device == "cpu":  # asked for: what programs hold their buffers with
        _host_cuda.install()
    print(f"temper: import {name} is Temper {module.__version__} in this process", file=sys.stderr)


def use(api: str) -> None:
    """Gives the module and its classes the names of that release: those that it does not have are absent, as ``hasattr`` tells."""
    global _release
    if api not in RELEASES:
        raise ValueError(f"there is no API {api!r}; there are {', '.join(RELEASES)}")
    module, at = sys.modules["temper.tensorrt"], RELEASES.index(api)
    _release = api
    _builder.release = at
    _enums.use(at)
    for name in _shown:
        delattr(module, name)
    _shown.clear()
    _enums.REFUSED.clear()
    for row in TABLE:
        if row.refused:
            if row.first <= at <= row.last:
                _enums.REFUSED[row.owner, row.name] = row.refused
        elif not row.owner:
            if row.is_in(at):
                setattr(module, row.name, _EVERYTHING[row.name])
                _shown.append(row.name)
        else:
            _show(_EVERYTHING[row.owner], row)
    module.__version__ = _VERSIONS[api] + "+temper"  # type: ignore[attr-defined]


def _show(cls: type, row: Name) -> None:
    """Gives the class the name, or takes it away."""
    kept = (row.owner, row.name)
    if row.is_in(RELEASES.index(_release)):
        if kept in _removed:
            value = _removed.pop(kept)
            setattr(cls, row.name, value)
            if isinstance(value, cls):
                cls.__members__[row.name] = value  # type: ignore[attr-defined]
    elif row.name in vars(cls):
        _removed[kept] = vars(cls)[row.name]
        delattr(cls, row.name)
        if isinstance(_removed[kept], cls):
            del cls.__members__[row.name]  # type: ignore[attr-defined]


def names_of_module() -> list[str]:
    """Of the release in use, and what Python's own modules have."""
    module = sys.modules["temper.tensorrt"]
    return sorted([*_shown, *(name for name in vars(module) if name.startswith("__"))])


def attribute_of_module(name: str) -> object:
    """What is no name of the release: TensorRT's package has its extension, ``tensorrt``, in it; otherwise AttributeError with the reason."""
    if name == "tensorrt":
        return sys.modules["temper.tensorrt"]
    why = _enums.REFUSED.get(("", name))
    raise AttributeError(f"module 'tensorrt' has no attribute {name!r}" + (f": it is not in Temper: {why}" if why else ""))
