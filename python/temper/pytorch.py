# SPDX-License-Identifier: Apache-2.0
"""``torch.compile(model, backend="temper")``: a PyTorch model's graphs run as engines of Temper.

``import temper.pytorch`` makes the backend known (where the package is installed, PyTorch finds it by itself). A graph that PyTorch has captured
is exported to ONNX and built when it is first called; what PyTorch cannot export or Temper does not import stays with PyTorch, operator by
operator, and :data:`left` and the logger ``temper.pytorch`` name it. Weights are constants of the engine: where a program changes them or puts
others in their place, the engine is built again. Options of :func:`temper.build` go into ``torch.compile(…, options={"precision": "fp16"})``, and
``"frozen": True`` promises that weights never change, so that a call looks at one of them alone, which tells models of a class apart.
"""
from __future__ import annotations

import collections
import contextlib
import copy
import io
import logging
import operator
import os
import tempfile
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from ._build import build
from ._engine import Engine
from ._error import Error
from ._graph import Graph

_log = logging.getLogger("temper.pytorch")
_version_of = operator.attrgetter("_version")  # PyTorch counts what is written into a tensor
ENGINES = 16
"""Engines that a graph whose shapes vary keeps, one for each set of shapes; those used last stay."""


class Left(NamedTuple):
    """What stayed with PyTorch, and why."""

    what: str
    why: str


left: list[Left] = []
"""All that stayed since the process began, in the order in which it was found."""


class Unsupported(Exception):
    """Why a graph is no engine."""


def _leave(what: str, why: str) -> None:
    left.append(Left(what, why))
    _log.warning("%s stays with PyTorch: %s", what, why)


def _reason(error: BaseException) -> str:
    """PyTorch wraps a cause in a page of advice: the innermost exception says it, in its first line."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


@contextlib.contextmanager
def _quietly() -> Any:
    """Without gradients, and without what an exporter prints of its progress."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()), torch.no_grad():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)


class _Frozen(torch.nn.Module):
    """A graph as a function of its tensors alone: weights are in it, numbers are what they are now."""

    def __init__(self, graph: Callable[..., Any], arguments: Sequence[Any], tensors: Sequence[int], weights: Sequence[int], outputs: Sequence[int]) -> None:
        super().__init__()
        self._graph, self._outputs, self._tensors, self._weights = graph, outputs, tensors, weights
        self._others = {i: value for i, value in enumerate(arguments) if i not in {*tensors, *weights}}
        self._count = len(arguments)
        for i in weights:
            self.register_buffer(f"weight_{i}", arguments[i].detach())

    def forward(self, *tensors: Any) -> Any:
        arguments: list[Any] = [self._others.get(i) for i in range(self._count)]
        for i, tensor in zip(self._tensors, tensors):
            arguments[i] = tensor
        for i in self._weights:
            arguments[i] = getattr(self, f"weight_{i}")
        results = self._graph(*arguments)
        return tuple(results[i] for i in self._outputs)


