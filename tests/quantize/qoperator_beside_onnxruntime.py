# SPDX-License-Identifier: Apache-2.0
"""usage: qoperator_beside_onnxruntime.py TEMPER

Models in ONNX Runtime's QOperator format (QLinearConv and the 8-bit ops of com.microsoft) give the same numbers in Temper: each
op alone within one step of its scale, where a rounding falls the other way, and equal in 99 %; and digits_cnn as ONNX
Runtime's own quantizer writes it the same classes.
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parents[1] / "python"))
from digits_data import load_digits  # noqa: E402
TYPES = {np.uint8: onnx.TensorProto.UINT8, np.int8: onnx.TensorProto.INT8}


def answers(path, inputs, folder):
    """(Temper's, ONNX Runtime's)"""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    theirs = session.run(None, inputs)[0]
    shutil.rmtree(folder / "out", ignore_errors=True)
    command = [sys.argv[1], "run", str(path), "--output-dir", str(folder / "out"), "--quiet", "--no-measure"]
    for name, value in inputs.items():
        np.save(folder / f"{name}.npy", value)
        command += ["--input", f"{name}={folder / name}.npy"]
    subprocess.run([*command, "--batch", str(len(next(iter(inputs.values()))))], check=True, stdout=subprocess.DEVNULL)
    return np.load(next((folder / "out").glob("*.npy"))), theirs


def check_op(op, dtype, inputs, scalars, folder, weights=(), output=None, definition=None, **attributes):
    """`scalars`: the node's inputs in order: a name of `inputs` or `weights`, or (scale | zero point)."""
    constants, names = [numpy_helper.from_array(value, name) for name, value in weights], []
    for i, item in enumerate(scalars):
        if isinstance(item, str):
            names.append(item)
            continue
        names.append(f"constant_{i}")
        constants.append(numpy_helper.from_array(np.array(item, np.float32 if isinstance(item, float) else dtype), names[-1]))
    node = helper.make_node(op, names, ["y"], name="n", domain="com.microsoft", **attributes)
    value = lambda name, shape, type_: helper.make_tensor_value_info(name, type_, shape)
    graph = helper.make_graph([node], "g", [value(name, data.shape, TYPES[dtype]) for name, data in inputs.items()],
                              [value("y", [f"d{i}" for i in range(next(iter(inputs.values())).ndim)], onnx.TensorProto.FLOAT if output else TYPES[dtype])], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)], ir_version=8)
    path = folder / "op.onnx"
    onnx.save(model, path)
    ours, theirs = answers(path, inputs, folder)
    assert ours.dtype == theirs.dtype and ours.shape == theirs.shape, (op, ours.dtype, ours.shape, theirs.dtype, theirs.shape)
    if definition is not None:
        assert np.abs(theirs.astype(int) - definition.astype(int)).max() <= 1, f"{op}: the definition is misread"
        theirs = definition
    assert len(np.unique(theirs)) > 20, f"{op}: its answers say nothing"
    apart = np.abs(ours.astype(np.float64) - theirs.astype(np.float64))
    equal = float((apart == 0).mean()) if not output else float((apart <= 1e-5 * np.abs(theirs).max()).mean())
    print(f"{op} {np.dtype(dtype).name}: equal in {100 * equal:.2f} %, largest difference {apart.max():g}")
    assert equal >= 0.99 and (output or apart.max() <= 1), f"{op} answers differently"


def check_ops(folder):
    for dtype, zero in ((np.uint8, 120), (np.int8, -3)):
        random = np.random.default_rng(11)
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        numbers = lambda *shape: random.integers(low, high, shape, dtype, endpoint=True)
        a, b, image = numbers(4, 6, 5), numbers(4, 6, 5), numbers(4, 8, 9, 7)
        # Scales that are no multiples of each other: no result lies in the middle between two steps.
        x = [0.05131, zero]
        check_op("QLinearAdd", dtype, {"a": a, "b": b}, ["a", 0.05131, zero, "b", 0.03173, 7, 0.06719, 2], folder)
        check_op("QLinearAdd", dtype, {"a": a, "b": numbers(4, 1, 5)}, ["a", 0.05131, zero, "b", 0.03173, 7, 0.06719, 2], folder)
        check_op("QLinearMul", dtype, {"a": a, "b": b}, ["a", 0.05131, zero, "b", 0.03173, 7, 0.1537, 2], folder)
        check_op("QLinearSigmoid", dtype, {"a": a}, ["a", *x, 0.004, 0], folder)
        check_op("QLinearLeakyRelu", dtype, {"a": a}, ["a", *x, 0.04127, 10], folder, alpha=0.2)
        # ONNX Runtime computes this one in integers, a step away from the definition in a quarter of the numbers.
        powers = np.exp((a.astype(np.float64) - zero) * np.float32(0.02039))
        softmax = np.clip(np.rint(powers / powers.sum(-1, keepdims=True) / np.float32(0.004)) + low, low, high).astype(dtype)
        check_op("QLinearSoftmax", dtype, {"a": a}, ["a", 0.02039, zero, 0.004, low], folder, definition=softmax, axis=-1, opset=13)
        check_op("QLinearGlobalAveragePool", dtype, {"a": numbers(4, 64, 3, 3)}, ["a", *x, 0.02039, 10], folder, channels_last=0)
        check_op("QLinearAveragePool", dtype, {"a": image}, ["a", *x, 0.03173, 10], folder, kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1])
        check_op("QLinearConcat", dtype, {"a": a, "b": numbers(4, 2, 5)}, [0.06719, 5, "a", *x, "b", 0.03173, 9], folder, axis=1)
        weights = [("w", numbers(12, 10)), ("bias", random.integers(-2000, 2000, 10).astype(np.int32))]
        gemm = {"a": numbers(8, 12)}
        check_op("QGemm", dtype, gemm, ["a", *x, "w", 0.02039, 3, "bias", 0.2113, 1], folder, weights)
        weights[0] = ("w", numbers(10, 12))
        check_op("QGemm", dtype, gemm, ["a", *x, "w", 0.02039, 3, "bias"], folder, weights, output="float", transB=1)


class Digits(CalibrationDataReader):
    def __init__(self, name, pictures):
        self.rows = iter([{name: picture[None]} for picture in pictures])

    def get_next(self):
        return next(self.rows, None)


def check_model(folder):
    digits = (load_digits()[0] / 16).astype(np.float32)[:, None]
    order = np.random.default_rng(3).permutation(len(digits))
    model = HERE.parents[1] / "models" / "digits_cnn.onnx"
    name = onnx.load(model).graph.input[0].name
    for activations, weights in ((QuantType.QUInt8, QuantType.QInt8), (QuantType.QInt8, QuantType.QInt8)):
        path = folder / "digits.onnx"
        quantize_static(str(model), str(path), Digits(name, digits[order[:200]]), quant_format=QuantFormat.QOperator, activation_type=activations, weight_type=weights, per_channel=True)
        ops = sorted({node.op_type for node in onnx.load(path).graph.node})
        assert "QLinearConv" in ops, ops
        ours, theirs = answers(path, {name: digits[order[200:1200]]}, folder)
        same = float((ours.argmax(1) == theirs.argmax(1)).mean())
        print(f"digits_cnn as {activations}, of {', '.join(ops)}: argmax equal on {100 * same:.2f} % of {len(ours)}")
        assert same >= 0.995


with tempfile.TemporaryDirectory(prefix="temper_qoperator_") as name:
    check_ops(pathlib.Path(name))
    check_model(pathlib.Path(name))
