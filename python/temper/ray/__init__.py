# SPDX-License-Identifier: Apache-2.0
"""Temper on a Ray cluster: predictions in ray.data, and calibration, evaluation and builds spread over machines.

>>> plans = temper.ray.build("model.onnx", shapes=(32, 3, 224, 224))          # one for each kind of machine
>>> answers = pictures.map_batches(temper.ray.Predictor, fn_constructor_args=[plans], batch_size=32, num_cpus=2)

Everything runs as tasks and actors of Ray, which schedules them and runs again what a lost worker or node was doing; each result counts once.
Files are read where the tasks run: models, plans and data that are given by a path lie at that path on every node. Importing this module
turns Ray's usage statistics off where nobody has said otherwise (``RAY_USAGE_STATS_ENABLED``). docs/scale.md says when to use it.
"""
import os as _os

from .._error import MissingPackageError as _MissingPackageError

_os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
try:
    import ray as _ray  # noqa: F401
except ModuleNotFoundError as _absent:
    if _absent.name != "ray":
        raise
    raise _MissingPackageError("temper.ray needs ray, which is not there; python -m pip install 'ray[data]' brings it") from None

from ._machines import Plans, PlanSource, build, fingerprints
from ._predictor import Predictor
from ._shares import Compared, calibrate, compare, evaluate, study

__all__ = ["Compared", "PlanSource", "Plans", "Predictor", "build", "calibrate", "compare", "evaluate", "fingerprints", "study"]
