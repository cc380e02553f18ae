#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: gpu.py TEMPER [--folder FOLDER] [--repeats N] [--rows WORDS] [--cuda CUDA]

Runs programs that know TensorRT alone on this machine's GPU, behind `temper as-tensorrt`, and prints a row for each: whether it passed, and what
was found. A row whose package is not installed is left out, by name. Needs the Python package `temper` for the Python that runs this; PyTorch,
torchvision, cuda-python, cupy, pycuda, ultralytics and compute-sanitizer where they are there. FOLDER: programs of others, for the rows of run.py."""
import argparse
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

import numpy

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parent.parent.parent
MODEL = SOURCE / "models/digits_cnn.onnx"
APIS = ("8.6", "10.13", "11.1")


class LeftOut(Exception):
    pass


class Failed(Exception):
    pass


def needs(*packages):
    missing = [name for name in packages if importlib.util.find_spec(name.split(".")[0]) is None]
    if missing:
        raise LeftOut(f"{', '.join(missing)}: not installed")


def last_line(text):
    return (text.strip().splitlines() or [""])[-1][-300:]


class Rows:
    def __init__(self, options, work):
        self.options, self.work = options, pathlib.Path(work)

    def command(self, *words, api="8.6", timeout=300, front=()):
        """The output of a command behind as-tensorrt; Failed where it does not end well."""
        whole = [*front, self.options.temper, "as-tensorrt", "--device", "cuda:0", "--api", api, "--", *map(str, words)]
        try:
            done = subprocess.run(whole, capture_output=True, text=True, timeout=timeout, cwd=self.work)
        except subprocess.TimeoutExpired:
            raise Failed(f"{words[1]} took more than {timeout} s") from None
        if done.returncode:
            raise Failed(f"exit code {done.returncode}: {done.stdout[-600:]} {done.stderr[-600:]}")
        return done.stdout

    def python(self, script, *words, api="8.6", **named):
        return self.command(sys.executable, HERE / script, *words, api=api, **named)

    def compiled(self, path, api):
        cuda = pathlib.Path(self.options.cuda)
        if not (cuda / "include/cuda_runtime_api.h").exists():
            raise LeftOut(f"there is no cuda_runtime_api.h in {cuda}/include")
        program = self.work / f"{path.stem}_{api}"
        self.command("g++", "-std=c++14", "-O1", path, "-o", program, f"-I{cuda}/include", f"-L{cuda}/lib64", f"-L{cuda}/lib", "-lnvinfer", "-lnvonnxparser",
                     "-lcudart", f"-Wl,-rpath,{cuda}/lib64", api=api)  # fmt: skip
        return program

    @staticmethod
    def each(parts):
        """What the parts found, which are (name, call); all are tried, and Failed says which failed."""
        said, failed, left = [], [], []
        for name, call in parts:
            start = time.monotonic()
            try:
                to, what = said, f"{name}: {call()}"
            except LeftOut as error:
                to, what = left, f"{name} left out ({error})"
            except Failed as error:
                to, what = failed, f"{name} FAILED: {error}"
            to.append(what)
            print(f"  {what} ({time.monotonic() - start:.0f} s)", flush=True)
        if failed:
            raise Failed("; ".join(failed + said + left))
        if not said:
            raise LeftOut("; ".join(left))
        return "; ".join(said + left)

    # ---- the rows ----

    def facts(self):
        """the CUDA driver: contexts beside each other"""
        done = subprocess.run([sys.executable, HERE / "gpu_facts.py"], capture_output=True, text=True, timeout=600)
        print(done.stdout, end="")
        return "printed above"

    def folder(self):
        """rows 1 to 13: programs of others, with run.py"""
        if not self.options.folder:
            raise LeftOut("no --folder was given")
        done = subprocess.run([sys.executable, HERE / "run.py", self.options.temper, self.options.folder, "--device", "cuda:0"], capture_output=True, text=True)
        print(done.stdout, end="")
        if done.returncode:
            raise Failed("see above")
        return "printed above"

    def ultralytics(self):
        """row 16: Ultralytics exports YOLOv8n and predicts"""
        needs("ultralytics")
        # Not as 11.1: Ultralytics asks for EXPLICIT_BATCH, which went with TensorRT 11.
        kinds = ((("8.6",), ("8.6", "--half"), ("8.6", "--int8"), ("8.6", "--dynamic"), ("10.13", "--half")))
        return self.each((" ".join(kind), lambda kind=kind: last_line(self.python("gpu_ultralytics.py", *kind[1:], api=kind[0], timeout=580))) for kind in kinds)

    def runners(self):
        """row 17: programs that hold their buffers with cudart, pycuda, PyTorch, cupy"""
        def run(package, module, api):
            needs(module)
            return last_line(self.python("gpu_runners.py", MODEL, package, api=api))

        modules = {"cudart": "cuda", "pycuda": "pycuda", "torch": "torch", "cupy": "cupy"}
        return self.each((f"{package} {api}", lambda p=package, a=api: run(p, modules[p], a)) for package in modules for api in (APIS if package == "torch" else APIS[:1]))

    def polygraphy(self):
        """row 15: Polygraphy, with TensorRT's runner and with Temper's"""
        needs("polygraphy")
        shapes = [f"--trt-{which}-shapes=image:[{batch},1,8,8]" for which, batch in (("min", 1), ("opt", 2), ("max", 4))]
        tool = "import sys; from polygraphy.tools import main; sys.exit(main())"

        def run(*words):
            output = self.command(sys.executable, "-c", tool, "run", MODEL, "--onnxrt", *words, "--input-shapes", "image:[2,1,8,8]")
            if "PASSED" not in output:
                raise Failed(output[-300:])
            return "PASSED"

        return self.each([("--trt", lambda: run("--trt", *shapes)), ("--trt --fp16", lambda: run("--trt", "--fp16", *shapes, "--atol", "1e-1"))])

    def cpp(self):
        """row 17: programs in C++ against the CUDA runtime"""
        import onnxruntime

        session = onnxruntime.InferenceSession(MODEL, providers=["CPUExecutionProvider"])
        worst = {}
        for api, name in (("8.6", "client_8"), ("8.6", "client_10"), ("10.13", "client_10")):
            for line in self.command(self.compiled(HERE.parent / "cpp" / f"{name}.cc", api), MODEL, self.work, api=api).splitlines():
                precision, batch, *values = line.split()
                x = (numpy.arange(int(batch) * 64) * 37 % 101 / 100).astype("float32").reshape(-1, 1, 8, 8)
                off = abs(numpy.array(values, "float32") - session.run(None, {"image": x})[0].ravel()).max()
                worst[precision] = max(worst.get(precision, 0), off)
        if worst["fp32"] > 0.02 or worst.get("int8", 0) > 0.5:  # TF32 is on, as it is in TensorRT
            raise Failed(f"off by {worst}")
        return f"off by {worst}"

    def networks(self):
        """row 19: LeNet, ResNet-50 and ResNet-18, built layer by layer, beside PyTorch"""
        needs("torch", "torchvision")

        def compare(name, api):
            expected = reference(name, self.work)
            got = numpy.array(self.command(self.compiled(HERE / f"{name}.cc", api), f"{name}.wts", api=api).split(), "float32")
            off = abs(got - expected).max() / abs(expected).max() if got.shape == expected.shape else numpy.inf
            if not off < 1e-4:
                raise Failed(f"off by {off}")
            return f"off by {off:.1e}"

        parts = [(f"{name} {api}", lambda name=name, api=api: compare(name, api)) for name, api in (("lenet", "8.6"), ("lenet", "11.1"), ("resnet50", "8.6"), ("resnet50", "10.13"))]
        for api, *flags in (("8.6",), ("8.6", "--half"), ("10.13",), ("11.1",)):
            parts.append((f"resnet18 {api} {' '.join(flags)}", lambda api=api, flags=flags: last_line(self.python("resnet18.py", *flags, api=api))))
        return self.each(parts)

    def stress(self):
        """row 18: streams, threads, recordings, contexts, lifetimes, forks"""
        needs("torch")
        output = self.python("gpu_stress.py", MODEL, "--repeats", self.options.repeats, timeout=580)
        print(output, end="")
        return f"{self.options.repeats} repeats"

    def sanitizer(self):
        """row 18 under compute-sanitizer, 20 repeats"""
        needs("torch")
        tool = shutil.which("compute-sanitizer") or shutil.which(f"{self.options.cuda}/bin/compute-sanitizer")
        if not tool:
            raise LeftOut("compute-sanitizer: not installed")
        # Errors that the driver returns and that are handled are no findings (--report-api-errors no).
        front = [tool, "--tool", "memcheck", "--target-processes", "all", "--report-api-errors", "no", "--error-exitcode", "77"]
        self.python("gpu_stress.py", MODEL, "--repeats", 1, "--plan", "stress.plan")  # built outside: there thousands of kernels run to be timed
        self.python("gpu_stress.py", MODEL, "--repeats", 20, "--plan", "stress.plan", timeout=580, front=front)
        return "no finding"

    def cost(self):
        """what a call costs beside engine.run, in Python and in C++ (at most 15 and 5 us)"""
        program = self.work / "cost.py"
        program.write_text(COST)
        said = last_line(self.command(sys.executable, program, MODEL))
        more = float(re.search(r"([-0-9.]+) us more", said)[1])
        if more > 15:
            raise Failed(said)
        return said


COST = """
import statistics, sys, time
import numpy, temper, tensorrt as trt
from temper.tensorrt import _builder
logger = trt.Logger(trt.Logger.ERROR)
builder = trt.Builder(logger)
network = builder.create_network(1)
trt.OnnxParser(network, logger).parse_from_file(sys.argv[1])
config = builder.create_builder_config()
profile = builder.create_optimization_profile()
profile.set_shape("image", (1, 1, 8, 8), (1, 1, 8, 8), (1, 1, 8, 8))
config.add_optimization_profile(profile)
plan = builder.build_serialized_network(network, config)
engine = trt.Runtime(logger).deserialize_cuda_engine(plan)
context = engine.create_execution_context()
open("cost.plan", "wb").write(plan)
own = temper.load("cost.plan")
import torch
x, y = torch.zeros(1, 1, 8, 8, device="cuda"), torch.zeros(1, 10, device="cuda")
context.set_input_shape("image", (1, 1, 8, 8))
context.set_tensor_address("image", x.data_ptr()), context.set_tensor_address("logits", y.data_ptr())
stream = torch.cuda.Stream()
def dropped():
    context.execute_async_v3(stream.cuda_stream)
    stream.synchronize()
