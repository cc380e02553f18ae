#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Includes point one way: each folder of src may include itself and the folders listed for it, nothing else."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SRC = ROOT / "src"

# The road of a model, left to right (ARCHITECTURE.md introduces the folders in this order). base, graph, backends, plan
# and runtime are the library that runs plans: none of them may need the importer, a pass or a measurement.
ALLOWED = {
    "base": "",
    "graph": "base",
    "onnx": "base graph",
    "passes": "base graph",
    "quantize": "base graph",
    "backends": "base graph",
    "plan": "base graph backends",
    "runtime": "base graph backends plan",
    "measure": "base graph backends",
    "tune": "base graph backends measure plan",
    "optimize": "base graph onnx passes quantize backends measure tune plan runtime data",
    "data": "base graph onnx measure runtime",
    "bench": "base graph backends measure plan runtime data tune",
    "calibrate": "base graph onnx passes quantize backends plan runtime optimize data",
    "interop": "base measure bench",
    "report": "base measure bench",
    "zoo": "base",
    "api": "base graph runtime",
    "api/temper_c_build.cc": "base optimize",
    "api/temper_c_pictures.cc": "base graph runtime data",
    "cli": "base graph onnx passes quantize backends measure tune plan runtime optimize data calibrate bench interop report zoo",
}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)


def problems():
    for path in sorted(SRC.rglob("*")):
        if path.suffix not in {".h", ".cc", ".cu"}:
            continue
        name = path.relative_to(ROOT)
        folder = path.relative_to(SRC).parts[0]
        if folder not in ALLOWED:
            yield f"{name}: the folder src/{folder} is not listed in tests/check_layers.py"
            continue
        # A file with an entry of its own belongs to another library than its folder.
        may = {folder, *ALLOWED.get(str(path.relative_to(SRC)), ALLOWED[folder]).split()}
        for include in INCLUDE.findall(path.read_text()):
            target = include.split("/")[0]
            if not (SRC / include).is_file() and not (ROOT / "include" / include).is_file():
                yield f"{name}: includes \"{include}\", which is not a path from src or include"
            elif target not in may and target != "temper":
                yield f"{name}: {folder} may not include {target} (\"{include}\"); it may: {' '.join(sorted(may))}"


found = list(problems())
print("\n".join(found) or "all includes point one way")
sys.exit(1 if found else 0)
