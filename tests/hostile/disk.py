# SPDX-License-Identifier: Apache-2.0
"""A disk that is full, that writes a part, or that fails, at each call in turn (argv[2]: the library in front of libc that does so):
each verb does its work or ends with exit code 5 and a line, and what it was to write is then whole: the old file or the new one.
TEMPER_HOSTILE=1: each fault once and for good, at each call."""
import errno
import json
import os
import sys

from harness import LONG, Cases
from wire import model, node, value


def main():
    cases = Cases()
    folder = cases.folder
    os.symlink(os.path.abspath(sys.argv[2]), folder / "bad_disk.so")  # a name without spaces, for the loader
    cases.write("m.onnx", model([node("Relu", ["x"], ["y"])], [value("x", [1, 4])], [value("y", [1, 4])]))
    verbs = {
        "p.plan": ["build", "m.onnx", "-o", "p.plan", "--threads", "1", "--quick", "--timing-cache", "t.json"],
        "r.json": ["bench", "good.plan", "--warmup", "1", "--iterations", "2", "--json", "r.json"],
        "ranges.json": ["calibrate", "m.onnx", "--placeholder-data", "--samples", "1", "--threads", "1", "-o", "ranges.json"],
        "out/y.npy": ["run", "m.onnx", "--no-timing-cache", "--no-measure", "--output-dir", "out"],
        "z.onnx": ["zoo", "digits_cnn", "-o", "z.onnx"],
    }
    good = cases.run("build", "m.onnx", "-o", "good.plan", "--threads", "1", "--quick", "--no-timing-cache")
    cases.expect(good.code == 0, good, "there is a plan")

    def is_whole(target):
        if target.endswith(".json"):
            json.loads((folder / target).read_text())
        elif target.endswith(".plan"):
            read = cases.run("inspect", target)
            cases.expect(read.code == 0, read, f"{target} is whole")

    def files():
        return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}

    faults = [(errno.ENOSPC, True), (errno.EIO, False)] + [(errno.EIO, True), (errno.ENOSPC, False)] * LONG
    met = 0
    for target, command in verbs.items():
        path = folder / target
        made = cases.run(*command)
        if not cases.expect(made.code == 0 and path.exists(), made, "works on a good disk"):
            continue
        whole = path.read_bytes()
        for old in (True, False):
            for error, stays in faults if old or LONG else faults[:1]:
                for call in range(1, 200):
                    for other in (path, folder / "t.json", folder / "t.json.lock", folder / "mark"):
                        other.unlink(missing_ok=True)
                    if old:
                        path.write_bytes(whole)
                    before, there = whole if old else None, files()
                    outcome = cases.run(*command, environment={
                        "LD_PRELOAD": str(folder / "bad_disk.so"), "TEMPER_TEST_DISK_CALL": str(call), "TEMPER_TEST_DISK_ERROR": str(error),
                        "TEMPER_TEST_DISK_STAYS": str(int(stays)), "TEMPER_TEST_DISK_MARK": str(folder / "mark")})
                    if not (folder / "mark").exists():
                        cases.expect(outcome.code == 0, outcome, "works where no call fails")
                        break
                    met += 1
                    cases.documented(outcome, [0, 5])
                    if outcome.code == 0:
                        cases.expect(path.exists(), outcome, f"{target} is there")
                    if path.exists() and path.read_bytes() != before:
                        is_whole(target)
                    cases.expect(old or outcome.code == 0 or not path.exists() or b"could not be flushed" in outcome.err, outcome,
                                 f"{target} is there only where writing it came to its end")
                    left = {name for name in files() - there if ".temper-" in name}
                    cases.expect(not left, outcome, f"leaves {left}")
        short = cases.run(*command, environment={"LD_PRELOAD": str(folder / "bad_disk.so")})
        cases.expect(short.code == 0, short, "writes that take a half each come to their end")
        is_whole(target)
    print(f"{met} faults met")
    cases.expect(met > 20, good, "faults were met")
    cases.finish()


main()
