#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Frames a second that the element temperinfer labels, beside what `temper bench` says of the same plan, in turns.

usage: video_rate.py BUILD [--frames N] [--size HxW] [--turns N] [--threads N]     exit code 1 where the median share is below 0.9

PP-OCR's text detector on frames of a file of raw pixels, so that no decoder is measured. The first frames, in which threads start and
pages are touched, are not counted: the time of a frame is the slope between a film and its first tenth.
"""
import argparse
import importlib.util
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

arguments = argparse.ArgumentParser()
arguments.add_argument("build", type=lambda path: pathlib.Path(path).resolve())
arguments.add_argument("--frames", type=int, default=300)
arguments.add_argument("--size", default="320x320")
arguments.add_argument("--turns", type=int, default=7)
arguments.add_argument("--threads", default="")
options = arguments.parse_args()
height, width = map(int, options.size.split("x"))
environment = dict(os.environ, GST_PLUGIN_PATH=str(options.build / "gstreamer-1.0"))


def run(*words):
    return subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True, env=environment).stdout


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    model = pathlib.Path(importlib.util.find_spec("rapidocr_onnxruntime").origin).parent / "models/ch_PP-OCRv4_det_infer.onnx"
    plan, film, labels = folder / "det.plan", folder / "film.rgb", folder / "labels.jsonl"
    threads = ["--threads", options.threads] if options.threads else []
    run(options.build / "temper", "build", model, "-o", plan, "--input-pictures", "--fit", "stretch", "--mean", "0.5", "--std", "0.5", "--crop", options.size,
        "--shapes", f"x=1x3x{height}x{width}", *threads)
    run("gst-launch-1.0", "-q", "videotestsrc", f"num-buffers={options.frames}", "pattern=ball", "!",
        f"video/x-raw,format=RGB,width={width},height={height}", "!", "filesink", f"location={film}")

    def seconds(frames):
        start = time.monotonic()
        run("gst-launch-1.0", "-q", "filesrc", f"location={film}", f"blocksize={3 * width * height}", f"num-buffers={frames}", "!", "rawvideoparse", "format=rgb",
            f"width={width}", f"height={height}", "framerate=25/1", "!", "temperinfer", f"plan={plan}", f"json={labels}", "!", "fakesink")
        took = time.monotonic() - start
        assert len(labels.read_text().splitlines()) == frames
        return took

    def benched():
        return json.loads(run(options.build / "temper", "bench", plan, "--duration", "1500ms", "--json", "-"))["runs"][0]["throughput_per_s"]

    shares = []
    few = options.frames // 10
    seconds(few)  # the plan's pages come into memory
    for turn in range(options.turns):
        before = benched()
        rate = (options.frames - few) / (seconds(options.frames) - seconds(few))
        bench = (before + benched()) / 2  # what the machine does in between is in all three
        shares.append(rate / bench)
        print(f"turn {turn + 1}: {rate:.1f} frames a second, bench {bench:.1f} a second: {100 * shares[-1]:.1f} %", flush=True)
    median = statistics.median(shares)
    print(f"PP-OCR's detector at {options.size}, {options.frames} frames: {100 * median:.1f} % of bench's rate, "
          f"{100 * min(shares):.1f} to {100 * max(shares):.1f} % in {len(shares)} turns")
    sys.exit(median < 0.9)
