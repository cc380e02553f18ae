# SPDX-License-Identifier: Apache-2.0
"""Runs a script that was written for TensorRT, in this process: ``import tensorrt`` is Temper there."""
import argparse
import os
import runpy
import sys

from . import _api


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m temper.tensorrt", description=__doc__)
    parser.add_argument("--api", choices=_api.RELEASES, default="8.6", help="the release whose names there are")
    parser.add_argument("--device", default="", help="the device to build for: cpu, cuda:0; without it GPU 0, or the CPU where there is none")
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="of the script")
    given = parser.parse_args()
    _api.stand_in("tensorrt", given.api, given.device)
    sys.argv = [given.script, *given.arguments]
    sys.path[0] = os.path.dirname(os.path.abspath(given.script))
    runpy.run_path(given.script, run_name="__main__")


if __name__ == "__main__":
    main()
