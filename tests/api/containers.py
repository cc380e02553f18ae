#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the container recipes take from a stage is what ./dev makes there: every path of COPY --from and of RUN, and the program with the
options that it is started with. No image is built.

usage: containers.py SOURCE PACKAGE     PACKAGE: the folder in which python/package.sh made temper and temper-triton"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

source, package = map(pathlib.Path, sys.argv[1:])
verbs = re.findall(r"^cmd_([a-z_]+)\(\)", (source / "dev").read_text(), re.M)
packages = re.findall(r"^debian_package\(\w+ (\S+)", (source / "cmake/install.cmake").read_text(), re.M)
problems = []


def expect(true, *what):
    if not true:
        problems.append(" ".join(map(str, what)))


def steps_of(path):
    text = re.sub(r"\\\n", " ", path.read_text())
    return [line.split(maxsplit=1) for line in text.splitlines() if line.strip() and not line.startswith("#")]


def there(path):
    """What a path of the last stage of Dockerfile.triton is on this machine."""
    return image / pathlib.PurePath(path).relative_to("/opt/temper")


kept = tempfile.TemporaryDirectory()
image = pathlib.Path(kept.name) / "temper"  # /opt/temper: one folder laid over the other
for part in ("temper", "temper-triton"):
    subprocess.run(["cp", "-rT", package / part, image], check=True)
(image.parent / "models").mkdir()


for recipe in ("Dockerfile", "Dockerfile.triton"):
    made = None  # the folder that ./dev makes in the first stage, and what it holds
    stages = 0
    for word, rest in steps_of(source / recipe):
        if word == "FROM":
            stages += 1
        for verb, folder in re.findall(r"\./dev ([a-z-]+) (\S+)", rest):
            expect(verb.replace("-", "_") in verbs, recipe, "runs ./dev", verb)
            made = (verb, folder)
        if word == "COPY" and rest.startswith("--from=build"):
            *paths, target = rest.split()[1:]
            if made[0] == "package":
                expect(paths == [f"{made[1]}/temper", f"{made[1]}/temper-triton"] and target == "/opt/temper/", recipe, "copies", paths, "to", target)
            else:
                names = [pathlib.PurePath(path).name.split("_*")[0] for path in paths]
                expect(all(path.startswith(made[1] + "/") for path in paths) and set(names) <= set(packages), recipe, "copies", paths, "and the packages are", packages)
        if stages == 2:
            for path in re.findall(r"/opt/temper/[\w./]+", rest):
                expect(there(path).exists(), recipe, "names", path, "which is not in", package)
        if word == "ENTRYPOINT" and made[0] == "package":
            words = json.loads(rest)
        if word == "CMD":
            words = [str(there(words[0])), *words[1:], *json.loads(rest), "--dry-run"]
            said = subprocess.run([str(image.parent / "models") if word == "/models" else word for word in words], capture_output=True, text=True)
            expect(said.returncode == 0 and f"--backend-directory={image.resolve()}/backends " in said.stdout, recipe, "starts", words, "which says", said)
    expect(stages == 2 and made, recipe, "has", stages, "stages and makes", made)
print("\n".join(problems) or "the recipes take what is there")
sys.exit(1 if problems else 0)
