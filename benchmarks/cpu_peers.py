# SPDX-License-Identifier: Apache-2.0
"""Temper beside ONNX Runtime and OpenVINO on this CPU, interleaved in one run (benchmarks/README.md)."""
import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "python"))
from temper.versus.load import LoadMeter
from temper.versus.turns import Child, Failure, medians, rounds_of, run_as_program, run_program, spread

ENGINE = os.path.join(HERE, "..", "python", "temper", "versus", "engine.py")
ENGINES = ["temper", "onnxruntime", "openvino"]
# Least ratio to the better peer, and the goal: (model, precision) -> batch -> (least, goal).
FIGURES = {
    ("resnet50", "fp32"): {1: (1.04, 1.15), 8: (1.12, 1.25), 32: (1.18, 1.35)},
    ("mobilenet_v2", "fp32"): {1: (1.05, None), 8: (1.05, None), 32: (1.05, None)},
    ("resnet50", "int8"): {1: (1.03, 1.15), 8: (1.10, 1.15), 32: (1.10, 1.15)},
    ("resnet50", "bf16"): {1: (1.00, 1.15), 8: (1.00, 1.15), 32: (1.04, 1.15)},
}
# Largest difference of two engines' outputs as a share of the largest output. In 8 bits a rounding that falls the other way
# is one step of a scale and goes on from layer to layer: ONNX Runtime differs by 1 % from itself with optimisation off.
LARGEST_DIFFERENCE = {"fp32": 1e-3, "int8": 5e-2, "bf16": 5e-2}
# Where an engine has not the precision asked for: what it runs instead, apart from the comparison, and why.
INSTEAD = {("onnxruntime", "bf16"): ("fp32", "ONNX Runtime has no bf16 convolutions and products on CPUs")}
MAX_BUILD_S, MAX_BUILD_WARM_S, MAX_LOAD_MS, MAX_NEIGHBOUR = 5.0, 1.0, 50.0, 2.5


def input_of(model_path, batch):
    """Name and concrete shape of the one input; its first dimension is the batch."""
    graph = onnx.load(model_path, load_external_data=False).graph
    stored = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in stored]
    if len(inputs) != 1:
        raise Failure(f"{model_path} has {len(inputs)} inputs; this comparison feeds one")
    dims = inputs[0].type.tensor_type.shape.dim
    shape = [batch] + [d.dim_value for d in dims[1:]]
    if inputs[0].type.tensor_type.elem_type != onnx.TensorProto.FLOAT or any(d <= 0 for d in shape):
        raise Failure(f"the input {inputs[0].name} must be float with only the batch left open, found {shape}")
    if dims[0].dim_value not in (0, batch):
        raise Failure(f"{model_path} has a fixed batch of {dims[0].dim_value}")
    return inputs[0].name, shape


def shapes_flag(name, shape):
    return f"{name}={'x'.join(map(str, shape))}"


def calibration_of(args, folder):
    return ["--calibration", os.path.join(folder, "ranges.json")] if args.precision == "int8" else []


def quantize(args, model, folder, name, shape):
    """Ranges from seeded noise, since only speed is compared, and the Q/DQ file that the peers run."""
    path = os.path.join(folder, "model_qdq.onnx")
    run_program([args.temper, "calibrate", model, "--placeholder-data", "--samples", "8", "-o", os.path.join(folder, "ranges.json"),
                 "--quiet"])
    run_program([args.temper, "build", model, "-o", os.path.join(folder, "quick.plan"), "--shapes", shapes_flag(name, shape), "--quick",
                 "--threads", str(args.threads), "--precision", "int8", "--qdq", path, "--quiet", *calibration_of(args, folder)])
    return path


def start_temper(args, model, folder, name, shape, data):
    """Builds cold, builds again with the timing cache, and loads the plan."""
    plan, cache = os.path.join(folder, "model.plan"), os.path.join(folder, "timings.json")
    for path in (plan, cache):
        if os.path.exists(path):
            os.remove(path)
    build = [args.temper, "build", model, "-o", plan, "--shapes", shapes_flag(name, shape), "--threads", str(args.threads),
             "--precision", args.precision, "--timing-cache", cache, "--quiet", *calibration_of(args, folder)]
    cold_s = run_program(build)[1]
    warm_s = run_program(build)[1]
    child = Child("temper", [args.temper, "bench", plan, "--pipe", "--threads", str(args.threads)])
    child.ready.update(build_s=cold_s, build_warm_s=warm_s, plan_bytes=os.path.getsize(plan))
    run_program([args.temper, "run", plan, "--input", data, "--output-dir", os.path.join(folder, "temper"), "--quiet"])
    return child


def precision_of(engine, precision):
    return INSTEAD.get((engine, precision), (precision, ""))[0]


def start(engine, args, model, folder, name, shape, data):
    if engine == "temper":
        return start_temper(args, model, folder, name, shape, data)
    if args.precision == "int8":
        model = os.path.join(folder, "model_qdq.onnx")
    child = Child(engine, [sys.executable, ENGINE, engine, model, os.path.join(folder, "inputs.npz"),
                           "--threads", str(args.threads), "--precision", precision_of(engine, args.precision)])
    child.ask("output " + os.path.join(folder, engine + ".npz"))
    return child


