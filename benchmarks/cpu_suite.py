# SPDX-License-Identifier: Apache-2.0
"""Temper beside ONNX Runtime and OpenVINO on this CPU over the models of cpu_models.py, at batch 1, one line each
(benchmarks/README.md). All engines get the same inputs; Temper's answers are held against ONNX Runtime's."""
import argparse
import datetime
import json
import os
import pathlib
import shutil
import statistics
import sys
import tempfile

import cpu_models
import numpy as np
import onnx

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "python"))
from temper.versus.load import LoadMeter
from temper.versus.turns import Child, Failure, medians, rounds_of, run_as_program, run_program, save, spread, tactics_of

ENGINE = HERE.parent / "python/temper/versus/engine.py"
SCHEMA = "temper.cpu_suite/1"
PEERS = ["onnxruntime", "openvino"]


def model_file(args, name):
    """The ONNX file: of a package, or an architecture that is exported once."""
    model = cpu_models.MODELS[name]
    if model.file:
        found = [path for path in args.models.rglob("*.onnx") if f"/{path.relative_to(args.models).as_posix()}".endswith(model.file)]
        if len(found) != 1:
            raise Failure(f"{args.models} has {len(found)} files '{model.file}': ./dev setup models")
        return found[0]
    path = args.folder / f"{name}.onnx"
    if not path.exists():
        with tempfile.TemporaryDirectory(dir=args.folder) as folder:
            made = pathlib.Path(folder) / path.name
            run_program([args.temper, "export", f"{HERE}/architectures.py:{name}_1", "-o", made, "--no-check", "--opset", "18",
                         "--python", args.python, "--quiet"])
            for part in sorted(made.parent.iterdir(), key=lambda part: part == made):  # the model after its data
                part.replace(args.folder / part.name)
    return path


def signature_of(path):
    graph = onnx.load(str(path), load_external_data=False).graph
    stored = {tensor.name for tensor in graph.initializer}
    return {value.name: (onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type),
                         [d.dim_value if d.dim_value > 0 else None for d in value.type.tensor_type.shape.dim])
            for value in graph.input if value.name not in stored}


def start_temper(args, path, arrays, folder, row):
    plan = folder / "model.plan"
    shapes = [word for name, array in arrays.items() if array.ndim for word in ("--shapes", f"{name}={'x'.join(map(str, array.shape))}")]
    row["build_s"] = run_program([args.temper, "build", path, "-o", plan, *shapes, "--threads", str(args.threads), "--quiet"])[1]
    tactics = tactics_of(json.loads(run_program([args.temper, "inspect", plan, "--layers", "--json"])[0]))
    row.update(steps=len(tactics), reference_steps=sum(tactic.startswith("reference") for tactic in tactics))
    inputs = []
    for i, (name, array) in enumerate(arrays.items()):
        np.save(folder / f"in{i}.npy", array)
        inputs += ["--input", f"{name}={folder}/in{i}.npy"]
    run_program([args.temper, "run", plan, *inputs, "--output-dir", folder / "temper", "--top", "0", "--quiet"])
    return Child("temper", [args.temper, "bench", plan, "--pipe", "--threads", str(args.threads), *inputs])


def largest_share(found, wanted):
    """The largest difference of an array from the wanted one, of the largest value of that."""
    want = wanted.astype(np.float64)
    return float(np.abs(found.astype(np.float64) - want).max() / (np.abs(want).max() or 1.0)) if want.size else 0.0


def difference(folder, wanted):
    """The largest difference from ONNX Runtime's outputs, of the largest value of each."""
    worst = 0.0
    files = {path.stem: np.load(path) for path in (folder / "temper").glob("*.npy")}
    if len(files) != len(wanted.files):
        raise Failure(f"{len(files)} outputs instead of {len(wanted.files)}")
    for name in wanted.files:
        # Files are named by outputs, with what no file name holds replaced.
        plain = lambda text: "".join(c for c in text if c.isalnum())
        found = [array for stem, array in files.items() if plain(stem) == plain(name)]
        if len(found) != 1 or found[0].shape != wanted[name].shape:
            raise Failure(f"the output {name} is {[f.shape for f in found]}, not {wanted[name].shape}")
        worst = max(worst, largest_share(found[0], wanted[name]))
    return worst


