# SPDX-License-Identifier: Apache-2.0
"""Every C++ and CUDA source stands as clang-format writes it (.clang-format; the version is in python/requirements-base.txt),
and no line of src and include has more than 120 characters (tests hold scripts of other languages, line by line). No file is
what a patch or a merge leaves behind. The message of the last commit has a short subject and says why.
`--write` (`./dev format`) repairs the first. Further arguments: files; without any, all of git's.

A text that passed is not read again while .clang-format and the program stay as they are: build/formatted has a line for each."""
import concurrent.futures
import hashlib
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
PASSED = ROOT / "build/formatted"
LEFT_BEHIND = (".orig", ".rej")
SUBJECT = 72


def formatter():
    """The program itself: the script of that name beside the interpreter starts a Python for each call."""
    try:
        import clang_format
    except ImportError:
        sys.exit(f"there is no clang-format for {sys.executable}: ./dev setup")
    return pathlib.Path(clang_format.__file__).parent / "data/bin/clang-format"


def digests_of(names, program):
    """Of all that decides whether a file is formatted."""
    rules = (ROOT / ".clang-format").read_bytes() + program.read_bytes()
    start = hashlib.sha256(rules).digest()
    return {name: hashlib.sha256(start + pathlib.Path(name).suffix.encode() + b"\0" + (ROOT / name).read_bytes()).hexdigest() for name in names}


def long_lines(name):
    lines = (ROOT / name).read_text(encoding="utf-8").split("\n")
    return [f"{name}:{i}: {len(line)} characters; the limit is {COLUMNS}" for i, line in enumerate(lines, 1) if len(line) > COLUMNS]


def complaints_of_message(message):
    subject, _, rest = message.partition("\n")
    if len(subject) > SUBJECT:
        yield f"the last commit's subject has {len(subject)} characters; the limit is {SUBJECT}: {subject}"
    if rest.strip() and not rest.startswith("\n"):
        yield f"the last commit's subject has no empty line behind it: {subject}"
    if not rest.strip():
        yield f"the last commit has no body that says why: {subject}"


def last_message():
    """Of the checkout; None of a copy without git, and of a merge, whose message is git's."""
    git = lambda *arguments: subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    top, parents = git("rev-parse", "--show-toplevel"), git("log", "-1", "--format=%P")
    if top.returncode or parents.returncode or pathlib.Path(top.stdout.strip()) != ROOT or len(parents.stdout.split()) > 1:
        return None
    return git("log", "-1", "--format=%B").stdout


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
    everything = not names
    names = names or git_files(FOLDERS, SUFFIXES)
    passed = set(PASSED.read_text().split()) if PASSED.exists() else set()
    digests = digests_of(names, program)
    read = [name for name in names if write or digests[name] not in passed]
    batches = [read[i:i + BATCH] for i in range(0, len(read), BATCH)]
    found = [line for name in names if name.startswith(("src/", "include/")) for line in long_lines(name)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        if write:
            list(pool.map(lambda batch: subprocess.run([program, "-i", *batch], cwd=ROOT, check=True), batches))
        places = [line for lines in pool.map(lambda batch: unformatted(batch, program), batches) for line in lines]
    if everything and not places and not write and PASSED.parent.is_dir():
        new = PASSED.with_suffix(f".{os.getpid()}")
        new.write_text("\n".join(sorted(digests.values())))
        new.replace(PASSED)
    found += places
    if everything and not write:
        found += [f"{name}: a patch or a merge left it behind; delete it" for name in git_files(endings=LEFT_BEHIND)]
        if (message := last_message()) is not None:
            found += complaints_of_message(message)
    print("\n".join(found[:50] + ([f"and {len(found) - 50} more"] if len(found) > 50 else [])) or f"{len(names)} files are formatted, and the last commit says why")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