def output_of(engine, folder):
    if engine != "temper":
        outputs = np.load(os.path.join(folder, engine + ".npz"))
        return outputs[outputs.files[0]]
    files = sorted(os.listdir(os.path.join(folder, "temper")))
    return np.load(os.path.join(folder, "temper", [f for f in files if f.endswith(".npy")][0]))


def check_outputs(engines, folder, largest):
    """A fast wrong answer is no result: all engines must agree on the input that is timed."""
    reference = output_of(engines[-1], folder).astype(np.float64)
    worst = 0.0
    for engine in engines[:-1]:
        other = output_of(engine, folder).astype(np.float64)
        if other.shape != reference.shape:
            raise Failure(f"{engine} gives the shape {other.shape}, {engines[-1]} {reference.shape}")
        scale = np.abs(reference).max() or 1.0
        worst = max(worst, float(np.abs(other - reference).max() / scale))
    if not worst < largest:
        raise Failure(f"the engines' outputs differ by {worst:.2e} of the largest value")
    return worst


def compare(args, label, model, batch):
    with tempfile.TemporaryDirectory(prefix="temper_peers_") as folder:
        name, shape = input_of(model, batch)
        data = os.path.join(folder, "input.npy")
        values = np.random.default_rng(1).standard_normal(shape, dtype=np.float32)
        np.save(data, values)
        np.savez(os.path.join(folder, "inputs.npz"), **{name: values})
        children = []
        if args.precision == "int8":
            quantize(args, model, folder, name, shape)
        try:
            for engine in args.engines:
                children.append(start(engine, args, model, folder, name, shape, data))
            difference = check_outputs(args.engines, folder, LARGEST_DIFFERENCE[args.precision]) if len(args.engines) > 1 else None
            for child in children:
                child.calibrate(args.seconds, 5)
            meter = LoadMeter(children)
            samples = rounds_of(children, args.rounds)
            others = meter.cores()
            busy = None
            if args.neighbour:
                busy = beside_a_neighbour(children, args.rounds)
        finally:
            for child in children:
                child.close()
    quiet = medians(samples)
    result = {"model": label, "precision": args.precision, "batch": batch, "threads": args.threads, "shape": shape,
              "largest_output_difference": difference, "load_by_others": others, "engines": {}}
    for child in children:
        result["engines"][child.name] = {**child.ready, "precision": precision_of(child.name, args.precision), "start_s": child.start_s,
                                         "runs_per_round": child.count, "median_ms": spread(quiet[child.name]),
                                         "samples_ms": samples[child.name]}
        if busy:
            result["engines"][child.name]["neighbour_slowdown"] = statistics.median(busy[child.name]) / \
                statistics.median(quiet[child.name])
    peers = [engine for engine in args.engines if engine != "temper" and precision_of(engine, args.precision) == args.precision]
    if "temper" in args.engines and peers:
        better = min(peers, key=lambda engine: statistics.median(quiet[engine]))
        result["better_peer"] = better
        result["ratio"] = spread([peer / own for peer, own in zip(quiet[better], quiet["temper"])])
        result["verdicts"] = verdicts(result)
    return result


def beside_a_neighbour(children, rounds):
    """The same turns while a process of one thread burns the first of the allowed cores."""
    core = min(os.sched_getaffinity(0))
    burner = subprocess.Popen([sys.executable, "-c", f"import os; os.sched_setaffinity(0, {{{core}}})\nwhile True: pass"])
    try:
        time.sleep(0.5)
        return medians(rounds_of(children, rounds))
    finally:
        burner.kill()
        burner.wait()


def verdicts(result):
    """(what, measured, limit, met) for every figure that this comparison can judge."""
    out = []

    def judge(what, value, limit, met):
        out.append({"what": what, "measured": value, "limit": limit, "met": bool(met)})

    temper = result["engines"]["temper"]
    figure = FIGURES.get((result["model"], result["precision"]), {}).get(result["batch"])
    if figure:
        ratio = result["ratio"]["median"]
        judge("speed against the better peer", ratio, f">= {figure[0]}", ratio >= figure[0])
        if figure[1]:
            judge("the goal", ratio, f">= {figure[1]}", ratio >= figure[1])
    if (result["model"], result["precision"], result["batch"]) == ("resnet50", "fp32", 1):
        judge("cold build, s", temper["build_s"], f"<= {MAX_BUILD_S}", temper["build_s"] <= MAX_BUILD_S)
        judge("build with the timing cache, s", temper["build_warm_s"], f"<= {MAX_BUILD_WARM_S}",
              temper["build_warm_s"] <= MAX_BUILD_WARM_S)
        load_ms = temper["load_s"] * 1e3
        judge("plan load, ms", load_ms, f"<= {MAX_LOAD_MS}", load_ms <= MAX_LOAD_MS)
        if "onnxruntime" in result["engines"]:
            # Python's own part is taken off: what is compared is what the engine adds.
            peer = result["engines"]["onnxruntime"]
            limit = peer["peak_rss"] - peer["interpreter_rss"]
            judge("peak memory, MiB", temper["peak_rss"] / 2**20, f"< {limit / 2**20:.0f} (ONNX Runtime without Python)",
                  temper["peak_rss"] < limit)
        if "neighbour_slowdown" in temper:
            judge("slowdown beside a neighbour", temper["neighbour_slowdown"], f"<= {MAX_NEIGHBOUR}",
                  temper["neighbour_slowdown"] <= MAX_NEIGHBOUR)
    return out


