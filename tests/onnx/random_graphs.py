# SPDX-License-Identifier: Apache-2.0
"""Random models: passes on, passes off and the scalar reference answer as ONNX Runtime does.

    random_graphs.py [--count N] [--first SEED] [--keep FOLDER]

PYTHONPATH must have the package temper. A model has 3 to 14 nodes on floats, integers and booleans, with constants or inputs as
weights, and half of them an open batch. Floats may differ by 1e-4 of the largest of an output. A larger difference counts as
explained where ONNX's reference evaluator answers as Temper does, in FP32 or in FP64, or where the inputs, changed by a few parts in
ten millions, move ONNX Runtime's own answer half as far; any other is a failure, and its model goes to FOLDER.
"""
import argparse
import collections
import pathlib
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import temper

TOLERANCE = 1e-4
MOST = 4000  # elements of a value
NAMES = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.int64): TensorProto.INT64, np.dtype(np.bool_): TensorProto.BOOL,
         np.dtype(np.uint8): TensorProto.UINT8, np.dtype(np.int32): TensorProto.INT32}


class Value:
    """`shape` as it is at batch 2; axis 0 is the open batch where `open_batch`. `exact`: no rounding before it, so that comparing
    it decides the same everywhere. `size`: no element is larger."""

    def __init__(self, name, shape, dtype=np.float32, exact=False, size=1.0, open_batch=False):
        self.name, self.shape, self.dtype, self.exact, self.size, self.open_batch = name, tuple(shape), np.dtype(dtype), exact, size, open_batch

    @property
    def rank(self):
        return len(self.shape)


