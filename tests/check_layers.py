#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Includes point one way: each folder of src may include itself and the folders listed for it, nothing else. The same
holds of the folders inside src/backends/cuda. In the folders of NO_LOOPS, and in the Python package, no file needs
another one that needs it."""
import ast
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SRC = ROOT / "src"

# The road of a model, left to right (ARCHITECTURE.md introduces the folders in this order). base, picture, graph, backends,
# plan and runtime are the library that runs plans: none of them may need the importer, a pass or a measurement.
ALLOWED = {
    "base": "",
    "picture": "base",
    "graph": "base picture",
    "onnx": "base graph",
    "passes": "base graph",
    "quantize": "base graph",
    "backends": "base graph",
    "plan": "base graph backends",
    "runtime": "base graph backends plan",
    "measure": "base graph backends",
    "tune": "base graph backends measure plan",
    "optimize": "base graph onnx passes quantize backends measure tune plan runtime data",
    "data": "base picture graph onnx measure runtime",
    "bench": "base graph backends measure plan runtime data tune",
    "calibrate": "base graph onnx passes quantize backends plan runtime optimize data",
    "evaluate": "base graph onnx passes quantize backends plan runtime optimize data calibrate bench",
    "study": "base graph onnx quantize measure runtime optimize data calibrate evaluate bench report",
    "interop": "base measure bench",
    "nvinfer": "base graph onnx quantize backends tune plan runtime optimize calibrate bench interop",
    "report": "base measure bench",
    "zoo": "base",
    "serve": "base graph backends plan",
    "clients": "",
    "triton": "clients",
    "video": "clients",
    "api": "base graph runtime",
    "api/temper_c_build.cc": "base tune optimize",
    "api/temper_nvinfer.cc": "runtime optimize nvinfer",
    "api/temper_c_pictures.cc": "base picture graph runtime data",
    "cli": "base graph onnx passes quantize backends measure tune plan runtime optimize data calibrate bench evaluate study interop nvinfer report serve zoo",
}
# Inside src/backends/cuda. "." are the files of the folder itself: recipes, bundles, the machine.
CUDA = {
    "support": "",
    ".": "support",
    "copy": ". support",
    "gemm": ". support",
    "rows": ". support",
    "append": ". support",
    "arg_reduce": ". support rows",
    "attention": ". support",
    "conv": ". support gemm",
    "cumulative": ". support rows",
    "gather": ". support",
    "grid_sample": ". support",
    "lrn": ". support",
    "matmul": ". support gemm rows",
    "nms": ". support scan topk",
    "nonzero": ". support scan",
    "normalize": ". support rows",
    "pad": ". support",
    "pointwise": ". support",
    "pool": ". support rows",
    "range": ". support",
    "recurrent": ". support",
    "reduce": ". support rows",
    "resize": ". support copy rows",
    "roi_align": ". support",
    "sample": ". support rows",
    "scan": ". support",
    "scatter": ". support",
    "softmax": ". support rows",
    "topk": ". support",
    "unique": ". support scan topk",
}
# THE list of the GPU's tactics stands above all of them.
CUDA_LIST = "backends/cuda/tactics.cc"
# Folders without loops of includes between files, where a header and its source are one. Others follow as they lose theirs.
NO_LOOPS = "base picture graph passes plan quantize measure tune calibrate evaluate study interop nvinfer report serve clients triton video zoo api".split()
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)


SOURCES = {".h", ".cc", ".cu", ".cuh"}


def cuda_problems():
    top = SRC / "backends/cuda"
    for path in sorted(top.rglob("*")):
        if path.suffix not in SOURCES or str(path.relative_to(SRC)) == CUDA_LIST:
            continue
        name, folder = path.relative_to(ROOT), str(path.parent.relative_to(top))
        if folder not in CUDA:
            yield f"{name}: the folder is not listed in CUDA of tests/check_layers.py"
            continue
        for include in INCLUDE.findall(path.read_text()):
            target = pathlib.PurePath(include)
            if target.parts[:2] != ("backends", "cuda"):
                continue
            target = str(target.parent.relative_to("backends/cuda"))
            if target not in {folder, *CUDA[folder].split()}:
                yield f"{name}: inside cuda, {folder} may not include {target} (\"{include}\")"


def loop_in(needs):
    """A list of names each of which needs the next, and the last the first; empty: there is none."""
    done, path = set(), []

    def visit(name):
        if name in path:
            return path[path.index(name):]
        if name in done:
            return []
        path.append(name)
        for other in sorted(needs.get(name, ())):
            if found := visit(other):
                return found
        path.pop()
        done.add(name)
        return []

    for name in sorted(needs):
        if found := visit(name):
            return found
    return []


def loops():
    for folder in NO_LOOPS:
        needs = {}
        for path in sorted((SRC / folder).rglob("*")):
            if path.suffix in SOURCES:
                unit = str(path.relative_to(SRC).with_suffix(""))
                others = {str(pathlib.PurePath(i).with_suffix("")) for i in INCLUDE.findall(path.read_text())}
                needs.setdefault(unit, set()).update(o for o in others - {unit} if o.startswith(folder + "/"))
        if found := loop_in(needs):
            yield f"src/{folder}: a loop of includes: {' -> '.join([*found, found[0]])}"
    # What a Python module imports when it is imported itself.
    package, needs = ROOT / "python/temper", {}
    for path in sorted(package.rglob("*.py")):
        here = path.relative_to(package).with_suffix("").parts
        needs["/".join(here)] = names = set()
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ImportFrom) and node.level:
                base = here[: len(here) - node.level] + tuple((node.module or "").split(".") if node.module else ())
                names.update("/".join(base + (alias.name,)) for alias in node.names)
                names.add("/".join(base))
    if found := loop_in({name: others & needs.keys() for name, others in needs.items()}):
        yield f"python/temper: a loop of imports: {' -> '.join([*found, found[0]])}"


def problems():
    for path in sorted(SRC.rglob("*")):
        if path.suffix not in SOURCES:
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


found = [*problems(), *cuda_problems(), *loops()]
print("\n".join(found) or "all includes point one way")
sys.exit(1 if found else 0)
