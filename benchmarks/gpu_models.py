# SPDX-License-Identifier: Apache-2.0
"""Trained models of packages on one GPU, in each precision that needs no calibration: whether they run, how far their answers
are from ONNX Runtime's on the CPU, and which steps stay on the host (benchmarks/README.md). A narrow precision that is too far is
built again with `--max-drop`, which keeps the layers that lose most in f32, and these are named; what FP32 gives is held against
answers in f64 where it is far from ONNX Runtime's."""
import argparse
import concurrent.futures
import datetime
import json
import pathlib
import sys
import tempfile

import cpu_models
import cpu_suite
import numpy as np

from temper.versus.turns import Failure, run_as_program, run_program, save, tactics_of

SCHEMA = "temper.gpu_models/2"
# Chosen before any of them had run on a GPU: 18 of 14 kinds.
MODELS = ["ocr4_det", "ocr4_rec", "ocr_cls", "ocr6_det", "captcha_old", "orientation", "captcha_det", "nudenet", "layout", "magika",
          "basic_pitch", "silero_op15", "silero_fixed", "mel", "speech_embedding", "wake_mycroft", "aecmos", "plcmos"]
# How far an answer may be from ONNX Runtime's, of the largest value of each output.
LIMITS = {"fp32": 1e-4, "tf32": 1e-2, "fp16": 1e-2, "bf16": 1e-2}
# What --max-drop is told, of the limit: trials take other kernels than the plan, which round otherwise.
BUDGETS = [0.8, 0.4]


def inputs_and_answers(args, name, folder):
    """Writes the inputs and ONNX Runtime's answers, in FP32 on the CPU; returns the model's file and its inputs by name."""
    import onnxruntime
    path = cpu_suite.model_file(args, name)
    arrays = cpu_models.inputs_of(cpu_models.MODELS[name], cpu_suite.signature_of(path))
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    outputs = [output.name for output in session.get_outputs()]
    np.savez(folder / "wanted.npz", **dict(zip(outputs, session.run(outputs, arrays))))
    np.savez(folder / "inputs.npz", **arrays)
    return path, arrays


def exact_answers(path, arrays, file):
    """Writes the answers in f64, by ONNX's own plain implementation of each op."""
    import onnx
    from onnx import numpy_helper
    from onnx.reference import ReferenceEvaluator
    double = lambda tensor: numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name)
    model = onnx.load(str(path))
    graph = model.graph
    constants = {}
    for tensor in graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT:
            tensor.CopyFrom(double(tensor))
        constants[tensor.name] = tensor
    nodes = []
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t") and attribute.t.data_type == onnx.TensorProto.FLOAT:
                attribute.t.CopyFrom(double(attribute.t))
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i == onnx.TensorProto.FLOAT:
                attribute.i = onnx.TensorProto.DOUBLE
        if node.op_type == "Constant" and node.attribute[0].HasField("t"):
            constants[node.output[0]] = node.attribute[0].t
        if node.op_type != "BatchNormalization":
            nodes.append(node)
            continue
        # ONNX's implementation takes one of old opsets for one that trains.
        scale, shift, mean, variance = (numpy_helper.to_array(constants[name]).astype(np.float64) for name in node.input[1:5])
        epsilon = next((a.f for a in node.attribute if a.name == "epsilon"), 1e-5)
        factor = scale / np.sqrt(variance + epsilon)
        names = [f"{node.output[0]}/{part}" for part in ("factor", "term", "scaled")]
        for part, values in zip(names, (factor, shift - mean * factor)):
            graph.initializer.append(numpy_helper.from_array(values.reshape(-1, 1, 1), part))
        nodes += [onnx.helper.make_node("Mul", [node.input[0], names[0]], [names[2]]),
                  onnx.helper.make_node("Add", [names[2], names[1]], [node.output[0]])]
    del graph.node[:], graph.value_info[:]
    graph.node.extend(nodes)
    for value in [*graph.input, *graph.output]:
        if value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT:
            value.type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    wider = {key: array.astype(np.float64) if array.dtype == np.float32 else array for key, array in arrays.items()}
    np.savez(file, **dict(zip([output.name for output in graph.output], ReferenceEvaluator(model).run(None, wider))))


def build_and_run(args, path, arrays, folder, precision, more=()):
    """Builds, and runs the drawn inputs; returns what a row says of it, and what the build printed."""
    device = ["--device", args.device, *[word for path_ in args.cuda_path for word in ("--cuda-path", path_)]]
    shapes = [word for key, array in arrays.items() if array.ndim for word in ("--shapes", f"{key}={'x'.join(map(str, array.shape))}")]
    said, seconds = run_program([args.temper, "build", path, "-o", folder / "model.plan", "--precision", precision, *shapes, *device, *more])
    tactics = tactics_of(json.loads(run_program([args.temper, "inspect", folder / "model.plan", "--layers", "--json"])[0]))
    inputs = []
    for i, (key, array) in enumerate(arrays.items()):
        np.save(folder / f"in{i}.npy", array)
        inputs += ["--input", f"{key}={folder}/in{i}.npy"]
    run_program([args.temper, "run", folder / "model.plan", *inputs, "--output-dir", folder / "temper", "--top", "0", "--quiet", *device])
    return {"build_s": seconds, "steps": len(tactics),
            "host_steps": [tactic for tactic in tactics if tactic.startswith(("cpu.", "reference", "cuda.host"))],
            "difference": cpu_suite.difference(folder, np.load(folder / "wanted.npz"))}, said


