# SPDX-License-Identifier: Apache-2.0
"""usage: types_beside_onnx.py TEMPER

Casts to and from types that are stored only (8-bit floats, integers of 4 and 2 bits), and quantization to and from them
in one scale, in scales along an axis and in blocks, give the same numbers in Temper as in ONNX's reference evaluator
and, where it has the type, in ONNX Runtime: for every fp16 number, for numbers next to those, and for random bits.
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

import ml_dtypes
import numpy as np
import onnx
import onnx.parser
import onnxruntime
from onnx.reference import ReferenceEvaluator

random = np.random.default_rng(11)
FLOATS = {"FLOAT8E4M3FN": 17, "FLOAT8E4M3FNUZ": 18, "FLOAT8E5M2": 19, "FLOAT8E5M2FNUZ": 20, "FLOAT4E2M1": 23}
INTS = {"UINT4": (21, 0, 15), "INT4": (22, -8, 7), "UINT2": (25, 0, 3), "INT2": (26, -2, 1)}
compared = 0


def temper(path, given, folder):
    shutil.rmtree(folder / "out", ignore_errors=True)
    command = ["run", path, "--output-dir", folder / "out", "--quiet", "--no-measure"]
    for name, data in given.items():
        np.save(folder / f"{name}.npy", data)
        command += ["--input", f"{name}={folder / name}.npy"]
    done = subprocess.run([sys.argv[1], *map(str, command)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr + done.stdout
    return {file.stem: np.load(file) for file in (folder / "out").iterdir() if file.suffix == ".npy"}


def same(name, got, want, no_sign=False):
    global compared
    want = np.asarray(want).astype(got.dtype)
    assert got.shape == want.shape, (name, got.shape, want.shape)
    bad = np.flatnonzero((got != want).ravel() & ~(np.isnan(got) & np.isnan(want)).ravel())
    assert not bad.size, (name, len(bad), bad[:5], got.ravel()[bad[:5]], want.ravel()[bad[:5]])
    if np.issubdtype(got.dtype, np.floating):  # zeros of either sign are equal, and must be the same here
        kept = ~np.isnan(want) & ~no_sign
        assert (np.signbit(got) == np.signbit(want))[kept].all(), (name, "a sign")
    compared += got.size


def check(name, text, folder, given, ort=False, opset=25):
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}]>\n' + text)
    path = folder / "model.onnx"
    onnx.save(model, path)
    got = temper(path, given, folder)
    names = [output.name for output in model.graph.output]
    with np.errstate(all="ignore"):
        wanted = ReferenceEvaluator(model).run(None, given)
    for output, want in zip(names, wanted):
        # NaN as FLOAT4E2M1, which has none, is a zero of either sign.
        same(f"{name} {output}", got[output], want, np.isnan(given["x"]) if "FLOAT4E2M1_" in output else False)
    if ort:
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        for output, want in zip(names, session.run(None, given)):
            same(f"{name} {output} in ONNX Runtime", got[output], want)


def every_float():
    """All fp16 numbers and their neighbours in fp32, which decide ties, and random bits."""
    halves = np.arange(65536, dtype=np.uint16).view(np.float16).astype(np.float32)
    bits = random.integers(0, 2**32, 100_000, dtype=np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        near = [np.nextafter(halves, np.float32(to)) for to in (np.inf, -np.inf)]
    return np.concatenate([halves, *near, bits])


def nearest(x, dtype, saturate):
    """The nearest number of a small float type, the one with the even code of two: of fp64, which ml_dtypes rounds twice."""
    with np.errstate(all="ignore"):
        table = np.arange(128 if dtype != ml_dtypes.float4_e2m1fn else 8, dtype=np.uint8).view(dtype).astype(np.float64)
    table = table[np.isfinite(table)]
    step = table[-1] - table[-2]
    grown = np.append(table, table[-1] + step)  # the number that would come next decides what is too large
    magnitude = np.abs(x)
    at = np.clip(np.searchsorted(grown, magnitude), 1, len(grown) - 1)
    low, high = grown[at - 1], grown[at]
    up = (magnitude - low > high - magnitude) | ((magnitude - low == high - magnitude) & (at % 2 == 0))
    result = np.where(up, high, low)
    over = (result > table[-1]) | (magnitude > grown[-1])
    limit = table[-1] if saturate or dtype == ml_dtypes.float4_e2m1fn else np.inf if dtype == ml_dtypes.float8_e5m2 else np.nan
    result = np.copysign(np.where(over, limit, result), x)
    one_zero = dtype in (ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2fnuz)
    return np.where(result == 0, 0.0, result) if one_zero else result


def doubles(folder, x):
    dtypes = dict(zip(FLOATS, (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2, ml_dtypes.float8_e5m2fnuz, ml_dtypes.float4_e2m1fn)))
    x = x[np.isfinite(x)]
    x = np.concatenate([x, x * (1 + 2.0**-40 * random.standard_normal(x.size))])
    for name, number in FLOATS.items():
        for saturate in (0, 1):
            text = (f'<ir_version: 10, opset_import: ["" : 25]>\ng (double[n] x) => (float[n] y) '
                    f"{{ c = Cast<to = {number}, saturate = {saturate}>(x) y = Cast<to = 1>(c) }}")
            onnx.save(onnx.parser.parse_model(text), folder / "model.onnx")
            got = temper(folder / "model.onnx", {"x": x}, folder)["y"]
            same(f"fp64 to {name}", got, nearest(x, dtypes[name], saturate))


def casts(folder):
    x = every_float()
    doubles(folder, x[np.isfinite(x)].astype(np.float64))
    for kind, file_type in (("float", np.float32), ("float16", np.float16)):
        lines, outputs = [], []
        for name, number in FLOATS.items():
            for saturate in (0, 1):
                if name == "FLOAT4E2M1" and not saturate:
                    continue
                y = f"{name}_{saturate}"
                lines.append(f"c_{y} = Cast<to = {number}, saturate = {saturate}>(x)  {y} = Cast<to = 1>(c_{y})")
                outputs.append(f"float[n] {y}")
        with np.errstate(all="ignore"):
            given = x.astype(file_type)
            text = f'g ({kind}[n] x) => ({", ".join(outputs)}) {{ {" ".join(lines)} }}'
            check(f"casts from {kind}", text, folder, {"x": given})
    # ONNX Runtime has the four 8-bit types.
    lines = [f"c{n} = Cast<to = {n}>(x)  y{n} = Cast<to = 1>(c{n})" for n in (17, 18, 19, 20)]
    outputs = ", ".join(f"float[n] y{n}" for n in (17, 18, 19, 20))
    finite = x[np.isfinite(x)]
    check("casts", f'g (float[n] x) => ({outputs}) {{ {" ".join(lines)} }}', folder, {"x": finite}, ort=True, opset=21)
    # Integers: low bits of what is too large; floats are cut.
    lines, outputs = [], []
    for name, (number, _, _) in INTS.items():
        for of in ("i", "f", "u"):
            lines.append(f"c_{name}{of} = Cast<to = {number}>({of})  {name}{of} = Cast<to = 6>(c_{name}{of})")
            outputs.append(f"int32[n] {name}{of}")
    text = f'g (int64[n] i, float[n] f, uint8[n] u) => ({", ".join(outputs)}) {{ {" ".join(lines)} }}'
    n = 4096
    check("integers", text, folder, {"i": random.integers(-(2**40), 2**40, n), "f": random.uniform(-15.9, 15.9, n).astype(np.float32),
                                     "u": random.integers(0, 256, n).astype(np.uint8)})
    # Scales: of numbers that are normal, finite and positive, in each way to round.
    lines, outputs = [], []
    for mode in ("up", "down", "nearest"):
        for saturate in (0, 1):
            y = f"{mode}_{saturate}"
            lines.append(f'c_{y} = Cast<to = 24, saturate = {saturate}, round_mode = "{mode}">(x)  {y} = Cast<to = 1>(c_{y})')
            outputs.append(f"float[n] {y}")
    normal = x[np.isfinite(x) & (x >= np.finfo(np.float32).tiny)]
    check("scales", f'g (float[n] x) => ({", ".join(outputs)}) {{ {" ".join(lines)} }}', folder, {"x": normal})
    # What moves elements takes every type.
    lines, outputs = [], []
    for number in (*FLOATS.values(), *(entry[0] for entry in INTS.values()), 24):
        lines.append(f"a{number} = Cast<to = {number}>(x) b{number} = Transpose<perm = [1, 0]>(a{number}) "
                     f"s{number} = Constant<value_ints = [-1]>() d{number} = Reshape(b{number}, s{number}) y{number} = Cast<to = 1>(d{number})")
        outputs.append(f"float[m] y{number}")
    text = f'g (float[n, k] x) => ({", ".join(outputs)}) {{ {" ".join(lines)} }}'
    check("moves", text, folder, {"x": np.abs(random.standard_normal((7, 5))).astype(np.float32)})


def quantization(folder):
    types = {**{name: (number, None, None) for name, number in FLOATS.items()}, **INTS,
             "INT8": (3, -128, 127), "UINT8": (2, 0, 255), "INT16": (5, -32768, 32767), "UINT16": (4, 0, 65535)}
    for name, (number, low, high) in types.items():
        for shape, axis, block in (((6, 33), 1, 0), ((6, 33), 0, 4), ((3, 33, 4), 1, 8), ((2, 32), -1, 16), ((5, 1), 0, 2), ((6, 33), None, 0)):
            scale_shape = list(shape)
            if axis is None:
                scale_shape = []
            elif block:
                scale_shape[axis] = -(-shape[axis] // block)
            else:
                scale_shape = [shape[axis]]
            x = (random.standard_normal(shape) * 3).astype(np.float32)
            x.ravel()[:8] = np.float32([0.5, 1.5, 2.5, -0.5, -1.5, 1e6, -1e6, 0])[: x.size]
            # Powers of two, so that many quotients are ties.
            scale = np.asarray(np.exp2(random.integers(-3, 2, scale_shape)), np.float32)
            attributes = f"axis = {axis if axis is not None else 1}, block_size = {block}"
            dims = f"[{', '.join(map(str, scale_shape))}]" if scale_shape else ""
            ints = low is not None
            zero = np.asarray(random.integers(max(low, -3), min(high, 3) + 1, scale_shape) if ints else np.zeros(scale_shape), np.int32)
            body = (f"z = Cast<to = {number}>(zero) q = QuantizeLinear<{attributes}>(x, scale, z) qf = Cast<to = 1>(q) "
                    f"d = DequantizeLinear<{attributes}>(q, scale, z) p = QuantizeLinear<{attributes}, output_dtype = {number}>(x, scale) "
                    f"pf = DequantizeLinear<{attributes}>(p, scale)")
            all_dims = ", ".join(map(str, shape))
            text = (f"g (float[{all_dims}] x, float{dims} scale, int32{dims} zero) => (float[{all_dims}] qf, float[{all_dims}] d, float[{all_dims}] pf) "
                    f"{{ {body} }}")
            ort = name in ("INT4", "UINT4") or (name in ("INT8", "UINT8") and block)
            check(f"{name} {shape} axis {axis} block {block}", text, folder, {"x": x, "scale": scale, "zero": zero}, ort=ort, opset=21 if ort else 25)


with tempfile.TemporaryDirectory() as name:
    quantization(pathlib.Path(name))
    casts(pathlib.Path(name))
print(f"{compared} numbers of stored types as in ONNX's reference evaluator and ONNX Runtime")
