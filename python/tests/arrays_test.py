# SPDX-License-Identifier: Apache-2.0
"""What crosses the border between Python and C++, and that nothing is copied on the way in."""
import resource
import time
import unittest

import ml_dtypes
import numpy
import onnx
from common import DIGITS, Case, images
from onnx import TensorProto, helper

import temper


def model(nodes, inputs, outputs, opset=21):
    def ports(listed):
        return [helper.make_tensor_value_info(name, dtype, shape) for name, dtype, shape in listed]

    graph = helper.make_graph(nodes, "test", ports(inputs), ports(outputs))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def identity(dtype, shape=(2, 3)):
    return temper.build(model([helper.make_node("Identity", ["x"], ["y"])], [("x", dtype, shape)], [("y", dtype, shape)]), measure=False, threads=1)


class ByDlpack:
    """A tensor of another framework: DLPack, and nothing else."""

    def __init__(self, array, device=(1, 0)):
        self.array, self.device = array, device

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **_):
        return self.array.__dlpack__()


class ArraysTest(Case):
    def test_every_dtype_comes_back_as_it_went_in(self):
        values = numpy.array([[0, 1, 2], [3, 4, 5]])
        for dtype in "float32 float16 float64 int8 uint8 int16 uint16 int32 uint32 int64 uint64 bool".split():
            with self.subTest(dtype=dtype):
                x = values.astype(dtype)
                y = identity(helper.np_dtype_to_tensor_dtype(numpy.dtype(dtype))).run(x)["y"]
                self.assertEqual(y.dtype, x.dtype)
                numpy.testing.assert_array_equal(y, x)

    def test_bfloat16_is_that_of_ml_dtypes(self):
        x = numpy.array([[0, 1, 2], [3, 4, 5]], ml_dtypes.bfloat16)
        engine = identity(TensorProto.BFLOAT16)
        y = engine.run(x)["y"]
        self.assertEqual(y.dtype, x.dtype)
        numpy.testing.assert_array_equal(y, x)
        self.assertRefused("usage", "given uint16; expected is bfloat16", engine.run, x.view("uint16"))

    def test_strings_are_given_as_str_or_bytes_and_come_back_as_str(self):
        mark = helper.make_tensor("mark", TensorProto.STRING, [1], [b"!"])
        words = model([helper.make_node("StringConcat", ["x", "mark"], ["y"])], [("x", TensorProto.STRING, ["n", 2])], [("y", TensorProto.STRING, ["n", 2])])
        words.graph.initializer.append(mark)
        engine = temper.build(words, measure=False, threads=1)
        want = numpy.array([["a!", "größe!"]], object)
        for x in (numpy.array([["a", "größe"]]), numpy.array([["a", "größe"]], object), [["a", "größe"]], numpy.array([[b"a", "größe".encode()]])):
            y = engine.run({"x": x})["y"]
            self.assertEqual(y.dtype, object)
            numpy.testing.assert_array_equal(y, want)
        self.assertEqual(engine.run({"x": [["", "no\0end"]]})["y"].tolist(), [["!", "no\0end!"]])
        self.assertEqual(engine.inputs[0].dtype, "str")
        self.assertRefused("usage", "given float32; expected are strings", engine.run, {"x": numpy.zeros((1, 2), "float32")})
        self.assertRefused("usage", "holds a int where a str", engine.run, {"x": numpy.array([["a", 1]], object)})
        self.assertRefused("unsupported", "taken and given by run() alone", engine.bind, {"x": [["a", "b"]]})
        self.assertRefused("unsupported", "taken and given by run() alone", engine.run, {"x": [["a", "b"]]}, {"y": numpy.zeros((1, 2), object)})

    def test_scalars_and_empty_arrays_pass(self):
        scalar = identity(TensorProto.FLOAT, ())
        self.assertEqual(scalar.run(numpy.float32(7).reshape(()))["y"], 7)

    def test_dlpack_of_the_host_is_read(self):
        engine = temper.build(DIGITS, shapes=(4, 1, 8, 8), measure=False)
        x = images(4)
        expected = engine.run(x)["logits"]
        for device in ((1, 0), (3, 0)):  # pinned memory is the host's
            numpy.testing.assert_array_equal(engine.run(ByDlpack(x, device))["logits"], expected)
        numpy.testing.assert_array_equal(numpy.from_dlpack(expected), expected)

    def test_dlpack_of_other_order_dtype_or_device_is_refused(self):
        engine = temper.build(DIGITS, shapes=(4, 1, 8, 8), measure=False)
        self.assertRefused("usage", "not contiguous in C order", engine.run, ByDlpack(numpy.asfortranarray(images(4))))
        self.assertRefused("usage", "float64; expected is float32", engine.run, ByDlpack(images(4).astype("float64")))
        self.assertRefused("usage", "no type for", engine.run, ByDlpack(images(4).astype("complex64")))
        self.assertRefused("usage", "ByDlpack|memory of cuda:0, and this runs on cpu|x.cpu()", engine.run, ByDlpack(images(4), (2, 0)))
        self.assertRefused("usage", "the ROCm device 1|x.cpu()", engine.run, ByDlpack(images(4), (10, 1)))
        self.assertRefused("usage", "output 'logits' (ByDlpack) is in the memory of cuda:1", engine.run, images(4), ByDlpack(images(4), (2, 1)))
        read_only = images(4)
        read_only.flags.writeable = False
        self.assertRefused("usage", "does not give its memory by DLPack", engine.run, ByDlpack(read_only))

    def test_outputs_are_written_where_the_caller_wants_them(self):
        engine = temper.build(DIGITS, shapes=[(1, 1, 8, 8), (4, 1, 8, 8), (8, 1, 8, 8)], measure=False)
        x = images(4)
        expected = engine.run(x)["logits"]
        for give in (lambda y: y, lambda y: [y], lambda y: {"logits": y}):
            y = numpy.full((4, 10), -1, "float32")
            results = engine.run(x, give(y))
            self.assertIs(results["logits"], y)
            numpy.testing.assert_array_equal(y, expected)
        y = numpy.zeros((4, 10), "float32")
        engine.session().run(x, ByDlpack(y))
        numpy.testing.assert_array_equal(y, expected)
        read_only = y.copy()
        read_only.flags.writeable = False
        for wrong, words in ((numpy.zeros((5, 10), "float32"), "shape [5,10]; for these inputs it is [4,10]"), (y.astype("float64"), "output 'logits' was given float64"),
                             (read_only, "cannot be written"), (numpy.asfortranarray(y), "not contiguous"), ({"y": y}, "output 'logits'"),
                             ([y, y], "2 outputs were given"), ("y", "str")):  # fmt: skip
            self.assertRefused("usage", words, engine.run, x, wrong)

    def test_a_batch_of_pictures_is_not_copied(self):
        """Reading one pixel of 154 MB takes less time than copying them would, and no memory."""
        shape = (256, 3, 224, 224)
        constants = [helper.make_node("Constant", [], [n], value_ints=v) for n, v in (("a", [0] * 4), ("b", [1] * 4))]
        one_pixel = model([*constants, helper.make_node("Slice", ["x", "a", "b"], ["y"])],
                          [("x", TensorProto.FLOAT, shape)], [("y", TensorProto.FLOAT, (1, 1, 1, 1))])  # fmt: skip
        engine = temper.build(one_pixel, measure=False, threads=1)
        x = numpy.full(shape, 3, numpy.float32)

        def seconds(call):
            start = time.perf_counter()
            call()
            return time.perf_counter() - start

        engine.run(x)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        run = min(seconds(lambda: engine.run(x)) for _ in range(5))
        self.assertLess(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, 16 << 10)
        self.assertEqual(engine.run(x)["y"].item(), 3)
        self.assertLess(run, 0.1 * min(seconds(x.copy) for _ in range(3)))

    def test_outputs_whose_shape_depends_on_data_come_with_it(self):
        nonzero = model([helper.make_node("NonZero", ["x"], ["y"])], [("x", TensorProto.FLOAT, (5,))], [("y", TensorProto.INT64, (1, "n"))])
        engine = temper.build(nonzero, measure=False)
        numpy.testing.assert_array_equal(engine.run(numpy.array([0, 1, 0, 2, 3], "float32"))["y"], [[1, 3, 4]])
        numpy.testing.assert_array_equal(engine.run(numpy.zeros(5, "float32"))["y"], numpy.zeros((1, 0)))
        self.assertRefused("unsupported", "depend on data", engine.run, numpy.zeros(5, "float32"), numpy.zeros((1, 0), "int64"))

    def test_several_inputs_go_by_name_or_in_order(self):
        add = model([helper.make_node("Sub", ["a", "b"], ["y"])], [(n, TensorProto.FLOAT, (2,)) for n in "ab"], [("y", TensorProto.FLOAT, (2,))])
        engine = temper.build(add, measure=False)
        a, b = numpy.array([5, 7], "float32"), numpy.array([1, 2], "float32")
        for given in ({"b": b, "a": a}, (a, b), [a, b]):
            numpy.testing.assert_array_equal(engine.run(given)["y"], [4, 5])
        self.assertRefused("usage", "one array was given|'b': float32 (2)", engine.run, a)
        self.assertRefused("usage", "shapes must be a dict|a, b", temper.build, add, shapes=(2,))


if __name__ == "__main__":
    unittest.main()