def _not_a_function(node: Any) -> str:
    """Why the node does not give the same for the same; "": it does. A dropout does outside of training."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return ""
    schema = node.target._schema.arguments
    given = {argument.name: argument.default_value for argument in schema if argument.has_default_value()}
    given.update({argument.name: value for argument, value in zip(schema, node.args)}, **node.kwargs)
    training = given.get("train", given.get("training"))
    if torch.Tag.nondeterministic_seeded in node.target.tags and training is not False and given.get("p", given.get("dropout_p", 1)) != 0:
        return "draws random numbers"
    return "is in training mode" if training is True else ""


@contextlib.contextmanager
def _one_registry() -> Any:
    """Many small exports read PyTorch's ONNX functions once: that takes longer than everything else of them. It is no public interface, and
    where it is not there each export reads them."""
    try:
        from torch.onnx._internal.exporter._registration import ONNXRegistry

        original, kept = ONNXRegistry.from_torchlib, vars(ONNXRegistry)["from_torchlib"]
    except (ImportError, AttributeError, KeyError):
        yield
        return
    read: dict[Any, Any] = {}

    def once(*arguments: Any, **named: Any) -> Any:
        key = (arguments, tuple(sorted(named.items())))
        if key not in read:
            read[key] = original(*arguments, **named)
        return read[key]

    ONNXRegistry.from_torchlib = staticmethod(once)
    try:
        yield
    finally:
        ONNXRegistry.from_torchlib = kept


class _Output(NamedTuple):
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Any


def _exported(module: Any, tensors: Sequence[Any], folder: str) -> tuple[str, list[_Output]]:
    """The path of the module's ONNX form, and what its outputs are. Raises Unsupported where that would not be the same function."""
    with _quietly():
        try:
            program = torch.export.export(module, tuple(tensors), strict=False)
        except Exception as error:
            raise Unsupported(f"PyTorch does not export it: {_reason(error)}") from error
    for node in program.graph.nodes:
        if why := _not_a_function(node):
            raise Unsupported(f"{node.target} {why}")
    if any(isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable for node in program.graph.nodes):
        with _quietly():
            signature = program.run_decompositions({}).graph_signature
        if signature.buffers_to_mutate or signature.user_inputs_to_mutate:
            raise Unsupported("it writes into its inputs or into the model's buffers")
    results = [node for node in program.graph.nodes if node.op == "output"][0].args[0]
    described = [result.meta["val"] if hasattr(result, "meta") else None for result in results]
    if any(value is None or any(not isinstance(dim, int) for dim in value.shape) for value in described):
        raise Unsupported("an output is no tensor, or its shape depends on data")
    path = os.path.join(folder, "graph.onnx")
    size = sum(value.numel() * value.element_size() for value in program.state_dict.values())
    with _quietly():
        try:
            torch.onnx.export(program, (), path, dynamo=True, verbose=False, external_data=size > 1 << 30,
                              input_names=[f"input_{i}" for i in range(len(tensors))],
                              output_names=[f"output_{i}" for i in range(len(described))])  # fmt: skip
        except Exception as error:
            raise Unsupported(f"PyTorch does not write it as ONNX: {_reason(error)}") from error
    return path, [_Output(tuple(value.shape), torch.empty(value.shape, device="meta").stride(), value.dtype) for value in described]


class _Taken(NamedTuple):
    """Weights of a frozen graph, which PyTorch gives to no call but one, by which a model is told from another of its class."""

    values: list[Any]
    """By the graph's inputs; None for those that calls are given."""
    others: list[int]
    """Which these are, and the weight that is given."""
    witness: int
    """Its place among them."""

    def given(self, arguments: Sequence[Any]) -> Sequence[Any]:
        """What a call is given. Raises Error where the weight is another model's: the engine would answer for the wrong one."""
        if len(arguments) != len(self.others):
            arguments = [arguments[i] for i in self.others]
        if arguments[self.witness] is not self.values[self.others[self.witness]]:
            raise Error('{"frozen": True} was promised, and this is another model, or it has other weights; PyTorch tells models of one class apart '
                        "where it keeps guards: temper.pytorch.guards_of_inputs, in the place of torch.compiler.skip_all_guards_unsafe, keeps those")  # fmt: skip
        return arguments

    def all(self, arguments: Sequence[Any]) -> Sequence[Any]:
        """All of the graph's inputs."""
        whole = list(self.values)
        for i, value in zip(self.others, arguments):
            whole[i] = value
        return whole


def _modules_of(places: Sequence[Any]) -> list[Any] | None:
    """Where PyTorch found the models that these inputs are weights of; None where one of them is of no module, or PyTorch does not say."""
    found: dict[Any, Any] = {}
    for place in places:
        source, module = getattr(place, "_dynamo_source", None), None
        while source is not None:
            if type(source).__name__.startswith("Unspecialized") and type(source).__name__.endswith("NNModuleSource"):
                module = source.base
            source = getattr(source, "base", None)
        if module is None:
            return None
        found[module.name if isinstance(module.name, str) else module.name()] = module
    return list(found.values())


