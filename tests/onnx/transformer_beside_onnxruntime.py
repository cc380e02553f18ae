# SPDX-License-Identifier: Apache-2.0
"""usage: transformer_beside_onnxruntime.py TEMPER

The ops of com.microsoft that ONNX Runtime's optimizer makes of transformers, and ONNX's Attention, give the same numbers
in Temper; forms that Temper does not compute are refused by name.
"""
import math
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import helper, numpy_helper

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from onnxruntime_session import session, unsaturated  # noqa: E402

TYPES = {np.uint8: onnx.TensorProto.UINT8, np.int8: onnx.TensorProto.INT8, np.float32: onnx.TensorProto.FLOAT, np.int32: onnx.TensorProto.INT32, np.int64: onnx.TensorProto.INT64, np.bool_: onnx.TensorProto.BOOL}
random = np.random.default_rng(5)


def floats(*shape):
    return random.standard_normal(shape).astype(np.float32)


def rank_of(output, inputs):
    """Of the output of that name, as the checks below name them."""
    return 1 if output == "count" else 5 if output == "present" else 4 if output.startswith("present") or next(iter(inputs.values())).ndim == 4 else 3


def model_of(op, inputs, constants, outputs, folder, domain, attributes):
    node = helper.make_node(op, list(inputs), outputs, name="n", domain=domain, **attributes)
    value = lambda name, data: helper.make_tensor_value_info(name, TYPES[data.dtype.type], data.shape)
    given = {name: data for name, data in inputs.items() if data is not None and name not in constants}
    node.input[:] = [name if data is not None else "" for name, data in inputs.items()]
    graph = helper.make_graph([node], "g", [value(name, data) for name, data in given.items()],
                              [helper.make_tensor_value_info(name, onnx.TensorProto.INT32 if name == "count" else onnx.TensorProto.FLOAT,
                                                             [f"{name}{i}" for i in range(rank_of(name, inputs))]) for name in outputs if name],
                              [numpy_helper.from_array(inputs[name], name) for name in constants])
    opsets = [helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)]
    path = folder / "op.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=11), path)
    return path, given


def temper(path, given, folder):
    shutil.rmtree(folder / "out", ignore_errors=True)
    command = [sys.argv[1], "run", str(path), "--output-dir", str(folder / "out"), "--quiet", "--no-measure"]
    for name, data in given.items():
        np.save(folder / f"{name}.npy", data)
        command += ["--input", f"{name}={folder / name}.npy"]
    return subprocess.run(command, capture_output=True, text=True)


def check(op, folder, inputs, constants=(), outputs=("y",), domain="com.microsoft", tolerance=2e-5, **attributes):
    path, given = model_of(op, inputs, constants, list(outputs), folder, domain, attributes)
    peer = session(path)
    wanted = dict(zip([o.name for o in peer.get_outputs()], peer.run(None, given)))
    done = temper(path, given, folder)
    assert done.returncode == 0, f"{op}: {done.stderr}"
    for name, theirs in wanted.items():
        ours = np.load(folder / "out" / f"{name}.npy")
        assert ours.shape == theirs.shape and ours.dtype == theirs.dtype, (op, name, ours.shape, theirs.shape, ours.dtype, theirs.dtype)
        apart = np.abs(ours.astype(np.float64) - theirs.astype(np.float64)).max()
        assert apart <= tolerance * max(1, np.abs(theirs).max()), f"{op} {attributes}: {name} differs by {apart}"
    print(f"{op} {' '.join(f'{k}={v}' for k, v in attributes.items())}: as ONNX Runtime")


def refused(op, word, folder, inputs, constants=(), outputs=("y",), **attributes):
    path, given = model_of(op, inputs, constants, list(outputs), folder, "com.microsoft", attributes)
    done = temper(path, given, folder)
    assert done.returncode == 4 and word in done.stderr, f"{op}: {done.returncode} {done.stderr}"
    print(f"{op} with {word}: refused")


def activations(folder):
    x, bias = floats(3, 5, 8), floats(8)
    check("BiasGelu", folder, {"x": x, "b": bias}, ("b",))
    check("FastGelu", folder, {"x": x})
    check("FastGelu", folder, {"x": x, "b": bias}, ("b",))
    check("QuickGelu", folder, {"x": x})
    check("QuickGelu", folder, {"x": x}, alpha=1.25)
    check("Gelu", folder, {"x": x})


