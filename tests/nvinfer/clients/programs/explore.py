#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds and profiles by trtexec, takes its logs apart by their sections, and puts the graph of layers together, as explorers of engines do.
usage: explore.py MODEL.onnx SHAPES FOLDER"""
import json
import pathlib
import re
import subprocess
import sys

model, shapes, folder = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
folder.mkdir(exist_ok=True)
engine = folder / "m.engine"


def trtexec(log, *flags):
    done = subprocess.run(["trtexec", *flags], capture_output=True, text=True)
    (folder / log).write_text(done.stdout)
    if done.returncode or "&&&& PASSED" not in done.stdout:
        sys.exit(f"trtexec ended with {done.returncode}: {done.stderr[-500:]}")
    return done.stdout


def sections(log):
    """What stands under each heading, as words."""
    found, now = {}, None
    for line in log.splitlines():
        text = re.sub(r"^\[\d\d/\d\d/\d{4}-\d\d:\d\d:\d\d\] \[[A-Z]\] ?", "", line)
        heading = re.fullmatch(r"=== (.+) ===", text)
        if heading:
            now = found.setdefault(heading[1], {})
        elif now is not None and ":" in text:
            key, _, value = text.partition(":")
            now[key.strip()] = value.strip()
        elif not text:
            now = None
    return found


build = sections(trtexec("build.log", "--verbose", "--nvtxMode=verbose", "--buildOnly", "--workspace=8192", f"--onnx={model}", f"--shapes={shapes}",
                         f"--saveEngine={engine}", f"--timingCacheFile={folder}/timing.cache"))  # fmt: skip
profile = sections(trtexec("profile.log", "--noDataTransfers", "--separateProfileRun", "--useSpinWait", f"--loadEngine={engine}", "--iterations=20", "--duration=0",
                           "--warmUp=0", f"--exportTimes={folder}/times.json", f"--exportProfile={folder}/profile.json",
                           f"--exportLayerInfo={folder}/graph.json", "--profilingVerbosity=detailed"))  # fmt: skip
for name, of in (("Model Options", build), ("Build Options", build), ("Device Information", build), ("Inference Options", profile), ("Performance summary", profile)):
    assert of.get(name), f"no section {name}: {sorted(of)}"
graph, times = json.loads((folder / "graph.json").read_text()), json.loads((folder / "times.json").read_text())
profiled = json.loads((folder / "profile.json").read_text())
layers = graph["Layers"]
made = set(graph["Bindings"])
for layer in layers:
    for key in ("Name", "LayerType", "Inputs", "Outputs"):
        assert key in layer, f"a layer has no {key}"
    for tensor in layer["Inputs"] + layer["Outputs"]:
        assert tensor["Name"] and tensor["Dimensions"] and tensor["Format/Datatype"], tensor
    assert all(tensor["Name"] in made for tensor in layer["Inputs"]), f"{layer['Name']} reads what nothing made"
    made |= {tensor["Name"] for tensor in layer["Outputs"]}
rows = {row["name"]: row for row in profiled if "name" in row}
assert [layer["Name"] for layer in layers] == list(rows), "layers and profile differ"
assert abs(sum(row["percentage"] for row in rows.values()) - 100) < 0.5 and all(row["averageMs"] >= 0 for row in rows.values())
assert len(times) >= 20 and all(row["latencyMs"] > 0 for row in times)
(folder / "metadata.json").write_text(json.dumps({"build": build, "profile": profile, "layers": len(layers)}))
print(f"{len(layers)} layers, {len(times)} queries")
