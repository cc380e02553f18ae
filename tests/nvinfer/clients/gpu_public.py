#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: gpu_public.py TEMPER FOLDER [--parts triple_pycuda,...] [--cuda CUDA]: row 17 with public programs, whose checkouts lie in FOLDER, on GPU 0. Each is
imported or started as it is, behind `temper as-tensorrt`; what it computes is compared with ONNX Runtime's. A program that is not there, or whose
packages are not, is left out by name.

With a first word `part`, it is what runs behind: gpu_public.py part NAME FOLDER."""
import argparse
import importlib.util
import os
import pathlib
import subprocess
import sys
import types

import numpy

HERE = pathlib.Path(__file__).resolve().parent
TF32 = 5e-3  # of what is around 1: TF32 is on, as it is in TensorRT


def program(folder, name, text=""):
    """The path of the program of that name that holds the text."""
    for path in sorted(pathlib.Path(folder).rglob(name)):
        if text in path.read_text(errors="replace"):
            return path
    sys.exit(f"LEFT OUT: {name} is not in the folder")


def needs(*packages):
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        sys.exit(f"LEFT OUT: {', '.join(missing)}: not installed")


def old_cudart():
    """`from cuda import cudart`, as cuda-python had it before release 13: the same functions by the old name."""
    needs("cuda.bindings")
    if importlib.util.find_spec("cuda.cudart") is None:
        import cuda
        from cuda.bindings import runtime

        cuda.cudart = sys.modules["cuda.cudart"] = runtime


def network(path, shape, classes, name="input", to="output", fixed=False, picture=False):
    """A small model of pictures of that shape: `classes` numbers for each, or a picture of one channel."""
    import onnx

    make, random = onnx.helper.make_node, numpy.random.default_rng(3)
    weights = {"w": random.normal(0, 0.1, (8, shape[0], 7, 7)), "v": random.normal(0, 1, (8, classes)), "one": random.normal(0, 0.3, (1, 8, 1, 1))}
    nodes = [make("Conv", [name, "w"], ["a"], strides=[1, 1] if picture else [4, 4], pads=[3, 3, 3, 3]), make("Relu", ["a"], ["r"])]
    if picture:
        nodes += [make("Conv", ["r", "one"], [to])]
        out, weights = [1, *shape[1:]], {key: weights[key] for key in ("w", "one")}
    else:
        nodes += [make("GlobalAveragePool", ["r"], ["p"]), make("Flatten", ["p"], ["f"]), make("MatMul", ["f", "v"], [to])]
        out, weights = [classes], {key: weights[key] for key in ("w", "v")}
    batch = 1 if fixed else "batch"
    ports = [onnx.helper.make_tensor_value_info(port, onnx.TensorProto.FLOAT, [batch, *rest]) for port, rest in ((name, shape), (to, out))]
    graph = onnx.helper.make_graph(nodes, "pictures", ports[:1], ports[1:], [onnx.numpy_helper.from_array(w.astype("float32"), key) for key, w in weights.items()])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8), path)
    return path


def engine(model, *words):
    made = subprocess.run(["trtexec", f"--onnx={model}", "--saveEngine=made.engine", "--skipInference", *words], capture_output=True, text=True)
    assert made.returncode == 0, made.stdout[-300:] + made.stderr[-300:]
    return "made.engine"


def answers(model, x):
    import onnxruntime

    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: x})[0]


def compared(got, wanted):
    got = numpy.asarray(got).reshape(wanted.shape)
    off = abs(got - wanted).max() / abs(wanted).max()
    assert off < TF32, f"off by {off} of the largest"
    return f"off by {off:.0e} of the largest"


# ---- the parts, behind as-tensorrt ----


def triple(folder, load, torch_too=False):
    found = []
    for fixed in (True, False):
        model = network("m.onnx", (3, 64, 64), 10, fixed=fixed)
        path = engine(model, *([] if fixed else ["--minShapes=input:1x3x64x64", "--optShapes=input:2x3x64x64", "--maxShapes=input:4x3x64x64"]))
        x = numpy.random.default_rng(1).normal(0, 1, (1 if fixed else 3, 3, 64, 64)).astype("float32")
        found.append(compared(load(path)(x), answers(model, x)))
    return f"fixed: {found[0]}; varying: {found[1]}"


def of_file(folder, path, text):
    """The module of that file alone: its package's other modules want more."""
    path = program(folder, path, text)
    spec = importlib.util.spec_from_file_location("public_" + path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def triple_pycuda(folder):
    """triple-Mu/YOLOv8-TensorRT: models/pycuda_api.py"""
    needs("pycuda")
    return triple(folder, of_file(folder, "pycuda_api.py", "class TRTEngine").TRTEngine)


def triple_cudart(folder):
    """triple-Mu/YOLOv8-TensorRT: models/cudart_api.py"""
    old_cudart()
    return triple(folder, of_file(folder, "cudart_api.py", "class TRTEngine").TRTEngine)


def triple_torch(folder):
    """triple-Mu/YOLOv8-TensorRT: models/engine.py, TRTModule with its profiler"""
    needs("torch")
    import torch

    root = program(folder, "engine.py", "class TRTModule").parent.parent
    sys.path.insert(0, str(root))
    from models import TRTModule, TRTProfilerV1

    def load(path):
        module = TRTModule(path, torch.device("cuda:0"))

        def call(x):
            y = module(torch.from_numpy(x).cuda()).cpu().numpy()
            profiler = TRTProfilerV1()
            module.set_profiler(profiler)
            again = module(torch.from_numpy(x).cuda()).cpu().numpy()
            assert numpy.array_equal(y, again) and len(profiler.recorder) > 1, "a profiled run differs, or nothing was profiled"
            return y

        return call

    return triple(folder, load)


def comfy(folder):
    """ComfyUI_TensorRT: tensorrt_loader.py's TrTUnet, and the builder's monitor and timing cache of tensorrt_convert.py"""
    needs("torch", "tqdm")
    import onnx
    import tensorrt as trt
    import torch

    for name in ("comfy", "comfy.model_base", "comfy.model_management", "comfy.model_patcher", "comfy.supported_models", "folder_paths"):
        module = sys.modules[name] = types.ModuleType(name)
        if "." in name:
            setattr(sys.modules["comfy"], name.split(".")[1], module)
    paths = sys.modules["folder_paths"]
    paths.folder_names_and_paths, paths.models_dir, paths.get_output_directory, paths.get_temp_directory = {}, ".", lambda: ".", lambda: "."
    loader, convert = of_file(folder, "tensorrt_loader.py", "class TrTUnet"), of_file(folder, "tensorrt_convert.py", "TQDMProgressMonitor")

    make, random = onnx.helper.make_node, numpy.random.default_rng(4)
    tensors = [onnx.numpy_helper.from_array(w.astype("float16"), name) for name, w in (("w", random.normal(0, 0.1, (4, 4, 3, 3))), ("v", random.normal(0, 0.2, (16, 4))))]
    tensors.append(onnx.numpy_helper.from_array(numpy.array([2, 3]), "axes"))
    nodes = [make("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]), make("MatMul", ["context", "v"], ["m"]), make("ReduceMean", ["m"], ["k"], axes=[1], keepdims=0),
             make("Unsqueeze", ["k", "axes"], ["u"]), make("Add", ["c", "u"], ["s"]), make("Unsqueeze", ["timesteps", "more"], ["t"]), make("Add", ["s", "t"], ["h"])]  # fmt: skip
    tensors.append(onnx.numpy_helper.from_array(numpy.array([1, 2, 3]), "more"))
    half = onnx.TensorProto.FLOAT16
    ports = [onnx.helper.make_tensor_value_info(name, half, shape) for name, shape in (("x", ["b", 4, "h", "w"]), ("timesteps", ["b"]), ("context", ["b", "n", 16]), ("h", ["b", 4, "h", "w"]))]
    graph = onnx.helper.make_graph(nodes, "unet", ports[:3], ports[3:], tensors)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8), "unet.onnx")

    builder = trt.Builder(trt.Logger(trt.Logger.WARNING))
    net = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH))
    assert trt.OnnxParser(net, loader.logger).parse_from_file("unet.onnx")
    config, profile, base = builder.create_builder_config(), builder.create_optimization_profile(), convert.TRT_MODEL_CONVERSION_BASE()
    base.timing_cache_path = "timing_cache.trt"
    for _ in range(2):  # the second time from the cache
        base._setup_timing_cache(config)
    config.progress_monitor = convert.TQDMProgressMonitor()
    profile.set_shape("x", (1, 4, 16, 16), (2, 4, 16, 16), (2, 4, 32, 32))
    profile.set_shape("timesteps", (1,), (2,), (2,))
    profile.set_shape("context", (1, 8, 16), (2, 8, 16), (2, 8, 16))
    config.set_flag(trt.BuilderFlag.FP16)
    config.add_optimization_profile(profile)
    with open("unet.engine", "wb") as file:
        file.write(builder.build_serialized_network(net, config))
    base._save_timing_cache(config)
    unet = loader.TrTUnet("unet.engine")
    x, t, c = torch.randn(4, 4, 16, 16), torch.rand(4), torch.randn(4, 8, 16)  # twice the engine's largest batch: it is split
    got = unet(x.cuda(), t.cuda(), c.cuda()).float().cpu().numpy()
    import onnxruntime

    session = onnxruntime.InferenceSession("unet.onnx", providers=["CPUExecutionProvider"])
    wanted = session.run(None, {"x": x.half().numpy(), "timesteps": t.half().numpy(), "context": c.half().numpy()})[0].astype("float32")
    return compared(got, wanted)


