# SPDX-License-Identifier: Apache-2.0
"""Tensors, layers and weights of a network. What a layer is told goes to src/nvinfer/layers.cc, by the names there."""
from __future__ import annotations

import operator
from typing import Any

import numpy

from .._error import Error
from ._enums import (ActivationType, BoundingBoxFormat, CumulativeOperation, DataType, ElementWiseOperation, FillOperation, GatherMode, InterpolationMode,
                     LayerType, MatrixOperation, PaddingMode, PoolingType, ReduceOperation, ResizeCoordinateTransformation, ResizeRoundMode,
                     ResizeSelector, SampleMode, ScaleMode, ScatterMode, Severity, TensorFormat, TensorLocation, TopKOperation, UnaryOperation)  # fmt: skip
from ._values import NUMPY, SIZES, TYPES, Dims, DimsHW, Log, Refusing, dims_of, nptype

_LAYER_TYPES = dict(LayerType.__members__)  # of every release


class Weights(Refusing):
    """Numbers of one type: an array, or so many of them at an address; of a type alone none."""

    __slots__ = ("_array", "_dtype")

    def __init__(self, type: Any = DataType.FLOAT, ptr: int | None = None, count: int | None = None) -> None:
        self._dtype = DataType.FLOAT
        if isinstance(type, numpy.ndarray):
            self._array = numpy.ascontiguousarray(type)
            if self._array.dtype.name not in TYPES:
                raise TypeError(f"there are no weights of the type {self._array.dtype}")
            self._dtype = TYPES[self._array.dtype.name]
            return
        self._dtype = type
        itemsize = SIZES.get(type)
        if itemsize is None:
            raise TypeError(f"there are no weights of the type {type}")
        if ptr is None or not count:
            self._array = numpy.zeros(0, nptype(type) if type in NUMPY else "uint16")
            return
        import ctypes

        at = (ctypes.c_uint8 * (itemsize * count)).from_address(operator.index(ptr))
        self._array = numpy.frombuffer(at, nptype(type) if type in NUMPY else "uint16")

    @property
    def dtype(self) -> Any:
        return self._dtype

    @property
    def size(self) -> int:
        return int(self._array.size)

    @property
    def nbytes(self) -> int:
        return int(self._array.nbytes)

    def numpy(self) -> Any:
        return self._array

    def __len__(self) -> int:
        return self.size

    def __bool__(self) -> bool:
        return True  # without any, too


def weights_of(given: Any) -> Weights:
    """Of what programs give: an array, Weights, or None for none."""
    if given is None:
        return Weights()
    return given if isinstance(given, Weights) else Weights(numpy.asarray(given))


class Permutation(list):
    """An order of axes; equal to tuples and lists of the same numbers."""

    def __init__(self, order: Any = ()) -> None:
        super().__init__(operator.index(axis) for axis in order)
        if sorted(self) != list(range(len(self))):
            raise ValueError(f"{list(self)} is no order of axes")

    def __eq__(self, other: object) -> Any:
        return tuple(self) == tuple(other) if isinstance(other, (list, tuple)) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(tuple(self))

    __str__ = __repr__


class Hold:
    """A network of the library, with the log of its builder."""

    __slots__ = ("native", "log")

    def __init__(self, native: Any, log: Log) -> None:
        self.native, self.log = native, log

    def tries(self, call: Any, *arguments: Any) -> Any:
        """What the call gives; None, with a line of the log, where it fails."""
        try:
            return call(*arguments)
        except Error as error:
            self.log(int(Severity.ERROR), str(error))
            return None

    def number_of(self, tensor: Any) -> int | None:
        """None, with a line of the log, for a tensor of another network: its number here is that of some other tensor."""
        if not isinstance(tensor, ITensor):
            raise TypeError(f"a tensor of a network is an ITensor, not {tensor.__class__.__name__}")
        if tensor._hold.native is self.native:
            number: int = tensor._number
            return number
        self.log(int(Severity.ERROR), f"{tensor.name!r} is a tensor of another network")
        return None

    def edits(self, call: Any, tensor: Any, *before: Any) -> None:
        """Calls with `before` and the number of the tensor. Where that fails, builds of the network do."""
        number = self.number_of(tensor)
        if number is None:
            self.native.end_builds(f"{tensor.name!r} is a tensor of another network")
        else:
            self.tries(call, *before, number)


