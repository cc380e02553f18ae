# SPDX-License-Identifier: Apache-2.0
"""Programs for TensorRT on Temper: building, running in both styles, what is refused, and what each release has."""
import os
import subprocess
import sys
import tempfile
import textwrap
import unittest

import numpy
import onnx
import onnxruntime
from common import DIGITS, Case, images

import temper
import temper.tensorrt as trt
from temper.tensorrt import _api


class Collected(trt.ILogger):
    def __init__(self):
        trt.ILogger.__init__(self)
        self.lines = []

    def log(self, severity, msg):
        self.lines.append((severity, msg))

    def text(self, severity):
        return "\n".join(msg for at, msg in self.lines if at == severity)


class Batches(trt.IInt8EntropyCalibrator2):
    """Batches in memory of its own, and a cache in a list, as published calibrators have them in files."""

    def __init__(self, count, cache=None):
        trt.IInt8EntropyCalibrator2.__init__(self)
        self.left = [images(16, seed=i) for i in range(count)]  # larger than what is asked for
        self.asked, self.cache = [], cache

    def get_batch_size(self):
        return 16

    def get_batch(self, names):
        self.asked.append(names)
        if not self.left:
            return None
        self.batch = self.left.pop()
        return [self.batch.ctypes.data]

    def read_calibration_cache(self):
        return self.cache

    def write_calibration_cache(self, cache):
        self.cache = cache.tobytes()


def built(logger, shapes=((1, 1, 8, 8), (2, 1, 8, 8), (4, 1, 8, 8)), flags=(), more=(), calibrator=None, calibrated=None, edit=None):
    """The plan of the digits' model, by the calls of published scripts."""
    builder = trt.Builder(logger)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH))
    parser = trt.OnnxParser(network, logger)
    with open(DIGITS, "rb") as file:
        assert parser.parse(file.read()), [str(parser.get_error(i)) for i in range(parser.num_errors)]
    if edit:
        edit(network)
    config = builder.create_builder_config()
    config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, 1 << 30)
    for flag in flags:
        config.set_flag(flag)
    if calibrator:
        config.int8_calibrator = calibrator
    if calibrated:
        config.set_calibration_profile(calibrated)
    for given in [shapes, *more] if shapes else []:
        profile = builder.create_optimization_profile()
        profile.set_shape("image", *given)
        config.add_optimization_profile(profile)
    return builder.build_serialized_network(network, config)


def pointers(*arrays):
    return [array.ctypes.data for array in arrays]


