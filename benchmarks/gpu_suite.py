# SPDX-License-Identifier: Apache-2.0
"""Temper beside torch.compile on one GPU over the architectures of architectures.py, one line each (benchmarks/README.md).

Exports and torch's compilations run side by side first; builds and times then have the GPU to themselves."""
import argparse
import concurrent.futures
import datetime
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import architectures
import numpy
from gpu_state import GpuStates, pci_bus_id_of

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "python"))
from temper.versus.turns import Child, Failure, medians, rounds_of, run_as_program, run_program, save, spread, tactics_of

SCHEMA = "temper.gpu_suite/1"
DRAW = threading.Lock()


class Case:
    """One architecture at one batch: its files, torch's process, and what was found."""

    def __init__(self, args, name, batch):
        self.args, self.name, self.batch = args, name, batch
        self.folder = os.path.join(args.folder, f"{name}_{batch}")
        self.model, self.plan = (os.path.join(self.folder, file) for file in ("model.onnx", "model.plan"))
        self.ranges = os.path.join(self.folder, "ranges.json") if args.precision.startswith(("int8", "fp8")) else None
        self.zoo = architectures.ALL[name].zoo
        self.peer = next((engine for engine in args.engines if engine != "temper"), None)
        self.torch, self.failure = None, None
        self.row = {"model": name, "kind": architectures.ALL[name].kind, "batch": batch, "precision": args.precision}

    def prepare(self):
        """Exports the module, and starts torch's process, which says ready once it has compiled."""
        os.makedirs(self.folder, exist_ok=True)
        try:
            if not os.path.exists(self.model):
                # Large models keep their weights in a file beside, of the same name: both are made in a folder of their own.
                partial = tempfile.mkdtemp(dir=self.folder)
                made = os.path.join(partial, "model.onnx")
                if self.zoo:
                    run_program([self.args.temper, "zoo", self.zoo, "-o", made, "--quiet"])
                else:
                    run_program([self.args.temper, "export", f"{HERE}/architectures.py:{self.name}_{self.batch}", "-o", made,
                                 "--no-check", "--opset", "18", "--python", sys.executable, "--quiet"])
                for file in sorted(os.listdir(partial), key=lambda name: name.endswith(".onnx")):
                    os.replace(os.path.join(partial, file), os.path.join(self.folder, file))
                os.rmdir(partial)
            if self.ranges:
                self.calibrate()
            if self.peer:
                self.torch = Child(self.peer, [sys.executable, os.path.join(HERE, "gpu_child.py"), self.peer, self.name, "--batch", str(self.batch),
                                               "--precision", "fp16" if self.ranges else self.args.precision, "--exchange", self.folder])
                self.row["compile_s"] = self.torch.start_s
                self.row["torch_difference"] = self.torch.ready["difference"]
        except Failure as failure:
            self.failure = str(failure)

    def calibrate(self):
        """Ranges of INT8, of as many samples as a batch has, which are others than those of the comparison."""
        data = os.path.join(self.folder, "calibration.npz")
        with DRAW:  # one generator of all threads
            drawn = architectures.inputs_of(self.name, self.batch, seed=10_000)
        numpy.savez(data, **{key: tensor.numpy() for key, tensor in drawn.items()})
        seconds = run_program([self.args.temper, "calibrate", self.model, "--data", data, "-o", self.ranges, "--method", self.args.method, "--force", "--quiet"])[1]
        self.row["calibrate_s"] = seconds

    def given(self):
        """The inputs as torch has them, once it has written them."""
        keys = architectures.ALL[self.name].inputs(1)
        return [word for key in keys for word in ("--input", f"{key}={self.folder}/{key}.npy")] if self.torch else []

    def shapes(self):
        """What a model of the zoo leaves open."""
        inputs = architectures.inputs_of(self.name, self.batch) if self.zoo else {}
        return [word for key, tensor in inputs.items() for word in ("--shapes", f"{key}={'x'.join(map(str, tensor.shape))}")]

    def gpu_flags(self):
        return ["--device", self.args.device, *[word for folder in self.args.cuda_path for word in ("--cuda-path", folder)]]

    def build(self):
        start = time.perf_counter()
        run_program([self.args.temper, "build", self.model, "-o", self.plan, "--precision", self.args.precision, "--force",
                     *self.gpu_flags(), *(["--no-timing-cache"] if self.args.cold else []), *(["--calibration", self.ranges] if self.ranges else []), *self.shapes(),
                     *(["--time-limit", str(self.args.search)] if self.args.search else [])])
        self.row["build_s"] = time.perf_counter() - start
        steps = json.loads(run_program([self.args.temper, "inspect", self.plan, "--layers", "--json"])[0])
        self.row.update(steps_of(steps))

    def difference(self):
        """The largest difference of Temper's output from torch's in FP32, of the largest value; and the cosine, mean and least of the samples."""
        outputs = os.path.join(self.folder, "outputs")
        shutil.rmtree(outputs, ignore_errors=True)
        run_program([self.args.temper, "run", self.plan, *self.given(), "--output-dir", outputs, "--top", "0", *self.gpu_flags()])
        found, wanted = (numpy.load(file).astype(numpy.float64) for file in (os.path.join(outputs, os.listdir(outputs)[0]), os.path.join(self.folder, "answer.npy")))
        if found.shape != wanted.shape or not numpy.isfinite(found).all():
            raise Failure(f"the output is {found.shape}, finite: {numpy.isfinite(found).all()}; wanted {wanted.shape}")
        self.row["difference"] = float(numpy.abs(found - wanted).max() / numpy.abs(wanted).max())
        found, wanted = (x.reshape(len(x), -1) for x in (found, wanted))
        cosines = (found * wanted).sum(1) / (numpy.linalg.norm(found, axis=1) * numpy.linalg.norm(wanted, axis=1))
        self.row["cosine"] = {"mean": float(cosines.mean()), "least": float(cosines.min())}

    def measure(self):
        children = [Child("temper", [self.args.temper, "bench", self.plan, "--pipe", *self.given(), *self.gpu_flags()])] + ([self.torch] if self.torch else [])
        try:
            for child in children:
                child.calibrate(self.args.seconds, 10)
            states = GpuStates(self.args.pci_bus_id)
            times = medians(rounds_of(children, self.args.rounds, watch=states.turn))
        finally:
            children[0].close()
        self.row.update({f"{name}_ms": statistics.median(turns) for name, turns in times.items()})
        self.row["gpu_per_turn"] = states.turns
        if self.torch:
            self.row["ratio"] = spread([b / a for a, b in zip(times["temper"], times[self.peer])])
        if self.args.profiles:
            os.makedirs(self.args.profiles, exist_ok=True)
            words = [word for path in self.args.cuda_path for word in ("--cuda-path", path)]
            said = run_program([self.args.temper, "profile", self.plan, *self.given(), "--duration", "1s", *words])[0]
            with open(os.path.join(self.args.profiles, f"{self.name}_{self.batch}.txt"), "w") as file:
                file.write(said)

    def run(self):
        try:
            if self.failure is None:
                self.build()
                if self.torch:
                    self.difference()
                self.measure()
        except Failure as failure:
            self.failure = str(failure)
        finally:
            if self.torch:
                self.torch.close()
        if self.failure is not None:
            self.row["failure"] = self.failure[-600:]
        return self.row


