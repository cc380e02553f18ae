#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs programs that were written for TensorRT, unchanged, on Temper, and says what came of each.

usage: run.py TEMPER [FOLDER] [--device cpu] [--rows 5,6,...]     FOLDER holds checkouts of the programs' repositories, anywhere below it

Nothing is fetched and nothing in FOLDER is written to. A row is programs with what they must do: those of FOLDER, and ours that make the
same calls (programs/; "ours" is printed then). Prints the row's number, its exit codes, and what was checked. The exit code is 0 where
every row that ran did what it must.
"""
import argparse
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

import acting
import numpy
import public
from row import MODEL, Failed, LeftOut, Row, expect

# Command lines of trtexec as people publish them, and whether trtexec takes them; DIGITS and PLAN stand for files.
LINES = [
    ("--onnx=DIGITS", True),
    ("--onnx=DIGITS --saveEngine=OUT --fp16", True),
    ("--onnx=DIGITS --saveEngine=OUT --explicitBatch --workspace=4096 --fp16 --verbose", True),
    ("--onnx=DIGITS --minShapes=image:1x1x8x8 --optShapes=image:2x1x8x8 --maxShapes=image:4x1x8x8 --saveEngine=OUT", True),
    ("--onnx=DIGITS --shapes=image:4x1x8x8 --int8", True),
    ("--onnx=DIGITS --shapes=image:1x1x8x8 --best", True),
    ("--onnx=DIGITS --buildOnly --saveEngine=OUT --memPoolSize=workspace:1024", True),
    ("--onnx=DIGITS --dumpProfile --separateProfileRun --profilingVerbosity=detailed --dumpLayerInfo", True),
    ("--onnx=DIGITS --noTF32 --builderOptimizationLevel=3 --avgRuns=100 --percentile=50,90,99", True),
    ("--onnx=DIGITS --infStreams=2 --threads --useSpinWait", True),
    ("--onnx=DIGITS --inputIOFormats=fp32:chw --outputIOFormats=fp32:chw --noDataTransfers", True),
    ("--onnx=DIGITS --allowGPUFallback --sparsity=enable --tacticSources=-CUDNN", True),
    ("--loadEngine=PLAN --useCudaGraph --exportTimes=OUT", True),
    ("--loadEngine=PLAN --exportProfile=OUT", True),
    ("--loadEngine=PLAN --exportLayerInfo=OUT --profilingVerbosity=detailed", True),
    ("--loadEngine=PLAN --exportOutput=OUT --dumpOutput", True),
    ("--loadEngine=PLAN --batch=1 --idleTime=0", True),
    ("--help", True),
    ("--onnx=DIGITS --saveEngine=OUT --fp32", False),
    ("--onnx=DIGITS --saveEngine=OUT --dumpEngine", False),
    ("--onnx=DIGITS --saveEngine=OUT --useDLACore=0 --allowGPUFallback", False),
    ("--onnx=DIGITS --saveEngine=OUT --plugins=libx.so", False),
    ("--onnx=DIGITS --saveEngine=OUT --batch=8", False),
    ("--onnx=DIGITS --saveEngine=OUT --safe", False),
    ("--onnx=DIGITS --saveEngine=OUT --refit", False),
    ("--onnx=DIGITS --saveEngine=OUT '--shapes=image:1x1x8x8, other:1'", False),
    ("--onnx=DIGITS --saveEngine=OUT --shapes=image:1x1x8x8, other:1", False),
    ("--uff=model.uff --saveEngine=OUT", False),
    ("--deploy=net.prototxt --model=net.caffemodel --output=prob", False),
    ("--loadEngine=THEIRS", False),
]


def build_engine(row):
    """edge-ml-systems: build_engine.py builds FP32 and FP16 engines by trtexec"""
    program = row.program("build_engine.py", "--buildOnly", "edge_build.py")
    for flags, said in ((["--fp16"], "FP16: layers stay in FP32" if row.options.device == "cpu" else ""), ([], "")):
        code, out, err = row.run(sys.executable, program, "--onnx", MODEL, "--engine", "results/r.plan", "--workspace_mb", 1024, "--run", *flags)
        expect(code == 0, f"exit code {code}: {err[-300:]}")
        expect("&&&& PASSED Temper.trtexec" in out, "no banner says PASSED")
        expect(said in err, f"nothing says '{said}'")
        expect((row.work / "results/r.plan").stat().st_size > 1000, "no engine was written")
    return "exit 0, PASSED, an engine"


def benchmark(row):
    """edge-ml-systems: run_trt_benchmark.py, then parse_trtexec_log.py on its log"""
    program, parser = row.program("run_trt_benchmark.py", "--loadEngine", "edge_benchmark.py"), row.program("parse_trtexec_log.py", "PAT_THROUGHPUT", "edge_parse.py")
    code, _, err = row.run(sys.executable, program, "--engine", "results/r.plan", "--warmup", 200, "--iters", 1000, "--batch", 1, "--log", "results/L", "--run")
    expect(code == 0, f"exit code {code}: {err[-300:]}")
    done = subprocess.run([sys.executable, parser, "--log", "results/L", "--out", "results/s.json"], cwd=row.work, capture_output=True, text=True)
    expect(done.returncode == 0, done.stderr[-300:])
    metrics = json.loads((row.work / "results/s.json").read_text())["metrics"]
    expect(metrics and all(value and value > 0 for value in metrics.values()), f"figures are missing: {metrics}")
    imported = row.temper("import", "trtexec", "results/L", "-o", "results/r.json")
    expect(imported.returncode == 0, imported.stderr)
    result = json.loads((row.work / "results/r.json").read_text())["runs"][0]
    expect(result["samples"] >= 1000, f"{result['samples']} queries")
    expect(result["backend"] != "tensorrt" and result["source"].startswith("temper trtexec"), "it was taken for TensorRT's")
    expect(result["consistent"] and not result["warnings"], f"findings: {result['warnings']}")
    return f"{result['samples']} queries, every figure read, imported as Temper's without a finding"


def command_lines(row):
    """command lines of trtexec, as published: taken or refused as trtexec does, by exit code, and no file after a refusal"""
    expect(row.temper("trtexec", f"--onnx={MODEL}", "--saveEngine=made.plan", "--buildOnly", f"--temperDevice={row.options.device}").returncode == 0, "no plan")
    (row.work / "theirs.engine").write_bytes(b"ftrt" + bytes(64))
    out = row.work / "out"
    for line, taken in LINES:
        out.unlink(missing_ok=True)
        words = line.replace("DIGITS", str(MODEL)).replace("PLAN", "made.plan").replace("THEIRS", "theirs.engine").replace("OUT", "out")
        code, said, err = row.run("sh", "-c", f"trtexec {words} {'' if line == '--help' else '--duration=0 --warmUp=0'}" if "'" in words else shlex.join(["trtexec", *shlex.split(words), "--duration=0", "--warmUp=0"]))
        expect(code == (0 if taken else 1), f"{line}: exit code {code}: {err[-300:]}")
        expect(taken or not out.exists(), f"{line}: a file was left")
        expect(not taken or "OUT" not in line or out.stat().st_size > 0, f"{line}: no file was written")
        if taken and line != "--help" and "--buildOnly" not in line:
            (row.work / "line.log").write_text(said)
            read = row.temper("import", "trtexec", "line.log", "-o", "line.json", "--force")
            run = json.loads((row.work / "line.json").read_text())["runs"][0] if read.returncode == 0 else {}
            expect(run.get("consistent") and run["source"].startswith("temper trtexec"), f"{line}: its log is not read: {read.stderr}")
            found = [text for text in run["warnings"] if not ("--infStreams" in line and "several streams" in text)]
            expect(not found, f"{line}: {found}")
    return f"{len(LINES)} lines"


def calibrate(row):
    """edge-ml-systems: build_int8_engine.py, twice: the second run asks for no batch"""
    program = row.program("build_int8_engine.py", "IInt8EntropyCalibrator2", "edge_int8.py")
    numpy.save(row.work / "calib.npy", numpy.random.default_rng(0).uniform(0, 1, (64, 1, 8, 8)).astype("float32"))
    words = [sys.executable, program, "--onnx", "results/one.onnx", "--engine", "results/int8.plan", "--calib_npy", "calib.npy", "--calib_cache", "results/calib.cache", "--input_name", "image"]
    onnx_of_batch_one(row)
    for _ in range(2):
        code, out, err = row.run(*words)
        expect(code == 0 and "Saved INT8 engine" in out, f"exit code {code}: {err[-300:]}")
        cache = (row.work / "results/calib.cache").read_bytes()
        expect(cache.startswith(b"TRT-") and cache.count(b"\n") > 3, "no cache that TensorRT could read")
        numpy.save(row.work / "calib.npy", numpy.full((64, 1, 8, 8), numpy.nan, "float32"))  # a batch of these would end the second run
    return "two engines, one calibration"


def agree(row):
    """edge-ml-systems: compare_fp32_int8.py on the two engines, and with a batch that they do not take"""
    program = row.program("compare_fp32_int8.py", "cosine_sim", "edge_compare.py")
    made = row.temper("trtexec", "--onnx=results/one.onnx", "--saveEngine=results/one.plan", "--buildOnly", f"--temperDevice={row.options.device}")
    expect(made.returncode == 0, made.stderr)
    noise = numpy.random.default_rng(1).uniform(0, 1, (512, 1, 8, 8)).astype("float32")
    scores = numpy.sort(acting.answers(MODEL, noise), 1)
    numpy.save(row.work / "calib.npy", noise[numpy.argsort(scores[:, -2] - scores[:, -1])[:64]])  # of which a model is sure, as of pictures
    words = [sys.executable, program, "--fp32_engine", "results/one.plan", "--int8_engine", "results/int8.plan", "--calib_npy", "calib.npy", "--input_name", "image"]
    code, out, err = row.run(*words, "--batch", 1)
    expect(code == 0, f"exit code {code}: {err[-300:]}")
    agreement, cosine = (float(line.split()[-1]) for line in out.splitlines() if line.startswith(("Top-1", "Mean")))
    expect(agreement >= 0.95 and cosine >= 0.99, f"agreement {agreement}, cosine {cosine}")
    code, out, err = row.run(*words, "--batch", 16)
    expect("not in optimization profile 0" in err, "the shape was not refused in the log")
    wrong = [float(line.split()[-1]) for line in out.splitlines() if line.startswith("Top-1")]
    expect(code or not wrong or wrong[0] <= 1 / 16, f"agreement {wrong} where the shape was refused")
    return f"agreement {agreement}, cosine {cosine}; a batch of 16 is refused in the log"


CLASSES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]


def cifar(row):
    """A network of pictures as Keras exports it (input_1 [-1, 32, 32, 3] to dense_1 [-1, 10]) in cifar.onnx, an engine of batches 1 to 32 in
    model.trt, and 70 samples as the programs read them. Returns the samples' classes by ONNX Runtime."""
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    random = numpy.random.default_rng(0)
    nodes = [helper.make_node("Transpose", ["input_1"], ["x"], perm=[0, 3, 1, 2]), helper.make_node("Conv", ["x", "w"], ["c"], strides=[2, 2]),
             helper.make_node("Relu", ["c"], ["r"]), helper.make_node("GlobalAveragePool", ["r"], ["p"]), helper.make_node("Flatten", ["p"], ["f"]),
             helper.make_node("Gemm", ["f", "v", "b"], ["g"]), helper.make_node("Softmax", ["g"], ["dense_1"], axis=-1)]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", *rest]) for name, rest in (("input_1", (32, 32, 3)), ("dense_1", (10,)))]
    weights = {"w": random.normal(0, 1, (16, 3, 3, 3)), "v": random.normal(0, 1, (16, 10)), "b": numpy.zeros(10)}
    samples = (random.uniform(0, 1, (70, 32, 32, 3)) * random.uniform(0, 1, (70, 1, 1, 3))).astype("float32")
    for _ in range(2):  # by then the scores are around 0, so that samples differ in their classes
        graph = helper.make_graph(nodes, "cifar", ports[:1], ports[1:], [numpy_helper.from_array(w.astype("float32"), name) for name, w in weights.items()])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), row.work / "cifar.onnx")
        scores = onnxruntime.InferenceSession(row.work / "cifar.onnx").run(None, {"input_1": samples})[0]
        weights["b"] = weights["b"] - numpy.log(scores).mean(0)
    answers = scores.argmax(1)
    expect(len(set(answers)) > 2, "the fixture tells no classes apart")
    shapes = [f"--{which}Shapes=input_1:{batch}x32x32x3" for which, batch in (("min", 1), ("opt", 16), ("max", 32))]
    made = row.temper("trtexec", "--onnx=cifar.onnx", *shapes, "--saveEngine=model.trt", "--buildOnly", f"--temperDevice={row.options.device}")
    expect(made.returncode == 0, made.stderr[-300:])
    numpy.save(row.work / "test_samples.npy", samples)
    with open(row.work / "test_samples.csv", "w") as samples_file, open(row.work / "test_labels.csv", "w") as labels:
        print("sample_id", *(f"pixel_{i}" for i in range(3072)), sep=",", file=samples_file)
        print("sample_id,label_id,class_name", file=labels)
        for i, sample in enumerate(samples):
            print(i, *sample.ravel().tolist(), sep=",", file=samples_file)
            print(i, answers[i], CLASSES[answers[i]], sep=",", file=labels)
    return answers


