#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: cpp_clients.py TEMPER SOURCE_DIR [[CCACHE] CXX]: C++14 programs that know TensorRT alone are compiled and linked by its names, behind
`temper as-tensorrt --device cpu`, record our library, and compute what ONNX Runtime does, one of them with a network that it builds layer by layer; wrong use fails without a crash."""
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy
import onnx
import onnxruntime

temper, source = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
compiler = sys.argv[3:] or ["c++"]
model = source / "models/digits_cnn.onnx"


def run(api, *words):
    done = subprocess.run([temper, "as-tensorrt", "--device", "cpu", "--api", api, "--", *map(str, words)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{words[0]} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done


def compiled(api, name, folder, *flags, of="cpp"):
    """Compiled and linked in two commands: ccache keeps what is compiled alone."""
    program, compiled_alone = folder / f"{name}_{api}", folder / f"{name}_{api}.o"
    run(api, *compiler, *flags, "-std=c++14", "-Wall", "-Wextra", "-pedantic", "-Werror", "-c", source / f"tests/nvinfer/{of}/{name}.cc", "-o", compiled_alone)
    run(api, compiler[-1], *flags, compiled_alone, "-o", program, "-lnvinfer", "-lnvonnxparser", "-lnvinfer_plugin", "-lcudart")
    recorded = subprocess.run(["readelf", "-d", program], capture_output=True, text=True, check=True).stdout
    assert "[libtemper_nvinfer.so.0]" in recorded and "libnvinfer" not in recorded and "cudart" not in recorded, recorded
    return program


def names_of(api):
    """The classes and enumerations of the headers in that release, with their public members."""
    words = [compiler[-1], "-E", "-P", "-std=c++14", f"-DTEMPER_NVINFER_API={api}", f"-I{source}/include/nvinfer", "-include", "NvInferPlugin.h", "-include", "NvOnnxParser.h",
             "-x", "c++", "/dev/null"]  # fmt: skip
    text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    text = text[text.index("namespace nvinfer1") :]
    found, shared = {}, {}
    for match in re.finditer(r"\b(enum class|class|struct) (\w+)([^;{}()]*)\{", text):
        kind, name, base = match.groups()
        body, depth, at = "", 1, match.end()
        while depth:  # what stands in no inner braces
            depth += {"{": 1, "}": -1}.get(text[at], 0)
            body += text[at] if depth == 1 and text[at] != "}" else ";" if text[at] == "}" else ""
            at += 1
        members, shown = set(), kind != "class"
        if kind == "enum class":
            members = set(re.findall(r"\b(k\w+)\b(?=\s*[=,;])", body))
        else:
            for part in re.split(r"\b(public|private|protected)\s*:", body):
                if part in ("public", "private", "protected"):
                    shown = part == "public"
                elif shown:
                    for line in re.sub(r"=\s*(delete|default)", "", part).split(";"):
                        function = re.search(r"(?<!~)\b([A-Za-z]\w*)\s*\(\)", re.sub(r"\([^()]*\)", "()", re.sub(r"\([^()]*\)", "()", line)))
                        if function and "operator" not in line and "~" not in line:
                            members.add(function[1])
        shared.setdefault(name, set()).update(members | shared.get(base.split("::")[-1].strip(), set()) if re.search("stand_in::(Convolution|Recorded)", base) else members)
        found[name] = {member for member in shared[name] - {name} if member.startswith("k") or "_" not in member} - OURS_ALONE
    return {name: members for name, members in found.items() if name not in OURS}


OURS = {"Object", "Lines", "Recorded", "Wide", "Network", "Tensor", "LayerKind", "Profile", "ParserError", "Range", "Convolution"}  # of the namespace stand_in
OURS_ALONE = {"native", "filled", "number", "build", "ranges", "forget"}  # between the classes
listed = subprocess.run([temper, "as-tensorrt", "--list"], capture_output=True, text=True, check=True).stdout
rows = [line.split()[:3] for line in listed[listed.index("What is there in C++") :].splitlines()[1:] if line.strip()]
releases = ["8.6", "10.13", "11.1"]
for api, number in zip(releases, (806, 1013, 1101)):
    here = {name for name, first, last in rows if releases.index(first) <= releases.index(api) <= releases.index(last)}
    there = {name if member is None else f"{name}.{member}" for name, members in names_of(number).items() for member in (None, *members)}
    assert here == there, f"the list of C++ names and the headers of {api} differ: {sorted(here ^ there)}"

# Every function is called by a client; numbers of enumerations are constants.
texts = "".join(path.read_text() for path in [*(source / "tests/nvinfer/cpp").glob("*"), source / "tests/nvinfer/clients/lenet.cc"])
said = set(re.findall(r"\w+", texts))
kept = set(re.findall(r"KEEPS\([^,]+, (\w+)", texts))  # is set and read
said |= {f"{verb}{name}" for name in kept for verb in ("get", "set")}
silent = sorted(name for name, _, _ in rows if "." in name and not name.split(".")[1].startswith("k") and name.split(".")[1] not in said)
assert not silent, f"no client calls {silent}"


def expected(batch):
    x = (numpy.arange(batch * 64) * 37 % 101 / 100).astype("float32").reshape(batch, 1, 8, 8)
    return onnxruntime.InferenceSession(model).run(None, {"image": x})[0].ravel()


def lenet(path):
    """Writes weights for the client that builds LeNet layer by layer; what ONNX Runtime computes with them."""
    random = numpy.random.default_rng(0)
    shapes = {"conv1": (6, 1, 5, 5), "conv2": (16, 6, 5, 5), "fc1": (120, 400), "fc2": (84, 120), "fc3": (10, 84)}
    entries = {"input": random.uniform(0, 1, (1, 1, 32, 32))}
    nodes, x = [], "input"
    for name, shape in shapes.items():
        entries[f"{name}.weight"] = random.normal(0, 1 / numpy.sqrt(numpy.prod(shape[1:])), shape)
        entries[f"{name}.bias"] = random.normal(0, 0.1, shape[0])
        if name.startswith("conv"):
            nodes += [("Conv", [x, f"{name}.weight", f"{name}.bias"], {}), ("Relu", ["y"], {}), ("MaxPool", ["y"], {"kernel_shape": [2, 2], "strides": [2, 2]})]
        else:
            nodes += [("Flatten", [x], {})] * (name == "fc1") + [("Gemm", ["y", f"{name}.weight", f"{name}.bias"], {"transB": 1})]
            nodes += [("Relu", ["y"], {})] * (name != "fc3")
        x = "y"
    made = []
    for i, (op, inputs, attributes) in enumerate([*nodes, ("Softmax", ["y"], {})]):
        made.append(onnx.helper.make_node(op, [f"y{i - 1}" if name == "y" else name for name in inputs], [f"y{i}"], **attributes))
    entries = {name: value.astype("float32") for name, value in entries.items()}
    with open(path, "w") as file:
        print(len(entries), file=file)
        for name, value in entries.items():
            print(name, value.size, *(f"{bits:x}" for bits in value.ravel().view("uint32")), file=file)
    graph = onnx.helper.make_graph(
        made, "lenet", [onnx.helper.make_tensor_value_info("input", onnx.TensorProto.FLOAT, [1, 1, 32, 32])],
        [onnx.helper.make_tensor_value_info(made[-1].output[0], onnx.TensorProto.FLOAT, [1, 10])],
        [onnx.numpy_helper.from_array(value, name) for name, value in entries.items() if name != "input"])  # fmt: skip
    reference = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8)
    return onnxruntime.InferenceSession(reference.SerializeToString()).run(None, {"input": entries["input"]})[0].ravel()


with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    scores = lenet(folder / "lenet.wts")
    for api in ("8.6", "11.1"):
        got = numpy.array(run(api, compiled(api, "lenet", folder, of="clients"), folder / "lenet.wts").stdout.split(), "float32")
        assert got.shape == (10,) and abs(got - scores).max() < 1e-5 and got.max() > 0.11, (got, scores)
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("NonZero", ["x"], ["where"])], "nonzero",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [6])],
        [onnx.helper.make_tensor_value_info("where", onnx.TensorProto.INT64, [1, None])])  # fmt: skip
    nonzero = folder / "nonzero.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8), nonzero)
    for api, name, second, lines in (("8.6", "client_8", folder, 4), ("8.6", "client_10", folder, 4), ("10.13", "client_10", folder, 3),
                                     ("8.6", "callbacks", nonzero, 1), ("11.1", "callbacks", nonzero, 1), ("8.6", "ownership", folder, 1), ("10.13", "ownership", folder, 1),
                                     ("8.6", "every_name", folder, 0), ("10.13", "every_name", folder, 0), ("11.1", "every_name", folder, 0)):  # fmt: skip
        out = run(api, compiled(api, name, folder), model, second).stdout.splitlines()
        assert len(out) == lines, out
        for line in out:
            precision, batch, *values = line.split()
            off = abs(numpy.array(values, "float32") - expected(int(batch))).max()
            assert off < (0.5 if precision == "int8" else 1e-4), f"{name}: {precision} is off by {off}"
    stale = folder / "stale.plan"
    subprocess.run([temper, "build", model, "-o", stale, "--shapes", "1x1x8x8", "--no-measure", "--isa", "base"], check=True, capture_output=True)
    for api in ("8.6", "10.13"):
        done = run(api, compiled(api, "wrong_use", folder, "-fsanitize=address,undefined", "-fno-sanitize-recover=all"), model, stale)
        assert done.stdout == "every wrong use failed\n" and "wrote 28 bytes beyond a buffer" in done.stderr, done
    # Names that went with a release do not compile, and without the stand-in nothing does.
    for api, name, device, missing in (("10.13", "client_8", "cpu", "getBindingIndex"), ("11.1", "client_10", "cpu", "IInt8MinMaxCalibrator")):
        command = [temper, "as-tensorrt", "--device", device, "--api", api, "--", compiler[-1], "-std=c++14", "-fsyntax-only", source / f"tests/nvinfer/cpp/{name}.cc"]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode and missing in done.stderr, done.stderr
print("clients of 8.6 and 10.13 answer as ONNX Runtime does; every wrong use is refused")
