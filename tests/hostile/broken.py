# SPDX-License-Identifier: Apache-2.0
"""Models that are broken in one place each: files, wire format, graphs, tensors, attributes, inputs. Each is refused by a
documented exit code and a line that says why, or runs where it is odd but means something; within a second of processor time
(ten where the file is large; three times that is held against it, since machines differ) and 16 times the file and 256 MiB of
memory. A list of words behind the script runs only what has one of them in its name."""
import gzip
import os
import random
import struct
import subprocess
import sys

from harness import LONG, Cases
from wire import FLOAT, INT64, around, attribute, field, fields, function, graph, ints, model, node, tensor, value, varint

REFUSED, FINE, EITHER = (3, 4), (0,), (0, 3, 4)
X, Y = [value("x", [1, 4])], [value("y", [1, 4])]
RELU = node("Relu", ["x"], ["y"])
GOOD = model([RELU], X, Y)
HUGE, LEAST = (1 << 63) - 1, -(1 << 63)
NAN = float("nan")


def floats(name, values, dims=None):
    return tensor(name, [len(values)] if dims is None else dims, FLOAT, struct.pack(f"<{len(values)}f", *values))


def one(op, inputs=("x",), dims=(1, 4), out=(1, 4), constants=(), opset=17, kinds=(), outputs=("y",), **attributes):
    """A model of one node. `kinds`: more of the model's inputs."""
    return model([node(op, list(inputs), list(outputs), **attributes)], [value("x", list(dims)), *kinds], [value("y", list(out))], constants, opset=opset)


def branches(depth):
    """Graphs inside each other: twice while that is small, then once. What stands around each is put together in the end alone: a
    graph that is copied for each around it takes a minute for 10,000."""
    leaf = inner = graph([RELU], [], Y)
    while depth and len(inner) < 1 << 12:
        inner = graph([node("If", ["t"], ["y"], then_branch=(inner,), else_branch=(inner,))], [], Y)
        depth -= 1
    firsts, lasts, size = [], [], len(inner)
    for _ in range(depth):
        first, last = around(6, b"", size, b"")
        first, last = around(5, field(1, "then_branch") + first, size, last + field(20, 5))
        first, last = around(1, node("If", ["t"], ["y"]) + first, size, last + attribute("else_branch", (leaf,)))
        last += graph([], [], Y)
        firsts.append(first)
        lasts.append(last)
        size += len(first) + len(last)
    return b"".join([*reversed(firsts), inner, *lasts])


def wire():
    name = field(7, field(1, RELU))
    yield "varint of eleven bytes", GOOD + b"\x80" * 10 + b"\x01", REFUSED
    yield "overlong varint", b"\x08" + b"\x88\x80\x80\x00" + GOOD[2:], EITHER
    yield "wrong wire type", varint(7 << 3) + varint(5) + GOOD, EITHER
    yield "fixed where bytes belong", varint(7 << 3 | 5) + b"abcd" + GOOD, EITHER
    yield "group", b"\x0b\x0c" + GOOD, EITHER
    yield "open group", GOOD + b"\x0b", REFUSED
    yield "end of a group alone", GOOD + b"\x0c", REFUSED
    yield "tag 0", GOOD + b"\x00\x00", REFUSED
    yield "wire type 7", GOOD + b"\x0f", REFUSED
    yield "unknown field", GOOD + field(1000, "what is that"), FINE
    yield "length behind the end", GOOD + varint(7 << 3 | 2) + varint(1 << 20), REFUSED
    yield "length of 2^63", GOOD + varint(7 << 3 | 2) + varint(1 << 63), REFUSED
    yield "graph twice", GOOD + name, EITHER
    yield "version twice", field(1, 3) + GOOD, FINE
    yield "packed dims", model([RELU], X, Y, [field(1, b"\x01\x04") + field(2, FLOAT) + field(8, "c") + field(9, bytes(16))]), EITHER
    yield "name of no characters", GOOD.replace(field(1, "x"), field(1, b"\xff\xfe")), EITHER
    for depth in (31, 33, 99, 100, 101, 10_000):
        content = field(1, 8) + field(7, branches(depth) + fields(11, [*X, value("t", [], 9)])) + field(8, field(1, "") + field(2, 17))
        yield f"graphs {depth} deep", content, EITHER if depth < 32 else REFUSED
    headers, size = [], 0
    for _ in range(100_000):
        headers.append(varint(7 << 3 | 2) + varint(size))
        size += len(headers[-1])
    yield "messages 100,000 deep", b"".join(reversed(headers)), REFUSED


