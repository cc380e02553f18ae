# SPDX-License-Identifier: Apache-2.0
"""Runs a script, a module or a line of code that was written for TensorRT, in this process: ``import tensorrt`` is Temper there."""
import argparse
import os
import runpy
import sys
import types

from . import _api

USAGE = "python -m temper.tensorrt [--api API] [--device DEVICE] (SCRIPT | -m MODULE | -c CODE) [arguments of it]"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m temper.tensorrt", description=__doc__, usage=USAGE, allow_abbrev=False)
    parser.add_argument("--api", choices=_api.RELEASES, default="8.6", help="the release whose names there are")
    parser.add_argument("--device", default="", help="the device to build for: cpu, cuda:0; without it GPU 0, or the CPU where there is none")
    # What is behind the program is the program's, as with Python itself.
    words, at = sys.argv[1:], 0
    while at < len(words) and (words[at].startswith("--") or words[at] == "-h"):
        at += 1 if "=" in words[at] or words[at] not in ("--api", "--device") else 2
    given, rest = parser.parse_args(words[:at]), words[at:]
    if not rest:
        parser.error("a script, -m MODULE or -c CODE is expected")
    kind = rest[0][:2] if rest[0][:2] in ("-c", "-m") else ""
    if kind:  # -cCODE is one word, -c CODE two
        rest = [rest[0][2:], *rest[1:]] if len(rest[0]) > 2 else rest[1:]
        if not rest:
            parser.error(f"{kind} is followed by {'code' if kind == '-c' else 'the name of a module'}")
    elif rest[0].startswith("-"):
        parser.error(f"unknown option {rest[0]}")
    _api.stand_in("tensorrt", given.api, given.device)
    sys.argv = [kind or rest[0], *rest[1:]]
    if kind == "-c":
        sys.path[0] = ""
        sys.modules["__main__"] = module = types.ModuleType("__main__")
        exec(compile(rest[0], "<string>", "exec"), module.__dict__)
    elif kind == "-m":
        sys.path[0] = os.getcwd()
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(rest[0]))
        runpy.run_path(rest[0], run_name="__main__")


if __name__ == "__main__":
    main()
