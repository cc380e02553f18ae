#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What src/triton/api.h declares of the server's, the server has; and what the backend leaves open, api.h declares.

usage: symbols.py BACKEND [SERVER_LIBRARY]     symbols.txt has the names of Triton 2.51; with a library they are held against it, too
"""
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


def names(library, *options):
    lines = subprocess.run(["nm", "-D", *options, library], capture_output=True, text=True, check=True).stdout.splitlines()
    return {line.split()[-1] for line in lines}


declared = set(re.findall(r"^[\w *]*?\b(TRITON(?:SERVER|BACKEND)_\w+)\(", (HERE / "../../src/triton/api.h").read_text(), re.M))
known = set((HERE / "symbols.txt").read_text().split())
given = {"Initialize", "Finalize", "GetBackendAttribute", "ModelInitialize", "ModelFinalize", "ModelInstanceInitialize",
         "ModelInstanceFinalize", "ModelInstanceExecute", "ModelInstanceReady"}
given = {f"TRITONBACKEND_{name}" for name in given}
problems = [f"api.h declares {name}, which the server has not" for name in sorted(declared - given - known)]
problems += [f"api.h does not declare {name}" for name in sorted(given - declared)]
backend = sys.argv[1]
asked = {name for name in names(backend, "--undefined-only") if name.startswith("TRITON")}
problems += [f"the backend asks for {name}, which api.h does not declare" for name in sorted(asked - declared)]
problems += [f"api.h declares {name}, which the backend does not call" for name in sorted(declared - given - asked)]
shown = names(backend, "--defined-only")
problems += [f"the backend shows {name}" for name in sorted(shown - given)]
problems += [f"the backend does not show {name}" for name in sorted(given - shown)]
if len(sys.argv) > 2:
    there = {name for name in names(sys.argv[2], "--defined-only") if re.match("TRITON(BACKEND|SERVER)_", name)}
    problems += [f"{name} of symbols.txt is not in the library" for name in sorted(known - there)]
print("\n".join(problems) or f"{len(declared)} names are declared, {len(asked)} asked for")
sys.exit(1 if problems or len(declared) < 40 else 0)