def depth(folder):
    """spacewalk01/depth-anything-tensorrt: python/trt_infer.py"""
    needs("pycuda", "cv2", "torch", "torchvision", "PIL")
    import cv2

    path = program(folder, "trt_infer.py", "depth_anything.util.transform")
    sys.path.insert(0, str(path.parent))
    model = network("depth.onnx", (3, 518, 518), 1, fixed=True, picture=True)
    made = engine(model)
    image = (numpy.random.default_rng(8).uniform(0, 255, (20, 20, 3))).astype("uint8")
    cv2.imwrite("scene.png", cv2.resize(image, (518, 518), interpolation=cv2.INTER_CUBIC))
    done = subprocess.run([sys.executable, path, "--img", "scene.png", "--engine", made, "--outdir", "out", "--grayscale"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-600:]
    from depth_anything.util.transform import load_image

    x, _ = load_image("scene.png")
    wanted = answers(model, numpy.asarray(x, "float32"))[0, 0]
    wanted = ((wanted - wanted.min()) / (wanted.max() - wanted.min()) * 255).astype("uint8").astype(int)
    got = cv2.imread("out/scene_depth.png", cv2.IMREAD_GRAYSCALE).astype(int)
    off = abs(got - wanted).max()
    assert got.shape == wanted.shape and off <= 2, f"a grey level is off by {off}"
    return f"a picture of {got.shape}, grey levels off by at most {off}"


def quickstart(folder):
    """NVIDIA/TensorRT quickstart: onnx_helper.py's ONNXClassifierWrapper"""
    old_cudart()
    wrapper = of_file(folder, "onnx_helper.py", "class ONNXClassifierWrapper").ONNXClassifierWrapper
    model = network("m.onnx", (3, 224, 224), 1000, fixed=True)
    x = numpy.random.default_rng(1).normal(0, 1, (1, 3, 224, 224)).astype("float32")
    made = wrapper(engine(model))
    try:
        got = made.predict(x)
    except (RuntimeError, TypeError) as error:  # of 10.13: cuda-python's calls give tuples
        if "tuple" not in str(error):
            raise
        sys.exit("LEFT OUT: it takes the tuple that cudaMemcpyAsync gives for an error, and raises with any engine")
    return compared(got, answers(model, x)[0])


def sample(folder, name):
    """A Python sample that classifies one of three pictures; here they are one picture."""
    needs("cuda.bindings", "PIL")
    from PIL import Image

    model = network("data/resnet50/ResNet50.onnx", (3, 224, 224), 1000, fixed=True)
    picture = Image.fromarray(numpy.random.default_rng(9).integers(0, 255, (224, 224, 3), dtype="uint8"))
    pixels = (numpy.asarray(picture.resize((224, 224), Image.LANCZOS)).transpose(2, 0, 1).astype("float32") / 255 - 0.45) / 0.225
    scores = answers(model, pixels[None].astype("float32"))[0]
    best = numpy.sort(scores)[-2:]
    assert best[1] - best[0] > 2 * TF32 * abs(scores).max(), "the fixture is not sure"
    names = [f"n{i}" for i in range(1000)]
    names[int(scores.argmax())] = "reflex camera"
    (pathlib.Path("data/resnet50") / "class_labels.txt").write_text("\n".join(names))
    for file in ("binoculars.jpeg", "reflex_camera.jpeg", "tabby_tiger_cat.jpg"):
        picture.save("data/resnet50/picture.png")
        os.replace("data/resnet50/picture.png", f"data/resnet50/{file}")
    done = subprocess.run([sys.executable, program(folder, name, "find_sample_data"), "-d", "data"], capture_output=True, text=True)
    assert done.returncode == 0 and "as reflex camera" in done.stdout, f"exit code {done.returncode}: {done.stdout[-300:]}{done.stderr[-600:]}"
    return "its class is ONNX Runtime's"


def introductory(folder):
    """NVIDIA/TensorRT samples: introductory_parser_samples/onnx_resnet50.py"""
    return sample(folder, "onnx_resnet50.py")


def progress(folder):
    """NVIDIA/TensorRT samples: simple_progress_monitor.py"""
    return sample(folder, "simple_progress_monitor.py")


def mnist(folder):
    """NVIDIA/TensorRT samples: sampleOnnxMNIST.cpp"""
    import onnx

    source = program(folder, "sampleOnnxMNIST.cpp", "SampleOnnxMNIST")
    release = next(((path / "VERSION").read_text() for path in source.parents if (path / "VERSION").exists()), "of a release that no file VERSION names")
    if release.split(".")[:2] != os.environ["TEMPER_API"].split("."):
        sys.exit(f"LEFT OUT: the folder has the samples of {release.strip()}")
    cuda, flags = pathlib.Path(os.environ["TEMPER_CUDA"]), []
    if os.environ["TEMPER_DEVICE"] != "cpu":  # there Temper stands in for the CUDA runtime
        if not (cuda / "include/cuda_runtime_api.h").exists():
            sys.exit(f"LEFT OUT: there is no cuda_runtime_api.h in {cuda}/include")
        flags = [f"-I{cuda}/include", f"-L{cuda}/lib64", f"-L{cuda}/lib", f"-Wl,-rpath,{cuda}/lib64"]
    common, shared = source.parent.parent / "common", source.parents[2] / "shared"
    sources = [source, *(path for path in (common / "logger.cpp", common / "getOptions.cpp", shared / "utils/cacheUtils.cpp", shared / "utils/fileLock.cpp") if path.exists())]
    done = subprocess.run(["g++", "-std=c++17", "-O1", "-w", "-DTRT_STATIC=0", "-DENABLE_UNIFIED_BUILDER=0", f"-I{common}", f"-I{common.parent}", f"-I{shared}", f"-I{common.parents[1]}", *map(str, sources),
                           "-o", "sample", *flags, "-lnvinfer", "-lnvonnxparser", "-lcudart", "-ldl"], capture_output=True, text=True)  # fmt: skip
    errors = [line for line in done.stderr.splitlines() if "error" in line or "undefined" in line]
    assert done.returncode == 0, f"it does not compile: {(errors or [done.stderr])[0][:300]}"
    pictures = numpy.random.default_rng(1).integers(0, 255, (10, 28, 28), dtype="uint8")
    make, flat = onnx.helper.make_node, (1 - pictures.reshape(10, 784) / 255).astype("float32")
    centred = flat - flat.mean(0)
    v = numpy.linalg.pinv(centred) @ (20 * (numpy.eye(10) - 0.1))
    tensors = [onnx.numpy_helper.from_array(w.astype("float32"), name) for name, w in (("v", v), ("b", -flat.mean(0) @ v))]
    nodes = [make("Flatten", ["Input3"], ["f"]), make("Gemm", ["f", "v", "b"], ["Plus214_Output_0"])]
    ports = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name, shape in (("Input3", [1, 1, 28, 28]), ("Plus214_Output_0", [1, 10]))]
    pathlib.Path("data/mnist").mkdir(parents=True)
    onnx.save(onnx.helper.make_model(onnx.helper.make_graph(nodes, "mnist", ports[:1], ports[1:], tensors), opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8), "data/mnist/mnist.onnx")
    for i, picture in enumerate(pictures):
        pathlib.Path(f"data/mnist/{i}.pgm").write_bytes(b"P5\n28 28\n255\n" + picture.tobytes())
    done = subprocess.run(["./sample", "--datadir=data/mnist/"], capture_output=True, text=True)
    assert done.returncode == 0 and "&&&& PASSED" in done.stdout, f"exit code {done.returncode}: {done.stdout[-500:]}{done.stderr[-300:]}"
    return "&&&& PASSED"


