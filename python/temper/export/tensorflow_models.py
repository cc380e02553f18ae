# SPDX-License-Identifier: Apache-2.0
"""TensorFlow SavedModels and TensorFlow Lite models, through tf2onnx."""
import os

import numpy as np

from .errors import BAD_FILE, NOT_SUPPORTED, USAGE, ExportError, first_line, need
from .quiet import quiet
from .source import Input, Source, open_axes, resolve_shapes

PIP = ["tensorflow-cpu", "tf2onnx", "onnx"]
NEWEST_OPSET = 18  # of tf2onnx 1.17


def tensorflow():
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    with quiet():
        return need(PIP, "tensorflow")


def opset_of(options):
    if options.opset and options.opset > NEWEST_OPSET:
        raise ExportError(NOT_SUPPORTED, f"--opset {options.opset}: tf2onnx writes up to {NEWEST_OPSET}")
    return options.opset or NEWEST_OPSET


def refuse_half(options):
    if options.half:
        raise ExportError(NOT_SUPPORTED, "--half is for PyTorch modules; export in fp32, and let `temper build --precision` choose the arithmetic")


def rename(path, inputs, outputs, captured=None):
    """tf2onnx's names (Identity:0) become those of the source; both lists are in order. Constants that a function captured
    stand among the inputs, after its own, and become initializers. Throws where the counts differ."""
    import onnx
    model = onnx.load(str(path))
    graph = model.graph
    for value in [v for v in graph.input if v.name in (captured or {})]:
        graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(captured[value.name]), value.name))
        graph.input.remove(value)
    left = sorted({n.op_type for n in graph.node if n.domain in ("", "ai.onnx") and not onnx.defs.has(n.op_type)})
    if left:
        raise ExportError(NOT_SUPPORTED, f"tf2onnx left operations of TensorFlow in the model: {', '.join(left)}")
    fed = [v for v in graph.input if v.name not in {i.name for i in graph.initializer}]
    if len(fed) != len(inputs) or len(graph.output) != len(outputs):
        raise ExportError(NOT_SUPPORTED, f"tf2onnx wrote {len(fed)} inputs and {len(graph.output)} outputs; the model has {len(inputs)} and {len(outputs)}")
    new = dict(zip([v.name for v in fed] + [v.name for v in graph.output], inputs + outputs))
    taken = {n for node in graph.node for n in (*node.input, *node.output)} - set(new)
    new = {old: name + "_" * (name in taken) for old, name in new.items()}
    for node in graph.node:
        for names in (node.input, node.output):
            for index, name in enumerate(names):
                names[index] = new.get(name, name)
    for value in (*graph.input, *graph.output, *graph.value_info):
        value.name = new.get(value.name, value.name)
    for initializer in graph.initializer:
        initializer.name = new.get(initializer.name, initializer.name)
    onnx.save(model, str(path))
    return next(o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))


class FunctionSource(Source):
    """A TensorFlow function of positional tensors; answers() gives its outputs by name, in order."""

    def __init__(self, function, inputs, description, options, framework=None):
        tf = tensorflow()
        refuse_half(options)
        self.tf, self.function, self.inputs, self.description = tf, function, inputs, description
        self.framework = framework or f"TensorFlow {tf.__version__}"

    def run(self, arrays):
        try:
            with quiet():
                answer = self.function(*[self.tf.constant(arrays[p.name]) for p in self.inputs])
        except Exception as error:
            shapes = ", ".join(f"{p.name} {arrays[p.name].dtype}{list(arrays[p.name].shape)}" for p in self.inputs)
            raise ExportError(USAGE, f"the model refuses {shapes} ({first_line(error)}); --shape and --batch set other sizes") from error
        if not isinstance(answer, dict):
            listed = answer if isinstance(answer, (list, tuple)) else [answer]
            answer = {f"output_{i}" if len(listed) > 1 else "output": v for i, v in enumerate(listed)}
        return [(name, np.asarray(value)) for name, value in answer.items()]

    def write(self, path, options):
        with quiet():
            tf2onnx = need(PIP, "tf2onnx")
        tf, opset = self.tf, opset_of(options)
        signature = [tf.TensorSpec([None if axis in p.symbols else s for axis, s in enumerate(p.shape)], p.dtype, name=p.name) for p in self.inputs]
        names = [name for name, _ in self.run(self.fill(options.seed))]

        def in_order(*tensors):
            answer = self.function(*tensors)
            return [answer[n] for n in names] if isinstance(answer, dict) else list(answer) if isinstance(answer, (list, tuple)) else [answer]

        try:
            with quiet():
                function = tf.function(in_order, input_signature=signature)
                tf2onnx.convert.from_function(function, signature, opset=opset, output_path=str(path))
                concrete = function.get_concrete_function()
                captured = {inside.name: value.numpy() for value, inside in zip(concrete.captured_inputs, concrete.graph.internal_captures) if value.dtype != tf.resource}
        except Exception as error:
            raise ExportError(NOT_SUPPORTED, f"tf2onnx could not write this model: {first_line(error)}") from error
        opset = rename(path, [p.name for p in self.inputs], names, captured)
        name_axes(path, self.inputs)
        return f"tf2onnx {tf2onnx.__version__}, opset {opset}"


