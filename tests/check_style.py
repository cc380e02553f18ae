# SPDX-License-Identifier: Apache-2.0
"""Every C++ and CUDA source stands as clang-format writes it (.clang-format; the version is in python/requirements-base.txt),
and no line of src and include has more than 120 characters (tests hold scripts of other languages, line by line).
`./dev format` repairs the first. Arguments: files; without any, all of git's."""
import concurrent.futures
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
COLUMNS = 120
SUFFIXES = (".cc", ".h", ".cu", ".cuh", ".c")


def sources():
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *("*" + s for s in SUFFIXES)], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode == 0:
        return [name for name in listed.stdout.split("\0") if name and (ROOT / name).exists()]
    return [str(p.relative_to(ROOT)) for folder in ("src", "include", "tests", "examples", "python") for p in (ROOT / folder).rglob("*") if p.suffix in SUFFIXES]


def complaints_about(name, formatter):
    text = (ROOT / name).read_text(encoding="utf-8")
    found = []
    if name.startswith(("src/", "include/")):
        lines = enumerate(text.split("\n"), 1)
        found = [f"{name}:{i}: {len(line)} characters; the limit is {COLUMNS}" for i, line in lines if len(line) > COLUMNS]
    formatted = subprocess.run([formatter, "--assume-filename=" + name], input=text, capture_output=True, text=True, cwd=ROOT)
    if formatted.returncode:
        found.append(f"{name}: clang-format failed: {formatted.stderr.strip()}")
    elif formatted.stdout != text:
        line = next(i for i, (a, b) in enumerate(zip((text + "\n ").split("\n"), (formatted.stdout + "\n ").split("\n")), 1) if a != b)
        found.append(f"{name}:{line}: not as clang-format writes it; ./dev format repairs it")
    return found


def main():
    formatter = shutil.which("clang-format", path=os.path.dirname(sys.executable))
    if not formatter:
        sys.exit(f"there is no clang-format beside {sys.executable}: ./dev setup")
    names = sys.argv[1:] or sources()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = [line for lines in pool.map(lambda name: complaints_about(name, formatter), names) for line in lines]
    print("\n".join(found[:50] + ([f"and {len(found) - 50} more"] if len(found) > 50 else [])) or f"{len(names)} files are formatted")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