def _take(graph: Any, weights: Sequence[int], values: Sequence[Any]) -> tuple[Any, _Taken] | None:
    """A copy of the graph; the graph itself has its weights as constants from now on, but for one. PyTorch writes the code of a call when its backend
    is done, by the inputs that the graph has then: otherwise it fetches hundreds of weights from their modules for each call. A PyTorch that does not
    look at the graph again gives them to each call as before. None: they must be looked at, since it is not known which model's they are."""
    places = [node for node in graph.graph.nodes if node.op == "placeholder"]
    modules = _modules_of([places[i] for i in weights])
    if not modules or any(isinstance(values[i], torch._subclasses.FakeTensor) for i in weights):
        return None
    # Models of one class share what PyTorch compiled for it, as long as their weights have the same shapes.
    torch._dynamo.guards.install_guard(*(module.make_guard(torch._dynamo.guards.GuardBuilder.ID_MATCH) for module in modules))
    whole = torch.fx.GraphModule(graph, copy.deepcopy(graph.graph))
    for i in weights[1:]:
        graph.register_buffer(f"temper_weight_{i}", values[i].detach(), persistent=False)
        with graph.graph.inserting_before(places[i]):
            constant = graph.graph.get_attr(f"temper_weight_{i}")
        places[i].replace_all_uses_with(constant)
        graph.graph.erase_node(places[i])
    graph.recompile()
    others = [i for i in range(len(values)) if i not in weights[1:]]
    taken = set(weights)
    return whole, _Taken([value if i in taken else None for i, value in enumerate(values)], others, others.index(weights[0]))


class _Part:
    """An engine of a graph for one set of shapes, as a function of the graph's arguments, but for those that are taken."""

    def __init__(self, graph: Any, arguments: Sequence[Any], weights: Sequence[int], options: dict[str, Any], taken: _Taken | None) -> None:
        self._tensors = [i for i, value in enumerate(arguments) if isinstance(value, torch.Tensor) and i not in weights]
        self._weights_of = operator.itemgetter(*weights, *weights[:1]) if weights else lambda arguments: ()  # of one it would be no tuple
        self._weights = self._weights_of(arguments)
        self._counted = [weight for weight in self._weights if not weight.is_inference()]
        self._versions = list(map(_version_of, self._counted))
        results = [node for node in graph.graph.nodes if node.op == "output"][0].args[0]
        places = {node: i for i, node in enumerate(node for node in graph.graph.nodes if node.op == "placeholder")}
        # What is handed through is the caller's own object; a number is what it was.
        self._results = [places.get(result) if isinstance(result, torch.fx.Node) else None for result in results]
        computed = [i for i, result in enumerate(results) if isinstance(result, torch.fx.Node) and result not in places]
        self._constants = {i: result for i, result in enumerate(results) if not isinstance(result, torch.fx.Node)}
        if not self._tensors or not computed:
            raise Unsupported("it has no tensors to compute with")
        tensors = [arguments[i] for i in self._tensors]
        devices = {value.device for value in (*tensors, *self._weights)}
        if len(devices) > 1:
            raise Unsupported(f"its tensors are on {', '.join(sorted(map(str, devices)))}")
        self._device = devices.pop()
        if self._device.type not in ("cpu", "cuda"):
            raise Unsupported(f"its tensors are on {self._device}")
        self._index = self._device.index or 0
        device = "cpu" if self._device.type == "cpu" else f"cuda:{self._index}"
        with tempfile.TemporaryDirectory(prefix="temper-") as folder:
            frozen = _Frozen(graph, arguments, self._tensors, weights, computed)
            path, self._outputs = _exported(frozen, [tensor.detach() for tensor in tensors], folder)
            try:
                self._engine: Engine = build(path, device=device, **options)
            except Error as error:
                raise Unsupported(str(error)) from error
        names = {port.name for port in self._engine.inputs}  # an input that changes nothing is none of the engine's
        self._inputs = [i for n, i in enumerate(self._tensors) if f"input_{n}" in names]
        if taken is not None:  # a call is given the others alone
            at = {i: n for n, i in enumerate(taken.others)}
            self._inputs = [at[i] for i in self._inputs]
            self._constants.update({n: taken.values[i] for n, i in enumerate(self._results) if i is not None and i not in at})
            self._results = [at.get(i) for i in self._results]
        self._computed = computed
        self._plain = not self._constants and len(computed) == len(results)
        self._on_gpu = self._device.type == "cuda"
        # What PyTorch's own compiler calls for outputs, and for the stream: torch.empty_strided takes 1 us more, torch.cuda.current_stream 4. It takes
        # the thread's current GPU.
        self._empty = getattr(torch._C._dynamo.guards, f"_empty_strided_{self._device.type}", None)

    @property
    def engine(self) -> Engine:
        return self._engine

    def is_current(self, arguments: Sequence[Any]) -> bool:
        """Whether the weights are those that are in the engine."""
        # A model has hundreds: this is most of what a call costs.
        return all(map(operator.is_, self._weights_of(arguments), self._weights)) and list(map(_version_of, self._counted)) == self._versions

    def __call__(self, arguments: Sequence[Any]) -> Any:
        inputs = []
        for i in self._inputs:
            tensor = arguments[i]
            if tensor.requires_grad:
                tensor = tensor.detach()
            inputs.append(tensor if tensor.is_contiguous() else tensor.contiguous())
        if self._empty is not None and (not self._on_gpu or torch._C._cuda_getDevice() == self._index):
            outputs = [self._empty(shape, strides, dtype) for shape, strides, dtype in self._outputs]
        else:
            outputs = [torch.empty_strided(shape, strides, dtype=dtype, device=self._device) for shape, strides, dtype in self._outputs]
        self._engine.run(inputs, outputs, stream=torch._C._cuda_getCurrentRawStream(self._index) if self._on_gpu else None)
        if self._plain:
            return outputs
        results: list[Any] = [self._constants.get(i) if at is None else arguments[at] for i, at in enumerate(self._results)]
        for i, output in zip(self._computed, outputs):
            results[i] = output
        return results


