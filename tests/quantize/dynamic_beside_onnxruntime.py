# SPDX-License-Identifier: Apache-2.0
"""usage: dynamic_beside_onnxruntime.py TEMPER [CASES]

The ops of com.microsoft that quantize floats as they come, and the 8-bit ops around them, give the same numbers in Temper on
seeded random cases. Both sides round floats to integers; where their floats differ in the last bit one may round the other way,
and that is one step of the integers: few numbers may differ by that. Forms that Temper does not compute are refused by name.
"""
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from onnxruntime_session import session  # noqa: E402

random = np.random.default_rng(11)
onnxruntime.set_default_logger_severity(3)
FOUND = {}


def model_of(op, inputs, constants, outputs, domain="com.microsoft", **attributes):
    """One node of these inputs (None: absent); `constants` are initializers."""
    node = helper.make_node(op, [name if data is not None else "" for name, data in inputs.items()], list(outputs), name="n", domain=domain, **attributes)
    value = lambda name, data: helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(data.dtype), data.shape)
    given = {name: data for name, data in inputs.items() if data is not None and name not in constants}
    graph = helper.make_graph([node], "g", [value(*item) for item in given.items()],
                              [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs.items()],
                              [numpy_helper.from_array(inputs[name], name) for name in constants if inputs[name] is not None])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)], ir_version=8), given


def temper(folder, given, *options):
    command = [sys.argv[1], "run", folder / "m.onnx", "--output-dir", folder / "out", "--force", "--quiet", "--no-measure",
               "--threads", "1", *options]
    for name, data in given.items():
        np.save(folder / f"{name}.npy", data)
        command += ["--input", f"{name}={folder / name}.npy"]
    return subprocess.run([*map(str, command)], capture_output=True, text=True)


def check(op, inputs, constants, outputs, step, folder, **attributes):
    """`step`: what one number that is rounded the other way may change; of the largest output."""
    model, given = model_of(op, inputs, constants, outputs, **attributes)
    want = session(model.SerializeToString(), threads=1).run(None, given)
    for output, right in zip(model.graph.output, want):
        output.CopyFrom(helper.make_tensor_value_info(output.name, output.type.tensor_type.elem_type, right.shape))
    onnx.save(model, folder / "m.onnx")
    whole = [f"--shapes={name}={'x'.join(map(str, data.shape))}" for name, data in given.items() if data.ndim]
    ran = temper(folder, given, *whole)
    assert ran.returncode == 0, f"{op} {attributes}: {ran.stderr}"
    for name, right in zip(outputs, want):
        got = np.load(folder / "out" / f"{name}.npy")
        assert got.shape == right.shape and got.dtype == right.dtype, (op, name, got.shape, right.shape)
        far = np.abs(got.astype(np.float64) - right.astype(np.float64)) / max(1e-30, np.abs(right.astype(np.float64)).max(initial=0))
        assert far.max(initial=0) <= step, f"{op} {attributes} {name}: {far.max()} of the largest"
        count = FOUND.setdefault(op, [0, 0, 0])
        count[0] += 1
        count[1] += right.size
        count[2] += int((far > 1e-5).sum())


def floats(*shape):
    return (random.standard_normal(shape) * 10 ** random.uniform(-2, 2)).astype(np.float32)


def numbers(dtype, *shape):
    limits = np.iinfo(dtype)
    return random.integers(limits.min, limits.max + 1, shape).astype(dtype)


def some(*choices):
    return choices[random.integers(len(choices))]


def scales(*shape):
    return random.uniform(0.001, 0.1, shape).astype(np.float32)


