# SPDX-License-Identifier: Apache-2.0
"""Text to tokens and back by the library tokenizers, for this package and for the program (python -m temper tokenize FILE)."""
from __future__ import annotations

import copy
import json
import os
import pathlib
import sys
from typing import Any


def ends_of(folder: pathlib.Path) -> list[int]:
    """Tokens that end a text, as the folder of a transformers model names them."""
    for name in ("generation_config.json", "config.json"):
        try:
            value = json.loads((folder / name).read_text(encoding="utf-8")).get("eos_token_id")
        except (OSError, ValueError, AttributeError):
            continue
        ids = value if isinstance(value, list) else [value]
        if ids and all(isinstance(one, int) and not isinstance(one, bool) and one >= 0 for one in ids):
            return ids
    return []


class Tokenizer:
    """A tokenizer.json, or the folder that has one."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        import tokenizers

        file = pathlib.Path(path)
        if file.is_dir():
            file /= "tokenizer.json"
        self._tokenizer: Any = tokenizers.Tokenizer.from_file(str(file))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self.ends = ends_of(file.parent)

    def encode(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text).ids)

    def decode(self, ids: list[int]) -> str:
        return str(self._tokenizer.decode(ids, skip_special_tokens=False))


class GrowingText:
    """Text that grows token by token: a token may hold a part of a letter, and letters a part of a text to stop at."""

    def __init__(self, tokenizer: Tokenizer, stops: list[str]) -> None:
        self._tokenizer, self._stops = tokenizer, stops
        self._ids: list[int] = []
        self._before = self._known = 0
        self._held = ""
        self.stopped = False

    def add(self, token: int) -> str:
        self._ids.append(token)
        return self._take(self._piece(False), False)

    def rest(self) -> str:
        return self._take(self._piece(True), True)

    def copy(self) -> GrowingText:
        other = copy.copy(self)
        other._ids = list(self._ids)
        return other

    def _piece(self, last: bool) -> str:
        if self._known == len(self._ids):
            return ""
        known = self._tokenizer.decode(self._ids[self._before : self._known])
        text = self._tokenizer.decode(self._ids[self._before :])
        if len(text) <= len(known) or (text.endswith("\ufffd") and not last):
            return ""
        self._before, self._known = self._known, len(self._ids)
        return text[len(known) :]

    def _take(self, piece: str, last: bool) -> str:
        self._held += piece
        found = [at for at in (self._held.find(stop) for stop in self._stops) if at >= 0]
        if found:
            self.stopped = True
            shown, self._held = self._held[: min(found)], ""
            return shown
        end = len(self._held)
        for stop in self._stops if not last else []:
            end = min([end, *(len(self._held) - n for n in range(1, min(len(stop), len(self._held) + 1)) if self._held.endswith(stop[:n]))])
        shown, self._held = self._held[:end], self._held[end:]
        return shown


def serve(path: str) -> int:
    """Answers each line of standard input, {"encode": text} or {"decode": ids}, with one of standard output."""

    def say(answer: dict[str, Any]) -> None:
        print(json.dumps(answer), flush=True)

    try:
        tokenizer = Tokenizer(path)
    except ImportError:
        say({"lacks": "tokenizers"})
        return 4
    except Exception as error:  # the library raises Exception itself
        say({"error": str(error)})
        return 3
    say({"ends": tokenizer.ends})
    for line in sys.stdin:
        try:
            asked = json.loads(line)
            say({"ids": tokenizer.encode(asked["encode"])} if "encode" in asked else {"text": tokenizer.decode(asked["decode"])})
        except Exception as error:
            say({"error": str(error)})
    return 0
