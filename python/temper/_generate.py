# SPDX-License-Identifier: Apache-2.0
"""Text or tokens that a language model goes on with."""
from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Union, overload

from . import _temper
from ._build import build
from ._check import names, number, seed_of, whole, wholes
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


class GeneratedRow:
    """What comes behind one of several prompts."""

    def __init__(self, generator: _temper.Generator, row: int, prompt_ids: tuple[int, ...], growing: GrowingText | None) -> None:
        self._native, self._row, self._growing = generator, row, growing
        self.prompt_ids = prompt_ids
        self.ids: list[int] = []
        """Tokens so far, also the one that ended the text."""
        self.text = ""

    @property
    def why(self) -> str:
        """Why it ended: ``"end"`` (a token that ends a text), ``"stop"`` (a text to stop at), ``"most"``, ``"room"`` (the cache is full); ``""`` before."""
        return self._native.why(self._row)

    def _take(self, token: int, ends: list[int]) -> Token:
        self.ids.append(token)
        piece = ""
        if self._growing is not None:
            if not (self.why == "end" and token in ends):
                piece = self._growing.add(token)
            if self._growing.stopped:
                self._native.end(self._row, "stop")
            elif self.why:
                piece += self._growing.rest()
        self.text += piece
        return Token(token, piece)

    def _copy(self, generator: _temper.Generator) -> GeneratedRow:
        other = GeneratedRow(generator, self._row, self.prompt_ids, self._growing.copy() if self._growing else None)
        other.ids, other.text = list(self.ids), self.text
        return other


class Generations:
    """Answers to several prompts, which grow together: an iterator, from :func:`generate`, of a tuple with the next :class:`Token` of each, None of those that have ended."""

    def __init__(self, reader: _temper.TokenReader, generator: _temper.Generator, rows: list[GeneratedRow], ends: list[int]) -> None:
        self._reader, self._native, self._ends = reader, generator, ends
        self.rows = rows
        """What comes behind each prompt."""

    def __iter__(self) -> Iterator[tuple[Token | None, ...]]:
        return self

    def __next__(self) -> tuple[Token | None, ...]:
        chosen = self._native.next()
        if not chosen:
            raise StopIteration
        return tuple(None if token < 0 else row._take(token, self._ends) for token, row in zip(chosen, self.rows))

    def fork(self, seed: int | None = None) -> Generations:
        """The same answers so far, which go on by themselves, with caches of their own; with ``seed`` what comes next is drawn by that one."""
        reader = self._reader.fork()
        generator = self._native.fork(reader, None if seed is None else seed_of(seed))
        return Generations(reader, generator, [row._copy(generator) for row in self.rows], self._ends)

    @property
    def first_ms(self) -> float:
        """From the prompts to the first tokens."""
        return self._native.first_ms

    @property
    def tokens_per_second(self) -> float | None:
        """Of all answers, behind their first tokens; None before there are any."""
        behind = self._native.tokens - len(self.rows)
        return behind / (self._native.rest_ms / 1000) if behind > 0 and self._native.rest_ms > 0 else None


class Generation:
    """An answer that grows: an iterator of :class:`Token`, from :func:`generate`. It can be left at any token."""

    def __init__(self, one: Generations) -> None:
        self._one, self._answer = one, one.rows[0]

    def __iter__(self) -> Iterator[Token]:
        return self

    def __next__(self) -> Token:
        token = next(self._one)[0]
        assert token is not None  # the only row has not ended
        return token

    def fork(self, seed: int | None = None) -> Generation:
        """The same answer so far, which goes on by itself, with caches of its own; with ``seed`` what comes next is drawn by that one. So a prompt is read once for several answers."""
        return Generation(self._one.fork(seed))

    @property
    def prompt_ids(self) -> tuple[int, ...]:
        return self._answer.prompt_ids

    @property
    def ids(self) -> list[int]:
        """Tokens so far, also the one that ended the text."""
        return self._answer.ids

    @property
    def text(self) -> str:
        return self._answer.text

    @property
    def why(self) -> str:
        """Why it ended: ``"end"`` (a token that ends a text), ``"stop"`` (a text to stop at), ``"most"``, ``"room"`` (the cache is full); ``""`` before."""
        return self._answer.why

    @property
    def first_ms(self) -> float:
        """From the prompt to the first token."""
        return self._one.first_ms

    @property
    def tokens_per_second(self) -> float | None:
        """Behind the first token; None before there are any."""
        return self._one.tokens_per_second


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


