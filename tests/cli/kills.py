# SPDX-License-Identifier: Apache-2.0
"""Writers that are killed (SIGKILL) at random moments, each in a PID namespace of its own, so that all have the same process
numbers, as in containers: every next run works, and in the end nothing lies there but what was asked for.

    kills.py PROGRAM          a few kills; TEMPER_KILLS=200 for as many of each verb, TEMPER_SEED=N for other moments
"""
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np

SKIPPED = 77
KILLS = int(os.environ.get("TEMPER_KILLS", "6"))


def namespace():
    """The command that runs another one in a PID namespace of its own, or None where that is not permitted."""
    for extra in ([], ["--user", "--map-root-user"]):
        words = ["unshare", *extra, "--pid", "--fork", "--kill-child", "--mount-proc"]
        try:
            if subprocess.run([*words, "true"], capture_output=True, timeout=60).returncode == 0:
                return words
        except (OSError, subprocess.TimeoutExpired):
            pass
    return None


def main(program):
    inside = namespace()
    if inside is None:
        print("skipped: unshare --pid is not permitted here")
        return SKIPPED
    seed = int(os.environ.get("TEMPER_SEED", time.time_ns() % 1_000_000))
    print(f"TEMPER_SEED={seed} TEMPER_KILLS={KILLS}")
    moments = random.Random(seed)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="temper kills "))
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}

    def begin(arguments):
        # A shell around it: the program's number is then the same each time, and not 1.
        return subprocess.Popen([*inside, "sh", "-c", '"$@"; exit $?', "sh", program, *arguments], cwd=folder, env=environment,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, text=True)

    def run(arguments):
        process = begin(arguments)
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, f"{arguments} ended with {process.returncode}: {out}{err}; files: {names()}"

    def names():
        return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())

    try:
        run(["zoo", "digits_cnn", "-o", "m.onnx"])
        np.save(folder / "x.npy", np.random.default_rng(0).random((16, 1, 8, 8), "f4"))
        verbs = {
            "p.plan": ["build", "m.onnx", "-o", "p.plan", "--threads", "1", "--quick", "--timing-cache", "t.json"],
            "r.json": ["bench", "p.plan", "--warmup", "1", "--iterations", "8", "--json", "r.json"],
            "ranges.json": ["calibrate", "m.onnx", "--placeholder-data", "--samples", "1", "--threads", "1", "-o", "ranges.json"],
            "s/study.json": ["study", "m.onnx", "--data", "x.npy", "--precision", "fp32", "--duration", "20ms", "--threads", "1", "--quick", "--timing-cache", "t.json", "-o", "s"],
        }
        killed = 0
        for target, arguments in verbs.items():
            # What former versions left there, under the numbers that these runs have.
            former = [folder / f"{target}.tmp.{number}.{count}" for number in range(1, 9) for count in range(3)]
            for path in former:
                path.parent.mkdir(exist_ok=True)
                path.write_text("")
            start = time.monotonic()
            run(arguments)
            usual = time.monotonic() - start
            for path in former:
                path.unlink()
            whole = names()
            for kill in range(KILLS):
                # Every other study goes on from what the last one left.
                if target == "s/study.json" and kill % 2 == 0:
                    shutil.rmtree(folder / "s", ignore_errors=True)
                process = begin(arguments)
                time.sleep(moments.uniform(0.2, 1.1) * usual)
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    killed += 1
                process.communicate(timeout=60)
                # Whatever is there is whole: the target, the cache of times, the steps of a study.
                for path in folder.rglob("*.json"):
                    json.loads(path.read_text())
                if kill % 2:
                    (folder / "t.json").unlink(missing_ok=True)
            (folder / target).unlink(missing_ok=True)
            run(arguments)
            left, expected = ({name for name in of if not name.startswith(("cache/", "t.json"))} for of in (names(), whole))
            assert left == expected, f"left behind: {left - expected}; missing: {expected - left}"
        print(f"{killed} of {KILLS * len(verbs)} runs were killed before their end; {', '.join(sorted(left))} are there")
        return 0
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(sys.argv[1])))
