# SPDX-License-Identifier: Apache-2.0
"""From PyTorch to Temper: export, quantize, classify real photographs, measure beside PyTorch, report.

usage: run.py [--out DIR] [--models resnet18,efficientnet_lite0] [--batch 1,8] [--warmup 10 --iterations 50]

Everything lands in DIR: ONNX files, ranges, plans, result.json, study.json, pictures, report.html. Weights are random where
only speed matters (resnet18, resnet50, mobilenet_v2); EfficientNet-Lite0 has its real ones, and its answers are checked.
"""
import argparse
import pathlib
import subprocess
import sys

import numpy as np
import onnxruntime
import torch
from PIL import Image
from sklearn.datasets import load_sample_images
from torchvision.models._meta import _IMAGENET_CATEGORIES as LABELS

import temper

HERE = pathlib.Path(__file__).resolve().parent
SOURCES = {"resnet18": "torchvision:resnet18", "resnet50": "torchvision:resnet50", "mobilenet_v2": "torchvision:mobilenet_v2",
           "efficientnet_lite0": f"{HERE / 'models.py'}:efficientnet_lite0"}
MEAN, STD = 127 / 255, 128 / 255  # as EfficientNet-Lite0 was trained


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    numbers = lambda text: [int(n) for n in text.split(",")]  # noqa: E731
    words = lambda text: text.split(",")  # noqa: E731
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(".examples/pytorch"))
    parser.add_argument("--models", type=words, default=list(SOURCES))
    parser.add_argument("--device", default="cpu", help="cpu or cuda:0")
    parser.add_argument("--precision", type=words, help="fp32,bf16,int8; on a GPU fp32,fp16,int8")
    parser.add_argument("--batch", type=numbers, default=[1, 8, 32])
    parser.add_argument("--warmup", type=int, default=10)
    parser.add_argument("--iterations", type=int, default=50)
    parser.add_argument("--turns", type=float, default=6, help="seconds for each comparison in turns")
    parser.add_argument("--samples", type=int, default=200, help="pictures to calibrate and to evaluate with")
    parser.add_argument("--compile", type=words, default=list(SOURCES), help="models that torch.compile is measured on, too; 'none'")
    parser.add_argument("--temper", default="temper", help="the program, for `temper study` and `temper report`")
    parser.add_argument("--draw-with", help="a Python with vl-convert-python, which draws the plots as SVG files")
    return parser.parse_args()


def step(text):
    print(f"\n== {text}", flush=True)


def run(*command):
    print("$", *command, flush=True)
    subprocess.run([str(word) for word in command], check=True)


# ---- export --------------------------------------------------------------------------------------------------------

def export(args):
    """ONNX files with an open batch; each is compared with PyTorch by the exporter itself."""
    for name in args.models:
        run(sys.executable, "-m", "temper", "export", SOURCES[name], "-o", args.out / f"{name}.onnx", "--shape", "1x3x224x224", "--dynamic", "batch")


def module_of(name):
    """The same module in this process, with the weights that the exporter chose."""
    from temper.export.source import load
    from temper.export.spec import Options
    return load(SOURCES[name], Options(shapes=(("", (1, 3, 224, 224), None),))).module


# ---- pictures ------------------------------------------------------------------------------------------------------

def prepare(picture):
    """A PIL picture -> float32[3,224,224]: short side 256, bicubic, the middle 224x224, normalised."""
    scale = 256 / min(picture.size)
    picture = picture.resize((round(picture.width * scale), round(picture.height * scale)), Image.BICUBIC)
    left, top = (picture.width - 224) // 2, (picture.height - 224) // 2
    pixels = np.asarray(picture.crop((left, top, left + 224, top + 224)), np.float32) / 255
    return np.ascontiguousarray(((pixels - MEAN) / STD).transpose(2, 0, 1).astype(np.float32))


def photographs():
    data = load_sample_images()
    return {pathlib.Path(path).stem: Image.fromarray(image) for path, image in zip(data.filenames, data.images)}


def crops(photos, count, folder):
    """Parts of the photographs, of many places, sizes and both directions: more pictures than two, though of two scenes."""
    random = np.random.default_rng(1)
    folder.mkdir(exist_ok=True)
    for index in range(count):
        photo = list(photos.values())[index % len(photos)]
        side = int(random.uniform(0.4, 1.0) * min(photo.size))
        left, top = int(random.integers(0, photo.width - side + 1)), int(random.integers(0, photo.height - side + 1))
        part = photo.crop((left, top, left + side, top + side))
        (part.transpose(Image.FLIP_LEFT_RIGHT) if random.integers(2) else part).save(folder / f"{index:04}.png")
    return sorted(folder.glob("*.png"))


# ---- engines -------------------------------------------------------------------------------------------------------

