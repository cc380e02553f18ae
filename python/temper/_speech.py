# SPDX-License-Identifier: Apache-2.0
"""The library says what to do in flags and commands of the program; here they become arguments and functions of Python.

What stands in single quotes is a name of the user's, and stays as it is.
"""
from __future__ import annotations

import re

# Whole commands, longest first: what does the same in Python.
_COMMANDS = [
    (r"run `temper calibrate MODEL --data D -o ranges\.json` and add --calibration ranges\.json", "give calibration=temper.calibrate(model, data)"),
    (r"temper calibrate MODEL --data D -o RANGES", "temper.calibrate(model, data)"),
    (r"temper build --precision (\w+) --data D --max-drop (\d+)%", lambda m: f'temper.build(model, precision="{m[1]}", data=data, max_drop={int(m[2]) / 100})'),
    (r"temper build --precision (\w+)", r'temper.build(model, precision="\1")'),
    (r"temper inspect --why NODE", "engine.inspect(why=node)"),
    (r"temper inspect PLAN --layers|temper inspect --layers", "engine.inspect(layers=True)"),
    (r"temper inspect --json", "engine.inspect()"),
    (r"temper profile PLAN --by-time", "temper.profile(engine)"),
    (r"temper bench --json", "temper.bench"),
    (r"temper profile --json", "temper.profile"),
    (r"temper explain -o", "temper.explain"),
    (r"--reference MODEL\|PLAN", "reference=model_or_engine"),
    (r"--input NAME=FILE", "a dict of arrays by input name"),
    (r"--crop HEIGHTxWIDTH", "temper.Data(..., crop=(height, width))"),
    (r"--force; force=True in Python", "force=True"),
    (r"`temper export --past`", "`temper export` with its option past"),  # a program: it has no form in Python
]

_FLAGS = (
    "activation-scales asked batch bgr buckets build-limit cache calibration calibration-samples class-names crop csv cuda-path data depth-limit device disable duration filter fit force graph input iterations keep-bf16 keep-first keep-fp16 "
    "keep-fp32 keep-last label-column layers layout loop-limit markdown max-drop max-slowdown mean memory-limit method metric no-measure node-limit output-name pad precision preprocess profiles python qdq quick raise-to rate "
    "reference resize samples scale seed shapes state std streams strict threads time-limit timing-cache transfers warmup why workspace"
).split()
_SWITCHES = {"force", "quick", "transfers", "keep-first", "keep-last", "layers", "graph", "bgr", "strict"}
_NUMBER = r"\d+(?:\.\d+)?(?:e[+-]?\d+)?"
_WORDS = r"fp32|bf16|fp16|tf32|int8\+bf16|int8\+fp16|int8|fp8\+bf16|fp8\+fp16|fp8|best|cpu|agreement|cosine|snr|difference|top1|token|none"
_FLAG = re.compile(
    rf"--({'|'.join(sorted(map(re.escape, _FLAGS), key=len, reverse=True))})\b(?![-=])(?:"
    rf" (?P<shape>[^\s=']+)=(?P<dims>[\dx…\[\],.]+)"
    rf"| (?P<words>(?:{_WORDS})\b(?:, (?:{_WORDS})\b)*(?: (?:or|and) (?:{_WORDS})\b)?)"
    rf"| (?P<number>{_NUMBER})\b(?! [a-z])| (?P<placeholder>[A-Z][A-Z|]*)\b)?"
)


def _dims(text: str) -> str:
    parts = [part for part in re.split(r"[x,\[\]]", text.rstrip(".")) if part]
    return "(" + ", ".join("..." if part in ("…", "...") else part for part in parts) + ("," if len(parts) == 1 else "") + ")"


def _argument(match: re.Match[str]) -> str:
    name = match[1].replace("-", "_")
    name = {"no_measure": "measure=False", "input": "the inputs"}.get(name, name)
    if match["shape"]:
        dims = match["dims"]
        return f'{name}={{"{match["shape"]}": {_dims(dims)}}}' if re.search(r"\d", dims) else f'{name}={{"{match["shape"]}": ...}}'
    if match["words"]:
        words = re.sub(_WORDS, lambda word: f'"{word[0]}"', match["words"])
        return f"{name}={words}"
    if match["number"]:
        return f"{name}={match['number']}"
    if match["placeholder"]:
        return f"{name}={match['placeholder'].lower()}"
    return f"{name}=True" if match[1] in _SWITCHES else name


def python_of(text: str) -> str:
    """The text with what names a flag or a command of the program in Python's words."""
    if "--" not in text:
        return text
    parts = re.split(r"('[^']*')", text)
    for i in range(0, len(parts), 2):
        for pattern, words in _COMMANDS:
            parts[i] = re.sub(pattern, words, parts[i])
        parts[i] = _FLAG.sub(_argument, parts[i]).replace("} shapes={", ", ")
    return "".join(parts)
