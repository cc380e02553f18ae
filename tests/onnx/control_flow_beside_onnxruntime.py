# SPDX-License-Identifier: Apache-2.0
"""usage: control_flow_beside_onnxruntime.py TEMPER

If, Loop and Scan on values that only a run knows, and sequences, give the same numbers in Temper as in ONNX Runtime: run from the model,
and from one plan file with all inputs one after another, so that plans of one branch or shape do not serve another.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnx.parser
import onnxruntime

random = np.random.default_rng(7)


def floats(*shape):
    return random.standard_normal(shape).astype(np.float32)


def ints(*values):
    return np.array(values, np.int64)


def number(value):
    return np.array(value, np.int64)


def truth(value):
    return np.array(value, np.bool_)


def header(opset):
    return f'<ir_version: 8, opset_import: ["" : {opset}]>\n'


def temper(*arguments):
    return subprocess.run([sys.argv[1], *map(str, arguments)], capture_output=True, text=True)


def flat(values):
    """A sequence is its elements, each by its name."""
    out = {}
    for name, value in values.items():
        out |= {f"{name}[{i}]": element for i, element in enumerate(value)} if isinstance(value, list) else {name: value}
    return out


def run(path, given, folder, *options):
    shutil.rmtree(folder / "out", ignore_errors=True)
    command = ["run", path, "--output-dir", folder / "out", "--quiet", *options]
    for name, data in flat(given).items():
        np.save(folder / f"{name}.npy", data)
        command += ["--input", f"{name}={folder / name}.npy"]
    return temper(*command)


def saved(folder, name):
    return np.load(folder / "out" / (re.sub(r"[^A-Za-z0-9._-]", "_", name) + ".npy"))


def saved_as(folder, wanted):
    """What ONNX Runtime gives, as outputs: a sequence of a length that only a run knows is one tensor, or has its length beside it."""
    out = {}
    for name, value in wanted.items():
        if isinstance(value, list) and (folder / "out" / f"{name}.npy").exists():
            out[name] = np.stack(value)
        elif isinstance(value, list) and (folder / "out" / f"{name}.length.npy").exists():
            out |= flat({name: value}) | {f"{name}.length": number(len(value))}
            more = saved(folder, f"{name}[{len(value)}]") if (folder / "out" / f"{name}_{len(value)}_.npy").exists() else np.zeros(0)
            assert more.size == 0, f"{name} has an element {len(value)}"
        else:
            out |= flat({name: value})
    return out


def shape_flags(shapes):
    return [word for shape in shapes for word in ("--shapes", shape)]


def check(name, text, folder, *runs, opset=17, shapes=(), tolerance=1e-5):
    model = onnx.parser.parse_model(header(opset) + text)
    onnx.checker.check_model(model)
    path, plan = folder / "model.onnx", folder / "model.plan"
    onnx.save(model, path)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    plan.unlink(missing_ok=True)
    built = temper("build", path, "-o", plan, "--no-measure", "--quiet", *shape_flags(shapes))
    assert built.returncode == 0, f"{name}: build: {built.stderr}"
    for given in runs:
        # Otherwise the command line runs the first axis of what varies in pieces, and joins the results.
        whole = ("--batch", max(len(data) for data in given.values() if data.ndim)) if any(":" in shape for shape in shapes) else ()
        wanted = dict(zip([o.name for o in session.get_outputs()], session.run(None, given)))
        for what, options in ((path, ("--no-measure",)), (path, ("--device", "reference")), (plan, whole)):
            fixed = [shape for shape in shapes if ":" not in shape and what == path]
            done = run(what, given, folder, *options, *shape_flags(fixed))
            assert done.returncode == 0, f"{name}: {what.name} {options}: {done.stderr}"
            for output, value in saved_as(folder, wanted).items():
                got = saved(folder, output)
                # Of scans that no iteration made, ONNX Runtime gives 0 for all sizes.
                same = got.shape == value.shape or (got.size == value.size == 0 and got.ndim == value.ndim)
                assert same and got.dtype == value.dtype, f"{name} {output}: {got.dtype}{got.shape}, not {value.dtype}{value.shape}"
                np.testing.assert_allclose(got, value.reshape(got.shape), tolerance, tolerance, err_msg=f"{name} {output} {what.name} {options}")


def refuse(name, text, folder, given, reason, opset=17, shapes=()):
    path = folder / "model.onnx"
    onnx.save(onnx.parser.parse_model(header(opset) + text), path)
    done = run(path, given, folder, "--no-measure", *shape_flags(shapes))
    assert done.returncode == 4 and reason in done.stderr, f"{name}: {done.returncode} {done.stderr}"


def check_branches(folder):
    branches = """
    then_branch = a () => (float[N] p) {{ p = {} }},
    else_branch = b () => (float[M] q) {{ q = {} }}"""
    one = "g (bool c, float[n, 4] x) => (float[n, 4] y) { z = Relu (x)  y = If (c) <" + branches.format("Exp (z)", "Sub (x, z)") + "> }"
    check("input", one, folder, *[dict(c=truth(c), x=floats(rows, 4)) for c in (1, 0, 1) for rows in (2, 5)], shapes=["x=1x4:2x4:8x4"])
    computed = "g (float[5] x) => (float[5] y) { s = ReduceSum <keepdims = 0> (x)  zero = Sub (s, s)  c = Greater (s, zero)  y = If (c) <" + branches.format("Exp (x)", "Neg (x)") + "> }"
    check("computed", computed, folder, *[dict(x=sign * abs(floats(5))) for sign in (1, -1)])
    nested = """g (bool c, bool d, float[3] x) => (float[3] y) {
      y = If (c) <
        then_branch = a () => (float[N] p) {
          e = Exp (x)
          p = If (d) <then_branch = i () => (float[N] r) { r = Add (e, x) }, else_branch = j () => (float[N] s) { s = Sub (e, x) }>
        },
        else_branch = b () => (float[M] q) { q = Sin (x) }> }"""
    check("nested", nested, folder, *[dict(c=truth(c), d=truth(d), x=floats(3)) for c in (0, 1) for d in (0, 1)])
    # The sizes of the results differ, and so does what follows them; only data say one of them.
    sizes = """g (bool c, float[n] x) => (float[p] y, float[q] z) {
      y, z = If (c) <
        then_branch = a () => (float[N] t, float[N] u) { i = NonZero (x)  o = Constant <value = int64[1] {0}> ()  k = Squeeze (i, o)  t = Gather (x, k)  u = Concat <axis = 0> (x, x) },
        else_branch = b () => (float[M] v, float[M] w) { v = Exp (x)  w = Identity (x) }> }"""
    after = "g (bool c, float[n] x) => (float[1] s, float[r] f) {" + sizes[sizes.index("{") + 1:-1] + " s = ReduceSum (y)  e = Exp (z)  f = Concat <axis = 0> (y, e) }"
    x = np.array([1, 0, 2, 0, 3], np.float32)
    for text in (sizes, after):
        check("sizes", text, folder, *[dict(c=truth(c), x=x[:n]) for c in (1, 0) for n in (5, 3)], shapes=["x=1:5:8"])
    # What has a size that data decide is read for its shape alone: made, stretched and cut by it, in a branch, too.
    shapes = """g (bool c, float[n] x) => (float[p] y, float[r, 3] w, float[q] z) {
      i = NonZero (x)  s = Shape <start = 1> (i)  y = ConstantOfShape (s)
      three = Constant <value = int64[1] {3}> ()  t = Concat <axis = 0> (s, three)  one = Constant <value = float {1.5}> ()  w = Expand (one, t)
      z = If (c) <
        then_branch = a () => (float[N] u) { g0 = Greater (x, one)  j = NonZero (g0)  k = Shape <start = 1> (j)  u = ConstantOfShape (k) },
        else_branch = b () => (float[M] v) { v = Exp (x) }> }"""
    check("shapes", shapes, folder, *[dict(c=truth(c), x=x[:n]) for c in (1, 0) for n in (5, 3)], shapes=["x=1:5:8"])
    # A branch that does not fit the shape it is not chosen for.
    fits = """g (float[n] x) => (float[a, b] y) {
      s = Shape (x)  four = Constant <value = int64[1] {4}> ()  e = Equal (s, four)  c = Squeeze (e)
      y = If (c) <
        then_branch = t () => (float[N, M] p) { o = Constant <value = int64[2] {2, 2}> ()  p = Reshape (x, o) },
        else_branch = u () => (float[N, M] q) { k = Constant <value = int64[2] {1, 3}> ()  q = Reshape (x, k) }> }"""
    check("fits", fits, folder, dict(x=floats(4)), dict(x=floats(3)), shapes=["x=3:4:4"])
    # One whose shapes contradict those of the model, under a condition that only a run knows.
    for then, other in (("2, 2", "1, 3"), ("1, 3", "2, 2")):
        misfit = f"""g (bool c, float[4] x) => (float[a, b] y) {{
          y = If (c) <
            then_branch = t () => (float[N, M] p) {{ o = Constant <value = int64[2] {{{then}}}> ()  p = Reshape (x, o) }},
            else_branch = u () => (float[N, M] q) {{ k = Constant <value = int64[2] {{{other}}}> ()  q = Reshape (x, k) }}> }}"""
        check("misfit", misfit, folder, dict(c=truth(then == "2, 2"), x=floats(4)))
        refuse("misfit", misfit, folder, dict(c=truth(then != "2, 2"), x=floats(4)), "was left out: it does not fit the shapes")
    ranks = """g (bool c, float[n, 1] x) => (float[1, n] y) {
      y0 = If (c) <
        then_branch = t () => (float[N] p) { k = Constant <value = int64[1] {1}> ()  p = Squeeze (x, k) },
        else_branch = u () => (float[N, M] q) { q = Identity (x) }>
      k = Constant <value = int64[2] {1, 0}> ()
      y = Transpose <perm = [1, 0]> (y0) }"""
    refuse("ranks", ranks, folder, dict(c=truth(1), x=floats(3, 1)), "was left out")
    # In an If, what follows contradicts one side of an inner If, which alone is left out.
    inner = """g (bool c, bool d, float[2, 3] x) => (float[3, 2] y) {
      y = If (c) <
        then_branch = a () => (float[N, M] p) {
          k = Constant <value = int64[1] {0}> ()
          r = If (d) <then_branch = t () => (float[A, B, C] u) { u = Unsqueeze (x, k) }, else_branch = e () => (float[D, E] v) { v = Exp (x) }>
          p = Transpose <perm = [1, 0]> (r) },
        else_branch = b () => (float[P, Q] q) { q = Transpose <perm = [1, 0]> (x) }> }"""
    check("inner contradiction", inner, folder, *[dict(c=truth(c), d=truth(0), x=floats(2, 3)) for c in (1, 0)])
    refuse("inner contradiction", inner, folder, dict(c=truth(1), d=truth(1), x=floats(2, 3)), "was left out")
    # Two ranks that both fit what reads them, until it makes one of them; and two conditions at once.
    both = "y0 = If (c) <then_branch = t () => (float[N, M] p) { p = Identity (x) }, else_branch = u () => (float[A] q) { s1 = Constant <value = int64[1] {12}> ()  q = Reshape (x, s1) }>"
    for after, shape in (("s = Constant <value = int64[2] {2, 6}> ()  e = Exp (y0)  y = Reshape (e, s)", "2, 6"), ("y = ReduceSum <keepdims = 0> (y0)", ""), ("y = Shape (y0)", "k")):
        kind = "int64" if "Shape (y0)" in after else "float"
        check("both ranks", f"g (bool c, float[3, 4] x) => ({kind}[{shape}] y) {{ {both} {after} }}" if shape else f"g (bool c, float[3, 4] x) => (float y) {{ {both} {after} }}", folder, *[dict(c=truth(c), x=floats(3, 4)) for c in (1, 0)])
    two = f"g (bool c, bool d, float[3, 4] x) => (float y) {{ {both} z0 = If (d) <then_branch = v () => (float[N, M] r) {{ r = Exp (x) }}, else_branch = w () => (float[A, B, C] z) {{ k = Constant <value = int64[1] {{0}}> ()  z = Unsqueeze (x, k) }}>  a = ReduceSum <keepdims = 0> (y0)  b = ReduceMax <keepdims = 0> (z0)  l = Size (z0)  m = Cast <to = 1> (l)  e = Mul (a, b)  f = Mul (e, m)  g0 = Flatten <axis = 0> (z0)  h = ReduceSum <keepdims = 0> (g0)  y = Add (f, h) }}"
    check("two conditions", two, folder, *[dict(c=truth(c), d=truth(d), x=floats(3, 4)) for c in (1, 0) for d in (1, 0)])
    refuse("no rank", f"g (bool c, float[3, 4] x) => (float[a, b, c1] y) {{ {both} y = Exp (y0) }}", folder, dict(c=truth(0), x=floats(3, 4)), "the output 'y' is f32[3,4] or f32[12], as conditions choose")
    lengths = """g (bool c, float[1, 3] a, float[2, 3] b) => (float[k, 3] y, int64 n) {
      s = If (c) <then_branch = t () => (seq(float[]) s1) { s1 = SequenceConstruct (a, b) }, else_branch = e () => (seq(float[]) s2) { s2 = SequenceConstruct (b, a, a) }>
      y = ConcatFromSequence <axis = 0> (s)
      n = SequenceLength (s) }"""
    check("lengths of an output", lengths.replace("(float[k, 3] y, int64 n)", "(seq(float[]) s)"), folder, *[dict(c=truth(c), a=floats(1, 3), b=floats(2, 3)) for c in (1, 0)])
    refuse("ranks of an output", lengths.replace("(float[k, 3] y, int64 n)", "(seq(float[]) s)").replace("(b, a, a)", "(w, a, a)").replace("else_branch = e () => (seq(float[]) s2) {", "else_branch = e () => (seq(float[]) s2) { k = Constant <value = int64[1] {6}> ()  w = Reshape (b, k) "), folder, dict(c=truth(1), a=floats(1, 3), b=floats(2, 3)), "the output 's' is a sequence of 2 elements or a sequence of 3 elements, as conditions choose")
    check("lengths", lengths, folder, *[dict(c=truth(c), a=floats(1, 3), b=floats(2, 3)) for c in (1, 0)])
    unused = "g (bool c, float[3] x) => (float[3] y) { u, v = If (c) <then_branch = a () => (float[N] p, float[N] o) { p = Exp (x)  o = Neg (x) }, else_branch = b () => (float[M] q, float[M] r) { q = Sin (x)  r = Cos (x) }>  y = Add (u, x) }"
    check("unused", unused, folder, *[dict(c=truth(c), x=floats(3)) for c in (0, 1)])


def check_ranks(folder):
    """Ranks that data decide: as many sizes or axes as only a run knows."""
    first = "s = Shape (x)  zero = Constant <value = int64[1] {0}> ()  two = Constant <value = int64[1] {2}> ()  minus = Constant <value = int64[1] {-1}> ()  p = Slice (s, zero, k) "
    flat = "g (float[2, 3, 4] x, int64[1] k) => (float[2, N] y, float z, int64[r] w) { " + first + " t = Concat <axis = 0> (p, minus)  y = Reshape (x, t)  e = Exp (y)  z = ReduceSum <keepdims = 0> (e)  w = Shape (y) }"
    check("one rank of many", flat, folder, dict(x=floats(2, 3, 4), k=ints(1)))
    refuse("one rank of many", flat, folder, dict(x=floats(2, 3, 4), k=ints(2)), "was left out")
    any_rank = flat.replace("float[2, N] y, ", "")
    check("any rank", any_rank, folder, *[dict(x=floats(2, 3, 4), k=ints(k)) for k in (0, 1, 2)])
    check("any rank again", any_rank.replace("e = Exp (y)", "q = Reshape (x, t)  e = Mul (y, q)"), folder, *[dict(x=floats(2, 3, 4), k=ints(k)) for k in (2, 0)])
    filled = "g (float[2, 3, 4] x, int64[1] k) => (int64[r] y, float z, float v) { " + first + " one = Constant <value = float[1] {1}> ()  f = ConstantOfShape <value = float[1] {2}> (p)  y = Shape (f)  z = ReduceSum <keepdims = 0> (f)  h = Expand (one, p)  v = ReduceSum <keepdims = 0> (h) }"
    check("filled", filled, folder, *[dict(x=floats(2, 3, 4), k=ints(k)) for k in (0, 1, 3)])
    axes = """g (float[2, 3, 4] x, int64 k) => (float[a, b, c] y, float u, int64[r] v, float w) {
      three = Constant <value = int64 {3}> ()  one = Constant <value = int64 {1}> ()  i = Range (k, three, one)
      y = ReduceMean <keepdims = 1> (x, i)
      t = ReduceMax <keepdims = 0, noop_with_empty_axes = 1> (x, i)  u = ReduceSum <keepdims = 0> (t)  v = Shape (t)
      l = Unsqueeze (x, i)  q = Squeeze (l, i)  d = Sub (q, x)  w = ReduceL1 <keepdims = 0> (d) }"""
    check("axes", axes, folder, *[dict(x=floats(2, 3, 4), k=number(k)) for k in (0, 1, 2)], opset=18)
    squeezed = "g (float[n, m, 3] x) => (float z, int64[r] w) { y = Squeeze (x)  e = Exp (y)  z = ReduceSum <keepdims = 0> (e)  w = Shape (y) }"
    check("squeezed", squeezed, folder, *[dict(x=floats(n, m, 3)) for n, m in ((1, 1), (2, 1), (1, 4), (2, 3))], shapes=["x=1x1x3:2x2x3:4x4x3"])
    counted = "g (float[5] x, float[2] y) => (float[N] z) { i = NonZero (x)  s = Squeeze (i)  z = Gather (x, s) }"
    check("squeezed to a number of data", counted, folder, dict(x=np.array([0, 2, 0, 3, 4], np.float32), y=floats(2)))


def check_loops(folder):
    steps = """g (int64 m, bool c, float[n] x) => (float[n] y, float[t, n] all) {
      w = Exp (x)
      y, all = Loop (m, c, x) <body = b (int64 i, bool d, float[N] a) => (bool e, float[N] s, float[N] o) {
        e = Identity (d)  f = Cast <to = 1> (i)  s0 = Add (a, w)  s = Sub (s0, f)  o = Mul (s, x) }> }"""
    check("steps", steps, folder, *[dict(m=number(m), c=truth(c), x=floats(n)) for m, c, n in ((3, 1, 2), (0, 1, 2), (7, 1, 4), (3, 0, 4))], shapes=["x=1:2:8"])
    until = """g (float limit, float[3] x) => (float[3] y, float[t] sums) {
      yes = Constant <value = bool {1}> ()
      y, sums = Loop (, yes, x) <body = b (int64 i, bool d, float[3] a) => (bool e, float[3] s, float o) {
        s = Add (a, x)  o = ReduceSum <keepdims = 0> (s)  e = Less (o, limit) }> }"""
    check("until", until, folder, *[dict(limit=np.array(limit, np.float32), x=abs(floats(3))) for limit in (-1, 5, 20)])
    grows = """g (int64 m, float[n] x) => (float[k] y, float[k] z) {
      y = Loop (m, , x) <body = b (int64 i, bool d, float[N] a) => (bool e, float[M] s) { e = Identity (d)  s = Concat <axis = 0> (a, x) }>
      z = Exp (y) }"""
    check("grows", grows, folder, *[dict(m=number(m), x=floats(n)) for m in (0, 1, 4) for n in (1, 3)], shapes=["x=1:2:8"])
    fixed = """g (float[2, 3] x) => (float[2, 3] y, float[4, 3] all, float[4, 3] shifted) {
      m = Constant <value = int64 {4}> ()
      y, all = Loop (m, , x) <body = b (int64 i, bool d, float[2, 3] a) => (bool e, float[2, 3] s, float[3] o) {
        e = Identity (d)  s = Tanh (a)  ax = Constant <value = int64[1] {0}> ()  o = ReduceSum <keepdims = 0> (s, ax) }>
      one = ReduceMean <axes = [0, 1], keepdims = 0> (y)
      shifted = Add (all, one) }"""
    check("fixed", fixed, folder, dict(x=floats(2, 3)))
    # An If in a Loop, and Loops in a Loop and in an If.
    branches = """g (int64 m, float[3] x) => (float[3] y) {
      two = Constant <value = int64 {2}> ()  zero = Constant <value = int64 {0}> ()
      y = Loop (m, , x) <body = b (int64 i, bool d, float[3] a) => (bool e, float[3] s) {
        e = Identity (d)  r = Mod (i, two)  even = Equal (r, zero)
        s = If (even) <then_branch = t () => (float[3] p) { p = Add (a, x) }, else_branch = u () => (float[3] q) { w = Sin (x)  q = Mul (a, w) }> }> }"""
    check("if in loop", branches, folder, *[dict(m=number(m), x=floats(3)) for m in (1, 2, 5)])
    nested = """g (int64 m, int64 k, float[2] x) => (float[2] y, float[p, q] all) {
      y, all = Loop (m, , x) <body = b (int64 i, bool d, float[2] a) => (bool e, float[2] s, float[Q] sums) {
        e = Identity (d)
        s, sums = Loop (k, , x) <body = c (int64 j, bool f, float[2] g0) => (bool h, float[2] v, float o) {
          h = Identity (f)  n = Add (i, j)  z = Cast <to = 1> (n)  u = Add (g0, z)  v = Add (u, a)  o = ReduceSum <keepdims = 0> (v) }> }> }"""
    check("nested", nested, folder, *[dict(m=number(m), k=number(k), x=floats(2)) for m in (1, 3) for k in (1, 2)])
    inside = """g (bool c, int64 m, float[2] x) => (float[2] y) {
      y = If (c) <then_branch = t () => (float[2] p) {
          p = Loop (m, , x) <body = b (int64 i, bool d, float[2] a) => (bool e, float[2] s) { e = Identity (d)  s = Add (a, a) }> },
        else_branch = u () => (float[2] q) { q = Neg (x) }> }"""
    check("loop in if", inside, folder, *[dict(c=truth(c), m=number(3), x=floats(2)) for c in (0, 1)])
    alike = """g (int64 m, float[2] x) => (float[2] y, float[2] z) {
      y = Loop (m, , x) <body = b (int64 i, bool d, float[2] a) => (bool e, float[2] s) { e = Identity (d)  s = Add (a, a) }>
      z = Loop (m, , x) <body = b2 (int64 i2, bool d2, float[2] a2) => (bool e2, float[2] s2) { e2 = Identity (d2)  s2 = Mul (a2, a2) }> }"""
    check("alike", alike, folder, dict(m=number(3), x=floats(2)))
    # Which elements a step keeps is data of that step.
    data = """g (int64 m, float[n] x) => (float[k] y, float[t] sums) {
      zero = Constant <value = float {0}> ()  half = Constant <value = float {0.5}> ()
      y, sums = Loop (m, , x) <body = b (int64 i, bool d, float[N] a) => (bool e, float[M] s, float o) {
        e = Identity (d)  l = Sub (a, half)  g0 = Greater (l, zero)  s = Compress <axis = 0> (l, g0)  o = ReduceSum <keepdims = 0> (s) }> }"""
    check("data", data, folder, *[dict(m=number(m), x=np.array([0.2, 2, 1.2, 3, 4], np.float32)) for m in (1, 3)], shapes=["x=1:5:8"])
    # Of what a step finds only the number is read.
    counted = """g (int64 m, float[n] x) => (float[k] y) {
      none = Constant <value = float[0] {}> ()
      y = Loop (m, , none) <body = b (int64 i, bool d, float[N] a) => (bool e, float[M] s) {
        e = Identity (d)  f = Cast <to = 1> (i)  g0 = Greater (x, f)  p = NonZero (g0)  h = Shape <start = 1> (p)  z = ConstantOfShape (h)  s = Concat <axis = 0> (a, z) }> }"""
    check("counted", counted, folder, *[dict(m=number(m), x=np.array([0.5, 2, 1.5, 3, 4], np.float32)) for m in (0, 1, 3)], shapes=["x=1:5:8"])
    ranks = """g (int64 m, float[1] x) => (float[k] y) {
      y = Loop (m, , x) <body = b (int64 i, bool d, a) => (bool e, s) { e = Identity (d)  k = Constant <value = int64[1] {0}> ()  s = Unsqueeze (a, k) }> }"""
    refuse("ranks", ranks, folder, dict(m=number(2), x=floats(1)), "a carried value (number 0)")
    rank = ranks.replace("int64 m, float[1] x) => (float[k] y)", "float[3] x, bool c) => (float[1, 1, 3] y)").replace("{\n      y =", "{\n      m = Constant <value = int64 {2}> ()\n      y =")
    check("ranks of a known number of iterations", rank, folder, dict(x=floats(3), c=truth(1)))
    check("ranks under a condition", rank.replace("(m, , x)", "(m, c, x)").replace("bool c) => (float[1, 1, 3] y)", "bool c) => (float z)").replace("s = Unsqueeze (a, k) }> }", "s = Unsqueeze (a, k) }>  z = ReduceSum <keepdims = 0> (y) }"),
          folder, *[dict(x=floats(3), c=truth(c)) for c in (1, 0)])


def check_scans(folder):
    body = "body = b (float[3] a, float[3] u, float[2] v) => (float[3] s, float[3] o, float[2] r) { s = Add (a, u)  o = Mul (s, u)  r = Exp (v) }"
    scan = "g (float[3] x, float[{}] p, float[{}] q) => (float[3] y, float[c, d] z, float[e, f] w) {{ y, z, w = Scan (x, p, q) <num_scan_inputs = 2, {}{}> }}"
    for axes, reverse in ((0, 0), (1, 0), (0, 1), (1, 1)):
        attributes = f"scan_input_axes = [{axes}, 0], scan_input_directions = [{reverse}, 0], scan_output_axes = [{axes}, 0], scan_output_directions = [{reverse}, 1], "
        given = dict(x=floats(3), p=floats(3, 5) if axes else floats(5, 3), q=floats(5, 2))
        check(f"scan {axes} {reverse}", scan.format("3, 5" if axes else "5, 3", "5, 2", attributes, body), folder, given)
    free = scan.format("n, 3", "n, 2", "", body)
    check("scan of any length", free, folder, *[dict(x=floats(3), p=floats(n, 3), q=floats(n, 2)) for n in (4, 1, 6)], shapes=["p=1x3:4x3:8x3", "q=1x2:4x2:8x2"])
    apart = scan.format("n, 3", "m, 2", "", body)
    check("scan of two lengths that are one", apart, folder, *[dict(x=floats(3), p=floats(n, 3), q=floats(n, 2)) for n in (4, 1)], shapes=["p=1x3:4x3:8x3", "q=1x2:4x2:8x2"])
    some = apart.replace("(float[3] x, float[n, 3] p, float[m, 2] q)", "(float[3] x, float[5, 3] p0, float[5, 2] q0, int64[1] n, int64[1] m)").replace("{ y, z, w", "{ zero = Constant <value = int64[1] {0}> ()  p = Slice (p0, zero, n)  q = Slice (q0, zero, m)  y, z, w")
    check("scan of lengths that are data", some, folder, *[dict(x=floats(3), p0=floats(5, 3), q0=floats(5, 2), n=ints(n), m=ints(n)) for n in (4, 1)])
    done = run(folder / "model.plan", dict(x=floats(3), p0=floats(5, 3), q0=floats(5, 2), n=ints(4), m=ints(3)), folder)
    assert done.returncode == 3 and "a tensor f32[3,2] cannot be reshaped to [4,2]" in done.stderr, f"{done.returncode} {done.stderr}"
    batched = "g (float[2, 3] x, float[2, 5, 3] p, float[2, 5, 2] q) => (float[2, 3] y, float[2, 5, 3] z, float[2, 5, 2] w) { y, z, w = Scan (, x, p, q) <num_scan_inputs = 2, directions = [1, 0], " + body + "> }"
    check("scan of opset 8", batched, folder, dict(x=floats(2, 3), p=floats(2, 5, 3), q=floats(2, 5, 2)), opset=8)


def check_sequences(folder):
    three = ["x[0]=2", "x[1]=3", "x[2]=1"]
    elements = [floats(2), floats(3), floats(1)]
    positions = """g (seq(float[]) x, float[n] t, int64 p) => (float[k] at, seq(float[]) longer, seq(float[]) shorter, seq(float[]) last, int64 count, float[m] all) {
      at = SequenceAt (x, p)
      longer = SequenceInsert (x, t, p)
      e0 = SequenceErase (x, p)
      shorter = SequenceInsert (e0, at)
      last = SequenceErase (x)
      count = SequenceLength (longer)
      all = ConcatFromSequence <axis = 0> (longer) }"""
    check("positions", positions, folder, *[dict(x=elements, t=floats(4), p=number(p)) for p in (0, 2, -1)], shapes=[*three, "t=4"])
    for p in (3, -4):
        done = run(folder / "model.plan", dict(x=elements, t=floats(4), p=number(p)), folder)
        assert done.returncode == 2 and "index" in done.stderr, f"position {p}: {done.returncode} {done.stderr}"
    # Elements of one shape are stacked instead of chosen.
    alike = [floats(3) for _ in range(3)]
    check("alike", positions, folder, *[dict(x=alike, t=floats(3), p=number(p)) for p in (1, -3)], shapes=["x[0]=3", "x[1]=3", "x[2]=3", "t=3"])
    known = """g (float[2] a, float[2] b, float[2] c) => (seq(float[2]) y, float[2, 3] z) {
      one = Constant <value = int64 {1}> ()  minus = Constant <value = int64 {-1}> ()
      s0 = SequenceConstruct (a, b)
      s1 = SequenceInsert (s0, c, minus)
      y = SequenceErase (s1, one)
      z = ConcatFromSequence <axis = -1, new_axis = 1> (s1) }"""
    check("known positions", known, folder, dict(a=floats(2), b=floats(2), c=floats(2)))
    split = """g (float[5, 4] x, int64[2] sizes) => (seq(float[]) a, seq(float[]) b, seq(float[]) c, seq(float[]) d) {
      two = Constant <value = int64 {2}> ()  parts = Constant <value = int64[3] {1, 0, 3}> ()
      a = SplitToSequence <axis = 0> (x, two)
      b = SplitToSequence <axis = 1> (x, parts)
      c = SplitToSequence <axis = -1, keepdims = 0> (x)
      d = SplitToSequence <axis = 0> (x, sizes) }"""
    check("split", split, folder, dict(x=floats(5, 4), sizes=ints(2, 3)), dict(x=floats(5, 4), sizes=ints(5, 0)))
    # A loop that runs a known number of times, over elements of different shapes; and one whose body makes none but appends.
    over = """g (seq(float[]) x) => (seq(float[]) y, float[t, 1] sums) {
      n = SequenceLength (x)  yes = Constant <value = bool {1}> ()  none = SequenceEmpty ()
      y, sums = Loop (n, yes, none) <body = b (int64 i, bool d, seq(float[]) s) => (bool e, seq(float[]) o, float[1] m) {
        e = Identity (d)  v = SequenceAt (x, i)  w = Neg (v)  o = SequenceInsert (s, w)  m = ReduceMax <axes = [0], keepdims = 1> (v) }> }"""
    check("over", over, folder, dict(x=elements), shapes=three)
    collect = """g (int64 m, float[2, 3] x) => (float[p, 2, 3] y, float[2, q] z, int64 n, float[2, 3] at, float[r, 2, 3] w) {
      none = SequenceEmpty ()  begin = SequenceConstruct (x)
      a, s, t = Loop (m, , x, none, begin) <body = b (int64 i, bool d, float[2, 3] u, seq(float[]) c, seq(float[]) f) => (bool e, float[2, 3] v, seq(float[]) g0, seq(float[]) k) {
        e = Identity (d)  v = Tanh (u)  g0 = SequenceInsert (c, v)  k0 = SequenceInsert (f, u)  h = Exp (u)  k = SequenceInsert (k0, h) }>
      y = ConcatFromSequence <axis = 0, new_axis = 1> (s)
      z = ConcatFromSequence <axis = 1> (t)
      n = SequenceLength (t)
      at = SequenceAt (t, m)
      more = SequenceInsert (s, x)
      w = ConcatFromSequence <axis = 0, new_axis = 1> (more) }"""
    check("collect", collect, folder, *[dict(m=number(m), x=floats(2, 3)) for m in (1, 3, 4)])
    branch = """g (bool c, int64 m, float[3] x) => (float[p, 3] y, seq(float[3]) s) {
      none = SequenceEmpty ()
      t = Loop (m, , none) <body = b (int64 i, bool d, seq(float[]) u) => (bool e, seq(float[]) o) {
        e = Identity (d)
        o = If (c) <then_branch = v () => (seq(float[]) p0) { p0 = SequenceInsert (u, x) }, else_branch = w () => (seq(float[]) q0) { z = Exp (x)  q0 = SequenceInsert (u, z) }> }>
      y = ConcatFromSequence <axis = 0, new_axis = 1> (t)
      s = If (c) <then_branch = j () => (seq(float[]) k) { k = SequenceConstruct (x) }, else_branch = l () => (seq(float[]) n) { r = Neg (x)  n = SequenceConstruct (r) }> }"""
    check("branch", branch, folder, *[dict(c=truth(c), m=number(3), x=floats(3)) for c in (0, 1)])
    # What a condition, or a loop inside, appends: none, one or several elements in each iteration.
    some = """g (int64 m, float[2, 3] x) => (float[p, 3] y, int64 n) {
      none = SequenceEmpty ()  two = Constant <value = int64 {2}> ()  zero = Constant <value = int64 {0}> ()
      s = Loop (m, , none) <body = b (int64 i, bool d, seq(float[]) u) => (bool e, seq(float[]) o) {
        e = Identity (d)  r = Mod (i, two)  even = Equal (r, zero)  f = Cast <to = 1> (i)  v = Mul (x, f)
        o = If (even) <then_branch = t () => (seq(float[]) p0) { p0 = SequenceInsert (u, v) }, else_branch = w () => (seq(float[]) q0) { q0 = Identity (u) }> }>
      y = ConcatFromSequence <axis = 0> (s)
      n = SequenceLength (s) }"""
    check("some", some, folder, *[dict(m=number(m), x=floats(2, 3)) for m in (1, 2, 5)])
    within = """g (int64 m, float[2, 3] x) => (float[p, 3] y, int64 n) {
      none = SequenceEmpty ()
      s = Loop (m, , none) <body = b (int64 i, bool d, seq(float[]) u) => (bool e, seq(float[]) o) {
        e = Identity (d)
        o = Loop (i, , u) <body = c (int64 j, bool f, seq(float[]) w) => (bool h, seq(float[]) z) {
          h = Identity (f)  g0 = Cast <to = 1> (j)  v = Add (x, g0)  z = SequenceInsert (w, v) }> }>
      y = ConcatFromSequence <axis = 0> (s)
      n = SequenceLength (s) }"""
    check("within", within, folder, *[dict(m=number(m), x=floats(2, 3)) for m in (2, 4)])
    ragged = """g (int64 m) => (int64[p] y) {
      none = SequenceEmpty <dtype = 7> ()  zero = Constant <value = int64 {0}> ()  one = Constant <value = int64 {1}> ()
      s = Loop (m, , none) <body = b (int64 i, bool d, seq(int64[]) u) => (bool e, seq(int64[]) o) {
        e = Identity (d)  v = Range (zero, i, one)  o = SequenceInsert (u, v) }>
      y = ConcatFromSequence <axis = 0> (s) }"""
    refuse("ragged", ragged, folder, dict(m=number(3)), "loop 's/2', iteration 1: result 1 of its body: it gives [1,1] to a scan of slices [1,0]")
    front = some.replace("SequenceInsert (u, v)", "SequenceInsert (u, v, zero)")
    refuse("front", front, folder, dict(m=number(3), x=floats(2, 3)), "node 's' (Loop): node 'o' (If): node 'p0' (SequenceInsert): 'u', a sequence that a loop carries, is read inside")
    open_output = "g (int64 m, float[3] x) => (seq(float[]) y) { none = SequenceEmpty ()  y = Loop (m, , none) <body = b (int64 i, bool d, seq(float[]) u) => (bool e, seq(float[]) o) { e = Identity (d)  f = Cast <to = 1> (i)  v = Add (x, f)  o = SequenceInsert (u, v) }> }"
    check("open output", open_output, folder, *[dict(m=number(m), x=floats(3)) for m in (1, 4)])
    check("open output behind an element", open_output.replace("SequenceEmpty ()", "SequenceConstruct (x)"), folder, *[dict(m=number(m), x=floats(3)) for m in (1, 4)])
    refuse("open output of ranks", open_output.replace("SequenceEmpty ()", "SequenceConstruct (z)").replace("{ none", "{ z = ReduceSum <keepdims = 0> (x) none"), folder, dict(m=number(2), x=floats(3)), "a sequence of elements of ranks 0 and 1")
    # Whether a loop over a sequence runs at all.
    guarded = over.replace("yes = Constant <value = bool {1}> ()  ", "").replace("g (seq(float[]) x)", "g (seq(float[]) x, bool yes)").replace(", float[t, 1] sums", "").replace(", float[1] m)", ")").replace("y, sums", "y").replace("  m = ReduceMax <axes = [0], keepdims = 1> (v)", "")
    check("guarded", guarded, folder, *[dict(x=elements, yes=truth(yes)) for yes in (1, 0)], shapes=three)
    # How many parts there are is data: parts of a size, and sizes of as many parts as the run says.
    parts = "g (float[7, 2] x, int64 s) => (seq(float[]) y, int64 n, float[7, 2] z) { y = SplitToSequence <axis = 0> (x, s)  n = SequenceLength (y)  z = ConcatFromSequence <axis = 0> (y) }"
    check("parts", parts, folder, *[dict(x=floats(7, 2), s=number(s)) for s in (1, 2, 3, 6, 7, 9)])
    named = onnx.parser.parse_model(header(17) + parts)
    named.graph.output[1].name = named.graph.node[1].output[0] = "y.length"
    onnx.save(named, folder / "named.onnx")
    done = run(folder / "named.onnx", dict(x=floats(7, 2), s=number(2)), folder, "--no-measure")
    assert done.returncode == 4 and "rename it" in done.stderr, f"{done.returncode} {done.stderr}"
    for s in (0, -1):
        done = run(folder / "model.plan", dict(x=floats(7, 2), s=number(s)), folder)
        assert done.returncode == 2 and "index" in done.stderr, f"parts of {s}: {done.returncode} {done.stderr}"
    some_sizes = "g (float[6, 2] x, int64[3] all, int64[1] k) => (seq(float[]) y, int64 n) { zero = Constant <value = int64[1] {0}> ()  s = Slice (all, zero, k)  y = SplitToSequence <axis = 0> (x, s)  n = SequenceLength (y) }"
    check("some sizes", some_sizes, folder, *[dict(x=floats(6, 2), all=ints(*sizes), k=ints(k)) for sizes, k in (((1, 2, 3), 3), ((4, 2, 9), 2), ((6, 0, 0), 1))])
    for keep in (0, 1):
        slices = f"g (float[2, n] x, int64 p) => (seq(float[]) y, int64 c, float[a, b] z) {{ y = SplitToSequence <axis = 1, keepdims = {keep}> (x)  c = SequenceLength (y)  at = SequenceAt (y, p)  o = Constant <value = int64[2] {{-1, 1}}> ()  z = Reshape (at, o) }}"
        check("slices", slices, folder, *[dict(x=floats(2, n), p=number(p)) for n, p in ((3, 1), (5, -1))], shapes=["x=2x1:2x3:2x8"])
    inside = "g (int64 m, float[3] x) => (float[p] y) { begin = SequenceConstruct (x)  t = Loop (m, , begin) <body = b (int64 i, bool d, seq(float[]) u) => (bool e, seq(float[]) o) { e = Identity (d)  k = SequenceAt (u, i)  o = SequenceInsert (u, k) }>  y = ConcatFromSequence <axis = 0> (t) }"
    refuse("read inside", inside, folder, dict(m=number(2), x=floats(3)), "a loop may only append to it")


with tempfile.TemporaryDirectory() as name:
    for part in (check_branches, check_ranks, check_loops, check_scans, check_sequences):
        part(pathlib.Path(name))
print("control flow agrees")