def name_axes(path, inputs):
    """Open axes get the words of --dynamic for names; tf2onnx calls them unk__1."""
    if not any(p.symbols for p in inputs):
        return
    import onnx
    model = onnx.load(str(path))
    by_name, renamed = {p.name: p for p in inputs}, {}
    for value in model.graph.input:
        for axis, symbol in by_name[value.name].symbols.items() if value.name in by_name else ():
            dim = value.type.tensor_type.shape.dim[axis]
            renamed[dim.dim_param] = symbol
            dim.dim_param = symbol
    for value in model.graph.output:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if dim.dim_param in renamed:
                dim.dim_param = renamed[dim.dim_param]
            elif axis == 0 and dim.dim_param and any("batch" in p.symbols.values() for p in inputs):
                dim.dim_param = "batch"
    onnx.save(model, str(path))


def open_or_ask(name, dims, options, where):
    """A signature's dims, None where open: the batch becomes 1 (or --batch); others must be said."""
    given = next((d for n, d, _ in options.shapes if n in ("", name)), None)
    if given:
        return given
    if dims is None:
        raise ExportError(USAGE, f"{where} leaves the shape of '{name}' open; add --shape {name}=1x224x224x3")
    dims = [options.batch or 1 if axis == 0 and d is None else d for axis, d in enumerate(dims)]
    if None in dims:
        said = "x".join("?" if d is None else str(d) for d in dims)
        raise ExportError(USAGE, f"{where} leaves sizes of '{name}' open ({said}); add --shape {name}={'x'.join('224' if d is None else str(d) for d in dims)}")
    return tuple(dims)


def from_saved_model(path, options):
    tf = tensorflow()
    if options.weights:
        raise ExportError(USAGE, "--weights: a SavedModel carries its own")
    try:
        with quiet():
            loaded = tf.saved_model.load(str(path))
    except Exception as error:
        raise ExportError(BAD_FILE, f"'{path}' is no SavedModel that TensorFlow {tf.__version__} can load: {first_line(error)}") from error
    signatures = dict(loaded.signatures)
    name = "serving_default" if "serving_default" in signatures else next(iter(signatures), None)
    if name is None:
        raise ExportError(NOT_SUPPORTED, f"'{path}' has no signature; save it with signatures= or with keras' Model.export()")
    signature = signatures[name]
    specs = signature.structured_input_signature[1]
    known = [(n, open_or_ask(n, None if s.shape.rank is None else s.shape.as_list(), options, f"'{path}'"), s.dtype.as_numpy_dtype, 2) for n, s in specs.items()]
    inputs = resolve_shapes(known, options)
    for port in inputs:
        port.symbols = open_axes(port.shape, options.dynamic, channels_last=True)

    def function(*tensors):
        return signature(**{p.name: t for p, t in zip(inputs, tensors)})

    function.keeps = loaded  # a signature holds its variables weakly
    return FunctionSource(function, inputs, f"SavedModel {path.name}, signature {name}", options)


class LiteSource(Source):
    def __init__(self, path, interpreter, options):
        self.path, self.interpreter = path, interpreter
        import importlib.metadata
        self.framework = f"LiteRT {importlib.metadata.version('ai-edge-litert')}"
        self.description = f"TensorFlow Lite model {path.name}"
        self.inputs = [Input(clean(d["name"], f"input_{i}"), tuple(int(s) for s in d["shape"]), np.dtype(d["dtype"])) for i, d in enumerate(interpreter.get_input_details())]

    def run(self, arrays):
        for port, detail in zip(self.inputs, self.interpreter.get_input_details()):
            self.interpreter.set_tensor(detail["index"], arrays[port.name])
        self.interpreter.invoke()
        details = self.interpreter.get_output_details()
        return [(clean(d["name"], f"output_{i}"), self.interpreter.get_tensor(d["index"])) for i, d in enumerate(details)]

    def write(self, path, options):
        tensorflow()
        with quiet():
            tf2onnx = need(PIP, "tf2onnx")
        try:
            with quiet():
                tf2onnx.convert.from_tflite(str(self.path), opset=opset_of(options), output_path=str(path))
        except Exception as error:
            raise ExportError(NOT_SUPPORTED, f"tf2onnx could not write this TensorFlow Lite model: {first_line(error)}") from error
        opset = rename(path, [p.name for p in self.inputs], [n for n, _ in self.run(self.fill(options.seed))])
        return f"tf2onnx {tf2onnx.__version__}, opset {opset}"


def clean(name, otherwise):
    """serving_default_image:0 -> image; the converter's own names (StatefulPartitionedCall_1:0) say nothing."""
    name = name.removeprefix("serving_default_").split(":")[0]
    return otherwise if not name or name.startswith(("StatefulPartitionedCall", "PartitionedCall")) else name


def from_tflite(path, options):
    refuse_half(options)
    for flag, value in (("--weights", options.weights), ("--batch", options.batch), ("--shape", options.shapes), ("--dynamic", options.dynamic)):
        if value:
            raise ExportError(USAGE, f"{flag}: a TensorFlow Lite model carries its shapes and weights")
    litert = need(["ai-edge-litert", *PIP], "ai_edge_litert.interpreter")
    try:
        with quiet():
            interpreter = litert.Interpreter(model_path=str(path))
            interpreter.allocate_tensors()
    except Exception as error:
        raise ExportError(BAD_FILE, f"'{path}' is no TensorFlow Lite model that LiteRT can load: {first_line(error)}") from error
    return LiteSource(path, interpreter, options)