def steps_of(inspected):
    """How many steps a plan has, and how many of them run on the host."""
    names = tactics_of(inspected)
    return {"steps": len(names), "host_steps": sum(1 for name in names if name.startswith(("cpu.", "reference", "cuda.host")))}


def line(row):
    start = f"{row['model']:18}{row['batch']:6}  "
    if "failure" in row:
        return start + "FAILED " + " ".join(row["failure"].split())[-220:]
    ratio = f"{row['ratio']['median']:7.3f} ({row['ratio']['min']:.3f}–{row['ratio']['max']:.3f})" if "ratio" in row else f"{'':22}"
    torch = next((f"{row[key]:9.3f}" for key in ("compile_ms", "graph_ms", "eager_ms") if key in row), f"{'':9}")
    far = "".join(f"{row[key]:11.1e}" if key in row else f"{'':11}" for key in ("difference", "torch_difference"))
    near = f"{row['cosine']['mean']:10.5f}{row['cosine']['least']:9.5f}" if "cosine" in row else f"{'':19}"
    return f"{start}{row['temper_ms']:9.3f}{torch}  {ratio:22}{far}{near}{row['build_s']:9.1f}{row['steps']:7}{row['host_steps']:9}"


def report(rows):
    print(f"{'model':18}{'batch':>6}  {'ms':>9}{'torch ms':>9}  {'Temper over torch':22}{'difference':>11}{'torch has':>11}{'cosine':>10}{'least':>9}{'build s':>9}{'steps':>7}{'on host':>9}")
    for row in rows:
        print(line(row))
    for kind in (*sorted({row["kind"] for row in rows}), None):
        ratios = [row["ratio"]["median"] for row in rows if "ratio" in row and kind in (None, row["kind"])]
        if ratios:
            mean = statistics.geometric_mean(ratios)
            print(f"geometric mean of {len(ratios)}{f' ({kind})' if kind else ''}: {mean:.3f}; below 1: {sum(r < 1 for r in ratios)}")
    failed = sum("failure" in row for row in rows)
    if failed:
        print(f"{failed} failed")


