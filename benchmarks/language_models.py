#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A language model on a CPU in Temper, ONNX Runtime and OpenVINO: milliseconds of a prompt, then tokens a second.

    temper zoo gpt2 -o gpt2.onnx; temper quantize gpt2.onnx --weights int8 -o gpt2_w8.onnx; temper build gpt2_w8.onnx -o gpt2_w8.plan --cache 1024 --threads 2
    PYTHONPATH=build/python ~/.cache/temper/venv/bin/python benchmarks/language_models.py gpt2_w8.onnx gpt2_w8.plan

Each engine is a process of its own that stays loaded, and waits while another has its turn. Greedy, batch 1. ONNX Runtime gives past keys and
values back as they came out; OpenVINO keeps them itself (its stateful transformation). Every engine must choose the same tokens. With weights of few bits
OpenVINO rounds activations to 8 bits, too, unless --exact; Temper does not.
"""
import argparse
import json
import re
import statistics
import subprocess
import sys
import time

ENGINES = ("temper", "onnxruntime", "openvino")


def temper_runner(args):
    import temper
    engine = temper.load(args.plan)

    def run(ids, most):
        said = temper.generate(engine, ids, max_tokens=most, ignore_end=True)
        tokens = [token.id for token in said]
        return tokens, said.first_ms, said.tokens_per_second
    return temper.__version__, run


def loop(step, ids, most):
    """step(ids, how many came before) -> the next token. Gives the tokens, ms of the first, tokens a second behind it."""
    start = time.perf_counter()
    tokens = [step(ids, 0)]
    first = time.perf_counter()
    while len(tokens) < most:
        tokens.append(step(tokens[-1:], len(ids) + len(tokens) - 1))
    return tokens, 1e3 * (first - start), (most - 1) / (time.perf_counter() - first) if most > 1 else None


def fed(ids, before):
    import numpy
    return {"input_ids": numpy.array([ids], "int64"), "attention_mask": numpy.ones((1, before + len(ids)), "int64"), "position_ids": numpy.arange(before, before + len(ids), dtype="int64")[None]}


def onnxruntime_runner(args):
    import numpy
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = args.threads, 1
    session = onnxruntime.InferenceSession(args.model, options, providers=["CPUExecutionProvider"])
    value = onnxruntime.OrtValue.ortvalue_from_numpy
    past = [port for port in session.get_inputs() if port.name.startswith("past")]
    names = ["logits", *(port.name.replace("past_key_values", "present") for port in past)]

    def run(ids, most):
        kept = {port.name: value(numpy.zeros((1, port.shape[1], 0, port.shape[3]), "float32")) for port in past}

        def step(ids, before):
            made = session.run_with_ort_values(names, {**{name: value(array) for name, array in fed(ids, before).items()}, **kept})
            kept.update(zip((port.name for port in past), made[1:]))
            return int(made[0].numpy()[0, -1].argmax())
        return loop(step, ids, most)
    return onnxruntime.__version__, run


def openvino_runner(args):
    import openvino
    from openvino._offline_transformations import apply_make_stateful_transformation
    core = openvino.Core()
    model = core.read_model(args.model)
    names = [port.get_any_name() for port in model.inputs if port.get_any_name().startswith("past")]
    model.reshape({port.get_any_name(): openvino.PartialShape([1, *list(port.partial_shape)[1:]]) for port in model.inputs})
    apply_make_stateful_transformation(model, {name: name.replace("past_key_values", "present") for name in names})
    settings = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": args.threads, "PERFORMANCE_HINT": "LATENCY"}
    if args.exact:
        settings["DYNAMIC_QUANTIZATION_GROUP_SIZE"] = 0
    compiled = core.compile_model(model, "CPU", settings)
    request = compiled.create_infer_request()

    def run(ids, most):
        request.reset_state()
        return loop(lambda ids, before: int(request.infer(fed(ids, before))["logits"][0, -1].argmax()), ids, most)
    return re.match(r"[\d.]+", openvino.__version__)[0], run


def child(args):
    """Answers each line {"ids", "most"} with {"tokens", "first_ms", "rate"}."""
    version, run = globals()[f"{args.child}_runner"](args)
    print(json.dumps({"version": version}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        tokens, first_ms, rate = run(asked["ids"], asked["most"])
        print(json.dumps({"tokens": tokens, "first_ms": first_ms, "rate": rate}), flush=True)


class Engine:
    def __init__(self, name):
        self.name, self.first, self.rates = name, [], []
        self.process = subprocess.Popen([sys.executable, *sys.argv, "--child", name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.version = self.said()["version"]

    def said(self):
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} ended with {self.process.wait()}")
        return json.loads(line)

    def run(self, ids, most):
        self.process.stdin.write(json.dumps({"ids": ids, "most": most}) + "\n")
        self.process.stdin.flush()
        return self.said()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="an ONNX model with past keys and values")
    parser.add_argument("plan", help="of the same model, built with --cache")
    parser.add_argument("--with", dest="engines", default=",".join(ENGINES), help="engines, separated by commas")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prompt", type=int, default=128, help="tokens of the prompt")
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--exact", action="store_true", help="activations stay in FP32 in OpenVINO, too")
    parser.add_argument("--child", choices=ENGINES, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        return child(args)
    engines = [Engine(name) for name in args.engines.split(",")]
    ids = [11 + i % 1000 for i in range(args.prompt)]
    wanted = None
    for engine in engines:
        engine.run(ids, 2)  # warm
    for turn in range(args.rounds):
        for engine in engines if turn % 2 == 0 else reversed(engines):
            said = engine.run(ids, args.tokens)
            engine.first.append(said["first_ms"])
            engine.rates.append(said["rate"])
            wanted = wanted or said["tokens"]
            if said["tokens"] != wanted:
                print(f"{engine.name} chooses other tokens: {said['tokens']} instead of {wanted}", file=sys.stderr)
    base = engines[0]
    print(f"{args.model}, prompt of {args.prompt}, {args.tokens} tokens, {args.threads} threads, {args.rounds} rounds in turns; medians (least, most)")
    for engine in engines:
        ratios = [statistics.median(engine.first) / statistics.median(base.first), statistics.median(base.rates) / statistics.median(engine.rates)]
        best = [min(engine.first) / min(base.first), max(base.rates) / max(engine.rates)]
        print(f"{engine.name} {engine.version}: prompt {statistics.median(engine.first):.1f} ms ({min(engine.first):.1f}, {max(engine.first):.1f}); then {statistics.median(engine.rates):.1f} tokens/s "
              f"({min(engine.rates):.1f}, {max(engine.rates):.1f}); {base.name} is {ratios[0]:.2f}x and {ratios[1]:.2f}x as fast by medians, {best[0]:.2f}x and {best[1]:.2f}x by best rounds")


if __name__ == "__main__":
    main()
