#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A language model in Temper and in peers: milliseconds of a prompt, then tokens a second. On a CPU beside ONNX Runtime and OpenVINO:

    temper zoo gpt2 -o gpt2.onnx; temper quantize gpt2.onnx --weights int8 -o gpt2_w8.onnx; temper build gpt2_w8.onnx -o gpt2_w8.plan --cache 1024 --threads 2
    ~/.cache/temper/venv/bin/python benchmarks/language_models.py gpt2_w8.onnx gpt2_w8.plan

On a GPU beside torch.compile, whose module is GPT-2 written here with caches of a fixed size, and the file's weights:

    temper build gpt2.onnx -o gpt2.plan --device cuda:0 --precision fp16 --cache 1024 --shapes input_ids=1x1:1x1024:1x1024
    python3 benchmarks/language_models.py gpt2.onnx gpt2.plan --device cuda:0 --prompt 960 --tokens 64 --check 256

Each engine is a process of its own that stays loaded, and waits while another has its turn. Greedy. ONNX Runtime gives past keys and
values back as they came out; OpenVINO keeps them itself (its stateful transformation). On a CPU every engine must choose the same tokens. With weights
of few bits OpenVINO rounds activations to 8 bits, too, unless --exact; Temper does not. PyTorch decodes in FP16, `torch` by mode reduce-overhead and
`torch_graph` by coordinate descent tuning in one CUDA graph recorded by hand; neither waits for a token before it begins the next one, as Temper does.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time

ENGINES = ("temper", "onnxruntime", "openvino", "torch", "torch_graph")
HERE = os.path.dirname(os.path.abspath(__file__))


def loop(step, ids, most):
    """step(ids, how many came before) -> the next token. Gives the tokens, ms of the first, tokens a second behind it."""
    start = time.perf_counter()
    tokens = [step(ids, 0)]
    first = time.perf_counter()
    while len(tokens) < most:
        tokens.append(step(tokens[-1:], len(ids) + len(tokens) - 1))
    return [tokens], 1e3 * (first - start), (most - 1) / (time.perf_counter() - first) if most > 1 else None


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

    def run(rows, most):
        kept = {port.name: value(numpy.zeros((1, port.shape[1], 0, port.shape[3]), "float32")) for port in past}

        def step(ids, before):
            made = session.run_with_ort_values(names, {**{name: value(array) for name, array in fed(ids, before).items()}, **kept})
            kept.update(zip((port.name for port in past), made[1:]))
            return int(made[0].numpy()[0, -1].argmax())
        return loop(step, rows[0], most)
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

    def run(rows, most):
        request.reset_state()
        return loop(lambda ids, before: int(request.infer(fed(ids, before))["logits"][0, -1].argmax()), rows[0], most)
    return re.match(r"[\d.]+", openvino.__version__)[0], run


def weights_of(path):
    """Float arrays of an ONNX file by name, those of few bits too: what a DequantizeLinear makes of constants, under their names without
    what `temper quantize` adds to them."""
    import numpy
    import onnx
    from onnx import numpy_helper
    model = onnx.load(path)
    arrays = {constant.name: numpy_helper.to_array(constant) for constant in model.graph.initializer}
    floats = {name: array for name, array in arrays.items() if array.dtype == numpy.float32}
    for node in model.graph.node:
        if node.op_type != "DequantizeLinear" or node.input[0] not in arrays:
            continue
        values, scale = arrays[node.input[0]].astype(numpy.float32), arrays[node.input[1]]
        settings = {a.name: a.i for a in node.attribute}
        if settings.get("block_size"):
            axis = settings.get("axis", 1)
            scale = numpy.repeat(scale, settings["block_size"], axis).take(range(values.shape[axis]), axis)
        elif scale.ndim == 1 and scale.size > 1:
            scale = numpy.expand_dims(scale, 1 - settings.get("axis", 1) % 2)
        if len(node.input) > 2 and node.input[2]:
            raise SystemExit(f"{node.output[0]} has zero points, which nobody reads here")
        floats[node.output[0].removesuffix(".quantized") + "/dequantized"] = values * scale
    return floats