def graphs():
    relu = lambda a, b: node("Relu", [a], [b])
    yield "self loop", model([relu("y", "y")], X, Y), REFUSED
    yield "cycle", model([relu("b", "a"), relu("a", "b"), node("Add", ["x", "a"], ["y"])], X, Y), REFUSED
    yield "later value", model([relu("a", "y"), relu("x", "a")], X, Y), REFUSED
    yield "value twice", model([relu("x", "y"), node("Neg", ["x"], ["y"])], X, Y), REFUSED
    yield "output of the input's name", model([relu("x", "x")], X, [value("x", [1, 4])]), REFUSED
    yield "undefined input", model([node("Add", ["x", "nothing"], ["y"])], X, Y), REFUSED
    yield "undefined output", model([RELU], X, [*Y, value("z", [1])]), REFUSED
    double = field(8, field(1, "") + field(2, 17)) + field(8, field(1, "ai.onnx") + field(2, 18))
    yield "domain under both of its names", field(1, 8) + field(7, graph([RELU], X, Y)) + double, EITHER
    yield "unused output", model([RELU, node("Neg", ["x"], ["z"])], X, Y), FINE
    yield "output twice", model([RELU], X, [*Y, *Y]), EITHER
    yield "input twice", model([RELU], [*X, *X], Y), REFUSED
    yield "no name", model([node("Relu", ["x"], [""])], X, Y), REFUSED
    yield "no op", model([node("", ["x"], ["y"])], X, Y), REFUSED
    yield "no nodes", model([], X, [value("x", [1, 4])]), EITHER
    yield "no outputs", model([RELU], X, []), REFUSED
    yield "no graph", field(1, 8) + field(8, field(1, "") + field(2, 17)), REFUSED
    yield "constant shadows an input", model([RELU], X, Y, [floats("x", [1, 2, 3, 4], [1, 4])]), EITHER
    yield "constant as an output", model([RELU], X, [*Y, value("c", [2])], [floats("c", [1, 2])]), FINE
    yield "constant twice", model([RELU], X, Y, [floats("c", [1]), floats("c", [2])]), EITHER
    yield "too many inputs", model([node("Relu", ["x", "x", "x"], ["y"])], X, Y), REFUSED
    yield "too few inputs", model([node("Add", ["x"], ["y"])], X, Y), REFUSED
    yield "too many outputs", model([node("Relu", ["x"], ["y", "z"])], X, Y), REFUSED
    for opset in (0, -1, 1 << 31, HUGE, 9999):
        yield f"opset {opset}", model([RELU], X, Y, opset=opset), REFUSED
    for ir in (0, -1, 999, 1 << 31):
        yield f"version {ir}", model([RELU], X, Y, ir=ir), EITHER
    yield "no opset", field(1, 8) + field(7, graph([RELU], X, Y)), REFUSED
    yield "opset twice", GOOD + field(8, field(1, "") + field(2, 16)), EITHER
    yield "unknown op", model([node("Quux", ["x"], ["y"])], X, Y), REFUSED
    yield "unknown domain", model([node("Relu", ["x"], ["y"], "org.nobody")], X, Y), REFUSED
    call = lambda name, a="a", b="b": node(name, [a], [b], "own")
    start = [node("f", ["x"], ["y"], "own")]
    yield "function calls itself", model(start, X, Y, functions=[function("f", [call("f")])]), REFUSED
    yield "functions call each other", model(start, X, Y, functions=[function("f", [call("g")]), function("g", [call("f")])]), REFUSED
    inner = graph([node("f", ["a"], ["r"], "own")], [], [value("r", [1, 4])])
    test = node("Constant", [], ["t"], value=tensor("", [], 9, b"\1"))
    yield "function calls itself in a branch", model(start, X, Y, functions=[function("f", [test, node("If", ["t"], ["b"], then_branch=(inner,), else_branch=(inner,))])]), REFUSED
    yield "function twice", model(start, X, Y, functions=[function("f", [node("Relu", ["a"], ["b"])])] * 2), EITHER


