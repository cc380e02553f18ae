# SPDX-License-Identifier: Apache-2.0
"""How often an engine is right, and how near it is to FP32."""
from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from typing import Any

from . import _temper
from ._build import build_options
from ._data import DataSource, data_of
from ._engine import Engine
from ._check import whole
from ._error import Error
from ._progress import Progress, shows_progress
from ._show import table
from ._model import Model, model_of
from ._run import Answers, run


@dataclasses.dataclass(frozen=True)
class Share:
    """``count`` of ``of``, with its 95 % interval (Wilson)."""

    rate: float
    low: float
    high: float
    count: int
    of: int

    def __str__(self) -> str:
        return f"{100 * self.rate:.2f} % ({100 * self.low:.2f} to {100 * self.high:.2f} %)"


@dataclasses.dataclass(frozen=True)
class McNemar:
    """The same samples by two engines: what the second has wrong that the first has right, and the other way round."""

    lost: int
    won: int
    p: float
    """Of the exact test that both are right equally often."""
    drop: float
    """By how much the second is right less often, as a share."""
    drop_low: float
    """Of the drop's 95 % interval, as ``drop_high``."""
    drop_high: float


@dataclasses.dataclass(frozen=True)
class OutputDifference:
    """One output beside the reference's, over all samples."""

    output: str
    cosine: float
    """Mean over the samples; 1 where nothing differs."""
    least_cosine: float
    least_cosine_sample: int
    snr_db: float | None
    """Power of the reference beside that of the difference; None where nothing differs, or a value is not finite."""
    max_difference: float | None
    max_sample: int
    largest: float
    """Magnitude in the reference, of what is finite: what the metric ``"difference"`` divides ``max_difference`` by."""


@dataclasses.dataclass(frozen=True)
class Perplexity:
    """How well a language model foretells texts: exp of the mean of -log(probability) of each token behind those before it."""

    value: float | None
    """None where a logit is NaN, or a probability 0."""
    tokens: int
    """That were foretold."""
    reference: float | None = None
    rise: float | None = None
    """By how much it is above the reference's, as a share of that."""


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """What came out of :func:`evaluate`. What needs labels, a classifier or a reference is None without it.

    ``record`` is all of it, as ``temper evaluate --json`` prints it.
    """

    samples: int
    batch: int
    precision: str
    placeholder: bool
    """The engine is calibrated on noise: these figures are meaningless."""
    classes: int | None
    output: str | None
    """The one that holds the classes."""
    top1: Share | None
    top5: Share | None
    reference_top1: Share | None
    mcnemar: McNemar | None
    agreement: Share | None
    """With the reference: the same best class, of samples or, in texts, of tokens."""
    perplexity: Perplexity | None
    """Of a language model on texts of token ids."""
    outputs: tuple[OutputDifference, ...]
    left_out: tuple[tuple[str, str], ...]
    """Pictures that cannot be read, each with the reason."""
    record: dict[str, Any] = dataclasses.field(repr=False)
    score: Any = None
    """What the caller's own metric gave, and ``reference_score`` of the reference's answers."""
    reference_score: Any = None

    def _repr_html_(self) -> str:
        figures = [(name, share) for name, share in (("top-1", self.top1), ("top-5", self.top5), ("top-1 of the reference", self.reference_top1),
                                                     ("agreement with the reference", self.agreement)) if share is not None]  # fmt: skip
        figures += [(name, score) for name, score in (("score", self.score), ("score of the reference", self.reference_score)) if score is not None]
        if self.perplexity is not None:
            figures += [("perplexity", self.perplexity.value), *([("perplexity of the reference", self.perplexity.reference)] if self.perplexity.reference is not None else [])]
        figures += [(f"{output.output}: SNR in dB", output.snr_db) for output in self.outputs]
        return table(("figure", "value"), figures, caption=f"{self.precision} on {self.samples} samples")


def share_of(value: Mapping[str, Any] | None, count: str, of: int) -> Share | None:
    return None if value is None else Share(value["rate"], *value["ci95"], value[count], value.get("n", of))


def _evaluation_of(record: dict[str, Any]) -> Evaluation:
    samples = record["samples"]
    pairs = record.get("mcnemar")
    return Evaluation(
        samples=samples,
        batch=record["batch"],
        precision=record["precision"],
        placeholder=record["placeholder"],
        classes=record.get("classes"),
        output=record.get("output"),
        top1=share_of(record.get("top1"), "right", samples),
        top5=share_of(record.get("top5"), "right", samples),
        reference_top1=share_of(record.get("reference_top1"), "right", samples),
        mcnemar=pairs and McNemar(pairs["lost"], pairs["won"], pairs["p"], pairs["drop"], *pairs["drop_ci95"]),
        agreement=share_of(record.get("agreement"), "same", samples),
        perplexity=Perplexity(**record["perplexity"]) if "perplexity" in record else None,
        outputs=tuple(OutputDifference(**output) for output in record.get("outputs", ())),
        left_out=tuple((one["picture"], one["why"]) for one in record["left_out"]),
        record=record,
    )