class _Compiled:
    """What torch.compile calls: engines of a graph, or what is left of it with engines in it."""

    def __init__(self, graph: Any, weights: Sequence[int], varies: bool, options: dict[str, Any], name: str = "", taken: _Taken | None = None) -> None:
        self._graph, self._weights, self._varies, self._name, self._taken = graph, list(weights), varies, name, taken
        self._options = {key: value for key, value in options.items() if key != "frozen"}
        self._given, self._frozen = options, options.get("frozen", False)
        self._parts: collections.OrderedDict[Any, _Part] = collections.OrderedDict()
        self._only: _Part | None = None  # of a frozen graph of one shape, for which there is nothing to look at
        self._instead: Callable[..., Any] | None = None

    @property
    def engines(self) -> list[Engine]:
        """The engines that there are by now."""
        return [part.engine for part in self._parts.values()]

    def __call__(self, *arguments: Any) -> Any:
        given = arguments if self._taken is None else self._taken.given(arguments)
        if self._only is not None:
            return self._only(given)
        if self._instead is not None:
            return self._instead(*self._all(given))
        key = None
        if self._varies:
            key = tuple(value.shape if isinstance(value, torch.Tensor) else value for value in given)
        part = self._parts.get(key)
        if part is None or not (self._frozen or part.is_current(given)):
            try:
                part = self._parts[key] = _Part(self._graph, self._all(given), self._weights, self._options, self._taken)
            except Unsupported as error:
                self._instead = self._without(self._all(given), str(error))
                return self._instead(*self._all(given))
            if len(self._parts) > ENGINES:
                self._parts.popitem(last=False)
        elif self._varies:
            self._parts.move_to_end(key)
        if self._frozen and not self._varies:
            self._only = part
        return part(given)

    def _all(self, given: Sequence[Any]) -> Sequence[Any]:
        return given if self._taken is None else self._taken.all(given)

    def _without(self, arguments: Sequence[Any], why: str) -> Callable[..., Any]:
        """The graph with engines for what can be one, or as PyTorch runs it."""
        try:
            # A graph of a graph stays as it is: it was cut out because its operators can be exported one by one.
            divided = None if self._name else _divided(self._graph, self._weights, self._varies, self._given)
        except Exception as error:  # the partitioner is PyTorch's, and may raise anything
            divided, why = None, f"{why}; it was not divided: {_reason(error)}"
        if divided is None:
            _leave(self._name or "a graph", why)
            return self._graph.forward
        return divided


