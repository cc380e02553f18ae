# SPDX-License-Identifier: Apache-2.0
"""Graphs, inspection, and messages."""
import sys
import unittest

import numpy
import onnx
from common import DIGITS, Case, images

import temper

TEXT = """graph "test"
input %x: f32[batch,3]
const %c: f32[3] = [1,2,3]
%y: f32[batch,3] = pointwise(%x, %c) program="(2) 2=add.f32(0,1)" @"sum"
output "y" = %y
"""


class GraphTest(Case):
    def test_text_and_blobs_are_a_graph_again(self):
        graph = temper.Graph.from_onnx(DIGITS)
        again = temper.Graph.parse(str(graph), graph.blobs)
        self.assertEqual(again, graph)
        self.assertEqual(hash(again), hash(graph))
        self.assertEqual(str(again), str(graph))
        blobs = graph.blobs
        blobs[0][0] += 1
        self.assertNotEqual(temper.Graph.parse(str(graph), blobs), graph)
        self.assertEqual(len({graph, again, graph.optimised()}), 2)

    def test_a_graph_says_what_it_takes_and_gives(self):
        graph = temper.Graph.from_onnx(DIGITS)
        self.assertEqual(graph.inputs, [temper.Port("image", "float32", ("batch", 1, 8, 8))])
        self.assertEqual(graph.outputs, [temper.Port("logits", "float32", ("batch", 10))])
        self.assertLess(len(graph.optimised()), len(graph))
        self.assertIn("conv(", str(graph))

    def test_the_reference_judges_engines_built_of_a_graph(self):
        graph = temper.Graph.from_onnx(DIGITS)
        x = images(4)
        engine = temper.build(graph, shapes=(4, 1, 8, 8), measure=False)
        numpy.testing.assert_allclose(engine.run(x)["logits"], graph.run(x)["logits"], rtol=1e-4, atol=1e-4)

    def test_an_optimised_graph_is_written_as_onnx(self):
        model = onnx.load_from_string(temper.Graph.from_onnx(DIGITS).optimised().to_onnx())
        onnx.checker.check_model(model)
        x = images(2)
        numpy.testing.assert_allclose(temper.build(model, shapes=(2, 1, 8, 8), measure=False).run(x)["logits"],
                                      temper.Graph.from_onnx(DIGITS).run(x)["logits"], rtol=1e-4, atol=1e-4)

    def test_wrong_text_is_refused(self):
        self.assertRefused("bad_file", "", temper.Graph.parse, "graph of nothing")
        self.assertRefused("bad_file", "", temper.Graph.parse, str(temper.Graph.from_onnx(DIGITS)))  # without its blobs

    def test_an_engine_says_why(self):
        engine = temper.build(DIGITS, threads=1, timing_cache=None)
        seen = engine.inspect(layers=True, graph=True, why="conv2")
        self.assertEqual(seen["precision"], "fp32")
        self.assertIn("conv(", seen["graph"])
        self.assertTrue(any(step["node"] == "conv2" for part in seen["plans"][0]["segments"] for step in part["steps"]))
        self.assertTrue(seen["why"][0]["tactic"])
        self.assertIsNone(seen["plan_bytes"])
        self.assertRefused("usage", "no step|conv1", engine.inspect, why="conv")

    def test_messages_go_to_the_callback(self):
        seen = []
        temper.set_log_callback(lambda level, text: seen.append((level, text)))
        try:
            temper.build(DIGITS, measure=False)
        finally:
            temper.set_log_callback(None)
        self.assertIn("the device is open", " ".join(text for level, text in seen if level == "debug"))
        self.assertLessEqual({level for level, _ in seen}, {"debug", "info", "warning"})
        count = len(seen)
        temper.build(DIGITS, measure=False)
        self.assertEqual(len(seen), count)
        self.assertRefused("usage", "must be a function", temper.set_log_callback, 7)

    def test_what_the_log_callback_raises_is_shown_and_ends_nothing(self):
        def fail(level, text):
            raise KeyError("mine")

        shown, before = [], sys.unraisablehook
        sys.unraisablehook = lambda raised: shown.append((raised.exc_type, str(raised.object)))
        temper.set_log_callback(fail)
        try:
            temper.build(DIGITS, measure=False)
        finally:
            temper.set_log_callback(None)
            sys.unraisablehook = before
        self.assertIn((KeyError, "the callback of temper.set_log_callback"), shown)


if __name__ == "__main__":
    unittest.main()