def build_all(args, pictures):
    """{(model, precision, batch): engine}. A precision that this machine has not is said and left out."""
    engines = {}
    for name in args.models:
        model = args.out / f"{name}.onnx"
        ranges = None
        for precision in args.precision:
            if precision == "int8":
                ranges = temper.calibrate(model, (prepare(Image.open(p))[None] for p in pictures[: len(pictures) // 2]))
                ranges.save(args.out / f"{name}.ranges.json")
            for batch in args.batch:
                try:
                    engine = temper.build(model, precision=precision, shapes=(batch, 3, 224, 224), calibration=ranges, device=args.device)
                except temper.Error as error:
                    if error.kind != "unsupported":
                        raise
                    print(f"{name} {precision}: left out: {error}")
                    break
                engine.save(args.out / f"{name}-{precision}-{batch}.plan")
                engines[name, precision, batch] = engine
                print(f"{name} {precision} batch {batch}: built", flush=True)
    return engines


def top5(logits):
    return [int(i) for i in np.argsort(-logits, kind="stable")[:5]]


def classify(args, photos, module, engines):
    """Top-5 of the photographs by PyTorch and by every precision; FP32's must be PyTorch's."""
    for title, photo in photos.items():
        picture = prepare(photo)[None]
        with torch.no_grad():
            logits = module(torch.from_numpy(picture))[0]
        want, share = top5(logits.numpy()), logits.softmax(0)
        print(f"\n{title}\n  {'PyTorch':8}", ", ".join(f"{LABELS[i]} {share[i]:.3f}" for i in want))
        for precision in args.precision:
            engine = engines.get(("efficientnet_lite0", precision, args.batch[0]))
            if engine is None:
                continue
            batch = np.repeat(picture, args.batch[0], 0)
            answer = next(iter(engine.run(batch).values()))[0]
            got, exponents = top5(answer), np.exp(answer - answer.max())
            print(f"  {precision:8}", ", ".join(f"{LABELS[i]} {exponents[i] / exponents.sum():.3f}" for i in got), "" if got != want else "(top-5 as PyTorch)")
            if precision == "fp32" and got != want:
                sys.exit(f"the top-5 of {title} in FP32 is not PyTorch's")


# ---- measuring -----------------------------------------------------------------------------------------------------

def measure(args, engines):
    """Temper, ONNX Runtime, PyTorch and torch.compile by one timer, into one result file."""
    results, counts = [], dict(warmup=args.warmup, iterations=args.iterations)
    threads = next(iter(engines.values())).threads
    torch.set_num_threads(threads)
    for name in args.models:
        path = args.out / f"{name}.onnx"
        module = module_of(name)
        compiled = torch.compile(module) if name in args.compile else None
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = threads
        session = onnxruntime.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
        feed = session.get_inputs()[0].name
        for batch in args.batch:
            picture = np.random.default_rng(0).standard_normal((batch, 3, 224, 224)).astype(np.float32)
            own = []
            for precision in args.precision:
                if (name, precision, batch) in engines:
                    own.append(temper.bench(engines[name, precision, batch], picture, name=f"{name}, Temper", **counts))
            if args.device == "cpu":
                tensor = torch.from_numpy(picture)
                of = dict(batch=batch, precision="fp32", threads=threads, model=path, **counts)
                with torch.inference_mode():
                    own.append(temper.bench(module, tensor, name=f"{name}, PyTorch", **of))
                    if compiled is not None:
                        own.append(temper.bench(compiled, tensor, name=f"{name}, torch.compile", **of))
                own.append(temper.bench(lambda: session.run(None, {feed: picture}), name=f"{name}, ONNX Runtime", **of))
            for r in own:
                print(f"{r.model:36} {r.precision:5} batch {batch:3}: {r.median_ms:8.2f} ms  {r.throughput_per_s:8.1f} pictures/s", flush=True)
            results += own
            temper.save_results(args.out / "result.json", results)  # what was measured is kept if a later one fails
            if args.device == "cpu" and (name, "fp32", batch) in engines:
                with torch.inference_mode():
                    in_turns(args, engines[name, "fp32", batch], tensor, {"PyTorch": module, "torch.compile": compiled,
                                                                         "ONNX Runtime": lambda x: session.run(None, {feed: x.numpy()})})
    return results


def in_turns(args, engine, tensor, others):
    """Temper in FP32 and each other one, call by call in turns: what slows the machine for a while slows both."""
    for other, function in others.items():
        if function is not None:
            c = temper.compare(function, engine, inputs=tensor, duration=args.turns, force=True)
            print(f"    in turns with {other}, {c.rounds} rounds: {c}", flush=True)


def main():
    args = arguments()
    args.precision = args.precision or (["fp32", "bf16", "int8"] if args.device == "cpu" else ["fp32", "fp16", "int8"])
    for name in args.models:
        if name not in SOURCES:
            sys.exit(f"--models: '{name}' is none of {', '.join(SOURCES)}")
    args.out.mkdir(parents=True, exist_ok=True)
    step("Export to ONNX, checked against PyTorch")
    export(args)
    step("Pictures: two photographs, and parts of them to calibrate and evaluate with")
    photos = photographs()
    pictures = crops(photos, args.samples, args.out / "crops")
    (args.out / "labels.txt").write_text("\n".join(LABELS) + "\n")
    step(f"Engines in {', '.join(args.precision)}")
    engines = build_all(args, pictures)
    if "efficientnet_lite0" in args.models:
        step("Photographs classified")
        classify(args, photos, module_of("efficientnet_lite0"), engines)
    step(f"Measured beside PyTorch, {args.warmup} warm-up runs, {args.iterations} timed")
    measure(args, engines)
    files = [args.out / "result.json"]
    if "efficientnet_lite0" in args.models:
        step("Speed against agreement with FP32, on pictures held apart from calibration")
        run(args.temper, "study", args.out / "efficientnet_lite0.onnx", "--data", args.out / "crops", "-o", args.out / "study", "--precision", ",".join(args.precision),
            "--device", args.device, "--duration", "1s", "--resize", 256, "--crop", 224, "--mean", MEAN, "--std", STD, "--filter", "bicubic",
            "--class-names", args.out / "labels.txt")
        files.append(args.out / "study" / "study.json")
    step("Report")
    plots = ["--svg", args.out / "plot.svg", "--python", args.draw_with] if args.draw_with else []
    run(args.temper, "report", *files, "-o", args.out / "report.html", *plots)
    print(f"\nopen {args.out / 'report.html'}")


if __name__ == "__main__":
    main()
