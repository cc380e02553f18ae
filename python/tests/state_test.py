# SPDX-License-Identifier: Apache-2.0
"""State that sessions keep from run to run."""
import sys
import unittest
import wave
import io
import os
import tempfile

import numpy
from common import ROOT, Case
from onnx import TensorProto, helper, numpy_helper

import temper

sys.path.insert(0, str(ROOT / "examples/streaming"))
import detect  # noqa: E402
import dial  # noqa: E402
import model as example  # noqa: E402


def halves():
    """next = s / 2 + x, y = -next, for any batch."""
    port = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, ("n", 3))  # noqa: E731
    nodes = [helper.make_node("Mul", ["s", "half"], ["left"]), helper.make_node("Add", ["x", "left"], ["next"]), helper.make_node("Neg", ["next"], ["y"])]
    graph = helper.make_graph(nodes, "halves", [port("x"), port("s")], [port("y"), port("next")],
                              [numpy_helper.from_array(numpy.array(0.5, "float32"), "half")])  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


class StateTest(Case):
    @classmethod
    def setUpClass(cls):
        shapes = [(1, 3), (2, 3), (4, 3)]
        cls.engine = temper.build(halves(), shapes={"x": shapes, "s": shapes}, threads=1, quick=True, timing_cache=None)

    def pieces(self, count, batch=2):
        return numpy.random.default_rng(count).standard_normal((count, batch, 3)).astype("float32")

    def test_a_run_goes_on_from_the_last(self):
        session = self.engine.session(state={"s": "next"})
        self.assertEqual(session.state(), {})
        state = numpy.zeros((2, 3), "float32")
        for i, x in enumerate(self.pieces(6)):
            state = x + state / 2
            out = session.run(x if i % 2 else {"x": x})
            self.assertEqual(list(out), ["y"])
            numpy.testing.assert_allclose(out["y"], -state, rtol=1e-6)
            numpy.testing.assert_allclose(session.state()["s"], state, rtol=1e-6)
        for again in (session.reset, session.reset_state):  # one thing with two names
            again()
            numpy.testing.assert_allclose(session.run(x)["y"], -x, rtol=1e-6)
        given = numpy.ones((2, 3), "float32")
        numpy.testing.assert_allclose(session.run({"x": x, "s": given})["y"], -(x + 0.5), rtol=1e-6)
        numpy.testing.assert_array_equal(given, numpy.ones((2, 3)))
        mine = numpy.empty((2, 3), "float32")
        self.assertIs(session.run(x, {"y": mine})["y"], mine)
        numpy.testing.assert_allclose(mine, -(x + (x + 0.5) / 2), rtol=1e-6)

    def test_a_cache_of_heads_before_positions_grows_where_it_lies(self):
        """TensorScatter along the last axis but one, as static caches are written: an append, which writes the new rows alone."""
        port = lambda name, *shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)  # noqa: E731
        at = helper.make_tensor_value_info("at", TensorProto.INT64, ("b",))
        node = helper.make_node("TensorScatter", ["cache", "x", "at"], ["grown"])
        graph = helper.make_graph([node], "heads", [port("cache", "b", 2, 6, 3), port("x", "b", 2, "s", 3), at], [port("grown", "b", 2, 6, 3)])
        onnx_model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=11)
        engine = temper.build(onnx_model, shapes={"cache": (2, 2, 6, 3), "x": (2, 2, 2, 3), "at": (2,)}, threads=1, measure=False, timing_cache=None)
        self.assertIn("append(", engine.inspect(graph=True)["graph"])
        session, want = engine.session(state={"cache": "grown"}), numpy.zeros((2, 2, 6, 3), "float32")
        for places in ((0, 1), (2, 3), (4, 0)):
            x = numpy.random.default_rng(places[1]).standard_normal((2, 2, 2, 3)).astype("float32")
            session.run({"x": x, "at": numpy.array(places)})
            for row, place in enumerate(places):
                want[row, :, place : place + 2] = x[row]
            numpy.testing.assert_array_equal(session.state()["cache"], want)
        with self.assertRaisesRegex(temper.Error, "do not fit into a cache of 6"):
            session.run({"x": x, "at": numpy.array([0, 5])})
        numpy.testing.assert_array_equal(session.state()["cache"], want)

    def test_the_state_is_of_the_batch_that_comes(self):
        for batch in (1, 3):
            session = self.engine.session(state={"s": "next"})
            self.assertEqual(session.run(self.pieces(1, batch)[0])["y"].shape, (batch, 3))
            self.assertEqual(session.state()["s"].shape, (batch, 3))
        self.assertRefused("usage", "'n'", session.run, self.pieces(1, 2)[0])

    def test_bindings_go_on_too(self):
        session = self.engine.session(state={"s": "next"})
        x = numpy.ones((2, 3), "float32")
        binding = session.bind(x)
        self.assertEqual((list(binding.inputs), list(binding.outputs)), (["x"], ["y"]))
        for want in (1, 1.5, 1.75):
            numpy.testing.assert_allclose(binding.run()["y"], numpy.full((2, 3), -want))

    def test_a_fork_goes_on_from_a_copy_of_the_state(self):
        session = self.engine.session(state={"s": "next"})
        x = numpy.ones((2, 3), "float32")
        session.run(x)
        fork = session.fork()
        numpy.testing.assert_array_equal(fork.state()["s"], x)
        numpy.testing.assert_allclose(fork.run(-x)["y"], x / 2)
        numpy.testing.assert_allclose(session.run(x)["y"], -x * 1.5)
        session.close()
        numpy.testing.assert_allclose(fork.run(x)["y"], -x * 0.75)

    def test_what_cannot_be_kept_is_refused(self):
        self.assertRefused("usage", "no input 't'", self.engine.session, state={"t": "next"})
        self.assertRefused("usage", "no output 'z'", self.engine.session, state={"s": "z"})
        self.assertRefused("usage", "belongs to two states", self.engine.session, state={"s": "next", "x": "next"})
        session = self.engine.session(state={"s": "next"})
        x = self.pieces(1)[0]
        self.assertRefused("usage", "next", session.run, x, {"y": x.copy(), "next": x.copy()})

    def test_benches_keep_it(self):
        result = temper.bench(self.engine, {"x": self.pieces(1)[0]}, state={"s": "next"}, warmup=1, iterations=3)
        self.assertIn("x", result.notes["shapes"])
        self.assertEqual(result.notes["state"], "kept from run to run: s=next")
        self.assertRefused("usage", "state are of engines", temper.bench, lambda: None, state={"s": "next"})

    def test_the_example_hears_two_sounds(self):
        for rate in (8000, 16000):
            shapes = {"input": (1, rate * 32 // 1000), "state": (1, 1)}
            engine = temper.build(example.detector(), shapes=shapes, threads=1, quick=True, timing_cache=None)
            heard = detect.stretches(detect.probabilities(engine, example.beeps(rate), rate), 0.032)
            self.assertEqual(len(heard), 2, heard)
            for (begin, end), (first, last) in zip(heard, ((1.0, 1.5), (2.5, 3.25))):
                self.assertTrue(-0.04 <= begin - first <= 0.07 and -0.04 <= end - last <= 0.6, heard)

    def test_the_example_reads_recordings(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a.wav")
            data = io.BytesIO()
            with wave.open(data, "wb") as file:
                file.setnchannels(2)
                file.setsampwidth(2)
                file.setframerate(8000)
                file.writeframes(numpy.array([[16384, 1], [-32768, 2]], "<i2").tobytes())
            with open(path, "wb") as file:
                file.write(data.getvalue())
            samples, rate = detect.samples_of(path)
        numpy.testing.assert_array_equal(samples, [0.5, -1])
        self.assertEqual(rate, 8000)


class TransducerTest(Case):
    def test_it_writes_what_is_dialled_whatever_the_pieces(self):
        keys = "0049#8811199*55"
        groups = "-".join(keys[i:i + 3] for i in range(0, len(keys), 3))
        sound = dial.dialled(keys)
        for piece in (160, 77, len(sound)):
            transducer = dial.Transducer(quick=True, timing_cache=None)
            written = "".join(transducer.write(sound[begin:begin + piece]) for begin in range(0, len(sound), piece))
            self.assertEqual(written, groups, f"in pieces of {piece} samples")
        self.assertEqual(dial.Transducer(quick=True, timing_cache=None).write(dial.dialled("")), "")


if __name__ == "__main__":
    unittest.main()
