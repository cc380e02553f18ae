# SPDX-License-Identifier: Apache-2.0
"""A network that a parser fills from ONNX, or a program layer by layer, and the ranges of its shapes."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

from .. import _temper
from ._enums import DataType, ErrorCode, NetworkDefinitionCreationFlag, OnnxParserFlag, Severity
from ._layers import CLASSES, Hold, ILayer, ITensor, set_weights
from ._values import Dims, Log, Refusing, Scoped, dims_of, error_recorder, log_of, property_of

_EXPLICIT_PRECISION = NetworkDefinitionCreationFlag.EXPLICIT_PRECISION
_Given = Sequence[Optional[ITensor]]


class INetworkDefinition(Scoped):
    """A network that a parser fills, or a program layer by layer. What cannot be added is a line of the log, and None."""

    __slots__ = ("_hold", "_flags", "_builder")

    def __init__(self, builder: Any, flags: int, log: Log, release: int) -> None:
        self._flags, self._builder = flags, builder
        self._hold = Hold(_temper.NvNetwork(flags, release), log.child())

    error_recorder = error_recorder

    @property
    def _log(self) -> Log:
        return self._hold.log

    @property
    def _native(self) -> Any:
        return self._hold.native

    @property
    def builder(self) -> Any:
        return self._builder

    @property
    def name(self) -> str:
        return self._native.name

    @name.setter
    def name(self, name: str) -> None:
        self._native.name = name

    @property
    def num_layers(self) -> int:
        return self._native.layers

    @property
    def num_inputs(self) -> int:
        return len(self._native.input_tensors)

    @property
    def num_outputs(self) -> int:
        return len(self._native.output_tensors)

    def get_input(self, index: int) -> ITensor | None:
        tensors = self._native.input_tensors
        return ITensor(self._hold, tensors[index]) if 0 <= index < len(tensors) else None

    def get_output(self, index: int) -> ITensor | None:
        tensors = self._native.output_tensors
        return ITensor(self._hold, tensors[index]) if 0 <= index < len(tensors) else None

    def get_layer(self, index: int) -> ILayer | None:
        if not 0 <= index < self.num_layers:
            return None
        return (ILayer if self._native.is_parsed(index) else CLASSES[self._native.layer(index)[1]])(self._hold, index)

    def __len__(self) -> int:
        return self.num_layers

    def __bool__(self) -> Any:
        return True  # without layers, too

    def __getitem__(self, index: int) -> ILayer:
        layer = self.get_layer(index + self.num_layers if index < 0 else index)
        if layer is None:
            raise IndexError(f"the network has {self.num_layers} layers")
        return layer

    @property
    def flags(self) -> int:
        return self._flags

    def get_flag(self, flag: Any) -> Any:
        return self._flags >> int(flag) & 1 == 1

    @property
    def has_implicit_batch_dimension(self) -> Any:
        return False

    @property
    def has_explicit_precision(self) -> Any:
        return self.get_flag(_EXPLICIT_PRECISION)

    # ---- tensors ----

    def add_input(self, name: str, dtype: Any, shape: Any) -> ITensor | None:
        number = self._hold.tries(self._native.add_input, name, int(dtype), dims_of(shape))
        return None if number is None else ITensor(self._hold, number)

    def mark_output(self, tensor: ITensor) -> None:
        self._hold.edits(self._native.mark_output, tensor)

    def unmark_output(self, tensor: ITensor) -> None:
        self._hold.edits(self._native.unmark_output, tensor)

    # ---- layers ----

    def _add(self, type: str, inputs: _Given, weights: dict[str, Any] | None = None, reals: dict[str, float] | None = None, **ints: Any) -> Any:
        numbers = [-1 if given is None else self._hold.number_of(given) for given in inputs]
        number = None if None in numbers else self._hold.tries(self._native.add_layer, type, numbers)
        if number is None:
            return None
        layer = CLASSES[type](self._hold, number)
        for name, value in ints.items():
            self._native.set_ints(number, name, value if isinstance(value, list) else [int(value)])
        for name, value in (reals or {}).items():
            self._native.set_reals(number, name, [float(value)])
        for name, value in (weights or {}).items():
            set_weights(layer, name, value)
        return layer

    def add_convolution_nd(self, input: ITensor, num_output_maps: int, kernel_shape: Any, kernel: Any, bias: Any = None) -> Any:
        return self._add("CONVOLUTION", [input], {"kernel": kernel, "bias": bias}, maps=num_output_maps, kernel_size=dims_of(kernel_shape))

    add_convolution = add_convolution_nd

    def add_deconvolution_nd(self, input: ITensor, num_output_maps: int, kernel_shape: Any, kernel: Any, bias: Any = None) -> Any:
        return self._add("DECONVOLUTION", [input], {"kernel": kernel, "bias": bias}, maps=num_output_maps, kernel_size=dims_of(kernel_shape))

    add_deconvolution = add_deconvolution_nd

    def add_fully_connected(self, input: ITensor, num_outputs: int, kernel: Any, bias: Any = None) -> Any:
        return self._add("FULLY_CONNECTED", [input], {"kernel": kernel, "bias": bias}, maps=num_outputs)

    def add_pooling_nd(self, input: ITensor, type: Any, window_size: Any) -> Any:
        return self._add("POOLING", [input], operation=type, window=dims_of(window_size))

    add_pooling = add_pooling_nd

    def add_activation(self, input: ITensor, type: Any) -> Any:
        return self._add("ACTIVATION", [input], operation=type)

    def add_lrn(self, input: ITensor, window: int, alpha: float, beta: float, k: float) -> Any:
        return self._add("LRN", [input], reals={"alpha": alpha, "beta": beta, "k": k}, window=window)

    def add_scale_nd(self, input: ITensor, mode: Any, shift: Any = None, scale: Any = None, power: Any = None, channel_axis: int = 1) -> Any:
        return self._add("SCALE", [input], {"shift": shift, "scale": scale, "power": power}, mode=mode, channel_axis=channel_axis)

    def add_scale(self, input: ITensor, mode: Any, shift: Any = None, scale: Any = None, power: Any = None) -> Any:
        return self.add_scale_nd(input, mode, shift, scale, power)

    def add_softmax(self, input: ITensor) -> Any:
        return self._add("SOFTMAX", [input])

    def add_concatenation(self, inputs: _Given) -> Any:
        return self._add("CONCATENATION", inputs)

    def add_elementwise(self, input1: ITensor, input2: ITensor, op: Any) -> Any:
        return self._add("ELEMENTWISE", [input1, input2], operation=op)

    def add_unary(self, input: ITensor, op: Any) -> Any:
        return self._add("UNARY", [input], operation=op)

    def add_padding_nd(self, input: ITensor, pre_padding: Any, post_padding: Any) -> Any:
        return self._add("PADDING", [input], pre_padding=dims_of(pre_padding), post_padding=dims_of(post_padding))

    add_padding = add_padding_nd

    def add_shuffle(self, input: ITensor) -> Any:
        return self._add("SHUFFLE", [input])

    def add_reduce(self, input: ITensor, op: Any, axes: int, keep_dims: Any) -> Any:
        return self._add("REDUCE", [input], operation=op, axes=axes, keep=keep_dims)

    def add_topk(self, input: ITensor, op: Any, k: int, axes: int) -> Any:
        return self._add("TOPK", [input], operation=op, k=k, axes=axes)

    def add_gather(self, input: ITensor, indices: ITensor, axis: int) -> Any:
        return self._add("GATHER", [input, indices], axis=axis)

    def add_gather_v2(self, input: ITensor, indices: ITensor, mode: Any) -> Any:
        return self._add("GATHER", [input, indices], mode=mode)

    def add_scatter(self, data: ITensor, indices: ITensor, updates: ITensor, mode: Any) -> Any:
        return self._add("SCATTER", [data, indices, updates], mode=mode)

    def add_matrix_multiply(self, input0: ITensor, op0: Any, input1: ITensor, op1: Any) -> Any:
        return self._add("MATRIX_MULTIPLY", [input0, input1], operation0=op0, operation1=op1)

    def add_constant(self, shape: Any, weights: Any) -> Any:
        return self._add("CONSTANT", [], {"weights": weights}, dims=dims_of(shape))

    def add_identity(self, input: ITensor) -> Any:
        return self._add("IDENTITY", [input])

    def add_cast(self, input: ITensor, to_type: Any) -> Any:
        return self._add("CAST", [input], to=to_type)

    def add_slice(self, input: ITensor, start: Any, shape: Any, stride: Any) -> Any:
        return self._add("SLICE", [input], start=dims_of(start), size=dims_of(shape), stride=dims_of(stride))

    def add_shape(self, input: ITensor) -> Any:
        return self._add("SHAPE", [input])

    def add_parametric_relu(self, input: ITensor, slopes: ITensor) -> Any:
        return self._add("PARAMETRIC_RELU", [input, slopes])

    def add_select(self, condition: ITensor, then_input: ITensor, else_input: ITensor) -> Any:
        return self._add("SELECT", [condition, then_input, else_input])

    def add_resize(self, input: ITensor) -> Any:
        return self._add("RESIZE", [input])

    def add_fill(self, shape: Any, op: Any, output_type: Any = DataType.FLOAT) -> Any:
        return self._add("FILL", [], dims=dims_of(shape), operation=op, to=output_type)

    def add_quantize(self, input: ITensor, scale: ITensor) -> Any:
        return self._add("QUANTIZE", [input, scale])

    def add_dequantize(self, input: ITensor, scale: ITensor) -> Any:
        return self._add("DEQUANTIZE", [input, scale])

    def add_einsum(self, inputs: _Given, equation: str) -> Any:
        layer = self._add("EINSUM", inputs)
        if layer is not None:
            layer.equation = equation
        return layer

    def add_one_hot(self, indices: ITensor, values: ITensor, depth: ITensor, axis: int) -> Any:
        return self._add("ONE_HOT", [indices, values, depth], axis=axis)

    def add_non_zero(self, input: ITensor) -> Any:
        return self._add("NON_ZERO", [input])

    def add_grid_sample(self, input: ITensor, grid: ITensor) -> Any:
        return self._add("GRID_SAMPLE", [input, grid])

    def add_nms(self, boxes: ITensor, scores: ITensor, max_output_boxes_per_class: ITensor) -> Any:
        return self._add("NMS", [boxes, scores, max_output_boxes_per_class])

    def add_normalization(self, input: ITensor, scale: ITensor, bias: ITensor, axesMask: int) -> Any:
        return self._add("NORMALIZATION", [input, scale, bias], axes=axesMask)

    def add_reverse_sequence(self, input: ITensor, sequence_lens: ITensor) -> Any:
        return self._add("REVERSE_SEQUENCE", [input, sequence_lens])

    def add_squeeze(self, input: ITensor, axes: ITensor) -> Any:
        return self._add("SQUEEZE", [input, axes])

    def add_unsqueeze(self, input: ITensor, axes: ITensor) -> Any:
        return self._add("UNSQUEEZE", [input, axes])

    def add_cumulative(self, input: ITensor, axis: ITensor, op: Any, exclusive: Any, reverse: Any) -> Any:
        return self._add("CUMULATIVE", [input, axis], operation=op, exclusive=exclusive, reverse=reverse)


class ParserError(Refusing):
    """Why a model was not read."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def desc(self) -> str:
        return self._text

    def code(self) -> Any:
        """The same of every error, as in C++: the text says what it is, and names the node where one is to blame."""
        return ErrorCode.INVALID_GRAPH

    def node(self) -> int:
        return -1

    def file(self) -> str:
        return ""

    def line(self) -> int:
        return 0

    def func(self) -> str:
        return ""

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return self._text


