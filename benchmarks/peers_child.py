# SPDX-License-Identifier: Apache-2.0
"""One peer engine in a process of its own, under the protocol of `temper bench PLAN --pipe`.

After loading and warming up it prints `ready {json}`. For every line `N` it runs N times and prints one JSON array of N
times in milliseconds; for a line `output FILE` it saves its first output as .npy and prints `"saved"`. It waits in a
blocking read, so that it takes no time from another engine. The input is written to it once: transfers of data into the
engine are part of no engine's time.
"""
import argparse
import json
import sys
import time

import numpy as np


def resident_peak_bytes():
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith("VmHWM"):
                return int(line.split()[1]) * 1024
    raise RuntimeError("/proc/self/status has no VmHWM")


def load_onnxruntime(args, data):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = args.threads
    options.inter_op_num_threads = 1
    start = time.perf_counter()
    session = onnxruntime.InferenceSession(args.model, options, providers=["CPUExecutionProvider"])
    seconds = time.perf_counter() - start
    # Outputs are bound once, so that no run allocates or copies them into new arrays.
    binding = session.io_binding()
    name = session.get_inputs()[0].name
    binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(data))
    for output in session.get_outputs():
        binding.bind_output(output.name, "cpu")
    return (onnxruntime.__version__, seconds, lambda: session.run_with_iobinding(binding),
            lambda: binding.copy_outputs_to_cpu()[0])


def load_openvino(args, data):
    import openvino

    core = openvino.Core()
    start = time.perf_counter()
    model = core.read_model(args.model)
    model.reshape(list(data.shape))
    compiled = core.compile_model(model, "CPU", {
        "INFERENCE_PRECISION_HINT": {"fp32": "f32", "int8": "f32", "bf16": "bf16"}[args.precision],
        "INFERENCE_NUM_THREADS": args.threads,
        "PERFORMANCE_HINT": "LATENCY",
    })
    if args.precision == "bf16" and compiled.get_property("INFERENCE_PRECISION_HINT").get_type_name() != "bf16":
        raise RuntimeError("OpenVINO does not compute in bf16 on this CPU")
    request = compiled.create_infer_request()
    seconds = time.perf_counter() - start
    request.set_input_tensor(openvino.Tensor(data, shared_memory=True))
    return (openvino.__version__.split("-")[0], seconds, request.infer, lambda: request.get_output_tensor(0).data.copy())


LOADERS = {"onnxruntime": load_onnxruntime, "openvino": load_openvino}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("engine", choices=LOADERS)
    parser.add_argument("model")
    parser.add_argument("input", help=".npy; its shape is the shape that is run")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--precision", choices=["fp32", "int8", "bf16"], default="fp32",
                        help="int8: the model is a Q/DQ file")
    args = parser.parse_args()
    data = np.load(args.input)
    interpreter = resident_peak_bytes()
    version, load_s, run, output = LOADERS[args.engine](args, data)
    start = time.perf_counter()
    run()
    first_run_ms = (time.perf_counter() - start) * 1e3
    for _ in range(3):
        run()

    def ready():
        return {"name": args.engine, "version": version, "load_s": load_s, "first_run_ms": first_run_ms,
                "peak_rss": resident_peak_bytes(), "interpreter_rss": interpreter}

    print("ready", json.dumps(ready()), flush=True)
    for line in sys.stdin:
        word, _, rest = line.strip().partition(" ")
        if word == "output":
            np.save(rest, output())
            print('"saved"', flush=True)
            continue
        times = []
        for _ in range(int(word)):
            start = time.perf_counter()
            run()
            times.append((time.perf_counter() - start) * 1e3)
        print(json.dumps(times), flush=True)


if __name__ == "__main__":
    main()
