#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What Python costs over C++: one run, and eight threads on one engine, by engine.run(x), which makes an array for each output, and
by a binding, which reads and writes arrays that stay, as C++ does here. Rounds of all in turns, because machines drift.

usage: PYTHONPATH=build/python python3 benchmarks/python_binding.py MODEL.onnx [BATCH] [ROUNDS]
"""
import statistics
import sys
import threading
import time

import numpy

import temper

THREADS, SECONDS = 8, 1.0


def python_throughput(make):
    """Runs a second of as many threads, each of what `make` makes for it."""
    rates = [0.0] * THREADS
    ready = threading.Barrier(THREADS)

    def work(i):
        run = make()
        run()
        ready.wait()
        start, runs = time.perf_counter(), 0
        while time.perf_counter() - start < SECONDS:
            run()
            runs += 1
        rates[i] = runs / (time.perf_counter() - start)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(rates)


def summary(name, values, unit):
    quartiles = statistics.quantiles(values, n=4)
    print(f"{name}: median {statistics.median(values):.3f} {unit} of {len(values)} rounds, quartiles {quartiles[0]:.3f} and {quartiles[2]:.3f}")


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    model, batch, rounds = (sys.argv[1:] + ["1", "15"][len(sys.argv) - 2 :])[:3]
    batch, rounds = int(batch), int(rounds)
    port = temper.Graph.from_onnx(model).inputs[0]
    shape = tuple(batch if i == 0 else d for i, d in enumerate(port.shape))
    engine = temper.build(model, shapes=shape, threads=1)
    x = numpy.random.default_rng(0).uniform(0, 1, shape).astype(port.dtype)
    ways = {"run(x)": lambda: lambda: engine.run(x), "a binding": lambda: engine.bind(x).run}
    extra, ratios = {way: [] for way in ways}, {way: [] for way in ways}
    native_ms = []
    for round in range(rounds):
        native_ms.append(temper.bench(engine, x, duration=0.5).median_ms)
        for way, make in ways.items():
            extra[way].append((temper.bench(make(), duration=0.5).median_ms - native_ms[-1]) * 1e3)
        # C++ before Python and after it in turns, so that what drifts within a round favours neither.
        rates = {}
        for side in ["C++", *ways][:: 1 if round % 2 else -1]:
            if side == "C++":
                rates[side] = temper.bench(engine, x, streams=THREADS, duration=SECONDS, error=1e-9).throughput_per_s / batch
            else:
                rates[side] = python_throughput(ways[side])
        for way in ways:
            ratios[way].append(rates[way] / rates["C++"])
    print(f"one run in C++: {statistics.median(native_ms) * 1e3:.1f} microseconds")
    for way in ways:
        summary(f"one run in Python, {way}, takes longer by", extra[way], "microseconds")
    for way in ways:
        summary(f"{THREADS} threads of Python, {way}, over {THREADS} of C++, throughput", ratios[way], "times")


if __name__ == "__main__":
    main()
