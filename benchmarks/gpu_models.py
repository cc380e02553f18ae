# SPDX-License-Identifier: Apache-2.0
"""Trained models of packages on one GPU, in each precision that needs no calibration: whether they run, how far their answers
are from ONNX Runtime's on the CPU, and which steps stay on the host (benchmarks/README.md)."""
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

SCHEMA = "temper.gpu_models/1"
# Chosen before any of them had run on a GPU: 18 of 14 kinds.
MODELS = ["ocr4_det", "ocr4_rec", "ocr_cls", "ocr6_det", "captcha_old", "orientation", "captcha_det", "nudenet", "layout", "magika",
          "basic_pitch", "silero_op15", "silero_fixed", "mel", "speech_embedding", "wake_mycroft", "aecmos", "plcmos"]
# How far an answer may be from ONNX Runtime's, of the largest value of each output.
LIMITS = {"fp32": 1e-4, "tf32": 1e-2, "fp16": 1e-2, "bf16": 1e-2}


def inputs_and_answers(args, name, folder):
    """Writes the inputs and ONNX Runtime's answers, in FP32 on the CPU; returns the model's file and its inputs by name."""
    import onnxruntime
    path = cpu_suite.model_file(args, name)
    arrays = cpu_models.inputs_of(cpu_models.MODELS[name], cpu_suite.signature_of(path))
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    outputs = [output.name for output in session.get_outputs()]
    np.savez(folder / "wanted.npz", **dict(zip(outputs, session.run(outputs, arrays))))
    return path, arrays


def measure(args, name, precision):
    row = {"model": name, "kind": cpu_models.MODELS[name].kind, "precision": precision}
    with tempfile.TemporaryDirectory(prefix="temper_gpu_models_") as temporary:
        folder = pathlib.Path(temporary)
        try:
            path, arrays = inputs_and_answers(args, name, folder)
            device = ["--device", args.device, *[word for path_ in args.cuda_path for word in ("--cuda-path", path_)]]
            shapes = [word for key, array in arrays.items() if array.ndim for word in ("--shapes", f"{key}={'x'.join(map(str, array.shape))}")]
            said, row["build_s"] = run_program([args.temper, "build", path, "-o", folder / "model.plan", "--precision", precision, *shapes, *device])
            row["said"] = said
            tactics = tactics_of(json.loads(run_program([args.temper, "inspect", folder / "model.plan", "--layers", "--json"])[0]))
            row.update(steps=len(tactics), host_steps=[tactic for tactic in tactics if tactic.startswith(("cpu.", "reference", "cuda.host"))])
            inputs = []
            for i, (key, array) in enumerate(arrays.items()):
                np.save(folder / f"in{i}.npy", array)
                inputs += ["--input", f"{key}={folder}/in{i}.npy"]
            run_program([args.temper, "run", folder / "model.plan", *inputs, "--output-dir", folder / "temper", "--top", "0", "--quiet", *device])
            row["difference"] = cpu_suite.difference(folder, np.load(folder / "wanted.npz"))
            row["met"] = row["difference"] <= LIMITS[precision]
        except Failure as failure:
            row["failure"] = str(failure)[-800:]
    return row


def line(row):
    start = f"{row['model']:18}{row['precision']:6}"
    if "failure" in row:
        return f"{start} FAILED {' '.join(row['failure'].split())[-300:]}"
    return f"{start}{row['difference']:11.1e} {'' if row['met'] else 'FAR':4}{row['build_s']:8.1f}{row['steps']:7}{len(row['host_steps']):9}"


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
        for row in pool.map(lambda pair: measure(args, *pair), [(name, precision) for name in args.only for precision in args.precisions]):
            content["rows"].append(row)
            print(line(row), flush=True)
            if args.json:
                save(args.json, content)
    bad = [row for row in content["rows"] if not row.get("met")]
    print(f"{len(content['rows']) - len(bad)} of {len(content['rows'])} run and agree (of the largest value: {', '.join(f'{k} {v:g}' for k, v in LIMITS.items())})")
    return 1 if bad else 0


if __name__ == "__main__":
    run_as_program("gpu_models", main)
