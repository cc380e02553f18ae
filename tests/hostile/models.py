# SPDX-License-Identifier: Apache-2.0
"""Models of some bytes that ask for hours or gigabytes: each is read, or refused by name, within a second of processor time (ten
where the file has a megabyte and more; three times that is held against it, since machines differ) and 16 times the file and
256 MiB of memory. TEMPER_HOSTILE=1: the sizes at the documented limits, too, within 2 GiB."""
import struct

from harness import LONG, MEMORY, Cases
from wire import BOOL, FLOAT, INT64, STRING, field, fields, function, graph, ints, model, node, tensor, value

X, Y = [value("x", [1, 4])], [value("y", [1, 4])]


def chain(nodes, op="Relu", x=X, y=Y, constants=(), functions=(), domain=""):
    names = ["x", *(f"v{i}" for i in range(nodes - 1)), "y"]
    same = node(op, [], [], domain)
    return model([field(1, names[i]) + field(2, names[i + 1]) + same for i in range(nodes)], x, y, constants, functions)


def laughs(depth):
    calls = [function("f0", [node("Relu", ["a"], ["b"])])]
    for i in range(1, depth + 1):
        calls.append(function(f"f{i}", [node(f"f{i - 1}", ["a"], ["t"], "own"), node(f"f{i - 1}", ["t"], ["b"], "own")]))
    return model([node(f"f{depth}", ["x"], ["y"], "own")], X, Y, functions=calls)


def calls(count, length):
    names = ["a", *(f"t{i}" for i in range(length - 1)), "b"]
    layer = function("layer", [node("Relu" if i % 2 else "Sigmoid", [names[i]], [names[i + 1]]) for i in range(length)])
    return chain(count, "layer", functions=[layer], domain="own")


def branches(depth):
    """If inside If, each with a constant condition, in a function that the next one calls twice."""
    inner = graph([node("Relu", ["a"], ["r"])], [], [value("r", [1, 4])])
    layers = []
    for i in range(depth):
        call = [node("Relu", ["a"], ["c"])] if i == 0 else [node(f"f{i - 1}", ["a"], ["m"], "own"), node(f"f{i - 1}", ["m"], ["c"], "own")]
        test = node("Constant", [], ["t"], value=tensor("", [], 9, b"\1"))
        layers.append(function(f"f{i}", call + [test, node("If", ["t"], ["b"], then_branch=(inner,), else_branch=(inner,))]))
    return model([node(f"f{depth - 1}", ["x"], ["y"], "own")], X, Y, functions=layers)


def ladder(nodes, swapped=False):
    names = ["x", *(f"v{i}" for i in range(nodes - 1)), "y"]
    pair = (lambda a: ["x", a]) if swapped else (lambda a: [a, "x"])
    return model([node("Concat", pair(names[i]), [names[i + 1]], axis=1) for i in range(nodes)], [value("x", [1, 1])], [value("y", [1, nodes + 1])])


def dense(layers):
    """Each layer reads all before it."""
    nodes = [node("Relu", ["x"], ["r0"])]
    for i in range(1, layers):
        nodes += [node("Concat", [f"r{j}" for j in range(i)], [f"c{i}"], axis=1), node("ReduceMax", [f"c{i}"], [f"r{i}" if i < layers - 1 else "y"], axes=[1])]
    return model(nodes, [value("x", [1, 1])], [value("y", [1, 1])])


def fan(width, op):
    """One value with many users, all of which meet in one node."""
    names = [f"v{i}" for i in range(width)]
    last = node("Concat", names, ["y"], axis=1) if op == "Concat" else node("Sum", names, ["y"])
    return model([node("Relu", ["x"], [n]) for n in names] + [last], X, [value("y", [1, 4 * width if op == "Concat" else 4])])


def bombs(n):
    s, long = [ints("s", [n])], [value("y", [n])]
    one = [value("x", [1])]
    zero = tensor("c", [1], FLOAT, bytes(4))
    yield "ConstantOfShape", model([node("ConstantOfShape", ["s"], ["y"])], [], long, s)
    yield "AddToAll", model([node("ConstantOfShape", ["s"], ["c"]), node("Add", ["c", "x"], ["y"])], one, long, s)
    yield "Expand", model([node("Expand", ["x", "s"], ["y"])], one, long, s)
    yield "ExpandConstant", model([node("Expand", ["c", "s"], ["y"])], [], long, [*s, zero])
    yield "Tile", model([node("Tile", ["x", "s"], ["y"])], one, long, s)
    yield "Pad", model([node("Pad", ["x", "s"], ["y"])], one, long, [ints("s", [0, n - 1])])
    yield "Range", model([node("Range", ["a", "b", "d"], ["y"])], [], [value("y", [n], INT64)], [ints("a", [0], True), ints("b", [n], True), ints("d", [1], True)])
    yield "OneHot", model([node("OneHot", ["x", "d", "v"], ["y"])], [value("x", [1], INT64)], [value("y", [1, n])], [ints("d", [n], True), tensor("v", [2], FLOAT, bytes(8))])
    scale = tensor("k", [3], FLOAT, struct.pack("<3f", 1, 1, float(n)))
    yield "Resize", model([node("Resize", ["x", "", "k"], ["y"])], [value("x", [1, 1, 1])], [value("y", [1, 1, n])], [scale])
    many = [node("ConstantOfShape", ["s"], [f"c{i}"]) for i in range(64)] + [node("Relu", [f"c{i}"], [f"r{i}"]) for i in range(64)]
    quarter = n >> 6
    yield "ManyConstants", model(many, [], [value(f"r{i}", [quarter]) for i in range(64)], [ints("s", [quarter])])


