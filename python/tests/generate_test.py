# SPDX-License-Identifier: Apache-2.0
"""Tokens that a language model goes on with."""
import unittest

import numpy
from common import Case
from onnx import TensorProto, helper, numpy_helper

import temper

WORDS, WIDTH, HEADS, SIZE = 13, 8, 2, 4


def model():
    """One layer that reads past keys and values, in the words of exporters: all heads on an axis of their own, a mask of ones."""
    random = numpy.random.default_rng(3)
    weights = {"wte": (WORDS, WIDTH), "wpe": (64, WIDTH), "wq": (WIDTH, WIDTH), "wk": (WIDTH, WIDTH), "wv": (WIDTH, WIDTH), "wo": (WIDTH, WIDTH)}
    constants = [numpy_helper.from_array(random.standard_normal(shape).astype("float32"), name) for name, shape in weights.items()]
    constants += [numpy_helper.from_array(numpy.array(value, dtype), name) for name, value, dtype in (
        ("heads", [0, 0, HEADS, SIZE], "int64"), ("joined", [0, 0, WIDTH], "int64"), ("scale", 0.5, "float32"), ("low", -3.4028235e38, "float32"),
        ("zero", 0, "int64"), ("one", 1, "int64"), ("axes1", [1], "int64"), ("axes12", [1, 2], "int64"), ("two", 2, "int64"))]  # fmt: skip
    node, nodes = helper.make_node, []
    nodes += [node("Gather", ["wte", "input_ids"], ["words"]), node("Gather", ["wpe", "position_ids"], ["places"]), node("Add", ["words", "places"], ["x"])]
    for name in "qkv":
        nodes += [node("MatMul", ["x", "w" + name], [name + "1"]), node("Reshape", [name + "1", "heads"], [name + "2"]), node("Transpose", [name + "2"], [name + "3"], perm=[0, 2, 1, 3])]
    nodes += [node("Concat", ["past_key_values.0.key", "k3"], ["present.0.key"], axis=2), node("Concat", ["past_key_values.0.value", "v3"], ["present.0.value"], axis=2)]
    nodes += [node("Transpose", ["present.0.key"], ["kt"], perm=[0, 1, 3, 2]), node("MatMul", ["q3", "kt"], ["s0"]), node("Mul", ["s0", "scale"], ["s1"])]
    nodes += [node("Shape", ["past_key_values.0.key"], ["p1"], start=2, end=3), node("Squeeze", ["p1"], ["p"]), node("Shape", ["input_ids"], ["n1"], start=1, end=2), node("Squeeze", ["n1"], ["n"]),
              node("Add", ["p", "n"], ["all"]), node("Range", ["zero", "all", "one"], ["keys"]), node("Range", ["p", "all", "one"], ["rows"]), node("Unsqueeze", ["rows", "axes1"], ["rows1"]),
              node("LessOrEqual", ["keys", "rows1"], ["before"]), node("Cast", ["attention_mask"], ["there"], to=TensorProto.BOOL), node("Unsqueeze", ["there", "axes12"], ["there1"]),
              node("And", ["before", "there1"], ["seen"]), node("Where", ["seen", "s1", "low"], ["s2"]), node("Softmax", ["s2"], ["s3"], axis=-1)]  # fmt: skip
    nodes += [node("MatMul", ["s3", "present.0.value"], ["y0"]), node("Transpose", ["y0"], ["y1"], perm=[0, 2, 1, 3]), node("Reshape", ["y1", "joined"], ["y2"]), node("MatMul", ["y2", "wo"], ["y3"]),
              node("Add", ["x", "y3"], ["z"]), node("Transpose", ["wte"], ["out"]), node("MatMul", ["z", "out"], ["logits"])]  # fmt: skip
    port = helper.make_tensor_value_info
    past, present = ("batch", HEADS, "past", SIZE), ("batch", HEADS, "past + sequence", SIZE)
    inputs = [port("input_ids", TensorProto.INT64, ("batch", "sequence")), port("attention_mask", TensorProto.INT64, ("batch", "past + sequence")),
              port("position_ids", TensorProto.INT64, ("batch", "sequence")), port("past_key_values.0.key", TensorProto.FLOAT, past), port("past_key_values.0.value", TensorProto.FLOAT, past)]  # fmt: skip
    outputs = [port("logits", TensorProto.FLOAT, ("batch", "sequence", WORDS)), port("present.0.key", TensorProto.FLOAT, present), port("present.0.value", TensorProto.FLOAT, present)]
    graph = helper.make_graph(nodes, "tiny", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def greedy(ids, count):
    """By ONNX's own reference, which reads all anew for every token."""
    from onnx.reference import ReferenceEvaluator

    run, ids = ReferenceEvaluator(model()).run, list(ids)
    for _ in range(count):
        n, empty = len(ids), numpy.zeros((1, HEADS, 0, SIZE), "float32")
        feed = {"input_ids": numpy.array([ids]), "attention_mask": numpy.ones((1, n), "int64"), "position_ids": numpy.arange(n)[None], "past_key_values.0.key": empty, "past_key_values.0.value": empty}
        ids.append(int(run(["logits"], feed)[0][0, -1].argmax()))
    return ids[-count:]


class GenerateTest(Case):
    @classmethod
    def setUpClass(cls):
        cls.engine = temper.build(model(), cache=32, shapes={"input_ids": [(1, 1), (1, 4), (1, 8)]}, threads=1, measure=False, timing_cache=None)

    def test_a_fork_of_a_reader_goes_on_from_what_it_has_read(self):
        from temper import _temper

        reader = _temper.TokenReader(self.engine._native)
        reader.read([[1, 2, 3]])
        fork = reader.fork()
        self.assertEqual(fork.length(0), 3)
        token = reader.next(0)
        self.assertEqual(fork.next(0), token)
        fork.read([[5]])
        reader.read([[token]])
        again = reader.next(0)
        del reader
        self.assertEqual([token, again], greedy([1, 2, 3], 2))
        self.assertEqual(fork.next(0), greedy([1, 2, 3, 5], 1)[0])

    def test_it_goes_on_with_the_most_likely_tokens(self):
        generation = temper.generate(self.engine, [3, 1, 4, 1, 5, 9], max_tokens=10)
        self.assertEqual([token.id for token in generation], greedy([3, 1, 4, 1, 5, 9], 10))
        self.assertEqual((generation.why, len(generation.ids), generation.text), ("most", 10, ""))
        self.assertGreater(generation.first_ms, 0)
        self.assertGreater(generation.tokens_per_second, 0)

    def test_generations_do_not_disturb_each_other(self):
        one, two = temper.generate(self.engine, [3, 1], max_tokens=6), temper.generate(self.engine, [7], max_tokens=6)
        next(one)  # one is left in the middle
        self.assertEqual([token.id for token in two], greedy([7], 6))
        self.assertEqual([token.id for token in one], greedy([3, 1], 6)[1:])

    def test_one_that_is_left_in_the_middle_leaves_the_engine_usable(self):
        for _ in range(3):
            for token in temper.generate(self.engine, [3, 1, 4], max_tokens=10):
                if token.id == greedy([3, 1, 4], 2)[-1]:
                    break
        self.assertEqual([token.id for token in temper.generate(self.engine, [3, 1, 4], max_tokens=4)], greedy([3, 1, 4], 4))

    def test_the_same_seed_draws_the_same_tokens(self):
        drawn = [[t.id for t in temper.generate(self.engine, [3], max_tokens=20, temperature=3.0, top_k=10, top_p=0.95, seed=seed)] for seed in (1, 1, 2)]
        self.assertEqual(drawn[0], drawn[1])
        self.assertNotEqual(drawn[0], drawn[2])

    def test_it_stops_behind_a_token_and_where_the_cache_is_full(self):
        all_ = greedy([3, 1], 31)
        stopped = temper.generate(self.engine, [3, 1], stop_ids=[all_[3]])
        self.assertEqual([t.id for t in stopped], all_[: all_.index(all_[3]) + 1])
        self.assertEqual(stopped.why, "end")
        full = temper.generate(self.engine, [3, 1])
        self.assertEqual([t.id for t in full], all_)
        self.assertEqual(full.why, "room")

    def test_a_generation_whose_logits_are_no_numbers_ends_with_an_error(self):
        broken = model()
        for one in broken.graph.initializer:
            if one.name == "wpe":  # the logits behind position 3
                weights = numpy_helper.to_array(one).copy()
                weights[3] = numpy.nan
                one.CopyFrom(numpy_helper.from_array(weights, "wpe"))
        engine = temper.build(broken, cache=16, measure=False, timing_cache=None, threads=1)
        for temperature in (0.0, 1.0):
            generation = temper.generate(engine, [3, 1], max_tokens=4, temperature=temperature, top_k=1)
            said = []
            for _ in range(4):
                try:
                    said.append(next(generation).id)
                except temper.Error as error:
                    said.append(str(error)[-6:])
            self.assertEqual(said, [*greedy([3, 1], 2), "is NaN", "is NaN"])
            self.assertEqual(generation.ids, said[:2])

    def test_what_cannot_be_generated_is_refused(self):
        for words, arguments in (("outside of the vocabulary of 13", {"prompt": [13]}), ("empty", {"prompt": []}), ("do not fit", {"prompt": [1] * 33}), ("needs a tokenizer", {"prompt": "text"}),
                                 ("top-p", {"prompt": [1], "top_p": 2.0}), ("temperature", {"prompt": [1], "temperature": -1.0}), ("stop needs", {"prompt": [1], "stop": "x"}),
                                 ("cannot be changed", {"prompt": [1], "cache": 8}), ("is not there", {"prompt": "text", "tokenizer": "/nowhere"})):  # fmt: skip
            with self.subTest(words=words), self.assertRaisesRegex(temper.Error, words):
                temper.generate(self.engine, **arguments)
        for words, arguments in (("a token of the prompt is 1180591620717411303424; it must be 9223372036854775807 or less", {"prompt": [2**70]}), ("a token of the prompt is -1180.*or more", {"prompt": [-(2**70)]}),
                                 ("a token of stop_ids is 1180", {"stop_ids": [2**70]}), ("seed is 1180.*; it must be 18446744073709551615 or less", {"seed": 2**70}), ("max_tokens is 1180", {"max_tokens": 2**70}),
                                 ("top_k is 1180", {"top_k": 2**70}), ("the prompt is None, a NoneType; it must be a list of whole numbers", {"prompt": None}), ("stop_ids is 5, a int", {"stop_ids": 5}),
                                 ("stop is 5, a int", {"stop": 5}), ("a token of the prompt is array", {"prompt": numpy.ones((1, 2), "int64")}), ("the prompt is b'a'", {"prompt": b"a"})):  # fmt: skip
            with self.subTest(words=words), self.assertRaisesRegex(temper.UsageError, words):
                temper.generate(self.engine, **{"prompt": [1], **arguments})
        self.assertEqual(len(list(temper.generate(self.engine, [1], max_tokens=2, temperature=1.0, seed=2**64 - 1))), 2)
        with self.assertRaisesRegex(temper.Error, "is no plan: say with cache="):
            temper.generate(model(), [5], measure=False)
        with self.assertRaisesRegex(temper.Error, "together with cache"):
            temper.build(model(), cache=8, precision="best", timing_cache=None)


class GrowingTextTest(unittest.TestCase):
    """Without the library: a tokenizer whose tokens are bytes."""

    class Bytes:
        def decode(self, ids):
            return bytes(ids).decode("utf-8", "replace")

    def shown(self, text, stops=()):
        from temper._tokens import GrowingText
        growing, pieces = GrowingText(self.Bytes(), list(stops)), []
        for byte in text.encode():
            pieces.append(growing.add(byte))
            if growing.stopped:
                return pieces
        return [*pieces, growing.rest()]

    def test_letters_come_whole(self):
        self.assertEqual(self.shown("aé"), ["a", "", "é", ""])

    def test_a_stop_is_not_shown_and_what_could_begin_one_waits(self):
        self.assertEqual(self.shown("ab##cd", ["##"]), ["a", "b", "", ""])
        self.assertEqual(self.shown("a#b", ["##"]), ["a", "", "#b", ""])
        self.assertEqual("".join(self.shown("ab#", ["##"])), "ab#")


if __name__ == "__main__":
    unittest.main()