def measure(args, name):
    row = {"model": name, "kind": cpu_models.MODELS[name].kind, "batch": 1, "precision": "fp32", "threads": args.threads, "without": {}}
    children = []
    with tempfile.TemporaryDirectory(prefix="temper_cpu_suite_") as temporary:
        folder = pathlib.Path(temporary)
        try:
            path = model_file(args, name)
            arrays = cpu_models.inputs_of(cpu_models.MODELS[name], signature_of(path))
            np.savez(folder / "inputs.npz", **arrays)
            for engine in PEERS:
                try:
                    children.append(Child(engine, [sys.executable, str(ENGINE), engine, str(path), str(folder / "inputs.npz"),
                                                   "--threads", str(args.threads)]))
                except Failure as failure:
                    row["without"][engine] = str(failure)[-300:]
            try:
                children.append(start_temper(args, path, arrays, folder, row))
                answers = next((child for child in children if child.name == "onnxruntime"), None)
                if answers:
                    answers.ask(f"output {folder}/wanted.npz")
                    row["difference"] = difference(folder, np.load(folder / "wanted.npz"))
                    if not row["difference"] <= cpu_models.MODELS[name].difference:
                        raise Failure(f"answers differ by {row['difference']:.1e} of the largest value")
            except Failure as failure:
                row["failure"] = str(failure)[-600:]
                children = [child for child in children if child.name != "temper" or child.close()]
            for child in children:
                child.calibrate(args.seconds, 5)
            meter = LoadMeter(children)
            times = medians(rounds_of(children, args.rounds)) if children else {}
            row["load_by_others"] = meter.cores()
        except Failure as failure:
            row["failure"], times = str(failure)[-600:], {}
        finally:
            for child in children:
                child.close()
    row.update({f"{engine}_ms": statistics.median(turns) for engine, turns in times.items()})
    row.update({f"{child.name}_peak_bytes": child.ready["peak_rss"] for child in children})
    peers = [engine for engine in PEERS if engine in times]
    if "temper" in times and peers:
        row["better_peer"] = min(peers, key=lambda engine: row[f"{engine}_ms"])
        row["ratio"] = spread([peer / own for peer, own in zip(times[row["better_peer"]], times["temper"])])
    return row


def line(row):
    times = "".join(f"{row[key]:10.4g}" if key in row else f"{'':10}" for key in ("temper_ms", "onnxruntime_ms", "openvino_ms"))
    start = f"{row['model']:17}{times}"
    if "failure" in row:
        return f"{start}  FAILED {' '.join(row['failure'].split())[-200:]}"
    ratio = f"{row['ratio']['median']:7.3f} ({row['ratio']['min']:.2f}–{row['ratio']['max']:.2f})" if "ratio" in row else ""
    far = f"{row['difference']:.0e}" if "difference" in row else ""
    return (f"{start}  {ratio:20}{far:>7}{row['build_s']:8.1f}{row['steps']:6}{row['reference_steps']:10}"
            f"{row['temper_peak_bytes'] / 2**20:9.0f}{row.get('onnxruntime_peak_bytes', 0) / 2**20:9.0f}")


def report(rows):
    print(f"{'model':17}{'ms':>10}{'ORT ms':>10}{'OpenVINO':>10}  {'over the better':20}{'differs':>7}{'build s':>8}{'steps':>6}{'reference':>10}{'MiB':>9}{'ORT MiB':>9}")
    for row in rows:
        print(line(row))
    ratios = [row["ratio"]["median"] for row in rows if "ratio" in row]
    if ratios:
        mean = statistics.geometric_mean(ratios)
        print(f"geometric mean of {len(ratios)}: {mean:.3f}; below 1: {sum(r < 1 for r in ratios)}, below 0.95: {sum(r < 0.95 for r in ratios)}")
    if failed := [row["model"] for row in rows if "failure" in row]:
        print(f"{len(failed)} failed: {', '.join(failed)}")
    if busy := [row["model"] for row in rows if row.get("load_by_others", 0) > 0.1]:
        print(f"disturbed by other processes: {', '.join(busy)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    names = lambda text: text.split(",")
    parser.add_argument("--suite", choices=["models"], required=True)
    parser.add_argument("--temper", default=str(HERE.parent / "build/temper"))
    parser.add_argument("--python", required=True, help="the Python that exports architectures (./dev setup frameworks)")
    parser.add_argument("--models", type=pathlib.Path, required=True, help="the folder that ./dev setup models made")
    parser.add_argument("--folder", type=pathlib.Path, required=True, help="keeps exported architectures")
    parser.add_argument("--only", type=names, default=list(cpu_models.MODELS), help="models, separated by commas")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.3, help="about the length of an engine's turn; at least 5 runs")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", help="save everything measured, after every model")
    args = parser.parse_args()
    if unknown := set(args.only) - set(cpu_models.MODELS):
        parser.error(f"unknown models {', '.join(sorted(unknown))}; there are {', '.join(cpu_models.MODELS)}")
    args.folder.mkdir(parents=True, exist_ok=True)
    os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE.parent / "python"), os.environ.get("PYTHONPATH", "")])
    environment = json.loads(run_program([args.temper, "doctor", "--json"])[0])["environment"]
    content = {"schema": SCHEMA, "date": datetime.date.today().isoformat(), "revision": environment["revision"],
               "device": environment["cpu_model"], "rows": []}
    for name in args.only:
        content["rows"].append(measure(args, name))
        print(line(content["rows"][-1]), file=sys.stderr, flush=True)
        if args.json:
            save(args.json, content)
    report(content["rows"])
    return 1 if any("failure" in row for row in content["rows"]) else 0


if __name__ == "__main__":
    run_as_program("cpu_suite", main)
