# SPDX-License-Identifier: Apache-2.0
"""What INT8 costs the three PP-OCRv4 models, on rendered text (benchmarks/README.md).

Calibrates each on text lines that are in no evaluation picture, builds FP32 and INT8 plans, runs both on the evaluation
pictures and compares: characters read, angle classes, and the map of text regions cut at 0.3. Where no method reaches the
least that is asked for, the best one's ranges go into a mixed plan: --max-drop raises layers until the budget holds on the
calibration pictures, and the same comparison is made with it.
"""
import argparse
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from PIL import Image, ImageDraw, ImageFont

HERE = pathlib.Path(__file__).resolve().parent
MODELS = {"recognition": "ch_PP-OCRv4_rec_infer.onnx", "angle": "ch_ppocr_mobile_v2.0_cls_infer.onnx", "detection": "ch_PP-OCRv4_det_infer.onnx"}
SHAPES = {"recognition": (3, 48, 320), "angle": (3, 48, 192), "detection": (3, 320, 480)}
MEAN, STD = np.array([0.485, 0.456, 0.406], np.float32), np.array([0.229, 0.224, 0.225], np.float32)
LEAST = {"recognition": 0.98, "angle": 0.99, "detection": 0.95}
# Of --max-drop: positions along a line, lines, and noise over signal.
BUDGET = {"recognition": ("agreement", "0.5%"), "angle": ("agreement", "0.5%"), "detection": ("snr", "1%")}
CUT = 0.3  # of the detection map, as PP-OCR's own post-processing has it
BATCH = 4


def words(random, count):
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,:;-+%()/"
    weights = np.array([8.0] * 26 + [2.0] * 26 + [3.0] * (len(letters) - 52))
    pick = lambda: "".join(random.choice(list(letters), random.integers(2, 9), p=weights / weights.sum()))
    return " ".join(pick() for _ in range(count))


def draw_line(random, picture, top, size):
    font = ImageFont.load_default(size=size)
    text = words(random, int(random.integers(1, 4)))
    ink = tuple(int(c) for c in random.integers(0, 100, 3))
    box = font.getbbox(text)
    ImageDraw.Draw(picture).text((int(random.integers(4, 20)) - box[0], top - box[1]), text, fill=ink, font=font)
    return box[3] - box[1]


def paper(random, width, height):
    return Image.new("RGB", (width, height), tuple(int(c) for c in random.integers(180, 256, 3)))


def noisy(random, picture):
    pixels = np.asarray(picture, np.float32) + random.normal(0, random.uniform(0, 8), (picture.height, picture.width, 3))
    return (np.clip(pixels, 0, 255) / 255).astype(np.float32)[..., ::-1]  # PP-OCR takes blue, green, red


def line(random, shape):
    picture = paper(random, shape[2], shape[1])
    draw_line(random, picture, int(random.integers(4, 12)), int(random.integers(20, 34)))
    return (noisy(random, picture).transpose(2, 0, 1) - 0.5) / 0.5


def page(random, shape):
    picture, top = paper(random, shape[2], shape[1]), int(random.integers(5, 40))
    while top < shape[1] - 50:
        top += draw_line(random, picture, top, int(random.integers(16, 40))) + int(random.integers(8, 50))
    return ((noisy(random, picture) - MEAN) / STD).transpose(2, 0, 1)


def pictures(name, random, count):
    if name == "detection":
        return np.stack([page(random, SHAPES[name]) for _ in range(count)]).astype(np.float32)
    lines = np.stack([line(random, SHAPES[name]) for _ in range(count)]).astype(np.float32)
    if name == "angle":
        lines[::2] = lines[::2, :, ::-1, ::-1].copy()  # upside down
    return lines


def decode(outputs):
    """Greedy CTC as lists of classes; class 0 is the blank."""
    best = outputs.argmax(-1)
    return [[c for i, c in enumerate(row) if c != 0 and (i == 0 or c != row[i - 1])] for row in best]


def edit_distance(a, b):
    before = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        row = [i]
        for j, y in enumerate(b, 1):
            row.append(min(before[j] + 1, row[-1] + 1, before[j - 1] + (x != y)))
        before = row
    return before[-1]


def agreement(name, fp32, int8):
    """(share, its parts in words)"""
    if name == "recognition":
        texts = decode(fp32)
        wrong, total = sum(edit_distance(a, b) for a, b in zip(texts, decode(int8))), sum(map(len, texts))
        return 1 - wrong / total, f"{total - wrong} of {total} characters"
    if name == "angle":
        same = int((fp32.argmax(-1) == int8.argmax(-1)).sum())
        return same / len(fp32), f"{same} of {len(fp32)} lines"
    a, b = fp32 > CUT, int8 > CUT
    axes = tuple(range(1, a.ndim))
    union = (a | b).sum(axes)
    iou = (a & b).sum(axes)[union > 0] / union[union > 0]
    return float(iou.mean()), f"mean over {len(iou)} pages, the worst {iou.min():.3f}"


