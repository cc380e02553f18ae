# SPDX-License-Identifier: Apache-2.0
"""A detector of sound with the inputs and outputs of silero's voice detector, small enough to be written down.

It hears one chunk at a time and keeps a state: the energy of what it has heard, which fades. How fast depends on the sampling
rate, an input that chooses between the branches of an If. `python model.py FILE.onnx` writes it.
"""
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

CHUNK = 512  # samples of 32 ms at 16 kHz; at 8 kHz it is 256


def detector():
    node, value = helper.make_node, helper.make_tensor_value_info
    constant = lambda name, number, dtype: numpy_helper.from_array(np.array(number, dtype), name)

    def side(name, fades):
        """The state after a chunk: what is left of the last one, and what the chunk has."""
        nodes = [node("Mul", ["state", f"{name}_fades"], [f"{name}_left"]), node("Mul", ["energy", f"{name}_takes"], [f"{name}_new"]),
                 node("Add", [f"{name}_left", f"{name}_new"], [f"{name}_state"])]
        return helper.make_graph(nodes, name, [], [value(f"{name}_state", TensorProto.FLOAT, ["batch", 1])],
                                 [constant(f"{name}_fades", fades, "f4"), constant(f"{name}_takes", 1 - fades, "f4")])

    nodes = [
        node("Mul", ["input", "input"], ["squares"]),
        node("ReduceMean", ["squares"], ["energy"], axes=[1], keepdims=1),
        node("Equal", ["sr", "sixteen"], ["is_sixteen"]),
        node("If", ["is_sixteen"], ["stateN"], then_branch=side("fast", 0.6), else_branch=side("slow", 0.7)),
        # sigmoid(3 * (log10(energy) + 3)): a half at 30 dB below full scale.
        node("Add", ["stateN", "floor"], ["above"]), node("Log", ["above"], ["log"]), node("Mul", ["log", "to_decades"], ["decades"]),
        node("Add", ["decades", "threshold"], ["margin"]), node("Mul", ["margin", "steepness"], ["logit"]), node("Sigmoid", ["logit"], ["output"]),
    ]
    graph = helper.make_graph(
        nodes, "detector",
        [value("input", TensorProto.FLOAT, ["batch", "samples"]), value("state", TensorProto.FLOAT, ["batch", 1]), value("sr", TensorProto.INT64, [])],
        [value("output", TensorProto.FLOAT, ["batch", 1]), value("stateN", TensorProto.FLOAT, ["batch", 1])],
        [constant("sixteen", 16000, "i8"), constant("floor", 1e-9, "f4"), constant("to_decades", 1 / np.log(10), "f4"),
         constant("threshold", 3, "f4"), constant("steepness", 3, "f4")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def beeps(rate=16000, seed=0):
    """Four seconds of faint noise, with sound from 1.0 to 1.5 s and from 2.5 to 3.25 s."""
    time = np.arange(4 * rate) / rate
    sounds = ((time >= 1.0) & (time < 1.5)) | ((time >= 2.5) & (time < 3.25))
    return (0.001 * np.random.default_rng(seed).standard_normal(time.size) + sounds * 0.4 * np.sin(2 * np.pi * 220 * time)).astype(np.float32)


if __name__ == "__main__":
    onnx.save(detector(), sys.argv[1])
