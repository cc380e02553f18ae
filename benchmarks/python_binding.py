#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What Python costs over C++: one run, and eight threads on one engine. Rounds of both in turns, because machines drift.

usage: PYTHONPATH=build/python python3 benchmarks/python_binding.py MODEL.onnx [BATCH] [ROUNDS]
"""
import statistics
import sys
import threading
import time

import numpy

import temper

THREADS, SECONDS = 8, 1.0


def python_throughput(engine, x):
    rates = [0.0] * THREADS
    ready = threading.Barrier(THREADS)

    def work(i):
        engine.run(x)
        ready.wait()
        start, runs = time.perf_counter(), 0
        while time.perf_counter() - start < SECONDS:
            engine.run(x)
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
    extra, ratios = [], []
    for _ in range(rounds):
        one = temper.bench(engine, x, duration=0.5).median_ms
        extra.append((temper.bench(engine.run, x, duration=0.5).median_ms - one) * 1e3)
        native = temper.bench(engine, x, streams=THREADS, duration=SECONDS, error=1e-9).throughput_per_s / batch
        ratios.append(python_throughput(engine, x) / native)
    print(f"one run in C++: {one * 1e3:.1f} microseconds")
    summary("one run in Python takes longer by", extra, "microseconds")
    summary(f"{THREADS} threads of Python over {THREADS} of C++, throughput", ratios, "times")


if __name__ == "__main__":
    main()
