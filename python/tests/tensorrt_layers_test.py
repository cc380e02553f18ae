# SPDX-License-Identifier: Apache-2.0
"""Networks that programs build layer by layer with TensorRT's Python API: each layer computes what numpy or ONNX Runtime does."""
import unittest

import numpy
import onnx
import onnxruntime
from common import DIGITS, Case
from onnx import TensorProto, helper

import temper
import temper.tensorrt as trt
from temper.tensorrt import _api, _builder, _values

F, I = trt.float32, trt.int32


class Collected(trt.ILogger):
    def __init__(self):
        trt.ILogger.__init__(self)
        self.lines = []

    def log(self, severity, msg):
        if int(severity) <= int(trt.ILogger.WARNING):
            self.lines.append(msg)


class LayersTest(Case):
    def setUp(self):
        _api.use("8.6")
        self.addCleanup(_api.use, "8.6")
        self.addCleanup(setattr, _builder, "default_device", _builder.default_device)
        _builder.default_device = "cpu"
        self.logger = Collected()
        self.random = numpy.random.default_rng(0)

    def network(self, flags=0):
        self.builder = trt.Builder(self.logger)
        return self.builder.create_network(flags)

    def normal(self, *shape):
        return self.random.normal(0, 1, shape).astype("float32")

    def run_network(self, network, arrays, profile=None):
        """What a build of the network gives for these inputs, by the names of the outputs."""
        config = self.builder.create_builder_config()
        if profile:
            ranges = self.builder.create_optimization_profile()
            for name, shapes in profile.items():
                ranges.set_shape(name, *shapes)
            config.add_optimization_profile(ranges)
        plan = self.builder.build_serialized_network(network, config)
        self.assertIsNotNone(plan, self.logger.lines)
        engine = trt.Runtime(self.logger).deserialize_cuda_engine(plan)
        context = engine.create_execution_context()
        for name, array in arrays.items():
            assert context.set_input_shape(name, array.shape), self.logger.lines
        held = {}
        for i in range(engine.num_io_tensors):
            name = engine.get_tensor_name(i)
            held[name] = numpy.ascontiguousarray(arrays[name]) if name in arrays else \
                numpy.zeros(tuple(context.get_tensor_shape(name)), trt.nptype(engine.get_tensor_dtype(name)))  # fmt: skip
            context.set_tensor_address(name, held[name].ctypes.data)
        self.assertTrue(context.execute_async_v3(0), self.logger.lines)
        return {name: array for name, array in held.items() if name not in arrays}

    def check(self, add, expected, *arrays, flags=0, tolerance=1e-5):
        """The first output of the layer that `add(network, *inputs)` gives is as expected, in values and in shape, before and after the build."""
        network = self.network(flags)
        names = [f"in{i}" for i in range(len(arrays))]
        layer = add(network, *(network.add_input(name, _values.TYPES[array.dtype.name], array.shape) for name, array in zip(names, arrays)))
        self.assertIsNotNone(layer, self.logger.lines)
        out = layer.get_output(0)
        self.assertEqual(tuple(out.shape), expected.shape, layer.name)
        out.name = "out"
        network.mark_output(out)
        self.assertTrue(out.is_network_output)
        got = self.run_network(network, dict(zip(names, arrays)))["out"]
        self.assertEqual(got.dtype, expected.dtype, layer.name)
        numpy.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance, err_msg=str(layer.type))
        return layer

    def by_onnx(self, node, arrays, shape=None, opset=21):
        """What ONNX Runtime computes for one node."""
        dtypes = {"float32": TensorProto.FLOAT, "int64": TensorProto.INT64, "int32": TensorProto.INT32, "bool": TensorProto.BOOL}
        inputs = [helper.make_tensor_value_info(name, dtypes[a.dtype.name], a.shape) for name, a in arrays.items()]
        graph = helper.make_graph([node], "one", inputs, [helper.make_empty_tensor_value_info(node.output[0])])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
        return onnxruntime.InferenceSession(model.SerializeToString()).run(None, arrays)[0]

    def test_convolutions(self):
        x, w, b = self.normal(2, 4, 9, 8), self.normal(6, 2, 3, 3), self.normal(6)

        def convolve(network, x):
            layer = network.add_convolution_nd(input=x, num_output_maps=6, kernel_shape=(3, 3), kernel=w, bias=b)
            self.assertEqual((layer.stride_nd, layer.padding_nd, layer.num_groups), ((1, 1), (0, 0), 1))
            layer.stride_nd, layer.padding_nd, layer.dilation_nd, layer.num_groups = (2, 1), (1, 2), (1, 2), 2
            self.assertEqual((layer.kernel_size_nd, layer.num_output_maps, layer.stride.h), ((3, 3), 6, 2))
            numpy.testing.assert_array_equal(layer.kernel.numpy(), w.ravel())
            return layer

        node = helper.make_node("Conv", ["x", "w", "b"], ["y"], strides=[2, 1], pads=[1, 2, 1, 2], dilations=[1, 2], group=2)
        layer = self.check(convolve, self.by_onnx(node, {"x": x, "w": w, "b": b}), x, tolerance=1e-4)
        self.assertEqual((layer.type, layer.num_inputs, layer.num_outputs), (trt.LayerType.CONVOLUTION, 1, 1))
        self.assertIsInstance(layer, trt.IConvolutionLayer)

        v = self.normal(4, 3, 2, 2)

        def deconvolve(network, x):
            layer = network.add_deconvolution_nd(x, 3, (2, 2), v)
            layer.stride_nd = (2, 2)
            return layer

        self.check(deconvolve, self.by_onnx(helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2]), {"x": x, "w": v}), x, tolerance=1e-4)

        def kernel_from_a_tensor(network, x):
            layer = network.add_convolution_nd(x, 6, (3, 3), trt.Weights())
            layer.padding_mode, layer.stride_nd = trt.PaddingMode.SAME_UPPER, (2, 2)
            layer.set_input(1, network.add_constant((6, 4, 3, 3), self.normal(6, 4, 3, 3)).get_output(0))
            return layer

        self.random = numpy.random.default_rng(5)
        kernel = self.normal(6, 4, 3, 3)
        self.random = numpy.random.default_rng(5)
        self.check(kernel_from_a_tensor, self.by_onnx(helper.make_node("Conv", ["x", "w"], ["y"], strides=[2, 2], auto_pad="SAME_UPPER"), {"x": x, "w": kernel}), x, tolerance=1e-4)  # fmt: skip

    def test_sizes_of_convolutions_are_rounded_up_by_zeros_behind_the_input(self):
        x, w = self.normal(2, 3, 8, 10), self.normal(4, 3, 3, 2)

        def up(network, x):
            layer = network.add_convolution_nd(x, 4, (3, 2), w)
            layer.stride_nd, layer.padding_nd, layer.dilation_nd, layer.padding_mode = (3, 4), (1, 0), (1, 2), trt.PaddingMode.EXPLICIT_ROUND_UP
            return layer

        node = helper.make_node("Conv", ["x", "w"], ["y"], strides=[3, 4], pads=[1, 0, 3, 1], dilations=[1, 2])
        expected = self.by_onnx(node, {"x": x, "w": w})
        self.assertEqual(expected.shape, (2, 4, 4, 3))  # ceil((8 + 2 - 3) / 3) + 1, ceil((10 - 3) / 4) + 1
        self.check(up, expected, x, tolerance=1e-4)

        def deconvolve(mode, stride):
            def add(network, x):
                layer = network.add_deconvolution_nd(x, 2, (2, 2), v)
                layer.stride_nd, layer.padding_mode = stride, mode
                return layer

            return add

        v = self.normal(3, 2, 2, 2)
        plain = self.by_onnx(helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[3, 3]), {"x": x, "w": v})
        self.assertEqual(plain.shape, (2, 2, 23, 29))
        self.check(deconvolve(trt.PaddingMode.EXPLICIT_ROUND_UP, (3, 3)), plain, x, tolerance=1e-4)
        self.check(deconvolve(trt.PaddingMode.SAME_UPPER, (3, 3)), plain, x, tolerance=1e-4)  # min(I S, (I - 1) S + DK)
        cut = self.by_onnx(helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[1, 1]), {"x": x, "w": v})
        self.check(deconvolve(trt.PaddingMode.SAME_UPPER, (1, 1)), cut[:, :, :-1, :-1], x, tolerance=1e-4)
        self.check(deconvolve(trt.PaddingMode.SAME_LOWER, (1, 1)), cut[:, :, 1:, 1:], x, tolerance=1e-4)

    def test_slices_beyond_their_input(self):
        x = self.normal(3, 5)

        def cut(mode, start, size, stride, value=None, by_inputs=False):
            def add(network, x):
                layer = network.add_slice(x, start, size, stride)
                layer.mode = mode
                for i, numbers in enumerate((start, size, stride) if by_inputs else (), 1):
                    layer.set_input(i, network.add_constant((2,), numpy.array(numbers, "int32")).get_output(0))
                if value is not None:
                    layer.set_input(4, network.add_constant((), numpy.array([value], "float32")).get_output(0))
                return layer

            return add

        modes = trt.SampleMode
        names = {modes.CLAMP: "edge", modes.WRAP: "wrap", modes.REFLECT: "reflect", modes.FILL: "constant"}
        for mode, name in names.items():
            wide = numpy.pad(x, 20, name)  # of which (r, c) is x's (r - 20, c - 20)
            for start, size, stride in (((-2, -1), (7, 8), (1, 1)), ((0, 3), (3, 4), (1, 2)), ((2, 8), (3, 5), (-2, -3)), ((1, 1), (2, 3), (1, 1)),
                                        ((-1, 7), (2, 3), (0, 0)), ((-20, 1), (40, 2), (1, 1))):  # fmt: skip
                rows, columns = ([at + 20 + k * step for k in range(count)] for at, count, step in zip(start, size, stride))
                self.check(cut(mode, start, size, stride), wide[numpy.ix_(rows, columns)], x)
                self.check(cut(mode, start, size, stride, by_inputs=True), wide[numpy.ix_(rows, columns)], x)
        self.check(cut(modes.FILL, (-1, 0), (4, 7), (1, 1), 2.5), numpy.pad(x, ((1, 0), (0, 2)), constant_values=2.5), x)
        one = x[:, :1]
        self.check(cut(modes.REFLECT, (0, -2), (3, 5), (1, 1)), numpy.repeat(one, 5, 1), one)
        indices = numpy.arange(6, dtype="int32").reshape(2, 3)
        self.check(cut(modes.FILL, (0, 2), (2, 3), (1, 1)), numpy.array([[2, 0, 0], [5, 0, 0]], "int32"), indices)
        for shape, given, why in (((3, -1), False, "axis 1 of unknown size"), ((3, 5), True, "SampleMode 2) whose start, size or stride comes as data")):
            network = self.network()
            layer = network.add_slice(network.add_input("x", F, shape), (0, -1), (3, 3), (1, 1))
            layer.mode = modes.CLAMP
            if given:
                layer.set_input(1, network.add_input("start", I, (2,)))
            self.assertRaises(ValueError, lambda: layer.get_output(0).shape)
            self.assertIn(why, self.logger.lines[-1])

    def test_a_gather_of_a_batch(self):
        x = self.normal(2, 3, 4, 5)

        def gather(axis):
            def add(network, x, at):
                layer = network.add_gather(x, at, axis)
                layer.num_elementwise_dims = 1
                return layer

            return add

        for axis, count in ((1, 3), (2, 4), (3, 5)):
            for shape in ((2,), (2, 6), (2, 2, 3), (1, 2)):
                at = self.random.integers(0, count, shape).astype("int32")
                lists = numpy.broadcast_to(at, (2, *shape[1:]))
                expected = numpy.stack([numpy.take(row, list, axis - 1) for row, list in zip(x, lists)])
                self.check(gather(axis), expected, x, at)
        at = self.random.integers(0, 4, (3, 2)).astype("int32")
        self.check(gather(2), numpy.stack([numpy.take(x[0], list, 1) for list in at]), x[:1], at)
        network = self.network()
        layer = gather(1)(network, network.add_input("x", F, (2, 3)), network.add_input("at", I, (3, 2)))
        self.assertRaises(ValueError, lambda: layer.get_output(0).shape)
        self.assertIn("elementwise dimensions of 2 and 3", self.logger.lines[-1])

    def test_fills_by_data_and_with_random_numbers(self):
        operations = trt.FillOperation

        def line(network, start, step, size=None):
            layer = network.add_fill((3, 4), operations.LINSPACE)
            layer.set_input(1, start), layer.set_input(2, step)
            if size is not None:
                layer.set_input(0, size)
            return layer

        rows, columns = numpy.mgrid[:3, :4]
        start, step = numpy.array(1, "float32"), numpy.array([100, 10], "float32")
        self.check(line, (1 + 100 * rows + 10 * columns).astype("float32"), start, step)
        self.check(line, (1 + 100 * rows + 10 * columns).astype("int32"), start.astype("int32"), step.astype("int32"))

        def of_a_shape(network, like, start, step):
            return line(network, start, step, network.add_shape(like).get_output(0))

        rows, columns = numpy.mgrid[:2, :5]
        self.check(of_a_shape, (1 + 100 * rows + 10 * columns).astype("float32"), self.normal(2, 5), start, step)

        def by_its_size(network, like):
            layer = network.add_fill((1,), operations.LINSPACE)
            layer.alpha, layer.beta = 2, 0.5
            layer.set_input(0, network.add_shape(like).get_output(0))
            return layer

        self.check(by_its_size, 2 + 0.5 * numpy.arange(7, dtype="float32"), self.normal(7))

        def plus(operation, alpha, beta, by_data=False):
            """As an input of the network is expected."""

            def add(network, x):
                layer = network.add_fill((40, 50), operation)
                if by_data:
                    for i, value in ((1, alpha), (2, beta)):
                        layer.set_input(i, network.add_constant((), numpy.array([value], "float32")).get_output(0))
                else:
                    layer.alpha, layer.beta = alpha, beta
                return network.add_elementwise(layer.get_output(0), x, trt.ElementWiseOperation.SUM)

            return add

        zeros = numpy.zeros((40, 50), "float32")
        for by_data in (False, True):
            found = {}
            for operation, alpha, beta in ((operations.RANDOM_UNIFORM, -3, 5), (operations.RANDOM_NORMAL, 4, 2)):
                network = self.network()
                out = plus(operation, alpha, beta, by_data)(network, network.add_input("x", F, zeros.shape)).get_output(0)
                out.name = "out"
                network.mark_output(out)
                found[operation] = self.run_network(network, {"x": zeros})["out"]
            uniform, normal = found.values()
            self.assertTrue(-3 <= uniform.min() < -2.9 and 4.9 < uniform.max() <= 5)
            self.assertLess(abs(uniform.mean() - 1) + abs(uniform.std() - 8 / 12**0.5), 0.3)
            self.assertLess(abs(normal.mean() - 4) + abs(normal.std() - 2), 0.3)
            self.assertGreater(len(numpy.unique(normal)), 1900)
        network = self.network()
        layer = network.add_fill((2, 2), operations.LINSPACE)
        self.assertRaises(ValueError, lambda: layer.get_output(0).shape)
        self.assertIn("a fill of 2 dimensions, by one beta", self.logger.lines[-1])

    def test_pooling_scale_and_dense(self):
        x = self.normal(2, 3, 7, 7)

        def pool(kind, **settings):
            def add(network, x):
                layer = network.add_pooling_nd(x, kind, (3, 3))
                for name, value in settings.items():
                    setattr(layer, name, value)
                return layer

            return add

        largest = self.by_onnx(helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4, ceil_mode=1), {"x": x})
        self.check(pool(trt.PoolingType.MAX, stride_nd=(2, 2), padding_nd=(1, 1), padding_mode=trt.PaddingMode.EXPLICIT_ROUND_UP), largest, x)
        network = self.network()
        beyond = pool(trt.PoolingType.MAX, stride_nd=(4, 4), padding_nd=(1, 1), padding_mode=trt.PaddingMode.EXPLICIT_ROUND_UP)(network, network.add_input("x", trt.float32, x.shape))
        self.assertRaises(ValueError, lambda: beyond.get_output(0).shape)
        self.assertIn("a last window of a pooling that begins behind its input: not in Temper", self.logger.lines[-1])
        for excludes in (True, False):
            mean = self.by_onnx(helper.make_node("AveragePool", ["x"], ["y"], kernel_shape=[3, 3], pads=[1] * 4, count_include_pad=int(not excludes)), {"x": x})
            self.check(pool(trt.PoolingType.AVERAGE, pre_padding=(1, 1), post_padding=(1, 1), average_count_excludes_padding=excludes), mean, x)
        both = 0.75 * self.by_onnx(helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[3, 3]), {"x": x}) + \
            0.25 * self.by_onnx(helper.make_node("AveragePool", ["x"], ["y"], kernel_shape=[3, 3]), {"x": x})  # fmt: skip
        self.check(pool(trt.PoolingType.MAX_AVERAGE_BLEND, blend_factor=0.25), both, x)

        shift, scale = self.normal(3), numpy.abs(self.normal(3)) + 1
        by_channel = x * scale[:, None, None] + shift[:, None, None]
        self.check(lambda n, x: n.add_scale(x, trt.ScaleMode.CHANNEL, shift, scale, numpy.ones(3, "float32")), by_channel, x)
        self.check(lambda n, x: n.add_scale_nd(x, trt.ScaleMode.UNIFORM, None, numpy.array([3], "float32"), numpy.array([2], "float32"), 1), (3 * x) ** 2, x, tolerance=1e-4)
        each = self.normal(3, 7, 7)
        self.check(lambda n, x: n.add_scale_nd(x, trt.ScaleMode.ELEMENTWISE, shift=each), x + each, x)

        w, b = self.normal(5, 147), self.normal(5)
        dense = (x.reshape(2, 147) @ w.T + b).reshape(2, 5, 1, 1)
        self.check(lambda n, x: n.add_fully_connected(x, 5, w, b), dense, x, tolerance=1e-4)
        self.check(lambda n, x: n.add_lrn(x, 3, 0.1, 0.75, 2.0), self.by_onnx(helper.make_node("LRN", ["x"], ["y"], size=3, alpha=0.1, beta=0.75, bias=2.0), {"x": x}), x)

    def test_elements(self):
        x = self.normal(2, 5)
        sigmoid = 1 / (1 + numpy.exp(-x))
        kinds = {"RELU": numpy.maximum(x, 0), "SIGMOID": sigmoid, "TANH": numpy.tanh(x), "LEAKY_RELU": numpy.where(x < 0, 0.3 * x, x),
                 "ELU": numpy.where(x < 0, 0.3 * (numpy.exp(x) - 1), x), "SOFTSIGN": x / (1 + abs(x)), "SOFTPLUS": 0.3 * numpy.log(numpy.exp(0.5 * x) + 1),
                 "CLIP": numpy.clip(x, 0.3, 0.5), "HARD_SIGMOID": numpy.clip(0.3 * x + 0.5, 0, 1), "SCALED_TANH": 0.3 * numpy.tanh(0.5 * x),
                 "THRESHOLDED_RELU": numpy.where(x > 0.3, x, 0), "SELU": 0.5 * numpy.where(x > 0, x, 0.3 * (numpy.exp(x) - 1)),
                 "GELU_TANH": 0.5 * x * (1 + numpy.tanh(numpy.sqrt(2 / numpy.pi) * (x + 0.044715 * x**3)))}  # fmt: skip
        for kind, expected in kinds.items():
            def activate(network, x, kind=kind):
                layer = network.add_activation(x, getattr(trt.ActivationType, kind))
                layer.alpha, layer.beta = 0.3, 0.5
                self.assertEqual((layer.type, layer.alpha), (getattr(trt.ActivationType, kind), 0.3))
                return layer

            self.check(activate, expected.astype("float32"), x)
        a, b = self.normal(2, 3, 4), self.normal(1, 3, 1)
        pairs = {"SUM": a + b, "PROD": a * b, "MAX": numpy.maximum(a, b), "MIN": numpy.minimum(a, b), "SUB": a - b, "DIV": a / b,
                 "FLOOR_DIV": numpy.floor(a / b), "EQUAL": a == b, "GREATER": a > b, "LESS": a < b}  # fmt: skip
        for op, expected in pairs.items():
            self.check(lambda n, a, b, op=op: n.add_elementwise(a, b, getattr(trt.ElementWiseOperation, op)), expected, a, b)
        self.check(lambda n, a, b: n.add_elementwise(a, b, trt.ElementWiseOperation.POW), abs(a) ** b, abs(a), b)
        i, j = numpy.array([7, -7, 6, -6], "int32"), numpy.array([2, 2, -4, -3], "int32")
        self.check(lambda n, i, j: n.add_elementwise(i, j, trt.ElementWiseOperation.FLOOR_DIV), i // j, i, j)
        for op, of in {"EXP": numpy.exp, "SQRT": numpy.sqrt, "ABS": abs, "NEG": numpy.negative, "SIN": numpy.sin, "CEIL": numpy.ceil, "ROUND": numpy.round,
                       "RECIP": numpy.reciprocal, "LOG": numpy.log, "ATANH": None}.items():  # fmt: skip
            if of:
                self.check(lambda n, x, op=op: n.add_unary(x, getattr(trt.UnaryOperation, op)), of(abs(x)), abs(x))
        self.check(lambda n, c: n.add_unary(c, trt.UnaryOperation.NOT), ~(x > 0), x > 0)
        slopes = self.normal(1, 5)
        self.check(lambda n, x: n.add_parametric_relu(x, n.add_constant((1, 5), slopes).get_output(0)), numpy.where(x < 0, slopes * x, x), x)
        self.check(lambda n, c, a, b: n.add_select(c, a, b), numpy.where(x > 0, x, 2 * x), x > 0, x, 2 * x)
        self.check(lambda n, x: n.add_cast(x, trt.int32), x.astype("int32"), 10 * x / 10)

        def cast_by_identity(network, x):
            layer = network.add_identity(x)
            layer.set_output_type(0, trt.int32)
            self.assertTrue(layer.output_type_is_set(0))
            return layer

        self.check(cast_by_identity, (10 * x).astype("int32"), 10 * x)

    def test_where_elements_go(self):
        x = self.normal(2, 3, 4, 5)

        def shuffle(network, x):
            layer = network.add_shuffle(x)
            layer.first_transpose, layer.reshape_dims, layer.second_transpose = (0, 2, 3, 1), (0, -1, 3), trt.Permutation([1, 0, 2])
            return layer

        self.check(shuffle, x.transpose(0, 2, 3, 1).reshape(2, 20, 3).transpose(1, 0, 2), x)
        self.check(lambda n, x: n.add_slice(x, (0, 1, 3, 0), (2, 2, 2, 3), (1, 1, -2, 2)), x[:, 1:3, 3:0:-2, ::2], x)
        self.check(lambda n, x: n.add_slice(x, (0, 0, 0, 2), (2, 3, 4, 6), (1, 1, 1, 0)), numpy.repeat(x[..., 2:3], 6, -1), x)
        self.check(lambda n, x: n.add_padding_nd(x, (1, 2), (0, -1)), numpy.pad(x, ((0, 0), (0, 0), (1, 0), (2, 0)))[..., :-1], x)

        def join(network, x, y):
            layer = network.add_concatenation([x, y])
            self.assertEqual(layer.axis, 1)
            layer.axis = 2
            return layer

        self.check(join, numpy.concatenate([x, x + 1], 2), x, x + 1)
        where = numpy.array([2, 0], "int32")
        self.check(lambda n, x, i: n.add_gather(x, i, 1), x[:, where], x, where)
        picks = numpy.array([[[1, 2], [0, 0]], [[2, 3], [1, 1]]], "int32")
        expected = self.by_onnx(helper.make_node("GatherND", ["x", "i"], ["y"], batch_dims=1), {"x": x, "i": picks.astype("int64")})

        def gather_nd(network, x, i):
            layer = network.add_gather_v2(x, i, trt.GatherMode.ND)
            layer.num_elementwise_dims = 1
            return layer

        self.check(gather_nd, expected, x, picks)
        self.check(lambda n, x: n.add_shape(x), numpy.array(x.shape, "int32"), x)
        self.check(lambda n, x: n.add_reduce(x, trt.ReduceOperation.AVG, 1 << 2 | 1 << 3, True), x.mean((2, 3), keepdims=True), x)
        self.check(lambda n, x: n.add_reduce(x, trt.ReduceOperation.MAX, 1 << 1, False), x.max(1), x)
        layer = self.check(lambda n, x: n.add_topk(x, trt.TopKOperation.MAX, 2, 1 << 3), -numpy.sort(-x, -1)[..., :2], x)
        self.assertEqual((layer.get_output(1).dtype, tuple(layer.get_output(1).shape)), (trt.int32, (2, 3, 4, 2)))

        def resize(network, x):
            layer = network.add_resize(x)
            layer.shape, layer.resize_mode = (2, 3, 8, 10), trt.ResizeMode.LINEAR
            layer.coordinate_transformation = trt.ResizeCoordinateTransformation.HALF_PIXEL
            return layer

        sizes = numpy.array([2, 3, 8, 10])
        self.check(resize, self.by_onnx(helper.make_node("Resize", ["x", "", "", "s"], ["y"], mode="linear"), {"x": x, "s": sizes}), x)

        def double(network, x):
            layer = network.add_resize(x)
            layer.scales = [1, 1, 2, 2]
            return layer

        self.check(double, x.repeat(2, 2).repeat(2, 3), x)
        self.check(lambda n, x: n.add_einsum([x, x], "bchw,bdhw->bcd"), numpy.einsum("bchw,bdhw->bcd", x, x), x, tolerance=1e-4)

    def test_products_and_norms(self):
        a, b = self.normal(2, 3, 4), self.normal(2, 5, 4)
        none, transpose, vector = trt.MatrixOperation.NONE, trt.MatrixOperation.TRANSPOSE, trt.MatrixOperation.VECTOR
        self.check(lambda n, a, b: n.add_matrix_multiply(a, none, b, transpose), a @ b.transpose(0, 2, 1), a, b)
        self.check(lambda n, a, b: n.add_matrix_multiply(a, none, b, vector), (a @ b[:, 0, :, None])[..., 0], a, b[:, 0])
        x = self.normal(2, 6, 4, 4)
        layer = self.check(lambda n, x: n.add_softmax(x), numpy.exp(x) / numpy.exp(x).sum(1, keepdims=True), x)
        self.assertEqual(layer.axes, 1 << 1)

        def normalize(network, x):
            one, zero = (network.add_constant((1, 6, 1, 1), w).get_output(0) for w in (numpy.ones(6, "float32"), numpy.zeros(6, "float32")))
            layer = network.add_normalization(x, one, zero, 1 << 2 | 1 << 3)
            layer.epsilon, layer.num_groups = 1e-3, 2
            return layer

        groups = x.reshape(2, 2, -1)
        expected = (groups - groups.mean(-1, keepdims=True)) / numpy.sqrt(groups.var(-1, keepdims=True) + 1e-3)
        self.check(normalize, expected.reshape(x.shape), x, tolerance=1e-4)
        scale = numpy.array([0.1], "float32")

        def through_int8(network, x):
            s = network.add_constant((1,), scale).get_output(0)
            return network.add_dequantize(network.add_quantize(x, s).get_output(0), s)

        self.check(through_int8, (numpy.clip(numpy.round(x / scale), -128, 127) * scale).astype("float32"), x)
        boxes = numpy.array([[[0, 0, 1, 1], [0, 0.05, 1, 1.05], [0, 3, 1, 4]]], "float32")
        scores = numpy.array([[[0.9], [0.8], [0.7]]], "float32")

        network = self.network()
        most = network.add_constant((), numpy.array(3, "int32")).get_output(0)
        layer = network.add_nms(network.add_input("b", F, boxes.shape), network.add_input("s", F, scores.shape), most)
        layer.bounding_box_format = trt.BoundingBoxFormat.CORNER_PAIRS
        for i, name in enumerate(("kept", "count")):
            layer.get_output(i).name = name
            network.mark_output(layer.get_output(i))
        self.assertEqual((layer.num_outputs, layer.type, tuple(layer.get_output(0).shape)), (2, trt.LayerType.NMS, (-1, 3)))
        self.assertEqual((layer.get_output(1).dtype, tuple(layer.get_output(1).shape)), (trt.int32, ()))

    def test_open_dimensions_names_and_types(self):
        network = self.network()
        x, y = network.add_input("x", F, (-1, 4)), network.add_input("y", F, (-1, 4))
        for tensor in (x, y):
            tensor.set_dimension_name(0, "batch")
        self.assertEqual((tuple(x.shape), x.get_dimension_name(0), x.get_dimension_name(1)), ((-1, 4), "batch", None))
        layer = network.add_elementwise(x, y, trt.ElementWiseOperation.SUM)
        layer.name, layer.metadata, layer.precision = "sum", "of two", trt.float16
        self.assertEqual((layer.name, layer.metadata, layer.precision, layer.precision_is_set), ("sum", "of two", trt.float16, True))
        layer.reset_precision()
        self.assertFalse(layer.precision_is_set)
        shape = network.add_shape(layer.get_output(0)).get_output(0)
        flat = network.add_shuffle(layer.get_output(0))
        flat.set_input(1, network.add_concatenation([shape, network.add_constant((1,), numpy.ones(1, "int32")).get_output(0)]).get_output(0))
        out = flat.get_output(0)
        out.name, out.dtype = "out", trt.int32
        network.mark_output(out)
        self.assertEqual((network.num_inputs, network.num_outputs, network.get_output(0), out.dtype), (2, 1, out, trt.int32))
        self.assertEqual(network[0], layer)
        got = self.run_network(network, {"x": numpy.full((3, 4), 2, "float32"), "y": numpy.ones((3, 4), "float32")},
                               {name: [(1, 4), (3, 4), (5, 4)] for name in ("x", "y")})  # fmt: skip
        numpy.testing.assert_array_equal(got["out"], numpy.full((3, 4, 1), 3, "int32"))

    def test_float16_by_the_flag_of_the_network(self):
        w = self.normal(3, 4).astype("float16")
        for flags in (0, 1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED)):
            network = self.network(flags)
            x = network.add_input("x", trt.float16, (2, 4))
            self.assertEqual(x.dtype, trt.float16)
            y = network.add_matrix_multiply(x, trt.MatrixOperation.NONE, network.add_constant((3, 4), w).get_output(0), trt.MatrixOperation.TRANSPOSE)
            self.assertEqual(y.get_output(0).dtype, trt.float16 if flags else trt.float32)
        out = network.add_cast(y.get_output(0), trt.float32).get_output(0)
        out.name = "out"
        network.mark_output(out)
        given = self.normal(2, 4).astype("float16")
        numpy.testing.assert_allclose(self.run_network(network, {"x": given})["out"], given.astype("float32") @ w.astype("float32").T, atol=0.02)

    def test_a_parsed_network_gets_layers_and_other_outputs(self):
        network = self.network()
        with open(DIGITS, "rb") as file:
            self.assertTrue(trt.OnnxParser(network, self.logger).parse(file.read()))
        before = network.num_layers
        self.assertEqual(network.get_layer(0).get_input(0), network.get_input(0))
        logits = network.get_output(0)
        best = network.add_topk(logits, trt.TopKOperation.MAX, 1, 1 << 1)
        network.unmark_output(logits)
        best.get_output(1).name = "class"
        network.mark_output(best.get_output(1))
        self.assertEqual((network.num_layers, network.get_output(0).name), (before + 1, "class"))
        network.get_input(0).name = "picture"
        x = self.random.uniform(0, 1, (4, 1, 8, 8)).astype("float32")
        got = self.run_network(network, {"picture": x}, {"picture": [(1, 1, 8, 8), (4, 1, 8, 8), (4, 1, 8, 8)]})
        expected = onnxruntime.InferenceSession(DIGITS).run(None, {"image": x})[0].argmax(1)
        numpy.testing.assert_array_equal(got["class"][:, 0], expected)

    def test_a_parsed_network_gets_other_dimensions_and_layers_in_front(self):
        network = self.network()
        self.assertTrue(trt.OnnxParser(network, self.logger).parse_from_file(DIGITS))
        image = network.get_input(0)
        image.shape = (3, 1, 8, 8)
        self.assertEqual(network.get_output(0).shape, (3, 10))
        half = network.add_constant((1, 1, 1, 1), numpy.array([0.5], "float32")).get_output(0)
        network.get_layer(0).set_input(0, network.add_elementwise(image, half, trt.ElementWiseOperation.PROD).get_output(0))
        x = self.random.uniform(0, 1, (3, 1, 8, 8)).astype("float32")
        expected = onnxruntime.InferenceSession(DIGITS).run(None, {"image": x / 2})[0]
        numpy.testing.assert_allclose(self.run_network(network, {"image": x})["logits"], expected, atol=1e-4)

    def test_the_extension_of_tensorrts_package_is_the_module(self):
        self.assertIs(trt.tensorrt, trt)
        self.assertNotIn("tensorrt", dir(trt))

    def test_a_parser_names_every_node_that_it_refuses(self):
        make = onnx.helper.make_node
        nodes = [make("Foo", ["x"], ["a"], name="first", domain="mine"), make("Bar", ["a"], ["y"], name="second", domain="mine")]
        ports = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2]) for name in "xy"]
        graph = onnx.helper.make_graph(nodes, "two", ports[:1], ports[1:], value_info=[onnx.helper.make_tensor_value_info("a", onnx.TensorProto.FLOAT, [2])])
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13), onnx.helper.make_opsetid("mine", 1)], ir_version=8)
        parser = trt.OnnxParser(self.network(), self.logger)
        self.assertFalse(parser.parse(model.SerializeToString()))
        self.assertEqual(parser.num_errors, 2)
        self.assertIn("node 'first'", parser.get_error(0).desc())
        self.assertIn("node 'second'", parser.get_error(1).desc())

    def test_a_refused_edit_ends_the_build(self):
        def build(edit):
            network = self.network()
            self.assertTrue(trt.OnnxParser(network, self.logger).parse_from_file(DIGITS))
            network.get_input(0).shape = (1, 1, 8, 8)
            edit(network)
            return self.builder.build_serialized_network(network, self.builder.create_builder_config())

        def other(network):
            network.get_layer(0).set_input(0, self.network().add_input("image", F, (1, 1, 8, 8)))

        self.assertIsNotNone(build(lambda network: None))
        self.assertIsNone(build(lambda network: setattr(network.get_input(0), "dtype", trt.int8)))
        self.assertIsNone(build(lambda network: trt.OnnxParser(network, self.logger).parse_from_file(DIGITS)))
        self.assertIsNone(build(lambda network: network.mark_output(network.get_input(0))))
        self.assertIsNone(build(other))
        self.assertIn("'image' is a tensor of another network", self.logger.lines[-1])
        self.assertIsNone(self.network().add_softmax(self.network().add_input("x", F, (2,))))

    def refittable(self, network, profile=None):
        config = self.builder.create_builder_config()
        config.set_flag(trt.BuilderFlag.REFIT)
        if profile:
            ranges = self.builder.create_optimization_profile()
            ranges.set_shape(*profile)
            config.add_optimization_profile(ranges)
        return trt.Runtime(self.logger).deserialize_cuda_engine(self.builder.build_serialized_network(network, config))

    def test_weights_of_layers_are_replaced_below_a_context_that_runs(self):
        network = self.network()
        x, w, b = self.normal(1, 3, 6, 6), self.normal(4, 3, 3, 3), self.normal(4)
        layer = network.add_convolution_nd(network.add_input("x", F, x.shape), 4, (3, 3), w, b)
        layer.name = "first"
        layer.get_output(0).name = "out"
        network.mark_output(layer.get_output(0))
        engine = self.refittable(network)
        out = numpy.zeros((1, 4, 4, 4), "float32")

        def run(context):
            context.set_tensor_address("x", x.ctypes.data), context.set_tensor_address("out", out.ctypes.data)
            self.assertTrue(context.execute_async_v3(0), self.logger.lines)
            return out

        def expected(w, b):
            return self.by_onnx(helper.make_node("Conv", ["x", "w", "b"], ["y"]), {"x": x, "w": w, "b": b})

        context = engine.create_execution_context()
        numpy.testing.assert_allclose(run(context), expected(w, b), atol=1e-4)
        refitter = trt.Refitter(engine, self.logger)
        self.assertEqual(set(zip(*refitter.get_all())), {("first", trt.WeightsRole.KERNEL), ("first", trt.WeightsRole.BIAS)})
        self.assertTrue(refitter.set_weights("first", trt.WeightsRole.KERNEL, 2 * w) and refitter.set_weights("first", trt.WeightsRole.BIAS, -b))
        numpy.testing.assert_allclose(run(context), expected(w, b), atol=1e-4)  # until it is refitted
        self.assertTrue(refitter.refit_cuda_engine())
        numpy.testing.assert_allclose(run(context), expected(2 * w, -b), atol=1e-4)
        again = trt.Runtime(self.logger).deserialize_cuda_engine(engine.serialize())
        self.assertTrue(again.refittable)
        numpy.testing.assert_allclose(run(again.create_execution_context()), expected(2 * w, -b), atol=1e-4)
        for end in (20, 100, -1):
            self.assertIsNone(trt.Runtime(self.logger).deserialize_cuda_engine(bytes(engine.serialize())[:end]))

    def test_weights_of_a_model_are_replaced_by_their_names(self):
        network, model = self.network(), onnx.load(DIGITS)
        self.assertTrue(trt.OnnxParser(network, self.logger).parse(model.SerializeToString()))
        engine = self.refittable(network, ("image", (1, 1, 8, 8), (2, 1, 8, 8), (4, 1, 8, 8)))
        refitter = trt.Refitter(engine, self.logger)
        for name in refitter.get_all_weights():
            weights = next(each for each in model.graph.initializer if each.name == name)
            other = onnx.numpy_helper.to_array(weights)[::-1].copy()
            weights.CopyFrom(onnx.numpy_helper.from_array(other, name))
            self.assertTrue(refitter.set_named_weights(name, other))
        self.assertGreater(len(refitter.get_all_weights()), 3)
        self.assertTrue(refitter.refit_cuda_engine())
        x, out = self.random.uniform(0, 1, (4, 1, 8, 8)).astype("float32"), numpy.zeros((4, 10), "float32")
        context = engine.create_execution_context()
        self.assertTrue(context.set_input_shape("image", x.shape))
        self.assertTrue(context.execute_v2([x.ctypes.data, out.ctypes.data]))
        numpy.testing.assert_allclose(out, onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"image": x})[0], atol=1e-4)

    def test_layers_of_a_model_tell_what_their_nodes_say_by_the_class_that_programs_give_them(self):
        w, v = self.normal(6, 2, 3, 3), self.normal(6, 3, 2, 2)
        nodes = [helper.make_node("Conv", ["x", "w"], ["a"], strides=[2, 1], pads=[1, 0, 2, 1], dilations=[1, 2], group=2),
                 helper.make_node("AveragePool", ["a"], ["b"], kernel_shape=[2, 3], strides=[1, 2], ceil_mode=1, count_include_pad=1, pads=[0, 1, 0, 1]),
                 helper.make_node("Pow", ["b", "two"], ["c"]), helper.make_node("ReduceMean", ["c", "axes"], ["d"], keepdims=1),
                 helper.make_node("Sqrt", ["d"], ["e"]), helper.make_node("Div", ["b", "e"], ["f"]), helper.make_node("Sigmoid", ["f"], ["g"]),
                 helper.make_node("ConvTranspose", ["g", "v"], ["h"]), helper.make_node("Concat", ["h", "h"], ["i"], axis=1),
                 helper.make_node("Softmax", ["i"], ["j"], axis=2), helper.make_node("MatMul", ["j", "m"], ["k"]),
                 helper.make_node("Greater", ["k", "j"], ["l"]), helper.make_node("Cast", ["l"], ["m1"], to=TensorProto.INT32),
                 helper.make_node("Gelu", ["k"], ["n"])]  # fmt: skip
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (2, 4, 9, 10))
        values = {"w": w, "v": v, "two": numpy.array([2], "float32"), "axes": numpy.array([2, 3]), "m": self.normal(5, 5)}
        outs = [helper.make_tensor_value_info("m1", TensorProto.INT32, (2, 6, 5, 5)), helper.make_tensor_value_info("n", TensorProto.FLOAT, (2, 6, 5, 5))]
        graph = helper.make_graph(nodes, "told", [x], outs, [onnx.numpy_helper.from_array(value, name) for name, value in values.items()])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
        network = self.network()
        self.assertTrue(trt.OnnxParser(network, self.logger).parse(model.SerializeToString()), self.logger.lines)
        kinds, layers = trt.LayerType, {}
        for layer in network:
            layers.setdefault(layer.type, []).append(layer)

        def as_a(cls, layer):
            self.assertIs(type(layer), trt.ILayer)
            layer.__class__ = cls  # as Polygraphy and NVIDIA's demonstrations do
            self.assertIsInstance(layer, cls)
            return layer

        convolution = as_a(trt.IConvolutionLayer, layers[kinds.CONVOLUTION][0])
        self.assertEqual((convolution.num_output_maps, convolution.kernel_size_nd, convolution.num_groups, convolution.stride_nd, convolution.dilation_nd),
                         (6, (3, 3), 2, (2, 1), (1, 2)))  # fmt: skip
        self.assertEqual((convolution.pre_padding, convolution.post_padding, convolution.padding_mode, convolution.kernel_size.h, convolution.bias.size),
                         ((1, 0), (2, 1), trt.PaddingMode.EXPLICIT_ROUND_DOWN, 3, 0))  # fmt: skip
        numpy.testing.assert_array_equal(convolution.kernel.numpy(), w.ravel())
        pool = as_a(trt.IPoolingLayer, layers[kinds.POOLING][0])
        self.assertEqual((pool.type, pool.window_size_nd, pool.stride_nd, pool.padding_nd, pool.padding_mode, pool.average_count_excludes_padding),
                         (trt.PoolingType.AVERAGE, (2, 3), (1, 2), (0, 1), trt.PaddingMode.EXPLICIT_ROUND_UP, False))  # fmt: skip
        operations = [as_a(trt.IElementWiseLayer, layer) for layer in layers[kinds.ELEMENTWISE]]
        told = []
        for layer in operations:
            try:
                told.append(layer.op)
            except ValueError as error:  # of several steps
                self.assertIn("a node of the model, which does not tell its operation: not in Temper", str(error))
        self.assertEqual(told, [trt.ElementWiseOperation.POW, trt.ElementWiseOperation.DIV, trt.ElementWiseOperation.LESS])
        self.assertEqual(operations[2].get_input(0), layers[kinds.SOFTMAX][0].get_output(0))  # the greater of (k, j) is the less of (j, k)
        self.assertEqual(len(operations), 4)
        mean = as_a(trt.IReduceLayer, layers[kinds.REDUCE][0])
        self.assertEqual((mean.op, mean.axes, mean.keep_dims), (trt.ReduceOperation.AVG, 0b1100, True))
        self.assertEqual(as_a(trt.IUnaryLayer, layers[kinds.UNARY][0]).op, trt.UnaryOperation.SQRT)
        sigmoid = as_a(trt.IActivationLayer, layers[kinds.ACTIVATION][0])
        self.assertEqual((sigmoid.type, sigmoid.alpha), (trt.ActivationType.SIGMOID, 0))
        self.assertEqual((len(layers[kinds.DECONVOLUTION]), as_a(trt.IConcatenationLayer, layers[kinds.CONCATENATION][0]).axis), (1, 1))
        self.assertEqual(as_a(trt.ISoftMaxLayer, layers[kinds.SOFTMAX][0]).axes, 0b100)
        product = as_a(trt.IMatrixMultiplyLayer, layers[kinds.MATRIX_MULTIPLY][0])
        self.assertEqual((product.op0, product.op1), (trt.MatrixOperation.NONE,) * 2)
        self.assertEqual(as_a(trt.ICastLayer, layers[kinds.CAST][0]).to_type, trt.int32)
        with self.assertRaisesRegex(ValueError, "does not tell its kernel_size"):
            as_a(trt.IDeconvolutionLayer, layers[kinds.DECONVOLUTION][0]).kernel_size_nd
        product.__class__ = trt.IPoolingLayer
        with self.assertRaisesRegex(ValueError, "does not tell its window"):
            product.window_size_nd
        product.__class__ = trt.ILayer
        self.assertEqual((product.type, product.metadata, product.precision_is_set), (kinds.MATRIX_MULTIPLY, "", False))
        operations[0].precision = trt.float32
        self.assertTrue(operations[0].precision_is_set)
        self.assertIsNotNone(self.builder.build_serialized_network(network, self.builder.create_builder_config()), self.logger.lines)

    def test_an_input_that_a_model_gives_as_an_output_too_is_edited(self):
        ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (2, 3)) for name in ("x", "y")]
        graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "passed on", ports[:1], ports)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8).SerializeToString()
        x = self.normal(2, 3)
        for edit, name, dtype in ((None, "x", "float32"), ("name", "given", "float32"), ("dtype", "x", "float16")):
            network = self.network()
            self.assertTrue(trt.OnnxParser(network, self.logger).parse(model), self.logger.lines)
            self.assertTrue(network.get_input(0).is_network_output)
            if edit:
                setattr(network.get_input(0), edit, "given" if edit == "name" else trt.float16)
            plan = self.builder.build_serialized_network(network, self.builder.create_builder_config())
            self.assertIsNotNone(plan, self.logger.lines)
            engine = temper.load(bytes(plan))
            got = engine.run({name: x.astype(dtype)})
            self.assertEqual(sorted(got), sorted([name, "y"]))
            self.assertEqual((got[name].dtype, got["y"].dtype), (dtype, "float32"))
            numpy.testing.assert_array_equal(got[name], x.astype(dtype))
            numpy.testing.assert_array_equal(got["y"], -x.astype(dtype).astype("float32"))

    def test_what_does_not_hold_is_said_with_the_layers_name(self):
        network = self.network()
        x = network.add_input("x", F, (1, 3, 8, 8))
        self.assertIsNone(network.add_input("x", F, (1,)))
        layer = network.add_convolution_nd(x, 4, (3, 3), self.normal(4, 5, 3, 3))
        layer.name = "too many channels"
        with self.assertRaisesRegex(ValueError, "too many channels"):
            layer.get_output(0).shape
        network.mark_output(layer.get_output(0))
        self.assertIsNone(self.builder.build_serialized_network(network, self.builder.create_builder_config()))
        self.assertTrue(any("too many channels" in line for line in self.logger.lines))
        layer.kernel = self.normal(4, 3, 3, 3)
        self.assertEqual(tuple(layer.get_output(0).shape), (1, 4, 6, 6))
        beyond = network.add_slice(x, (0, 0, 0, 0), (1, 3, 9, 8), (1, 1, 1, 1))
        with self.assertRaisesRegex(ValueError, "axis 2"):
            beyond.get_output(0).shape
        beyond.mode = trt.SliceMode.WRAP
        self.assertEqual(tuple(beyond.get_output(0).shape), (1, 3, 9, 8))
        beyond.set_input(5, network.add_constant((4,), numpy.arange(4, dtype="int32")).get_output(0))
        with self.assertRaisesRegex(ValueError, "axes of a slice as an input: not in Temper"):
            beyond.get_output(0).shape
        other = network.add_input("other", F, (3,))
        with self.assertRaisesRegex(ValueError, "4 and 1 dimensions"):
            network.add_elementwise(x, other, trt.ElementWiseOperation.SUM).get_output(0).shape
        with self.assertRaises(TypeError):
            network.add_identity("x")
        empty = self.network()
        self.assertIsNone(self.builder.build_serialized_network(empty, self.builder.create_builder_config()))


if __name__ == "__main__":
    unittest.main()
