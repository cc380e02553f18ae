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


def grouped(symbols=("batch_size", "sequence_length", "past_sequence_length", "total_sequence_length"), packed=True, window=-1):
    """Two layers as the model builder of onnxruntime-genai writes them: GroupQueryAttention turns its rows, lengths come from attention_mask, and all positions are a symbol of their own."""
    random, node, nodes, inputs, outputs = numpy.random.default_rng(3), helper.make_node, [], [], []
    heads, groups, size, width = 4, 2, 16, 32
    batch, sequence, past, all_ = symbols
    angles = numpy.arange(64)[:, None] / 10000 ** (numpy.arange(size // 2) * 2 / size)
    weights = {"embed": random.standard_normal((WORDS, width)), "head": random.standard_normal((width, WORDS)), "ones": numpy.ones(width), "cos_cache": numpy.cos(angles), "sin_cache": numpy.sin(angles)}
    nodes += [node("ReduceSum", ["attention_mask", "one"], ["sum"], keepdims=1), node("Sub", ["sum", "one"], ["last"]), node("Cast", ["last"], ["seqlens_k"], to=TensorProto.INT32),
              node("Shape", ["attention_mask"], ["shape"]), node("Gather", ["shape", "index"], ["all"], axis=0), node("Cast", ["all"], ["total"], to=TensorProto.INT32), node("Gather", ["embed", "input_ids"], ["x0"])]  # fmt: skip
    for i in range(2):
        weights[f"qkv{i}"], weights[f"o{i}"] = random.standard_normal((width, (heads + 2 * groups) * size)) / 4, random.standard_normal((heads * size, width)) / 4
        caches = [f"past_key_values.{i}.key", f"past_key_values.{i}.value"]
        nodes += [node("SimplifiedLayerNormalization", [f"x{i}", "ones"], [f"h{i}"], epsilon=1e-5), node("MatMul", [f"h{i}", f"qkv{i}"], [f"p{i}"])]
        if not packed:
            nodes.append(node("Split", [f"p{i}", "parts"], [f"q{i}", f"k{i}", f"v{i}"], axis=-1))
        rows = [f"p{i}", "", ""] if packed else [f"q{i}", f"k{i}", f"v{i}"]
        nodes += [node("GroupQueryAttention", [*rows, *caches, "seqlens_k", "total", "cos_cache", "sin_cache"], [f"a{i}", f"present.{i}.key", f"present.{i}.value"], domain="com.microsoft", num_heads=heads, kv_num_heads=groups, do_rotary=1, scale=0.25, local_window_size=window),
                  node("MatMul", [f"a{i}", f"o{i}"], [f"b{i}"]), node("Add", [f"x{i}", f"b{i}"], [f"x{i + 1}"])]  # fmt: skip
        for name in ("key", "value"):
            inputs.append(helper.make_tensor_value_info(f"past_key_values.{i}.{name}", TensorProto.FLOAT, [batch, groups, past, size]))
            outputs.append(helper.make_tensor_value_info(f"present.{i}.{name}", TensorProto.FLOAT, [batch, groups, all_, size]))
    nodes.append(node("MatMul", ["x2", "head"], ["logits"]))
    constants = [numpy_helper.from_array(value.astype("float32"), name) for name, value in weights.items()] + [numpy_helper.from_array(numpy.array(value), name) for name, value in (("one", [1]), ("index", 1), ("parts", [heads * size, groups * size, groups * size]))]
    inputs = [helper.make_tensor_value_info("input_ids", TensorProto.INT64, [batch, sequence]), helper.make_tensor_value_info("attention_mask", TensorProto.INT64, [batch, all_]), *inputs]
    graph = helper.make_graph(nodes, "grouped", inputs, [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [batch, sequence, WORDS]), *outputs], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)], ir_version=9)