class _Supported(OperatorSupportBase):
    """Which nodes can be part of an engine: each kind of node is exported and imported by itself, once."""

    def __init__(self, graph: Any) -> None:
        self._graph = graph
        self._known: dict[Any, str] = {}

    def is_node_supported(self, submodules: Any, node: Any) -> bool:
        if node.op not in ("call_function", "call_method", "call_module"):
            return False
        if node.target is operator.getitem and not isinstance(node.args[0].meta.get("example_value"), torch.Tensor):
            return True  # of a function that gives several tensors
        if not isinstance(node.meta.get("example_value"), (torch.Tensor, tuple, list)):
            return False  # a number
        kind = str((node.op, node.target, torch.fx.node.map_arg((node.args, node.kwargs), lambda n: _Shown(n.meta.get("example_value")))))
        if kind not in self._known:
            self._known[kind] = self._why_not(node)
            if self._known[kind]:
                name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))
                _leave(name, self._known[kind])
        return not self._known[kind]

    def _why_not(self, node: Any) -> str:
        graph = torch.fx.Graph()
        values: dict[Any, Any] = {}
        tensors = []

        def own(other: Any) -> Any:
            value = other.meta.get("example_value")
            if not isinstance(value, torch.Tensor):
                raise Unsupported("it works on something that is no tensor")
            if other not in values:
                values[other] = graph.placeholder(f"x{len(values)}")
                dims = [dim if isinstance(dim, int) else dim.node.hint for dim in value.shape]
                tensors.append(torch.ones(dims, dtype=value.dtype))
            return values[other]

        try:
            with torch.utils._python_dispatch._disable_current_modes(), tempfile.TemporaryDirectory(prefix="temper-") as folder:
                result = graph.node_copy(node, own)
                several = isinstance(node.meta["example_value"], (tuple, list))
                count = len(node.meta["example_value"]) if several else 1
                results = tuple(graph.call_function(operator.getitem, (result, i)) for i in range(count)) if several else (result,)
                graph.output(results)
                module = torch.fx.GraphModule(self._graph, graph)
                path, _ = _exported(_Frozen(module, tensors, range(len(tensors)), [], range(count)), tensors, folder)
                Graph.from_onnx(path)
        except (Unsupported, Error) as error:
            return str(error)
        return ""


class _Shown:
    """A tensor by its type and rank, in the text that tells kinds of nodes apart."""

    def __init__(self, value: Any) -> None:
        self._text = f"{value.dtype}[{value.dim()}]" if isinstance(value, torch.Tensor) else str(value)

    def __repr__(self) -> str:
        return self._text


def _writes(node: Any) -> str:
    """The name of an operator that writes into what it is given; "": the node does not."""
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    if node.op not in ("call_function", "call_method"):
        return ""
    in_place = (name.endswith("_") and not name.endswith("__") and name not in ("and_", "or_", "not_", "is_")) or name in ("setitem", "iadd", "isub", "imul", "itruediv", "ifloordiv", "iand", "ior", "ixor")
    return name if in_place or node.kwargs.get("inplace") is True or node.kwargs.get("out") is not None else ""


