# SPDX-License-Identifier: Apache-2.0
"""python -m temper versus JOB.json: times contestants as `temper versus` asks for, and writes what came of each.

The job: "mode" ("turns": all loaded at a time, in turns; "alone": one after the other), "rounds", "seconds" (of a turn),
"start_limit_s", "turn_limit_s", "pythons" (interpreters, tried in order), "result" (the file to write) and "contestants". Each of
those has a "name" and an "engine": "temper" with its "command"; "trtexec" with "program", "model", "shapes", "precision", "gpu" and
a "folder" of its own; or one of engine.ENGINES with "model", "inputs", "threads", "streams", "batch", "device", "precision",
"source", "weights", "lora", and "output", the file for its answers.

The result has for each contestant by name "ready" (what it said of itself), "start_s" and "rounds" (milliseconds by turn), or
"failure"; and "load_by_others". Needs nothing but Python itself. Progress goes to standard output, a line each.
"""
import json
import os
import subprocess

from .engine import ENGINES, NOT_HERE
from .load import LoadMeter
from .trtexec import Trtexec
from .turns import Child, Failure, rounds_of

LEAST_RUNS = 3  # of a turn


def say(what, done=0, total=0, unit=""):
    print(json.dumps({"what": what, "done": done, "total": total, "unit": unit}), flush=True)


class Interpreters:
    """Which of the Pythons has a module."""

    def __init__(self, pythons):
        self.pythons, self.known = pythons, {}

    def has(self, python, module):
        if (python, module) not in self.known:
            script = f"import importlib.util, sys; sys.exit(0 if importlib.util.find_spec({module!r}) else 3)"
            try:
                code = subprocess.run([python, "-I", "-c", script], stdin=subprocess.DEVNULL, capture_output=True, timeout=60).returncode
            except (OSError, subprocess.TimeoutExpired):
                code = None
            self.known[python, module] = code == 0
        return self.known[python, module]

    def having(self, engine):
        _, module, package = ENGINES[engine]
        for python in self.pythons:
            if self.has(python, module):
                return python
        raise Failure(f"{package} is not installed for {' or '.join(self.pythons)}; --python names a Python that has it, or install it: "
                      f"{self.pythons[0]} -m pip install {package}")


def start(one, job, interpreters):
    """The contestant, loaded and warm. A Failure says in a line why there is none."""
    limits = (job["start_limit_s"], job["turn_limit_s"])
    if one["engine"] == "trtexec":
        child = Trtexec(one["name"], one["program"], one["model"], one["shapes"], one["precision"], one["gpu"], one["folder"], *limits)
    elif one["engine"] == "temper":
        child = Child(one["name"], one["command"], *limits)
    else:
        python = interpreters.having(one["engine"])
        command = [python, os.path.join(os.path.dirname(os.path.abspath(__file__)), "engine.py"), one["engine"], one["model"], one["inputs"]]
        for word in ("threads", "streams", "batch", "device", "precision", "source", "weights", "lora"):
            command += [f"--{word}={one[word]}"]
        child = Child(one["name"], command, *limits)
    try:
        if one.get("output"):
            child.ask("output " + one["output"])
        child.calibrate(job["seconds"], LEAST_RUNS)
    except Failure:
        child.close(0)
        raise
    return child


def reason(failure, name):
    """A Failure in a line: what a refusing engine said, or the last line that a crashing one left."""
    first, _, said = str(failure).partition("\n")
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    if first == f"{name} ended with {NOT_HERE}:" and lines:
        return lines[-1]
    return " ".join([first, *lines[-1:]])[:600]


def entry(child, rounds):
    return {"ready": child.ready, "start_s": child.start_s, "rounds": rounds}


def run(job):
    interpreters = Interpreters(job["pythons"])
    results, children, failed = {}, [], {}
    alone = job["mode"] == "alone"
    load = 0.0
    try:
        for number, one in enumerate(job["contestants"], 1):
            say(f"{'measuring' if alone else 'loading'} {one['name']}", number, len(job["contestants"]), "engines")
            try:
                child = start(one, job, interpreters)
            except Failure as failure:
                results[one["name"]] = {"failure": reason(failure, one["name"])}
                continue
            if not alone:
                children.append(child)
                continue
            try:
                results[one["name"]] = entry(child, [child.turn() for _ in range(job["rounds"])])
            except Failure as failure:
                results[one["name"]] = {"failure": reason(failure, one["name"])}
            finally:
                child.close()
        if children:
            meter = LoadMeter(children)
            samples = rounds_of(children, job["rounds"], failed, lambda done: say("timing in turns", done, job["rounds"], "rounds"))
            load = meter.cores()
            for child in children:
                results[child.name] = {"failure": reason(failed[child.name], child.name)} if child.name in failed else entry(child, samples[child.name])
    finally:
        for child in children:
            child.close()
    return {"contestants": results, "load_by_others": load}


def main(arguments):
    with open(arguments[0]) as file:
        job = json.load(file)
    result = run(job)
    with open(job["result"], "w") as file:
        json.dump(result, file)
    return 0