def normalizations(folder):
    x, skip, scale, shift, bias = floats(2, 5, 8), floats(2, 5, 8), floats(8), floats(8), floats(8)
    named = {"x": x, "skip": skip, "gamma": scale, "beta": shift}
    fixed = ("gamma", "beta")
    check("SkipLayerNormalization", folder, named, fixed, epsilon=1e-5)
    check("SkipLayerNormalization", folder, {**named, "bias": bias}, (*fixed, "bias"), ("y", "", "", "sum"))
    check("SkipLayerNormalization", folder, {**named, "skip": floats(1, 5, 8), "beta": None}, ("gamma",))
    check("SkipSimplifiedLayerNormalization", folder, {"x": x, "skip": skip, "gamma": scale, "bias": bias}, ("gamma", "bias"), epsilon=1e-6)
    refused("SkipLayerNormalization", "mean or variance", folder, named, fixed, ("y", "mean"))
    words, segments = random.integers(0, 11, (2, 6), np.int32), random.integers(0, 2, (2, 6), np.int32)
    mask = np.array([[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 0]], np.int32)
    tables = {"words": floats(11, 8), "positions": floats(9, 8), "kinds": floats(2, 8), "gamma": scale, "beta": shift}
    check("EmbedLayerNormalization", folder, {"ids": words, "segments": segments, **tables, "mask": mask}, tuple(tables), ("y", "count", "sum"))
    check("EmbedLayerNormalization", folder, {"ids": words, "segments": None, **{**tables, "kinds": None}},
          ("words", "positions", "gamma", "beta"), ("y", "count"), epsilon=1e-5)
    places = random.integers(0, 9, (2, 6), np.int32)
    check("EmbedLayerNormalization", folder, {"ids": words, "segments": segments, **tables, "mask": None, "places": places}, tuple(tables), ("y", "count"))


def rotary(folder):
    positions = np.array([[0, 1, 2, 3, 4], [3, 4, 5, 6, 7]])
    cos, sin = np.cos(floats(9, 4)), np.sin(floats(9, 4))
    tables = {"cos": cos, "sin": sin}
    for interleaved in (0, 1):
        check("RotaryEmbedding", folder, {"x": floats(2, 5, 24), "p": positions, **tables}, ("cos", "sin"), interleaved=interleaved)
        check("RotaryEmbedding", folder, {"x": floats(2, 3, 5, 8), "p": positions, **tables}, ("cos", "sin"), interleaved=interleaved)
    check("RotaryEmbedding", folder, {"x": floats(2, 5, 24), "p": np.array([2]), **tables}, ("cos", "sin"))
    check("RotaryEmbedding", folder, {"x": floats(2, 5, 36), "p": positions, **tables}, ("cos", "sin"), num_heads=3, rotary_embedding_dim=8)