def waits():
    context.execute_v2([x.data_ptr(), y.data_ptr()])
def direct():
    own.run({"image": x})
def median(call):
    for _ in range(300): call()
    times = []
    for _ in range(2000):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e6
a, b, c = median(direct), median(dropped), median(waits)
print(f"engine.run {a:.1f} us, execute_async_v3 {b:.1f}, execute_v2 {c:.1f}: {min(b, c) - a:.1f} us more")
"""


def write_weights(path, entries):
    with open(path, "w") as file:
        print(len(entries), file=file)
        for name, value in entries.items():
            bits = numpy.ascontiguousarray(value, "float32").ravel().view("uint32")
            print(name, bits.size, " ".join(f"{word:x}" for word in bits.tolist()), file=file)


def reference(name, folder):
    """Writes NAME.wts, weights by PyTorch's names and the input, unless it is there; what PyTorch computes with them, on the CPU."""
    import torch
    import torchvision

    class LeNet(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.conv2 = torch.nn.Conv2d(1, 6, 5), torch.nn.Conv2d(6, 16, 5)
            self.fc1, self.fc2, self.fc3 = torch.nn.Linear(400, 120), torch.nn.Linear(120, 84), torch.nn.Linear(84, 10)

        def forward(self, x):
            x = torch.max_pool2d(torch.relu(self.conv1(x)), 2)
            x = torch.max_pool2d(torch.relu(self.conv2(x)), 2)
            return torch.softmax(self.fc3(torch.relu(self.fc2(torch.relu(self.fc1(x.flatten(1)))))), 1)

    torch.manual_seed(0)
    model = (LeNet() if name == "lenet" else torchvision.models.resnet50(weights=None)).eval()
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):  # as if it had been trained
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
    x = torch.rand((1, 1, 32, 32) if name == "lenet" else (1, 3, 224, 224))
    with torch.no_grad():
        expected = model(x).numpy().ravel()
    path = folder / f"{name}.wts"
    if not path.exists():
        entries = {key: value.numpy() for key, value in model.state_dict().items() if value.is_floating_point()}
        write_weights(path, {**entries, "input": x.numpy()})
    return expected


