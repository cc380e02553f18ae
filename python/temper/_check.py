# SPDX-License-Identifier: Apache-2.0
"""What arguments must be: the native module is given nothing else, so that what is wrong has its name in the message."""
from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

from ._error import ArgumentTypeError, UsageError


def _wrong(name: str, value: Any, wanted: str) -> ArgumentTypeError:
    return ArgumentTypeError(f"{name} is {value!r}, a {type(value).__name__}; it must be {wanted}")


def whole(name: str, value: Any, least: int | None = None, why: str = "", most: int = 2**63 - 1) -> int:
    """A whole number, numpy's too, of at least ``least`` and at most ``most``; the native module has 64 bits for one."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise _wrong(name, value, "a whole number")
    try:
        given = operator.index(value)
    except TypeError:  # an array
        raise _wrong(name, value, "a whole number") from None
    if least is not None and given < least:
        raise UsageError(f"{name} is {value}; " + (why or f"it must be {least} or more"))
    if given < -(2**63):
        raise UsageError(f"{name} is {value}; it must be {-(2**63)} or more")
    if given > most:
        raise UsageError(f"{name} is {value}; it must be {most} or less")
    return given


def seed_of(seed: Any) -> int:
    """A seed: 64 bits without a sign."""
    return whole("seed", seed, 0, most=2**64 - 1)


def wholes(name: str, each: str, values: Any) -> list[int]:
    """A list of whole numbers; ``each`` names one of them."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise _wrong(name, values, "a list of whole numbers")
    return [whole(each, one) for one in values]


def number(name: str, value: Any, above: float | None = None) -> float:
    """A number, numpy's too, above ``above``."""
    if isinstance(value, (bool, str, bytes)) or not (hasattr(value, "__float__") or hasattr(value, "__index__")):
        raise _wrong(name, value, "a number")
    try:
        given = float(value)
    except (TypeError, ValueError):
        raise _wrong(name, value, "a number") from None
    if above is not None and not given > above:
        raise UsageError(f"{name} is {value}; it must be above {above:g}")
    return given


def limits(**given: Any) -> dict[str, Any]:
    """Those of them that are not None, for the native module: ``memory_limit``, ``node_limit``, ``depth_limit``, ``loop_limit``, ``build_limit``."""
    checked: dict[str, Any] = {}
    for name, limit in given.items():
        if limit is not None:
            checked[name] = number(name, limit, 0) if name == "build_limit" else whole(name, limit, int(name != "memory_limit"))
    return checked


def text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise _wrong(name, value, "a string")
    return value


def flag(name: str, value: Any) -> bool:
    if not (isinstance(value, bool) or type(value).__name__ == "bool" or type(value).__name__ == "bool_"):
        raise _wrong(name, value, "True or False")
    return bool(value)


def names(name: str, value: Any) -> list[str]:
    """A list of strings; one string is a list of one."""
    if isinstance(value, str):
        return [value]
    if not isinstance(value, Iterable):
        raise _wrong(name, value, "a list of names")
    return [text(f"a name in {name}", one) for one in value]
