#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: torch_compile.py resnet50|bert [--frozen] [--guards-of-inputs] [--no-guards] [--no-marks] [--device cpu|cuda] [--small] [--pairs 2000] [--quick] [--wait FILE]: what a call through
torch.compile(backend="temper") costs beside Engine.run of the same engine, and whether both give the same bits. Needs PyTorch, and torchvision or
transformers; weights are drawn. Prints a row: model, bits, Engine.run, torch.compile, how much more (median of pairs), PyTorch's own part; in us.

Calls stand in turns: one of the compiled model, one of the engine, whose outputs lie there already. On a GPU a time is that of the call, which does
not wait; the GPU has come to rest before each. The least of PyTorch is a backend that returns what lies there: guards and nothing else. With --wait
the times are taken when FILE is there, so that a machine can be left alone for them."""
import argparse
import contextlib
import fcntl
import os
import statistics
import sys
import time

import torch

import temper.pytorch


def resnet50(small):
    import torchvision

    size = 32 if small else 224
    return torchvision.models.resnet50(weights=None, **({"width_per_group": 4} if small else {})).eval(), (torch.randn(1, 3, size, size),)


class Hidden(torch.nn.Module):
    """The last hidden state of BERT base."""

    def __init__(self, small):
        import transformers

        super().__init__()
        sizes = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32} if small else {}
        self.bert = transformers.BertModel(transformers.BertConfig(attn_implementation="eager", **sizes), add_pooling_layer=False)

    def forward(self, tokens, mask):
        return self.bert(tokens, attention_mask=mask).last_hidden_state


def bert(small):
    length = 8 if small else 128
    return Hidden(small).eval(), (torch.randint(0, 30000, (1, length)), torch.ones(1, length, dtype=torch.int64))


def paired(first, second, pairs, rest):
    """The times of both, in microseconds, in turns."""
    times = [], []
    for i in range(pairs + 100):
        for call, kept in ((first, times[0]), (second, times[1])):
            rest()
            start = time.perf_counter_ns()
            call()
            if i >= 100:
                kept.append((time.perf_counter_ns() - start) / 1000)
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("model", choices=["resnet50", "bert"])
    parser.add_argument("--frozen", action="store_true", help="weights never change, and PyTorch makes no guards of modules")
    parser.add_argument("--guards-of-inputs", action="store_true", help="and PyTorch makes none of global variables: temper.pytorch.guards_of_inputs")
    parser.add_argument("--no-guards", action="store_true", help="and PyTorch makes no guards at all: Engine.run refuses other shapes and types by itself")
    parser.add_argument("--no-marks", action="store_true", help="PyTorch marks no call for its profiler: torch._dynamo.config.record_runtime_overhead = False")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--small", action="store_true", help="as many layers and weights, which are smaller: a CPU's runs do not hide what a call costs")
    parser.add_argument("--pairs", type=int, default=2000)
    parser.add_argument("--quick", action="store_true", help="build without measuring: the cost of a call is the same")
    parser.add_argument("--wait", help="a file")
    options = parser.parse_args()
    torch.manual_seed(0)
    rest = torch.cuda.synchronize if options.device == "cuda" else lambda: None
    stream = torch.cuda.current_stream().cuda_stream if options.device == "cuda" else None
    model, inputs = {"resnet50": resnet50, "bert": bert}[options.model](options.small)
    model, inputs = model.to(options.device), tuple(x.to(options.device) for x in inputs)
    left_out, how = None, ""
    for given, filter_fn, said in ((options.frozen, torch.compiler.skip_guard_on_all_nn_modules_unsafe, "without guards of modules"),
                                   (options.guards_of_inputs, temper.pytorch.guards_of_inputs, "guards of inputs"),
                                   (options.no_guards, torch.compiler.skip_all_guards_unsafe, "without guards")):  # fmt: skip
        if given:
            left_out, how = filter_fn, f", frozen, {said}"
    guards = {"guard_filter_fn": left_out} if left_out else {}
    if options.no_marks:
        torch._dynamo.config.record_runtime_overhead = False
        how += ", without marks"
    given = {"quick": options.quick, **({"threads": 1} if options.small else {}), **({"frozen": True} if left_out else {}), **guards}
    kept = []

    class Kept(temper.pytorch._Compiled):
        """Keeps what PyTorch calls it with first, and is then as it was."""

        def __call__(self, *arguments):
            kept.append((self, arguments))
            self.__class__ = original
            return self(*arguments)

    original, temper.pytorch._Compiled = temper.pytorch._Compiled, Kept
    fast = torch.compile(model, backend="temper", options=given)
    with torch.no_grad():
        first = fast(*inputs)
    temper.pytorch._Compiled = original
    assert not temper.pytorch.left and len(kept) == 1, temper.pytorch.left
    part = next(iter(kept[0][0]._parts.values()))
    engine, taken, into = part.engine, [kept[0][1][i] for i in part._inputs], torch.empty_like(first)

    def direct():
        engine.run(taken, [into], stream=stream)

    direct()
    rest()
    same = torch.equal(first, into)
    while options.wait and not os.path.exists(options.wait):
        time.sleep(0.1)
    with contextlib.ExitStack() as stack:
        if options.wait:  # one at a time
            fcntl.flock(stack.enter_context(open(options.wait)), fcntl.LOCK_EX)
        with torch.no_grad():
            compiled, run = paired(lambda: fast(*inputs), direct, options.pairs, rest)
            more = sorted(a - b for a, b in zip(compiled, run))
            torch._dynamo.reset()
            floor = torch.compile(model, backend=lambda graph, example: lambda *arguments: (into,), options=dict(guards))
            own, _ = paired(lambda: floor(*inputs), lambda: None, options.pairs, rest)
    print(f"| {options.model}{', small' if options.small else ''}{how} | {'the same bits' if same else 'OTHER BITS'} | {statistics.median(run):.1f} | "
          f"{statistics.median(compiled):.1f} | {statistics.median(more):.1f} (a tenth: {more[len(more) // 10]:.1f}) | {statistics.median(own):.1f} |", flush=True)  # fmt: skip
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
