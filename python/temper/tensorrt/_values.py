# SPDX-License-Identifier: Apache-2.0
"""What all parts of the API pass around: dimensions, addresses, types, bytes, loggers; and how a name that is not there is refused."""
from __future__ import annotations

import datetime
import operator
import sys
from collections.abc import Iterable
from typing import Any

import numpy

from ._enums import REFUSED, DataType, ErrorCodeTRT, Severity

TYPES = {"float32": DataType.FLOAT, "float16": DataType.HALF, "int8": DataType.INT8, "int32": DataType.INT32, "bool": DataType.BOOL,
         "uint8": DataType.UINT8, "bfloat16": DataType.BF16, "int64": DataType.INT64}  # fmt: skip
SIZES = {DataType.FLOAT: 4, DataType.INT32: 4, DataType.HALF: 2, DataType.BF16: 2, DataType.INT8: 1, DataType.UINT8: 1, DataType.BOOL: 1,
         DataType.INT64: 8}  # fmt: skip
NUMPY = {dtype: "bool_" if name == "bool" else name for name, dtype in TYPES.items() if name != "bfloat16"}

DataType.itemsize = property(lambda self: SIZES.get(self), doc="Bytes of one element; None where there is no such type here.")


def nptype(trt_type: Any) -> Any:
    """numpy's type of a DataType; TypeError for one that numpy has none for."""
    if trt_type not in NUMPY:
        raise TypeError(f"Could not resolve TensorRT datatype to an equivalent numpy datatype: {trt_type}")
    return getattr(numpy, NUMPY[trt_type])


def volume(iterable: Iterable[int]) -> int:
    """The product of dimensions; 1 of none."""
    product = 1
    for dim in iterable:
        product *= dim
    return product


def init_libnvinfer_plugins(logger: Any, namespace: str) -> Any:
    """There are no plugins, so there is nothing to register; True."""
    return True


def get_nv_onnx_parser_version() -> int:
    """MAJOR * 10000 + MINOR * 100 + PATCH of the release whose names are in use."""
    version = sys.modules["temper.tensorrt"].__version__.split("+")[0]
    major, minor, patch = (int(part) for part in version.split("."))
    return (major * 100 + minor) * 100 + patch


def refusal(cls: type, name: str) -> str:
    """Why the class, or one that it is made of, has no such name; "" where that is no name of the release's."""
    for base in cls.__mro__:
        if (base.__name__, name) in REFUSED:
            return f"{base.__name__}.{name} is not in Temper: {REFUSED[base.__name__, name]}"
    return ""


