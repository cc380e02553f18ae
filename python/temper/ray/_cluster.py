# SPDX-License-Identifier: Apache-2.0
"""Tasks on the nodes of a Ray cluster, and what comes of them."""
from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from .. import _temper
from .._check import whole
from .._data import Data
from .._error import Error, MachineError, UnsupportedError
from .._model import Model, model_of
from .._progress import Progress

log = logging.getLogger("temper.ray")


def here() -> str:
    return f"on node {ray.util.get_node_ip_address()}"


def resolved(given: Any) -> Any:
    return ray.get(given) if isinstance(given, ray.ObjectRef) else given


def _named(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """What a task calls: an error says on which node it was."""
    try:
        return function(*arguments, **options)
    except Error as error:
        raise type(error)(f"{error} ({here()})", error.kind) from None


_task = ray.remote(_named)


def submit(function: Callable[..., Any], *arguments: Any, cpus: float, resources: Mapping[str, float] | None = None, **how: Any) -> Any:
    return _task.options(num_cpus=cpus, resources=dict(resources or {}), name=f"temper.{function.__name__.strip('_')}", **how).remote(
        function, *arguments)  # fmt: skip


def result(reference: Any, what: str) -> Any:
    """Of a task. An error of Temper's comes back as it is; a worker that was lost more often than Ray tries again is a MachineError."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, Error):
            raise error.cause from None
        raise
    except (ray.exceptions.WorkerCrashedError, ray.exceptions.NodeDiedError, ray.exceptions.ObjectLostError,
            ray.exceptions.OutOfMemoryError) as error:  # fmt: skip
        reason = str(error).strip().splitlines()[0]
        raise MachineError(f"{what} was lost with its worker, and so was every further try: {reason}", "machine") from None


def results(references: Sequence[Any], what: str, progress: Progress) -> list[Any]:
    """Of tasks, in their order. The first error ends the others."""
    waiting = {reference: number for number, reference in enumerate(references)}
    results: list[Any] = [None] * len(references)
    try:
        while waiting:
            done, _ = ray.wait(list(waiting), num_returns=1)
            for reference in done:
                number = waiting.pop(reference)
                results[number] = result(reference, f"part {number + 1} of {len(references)}")
            if progress:
                progress(f"{what}: {len(references) - len(waiting)} of {len(references)} parts")
    finally:
        end(list(waiting))
    return results


def end(references: Sequence[Any]) -> None:
    """Of tasks whose results nobody wants any more. What they raise is taken here, or Ray would print it later."""
    for reference in references:
        ray.cancel(reference, force=True)
    if references:
        for reference in ray.wait(list(references), num_returns=len(references), timeout=10)[0]:
            with contextlib.suppress(ray.exceptions.RayError):
                ray.get(reference)


def number_of(parts: int | None, cpus: float) -> int:
    if parts is not None:
        return whole("parts", parts, 1)
    return max(1, int(ray.cluster_resources().get("CPU", 1) / max(cpus, 0.01)))


def put_once(given: Any) -> Any:
    """What is large goes into the object store once."""
    if isinstance(given, (bytes, Mapping)):
        return ray.put(given)
    if isinstance(given, Data) and isinstance(given.source, Mapping):
        return ray.put(given)
    return os.fspath(given) if isinstance(given, os.PathLike) else given


def portable(model: Model) -> Any:
    """A model that another process can be given."""
    given = model if isinstance(model, (str, os.PathLike)) else model_of(model)
    if isinstance(given, _temper.Graph):
        raise UnsupportedError("a temper.Graph stays in its process; give the path of an ONNX file, or its bytes", "unsupported")
    return put_once(given)


def nodes(resources: Mapping[str, float] | None = None) -> list[dict[str, Any]]:
    """Those that may compute."""
    alive = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) > 0]
    fitting = [node for node in alive if all(node["Resources"].get(name, 0) >= amount for name, amount in (resources or {}).items())]
    if not fitting:
        raise MachineError("no node of the cluster has CPUs" + (f" and {dict(resources)}" if resources else ""), "machine")
    return fitting


def on_node(node: dict[str, Any]) -> dict[str, Any]:
    return {"scheduling_strategy": NodeAffinitySchedulingStrategy(node_id=node["NodeID"], soft=False)}
