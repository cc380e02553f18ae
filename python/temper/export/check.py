# SPDX-License-Identifier: Apache-2.0
"""The same seeded inputs through the framework, ONNX Runtime and Temper; differences per output."""
import dataclasses
import json
import pathlib
import re
import shutil
import subprocess
import tempfile

import numpy as np

from .errors import BAD_FILE, NOT_SUPPORTED, ExportError, first_line, need

# Of the comparison |a - b| <= atol + rtol * |b|; b is the framework's answer.
TOLERANCE, HALF_TOLERANCE = (1e-3, 1e-4), (1e-2, 1e-2)


@dataclasses.dataclass
class Difference:
    output: str
    engine: str       # "ONNX Runtime 1.31.1", "Temper 0.7.0"
    shape: tuple[int, ...]
    largest: float    # of |a - b|
    relative: float   # of |a - b| / |b|, where |b| is above atol
    beyond: int       # elements over the tolerance
    spread: float     # standard deviation of the framework's answer
    note: str = ""    # what cannot be compared element by element

    @property
    def ok(self):
        return self.beyond == 0 and not self.note


def compare(output, engine, got, want, rtol, atol):
    """got against want, both arrays. NaN equals NaN, infinity itself; another shape or kind of type is a difference."""
    spread = float(np.std(want.astype(np.float64))) if want.size else 0.0
    if got.shape != want.shape:
        return Difference(output, engine, got.shape, np.inf, np.inf, int(got.size), spread, f"shape {list(got.shape)} instead of {list(want.shape)}")
    if np.issubdtype(got.dtype, np.floating) != np.issubdtype(want.dtype, np.floating):
        return Difference(output, engine, got.shape, np.inf, np.inf, int(got.size), spread, f"type {got.dtype} instead of {want.dtype}")
    a, b = got.astype(np.float64), want.astype(np.float64)
    with np.errstate(invalid="ignore"):
        difference = np.abs(a - b)
    difference[(a == b) | (np.isnan(a) & np.isnan(b))] = 0
    difference[np.isnan(difference)] = np.inf
    with np.errstate(invalid="ignore"):
        limit = atol + rtol * np.where(np.isfinite(b), np.abs(b), 0)
    large = (np.abs(b) > atol) & np.isfinite(b)
    relative = difference[large] / np.abs(b[large]) if large.any() else np.zeros(0)
    return Difference(output, engine, got.shape, float(difference.max(initial=0)), float(relative.max(initial=0)), int((difference > limit).sum()), spread)


class OnnxRuntime:
    def __init__(self, path):
        onnxruntime = need(["onnxruntime"], "onnxruntime")
        self.name = f"ONNX Runtime {onnxruntime.__version__}"
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        try:
            self.session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:
            raise ExportError(NOT_SUPPORTED, f"ONNX Runtime refuses {path}: {first_line(error)}") from error

    def names(self):
        return [i.name for i in self.session.get_inputs()], [o.name for o in self.session.get_outputs()]

    def run(self, arrays):
        try:
            return self.session.run(None, arrays)
        except Exception as error:
            raise ExportError(NOT_SUPPORTED, f"ONNX Runtime could not run the model: {first_line(error)}") from error


class TemperModule:
    """The native module of this Python package."""

    def __init__(self, path, outputs):
        import temper
        self.temper, self.path, self.outputs = temper, path, outputs
        self.name, self.how = f"Temper {temper.__version__}", f"Python module {pathlib.Path(temper.__file__).parent}"

    def run(self, arrays):
        try:
            engine = self.temper.build(str(self.path), shapes={n: a.shape for n, a in arrays.items()}, quick=True)
            answer = engine.run(arrays)
        except self.temper.Error as error:
            raise ExportError(NOT_SUPPORTED, f"Temper: {error}") from error
        return [np.asarray(answer[name]) for name in self.outputs]


class TemperProgram:
    """`temper run`, which builds the model on the spot."""

    def __init__(self, path, outputs, program):
        self.path, self.outputs, self.program = path, outputs, program
        try:
            said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
        except (OSError, subprocess.CalledProcessError) as error:
            raise ExportError(BAD_FILE, f"'{program}' is no program of Temper: {first_line(error)}") from error
        self.name, self.how = "Temper " + (said.split() + ["?", "?"])[1], f"program {program}"

    def run(self, arrays):
        with tempfile.TemporaryDirectory() as folder:
            command = [self.program, "run", str(self.path), "--quick", "--quiet", "--top", "0", "--output-dir", folder]
            for index, (name, array) in enumerate(arrays.items()):
                file = pathlib.Path(folder) / f"in{index}.npy"
                np.save(file, array)
                command += ["--input", f"{name}={file}"]
            first = next(iter(arrays.values()), None)
            if first is not None and first.ndim:
                command += ["--batch", str(first.shape[0])]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode != 0:
                lines = [line for line in done.stderr.splitlines() if line.startswith("temper: ")] or done.stderr.splitlines() or [f"ended with {done.returncode}"]
                raise ExportError(NOT_SUPPORTED, f"Temper refuses the model: {lines[-1].removeprefix('temper: ')}")
            return [np.load(pathlib.Path(folder) / (re.sub(r"[^A-Za-z0-9._-]", "_", name) + ".npy")) for name in self.outputs]