def compiled(row, program, standard, *flags):
    """The program as its repository compiles it; only the environment is another."""
    folders = ["-I/usr/local/cuda/include", "-I/usr/include/x86_64-linux-gnu", "-L/usr/local/cuda/lib64", "-L/usr/lib/x86_64-linux-gnu"]
    code, _, err = row.run("g++", f"-std={standard}", *flags, *folders, program, "-o", program.stem, "-lnvinfer", "-lnvonnxparser", "-lcudart")
    expect(code == 0, f"g++: {err[-500:]}")
    return f"./{program.stem}"


def named_tensors(row):
    """DaisukeIshibe/TensorRT: tensorrt_inference_csv, _compatible and _final.cpp, compiled as its README does; with ASan, too"""
    programs = [row.program(f"tensorrt_inference_{name}.cpp", "enqueueV3", f"named_{name}.cc") for name in ("csv", "compatible", "final")]
    answers = cifar(row)
    # Without the option ASan holds addresses that the driver asks for, and no engine can be loaded.
    for flags, options in (([], {}), (["-fsanitize=address", "-g"], {"ASAN_OPTIONS": "protect_shadow_gap=0"})):
        for program, count, classes in zip(programs, (70, 10, 10), (answers, answers[:10], None)):
            code, out, err = row.run(compiled(row, program, "c++17", *flags), environment=options)
            expect(code == 0 and f"Successful inferences: {count}/{count}" in out, f"{program.name}: exit code {code}: {out[-300:]}{err[-3000:]}")
            said = re.findall(r"Predicted:? (\w+) \(confidence", out)
            expect(classes is None or said == [CLASSES[c] for c in classes], f"{program.name}: other classes than ONNX Runtime's: {said}")
    return "70, 10 and 10 inferences; the classes of the first two are ONNX Runtime's"