def gpt2_module(args, positions, batch, dtype):
    """GPT-2 by PyTorch's operators, with caches of `positions` and what a step needs as buffers: step() has no arguments."""
    import torch
    from torch.nn.functional import gelu, layer_norm, linear, scaled_dot_product_attention

    found = weights_of(args.model)
    get = lambda name: torch.tensor(found[name + "/dequantized"] if name + "/dequantized" in found else found[name])
    layers = sum(name.startswith("transformer.h.") and name.endswith("ln_1.weight") for name in found)

    class Gpt2(torch.nn.Module):
        def __init__(self):
            super().__init__()
            keep = lambda name, tensor: self.register_buffer(name.replace(".", "_"), tensor.to(args.device).to(tensor.dtype if tensor.dtype == torch.int64 else dtype).contiguous())
            self.width = found["transformer.wte.weight"].shape[1]
            self.heads = self.width // 64
            keep("wte", torch.tensor(found["transformer.wte.weight"]))
            keep("wpe", get("transformer.wpe.weight"))
            keep("head", get("transformer.wte.weight"))
            for what in ("weight", "bias"):
                keep(f"ln_f.{what}", get(f"transformer.ln_f.{what}"))
                for i in range(layers):
                    for name in ("ln_1", "attn.c_attn", "attn.c_proj", "ln_2", "mlp.c_fc", "mlp.c_proj"):
                        tensor = get(f"transformer.h.{i}.{name}.{what}")
                        keep(f"{i}.{name}.{what}", tensor.t() if tensor.ndim == 2 else tensor)  # Conv1D keeps [in,out]
            for i in range(layers):
                for what in ("keys", "values"):
                    keep(f"{i}.{what}", torch.zeros(batch, self.heads, positions, 64))
            keep("token", torch.zeros(batch, 1, dtype=torch.int64))
            keep("position", torch.zeros(1, dtype=torch.int64))
            keep("made", torch.zeros(batch, positions + 1, dtype=torch.int64))
            keep("places", torch.arange(positions))

        def of(self, name):
            return getattr(self, name.replace(".", "_"))

        def layer(self, i, x, at, seen):
            part = lambda name: (self.of(f"{i}.{name}.weight"), self.of(f"{i}.{name}.bias"))
            split = lambda y: y.view(*y.shape[:2], self.heads, 64).transpose(1, 2)
            q, k, v = map(split, linear(layer_norm(x, (self.width,), *part("ln_1")), *part("attn.c_attn")).split(self.width, 2))
            if at is not None:
                keys, values = self.of(f"{i}.keys"), self.of(f"{i}.values")
                keys.index_copy_(2, at, k)
                values.index_copy_(2, at, v)
                if seen is not None:
                    k, v = keys, values
            y = scaled_dot_product_attention(q, k, v, attn_mask=seen, is_causal=seen is None)
            x = x + linear(y.transpose(1, 2).reshape(x.shape), *part("attn.c_proj"))
            y = linear(layer_norm(x, (self.width,), *part("ln_2")), *part("mlp.c_fc"))
            return x + linear(gelu(y, approximate="tanh"), *part("mlp.c_proj"))

        def logits(self, ids, at, seen, last=True, keep=True):
            x = self.wte[ids] + self.wpe[at]
            for i in range(layers):
                x = self.layer(i, x, at if keep else None, seen)
            return linear(layer_norm(x[:, -1:] if last else x, (self.width,), self.ln_f_weight, self.ln_f_bias), self.head)

        def chose(self, logits, at):
            token = logits[:, -1].argmax(1, keepdim=True)
            self.made.index_copy_(1, at, token)
            self.token.copy_(token)
            self.position.copy_(at)

        def prompt(self, ids):
            at = self.places[: ids.shape[1]]
            self.chose(self.logits(ids, at, None), at[-1:] + 1)

        def step(self):
            self.chose(self.logits(self.token, self.position, (self.places <= self.position)[None]), self.position + 1)

    return Gpt2().eval()