def temper(args, *command):
    done = subprocess.run([args.temper, *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"temper {' '.join(map(str, command))}\nended with {done.returncode}:\n{done.stderr.strip()[-2000:]}")
    return done.stdout


def outputs_of(args, plan, data, folder):
    temper(args, "run", plan, "--input", data, "--batch", BATCH, "--output-dir", folder, "--quiet")
    return np.load(next(pathlib.Path(folder).glob("*.npy")))


def compare(args, name, folder):
    package = pathlib.Path(importlib.util.find_spec("rapidocr_onnxruntime").origin).parent
    model = package / "models" / MODELS[name]
    graph = onnx.load(model, load_external_data=False).graph
    input_name, output_name = graph.input[0].name, graph.output[0].name
    shapes = f"{input_name}={BATCH}x{'x'.join(map(str, SHAPES[name]))}"
    np.save(folder / "calibration.npy", pictures(name, np.random.default_rng(args.seed), args.samples))
    np.save(folder / "evaluation.npy", pictures(name, np.random.default_rng(args.seed + 1), args.evaluate))
    fp32, qdq = folder / "fp32.plan", folder / "qdq.onnx"
    temper(args, "build", model, "-o", fp32, "--shapes", shapes, "--quick", "--quiet")
    want = outputs_of(args, fp32, folder / "evaluation.npy", folder / "fp32")
    rows = []
    for method in args.methods:
        ranges, plan = folder / f"{method}.json", folder / f"{method}.plan"
        temper(args, "calibrate", model, "--data", folder / "calibration.npy", "--method", method, "-o", ranges, "--quiet")
        summary = temper(args, "build", model, "-o", plan, "--precision", "int8", "--calibration", ranges, "--shapes", shapes, "--quick", "--qdq", qdq,
                         *(["--keep-first"] if args.keep_first else []), *(["--keep-last"] if args.keep_last else []))
        lowered = next((row for row in summary.splitlines() if "convolutions and products" in row), "")
        share, words_ = agreement(name, want, outputs_of(args, plan, folder / "evaluation.npy", folder / method))
        rows.append({"model": name, "method": method, "agreement": share, "what": words_, "least": LEAST[name], "met": bool(share >= LEAST[name]), "lowered": lowered.strip("; :")})
        show(rows[-1])
    best = max(rows, key=lambda row: row["agreement"])
    if not best["met"]:
        metric, drop = BUDGET[name]
        plan = folder / "mixed.plan"
        found = json.loads(temper(args, "build", model, "-o", plan, "--precision", "int8", "--calibration", folder / f"{best['method']}.json", "--shapes", shapes, "--quick",
                                  "--data", folder / "calibration.npy", "--max-drop", drop, "--metric", metric, *(["--output-name", output_name] if metric == "agreement" else []), "--json", "--quiet"))
        share, words_ = agreement(name, want, outputs_of(args, plan, folder / "evaluation.npy", folder / "mixed"))
        raised = {row["layer"]: row["decision"] for row in found["layers"] if row["decision"] != "int8"}
        rows.append({"model": name, "method": f"{best['method']}, --max-drop {drop}", "agreement": share, "what": words_, "least": LEAST[name], "met": bool(share >= LEAST[name]),
                     "lowered": f"{len(found['layers']) - len(raised)} of {len(found['layers'])} layers in int8", "raised": raised})
        show(rows[-1])
        for dtype in sorted(set(raised.values())):
            print(f"          in {dtype}: {', '.join(layer for layer in raised if raised[layer] == dtype)}", flush=True)
    return rows


def show(row):
    print(f"{'met     ' if row['met'] else 'NOT MET '} {row['model']:11}  {row['method']:26}  {row['agreement']:.4f} (>= {row['least']}): {row['what']}; {row['lowered']}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = lambda text: text.split(",")
    parser.add_argument("--temper", default=str(HERE.parent / "build" / "temper"))
    parser.add_argument("--models", type=names, default=list(MODELS))
    parser.add_argument("--methods", type=names, default=["entropy", "minmax", "percentile", "mse"])
    parser.add_argument("--samples", type=int, default=128, help="pictures to calibrate on")
    parser.add_argument("--evaluate", type=int, default=200, help="pictures to compare on")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep-first", action="store_true")
    parser.add_argument("--keep-last", action="store_true")
    parser.add_argument("--json", help="save the table")
    args = parser.parse_args()
    if unknown := set(args.models) - set(MODELS):
        parser.error(f"unknown models {', '.join(sorted(unknown))}; there are {', '.join(MODELS)}")
    rows = []
    for name in args.models:
        with tempfile.TemporaryDirectory(prefix="temper_ocr_") as folder:
            rows += compare(args, name, pathlib.Path(folder))
    if args.json:
        temporary = f"{args.json}.tmp.{os.getpid()}"
        with open(temporary, "w") as file:
            json.dump(rows, file)
        os.replace(temporary, args.json)
    best = {name: max(row["agreement"] - row["least"] for row in rows if row["model"] == name) for name in args.models}
    return 0 if min(best.values()) >= 0 else 1


if __name__ == "__main__":
    sys.exit(main())
