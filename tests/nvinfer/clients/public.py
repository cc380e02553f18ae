# SPDX-License-Identifier: Apache-2.0
"""Rows whose programs are public ones, of the folder that run.py is given: they run unchanged, in folders that hold what their READMEs say, on
models that are made here. A program that is not in the folder, or whose own packages are not installed, is left out by name."""
import json
import os
import pathlib
import re
import shutil
import sys

import numpy
import onnx
from acting import answers, classifier, detector, pictures
from row import MODEL, LeftOut, expect, needs


def tutorial(row, name, count=100):
    """A folder as DaisukeIshibe/TensorRT's programs want it: model.onnx, test_samples.npy of float64, test_labels.npy."""
    folder = row.work / name
    if not folder.exists():
        folder.mkdir()
        shutil.copy(classifier(row), folder / "model.onnx")
        samples, labels = pictures()
        numpy.save(folder / "test_samples.npy", samples[:count].astype("float64"))
        numpy.save(folder / "test_labels.npy", labels[:count])
    return folder


def ran(row, folder, program, *words, code=0, api=None, environment=None):
    got, out, err = row.run(sys.executable, program, *words, api=api, folder=folder, environment=environment)
    expect(got == code, f"{program.name}: exit code {got}: {out[-300:]}{err[-900:]}")
    return out + err


def without_profile(row):
    """DaisukeIshibe/TensorRT: convert_to_tensorrt.py, which has no profile for its open batch"""
    program, folder = row.public("convert_to_tensorrt.py", "build_engine_from_onnx_trt10"), tutorial(row, "tutorial")
    for api in ("8.6", "10.13"):
        said = ran(row, folder, program, code=1, api=api)
        expect("Failed to build TensorRT engine" in said and "no optimization profile has been defined" in said, said[-300:])
        expect(not (folder / "model.trt").exists(), "an engine was written")
    return "exit 1, 'Failed to build TensorRT engine', with TensorRT's words for why"


def named_batches(row):
    """DaisukeIshibe/TensorRT: convert_to_tensorrt_batch, precision_comparison_fp16, tensorrt_int8_comparison, benchmark_performance, compare_models"""
    folder, model = tutorial(row, "tutorial"), classifier(row)
    samples, labels = pictures()
    right = int((answers(model, samples).argmax(1) == labels).sum())
    ran(row, folder, row.public("convert_to_tensorrt_batch.py", "max_batch_size"), api="10.13")
    ran(row, folder, row.public("precision_comparison_fp16.py", "generate_fp16_engine"))
    written = json.loads((folder / "precision_comparison_results.json").read_text())
    expect(round(100 * written["fp32"]["accuracy"]) == right and abs(100 * written["fp16"]["accuracy"] - right) <= 1, written)
    ran(row, folder, row.public("tensorrt_int8_comparison.py", "build_tensorrt_int8_engine"), api="10.13")
    written = json.loads((folder / "tensorrt_precision_comparison.json").read_text())
    expect(set(written) == {"FP32", "FP16", "INT8"} and abs(100 * written["INT8"]["accuracy"] - right) <= 1, written)
    said = ran(row, folder, row.public("benchmark_performance.py", "benchmark_tensorrt_batch"))
    expect("TensorRT benchmark failed" not in said and "TensorRT (Batch 32)" in said, said[-600:])
    found = f"right of 100: {right} by ONNX Runtime, {round(100 * written['INT8']['accuracy'])} in INT8"
    try:
        program = row.public("compare_models.py", "TensorRT10ModelComparator")
        needs("tensorflow", "keras", "tabulate")
    except LeftOut as error:
        return f"{found}; compare_models.py left out: {error}"
    other = tutorial(row, "compared", 30)
    numpy.save(other / "test_labels.npy", labels[:30, None])
    ran(row, other, program, environment={"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": os.environ.get("CUDA_VISIBLE_DEVICES", "")} if row.options.device == "cpu" else None)
    got = numpy.load(other / "tensorrt_predictions_final.npy")
    wanted = numpy.load(other / "onnx_predictions_final.npy")
    apart = abs(got - wanted).max()
    expect(apart <= row.tolerance and (got.argmax(1) == wanted.argmax(1)).all(), f"compare_models.py: off by {apart}")
    return f"{found}; compare_models.py: off by {apart:.0e}"


