# SPDX-License-Identifier: Apache-2.0
"""Work on data in shares: calibration, evaluation, comparison, studies."""
from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from .. import _temper
from .._bench import Comparison
from .._bench import compare as compare_here
from .._build import build_options
from .._calibrate import Ranges
from .._check import names, number, text, whole
from .._data import Data, DataSource, data_of
from .._error import UsageError
from .._evaluate import Evaluation, _evaluation_of
from .._model import Model, model_of
from .._progress import Progress, shows_progress
from .._study import Study
from .._study import study as study_here
from ._cluster import log, nodes, number_of, portable, put_once, resolved, result, results, submit
from ._machines import PlanSource, engine_of

_NO_PICTURES = (".npy", ".npz", ".csv", ".pb")


def _check_data(data: DataSource, samples: int | None, seed: int) -> None:
    """Refuses what is wrong before anything starts; whether a path is there, the nodes know."""
    given = data if isinstance(data, Data) else Data(data)
    data_of(dataclasses.replace(given, source=os.sep) if isinstance(given.source, (str, os.PathLike)) else given, samples, seed)


def _found_unreadable(model: Any, plan: Any, data: Any, samples: int | None, seed: int, number: int, of: int) -> Any:
    given: Any = model_of(resolved(model)) if plan is None else engine_of(plan)._native
    return _temper.find_unreadable(given, {}, data_of(resolved(data), samples, seed), number, of)


def _unreadable(model: Any, plan: Any, data: Any, samples: int | None, seed: int, parts: int, cpus: float, resources: Any, progress: Progress) -> list[Any] | None:
    """The pictures that cannot be read, of all samples: which batches there are depends on them. None where nobody has to look."""
    source = data.source if isinstance(data, Data) else data
    if not isinstance(source, (str, os.PathLike)) or os.fspath(source).lower().endswith(_NO_PICTURES):
        return None
    if isinstance(data, Data) and data.strict:
        return None
    tasks = [submit(_found_unreadable, model, plan, data, samples, seed, number, parts, cpus=cpus, resources=resources) for number in range(parts)]
    found = sorted(one for part in results(tasks, "looking at the pictures", progress) for one in part)
    if found:
        log.warning("%d pictures cannot be read and are left out, the first: %s", len(found), found[0][3])
    return found


def _given_data(data: Any, samples: int | None, seed: int, unreadable: list[Any] | None) -> dict[str, Any]:
    given = data_of(resolved(data), samples, seed)
    return given if unreadable is None else given | {"unreadable": unreadable}


def _calibrated_share(model: Any, data: Any, samples: int | None, seed: int, unreadable: Any, options: dict[str, Any], how: dict[str, Any]) -> tuple[str, bytes]:
    share = _temper.calibrate_share(model_of(resolved(model)), options, _given_data(data, samples, seed, unreadable), how, None)
    return _temper.fingerprint("cpu", []), share.to_bytes()


