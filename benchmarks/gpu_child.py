# SPDX-License-Identifier: Apache-2.0
"""PyTorch on one GPU, loaded once and run when asked: a child of gpu_peers.py and gpu_suite.py.

Says `ready {json}`; then each line N on standard input is answered with N times in ms, by CUDA events, as a JSON array.
The input lies on the GPU in the model's dtype, channels last. MODEL: a name of torchvision, gemm, or with --exchange one of
architectures.py; then its inputs and its FP32 output are written to that folder first, as .npy."""
import argparse
import json
import os
import sys
import time

import torch
import torchvision
from torch._inductor import config as inductor_config

GROUP = 10  # calls between two events: one call alone would be measured with the host's launches in it


def architecture(name, batch, folder, dtype):
    """The module on the GPU, its inputs by name, and its FP32 answer, which was written."""
    import architectures
    import numpy
    model = architectures.module_of(name)
    if architectures.ALL[name].zoo:
        architectures.take_weights(model, os.path.join(folder, "model.onnx"))
    model, inputs = model.cuda(), {k: t.cuda() for k, t in architectures.inputs_of(name, batch).items()}
    with torch.no_grad():
        answer = model(**inputs)
    for key, tensor in {**inputs, "answer": answer}.items():
        numpy.save(os.path.join(folder, key + ".npy"), tensor.cpu().numpy())
    layout = {"memory_format": torch.channels_last} if any(t.ndim == 4 for t in inputs.values()) else {}
    inputs = {k: t.to(dtype=dtype, **(layout if t.ndim == 4 else {})) if t.is_floating_point() else t for k, t in inputs.items()}
    return model.to(dtype=dtype, **layout), inputs, answer


def difference(found, wanted):
    """The largest difference, of the largest value."""
    return float((found.double() - wanted.double()).abs().max() / wanted.double().abs().max())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mode", choices=["eager", "graph", "compile"])
    parser.add_argument("model")
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--exchange", metavar="DIR", help="folder for inputs and the FP32 output; MODEL is one of architectures.py")
    parser.add_argument("--precision", choices=["fp32", "tf32", "fp16", "bf16", "int8"], required=True)
    args = parser.parse_args()
    start = time.perf_counter()
    torch.backends.cudnn.benchmark = True
    allow = args.precision == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = allow
    dtype = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(args.precision, torch.float32)
    torch.manual_seed(0)
    if args.model == "gemm":
        size = (args.batch, args.batch)
        if args.precision == "int8":
            x, weights = (torch.randint(-128, 128, size, device="cuda", dtype=torch.int8) for _ in range(2))
            weights = weights.t()  # as cuBLASLt is fastest: columns lie in one piece
            model = lambda x: torch._int_mm(x, weights)  # sums in int32
        else:
            x, weights = (torch.rand(size, device="cuda", dtype=dtype) * 2 - 1 for _ in range(2))
            model = lambda x: x @ weights
    elif args.exchange:
        model, x, answer = architecture(args.model, args.batch, args.exchange, dtype)
    else:
        model = getattr(torchvision.models, args.model)(weights=None).eval().cuda().to(dtype=dtype, memory_format=torch.channels_last)
        x = torch.randn(args.batch, 3, 224, 224, device="cuda", dtype=dtype).to(memory_format=torch.channels_last)
    with torch.inference_mode(args.mode != "compile"), torch.no_grad():
        if args.mode == "compile":
            inductor_config.freezing = True
            call = torch.compile(model, mode="reduce-overhead")
        else:
            call = model
        run = (lambda: call(**x)) if isinstance(x, dict) else (lambda: call(x))
        first = time.perf_counter()
        found = run()
        torch.cuda.synchronize()
        first_run_ms = (time.perf_counter() - first) * 1e3
        far = {"difference": difference(found, answer)} if args.exchange else {}
        for _ in range(5):
            run()
        torch.cuda.synchronize()
        if args.mode == "graph":
            side = torch.cuda.Stream()
            with torch.cuda.stream(side):
                for _ in range(3):
                    run()
            side.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                run()
            run = graph.replay
        for _ in range(5):
            run()
        torch.cuda.synchronize()
        ready = {"name": f"torch {args.mode}", "version": torch.__version__, "batch": args.batch, "first_run_ms": first_run_ms,
                 "load_s": time.perf_counter() - start, "gpu": torch.cuda.get_device_name(), "cudnn": torch.backends.cudnn.version(), **far}
        print("ready " + json.dumps(ready), flush=True)
        for line in sys.stdin:
            count = int(line)
            times = []
            while len(times) < count:
                calls = min(GROUP, count - len(times))
                before, after = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                before.record()
                for _ in range(calls):
                    run()
                after.record()
                after.synchronize()
                times += [before.elapsed_time(after) / calls] * calls
            print(json.dumps(times), flush=True)


if __name__ == "__main__":
    main()