def _given(model: Engine | Model) -> Any:
    return model._native if isinstance(model, Engine) else model_of(model)


def _judged_by(metric: Callable[[Answers], Any], model: Any, data: DataSource, reference: Any, how: dict[str, Any], build: dict[str, Any]) -> Evaluation:
    answers = run(model, data, **how, **build)
    score = metric(answers)
    other = None if reference is None else metric(run(reference, data, **how))
    record = {"samples": len(answers), "batch": answers.batch, "precision": answers.engine.precision, "score": score, "reference_score": other}
    return Evaluation(
        samples=len(answers), batch=answers.batch, precision=answers.engine.precision, placeholder=answers.engine._native.info()["placeholder"], classes=None,
        output=None, top1=None, top5=None, reference_top1=None, mcnemar=None, agreement=None, perplexity=None, outputs=(), left_out=answers.left_out, record=record,
        score=score, reference_score=other)  # fmt: skip


@shows_progress
def evaluate(
    model: Engine | Model,
    data: DataSource,
    *,
    metric: str | Callable[[Answers], Any] | None = None,
    reference: Engine | Model | None = None,
    samples: int | None = None,
    seed: int = 0,
    batch: int | None = None,
    output_name: str = "",
    device: str | None = None,
    progress: Progress = None,
    **build: Any,
) -> Evaluation:
    """Runs an engine on data, as ``temper evaluate``: how often it is right, and how near it is to FP32. Without the GIL.

    Parameters
    ----------
    model
        An engine, the path of a plan, or a model as for :func:`build`, which is built for the data first.
    data
        A path, arrays by input name with the right classes as ``"labels"``, or :class:`Data`.
    metric
        What must come out: ``"top1"`` (needs labels), or ``"agreement"``, ``"perplexity"`` (a language model, texts of token ids), ``"cosine"``, ``"snr"`` or ``"difference"`` (beside FP32). Without,
        whatever the data allow. Or a function of one's own of all answers (:class:`Answers`: names, labels, outputs), whose result is
        :attr:`Evaluation.score`: a detector's mAP by :mod:`temper.metrics`, for instance.
    reference
        What to compare with, given as ``model`` is. Without one, an engine of another precision than FP32 is compared
        with its model in FP32, if that is still where the engine was built from.
    samples, seed
        So many samples, chosen by the seed; all of them without.
    batch
        Samples in a batch.
    output_name
        The output that holds the classes, where there are several, or it is a sequence.
    device
        Where it runs; without it the engine's own device, or for a model the CPU. A list (``"cuda:0,1"``, ``"cuda:*"``, ``"cpu,cpu"``) of equal
        devices shares the batches, and the figures are those of one; a GPU that is lost in the middle loses no sample.
    progress
        Called with a line of text now and then; without it a terminal and a notebook show a bar, with False nothing does. What it raises ends the evaluation and comes back as it is; so does Ctrl-C.
    build
        Of a model: arguments of :func:`build`, like ``precision`` and ``calibration``.

    Raises
    ------
    Error
        ``usage`` for data without labels and nothing to compare with, for a metric that cannot come out, and for samples
        that the engine was calibrated on; also for devices that are not equal.
    """
    if batch is not None:
        whole("batch", batch, 1, "it must be above 0")
    if callable(metric):
        if device is not None:
            build["device"] = device
        return _judged_by(metric, model, data, reference, {"samples": samples, "seed": seed, "batch": batch, "progress": progress}, build)
    given, beside = _given(model), None if reference is None else _given(reference)
    path = given if isinstance(given, str) else ""
    if build and (isinstance(model, Engine) or (path and _temper.is_plan(path))):
        raise Error(f"{', '.join(build)} of an engine cannot be changed; leave it out")
    if device is not None:
        build["device"] = device
    options = build_options("" if isinstance(model, Engine) else given, **build)
    name = path or ("<engine>" if isinstance(model, Engine) else "<bytes>")
    what = {"metric": metric, "batch": batch, "output": output_name, "named_device": device is not None}
    text = _temper.evaluate(given, options, beside, data_of(data, samples, seed, build.get("memory_limit")), what, name, progress)
    return _evaluation_of(json.loads(text))