def tensors():
    with_constant = lambda c: model([node("Add", ["x", "c"], ["y"])], X, Y, [c])
    raw = bytes(16)
    for dims in ([-1], [LEAST], [1 << 31], [HUGE], [1 << 32, 1 << 32], [HUGE, HUGE, HUGE], [1 << 62, 4], [0, HUGE]):
        yield f"constant of shape {dims}", with_constant(tensor("c", dims, FLOAT, raw)), REFUSED
    yield "constant without elements", with_constant(tensor("c", [0], FLOAT, b"")), REFUSED
    yield "constant of rank 1000", with_constant(tensor("c", [1] * 1000, FLOAT, bytes(4))), EITHER
    yield "too few bytes", with_constant(tensor("c", [4], FLOAT, bytes(15))), REFUSED
    yield "too many bytes", with_constant(tensor("c", [4], FLOAT, bytes(17))), REFUSED
    yield "bytes and floats", with_constant(tensor("c", [4], FLOAT, raw) + field(4, struct.pack("<4f", 1, 2, 3, 4))), REFUSED
    yield "neither bytes nor floats", with_constant(field(1, 4) + field(2, FLOAT) + field(8, "c")), REFUSED
    yield "integers for floats", with_constant(field(1, 4) + field(2, FLOAT) + field(8, "c") + field(7, b"\1\2\3\4")), REFUSED
    for dtype in (0, 8, 14, 15, 99, -1, 1 << 31):
        yield f"constant of type {dtype}", with_constant(tensor("c", [1], dtype, bytes(16))), REFUSED
        yield f"input of type {dtype}", model([RELU], [value("x", [1, 4], dtype)], Y), REFUSED
    small = lambda raw: model([node("DequantizeLinear", ["q", "s"], ["c"]), node("Add", ["x", "c"], ["y"])], [value("x", [3])], [value("y", [3])], [tensor("q", [3], 22, raw), floats("s", [0.5], [])], opset=21)
    yield "odd count of 4 bits", small(b"\x21\x03"), FINE
    yield "4 bits too short", small(b"\x21"), REFUSED
    yield "4 bits too long", small(b"\x21\x03\x00"), REFUSED
    yield "segment", with_constant(tensor("c", [4], FLOAT, raw) + field(3, field(1, 0) + field(2, 2))), REFUSED
    for key, text in (("offset", "-1"), ("length", str(HUGE)), ("offset", "1e3"), ("location", "../../etc/passwd"), ("location", "/dev/zero"), ("location", "")):
        entries = {"location": "w.bin", "offset": "0", "length": "16", key: text}
        data = b"".join(field(13, field(1, k) + field(2, v)) for k, v in entries.items())
        yield f"external {key} {text}", with_constant(field(1, 4) + field(2, FLOAT) + field(8, "c") + data + field(14, 1)), (2, 3, 4, 5)
    indices = ints("i", [1, 1, 99])
    sparse = field(1, floats("c", [1, 2, 3])) + field(2, indices) + fields(3, [4])
    yield "sparse constant", field(1, 8) + field(7, graph([node("Add", ["x", "c"], ["y"])], X, Y) + field(15, sparse)) + field(8, field(1, "") + field(2, 17)), REFUSED
    yield "input of 2^62 elements", model([RELU], [value("x", [1 << 31, 1 << 31])], Y), (3, 4, 5)
    yield "input of shape -2", model([RELU], [value("x", [-2])], Y), REFUSED
    yield "input of rank 1000", model([RELU], [value("x", [1] * 1000)], Y), EITHER
    yield "input without elements", one("Relu", dims=(2, 0, 4), out=(2, 0, 4)), FINE


