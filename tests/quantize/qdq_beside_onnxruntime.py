# SPDX-License-Identifier: Apache-2.0
"""usage: qdq_beside_onnxruntime.py TEMPER

The Q/DQ model that `temper build --precision int8 --qdq` writes, run by ONNX Runtime: the same classes as Temper's INT8 plan
on at least 99.5 % of the samples, and every scale the one of the ranges, bit for bit. Real digits through digits_cnn, by
ONNX Runtime as it comes; seeded pictures through two generated networks, by ONNX Runtime without its own rewriting: that
changes the answers of an untrained network, whose classes lie close together, in 2 % of the samples. Products with biases
around reshapes: ONNX Runtime as it comes refuses them in opset 21.
"""
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE.parent), str(HERE.parents[1] / "python")]
from digits_data import load_digits  # noqa: E402
from onnxruntime_session import session  # noqa: E402


def temper(*command):
    subprocess.run([sys.argv[1], *map(str, command)], check=True, stdout=subprocess.DEVNULL)


def bits(value):
    return struct.pack(">f", value).hex()


def activation_scales(model):
    """Scale of each QuantizeLinear on a value that is not constant, by the name of the value."""
    constants = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    return {node.input[0]: constants[node.input[1]] for node in model.graph.node if node.op_type == "QuantizeLinear" and node.input[0] not in constants}


def check(name, model, calibration, evaluation, folder, method, level=onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL):
    np.save(folder / "calibration.npy", calibration)
    np.save(folder / "evaluation.npy", evaluation)
    shape = "x".join(map(str, evaluation.shape))
    temper("calibrate", model, "--data", folder / "calibration.npy", "--method", method, "-o", folder / "ranges.json", "--cache", folder / "trt.cache", "--quiet")
    temper("build", model, "-o", folder / "int8.plan", "--precision", "int8", "--calibration", folder / "ranges.json", "--shapes", shape, "--no-measure",
           "--qdq", folder / "qdq.onnx", "--quiet")
    temper("run", folder / "int8.plan", "--input", folder / "evaluation.npy", "--batch", len(evaluation), "--output-dir", folder / "out", "--quiet")
    ours = np.load(max((folder / "out").glob("*.npy"), key=lambda file: file.stat().st_mtime_ns))
    peer = session(folder / "qdq.onnx", level=level)
    theirs = peer.run(None, {peer.get_inputs()[0].name: evaluation})[0]
    same = float((ours.argmax(1) == theirs.argmax(1)).mean())
    apart = float(np.abs(ours - theirs).max() / np.abs(theirs).max())
    print(f"{name} {method}: argmax equal on {100 * same:.2f} % of {len(evaluation)}, largest difference {apart:.2e} of the largest output")
    assert same >= 0.995, "the exported model answers differently"
    model_qdq = onnx.load(folder / "qdq.onnx")
    onnx.checker.check_model(model_qdq, full_check=True)
    ranges = json.loads((folder / "ranges.json").read_text())["values"]
    known = {value["scale"][0] for value in ranges.values()}  # [bits, number]
    scales = activation_scales(model_qdq)
    assert len(scales) > 3
    foreign = [value for value, scale in scales.items() if bits(scale) not in known]
    assert not foreign, f"scales that are none of the ranges': {foreign}"
    # The other road: cache -> ranges -> Q/DQ.
    temper("calibrate", model, "--from-cache", folder / "trt.cache", "-o", folder / "from_cache.json", "--quiet")
    temper("build", model, "-o", folder / "again.plan", "--precision", "int8", "--calibration", folder / "from_cache.json", "--shapes", shape, "--no-measure",
           "--qdq", folder / "again.onnx", "--quiet")
    again = activation_scales(onnx.load(folder / "again.onnx"))
    assert {k: bits(v) for k, v in again.items()} == {k: bits(v) for k, v in scales.items()}, "a scale changed on the way through the cache"


def lenet(path):
    """The network of TensorRT's sampleINT8, by the names that its documented cache has; its weights do not matter here."""
    random = np.random.default_rng(7)
    weights = {"conv1_w": (20, 1, 5, 5), "conv2_w": (50, 20, 5, 5), "ip1_w": (800, 500), "ip2_w": (500, 10)}
    constants = [numpy_helper.from_array((random.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32), name) for name, shape in weights.items()]
    node, pool = onnx.helper.make_node, dict(kernel_shape=[2, 2], strides=[2, 2])
    nodes = [node("Conv", ["data", "conv1_w"], ["conv1"]), node("MaxPool", ["conv1"], ["pool1"], **pool), node("Conv", ["pool1", "conv2_w"], ["conv2"]),
             node("MaxPool", ["conv2"], ["pool2"], **pool), node("Flatten", ["pool2"], ["flat"]), node("MatMul", ["flat", "ip1_w"], ["ip1_sum"]),
             node("Relu", ["ip1_sum"], ["ip1"]), node("MatMul", ["ip1", "ip2_w"], ["ip2"]), node("Softmax", ["ip2"], ["prob"])]
    value = lambda name, shape: onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
    graph = onnx.helper.make_graph(nodes, "lenet", [value("data", ["n", 1, 28, 28])], [value("prob", ["n", 10])], constants)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), path)