def torch_runner(args, by_hand=False):
    import torch
    from torch._inductor import config
    cuda = args.device != "cpu"
    torch.backends.cuda.matmul.allow_tf32 = False
    module = gpt2_module(args, args.positions, args.batch, torch.float16 if cuda else torch.float32)
    wait = torch.cuda.synchronize if cuda else lambda: None
    config.coordinate_descent_tuning = by_hand
    settings = {"dynamic": False, "fullgraph": True, **({} if by_hand or not cuda else {"mode": "reduce-overhead"})}
    prompt, step = torch.compile(module.prompt, **settings), torch.compile(module.step, **settings)
    if by_hand:
        ids = torch.zeros(args.batch, args.prompt, dtype=torch.int64, device=args.device)

        def recorded(call):
            side = torch.cuda.Stream()
            with torch.cuda.stream(side), torch.no_grad():
                for _ in range(3):
                    call()
            side.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph), torch.no_grad():
                call()
            return graph.replay
        compiled, step = prompt, recorded(step)
        replay = recorded(lambda: compiled(ids))

        def prompt(given):
            ids.copy_(given)
            replay()

    def run(rows, most):
        with torch.no_grad():
            given = torch.tensor(rows)
            wait()
            start = time.perf_counter()
            prompt(given.to(args.device))
            wait()
            first = time.perf_counter()
            for _ in range(most - 1):
                step()
            wait()
            seconds = time.perf_counter() - first
        length = given.shape[1]
        return module.made[:, length : length + most].tolist(), 1e3 * (first - start), (most - 1) * len(rows) / seconds if most > 1 else None
    return torch.__version__, run


def torch_graph_runner(args):
    return torch_runner(args, True)


def reference(args):
    """By PyTorch in FP32, with the file's weights made floats: what it goes on with from a token, how far the best logit is above the next
    one, and the logits behind the last token."""
    import torch
    torch.backends.cuda.matmul.allow_tf32 = False
    module = gpt2_module(args, 1, 1, torch.float32)
    ids, margins = [11], []
    with torch.no_grad():
        places = torch.arange(args.check, device=args.device)
        while len(ids) <= args.check:
            given = torch.tensor([ids], device=args.device)
            logits = module.logits(given, places[: len(ids)], None, keep=False)[0, -1]
            best = logits.topk(2)
            ids.append(int(best.indices[0]))
            margins.append(float(best.values[0] - best.values[1]))
    return {"ids": ids, "margins": margins, "logits": logits.tolist()}


