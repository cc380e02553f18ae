#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains digits_cnn on scikit-learn's handwritten digits with plain numpy and writes it as ONNX.

usage: train_digits.py [-o models/digits_cnn.onnx] [--epochs 40] [--seed 7]

image f32[batch,1,8,8] -> conv 3x3, 16 -> relu -> conv 3x3, 32 -> relu -> max pool 2x2 -> conv 3x3, 32 -> relu
-> flatten -> fc 64 -> relu -> fc 10 -> logits f32[batch,10]. Adam, cross entropy, pictures shifted by up to a pixel.
"""
import argparse
import os
import pathlib

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # one order of summation: the same weights on every run
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import digits_data

BATCH = 64


def he(generator, shape, fan_in):
    return (generator.standard_normal(shape) * np.sqrt(2.0 / fan_in)).astype(np.float32)


def initial_weights(generator):
    weights = {}
    for name, out, fan_in, shape in [
        ("conv1", 16, 9, (16, 1, 3, 3)),
        ("conv2", 32, 144, (32, 16, 3, 3)),
        ("conv3", 32, 288, (32, 32, 3, 3)),
        ("fc1", 64, 512, (64, 512)),
        ("fc2", 10, 64, (10, 64)),
    ]:
        weights[name + ".weight"] = he(generator, shape, fan_in)
        weights[name + ".bias"] = np.zeros(out, np.float32)
    return weights


def columns(x):
    """im2col of a 3x3 window, padding 1: [n,c,h,w] -> [n*h*w, c*9]."""
    n, c, h, w = x.shape
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    return windows.transpose(0, 2, 3, 1, 4, 5).reshape(n * h * w, c * 9)


def columns_gradient(gradient, shape):
    n, c, h, w = shape
    gradient = gradient.reshape(n, h, w, c, 3, 3)
    padded = np.zeros((n, c, h + 2, w + 2), np.float32)
    for i in range(3):
        for j in range(3):
            padded[:, :, i : i + h, j : j + w] += gradient[:, :, :, :, i, j].transpose(0, 3, 1, 2)
    return padded[:, :, 1:-1, 1:-1]


def conv(x, weight, bias):
    n, _, h, w = x.shape
    unrolled = columns(x)
    y = unrolled @ weight.reshape(len(weight), -1).T + bias
    return y.reshape(n, h, w, -1).transpose(0, 3, 1, 2), unrolled


def forward(p, x):
    """logits and what the backward pass needs."""
    kept = {"x1": x}
    a, kept["u1"] = conv(x, p["conv1.weight"], p["conv1.bias"])
    kept["a1"] = a = np.maximum(a, 0)
    a, kept["u2"] = conv(a, p["conv2.weight"], p["conv2.bias"])
    kept["a2"] = a = np.maximum(a, 0)
    n, c, h, w = a.shape
    blocks = a.reshape(n, c, h // 2, 2, w // 2, 2).transpose(0, 1, 2, 4, 3, 5).reshape(n, c, h // 2, w // 2, 4)
    kept["winner"] = blocks.argmax(-1)
    kept["x3"] = pooled = blocks.max(-1)
    a, kept["u3"] = conv(pooled, p["conv3.weight"], p["conv3.bias"])
    kept["a3"] = a = np.maximum(a, 0)
    kept["flat"] = flat = a.reshape(n, -1)
    kept["hidden"] = hidden = np.maximum(flat @ p["fc1.weight"].T + p["fc1.bias"], 0)
    return hidden @ p["fc2.weight"].T + p["fc2.bias"], kept


def gradients(p, kept, d):
    g = {"fc2.weight": d.T @ kept["hidden"], "fc2.bias": d.sum(0)}
    d = d @ p["fc2.weight"] * (kept["hidden"] > 0)
    g["fc1.weight"], g["fc1.bias"] = d.T @ kept["flat"], d.sum(0)
    d = (d @ p["fc1.weight"]).reshape(kept["a3"].shape)

    def conv_back(d, number, x_shape):
        d = (d * (kept[f"a{number}"] > 0)).transpose(0, 2, 3, 1).reshape(-1, d.shape[1])
        weight = p[f"conv{number}.weight"]
        g[f"conv{number}.weight"] = (d.T @ kept[f"u{number}"]).reshape(weight.shape)
        g[f"conv{number}.bias"] = d.sum(0)
        return columns_gradient(d @ weight.reshape(len(weight), -1), x_shape)

    d = conv_back(d, 3, kept["x3"].shape)
    n, c, h, w = d.shape
    blocks = (np.arange(4) == kept["winner"][..., None]) * d[..., None]
    d = blocks.reshape(n, c, h, w, 2, 2).transpose(0, 1, 2, 4, 3, 5).reshape(n, c, 2 * h, 2 * w)
    d = conv_back(d, 2, kept["a1"].shape)
    conv_back(d, 1, kept["x1"].shape)
    return g


def shifted(generator, images):
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    out = np.empty_like(images)
    for i, (dy, dx) in enumerate(generator.integers(0, 3, (len(images), 2))):
        out[i] = padded[i, :, dy : dy + 8, dx : dx + 8]
    return out


def train(images, labels, epochs, seed):
    generator = np.random.Generator(np.random.PCG64(seed))
    p = initial_weights(generator)
    first = {k: np.zeros_like(v) for k, v in p.items()}
    second = {k: np.zeros_like(v) for k, v in p.items()}
    step, steps = 0, epochs * (len(images) // BATCH)
    for epoch in range(epochs):
        order = generator.permutation(len(images))
        total = 0.0
        for start in range(0, len(order) - BATCH + 1, BATCH):
            batch = order[start : start + BATCH]
            logits, kept = forward(p, shifted(generator, images[batch]))
            probability = np.exp(logits - logits.max(1, keepdims=True))
            probability /= probability.sum(1, keepdims=True)
            total -= np.log(probability[np.arange(BATCH), labels[batch]]).sum()
            probability[np.arange(BATCH), labels[batch]] -= 1
            step += 1
            rate = 2e-3 * 0.5 * (1 + np.cos(np.pi * step / steps))
            for name, gradient in gradients(p, kept, probability / BATCH).items():
                first[name] = 0.9 * first[name] + 0.1 * gradient
                second[name] = 0.999 * second[name] + 0.001 * gradient**2
                direction = first[name] / (1 - 0.9**step) / (np.sqrt(second[name] / (1 - 0.999**step)) + 1e-8)
                p[name] = (p[name] - rate * (direction + 1e-4 * p[name])).astype(np.float32)
        if epoch % 10 == 9:
            print(f"epoch {epoch + 1}: mean loss {total / len(order):.4f}")
    return p


def to_onnx(p):
    window = dict(kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[1, 1])
    nodes = [
        helper.make_node("Conv", ["image", "conv1.weight", "conv1.bias"], ["conv1"], "conv1", **window),
        helper.make_node("Relu", ["conv1"], ["relu1"], "relu1"),
        helper.make_node("Conv", ["relu1", "conv2.weight", "conv2.bias"], ["conv2"], "conv2", **window),
        helper.make_node("Relu", ["conv2"], ["relu2"], "relu2"),
        helper.make_node("MaxPool", ["relu2"], ["pool"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["pool", "conv3.weight", "conv3.bias"], ["conv3"], "conv3", **window),
        helper.make_node("Relu", ["conv3"], ["relu3"], "relu3"),
        helper.make_node("Flatten", ["relu3"], ["flat"], "flat", axis=1),
        helper.make_node("Gemm", ["flat", "fc1.weight", "fc1.bias"], ["fc1"], "fc1", transB=1),
        helper.make_node("Relu", ["fc1"], ["relu4"], "relu4"),
        helper.make_node("Gemm", ["relu4", "fc2.weight", "fc2.bias"], ["logits"], "fc2", transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "digits_cnn",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, 8, 8])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 10])],
        [numpy_helper.from_array(p[name], name) for name in p],
    )
    model = helper.make_model(graph, producer_name="temper", opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return model


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=pathlib.Path, default=root / "models" / "digits_cnn.onnx")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--seed", type=int, default=7)
    arguments = parser.parse_args()
    train_images, train_labels, test_images, test_labels = digits_data.load()
    p = train(train_images, train_labels, arguments.epochs, arguments.seed)
    right = int((forward(p, test_images)[0].argmax(1) == test_labels).sum())
    print(f"held out: {right} of {len(test_labels)} right, accuracy {right / len(test_labels):.2%}")
    if right < 0.98 * len(test_labels):
        raise SystemExit("below 98 %: nothing written")
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_bytes(to_onnx(p).SerializeToString(deterministic=True))
    print(f"{arguments.output}: {arguments.output.stat().st_size} bytes")


if __name__ == "__main__":
    main()
