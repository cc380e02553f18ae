# SPDX-License-Identifier: Apache-2.0
"""What long work shows where no function is told: a bar in a terminal and in a notebook, nothing elsewhere."""
from __future__ import annotations

import functools
import shutil
import sys
import time
from collections.abc import Callable
from typing import Any, Literal, TypeVar, Union, cast

Progress = Union[Callable[[str], object], Literal[False], None]
"""Of a function that takes long: what is called with a line of text now and then. None: a bar in a terminal or a notebook. False: nothing."""
Function = TypeVar("Function", bound=Callable[..., Any])

_QUIET = 0.5  # seconds without a bar: what is done by then needs none
_BETWEEN = 0.1


class Bar:
    """Is called with lines that the native module makes as wide as ``bar_width`` says."""

    bar_width = 100

    def __init__(self) -> None:
        self.next = time.monotonic() + _QUIET
        self.shown = False

    def __call__(self, line: str) -> None:
        if time.monotonic() >= self.next:
            self.next = time.monotonic() + _BETWEEN
            self.draw(line)
            self.shown = True

    def close(self) -> None:
        if self.shown:
            self.draw("")

    def draw(self, line: str) -> None:
        raise NotImplementedError


class TerminalBar(Bar):
    @property
    def bar_width(self) -> int:  # type: ignore[override]  # a terminal may be made wider meanwhile
        return shutil.get_terminal_size().columns - 1

    def draw(self, line: str) -> None:
        sys.stderr.write(f"\r\x1b[K{line}")
        sys.stderr.flush()


class NotebookBar(Bar):
    def __init__(self) -> None:
        super().__init__()
        self.handle: Any = None

    def draw(self, line: str) -> None:
        text = {"text/plain": line}
        if self.handle is None:
            from IPython.display import display

            self.handle = display(text, raw=True, display_id=True)
        else:
            self.handle.update(text, raw=True)


def bar() -> Bar | None:
    """The one for where this process shows its output; None for pipes and files."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if hasattr(shell, "kernel"):
        return NotebookBar()
    return TerminalBar() if sys.stderr is not None and sys.stderr.isatty() else None


def shows_progress(function: Function) -> Function:
    """Gives ``function`` a bar where its argument ``progress`` is None."""

    @functools.wraps(function)
    def shown(*arguments: Any, progress: Progress = None, **named: Any) -> Any:
        drawn = bar() if progress is None else None
        try:
            return function(*arguments, progress=drawn if progress is None else None if progress is False else progress, **named)
        finally:
            if drawn is not None:
                drawn.close()

    return cast(Function, shown)
