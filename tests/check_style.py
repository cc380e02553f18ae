# SPDX-License-Identifier: Apache-2.0
"""Every C++ and CUDA source stands as clang-format writes it (.clang-format; the version is in python/requirements-base.txt),
and no line of src and include has more than 120 characters (tests hold scripts of other languages, line by line).
`--write` (`./dev format`) repairs the first. Further arguments: files; without any, all of git's."""
import concurrent.futures
import os
import shutil
import subprocess
import sys

from git_files import ROOT, git_files

COLUMNS = 120
SUFFIXES = (".cc", ".h", ".cu", ".cuh", ".c")


FOLDERS = ("src", "include", "tests", "examples", "python")


def complaints_about(name, formatter, write):
    text = (ROOT / name).read_text(encoding="utf-8")
    found = []
    if name.startswith(("src/", "include/")):
        lines = enumerate(text.split("\n"), 1)
        found = [f"{name}:{i}: {len(line)} characters; the limit is {COLUMNS}" for i, line in lines if len(line) > COLUMNS]
    formatted = subprocess.run([formatter, "--assume-filename=" + name], input=text, capture_output=True, text=True, cwd=ROOT)
    if formatted.returncode:
        found.append(f"{name}: clang-format failed: {formatted.stderr.strip()}")
    elif formatted.stdout != text and write:
        (ROOT / name).write_text(formatted.stdout, encoding="utf-8")
        found = complaints_about(name, formatter, write=False)
    elif formatted.stdout != text:
        line = next(i for i, (a, b) in enumerate(zip((text + "\n ").split("\n"), (formatted.stdout + "\n ").split("\n")), 1) if a != b)
        found.append(f"{name}:{line}: not as clang-format writes it; ./dev format repairs it")
    return found


def main():
    formatter = shutil.which("clang-format", path=os.path.dirname(sys.executable))
    if not formatter:
        sys.exit(f"there is no clang-format beside {sys.executable}: ./dev setup")
    write, names = "--write" in sys.argv[1:], [name for name in sys.argv[1:] if name != "--write"]
    names = names or git_files(FOLDERS, SUFFIXES)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = [line for lines in pool.map(lambda name: complaints_about(name, formatter, write), names) for line in lines]
    print("\n".join(found[:50] + ([f"and {len(found) - 50} more"] if len(found) > 50 else [])) or f"{len(names)} files are formatted")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