def child(args):
    """Answers each line {"ids", "most"} with {"tokens", "first_ms", "rate"}; `ids` and `tokens` are lists of rows."""
    if args.child == "reference":
        print(json.dumps(reference(args)), flush=True)
        return
    version, run = globals()[f"{args.child}_runner"](args)
    print(json.dumps({"version": version}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        tokens, first_ms, rate = run(asked["ids"], asked["most"])
        print(json.dumps({"tokens": tokens, "first_ms": first_ms, "rate": rate}), flush=True)


def command_of(name, args, positions):
    if name == "temper":
        return [args.temper, "generate", args.plan, "--pipe", "--quiet", *(["--device", args.device] if args.device != "cpu" else [])]
    return [sys.executable, *sys.argv, "--child", name, "--positions", str(positions)]


class Engine:
    def __init__(self, name, args, positions=0):
        self.name, self.first, self.rates = name, [], []
        self.process = subprocess.Popen(command_of(name, args, positions), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def begin(self):
        self.ready = self.said()
        self.version = self.ready["version"]

    def said(self):
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} ended with {self.process.wait()}")
        return json.loads(line)

    def ask(self, **what):
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        return self.said()

    def row(self):
        return {"engine": self.name, "version": self.version, "first_ms": self.first, "tokens_per_s": self.rates}


def check(args, temper, batch):
    """How often Temper's next token is PyTorch's in FP32, on PyTorch's own text, and how far its logits are."""
    import numpy
    other = Engine("reference", args)
    wanted = other.said()
    ids, margins = wanted["ids"], numpy.array(wanted["margins"])
    found = numpy.array([temper.ask(ids=[ids[: at + 1]] * batch, most=1)["tokens"][0][0] for at in range(args.check)])
    same = found == numpy.array(ids[1 : args.check + 1])
    logits, exact = (numpy.array(values) for values in (temper.ask(ids=[ids[: args.check]] * batch, logits=True)["logits"][0], wanted["logits"]))
    result = {"positions": args.check, "same": int(same.sum()), "clear": int((margins > 1e-2).sum()), "clear_and_same": int((same & (margins > 1e-2)).sum()),
              "logits": float(numpy.abs(logits - exact).max() / numpy.abs(exact).max())}
    print(f"next tokens on PyTorch's own text in FP32: {result['same']} of {args.check} the same; where its margin exceeds 1e-2, {result['clear_and_same']} of {result['clear']}; "
          f"logits differ by {result['logits']:.2g} of the largest")
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="an ONNX model with past keys and values; for PyTorch GPT-2 with the names of transformers")
    parser.add_argument("plan", help="of the same model, or of its weights in few bits, built with --cache")
    parser.add_argument("--with", dest="engines", help="engines, separated by commas; by default all that run on the device")
    parser.add_argument("--temper", default=os.path.join(HERE, "..", "build", "temper"))
    parser.add_argument("--device", default="cpu", help="cpu, or cuda:0")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prompt", type=int, default=128, help="tokens of the prompt")
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--check", type=int, default=0, help="so many next tokens are compared with PyTorch's in FP32; 0: none")
    parser.add_argument("--exact", action="store_true", help="activations stay in FP32 in OpenVINO, too")
    parser.add_argument("--wait", metavar="FILE", help="begin when FILE is there; peers make themselves ready before, and the plan need not be there yet")
    parser.add_argument("--json", help="save everything measured")
    parser.add_argument("--child", choices=(*ENGINES, "reference"), help=argparse.SUPPRESS)
    parser.add_argument("--positions", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--batch", type=int, default=1, help="rows of the plan")
    args = parser.parse_args()
    if args.child:
        return child(args)
    names = args.engines.split(",") if args.engines else ["temper", "onnxruntime", "openvino"] if args.device == "cpu" else ["temper", "torch", "torch_graph"]
    positions = max(args.prompt + args.tokens, 2)
    engines = {name: Engine(name, args, positions) for name in names if name != "temper"}  # side by side until they are ready
    while args.wait and not os.path.exists(args.wait):
        time.sleep(0.1)
    engines = [engines[name] if name in engines else Engine(name, args) for name in names]
    result = {"model": args.model, "plan": args.plan, "device": args.device, "batch": args.batch, "prompt": args.prompt, "tokens": args.tokens, "failures": {}}
    # Rows of a batch are of one length here, and differ.
    rows = [[11 + (i + 7 * row) % 1000 for i in range(args.prompt)] for row in range(args.batch)]
    ready = []
    for engine in engines:
        try:
            engine.begin()
            engine.ask(ids=rows, most=min(2, args.tokens))  # warm
            ready.append(engine)
        except SystemExit as failure:
            if args.device == "cpu" or engine.name == "temper":
                raise
            result["failures"][engine.name] = str(failure)
            print(failure, file=sys.stderr)
    wanted = None
    for turn in range(args.rounds):
        for engine in ready if turn % 2 == 0 else reversed(ready):
            said = engine.ask(ids=rows, most=args.tokens)
            engine.first.append(said["first_ms"])
            engine.rates.append(said["rate"])
            wanted = wanted or said["tokens"]
            if said["tokens"] != wanted and args.device == "cpu":
                print(f"{engine.name} chooses other tokens: {said['tokens']} instead of {wanted}", file=sys.stderr)
    base = ready[0]
    where = f"{args.threads} threads" if args.device == "cpu" else args.device
    print(f"{args.plan}, batch {args.batch}, prompt of {args.prompt}, {args.tokens} tokens, {where}, {args.rounds} rounds in turns; medians (least, most)")
    for engine in ready:
        if args.tokens == 1:
            print(f"{engine.name} {engine.version}: prompt {statistics.median(engine.first):.3f} ms ({min(engine.first):.3f}, {max(engine.first):.3f}); "
                  f"{base.name} is {statistics.median(engine.first) / statistics.median(base.first):.2f}x as fast by medians")
            continue
        ratios = [statistics.median(engine.first) / statistics.median(base.first), statistics.median(base.rates) / statistics.median(engine.rates)]
        best = [min(engine.first) / min(base.first), max(base.rates) / max(engine.rates)]
        print(f"{engine.name} {engine.version}: prompt {statistics.median(engine.first):.3f} ms ({min(engine.first):.3f}, {max(engine.first):.3f}); then {statistics.median(engine.rates):.1f} tokens/s "
              f"({min(engine.rates):.1f}, {max(engine.rates):.1f}); {base.name} is {ratios[0]:.2f}x and {ratios[1]:.2f}x as fast by medians, {best[0]:.2f}x and {best[1]:.2f}x by best rounds")
    result["engines"] = [engine.row() for engine in ready]
    if args.check and base.name == "temper":
        result["check"] = check(args, base, args.batch)
    if args.json:
        with open(args.json, "w") as file:
            json.dump(result, file, indent=1)


if __name__ == "__main__":
    main()
