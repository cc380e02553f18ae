# SPDX-License-Identifier: Apache-2.0
"""usage: relu_heavy_nets.py TEMPER [MODEL.onnx=3x48x192...]

Networks whose layers are mostly relu, with what trained ones have: channels that are dead (constant), a few that are much louder
than the rest, values that are nearly all zero. Calibrated as it comes, INT8 answers within 1 dB of the best method's signal to
noise, on samples that nobody calibrated on. The table has every method. Weights and samples are seeded; so are those of other
models, each with the shape of its samples.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import helper, numpy_helper

METHODS = (None, "entropy", "percentile:99.9", "percentile:99.99", "percentile:99.999", "mse", "minmax")


def temper(*command):
    return subprocess.run([sys.argv[1], *map(str, command)], check=True, stdout=subprocess.PIPE).stdout


class Net:
    """Convolutions with relu, one after the other, on 3 x 24 x 24."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.nodes, self.constants, self.count = [], [], 0

    def constant(self, value):
        self.constants.append(numpy_helper.from_array(np.asarray(value, np.float32), f"c{len(self.constants)}"))
        return self.constants[-1].name

    def node(self, op, inputs, **attributes):
        self.count += 1
        name = f"{op.lower()}_{self.count}"
        self.nodes.append(helper.make_node(op, inputs, [name], name=name, **attributes))
        return name

    def conv(self, x, weights, bias, group=1):
        return self.node("Relu", [self.node("Conv", [x, self.constant(weights), self.constant(bias)], group=group, kernel_shape=list(weights.shape[2:]), pads=[weights.shape[2] // 2] * 4)])

    def save(self, path, x, channels):
        pooled = self.node("Flatten", [self.node("GlobalAveragePool", [x])])
        y = self.node("Gemm", [pooled, self.constant(self.random.standard_normal((channels, 10)) / np.sqrt(channels)), self.constant(self.random.standard_normal(10) * 0.1)])
        value = lambda name, shape: helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        graph = helper.make_graph(self.nodes, "relu_heavy", [value("x", ["n", 3, 24, 24])], [value(y, ["n", 10])], self.constants)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def weights_of(random, out, into, size=3):
    return random.standard_normal((out, into, size, size)) * np.sqrt(2 / (into * size * size))


def dead_channels(path):
    """Three channels of five are constant behind the relu, as training leaves them."""
    net, x, channels = Net(1), "x", 3
    for out in (20, 30, 40):
        weights, bias = weights_of(net.random, out, channels), net.random.standard_normal(out) * 0.1
        dead = net.random.permutation(out)[: out * 3 // 5]
        weights[dead], bias[dead] = 0, net.random.uniform(-0.1, 0.6, len(dead))
        x, channels = net.conv(x, weights, bias), out
    net.save(path, x, channels)


def heavy_tails(path):
    """Weights of Student's t, and channels of which some are much louder than the others."""
    net, x, channels = Net(2), "x", 3
    for out in (24, 32, 32):
        weights = net.random.standard_t(3, (out, channels, 3, 3)) * np.sqrt(1 / (channels * 9)) * np.exp(net.random.standard_normal((out, 1, 1, 1)))
        x, channels = net.conv(x, weights, net.random.standard_normal(out) * 0.1), out
    net.save(path, x, channels)


def sparse(path):
    """Biases below zero: nine values of ten are zero behind the relu. Depthwise convolutions and residuals between."""
    net = Net(3)
    x = net.conv("x", weights_of(net.random, 32, 3), np.full(32, -1.2))
    for _ in range(2):
        y = net.conv(x, weights_of(net.random, 32, 1), np.full(32, -0.15), group=32)
        y = net.conv(y, weights_of(net.random, 32, 32, 1), np.full(32, -0.1))
        x = net.node("Add", [x, y])
    net.save(path, x, 32)


def pictures(random, count, shape):
    """Smooth noise, some of it brighter."""
    channels, height, width = shape
    coarse = random.standard_normal((count, channels, -(-height // 4), -(-width // 4)))
    smooth = np.kron(coarse, np.ones((4, 4)))[:, :, :height, :width]
    return (smooth * random.uniform(0.3, 1.5, (count, 1, 1, 1)) + 0.2 * random.standard_normal(smooth.shape)).astype(np.float32)


def noise_ratios(model, folder, shape, calibrated, evaluated):
    """SNR in dB of the worst output by method; None is the default, whose choice comes second."""
    random = np.random.default_rng(5)
    np.save(folder / "calibration.npy", pictures(random, calibrated, shape))
    np.save(folder / "evaluation.npy", pictures(random, evaluated, shape))
    found, chosen = {}, ""
    for method in METHODS:
        temper("calibrate", model, "--data", folder / "calibration.npy", "-o", folder / "r.json", "--quiet", *([] if method is None else ["--method", method]))
        if method is None:
            chosen = json.loads((folder / "r.json").read_text())["method"]
        judged = json.loads(temper("evaluate", model, "--data", folder / "evaluation.npy", "--precision", "int8", "--calibration", folder / "r.json", "--metric", "snr", "--no-measure", "--json", "--quiet"))
        found[method] = min(output["snr_db"] for output in judged["outputs"])
    return found, chosen


def main():
    failed = []
    with tempfile.TemporaryDirectory(prefix="temper_relu_") as name:
        folder = pathlib.Path(name)
        print(f"{'net':22}{'default':>22}  " + "".join(f"{method:>19}" for method in METHODS[1:]))
        nets = [(net.__name__, folder / f"{net.__name__}.onnx", (3, 24, 24), 160, 100) for net in (dead_channels, heavy_tails, sparse)]
        for net in (dead_channels, heavy_tails, sparse):
            net(folder / f"{net.__name__}.onnx")
        for path, shape in (argument.rsplit("=", 1) for argument in sys.argv[2:]):
            nets.append((pathlib.Path(path).stem[:20], path, tuple(map(int, shape.split("x"))), 160, 40))
        for net, path, shape, calibrated, evaluated in nets:
            found, chosen = noise_ratios(path, folder, shape, calibrated, evaluated)
            best = max(found.values())
            print(f"{net:22}{chosen + f' {found[None]:.1f} dB':>22}  " + "".join(f"{found[method]:>16.1f} dB" for method in METHODS[1:]), flush=True)
            if found[None] < best - 1:
                failed.append(f"{net}: {found[None]:.2f} dB by default, {best:.2f} dB at best")
    assert not failed, "; ".join(failed)


main()