class _Numbered(Refusing):
    """A tensor or layer: its network and its number there. Two of the same are equal."""

    __slots__ = ("_hold", "_number")

    def __init__(self, hold: Hold, number: int) -> None:
        object.__setattr__(self, "_hold", hold)
        object.__setattr__(self, "_number", number)

    def __eq__(self, other: object) -> Any:
        return isinstance(other, _Numbered) and issubclass(type(self), ITensor) == issubclass(type(other), ITensor) and \
            (self._hold.native, self._number) == (other._hold.native, other._number)  # fmt: skip

    def __hash__(self) -> int:
        return hash((id(self._hold.native), self._number))

    @property
    def _native(self) -> Any:
        return self._hold.native


class ITensor(_Numbered):
    """A tensor of a network: an input, or what a layer gives."""

    __slots__ = ("_allowed_formats",)

    def __init__(self, hold: Hold, number: int) -> None:
        super().__init__(hold, number)
        self._allowed_formats = 1 << int(TensorFormat.LINEAR)

    def _seen(self) -> tuple[int, tuple[int, ...]]:
        try:
            seen: tuple[int, tuple[int, ...]] = self._native.tensor(self._number)
            return seen
        except Error as error:
            self._hold.log(int(Severity.ERROR), str(error))
            raise ValueError(f"{self.name!r} has no type and shape: {error}") from None

    @property
    def name(self) -> str:
        return self._native.tensor_name(self._number)

    @name.setter
    def name(self, name: str) -> None:
        self._hold.tries(self._native.rename, self._number, name)

    @property
    def dtype(self) -> Any:
        return DataType(self._seen()[0])

    @dtype.setter
    def dtype(self, dtype: Any) -> None:
        """Of an input or output: what the program gives and gets."""
        self._hold.tries(self._native.set_type, self._number, int(dtype))

    @property
    def shape(self) -> Dims:
        """-1: open."""
        return Dims(self._seen()[1])

    @shape.setter
    def shape(self, shape: Any) -> None:
        self._hold.tries(self._native.set_dims, self._number, dims_of(shape))

    def set_dimension_name(self, index: int, name: str) -> None:
        """Dimensions of inputs with one name are equal when it runs."""
        self._hold.tries(self._native.name_dim, self._number, index, name)

    def get_dimension_name(self, index: int) -> str | None:
        return self._native.dim_name(self._number, index) or None

    @property
    def is_network_input(self) -> Any:
        return self._native.is_input(self._number)

    @property
    def is_network_output(self) -> Any:
        return self._native.is_output(self._number)

    @property
    def is_shape_tensor(self) -> Any:
        return False

    @property
    def is_execution_tensor(self) -> Any:
        return True

    @property
    def broadcast_across_batch(self) -> Any:
        return False

    @property
    def location(self) -> Any:
        return TensorLocation.DEVICE

    @location.setter
    def location(self, location: Any) -> None:
        if location != TensorLocation.DEVICE:
            self._hold.log(int(Severity.WARNING), f"ITensor.location: {self.name!r} is where the engine runs, whatever is asked for")

    @property
    def allowed_formats(self) -> int:
        """Inputs and outputs are in rows (LINEAR), which must be among them."""
        return self._allowed_formats

    @allowed_formats.setter
    def allowed_formats(self, mask: int) -> None:
        if not int(mask) & 1 << int(TensorFormat.LINEAR):
            raise ValueError(f"inputs and outputs are in rows (TensorFormat.LINEAR), which {mask:#x} does not allow for {self.name!r}")
        self._allowed_formats = int(mask)