@shows_progress
def calibrate(
    model: Model,
    data: DataSource,
    *,
    method: str = "mse",
    samples: int | None = None,
    seed: int = 0,
    batch: int | None = None,
    parts: int | None = None,
    threads: int = 1,
    disable: Iterable[str] = (),
    resources: Mapping[str, float] | None = None,
    progress: Progress = None,
) -> Ranges:
    """Ranges of a model's values, observed by all machines: the file is the same, byte for byte, for any number of parts.

    Whole batches are dealt out, and are those of ``temper calibrate`` with the same options, whose file is the same as well.

    Parameters
    ----------
    model
        The path of an ONNX file, which every node has, or its bytes, or an ``onnx.ModelProto``.
    data
        The path of a folder of pictures, ``.npy``, ``.npz`` or CSV, which every node has; arrays by input name; or :class:`temper.Data`.
        Pictures that cannot be read are left out, as on one machine; with ``strict`` the first one is the error.
    method
        ``"mse"``, ``"entropy"``, ``"minmax"`` or ``"percentile:99.99"``. Not ``"auto"``, which judges the methods on samples held apart.
    samples, seed
        So many samples, chosen by the seed; all of them without.
    batch
        Samples in a batch; without, so many that their values take at most 256 MiB, and at most 32.
    parts
        Tasks; one for each ``threads`` CPUs of the cluster without. More of them use nodes that join late.
    threads
        CPUs of a task.
    resources
        Of Ray, that a task needs, to choose nodes.

    Raises
    ------
    Error
        As :func:`temper.calibrate`, with the node; ``machine`` where a part's workers were lost again and again.
    """
    if text("method", method) == "auto":
        raise UsageError("method 'auto' judges the methods on samples held apart, which parts have not got; name one, or use temper.calibrate")
    threads = whole("threads", threads, 1)
    number_of_parts = number_of(parts, threads)
    if batch is not None:
        whole("batch", batch, 1)
    _check_data(data, samples, seed)
    given, shared = portable(model), put_once(data)
    unreadable = _unreadable(given, None, data, samples, seed, number_of_parts, threads, resources, progress)
    options = {"threads": threads, "disable": names("disable", disable)}
    tasks = [submit(_calibrated_share, given, shared, samples, seed, unreadable, options,
                     {"method": method, "batch": batch or 0, "number": part, "of": number_of_parts}, cpus=threads, resources=resources)
             for part in range(number_of_parts)]  # fmt: skip
    shares = results(tasks, "calibrating", progress)
    made = [_temper.Ranges.of_bytes(part) for _, part in shares]
    machines = {machine for machine, _ in shares}
    if len(machines) > 1:
        log.warning("parts were observed on machines of %d kinds, which add up in other orders: the last bits of the ranges depend on who got "
                     "which part; resources=... chooses nodes", len(machines))  # fmt: skip
    return Ranges(_temper.Ranges.of_shares([part for part in made if part.samples]))


def _evaluated_share(plan: Any, data: Any, samples: int | None, seed: int, unreadable: Any, reference: Any, how: dict[str, Any], device: str) -> bytes:
    beside: Any = None
    if reference is not None:
        beside = reference["model"] if "model" in reference else engine_of(reference["plan"], device)._native
        beside = model_of(resolved(beside)) if "model" in reference else beside
    engine = engine_of(plan, device)
    return _temper.evaluate_share(engine._native, build_options(""), beside, _given_data(data, samples, seed, unreadable), how, None)


@shows_progress
def evaluate(
    plan: PlanSource,
    data: DataSource,
    *,
    metric: str | None = None,
    reference: PlanSource | None = None,
    reference_model: Model | None = None,
    samples: int | None = None,
    seed: int = 0,
    batch: int | None = None,
    output_name: str = "",
    parts: int | None = None,
    cpus: float = 1,
    device: str = "cpu",
    resources: Mapping[str, float] | None = None,
    progress: Progress = None,
) -> Evaluation:
    """How often a plan is right, and how near it is to another, over all machines: the figures are those of :func:`temper.evaluate`, to the last bit.

    Whole batches are dealt out, each is counted once, and what they gave is added up in their order.

    Parameters
    ----------
    plan
        As :data:`PlanSource` says. On machines of several kinds, take one kind's plan and, by ``resources``, its nodes: plans of two kinds
        may answer differently in the last bits.
    data, samples, seed, batch, output_name, metric
        As for :func:`temper.evaluate`; paths are those of the nodes. ``metric`` is a name.
    reference
        Another plan to compare with.
    reference_model
        Instead, an ONNX model, as for :func:`calibrate`, of which each task makes an FP32 engine without measuring.
    parts, resources
        As for :func:`calibrate`.
    cpus
        CPUs of a task: the threads of the plan.

    Raises
    ------
    Error
        As :func:`temper.evaluate`, with the node. ``unsupported`` where a plan is not for the machine of a task.
    """
    if reference is not None and reference_model is not None:
        raise UsageError("reference and reference_model are two things to compare with; give one")
    if callable(metric):
        raise UsageError("a metric of one's own is a function of all answers, which lie on no one machine; Predictor brings them together")
    if batch is not None:
        whole("batch", batch, 1)
    _check_data(data, samples, seed)
    number_of_parts = number_of(parts, number("cpus", cpus, 0))
    given, shared = put_once(plan), put_once(data)
    beside = None if reference is None else {"plan": put_once(reference)}
    if reference_model is not None:
        beside = {"model": portable(reference_model)}
    unreadable = _unreadable(None, given, data, samples, seed, number_of_parts, cpus, resources, progress)
    what = {"metric": metric, "batch": batch, "output": output_name, "of": number_of_parts}
    gpus = {"num_gpus": 1} if device.startswith("cuda") else {}
    tasks = [submit(_evaluated_share, given, shared, samples, seed, unreadable, beside, what | {"number": part}, device, cpus=cpus, resources=resources,
                     **gpus) for part in range(number_of_parts)]  # fmt: skip
    shares = results(tasks, "evaluating", progress)
    name = os.fspath(plan) if isinstance(plan, (str, os.PathLike)) else "<plan>"
    return _evaluation_of(json.loads(_temper.join_shares(shares, {"metric": metric}, name)))


