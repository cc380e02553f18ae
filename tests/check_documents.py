#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the documents name exists: paths in `code` and links, verbs of ./dev, verbs and flags of temper. The tables of
ARCHITECTURE.md are those that tests/architecture.py makes, and the pipelines of passes are those of src/passes/pipeline.cc.

usage: check_documents.py [PROGRAM]     with PROGRAM (build/temper) its verbs and flags are looked up in its help
"""
import pathlib
import re
import subprocess
import sys

import architecture

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCUMENTS = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "THIRD_PARTY.md", "benchmarks/README.md"]
DOCUMENTS += sorted(str(p.relative_to(ROOT)) for p in [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("examples/*/README.md")])
TOP = {p.name for p in ROOT.iterdir()} - {"build"}
PLACEHOLDER = re.compile(r"[<>{}…]|NAME|FAMILY|/x\.|/x_|/x/")


def help_of(program, *verb):
    return subprocess.run([program, *verb, "--help"], capture_output=True, text=True, check=True).stdout


def paths_in(text):
    """Links, and words that begin with a folder or file of the root: in `spans` and in ``` blocks."""
    for target in re.findall(r"\]\(([^)#]+)", text):
        if "://" not in target:
            yield target
    for code in re.findall(r"```.*?```|`[^`\n]+`", text, re.S):
        for word in re.findall(r"[\w.*/-]+", code):
            word = word.removeprefix("./").rstrip("./")
            if "/" in word and word.split("/")[0] in TOP:
                yield word


def check(document, text, dev_verbs, program):
    for path in paths_in(text):
        if PLACEHOLDER.search(path):
            continue
        if not list(ROOT.glob(path)) and not (ROOT / document).parent.joinpath(path).exists():
            yield f"{document}: {path} does not exist"
    for verb in re.findall(r"\./dev ([a-z]+(?:-[a-z]+)*)", text):
        if verb not in dev_verbs:
            yield f"{document}: ./dev {verb} does not exist"
    if not program:
        return
    verbs = set(re.findall(r"^  ([a-z]+(?:-[a-z]+)*) ", help_of(program), re.M))
    for code in re.findall(r"```.*?```|`[^`\n]+`", text, re.S):
        for line in code.replace("\\\n", " ").strip("`").splitlines():
            match = re.match(r"(?:\$ )?(?:build/)?temper ([a-z]+(?:-[a-z]+)*)\b(.*)", line.strip())
            if not match:
                continue
            verb, rest = match.groups()
            if verb not in verbs:
                yield f"{document}: temper {verb} does not exist"
                continue
            known = help_of(program, verb)
            for flag in re.findall(r"(?<![\w-])--[a-z][a-zA-Z-]*", re.sub(r"\"[^\"]*\"", "", rest.split("#")[0])):
                if not re.search(re.escape(flag) + r"(?![\w-])", known):
                    yield f"{document}: temper {verb} has no {flag}"


def check_pipelines():
    """CONTRIBUTING.md and the glossary name those that there are."""
    passes = (ROOT / "src/passes/pipeline.cc").read_text()
    names = set(re.findall(r"^(?:const )?Pipeline&? (\w+)_pipeline\(", passes, re.M))
    count = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"][len(names)]
    listed = re.search(r"There are (\w+) lists: (.*?)\. ", (ROOT / "CONTRIBUTING.md").read_text(), re.S)
    if not listed or listed[1] != count or set(re.findall(r"`(\w+)`", listed[2])) != names:
        yield f"CONTRIBUTING.md: there are {count} lists of passes: {', '.join(sorted(names))}"
    named = re.search(r"A named list of passes: (.*?)\.", (ROOT / "docs/glossary.md").read_text())
    if not named or set(re.split(r", | or ", named[1])) != names:
        yield f"docs/glossary.md: the pipelines are {', '.join(sorted(names))}"


dev_verbs = {v.replace("_", "-") for v in re.findall(r"^cmd_([a-z_]+)\(\)", (ROOT / "dev").read_text(), re.M)} | {"help"}
found = architecture.problems() + list(check_pipelines())
for document in DOCUMENTS:
    if (ROOT / document).exists():
        text = (ROOT / document).read_text()
        found += check(document, text, dev_verbs, sys.argv[1] if len(sys.argv) > 1 else None)
print("\n".join(dict.fromkeys(found)) or "all that the documents name exists, and the tables of ARCHITECTURE.md are up to date")
sys.exit(1 if found else 0)