class ILayer(_Numbered):
    """A layer that a program added, or a node of the parser's model, which stays as it is."""

    __slots__ = ()

    def _row(self) -> tuple[str, str, list[int], list[int]]:
        row: tuple[str, str, list[int], list[int]] = self._native.layer(self._number)
        return row

    @property
    def name(self) -> str:
        return self._row()[0]

    @name.setter
    def name(self, name: str) -> None:
        self._native.rename_layer(self._number, name)

    @property
    def metadata(self) -> str:
        return self._native.setting(self._number, "metadata") or ""

    @metadata.setter
    def metadata(self, text: str) -> None:
        self._hold.tries(self._native.set_text, self._number, "metadata", text)

    @property
    def type(self) -> Any:
        """None where TensorRT has no word that says the same."""
        return _LAYER_TYPES.get(self._row()[1])

    @property
    def num_inputs(self) -> int:
        return len(self._row()[2])

    @property
    def num_outputs(self) -> int:
        return len(self._row()[3])

    def get_input(self, index: int) -> ITensor | None:
        inputs = self._row()[2]
        return ITensor(self._hold, inputs[index]) if 0 <= index < len(inputs) and inputs[index] >= 0 else None

    def get_output(self, index: int) -> ITensor | None:
        outputs = self._row()[3]
        return ITensor(self._hold, outputs[index]) if 0 <= index < len(outputs) else None

    def set_input(self, index: int, tensor: ITensor) -> None:
        self._hold.edits(self._native.set_layer_input, tensor, self._number, index)

    @property
    def precision(self) -> Any:
        """Counts with PREFER_PRECISION_CONSTRAINTS and OBEY_PRECISION_CONSTRAINTS; otherwise types are chosen by the flags and by speed."""
        kept = self._native.setting(self._number, "precision")
        return DataType(kept[0]) if kept else DataType.FLOAT

    @precision.setter
    def precision(self, dtype: Any) -> None:
        self._hold.tries(self._native.set_ints, self._number, "precision", [int(dtype)])

    @property
    def precision_is_set(self) -> Any:
        return self._native.setting(self._number, "precision") is not None

    def reset_precision(self) -> None:
        self._native.reset(self._number, "precision")

    def _told(self, name: str) -> Any:
        """What a node of the model says; ValueError for what it does not tell."""
        try:
            return self._native.setting(self._number, name)
        except Error as error:
            self._hold.log(int(Severity.ERROR), str(error))
            raise ValueError(str(error)) from None

    def _output(self, index: int) -> ITensor:
        tensor = self.get_output(index)
        if tensor is None:
            raise IndexError(f"{self.name!r} has {self.num_outputs} outputs")
        return tensor

    def set_output_type(self, index: int, dtype: Any) -> None:
        """Of an output of the network, or of an identity layer, which casts then; otherwise kept."""
        self._output(index).dtype = dtype

    def get_output_type(self, index: int) -> Any:
        return self._output(index).dtype

    def output_type_is_set(self, index: int) -> Any:
        return self._native.is_type_set(self._output(index)._number)

    def reset_output_type(self, index: int) -> None:
        self._hold.tries(self._native.reset_type, self._output(index)._number)


# ---- what the layers of a type are told ----


def _setting(name: str, read: Any, write: Any, otherwise: Any) -> Any:
    """A property that is a setting; `otherwise`: what it is before it is set, or a function of the layer."""

    def get(self: ILayer) -> Any:
        if self._native.is_parsed(self._number):  # by layer.__class__ = trt.IConvolutionLayer
            return read(self._told(name))
        kept = self._hold.tries(self._native.setting, self._number, name)
        if kept is None:
            return otherwise(self) if callable(otherwise) else otherwise
        return read(kept)

    return property(get, lambda self, value: write(self, name, value))


def _write_ints(layer: ILayer, name: str, values: list[int]) -> None:
    layer._hold.tries(layer._native.set_ints, layer._number, name, values)


