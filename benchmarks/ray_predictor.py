#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What Ray takes of a model's throughput: temper.ray.Predictor over ray.data beside a loop in this process, in turns.

usage: ray_predictor.py PLAN [--batch N] [--batches N] [--rounds N] [--concurrency N]     a plan of one input; with PYTHONPATH=build/python and Ray's environment
"""
import argparse
import os
import time

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"

import numpy as np
import ray

import temper
import temper.ray

arguments = argparse.ArgumentParser()
arguments.add_argument("plan")
arguments.add_argument("--batch", type=int, default=32)
arguments.add_argument("--batches", type=int, default=16)
arguments.add_argument("--rounds", type=int, default=6)
arguments.add_argument("--concurrency", type=int, default=2, help="tasks of the actor at a time: Ray runs the model in one thread, and the next block is fetched meanwhile")
options = arguments.parse_args()

engine = temper.load(options.plan)
port = engine.inputs[0]
shape = (options.batch, *port.shape[1:])
batches = [np.random.default_rng(i).random(shape, dtype=np.float32) for i in range(options.batches)]
session = engine.session()
ray.init(num_cpus=engine.threads + 1, include_dashboard=False, log_to_driver=False, object_store_memory=2 << 30)
context = ray.data.DataContext.get_current()
context.enable_progress_bars = False
context.verbose_progress = False
data = ray.data.from_numpy(batches).rename_columns({"data": port.name}).materialize()


class Timed(temper.ray.Predictor):
    """With the time at which each batch came and was done: what a job that runs long sees, without the start of its actors."""

    def __call__(self, batch):
        began = time.time()
        answers = super().__call__(batch)
        rows = len(next(iter(answers.values())))
        return {"sum": np.full(rows, next(iter(answers.values())).sum()), "began": np.full(rows, began), "ended": np.full(rows, time.time())}


def in_process():
    began = time.time()
    for batch in batches:
        session.run({port.name: batch})
    return time.time() - began


def with_ray():
    run = data.map_batches(Timed, fn_constructor_args=[options.plan], batch_size=options.batch, compute=ray.data.ActorPoolStrategy(size=1), num_cpus=engine.threads,
                           max_concurrency=options.concurrency)  # fmt: skip
    began, ended, rows = [], [], 0
    for block in run.iter_batches(batch_size=None):
        began.append(block["began"].min()), ended.append(block["ended"].max())
        rows += len(block["began"])
    assert rows == options.batch * options.batches
    return max(ended) - min(began)


in_process(), with_ray()
rounds = [(in_process(), with_ray(), in_process()) for _ in range(options.rounds)]
ratios = sorted((before + after) / 2 / ours for before, ours, after in rounds)
items = options.batch * options.batches
print(f"in process {items / np.median([r[0] for r in rounds]):.1f} items/s, with Ray {items / np.median([r[1] for r in rounds]):.1f} items/s")
print(f"ratio: median {100 * np.median(ratios):.1f} %, {100 * ratios[0]:.1f} to {100 * ratios[-1]:.1f} % in {len(ratios)} rounds")
ray.shutdown()
