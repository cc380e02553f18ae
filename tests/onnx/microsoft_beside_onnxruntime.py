# SPDX-License-Identifier: Apache-2.0
"""usage: microsoft_beside_onnxruntime.py TEMPER

Ops of com.microsoft that are ONNX's under another name, in another layout or in an older form give the same numbers in Temper
as in ONNX Runtime.
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from onnxruntime_session import session, unsaturated  # noqa: E402

random = np.random.default_rng(7)


def floats(*shape):
    return random.standard_normal(shape).astype(np.float32)


def packed(name, shape):
    """Numbers of 4 bits."""
    return helper.make_tensor(name, TensorProto.UINT4, shape, random.integers(0, 256, int(np.prod(shape)) // 2).astype(np.uint8).tobytes(), raw=True)


def check(folder, op, inputs, constants=(), outputs=(TensorProto.FLOAT,), steps=0, **attributes):
    """`outputs`: their types, None for one that is not there; `steps`: by how many integers may differ."""
    names = list(inputs)
    wanted = [f"y{i}" if kind else "" for i, kind in enumerate(outputs)]
    node = helper.make_node(op, [name if inputs[name] is not None else "" for name in names], wanted, name="n", domain="com.microsoft", **attributes)
    given = {name: data for name, data in inputs.items() if data is not None and name not in constants}
    fixed = [inputs[name] if isinstance(inputs[name], onnx.TensorProto) else numpy_helper.from_array(inputs[name], name) for name in constants]
    kind_of = lambda data: TensorProto.STRING if data.dtype.kind == "U" else helper.np_dtype_to_tensor_dtype(data.dtype)
    ports = [helper.make_tensor_value_info(name, kind_of(data), data.shape) for name, data in given.items()]
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    answer = [helper.make_tensor_value_info(name, kind, None) for name, kind in zip(wanted, outputs) if kind]
    make = lambda: helper.make_model(helper.make_graph([node], "g", ports, answer, fixed), opset_imports=opsets, ir_version=10)
    theirs = session(make().SerializeToString()).run(None, {name: data.astype(object) if data.dtype.kind == "U" else data for name, data in given.items()})
    answer = [helper.make_tensor_value_info(name, kind, [f"{name}_{i}" for i in range(data.ndim)]) for name, kind, data in zip([w for w in wanted if w], [k for k in outputs if k], theirs)]
    onnx.save(make(), folder / "m.onnx")
    shutil.rmtree(folder / "out", ignore_errors=True)
    command = [sys.argv[1], "run", str(folder / "m.onnx"), "--output-dir", str(folder / "out"), "--quiet", "--no-measure"]
    for name, data in given.items():
        np.save(folder / f"{name}.npy", data)
        command += ["--input", f"{name}={folder / name}.npy"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{op} {attributes}: {done.stderr}"
    for port, want in zip(answer, theirs):
        got = np.load(folder / "out" / f"{port.name}.npy")
        if want.dtype == object:
            assert got.shape == want.shape and (got.astype(object) == want).all(), f"{op} {attributes}: {got}, not {want}"
            continue
        assert got.shape == want.shape and got.dtype == want.dtype, (op, port.name, got.shape, want.shape, got.dtype, want.dtype)
        if want.dtype.kind == "f":
            np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5, err_msg=f"{op} {attributes}")
        else:
            apart = np.abs(got.astype(np.int64) - want.astype(np.int64))
            assert apart.max(initial=0) <= (1 if steps else 0) and (apart != 0).sum() <= steps, f"{op} {attributes}: {(apart != 0).sum()} differ, by {apart.max()}"
    print(f"{op} {attributes}: as ONNX Runtime")


def products(folder):
    for op in ("FusedMatMul", "TransposeMatMul"):
        check(folder, op, {"a": floats(2, 4, 3), "b": floats(2, 4, 5)}, transA=1, alpha=0.5)
    for a, b, attributes in (((3, 2, 4), (2, 4, 5), dict(transBatchA=1)), ((2, 3, 4), (4, 2, 5), dict(transBatchB=1)), ((4, 2, 3), (2, 4, 5), dict(transBatchA=1, transA=1)),
                             ((2, 3, 4), (5, 2, 4), dict(transBatchB=1, transB=1)), ((3, 2, 6, 4), (2, 6, 4, 5), dict(transBatchA=1, alpha=2.0)),
                             ((2, 3, 4), (4,), {}), ((4,), (2, 4, 5), dict(alpha=3.0)), ((4,), (4,), dict(transA=1, transB=1))):  # fmt: skip
        check(folder, "FusedMatMul", {"a": floats(*a), "b": floats(*b)}, **attributes)
    for name, parameters in (("Elu", dict(activation_alpha=0.7)), ("LeakyRelu", dict(activation_alpha=0.3))):
        check(folder, "FusedGemm", {"a": floats(3, 4), "b": floats(5, 4), "c": floats(5)}, activation=name, transB=1, **parameters)
    blocks = {"a": floats(3, 64), "w": random.integers(0, 256, (6, 2, 16)).astype(np.uint8), "s": floats(12), "z": None}
    for groups in (np.arange(64) // 32, random.integers(0, 2, 64)):
        check(folder, "MatMulNBits", {**blocks, "g": groups.astype(np.int32)}, ("w", "s", "g"), K=64, N=6, bits=4, block_size=32)


def attention(folder):
    """Keys and values of a cross attention, with their heads on an axis of their own."""
    given = {"q": floats(2, 5, 16), "k": floats(2, 4, 7, 4), "v": floats(2, 4, 7, 4)}
    check(folder, "MultiHeadAttention", given, num_heads=4)
    check(folder, "MultiHeadAttention", {**given, "b": floats(48)}, ("b",), num_heads=4, scale=0.3)


def channels_last(folder):
    scale, zero = lambda value: np.array(value, np.float32), np.array(120, np.uint8)
    image = random.integers(0, 256, (2, 9, 8, 6)).astype(np.uint8)
    of_x, of_y = {"xs": scale(0.05131), "xz": zero}, {"ys": scale(0.03173), "yz": np.array(10, np.uint8)}
    fixed, byte = (*of_x, *of_y), (TensorProto.UINT8,)
    pool = dict(kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1])
    check(folder, "QLinearAveragePool", {"x": image, **of_x, **of_y}, fixed, byte, 5, channels_last=1, **pool)
    check(folder, "QLinearGlobalAveragePool", {"x": image, **of_x, **of_y}, fixed, byte, 1, channels_last=1)
    check(folder, "NhwcMaxPool", {"x": image}, (), byte, **pool)
    weights = {"w": unsaturated(random.integers(-128, 128, (4, 3, 3, 2)).astype(np.int8)), "ws": scale(0.00731), "wz": np.array(0, np.int8)}
    bias = {"b": random.integers(-999, 999, 4).astype(np.int32)}
    of_y["ys"] = scale(0.211)
    for groups in (1, 2):
        weights["w"] = unsaturated(random.integers(-128, 128, (4, 6 // groups, 3, 2)).astype(np.int8))
        check(folder, "QLinearConv", {"x": image, **of_x, **weights, **of_y, **bias}, (*of_x, *weights, *of_y, *bias), byte, 5, channels_last=1, group=groups, pads=[1, 0, 1, 1])


def means(folder):
    """Of scales that put many means in the middle between two steps: each device rounds them alike."""
    for op, pool in [("QLinearAveragePool", dict(kernel_shape=[3, 3], pads=[1, 1, 1, 1])), ("QLinearAveragePool", dict(kernel_shape=[2, 3], count_include_pad=1, pads=[1, 0, 0, 1])), ("QLinearGlobalAveragePool", {})]:
        image = random.integers(0, 256, (2, 8, 12, 13)).astype(np.uint8)
        of_x, of_y = {"xs": np.array(0.02, np.float32), "xz": np.array(128, np.uint8)}, {"ys": np.array(0.03, np.float32), "yz": np.array(100, np.uint8)}
        given = {"x": image, **of_x, **of_y}
        check(folder, op, given, (*of_x, *of_y), (TensorProto.UINT8,), 20, **pool)
        answer = np.load(folder / "out" / "y0.npy")
        command = [sys.argv[1], "run", str(folder / "m.onnx"), "--output-dir", str(folder / "out"), "--quiet", "--no-measure", "--device", "reference", "--input", f"x={folder / 'x.npy'}"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        np.testing.assert_array_equal(answer, np.load(folder / "out" / "y0.npy"), err_msg=f"{op} {pool}")


def early(folder):
    integers = (TensorProto.INT64,)
    check(folder, "ExpandDims", {"x": floats(3, 4), "axis": np.array(1, np.int32)}, ("axis",))
    check(folder, "ExpandDims", {"x": floats(3, 4), "axis": np.array(-1, np.int32)}, ("axis",))
    check(folder, "Pad", {"x": floats(2, 3), "p": np.array([0, 1, 1, 0]), "v": np.array([2], np.float32)}, ("p", "v"))
    check(folder, "Pad", {"x": floats(4, 3), "p": np.array([2, 1, 1, 0])}, ("p",), mode="reflect")
    check(folder, "Range", {"a": np.array(0, np.float32), "b": np.array(5, np.float32), "c": np.array(1.5, np.float32)}, "abc")
    check(folder, "Range", {"a": np.array([2]), "b": np.array([7])}, "ab", integers)
    check(folder, "Trilu", {"x": floats(2, 4, 5)})
    check(folder, "Trilu", {"x": floats(4, 5), "k": np.array(-1)}, ("k",), upper=0)
    check(folder, "Unique", {"x": np.array([3, 1, 3, 2, 1, 3], np.float32)}, (), (TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT64))
    for mode, padding in (("bilinear", "zeros"), ("bilinear", "border"), ("nearest", "reflection"), ("bicubic", "zeros"), ("bicubic", "reflection")):
        for align in (0, 1):
            check(folder, "GridSample", {"x": floats(1, 2, 4, 5), "g": floats(1, 3, 4, 2)}, mode=mode, padding_mode=padding, align_corners=align)
    for metric in ("euclidean", "sqeuclidean"):
        check(folder, "CDist", {"a": floats(6, 3), "b": floats(5, 3)}, metric=metric)
    table = {"w": packed("w", [9, 64]), "i": np.array([[0, 8], [3, 3]]), "s": floats(9, 2), "z": packed("z", [9, 2])}
    check(folder, "GatherBlockQuantized", table, "wsz", block_size=32)
    check(folder, "GatherBlockQuantized", {"w": packed("w", [32, 6]), "i": np.array([5, 0, 1]), "s": floats(1, 6)}, "ws", block_size=32, gather_axis=1, quantize_axis=0)


def words(folder):
    texts = np.array(["ab cd  ef", "a höß,x", "", "  ", " lead", "\U0001d518 b", "one,two.three four"])
    usual = dict(mark=0, mincharnum=1, pad_value="#")
    for more in (dict(separators=[" "]), dict(separators=[" "], mark=1), dict(separators=[" ", ",", "\\."]), dict(separators=["[ ,]+"], mincharnum=2), dict(separators=["b c", "d"]),
                 dict(separators=["e|ee"]), dict(separators=[""]), dict(separators=[""], mark=1), dict(tokenexp="[a-z]+"), dict(tokenexp="[a-z]*"), dict(tokenexp="."),
                 dict(tokenexp="a|ab|b c"), dict(tokenexp="h.", mincharnum=2), dict(tokenexp="h.", mincharnum=3), dict(tokenexp="Q", mark=1), dict(separators=[" "], tokenexp="a")):
        check(folder, "Tokenizer", {"x": texts}, outputs=(TensorProto.STRING,), **usual | more)
    check(folder, "Tokenizer", {"x": texts.reshape(-1, 1)}, outputs=(TensorProto.STRING,), **usual, separators=["\\s+"])


def inverses(folder):
    for shape in ((1, 1), (3, 3), (2, 3, 5, 5), (12, 12), (0, 2, 2)):
        a = floats(*shape) + np.eye(shape[-1], dtype=np.float32) * 0.1
        check(folder, "Inverse", {"x": a})
        check(folder, "Inverse", {"x": a.astype(np.float64)}, outputs=(TensorProto.DOUBLE,))
    check(folder, "Inverse", {"x": np.array([[0, 2, 0], [0, 0, 3], [4, 0, 0]], np.float32)})


with tempfile.TemporaryDirectory() as name:
    for part in (products, attention, channels_last, means, early, words, inverses):
        part(pathlib.Path(name))
