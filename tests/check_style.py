# SPDX-License-Identifier: Apache-2.0
"""Every C++ and CUDA source stands as clang-format writes it (.clang-format; the version is in python/requirements-base.txt),
and no line of src and include has more than 120 characters (tests hold scripts of other languages, line by line).
`--write` (`./dev format`) repairs the first. Further arguments: files; without any, all of git's."""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

from git_files import ROOT, git_files

COLUMNS = 120
SUFFIXES = (".cc", ".h", ".cu", ".cuh", ".c")
FOLDERS = ("src", "include", "tests", "examples", "python")
BATCH = 32  # files that one clang-format reads: most of a call is its start


def formatter():
    """The program itself: the script of that name beside the interpreter starts a Python for each call."""
    try:
        import clang_format
    except ImportError:
        sys.exit(f"there is no clang-format for {sys.executable}: ./dev setup")
    return pathlib.Path(clang_format.__file__).parent / "data/bin/clang-format"


def long_lines(name):
    lines = (ROOT / name).read_text(encoding="utf-8").split("\n")
    return [f"{name}:{i}: {len(line)} characters; the limit is {COLUMNS}" for i, line in enumerate(lines, 1) if len(line) > COLUMNS]


def unformatted(names, program):
    """A line for each of `names` that clang-format would change: the first place."""
    done = subprocess.run([program, "--dry-run", *names], cwd=ROOT, capture_output=True, text=True)
    places = {}
    for name, line in re.findall(r"^(.+?):(\d+):\d+: warning: code should be clang-formatted", done.stderr, re.MULTILINE):
        places.setdefault(name, line)
    if done.returncode:
        return [f"clang-format failed: {done.stderr.strip()}"]
    return [f"{name}:{line}: not as clang-format writes it; ./dev format repairs it" for name, line in places.items()]


def main():
    program = formatter()
    write, names = "--write" in sys.argv[1:], [name for name in sys.argv[1:] if name != "--write"]
    names = names or git_files(FOLDERS, SUFFIXES)
    batches = [names[i:i + BATCH] for i in range(0, len(names), BATCH)]
    found = [line for name in names if name.startswith(("src/", "include/")) for line in long_lines(name)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        if write:
            list(pool.map(lambda batch: subprocess.run([program, "-i", *batch], cwd=ROOT, check=True), batches))
        found += [line for lines in pool.map(lambda batch: unformatted(batch, program), batches) for line in lines]
    print("\n".join(found[:50] + ([f"and {len(found) - 50} more"] if len(found) > 50 else [])) or f"{len(names)} files are formatted")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