def check_documented_cache(folder):
    """Read, examined, to Q/DQ and back: the bytes of the file and the bits of each scale stay."""
    cache = HERE / "fixtures" / "trt7000_entropy2_mnist_sampleINT8_readme.cache"
    model = folder / "lenet.onnx"
    lenet(model)
    temper("calibrate", model, "--lint", cache, "--quiet")
    temper("calibrate", model, "--from-cache", cache, "-o", folder / "ranges.json", "--cache", folder / "back.cache", "--quiet")
    assert (folder / "back.cache").read_bytes() == cache.read_bytes(), "the cache came back with other bytes"
    temper("build", model, "-o", folder / "int8.plan", "--precision", "int8", "--calibration", folder / "ranges.json", "--shapes", "1x1x28x28", "--no-measure",
           "--qdq", folder / "qdq.onnx", "--quiet")
    documented = dict(line.split(": ") for line in cache.read_text().splitlines()[1:])
    scales = {name: bits(scale) for name, scale in activation_scales(onnx.load(folder / "qdq.onnx")).items()}
    documented["flat"] = documented["pool2"]  # a tensor that the cache does not name, moved from one that it names
    assert set(scales) == {"data", "conv1", "pool1", "conv2", "pool2", "flat", "ip1"}, sorted(scales)
    wrong = {name: scale for name, scale in scales.items() if scale != documented[name]}
    assert not wrong, f"scales that are not the cache's: {wrong}"
    print(f"the documented cache: {len(scales)} scales in the Q/DQ model, bit for bit: {', '.join(sorted(scales))}")


def heads(path):
    """Products with biases on both sides of reshapes, as transformers have them around their heads."""
    random = np.random.default_rng(9)
    constants = [numpy_helper.from_array((random.standard_normal(shape) / 6).astype(np.float32), name)
                 for name, shape in {"w1": (32, 32), "b1": (32,), "w2": (32, 10), "b2": (10,)}.items()]
    constants += [numpy_helper.from_array(np.array(shape, np.int64), name) for name, shape in {"split": (0, 0, 4, 8), "joined": (0, 0, 32)}.items()]
    node = onnx.helper.make_node
    nodes = [node("MatMul", ["x", "w1"], ["p1"]), node("Add", ["p1", "b1"], ["y1"]), node("Reshape", ["y1", "split"], ["heads"]),
             node("Transpose", ["heads"], ["turned"], perm=[0, 1, 3, 2]), node("Reshape", ["turned", "joined"], ["flat"]),
             node("MatMul", ["flat", "w2"], ["p2"]), node("Add", ["p2", "b2"], ["y2"]), node("ReduceMean", ["y2"], ["y"], axes=[1], keepdims=0)]
    value = lambda name, shape: onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
    graph = onnx.helper.make_graph(nodes, "heads", [value("x", ["n", 6, 32])], [value("y", ["n", 10])], constants)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), path)


def main():
    with tempfile.TemporaryDirectory(prefix="temper_qdq_") as name:
        folder = pathlib.Path(name)
        check_documented_cache(folder)
        digits = (load_digits()[0] / 16).astype(np.float32)[:, None]
        order = np.random.default_rng(3).permutation(len(digits))
        for method in ("entropy", "percentile", "mse", "minmax"):
            check("digits_cnn", HERE.parents[1] / "models" / "digits_cnn.onnx", digits[order[:400]], digits[order[400:1400]], folder, method)
        random = np.random.default_rng(5)
        for zoo in ("cifar_cnn", "resnet18"):
            temper("zoo", zoo, "-o", folder / f"{zoo}.onnx", "--quiet")
            side = onnx.load(folder / f"{zoo}.onnx").graph.input[0].type.tensor_type.shape.dim[2].dim_value
            pictures = random.standard_normal((40 if side > 100 else 240, 3, side, side)).astype(np.float32)
            half = len(pictures) // 2
            check(zoo, folder / f"{zoo}.onnx", pictures[:half], pictures[half:], folder, "minmax", onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL)
        heads(folder / "heads.onnx")
        rows = np.random.default_rng(5).standard_normal((600, 6, 32)).astype(np.float32)
        check("heads", folder / "heads.onnx", rows[:200], rows[200:], folder, "minmax")


main()
