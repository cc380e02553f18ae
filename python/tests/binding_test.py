# SPDX-License-Identifier: Apache-2.0
"""Bindings: arrays that are checked once and run many times."""
import gc
import tempfile
import threading
import unittest
import weakref

import numpy
from common import DIGITS, Case, images
from onnx import TensorProto, helper

import temper


def two_by_two():
    """s = a + b, d = a - b, of open length."""
    port = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, ("n",))  # noqa: E731
    nodes = [helper.make_node("Add", ["a", "b"], ["s"]), helper.make_node("Sub", ["a", "b"], ["d"])]
    graph = helper.make_graph(nodes, "both", [port("a"), port("b")], [port("s"), port("d")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def positions():
    """Shapes depend on data."""
    graph = helper.make_graph([helper.make_node("NonZero", ["x"], ["y"])], "positions", [helper.make_tensor_value_info("x", TensorProto.FLOAT, (4,))],
                              [helper.make_tensor_value_info("y", TensorProto.INT64, (1, "found"))])  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


class BindingTest(Case):
    @classmethod
    def setUpClass(cls):
        cls.engine = temper.build(DIGITS, shapes=[(1, 1, 8, 8), (8, 1, 8, 8), (512, 1, 8, 8)], threads=1, measure=False)
        cls.both = temper.build(two_by_two(), shapes={"a": [(1,), (4,), (9,)], "b": [(1,), (4,), (9,)]}, threads=1, measure=False)

    def test_what_is_in_the_inputs_by_then_is_run_into_the_same_outputs(self):
        x = images(8)
        binding = self.engine.bind(x)
        self.assertIsInstance(binding, temper.Binding)
        y = binding.outputs["logits"]
        for seed in range(5):
            x[...] = images(8, seed=seed)
            self.assertIs(binding.run()["logits"], y)
            numpy.testing.assert_array_equal(y, self.engine.run(x)["logits"])
        self.assertIs(binding.inputs["image"], x)

    def test_outputs_are_written_where_the_caller_wants_them(self):
        a, b = numpy.arange(4, dtype="float32"), numpy.ones(4, "float32")
        for given in (lambda s, d: {"d": d, "s": s}, lambda s, d: [s, d], lambda s, d: (s, d)):
            s, d = numpy.empty(4, "float32"), numpy.empty(4, "float32")
            binding = self.both.bind({"b": b, "a": a}, given(s, d))
            out = binding.run()
            self.assertIs(out["s"], s)
            self.assertIs(out["d"], d)
            numpy.testing.assert_array_equal(s, a + b)
            numpy.testing.assert_array_equal(d, a - b)
        buffer = bytearray(16)  # whatever has the buffer protocol
        self.both.bind([a, b], [memoryview(buffer).cast("f"), d]).run()
        numpy.testing.assert_array_equal(numpy.frombuffer(buffer, "float32"), a + b)

    def test_the_outputs_of_one_are_the_inputs_of_the_next(self):
        a, b = numpy.arange(4, dtype="float32"), numpy.ones(4, "float32")
        first = self.both.bind([a, b])
        named = {"a": first.outputs["s"], "b": first.outputs["d"]}
        second = self.both.bind(named)
        first.run()
        numpy.testing.assert_array_equal(second.run()["s"], 2 * a)
        same = temper.build(DIGITS, shapes=(2, 1, 8, 8), threads=1, measure=False).bind(self.engine.bind(images(2)).inputs)
        self.assertEqual(list(same.run()), ["logits"])

    def test_wrong_arrays_are_refused_when_they_are_bound(self):
        x, bind = images(4), self.engine.bind
        y = numpy.empty((4, 10), "float32")
        self.assertRefused("usage", "'image' was given float64; expected is float32", bind, x.astype("float64"))
        self.assertRefused("usage", "not contiguous in C order", bind, images(8)[::2])
        self.assertRefused("usage", "shape [513,1,8,8]", bind, images(513))
        self.assertRefused("usage", "no array was given for the input 'image'", bind, {"picture": x})
        self.assertRefused("usage", "no array was given for the output 'logits'", bind, x, {"scores": y})
        self.assertRefused("usage", "output 'logits' was given the shape [5,10]; for these inputs it is [4,10]", bind, x, numpy.empty((5, 10), "float32"))
        self.assertRefused("usage", "output 'logits' was given float64", bind, x, y.astype("float64"))
        self.assertRefused("usage", "not contiguous in C order", bind, x, numpy.asfortranarray(y))
        y.flags.writeable = False
        self.assertRefused("usage", "output 'logits' was given an array that cannot be written", bind, x, y)
        self.assertRefused("unsupported", "depend on data", temper.build(positions(), threads=1, measure=False).bind, numpy.ones(4, "float32"))

    def test_outputs_that_share_memory_are_refused(self):
        a, b, buffer = numpy.arange(4, dtype="float32"), numpy.ones(4, "float32"), numpy.empty(8, "float32")
        for call in (self.both.bind, self.both.run, self.both.session().bind):
            self.assertRefused("usage", "output 's' shares memory with the input 'b'", call, [a, b], [b, buffer[:4]])
            self.assertRefused("usage", "output 'd' shares memory with the output 's'", call, [a, b], [buffer[:4], buffer[3:7]])
            call([a, a], [buffer[:4], buffer[4:]])  # beside each other, and inputs may

    def test_what_is_bound_cannot_be_exchanged(self):
        binding = self.engine.bind(images(1))
        with self.assertRaises(TypeError):
            binding.inputs["image"] = images(1)
        with self.assertRaises(TypeError):
            binding.outputs["logits"] = numpy.empty((1, 10), "float32")
        with self.assertRaises(TypeError):
            temper.Binding()

    def test_a_binding_keeps_its_arrays_and_its_engine_alive_and_lets_go(self):
        class Array(numpy.ndarray):
            pass  # which may be referred to weakly

        x, y = images(2).view(Array), numpy.empty((2, 10), "float32").view(Array)
        expected = self.engine.run(x)["logits"]
        arrays = [weakref.ref(x), weakref.ref(y)]
        with tempfile.NamedTemporaryFile(suffix=".plan") as file:
            self.engine.save(file.name)
            binding = temper.load(file.name).bind(x, y)
        del x, y
        gc.collect()
        self.assertTrue(all(array() is not None for array in arrays))
        numpy.testing.assert_array_equal(binding.run()["logits"], expected)
        del binding
        gc.collect()
        self.assertEqual([array() for array in arrays], [None, None])

    def test_a_closed_engine_or_session_refuses(self):
        engine = temper.build(DIGITS, threads=1, measure=False)
        session = engine.session()
        bindings = [engine.bind(images(1)), session.bind(images(1))]
        session.close()
        self.assertRefused("usage", "the session is closed", bindings[1].run)
        self.assertRefused("usage", "the session is closed", session.bind, images(1))
        bindings[0].run()
        engine.close()
        self.assertRefused("usage", "the engine is closed", bindings[0].run)
        self.assertRefused("usage", "the engine is closed", engine.bind, images(1))

    def test_bindings_of_one_session_take_turns_with_their_shapes(self):
        session = self.engine.session()
        given = [images(count, seed=count) for count in (1, 8, 3)]
        bindings = [session.bind(x) for x in given]
        for _ in range(3):
            for x, binding in zip(given, bindings):
                numpy.testing.assert_array_equal(binding.run()["logits"], self.engine.run(x)["logits"])
                session.run(images(5))
        self.assertEqual(session.runs, 18)

    def test_eight_threads_with_a_binding_each_get_identical_answers(self):
        batches = [images(1 + i % 8, seed=i) for i in range(24)]
        expected = [self.engine.run(x)["logits"] for x in batches]
        wrong = []

        def work(start):
            x = numpy.empty((8, 1, 8, 8), "float32")
            bindings = {count: self.engine.bind(x[:count]) for count in range(1, 9)}
            for i in range(400):
                k = (start + i) % len(batches)
                count = len(batches[k])
                x[:count] = batches[k]
                if not numpy.array_equal(bindings[count].run()["logits"], expected[k]):
                    wrong.append(k)

        threads = [threading.Thread(target=work, args=(t,)) for t in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_one_binding_in_two_threads_is_refused(self):
        binding = self.engine.bind(images(512))
        expected = binding.run()["logits"].copy()
        self.assertOneThreadAtATime(binding.run)
        numpy.testing.assert_array_equal(binding.run()["logits"], expected)


if __name__ == "__main__":
    unittest.main()
