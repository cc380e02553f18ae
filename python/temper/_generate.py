# SPDX-License-Identifier: Apache-2.0
"""Text or tokens that a language model goes on with."""
from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Union

from . import _temper
from ._build import build
from ._check import names, number, whole, wholes
from ._engine import Engine, load
from ._error import Error, MissingPackageError, must_exist
from ._model import Model
from ._tokens import GrowingText, Tokenizer

Prompt = Union[str, Sequence[int]]


@dataclasses.dataclass(frozen=True)
class Token:
    """One token of an answer."""

    id: int
    text: str
    """What can be shown since the token before: letters may take several tokens. Empty without a tokenizer."""


class Generation:
    """An answer that grows: an iterator of :class:`Token`, from :func:`generate`. It can be left at any token."""

    def __init__(self, reader: _temper.TokenReader, ids: list[int], options: dict[str, Any], tokenizer: Tokenizer | None, stops: list[str], ends: list[int]) -> None:
        self._native = _temper.Generator(reader, [ids], options)
        self._growing = GrowingText(tokenizer, stops) if tokenizer else None
        self._ends = ends
        self.prompt_ids: tuple[int, ...] = tuple(ids)
        self.ids: list[int] = []
        """Tokens so far, also the one that ended the text."""
        self.text = ""

    def __iter__(self) -> Iterator[Token]:
        return self

    def __next__(self) -> Token:
        chosen = self._native.next()
        if not chosen:
            raise StopIteration
        token = chosen[0]
        self.ids.append(token)
        piece = ""
        if self._growing is not None:
            if not (self._native.why(0) == "end" and token in self._ends):
                piece = self._growing.add(token)
            if self._growing.stopped:
                self._native.end(0, "stop")
            elif self._native.why(0):
                piece += self._growing.rest()
        self.text += piece
        return Token(token, piece)

    @property
    def why(self) -> str:
        """Why it ended: ``"end"`` (a token that ends a text), ``"stop"`` (a text to stop at), ``"most"``, ``"room"`` (the cache is full); ``""`` before."""
        return self._native.why(0)

    @property
    def first_ms(self) -> float:
        """From the prompt to the first token."""
        return self._native.first_ms

    @property
    def tokens_per_second(self) -> float | None:
        """Behind the first token; None before there are any."""
        behind = self._native.tokens - 1
        return behind / (self._native.rest_ms / 1000) if behind > 0 and self._native.rest_ms > 0 else None


def _tokenizer_of(tokenizer: Any, model: Any) -> Tokenizer | None:
    if tokenizer is None and isinstance(model, (str, os.PathLike)):
        beside = pathlib.Path(model).parent / "tokenizer.json"
        tokenizer = beside if beside.is_file() else None
    if tokenizer is None or isinstance(tokenizer, Tokenizer):
        return tokenizer
    path = must_exist(tokenizer, "the tokenizer")
    try:
        return Tokenizer(path)
    except ImportError as error:
        raise MissingPackageError("text needs the package tokenizers: python -m pip install tokenizers; or give token ids", "unsupported") from error


def generate(
    model: Engine | Model,
    prompt: Prompt,
    *,
    tokenizer: str | os.PathLike[str] | Tokenizer | None = None,
    max_tokens: int = 128,
    temperature: float = 0.0,
    top_k: int = 0,
    top_p: float = 1.0,
    repetition_penalty: float = 1.0,
    seed: int = 0,
    stop: str | Iterable[str] = (),
    stop_ids: Iterable[int] = (),
    ignore_end: bool = False,
    **options: Any,
) -> Generation:
    """Goes on from a prompt, token by token.

    >>> for token in temper.generate(engine, "Once upon a time", tokenizer="gpt2/"):
    ...     print(token.text, end="", flush=True)

    Parameters
    ----------
    model
        An engine that was built with ``cache``, the path of its plan, or a model as for :func:`build`, which takes ``options``
        (``cache=1024`` among them). Each generation has caches of its own.
    prompt
        A text, for which a tokenizer is needed, or token ids.
    tokenizer
        A ``tokenizer.json``, or the folder that has one; by default the one beside the model's file.
    max_tokens
        At most so many.
    temperature
        What logits are divided by before a token is drawn; 0 takes the most likely one.
    top_k, top_p
        Only the ``top_k`` most likely tokens are drawn from (0: all), and of those the fewest whose probabilities sum to ``top_p``.
    repetition_penalty
        Makes tokens that came before less likely: their logits are divided by it where they are above 0, and multiplied where not.
    seed
        Of what is drawn; a whole number below 2**64.
    stop, stop_ids
        Texts to stop at, which are not shown, and tokens to stop behind.
    ignore_end
        Whether it goes on behind the tokens that end a text, as the folder of the tokenizer names them.

    Raises
    ------
    Error
        ``usage`` for a prompt that is empty or longer than the cache, tokens outside of the vocabulary, and settings out of range.
    """
    found = _tokenizer_of(tokenizer, model)
    stops = names("stop", stop)
    if any(not one for one in stops):
        raise Error("stop holds an empty text")
    if isinstance(prompt, str):
        if found is None:
            raise Error("a prompt of text needs a tokenizer: tokenizer='FOLDER', or give token ids")
        ids = found.encode(prompt)
    else:
        ids = wholes("the prompt", "a token of the prompt", prompt)
    if stops and found is None:
        raise Error("stop needs a tokenizer: tokenizer='FOLDER'; stop_ids does without")
    if isinstance(model, Engine):
        if options:
            raise Error(f"{', '.join(options)} of an engine cannot be changed; leave it out")
        engine = model
    elif isinstance(model, (str, os.PathLike)) and _temper.is_plan(os.fspath(model)):
        engine = load(model, **options)
    elif not options.get("cache"):
        raise Error("the model is no plan: say with cache=1024, or another number, how many tokens, prompt and answer together, it shall keep")
    else:
        engine = build(model, **options)
    reader = _temper.TokenReader(engine._native)
    if reader.batch != 1:
        raise Error(f"the engine has a batch of {reader.batch}; generate takes one prompt")
    ends = [] if found is None or ignore_end else [one for one in found.ends if one < reader.vocabulary]
    native = {"max_tokens": whole("max_tokens", max_tokens, 1), "temperature": number("temperature", temperature), "top_k": whole("top_k", top_k, 0),
              "top_p": number("top_p", top_p), "repetition_penalty": number("repetition_penalty", repetition_penalty), "seed": whole("seed", seed, 0, most=2**64 - 1),
              "end_with": wholes("stop_ids", "a token of stop_ids", stop_ids) + ends}  # fmt: skip
    return Generation(reader, ids, native, found, stops, ends)