def keep_in_f32(args, path, arrays, folder, row):
    """Builds again with the layers that lose most in f32, until the answer is near enough."""
    row["as_asked"] = {key: row[key] for key in ("difference", "build_s", "steps")}
    for share in BUDGETS:
        found, said = build_and_run(args, path, arrays, folder, row["precision"],
                                    ["--data", folder / "inputs.npz", "--metric", "difference", "--max-drop",
                                     f"{100 * share * LIMITS[row['precision']]:g}%", "--json", "--force"])
        layers = json.loads(said)["layers"]
        row.update(found, products=len(layers), kept=[layer["layer"] for layer in layers if layer["decision"] == "fp32"])
        if found["difference"] <= LIMITS[row["precision"]]:
            break


def hold_against_f64(path, arrays, folder, row):
    """Of FP32: how far its answer and ONNX Runtime's are from the exact one."""
    exact_answers(path, arrays, folder / "exact.npz")
    exact, wanted = np.load(folder / "exact.npz"), np.load(folder / "wanted.npz")
    row.update(from_onnxruntime=row["difference"], difference=cpu_suite.difference(folder, exact),
               onnxruntime_from_f64=max(cpu_suite.largest_share(wanted[key], exact[key]) for key in exact.files))


def measure(args, name, precision):
    row = {"model": name, "kind": cpu_models.MODELS[name].kind, "precision": precision}
    with tempfile.TemporaryDirectory(prefix="temper_gpu_models_") as temporary:
        folder = pathlib.Path(temporary)
        try:
            path, arrays = inputs_and_answers(args, name, folder)
            found, row["said"] = build_and_run(args, path, arrays, folder, precision)
            row.update(found)
            if row["difference"] > LIMITS[precision]:
                if precision == "fp32":
                    hold_against_f64(path, arrays, folder, row)
                else:
                    keep_in_f32(args, path, arrays, folder, row)
            row["met"] = row["difference"] <= LIMITS[precision]
        except Failure as failure:
            row["failure"] = str(failure)[-800:]
    return row


def line(row):
    start = f"{row['model']:18}{row['precision']:6}"
    if "failure" in row:
        return f"{start} FAILED {' '.join(row['failure'].split())[-300:]}"
    text = f"{start}{row['difference']:11.1e} {'' if row['met'] else 'FAR':4}{row['build_s']:8.1f}{row['steps']:7}{len(row['host_steps']):9}"
    if "kept" in row:
        text += (f"  {row['as_asked']['difference']:.1e} as asked; in f32 {len(row['kept'])} of {row['products']} layers"
                 f"{': ' if row['kept'] else ''}{', '.join(row['kept'])}")
    if "onnxruntime_from_f64" in row:
        text += f"  of the answer in f64, from which ONNX Runtime's is {row['onnxruntime_from_f64']:.1e}; {row['from_onnxruntime']:.1e} from that"
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    names = lambda text: text.split(",")
    parser.add_argument("--suite", choices=["models"], required=True)
    parser.add_argument("--temper", default=str(cpu_suite.HERE.parent / "build/temper"))
    parser.add_argument("--models", type=pathlib.Path, required=True, help="the folder that ./dev setup models made")
    parser.add_argument("--only", type=names, default=MODELS, help="models, separated by commas")
    parser.add_argument("--precisions", type=names, default=list(LIMITS))
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--cuda-path", action="append", default=[], help="given to temper")
    parser.add_argument("--jobs", type=int, default=1, help="how many are built side by side; their speed is not measured")
    parser.add_argument("--json", help="save everything found")
    args = parser.parse_args()
    doctor = json.loads(run_program([args.temper, "doctor", "--json"])[0])
    content = {"schema": SCHEMA, "date": datetime.date.today().isoformat(), "revision": doctor["environment"]["revision"],
               "device": doctor["gpus"][0]["name"] if doctor["gpus"] else "cpu", "rows": []}
    print(f"{'model':18}{'':6}{'difference':>11} {'':4}{'build s':>8}{'steps':>7}{'on host':>9}")
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        asked = [(name, precision) for name in args.only for precision in args.precisions]
        for done in concurrent.futures.as_completed([pool.submit(measure, args, *pair) for pair in asked]):
            content["rows"].append(done.result())
            content["rows"].sort(key=lambda row: asked.index((row["model"], row["precision"])))
            print(line(done.result()), flush=True)
            if args.json:
                save(args.json, content)
    bad = [row for row in content["rows"] if not row.get("met")]
    print(f"{len(content['rows']) - len(bad)} of {len(content['rows'])} run and agree (of the largest value: {', '.join(f'{k} {v:g}' for k, v in LIMITS.items())})")
    return 1 if bad else 0


if __name__ == "__main__":
    run_as_program("gpu_models", main)
