# SPDX-License-Identifier: Apache-2.0
"""Long models of many kinds at a size and at twice that size: what import and passes take of processor time, and how it grows. A
figure of 2 is linear. `linear.py PROGRAM [SIZE] [KIND...]` prints a table; no test, since machines that do other work as well say
little of times."""
import re
import sys

from harness import Cases
from wire import FLOAT, INT64, function, graph, ints, model, node, tensor, value

X, Y = [value("x", [1, 4])], [value("y", [1, 4])]
IMAGE, IMAGE_OUT = [value("x", [1, 4, 5, 5])], [value("y", list("abcd"))]
SQUARE = tensor("w", [4, 4], FLOAT, bytes(range(64)))
KERNEL = tensor("w", [4, 4, 3, 3], FLOAT, bytes(range(64)) * 9)
ROW = tensor("b", [4], FLOAT, bytes(range(16)))
HALF = tensor("h", [], FLOAT, b"\0\0\0\x3f")
ZERO = tensor("z", [], 2, b"\0")


def chain(count, *links, x=X, y=Y, constants=(), opset=17, functions=(), more=()):
    """`links`: each gives the nodes between two names, from its number and the names."""
    names = ["x", *(f"v{i}" for i in range(count - 1)), "y"]
    nodes = []
    for i in range(count):
        nodes += links[i % len(links)](i, names[i], names[i + 1])
    return model([*nodes, *more], x, y, constants, functions, opset)


def op(kind, *others, **attributes):
    return lambda i, a, b: [node(kind, [a, *others], [b], **attributes)]


def steps(*ops):
    """Several nodes a link."""
    def make(i, a, b):
        names = [a, *(f"{b}_{k}" for k in range(len(ops) - 1)), b]
        return [n for k, one in enumerate(ops) for n in one(i, names[k], names[k + 1])]
    return make


def residual(i, a, b):
    return [node("MatMul", [a, "w"], [b + "m"]), node("Relu", [b + "m"], [b + "r"]), node("Add", [a, b + "r"], [b])]


def residual_pointwise(i, a, b):
    return [node("Sigmoid", [a], [b + "s"]), node("Mul", [a, b + "s"], [b])]


def own_weights(kind, dims, raw):
    return lambda count: [tensor(f"w{i}", dims, FLOAT, raw[:-8] + (i * 2654435761 % (1 << 52)).to_bytes(8, "little")) for i in range(count)]


