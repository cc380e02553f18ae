# SPDX-License-Identifier: Apache-2.0
"""Plans for every kind of machine in a cluster."""
from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from typing import Any, Union

import ray

from .. import _temper
from .._build import Timings
from .._build import build as build_here
from .._engine import Engine, _cuda_folders, load
from .._error import MachineError, UnsupportedError, UsageError
from .._model import Model
from .._progress import Progress, shows_progress
from ._cluster import end, here, nodes, on_node, portable, resolved, result, submit


class Plans(dict[str, bytes]):
    """Plans of one model by the fingerprint of the machines that they are for, as :func:`build` makes them."""

    def __init__(self, plans: Mapping[str, bytes] = {}, timings: bytes = b"") -> None:
        super().__init__(plans)
        self.timings = timings
        """The timing caches of all builds, joined: ``temper.Timings(plans.timings)``, or a file for ``temper build --timing-cache``."""

    def __reduce__(self) -> Any:
        return Plans, (dict(self), self.timings)


PlanSource = Union[Plans, Mapping[str, bytes], str, "os.PathLike[str]", bytes, Any]
"""A plan's bytes or path; a folder of plans, of which the one for the machine is taken; :class:`Plans`; or an ObjectRef of one of these."""


def engine_of(plan: Any, device: str = "cpu", cuda_path: str | None = None) -> Engine:
    """The engine of this machine. UnsupportedError, naming what there is, where none of the plans is for it."""
    plan = resolved(plan)
    if isinstance(plan, Mapping):
        machine = _temper.fingerprint(device, _cuda_folders(cuda_path))
        if machine not in plan:
            known = "; ".join(repr(name) for name in plan) or "none"
            raise UnsupportedError(f"there is no plan for this machine, {machine!r}, {here()}; there are plans for: {known}. temper.ray.build makes "
                                   "one for every kind of machine in the cluster", "unsupported")  # fmt: skip
        return load(plan[machine], cuda_path=cuda_path)
    if isinstance(plan, bytes):
        return load(plan, cuda_path=cuda_path)
    path = os.fspath(plan)
    if not os.path.isdir(path):
        return load(path, cuda_path=cuda_path)
    others = []
    for name in sorted(os.listdir(path)):
        if name.endswith((".plan", ".temper")):
            try:
                return load(os.path.join(path, name), cuda_path=cuda_path)
            except UnsupportedError as error:
                others.append(f"{name}: {error}")
    listed = "; ".join(others) or "it holds no plan"
    raise UnsupportedError(f"no plan in '{path}' is for this machine ({listed}) {here()}", "unsupported")


def fingerprints(device: str = "cpu", *, resources: Mapping[str, float] | None = None) -> dict[str, str]:
    """By node id, the fingerprint of its machine: plans and times are for equal ones. A node that is lost meanwhile is left out."""
    gpus = {"num_gpus": 1} if device.startswith("cuda") else {}
    asked = {node["NodeID"]: submit(_temper_fingerprint, device, cpus=0, **gpus, **on_node(node)) for node in nodes(resources)}
    found = {}
    for node, reference in asked.items():
        with contextlib.suppress(ray.exceptions.TaskUnschedulableError, ray.exceptions.NodeDiedError, ray.exceptions.WorkerCrashedError):
            found[node] = ray.get(reference)
    return found


def _temper_fingerprint(device: str) -> str:
    return _temper.fingerprint(device, _cuda_folders(None))


def _built(model: Any, timings: bytes, options: dict[str, Any]) -> tuple[bytes, bytes]:
    times = Timings(timings)
    engine = build_here(resolved(model), timing_cache=times, progress=False, **options)
    return engine.to_bytes(), times.to_bytes()


@shows_progress
def build(
    model: Model,
    *,
    plans: Plans | None = None,
    timings: bytes = b"",
    resources: Mapping[str, float] | None = None,
    progress: Progress = None,
    **options: Any,
) -> Plans:
    """One plan for every kind of machine in the cluster, each built on a node of that kind that does nothing else meanwhile.

    Parameters
    ----------
    model
        As for :func:`calibrate`.
    plans
        What there is already: only kinds of machines that are not among them are built for, on nodes that joined since, for instance.
    timings
        Bytes of a timing cache to begin with, those of ``plans`` besides.
    resources
        Of Ray: only nodes that have them.
    options
        Of :func:`temper.build`: ``shapes``, ``precision``, ``calibration`` (:class:`temper.Ranges`, or a path on every node), ``device``, ``threads``...

    Returns
    -------
    Plans
        By fingerprint, with the timing caches of all builds joined.

    Raises
    ------
    Error
        As :func:`temper.build`, with the node; ``machine`` where every node of a kind was lost.
    """
    for own in ("timing_cache", "progress"):
        if own in options:
            raise UsageError(f"{own} is Temper's own here; timings are joined and returned")
    device = options.get("device", "cpu")
    joined = Timings(timings)
    if plans is not None and plans.timings:
        joined.add(Timings(plans.timings))
    made = Plans(plans or {})
    kinds: dict[str, list[str]] = {}
    for node, machine in fingerprints(device, resources=resources).items():
        kinds.setdefault(machine, []).append(node)
    cpus = {node["NodeID"]: node["Resources"]["CPU"] for node in nodes(resources)}
    given, known = portable(model), ray.put(joined.to_bytes())
    gpus = {"num_gpus": 1} if device.startswith("cuda") else {}

    def start(node: str) -> Any:
        return submit(_built, given, known, options, cpus=cpus.get(node, 1), resources=resources, **gpus, **on_node({"NodeID": node}))

    lacking = {machine: its for machine, its in kinds.items() if machine not in made}
    running = {machine: start(its.pop(0)) for machine, its in lacking.items()}
    try:
        for number, (machine, its) in enumerate(lacking.items()):
            if progress:
                progress(f"building for {machine} ({number + 1} of {len(lacking)} kinds of machines)")
            while True:
                try:
                    made[machine], times = result(running[machine], f"the build for {machine}")
                    break
                except (ray.exceptions.TaskUnschedulableError, MachineError) as error:
                    if not its:
                        raise MachineError(f"every node of the kind {machine!r} was lost while it built: {error}", "machine") from None
                    running[machine] = start(its.pop(0))
            joined.add(Timings(times))
            del running[machine]
    finally:
        end(list(running.values()))
    made.timings = joined.to_bytes()
    return made
