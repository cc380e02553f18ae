#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The commands of the notes run as they stand, each page in a folder of its own.

usage: run_documents.py PROGRAM PYTHON [--sanitized] [PAGE...]     `temper` and `python3` mean these; the checkout's folders are at hand

--sanitized: blocks that compile a program against Temper's libraries are left out, as it would need the sanitizer's runtime, too.
Blocks with a script that imports tensorrt need the package temper in that Python (PYTHONPATH); without it they are left out.
"""
import functools
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent


def commands(text):
    for block in re.findall(r"^ *```sh\n(.*?)^ *```", text, re.S | re.M):
        yield textwrap.dedent(block)


@functools.cache
def has_package(python):
    return subprocess.run([python, "-c", "import temper"], capture_output=True).returncode == 0


def run(page, program, python, sanitized):
    blocks = list(commands(page.read_text()))
    if sanitized:
        blocks = [block for block in blocks if not re.search(r"\bg\+\+ ", block)]
    if not has_package(python):
        print(f"{page.relative_to(ROOT)}: {python} has no package temper; blocks that import tensorrt are left out")
        blocks = [block for block in blocks if not re.search("import tensorrt|temper.tensorrt|clients/programs", block)]
    script = "set -e\n" + "\n".join(blocks)
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder, "work")
        tools = pathlib.Path(folder, "bin")
        work.mkdir(), tools.mkdir()
        os.symlink(program, tools / "temper")
        for name in ("examples", "models", "python", "tests"):
            os.symlink(ROOT / name, work / name)
        environment = dict(os.environ, PATH=f"{tools}:{os.environ['PATH']}", XDG_CACHE_HOME=os.path.join(folder, "cache"))
        # Not a link: through one, the interpreter of a private environment does not find its packages.
        (tools / "python3").write_text(f'#!/bin/sh\nexec "{python}" "$@"\n')
        (tools / "python3").chmod(0o755)
        done = subprocess.run(["bash", "-xc", script], cwd=work, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    name = page.relative_to(ROOT)
    print(f"{name}: {len(script.splitlines()) - 1} lines, {'done' if done.returncode == 0 else f'ended with {done.returncode}'}")
    if done.returncode:
        print(done.stdout[-4000:])
    return done.returncode == 0


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sanitized = "--sanitized" in sys.argv
    pages = [ROOT / p for p in sys.argv[3:] if p != "--sanitized"] or [*sorted((ROOT / "docs/notes").glob("*.md")), ROOT / "docs/serving.md"]
    results = [run(page, os.path.abspath(sys.argv[1]), sys.argv[2], sanitized) for page in pages]
    sys.exit(0 if results and all(results) else 1)
