# SPDX-License-Identifier: Apache-2.0
"""Samples for the workflows that read data."""
from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any, Union

import numpy

from ._engine import Array
from ._check import flag, number, seed_of, whole
from ._error import ArgumentTypeError, Error, must_exist


@dataclasses.dataclass(frozen=True)
class Data:
    """Samples in files or arrays, and how pictures become the inputs of a model.

    Whatever takes samples also takes the path or the arrays alone. The options are those of the program's verbs.
    """

    source: Union[str, os.PathLike[str], Mapping[str, Array]]
    """A path: a folder of pictures (labelled where each class has a sub-folder), ``.npy``, ``.npz`` (labelled by ``labels``),
    ``.csv`` (labelled by a ``label`` column) or ``.pb``. Or arrays by input name, whose first axis counts samples, with the
    right classes as ``"labels"``."""
    preprocess: str | os.PathLike[str] | None = None
    """Of pictures: how they become inputs, where the engine, the ranges or the model do not say it, or say something else: ``"imagenet"``,
    ``"unit"``, ``"none"``, ``"tf"``, ``"caffe"``, ``"clip"`` or ``"yolo"``, words like ``"fit=letterbox scale=1/255 mean=0 std=1"``, or the path of a
    ``preprocessor_config.json`` of transformers or ``config.json`` of timm. What stands below goes before it."""
    fit: str | None = None
    """Of pictures: ``"crop"`` (the middle), ``"stretch"``, or ``"letterbox"`` (whole, on a plain ground)."""
    pad: int | None = None
    """Of letterboxed pictures: the value of the pixels around, 0 to 255; 114 without."""
    resize: int | None = None
    """Of pictures: the short side in pixels before the crop; 0 stretches the picture to the crop."""
    crop: int | tuple[int, int] | None = None
    """Of pictures: what the model gets, one number or (height, width), where its input leaves that open."""
    mean: float | Sequence[float] = ()
    """Of pictures: subtracted after scaling; one value, or red, green, blue."""
    std: float | Sequence[float] = ()
    """Of pictures: divided by after that."""
    scale: float | None = None
    """Of pictures: the factor of each pixel; 1/255 without."""
    bgr: bool = False
    """Of pictures: the model takes blue, green, red."""
    layout: str | None = None
    """Of pictures: ``"nchw"`` or ``"nhwc"``, where the input's shape leaves it open."""
    filter: str | None = None
    """Of resizing: ``"bilinear"``, as where nothing is said, or ``"bicubic"``."""
    label_column: str | None = None
    """Of CSV: ``"first"``, ``"last"``, ``"none"`` or a name in the header."""
    class_names: str | os.PathLike[str] | None = None
    """A text file with the names of the classes, one a line."""
    strict: bool = False
    """A picture that cannot be read is an error; otherwise it is left out with a warning."""


DataSource = Union[Data, str, os.PathLike[str], Mapping[str, Array]]


def _numbers(name: str, value: float | Sequence[float]) -> list[float]:
    return [number(name, value)] if not isinstance(value, (Sequence, numpy.ndarray)) else [number(name, v) for v in value]


def data_of(data: DataSource, samples: int | None, seed: int, memory_limit: int | None = None) -> dict[str, Any]:
    """What the native module takes. Checks what has no check below."""
    if not isinstance(data, Data):
        data = Data(data)
    if samples is not None:
        samples = whole("samples", samples, 1, "it must be above 0")
    seed = seed_of(seed)
    if data.layout not in (None, "nchw", "nhwc"):
        raise Error(f"layout is {data.layout!r}; it must be 'nchw' or 'nhwc'")
    if data.filter not in (None, "bilinear", "bicubic"):
        raise Error(f"filter is {data.filter!r}; it must be 'bilinear' or 'bicubic'")
    if data.fit not in (None, "crop", "stretch", "letterbox"):
        raise Error(f"fit is {data.fit!r}; it must be 'crop', 'stretch' or 'letterbox'")
    if data.pad is not None and not 0 <= whole("pad", data.pad) <= 255:
        raise Error(f"pad is {data.pad}; it must be 0 to 255")
    if data.resize is not None and whole("resize", data.resize) < 0:
        raise Error(f"resize is {data.resize}; it must be a number of pixels, or 0")
    crop = (data.crop, data.crop) if isinstance(data.crop, int) else data.crop
    if crop is not None and (len(crop) != 2 or min(crop) < 1):
        raise Error(f"crop is {data.crop!r}; it must be a number of pixels, or (height, width)")
    if data.scale is not None and number("scale", data.scale) == 0:
        raise Error("scale is 0; it must be another factor")
    given: dict[str, Any] = {
        "samples": samples,
        "seed": seed,
        "memory_limit": memory_limit,
        "preprocess": None if data.preprocess is None else os.fspath(data.preprocess),
        "fit": data.fit,
        "pad": data.pad,
        "resize": data.resize,
        "mean": _numbers("mean", data.mean),
        "std": _numbers("std", data.std),
        "scale": data.scale,
        "bgr": flag("bgr", data.bgr),
        "layout": data.layout,
        "filter": data.filter,
        "label_column": data.label_column,
        "class_names": None if data.class_names is None else os.fspath(data.class_names),
        "strict": flag("strict", data.strict),
    }
    if crop is not None:
        given |= {"crop_height": crop[0], "crop_width": crop[1]}
    if isinstance(data.source, Mapping):
        return given | {"arrays": dict(data.source)}
    if isinstance(data.source, (str, os.PathLike)):
        return given | {"path": must_exist(data.source, "the data")}
    raise ArgumentTypeError(f"the data are a {type(data.source).__name__}; give a path, or a dict of arrays by input name")