def greedy_by_onnxruntime(of, ids, count):
    import onnxruntime

    session, ids = onnxruntime.InferenceSession(of.SerializeToString(), providers=["CPUExecutionProvider"]), list(ids)
    for _ in range(count):
        feed = {"input_ids": numpy.array([ids]), "attention_mask": numpy.ones((1, len(ids)), "int64")}
        feed |= {one.name: numpy.zeros((1, 2, 0, 16), "float32") for one in session.get_inputs() if one.name.startswith("past")}
        ids.append(int(session.run(["logits"], feed)[0][0, -1].argmax()))
    return ids[-count:]


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
            generation = temper.generate(engine, [3, 1], max_tokens=4, temperature=temperature, top_k=1 if temperature else 0)
            said = []
            for _ in range(4):
                try:
                    said.append(next(generation).id)
                except temper.Error as error:
                    said.append(str(error)[-6:])
            self.assertEqual(said, [*greedy([3, 1], 2), "is NaN", "is NaN"])
            self.assertEqual(generation.ids, said[:2])

    def test_models_of_group_query_attention_generate_what_onnxruntime_does(self):
        prompt = [3, 1, 4, 1, 5, 9, 2]
        for options in ({}, {"packed": False}, {"symbols": ("B", "S", "P", "P + S")}, {"window": 4}):
            with self.subTest(**options):
                made = grouped(**options)
                generation = temper.generate(made, prompt, max_tokens=12, cache=32, shapes={"input_ids": [(1, 1), (1, 4), (1, 8)]}, measure=False, timing_cache=None, threads=1)
                self.assertEqual([token.id for token in generation], greedy_by_onnxruntime(made, prompt, 12))
        with self.assertRaisesRegex(temper.Error, "a cache of 65 positions is longer than the model: 'cos_cache' has 64 rows.*cache=64"):
            temper.build(grouped(), cache=65, measure=False, timing_cache=None)

    def test_several_prompts_of_different_lengths_go_on_together(self):
        prompts = [[3, 1, 4, 1, 5, 9], [7], [2, 2]]
        for seed in (None, 4):
            options = {} if seed is None else {"temperature": 3.0, "top_k": 9, "seed": seed}
            generations = temper.generate(model(), prompts, max_tokens=8, cache=32, measure=False, timing_cache=None, threads=1, **options)
            steps = list(generations)
            self.assertEqual(len(steps), 8)
            for at, row in enumerate(generations.rows):
                self.assertEqual((row.prompt_ids, row.why, row.ids), (tuple(prompts[at]), "most", [step[at].id for step in steps]))
                if seed is None:
                    self.assertEqual(row.ids, greedy(prompts[at], 8))
            self.assertGreater(generations.tokens_per_second, 0)
        ends = temper.generate(model(), [[3, 1], [7]], max_tokens=4, stop_ids=[greedy([7], 1)[0]], cache=32, measure=False, timing_cache=None)
        next(ends)
        self.assertEqual((ends.rows[1].why, ends.rows[1].ids), ("end", greedy([7], 1)))
        for step in ends:
            self.assertIsNone(step[1])
        with self.assertRaisesRegex(temper.Error, "the engine has a batch of 1, and there are 2 prompts"):
            temper.generate(self.engine, [[1], [2]])

    def test_a_fork_of_a_generation_goes_on_by_itself(self):
        generation = temper.generate(self.engine, [3, 1, 4], max_tokens=8)
        first = [next(generation).id, next(generation).id]
        fork = generation.fork()
        self.assertEqual((fork.ids, fork.prompt_ids), (first, (3, 1, 4)))
        self.assertEqual([token.id for token in generation], greedy([3, 1, 4], 8)[2:])
        self.assertEqual((fork.ids, fork.why), (first, ""))
        self.assertEqual([token.id for token in fork], greedy([3, 1, 4], 8)[2:])

    def test_one_prompt_is_read_once_for_answers_of_several_seeds(self):
        options = {"max_tokens": 12, "temperature": 4.0, "top_p": 0.95}
        read = temper.generate(self.engine, [3, 1, 4, 1, 5], **options)
        for seed in (1, 2, 3):
            alone = [token.id for token in temper.generate(self.engine, [3, 1, 4, 1, 5], seed=seed, **options)]
            self.assertEqual([token.id for token in read.fork(seed=seed)], alone)
        next(read), next(read)
        one, two = read.fork(seed=8), read.fork(seed=9)
        self.assertEqual(one.ids, two.ids)
        self.assertNotEqual([token.id for token in one], [token.id for token in two])
        with self.assertRaisesRegex(temper.UsageError, "seed is -1"):
            read.fork(seed=-1)

    def test_what_cannot_be_generated_is_refused(self):
        for words, arguments in (("outside of the vocabulary of 13", {"prompt": [13]}), ("empty", {"prompt": []}), ("a prompt of 33 tokens does not fit into a cache of 32 positions", {"prompt": [1] * 33}), ("needs a tokenizer", {"prompt": "text"}),
                                 ("top-p", {"prompt": [1], "top_p": 2.0, "temperature": 1.0}), ("draw tokens; give temperature", {"prompt": [1], "top_k": 4}), ("temperature", {"prompt": [1], "temperature": -1.0}), ("stop needs", {"prompt": [1], "stop": "x"}),
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