def temper_for(path, outputs, program=None):
    """The program where it is named, else the native module, else `temper` on the path or beside this checkout; None without any."""
    if program:
        return TemperProgram(path, outputs, program)
    try:
        import temper._temper  # noqa: F401
        return TemperModule(path, outputs)
    except ImportError:
        pass
    beside = pathlib.Path(__file__).resolve().parents[3] / "build" / "temper"
    found = shutil.which("temper") or (str(beside) if beside.is_file() else None)
    return TemperProgram(path, outputs, found) if found else None


@dataclasses.dataclass
class Report:
    ok: bool
    framework: str
    source: str
    engines: list[str]
    differences: list[Difference]
    refusals: list[str]
    sizes: list[str]
    rtol: float
    atol: float

    def json(self):
        entry = dataclasses.asdict(self)
        for difference, made in zip(entry["differences"], self.differences):
            difference["ok"] = made.ok
        return json.dumps(entry, indent=1)


def check(path, source, seed, rtol, atol, program=None, say=print):
    """Runs `path` beside `source`; says a line per output and engine. Every open axis is tried at a second size, too."""
    runtime = OnnxRuntime(path)
    fed, outputs = runtime.names()
    names = [p.name for p in source.inputs]
    if set(fed) - set(names):
        raise ExportError(BAD_FILE, f"{path} has the inputs {', '.join(fed)}, the source has {', '.join(names)}: the file was not made from it")
    temper = temper_for(path, outputs, program)
    engines = [runtime] + ([temper] if temper else [])
    symbols = {s: p.shape[a] for p in source.inputs for a, s in p.symbols.items()}
    larger = {s: size + (1 if s in ("batch", "sequence", "past") else 32) for s, size in symbols.items()}
    larger |= {s: sum(larger[part] for part in s.split(" + ")) for s in larger if " + " in s}
    variants = [None] + ([larger] if symbols else [])
    report = Report(True, source.framework, source.description, [e.name for e in engines], [], [], [], rtol, atol)
    if not temper:
        say("warning: neither Temper's native module nor its program is there: only ONNX Runtime is compared")
    else:
        say(f"Temper is the {temper.how}")
    for sizes in variants:
        arrays = source.fill(seed, sizes)
        report.sizes.append(", ".join(f"{n} {a.dtype}[{','.join(map(str, a.shape))}]" for n, a in arrays.items()))
        say(f"inputs (seed {seed}): {report.sizes[-1]}")
        want = source.run(arrays)
        if len(want) != len(outputs):
            raise ExportError(BAD_FILE, f"{path} has {len(outputs)} outputs, the source has {len(want)}")
        for engine in engines:
            try:
                got = engine.run({n: a for n, a in arrays.items() if n in fed})
            except ExportError as error:
                report.ok = False
                report.refusals.append(f"{engine.name}: {error}")
                say(f"  {engine.name} against {source.framework}: REFUSED: {error}")
                continue
            for name, (_, expected), answer in zip(outputs, want, got):
                d = compare(name, engine.name, answer, expected, rtol, atol)
                report.differences.append(d)
                report.ok &= d.ok
                verdict = "ok" if d.ok else f"DIFFERS{': ' + d.note if d.note else ''}"
                say(f"  {name} [{','.join(map(str, d.shape))}] {engine.name} against {source.framework}: largest difference {d.largest:.3g} "
                    f"(relative {d.relative:.3g}), {d.beyond} of {answer.size} beyond rtol {rtol:g} atol {atol:g}: {verdict}")
        for name, (_, expected) in zip(outputs, want):
            if np.issubdtype(expected.dtype, np.floating) and expected.size > 1 and np.std(expected.astype(np.float64)) < 10 * atol:
                say(f"  warning: {name} hardly varies (standard deviation {np.std(expected.astype(np.float64)):.2g}), so this agreement says little")
    return report
