# SPDX-License-Identifier: Apache-2.0
"""Whether the time that a build measures at its end is what `temper bench` finds (benchmarks/README.md).

Without --busy: a model is built and benched in turns, and the interval of the ratios says whether both agree. With --busy:
a plan built from nothing on a quiet machine is held against one that was built while one core was kept busy and then again
on the quiet machine, with the times that the busy build left in its cache.

What is done is kept in DIR/built.json, one entry a model and mode; a later run goes on from there.
"""
import argparse
import importlib.util
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import onnx

HERE = pathlib.Path(__file__).resolve().parent
WITHIN, WITHIN_AFTER_BUSY = 0.10, 0.05
LOAD = 0.1  # cores of others: a round in which they used more is taken again
OCR = {"ocr_det": ("ch_PP-OCRv4_det_infer.onnx", (1, 3, 640, 640)), "ocr_rec": ("ch_PP-OCRv4_rec_infer.onnx", (1, 3, 48, 320)),
       "ocr_cls": ("ch_ppocr_mobile_v2.0_cls_infer.onnx", (1, 3, 48, 192))}
ZOO = {"resnet18": (1, 3, 224, 224), "resnet50": (1, 3, 224, 224), "mobilenet_v2": (1, 3, 224, 224), "cifar_cnn": (1, 3, 32, 32)}
EXPORTED = {
    "torchvision:vgg11_bn": 224, "torchvision:squeezenet1_1": 224, "torchvision:resnext50_32x4d": 224, "torchvision:densenet121": 224,
    "torchvision:googlenet": 224, "torchvision:shufflenet_v2_x1_0": 224, "torchvision:mobilenet_v3_large": 224,
    "torchvision:efficientnet_b0": 224, "torchvision:regnet_y_400mf": 224, "timm:ghostnet_100": 224, "timm:mixer_s32_224": 224,
    "timm:vit_tiny_patch16_224": 224, "hf:bert": None, "hf:distilbert": None}
SEQUENCE = 64
# Small ones with random weights, made by transformers itself.
MAKE_FOLDER = """
import sys, torch, transformers as t
torch.manual_seed(0)
name, folder = sys.argv[1:]
model = {"bert": lambda: t.BertModel(t.BertConfig(hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024, vocab_size=2000)),
         "distilbert": lambda: t.DistilBertModel(t.DistilBertConfig(dim=256, n_layers=3, n_heads=4, hidden_dim=1024, vocab_size=2000))}[name]()
model.save_pretrained(folder)
"""


class Failure(Exception):
    pass


def run(command, also_fine=(), **more):
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)
    if done.returncode and done.returncode not in also_fine:
        raise Failure(f"{' '.join(map(str, command))}: exit code {done.returncode}: {(done.stderr or done.stdout).strip()[-500:]}")
    return done.stdout


def say(text):
    print(text, file=sys.stderr, flush=True)