def bindings(row):
    """DaisukeIshibe/TensorRT: tensorrt_inference_8x.cpp, which writes 128 bytes beyond a buffer"""
    program = row.program("tensorrt_inference_8x.cpp", "setBindingDimensions", "bindings_8x.cc")
    if not (row.work / "model.trt").exists():
        cifar(row)
    (row.work / "model_trt8x.trt").write_bytes((row.work / "model.trt").read_bytes())
    code, out, err = row.run(compiled(row, program, "c++14", "-O2", "-DWITH_OPENCV"))
    expect(code == 0 and "verification completed" in out, f"exit code {code}: {out[-300:]}{err[-300:]}")
    on_host = row.options.device == "cpu"
    expect(not on_host or "wrote 128 bytes beyond a buffer" in err, "what it writes beyond its buffer is not said")
    return "verification completed" + (", the 128 bytes are said" if on_host else "")


def onnx_of_batch_one(row):
    import onnx

    model = onnx.load(MODEL)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1
    (row.work / "results").mkdir(exist_ok=True)
    onnx.save(model, row.work / "results/one.onnx")


THEIRS = [("1", build_engine), ("2", benchmark), ("3", calibrate), ("4", agree), ("7", named_tensors), ("8", bindings), ("13", command_lines)]
ROWS = sorted(THEIRS + acting.ROWS, key=lambda row: int(row[0]))
OF_FOLDER = sorted(ROWS + public.ROWS, key=lambda row: int(row[0]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("temper", type=lambda path: str(pathlib.Path(path).resolve()))
    parser.add_argument("folder", type=pathlib.Path, nargs="?")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rows", type=lambda text: text.split(","), help="these alone; 2 needs 1, 4 needs 3, 10 needs 9")
    options = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as work:
        for number, check in OF_FOLDER if options.folder else ROWS:
            if options.rows and number not in options.rows:
                continue
            row, name = Row(options, work), check.__doc__
            try:
                word, found = "passed", check(row)
            except LeftOut as error:
                word, found = "left out", error
            except Failed as error:
                failed += 1
                word, found = "FAILED", error
            codes = ", ".join(str(code) for code in sorted(set(row.codes))) or "none"
            print(f"{number:>2}  {word:8}  exit {codes}  {'ours, as ' if row.acted else ''}{name}: {found}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