def print_table(rows):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(w) if i < 3 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths))).rstrip())


def report(results):
    rows = [["model", "precision", "engine", "batch", "median ms", "min–max of rounds", "items/s", "temper is faster by",
             "min–max of rounds", "load s", "peak MiB", "beside a neighbour"]]
    for r in results:
        for name, e in r["engines"].items():
            m = e["median_ms"]
            ratio = ["", ""]
            if name != "temper" and "temper" in r["engines"]:
                per_round = [a / b for a, b in zip(m["per_round"], r["engines"]["temper"]["median_ms"]["per_round"])]
                ratio = [f"{statistics.median(per_round):.3f}x", f"{min(per_round):.3f}–{max(per_round):.3f}"]
            slow = e.get("neighbour_slowdown")
            rows.append([r["model"], e["precision"], f"{name} {e['version']}", str(r["batch"]), f"{m['median']:.3f}",
                         f"{m['min']:.3f}–{m['max']:.3f}", f"{r['batch'] * 1e3 / m['median']:.1f}", *ratio,
                         f"{e['load_s']:.3f}", f"{e['peak_rss'] / 2**20:.0f}", f"{slow:.2f}x" if slow else ""])
    print_table(rows)
    for engine, precision in dict.fromkeys((name, r["precision"]) for r in results for name in r["engines"]):
        if (engine, precision) in INSTEAD:
            instead, why = INSTEAD[engine, precision]
            print(f"n/a      {engine} {precision}: {why}; its {instead} is shown, and is not what the figures are judged by")
    for r in results:
        if r["load_by_others"] > 0.05:
            print(f"disturbed {r['model']} {r['precision']} batch {r['batch']}: other processes used {r['load_by_others']:.2f} "
                  "cores on average")
        for v in r.get("verdicts", []):
            print(f"{'met     ' if v['met'] else 'NOT MET '} {r['model']} {r['precision']} batch {r['batch']}: {v['what']}: "
                  f"{v['measured']:.4g} ({v['limit']})")


def save(path, environment, results):
    content = {"schema": "temper.peers/1", "command": " ".join(sys.argv), "environment": environment, "comparisons": results}
    temporary = f"{path}.tmp.{os.getpid()}"
    with open(temporary, "w") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def model_file(args, label, folder):
    if os.path.sep in label or label.endswith(".onnx"):
        if not os.path.exists(label):
            raise Failure(f"{label}: no such file")
        return os.path.splitext(os.path.basename(label))[0], label
    path = os.path.join(folder, label + ".onnx")
    run_program([args.temper, "zoo", label, "-o", path])
    return label, path


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    names = lambda text: text.split(",")
    parser.add_argument("--temper", default=os.path.join(HERE, "..", "build", "temper"))
    parser.add_argument("--models", type=names, default=["resnet50", "mobilenet_v2"],
                        help="names of `temper zoo` or .onnx files, separated by commas")
    parser.add_argument("--batches", type=lambda text: [int(b) for b in text.split(",")], default=[1, 8, 32])
    parser.add_argument("--engines", type=names, default=ENGINES)
    parser.add_argument("--precision", choices=list(LARGEST_DIFFERENCE), default="fp32")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.5, help="about the length of an engine's turn; at least 5 runs")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--neighbour", action="store_true", help="then again beside a process that burns one core")
    parser.add_argument("--json", help="save everything measured, after every comparison")
    args = parser.parse_args()
    if unknown := set(args.engines) - set(ENGINES):
        parser.error(f"unknown engines {', '.join(sorted(unknown))}; there are {', '.join(ENGINES)}")
    if args.rounds < 1 or args.threads < 1 or any(b < 1 for b in args.batches):
        parser.error("rounds, threads and batches start at 1")
    environment = json.loads(run_program([args.temper, "doctor", "--json"])[0])["environment"]
    results = []
    with tempfile.TemporaryDirectory(prefix="temper_models_") as folder:
        for label, batch in itertools.product(args.models, args.batches):
            name, path = model_file(args, label, folder)
            print(f"{name} {args.precision} batch {batch}: {args.rounds} rounds of {', '.join(args.engines)}", file=sys.stderr)
            results.append(compare(args, name, path, batch))
            if args.json:
                save(args.json, environment, results)
    report(results)
    return 0 if all(v["met"] for r in results for v in r.get("verdicts", []) if v["what"] != "the goal") else 1


if __name__ == "__main__":
    run_as_program("cpu_peers", main)