def attributes():
    image, kernel = (1, 4, 6, 6), floats("w", [0.5] * 4 * 4 * 9, [4, 4, 3, 3])
    conv = lambda **a: one("Conv", ("x", "w"), image, ("a", "b", "c", "d"), [kernel], **a)
    yield "conv", conv(kernel_shape=[3, 3]), FINE
    for name, bad in (("strides", [0, 1]), ("strides", [-1, 1]), ("strides", [HUGE, 1]), ("dilations", [0, 1]), ("dilations", [HUGE, HUGE]), ("kernel_shape", [0, 3]), ("kernel_shape", [5, 5]),
                      ("group", 0), ("group", -1), ("group", 3), ("group", HUGE), ("pads", [-9, 0, 0, 0]), ("pads", [HUGE, 0, HUGE, 0]), ("pads", [1]), ("strides", 1), ("auto_pad", "SIDEWAYS"), ("group", 1.5)):
        yield f"conv {name} {bad}", conv(**{name: bad}), REFUSED
    pool = lambda op="MaxPool", **a: one(op, dims=image, out=("a", "b", "c", "d"), **a)
    yield "pool without kernel", pool(), REFUSED
    for kernel_shape in ([0, 0], [-1, 2], [HUGE, HUGE], [2], [7, 7]):
        yield f"pool kernel {kernel_shape}", pool(kernel_shape=kernel_shape), REFUSED
    yield "pool strides", pool(kernel_shape=[2, 2], strides=[0, 0]), REFUSED
    yield "pool pads", pool("AveragePool", kernel_shape=[2, 2], pads=[HUGE, 0, 0, 0]), REFUSED
    for op in ("Softmax", "Concat", "Gather", "Flatten", "ArgMax", "Split", "CumSum", "LayerNormalization", "Hardmax"):
        inputs = {"Gather": ("x", "i"), "CumSum": ("x", "far"), "LayerNormalization": ("x", "s")}.get(op, ("x",))
        for axis in (2, -3, HUGE, LEAST):
            given = {} if op == "CumSum" else {"axis": axis}
            codes = FINE if (op, axis) == ("Flatten", 2) else REFUSED
            yield f"{op} axis {axis}", one(op, inputs, out=("a", "b"), constants=[ints("i", [0]), ints("far", [axis], True), floats("s", [1.0] * 4)], **given), codes
    for perm in ([0, 0], [1], [0, 2], [-1, 0], [HUGE, 0], [0, 1, 2]):
        yield f"perm {perm}", one("Transpose", out=("a", "b"), perm=perm), REFUSED
    for sizes in ([1, 2], [-1, 5], [HUGE, 5], [2, 2, 2]):
        yield f"split {sizes}", model([node("Split", ["x", "s"], ["y", "z"], axis=1)], X, [value("y", ["a", "b"])], [ints("s", sizes)]), REFUSED
    for shape in ([-1, -1], [3], [-2, 2], [HUGE, HUGE], [0, 4], [1 << 40, -1], [LEAST]):
        yield f"reshape {shape}", one("Reshape", ("x", "s"), out=("a",), constants=[ints("s", shape)]), REFUSED if shape != [0, 4] else FINE
    for name, bounds in (("step 0", ([0], [4], [1], [0])), ("axis 5", ([0], [4], [5], [1])), ("axes twice", ([0, 0], [4, 4], [1, 1], [1, 1])), ("lengths", ([0, 0], [4], [1], [1]))):
        yield f"slice {name}", one("Slice", ("x", "a", "b", "c", "d"), out=("p", "q"), constants=[ints(n, v) for n, v in zip("abcd", bounds)]), REFUSED
    for bounds in (([HUGE], [LEAST], [1], [LEAST]), ([LEAST], [HUGE], [1], [HUGE]), ([LEAST], [HUGE], [1], [1])):
        yield f"slice {bounds}", one("Slice", ("x", "a", "b", "c", "d"), out=("p", "q"), constants=[ints(n, v) for n, v in zip("abcd", bounds)]), EITHER
    for k in (5, -1, HUGE):
        yield f"top {k}", one("TopK", ("x", "k"), out=("a", "b"), constants=[ints("k", [k])], outputs=("y", "i")), REFUSED
    for pads in ([HUGE, 0, 0, 0], [0, 0, 0, LEAST], [-9, 0, 0, 0], [1, 1], [0, 1 << 40, 0, 1 << 40]):
        yield f"pad {pads}", one("Pad", ("x", "p"), out=("a", "b"), constants=[ints("p", pads)]), (3, 4, 5)
    for repeats in ([-1, 1], [1], [HUGE, HUGE]):
        yield f"tile {repeats}", one("Tile", ("x", "r"), out=("a", "b"), constants=[ints("r", repeats)]), (3, 4, 5)
    for shape in ([-1], [HUGE, HUGE], [5, 5]):
        yield f"expand {shape}", one("Expand", ("x", "s"), out=("a", "b"), constants=[ints("s", shape)]), (3, 4, 5)
    for axes in ([0, 0], [1], [5], [LEAST]):
        yield f"squeeze {axes}", one("Squeeze", ("x", "s"), out=("a",), constants=[ints("s", axes)]), REFUSED
        yield f"unsqueeze {axes}", one("Unsqueeze", ("x", "s"), out=("a", "b", "c"), constants=[ints("s", axes)]), EITHER if axes in ([1], ) else REFUSED
    for scale in (0.0, -1.0, NAN, float("inf")):
        yield f"resize by {scale}", one("Resize", ("x", "", "k"), out=("a", "b"), constants=[floats("k", [1, scale])]), REFUSED
        yield f"quantize by {scale}", one("DequantizeLinear", ("q", "s"), out=(4,), constants=[tensor("q", [4], 3, b"\1\2\3\4"), floats("s", [scale], [])]), FINE if scale == 0 else REFUSED
    yield "quantize by a denormal", one("DequantizeLinear", ("q", "s"), out=(4,), constants=[tensor("q", [4], 3, b"\1\2\3\4"), floats("s", [1e-42], [])]), FINE
    yield "zero point of another type", one("DequantizeLinear", ("q", "s", "z"), out=(4,), constants=[tensor("q", [4], 3, b"\1\2\3\4"), floats("s", [1], []), tensor("z", [], 2, b"\1")]), REFUSED
    yield "zero point of floats", one("QuantizeLinear", ("x", "s", "z"), constants=[floats("s", [1], []), floats("z", [0], [])]), REFUSED
    for equation in ("", "ij", "ij->", "ij,jk->ik", "ii->i", "i...j...->", "ij->ijk", "->->", "i" * 100_000, "ij->" + "j" * 1000, "\x00"):
        yield f"einsum {equation[:20]!r}", one("Einsum", out=("a",), equation=equation), EITHER
    for size in (0, -1, HUGE):
        yield f"depth to space {size}", one("DepthToSpace", dims=image, out=("a", "b", "c", "d"), blocksize=size), REFUSED
        yield f"normalization over {size}", one("LRN", dims=image, out=image, size=size), (0, 3, 4) if size == HUGE else REFUSED
    yield "wrong kind of attribute", one("Softmax", axis="one"), REFUSED
    yield "unknown attribute", one("Relu", colour=3), REFUSED
    yield "attribute twice", model([node("Softmax", ["x"], ["y"], axis=0) + attribute("axis", 1)], X, Y), EITHER
    yield "attribute without a name", model([RELU + field(5, field(3, 7) + field(20, 2))], X, Y), REFUSED
    for pads in ([1], [1, 1, 1], [1] * 9):
        yield f"integer conv pads {pads}", model([node("ConvInteger", ["x", "w", "z"], ["y"], pads=pads)], [value("x", [1, 4, 6, 6], 2), value("z", [], 2)],
                                                [value("y", list("abcd"), 6)], [tensor("w", [4, 4, 3, 3], 3, bytes(144))]), REFUSED
    short = lambda window: model([node("STFT", ["x", "s", "w"], ["y"])], [value("x", [1, 16, 1]), value("w", window)], [value("y", list("abcd"))], [ints("s", [4], True)])
    yield "short transform", short([8]), FINE
    for window in ([], [8, 1]):
        yield f"window of shape {window}", short(window), REFUSED
    for op, axes in (("Squeeze", []), ("Unsqueeze", []), ("Unsqueeze", [1 << 40])):
        yield f"{op} by data of shape {axes}", one(op, ("x", "k"), out=("a",), kinds=[value("k", axes, INT64)]), EITHER
    yield "dropout of no mode", one("Dropout", ("x", "", "m"), constants=[tensor("m", [0], 9, b"")]), REFUSED
    rotary = model([node("RotaryEmbedding", ["x", "p", "c", "s"], ["y"], "com.microsoft")], [value("x", [2, 5, 0]), value("p", [2, 5], INT64)], [value("y", [2, 5, 0])],
                   [floats("c", [0.5] * 36, [9, 4]), floats("s", [0.5] * 36, [9, 4])])
    yield "rotation of heads of no size", rotary + field(8, field(1, "com.microsoft") + field(2, 1)), REFUSED
    heads = node("GroupQueryAttention", ["x", "k", "v", "", "", "n", "t"], ["y", "a", "b"], "com.microsoft", num_heads=4, kv_num_heads=2)
    grouped = lambda k, v: model([heads], [value("x", [2, 5, 32]), value("k", k), value("v", v)], [value("y", [2, 5, 32]), value("a", list("abcd")), value("b", list("abcd"))],
                                 [tensor("n", [2], 6, struct.pack("<2i", 4, 4)), tensor("t", [1], 6, struct.pack("<i", 5))]) + field(8, field(1, "com.microsoft") + field(2, 1))
    yield "heads of keys and values", grouped([2, 5, 16], [2, 5, 16]), FINE
    for dims in ([2, 5], [], [2, 5, 16, 1]):
        yield f"heads of keys of shape {dims}", grouped(dims, [2, 5, 16]), REFUSED
        yield f"heads of values of shape {dims}", grouped([2, 5, 16], dims), REFUSED
    body = lambda ops=(): (graph([node("Identity", ["d"], ["e"]), node("Add", ["a", "a"], ["s"]), *ops], [value("i", [], INT64), value("d", [], 9), value("a", [1, 4])], [value("e", [], 9), value("s", [1, 4])]),)
    yield "loop of no end", model([node("Loop", ["", "", "x"], ["y"], body=body())], X, Y), REFUSED
    sums = (graph([node("Identity", ["d"], ["e"]), node("Add", ["a", "a"], ["s"]), node("Add", ["a", "b"], ["t"])], [value("i", [], INT64), value("d", [], 9), value("a", [1, 4])], [value("e", [], 9), value("s", [1, 4])]),)
    yield "loop whose body reads what is not there", model([node("Loop", ["n", "", "x"], ["y"], body=sums)], X, Y, [ints("n", [3], True)]), REFUSED
    yield "loop of 2^63 - 1 iterations", model([node("Loop", ["n", "", "x"], ["y"], body=body())], X, Y, [ints("n", [HUGE], True)]), REFUSED
    few = (graph([node("Less", ["i", "l"], ["e"]), node("Add", ["a", "a"], ["s"])], [value("i", [], INT64), value("d", [], 9), value("a", [1, 4])], [value("e", [], 9), value("s", [1, 4])]),)
    yield "loop of 2^63 - 1 iterations that its condition ends", model([node("Loop", ["n", "", "x"], ["y"], body=few)], X, Y, [ints("n", [HUGE], True), ints("l", [5], True)]), FINE
    stack = (graph([node("Identity", ["d"], ["e"]), node("Identity", ["a"], ["s"]), node("Identity", ["a"], ["u"])], [value("i", [], INT64), value("d", [], 9), value("a", [1, 4])], [value("e", [], 9), value("s", [1, 4]), value("u", [1, 4])]),)
    yield "loop that stacks 2^63 - 1 slices", model([node("Loop", ["n", "", "x"], ["y", "z"], body=stack)], X, [*Y, value("z", ["k", 1, 4])], [ints("n", [HUGE], True)]), (3, 4, 5)
    yield "loop of a body that is no loop's", model([node("Loop", ["n", "", "x"], ["y"], body=(graph([RELU], X, Y),))], X, Y, [ints("n", [3], True)]), REFUSED
    yield "loop that counts in floats", model([node("Loop", ["n", "", "x"], ["y"], body=body())], X, Y, [floats("n", [3], [])]), REFUSED
    branch = lambda out, dims: (graph([node("Relu", ["x"], [out])], [], [value(out, dims)]),)
    flat = (graph([node("Shape", ["x"], ["q"])], [], [value("q", [2], INT64)]),)
    yield "branches of two types", model([node("If", ["t"], ["y"], then_branch=branch("p", [1, 4]), else_branch=flat)], [*X, value("t", [], 9)], Y), REFUSED
    yield "branch without outputs", model([node("If", ["t"], ["y"], then_branch=(graph([], [], []),), else_branch=branch("p", [1, 4]))], [*X, value("t", [], 9)], Y), REFUSED
    yield "branch is missing", model([node("If", ["t"], ["y"], then_branch=branch("p", [1, 4]))], [*X, value("t", [], 9)], Y), REFUSED


