#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a small network of handwritten digits with the rounding of INT8 in it, and writes it as ONNX with Q/DQ pairs.

usage: qat.py MODEL.onnx TEST.npz

Every product's operands are rounded to 8 bits while it is trained (torch.fake_quantize), weights by channel; the scales that it was
trained with are those of the file. The test digits go to TEST.npz with their labels.
"""
import sys

import numpy
import onnx
import sklearn.datasets
import torch
from onnx import TensorProto, helper, numpy_helper

torch.manual_seed(0)
torch.set_num_threads(1)
data = sklearn.datasets.load_digits()
pictures, labels = (data.images / 16).astype("float32").reshape(-1, 1, 8, 8), data.target
train, test = slice(0, 1200), slice(1200, None)


class Rounded(torch.nn.Module):
    """A layer whose input and weights are rounded as INT8 rounds them; the input's range is learnt on the way."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer
        self.register_buffer("most", torch.tensor(0.0))

    def scales(self):
        weight = self.layer.weight.detach().flatten(1).abs().amax(1) / 127
        return self.most.item() / 127, weight.clamp(min=1e-8)

    def forward(self, x):
        if self.training:
            self.most = torch.maximum(0.99 * self.most, x.detach().abs().max())
        scale, weight_scale = self.scales()
        x = torch.fake_quantize_per_tensor_affine(x, scale, 0, -127, 127)
        weight = torch.fake_quantize_per_channel_affine(self.layer.weight, weight_scale, torch.zeros_like(weight_scale, dtype=torch.int32), 0, -127, 127)
        if isinstance(self.layer, torch.nn.Conv2d):
            return torch.nn.functional.conv2d(x, weight, self.layer.bias, padding=1)
        return torch.nn.functional.linear(x, weight, self.layer.bias)


first, second, last = (Rounded(layer) for layer in (torch.nn.Conv2d(1, 16, 3, padding=1), torch.nn.Conv2d(16, 32, 3, padding=1), torch.nn.Linear(32, 10)))
network = torch.nn.ModuleList([first, second, last])


def answer(x):
    x = torch.relu(first(x))
    x = torch.relu(second(x))
    return last(x.mean((2, 3)))


optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
x, y = torch.from_numpy(pictures[train]), torch.from_numpy(labels[train])
network.train()
for epoch in range(30):
    for batch in torch.randperm(len(x)).split(100):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(answer(x[batch]), y[batch]).backward()
        optimizer.step()
network.eval()
with torch.no_grad():
    right = (answer(torch.from_numpy(pictures[test])).argmax(1).numpy() == labels[test]).mean()
print(f"in PyTorch, with the rounding: {100 * right:.2f} % right")

nodes, constants = [], []


def constant(name, value):
    constants.append(numpy_helper.from_array(value, name))
    return name


def rounded(module, name, value):
    """The layer's operands behind pairs of QuantizeLinear and DequantizeLinear, as deployment tools want them."""
    scale, weight_scale = module.scales()
    weight = module.layer.weight.detach().numpy()
    steps = weight_scale.numpy().astype("float32")
    codes = numpy.clip(numpy.round(weight / steps.reshape(-1, *[1] * (weight.ndim - 1))), -127, 127).astype("int8")
    s, z = constant(f"{name}_s", numpy.float32(scale)), constant(f"{name}_z", numpy.int8(0))
    nodes.append(helper.make_node("QuantizeLinear", [value, s, z], [f"{name}_q"]))
    nodes.append(helper.make_node("DequantizeLinear", [f"{name}_q", s, z], [f"{name}_x"]))
    codes_name, steps_name = constant(f"{name}_w8", codes), constant(f"{name}_ws", steps)
    zeros = constant(f"{name}_wz", numpy.zeros(len(steps), "int8"))
    nodes.append(helper.make_node("DequantizeLinear", [codes_name, steps_name, zeros], [f"{name}_w"], axis=0))
    bias = constant(f"{name}_b", module.layer.bias.detach().numpy())
    if isinstance(module.layer, torch.nn.Conv2d):
        nodes.append(helper.make_node("Conv", [f"{name}_x", f"{name}_w", bias], [f"{name}_y"], pads=[1, 1, 1, 1], name=name))
    else:
        nodes.append(helper.make_node("Gemm", [f"{name}_x", f"{name}_w", bias], [f"{name}_y"], transB=1, name=name))
    return f"{name}_y"


value = "image"
for module, name in ((first, "first"), (second, "second")):
    value = rounded(module, name, value)
    nodes.append(helper.make_node("Relu", [value], [f"{name}_r"]))
    value = f"{name}_r"
nodes.append(helper.make_node("GlobalAveragePool", [value], ["mean"]))
nodes.append(helper.make_node("Flatten", ["mean"], ["flat"]))
value = rounded(last, "last", "flat")
nodes[-1].output[0] = "logits"
graph = helper.make_graph(nodes, "digits_qat", [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, 8, 8])],
                          [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 10])], constants)  # fmt: skip
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), sys.argv[1])
numpy.savez(sys.argv[2], image=pictures[test], labels=labels[test])