ALL = ("facts", "folder", "polygraphy", "ultralytics", "runners", "cpp", "networks", "stress", "sanitizer", "cost")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[1])
    parser.add_argument("temper", type=lambda path: str(pathlib.Path(path).resolve()))
    parser.add_argument("--folder")
    parser.add_argument("--repeats", type=int, default=1000)
    parser.add_argument("--rows", default=",".join(ALL), help="which, with commas between them")
    parser.add_argument("--cuda", default=os.environ.get("CUDA_HOME", "/usr/local/cuda"), help="the folder of the CUDA toolkit")
    options = parser.parse_args()
    table, failed = [], 0
    with tempfile.TemporaryDirectory() as work:
        rows = Rows(options, work)
        for name in options.rows.split(","):
            call, start = getattr(rows, name), time.monotonic()
            try:
                result = ("passed", call())
            except LeftOut as error:
                result = ("left out", str(error))
            except Exception as error:  # noqa: BLE001 - whatever it is, the other rows are tried
                failed += 1
                result = ("FAILED", f"{error}" if isinstance(error, Failed) else repr(error))
            table.append((result[0], call.__doc__, f"{result[1]} ({time.monotonic() - start:.0f} s)"))
            print(f"{table[-1][0]:8}  {table[-1][1]}: {table[-1][2]}", flush=True)
    print("\n| row | result | what was found |\n|---|---|---|")
    for result, what, found in table:
        print(f"| {what} | {result} | {' '.join(found.split())} |")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