def sequences():
    make = node("SequenceConstruct", ["x", "x"], ["s"])
    after = lambda *nodes, constants=(), out=("a", "b"): model([make, *nodes], X, [value("y", list(out))], constants)
    for place in (2, -3, HUGE, LEAST):
        at = [ints("p", [place], True)]
        yield f"element {place}", after(node("SequenceAt", ["s", "p"], ["y"]), constants=at), REFUSED
        yield f"erase {place}", after(node("SequenceErase", ["s", "p"], ["r"]), node("ConcatFromSequence", ["r"], ["y"], axis=0), constants=at), REFUSED
        yield f"insert {place}", after(node("SequenceInsert", ["s", "x", "p"], ["r"]), node("ConcatFromSequence", ["r"], ["y"], axis=0), constants=at), REFUSED if place != 2 else FINE
    for axis in (2, -3, HUGE):
        yield f"concat along {axis}", after(node("ConcatFromSequence", ["s"], ["y"], axis=axis)), REFUSED
    for split in ([0], [-1], [LEAST]):
        yield f"parts of {split}", model([node("SplitToSequence", ["x", "k"], ["s"], axis=1), node("ConcatFromSequence", ["s"], ["y"], axis=1)], X, Y, [ints("k", split, True)]), REFUSED
    yield "parts of no size", model([node("SplitToSequence", ["x", "k"], ["s"], axis=1), node("ConcatFromSequence", ["s"], ["y"], axis=1)], X, Y, [tensor("k", [0, 1], INT64, b"")]), REFUSED
    yield "insert at no place", after(node("SequenceInsert", ["s", "x", "p"], ["r"]), node("ConcatFromSequence", ["r"], ["y"], axis=0), constants=[tensor("p", [0], INT64, b"")]), REFUSED
    yield "parts that do not fit", model([node("SplitToSequence", ["x", "k"], ["s"], axis=1), node("ConcatFromSequence", ["s"], ["y"], axis=1)], X, Y, [ints("k", [1, HUGE])]), REFUSED
    yield "a tensor where a sequence belongs", after(node("SequenceLength", ["x"], ["y"])), REFUSED
    yield "a sequence where a tensor belongs", after(node("Relu", ["s"], ["y"])), REFUSED
    yield "no elements", model([node("SequenceEmpty", [], ["s"]), node("ConcatFromSequence", ["s"], ["y"], axis=0)], X, Y), REFUSED
    yield "an optional without a value", model([node("Optional", [], ["o"]), node("OptionalGetElement", ["o"], ["y"])], X, Y, opset=18), REFUSED
    doubled = [node("SequenceConstruct", ["x"], ["s0"])]
    for i in range(40):
        doubled.append(node("SequenceInsert", [f"s{i}", "x"], [f"s{i + 1}"]))
    yield "list by list", model([*doubled, node("ConcatFromSequence", ["s40"], ["y"], axis=0)], X, [value("y", ["n", 4])]), FINE
    wide = [value("x", [1, 200_000])]
    chain = [node("SplitToSequence", ["x"], ["s0"], axis=1), *(node("SequenceInsert", [f"s{i}", "x"], [f"s{i + 1}"]) for i in range(200))]
    yield "long lists, many times", model([*chain, node("SequenceLength", ["s200"], ["y"])], wide, [value("y", [], INT64)]), REFUSED


