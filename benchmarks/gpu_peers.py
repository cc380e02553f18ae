# SPDX-License-Identifier: Apache-2.0
"""Temper beside PyTorch (eager, as a CUDA graph, torch.compile) on one GPU, in turns in one run (benchmarks/README.md)."""
import argparse
import datetime
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "python"))
from gpu_state import GpuStates, pci_bus_id_of, text_of
from temper.versus.turns import Child, Failure, medians, rounds_of, run_as_program, run_program, save, spread

ENGINES = ["temper", "eager", "graph", "compile"]
GEMM = "gemm"  # a product of two square matrices, as large as the batch; PyTorch's eager one is cuBLASLt's
# Least ratio to an engine: (model, precision) -> batch -> least.
FIGURES = {
    ("resnet50", "fp16"): ("compile", {1: 1.25, 8: 1.15, 128: 1.05, 256: 1.05}),
    ("mobilenet_v2", "fp16"): ("compile", {1: 1.2, 128: 1.2}),
    (GEMM, "fp16"): ("eager", {8192: 0.97}),
    (GEMM, "int8"): ("eager", {8192: 1.4}),
}


def write_gemm(path, precision, size):
    """x times a constant matrix, both of random numbers; int8 sums in int32."""
    import numpy
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    random = numpy.random.default_rng(0)
    if precision == "int8":
        weights, op = random.integers(-128, 128, (size, size), dtype=numpy.int8), "MatMulInteger"
        x, y = TensorProto.INT8, TensorProto.INT32
    else:
        weights, op = (random.random((size, size), dtype=numpy.float32) * 2 - 1).astype(numpy.float16), "MatMul"
        x = y = TensorProto.FLOAT16
    graph = helper.make_graph([helper.make_node(op, ["x", "w"], ["y"])], GEMM,
                              [helper.make_tensor_value_info("x", x, ["n", size])],
                              [helper.make_tensor_value_info("y", y, ["n", size])], [numpy_helper.from_array(weights, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10), path)


def build(args, model, label, precision, folder):
    """One plan for all batches, built twice: cold, then with the caches. Returns the plan and both times in s."""
    environment = dict(os.environ, XDG_CACHE_HOME=os.path.join(folder, "cache_" + label + precision))
    ranges = []
    shape = f"x{args.batches[0]}" if label == GEMM else "x3x224x224"
    integers_of_its_own = label == GEMM and precision == "int8"
    if precision == "int8" and not integers_of_its_own:
        path = os.path.join(folder, label + ".json")
        run_program([args.temper, "calibrate", model, "--placeholder-data", "--samples", "8", "-o", path, "--quiet"])
        ranges = ["--calibration", path]
    plan = os.path.join(folder, f"{label}_{precision}.plan")
    batches = sorted(set(args.batches) | set([] if label == GEMM else args.buckets))
    command = [args.temper, "build", model, "-o", plan, "--device", args.device, "--precision",
               "fp32" if integers_of_its_own else precision, *ranges, "--shapes", ":".join(f"{batch}{shape}" for batch in (batches[0], batches[0], batches[-1])),
               "--buckets", ",".join(map(str, batches))]
    for folder_of_libraries in args.cuda_path:
        command += ["--cuda-path", folder_of_libraries]
    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        seconds.append(time.perf_counter() - start)
        if done.returncode:
            raise Failure(f"{' '.join(command)}\nended with {done.returncode}:\n{done.stdout[-2000:]}")
    if args.verbose:
        print(done.stdout, file=sys.stderr)
    print(f"{label} {precision}, batches {batches}: built in {seconds[0]:.1f} s, again in {seconds[1]:.1f} s")
    return plan, seconds


def start(engine, args, label, precision, batch, plan):
    if engine == "temper":
        command = [args.temper, "bench", plan, "--pipe", "--batch", str(batch), "--device", args.device]
        for folder in args.cuda_path:
            command += ["--cuda-path", folder]
        return Child("temper", command)
    return Child(engine, [sys.executable, os.path.join(HERE, "gpu_child.py"), engine, label, "--batch", str(batch),
                          "--precision", precision])


def compare(args, label, precision, batch, plan):
    children, states = [], GpuStates(args.pci_bus_id)
    try:
        for engine in args.engines:
            if engine == "temper" or precision != "int8" or (label == GEMM and engine == "eager"):
                children.append(start(engine, args, label, precision, batch, plan))
        for child in children:
            child.calibrate(args.seconds, 10)
        samples = rounds_of(children, args.rounds, watch=states.turn)
    finally:
        for child in children:
            child.close()
    times = medians(samples)
    result = {"model": label, "precision": precision, "batch": batch, "engines": {}}
    if states.why:
        result["no_gpu_states"] = states.why
    for child in children:
        result["engines"][child.name] = {**child.ready, "runs_per_round": child.count, "median_ms": spread(times[child.name]),
                                         "items_per_s": batch * 1e3 / statistics.median(times[child.name]), "gpu_per_turn": states.turns.get(child.name, [])}
    for engine in times:
        if engine != "temper" and "temper" in times:
            result["engines"][engine]["temper_is_faster_by"] = spread([a / b for a, b in zip(times[engine], times["temper"])])
    peer, figures = FIGURES.get((label, precision), (None, {}))
    if batch in figures and peer in times and "temper" in times:
        ratio = result["engines"][peer]["temper_is_faster_by"]["median"]
        result["figure"] = {"least": figures[batch], "peer": peer, "ratio": ratio, "met": ratio >= figures[batch]}
    return result


def command_of(args):
    """That measures the same again, without the paths of one machine."""
    lists = {"--models": args.models, "--precisions": args.precisions, "--batches": args.batches, "--buckets": args.buckets,
             "--engines": args.engines, "--rounds": [args.rounds], "--seconds": [args.seconds]}
    return " ".join(["./dev bench gpu", *(f"{flag} {','.join(map(str, values))}" for flag, values in lists.items())])


def report(results):
    print(f"{'model':14}{'precision':11}{'batch':>6}  {'engine':10}{'ms':>9}{'items/s':>10}  {'temper is faster by':22}the GPU meanwhile")
    for r in results:
        for name, e in r["engines"].items():
            ratio = e.get("temper_is_faster_by")
            if name == "temper":
                print(f"{'':43}context {e['context_s'] * 1e3:.0f} ms, then plan load {e['load_s'] * 1e3:.0f} ms and first answer {e['first_run_ms']:.0f} ms")
            text = f"{ratio['median']:.3f}x ({ratio['min']:.3f}–{ratio['max']:.3f})" if ratio else ""
            print(f"{r['model']:14}{r['precision']:11}{r['batch']:6}  {name:10}{e['median_ms']['median']:9.4f}{e['items_per_s']:10.0f}  {text:22}{text_of(e['gpu_per_turn'])}".rstrip())
        if "figure" in r:
            print(f"{'':43}figure: >= {r['figure']['least']}x torch {r['figure']['peer']}: {'met' if r['figure']['met'] else 'NOT met'}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    names = lambda text: text.split(",")
    parser.add_argument("--temper", default=os.path.join(HERE, "..", "build", "temper"))
    parser.add_argument("--models", type=names, default=["resnet50", "mobilenet_v2"], 
                        help=f"names of `temper zoo`, separated by commas; or {GEMM}, with its size as --batches")
    parser.add_argument("--precisions", type=names, default=["fp16"])
    parser.add_argument("--batches", type=lambda text: [int(b) for b in text.split(",")], default=[1, 8, 128, 256])
    parser.add_argument("--buckets", type=lambda text: [int(b) for b in text.split(",")], default=[1, 8, 32, 128, 256],
                        help="what else the plan is built for")
    parser.add_argument("--engines", type=names, default=ENGINES)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--cuda-path", action="append", default=[], help="given to temper")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="about the length of an engine's turn; at least 10 runs")
    parser.add_argument("--json", help="save everything measured, after every comparison")
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    if unknown := set(args.engines) - set(ENGINES):
        parser.error(f"unknown engines {', '.join(sorted(unknown))}; there are {', '.join(ENGINES)}")
    doctor = json.loads(run_program([args.temper, "doctor", "--json", *[w for f in args.cuda_path for w in ("--cuda-path", f)]])[0])
    args.pci_bus_id = pci_bus_id_of(doctor, args.device)
    content = {"schema": "temper.gpu_peers/1", "command": command_of(args), "date": datetime.date.today().isoformat(),
               "revision": doctor["environment"]["revision"], "gpus": doctor["gpus"],
               "libraries": [{key: library[key] for key in ("name", "version")} for library in doctor["libraries"]],
               "builds": [], "comparisons": []}
    with tempfile.TemporaryDirectory(prefix="temper_gpu_peers_") as folder:
        for label, precision in itertools.product(args.models, args.precisions):
            model = os.path.join(folder, label + ".onnx")
            if label == GEMM:
                write_gemm(model, precision, args.batches[0])
            elif not os.path.exists(model):
                run_program([args.temper, "zoo", label, "-o", model])
            plan, (cold_s, warm_s) = build(args, model, label, precision, folder)
            content["builds"].append({"model": label, "precision": precision, "buckets": args.buckets, "cold_s": cold_s, "warm_s": warm_s})
            for batch in args.batches:
                content["comparisons"].append(compare(args, label, precision, batch, plan))
                report(content["comparisons"][-1:])
                if args.json:
                    save(args.json, content)
    report(content["comparisons"])
    return 0 if all(r["figure"]["met"] for r in content["comparisons"] if "figure" in r) else 1


if __name__ == "__main__":
    run_as_program("gpu_peers", main)
