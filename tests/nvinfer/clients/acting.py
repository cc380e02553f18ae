# SPDX-License-Identifier: Apache-2.0
"""Rows whose programs are ours (programs/): each makes the calls of a public program, in its order and with its mistakes, on models that are
made here. They run everywhere; what they answer is compared with ONNX Runtime."""
import functools
import json
import os
import pathlib
import sys
import tempfile

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from row import MODEL, PROGRAMS, expect, needs

def run(row, name, *words, code=0, api=None):
    """What the program of that name said, on both outputs, when it ended with the code that it must."""
    row.acted = True
    got, out, err = row.run(sys.executable, PROGRAMS / f"{name}.py", *words, api=api)
    expect(got == code, f"{name}.py: exit code {got}: {out[-300:]}{err[-600:]}")
    return out + err


def saved(path, name, nodes, ports, weights):
    made = [helper.make_tensor_value_info(port, TensorProto.FLOAT, shape) for port, shape in ports]
    graph = helper.make_graph(nodes, name, made[:1], made[1:], [numpy_helper.from_array(numpy.asarray(w), n) for n, w in weights.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)


def answers(path, x):
    session = onnxruntime.InferenceSession(path)
    return session.run(None, {session.get_inputs()[0].name: x})[0]


@functools.cache
def pictures():
    """100 pictures of ten kinds, [100, 32, 32, 3], and their labels."""
    random = numpy.random.default_rng(3)
    labels = numpy.arange(100) % 10
    colours, noise = random.uniform(0, 1, (10, 1, 1, 3)), random.uniform(-0.1, 0.1, (100, 32, 32, 3))
    stripes = numpy.sin(numpy.arange(32)[:, None, None] * (1 + labels[:, None, None, None] % 5) / 3) / 4
    return numpy.clip(colours[labels] + stripes + noise, 0, 1).astype("float32"), labels


def classifier(row):
    """pictures.onnx, as Keras exports (input_1 [-1, 32, 32, 3] to dense_1 [-1, 10]), whose last layer is fitted to the pictures."""
    path = row.work / "pictures.onnx"
    if path.exists():
        return path
    samples, labels = pictures()
    random = numpy.random.default_rng(0)
    weights = {"w": random.normal(0, 0.3, (32, 3, 5, 5)), "v": numpy.eye(32), "b": numpy.zeros(32)}
    nodes = [helper.make_node("Transpose", ["input_1"], ["x"], perm=[0, 3, 1, 2]), helper.make_node("Conv", ["x", "w"], ["c"], strides=[2, 2]),
             helper.make_node("Relu", ["c"], ["r"]), helper.make_node("GlobalAveragePool", ["r"], ["p"]), helper.make_node("Flatten", ["p"], ["f"]),
             helper.make_node("Gemm", ["f", "v", "b"], ["g"]), helper.make_node("Softmax", ["g"], ["dense_1"], axis=-1)]  # fmt: skip

    def save(classes, *which):
        ports = [("input_1", ["N", 32, 32, 3]), (which[0], ["N", classes])]
        saved(path, "pictures", nodes[: len(nodes) - (which[0] == "g")], ports, {name: w.astype("float32") for name, w in weights.items()})

    save(32, "g")
    features = answers(path, samples).astype("float64")
    wanted = 8 * (numpy.eye(10)[labels] - 0.5)
    centred = features - features.mean(0)
    weights["v"] = numpy.linalg.solve(centred.T @ centred + 1e-6 * numpy.eye(32), centred.T @ wanted)
    weights["b"] = wanted.mean(0) - features.mean(0) @ weights["v"]
    save(10, "dense_1")
    right = (answers(path, samples).argmax(1) == labels).mean()
    expect(right > 0.97, f"the fixture is right for {right:.0%} of its pictures")
    return path


def detector(row):
    """detector.onnx: images [1, 3, 64, 64] to output0 [1, 4 + 3, 80]: x, y, width and height, and scores of three classes, at two strides."""
    random, path = numpy.random.default_rng(7), row.work / "detector.onnx"
    nodes, weights, parts = [], {"two": numpy.float32(2), "half": numpy.float32(0.5)}, []
    for stride in (8, 16):
        size, s = 64 // stride, str(stride)
        grid = numpy.stack(numpy.meshgrid(numpy.arange(size), numpy.arange(size)))[None].astype("float32")
        weights |= {"stem" + s: random.normal(0, 2 / stride, (16, 3, stride, stride)).astype("float32"), "head" + s: random.normal(0, 0.5, (7, 16, 1, 1)).astype("float32"),
                    "grid" + s: grid, "stride" + s: numpy.float32(stride), "flat" + s: numpy.array([1, 7, size * size])}  # fmt: skip
        steps = [("Conv", ["images", "stem"], ["a"], {"strides": [stride, stride]}), ("Sigmoid", ["a"], ["g"], {}), ("Mul", ["a", "g"], ["silu"], {}),
                 ("Conv", ["silu", "head"], ["h"], {}), ("Sigmoid", ["h"], ["p"], {}), ("Split", ["p", "sizes"], ["xy", "wh", "scores"], {"axis": 1}),
                 ("Mul", ["xy", "two"], ["xy2"], {}), ("Sub", ["xy2", "half"], ["moved"], {}), ("Add", ["moved", "grid"], ["at"], {}),
                 ("Mul", ["at", "stride"], ["centre"], {}), ("Mul", ["wh", "two"], ["wh2"], {}), ("Mul", ["wh2", "wh2"], ["squared"], {}),
                 ("Mul", ["squared", "stride"], ["extent"], {}), ("Concat", ["centre", "extent", "scores"], ["all"], {"axis": 1}), ("Reshape", ["all", "flat"], ["part"], {})]  # fmt: skip
        for op, inputs, outputs, attributes in steps:
            named = [name if name in ("images", "two", "half", "sizes") else name + s for name in inputs]
            nodes.append(helper.make_node(op, named, [name + s for name in outputs], **attributes))
        parts.append("part" + s)
    weights["sizes"] = numpy.array([2, 2, 3])
    nodes.append(helper.make_node("Concat", parts, ["output0"], axis=2))
    saved(path, "detector", nodes, [("images", [1, 3, 64, 64]), ("output0", [1, 7, 80])], weights)
    return path


def without_profile(row):
    """a converter without a profile (DaisukeIshibe/TensorRT, convert_to_tensorrt.py) builds nothing of an open batch"""
    said = run(row, "no_profile", classifier(row), "none.trt", code=1)
    expect("Failed to build" in said and "no optimization profile has been defined" in said, said[-300:])
    expect(not (row.work / "none.trt").exists(), "an engine was written")
    from_one = onnx.load(classifier(row))
    from_one.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1
    onnx.save(from_one, row.work / "one_picture.onnx")
    expect("ran" in run(row, "no_profile", "one_picture.onnx", "one.trt"), "a fixed batch was not built and run")
    return "'Failed to build', with TensorRT's words for why; a fixed batch is built and runs"


def named_batches(row):
    """converter, comparison, times and precisions with named tensors (DaisukeIshibe/TensorRT, five programs)"""
    model = classifier(row)
    samples, labels = pictures()
    numpy.save(row.work / "pictures.npy", samples.astype("float64"))  # as the public samples are
    run(row, "batch_profile", model, "input_1", "batches.trt", api="10.13")
    said = run(row, "precisions", model, "input_1", "pictures.npy", 10, ".", api="10.13")
    expect(row.options.device != "cpu" or "FP16: layers stay in FP32" in said, "nothing says that FP16 stays in FP32")
    expect((row.work / "named.cache").read_bytes().startswith(b"TRT-"), "no cache")
    run(row, "compare_named", "pictures.npy", "one.json", 32, "batches.trt")
    run(row, "compare_named", "pictures.npy", "three.json", 10, "fp32.trt", "fp16.trt", "int8.trt", api="10.13")
    wanted = answers(model, samples)
    results = {}
    for name in ("one.json", "three.json"):
        written = json.loads((row.work / name).read_text())
        expect(written["tensorrt"].endswith("+temper"), written["tensorrt"])
        results |= written["results"]
    got = {name: numpy.array(of["answers"], "float32") for name, of in results.items()}
    expect(all(of["samples_per_second"] > 0 for of in results.values()), "no time was taken")
    for name in ("batches.trt", "fp32.trt"):
        apart = abs(got[name] - wanted).max()
        expect(apart <= row.tolerance and (got[name].argmax(1) == wanted.argmax(1)).all(), f"{name} is off by {apart}")
    expect((got["fp16.trt"].argmax(1) == wanted.argmax(1)).mean() >= 0.99, "FP16 answers otherwise")
    right = {name: int((of.argmax(1) == labels).sum()) for name, of in got.items()}
    expect(abs(right["int8.trt"] - right["fp32.trt"]) <= 1, f"accuracy: {right}")
    said = run(row, "compare_named", "pictures.npy", "none.json", 33, "batches.trt", code=1)
    expect("not in optimization profile 0" in said and "the shape was refused" in said, said[-300:])
    return f"FP32 off by {abs(got['batches.trt'] - wanted).max():.0e}; right of 100: {right['fp32.trt']} in FP32, {right['int8.trt']} in INT8; 33 are refused"


def converted(row):
    """converter with two calibrators, in the style of 8.x (JO-HEEJIN/nvidia-devtech-portfolio, 01)"""
    model = row.work / "input_output.onnx"
    made = onnx.load(MODEL)
    for names, new in ((made.graph.input, "input"), (made.graph.output, "output")):
        old = names[0].name
        names[0].name = new
        for node in made.graph.node:
            for list_of in (node.input, node.output):
                list_of[:] = [new if name == old else name for name in list_of]
    onnx.save(made, model)
    for precision, more in (("fp32", []), ("fp16", []), ("int8", []), ("int8", ["--calibrator", "minmax"])):
        engine = f"{precision}{len(more)}.engine"
        said = run(row, "convert_bindings", model, engine, "--precision", precision, *more)
        expect("Engine built successfully" in said, said[-300:])
        about = json.loads((row.work / f"{engine}.json").read_text())
        expect(about["tensorrt_version"].endswith("+temper"), about)
        expect([b["dtype"] for b in about["bindings"]] == ["DataType.FLOAT"] * 2 and [b["is_input"] for b in about["bindings"]] == [True, False], about)
        expect(about["max_batch_size"] == 1 and about["layers"] > 0, about)
        expect(precision != "int8" or (row.work / f"{engine}.cache").stat().st_size > 40, "no cache")
        expect(row.temper("inspect", engine).returncode == 0, "temper does not read it")
    first, second = ((row.work / f"int8{n}.engine.cache").read_bytes() for n in (0, 2))
    expect(b"EntropyCalibration2" in first and b"MinMaxCalibration" in second, "the caches say another method")
    return "four engines, two calibrators, metadata of each"


def inferred(row):
    """inference that leaves None among its bindings, and its port to 10.x (JO-HEEJIN/nvidia-devtech-portfolio, 01)"""
    x = numpy.random.default_rng(1).uniform(0, 1, (3, 1, 8, 8)).astype("float32")
    numpy.save(row.work / "x.npy", x)
    said = run(row, "infer_bindings", "fp320.engine", "x.npy", "y.npy", code=1)
    expect("TypeError" in said and not (row.work / "y.npy").exists(), said[-300:])
    wanted = answers(row.work / "input_output.onnx", x)
    run(row, "infer_bindings", "fp320.engine", "x.npy", "y.npy", "--repaired")
    run(row, "infer_named", "input_output.onnx", "x.npy", "z.npy", api="10.13")
    for name in ("y.npy", "z.npy"):
        got = numpy.load(row.work / name)
        expect(got.shape == wanted.shape and abs(got - wanted).max() < row.tolerance * max(1, abs(wanted).max() * (row.tolerance > 1e-4)), f"{name} is off by {abs(got - wanted).max()}")
    return "TypeError, as on TensorRT; repaired and ported they equal ONNX Runtime"


def detected(row):
    """a detector (JO-HEEJIN/nvidia-devtech-portfolio, 03) and positional calls of an encoder (08)"""
    model = detector(row)
    run(row, "convert_bindings", model, "detector.engine", "--direct-io")
    x = numpy.random.default_rng(2).uniform(0, 1, (1, 3, 64, 64)).astype("float32")
    numpy.save(row.work / "image.npy", x)
    run(row, "detect", "detector.engine", "image.npy", "boxes.npy")
    found = answers(model, x)[0].T
    kept = []
    for i in numpy.argsort(-found[:, 4:].max(1), kind="stable"):
        low, high = found[i, :2] - found[i, 2:4] / 2, found[i, :2] + found[i, 2:4] / 2
        inside = [numpy.clip(numpy.minimum(high, k[2:4]) - numpy.maximum(low, k[:2]), 0, None).prod() for k in kept]
        union = [(high - low).prod() + (k[2:4] - k[:2]).prod() - both for k, both in zip(kept, inside)]
        if found[i, 4:].max() >= 0.5 and all(both <= 0.45 * all_ for both, all_ in zip(inside, union)):
            kept.append(numpy.array([*low, *high, found[i, 4:].max(), found[i, 4:].argmax()]))
    boxes = numpy.load(row.work / "boxes.npy")
    expect(len(kept) > 5 and boxes.shape == (len(kept), 6), f"{boxes.shape} boxes, not {len(kept)}")
    expect(abs(boxes - numpy.array(kept)).max() < (1e-3 if row.options.device == "cpu" else 64 * row.tolerance), f"boxes are off by {abs(boxes - numpy.array(kept)).max()}")
    return f"{len(kept)} boxes are ONNX Runtime's within {abs(boxes - numpy.array(kept)).max():.0e}"


def pasted(row):
    """a tutorial's snippet, with EXPLICIT_BATCH and without"""
    fixed = onnx.load(MODEL)
    fixed.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1
    onnx.save(fixed, row.work / "fixed.onnx")
    for flags, api in (("explicit", "8.6"), ("none", "8.6"), ("none", "10.13")):
        run(row, "snippet", "fixed.onnx", "snippet.engine", flags, api=api)
        read = row.temper("inspect", "snippet.engine")
        expect(read.returncode == 0 and "logits" in read.stdout, read.stderr)
        (row.work / "snippet.engine").unlink()
    return "three engines that temper inspect reads"


def explored(row):
    """an explorer of engines (TREX, process_engine.py) and a runner of trtexec (Polygraphy's)"""
    said = run(row, "explore", MODEL, "image:2x1x8x8", "explored").splitlines()[0]
    layers = json.loads((row.work / "explored/metadata.json").read_text())["layers"]
    expect(layers >= 3, f"{layers} layers")
    x = numpy.random.default_rng(4).uniform(0, 1, (2, 1, 8, 8)).astype("float32")
    numpy.save(row.work / "runner.npy", x)
    run(row, "outputs", MODEL, "image", "runner.npy", "runner_y.npy")
    got, wanted = numpy.load(row.work / "runner_y.npy"), answers(MODEL, x)
    expect(got.shape == wanted.shape and abs(got - wanted).max() < row.tolerance * max(1, abs(wanted).max()), "the outputs are others than ONNX Runtime's")
    read = row.temper("explain", "explored/graph.json", "explored/profile.json")
    expect(read.returncode == 0, read.stderr)
    return f"{said}; every layer has its profile; outputs equal ONNX Runtime's"


def compared(row):
    """Polygraphy itself: its runner of Temper, and as a client (run --trt, --int8, convert, inspect model)"""
    needs("polygraphy")
    metadata = pathlib.Path(tempfile.mkdtemp(dir=row.work))  # the entry point, as an installed package has it
    (metadata / "temper-0.dist-info").mkdir()
    (metadata / "temper-0.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: temper\nVersion: 0\n")
    (metadata / "temper-0.dist-info/entry_points.txt").write_text("[polygraphy.run.plugins]\ntemper = temper.polygraphy:argument_groups\n")
    environment = {"PYTHONPATH": os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(metadata)]), "POLYGRAPHY_AUTOINSTALL_DEPS": "0"}
    main, shapes = "import sys; from polygraphy.tools import main; sys.exit(main())", ["--input-shapes", "image:[2,1,8,8]"]

    def polygraphy(*words):
        code, out, err = row.run(sys.executable, "-c", main, *words, environment=environment)
        expect(code == 0, f"polygraphy {words[0]}: exit code {code}: {out[-400:]}{err[-400:]}")
        return out

    passed = "PASSED | simple | All outputs matched"
    expect(passed in polygraphy("run", MODEL, "--onnxrt", "--temper", "--temper-device", row.options.device, "--atol", "1e-4", *shapes), "--temper does not match")
    expect(passed in polygraphy("run", MODEL, "--onnxrt", "--trt", "--atol", "1e-4", *shapes), "--trt does not match")
    polygraphy("convert", MODEL, "-o", "polygraphy.engine", *shapes)
    expect("[Op: Convolution]" in polygraphy("inspect", "model", "polygraphy.engine", "--model-type", "engine", "--show", "layers"), "no layer was shown")
    expect(passed in polygraphy("run", MODEL, "--onnxrt", "--trt", "--int8", "--calibration-cache", "polygraphy.cache", "--atol", "2", *shapes), "--int8 does not match")
    expect((row.work / "polygraphy.cache").read_bytes().startswith(b"TRT-"), "no cache")
    return "five commands, all PASSED"


ROWS = [("5", without_profile), ("6", named_batches), ("9", converted), ("10", inferred), ("11", detected), ("12", pasted), ("14", explored), ("15", compared)]
