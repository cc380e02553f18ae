#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads figures out of trtexec's log: the throughput, and of the last line with "Latency:" its mean, median and 99th percentile.
usage: edge_parse.py --log FILE --out JSON"""
import argparse
import json
import re

parser = argparse.ArgumentParser()
parser.add_argument("--log", required=True)
parser.add_argument("--out", required=True)
given = parser.parse_args()
metrics = {"throughput_qps": None, "mean_ms": None, "median_ms": None, "p99_ms": None}
with open(given.log) as log:
    for line in log:
        if "Throughput:" in line:
            metrics["throughput_qps"] = float(re.search(r"Throughput:\s*([\d.]+)", line)[1])
        if "Latency:" in line:
            for name, word in (("mean_ms", "mean"), ("median_ms", "median"), ("p99_ms", r"percentile\(99%\)")):
                found = re.search(rf"{word}\s*=\s*([\d.]+)\s*ms", line)
                metrics[name] = float(found[1]) if found else metrics[name]
with open(given.out, "w") as out:
    json.dump({"metrics": metrics}, out)