def kinds(n):
    yield "Relu", chain(n, op("Relu"))
    yield "Relu, Add", chain(n, op("Relu"), op("Add", "b"), constants=[ROW])
    yield "Relu, Add (doubled)", chain(n, op("Relu"), lambda i, a, b: [node("Add", [a, a], [b])])
    yield "Sin, Mul by scalar", chain(n, op("Sin"), op("Mul", "h"), constants=[HALF])
    yield "x * Sigmoid(x)", chain(n // 2, residual_pointwise)
    yield "Identity", chain(n, op("Identity"))
    yield "Dropout", chain(n, op("Dropout"))
    yield "Cast", chain(n, op("Cast", to=10), op("Cast", to=1))
    yield "Where", chain(n // 2, lambda i, a, b: [node("Greater", [a, "h"], [b + "c"]), node("Where", [b + "c", a, "x"], [b])], constants=[HALF])
    yield "MatMul", chain(n, op("MatMul", "w"), constants=[SQUARE])
    yield "MatMul of own weights", chain(n, lambda i, a, b: [node("MatMul", [a, f"w{i}"], [b])], constants=own_weights("w", [4, 4], bytes(64))(n))
    yield "MatMul, Add, Relu", chain(n // 3, steps(op("MatMul", "w"), op("Add", "b"), op("Relu")), constants=[SQUARE, ROW])
    yield "MatMul, Sin x 8", chain(n // 9, steps(op("MatMul", "w"), *[op("Sin")] * 8), constants=[SQUARE])
    yield "Gemm", chain(n, op("Gemm", "w", "b"), constants=[SQUARE, ROW])
    yield "residual MatMul", chain(n // 3, residual, constants=[SQUARE])
    yield "Conv", chain(n, op("Conv", "w", pads=[1, 1, 1, 1]), x=IMAGE, y=IMAGE_OUT, constants=[KERNEL])
    yield "Conv, BatchNormalization", chain(n // 2, steps(op("Conv", "w", pads=[1, 1, 1, 1]), op("BatchNormalization", "b", "b", "b", "b")), x=IMAGE, y=IMAGE_OUT, constants=[KERNEL, ROW])
    yield "ConvTranspose", chain(n, op("ConvTranspose", "w", pads=[1, 1, 1, 1]), x=IMAGE, y=IMAGE_OUT, constants=[KERNEL])
    yield "MaxPool", chain(n, op("MaxPool", kernel_shape=[3, 3], pads=[1, 1, 1, 1]), x=IMAGE, y=IMAGE_OUT)
    yield "Transpose", chain(n, op("Transpose", perm=[1, 2, 3, 0]), x=IMAGE, y=IMAGE_OUT)
    yield "Transpose, Relu", chain(n, op("Transpose", perm=[1, 2, 3, 0]), op("Relu"), x=IMAGE, y=IMAGE_OUT)
    yield "Transpose, MatMul", chain(n, op("Transpose", perm=[1, 0]), op("MatMul", "w"), x=[value("x", [4, 4])], y=[value("y", [4, 4])], constants=[SQUARE])
    yield "Transpose, Softmax", chain(n, op("Transpose", perm=[1, 2, 3, 0]), op("Softmax"), x=IMAGE, y=IMAGE_OUT)
    yield "Transpose, Conv", chain(n, op("Transpose", perm=[0, 1, 3, 2]), op("Conv", "w", pads=[1, 1, 1, 1]), x=IMAGE, y=IMAGE_OUT, constants=[KERNEL])
    yield "Reshape", chain(n, op("Reshape", "s"), op("Reshape", "t"), constants=[ints("s", [4]), ints("t", [2, 2])], y=[value("y", list("ab"))])
    yield "Reshape, Relu", chain(n, op("Reshape", "s"), op("Relu"), op("Reshape", "t"), constants=[ints("s", [4]), ints("t", [2, 2])], y=[value("y", list("ab"))])
    yield "Reshape, MatMul", chain(n // 3, steps(op("Reshape", "s"), op("MatMul", "w"), op("Reshape", "t")), constants=[SQUARE, ints("s", [1, 4]), ints("t", [1, 1, 4])], y=[value("y", list("abc"))])
    yield "Reshape to data", chain(n, op("Reshape", "s"), x=X + [value("s", [2], INT64)], y=[value("y", list("ab"))])
    yield "Transpose, Reshape", chain(n, op("Transpose", perm=[1, 0]), op("Reshape", "s"), constants=[ints("s", [2, 2])], y=[value("y", list("ab"))])
    yield "Unsqueeze, Squeeze", chain(n, op("Unsqueeze", "s"), op("Squeeze", "s"), constants=[ints("s", [1])])
    yield "Slice", chain(n, op("Slice", "s", "t"), constants=[ints("s", [0]), ints("t", [2])], y=[value("y", list("ab"))])
    yield "Slice of an open axis", chain(n, op("Slice", "s", "t"), constants=[ints("s", [1]), ints("t", [1 << 40])], x=[value("x", ["n", 4])], y=[value("y", ["m", 4])])
    yield "Pad", chain(n, op("Pad", "s"), op("Pad", "t"), constants=[ints("s", [0, 1, 0, 0]), ints("t", [0, -1, 0, 0])])
    yield "Pad of an open axis", chain(n, op("Pad", "s"), constants=[ints("s", [1, 0, 0, 0])], x=[value("x", ["n", 4])], y=[value("y", ["m", 4])])
    yield "Gather", chain(n, op("Gather", "s", axis=1), constants=[ints("s", [3, 2, 1, 0])])
    yield "Expand, ReduceMax", chain(n, op("Expand", "s"), op("ReduceMax", axes=[0]), constants=[ints("s", [3, 4])], x=[value("x", [1, 4])], y=[value("y", [1, 4])])
    yield "ReduceMean", chain(n, op("ReduceMean", axes=[-1], keepdims=1), y=[value("y", list("ab"))])
    yield "Softmax", chain(n, op("Softmax"))
    yield "LayerNormalization", chain(n, op("LayerNormalization", "b", "b"), constants=[ROW])
    yield "LayerNormalization by parts", chain(n // 8, lambda i, a, b: [node("ReduceMean", [a], [b + "m"], axes=[-1]), node("Sub", [a, b + "m"], [b + "d"]), node("Mul", [b + "d", b + "d"], [b + "q"]), node("ReduceMean", [b + "q"], [b + "v"], axes=[-1]), node("Add", [b + "v", "h"], [b + "e"]), node("Sqrt", [b + "e"], [b + "s"]), node("Div", [b + "d", b + "s"], [b + "n"]), node("Mul", [b + "n", "b"], [b])], constants=[HALF, ROW])
    yield "InstanceNormalization", chain(n, op("InstanceNormalization", "b", "b"), x=IMAGE, y=IMAGE_OUT, constants=[ROW])
    qdq = steps(op("QuantizeLinear", "h", "z"), op("DequantizeLinear", "h", "z"))
    yield "Quantize, Dequantize", chain(n // 2, qdq, constants=[HALF, ZERO])
    yield "Quantize, Dequantize, MatMul", chain(n // 3, steps(qdq, op("MatMul", "w")), constants=[HALF, ZERO, SQUARE])
    yield "Quantize behind MaxPool", chain(n, *[op("MaxPool", kernel_shape=[3, 3], pads=[1, 1, 1, 1])] * (n - 2), *[op("QuantizeLinear", "h", "z"), op("DequantizeLinear", "h", "z")], x=IMAGE, y=IMAGE_OUT, constants=[HALF, ZERO])
    yield "Quantize behind Gather", chain(n, *[op("Gather", "s", axis=1)] * (n - 2), *[op("QuantizeLinear", "h", "z"), op("DequantizeLinear", "h", "z")], constants=[HALF, ZERO, ints("s", [3, 2, 1, 0])])
    yield "Quantize behind Slice", chain(n, op("Relu"), *[steps(op("Pad", "s"), op("Slice", "t", "u", "v"))] * (n // 2 - 3), *[op("QuantizeLinear", "h", "z"), op("DequantizeLinear", "h", "z")], constants=[HALF, ZERO, ints("s", [0, 1, 0, 0]), ints("t", [1]), ints("u", [5]), ints("v", [1])])
    yield "Dequantize before Transpose", chain(n, *[op("QuantizeLinear", "h", "z"), op("DequantizeLinear", "h", "z")], *[op("Transpose", perm=[1, 2, 3, 0])] * (n - 2), x=IMAGE, y=IMAGE_OUT, constants=[HALF, ZERO])
    yield "Resize", chain(n, op("Resize", "", "k"), x=IMAGE, y=IMAGE_OUT, constants=[tensor("k", [4], FLOAT, b"\0\0\x80\x3f" * 4)])
    yield "Shape, Gather, Concat, Reshape", chain(n // 5, lambda i, a, b: [node("Shape", [a], [b + "s"]), node("Gather", [b + "s", "p"], [b + "g"]), node("Concat", [b + "g", "t"], [b + "c"], axis=0), node("Reshape", [a, b + "c"], [b + "r"]), node("Relu", [b + "r"], [b])], x=[value("x", ["n", 4])], y=[value("y", ["n", "m"])], constants=[ints("p", [0]), ints("t", [-1])])
    yield "Concat ladder", chain(int(n ** .5) * 4, lambda i, a, b: [node("Concat", [a, "x"], [b], axis=1)], x=[value("x", [1, 1])], y=[value("y", ["a", "b"])])
    yield "Concat of one", chain(n, lambda i, a, b: [node("Concat", [a], [b], axis=1)])
    fan = lambda each, last, constants=(), out=Y: model([*(each(i, "x", f"v{i}")[0] for i in range(n)), last], X, out, constants)
    names = [f"v{i}" for i in range(n)]
    long = [value("y", [1, 4 * n])]
    yield "Concat of equal nodes", fan(op("Relu"), node("Concat", names, ["y"], axis=1), out=long)
    scalars = [tensor(f"c{i}", [], FLOAT, (i + 1).to_bytes(4, "little")) for i in range(n)]
    different = lambda i, a, b: [node("Add", [a, f"c{i}"], [b])]
    yield "Concat of different nodes", fan(different, node("Concat", names, ["y"], axis=1), scalars, long)
    yield "Concat of MatMul, Relu", model([m for i in range(n // 2) for m in steps(op("MatMul", f"c{i}"), op("Relu"))(i, "x", f"v{i}")] + [node("Concat", names[:n // 2], ["y"], axis=1)], X, [value("y", list("ab"))], [tensor(f"c{i}", [4, 4], FLOAT, (i + 1).to_bytes(64, "little")) for i in range(n // 2)])
    yield "Concat of Transpose", model([node("Add", ["x", f"c{i}"], [f"a{i}"]) for i in range(n // 2)] + [node("Transpose", [f"a{i}"], [f"v{i}"], perm=[1, 0]) for i in range(n // 2)] + [node("Concat", names[:n // 2], ["y"], axis=1)], X, [value("y", list("ab"))], scalars[:n // 2])
    yield "Concat of Slice of Concat", model([node("Concat", ["x"] * n, ["c"], axis=1), *(node("Split", ["c"], [f"v{i}" for i in range(n)], axis=1) for _ in range(1)), node("Concat", names, ["y"], axis=1)], X, long, opset=17)
    yield "Concat of Dequantize", model([node("DequantizeLinear", [f"x{i}", "h", "z"], [f"v{i}"]) for i in range(n)] + [node("Concat", names, ["y"], axis=1)], [value(f"x{i}", [1, 4], 2) for i in range(n)], long, [HALF, ZERO])
    yield "Concat of inputs", model([node("Concat", names, ["y"], axis=1)], [value(v, [1, 4]) for v in names], long)
    yield "Concat of Identity", model([node("Identity", [f"x{i}"], [v]) for i, v in enumerate(names)] + [node("Concat", names, ["y"], axis=1)], [value(f"x{i}", [1, 4]) for i in range(n)], long)
    yield "Concat of open axes", model([node("Concat", names, ["y"], axis=1)], [value(v, [1, f"d{i}"]) for i, v in enumerate(names)], [value("y", [1, "m"])])
    yield "Sum of different nodes", fan(different, node("Sum", names, ["y"]), scalars)
    yield "Einsum of two", chain(n, lambda i, a, b: [node("Einsum", [a, "w"], [b], equation="ij,jk->ik")], constants=[SQUARE])
    split = lambda ops, constants=(): model([node("Split", ["x"], names, axis=1), *(m for i, v in enumerate(names) for m in ops(i, v, f"r{i}"))], [value("x", [1, n])], [value(f"r{i}", [1, 1]) for i in range(n)], constants)
    yield "Split", split(op("Relu"))
    yield "Split, outputs", model([node("Split", ["x"], names, axis=1)], [value("x", [1, n])], [value(v, [1, 1]) for v in names])
    yield "Split, MatMul", split(op("MatMul", "w"), [tensor("w", [1, 1], FLOAT, bytes(4))])
    users = lambda each, constants=(): model([each(i, "x", v)[0] for i, v in enumerate(names)], X, [value(v, [1, 4]) for v in names], constants)
    yield "users: Add", users(different, scalars)
    yield "users: Relu", users(op("Relu"))
    yield "users: MatMul", users(op("MatMul", "w"), [SQUARE])
    relu = [node("Relu", ["x"], ["r"])]
    behind = lambda each, constants=(), before=relu: model([*before, *(each(i, "r", v)[0] for i, v in enumerate(names))], X, [value(v, ["a", "b"]) for v in names], constants)
    yield "users of a node: Add", behind(different, scalars)
    yield "users of a node: MatMul", behind(lambda i, a, b: [node("MatMul", [a, f"c{i}"], [b])], [tensor(f"c{i}", [4, 4], FLOAT, (i + 1).to_bytes(64, "little")) for i in range(n)])
    yield "users of a node: Add, MatMul", behind(lambda i, a, b: [node("Add", [a, f"c{i}"], [b]) if i % 2 else node("MatMul", [a, "w"], [b])], [*scalars, SQUARE])
    yield "users of a MatMul: Add", behind(different, [*scalars, SQUARE], [node("MatMul", ["x", "w"], ["r"])])
    yield "users of a Transpose", behind(different, scalars, [node("Transpose", ["x"], ["r"], perm=[1, 0])])
    yield "users of an Identity", behind(different, scalars, [node("Identity", ["x"], ["r"])])
    yield "users of a Cast", behind(different, scalars, [node("Cast", ["x"], ["d"], to=10), node("Cast", ["d"], ["r"], to=1)])
    yield "users of Dequantize", behind(op("Transpose", perm=[1, 0]), [HALF, ZERO], [node("QuantizeLinear", ["x", "h", "z"], ["q"]), node("DequantizeLinear", ["q", "h", "z"], ["r"])])
    yield "users of Dequantize by Add", behind(different, [*scalars, HALF, ZERO], [node("QuantizeLinear", ["x", "h", "z"], ["q"]), node("DequantizeLinear", ["q", "h", "z"], ["r"])])
    yield "users of a constant: Add", model([*relu, *(node("Add", ["b", f"x{i}"], [v]) for i, v in enumerate(names))], X + [value(f"x{i}", [1, 4]) for i in range(n)], [value(v, [1, 4]) for v in names], [ROW])
    yield "inputs", chain(1, op("Relu"), x=X + [value(f"u{i}", [1, 4]) for i in range(n)])
    yield "constants", chain(1, op("Relu"), constants=[tensor(f"w{i}", [1], FLOAT, bytes(4)) for i in range(n)])
    yield "Constant nodes", model([node("Constant", [], [f"k{i}"], value=tensor("", [1], FLOAT, i.to_bytes(4, "little"))) for i in range(n // 2)] + [node("Add", ["x" if i == 0 else f"a{i - 1}", f"k{i}"], [f"a{i}" if i < n // 2 - 1 else "y"]) for i in range(n // 2)], X, Y)
    yield "folded", model([node("Add", ["c" if i == 0 else f"a{i - 1}", "c"], [f"a{i}"]) for i in range(n)] + [node("Add", ["x", f"a{n - 1}"], ["y"])], X, Y, [tensor("c", [2000, 4], FLOAT, bytes(32000))])
    yield "dead nodes", model([node("Relu", ["x"], ["y"]), *(node("Sin", ["x" if i == 0 else f"d{i - 1}"], [f"d{i}"]) for i in range(n))], X, Y)
    yield "one name", chain(n, lambda i, a, b: [node("Sin", [a], [b], name="same")])
    yield "NonZero", model([m for i in range(n // 2) for m in (node("NonZero", ["x" if i == 0 else f"f{i - 1}"], [f"n{i}"], name="same"), node("Cast", [f"n{i}"], [f"f{i}" if i < n // 2 - 1 else "y"], to=1))], X, [value("y", list("ab"))])
    yield "functions", chain(n // 2, lambda i, a, b: [node("f", [a], [b], "own")], functions=[function("f", [node("Sin", ["a"], ["t"]), node("Relu", ["t"], ["b"])])])
    branch = lambda kind: (graph([node(kind, ["x"], ["p"])], [], [value("p", [1, 4])]),)
    yield "If", model([node("If", ["t"], [f"v{i}"], then_branch=branch("Sin"), else_branch=branch("Cos")) for i in range(n // 10)] + [node("Concat", names[:n // 10], ["y"], axis=1)], X + [value("t", [], 9)], [value("y", ["a", "b"])])
    body = lambda count: (graph([node("Identity", ["d"], ["e"]), *(node("Sin", ["a" if i == 0 else f"s{i - 1}"], [f"s{i}"]) for i in range(count))], [value("i", [], INT64), value("d", [], 9), value("a", [1, 4])], [value("e", [], 9), value(f"s{count - 1}", [1, 4])]),)
    yield "Loop of a long body", model([node("Loop", ["n", "", "x"], ["y"], body=body(n))], X + [value("n", [], INT64)], Y)
    yield "LSTM", chain(n // 10, lambda i, a, b: [node("LSTM", [a, "W", "R"], [b + "h"], hidden_size=4), node("Squeeze", [b + "h", "s"], [b])], x=[value("x", [3, 1, 4])], y=[value("y", list("abc"))], constants=[tensor("W", [1, 16, 4], FLOAT, bytes(256)), tensor("R", [1, 16, 4], FLOAT, bytes(256)), ints("s", [1])])
    heads = lambda i, a, b: [node("MatMul", [a, "w"], [b + "q"]), node("MatMul", [a, "w2"], [b + "k"]), node("Transpose", [b + "k"], [b + "t"], perm=[0, 2, 1]), node("MatMul", [b + "q", b + "t"], [b + "s"]), node("Softmax", [b + "s"], [b + "p"]), node("MatMul", [b + "p", a], [b])]
    yield "attention", chain(n // 6, heads, x=[value("x", [1, 3, 4])], y=[value("y", list("abc"))], constants=[SQUARE, tensor("w2", [4, 4], FLOAT, bytes(range(1, 65)))])


LINE = re.compile(rb"(\w+) pass (\w+): ([0-9.e+]+) ms")


def main():
    cases = Cases()
    size = int(sys.argv[2]) if len(sys.argv) > 2 else 20_000
    wanted = sys.argv[3:]

    def measure(content):
        file = cases.write("m.onnx", content)
        outcome = cases.run("inspect", file, "--passes", "on", "-v")
        passes = {}
        for pipeline, one, ms in LINE.findall(outcome.err):
            passes[one.decode()] = passes.get(one.decode(), 0) + float(ms) / 1000
        return outcome, passes

    print(f"| {size} and {2 * size} of | file, MB | s | s of twice | ratio | MiB | slow passes |\n|---|---|---|---|---|---|---|", flush=True)
    for (name, content), (_, twice) in zip(kinds(size), kinds(2 * size)):
        if wanted and name not in wanted:
            continue
        once, first = measure(content)
        second, then = measure(twice)
        slow = [f"{p} {first.get(p, 0):.2f}→{s:.2f}" for p, s in sorted(then.items(), key=lambda i: -i[1]) if s > .2 and s > 2.6 * first.get(p, 0)]
        verdict = "" if once.code == 0 == second.code else f" exit {second.code}: {(second.err.splitlines() or [b''])[-1].decode()[:100]}"
        print(f"| {name} | {len(twice) / 1e6:.1f} | {once.seconds:.2f} | {second.seconds:.2f} | {second.seconds / once.seconds:.1f} | {second.memory >> 20} | {', '.join(slow)}{verdict} |", flush=True)
    cases.finish()


main()