class Model:
    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.nodes, self.constants, self.inputs, self.feeds, self.values, self.ops = [], [], [], {}, [], []
        self.used = set()
        self.is_open = self.chance(0.5)
        shapes = [[2, 4, 6, 6], [2, 4, 6, 6], [2, 8], [2, 5, 4], [2, 3, 9]]
        for shape in [shapes[i] for i in self.random.permutation(5)[: self.below(3) + 1]]:
            self.input(self.floats(shape))
        if self.chance(0.4):
            self.input(self.random.integers(-9, 10, [2, self.below(4) + 1]))
        for _ in range(self.below(12) + 3):
            for _ in range(20):  # until one fits
                before = len(self.nodes)
                make = self.MAKERS[self.below(len(self.MAKERS))]
                make(self)
                if len(self.nodes) > before:
                    break

    def below(self, n):
        return int(self.random.integers(0, n))

    def chance(self, p):
        return self.random.random() < p

    def one_of(self, items):
        return items[self.below(len(items))]

    def floats(self, shape, size=1.0):
        return (self.random.uniform(-1, 1, shape) * size).astype(np.float32)

    def input(self, array, is_open=True):
        name = f"x{len(self.inputs)}"
        is_open = is_open and self.is_open
        dims = list(array.shape)
        if is_open:
            dims[0] = "n"
        self.inputs.append(helper.make_tensor_value_info(name, NAMES[array.dtype], dims))
        self.feeds[name] = array
        size = float(np.abs(array).max()) if array.size else 0.0
        value = Value(name, array.shape, array.dtype, True, max(size, 1e-3), is_open)
        self.values.append(value)
        return value

    def constant(self, array):
        """Now and then an input of the model."""
        array = np.asarray(array)
        if array.dtype == np.float32 and array.ndim and self.chance(0.1):
            name = self.input(array, False).name
            self.values.pop()
            return name
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def pick(self, test=lambda v: True, floats=True):
        fits = [v for v in self.values if test(v) and (v.dtype == np.float32 or not floats)]
        if not fits:
            return None
        return fits[len(fits) - 1 - min(self.below(len(fits)), self.below(len(fits)))]  # recent ones more often

    def add(self, op, inputs, shape, source, dtype=None, exact=False, size=None, outputs=1, **attributes):
        """`source`: the value whose batch the result has."""
        names = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, [v.name if isinstance(v, Value) else v for v in inputs], names, **attributes))
        self.used |= {v.name for v in inputs if isinstance(v, Value)}
        self.ops.append(op)
        shapes = shape if outputs > 1 else [shape]
        made = [Value(name, s, source.dtype if dtype is None else dtype, exact, source.size if size is None else size, source.open_batch)
                for name, s in zip(names, shapes)]
        self.values += made
        return made[0] if outputs == 1 else made

    # ---- makers: each adds a node or more, or none where nothing fits

    def unary(self):
        x = self.pick()
        op, size = self.one_of([("Relu", x.size), ("Sigmoid", 1), ("Tanh", 1), ("Abs", x.size), ("Neg", x.size), ("Erf", 1), ("HardSwish", x.size), ("HardSigmoid", 1),
                                ("LeakyRelu", x.size), ("Elu", x.size), ("Softplus", x.size + 1), ("Softsign", 1), ("Selu", 2 * x.size), ("Gelu", x.size), ("Mish", x.size),
                                ("Celu", x.size), ("Sin", 1), ("Cos", 1), ("Atan", 2), ("Identity", x.size), ("ThresholdedRelu", x.size), ("Exp", None), ("Sqrt", None)])
        if op in ("Sin", "Cos") and x.size > 20 or op == "ThresholdedRelu" and not x.exact:
            return
        if op == "Exp":
            if x.size <= 3:
                self.add(op, [x], x.shape, x, size=float(np.exp(x.size)))
        elif op == "Sqrt":
            a = self.add("Abs", [x], x.shape, x)
            b = self.add("Add", [a, self.constant(np.float32(0.1))], x.shape, x, size=x.size + 1)
            self.add(op, [b], x.shape, x, size=x.size + 1)
        else:
            self.add(op, [x], x.shape, x, size=size, exact=x.exact and op in ("Relu", "Abs", "Neg", "Identity"))

    def clip(self):
        x = self.pick()
        low, high = sorted(self.floats([2], x.size).tolist())
        bounds = [self.constant(np.float32(low)) if self.chance(0.8) else "", self.constant(np.float32(high)) if self.chance(0.8) else ""]
        self.add("Clip", [x, *bounds], x.shape, x, exact=x.exact, size=max(x.size, abs(low), abs(high)))

    def binary(self):
        a = self.pick()
        if self.chance(0.5):
            b = self.pick()
            if a.open_batch != b.open_batch and (a.rank == b.rank and b.shape[:1] != (1,) or a.rank != b.rank):
                return
            if a.open_batch and a.rank != b.rank:
                return
        else:
            rank = self.below(a.rank + 1)
            shape = [d if self.chance(0.7) else 1 for d in a.shape[a.rank - rank:]]
            if a.open_batch and rank == a.rank and shape:
                shape[0] = 1
            b = Value(self.constant(self.floats(shape, 1.5)), shape, size=1.5)
        try:
            shape = np.broadcast_shapes(a.shape, b.shape)
        except ValueError:
            return
        if np.prod(shape) > MOST:
            return
        op = self.one_of(["Add", "Sub", "Mul", "Max", "Min", "Div", "PRelu", "Mean"])
        size = {"Add": a.size + b.size, "Sub": a.size + b.size, "Mul": a.size * b.size}.get(op, max(a.size, b.size))
        if size > 1e3:
            return
        if op == "Div":
            d = self.add("Add", [self.add("Abs", [b], b.shape, b), self.constant(np.float32(0.5))], b.shape, b, size=b.size + 1)
            self.add(op, [a, d], shape, a, size=2 * a.size)
            return
        if op == "PRelu":
            if tuple(shape) != a.shape:
                return
            size = a.size * max(1, b.size)
        exact = op in ("Max", "Min") and a.exact and b.exact
        swap = self.chance(0.3) and op != "PRelu"
        self.add(op, [b, a] if swap else [a, b], shape, a if a.open_batch or not b.open_batch else b, exact=exact, size=size)

    def conv(self):
        x = self.pick(lambda v: v.rank in (3, 4) and v.shape[1] <= 16 and min(v.shape[2:]) >= 1)
        if not x:
            return
        axes, channels = x.rank - 2, x.shape[1]
        transposed = self.chance(0.2)
        group = self.one_of([g for g in range(1, channels + 1) if channels % g == 0])
        out = group * (self.below(3) + 1)
        kernel = [self.below(3) + 1 for _ in range(axes)]
        strides, dilations = [self.below(2) + 1 for _ in range(axes)], [1 if self.chance(0.7) else 2 for _ in range(axes)]
        pads = [self.below(2) for _ in range(2 * axes)]
        reach = [d * (k - 1) + 1 for d, k in zip(dilations, kernel)]
        if transposed:
            shape = [(n - 1) * s + r - pads[i] - pads[axes + i] for i, (n, s, r) in enumerate(zip(x.shape[2:], strides, reach))]
            weights = [channels, out // group, *kernel]
        else:
            shape = [(n + pads[i] + pads[axes + i] - r) // s + 1 for i, (n, s, r) in enumerate(zip(x.shape[2:], strides, reach))]
            if any(n + pads[i] + pads[axes + i] < r for i, (n, r) in enumerate(zip(x.shape[2:], reach))):
                return
            weights = [out, channels // group, *kernel]
        if min(shape) < 1 or 2 * out * np.prod(shape) > MOST:
            return
        inputs = [x, self.constant(self.floats(weights, 1.0 / np.sqrt(channels / group * np.prod(kernel))))]
        if self.chance(0.6):
            inputs.append(self.constant(self.floats([out])))
        y = self.add("ConvTranspose" if transposed else "Conv", inputs, [x.shape[0], out, *shape], x, size=3 * x.size + 1, group=group, kernel_shape=kernel, strides=strides,
                     dilations=dilations, pads=pads)
        if self.chance(0.5):
            self.add("BatchNormalization", [y, *(self.constant(self.floats([out])) for _ in range(3)), self.constant(np.abs(self.floats([out])) + np.float32(0.3))], y.shape, y,
                     size=3 * y.size)
        if self.chance(0.5):
            self.add("Relu", [self.values[-1]], y.shape, y, size=self.values[-1].size)

    def matmul(self):
        x = self.pick(lambda v: v.rank >= 2 and v.shape[-1] >= 1)
        if not x:
            return
        k, n = x.shape[-1], self.below(6) + 1
        if x.rank == 2 and self.chance(0.5) and not (self.is_open and x.open_batch and self.chance(0.5)):
            trans = self.below(2)
            inputs = [x, self.constant(self.floats([n, k] if trans else [k, n], 1 / np.sqrt(k)))]
            if self.chance(0.6):
                inputs.append(self.constant(self.floats([n] if self.chance(0.6) else [1, n] if self.chance(0.5) else [])))
            self.add("Gemm", inputs, [x.shape[0], n], x, size=2 * x.size + 2, transB=trans, alpha=self.one_of([1.0, 0.5]), beta=self.one_of([1.0, 2.0]))
        elif x.rank == 3 and self.chance(0.4):
            y = self.pick(lambda v: v.rank == 3 and v.shape[2] == k and v.open_batch == x.open_batch and v.shape[0] == x.shape[0])
            t = self.add("Transpose", [y], [y.shape[0], k, y.shape[1]], y, perm=[0, 2, 1])
            if x.size * y.size * k > 1e3:
                return
            s = self.add("MatMul", [x, t], [x.shape[0], x.shape[1], y.shape[1]], x, size=x.size * y.size * k)
            s = self.add("Mul", [s, self.constant(np.float32(0.5))], s.shape, s)
            p = self.add("Softmax", [s], s.shape, s, size=1.0, axis=-1)
            self.add("MatMul", [p, y], [x.shape[0], x.shape[1], k], x, size=y.size)
        else:
            self.add("MatMul", [x, self.constant(self.floats([k, n], 1 / np.sqrt(max(k, 1))))], [*x.shape[:-1], n], x, size=2 * x.size)

    def norm(self):
        x = self.pick(lambda v: v.rank >= 3)
        if not x or np.prod(x.shape[1:]) < 2:
            return
        kind, channels = self.below(4), x.shape[1]
        vector = lambda n: self.constant(self.floats([n]) + np.float32(1))
        if kind == 0:
            self.add("LayerNormalization", [x, vector(x.shape[-1]), vector(x.shape[-1])], x.shape, x, size=20.0, axis=-1, epsilon=0.01)
        elif kind == 1:
            self.add("InstanceNormalization", [x, vector(channels), vector(channels)], x.shape, x, size=20.0, epsilon=0.01)
        elif kind == 2:
            self.add("LpNormalization", [x], x.shape, x, size=1.0, axis=self.one_of([1, x.rank - 1]), p=2) if x.exact else None
        else:
            group = self.one_of([g for g in range(1, channels + 1) if channels % g == 0])
            self.add("GroupNormalization", [x, vector(channels), vector(channels)], x.shape, x, size=20.0, num_groups=group, epsilon=0.01)

    def reduce(self):
        x = self.pick(lambda v: v.rank >= 2)
        if not x:
            return
        op = self.one_of(["ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp"])
        axes = [a for a in range(1, x.rank) if self.chance(0.5)] or [x.rank - 1]
        keep = self.below(2)
        count = int(np.prod([x.shape[a] for a in axes]))
        if count == 0:
            return
        size = {"ReduceMean": x.size, "ReduceMax": x.size, "ReduceMin": x.size, "ReduceSumSquare": count * x.size**2, "ReduceLogSumExp": x.size + 6}.get(op, count * x.size)
        if size > 1e3:
            return
        shape = [1 if a in axes else d for a, d in enumerate(x.shape) if keep or a not in axes]
        given = [a - x.rank if self.chance(0.3) else a for a in axes]
        self.add(op, [x, self.constant(np.array(given, np.int64))], shape, x, size=size, keepdims=keep, exact=x.exact and op in ("ReduceMax", "ReduceMin"))

    def softmax(self):
        x = self.pick(lambda v: v.rank >= 1)
        op = self.one_of(["Softmax", "LogSoftmax"])
        if x.size < 100:
            self.add(op, [x], x.shape, x, size=1.0 if op == "Softmax" else 2 * x.size + 6, axis=self.below(x.rank))

    def pool(self):
        x = self.pick(lambda v: v.rank in (3, 4) and min(v.shape[2:]) >= 2)
        if not x:
            return
        axes = x.rank - 2
        if self.chance(0.25):
            op = self.one_of(["GlobalAveragePool", "GlobalMaxPool"])
            return self.add(op, [x], [*x.shape[:2], *[1] * axes], x, exact=x.exact and op == "GlobalMaxPool")
        op, kernel, strides = self.one_of(["MaxPool", "AveragePool"]), [self.below(2) + 1 for _ in range(axes)], [self.below(2) + 1 for _ in range(axes)]
        pads = [self.below(k) for k in kernel] * 2
        ceil = self.below(2)
        attributes = {"count_include_pad": self.below(2)} if op == "AveragePool" else {}
        rounded = lambda a, b: -(-a // b) if ceil else a // b
        shape = []
        for n, k, s, p in zip(x.shape[2:], kernel, strides, pads):
            out = rounded(n + 2 * p - k, s) + 1
            if ceil and (out - 1) * s >= n + p:
                out -= 1
            shape.append(out)
        self.add(op, [x], [*x.shape[:2], *shape], x, exact=x.exact and op == "MaxPool", kernel_shape=kernel, strides=strides, pads=pads, ceil_mode=ceil, **attributes)

    def transpose(self):
        x = self.pick(lambda v: v.rank >= 2, floats=False)
        perm = [0, *(1 + self.random.permutation(x.rank - 1))] if x.open_batch else list(self.random.permutation(x.rank))
        self.add("Transpose", [x], [x.shape[i] for i in perm], x, exact=x.exact, perm=[int(i) for i in perm])

    def reshape(self):
        x = self.pick(lambda v: v.rank >= 2, floats=False)
        kind, shape = self.below(5), list(x.shape)
        if kind == 0 and x.rank > 2:  # two axes in one
            at = self.below(x.rank - 2) + 1
            shape[at:at + 2] = [shape[at] * shape[at + 1]]
            target = [0, *shape[1:]]
        elif kind == 1:
            shape = [x.shape[0], int(np.prod(x.shape[1:]))]
            return self.add("Flatten", [x], shape, x, exact=x.exact)
        elif kind == 2 and x.rank < 5:
            at = self.below(x.rank) + 1
            shape.insert(at, 1)
            return self.add("Unsqueeze", [x, self.constant(np.array([at], np.int64))], shape, x, exact=x.exact)
        elif kind == 3 and 1 in x.shape[1:]:
            at = 1 + x.shape[1:].index(1)
            del shape[at]
            return self.add("Squeeze", [x, self.constant(np.array([at], np.int64))], shape, x, exact=x.exact)
        else:  # of the shape that is asked for in a run, as exporters write it
            s = self.add("Shape", [x], [x.rank], x, dtype=np.int64, exact=True)
            s.open_batch = False
            self.values.pop()
            b = self.add("Slice", [s, self.constant(np.array([0])), self.constant(np.array([1]))], [1], s, exact=True)
            self.values.pop()
            whole = self.add("Concat", [b, self.constant(np.array([-1]))], [2], s, exact=True, axis=0)
            self.values.pop()
            return self.add("Reshape", [x, whole], [x.shape[0], int(np.prod(x.shape[1:]))], x, exact=x.exact)
        self.add("Reshape", [x, self.constant(np.array(target, np.int64))], shape, x, exact=x.exact)

    def concat(self):
        x = self.pick(lambda v: v.rank >= 2, floats=False)
        axis = self.below(x.rank - 1) + 1
        fits = [v for v in self.values if v.dtype == x.dtype and v.rank == x.rank and v.open_batch == x.open_batch and
                all(a == b for i, (a, b) in enumerate(zip(v.shape, x.shape)) if i != axis)]
        parts = [x, *(self.one_of(fits) for _ in range(self.below(2) + 1))]
        shape = list(x.shape)
        shape[axis] = sum(v.shape[axis] for v in parts)
        if np.prod(shape) <= MOST:
            self.add("Concat", parts, shape, x, exact=all(v.exact for v in parts), size=max(v.size for v in parts), axis=axis - (x.rank if self.chance(0.3) else 0))

    def split(self):
        x = self.pick(lambda v: v.rank >= 2 and max(v.shape[1:]) >= 2, floats=False)
        if not x:
            return
        axis = 1 + int(np.argmax(x.shape[1:]))
        first = self.below(x.shape[axis] - 1) + 1
        shapes = [[*x.shape[:axis], n, *x.shape[axis + 1:]] for n in (first, x.shape[axis] - first)]
        self.add("Split", [x, self.constant(np.array([s[axis] for s in shapes], np.int64))], shapes, x, exact=x.exact, outputs=2, axis=axis)

    def slice(self):
        x = self.pick(lambda v: v.rank >= 2 and max(v.shape[1:]) >= 2, floats=False)
        if not x:
            return
        axis = 1 + int(np.argmax(x.shape[1:]))
        n = x.shape[axis]
        start, step = self.below(n - 1), self.below(2) + 1
        end = self.one_of([n, start + 1 + self.below(n - start), 1 << 40, -1])
        indices = range(n)[start:end:step]
        if self.chance(0.2):
            start, end, step = n - 1, -(1 << 40), -step
            indices = range(n)[::step]
        if len(indices) == 0:
            return
        numbers = [self.constant(np.array([i], np.int64)) for i in (start, end, axis - (x.rank if self.chance(0.3) else 0), step)]
        self.add("Slice", [x, *numbers], [*x.shape[:axis], len(indices), *x.shape[axis + 1:]], x, exact=x.exact)

    def pad(self):
        x = self.pick(lambda v: v.rank >= 2)
        before, after = [0] * x.rank, [0] * x.rank
        for axis in range(1, x.rank):
            before[axis], after[axis] = self.below(2), self.below(2)
        mode = self.one_of(["constant", "edge", "reflect"])
        if mode == "reflect" and min(x.shape[1:]) < 2:
            return
        shape = [a + d + b for a, d, b in zip(before, x.shape, after)]
        value = [self.constant(np.float32(0.5))] if mode == "constant" and self.chance(0.5) else []
        if np.prod(shape) <= MOST:
            self.add("Pad", [x, self.constant(np.array(before + after, np.int64)), *value], shape, x, exact=x.exact, size=max(x.size, 0.5), mode=mode)

    def gather(self):
        x = self.pick(lambda v: v.rank >= 2, floats=False)
        axis = self.below(x.rank - 1) + 1
        if x.shape[axis] == 0:
            return
        if self.chance(0.6):
            count = [[], [3], [2, 2]][self.below(3)]
            index = self.random.integers(-x.shape[axis], x.shape[axis], count)
            shape = [*x.shape[:axis], *count, *x.shape[axis + 1:]]
            if np.prod(shape) <= MOST and len(shape) <= 5:
                self.add("Gather", [x, self.constant(np.asarray(index, np.int64))], shape, x, exact=x.exact, axis=axis)
        elif not x.open_batch:
            index = self.random.integers(-x.shape[axis], x.shape[axis], x.shape)
            self.add("GatherElements", [x, self.constant(index)], x.shape, x, exact=x.exact, axis=axis)

    def expand(self):
        x = self.pick(lambda v: v.rank >= 2, floats=False)
        if self.chance(0.5):
            shape = [d if d > 1 or i == 0 else self.below(3) + 1 for i, d in enumerate(x.shape)]
            target = [1, *shape[1:]]
            op = "Expand"
        else:
            target = [1, *(self.below(2) + 1 for _ in x.shape[1:])]
            shape, op = [d * t for d, t in zip(x.shape, target)], "Tile"
        if np.prod(shape) <= MOST:
            self.add(op, [x, self.constant(np.array(target, np.int64))], shape, x, exact=x.exact)

    def resize(self):
        x = self.pick(lambda v: v.rank in (3, 4) and min(v.shape[2:]) >= 2)
        if not x:
            return
        scales = [1.0, 1.0, *(self.one_of([1.0, 2.0, 1.5, 0.5]) for _ in x.shape[2:])]
        shape = [int(np.floor(d * s)) for d, s in zip(x.shape, scales)]
        mode = self.one_of(["nearest", "linear"])
        how = self.one_of(["half_pixel", "asymmetric", "align_corners"])
        if min(shape[2:]) >= 2 and np.prod(shape) <= MOST:
            extra = {"nearest_mode": "floor"} if mode == "nearest" else {}
            if mode == "nearest" and how != "asymmetric":
                return
            # Of a size that was rounded ONNX's evaluator, and Temper, take what it was before, ONNX Runtime the rounded one.
            if how == "align_corners" and any(d * s != n for d, s, n in zip(x.shape, scales, shape)):
                return
            self.add("Resize", [x, "", self.constant(np.array(scales, np.float32))], shape, x, exact=x.exact and mode == "nearest", mode=mode, coordinate_transformation_mode=how, **extra)

    def depth(self):
        x = self.pick(lambda v: v.rank == 4)
        if not x:
            return
        n, c, h, w = x.shape
        if c % 4 == 0 and self.chance(0.5):
            self.add("DepthToSpace", [x], [n, c // 4, 2 * h, 2 * w], x, exact=x.exact, blocksize=2, mode=self.one_of(["DCR", "CRD"]))
        elif h % 2 == 0 and w % 2 == 0:
            self.add("SpaceToDepth", [x], [n, 4 * c, h // 2, w // 2], x, exact=x.exact, blocksize=2)

    def compare(self):
        x = self.pick(lambda v: v.exact)
        if not x:
            return
        limit = self.constant(np.float32(self.floats([])))
        c = self.add(self.one_of(["Greater", "Less", "GreaterOrEqual", "LessOrEqual"]), [x, limit], x.shape, x, dtype=np.bool_, exact=True)
        if self.chance(0.3):
            c = self.add("Not", [c], x.shape, c, exact=True)
        self.add("Where", [c, x, self.constant(np.float32(0.25))], x.shape, x, exact=True)
        if self.chance(0.3):
            self.add("Cast", [c], x.shape, x, exact=True, size=1.0, to=TensorProto.FLOAT)

    def integers(self):
        x = self.pick(lambda v: v.dtype == np.int64, floats=False)
        if not x:
            return
        kind = self.below(4)
        if kind == 0:
            other = self.one_of([2, 3, -3, 5])
            op = self.one_of(["Add", "Sub", "Mul", "Div", "Mod", "Max", "Min"])
            if x.size < 1e6:
                self.add(op, [x, self.constant(np.int64(other))], x.shape, x, exact=True, size=5 * x.size + 5)
        elif kind == 1:
            c = self.add(self.one_of(["Equal", "Greater", "Less"]), [x, self.constant(np.int64(1))], x.shape, x, dtype=np.bool_, exact=True)
            self.add("Where", [c, x, self.constant(np.int64(-2))], x.shape, x, exact=True)
        elif kind == 2 and x.size < 1e3:
            self.add("Cast", [x], x.shape, x, dtype=np.float32, exact=True, to=TensorProto.FLOAT)
        elif x.rank == 2 and x.size <= 9:  # an embedding
            width = self.below(5) + 1
            table = self.constant(self.floats([10, width]))
            i = self.add("Abs", [x], x.shape, x, exact=True)
            y = self.add("Gather", [table, i], [*x.shape, width], x, dtype=np.float32, exact=True, size=1.0)
            self.used.add(y.name) if self.chance(0.2) else None

    def arg(self):
        x = self.pick(lambda v: v.exact and v.rank >= 2 and max(v.shape[1:]) >= 2)
        if not x:
            return
        axis = 1 + int(np.argmax(x.shape[1:]))
        keep = self.below(2)
        shape = [1 if a == axis else d for a, d in enumerate(x.shape) if keep or a != axis]
        if self.chance(0.6):
            self.add(self.one_of(["ArgMax", "ArgMin"]), [x], shape, x, dtype=np.int64, exact=True, size=float(x.shape[axis]), axis=axis, keepdims=keep)
        else:
            k = self.below(x.shape[axis]) + 1
            shape = [k if a == axis else d for a, d in enumerate(x.shape)]
            made = self.add("TopK", [x, self.constant(np.array([k], np.int64))], [shape, shape], x, exact=True, outputs=2, axis=axis, largest=self.below(2))
            made[1].dtype = np.dtype(np.int64)
            made[1].size = float(x.shape[axis])

    def cumulative(self):
        x = self.pick(lambda v: v.rank >= 2)
        axis = self.below(x.rank - 1) + 1
        if x.size * x.shape[axis] < 500:
            self.add("CumSum", [x, self.constant(np.int64(axis))], x.shape, x, size=x.size * max(x.shape[axis], 1), exclusive=self.below(2), reverse=self.below(2))

    def quantized(self):
        x = self.pick(lambda v: v.exact and v.size < 10)
        if not x:
            return
        signed = self.chance(0.5)
        scale = self.constant(np.float32(self.one_of([1 / 8, 1 / 64, 1 / 16])))
        zero = self.constant(np.array(self.below(4), np.int8 if signed else np.uint8))
        q = self.add("QuantizeLinear", [x, scale, zero], x.shape, x, dtype=np.uint8, exact=True)
        self.values.pop()
        self.add("DequantizeLinear", [q, scale, zero], x.shape, x, exact=True, size=32.0)

    def einsum(self):
        x = self.pick(lambda v: v.rank == 3)
        if not x:
            return
        n = self.below(4) + 1
        if self.chance(0.5):
            self.add("Einsum", [x, self.constant(self.floats([x.shape[2], n], 0.5))], [x.shape[0], n, x.shape[1]], x, size=x.size * max(1, x.shape[2]), equation="abc,cd->adb")
        elif x.size**2 * x.shape[2] < 1e3:
            self.add("Einsum", [x, x], [x.shape[0], x.shape[1], x.shape[1]], x, size=x.size**2 * max(1, x.shape[2]), equation="abc,adc->abd")

    MAKERS = [conv, conv, conv, matmul, matmul, unary, unary, unary, binary, binary, binary, clip, norm, reduce, reduce, softmax, pool, transpose, transpose, reshape, reshape, concat,
              split, slice, pad, gather, expand, resize, depth, compare, integers, integers, arg, cumulative, quantized, einsum]

    def proto(self):
        outputs = [v for v in self.values if v.name.startswith("v") and (v.name not in self.used or self.chance(0.1))]
        graph = helper.make_graph(self.nodes, "random", self.inputs,
                                  [helper.make_tensor_value_info(v.name, NAMES[v.dtype], [f"{v.name}_{axis}" for axis in range(v.rank)]) for v in outputs], self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def answer(data, feeds, **options):
    engine = temper.build(data, shapes={name: array.shape for name, array in feeds.items()}, threads=1, measure=False, quick=True, **options)
    try:
        return engine.run(feeds)
    finally:
        engine.close()


def session(data):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def distance(got, want):
    """Of two outputs, in parts of the largest element; infinite where types, shapes, integers or places of NaN differ."""
    if got.dtype != want.dtype or got.shape != want.shape:
        return np.inf
    if want.dtype != np.float32:
        return 0.0 if np.array_equal(got, want) else np.inf
    if not np.array_equal(np.isfinite(got), np.isfinite(want)):
        return np.inf
    fine = np.isfinite(want)
    a, b = got[fine].astype(np.float64), want[fine].astype(np.float64)
    return float(np.abs(a - b).max() / max(1.0, np.abs(b).max())) if b.size else 0.0


def leading_to(proto, name):
    """The model of the nodes that this output needs, and of it alone."""
    needed, nodes = {name}, []
    for node in reversed(proto.graph.node):
        if needed & set(node.output):
            needed |= set(node.input)
            nodes.insert(0, node)
    graph = helper.make_graph(nodes, "part", [i for i in proto.graph.input if i.name in needed], [o for o in proto.graph.output if o.name == name],
                              [c for c in proto.graph.initializer if c.name in needed])
    return helper.make_model(graph, opset_imports=proto.opset_import, ir_version=proto.ir_version)


def in_double(proto):
    """The same model with FP64 in the place of FP32."""
    proto = onnx.ModelProto.FromString(proto.SerializeToString())
    for value in [*proto.graph.input, *proto.graph.output]:
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
    for constant in proto.graph.initializer:
        if constant.data_type == TensorProto.FLOAT:
            constant.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(constant).astype(np.float64), constant.name))
    for node in proto.graph.node:
        for attribute in node.attribute:
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i == TensorProto.FLOAT:
                attribute.i = TensorProto.DOUBLE
    return proto


def explanation(run, proto, feeds, got, want, name, far):
    """Why an output differs, or None."""
    try:
        part = leading_to(proto, name)
        given = {i.name: feeds[i.name] for i in part.graph.input}
        if distance(got, np.asarray(ReferenceEvaluator(part).run(None, given)[0])) <= TOLERANCE:
            return "as ONNX's evaluator, not as ONNX Runtime"
    except Exception:  # the evaluator does not take every model
        pass
    try:
        exact = ReferenceEvaluator(in_double(part)).run(None, {n: a.astype(np.float64) if a.dtype == np.float32 else a for n, a in given.items()})[0]
        if distance(got, np.asarray(exact).astype(got.dtype)) <= TOLERANCE:
            return "as ONNX's evaluator in FP64, not as ONNX Runtime"
    except Exception:
        pass
    random = np.random.default_rng(0)
    moved = 0.0
    for _ in range(8):
        near = {n: a * (1 + random.uniform(-4e-7, 4e-7, a.shape).astype(np.float32)) if a.dtype == np.float32 else a for n, a in feeds.items()}
        moved = max(moved, distance(run.run([name], near)[0], want))
    return "ill-conditioned" if far <= 2 * moved else None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--keep", default="random_graphs")
    arguments = parser.parse_args()
    counts, ops, refused, failures = collections.Counter(), collections.Counter(), collections.Counter(), 0
    for seed in range(arguments.first, arguments.first + arguments.count):
        model = Model(seed)
        proto = model.proto()
        if not proto.graph.output:
            continue
        data = proto.SerializeToString()
        try:
            run = session(data)
            want = dict(zip([o.name for o in proto.graph.output], run.run(None, model.feeds)))
        except Exception as error:  # what ONNX Runtime's kernels do not take, or the generator got wrong
            counts["not run by ONNX Runtime"] += 1
            refused[f"onnxruntime: {str(error)[:160]}"] += 1
            continue
        ops.update(model.ops)
        counts["models"] += 1
        for way, options in {"on": {}, "off": {"disable": ["all"]}, "reference": {"device": "reference"}}.items():
            try:
                got = answer(data, model.feeds, **options)
            except temper.Error as error:
                counts[f"{way} refused"] += 1
                refused[f"temper: {str(error)[:160]}"] += 1
                failures += error.kind != "unsupported"
                continue
            far = {name: distance(got[name], want[name]) for name in want}
            for name, by in far.items():
                if by <= TOLERANCE:
                    continue
                try:
                    why = explanation(run, proto, model.feeds, got[name], want[name], name, by)
                except Exception as error:
                    why = None
                    print(f"seed {seed}: {str(error)[:200]}")
                if why:
                    counts[f"{way} {why}"] += 1
                    continue
                counts[f"{way} wrong"] += 1
                failures += 1
                folder = pathlib.Path(arguments.keep)
                folder.mkdir(exist_ok=True)
                onnx.save(proto, folder / f"{seed}.onnx")
                print(f"seed {seed}, passes {way}: {name} is {by:.2g} away; {' '.join(model.ops)}", flush=True)
        if (seed + 1) % 1000 == 0:
            print(f"{seed + 1 - arguments.first} seeds: {dict(counts)}", flush=True)
    print(f"seeds {arguments.first} to {arguments.first + arguments.count - 1}: {dict(counts)}; {len(ops)} kinds of ops, the least often "
          f"{ops.most_common()[-1]}")
    for reason, count in refused.most_common(10):
        print(f"    {count} {reason}")
    sys.exit(1 if failures or counts["models"] < 0.9 * arguments.count else 0)


if __name__ == "__main__":
    main()