def _int(name: str, otherwise: Any = 0, kind: Any = int) -> Any:
    return _setting(name, lambda kept: kind(kept[0]), lambda layer, at, value: _write_ints(layer, at, [int(value)]), otherwise)


def _bool(name: str, otherwise: bool = False) -> Any:
    return _int(name, otherwise, bool)


def _dims(name: str, otherwise: Any = lambda layer: Dims(), kind: Any = Dims) -> Any:
    return _setting(name, kind, lambda layer, at, value: _write_ints(layer, at, dims_of(value)), otherwise)


def _real(name: str, otherwise: float = 0.0) -> Any:
    return _setting(name, lambda kept: kept[0], lambda layer, at, value: layer._hold.tries(layer._native.set_reals, layer._number, at, [float(value)]), otherwise)


def set_weights(layer: ILayer, name: str, given: Any) -> None:
    weights = weights_of(given)
    layer._hold.tries(layer._native.set_weights, layer._number, name, int(weights.dtype), weights._array.ctypes.data if weights.size else 0, weights.size)


def _weights(name: str) -> Any:
    def read(kept: tuple[int, bytes]) -> Weights:
        dtype = DataType(kept[0])
        return Weights(numpy.frombuffer(kept[1], nptype(dtype))) if dtype in NUMPY else Weights(dtype)

    return _setting(name, read, set_weights, lambda layer: Weights())


def _filled(value: int, like: str) -> Any:
    """As many of it as that setting has dimensions."""
    return lambda layer: Dims([value] * len(layer._native.setting(layer._number, like) or ()))


def _hw(name: str, value: int, like: str) -> Any:
    return _dims(name, lambda layer: DimsHW(_filled(value, like)(layer)), DimsHW)


def _padding(like: str, kind: Any = Dims) -> Any:
    """Both sides at once; what is read is the side in front."""

    def write(layer: ILayer, name: str, value: Any) -> None:
        for side in ("pre_padding", "post_padding"):
            _write_ints(layer, side, dims_of(value))

    return _setting("pre_padding", kind, write, lambda layer: kind(_filled(0, like)(layer)))


def _layer(name: str, **members: Any) -> Any:
    return type(name, (ILayer,), {"__slots__": (), "__module__": "temper.tensorrt", **members})


def _window(like: str, size: str) -> dict[str, Any]:
    """What a convolution and a pooling share; `like` is the setting of their window, `size` the name of it."""
    return {size: _dims(like, kind=DimsHW), f"{size}_nd": _dims(like), "stride": _hw("stride", 1, like), "stride_nd": _dims("stride", _filled(1, like)),
            "padding": _padding(like, DimsHW), "padding_nd": _padding(like), "pre_padding": _dims("pre_padding", _filled(0, like)),
            "post_padding": _dims("post_padding", _filled(0, like)),
            "padding_mode": _int("padding_mode", PaddingMode.EXPLICIT_ROUND_DOWN, PaddingMode)}  # fmt: skip


def _convolution(name: str) -> Any:
    return _layer(name, **_window("kernel_size", "kernel_size"), num_output_maps=_int("maps"), num_groups=_int("groups", 1), kernel=_weights("kernel"),
                  bias=_weights("bias"), dilation=_hw("dilation", 1, "kernel_size"), dilation_nd=_dims("dilation", _filled(1, "kernel_size")))  # fmt: skip


IConvolutionLayer, IDeconvolutionLayer = _convolution("IConvolutionLayer"), _convolution("IDeconvolutionLayer")
IPoolingLayer = _layer("IPoolingLayer", **_window("window", "window_size"), type=_int("operation", kind=PoolingType), blend_factor=_real("blend"),
                       average_count_excludes_padding=_bool("average_excludes_padding", True))  # fmt: skip
