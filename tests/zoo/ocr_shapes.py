#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PP-OCRv4's detection, recognition and angle models: one plan file each, run at several heights and widths of drawn text,
equal ONNX Runtime.

usage: ocr_shapes.py TEMPER     exit code 1 where an output differs beyond rtol 1e-3, atol 1e-4
"""
import argparse
import importlib.util
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnxruntime
from PIL import Image, ImageDraw, ImageFont

RTOL, ATOL = 1e-3, 1e-4

# The range that the plan is built for (min, opt, max) and the shapes that it is run at: none but the first is tuned.
# Detection halves five times, so its sides are multiples of 32; recognition pools three rows of 1/16 into one; the angle
# model's pools need as many rows.
MODELS = {
    "ch_PP-OCRv4_det_infer": ("1x3x64x64:1x3x160x320:2x3x480x640", [(1, 3, 160, 320), (1, 3, 224, 224), (2, 3, 96, 480)]),
    "ch_PP-OCRv4_rec_infer": ("1x3x48x32:1x3x48x320:2x3x80x640", [(1, 3, 48, 320), (1, 3, 64, 200), (2, 3, 80, 155)]),
    "ch_ppocr_mobile_v2.0_cls_infer": ("1x3x48x64:1x3x48x192:4x3x80x256", [(1, 3, 48, 192), (3, 3, 64, 100), (4, 3, 80, 256)]),
}
LINES = ["Measured, not guessed: 42.7 ms", "Three lines of text, 0123456789", "(the quick brown fox) = $19.99"]


def pictures(shape, seed):
    """Lines of text on paper with noise, in the model's own scale of [-1, 1], one picture a sample."""
    random = np.random.default_rng(seed)
    batch, _, height, width = shape
    result = np.empty(shape, np.float32)
    rows = max(1, height // 48)
    font = ImageFont.load_default(size=0.7 * height / rows)
    for index, sample in enumerate(result):
        picture = Image.new("RGB", (width, height), tuple(int(c) for c in random.integers(200, 256, 3)))
        for row in range(rows):
            text = LINES[random.integers(len(LINES))]
            ImageDraw.Draw(picture).text((4, row * height / rows + 2), text, fill=tuple(int(c) for c in random.integers(0, 90, 3)), font=font)
        if index % 2:  # upside down, as the angle model must notice
            picture = picture.transpose(Image.Transpose.ROTATE_180)
        pixels = np.asarray(picture, np.float32) + random.normal(0, 12, (height, width, 3))
        sample[:] = (pixels.clip(0, 255) / 255 - 0.5).transpose(2, 0, 1)[::-1] / 0.5
    return result


def check(temper, models, name, folder):
    shape_range, shapes = MODELS[name]
    model, plan, cache = models / f"{name}.onnx", folder / f"{name}.plan", folder / "times.json"
    subprocess.run([temper, "build", model, "-o", plan, "--shapes", f"x={shape_range}", "--timing-cache", cache, "--quick", "--quiet"], check=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    peer = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    good = True
    for seed, shape in enumerate(shapes):
        x = pictures(shape, seed)
        out = folder / f"{name}-{seed}"
        np.save(folder / "x.npy", x)
        subprocess.run([temper, "run", plan, "--input", folder / "x.npy", "--batch", str(shape[0]), "--output-dir", out, "--quiet"],
                       check=True, stdout=subprocess.DEVNULL)
        (file,) = out.iterdir()
        got, (want,) = np.load(file), peer.run(None, {"x": x})
        if got.shape != want.shape or got.dtype != want.dtype:
            print(f"{name} {shape}: {got.dtype}{got.shape} is not {want.dtype}{want.shape}")
            good = False
            continue
        difference = np.abs(got.astype(np.float64) - want)
        beyond = np.count_nonzero(~(difference <= ATOL + RTOL * np.abs(want)))  # NaN is beyond
        # A model that answers the same to everything would agree about nothing.
        lively = want.std() > 1e-4
        print(f"{name:32} {str(shape):18} -> {str(got.shape):18} largest difference {difference.max():.2e}, of values up to {np.abs(want).max():.3g}; "
              f"{beyond} beyond" + ("" if lively else "; all outputs are alike"))
        good = good and beyond == 0 and bool(lively)
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("temper", type=lambda text: pathlib.Path(text).resolve())
    temper = parser.parse_args().temper
    models = pathlib.Path(importlib.util.find_spec("rapidocr_onnxruntime").origin).parent / "models"
    with tempfile.TemporaryDirectory() as folder:
        results = [check(temper, models, name, pathlib.Path(folder)) for name in MODELS]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