class Compared(NamedTuple):
    """What :func:`compare` found."""

    answers: Evaluation
    """Of the second beside the first."""
    speed: Comparison
    """Of the second beside the first, timed in turns on a node that did nothing else."""


def _timed(a: Any, b: Any, batch: int | None, duration: float, device: str) -> Comparison:
    return compare_here(engine_of(a, device), engine_of(b, device), batch=batch, duration=duration, progress=False)


@shows_progress
def compare(a: PlanSource, b: PlanSource, data: DataSource, *, duration: float = 6.0, batch: int | None = None, progress: Progress = None,
            **evaluated: Any) -> Compared:
    """Two plans of one model side by side: answers over all machines, as :func:`evaluate` with ``a`` as the reference, and then their speed, in turns on
    one machine, which is kept free of other work of Ray's. ``evaluated``: arguments of :func:`evaluate`.
    """
    a, b = put_once(a), put_once(b)
    answers = evaluate(b, data, reference=a, batch=batch, progress=progress or False, **evaluated)
    if progress:
        progress("timing both in turns")
    resources = evaluated.get("resources")
    cpus = max(node["Resources"]["CPU"] for node in nodes(resources))
    timed = submit(_timed, a, b, batch, duration, evaluated.get("device", "cpu"), cpus=cpus, resources=resources)
    return Compared(answers, result(timed, "the timing"))


def _studied(model: str, data: Any, folder: str, options: dict[str, Any]) -> Study:
    os.makedirs(folder, exist_ok=True)
    return study_here(model, resolved(data), folder, progress=False, **options)


@shows_progress
def study(
    models: Mapping[str, str | os.PathLike[str]],
    data: DataSource | Mapping[str, DataSource],
    folder: str | os.PathLike[str],
    *,
    resources: Mapping[str, float] | None = None,
    progress: Progress = None,
    **options: Any,
) -> dict[str, Study]:
    """Several studies (:func:`temper.study`) at a time, each on a node of its own that does nothing else meanwhile.

    Parameters
    ----------
    models
        By name, the path of an ONNX file, which every node has.
    data
        Of all models, or by the name of the model.
    folder
        A folder that all nodes share; the files of each study go into one of the model's name in it. A study whose worker or node is lost goes on
        elsewhere from the steps that it had saved.
    options
        Of :func:`temper.study`.

    Returns
    -------
    dict
        By name; ``temper.report`` makes one page of their result files.
    """
    by_name = isinstance(data, Mapping) and set(data) == set(models)
    cpus = min(node["Resources"]["CPU"] for node in nodes(resources))
    tasks = []
    for name, model in models.items():
        source: Any = data[name] if isinstance(data, Mapping) and by_name else data
        tasks.append(submit(_studied, os.fspath(model), put_once(source), os.path.join(os.fspath(folder), name), options, cpus=cpus, resources=resources))
    return dict(zip(models, results(tasks, "studying", progress)))
