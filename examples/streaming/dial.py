# SPDX-License-Identifier: Apache-2.0
"""Writes down the keys that are pressed on a telephone, by a transducer (RNN-T) that hears one chunk after the other.

    python dial.py recording.wav
    python dial.py --keys 5551234

A transducer is three models. The encoder hears: for each chunk it says which label would fit. The predictor knows what was
written, and how that goes on. The joiner adds what both say; the best label is written until the best one is none, and then the
next chunk is heard. The encoder keeps the end of the last chunk as its state. The state of the predictor moves on only when
something was written: each of the two has a session of its own. The weights are written down here instead of trained: a key is
two tones, keys stand in groups of three, and a key must be released before it is pressed again.
"""
import argparse
import sys

import numpy as np
import onnx
from detect import samples_of
from onnx import TensorProto, helper, numpy_helper

import temper

RATE, CHUNK = 8000, 160  # a chunk has 20 ms; the encoder hears it together with the one before
LOW, HIGH = (697, 770, 852, 941), (1209, 1336, 1477)
KEYS = "123456789*0#"
LABELS = ["", *KEYS, "-", ""]  # nothing, the keys, the end of a group, and that the key was released
DASH, RELEASED = 13, 14
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def model_of(name, nodes, inputs, outputs, **constants):
    value = lambda port, shape: helper.make_tensor_value_info(port, INT64 if port == "label" else FLOAT, shape)
    graph = helper.make_graph([helper.make_node(op, i, o, **a) for op, i, o, a in nodes], name, [value(*port) for port in inputs.items()],
                              [value(*port) for port in outputs.items()], [numpy_helper.from_array(np.asarray(c), k) for k, c in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def encoder():
    """The share that each tone has of the sound, and from it a number for each label: above 0 where it would fit."""
    time = np.arange(2 * CHUNK) / RATE
    window = np.hanning(2 * CHUNK)
    waves = np.stack([wave(2 * np.pi * f * time) * window for wave in (np.cos, np.sin) for f in LOW + HIGH], 1).astype(np.float32)
    pairs = [(row, 4 + column) for row in range(4) for column in range(3)]
    nodes = [
        ("Concat", ["tail", "sound"], ["heard"], {"axis": 1}), ("Slice", ["heard", "from", "to", "axis"], ["tailN"], {}),
        ("MatMul", ["heard", "waves"], ["parts"], {}), ("Mul", ["parts", "parts"], ["squares"], {}), ("Split", ["squares"], ["a", "b"], {"axis": 1}),
        ("Add", ["a", "b"], ["tones"], {}), ("ReduceSum", ["tones", "axis"], ["all"], {}), ("Add", ["all", "floor"], ["whole"], {}), ("Div", ["tones", "whole"], ["shares"], {}),
        ("Gather", ["shares", "rows"], ["low"], {"axis": 1}), ("Gather", ["shares", "columns"], ["high"], {"axis": 1}), ("Min", ["low", "high"], ["both"], {}),
        # From -10 to 10: a key whose tones each have a quarter of the sound.
        ("Sub", ["both", "quarter"], ["over"], {}), ("Mul", ["over", "steep"], ["steps"], {}), ("Tanh", ["steps"], ["signs"], {}), ("Mul", ["signs", "ten"], ["keys"], {}),
        ("ReduceMax", ["keys"], ["any"], {"axes": [1]}), ("Neg", ["any"], ["none"], {}), ("Mul", ["any", "zero"], ["blank"], {}),
        ("Concat", ["blank", "keys", "any", "none"], ["labels"], {"axis": 1}),
    ]
    return model_of("encoder", nodes, {"sound": [1, CHUNK], "tail": [1, CHUNK]}, {"labels": [1, len(LABELS)], "tailN": [1, CHUNK]}, waves=waves,
                    **{"from": [CHUNK], "to": [2 * CHUNK], "axis": [1], "rows": [p[0] for p in pairs], "columns": [p[1] for p in pairs]},
                    floor=np.float32([200]), quarter=np.float32([0.25]), steep=np.float32([40]), ten=np.float32([10]), zero=np.float32([0]))


def predictor():
    """The state after a label, by a matrix for each: how many keys the group has (one of four numbers is 1), and whether one is pressed."""
    moves = np.zeros((len(LABELS), 6, 5), np.float32)  # from the state and a 1 to the state
    for label in range(len(LABELS)):
        moves[label, :4, :4] = np.eye(4, k=1) if 1 <= label <= 12 else np.eye(4)
        moves[label, 5, 4] = 1 <= label <= 12
    moves[DASH] = 0
    moves[DASH, 5, 0] = 1
    likes = np.zeros((5, len(LABELS)), np.float32)  # what does not go on so has -30
    likes[:3, DASH] = -30
    likes[3, DASH] = 5
    likes[:4, RELEASED] = -30
    likes[4, 1:DASH + 1] = -30
    likes[4, RELEASED] = 30
    nodes = [("Concat", ["state", "one"], ["more"], {"axis": 1}), ("Gather", ["moves", "label"], ["move"], {"axis": 0}), ("Squeeze", ["move", "first"], ["matrix"], {}),
             ("MatMul", ["more", "matrix"], ["stateN"], {}), ("MatMul", ["stateN", "likes"], ["next"], {})]
    return model_of("predictor", nodes, {"label": [1], "state": [1, 5]}, {"next": [1, len(LABELS)], "stateN": [1, 5]}, moves=moves, likes=likes, one=np.float32([[1]]), first=[0])


def joiner():
    return model_of("joiner", [("Add", ["labels", "next"], ["sum"], {}), ("ArgMax", ["sum"], ["label"], {"axis": 1, "keepdims": 0})],
                    {"labels": [1, len(LABELS)], "next": [1, len(LABELS)]}, {"label": [1]})


class Transducer:
    """Text from sound, piece by piece: write(samples) gives what was written since the last call. Options are those of temper.build."""

    def __init__(self, most_per_chunk=4, **options):
        build = lambda model: temper.build(model, threads=1, **options)
        self.encoder = build(encoder()).session(state={"tail": "tailN"})
        self.predictor = build(predictor()).session(state={"state": "stateN"})
        self.joiner = build(joiner()).session()
        self.most_per_chunk = most_per_chunk
        self.rest = np.empty(0, np.float32)
        self.next = self.predictor.run({"label": np.array([DASH])})["next"]  # a group begins

    def write(self, samples):
        self.rest = np.concatenate([self.rest, samples])
        written = ""
        while len(self.rest) >= CHUNK:
            labels = self.encoder.run({"sound": self.rest[None, :CHUNK]})["labels"]
            self.rest = self.rest[CHUNK:]
            for _ in range(self.most_per_chunk):
                label = self.joiner.run({"labels": labels, "next": self.next})["label"]
                if label[0] == 0:
                    break
                written += LABELS[label[0]]
                self.next = self.predictor.run({"label": label})["next"]
        return written


def dialled(keys, seconds=0.1, pause=0.08, seed=0):
    """The sound of these keys, and faint noise."""
    time = np.arange(int(seconds * RATE)) / RATE
    silence = np.zeros(int(pause * RATE))
    sound = [silence]
    for key in keys:
        row, column = divmod(KEYS.index(key), 3)
        sound += [0.4 * np.sin(2 * np.pi * LOW[row] * time) + 0.4 * np.sin(2 * np.pi * HIGH[column] * time), silence]
    samples = np.concatenate(sound)
    return (samples + 0.002 * np.random.default_rng(seed).standard_normal(samples.size)).astype(np.float32)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recording", nargs="?", help="a WAV file of 16-bit samples at 8 kHz")
    parser.add_argument("--keys", default="5551234", help="what is dialled where there is no recording")
    args = parser.parse_args()
    samples, rate = samples_of(args.recording) if args.recording else (dialled(args.keys), RATE)
    if rate != RATE:
        raise SystemExit(f"{args.recording}: the encoder hears {RATE} Hz, not {rate} Hz")
    transducer = Transducer()
    for begin in range(0, len(samples), 1000):  # as a microphone gives them
        print(transducer.write(samples[begin:begin + 1000]), end="", flush=True)
    print()


if __name__ == "__main__":
    sys.exit(main())