def _ids_of(prompt: Prompt, tokenizer: Tokenizer | None) -> list[int]:
    if not isinstance(prompt, str):
        return wholes("the prompt", "a token of the prompt", prompt)
    if tokenizer is None:
        raise Error("a prompt of text needs a tokenizer: tokenizer='FOLDER', or give token ids")
    return tokenizer.encode(prompt)


def _is_several(prompt: Any) -> bool:
    """Whether it is a list of prompts: of texts, or of lists of token ids."""
    return isinstance(prompt, (list, tuple)) and len(prompt) > 0 and isinstance(prompt[0], (str, list, tuple))


@overload
def generate(model: Engine | Model, prompt: Prompt, **options: Any) -> Generation: ...
@overload
def generate(model: Engine | Model, prompt: Sequence[str] | Sequence[Sequence[int]], **options: Any) -> Generations: ...
def generate(
    model: Engine | Model,
    prompt: Prompt | Sequence[str] | Sequence[Sequence[int]],
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
) -> Generation | Generations:
    """Goes on from a prompt, or from several at once, token by token.

    >>> for token in temper.generate(engine, "Once upon a time", tokenizer="gpt2/"):
    ...     print(token.text, end="", flush=True)

    Parameters
    ----------
    model
        An engine that was built with ``cache``, the path of its plan, or a model as for :func:`build`, which takes ``options``
        (``cache=1024`` among them). Each generation has caches of its own.
    prompt
        A text, for which a tokenizer is needed, or token ids; or a list of these, of any lengths, for :class:`Generations`: an engine was built for as
        many (``shapes={"input_ids": [(4, 1), (4, 32), (4, 128)]}``).
    tokenizer
        A ``tokenizer.json``, or the folder that has one; by default the one beside the model's file.
    max_tokens
        At most so many.
    temperature
        What logits are divided by before a token is drawn; 0 takes the most likely one.
    top_k, top_p
        Only the ``top_k`` most likely tokens are drawn from (0: all), and of those the fewest whose probabilities sum to ``top_p``. These and ``seed``
        need a ``temperature``.
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
    several = _is_several(prompt)
    ids = [_ids_of(one, found) for one in (prompt if several else [prompt])]  # type: ignore[arg-type]
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
        if len(ids) > 1 and not options.get("shapes"):
            options["shapes"] = {"input_ids": [(len(ids), 1), (len(ids), min(32, options["cache"])), (len(ids), min(128, options["cache"]))]}
        engine = build(model, **options)
    reader = _temper.TokenReader(engine._native)
    if reader.batch != len(ids):
        raise Error(f"the engine has a batch of {reader.batch}, and there {'are' if len(ids) > 1 else 'is'} {len(ids)} prompt{'s' if len(ids) > 1 else ''}")
    ends = [] if found is None or ignore_end else [one for one in found.ends if one < reader.vocabulary]
    native = {"max_tokens": whole("max_tokens", max_tokens, 1), "temperature": number("temperature", temperature), "top_k": whole("top_k", top_k, 0),
              "top_p": number("top_p", top_p), "repetition_penalty": number("repetition_penalty", repetition_penalty), "seed": seed_of(seed),
              "end_with": wholes("stop_ids", "a token of stop_ids", stop_ids) + ends}  # fmt: skip
    if native["temperature"] == 0 and (native["top_k"] or native["top_p"] != 1 or native["seed"]):
        raise Error("top_k, top_p and seed draw tokens; give temperature above 0")
    generator = _temper.Generator(reader, ids, native)
    rows = [GeneratedRow(generator, row, tuple(one), GrowingText(found, stops) if found else None) for row, one in enumerate(ids)]
    generations = Generations(reader, generator, rows, ends)
    return generations if several else Generation(generations)