PARTS = {part.__name__: part for part in (triple_pycuda, triple_cudart, triple_torch, comfy, depth, quickstart, introductory, progress, mnist)}
APIS = {"triple_pycuda": ("8.6",), "triple_cudart": ("8.6",), "triple_torch": ("8.6", "10.13"), "comfy": ("8.6", "10.13"), "depth": ("8.6",), "quickstart": ("10.13", "11.1"),
        "introductory": ("10.13", "11.1"), "progress": ("10.13",), "mnist": ("8.6", "10.13", "11.1")}  # fmt: skip


def main():
    if sys.argv[1:2] == ["part"]:
        import tensorrt  # noqa: F401 - with --device cpu it brings what stands in for pycuda and cuda-python

        print("FOUND: " + PARTS[sys.argv[2]](sys.argv[3]))
        return 0
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("temper", type=lambda path: str(pathlib.Path(path).resolve()))
    parser.add_argument("folder", type=lambda path: str(pathlib.Path(path).resolve()))
    parser.add_argument("--parts", type=lambda text: text.split(","), default=list(PARTS))
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--cuda", default=os.environ.get("CUDA_HOME", "/usr/local/cuda"), help="the folder of the CUDA toolkit")
    options = parser.parse_args()
    import tempfile

    failed = 0
    for name in options.parts:
        for api in APIS[name]:
            with tempfile.TemporaryDirectory() as work:
                (pathlib.Path(work) / "data/resnet50").mkdir(parents=True)
                command = [options.temper, "as-tensorrt", "--device", options.device, "--api", api, "--", sys.executable, __file__, "part", name, options.folder]
                done = subprocess.run(command, cwd=work, capture_output=True, text=True, env={**os.environ, "TEMPER_CUDA": options.cuda, "TEMPER_DEVICE": options.device, "TEMPER_API": api})
            said = [line for line in (done.stdout + done.stderr).splitlines() if line.startswith(("FOUND: ", "LEFT OUT: "))]
            word = "FAILED" if not said else "passed" if said[-1].startswith("FOUND") else "left out"
            failed += word == "FAILED"
            found = said[-1].split(": ", 1)[1] if said else f"exit code {done.returncode}: {done.stderr.strip()[-700:]}"
            print(f"17  {word:8}  {api}  {PARTS[name].__doc__}: {found}", flush=True)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
