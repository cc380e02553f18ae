# SPDX-License-Identifier: Apache-2.0
"""A runner for Polygraphy: ``polygraphy run model.onnx --onnxrt --temper`` compares what Temper computes with what others do.

Where the package is installed, Polygraphy finds the runner by the entry point ``polygraphy.run.plugins``. In Python it is ``TemperRunner(EngineFromOnnx("model.onnx"))``.
Arrays go in and come out; no CUDA is needed for an engine of a CPU.
"""
from __future__ import annotations

import time
from collections import OrderedDict
from typing import Any

from polygraphy import util
from polygraphy.backend.base import BaseLoader, BaseRunner
from polygraphy.common import TensorMetadata
from polygraphy.datatype import DataType
from polygraphy.logger import G_LOGGER
from polygraphy.tools.args import ModelArgs, OnnxLoadArgs
from polygraphy.tools.args import util as args_util
from polygraphy.tools.args.base import BaseRunnerArgs
from polygraphy.tools.script import make_invocable

from . import _temper
from ._build import build
from ._engine import Engine, load
from ._graph import Graph


class EngineFromOnnx(BaseLoader):
    """Builds an engine: of a path, of bytes, or of a callable that gives one of them. ``shapes``: of inputs that leave dimensions open, by name;
    a dimension that it does not give is 1, as in Polygraphy's own data. Everything else: arguments of :func:`temper.build`."""

    def __init__(self, model: Any, shapes: dict[str, Any] | None = None, device: str | None = None, **options: Any) -> None:
        self._model, self._shapes, self._device, self._options = model, shapes or {}, device, options

    def call_impl(self) -> Engine:
        model, _ = util.invoke_if_callable(self._model)
        shapes = {}
        for port in Graph.from_onnx(model).inputs:
            if any(isinstance(dim, str) for dim in port.shape):
                shapes[port.name] = self._shapes.get(port.name) or [1 if isinstance(dim, str) else dim for dim in port.shape]
        device = self._device or _temper.nv_device()
        G_LOGGER.start(f"Building an engine of Temper for {device}")
        engine = build(model, device=device, shapes=shapes or None, **self._options)
        for note in engine.notes:
            G_LOGGER.warning(note)
        G_LOGGER.finish(f"Built {engine}")
        return engine


class EngineFromPlan(BaseLoader):
    """Loads a plan file of Temper."""

    def __init__(self, path: str) -> None:
        self._path = path

    def call_impl(self) -> Engine:
        return load(self._path)


class TemperRunner(BaseRunner):
    """Runs an engine of Temper, or what a callable gives."""

    def __init__(self, engine: Any, name: str | None = None) -> None:
        super().__init__(name=name, prefix="temper-runner")
        self._engine = engine

    @util.check_called_by("activate")
    def activate_impl(self) -> None:
        self.engine, _ = util.invoke_if_callable(self._engine)

    @util.check_called_by("get_input_metadata")
    def get_input_metadata_impl(self) -> TensorMetadata:
        metadata = TensorMetadata()
        for port in self.engine.inputs:
            metadata.add(port.name, dtype=DataType.from_dtype(port.dtype, "numpy"), shape=port.shape)
        return metadata

    @util.check_called_by("infer")
    def infer_impl(self, feed_dict: Any) -> OrderedDict[str, Any]:
        """Of arrays or PyTorch's tensors by name, whose outputs are of the same kind."""
        use_torch = any(util.array.is_torch(value) for value in feed_dict.values())
        arrays = {name: util.array.make_contiguous(util.array.to_numpy(value)) for name, value in feed_dict.items()}
        start = time.time()
        outputs = self.engine.run(arrays)
        self.inference_time = time.time() - start
        return OrderedDict((name, util.array.to_torch(value) if use_torch else value) for name, value in outputs.items())

    @util.check_called_by("deactivate")
    def deactivate_impl(self) -> None:
        del self.engine


class TemperRunnerArgs(BaseRunnerArgs):
    """
    Temper Inference: running inference with Temper.

    Depends on:

        - ModelArgs
        - OnnxLoadArgs
    """

    def get_name_opt_impl(self) -> tuple[str, str]:
        return "Temper", "temper"

    def add_parser_args_impl(self) -> None:
        self.group.add_argument("--temper-precision", help="precision of the engine: fp32, tf32, fp16, bf16", default=None)
        self.group.add_argument("--temper-device", help="device of the engine: cpu, cuda:0; without it GPU 0, or the CPU where there is none", default=None)
        self.group.add_argument("--temper-quick", help="leave out what takes longest in a build", action="store_true", default=None)

    def parse_impl(self, args: Any) -> None:
        self.options = {"precision": args_util.get(args, "temper_precision"), "device": args_util.get(args, "temper_device"),
                        "quick": args_util.get(args, "temper_quick")}  # fmt: skip

    def add_to_script_impl(self, script: Any) -> None:
        model = self.arg_groups[ModelArgs]
        if model.model_type == "engine":
            script.add_import(imports=["EngineFromPlan"], frm="temper.polygraphy")
            loader = script.add_loader(make_invocable("EngineFromPlan", model.path), "load_temper")
        else:
            onnx = self.arg_groups[OnnxLoadArgs]
            source = onnx.add_to_script(script, serialize_model=True) if onnx.must_use_onnx_loader() else model.path
            shapes = {name: list(shape) for name, (_, shape) in model.input_shapes.items()} if model.input_shapes else None
            given = {name: value for name, value in self.options.items() if value is not None}
            script.add_import(imports=["EngineFromOnnx"], frm="temper.polygraphy")
            loader = script.add_loader(make_invocable("EngineFromOnnx", source, shapes=shapes, **given), "build_temper")
        script.add_import(imports=["TemperRunner"], frm="temper.polygraphy")
        script.add_runner(make_invocable("TemperRunner", loader))


def argument_groups() -> list[BaseRunnerArgs]:
    """What Polygraphy's entry point asks for."""
    return [TemperRunnerArgs()]