def _divided(graph: Any, weights: Sequence[int], varies: bool, options: dict[str, Any]) -> Callable[..., Any] | None:
    """The graph with engines in it; None where no part of it can be one."""
    writing = [name for node in graph.graph.nodes if (name := _writes(node))]
    if writing:  # what comes before it and what comes behind may not change places, and no edge of the graph says so
        raise Unsupported(f"{', '.join(sorted(set(writing)))} write in place")
    places = [node for node in graph.graph.nodes if node.op == "placeholder"]
    fixed = {places[i].name for i in weights}
    partitioner = CapabilityBasedPartitioner(graph, _Supported(graph), allows_single_node_partition=False)
    with _one_registry():
        parts = partitioner.propose_partitions()
    fused = partitioner.fuse_partitions(parts, prefix="temper_")
    calls = [node for node in fused.graph.nodes if node.op == "call_module" and str(node.target).startswith("temper_")]
    for call in calls:
        part = getattr(fused, call.target)
        own = [i for i, argument in enumerate(call.args) if isinstance(argument, torch.fx.Node) and argument.name in fixed]
        delattr(fused, call.target)
        setattr(fused, call.target, _AsModule(_Compiled(_as_tuple(part), own, varies, options, call.target), part))
    return fused if calls else None


def _as_tuple(part: Any) -> Any:
    """The part, with its results in a tuple as those of a whole graph are."""
    end = [node for node in part.graph.nodes if node.op == "output"][0]
    if isinstance(end.args[0], torch.fx.Node):
        end.args = ((end.args[0],),)
        part.recompile()
        part.temper_single = True
    return part


class _AsModule(torch.nn.Module):
    """A compiled part in the place of the module that it was."""

    def __init__(self, compiled: _Compiled, part: Any) -> None:
        super().__init__()
        self._compiled, self._single = compiled, getattr(part, "temper_single", False)

    def forward(self, *arguments: Any) -> Any:
        results = self._compiled(*arguments)
        return results[0] if self._single else results


def backend(graph: Any, example_inputs: Sequence[Any], *, options: dict[str, Any] | None = None) -> Callable[..., Any]:
    """What torch.compile calls with each graph that it has captured. ``options``: arguments of :func:`temper.build`, but for the model, its
    shapes and the device, which are those of the graph; and ``frozen``.

    An engine is of fixed shapes. Where PyTorch lets shapes vary, the graph has an engine for each set of them (:data:`ENGINES` at most).
    A graph whose gradients are wanted stays with PyTorch.
    """
    given = dict(options or {})
    for name in ("device", "shapes", "profiles"):
        if name in given:
            raise ValueError(f'torch.compile(backend="temper"): {name} is the graph\'s, and no option')
    places = [node for node in graph.graph.nodes if node.op == "placeholder"]
    if torch.is_grad_enabled() and any(isinstance(value, torch.Tensor) and value.requires_grad for value in example_inputs):
        _leave("a graph", "its gradients are wanted; call it under torch.no_grad() or torch.inference_mode()")
        return graph.forward
    weights = [i for i, (place, value) in enumerate(zip(places, example_inputs))
               if isinstance(value, torch.nn.Parameter) or (place.meta.get("tensor_dict") or {}).get("_dynamo_static_input_type")]  # fmt: skip
    varies = any(isinstance(value, torch.SymInt) or (isinstance(value, torch.Tensor) and any(not isinstance(dim, int) for dim in value.shape))
                 for value in example_inputs)  # fmt: skip
    taken = None
    if given.get("frozen") and weights:
        found = _take(graph, weights, example_inputs)
        graph, taken = found or (graph, None)
        given["frozen"] = found is not None
    return _Compiled(graph, weights, varies, given, taken=taken)


def guards_of_inputs(entries: Sequence[Any]) -> list[bool]:
    """For ``torch.compile(…, options={"frozen": True, "guard_filter_fn": temper.pytorch.guards_of_inputs})``: before a call PyTorch looks at what it is
    given and at its own state (gradients, modes of tensors), and at no module and no global variable, of which a model has hundreds. Then it does
    not notice another way through the model's Python code, such as that of ``model.train()``."""
    modules = torch.compiler.skip_guard_on_all_nn_modules_unsafe(entries)
    variables = torch.compiler.skip_guard_on_globals_unsafe(entries)
    return [kept and also for kept, also in zip(modules, variables)]


torch._dynamo.register_backend(backend, name="temper")