class OnnxParser(Scoped):
    """Fills a network from ONNX."""

    __slots__ = ("_network", "_log", "_errors", "_flags", "_parts")

    def __init__(self, network: INetworkDefinition, logger: Any) -> None:
        self._network, self._log, self._errors, self._flags = network, log_of(logger), [], 0
        self._parts: list[tuple[list[int], bool]] = []

    def _parse(self, model: bytes, path: str) -> Any:
        self._errors = [ParserError(text) for text in self._network._native.parse(model, path)]
        for error in self._errors:
            self._log(int(Severity.ERROR), str(error))
        return not self._errors

    def parse(self, model: Any, path: str | None = None) -> Any:
        """``path``: where the bytes come from, for weights that lie beside it."""
        return self._parse(bytes(model) if path is None else b"", path or "")

    parse_with_weight_descriptors = parse

    def parse_from_file(self, model: str) -> Any:
        return self._parse(b"", model)

    def _judged(self, model: Any, path: str | None) -> Any:
        errors, self._parts = self._network._native.judge(bytes(model) if path is None else b"", path or "")
        self._errors = [ParserError(text) for text in errors]
        return not errors

    def supports_model_v2(self, model: Any, path: str | None = None) -> Any:
        """Whether the model is read, which fills the network then; ``get_subgraph_nodes`` has its parts."""
        return self._judged(model, path)

    def supports_model(self, model: Any, path: str | None = None) -> tuple[Any, list[tuple[list[int], bool]]]:
        """The same, and its parts: nodes that follow each other, by their places in the file, and whether all of them are read, or none."""
        return self._judged(model, path), list(self._parts)

    @property
    def num_subgraphs(self) -> int:
        return len(self._parts)

    def is_subgraph_supported(self, index: int) -> Any:
        return 0 <= index < len(self._parts) and self._parts[index][1]

    def get_subgraph_nodes(self, index: int) -> list[int]:
        return list(self._parts[index][0]) if 0 <= index < len(self._parts) else []

    def supports_operator(self, op_name: str) -> Any:
        """Whether models may have nodes of that op, some forms of which may be refused."""
        return _temper.nv_knows_operator(op_name)

    @property
    def num_errors(self) -> int:
        return len(self._errors)

    def get_error(self, index: int) -> ParserError:
        return self._errors[index]

    def clear_errors(self) -> None:
        self._errors = []

    flags = property_of("flags", "Instance normalization has kernels of its own in any case, so that they change nothing.")

    def set_flag(self, flag: Any = OnnxParserFlag.NATIVE_INSTANCENORM) -> None:
        self.flags |= 1 << int(flag)

    def clear_flag(self, flag: Any) -> None:
        self.flags &= ~(1 << int(flag))

    def get_flag(self, flag: Any) -> Any:
        return self.flags >> int(flag) & 1 == 1

    def set_builder_config(self, config: Any) -> Any:
        """Nothing of it is used while a model is read; True."""
        return True

    def get_used_vc_plugin_libraries(self) -> list[str]:
        return []


class IOptimizationProfile(Refusing):
    """Ranges of shapes by input."""

    __slots__ = ("_shapes", "_extra_memory_target")

    def __init__(self) -> None:
        self._shapes: dict[str, tuple[list[int], list[int], list[int]]] = {}
        self._extra_memory_target = 1.0

    extra_memory_target = property_of("extra_memory_target", "A session takes the memory that its shapes need.")

    def set_shape(self, input: str, min: Any, opt: Any, max: Any) -> None:
        low, best, high = dims_of(min), dims_of(opt), dims_of(max)
        if not len(low) == len(best) == len(high) or any(a > b or b > c or a < 0 for a, b, c in zip(low, best, high)):
            raise ValueError(f"Shape provided for min, opt and max of {input!r} are inconsistent: {low}, {best}, {high}")
        self._shapes[input] = (low, best, high)

    def get_shape(self, input: str) -> list[Dims]:
        return [Dims(shape) for shape in self._shapes.get(input, ())]

    def __bool__(self) -> Any:
        return True

    __nonzero__ = __bool__
