# SPDX-License-Identifier: Apache-2.0
"""Runs clang-tidy (.clang-tidy) over sources of src: BUILD [--changed | FILES], without files over all of src.

--changed: what the last commit and the working tree touch; a header stands for the source of its name. At most LIMIT
sources are read then, since each takes about 20 s; the rest is named, and `./dev lint FILES` reads it. Of the rest, and of
tests, only what Clang does not compile is said, each alone and without precompiled headers: a source includes what it
takes, whoever is compiled with it (cmake/join.cmake), and both compilers take it.

A source that passed is not read again while its preprocessed text, the checks and clang-tidy stay as they are:
BUILD/lint has an empty file for each such text, and the commands that clang-tidy reads."""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import shlex
import subprocess
import sys

import compile_commands

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIMIT = 8
SKIPPED = 77  # what CTest takes for "skipped"


def git(*arguments):
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.split("\0")[:-1] if done.returncode == 0 else None


def changed(folder):
    """Sources of a folder that the last commit or the working tree touch; None without git or without a commit before the last."""
    touched = git("diff", "-z", "--name-only", "HEAD~1", "--", folder)
    new = git("ls-files", "-z", "--others", "--exclude-standard", "--", folder)
    if touched is None or new is None:
        return None
    sources = {pathlib.Path(name).with_suffix(".cc").as_posix() for name in touched + new if name.endswith((".cc", ".h"))}
    return sorted(name for name in sources if (ROOT / name).exists())


def commands(entries):
    """From a source's path to the command that compiles it. Where several targets compile it, the first."""
    found = {}
    for entry in entries:
        path = pathlib.Path(entry["directory"], entry["file"]).resolve()
        if path.is_relative_to(ROOT):
            found.setdefault(path.relative_to(ROOT).as_posix(), (entry["directory"], shlex.split(entry["command"])))
    return found


def write_commands(build, entries):
    """Writes BUILD/lint/compile_commands.json, and leaves the same in `entries`: Clang cannot read headers that GCC has
    precompiled, and sources include what they need themselves."""
    for entry in entries:
        words = shlex.split(entry["command"])
        for at in reversed(range(len(words) - 1)):
            if words[at] == "-include" and words[at + 1].endswith("cmake_pch.hxx"):
                del words[at:at + 2]
        entry["command"] = shlex.join(words)
    (build / "lint").mkdir(exist_ok=True)
    (build / "lint/compile_commands.json").write_text(json.dumps(entries))


def not_compiled(build):
    """Sources of targets that this build is without, as cmake/video.cmake lists them."""
    return {pathlib.Path(path).resolve().relative_to(ROOT).as_posix() for path in (build / "not_compiled.txt").read_text().split("\n") if path}


def without_output(command):
    at = command.index("-o")
    return command[:at] + command[at + 2:]


def preprocessed(directory, command):
    """The source's text after the preprocessor, without the compiler cache in front of the compiler."""
    arguments = without_output(command)
    arguments[arguments.index("-c")] = "-E"
    return subprocess.run(arguments, cwd=directory, capture_output=True, check=True).stdout


def not_alone(name, known):
    """What Clang says of a source that is compiled without its neighbours, or nothing."""
    if name not in known:
        return f"{name}: no target compiles it\n"
    directory, command = known[name]
    compiler = next(at for at, word in enumerate(command) if word.endswith("++"))
    flags = without_output(command)[compiler + 1:]
    quiet = ["-Wno-unknown-warning-option", "-Wno-unused-command-line-argument"]
    done = subprocess.run(["clang++", *flags, *quiet, "-fsyntax-only"], cwd=directory, capture_output=True, text=True)
    return f"{name} does not compile by itself with Clang:\n{done.stderr}" if done.returncode else ""


def complaints(name, build, known, version):
    """What clang-tidy says of one source, or nothing."""
    if name not in known:
        return f"{name}: no target compiles it\n"
    text = preprocessed(*known[name])
    key = hashlib.sha256(b"\0".join([version, (ROOT / ".clang-tidy").read_bytes(), text])).hexdigest()
    passed = build / "lint" / key
    if passed.exists():
        return ""
    done = subprocess.run(["clang-tidy", "-p", str(build / "lint"), "--quiet", "--warnings-as-errors=*", name], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        return done.stdout or done.stderr
    passed.touch()
    return ""


def main():
    build, arguments = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]
    entries = compile_commands.entries(build)
    write_commands(build, entries)
    known, not_here = commands(entries), not_compiled(build)
    left, tests = [], []
    if arguments == ["--changed"]:
        names, tests = changed("src"), changed("tests")
        if names is None:
            print("there is no commit before this one: nothing says what changed")
            return SKIPPED
        names, left = names[:LIMIT], [name for name in names[LIMIT:] if name not in not_here]
        tests = [name for name in tests if name in known]  # the others are texts and programs of their own
    else:
        names = arguments or sorted(name for name in known if name.startswith("src/"))
    without = sorted(not_here.intersection(names))
    names = [name for name in names if name not in without]
    version = subprocess.run(["clang-tidy", "--version"], capture_output=True, check=True).stdout
    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("JOBS", 2))) as pool:
        found = [text for text in pool.map(lambda name: complaints(name, build, known, version), names) if text]
        found += [text for text in pool.map(lambda name: not_alone(name, known), left + tests) if text]
    print("".join(found) or f"{len(names)} sources are as clang-tidy wants them")
    if without:
        print(f"not read, since this build is without them: {' '.join(without)}")
    if left:
        print(f"not read, since {LIMIT} are enough for a run of all tests: ./dev lint {' '.join(left)}")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