class Refusing:
    """Says why an attribute of the release is not there; what is in no release is an AttributeError like any other."""

    __slots__ = ()  # an attribute that is not there cannot be set, either

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(refusal(type(self), name) or f"{type(self).__name__!r} object has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        try:
            object.__setattr__(self, name, value)
        except AttributeError as error:
            raise AttributeError(refusal(type(self), name) or str(error)) from None


class Scoped(Refusing):
    """Can stand in a ``with``, which does nothing."""

    __slots__ = ()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        return None


def property_of(name: str, doc: str = "") -> Any:
    """A property that is kept and has no effect here: ``_NAME`` holds it."""
    kept = f"_{name}"
    return property(lambda self: getattr(self, kept), lambda self, value: object.__setattr__(self, kept, value), doc=doc)


class Dims(list):
    """Dimensions, -1 for one that is open; equal to tuples and lists of the same numbers, and printed as tuples are."""

    MAX_DIMS = 8
    _count: int | None = None

    def __init__(self, *shape: Any) -> None:
        if len(shape) == 1 and not isinstance(shape[0], int):
            shape = tuple(shape[0])
        if len(shape) > self.MAX_DIMS or (self._count is not None and len(shape) not in (0, self._count)):
            raise ValueError(f"{type(self).__name__} of {len(shape)} dimensions")
        super().__init__([operator.index(dim) for dim in shape])

    def __eq__(self, other: object) -> Any:
        return tuple(self) == tuple(other) if isinstance(other, (list, tuple)) else NotImplemented

    def __ne__(self, other: object) -> Any:
        return not self == other

    __hash__ = None  # type: ignore[assignment]

    def __getitem__(self, key: Any) -> Any:
        found = list.__getitem__(self, key)
        return tuple(found) if isinstance(key, slice) else found

    def __repr__(self) -> str:
        return repr(tuple(self))

    __str__ = __repr__


class Dims2(Dims):
    _count = 2


class DimsHW(Dims2):
    @property
    def h(self) -> int:
        return self[0]

    @h.setter
    def h(self, value: int) -> None:
        self[0] = value

    @property
    def w(self) -> int:
        return self[1]

    @w.setter
    def w(self, value: int) -> None:
        self[1] = value


class Dims3(Dims):
    _count = 3


class Dims4(Dims):
    _count = 4


def dims_of(shape: Any) -> list[int]:
    return [operator.index(dim) for dim in ([shape] if isinstance(shape, int) else shape)]


def address_of(pointer: Any) -> int:
    """An address as programs have it: an int, numpy's, or an object that turns into one (pycuda's DeviceAllocation)."""
    try:
        return operator.index(pointer)
    except TypeError:
        if pointer is None:
            raise
        return int(pointer)


class IHostMemory(bytes, Scoped):
    """The bytes of a plan."""

    @property
    def nbytes(self) -> int:
        return len(self)

    @property
    def dtype(self) -> Any:
        return DataType.INT8


class ILogger:
    """To be subclassed, with a ``log(severity, msg)``."""

    Severity = Severity
    INTERNAL_ERROR, ERROR, WARNING, INFO, VERBOSE = Severity.__members__.values()

    def __init__(self) -> None:
        self._made = True

    def log(self, severity: Any, msg: str) -> None:
        raise NotImplementedError('Tried to call pure virtual function "ILogger::log"')


class Logger(ILogger):
    """Writes lines of at least ``min_severity`` to standard error."""

    def __init__(self, min_severity: Any = Severity.WARNING) -> None:
        super().__init__()
        self._min_severity = min_severity

    min_severity = property_of("min_severity")

    def log(self, severity: Any, msg: str) -> None:
        if int(severity) <= int(self.min_severity):
            stamp = datetime.datetime.now().strftime("%m/%d/%Y-%H:%M:%S")
            print(f"[{stamp}] [Temper] [{'FEWIV'[int(severity)]}] {msg}", file=sys.stderr)


class IErrorRecorder:
    """To be subclassed: it is told of errors, beside the logger."""

    def __init__(self) -> None:
        self._made = True

    def report_error(self, val: Any, desc: str) -> Any:
        raise NotImplementedError('Tried to call pure virtual function "IErrorRecorder::report_error"')

    def num_errors(self) -> int:
        raise NotImplementedError('Tried to call pure virtual function "IErrorRecorder::num_errors"')

    def get_error_code(self, arg0: int) -> Any:
        raise NotImplementedError('Tried to call pure virtual function "IErrorRecorder::get_error_code"')

    def get_error_desc(self, arg0: int) -> str:
        raise NotImplementedError('Tried to call pure virtual function "IErrorRecorder::get_error_desc"')

    def has_overflowed(self) -> Any:
        raise NotImplementedError('Tried to call pure virtual function "IErrorRecorder::has_overflowed"')

    def clear(self) -> None:
        raise NotImplementedError('Tried to call pure virtual function "IErrorRecorder::clear"')


class Sink:
    """Where the lines of an object go: to the program's logger, and errors to its recorder, too."""

    __slots__ = ("logger", "recorder")

    def __init__(self, logger: Any, recorder: IErrorRecorder | None = None) -> None:
        self.logger, self.recorder = logger, recorder

    def __call__(self, severity: int, text: str) -> None:
        if self.recorder is not None and severity <= int(Severity.ERROR):
            self.recorder.report_error(ErrorCodeTRT.UNSPECIFIED_ERROR, text)
        self.logger.log(Severity(severity), text)

    def child(self) -> Sink:
        """Of an object that is made by this one's: it has the recorder, until it gets one of its own."""
        return Sink(self.logger, self.recorder)


Log = Sink


def _set_recorder(self: Any, recorder: IErrorRecorder | None) -> None:
    self._log.recorder = None if recorder is None else made(recorder, IErrorRecorder)


error_recorder = property(lambda self: self._log.recorder, _set_recorder, doc="Is told of errors, beside the logger.")


def made(instance: Any, cls: type) -> Any:
    """The instance of a class that programs subclass; TypeError for another, and where the subclass did not call ``__init__`` of the class."""
    if not isinstance(instance, cls):
        raise TypeError(f"{'an' if cls.__name__[0] in 'AEIO' else 'a'} {cls.__name__} is expected, not {type(instance).__name__}")
    if not getattr(instance, "_made", False):
        raise TypeError(f"{type(instance).__name__}.__init__() must call {cls.__name__}.__init__(self)")
    return instance


def log_of(logger: Any) -> Log:
    return Sink(made(logger, ILogger))