def patterns(count, text):
    """Regular expressions of a few bytes that compile to many steps, or are long to read."""
    names = [f"y{i}" for i in range(count)]
    return model([node("RegexFullMatch", ["x"], [y], pattern=f"{i}" + text) for i, y in enumerate(names)], [value("x", [1], STRING)], [value(y, [1], BOOL) for y in names], opset=20, ir=9)


def models():
    yield "laughs", laughs(16 if LONG else 12), 0
    yield "laughs2e24", laughs(24), 3
    yield "laughs2e32", laughs(31), 3
    yield "calls", calls(1000, 20), 0
    yield "calls4e6", calls(2000, 2000), 3
    yield "branches", branches(8), 0
    yield "branches2e30", branches(30), 3
    yield "ladder", ladder(12000 if LONG else 3000), 0
    yield "ladder_swapped", ladder(12000 if LONG else 3000, True), 0
    yield "dense", dense(1000 if LONG else 300), 0
    yield "fan_concat", fan(100_000 if LONG else 20_000, "Concat"), 0
    yield "fan_sum", fan(1000, "Sum"), 0
    yield "inputs", chain(1, x=X + [value(f"u{i}", [1, 4]) for i in range(100_000 if LONG else 20_000)]), 0
    yield "chain", chain(1_000_000 if LONG else 50_000), 0
    yield "chain_too_long", chain(1_000_001), 3
    yield "constants", chain(1, constants=[tensor(f"w{i}", [1], FLOAT, bytes(4)) for i in range(1_000_000 if LONG else 50_000)]), 0
    yield "empty_constants", chain(1, constants=field(5, b"") * 10_000_000), 3
    yield "long_name", chain(1).replace(field(1, "x"), field(1, "x" * (10_000_000 if LONG else 1_000_000))), None
    yield "long_shape", model([node("Relu", ["x"], ["y"])], [value("x", [1] * 30_000)], Y), None
    yield "patterns", patterns(250, "[a-z]+@.com"), 0
    yield "patterns_of_steps", patterns(1, "a{1000}" * 300), 0
    yield "patterns_of_many_steps", patterns(1000, "a{1000}" * 70), 4
    yield "patterns_of_classes", patterns(2, "\\pL{0}" * 600), 0
    yield "patterns_of_many_classes", patterns(200, "\\pL{0}" * 600), 4
    yield "pattern_too_large", patterns(1, "\\pL" * 1300), 4
    for name, content in bombs(1 << 30):
        yield name, content, None
    if LONG:
        for name, content in bombs(1 << 36):
            yield name + "36", content, None


def main():
    cases = Cases()
    for name, content, code in models():
        file = cases.write(name + ".onnx", content)
        codes = range(6) if code is None else [code]
        memory = MEMORY if LONG else 16 * len(content) + (256 << 20)

        def within(outcome, codes=range(6)):
            limit = 3 if len(content) < 1 << 20 else 30
            cases.expect(LONG or outcome.seconds <= limit, outcome, f"took {outcome.seconds:.1f} s")
            return cases.documented(outcome, codes, memory)

        read = within(cases.run("inspect", file, "--passes", "on"), codes)
        print(f"{name}: exit {read.code}, {read.seconds:.1f} s, {read.memory >> 20} MiB", flush=True)
        if read.code == 0 or name in ("empty_constants", "laughs2e32"):
            run = ["run", file, "--no-timing-cache", "--quick", "--quiet"]
            within(cases.run(*run))
            within(cases.run(*run, *([] if LONG else ["--no-measure"]), address_space=4 << 30))
        if LONG and read.code == 0 and len(content) < 1000:
            cases.documented(cases.run("verify", file, "--no-timing-cache", "--quick"))
            cases.documented(cases.run("run", file, "--device", "reference"))
        (cases.folder / file).unlink()
    cases.finish()


main()
