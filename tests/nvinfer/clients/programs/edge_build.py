#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Puts a command line of trtexec together that builds an engine, prints it, and runs it with --run.
usage: edge_build.py --onnx MODEL --engine ENGINE [--workspace_mb N] [--fp16] [--run]"""
import argparse
import pathlib
import shlex
import subprocess
import sys

parser = argparse.ArgumentParser()
parser.add_argument("--onnx", required=True)
parser.add_argument("--engine", required=True)
parser.add_argument("--workspace_mb", type=int, default=1024)
parser.add_argument("--fp16", action="store_true")
parser.add_argument("--run", action="store_true")
given = parser.parse_args()
pathlib.Path(given.engine).parent.mkdir(parents=True, exist_ok=True)
command = ["trtexec", f"--onnx={given.onnx}", f"--saveEngine={given.engine}", f"--workspace={given.workspace_mb}", "--buildOnly"]
command += ["--fp16", "--verbose"] if given.fp16 else []
print(shlex.join(command), flush=True)
sys.exit(subprocess.run(command).returncode if given.run else 0)