def files(cases):
    """What is no regular file of a model; (name, command's path, codes)."""
    folder = cases.folder
    sizes = range(len(GOOD)) if LONG else range(0, len(GOOD), 9)
    for size in sizes:
        yield f"cut to {size} bytes", cases.write("cut.onnx", GOOD[:size]), REFUSED
    noise = random.Random(5)
    for size in (1, 7, 100, 5000, 1 << 20):
        yield f"noise of {size} bytes", cases.write("noise.onnx", noise.randbytes(size)), REFUSED
    yield "text", cases.write("text.onnx", "this is no model\n" * 100), REFUSED
    yield "gzip", cases.write("gzip.onnx", gzip.compress(GOOD)), REFUSED
    yield "zeros", cases.write("zeros.onnx", bytes(1 << 16)), REFUSED
    (folder / "folder.onnx").mkdir(exist_ok=True)
    yield "folder", "folder.onnx", (2, 3, 5)
    yield "nothing", "nothing.onnx", (2, 3, 5)
    yield "device", "/dev/zero", (2, 3, 4, 5)
    os.mkfifo(folder / "fifo.onnx")
    yield "pipe", "fifo.onnx", (2, 3, 4, 5)
    for size in ((1 << 31) - 1, 1 << 31, 1 << 40):
        with open(folder / "large.onnx", "wb") as file:
            file.truncate(size)
        yield f"{size} zeros", "large.onnx", (3, 4, 5)
    (folder / "large.onnx").write_bytes(GOOD)  # is read, since it begins as a model
    os.truncate(folder / "large.onnx", (1 << 31) - 1 if LONG else 1 << 27)
    yield "a model and zeros", "large.onnx", REFUSED


