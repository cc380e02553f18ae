# SPDX-License-Identifier: Apache-2.0
"""Figures for what is no classifier: boxes of detectors, and text. They take arrays, so that any model's answers fit once they are decoded.

``temper.evaluate(model, data, metric=function)`` calls a function of one's own with all answers; these are made to be called there.
"""
from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, Union

import numpy

from ._error import UsageError

__all__ = ["AveragePrecision", "Boxes", "character_error_rate", "iou", "mean_average_precision"]

Array = Any


@dataclasses.dataclass(frozen=True)
class Boxes:
    """The boxes of one picture, found or true. Arrays of any kind; corners are x0, y0, x1, y1 in pixels of that picture."""

    corners: Array
    """[n, 4]"""
    labels: Array
    """[n] classes."""
    scores: Array | None = None
    """[n] of boxes that were found: the surest first is not needed."""
    crowd: Array | None = None
    """[n] of true boxes: those that stand for a group, which are neither missed nor found twice."""
    areas: Array | None = None
    """[n] of true boxes: of the objects, where that is not the box; they decide what is small, medium or large."""


@dataclasses.dataclass(frozen=True)
class AveragePrecision:
    """What came out of :func:`mean_average_precision`; None where there is no true box of that kind."""

    map: float | None
    """Mean over the classes and the overlaps 0.50 to 0.95, as COCO has it."""
    map50: float | None
    """At an overlap of 0.5."""
    map75: float | None
    small: float | None
    """Of objects below 32 x 32 pixels."""
    medium: float | None
    large: float | None
    """Of objects from 96 x 96 pixels on."""
    classes: dict[int, float | None]
    """By class."""


def _corners(boxes: Array) -> numpy.ndarray:
    array = numpy.asarray(boxes, dtype="float64")
    if array.size == 0:
        return numpy.zeros((0, 4))
    if array.ndim != 2 or array.shape[1] != 4:
        raise UsageError(f"boxes have the shape {array.shape}; they must be [n, 4]: x0, y0, x1, y1")
    return array


def iou(a: Array, b: Array, *, crowd: Array | None = None) -> numpy.ndarray:
    """How much boxes overlap: the area that both cover over that which either covers, for each of ``a`` [n, 4] with each of ``b`` [m, 4].

    For those of ``b`` that are a ``crowd`` it is over the area of the box of ``a`` alone, as COCO has it. Corners are x0, y0, x1, y1.
    """
    a, b = _corners(a), _corners(b)
    low, high = numpy.maximum(a[:, None, :2], b[None, :, :2]), numpy.minimum(a[:, None, 2:], b[None, :, 2:])
    both = numpy.clip(high - low, 0, None).prod(axis=2)
    area_a, area_b = (numpy.clip(box[:, 2:] - box[:, :2], 0, None).prod(axis=1) for box in (a, b))
    either = area_a[:, None] + area_b[None, :] - both
    if crowd is not None:
        either = numpy.where(numpy.asarray(crowd, dtype=bool)[None, :], area_a[:, None], either)
    return numpy.divide(both, either, out=numpy.zeros_like(both), where=either > 0)


_OVERLAPS = numpy.linspace(0.5, 0.95, 10)
_RECALLS = numpy.linspace(0, 1, 101)
_AREAS = {"all": (0.0, 1e10), "small": (0.0, 32.0**2), "medium": (32.0**2, 96.0**2), "large": (96.0**2, 1e10)}


@dataclasses.dataclass
class _Matched:
    """One class in one picture: the boxes that were found, the surest first, and for each overlap whether they hit."""

    scores: numpy.ndarray
    hits: numpy.ndarray
    ignored: numpy.ndarray
    wanted: int


def _match(found: tuple[numpy.ndarray, numpy.ndarray], true: tuple[numpy.ndarray, numpy.ndarray, numpy.ndarray], area: tuple[float, float], most: int) -> _Matched:
    corners, scores = found
    truth, crowd, areas = true
    order = numpy.argsort(-scores, kind="mergesort")[:most]
    corners, scores = corners[order], scores[order]
    out = crowd | (areas < area[0]) | (areas > area[1])
    first = numpy.argsort(out, kind="mergesort")  # what counts before what does not
    truth, crowd, out = truth[first], crowd[first], out[first]
    overlaps = iou(corners, truth, crowd=crowd)
    hits = numpy.zeros((len(_OVERLAPS), len(corners)), dtype=bool)
    ignored = numpy.zeros_like(hits)
    for t, least in enumerate(_OVERLAPS):
        taken = numpy.zeros(len(truth), dtype=bool)
        for d in range(len(corners)):
            best, at = min(least, 1 - 1e-10), -1
            for g in range(len(truth)):
                if taken[g] and not crowd[g]:
                    continue
                if at >= 0 and not out[at] and out[g]:
                    break  # one that counts was hit, and the rest do not
                if overlaps[d, g] < best:
                    continue
                best, at = overlaps[d, g], g
            if at >= 0:
                hits[t, d], ignored[t, d], taken[at] = True, out[at], True
    size = (corners[:, 2] - corners[:, 0]) * (corners[:, 3] - corners[:, 1])
    ignored |= ~hits & ((size < area[0]) | (size > area[1]))[None, :]
    return _Matched(scores, hits, ignored, int((~out).sum()))


