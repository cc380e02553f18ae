# SPDX-License-Identifier: Apache-2.0
"""The names of TensorRT's Python API: each release shows its own, each of them is called, and what is refused says why."""
import contextlib
import copy
import io
import json
import os
import pickle
import unittest

import numpy
import onnxruntime
from common import DIGITS, Case, images
from onnx import TensorProto, helper

import temper
import temper.tensorrt as trt
from temper.tensorrt import _api, _enums, _layers

OF_PYTHON = {*dir(bytes), *dir(list), "name", "value"}  # of IHostMemory, Dims, Permutation and enumerations


class Collected(trt.ILogger):
    def __init__(self):
        trt.ILogger.__init__(self)
        self.lines = []

    def log(self, severity, msg):
        self.lines.append((severity, msg))

    def text(self):
        return "\n".join(msg for _, msg in self.lines)


class Memory(trt.IOutputAllocator):
    """Memory of numpy's for each output."""

    def __init__(self):
        trt.IOutputAllocator.__init__(self)
        self.arrays, self.shapes, self.asked = {}, {}, []

    def reallocate_output(self, tensor_name, memory, size, alignment):
        self.asked.append((tensor_name, size))
        self.arrays[tensor_name] = numpy.zeros(size, "uint8")
        return self.arrays[tensor_name].ctypes.data

    def notify_shape(self, tensor_name, shape):
        self.shapes[tensor_name] = tuple(shape)

    def result(self, name, dtype):
        return self.arrays[name].view(dtype)[: numpy.prod(self.shapes[name], dtype=int)].reshape(self.shapes[name])


class Work(trt.IGpuAllocator):
    """Memory of numpy's that contexts work in."""

    def __init__(self):
        trt.IGpuAllocator.__init__(self)
        self.live, self.asked = {}, []

    def allocate(self, size, alignment, flags):
        self.asked.append((size, alignment, flags))
        whole = numpy.full(size + alignment, 255, "uint8")
        at = whole.ctypes.data + -whole.ctypes.data % alignment
        self.live[at] = whole
        return at

    def deallocate(self, memory):
        del self.live[memory]
        return True


class Times(trt.IProfiler):
    def __init__(self):
        trt.IProfiler.__init__(self)
        self.layers = []

    def report_layer_time(self, layer_name, ms):
        self.layers.append((layer_name, ms))


class Phases(trt.IProgressMonitor):
    """Checks the order of what it is told; ends the build after so many steps."""

    def __init__(self, steps=10**9):
        trt.IProgressMonitor.__init__(self)
        self.open, self.seen, self.left = [], [], steps

    def phase_start(self, phase_name, parent_phase, num_steps):
        assert parent_phase == (self.open[-1] if self.open else None) and num_steps > 0
        self.open.append(phase_name)
        self.seen.append(phase_name)

    def step_complete(self, phase_name, step):
        assert phase_name == self.open[-1]
        self.left -= 1
        return self.left >= 0

    def phase_finish(self, phase_name):
        assert self.open.pop() == phase_name


def configured(builder, network, logger, model=None):
    """The network filled, and a config with a profile of the digits' model."""
    parser = trt.OnnxParser(network, logger)
    with open(DIGITS, "rb") as file:
        assert parser.parse(model or file.read()), parser.get_error(0)
    config = builder.create_builder_config()
    profile = builder.create_optimization_profile()
    profile.set_shape("image", (1, 1, 8, 8), (2, 1, 8, 8), (4, 1, 8, 8))
    config.add_optimization_profile(profile)
    return config


def numbers_above_zero():
    """A model whose output's size depends on data."""
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("NonZero", ["y"], ["where"])], "above",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 4])], [helper.make_tensor_value_info("where", TensorProto.INT64, [2, "n"])])  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()