def few_bits(folder):
    for bits, k, n, size in ((4, 64, 6, 16), (4, 40, 5, 32), (8, 48, 3, 16), (2, 64, 4, 32), (4, 131, 50, 64), (4, 300, 17, 128), (4, 515, 9, 256), (8, 75, 33, 32), (8, 300, 8, 256)):
        blocks = -(-k // size)
        packed = lambda *shape: random.integers(0, 256, shape).astype(np.uint8)
        given = {"a": floats(2, 3, k), "b": packed(n, blocks, size * bits // 8), "s": floats(n, blocks)}
        fixed, attributes = ("b", "s", "z", "bias"), dict(K=k, N=n, bits=bits, block_size=size)
        check("MatMulNBits", folder, given, fixed[:2], **attributes)
        zeros = packed(n, -(-blocks * bits // 8))
        check("MatMulNBits", folder, {**given, "z": zeros}, fixed[:3], **attributes)
        if bits == 4:
            check("MatMulNBits", folder, {**given, "z": zeros, "g": None, "bias": floats(n)}, fixed, **attributes)
            check("MatMulNBits", folder, {**given, "z": floats(n, blocks) + 8}, fixed[:3], **attributes)
    refused("MatMulNBits", "is not a constant", folder, given, ("s",), **attributes)


def quantized_attention(folder):
    x, w = random.integers(0, 256, (2, 5, 12)).astype(np.uint8), unsaturated(random.integers(-127, 128, (12, 48)).astype(np.int8))
    one = lambda value: np.array(value, np.float32)
    given = {"x": x, "w": w, "b": floats(48), "sx": one(0.02), "sw": one(0.015)}
    fixed = ("w", "b", "sx", "sw")
    check("QAttention", folder, given, fixed, num_heads=4)
    keys = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
    zeros = {"zx": np.array(131, np.uint8), "zw": np.array(0, np.int8)}
    check("QAttention", folder, {**given, "m": keys, **zeros}, fixed, num_heads=4, unidirectional=1)
    columns = {**given, "sw": np.abs(floats(48)) * 0.02, "m": np.array([3, 5], np.int32), **zeros}
    check("QAttention", folder, columns, fixed, num_heads=2)
    check("QAttention", folder, {**given, "m": None, **zeros, "past": floats(2, 2, 4, 3, 4)}, fixed, ("y", "present"), num_heads=4)


def attentions(folder):
    x, weights, bias = floats(2, 5, 12), floats(12, 48), floats(48)
    fixed = {"x": x, "w": weights, "b": bias}
    of = lambda **more: (folder, {**fixed, **more}, ("w", "b"))
    lengths, keys = np.array([3, 5], np.int32), np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
    square = random.integers(0, 2, (2, 5, 5)).astype(np.int32)
    check("Attention", *of(), num_heads=4)
    check("Attention", *of(), num_heads=4, scale=0.3, unidirectional=1)
    check("Attention", *of(m=lengths), num_heads=2)
    check("Attention", *of(m=keys), num_heads=4)
    check("Attention", *of(m=keys), num_heads=4, unidirectional=1, mask_filter_value=-100.0)
    check("Attention", *of(m=square), num_heads=4)
    check("Attention", *of(m=None, past=None, extra=floats(2, 4, 5, 5)), num_heads=4)
    check("Attention", folder, {**fixed, "w": floats(12, 40), "b": floats(40)}, ("w", "b"), num_heads=2, qkv_hidden_sizes=[16, 16, 8])
    check("Attention", *of(m=None, past=floats(2, 2, 4, 3, 4)), outputs=("y", "present"), num_heads=4, unidirectional=1)
    longer = np.array([[1] * 6 + [0, 0], [0] + [1] * 7], np.int32)
    check("Attention", *of(m=longer, past=floats(2, 2, 4, 3, 4)), outputs=("y", "present"), num_heads=4)
    refused("Attention", "do_rotary", *of(), num_heads=4, do_rotary=1)

    q, k, v = floats(2, 5, 16), floats(2, 7, 16), floats(2, 7, 16)
    qkv = {"q": q, "k": k, "v": v}
    valid = np.array([[1, 1, 1, 1, 0, 0, 0], [1] * 7], np.int32)
    check("MultiHeadAttention", folder, qkv, num_heads=4)
    check("MultiHeadAttention", folder, {**qkv, "b": bias}, ("b",), num_heads=2, scale=0.2)
    check("MultiHeadAttention", folder, {**qkv, "b": None, "m": valid}, num_heads=4)
    check("MultiHeadAttention", folder, {**qkv, "b": None, "m": valid, "extra": floats(1, 4, 5, 7)}, num_heads=4)
    check("MultiHeadAttention", folder, {"q": q, "k": floats(2, 5, 16), "v": floats(2, 5, 16)}, num_heads=4, unidirectional=1)
    past = {"b": None, "m": None, "extra": None, "pk": floats(2, 4, 3, 4), "pv": floats(2, 4, 3, 4)}
    check("MultiHeadAttention", folder, {**qkv, **past}, outputs=("y", "present_k", "present_v"), num_heads=4)
    check("MultiHeadAttention", folder, {"q": q, "k": floats(2, 5, 16), "v": floats(2, 5, 16), **past, "m": longer},
          outputs=("y", "present_k", "present_v"), num_heads=4, unidirectional=1)
    refused("MultiHeadAttention", "packed", folder, {"q": floats(2, 5, 4, 3, 4)}, num_heads=4)

    q, k, v = floats(2, 5, 32), floats(2, 5, 16), floats(2, 5, 16)
    group = {"q": q, "k": k, "v": v, "pk": None, "pv": None, "seqlens": np.array([2, 4], np.int32), "total": np.array(5, np.int32)}
    check("GroupQueryAttention", folder, group, ("total",), num_heads=4, kv_num_heads=2)
    check("GroupQueryAttention", folder, group, ("total",), num_heads=4, kv_num_heads=2, softcap=3.0, scale=0.2)
    refused("GroupQueryAttention", "total_sequence_length", folder, {**group, "total": np.array(6, np.int32)}, ("total",), num_heads=4, kv_num_heads=2)


def cached(folder):
    """GroupQueryAttention behind keys and values of which each row of the batch has its own number."""
    heads, outputs = dict(num_heads=4, kv_num_heads=2), ("y", "present_k", "present_v")
    tables = {"cos": np.cos(floats(16, 16)), "sin": np.sin(floats(16, 16))}
    less = {"cos": np.cos(floats(16, 8)), "sin": np.sin(floats(16, 8))}

    def step(batch, rows, place, lengths, total, packed=False, **more):
        """`lengths` are those of the rows with the new ones; behind them the past holds zeros, as ONNX Runtime writes where buffers are not shared."""
        given = {"q": floats(batch, rows, 256 if packed else 128), "k": None if packed else floats(batch, rows, 64), "v": None if packed else floats(batch, rows, 64)}
        for name in ("pk", "pv"):
            given[name] = floats(batch, 2, place, 32)
            for row, length in enumerate(lengths):
                given[name][row, :, max(0, length - rows) :] = 0
        return {**given, "seqlens": np.array(lengths, np.int32) - 1, "total": np.array(total, np.int32), **{name: more.get(name) for name in ("cos", "sin", "places", "bias", "sinks")}}

    for known in (("total",), ()):  # the largest number of keys, as a constant and as data
        check("GroupQueryAttention", folder, step(2, 1, 6, [7, 7], 7), known, outputs, **heads)
        check("GroupQueryAttention", folder, step(2, 1, 6, [3, 7], 7), known, outputs, **heads)
        check("GroupQueryAttention", folder, step(2, 1, 12, [3, 7], 7, **tables), known, outputs, do_rotary=1, **heads)
        check("GroupQueryAttention", folder, step(2, 1, 12, [12, 7], 12, **less), known, outputs, do_rotary=1, rotary_interleaved=1, **heads)
        check("GroupQueryAttention", folder, step(2, 1, 12, [3, 7], 7, packed=True, **tables), known, outputs, do_rotary=1, **heads)
        check("GroupQueryAttention", folder, step(2, 1, 12, [3, 9], 9), known, outputs, local_window_size=4, softcap=3.0, scale=0.2, **heads)
        check("GroupQueryAttention", folder, step(2, 1, 12, [3, 9], 9), known, outputs, smooth_softmax=1, **heads)
        check("GroupQueryAttention", folder, step(2, 1, 12, [3, 9], 9, sinks=floats(4)), known, outputs, local_window_size=4, **heads)
        check("GroupQueryAttention", folder, step(2, 1, 8, [3, 9], 9, bias=floats(2, 4, 1, 9)), known, outputs, **heads)
        check("GroupQueryAttention", folder, step(2, 1, 8, [3, 9], 9, bias=floats(1, 1, 1, 9), sinks=floats(4)), known, outputs, **heads)
        check("GroupQueryAttention", folder, step(2, 1, 8, [3, 9], 9, **tables, places=np.array([[4], [1]])), known, outputs, do_rotary=1, **heads)
        # More rows than one behind others, and a first prompt whose rows are of several lengths.
        check("GroupQueryAttention", folder, step(1, 3, 10, [8], 8, **tables), known, outputs, do_rotary=1, **heads)
        check("GroupQueryAttention", folder, step(1, 3, 10, [8], 8, sinks=floats(4)), known, outputs, local_window_size=2, **heads)
        check("GroupQueryAttention", folder, step(2, 5, 10, [5, 5], 5, **tables), known, outputs, do_rotary=1, **heads)
        check("GroupQueryAttention", folder, step(2, 5, 0, [5, 3], 5, **tables), known, outputs, do_rotary=1, **heads)
        check("GroupQueryAttention", folder, step(2, 5, 7, [5, 3], 5), known, outputs, **heads)
    check("GroupQueryAttention", folder, {**step(2, 5, 0, [5, 5], 5, **tables), "pk": None, "pv": None}, ("total",), outputs, do_rotary=1, local_window_size=2, **heads)
    path, given = model_of("GroupQueryAttention", step(2, 1, 6, [3, 8], 8), (), list(outputs), folder, "com.microsoft", heads)
    done = temper(path, given, folder)
    assert done.returncode == 2 and "do not fit into a cache" in done.stderr, (done.returncode, done.stderr)


def as_exported(folder):
    """As the exporters of ONNX Runtime's generation write it: the lengths come from the attention_mask, and one model serves prompts and steps."""
    node, value, floating, integer = helper.make_node, helper.make_tensor_value_info, onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
    nodes = [node("ReduceSum", ["mask", "one"], ["sum"], keepdims=0), node("Sub", ["sum", "one"], ["last"]), node("Cast", ["last"], ["seqlens"], to=onnx.TensorProto.INT32),
             node("Shape", ["mask"], ["shape"]), node("Gather", ["shape", "index"], ["all"]), node("Cast", ["all"], ["total"], to=onnx.TensorProto.INT32),
             node("SimplifiedLayerNormalization", ["x", "scale"], ["h"], epsilon=1e-6), node("MatMul", ["h", "w"], ["qkv"]),
             node("GroupQueryAttention", ["qkv", "", "", "pk", "pv", "seqlens", "total", "cos", "sin"], ["y", "present_k", "present_v"], domain="com.microsoft", num_heads=4, kv_num_heads=2, do_rotary=1)]
    constants = {"one": np.array([1]), "index": np.array(1), "scale": floats(16), "w": floats(16, 256), "cos": np.cos(floats(16, 16)), "sin": np.sin(floats(16, 16))}
    present = ["b", 2, "all", 32]
    graph = helper.make_graph(nodes, "g", [value("x", floating, ["b", "s", 16]), value("mask", integer, ["b", "all"]), value("pk", floating, ["b", 2, "past", 32]), value("pv", floating, ["b", 2, "past", 32])],
                              [value("y", floating, ["b", "s", 128]), value("present_k", floating, present), value("present_v", floating, present)],
                              [numpy_helper.from_array(data, name) for name, data in constants.items()])
    path = folder / "exported.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)], ir_version=9), path)
    peer = session(path)
    past = {"pk": floats(1, 2, 0, 32), "pv": floats(1, 2, 0, 32)}
    held = 0
    for rows in (4, 1, 1, 3, 1):
        held += rows
        given = {"x": floats(1, rows, 16), "mask": np.ones((1, held), np.int64), **past}
        wanted = dict(zip(("y", "present_k", "present_v"), peer.run(None, given)))
        done = temper(path, given, folder)
        assert done.returncode == 0, done.stderr
        for name, theirs in wanted.items():
            np.testing.assert_allclose(np.load(folder / "out" / f"{name}.npy"), theirs, rtol=2e-5, atol=2e-5, err_msg=f"{rows} rows: {name}")
        past = {"pk": wanted["present_k"], "pv": wanted["present_v"]}
    print("as exported: as ONNX Runtime")


def standard(folder):
    q, k, v = floats(2, 5, 32), floats(2, 7, 16), floats(2, 7, 24)
    heads = {"q_num_heads": 4, "kv_num_heads": 2}
    check("Attention", folder, {"q": q, "k": k, "v": v}, domain="", **heads)
    check("Attention", folder, {"q": q, "k": k, "v": v, "m": floats(5, 7)}, domain="", scale=0.4, softcap=2.0, **heads)
    check("Attention", folder, {"q": q, "k": k, "v": v}, domain="", is_causal=1, **heads)
    past = {"q": q, "k": k[:, :5], "v": v[:, :5], "m": None, "pk": floats(2, 2, 3, 8), "pv": floats(2, 2, 3, 12)}
    check("Attention", folder, past, outputs=("y", "present_k", "present_v"), domain="", is_causal=1, **heads)
    check("Attention", folder, {"q": floats(2, 4, 5, 8), "k": floats(2, 4, 5, 8), "v": floats(2, 4, 5, 8), "m": np.tril(np.ones((5, 5), bool))}, domain="")


def joined(folder):
    """A product or a group normalization, and what stands beside it."""
    image, kernel, bias = floats(2, 4, 7, 6), floats(6, 2, 3, 3), floats(6)
    weights, window = ("w", "b"), dict(group=2, pads=[1, 1, 1, 1], strides=[2, 1], kernel_shape=[3, 3])
    for name, parameters in (("Relu", []), ("LeakyRelu", [0.3]), ("Clip", [-0.5, 0.5]), ("HardSigmoid", [0.3, 0.4]), ("Tanh", []), ("Sigmoid", [])):
        check("FusedConv", folder, {"x": image, "w": kernel, "b": bias}, weights, activation=name, **({"activation_params": parameters} if parameters else {}), **window)
    check("FusedConv", folder, {"x": image, "w": kernel, "b": bias, "z": floats(2, 6, 4, 6)}, weights, activation="Relu", **window)
    refused("FusedConv", "Mystery", folder, {"x": image, "w": kernel}, ("w",), activation="Mystery", **window)
    a, b = floats(2, 5, 8), floats(2, 6, 8)
    check("FusedMatMul", folder, {"a": a, "b": b}, transB=1, alpha=0.25)
    check("FusedMatMul", folder, {"a": floats(2, 8, 5), "b": b}, transA=1, transB=1)


def without_kernels_there(folder):
    """Ops for which ONNX Runtime has kernels for GPUs alone, beside their definition."""
    def beside(op, want, inputs, constants, outputs=("y",), **attributes):
        path, given = model_of(op, inputs, constants, list(outputs), folder, "com.microsoft", attributes)
        done = temper(path, given, folder)
        assert done.returncode == 0, f"{op}: {done.stderr}"
        for name, theirs in zip(outputs, want):
            np.testing.assert_allclose(np.load(folder / "out" / f"{name}.npy"), theirs, rtol=2e-5, atol=2e-5, err_msg=f"{op} {attributes}")
        print(f"{op} {attributes}: as defined")

    erf = np.vectorize(math.erf)
    x, bias = floats(2, 5, 8), floats(8)
    left, right = np.split(x + bias, 2, -1)
    beside("BiasSplitGelu", [left * right * 0.5 * (1 + erf(right / np.sqrt(2)))], {"x": x, "b": bias}, ("b",))
    skip = floats(2, 5, 8)
    beside("BiasAdd", [x + bias + skip], {"x": x, "b": bias, "s": skip}, ("b",))

    def normalized(image, groups, gamma, beta, activation, epsilon):  # channels last
        n, h, w, c = image.shape
        cut = image.reshape(n, h, w, groups, c // groups).astype(np.float64)
        y = (cut - cut.mean((1, 2, 4), keepdims=True)) / np.sqrt(cut.var((1, 2, 4), keepdims=True) + epsilon)
        y = y.reshape(image.shape) * gamma + beta
        return y / (1 + np.exp(-y)) if activation else y

    image, gamma, beta = floats(2, 3, 4, 6), floats(6), floats(6)
    swap = lambda v: v.transpose(0, 3, 1, 2).copy()
    for activation, groups in ((0, 3), (1, 2), (1, 6)):
        attributes = dict(groups=groups, activation=activation, epsilon=1e-4)
        want = normalized(image, groups, gamma, beta, activation, 1e-4)
        beside("GroupNorm", [want], {"x": image, "g": gamma, "b": beta}, ("g", "b"), **attributes)
        beside("GroupNorm", [swap(want)], {"x": swap(image), "g": gamma, "b": beta}, ("g", "b"), channels_last=0, **attributes)
        for shape in ((2, 3, 4, 6), (2, 1, 1, 6), (2, 6)):
            more = floats(*shape)
            total = image + (more if len(shape) == 4 else more[:, None, None]) + bias[:6]
            beside("SkipGroupNorm", [normalized(total, groups, gamma, beta, activation, 1e-4), total],
                   {"x": image, "g": gamma, "b": beta, "s": more, "c": bias[:6]}, ("g", "b", "c"), ("y", "sum"), **attributes)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        activations(folder)
        normalizations(folder)
        rotary(folder)
        attentions(folder)
        cached(folder)
        as_exported(folder)
        cached(folder)
        as_exported(folder)
        standard(folder)
        few_bits(folder)
        quantized_attention(folder)
        joined(folder)
        without_kernels_there(folder)


main()