IFullyConnectedLayer = _layer("IFullyConnectedLayer", num_output_channels=_int("maps"), kernel=_weights("kernel"), bias=_weights("bias"))
IActivationLayer = _layer("IActivationLayer", type=_int("operation", kind=ActivationType), alpha=_real("alpha"), beta=_real("beta"))
ILRNLayer = _layer("ILRNLayer", window_size=_int("window"), alpha=_real("alpha"), beta=_real("beta"), k=_real("k"))
IScaleLayer = _layer("IScaleLayer", mode=_int("mode", kind=ScaleMode), shift=_weights("shift"), scale=_weights("scale"), power=_weights("power"),
                     channel_axis=_int("channel_axis", 1))  # fmt: skip
ISoftMaxLayer = _layer("ISoftMaxLayer", axes=_int("axes"))
IConcatenationLayer = _layer("IConcatenationLayer", axis=_int("axis"))
IElementWiseLayer = _layer("IElementWiseLayer", op=_int("operation", kind=ElementWiseOperation))
IUnaryLayer = _layer("IUnaryLayer", op=_int("operation", kind=UnaryOperation))
IReduceLayer = _layer("IReduceLayer", op=_int("operation", kind=ReduceOperation), axes=_int("axes"), keep_dims=_bool("keep"))
IPaddingLayer = _layer("IPaddingLayer", pre_padding=_dims("pre_padding", kind=DimsHW), post_padding=_dims("post_padding", kind=DimsHW),
                       pre_padding_nd=_dims("pre_padding"), post_padding_nd=_dims("post_padding"))  # fmt: skip
IParametricReLULayer, ISelectLayer, IShapeLayer = _layer("IParametricReLULayer"), _layer("ISelectLayer"), _layer("IShapeLayer")
IIdentityLayer, INonZeroLayer = _layer("IIdentityLayer"), _layer("INonZeroLayer")
ISqueezeLayer, IUnsqueezeLayer = _layer("ISqueezeLayer"), _layer("IUnsqueezeLayer")
ICastLayer = _layer("ICastLayer", to_type=_int("to", kind=DataType))
IShuffleLayer = _layer("IShuffleLayer", first_transpose=_dims("first_transpose", lambda layer: Permutation(), Permutation), reshape_dims=_dims("reshape"),
                       second_transpose=_dims("second_transpose", lambda layer: Permutation(), Permutation),
                       zero_is_placeholder=_bool("zero_is_placeholder", True))  # fmt: skip
ISliceLayer = _layer("ISliceLayer", start=_dims("start"), shape=_dims("size"), stride=_dims("stride"), mode=_int("mode", SampleMode.STRICT_BOUNDS, SampleMode))
ITopKLayer = _layer("ITopKLayer", op=_int("operation", kind=TopKOperation), k=_int("k"), axes=_int("axes"))
IGatherLayer = _layer("IGatherLayer", axis=_int("axis"), num_elementwise_dims=_int("elementwise_dims"), mode=_int("mode", GatherMode.DEFAULT, GatherMode))
IScatterLayer = _layer("IScatterLayer", axis=_int("axis"), mode=_int("mode", kind=ScatterMode))
IMatrixMultiplyLayer = _layer("IMatrixMultiplyLayer", op0=_int("operation0", kind=MatrixOperation), op1=_int("operation1", kind=MatrixOperation))
IConstantLayer = _layer("IConstantLayer", weights=_weights("weights"), shape=_dims("dims"))
IResizeLayer = _layer(
    "IResizeLayer", shape=_dims("size"), resize_mode=_int("mode", InterpolationMode.NEAREST, InterpolationMode),
    scales=_setting("scales", list, lambda layer, at, value: layer._hold.tries(layer._native.set_reals, layer._number, at, [float(x) for x in value]),
                    lambda layer: []),
    coordinate_transformation=_int("coordinate", ResizeCoordinateTransformation.ASYMMETRIC, ResizeCoordinateTransformation),
    selector_for_single_pixel=_int("selector", ResizeSelector.FORMULA, ResizeSelector), cubic_coeff=_real("cubic", -0.75),
    nearest_rounding=_int("rounding", ResizeRoundMode.FLOOR, ResizeRoundMode), exclude_outside=_bool("exclude_outside"))  # fmt: skip