class TensorrtTest(Case):
    @classmethod
    def setUpClass(cls):
        cls.logger = Collected()
        cls.plan = built(cls.logger)
        cls.reference = onnxruntime.InferenceSession(DIGITS)

    def setUp(self):
        _api.use("8.6")
        self.logger.lines.clear()
        self.engine = trt.Runtime(self.logger).deserialize_cuda_engine(self.plan)

    def run_script(self, script, x):
        """With the digits' plan and `x` as its arguments, on the CPU."""
        with tempfile.TemporaryDirectory() as folder:
            numpy.save(os.path.join(folder, "x.npy"), x)
            for name, data in (("infer.py", script.encode()), ("m.plan", bytes(self.plan))):
                with open(os.path.join(folder, name), "wb") as file:
                    file.write(data)
            words = [sys.executable, "-m", "temper.tensorrt", "--device", "cpu", "infer.py", "m.plan", "x.npy"]
            done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def expected(self, x):
        return self.reference.run(None, {"image": x})[0]

    def test_a_plan_is_bytes_that_temper_loads(self):
        self.assertIsInstance(self.plan, trt.IHostMemory)
        self.assertEqual(self.plan.nbytes, len(bytes(self.plan)))
        x = images(2)
        numpy.testing.assert_allclose(temper.load(bytes(self.plan)).run(x)["logits"], self.expected(x), rtol=1e-4, atol=1e-4)
        self.assertEqual(bytes(self.engine.serialize())[:4], bytes(self.plan)[:4])

    def test_named_tensors_run(self):
        engine, context = self.engine, self.engine.create_execution_context()
        self.assertEqual([engine.get_tensor_name(i) for i in range(engine.num_io_tensors)], ["image", "logits"])
        self.assertEqual(engine.get_tensor_mode("logits"), trt.TensorIOMode.OUTPUT)
        self.assertEqual(str(engine.get_tensor_dtype("image")), "DataType.FLOAT")
        self.assertEqual(trt.nptype(engine.get_tensor_dtype("image")), numpy.float32)
        shape = engine.get_tensor_shape("image")
        self.assertEqual((shape, str(shape), tuple(shape) == shape), ((-1, 1, 8, 8), "(-1, 1, 8, 8)", True))
        shape[0] = 2  # as scripts do
        self.assertEqual((numpy.zeros(shape).size, engine.get_tensor_shape("image")[0]), (128, -1))
        self.assertEqual(engine.get_tensor_profile_shape("image", 0), [(1, 1, 8, 8), (2, 1, 8, 8), (4, 1, 8, 8)])
        self.assertEqual(context.infer_shapes(), ["image"])
        self.assertEqual(context.get_tensor_shape("logits"), (-1, 10))
        for count in (1, 3):
            x, y = images(count), numpy.zeros((count, 10), "float32")
            self.assertTrue(context.set_input_shape("image", [count, 1, 8, 8]))
            self.assertEqual(list(context.get_tensor_shape("logits")), [count, 10])
            self.assertEqual(trt.volume(context.get_tensor_shape("logits")), count * 10)
            self.assertTrue(context.set_tensor_address("image", x.ctypes.data) and context.set_tensor_address("logits", numpy.int64(y.ctypes.data)))
            self.assertTrue(context.execute_async_v3(0), self.logger.lines)
            numpy.testing.assert_allclose(y, self.expected(x), rtol=1e-4, atol=1e-4)
        self.assertEqual(self.logger.lines, [])

    def test_bindings_run(self):
        engine = self.engine
        self.assertEqual([binding for binding in engine], ["image", "logits"])
        self.assertEqual((engine["logits"], engine[0], engine.get_binding_index("none"), len(engine), engine.max_batch_size), (1, "image", -1, 2, 1))
        self.assertTrue(engine.binding_is_input(0) and not engine.binding_is_input("logits"))
        context = engine.create_execution_context()
        self.assertFalse(context.all_binding_shapes_specified)
        self.assertTrue(context.set_binding_shape(0, (4, 1, 8, 8)))
        self.assertEqual(context.get_binding_shape(1), (4, 10))
        x, y = images(4), numpy.zeros((4, 10), "float32")
        for run in (context.execute_v2, lambda bindings: context.execute_async_v2(bindings=bindings, stream_handle=0)):
            y[...] = 0
            self.assertTrue(run(pointers(x, y)), self.logger.lines)
            numpy.testing.assert_allclose(y, self.expected(x), rtol=1e-4, atol=1e-4)

    def test_wrong_use_fails_as_it_does_there_and_never_crashes(self):
        context = self.engine.create_execution_context()
        x, y = images(1), numpy.zeros((1, 10), "float32")
        self.assertFalse(context.execute_v2(pointers(x, y)))
        self.assertIn("the shape of the input 'image' is not set", self.logger.text(trt.Logger.ERROR))
        self.assertFalse(context.set_input_shape("image", (5, 1, 8, 8)))
        self.assertFalse(context.set_input_shape("picture", (1, 1, 8, 8)))
        self.assertTrue(context.set_input_shape("image", (1, 1, 8, 8)))
        self.assertRaises(TypeError, context.execute_v2, [x.ctypes.data, None])
        self.assertFalse(context.execute_v2(pointers(x)))
        self.assertFalse(context.set_tensor_address("image", 0))
        self.assertFalse(self.engine.create_execution_context().execute_async_v3(0))
        self.logger.lines.clear()
        runtime = trt.Runtime(self.logger)
        self.assertIsNone(runtime.deserialize_cuda_engine(b"ftrt" + bytes(100)))
        self.assertIn("build it again from its ONNX model", self.logger.text(trt.Logger.ERROR))
        self.assertIsNone(runtime.deserialize_cuda_engine(bytes(self.plan)[:-1]))
        self.assertRaises(TypeError, trt.Builder, None)

        class Unmade(trt.ILogger):
            def __init__(self):
                pass

        self.assertRaises(TypeError, trt.Builder, Unmade())

    def test_each_wrong_use_gives_what_it_gives_there_and_says_why(self):
        runtime, x, y = trt.Runtime(self.logger), images(2), numpy.zeros((2, 10), "float32")
        with tempfile.TemporaryDirectory() as folder:
            stale = os.path.join(folder, "stale.plan")  # of another machine
            text = "import sys, temper; temper.build(sys.argv[1], shapes=(1, 1, 8, 8), device='cpu', measure=False).save(sys.argv[2])"
            subprocess.run([sys.executable, "-c", text, DIGITS, stale], env={**os.environ, "TEMPER_ISA": "base"}, check=True)
            with open(stale, "rb") as file:
                stale = file.read()
        damaged = bytearray(self.plan)
        damaged[len(damaged) // 2] ^= 1

        def context(shape=(2, 1, 8, 8), **addresses):
            made = self.engine.create_execution_context()
            if shape:
                self.assertTrue(made.set_input_shape("image", shape))
            for name, at in addresses.items():
                self.assertTrue(made.set_tensor_address(name, at))
            return made

        class Astray(Batches):
            def get_batch(self, names):
                return [4096]

        at = {"image": x.ctypes.data, "logits": y.ctypes.data}
        int8 = [trt.BuilderFlag.INT8]
        for wrong, call, gives, why in (
            ("a stale engine file", lambda: runtime.deserialize_cuda_engine(stale), None, "build it again"),
            ("a damaged one", lambda: runtime.deserialize_cuda_engine(bytes(damaged)), None, "build it again"),
            ("one of TensorRT", lambda: runtime.deserialize_cuda_engine(b"ptrt" + bytes(100)), None, "build it again from its ONNX model"),
            ("no input", lambda: context(logits=at["logits"]).execute_async_v3(0), False, "the address of 'image' is not set"),
            ("no shape", lambda: context(shape=None, **at).execute_async_v3(0), False, "the shape of the input 'image' is not set"),
            ("too few bindings", lambda: context().execute_v2([at["image"]]), False, "1 bindings were given; those of profile 0 are 0 to 1"),
            ("a shape outside the profile", lambda: context().set_input_shape("image", (5, 1, 8, 8)), False, "not in optimization profile 0: it takes [1,1,8,8] to [4,1,8,8]"),
            ("another rank", lambda: context().set_input_shape("image", (1, 8, 8)), False, "not in optimization profile 0"),
            ("a null pointer", lambda: context().execute_v2([at["image"], 0]), False, "the address of 'logits' is null"),
            ("a wrong pointer of an input", lambda: context().execute_v2([4096, at["logits"]]), False, "the address of 'image' is wrong"),
            ("a wrong pointer of an output", lambda: context().execute_v2([at["image"], 2**63]), False, "the address of 'logits' is wrong"),
            ("a calibrator without data", lambda: built(self.logger, flags=int8, calibrator=Batches(0)), None, "nothing is calibrated from nothing"),
            ("a calibrator's wrong pointer", lambda: built(self.logger, flags=int8, calibrator=Astray(1)), None, "the address of 'image' is wrong"),
            ("a number of no tensor", lambda: self.engine.get_tensor_name(2), None, "there is no tensor of the number 2"),
            ("a negative one", lambda: self.engine.get_tensor_name(-1), None, "there is no tensor of the number -1"),
            ("a number of no binding", lambda: self.engine.get_binding_name(-1), None, "there is no binding of the number -1"),
            ("a number instead of a plan", lambda: runtime.deserialize_cuda_engine(10**6), TypeError, ""),
            ("None instead of a plan", lambda: runtime.deserialize_cuda_engine(None), TypeError, ""),
            ("None among bindings", lambda: context().execute_v2([at["image"], None]), TypeError, ""),
            ("None among asynchronous bindings", lambda: context().execute_async_v2([None, at["logits"]], 0), TypeError, ""),
        ):  # fmt: skip
            with self.subTest(wrong):
                self.logger.lines.clear()
                if gives is TypeError:
                    self.assertRaises(TypeError, call)
                else:
                    self.assertIs(call(), gives)
                    self.assertIn(why, self.logger.text(trt.Logger.ERROR))
        self.assertTrue(context(**at).execute_async_v3(0), self.logger.lines)
        numpy.testing.assert_allclose(y, self.expected(x), rtol=1e-4, atol=1e-4)

    def test_what_tensorrt_does_not_build_is_not_built(self):
        self.assertIsNone(built(self.logger, shapes=None))
        self.assertIn("no optimization profile has been defined", self.logger.text(trt.Logger.ERROR))
        self.logger.lines.clear()
        self.assertIsNotNone(built(self.logger, flags=[trt.BuilderFlag.INT8]))  # with a warning, as TensorRT
        self.assertIn("INT8: there are no ranges", self.logger.text(trt.Logger.WARNING))
        builder = trt.Builder(self.logger)
        network = builder.create_network(0)
        self.assertIsNone(builder.build_serialized_network(network, builder.create_builder_config()))
        parser = trt.OnnxParser(network, self.logger)
        self.assertFalse(parser.parse(b"no model"))
        self.assertEqual(parser.num_errors, 1)
        self.assertIn("ONNX", parser.get_error(0).desc())
        self.assertFalse(parser.parse_from_file("no_such.onnx"))
        self.assertRaises(ValueError, builder.create_optimization_profile().set_shape, "image", (2, 1), (1, 1), (3, 1))
        with self.assertRaises(AttributeError):
            builder.create_builder_config().algorithm_selector = None
        with self.assertRaises(TypeError):
            builder.create_builder_config().int8_calibrator = object()

        class Unmade(trt.IInt8MinMaxCalibrator):
            def __init__(self):
                pass

        with self.assertRaises(TypeError):
            builder.create_builder_config().int8_calibrator = Unmade()

    def test_a_calibrator_gives_batches_once_and_its_cache_afterwards(self):
        first = Batches(20)
        plan = built(self.logger, flags=[trt.BuilderFlag.INT8], calibrator=first)
        self.assertEqual((len(first.asked), first.asked[0]), (21, ["image"]))
        self.assertTrue(first.cache.startswith(b"TRT-8501-EntropyCalibration2\n"), first.cache[:60])
        engine = temper.load(bytes(plan))
        self.assertEqual(engine.precision, "int8")
        x = images(4, seed=99)
        exact, rounded = self.expected(x), engine.run(x)["logits"]
        self.assertTrue((exact != rounded).any())
        self.assertLess(((exact - rounded) ** 2).sum(), 0.05 * (exact**2).sum())
        second = Batches(20, first.cache)
        self.assertIsNotNone(built(self.logger, flags=[trt.BuilderFlag.INT8], calibrator=second))
        self.assertEqual(second.asked, [])
        self.assertIsNone(built(self.logger, flags=[trt.BuilderFlag.INT8], calibrator=Batches(0)))
        self.assertIn("nothing is calibrated from nothing", self.logger.text(trt.Logger.ERROR))
        self.assertIsNotNone(built(self.logger, flags=[trt.BuilderFlag.INT8], calibrator=Batches(1, b"no cache")))
        self.assertIn("INT8: there are no ranges", self.logger.text(trt.Logger.WARNING))

        profile = trt.Builder(self.logger).create_optimization_profile()
        profile.set_shape("picture", (1, 1), (1, 1), (1, 1))
        self.assertIsNone(built(self.logger, flags=[trt.BuilderFlag.INT8], calibrator=Batches(1), calibrated=profile))
        self.assertIn("the calibration profile has no shapes of 'image'", self.logger.text(trt.Logger.ERROR))
        profile = trt.Builder(self.logger).create_optimization_profile()
        profile.set_shape("image", (4, 1, 8, 8), (4, 1, 8, 8), (4, 1, 8, 8))
        self.assertIsNotNone(built(self.logger, flags=[trt.BuilderFlag.INT8], calibrator=Batches(20), calibrated=profile))
        self.assertIn("calibrated on 80 samples", self.logger.text(trt.Logger.VERBOSE))

        class Broken(Batches):
            def get_batch(self, names):
                raise RuntimeError("mine")

        with self.assertRaisesRegex(RuntimeError, "mine"):
            built(self.logger, flags=[trt.BuilderFlag.INT8], calibrator=Broken(1))

    def test_a_layer_keeps_the_precision_that_a_program_orders(self):
        def in_bytes(flags, **wanted):
            """How many layers of the plan are in 8 bits; None where nothing is built."""
            def tell(network):
                for i in range(network.num_layers):
                    if network.get_layer(i).name in wanted:
                        network.get_layer(i).precision = wanted[network.get_layer(i).name]

            self.logger.lines.clear()
            plan = built(self.logger, flags=[trt.BuilderFlag.INT8, *flags], calibrator=Batches(20), edit=tell)
            return None if plan is None else temper.load(bytes(plan)).inspect()["lowered_products"]

        everything = in_bytes([])
        self.assertEqual(in_bytes([], conv1=trt.float32), everything, "a hint is no order")
        for flag in (trt.BuilderFlag.OBEY_PRECISION_CONSTRAINTS, trt.BuilderFlag.PREFER_PRECISION_CONSTRAINTS):
            self.assertEqual(in_bytes([flag], conv1=trt.float32), everything - 1)
            self.assertEqual(in_bytes([flag], conv1=trt.float32, conv2=trt.int8), everything - 1)
        self.assertIsNone(in_bytes([], conv1=trt.float16))
        self.assertIn("fp16 precision has been set for a layer or layer output, but fp16 is not configured", self.logger.text(trt.Logger.ERROR))

    def test_fp16_is_a_permission_that_a_cpu_does_not_use(self):
        builder = trt.Builder(self.logger)
        if builder.platform_has_fast_fp16:
            self.skipTest("a GPU computes it")
        plan = built(self.logger, flags=[trt.BuilderFlag.FP16])
        self.assertIn("FP16: layers stay in FP32", self.logger.text(trt.Logger.WARNING))
        self.assertEqual(temper.load(bytes(plan)).precision, "fp32")

    def test_integers_of_64_bits_have_32_where_the_release_has_no_others(self):
        make, tensors = onnx.helper.make_node, onnx.numpy_helper.from_array
        table = numpy.random.default_rng(2).normal(size=(9, 4)).astype("float32")
        graph = onnx.helper.make_graph(
            [make("Gather", ["table", "ids"], ["rows"]), make("ArgMax", ["rows"], ["best"], axis=1, keepdims=0)], "words",
            [onnx.helper.make_tensor_value_info("ids", onnx.TensorProto.INT64, [3])],
            [onnx.helper.make_tensor_value_info("best", onnx.TensorProto.INT64, [3])], [tensors(table, "table")])  # fmt: skip
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
        for api, kind in (("8.6", "int32"), ("10.13", "int64")):
            with self.subTest(api):
                _api.use(api)
                builder = trt.Builder(self.logger)
                network = builder.create_network(1)
                self.assertTrue(trt.OnnxParser(network, self.logger).parse(model))
                self.assertEqual([network.get_input(0).dtype, network.get_output(0).dtype], [getattr(trt, kind)] * 2)
                plan = builder.build_serialized_network(network, builder.create_builder_config())
                engine = trt.Runtime(self.logger).deserialize_cuda_engine(plan)
                self.assertEqual([engine.get_tensor_dtype(name) for name in ("ids", "best")], [getattr(trt, kind)] * 2)
                ids, best = numpy.array([7, 0, 8], kind), numpy.zeros(3, kind)
                context = engine.create_execution_context()
                self.assertTrue(context.set_tensor_address("ids", ids.ctypes.data) and context.set_tensor_address("best", best.ctypes.data))
                self.assertTrue(context.execute_async_v3(0), self.logger.lines)
                numpy.testing.assert_array_equal(best, table[ids].argmax(1))
        _api.use("8.6")

    def test_several_profiles_and_a_timing_cache_are_kept(self):
        plan = built(self.logger, shapes=[(1, 1, 8, 8)] * 3, more=[[(4, 1, 8, 8)] * 3])
        engine = trt.Runtime(self.logger).deserialize_cuda_engine(plan)
        self.assertEqual(engine.num_optimization_profiles, 2)
        self.assertEqual(engine.get_tensor_profile_shape("image", 1)[0], (4, 1, 8, 8))
        context = engine.create_execution_context()
        self.assertTrue(context.set_optimization_profile_async(1, 0))
        self.assertFalse(context.set_optimization_profile_async(2, 0))
        self.assertIn("there is no optimization profile 2: the engine has 2", self.logger.text(trt.Logger.ERROR))
        self.assertTrue(context.set_input_shape("image", (4, 1, 8, 8)))
        self.assertFalse(context.set_input_shape("image", (2, 1, 8, 8)))
        self.assertEqual(engine.get_tensor_profile_shape("image", 2), [])
        self.assertEqual(engine.get_tensor_profile_shape("image", -1), [])
        config = trt.Builder(self.logger).create_builder_config()
        cache = config.create_timing_cache(b"of TensorRT")
        self.assertIn("timing cache is not used", self.logger.text(trt.Logger.WARNING))
        self.assertTrue(config.set_timing_cache(cache, ignore_mismatch=False))
        self.assertIs(config.get_timing_cache(), cache)
        self.assertTrue(cache.combine(config.create_timing_cache(cache.serialize()), False))

    def test_each_profile_has_bindings_of_its_own_in_8_6(self):
        plan = built(self.logger, shapes=[(1, 1, 8, 8)] * 3, more=[[(4, 1, 8, 8)] * 3])
        engine = trt.Runtime(self.logger).deserialize_cuda_engine(plan)
        self.assertEqual((engine.num_bindings, len(engine), engine.num_io_tensors), (4, 4, 2))
        self.assertEqual(list(engine), ["image", "logits", "image [profile 1]", "logits [profile 1]"])
        self.assertEqual((engine["image [profile 1]"], engine.get_binding_index("logits"), engine.get_binding_index("image [profile 2]")), (2, 1, -1))
        self.assertTrue(engine.binding_is_input(2) and not engine.binding_is_input("logits [profile 1]"))
        self.assertEqual(engine.get_profile_shape(1, 2)[1], (4, 1, 8, 8))
        context = engine.create_execution_context()
        context.active_optimization_profile = 1
        self.assertFalse(context.set_binding_shape(0, (4, 1, 8, 8)))
        self.assertIn("the binding 0 is of profile 0, and profile 1 is active", self.logger.text(trt.Logger.ERROR))
        self.assertTrue(context.set_binding_shape(2, (4, 1, 8, 8)))
        self.assertEqual(context.get_binding_shape(3), (4, 10))
        x, y = images(4), numpy.zeros((4, 10), "float32")
        self.assertFalse(context.execute_v2(pointers(x, y)))
        self.assertTrue(context.execute_v2([0, 0, *pointers(x, y)]), self.logger.lines)
        numpy.testing.assert_allclose(y, self.expected(x), rtol=1e-4, atol=1e-4)
        _api.use("10.13")
        self.assertFalse(hasattr(engine, "num_bindings"))
        y[:] = 0
        self.assertTrue(context.execute_v2(pointers(x, y)))
        numpy.testing.assert_allclose(y, self.expected(x), rtol=1e-4, atol=1e-4)

    def test_a_shape_of_another_profile_is_refused_and_a_profile_leaves_inputs_without_shapes(self):
        ports = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", 3]) for name in ("a", "b", "sum")]
        graph = onnx.helper.make_graph([onnx.helper.make_node("Add", ["a", "b"], ["sum"])], "sums", ports[:2], ports[2:])
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8).SerializeToString()
        builder = trt.Builder(self.logger)
        network, config = builder.create_network(1), builder.create_builder_config()
        self.assertTrue(trt.OnnxParser(network, self.logger).parse(model))
        for n in (1, 4):
            profile = builder.create_optimization_profile()
            for name in ("a", "b"):
                profile.set_shape(name, *[(n, 3)] * 3)
            config.add_optimization_profile(profile)
        engine = trt.Runtime(self.logger).deserialize_cuda_engine(builder.build_serialized_network(network, config))
        context = engine.create_execution_context()
        self.assertFalse(context.set_input_shape("a", (2, 3)))  # though nothing is known of b
        for profile, n in ((0, 1), (1, 4), (0, 1)):
            self.assertTrue(context.set_optimization_profile_async(profile, 0))
            asked = context.active_optimization_profile, context.infer_shapes(), context.get_max_output_size("sum")
            self.assertEqual(asked, (profile, ["a", "b"], n * 12))
            a, total = numpy.arange(3 * n, dtype="float32").reshape(n, 3), numpy.zeros((n, 3), "float32")
            self.assertFalse(context.set_input_shape("a", (5 - n, 3)))
            self.assertIn(f"'a' is given the shape [{5 - n},3], which is not in optimization profile {profile}: it takes [{n},3]",
                          self.logger.text(trt.Logger.ERROR))  # fmt: skip
            self.assertTrue(context.set_input_shape("a", a.shape), self.logger.lines)
            self.assertTrue(context.set_input_shape("b", a.shape))
            self.assertTrue(context.set_optimization_profile_async(profile, 0))  # the same: nothing changes
            self.assertEqual(context.infer_shapes(), [])
            self.assertTrue(context.execute_v2([0] * 3 * profile + [*pointers(a, a, total), 0, 0, 0]))
            numpy.testing.assert_array_equal(total, 2 * a)

    def test_engines_and_contexts_go_before_what_was_to_end_when_python_does(self):
        script = textwrap.dedent("""\
            import atexit, sys
            import temper.tensorrt as trt

            def destroyed():  # as pycuda.autoinit's own function, which ends the CUDA context
                print([held._native for held in (engine, context, other)], engine._inspector)

            atexit.register(destroyed)
            engine = trt.Runtime(trt.Logger()).deserialize_cuda_engine(open(sys.argv[1], "rb").read())
            context, other = engine.create_execution_context(), engine.create_execution_context()
            """)
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "m.plan"), "wb") as file:
                file.write(bytes(self.plan))
            done = subprocess.run([sys.executable, "-c", script, "m.plan"], cwd=folder, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout.strip()), (0, "[None, None, None] None"), done.stderr)

    def test_a_batch_larger_than_its_buffer_ends_the_calibration(self):
        script = textwrap.dedent("""\
            import sys
            import pycuda.autoinit
            import pycuda.driver as cuda
            import tensorrt as trt

            class Short(trt.IInt8MinMaxCalibrator):
                def __init__(self, at):
                    trt.IInt8MinMaxCalibrator.__init__(self)
                    self.at = at
                def get_batch_size(self):
                    return 512
                def get_batch(self, names):
                    return [self.at]

            builder = trt.Builder(trt.Logger())
            network, config = builder.create_network(1), builder.create_builder_config()
            trt.OnnxParser(network, trt.Logger()).parse_from_file(sys.argv[1])
            profile = builder.create_optimization_profile()
            profile.set_shape("image", *[(512, 1, 8, 8)] * 3)
            config.add_optimization_profile(profile)
            config.set_flag(trt.BuilderFlag.INT8)
            small = cuda.mem_alloc(1000)
            for at in (small, 12345):
                config.int8_calibrator = Short(at)
                print(builder.build_serialized_network(network, config))
            """)
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "calibrate.py"), "w") as file:
                file.write(script)
            words = [sys.executable, "-m", "temper.tensorrt", "--device", "cpu", "calibrate.py", DIGITS]
            done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout.split()), (0, ["None", "None"]), done.stderr)
        self.assertEqual(done.stderr.count("131072 bytes there are in no device memory"), 2, done.stderr)

    def test_a_script_holds_its_buffers_with_cuda_python_where_there_is_no_gpu(self):
        script = textwrap.dedent("""\
            import sys
            import numpy
            from cuda import cudart
            from cuda.bindings import driver, runtime
            import tensorrt as trt
            import importlib.util
            assert all(importlib.util.find_spec(name) for name in ("cuda.bindings", "cuda.cudart", "pycuda.driver"))
            assert runtime.cudaMalloc is cudart.cudaMalloc and driver.CUresult.CUDA_SUCCESS == 0
            ok = cudart.cudaError_t.cudaSuccess
            engine = trt.Runtime(trt.Logger()).deserialize_cuda_engine(open(sys.argv[1], "rb").read())
            context, x = engine.create_execution_context(), numpy.load(sys.argv[2])
            context.set_input_shape("image", x.shape)
            y = numpy.zeros((len(x), 10), "float32")
            status, stream = cudart.cudaStreamCreate()
            (_, inputs), (_, outputs), (_, pinned) = cudart.cudaMallocAsync(x.nbytes, stream), cudart.cudaMalloc(y.nbytes), cudart.cudaMallocHost(y.nbytes)
            kind = cudart.cudaMemcpyKind
            assert cudart.cudaMemcpyAsync(inputs, x, x.nbytes, kind.cudaMemcpyHostToDevice, stream) == (ok,)
            context.set_tensor_address("image", inputs), context.set_tensor_address("logits", outputs)
            assert context.execute_async_v3(stream)
            assert cudart.cudaMemcpyAsync(pinned, outputs, y.nbytes, kind.cudaMemcpyDeviceToHost, stream) == (ok,)
            assert cudart.cudaMemcpy(y.ctypes.data, pinned, y.nbytes, kind.cudaMemcpyHostToHost) == (ok,)
            assert cudart.cudaStreamSynchronize(stream) == (ok,) and cudart.cudaStreamDestroy(stream) == (ok,)
            print(y.argmax(axis=1).tolist())
            bad = cudart.cudaError_t.cudaErrorInvalidValue
            assert cudart.cudaMemcpy(12345, x, x.nbytes, kind.cudaMemcpyHostToDevice) == (bad,)
            assert cudart.cudaMemcpy(inputs, y[:0], 8, kind.cudaMemcpyHostToDevice) == (bad,)
            to_device, from_device, either = kind.cudaMemcpyHostToDevice, kind.cudaMemcpyDeviceToHost, kind.cudaMemcpyDefault
            assert cudart.cudaMemcpy(inputs, x, x.nbytes, either) == (ok,)
            assert cudart.cudaMemcpy(outputs, x, y.nbytes + 4, to_device) == (bad,)  # one more than it has
            assert cudart.cudaMemset(outputs, 0, y.nbytes + 1) == (bad,)
            assert cudart.cudaMemcpy(inputs, 64, 8, to_device) == (bad,) and cudart.cudaMemcpy(64, inputs, 8, from_device) == (bad,)
            assert cudart.cudaMemcpy(inputs, x, -1, to_device) == (bad,) and cudart.cudaMalloc(1 << 60)[0] == 2
            for size in (64, 1 << 24):
                _, gone = cudart.cudaMalloc(size)
                assert cudart.cudaFree(gone) == (ok,)
                assert all(cudart.cudaMemcpy(gone, x, 8, at) == (bad,) for at in (to_device, either, kind.cudaMemcpyHostToHost))
                assert all(cudart.cudaMemcpy(y, gone, 8, at) == (bad,) for at in (from_device, either, kind.cudaMemcpyHostToHost))
                assert cudart.cudaMemset(gone, 0, 8) == (bad,)
                context.set_tensor_address("image", gone)
                assert not context.execute_async_v3(0)
            assert cudart.cudaFree(12345) == (bad,) and cudart.cudaFree(0) == (ok,)
            assert cudart.cudaFree(inputs) == (ok,) and cudart.cudaFree(inputs) == (bad,) and cudart.cudaFreeHost(pinned) == (ok,)
            print(hasattr(cudart, "cudaGraphInstantiate"))
            """)
        x = images(3)
        done = self.run_script(script, x)
        self.assertEqual(done.stdout.splitlines(), [str(self.expected(x).argmax(axis=1).tolist()), "False"])
        self.assertIn("768 bytes there are in no device memory of this process", done.stderr)

    def test_enumerations_print_and_count_as_there(self):
        self.assertEqual(1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH), 1)
        self.assertEqual(trt.BuilderFlag.FP16 | trt.BuilderFlag.INT8, 1)
        self.assertEqual(str(trt.MemoryPoolType.WORKSPACE), "MemoryPoolType.WORKSPACE")
        self.assertIn("HALF", trt.DataType.__members__)
        self.assertIs(trt.float16, trt.DataType.HALF)
        config = trt.Builder(self.logger).create_builder_config()
        self.assertTrue(config.get_flag(trt.BuilderFlag.TF32))
        config.clear_flag(trt.BuilderFlag.TF32)
        self.assertEqual(config.flags, 0)
        config.max_workspace_size = 1 << 20
        self.assertEqual(config.get_memory_pool_limit(trt.MemoryPoolType.WORKSPACE), 1 << 20)

    def test_a_script_holds_its_buffers_with_pycuda_where_there_is_no_gpu(self):
        script = textwrap.dedent("""\
            import ctypes, numpy, sys
            import pycuda.driver as cuda
            import pycuda.autoinit
            import tensorrt as trt
            logger = trt.Logger(trt.Logger.ERROR)
            engine = trt.Runtime(logger).deserialize_cuda_engine(open(sys.argv[1], "rb").read())
            context, stream = engine.create_execution_context(), cuda.Stream()
            x = numpy.load(sys.argv[2])
            context.set_binding_shape(0, x.shape)
            y = cuda.pagelocked_empty(trt.volume(context.get_binding_shape(1)), numpy.float32)
            inputs, outputs = cuda.mem_alloc(x.nbytes), cuda.mem_alloc(y.nbytes)
            cuda.memcpy_htod_async(inputs, x, stream)
            assert context.execute_async_v2([int(inputs), int(outputs)], stream.handle)
            cuda.memcpy_dtoh_async(y, outputs, stream)
            stream.synchronize()
            print(cuda.Device(0).compute_capability(), y.reshape(-1, 10).argmax(axis=1).tolist())
            assert not context.execute_v2([12345, int(outputs)])
            small = cuda.mem_alloc(8)
            try:
                cuda.memcpy_htod(small, numpy.zeros(3))
                sys.exit("a copy to more than there is was made")
            except cuda.LogicError as error:
                print(error)
            ctypes.memset(int(small), 0, 24)  # as a kernel writes
            small.free()
            print(hasattr(cuda, "module_from_buffer"))
            """)
        x = images(3)
        done = self.run_script(script, x)
        lines = done.stdout.splitlines()
        self.assertEqual(lines[0], f"(0, 0) {self.expected(x).argmax(axis=1).tolist()}")
        self.assertIn("24 bytes there are in no device memory of this process", lines[1])
        self.assertEqual(lines[2], "False")
        for part in ("pycuda and cuda-python are stand-ins", "wrote 16 bytes beyond a buffer of 8", "768 bytes there are in no device memory"):
            self.assertIn(part, done.stderr)

    def test_code_and_modules_run_as_python_runs_them(self):
        def run(*words, folder=None):
            return subprocess.run([sys.executable, "-m", "temper.tensorrt", *words], cwd=folder, capture_output=True, text=True)

        code = "import sys, tensorrt as trt; print(__name__, sys.argv, trt.__version__)"
        for words in (("-c", code), ("-c" + code,)):
            done = run("--api", "10.13", *words, "-x", "--api", "11.1")
            self.assertEqual(done.stdout.split("10.13")[0], "__main__ ['-c', '-x', '--api', '11.1'] ", done.stderr)
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "mine.py"), "w") as file:
                file.write("import sys, tensorrt; print(__name__, sys.argv[1:], tensorrt.__version__[:4], sys.path[0] == __import__('os').getcwd())")
            for words in (("-m", "mine"), ("-mmine",)):
                done = run("--api=11.1", *words, "-m", "x", folder=folder)
                self.assertEqual(done.stdout.strip(), "__main__ ['-m', 'x'] 11.1 True", done.stderr)
            self.assertEqual(run("mine.py", "--api", "x", folder=folder).stdout.split("8.6")[0], "__main__ ['--api', 'x'] ")
        for words, why in (((), "-m MODULE or -c CODE is expected"), (("-c",), "-c is followed by code"), (("-z",), "unknown option -z"),
                           (("-m", "no_such_module"), "No module named no_such_module"), (("-c", "raise SystemExit(3)"), "")):  # fmt: skip
            done = run(*words)
            self.assertIn(why, done.stderr)
            self.assertEqual(done.returncode, 3 if not why else 1 if "no_such" in why else 2)

    def test_a_script_runs_unchanged(self):
        script = textwrap.dedent("""\
            import sys
            import tensorrt as trt
            logger = trt.Logger(trt.Logger.WARNING)
            with trt.Builder(logger) as builder, builder.create_network(0) as network, trt.OnnxParser(network, logger) as parser:
                if not parser.parse_from_file(sys.argv[1]):
                    sys.exit("not parsed")
                config = builder.create_builder_config()
                profile = builder.create_optimization_profile()
                profile.set_shape("image", (1, 1, 8, 8), (1, 1, 8, 8), (1, 1, 8, 8))
                config.add_optimization_profile(profile)
                plan = builder.build_serialized_network(network, config)
            with open("engine.plan", "wb") as file:
                file.write(plan)
            print(trt.__version__, hasattr(trt.ICudaEngine, "num_bindings"), network.num_inputs)
            """)
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "build.py"), "w") as file:
                file.write(script)
            for api, shown in (("8.6", "8.6.1+temper True 1"), ("10.13", "10.13.3+temper False 1")):
                done = subprocess.run([sys.executable, "-m", "temper.tensorrt", "--api", api, "build.py", DIGITS], cwd=folder, capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stdout.strip()), (0, shown), done.stderr)
                self.assertIn("import tensorrt is Temper", done.stderr)
                self.assertEqual(temper.load(os.path.join(folder, "engine.plan")).run(images(1))["logits"].shape, (1, 10))


if __name__ == "__main__":
    unittest.main()
