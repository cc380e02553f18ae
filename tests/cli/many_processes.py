# SPDX-License-Identifier: Apache-2.0
"""Processes that build one model at the same time, with one timing cache: each ends well, every plan runs, the cache holds what one
process alone would have put there, and nothing else lies there.

    many_processes.py PROGRAM          eight of them; TEMPER_PROCESSES=64 for as many
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

COUNT = int(os.environ.get("TEMPER_PROCESSES", "8"))


def main(program):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="temper many "))
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache"), "OMP_NUM_THREADS": "1"}

    def begin(*arguments):
        return subprocess.Popen([program, *arguments], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def end(process):
        out, err = process.communicate(timeout=600)
        assert process.returncode == 0, f"{process.args} ended with {process.returncode}: {out}{err}"
        return err

    def build(plan, cache):
        return begin("build", "m.onnx", "-o", plan, "--threads", "1", "--quick", "--timing-cache", cache)

    def keys(cache):
        """Of each table of the cache that has keys."""
        tables = json.loads((folder / cache).read_text())
        return {name: set(table) for name, table in tables.items() if isinstance(table, dict) and name == "entries"}

    try:
        end(begin("zoo", "digits_cnn", "-o", "m.onnx"))
        end(build("alone.plan", "alone.json"))
        # Every second one writes the same plan.
        processes = [build(f"{i}.plan" if i % 2 else "shared.plan", "t.json") for i in range(COUNT)]
        said = [end(process) for process in processes]
        assert not [text for text in said if "timing cache" in text], said
        plans = {"alone.plan", "shared.plan", *(f"{i}.plan" for i in range(1, COUNT, 2))}
        for plan in sorted(plans):
            end(begin("run", plan, "--quiet"))
        assert keys("t.json") == keys("alone.json") and keys("alone.json")["entries"], "the cache holds other times than one process alone leaves"
        left = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and "cache" not in path.parts}
        expected = {"m.onnx", "alone.json", "t.json", *plans}
        assert expected <= left <= expected | {"alone.json.lock", "t.json.lock"}, f"left behind: {left ^ expected}"
        print(f"{COUNT} processes built into one cache of {sum(map(len, keys('t.json').values()))} times; {len(plans)} plans run")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main(os.path.abspath(sys.argv[1]))