def written(path, make):
    """The file, with its external data, made by `make(path elsewhere)` where it does not exist yet."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            make(pathlib.Path(folder) / path.name)
            for part in sorted(pathlib.Path(folder).iterdir(), key=lambda part: part.name == path.name):  # the model last
                part.replace(path.parent / part.name)
    return path


def export(args, source, path):
    kind, name = source.split(":", 1)
    if kind == "hf":
        folder = args.folder / "hf" / name
        if not (folder / "config.json").exists():
            folder.mkdir(parents=True, exist_ok=True)
            run([args.python, "-c", MAKE_FOLDER, name, folder])
        source = f"hf:{folder}"
    size = EXPORTED.get(f"{kind}:{name}", 224)
    shape = ["--shape", f"1x3x{size}x{size}"] if size else []
    run([args.temper, "export", source, "-o", path, "--python", args.python, "--no-check", "--quiet", *shape],
        env={**os.environ, "PYTHONPATH": str(HERE.parent / "build" / "python")})


def model_of(args, name):
    """(path, concrete shapes of its inputs where they are not fixed)"""
    if name.endswith(".onnx"):
        return pathlib.Path(name), None
    path = args.folder / "models" / (name.replace(":", "_").replace("/", "_") + ".onnx")
    if name in OCR:
        package = importlib.util.find_spec("rapidocr_onnxruntime")
        if not package:
            raise Failure("the package rapidocr_onnxruntime, which has the models, is not installed")
        return pathlib.Path(package.origin).parent / "models" / OCR[name][0], OCR[name][1]
    if ":" in name:
        return written(path, lambda part: export(args, name, part)), None
    return written(path, lambda part: run([args.temper, "zoo", name, "-o", part, "--quiet"])), ZOO.get(name)


def shape_flags(path, shape):
    """--shapes for inputs of which something is open."""
    graph = onnx.load(str(path), load_external_data=False).graph
    stored = {tensor.name for tensor in graph.initializer}
    flags = []
    for value in graph.input:
        if value.name in stored:
            continue
        dims = [d.dim_value for d in value.type.tensor_type.shape.dim]
        if shape is None and all(d > 0 for d in dims):
            continue
        if shape is not None and len(shape) == len(dims):
            concrete = shape
        else:
            concrete = [d if d > 0 else 1 if i == 0 else SEQUENCE if len(dims) < 3 else 224 for i, d in enumerate(dims)]
        flags += ["--shapes", f"{value.name}={'x'.join(map(str, concrete))}"]
    return flags


def build(args, model, flags, plan, cache):
    """What the build measured at its end: {ms, low_ms, high_ms, runs, load_by_others}; and its seconds."""
    threads = ["--threads", args.threads] if args.threads else []
    run([args.temper, "build", model, "-o", plan, "--timing-cache", cache, "--quiet", *flags, *threads])
    described = json.loads(run([args.temper, "inspect", plan, "--json"]))
    return described["plans"][0], described["build_s"]


def bench(args, plan, folder):
    out = folder / "bench.json"
    run([args.temper, "bench", plan, "--duration", f"{args.duration}s", "--json", out, "--quiet"])
    result = json.loads(out.read_text())["runs"][0]
    out.unlink()
    return result


def median_interval(values, confidence=0.99):
    """From order statistics, as `temper compare` has it; None below eight values."""
    n, values = len(values), sorted(values)
    best = None
    for k in range(1, n // 2 + 1):
        tail = 2 * sum(math.comb(n, i) for i in range(k)) / 2**n
        if tail <= 1 - confidence:
            best = k
    return [values[best - 1], values[n - best]] if best else None


def verdict(interval, within):
    """Of a ratio of times, of which 1 is agreement."""
    if interval is None:
        return "UNSURE"
    if interval[0] >= 1 / (1 + within) and interval[1] <= 1 + within:
        return "WITHIN"
    return "OUTSIDE" if interval[0] > 1 + within or interval[1] < 1 / (1 + within) else "UNSURE"


def busy_load():
    """Cores that anybody uses, over a second in which this process sleeps."""
    def busy():
        with open("/proc/stat") as file:
            ticks = [int(word) for word in file.readline().split()[1:9]]
        return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")
    start = busy()
    time.sleep(1)
    return busy() - start


def wait_until_quiet(args, what):
    end = time.monotonic() + args.patience
    while (load := busy_load()) >= LOAD:
        if time.monotonic() > end:
            say(f"  {what}: others use {load:.2f} cores still; going on")
            return
        time.sleep(2)


def compare_turns(args, name, folder):
    model, shape = model_of(args, name)
    flags = shape_flags(model, shape)
    plan, cache = folder / "m.plan", folder / "times.json"
    wait_until_quiet(args, name)
    cold, cold_s = build(args, model, flags, plan, cache)
    ratios, measured, benched, loads, builds = [], [], [], [], []
    taken = 0
    while len(ratios) < args.rounds and taken < args.rounds + args.retries:
        taken += 1
        if taken % 2:  # every other round begins with the bench, of the plan before
            described, seconds = build(args, model, flags, plan, cache)
            result = bench(args, plan, folder)
        else:
            result = bench(args, plan, folder)
            described, seconds = build(args, model, flags, plan, cache)
        built = described["measured"]
        load = max(built["load_by_others"] or 0, result["load_by_others"] or 0)
        if load >= LOAD and taken - len(ratios) <= args.retries:
            wait_until_quiet(args, name)
            continue
        measured.append(built["ms"])
        benched.append(result["latency_ms"]["median"])
        ratios.append(measured[-1] / benched[-1])
        loads.append(load)
        builds.append(seconds)
    interval = median_interval(ratios)
    return {"measured_ms": statistics.median(measured), "bench_ms": statistics.median(benched), "steps_ms": described["steps_ms"],
            "untimed_steps": described["untimed_steps"], "ratio": statistics.median(ratios), "ci99": interval, "rounds": len(ratios),
            "load": max(loads), "cold_ms": cold["measured"]["ms"], "cold_build_s": cold_s, "warm_build_s": statistics.median(builds),
            "verdict": verdict(interval, WITHIN)}


class Burner:
    """One core kept busy by another process."""

    def __enter__(self):
        self.process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def compare_after_busy(args, name, folder):
    model, shape = model_of(args, name)
    flags = shape_flags(model, shape)
    quiet, busy, again = folder / "quiet.plan", folder / "busy.plan", folder / "again.plan"
    wait_until_quiet(args, name)
    quiet_described, quiet_s = build(args, model, flags, quiet, folder / "quiet.json")
    with Burner():
        time.sleep(1)
        busy_described, busy_s = build(args, model, flags, busy, folder / "busy.json")
    wait_until_quiet(args, name)
    again_described, again_s = build(args, model, flags, again, folder / "busy.json")
    # Exit code 1: the second is slower. That is what is asked.
    speed = json.loads(run([args.temper, "compare", quiet, again, "--json", "--quiet", "--duration", f"{args.duration * 3}s"], also_fine=[1]))["plans"][1]["speed"]
    # compare says how many times as fast the second is; here its time over the first one's counts.
    interval = [1 / speed["ci99"][1], 1 / speed["ci99"][0]] if speed["ci99"] and min(speed["ci99"]) > 0 else None
    return {"quiet_ms": quiet_described["measured"]["ms"], "busy_ms": busy_described["measured"]["ms"], "again_ms": again_described["measured"]["ms"],
            "busy_load": busy_described["measured"]["load_by_others"], "ratio": 1 / speed["ratio"], "ci99": interval,
            "load": max(d["measured"]["load_by_others"] or 0 for d in (quiet_described, again_described)),
            "quiet_build_s": quiet_s, "busy_build_s": busy_s, "again_build_s": again_s,
            # Faster than the one from nothing is no fault.
            "verdict": verdict([max(interval[0], 1), max(interval[1], 1)] if interval else None, WITHIN_AFTER_BUSY)}


def row_text(entry, names):
    cells = [entry["model"]]
    if "error" in entry:
        return f"| {entry['model']} | {entry['error'].replace('|', '/')[:160]} |" + " |" * (len(names) - 1)
    for name in names:
        value = entry.get(name)
        if name == "ci99":
            cells.append("n/a" if value is None else f"{value[0]:.3f} to {value[1]:.3f}")
        else:
            cells.append("n/a" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value))
    return "| " + " | ".join(cells) + " |"


def table(entries, busy):
    names = (["quiet_ms", "busy_ms", "again_ms", "ratio", "ci99", "busy_load", "load", "verdict"] if busy
             else ["measured_ms", "bench_ms", "steps_ms", "ratio", "ci99", "rounds", "load", "cold_build_s", "warm_build_s", "verdict"])
    lines = ["| model | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    lines += [row_text(entry, names) for entry in entries]
    good = sum(entry.get("verdict") == "WITHIN" for entry in entries)
    share = WITHIN_AFTER_BUSY if busy else WITHIN
    what = "built again after a busy build, within" if busy else "measured by the build, within"
    lines.append(f"\n{what} {share:.0%} {'of one built quiet from nothing' if busy else 'of bench'}: {good} of {len(entries)}")
    return "\n".join(lines)


def main():
    models = [*ZOO, *OCR, *EXPORTED]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--temper", default=str(HERE.parent / "build" / "temper"))
    parser.add_argument("--models", type=lambda text: text.split(","), default=models, help="names, and paths of ONNX files; without it " + ", ".join(models))
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("build/built"), help="for models, which are exported once, and what was done")
    parser.add_argument("--python", default=os.path.expanduser("~/.cache/temper/venv-frameworks/bin/python"), help="that exports: it has PyTorch (./dev setup frameworks)")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=8, help="of build and bench; eight are the least with an interval of 99 %%")
    parser.add_argument("--retries", type=int, default=6, help="rounds that are taken again because others worked meanwhile")
    parser.add_argument("--duration", type=float, default=3, help="seconds of a bench")
    parser.add_argument("--patience", type=float, default=60, help="seconds to wait for a quiet machine")
    parser.add_argument("--busy", action="store_true", help="built with one core kept busy, then again quiet, beside built quiet from nothing")
    parser.add_argument("--again", action="store_true", help="forget what was done")
    args = parser.parse_args()
    args.folder = args.folder.resolve()
    args.folder.mkdir(parents=True, exist_ok=True)
    path = args.folder / "built.json"
    done = json.loads(path.read_text()) if path.exists() and not args.again else {}
    version = run([args.temper, "--version"]).strip()
    entries = []
    for name in args.models:
        key = f"{'busy' if args.busy else 'turns'} {name} threads={args.threads} {version}"
        entry = done.get(key)
        if entry is None or "error" in entry:
            say(f"{name} ...")
            try:
                with tempfile.TemporaryDirectory() as folder:
                    entry = (compare_after_busy if args.busy else compare_turns)(args, name, pathlib.Path(folder))
            except (Failure, OSError) as error:
                entry = {"error": " ".join(str(error).split())}
            entry = {"model": name, **entry}
            done[key] = entry
            part = path.with_suffix(".part")
            part.write_text(json.dumps(done, indent=1))
            part.replace(path)
            say(f"  {entry.get('verdict', entry.get('error'))} {entry.get('ratio', '')}")
        entries.append(entry)
    print(table(entries, args.busy))
    return 0 if all(entry.get("verdict") == "WITHIN" for entry in entries) else 1


if __name__ == "__main__":
    sys.exit(main())
