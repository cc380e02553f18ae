# SPDX-License-Identifier: Apache-2.0
"""The commands that compile each source, also of those that cmake/join.cmake has compiled together."""
import json
import pathlib
import shlex

from git_files import ROOT


def sources_of(joined):
    """Paths of the sources that a file of cmake/join.cmake includes, from the project's folder."""
    return [line.split('"')[1] for line in pathlib.Path(joined).read_text().splitlines() if line.startswith("#include")]


def entries(build, root=ROOT):
    """BUILD/compile_commands.json, a dictionary a command: each source of `root` has one of its own, with an object of its own."""
    found = []
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = pathlib.Path(entry["directory"], entry["file"])
        if path.parent.parent.name != "joined":
            found.append(entry)
            continue
        words = shlex.split(entry["command"])
        object_at = words.index("-o") + 1
        for source in sources_of(path):
            own = [str(root / source) if word == entry["file"] else word for word in words]
            own[object_at] += f".{pathlib.Path(source).stem}.o"
            found.append({**entry, "file": str(root / source), "command": shlex.join(own)})
    return found