def three_precisions(row):
    """DaisukeIshibe/TensorRT: generate_trt8x_engine.py --all, whose calibration cache is made up"""
    program, folder = row.public("generate_trt8x_engine.py", "create_calibration_cache"), tutorial(row, "tutorial8")
    said = ran(row, folder, program, "--all")
    expect(said.count("Number of bindings: 2") == 3 and "input_1" in said and "dense_1" in said, said[-600:])
    for precision in ("fp32", "fp16", "int8"):
        expect(row.temper("inspect", str(folder / f"model_trt8x_{precision}.trt")).returncode == 0, f"no engine of {precision}")
    warned = [line for line in said.splitlines() if "has no range" in line]
    expect(warned, f"nothing is said of the made-up cache: {said[-900:]}")
    return f"three engines, two bindings each; of the cache: {warned[0].strip()[:160]}"


def images(row):
    """A folder of pictures, as calibration programs read them."""
    needs("PIL")
    from PIL import Image

    folder = row.work / "images"
    if not folder.exists():
        folder.mkdir()
        random = numpy.random.default_rng(5)
        for i in range(24):
            Image.fromarray((random.uniform(0, 255, (32, 32, 3)) * random.uniform(0, 1, 3)).astype("uint8")).resize((256, 256)).save(folder / f"{i:02}.jpg")
    return folder


def residual(row):
    """residual.onnx, a small network of pictures as torchvision exports one: input [batch, 3, 224, 224] to output [batch, 10]."""
    path, random = row.work / "residual.onnx", numpy.random.default_rng(11)
    weights = {"w1": random.normal(0, 0.1, (8, 3, 7, 7)), "w2": random.normal(0, 0.15, (8, 8, 3, 3)), "v": random.normal(0, 0.5, (8, 10)), "b": random.normal(0, 0.1, 10)}
    make = onnx.helper.make_node
    nodes = [make("Conv", ["input", "w1"], ["a"], strides=[4, 4], pads=[3, 3, 3, 3]), make("Relu", ["a"], ["r"]), make("Conv", ["r", "w2"], ["c"], pads=[1, 1, 1, 1]),
             make("Add", ["c", "r"], ["s"]), make("Relu", ["s"], ["t"]), make("GlobalAveragePool", ["t"], ["p"]), make("Flatten", ["p"], ["f"]),
             make("Gemm", ["f", "v", "b"], ["output"])]  # fmt: skip
    ports = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["batch", *rest]) for name, rest in (("input", (3, 224, 224)), ("output", (10,)))]
    graph = onnx.helper.make_graph(nodes, "residual", ports[:1], ports[1:], [onnx.numpy_helper.from_array(w.astype("float32"), name) for name, w in weights.items()])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8), path)
    return path


def portfolio(row):
    """JO-HEEJIN/nvidia-devtech-portfolio 01: convert_to_tensorrt.py in fp32, fp16, int8, with calibration.py"""
    program = row.public("convert_to_tensorrt.py", "create_int8_calibrator")
    row.public("calibration.py", "INT8EntropyCalibrator")
    needs("PIL", "cv2", "coloredlogs")
    model = residual(row)
    for precision, more in (("fp32", []), ("fp16", []), ("int8", ["--calibration-data", images(row)])):
        said = ran(row, row.work, program, "--onnx", model, "--output", f"engines/{precision}.trt", "--precision", precision, "--max-batch-size", 8, *more)
        expect("Engine built successfully" in said and "build completed successfully" in said, said[-300:])
        about = json.loads((row.work / f"engines/{precision}_metadata.json").read_text())
        expect(about["tensorrt_version"].endswith("+temper") and [b["dtype"] for b in about["bindings"]] == ["DataType.FLOAT"] * 2, about)
    expect((row.work / "calibration.cache").read_bytes().startswith(b"TRT-"), "no cache")
    return "three engines, each with its metadata; a cache"


def bindings_with_none(row):
    """JO-HEEJIN/nvidia-devtech-portfolio 01: inference.py --benchmark, and the inference text of its notebook's port to 10.x"""
    program = row.public("inference.py", "device_ptrs = [None]")
    needs("PIL", "torch", "coloredlogs")
    expect((row.work / "engines/fp32.trt").exists(), "row 9 made no engine")
    said = ran(row, row.work, program, "--engine", "engines/fp32.trt", "--benchmark", "--batch-size", 2)  # it catches what it raises
    expect("TypeError" in said and "Benchmark Results" not in said, said[-600:])
    notebook = json.loads(row.public("pytorch-to-tensorrt-optimization.ipynb", "fixed_inference_code").read_text())
    texts = ["".join(cell["source"]) for cell in notebook["cells"]]
    port = next(match[1] for text in texts if (match := re.search(r"fixed_inference_code = '''(.*?)'''", text, re.S)))
    (row.work / "ported").mkdir(exist_ok=True)
    (row.work / "ported/trt_inference.py").write_text(port)
    x = numpy.random.default_rng(1).normal(0, 1, (4, 3, 224, 224)).astype("float32")
    numpy.save(row.work / "ported/x.npy", x)
    (row.work / "ported/call.py").write_text(
        "import numpy, trt_inference\nengine = trt_inference.TensorRTInferenceEngine('../engines/fp32.trt', max_batch_size=8)\n"
        "y = engine.infer(numpy.load('x.npy'))\nnumpy.save('y.npy', y if not isinstance(y, dict) else next(iter(y.values())))\n")
    ran(row, row.work / "ported", row.work / "ported/call.py", api="10.13")
    got, wanted = numpy.load(row.work / "ported/y.npy"), answers(row.work / "residual.onnx", x)
    apart = abs(got - wanted).max()
    expect(got.shape == wanted.shape and apart <= row.tolerance, f"the port is off by {apart}")
    return f"TypeError, as on TensorRT; the port is off by {apart:.0e}"