IFillLayer = _layer("IFillLayer", shape=_dims("dims"), operation=_int("operation", kind=FillOperation), alpha=_real("alpha"), beta=_real("beta", 1.0))
IQuantizeLayer, IDequantizeLayer = _layer("IQuantizeLayer", axis=_int("axis", 1)), _layer("IDequantizeLayer", axis=_int("axis", 1))
IEinsumLayer = _layer("IEinsumLayer", equation=_setting("equation", str, lambda layer, at, value: layer._native.set_text(layer._number, at, value), ""))
IOneHotLayer = _layer("IOneHotLayer", axis=_int("axis", -1))
IGridSampleLayer = _layer("IGridSampleLayer", interpolation_mode=_int("mode", InterpolationMode.LINEAR, InterpolationMode),
                          align_corners=_bool("align_corners"), sample_mode=_int("sample_mode", SampleMode.FILL, SampleMode))  # fmt: skip
INMSLayer = _layer("INMSLayer", bounding_box_format=_int("format", BoundingBoxFormat.CORNER_PAIRS, BoundingBoxFormat), topk_box_limit=_int("limit"))
INormalizationLayer = _layer("INormalizationLayer", epsilon=_real("epsilon", 1e-5), axes=_int("axes"), num_groups=_int("groups", 1),
                             compute_precision=_int("compute_precision", DataType.FLOAT, DataType))  # fmt: skip
IReverseSequenceLayer = _layer("IReverseSequenceLayer", batch_axis=_int("batch_axis", 1), sequence_axis=_int("sequence_axis"))
ICumulativeLayer = _layer("ICumulativeLayer", op=_int("operation", CumulativeOperation.SUM, CumulativeOperation), exclusive=_bool("exclusive"),
                          reverse=_bool("reverse"))  # fmt: skip

# The class of a layer that a program added, by TensorRT's word. Those of a parser's model are ILayer.
CLASSES = {
    "CONVOLUTION": IConvolutionLayer, "DECONVOLUTION": IDeconvolutionLayer, "POOLING": IPoolingLayer, "FULLY_CONNECTED": IFullyConnectedLayer,
    "ACTIVATION": IActivationLayer, "LRN": ILRNLayer, "SCALE": IScaleLayer, "SOFTMAX": ISoftMaxLayer, "CONCATENATION": IConcatenationLayer,
    "ELEMENTWISE": IElementWiseLayer, "UNARY": IUnaryLayer, "REDUCE": IReduceLayer, "PADDING": IPaddingLayer, "PARAMETRIC_RELU": IParametricReLULayer,
    "SELECT": ISelectLayer, "SHAPE": IShapeLayer, "IDENTITY": IIdentityLayer, "NON_ZERO": INonZeroLayer, "SQUEEZE": ISqueezeLayer,
    "UNSQUEEZE": IUnsqueezeLayer, "CAST": ICastLayer, "SHUFFLE": IShuffleLayer, "SLICE": ISliceLayer, "TOPK": ITopKLayer, "GATHER": IGatherLayer,
    "SCATTER": IScatterLayer, "MATRIX_MULTIPLY": IMatrixMultiplyLayer, "CONSTANT": IConstantLayer, "RESIZE": IResizeLayer, "FILL": IFillLayer,
    "QUANTIZE": IQuantizeLayer, "DEQUANTIZE": IDequantizeLayer, "EINSUM": IEinsumLayer, "ONE_HOT": IOneHotLayer, "GRID_SAMPLE": IGridSampleLayer,
    "NMS": INMSLayer, "NORMALIZATION": INormalizationLayer, "REVERSE_SEQUENCE": IReverseSequenceLayer, "CUMULATIVE": ICumulativeLayer}  # fmt: skip
