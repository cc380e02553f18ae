# SPDX-License-Identifier: Apache-2.0
"""usage: ops_beside_onnx.py TEMPER

Ops that are lowered to others give the same numbers in Temper as in ONNX's reference evaluator on random inputs and
attributes, with sizes that are constants of the model and with sizes that are its inputs.
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnx.parser
from onnx.reference import ReferenceEvaluator

random = np.random.default_rng(5)
compared = 0
DTYPES = {np.dtype(np.float32): "float", np.dtype(np.float64): "double", np.dtype(np.int64): "int64", np.dtype(np.int32): "int32",
          np.dtype(np.bool_): "bool"}


def temper(path, given, folder):
    shutil.rmtree(folder / "out", ignore_errors=True)
    command = ["run", path, "--output-dir", folder / "out", "--quiet", "--no-measure"]
    for name, data in given.items():
        np.save(folder / f"{name}.npy", data)
        command += ["--input", f"{name}={folder / name}.npy"]
    done = subprocess.run([sys.argv[1], *map(str, command)], capture_output=True, text=True)
    assert done.returncode == 0, (path, done.stderr + done.stdout)
    return {file.stem: np.load(file) for file in (folder / "out").iterdir() if file.suffix == ".npy"}


def declared(name, array):
    dims = ", ".join(map(str, array.shape))
    return f"{DTYPES[array.dtype]}{f'[{dims}]' if array.shape else ''} {name}"


def floats(*shape):
    return random.standard_normal(shape).astype(np.float32)


def ints(*values):
    return np.array(values, np.int64)


def check(folder, body, outputs, given, constants=(), tolerance=1e-4, want=None, opset=22, domain=""):
    """Once with all inputs as inputs, and once with `constants` in the model."""
    global compared
    for fixed in [(), tuple(constants)] if constants else [()]:
        text = (f'<ir_version: 10, opset_import: ["" : {opset}{domain}]>\n'
                f"g ({', '.join(declared(n, a) for n, a in given.items() if n not in fixed)}) => ({outputs}) {{ {body} }}")
        model = onnx.parser.parse_model(text)
        for name in fixed:
            model.graph.initializer.append(onnx.numpy_helper.from_array(given[name], name))
        path = folder / "model.onnx"
        onnx.save(model, path)
        inputs = {n: a for n, a in given.items() if n not in fixed}
        wanted = ReferenceEvaluator(model).run(None, inputs) if want is None else want
        got = temper(path, inputs, folder)
        for output, expected in zip(model.graph.output, wanted):
            result = got[output.name]
            assert result.shape == np.shape(expected), (text, output.name, result.shape, np.shape(expected))
            np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance, err_msg=text + str(inputs))
            compared += result.size


def affine_grid(folder):
    for _ in range(3):
        for axes in (2, 3):
            size = ints(2, 3, *random.integers(1 if axes == 2 else 2, 6, axes))
            for align in (0, 1):
                if align and 1 in size[2:]:
                    continue  # the reference evaluator divides by zero
                check(folder, f"y = AffineGrid<align_corners = {align}>(theta, size)", "float[a, b, c, d] y" if axes == 2 else "float[a, b, c, d, e] y",
                      {"theta": floats(2, axes, axes + 1), "size": size}, ["size"])


def col2im(folder):
    for _ in range(5):
        axes = int(random.integers(1, 4))
        image, block = random.integers(4, 7, axes), random.integers(1, 4, axes)
        dilations, strides, pads = random.integers(1, 3, axes), random.integers(1, 3, axes), random.integers(0, 2, 2 * axes)
        reach = dilations * (block - 1) + 1
        image = np.maximum(image, reach)
        columns = (image + pads[:axes] + pads[axes:] - reach) // strides + 1
        attributes = f"dilations = {dilations.tolist()}, strides = {strides.tolist()}, pads = {pads.tolist()}"
        check(folder, f"y = Col2Im<{attributes}>(x, image, block)", f"float[{', '.join('abcde'[: axes + 2])}] y",
              {"x": floats(2, 3 * int(np.prod(block)), int(np.prod(columns))), "image": ints(*image), "block": ints(*block)}, ["image", "block"])


def max_roi_pool(folder):
    def half_away(v):
        return np.sign(v) * np.floor(np.abs(v) + np.float32(0.5))

    for _ in range(4):
        x, pooled, scale = floats(2, 3, *random.integers(3, 9, 2)), random.integers(1, 5, 2), np.float32(random.choice([1, 0.5, 0.25]))
        corners = (random.uniform(-6, 14, (6, 4)) / scale).astype(np.float32).round(1)
        rois = np.concatenate([random.integers(0, 2, (6, 1)), corners], 1).astype(np.float32)
        want = np.zeros((6, 3, *pooled), np.float32)
        for r, roi in enumerate(rois):
            first, last = half_away(roi[1:3] * scale)[::-1], half_away(roi[3:5] * scale)[::-1]
            bins = np.maximum(last - first + 1, 1) / pooled.astype(np.float32)
            for place in np.ndindex(*pooled):
                begin = np.clip(np.floor(np.float32(place) * bins) + first, 0, x.shape[2:]).astype(int)
                end = np.clip(np.ceil((np.float32(place) + 1) * bins) + first, 0, x.shape[2:]).astype(int)
                cells = x[int(roi[0]), :, begin[0] : end[0], begin[1] : end[1]]
                if cells.size:
                    want[(r, slice(None), *place)] = cells.max((1, 2))
        check(folder, f"y = MaxRoiPool<pooled_shape = {pooled.tolist()}, spatial_scale = {scale}>(x, rois)", "float[r, c, h, w] y", {"x": x, "rois": rois}, want=[want])


def deform_conv(folder):
    for _ in range(5):
        group, offsets = int(random.integers(1, 3)), int(random.integers(1, 3))
        kernel, strides, dilations, pads = (random.integers(1, 4, 2), random.integers(1, 3, 2), random.integers(1, 3, 2), random.integers(0, 3, 4))
        size = random.integers(6, 9, 2)
        out = (size + pads[:2] + pads[2:] - dilations * (kernel - 1) - 1) // strides + 1
        k = int(np.prod(kernel))
        attributes = (f"group = {group}, offset_group = {offsets}, kernel_shape = {kernel.tolist()}, strides = {strides.tolist()}, "
                      f"dilations = {dilations.tolist()}, pads = {pads.tolist()}")
        given = {"x": floats(2, 4, *size), "w": floats(2 * group, 4 // group, *kernel), "offset": 2 * floats(2, offsets * k * 2, *out),
                 "b": floats(2 * group), "mask": floats(2, offsets * k, *out)}
        check(folder, f"y = DeformConv<{attributes}>(x, w, offset, b, mask)", "float[n, m, h, v] y", given)
        given = {name: given[name] for name in ("x", "w", "offset")}
        check(folder, f"y = DeformConv<{attributes}>(x, w, offset)", "float[n, m, h, v] y", given)


def determinants(folder):
    for shape in ((1, 1), (3, 3), (2, 4, 4), (2, 3, 6, 6), (5, 2, 2)):
        check(folder, "y = Det(x)", f"float[{', '.join('abc'[: len(shape) - 2])}] y" if len(shape) > 2 else "float y", {"x": floats(*shape)})
    singular = np.array([[[0, 1, 2], [0, 3, 4], [0, 5, 6]], [[0, 1, 0], [1, 0, 0], [0, 0, 1]], [[1, 2, 3], [2, 4, 6], [1, 0, 1]]], np.float32)
    check(folder, "y = Det(x)", "float[n] y", {"x": singular})


def transforms(folder):
    for axis in (0, 1, 2, -2, -3, -4):
        for onesided in (0, 1):
            given = {"x": floats(2, 5, 6, 1), "axis": np.array(axis, np.int64)}
            check(folder, f"y = DFT<onesided = {onesided}>(x, , axis)", "float[a, b, c, d] y", given, ["axis"])
    # The length pads or cuts.
    for size, length in ((8, 6), (5, 9), (6, 6), (6, 1)):
        for inverse, onesided, parts in ((0, 0, 1), (0, 0, 2), (0, 1, 1), (1, 0, 1), (1, 0, 2), (1, 1, 2)):
            given = {"x": floats(2, size, 3, parts), "n": np.array(length, np.int64), "axis": np.array(1, np.int64)}
            attributes = f"inverse = {inverse}, onesided = {onesided}"
            check(folder, f"y = DFT<{attributes}>(x, n, axis)", "float[a, b, c, d] y", given, ["n", "axis"])
            check(folder, f"y = DFT<axis = 1, {attributes}>(x, n)", "float[a, b, c, d] y", {"x": given["x"], "n": given["n"]}, ["n"], opset=17)
    for step, length in ((3, 8), (8, 16), (1, 5)):
        for onesided in (0, 1):
            given = {"x": floats(2, 40, 1), "step": np.array(step, np.int64), "length": np.array(length, np.int64)}
            check(folder, f"y = STFT<onesided = {onesided}>(x, step, , length)", "float[a, b, c, d] y", given, ["step", "length"])
            given = {"x": floats(2, 40, 1), "step": np.array(step, np.int64), "window": np.abs(floats(length))}
            check(folder, f"y = STFT<onesided = {onesided}>(x, step, window)", "float[a, b, c, d] y", given, ["step"])


def mel_weights(folder):
    names = ("bins", "length", "rate", "lower", "upper")
    for values in ((8, 16, 8192, 0.0, 4096.0), (20, 512, 16000, 20.0, 7900.0), (64, 400, 16000, 125.0, 7500.0), (3, 64, 44100, 0.0, 20000.0)):
        given = {n: np.array(v, np.int64 if i < 3 else np.float32) for i, (n, v) in enumerate(zip(names, values))}
        check(folder, "y = MelWeightMatrix(bins, length, rate, lower, upper)", "float[a, b] y", given, names[:3])


def tf_idf(folder):
    for _ in range(7):
        least = int(random.integers(1, 4))
        most = least + int(random.integers(0, 2))
        pool, counts = [], []
        for n in range(1, most + 1):
            counts.append(len(pool))
            grams = {tuple(random.integers(0, 4, n).tolist()) for _ in range(4)}
            pool += [number for gram in sorted(grams) for number in gram]
        size = sum((counts[n] - counts[n - 1]) // n for n in range(1, most)) + (len(pool) - counts[-1]) // most
        places = random.permutation(size).tolist()
        mode = ("TF", "IDF", "TFIDF")[int(random.integers(0, 3))]
        weights = [round(float(w), 3) for w in random.uniform(0.5, 2, size)]
        text = ('TfIdfVectorizer<mode = "%s", min_gram_length = %d, max_gram_length = %d, max_skip_count = %d, ngram_counts = %s, ngram_indexes = %s, '
                "pool_int64s = %s, weights = %s>(x)" % (mode, least, most, random.integers(0, 4), counts, places, pool, weights))
        for shape in ((9,), (3, 9)):
            check(folder, f"y = {text}", f"float[{', '.join('ab'[: len(shape)])}] y", {"x": random.integers(0, 4, shape)})


def training(folder):
    for shape in ((4, 3), (2, 3, 5), (2, 3, 4, 5)):
        given = {"x": floats(*shape), "s": floats(3), "b": floats(3), "m": floats(3), "v": np.abs(floats(3))}
        dims = ", ".join("abcd"[: len(shape)])
        check(folder, "y, mean, variance = BatchNormalization<training_mode = 1, momentum = 0.7, epsilon = 0.01>(x, s, b, m, v)",
              f"float[{dims}] y, float[c_] mean, float[c_] variance", given)
    domain = ', "ai.onnx.preview.training" : 1'
    one = {"r": np.array(0.1, np.float32), "t": np.array(3, np.int64), "x": floats(4), "g": floats(4), "v": floats(4), "h": np.abs(floats(4))}
    for t in (0, 3):
        one["t"] = np.array(t, np.int64)
        adam = "alpha = 0.9, beta = 0.99, epsilon = 0.001, norm_coefficient = 0.01, norm_coefficient_post = 0.02"
        check(folder, f"y, nv, nh = ai.onnx.preview.training.Adam<{adam}>(r, t, x, g, v, h)", "float[n] y, float[n] nv, float[n] nh", one, domain=domain)
        check(folder, "y, nh = ai.onnx.preview.training.Adagrad<decay_factor = 0.1, epsilon = 0.001, norm_coefficient = 0.01>(r, t, x, g, h)",
              "float[n] y, float[n] nh", {k: a for k, a in one.items() if k != "v"}, domain=domain)
        for mode in ("standard", "nesterov"):
            text = f'ai.onnx.preview.training.Momentum<alpha = 0.9, beta = 0.5, mode = "{mode}", norm_coefficient = 0.01>(r, t, x, g, v)'
            check(folder, f"y, nv = {text}", "float[n] y, float[n] nv", {k: a for k, a in one.items() if k != "h"}, domain=domain)


def preprocessing(folder):
    domain = ', "ai.onnx.ml" : 4'
    x, flags = floats(6, 4), random.integers(0, 4, (6, 4))
    holes = np.where(random.random((6, 4)) < 0.3, np.float32(np.nan), x)
    ml = "y = ai.onnx.ml."
    for text, outputs, given in (
            ("Scaler<offset = [0.5, 1.0, -1.0, 2.0], scale = [2.0, 0.25, 1.0, -3.0]>(x)", "float[a, b] y", {"x": x}),
            ("Scaler<offset = [0.5], scale = [2.0]>(x)", "float[a, b] y", {"x": x}),
            ("Binarizer<threshold = 0.25>(x)", "float[a, b] y", {"x": x}),
            ('Normalizer<norm = "L1">(x)', "float[a, b] y", {"x": np.where(np.arange(6)[:, None] == 2, np.float32(0), x)}),
            ('Normalizer<norm = "L2">(x)', "float[a, b] y", {"x": np.where(np.arange(6)[:, None] == 2, np.float32(0), x)}),
            ("Imputer<imputed_value_floats = [1.0, 2.0, 3.0, 4.0], replaced_value_float = nan>(x)", "float[a, b] y", {"x": holes}),
            ("Imputer<imputed_value_floats = [7.0], replaced_value_float = 0.0>(x)", "float[a, b] y", {"x": flags.astype(np.float32)}),
            ("Imputer<imputed_value_int64s = [9, 8, 7, 6], replaced_value_int64 = 3>(x)", "int64[a, b] y", {"x": flags}),
            ("OneHotEncoder<cats_int64s = [3, 1, 0], zeros = 1>(x)", "float[a, b, c] y", {"x": flags}),
            ("OneHotEncoder<cats_int64s = [3, 1, 0, 2], zeros = 0>(x)", "float[a, b, c] y", {"x": flags}),
            ("ArrayFeatureExtractor(x, i)", "float[a, b] y", {"x": x, "i": ints(2, 0, 3)}),
            ("LabelEncoder<keys_int64s = [0, 2, 1], values_floats = [0.5, 1.5, 2.5], default_float = 9.0>(x)", "float[a, b] y", {"x": flags}),
            ("LabelEncoder<keys_floats = [0.0, 2.0], values_int64s = [5, 6]>(x)", "int64[a, b] y", {"x": flags.astype(np.float32)}),
            ("FeatureVectorizer<inputdimensions = [4, 3]>(x, z)", "float[a, b] y", {"x": x, "z": floats(6, 3)}),
            ('LinearRegressor<targets = 2, coefficients = [1.0, 2.0, 3.0, 4.0, -1.0, 0.5, 0.25, 2.0], intercepts = [0.5, -0.5], post_transform = "NONE">(x)', "float[a, b] y", {"x": x})):
        check(folder, ml + text, outputs, given, domain=domain)
    # A category that nothing knows is an error where zeros are not wanted.
    text = f'<ir_version: 10, opset_import: ["" : 22{domain}]>\ng (int64[6, 4] x) => (float[a, b, c] y) {{ {ml}OneHotEncoder<cats_int64s = [5], zeros = 0>(x) }}'
    onnx.save(onnx.parser.parse_model(text), folder / "model.onnx")
    np.save(folder / "x.npy", flags)
    done = subprocess.run([sys.argv[1], "run", folder / "model.onnx", "--input", f"x={folder / 'x.npy'}", "--output-dir", folder / "out", "--quiet", "--no-measure"], capture_output=True)
    assert done.returncode != 0, "an unknown category was taken"


def reductions(folder):
    """Axes that are data, also where their number alone says which they are."""
    x = floats(30, 20)
    for axes in (ints(), ints(1, 0), ints(-1)):
        for keepdims in (0, 1):
            out = "float[a, b] y" if keepdims else "float y" if len(axes) != 1 else "float[a] y"
            check(folder, f"y = ReduceSum <keepdims = {keepdims}> (x, k)", out, {"x": x, "k": axes}, constants=["k"])
    check(folder, "y = ReduceMax <keepdims = 0, noop_with_empty_axes = 1> (x, k)", "float[a, b] y", {"x": x, "k": ints()}, constants=["k"])


with tempfile.TemporaryDirectory() as name:
    for test in (reductions, preprocessing, tf_idf, training, affine_grid, col2im, max_roi_pool, deform_conv, determinants, transforms, mel_weights):
        test(pathlib.Path(name))
print(f"{compared} numbers as in ONNX's reference evaluator")