def _precisions(matched: Iterable[_Matched]) -> numpy.ndarray | None:
    """By overlap, the mean precision over 101 recalls; None where there is nothing to find."""
    parts = list(matched)
    wanted = sum(part.wanted for part in parts)
    if not wanted:
        return None
    order = numpy.argsort(-numpy.concatenate([part.scores for part in parts]), kind="mergesort")
    hits = numpy.concatenate([part.hits for part in parts], axis=1)[:, order]
    ignored = numpy.concatenate([part.ignored for part in parts], axis=1)[:, order]
    result = numpy.zeros(len(_OVERLAPS))
    for t in range(len(_OVERLAPS)):
        right = numpy.cumsum(hits[t] & ~ignored[t]).astype("float64")
        wrong = numpy.cumsum(~hits[t] & ~ignored[t]).astype("float64")
        recall = right / wanted
        precision = right / (right + wrong + numpy.spacing(1))
        precision = numpy.maximum.accumulate(precision[::-1])[::-1]  # no lower than at a higher recall
        places = numpy.searchsorted(recall, _RECALLS, side="left")
        result[t] = numpy.where(places < len(precision), precision[numpy.minimum(places, len(precision) - 1)], 0).mean() if len(precision) else 0
    return result


def mean_average_precision(found: Sequence[Boxes], truth: Sequence[Boxes], *, most: int = 100) -> AveragePrecision:
    """COCO's mean average precision of a detector, as pycocotools computes it.

    Parameters
    ----------
    found
        For each picture what the detector found, with ``scores``.
    truth
        For each picture, in the same order, what is there.
    most
        Boxes of a class and picture that count, the surest.

    Raises
    ------
    UsageError
        Where there are not as many pictures on both sides, or found boxes have no scores.
    """
    if len(found) != len(truth):
        raise UsageError(f"boxes were found in {len(found)} pictures, and {len(truth)} have true ones; each picture needs both, empty lists too")
    if not found:
        raise UsageError("there are no pictures")
    pictures = []
    for at, (guess, true) in enumerate(zip(found, truth)):
        if guess.scores is None:
            raise UsageError(f"the boxes that were found in picture {at} have no scores")
        boxes, real = _corners(guess.corners), _corners(true.corners)
        lengths = {"scores": len(guess.scores), "labels": len(guess.labels)}
        for name, count in lengths.items():
            if count != len(boxes):
                raise UsageError(f"picture {at} has {len(boxes)} boxes and {count} {name}")
        if len(true.labels) != len(real):
            raise UsageError(f"picture {at} has {len(real)} true boxes and {len(true.labels)} labels")
        crowd = numpy.zeros(len(real), dtype=bool) if true.crowd is None else numpy.asarray(true.crowd, dtype=bool)
        areas = (real[:, 2:] - real[:, :2]).prod(axis=1) if true.areas is None else numpy.asarray(true.areas, dtype="float64")
        pictures.append((boxes, numpy.asarray(guess.scores, dtype="float64"), numpy.asarray(guess.labels), real, numpy.asarray(true.labels), crowd, areas))
    classes = sorted({int(label) for picture in pictures for label in picture[4]})
    by_area: dict[str, dict[int, numpy.ndarray | None]] = {name: {} for name in _AREAS}
    for label in classes:
        for name, area in _AREAS.items():
            by_area[name][label] = _precisions(
                _match((boxes[labels == label], scores[labels == label]), (real[there == label], crowd[there == label], areas[there == label]), area, most)
                for boxes, scores, labels, real, there, crowd, areas in pictures)  # fmt: skip
    whole = {label: value for label, value in by_area["all"].items()}

    def mean(values: Iterable[Union[numpy.ndarray, None]], at: int | None = None) -> float | None:
        known = [value if at is None else value[at] for value in values if value is not None]
        return float(numpy.mean(known)) if known else None

    return AveragePrecision(
        mean(whole.values()), mean(whole.values(), 0), mean(whole.values(), 5), mean(by_area["small"].values()), mean(by_area["medium"].values()),
        mean(by_area["large"].values()), {label: mean([value]) for label, value in whole.items()})  # fmt: skip


def character_error_rate(answers: Sequence[str], truth: Sequence[str]) -> float:
    """Of text that was read: insertions, deletions and changes that make the truth of it (V. I. Levenshtein), over the truth's characters.

    0 where all is right; above 1 where more is wrong than there is.
    """
    if isinstance(answers, str) or isinstance(truth, str) or len(answers) != len(truth):
        raise UsageError("answers and truth must be lists of as many texts")
    length = sum(map(len, truth))
    if not length:
        raise UsageError("the truth holds no characters")
    return sum(_edits(answer, right) for answer, right in zip(answers, truth)) / length


def _edits(a: str, b: str) -> int:
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (x != y))
    return row[-1]