def yolo(row):
    """yolo.onnx: images [1, 3, 640, 640] to output0 [1, 300, 85], as that project's postprocessing reads it."""
    path, random = row.work / "yolo.onnx", numpy.random.default_rng(17)
    make, sizes = onnx.helper.make_node, numpy.array([4, 81])
    nodes = [make("Conv", ["images", "w1"], ["a"], strides=[32, 32]), make("Relu", ["a"], ["r"]), make("Conv", ["r", "w2"], ["h"]),
             make("Reshape", ["h", "flat"], ["rows"]), make("Transpose", ["rows"], ["t"], perm=[0, 2, 1]), make("Sigmoid", ["t"], ["s"]),
             make("Split", ["s", "sizes"], ["box", "scores"], axis=2), make("Mul", ["box", "scale"], ["placed"]), make("Concat", ["placed", "scores"], ["output0"], axis=2)]  # fmt: skip
    weights = {"w1": random.normal(0, 0.02, (16, 3, 32, 32)), "w2": random.normal(0, 1.5, (85, 16, 1, 1)), "scale": numpy.array(640.0)}
    tensors = [onnx.numpy_helper.from_array(w.astype("float32"), name) for name, w in weights.items()]
    tensors += [onnx.numpy_helper.from_array(sizes, "sizes"), onnx.numpy_helper.from_array(numpy.array([1, 85, 400]), "flat")]
    ports = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name, shape in (("images", [1, 3, 640, 640]), ("output0", [1, 400, 85]))]
    onnx.save(onnx.helper.make_model(onnx.helper.make_graph(nodes, "yolo", ports[:1], ports[1:], tensors), opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8), path)
    return path


def detections(row):
    """JO-HEEJIN/nvidia-devtech-portfolio 03: build_engine.py and the detector of run_image.py; 08: tensorrt_convert.py's converter and loader"""
    builder, detector_of = row.public("build_engine.py", "DIRECT_IO"), row.public("inference_tensorrt.py", "postprocess_predictions")
    needs("cv2")
    model = yolo(row)
    said = ran(row, row.work, builder, "--onnx", model, "--output", "yolo.engine", "--precision", "fp32")
    expect("Engine building complete" in said and "Max batch size: 1" in said, said[-300:])
    image = numpy.random.default_rng(2).integers(0, 255, (640, 640, 3), dtype="uint8")
    numpy.save(row.work / "image.npy", image)
    (row.work / "detect_public.py").write_text(
        f"import sys\nsys.path.insert(0, {str(detector_of.parent)!r})\nimport numpy\nfrom inference_tensorrt import TensorRTInference\n"
        "from preprocessing import preprocess_image\nfrom postprocessing import postprocess_predictions, scale_boxes_to_original\n"
        "image = numpy.load('image.npy')\ndetector = TensorRTInference('yolo.engine')\nfound, _ = detector.infer(image)\n"
        "tensor, _, ratio, padding = preprocess_image(image, (640, 640), normalize=True, bgr_to_rgb=True)\n"
        f"import onnxruntime\nraw = onnxruntime.InferenceSession({str(model)!r}, providers=['CPUExecutionProvider']).run(None, {{'images': tensor.reshape(1, 3, 640, 640).astype('float32')}})[0]\n"
        "wanted = postprocess_predictions(raw, 0.25, 0.45)[0]\nwanted[:, :4] = scale_boxes_to_original(wanted[:, :4].copy(), ratio, padding)\n"
        "numpy.save('found.npy', found)\nnumpy.save('wanted.npy', wanted)\n")
    ran(row, row.work, row.work / "detect_public.py")
    found, wanted = numpy.load(row.work / "found.npy"), numpy.load(row.work / "wanted.npy")
    expect(len(wanted) > 3 and found.shape == wanted.shape, f"{found.shape} boxes, not {wanted.shape}")
    apart = abs(found - wanted).max() / 640
    expect(apart < 1e-3, f"boxes are off by {apart} of the picture")
    encoder = row.public("tensorrt_convert.py", "class TensorRTEngineLoader")
    (row.work / "encode_public.py").write_text(
        f"import sys\nsys.path.insert(0, {str(encoder.parent)!r})\nimport numpy\nfrom tensorrt_convert import TensorRTConverter, TensorRTEngineLoader\n"
        f"path = TensorRTConverter('encoders', precision='fp32').convert_onnx_to_tensorrt({str(MODEL)!r}, 'digits', {{'image': ((1, 1, 8, 8), (2, 1, 8, 8), (4, 1, 8, 8))}})\n"
        "loader = TensorRTEngineLoader(path)\nassert loader.get_engine_info()['max_batch_size'] == 1 and not loader.get_engine_info()['has_implicit_batch']\n"
        "numpy.save('encoded.npy', loader.infer({'image': numpy.load('encoder_x.npy')})['logits'])\n")
    x = numpy.random.default_rng(6).uniform(0, 1, (3, 1, 8, 8)).astype("float32")
    numpy.save(row.work / "encoder_x.npy", x)
    ran(row, row.work, row.work / "encode_public.py")
    off = abs(numpy.load(row.work / "encoded.npy") - answers(MODEL, x)).max()
    expect(off <= row.tolerance, f"08 is off by {off}")
    return f"{len(found)} boxes are ONNX Runtime's within {apart:.0e} of the picture; 08 is off by {off:.0e}"