def joined(files):
    """The rows of several runs on one kind of device; of the same architecture and batch the last."""
    runs = [json.load(open(file)) for file in files]
    for run, file in zip(runs, files):
        if run.get("schema") != SCHEMA:
            raise Failure(f"{file} is no result of this suite ({SCHEMA})")
    devices = {run["device"] for run in runs}
    if len(devices) > 1:
        raise Failure(f"results of different devices do not join: {', '.join(sorted(devices))}")
    rows = {(row["model"], row["batch"], row["precision"]): row for run in runs for row in run["rows"]}
    order = list(architectures.ALL)
    return {**runs[-1], "rows": sorted(rows.values(), key=lambda r: (order.index(r["model"]), r["batch"]))}


def cases_of(parser, word, batches):
    """Architectures and batches that a word of --only asks for."""
    if word in architectures.ALL:
        return [(word, batch) for batch in batches or architectures.ALL[word].all_batches()]
    name, _, batch = word.rpartition("_")
    if name not in architectures.ALL or not batch.isdigit():
        parser.error(f"unknown architecture {word}; there are {', '.join(architectures.ALL)}")
    return [(name, int(batch))]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    names = lambda text: text.split(",")
    parser.add_argument("--suite", choices=["architectures"], required=True)
    parser.add_argument("--temper", default=os.path.join(HERE, "..", "build", "temper"))
    parser.add_argument("--only", type=names, default=architectures.SUITE, help="architectures, attention alone among them, or one of them at a batch (bert_base_32), separated by commas")
    parser.add_argument("--batches", type=lambda text: [int(b) for b in text.split(",")], help="instead of those that the suite names")
    parser.add_argument("--precision", default="fp16", choices=["fp16", "bf16", "fp32", "tf32", "int8", "int8+fp16", "fp8", "fp8+fp16"], help="with int8 and fp8 PyTorch computes in FP16")
    parser.add_argument("--method", default="mse", help="of the calibration for int8 and fp8, as temper calibrate takes it")
    parser.add_argument("--engines", type=names, default=["temper", "compile"], help="temper, and compile, graph or eager of PyTorch")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--cuda-path", action="append", default=[], help="given to temper")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.3, help="about the length of an engine's turn; at least 10 runs")
    parser.add_argument("--jobs", type=int, default=8, help="how many exports and compilations run side by side")
    parser.add_argument("--cold", action="store_true", help="build without times of earlier builds")
    parser.add_argument("--folder", help="keeps models and torch's compile cache for later runs")
    parser.add_argument("--search", type=int, help="seconds that a build may search, as its --time-limit")
    parser.add_argument("--profiles", metavar="DIR", help="write the steps of each plan with their times there")
    parser.add_argument("--wait", metavar="FILE", help="build and measure when FILE is there, so that other measurements can go before")
    parser.add_argument("--time-limit", type=float, help="seconds after which nothing new is measured; what is left is named")
    parser.add_argument("--join", nargs="+", metavar="FILE", help="results of earlier runs: print them as one, measure nothing")
    parser.add_argument("--json", help="save everything measured, after every architecture")
    args = parser.parse_args()
    if args.join:
        content = joined(args.join)
        report(content["rows"])
        if args.json:
            save(args.json, content)
        return 0
    asked = [pair for word in args.only for pair in cases_of(parser, word, args.batches)]
    begin = time.perf_counter()
    doctor = json.loads(run_program([args.temper, "doctor", "--json", *[w for f in args.cuda_path for w in ("--cuda-path", f)]])[0])
    args.pci_bus_id = pci_bus_id_of(doctor, args.device)
    content = {"schema": SCHEMA, "date": datetime.date.today().isoformat(), "revision": doctor["environment"]["revision"],
               "device": doctor["gpus"][0]["name"] if doctor["gpus"] else "cpu", "rows": []}
    with tempfile.TemporaryDirectory(prefix="temper_gpu_suite_") as own:
        args.folder = os.path.abspath(args.folder or own)
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", os.path.join(args.folder, "inductor"))
        os.environ["PYTHONPATH"] = os.pathsep.join([os.path.join(HERE, "..", "python"), os.environ.get("PYTHONPATH", "")])
        cases = [Case(args, name, batch) for name, batch in asked]
        left = []
        # As many at a time as have room on the GPU beside each other; all of them are ready before anything is timed.
        for first in range(0, len(cases), args.jobs):
            some = cases[first:first + args.jobs]
            if args.time_limit and time.perf_counter() - begin > args.time_limit:
                left += some
                continue
            with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
                list(pool.map(Case.prepare, some))
            while args.wait and not os.path.exists(args.wait):
                time.sleep(0.1)
            for case in some:
                content["rows"].append(case.run())
                print(line(content["rows"][-1]), file=sys.stderr, flush=True)
                if args.json:
                    save(args.json, content)
    report(content["rows"])
    if left:
        print(f"not measured for lack of time: {', '.join(sorted({case.name for case in left}))}")
    return 1 if any("failure" in row for row in content["rows"]) else 0


if __name__ == "__main__":
    run_as_program("gpu_suite", main)