def changing(cases):
    """A model that another process writes while it is read."""
    small, large = GOOD, model([RELU], X, Y, [floats("c", [1.0] * 50_000)])
    path = cases.write("changing.onnx", large)
    code = (f"import time\nend = time.monotonic() + 60\nwhile time.monotonic() < end:\n"
            f"    for size in ({len(small)}, {len(large)}, 0):\n        with open('changing.onnx', 'r+b') as file:\n            file.truncate(size)\n"
            f"            file.write({small!r})\n")
    writer = subprocess.Popen([sys.executable, "-c", code], cwd=cases.folder)
    try:
        for i in range(20 if LONG else 5):
            yield f"changes while it is read, {i}", path, (0, 3, 4, 5)
    finally:
        writer.kill()
        writer.wait()


def runs(cases):
    """What a run is given; (name, arguments, codes)."""
    import numpy as np
    cases.write("good.onnx", GOOD)
    cases.write("open.onnx", model([RELU], [value("x", ["n", 4])], [value("y", ["n", 4])]))
    given = {"nan": np.full((1, 4), np.nan, np.float32), "infinite": np.full((1, 4), -np.inf, np.float32), "denormal": np.full((1, 4), 1e-42, np.float32)}
    for name, data in given.items():
        np.save(cases.folder / f"{name}.npy", data)
        yield name, ["good.onnx", "--input", f"x={name}.npy"], FINE
    wrong = {"of another type": np.zeros((1, 4), np.complex64), "of another rank": np.zeros(4, np.float32), "of another shape": np.zeros((1, 5), np.float32),
             "of objects": np.array([{"a": 1}], dtype=object), "without elements": np.zeros((0, 4), np.float32)}
    for name, data in wrong.items():
        np.save(cases.folder / "wrong.npy", data, allow_pickle=True)
        yield name, ["good.onnx", "--input", "x=wrong.npy"], (0, 2, 3, 4)
        os.replace(cases.folder / "wrong.npy", cases.folder / f"{name.replace(' ', '_')}.npy")
    yield "of no such input", ["good.onnx", "--input", "z=nan.npy"], (2,)
    for shape in ("x=0x4", "x=-1x4", "x=1x5", "x=99999999999x4", "x=1x4:0x4:2x4", "x=4x4:2x4:1x4", "z=1x4", "x=", "x=1xx4"):
        yield f"shapes {shape}", ["open.onnx", "--shapes", shape], (0, 2, 5)


def main():
    cases = Cases()
    wanted = sys.argv[3:]
    options = ["--no-timing-cache", "--no-measure", "--quiet"]

    def check(name, arguments, codes, size=0):
        if wanted and not any(word in name for word in wanted):
            return
        outcome = cases.run("run", *arguments, *options)
        cases.expect(outcome.seconds <= (3 if size < 1 << 20 else 30), outcome, f"{name}: took {outcome.seconds:.1f} s")
        memory = 16 * size + (256 << 20)
        cases.expect(outcome.memory <= memory, outcome, f"{name}: took {outcome.memory >> 20} MiB")
        before = len(cases.failures)
        cases.documented(outcome, codes, memory)
        if len(cases.failures) > before:
            print(f"    in '{name}'", flush=True)

    for make in (wire, graphs, tensors, attributes, sequences):
        for name, content, codes in make():
            cases.write("broken.onnx", content)
            check(name, ["broken.onnx"], codes, len(content))
    for name, path, codes in files(cases):
        check(name, [path], codes, os.path.getsize(cases.folder / path) if path == "large.onnx" else 0)
    for name, path, codes in changing(cases):
        check(name, [path], codes)
    for name, arguments, codes in runs(cases):
        check(name, arguments, codes)
    cases.finish()


main()