def explorer(row):
    """NVIDIA/TensorRT: TREX's process_engine.py; Polygraphy's trtexec runner"""
    program = row.public("process_engine.py", "parse_trtexec_log")
    found = []
    try:
        needs("pandas", "pynvml", "plotly")
        onnx_path = row.work / "trex.onnx"
        shutil.copy(MODEL, onnx_path)
        environment = {"PYTHONPATH": os.pathsep.join([str(program.parent.parent), str(program.parent), os.environ.get("PYTHONPATH", "")])}
        said = ran(row, row.work, program, onnx_path, "explored_public", "shapes=image:2x1x8x8", "--build-engine", "--profile-engine", environment=environment)
        expect("Successfully built the engine" in said and "Successfully profiled the engine" in said, said[-600:])
        folder = row.work / "explored_public"
        layers = {name: json.loads((folder / f"trex.onnx.engine.{name}.json").read_text()) for name in ("graph", "profile", "build.metadata", "profile.metadata", "timing")}
        expect(len(layers["graph"]["Layers"]) >= 3 and len(layers["profile"]) >= len(layers["graph"]["Layers"]), "layers are missing")
        found.append(f"TREX: {len(layers['graph']['Layers'])} layers, five files of JSON")
    except LeftOut as error:
        found.append(f"TREX left out: {error}")
    try:
        extension = row.public("runner.py", "class TrtexecRunner").parent.parent
        needs("polygraphy")
        metadata = row.work / "extension/polygraphy_trtexec-0.dist-info"
        metadata.mkdir(parents=True, exist_ok=True)
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: polygraphy_trtexec\nVersion: 0\n")
        (metadata / "entry_points.txt").write_text("[polygraphy.run.plugins]\ntrtexec-runner = polygraphy_trtexec.export:export_argument_groups\n")
        environment = {"PYTHONPATH": os.pathsep.join([str(extension.parent), str(metadata.parent), os.environ.get("PYTHONPATH", "")]), "POLYGRAPHY_AUTOINSTALL_DEPS": "0"}
        main = "import sys; from polygraphy.tools import main; sys.exit(main())"
        code, out, err = row.run(sys.executable, "-c", main, "run", MODEL, "--onnxrt", "--trtexec", "--input-shapes", "image:[2,1,8,8]", "--atol", "1e-3" if row.options.device == "cpu" else "2e-2",
                                 environment=environment)  # fmt: skip
        if "'Logger' object has no attribute 'severity'" in err:
            raise LeftOut("it does not start with this release of Polygraphy (0.49.24 does)")
        expect(code == 0 and "PASSED" in out, f"polygraphy run --trtexec: exit code {code}: {out[-500:]}{err[-500:]}")
        found.append("polygraphy run --onnxrt --trtexec: PASSED")
    except LeftOut as error:
        found.append(f"Polygraphy's trtexec runner left out: {error}")
    return "; ".join(found)


ROWS = [("5", without_profile), ("6", named_batches), ("8", three_precisions), ("9", portfolio), ("10", bindings_with_none), ("11", detections), ("14", explorer)]