def case(folder):
    m, k, n = (int(random.integers(1, 40)) for _ in range(3))
    batch = some((), (), (2,), (3, 2))
    of_b = some(np.uint8, np.int8)
    vector = some((), (n,))
    zeros = some(None, numbers(of_b, *vector) if of_b == np.uint8 else np.zeros(vector, of_b))
    bias = some(None, floats(n))
    check("DynamicQuantizeMatMul", {"a": floats(*batch, m, k), "b": numbers(of_b, k, n), "scale": scales(*vector), "zero": zeros, "bias": bias},
          ["b", "scale", "zero", "bias"], {"y": onnx.TensorProto.FLOAT}, 0.02, folder)
    of_a = np.uint8  # ONNX Runtime has no products of two signed ones
    check("MatMulIntegerToFloat", {"a": numbers(of_a, *batch, m, k), "b": numbers(of_b, k, n), "a_scale": scales(), "b_scale": scales(*vector),
                                   "a_zero": some(None, numbers(of_a)), "b_zero": zeros, "bias": bias},
          some(["b", "b_scale", "b_zero"], ["b", "a_scale", "b_scale", "a_zero", "b_zero", "bias"]), {"y": onnx.TensorProto.FLOAT}, 2e-5, folder)
    x = numbers(of_b, 2, 5, 4, 3)
    scale = lambda: np.float32(random.uniform(0.01, 0.1))
    point = lambda: numbers(of_b)
    check("QLinearWhere", {"c": random.integers(0, 2, (2, 5, 1, 3)).astype(bool), "x": x, "s": np.array(scale()), "z": point(), "w": numbers(of_b, 5, 4, 3),
                           "v": np.array(scale()), "o": point(), "t": np.array(scale()), "u": point()}, ["s", "z", "v", "o", "t", "u"],
          {"y": helper.np_dtype_to_tensor_dtype(np.dtype(of_b))}, 1.01, folder)
    # More zero points than one, and paddings that stand for a zero point that only the run knows.
    w_zero = some(None, numbers(of_b)) if of_b == np.uint8 else None
    check("ConvInteger", {"x": numbers(np.uint8, 1, 3, 7, 6), "w": numbers(of_b, 4, 3, 3, 2), "z": numbers(np.uint8), "v": w_zero}, ["w", "v"],
          {"y": onnx.TensorProto.INT32}, 0, folder, domain="", pads=some([0, 0, 0, 0], [1, 2, 0, 1]), strides=some([1, 1], [2, 1]))
    check("MatMulInteger", {"a": numbers(np.uint8, *batch, m, k), "b": numbers(of_b, k, n), "z": numbers(np.uint8), "v": zeros}, ["b", "v"],
          {"y": onnx.TensorProto.INT32}, 0, folder, domain="")
    lstm_case(folder)


def lstm_case(folder):
    steps, batch, inputs, hidden = int(random.integers(1, 8)), int(random.integers(1, 4)), int(random.integers(1, 20)), int(random.integers(1, 24))
    direction = some("forward", "reverse", "bidirectional")
    d = 2 if direction == "bidirectional" else 1
    dtype = some(np.uint8, np.int8)
    vector = some((d,), (d, 4 * hidden))
    zero = lambda: np.zeros(vector, dtype) if dtype == np.int8 else np.full(vector, random.integers(100, 156), dtype)
    state = lambda: some(None, random.uniform(-1, 1, (d, batch, hidden)).astype(np.float32))
    small = lambda: (scales(*vector) / 8).astype(np.float32)
    given = {"x": random.standard_normal((steps, batch, inputs)).astype(np.float32), "w": numbers(dtype, d, inputs, 4 * hidden),
             "r": numbers(dtype, d, hidden, 4 * hidden), "b": some(None, random.standard_normal((d, 8 * hidden)).astype(np.float32)),
             "lengths": some(None, random.integers(1, steps + 1, batch).astype(np.int32)),
             "h": state(), "c": state(), "p": some(None, random.standard_normal((d, 3 * hidden)).astype(np.float32)), "ws": small(), "wz": zero(), "rs": small(), "rz": zero()}
    check("DynamicQuantizeLSTM", given, ["w", "r", "b", "p", "ws", "wz", "rs", "rz"],
          {"y": onnx.TensorProto.FLOAT, "last_h": onnx.TensorProto.FLOAT, "last_c": onnx.TensorProto.FLOAT}, 0.05, folder,
          direction=direction, hidden_size=hidden)


def refused(folder, words, op, inputs, constants, outputs, **attributes):
    model, given = model_of(op, inputs, constants, outputs, **attributes)
    for output in model.graph.output:
        output.CopyFrom(helper.make_tensor_value_info(output.name, output.type.tensor_type.elem_type, [f"d{i}" for i in range(4)]))
    onnx.save(model, folder / "m.onnx")
    ran = temper(folder, given)
    assert ran.returncode == 4 and words in ran.stderr, f"{op} {attributes}: {ran.returncode} {ran.stderr}"


def main():
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        for _ in range(int(sys.argv[2]) if len(sys.argv) > 2 else 6):
            case(folder)
        weights = {"x": floats(3, 1, 2), "w": numbers(np.int8, 1, 2, 8), "r": numbers(np.int8, 1, 2, 8), "b": None,
                   "lengths": None, "h": None, "c": None, "p": None, "ws": scales(1), "wz": np.zeros(1, np.int8),
                   "rs": scales(1), "rz": np.zeros(1, np.int8)}
        fixed = ["w", "r", "ws", "wz", "rs", "rz"]
        y = {"y": onnx.TensorProto.FLOAT}
        refused(folder, "clip is not supported", "DynamicQuantizeLSTM", weights, fixed, y, hidden_size=2, clip=1.0)
        refused(folder, "activations other than", "DynamicQuantizeLSTM", weights, fixed, y, hidden_size=2, activations=["Relu", "Tanh", "Tanh"])
        refused(folder, "that are no constants", "DynamicQuantizeLSTM", weights, fixed[1:], y, hidden_size=2)
    for op, (outputs, values, other) in FOUND.items():
        print(f"{op}: {outputs} outputs, {values} numbers, {other} rounded the other way")
        assert other <= 0.02 * values, op


main()