class TensorrtApiTest(Case):
    def setUp(self):
        _api.use("8.6")
        self.addCleanup(_api.use, "8.6")
        self.logger = Collected()

    def built(self, model=None, prepare=lambda config: None):
        builder = trt.Builder(self.logger)
        network = builder.create_network(0)
        config = configured(builder, network, self.logger, model) if model is None else builder.create_builder_config()
        if model is not None:
            assert trt.OnnxParser(network, self.logger).parse(model)
        prepare(config)
        return builder.build_serialized_network(network, config)

    def engine(self, model=None):
        return trt.Runtime(self.logger).deserialize_cuda_engine(self.built(model))

    def test_each_release_shows_its_names_and_no_others(self):
        listed = {(row.owner, row.name) for row in _api.TABLE}
        self.assertEqual(len(listed), len(_api.TABLE), "a name stands in the table twice")
        with open(os.path.join(os.path.dirname(DIGITS), "..", "docs", "tensorrt.md")) as page:
            self.assertIn(f"{sum(not row.refused for row in _api.TABLE)} that are there, and {sum(bool(row.refused) for row in _api.TABLE)} that are refused", page.read())
        for api in (*_api.RELEASES, "8.6"):
            _api.use(api)
            at = _api.RELEASES.index(api)
            self.assertTrue(trt.__version__.startswith(api) and trt.__version__.endswith("+temper"))
            classes = {row.name for row in _api.TABLE if not row.owner and isinstance(_api._EVERYTHING.get(row.name), type)}
            for owner in ("", *sorted(classes)):
                of = trt if not owner else _api._EVERYTHING[owner]
                owners = {base.__name__ for base in of.__mro__} if owner else {""}
                here = {row.name for row in _api.TABLE if row.owner in owners and row.is_in(at)}
                shown = {name for name in dir(of) if not name.startswith("_")} - (OF_PYTHON if owner else set())
                self.assertEqual(shown, {name for name in here if not name.startswith("_")} - (OF_PYTHON if owner else set()), f"{owner or 'tensorrt'} in {api}")
            # What the module has beside its names is Python's.
            self.assertEqual([name for name in vars(trt) if not name.startswith("_") and name not in dir(trt)], [])
            self.assertEqual(hasattr(trt.ICudaEngine, "__len__"), api == "8.6")
        with self.assertRaises(ValueError):
            _api.use("9")

    def test_every_refused_name_says_why(self):
        for api in _api.RELEASES:
            _api.use(api)
            builder = trt.Builder(self.logger)
            network, config = builder.create_network(0), builder.create_builder_config()
            instances = {type(x).__name__: x for x in (
                builder, network, config, trt.OnnxParser(network, self.logger), builder.create_optimization_profile(),
                config.create_timing_cache(b""), trt.Runtime(self.logger))}  # fmt: skip
            if api == "8.6":
                engine = self.engine()
                context = engine.create_execution_context()
                plan = self.built(prepare=lambda config: config.set_flag(trt.BuilderFlag.REFIT))
                refitter = trt.Refitter(trt.Runtime(self.logger).deserialize_cuda_engine(plan), self.logger)
                others = (engine, context, engine.create_engine_inspector(), refitter, trt.ParserError("x"), *configured_parts(self.logger))
                held = {type(x).__name__: x for x in others}
            instances.update(held)
            for row in _api.TABLE:
                if not row.refused or not row.first <= _api.RELEASES.index(api) <= row.last or row.name.startswith("__"):
                    continue
                of = trt if not row.owner else instances.get(row.owner) or _enums.ALL[row.owner]
                with self.assertRaises(AttributeError) as caught:
                    getattr(of, row.name)
                self.assertIn(row.refused, str(caught.exception))
                if row.owner in instances:
                    with self.assertRaises(AttributeError) as caught:
                        setattr(of, row.name, None)
                    self.assertIn(row.refused, str(caught.exception))
            with self.assertRaises(AttributeError) as caught:
                trt.no_name_of_any_release
            self.assertNotIn("Temper", str(caught.exception))

    def test_every_name_that_is_there_is_called(self):
        used = set()

        def recorded(key, function):
            def call(*arguments, **named):
                used.add(key)
                return function(*arguments, **named)

            return call

        wanted = set()
        for api in ("8.6", "11.1", "10.13"):
            _api.use(api)
            before = []
            for row in _api.TABLE:
                cls = _api._EVERYTHING.get(row.owner) if row.owner else trt
                if row.refused or not row.is_in(_api.RELEASES.index(api)) or cls in _enums.ALL.values():
                    continue  # a member of an enumeration: the test of these makes each
                value = vars(cls).get(row.name)
                if value is None:
                    self.assertIn((cls.__base__, row.name), {(cls.__base__, name) for name in vars(cls.__base__)}, "a name is neither here nor of the class below")
                    continue
                key = (row.owner, row.name)
                if isinstance(value, property):
                    wrapped = property(recorded(key, value.fget), value.fset and recorded((*key, "set"), value.fset))
                    wanted.update({key} | ({(*key, "set")} if value.fset else set()))
                elif callable(value) and not isinstance(value, type):
                    wrapped = recorded(key, value)
                    wanted.add(key)
                else:
                    continue
                before.append((cls, row.name, value))
                setattr(cls, row.name, wrapped)
            try:
                self.use_everything(api)
            finally:
                for cls, name, value in before:
                    setattr(cls, name, value)
        self.assertEqual(sorted(wanted - used), [])

    def use_everything(self, api):
        logger = self.logger
        self.assertRaises(NotImplementedError, trt.ILogger.log, Collected(), trt.Logger.INFO, "x")
        self.assertIs(trt.nptype(trt.float16), numpy.float16)
        for name in [row.name for row in _api.TABLE if not row.owner and row.is_in(_api.RELEASES.index(api)) and row.name.startswith("Dims")]:
            self.assertEqual(getattr(trt, name)(), ())
        shown = trt.Logger(trt.Logger.ERROR)
        shown.min_severity = trt.Logger.WARNING
        with contextlib.redirect_stderr(io.StringIO()) as text:
            shown.log(trt.Logger.WARNING, "seen")
            shown.log(trt.Logger.INFO, "hidden")
        self.assertIn("[Temper] [W] seen", text.getvalue())
        self.assertNotIn("hidden", text.getvalue())
        self.assertEqual(shown.min_severity, trt.Logger.WARNING)
        self.assertTrue(trt.init_libnvinfer_plugins(logger, ""))
        self.assertIn(trt.get_nv_onnx_parser_version(), (80601, 101303, 110100))
        self.assertEqual((trt.volume((2, 3)), trt.DataType.HALF.itemsize), (6, 2))
        dims = trt.DimsHW(3, 4)
        dims.h, dims.w = 5, 6
        self.assertEqual((dims, dims.h, dims.w, trt.Dims3([1, 2, 3])[1:], trt.Dims.MAX_DIMS), ((5, 6), 5, 6, (2, 3), 8))
        self.assertRaises(ValueError, trt.Dims4, 1, 2)
        self.assertRaises(ValueError, trt.Dims, range(9))

        builder = trt.Builder(logger)
        builder.max_threads = 2
        self.assertEqual((builder.max_threads, builder.num_DLA_cores, builder.reset(), builder.logger), (2, 0, None, logger))
        if api != "11.1":
            builder.platform_has_tf32, builder.platform_has_fast_fp16
            self.assertTrue(builder.platform_has_fast_int8)
        if api == "8.6":
            builder.max_batch_size = 4
            self.assertEqual(builder.max_batch_size, 4)
        network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
        config = configured(builder, network, logger)
        self.use_network(network, builder, api)
        network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
        self.use_parser(network, builder, api)
        self.use_config(config, builder, api)
        config.clear_flag(trt.BuilderFlag.TF32)
        config.set_flag(trt.BuilderFlag.TF32)
        self.assertTrue(config.get_flag(trt.BuilderFlag.TF32) and builder.is_network_supported(network, config))
        plan = builder.build_serialized_network(network, config)
        self.assertEqual((plan.dtype, plan.nbytes), (trt.DataType.INT8, len(plan)))
        config.set_flag(trt.BuilderFlag.SAFETY_SCOPE)
        self.assertFalse(builder.is_network_supported(network, config))
        self.assertIsNone(builder.build_serialized_network(network, config))
        self.assertIn("BuilderFlag SAFETY_SCOPE: not in Temper", logger.text())
        config.clear_flag(trt.BuilderFlag.SAFETY_SCOPE)
        self.use_refitter(builder, network, config, api)
        if api == "8.6":
            self.assertIsNotNone(builder.build_engine(network, config))
        else:
            self.assertIsNotNone(builder.build_engine_with_config(network, config))

            class Writer(trt.IStreamWriter):
                def write(self, data):
                    self.plan = data
                    return len(data)

            writer = Writer()
            self.assertTrue(builder.build_serialized_network_to_stream(network, config, writer))
            self.assertEqual(writer.plan[:8], bytes(plan)[:8])
            self.assertRaises(NotImplementedError, trt.IStreamWriter().write, b"")
        self.use_interfaces(api)
        runtime = trt.Runtime(logger)
        runtime.gpu_allocator = builder.gpu_allocator = None
        self.assertTrue(runtime.gpu_allocator is builder.gpu_allocator is None)
        base, work = trt.IGpuAllocator(), Work()
        self.assertIsNone(base.reallocate(0, 1, 1))
        calls = [lambda: base.allocate(1, 1, 0), lambda: base.deallocate(0)]
        if api != "8.6":
            asynchronous = trt.IGpuAsyncAllocator()
            calls += [lambda: asynchronous.allocate(1, 1, 0), lambda: asynchronous.deallocate(0), lambda: asynchronous.allocate_async(1, 1, 0, 0),
                      lambda: asynchronous.deallocate_async(0, 0)]  # fmt: skip
            self.assertTrue(work.deallocate_async(work.allocate_async(1, 256, 0, 0), 0))
        for call in calls:
            self.assertRaises(NotImplementedError, call)
        runtime.max_threads, runtime.engine_host_code_allowed, runtime.temporary_directory, runtime.tempfile_control_flags = 1, True, "/tmp", 1
        self.assertEqual((runtime.max_threads, runtime.engine_host_code_allowed, runtime.temporary_directory, runtime.tempfile_control_flags,
                          runtime.num_DLA_cores, runtime.logger), (1, True, "/tmp", 1, 0, logger))  # fmt: skip
        self.use_engine(self.read(runtime, plan, api), api)

    def use_recorder(self, builder, network, engine, context, refitter):
        """Errors of an object, and of those that it makes, go to the recorder, too."""
        recorder = trt.IErrorRecorder()
        for call in (recorder.num_errors, recorder.has_overflowed, recorder.clear, lambda: recorder.report_error(1, "x"),
                     lambda: recorder.get_error_code(0), lambda: recorder.get_error_desc(0)):  # fmt: skip
            self.assertRaises(NotImplementedError, call)

        class Recorder(trt.IErrorRecorder):
            def __init__(self):
                trt.IErrorRecorder.__init__(self)
                self.errors = []

            def report_error(self, val, desc):
                self.errors.append((val, desc))
                return False

        runtime = trt.Runtime(self.logger)
        for each, fail in ((runtime, lambda: runtime.deserialize_cuda_engine(b"no plan")), (context, lambda: context.set_input_shape("no input", (1,))),
                           (network, lambda: network.add_input(network.get_input(0).name, trt.float32, (1,))),
                           (refitter, lambda: refitter.set_named_weights("none", numpy.zeros(1, "float32"))),
                           (builder, lambda: builder.build_serialized_network(builder.create_network(), builder.create_builder_config()))):  # fmt: skip
            self.assertIsNone(each.error_recorder)
            each.error_recorder = found = Recorder()
            self.assertIs(each.error_recorder, found)
            fail()
            self.assertEqual([code for code, _ in found.errors], [trt.ErrorCodeTRT.UNSPECIFIED_ERROR], type(each))
            self.assertIn((trt.Logger.ERROR, found.errors[0][1]), self.logger.lines)
            each.error_recorder = None
        engine.error_recorder = found
        inspector = engine.create_engine_inspector()
        self.assertTrue(inspector.error_recorder is engine.error_recorder is found)
        inspector.error_recorder = engine.error_recorder = None
        with self.assertRaises(TypeError):
            engine.error_recorder = object()

    def use_refitter(self, builder, network, config, api):
        config.set_flag(trt.BuilderFlag.REFIT)
        engine = trt.Runtime(self.logger).deserialize_cuda_engine(builder.build_serialized_network(network, config))
        config.clear_flag(trt.BuilderFlag.REFIT)
        refitter = trt.Refitter(engine, self.logger)
        refitter.max_threads = 2
        self.assertEqual((engine.refittable, refitter.max_threads, refitter.logger), (True, 2, self.logger))
        names, (layers, roles) = refitter.get_all_weights(), refitter.get_all()
        self.assertEqual((len(names), refitter.get_missing(), refitter.get_missing_weights()), (len(layers), ([], []), []))
        first = roles.index(trt.WeightsRole.KERNEL)
        self.assertFalse(refitter.set_named_weights("no such weights", numpy.zeros(1, "float32")))
        self.assertFalse(refitter.set_weights(layers[first], trt.WeightsRole.KERNEL, numpy.zeros(1, "float32")))
        self.assertFalse(refitter.set_weights("no such layer", trt.WeightsRole.KERNEL, numpy.zeros(1, "float32")))
        context = engine.create_execution_context()
        self.use_recorder(builder, network, engine, context, refitter)
        if api != "8.6":
            refitter.weights_validation = False
            self.assertEqual((refitter.weights_validation, refitter.get_weights_prototype(names[0]).dtype), (False, trt.float32))
            self.assertTrue(refitter.refit_cuda_engine_async(0))
        else:
            self.assertTrue(refitter.refit_cuda_engine())
        self.assertRaises(RuntimeError, trt.Refitter, self.engine(), self.logger)

    def test_a_parser_tells_which_parts_of_a_model_are_read(self):
        ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (2, 3)) for name in ("x", "y")]
        nodes = [helper.make_node("Neg", ["x"], ["a"]), helper.make_node("Magic", ["a"], ["b"], domain="mine"), helper.make_node("Abs", ["b"], ["c"]),
                 helper.make_node("Neg", ["x"], ["d"]), helper.make_node("Add", ["c", "d"], ["y"])]  # fmt: skip

        def model(nodes, stated=()):
            graph = helper.make_graph(nodes, "parts", ports[:1], ports[1:], value_info=[helper.make_tensor_value_info(name, TensorProto.FLOAT, (2, 3)) for name in stated])
            return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13), helper.make_opsetid("mine", 1)], ir_version=8).SerializeToString()

        whole = model([nodes[0], helper.make_node("Abs", ["a"], ["y"])])
        for api in ("8.6", "10.13", "11.1"):
            _api.use(api)
            logger = Collected()
            builder = trt.Builder(logger)
            network = builder.create_network()
            parser = trt.OnnxParser(network, logger)
            self.assertTrue(parser.supports_operator("Conv") and parser.supports_operator("Gelu"))
            self.assertFalse(parser.supports_operator("Magic"))

            def told(given):
                if api == "8.6":
                    return parser.supports_model(given)
                supported = parser.supports_model_v2(given)
                parts = [(parser.get_subgraph_nodes(i), parser.is_subgraph_supported(i)) for i in range(parser.num_subgraphs)]
                if api == "10.13":
                    self.assertEqual(parser.supports_model(given), (supported, parts))
                self.assertEqual((parser.get_subgraph_nodes(9), parser.is_subgraph_supported(9)), ([], False))
                return supported, parts

            self.assertEqual(told(model(nodes)), (False, [([0], True), ([1, 2], False), ([3], True), ([4], False)]))
            self.assertIn("Magic", parser.get_error(0).desc())
            self.assertEqual(network.num_layers, 0)
            self.assertEqual(told(model(nodes, stated=("b",))), (False, [([0], True), ([1], False), ([2, 3, 4], True)]))
            self.assertEqual(told(b"no model"), (False, []))
            self.assertEqual(told(whole), (True, [([0, 1], True)]))
            self.assertEqual(network.num_layers, 2)  # it is filled
            self.assertIsNotNone(builder.build_serialized_network(network, builder.create_builder_config()), logger.text())
            self.assertTrue(parser.parse(whole))  # and read once all the same
            self.assertEqual((network.num_layers, network.num_inputs), (2, 1))
            self.assertIsNotNone(builder.build_serialized_network(network, builder.create_builder_config()), logger.text())
            self.assertFalse(parser.parse(whole))

    def test_flags_have_the_numbers_of_their_release(self):
        for api, refit, tf32, compatible, sources in (("8.6", 5, 7, 15, 3), ("10.13", 4, 6, 13, 3), ("11.1", 4, 6, 12, 0)):
            _api.use(api)
            flag = trt.BuilderFlag
            self.assertEqual((int(flag.REFIT), int(flag.TF32), int(flag.VERSION_COMPATIBLE), int(trt.TacticSource.EDGE_MASK_CONVOLUTIONS)),
                             (refit, tf32, compatible, sources))  # fmt: skip
            self.assertIs(flag(refit), flag.REFIT)
            logger = Collected()
            builder = trt.Builder(logger)
            network, config = builder.create_network(0), builder.create_builder_config()
            self.assertTrue(trt.OnnxParser(network, logger).parse_from_file(DIGITS))
            profile = builder.create_optimization_profile()
            profile.set_shape("image", *[(1, 1, 8, 8)] * 3)
            config.add_optimization_profile(profile)
            self.assertEqual(config.flags, 1 << tf32)
            config.flags = 1 << compatible
            self.assertIsNone(builder.build_serialized_network(network, config))
            self.assertIn("BuilderFlag VERSION_COMPATIBLE: not in Temper", logger.text())
            config.flags = 1 << 31
            self.assertIsNone(builder.build_serialized_network(network, config))
            self.assertIn(f"there is no BuilderFlag 31 in TensorRT {api}", logger.text())
            config.flags = 1 << refit
            engine = trt.Runtime(logger).deserialize_cuda_engine(builder.build_serialized_network(network, config))
            self.assertTrue(engine.refittable, logger.text())

    def test_a_strongly_typed_network_takes_no_precisions(self):
        for api in ("10.13", "11.1"):
            _api.use(api)
            logger = Collected()
            builder = trt.Builder(logger)
            network, config = builder.create_network(2 if api == "10.13" else 0), builder.create_builder_config()
            self.assertTrue(trt.OnnxParser(network, logger).parse_from_file(DIGITS))
            profile = builder.create_optimization_profile()
            profile.set_shape("image", *[(1, 1, 8, 8)] * 3)
            config.add_optimization_profile(profile)
            if api == "10.13":
                config.set_flag(trt.BuilderFlag.FP16)
                self.assertIsNone(builder.build_serialized_network(network, config))
                self.assertIn("BuilderFlag FP16 is set, and the network is strongly typed", logger.text())
                config.clear_flag(trt.BuilderFlag.FP16)
                network.get_layer(0).precision = trt.float16
                self.assertIn("is not set: the network is strongly typed", logger.text())
                self.assertFalse(network.get_layer(0).precision_is_set)
                network.get_layer(0).set_output_type(0, trt.float16)
            network.get_output(0).dtype = trt.float16
            self.assertIn("the type of 'logits' stays f32: the network is strongly typed", logger.text())
            self.assertIsNotNone(builder.build_serialized_network(network, config), logger.text())

    def use_network(self, network, builder, api):
        self.assertIs(network.builder, builder)
        self.assertEqual((network.num_inputs, network.num_outputs, network.has_implicit_batch_dimension), (1, 1, False))
        self.assertGreater(network.num_layers, 3)
        self.assertIsInstance(network.name, str)
        self.assertTrue(network.get_flag(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
        self.assertEqual(network.flags, {"8.6": 4, "10.13": 2, "11.1": 1}[api])
        if api == "8.6":
            self.assertFalse(network.has_explicit_precision)
        x, y = network.get_input(0), network.get_output(0)
        self.assertEqual((x.name, x.dtype, x.shape, y.name), ("image", trt.DataType.FLOAT, (-1, 1, 8, 8), "logits"))
        self.assertEqual((x.is_network_input, x.is_network_output, y.is_network_output, x.is_shape_tensor, x.is_execution_tensor,
                          x.broadcast_across_batch, x.location), (True, False, True, False, True, False, trt.TensorLocation.DEVICE))  # fmt: skip
        x.allowed_formats = 1 << int(trt.TensorFormat.LINEAR) | 1 << int(trt.TensorFormat.HWC)
        self.assertEqual(x.allowed_formats, 257)
        with self.assertRaises(ValueError):
            x.allowed_formats = 1 << int(trt.TensorFormat.CHW4)
        layers = list(network)
        self.assertEqual((len(layers), layers[0].type, layers[-1].type), (len(network), trt.LayerType.CONVOLUTION, trt.LayerType.ELEMENTWISE))
        self.assertEqual((network.get_layer(0).name, network[-1].name, network.get_layer(99)), (layers[0].name, layers[-1].name, None))
        self.use_layers(builder.create_network(), api)

    def use_layers(self, network, api):
        """Adds every layer, and reads and sets everything that it is told: what is set is what was read."""
        numbers, one = numpy.ones(18, "float32"), trt.Weights(numpy.ones(1, "float32"))
        self.assertEqual((len(one), one.size, one.nbytes, one.dtype, one.numpy().tolist(), len(trt.Weights())), (1, 1, 4, trt.float32, [1], 0))
        x = network.add_input("x", trt.float32, (1, 2, 6, 6))
        x.shape, x.dtype, x.location, x.name = (-1, 2, 6, 6), trt.float32, trt.TensorLocation.DEVICE, "first"
        x.set_dimension_name(0, "batch")
        self.assertEqual((x.get_dimension_name(0), x.name, x.shape), ("batch", "first", (-1, 2, 6, 6)))
        y = network.add_input("y", trt.float32, (1, 2, 6, 6))
        i, c = network.add_input("i", trt.int32, (3,)), network.add_input("c", trt.bool, (1, 2, 6, 6))
        network.name = "by hand"
        self.assertEqual(network.name, "by hand")
        op, scale = trt.ElementWiseOperation.SUM, network.add_constant((1,), one).get_output(0)
        int8 = network.add_quantize(x, scale)
        added = [
            network.add_convolution_nd(x, 1, (3, 3), numbers), network.add_deconvolution_nd(x, 1, (3, 3), numbers),
            network.add_pooling_nd(x, trt.PoolingType.MAX, (2, 2)), network.add_activation(x, trt.ActivationType.RELU),
            network.add_lrn(x, 3, 1e-4, 0.75, 1), network.add_scale(x, trt.ScaleMode.UNIFORM, scale=one),
            network.add_scale_nd(x, trt.ScaleMode.UNIFORM, one, one, one, 1), network.add_softmax(x), network.add_concatenation([x, x]),
            network.add_elementwise(x, y, op), network.add_unary(x, trt.UnaryOperation.EXP), network.add_padding_nd(x, (1, 1), (1, 1)),
            network.add_shuffle(x), network.add_reduce(x, trt.ReduceOperation.SUM, 2, True), network.add_topk(x, trt.TopKOperation.MAX, 1, 2),
            network.add_gather(x, i, 2), network.add_gather_v2(x, i, trt.GatherMode.DEFAULT), network.add_scatter(x, x, x, trt.ScatterMode.ELEMENT),
            network.add_matrix_multiply(x, trt.MatrixOperation.NONE, y, trt.MatrixOperation.NONE), network.add_constant((1,), one),
            network.add_identity(x), network.add_cast(x, trt.int32), network.add_slice(y, (0, 0, 0, 0), (1, 1, 1, 1), (1, 1, 1, 1)),
            network.add_shape(x), network.add_parametric_relu(x, y), network.add_select(c, x, y), network.add_resize(y),
            network.add_fill((3,), trt.FillOperation.LINSPACE), int8, network.add_dequantize(int8.get_output(0), scale), network.add_einsum([x, y], "abcd,abcd->a"),
            network.add_one_hot(i, i, i, 0), network.add_non_zero(x), network.add_grid_sample(x, y), network.add_nms(x, y, i),
            network.add_normalization(x, x, x, 12), network.add_reverse_sequence(x, i)]  # fmt: skip
        if api == "8.6":
            added += [network.add_convolution(x, 1, (3, 3), numbers), network.add_deconvolution(x, 1, (3, 3), numbers),
                      network.add_pooling(x, trt.PoolingType.MAX, (2, 2)), network.add_padding(x, (1, 1), (1, 1)),
                      network.add_fully_connected(y, 1, numpy.ones(72, "float32"))]  # fmt: skip
        else:
            added += [network.add_squeeze(x, i), network.add_unsqueeze(x, i), network.add_cumulative(x, i, trt.CumulativeOperation.SUM, False, False)]
        self.assertEqual({type(layer) for layer in added}, {cls for cls in _layers.CLASSES.values() if cls.__name__ in dir(trt)})
        for layer in added:
            for name in (row.name for row in _api.TABLE if row.owner == type(layer).__name__ and row.is_in(_api.RELEASES.index(api))):
                before = getattr(layer, name)
                setattr(layer, name, before)
                if isinstance(before, trt.Weights):
                    numpy.testing.assert_array_equal(before.numpy(), getattr(layer, name).numpy())
                else:
                    self.assertEqual(before, getattr(layer, name), f"{layer.name}.{name}")
        layer = added[0]
        layer.name, layer.metadata = "first", "of it"
        layer.set_input(0, y)
        self.assertEqual((layer.name, layer.metadata, layer.num_inputs, layer.num_outputs, layer.get_input(0)), ("first", "of it", 1, 1, y))
        self.assertEqual(layer.type, trt.LayerType.CONVOLUTION)
        if api != "11.1":
            layer.precision = trt.float16
            layer.set_output_type(0, trt.float16)
            self.assertEqual((layer.precision, layer.precision_is_set, layer.get_output_type(0), layer.output_type_is_set(0)), (trt.float16, True, trt.float16, True))
            layer.reset_precision()
            layer.reset_output_type(0)
            self.assertEqual((layer.precision_is_set, layer.output_type_is_set(0)), (False, False))
        out = layer.get_output(0)
        network.mark_output(out)
        self.assertEqual((network.num_outputs, network.get_output(0)), (1, out))
        network.unmark_output(out)
        self.assertEqual(network.num_outputs, 0)

    def use_parser(self, network, builder, api):
        parser = trt.OnnxParser(network, self.logger)
        parser.flags = 0
        parser.set_flag(trt.OnnxParserFlag.NATIVE_INSTANCENORM)
        self.assertTrue(parser.get_flag(trt.OnnxParserFlag.NATIVE_INSTANCENORM))
        parser.clear_flag(trt.OnnxParserFlag.NATIVE_INSTANCENORM)
        self.assertEqual((parser.flags, parser.get_used_vc_plugin_libraries(), parser.num_errors), (0, [], 0))
        self.assertTrue(parser.parse_from_file(DIGITS))
        with open(DIGITS, "rb") as file:
            model = file.read()
        parser = trt.OnnxParser(builder.create_network(), self.logger)
        if api != "11.1":
            self.assertTrue(parser.parse_with_weight_descriptors(model))
        else:
            self.assertTrue(parser.set_builder_config(None))
        parser = trt.OnnxParser(builder.create_network(), self.logger)
        self.assertTrue(parser.supports_operator("Conv"))
        if api != "11.1":
            self.assertTrue(parser.supports_model(model)[0])
        if api != "8.6":
            self.assertTrue(parser.supports_model_v2(model) and parser.num_subgraphs == 1 and parser.is_subgraph_supported(0))
            self.assertGreater(len(parser.get_subgraph_nodes(0)), 5)
        parser = trt.OnnxParser(builder.create_network(), self.logger)
        self.assertFalse(parser.parse(b"no model"))
        error = parser.get_error(0)
        self.assertIn("ONNX", error.desc())
        self.assertEqual((error.code(), error.node(), error.file(), error.line(), error.func()), (trt.ErrorCode.INVALID_GRAPH, -1, "", 0, ""))
        parser.clear_errors()
        self.assertEqual(parser.num_errors, 0)

    def use_config(self, config, builder, api):
        for name, value in (("builder_optimization_level", 5), ("avg_timing_iterations", 2), ("profiling_verbosity", trt.ProfilingVerbosity.DETAILED),
                            ("profile_stream", 0), ("max_aux_streams", 1), ("engine_capability", trt.EngineCapability.STANDARD),
                            ("hardware_compatibility_level", trt.HardwareCompatibilityLevel.NONE), ("default_device_type", trt.DeviceType.GPU),
                            ("DLA_core", -1), ("plugins_to_serialize", []), ("flags", config.flags), ("progress_monitor", Phases()),
                            *((("tiling_optimization_level", trt.TilingOptimizationLevel.FAST), ("l2_limit_for_tiling", 5), ("max_num_tactics", 3),
                               ("runtime_platform", trt.RuntimePlatform.SAME_AS_BUILD)) if api != "8.6" else (("min_timing_iterations", 1),)),
                            *((("quantization_flags", 0), ("int8_calibrator", None)) if api != "11.1" else ()),
                            *((("max_workspace_size", 1 << 28),) if api == "8.6" else ())):  # fmt: skip
            setattr(config, name, value)
            self.assertEqual(getattr(config, name), value)
        with self.assertRaises(TypeError):
            config.progress_monitor = object()
        feature = list(trt.PreviewFeature.__members__.values())[0]
        config.set_preview_feature(feature, True)
        self.assertTrue(config.get_preview_feature(feature))
        self.assertTrue(config.set_tactic_sources(1 << int(trt.TacticSource.JIT_CONVOLUTIONS)))
        self.assertEqual(config.get_tactic_sources(), 1 << int(trt.TacticSource.JIT_CONVOLUTIONS))
        if api != "11.1":
            config.set_quantization_flag(trt.QuantizationFlag.CALIBRATE_BEFORE_FUSION)
            self.assertTrue(config.get_quantization_flag(trt.QuantizationFlag.CALIBRATE_BEFORE_FUSION))
            config.clear_quantization_flag(trt.QuantizationFlag.CALIBRATE_BEFORE_FUSION)
            profile = builder.create_optimization_profile()
            self.assertTrue(config.set_calibration_profile(profile))
            self.assertIs(config.get_calibration_profile(), profile)
        config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, 1 << 28)
        self.assertEqual((config.get_memory_pool_limit(trt.MemoryPoolType.WORKSPACE), config.num_optimization_profiles), (1 << 28, 1))
        cache = config.create_timing_cache(b"")
        self.assertTrue(config.set_timing_cache(cache, False) and config.get_timing_cache() is cache)
        self.assertTrue(cache.combine(config.create_timing_cache(cache.serialize()), False) and cache.reset())
        other = builder.create_builder_config()
        other.engine_capability = trt.EngineCapability.SAFETY
        self.assertFalse(builder.is_network_supported(builder.create_network(), other))
        self.assertIsNone(builder.build_serialized_network(builder.create_network(), other))
        self.assertIn("EngineCapability: not in Temper", self.logger.text())
        other.reset()
        self.assertEqual(other.engine_capability, trt.EngineCapability.STANDARD)
        profile = builder.create_optimization_profile()
        profile.extra_memory_target = 0.5
        profile.set_shape("image", (1, 1), (1, 1), (2, 1))
        self.assertEqual((profile.extra_memory_target, profile.get_shape("image")[2], bool(profile)), (0.5, (2, 1), True))

    def use_interfaces(self, api):
        if api != "11.1":
            calibrator = trt.IInt8Calibrator()
            for name, given in (("get_batch", ([],)), ("get_algorithm", ())):
                self.assertRaises(NotImplementedError, getattr(calibrator, name), *given)
            self.assertEqual((calibrator.get_batch_size(), calibrator.read_calibration_cache(), calibrator.write_calibration_cache(b"")), (1, None, None))
            for cls, algorithm in ((trt.IInt8EntropyCalibrator, "ENTROPY_CALIBRATION"), (trt.IInt8EntropyCalibrator2, "ENTROPY_CALIBRATION_2"),
                                   (trt.IInt8MinMaxCalibrator, "MINMAX_CALIBRATION"), (trt.IInt8LegacyCalibrator, "LEGACY_CALIBRATION")):  # fmt: skip
                self.assertEqual(cls().get_algorithm().name, algorithm)
            legacy = self.built(prepare=lambda config: setattr(config, "int8_calibrator", trt.IInt8LegacyCalibrator()))
            self.assertIsNone(legacy)
            self.assertIn("IInt8LegacyCalibrator: its quantiles", self.logger.text())
        monitor = trt.IProgressMonitor()
        for call in (lambda: monitor.phase_start("p", None, 1), lambda: monitor.step_complete("p", 0), lambda: monitor.phase_finish("p"),
                     lambda: trt.IProfiler().report_layer_time("l", 1), lambda: trt.IOutputAllocator().reallocate_output("o", 0, 1, 1),
                     lambda: trt.IOutputAllocator().reallocate_output_async("o", 0, 1, 1, 0),
                     lambda: trt.IOutputAllocator().notify_shape("o", trt.Dims())):  # fmt: skip
            self.assertRaises(NotImplementedError, call)

    def read(self, runtime, plan, api):
        """The engine, by the reader that the release has."""
        file = io.BytesIO(plan)
        if api == "11.1":

            class Reader(trt.IStreamReaderV2):
                def read(self, num_bytes, stream):
                    return file.read(num_bytes)

            self.assertRaises(NotImplementedError, trt.IStreamReaderV2().read, 1, 0)
            self.assertRaises(NotImplementedError, trt.IStreamReaderV2().seek, 1, trt.SeekPosition.SET)
        else:

            class Reader(trt.IStreamReader):
                def read(self, size):
                    return file.read(size)

            self.assertRaises(NotImplementedError, trt.IStreamReader().read, 1)
        return runtime.deserialize_cuda_engine(Reader())

    def use_engine(self, engine, api):
        self.assertEqual((engine.num_io_tensors, engine.num_optimization_profiles, engine.num_aux_streams, engine.refittable, engine.tactic_sources),
                         (2, 1, 0, False, 0))  # fmt: skip
        self.assertEqual((engine.profiling_verbosity, engine.engine_capability, engine.hardware_compatibility_level),
                         (trt.ProfilingVerbosity.DETAILED, trt.EngineCapability.STANDARD, trt.HardwareCompatibilityLevel.NONE))  # fmt: skip
        self.assertGreater(engine.num_layers, 0)
        self.assertIn("digits", engine.name)
        name = engine.get_tensor_name(0)
        self.assertEqual((name, engine.get_tensor_mode(name), engine.get_tensor_dtype(name), engine.get_tensor_shape(name), engine.get_tensor_location(name)),
                         ("image", trt.TensorIOMode.INPUT, trt.float32, (-1, 1, 8, 8), trt.TensorLocation.DEVICE))  # fmt: skip
        self.assertEqual((engine.get_tensor_format(name), engine.get_tensor_format_desc(name), engine.get_tensor_bytes_per_component(name),
                          engine.get_tensor_components_per_element(name), engine.get_tensor_vectorized_dim(name), engine.is_shape_inference_io(name)),
                         (trt.TensorFormat.LINEAR, "rows of FLOAT (LINEAR)", 4, 1, -1, False))  # fmt: skip
        self.assertEqual(engine.get_tensor_profile_shape(name, 0)[2], (4, 1, 8, 8))
        self.assertEqual(engine.serialize().nbytes > 0, True)
        self.assertEqual(engine["image"], 0)
        if api == "8.6":
            self.use_bindings(engine)
        else:
            self.assertEqual((engine.device_memory_size_v2, engine.get_device_memory_size_for_profile_v2(0), engine.get_tensor_profile_values(0, name),
                              engine.is_debug_tensor(name)), (0, 0, [], False))  # fmt: skip
            runtime_config = engine.create_runtime_config()
            runtime_config.set_execution_context_allocation_strategy(trt.ExecutionContextAllocationStrategy.USER_MANAGED)
            self.assertEqual(str(runtime_config.get_execution_context_allocation_strategy()), "ExecutionContextAllocationStrategy.USER_MANAGED")
            engine.create_execution_context(runtime_config)
        if api == "10.13":
            self.assertEqual(engine.get_device_memory_size_for_profile(0), 0)
        if api == "11.1":
            self.assertIsNone(engine.get_aliased_input_tensor("logits"))
        else:
            self.assertEqual((engine.device_memory_size, engine.has_implicit_batch_dimension), (0, False))
            engine.create_execution_context_without_device_memory()
        self.use_context(engine, engine.create_execution_context(), api)

    def use_bindings(self, engine):
        self.assertEqual((engine.num_bindings, len(engine), engine.max_batch_size, engine.get_binding_name(1), engine.get_binding_index("logits")),
                         (2, 2, 1, "logits", 1))  # fmt: skip
        self.assertEqual((engine.get_binding_shape(1), engine.get_binding_dtype(1), engine.binding_is_input(1), engine.get_profile_shape(0, 0)[0],
                          engine.get_location(0)), ((-1, 10), trt.float32, False, (1, 1, 8, 8), trt.TensorLocation.DEVICE))  # fmt: skip
        self.assertEqual((engine.get_binding_format(0), engine.get_binding_format_desc(0), engine.get_binding_bytes_per_component(0),
                          engine.get_binding_components_per_element(0), engine.get_binding_vectorized_dim(0), engine.is_shape_binding(0),
                          engine.is_execution_binding(0)), (trt.TensorFormat.LINEAR, "rows of FLOAT (LINEAR)", 4, 1, -1, False, True))  # fmt: skip
        context = engine.create_execution_context()
        self.assertTrue(context.set_binding_shape(0, (3, 1, 8, 8)))
        self.assertEqual((context.get_binding_shape(1), context.get_strides(0)), ((3, 10), (64, 64, 8, 1)))
        x, y = images(3), numpy.zeros((3, 10), "float32")
        self.assertTrue(context.execute_async_v2([x.ctypes.data, y.ctypes.data], 0))
        self.assertEqual(y.argmax(axis=1).tolist(), temper.load(bytes(engine.serialize())).run(x)["logits"].argmax(axis=1).tolist())

    def use_context(self, engine, context, api):
        self.assertIs(context.engine, engine)
        for name, value in (("name", "mine"), ("debug_sync", True), ("nvtx_verbosity", trt.ProfilingVerbosity.NONE), ("persistent_cache_limit", 1),
                            ("active_optimization_profile", 0), ("enqueue_emits_profile", False), ("device_memory", 0)):  # fmt: skip
            setattr(context, name, value)
            self.assertEqual(getattr(context, name), value)
        with self.assertRaises(RuntimeError):
            context.active_optimization_profile = 1
        context.set_aux_streams([])
        if api != "8.6":
            context.set_device_memory(0, 0)
            self.assertEqual(context.update_device_memory_size_for_shapes(), 0)
        self.assertTrue(context.set_optimization_profile_async(0, 0))
        self.assertEqual((context.infer_shapes(), context.all_binding_shapes_specified, context.get_max_output_size("logits")), (["image"], False, 160))
        self.assertEqual(context.get_tensor_strides("image"), (64, 64, 8, 1))
        self.assertTrue(context.set_input_shape("image", (2, 1, 8, 8)))
        if api != "11.1":
            self.assertTrue(context.all_shape_inputs_specified)
        self.assertEqual((context.get_tensor_shape("logits"), context.get_tensor_strides("logits")), ((2, 10), (10, 1)))
        memory, x = Memory(), images(2)
        self.assertTrue(context.set_tensor_address("image", x.ctypes.data) and context.set_output_allocator("logits", memory))
        self.assertFalse(context.set_output_allocator("image", memory))
        self.assertIs(context.get_output_allocator("logits"), memory)
        times = Times()
        context.profiler = times
        self.assertIs(context.profiler, times)
        self.assertTrue(context.execute_async_v3(0), self.logger.text())
        self.assertEqual(times.layers, [])
        self.assertTrue(context.report_to_profiler())
        expected = onnxruntime.InferenceSession(DIGITS).run(None, {"image": x})[0]
        numpy.testing.assert_allclose(memory.result("logits", "float32"), expected, rtol=1e-4, atol=1e-4)
        context.profiler = trt.Profiler()
        context.enqueue_emits_profile = True
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            self.assertTrue(context.execute_v2([x.ctypes.data, x.ctypes.data]))
        self.assertEqual([line.rsplit(":", 1)[0] for line in printed.getvalue().splitlines()], [layer for layer, _ in times.layers])
        context.profiler = None
        self.assertEqual(context.get_tensor_address("image"), x.ctypes.data)
        inspector = engine.create_engine_inspector()
        inspector.execution_context = context
        self.assertIs(inspector.execution_context, context)
        described = json.loads(inspector.get_engine_information(trt.LayerInformationFormat.JSON))
        self.assertEqual([layer["Name"] for layer in described["Layers"]], [layer for layer, _ in times.layers])
        # A plan may run slices of the batch of 2.
        self.assertIn(described["Layers"][0]["Inputs"][0]["Dimensions"], [[1, 1, 8, 8], [2, 1, 8, 8]])
        self.assertEqual(json.loads(inspector.get_layer_information(0, trt.LayerInformationFormat.JSON)), described["Layers"][0])
        self.assertEqual(inspector.get_layer_information(0, trt.LayerInformationFormat.ONELINE).strip(), described["Layers"][0]["Name"])
        self.assertEqual(inspector.get_layer_information(99, trt.LayerInformationFormat.JSON), "")

    def test_outputs_whose_size_depends_on_data_come_into_an_allocators_memory(self):
        engine = self.engine(numbers_above_zero())
        context = engine.create_execution_context()
        self.assertEqual((context.get_tensor_shape("where"), context.get_max_output_size("where")), ((2, -1), -1))
        self.assertEqual(engine.create_engine_inspector().get_layer_information(0, trt.LayerInformationFormat.JSON), "")
        memory = Memory()
        self.assertTrue(context.set_output_allocator("where", memory))
        for seed in range(3):
            x = numpy.random.default_rng(seed).standard_normal((3, 4)).astype("float32")
            self.assertTrue(context.set_tensor_address("x", x.ctypes.data) and context.execute_async_v3(0), self.logger.text())
            numpy.testing.assert_array_equal(memory.result("where", "int32"), numpy.stack(numpy.nonzero(x > 0)))

    def test_contexts_work_in_the_memory_of_an_allocator(self):
        plan, x, y = self.built(), images(2), numpy.zeros((2, 10), "float32")
        wanted = onnxruntime.InferenceSession(DIGITS).run(None, {"image": x})[0]

        def run(allocator):
            runtime = trt.Runtime(self.logger)
            runtime.gpu_allocator = allocator
            self.assertIs(runtime.gpu_allocator, allocator)
            context = runtime.deserialize_cuda_engine(plan).create_execution_context()
            self.assertTrue(context.set_input_shape("image", x.shape))
            return context, context.execute_v2([x.ctypes.data, y.ctypes.data])

        _api.use("10.13")

        class Async(trt.IGpuAsyncAllocator):
            def __init__(self):
                trt.IGpuAsyncAllocator.__init__(self)
                self.work = Work()

            def allocate_async(self, size, alignment, flags, stream):
                return self.work.allocate(size, alignment, flags)

            def deallocate_async(self, memory, stream):
                return self.work.deallocate(memory)

        for api in ("8.6", "10.13"):
            _api.use(api)
            for allocator in (Work(), *([Async()] if api == "10.13" else [])):
                y[...] = 0
                context, done = run(allocator)
                self.assertTrue(done, self.logger.text())
                numpy.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-4)
                work = getattr(allocator, "work", allocator)
                self.assertEqual((len(work.live), work.asked[0][1:]), (1, (256, 0)))
                del context
                self.assertEqual(work.live, {}, "memory was not given back")
        _api.use("8.6")

        class Broken(Work):
            def allocate(self, size, alignment, flags):
                raise ZeroDivisionError("mine")

        with self.assertRaisesRegex(ZeroDivisionError, "mine"):
            run(Broken())
        for at, why in ((None, "gave no memory for"), (4096, "there is no memory of this process"), (y.ctypes.data // 256 * 256 + 16, "not aligned to 256 bytes")):
            wrong = Work()
            wrong.allocate = lambda size, alignment, flags: at  # noqa: B023
            wrong.deallocate = lambda memory: True
            self.logger.lines.clear()
            self.assertFalse(run(wrong)[1])
            self.assertIn(why, self.logger.text())
        with self.assertRaises(TypeError):
            trt.Runtime(self.logger).gpu_allocator = object()
        builder = trt.Builder(self.logger)
        builder.gpu_allocator = work = Work()
        network = builder.create_network(0)
        engine = builder.build_engine(network, configured(builder, network, self.logger))
        context = engine.create_execution_context()
        self.assertTrue(context.set_input_shape("image", x.shape) and context.execute_v2([x.ctypes.data, y.ctypes.data]))
        self.assertEqual((len(work.live), builder.gpu_allocator), (1, work))

    def test_what_an_allocator_or_a_profiler_raises_comes_back(self):
        context = self.engine().create_execution_context()
        x, y = images(1), numpy.zeros((1, 10), "float32")
        context.set_input_shape("image", x.shape)
        context.set_tensor_address("image", x.ctypes.data)

        class Broken(Memory):
            def notify_shape(self, tensor_name, shape):
                raise ZeroDivisionError("mine")

        class Async(Memory):
            def reallocate_output_async(self, tensor_name, memory, size, alignment, stream):
                self.stream = stream
                return self.reallocate_output(tensor_name, memory, size, alignment)

        class Empty(Memory):
            def reallocate_output(self, tensor_name, memory, size, alignment):
                return None

        context.set_output_allocator("logits", Broken())
        with self.assertRaisesRegex(ZeroDivisionError, "mine"):
            context.execute_async_v3(0)
        context.set_output_allocator("logits", Empty())
        self.assertFalse(context.execute_async_v3(0))
        self.assertIn("gave no memory for 'logits'", self.logger.text())
        memory = Async()
        context.set_output_allocator("logits", memory)
        self.assertTrue(context.execute_async_v3(0))
        self.assertEqual(memory.stream, 0)
        context.set_output_allocator("logits", None)
        self.assertIsNone(context.get_output_allocator("logits"))
        self.assertTrue(context.set_tensor_address("logits", y.ctypes.data) and context.execute_async_v3(0))
        numpy.testing.assert_array_equal(y, memory.result("logits", "float32"))

        class Unmade(trt.IProfiler):
            def __init__(self):
                pass

        for wrong in (object(), Unmade()):
            with self.assertRaises(TypeError):
                context.profiler = wrong
        self.assertRaises(TypeError, context.set_output_allocator, "logits", object())

    def test_a_monitor_sees_phases_and_ends_a_build(self):
        def watched(monitor):
            return self.built(prepare=lambda config: setattr(config, "progress_monitor", monitor))

        monitor = Phases()
        self.assertIsNotNone(watched(monitor))
        self.assertEqual((monitor.open, monitor.seen[0]), ([], "Building an engine"))
        self.assertIsNone(watched(Phases(steps=0)))
        self.assertIn("ended by the progress monitor", self.logger.text())

        class Broken(Phases):
            def phase_finish(self, phase_name):
                raise ZeroDivisionError("mine")

        with self.assertRaisesRegex(ZeroDivisionError, "mine"):
            watched(Broken())

    def test_every_member_of_an_enumeration_is_made_of_its_number(self):
        for api in _api.RELEASES:
            _api.use(api)
            listed = [row for row in _api.TABLE if row.owner in _enums.ALL and row.is_in(_api.RELEASES.index(api))]
            self.assertGreater(len(listed), 200)
            for row in listed:
                cls = _enums.ALL[row.owner]
                member = getattr(cls, row.name)
                if isinstance(member, property):  # name, value
                    continue
                self.assertIs(cls(int(member)), member)
                self.assertIs(cls.__members__[row.name], member)
                self.assertEqual(str(member), f"{cls.__name__}.{member.name}")

    def test_enumerations_behave_as_the_bindings_do(self):
        self.assertIs(trt.DataType(1), trt.DataType.HALF)
        self.assertRaises(ValueError, trt.DataType, 99)
        self.assertIs(copy.deepcopy({"a": trt.DataType.HALF})["a"], trt.DataType.HALF)
        self.assertEqual(repr(trt.DataType.HALF), "<DataType.HALF: 1>")
        self.assertEqual(trt.DataType.__members__["FLOAT"], trt.DataType.FLOAT)
        self.assertEqual({trt.DataType.HALF: 1}[trt.DataType.HALF], 1)
        self.assertNotEqual(trt.DataType.FLOAT, trt.TensorFormat.LINEAR)
        self.assertIs(trt.ProfilingVerbosity.VERBOSE, trt.ProfilingVerbosity.DETAILED)
        _api.use("11.1")
        self.assertNotIn("FP16", trt.BuilderFlag.__members__)
        _api.use("8.6")
        self.assertIn("FP16", trt.BuilderFlag.__members__)
        self.assertIs(pickle.loads(pickle.dumps(trt.DataType.HALF)), trt.DataType.HALF)


def configured_parts(logger):
    """A tensor and a layer."""
    builder = trt.Builder(logger)
    network = builder.create_network(0)
    configured(builder, network, logger)
    return network.get_input(0), network.get_layer(0)


if __name__ == "__main__":
    unittest.main()
