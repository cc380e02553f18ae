# SPDX-License-Identifier: Apache-2.0
"""What the rows of run.py share: where they work, what they run, and how they fail."""
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[3]
MODEL = ROOT / "models/digits_cnn.onnx"
PROGRAMS = pathlib.Path(__file__).resolve().parent / "programs"


class Failed(Exception):
    pass


def expect(fact, what):
    if not fact:
        raise Failed(what)


class Row:
    """One row of the list: it works in `work`, and `codes` are the exit codes of what it ran, and `acted` says whether programs of ours did."""

    def __init__(self, options, work):
        self.options, self.work, self.codes, self.acted = options, pathlib.Path(work), [], False

    def program(self, name, text, ours):
        """The program of that name under the folder that holds this text; without one, ours that acts as it does."""
        for path in sorted(self.options.folder.rglob(name)) if self.options.folder else ():
            if text in path.read_text(errors="replace"):
                return path
        self.acted = True
        return PROGRAMS / ours

    def run(self, *words, api=None, environment=None):
        """(exit code, standard output, standard error) of a command that finds Temper in TensorRT's place."""
        release = [] if api is None else ["--api", api]
        command = [self.options.temper, "as-tensorrt", *release, "--device", self.options.device, "--", *map(str, words)]
        done = subprocess.run(command, cwd=self.work, capture_output=True, text=True, env={**os.environ, **(environment or {})})
        self.codes.append(done.returncode)
        return done.returncode, done.stdout, done.stderr

    def temper(self, *words):
        return subprocess.run([self.options.temper, *map(str, words)], cwd=self.work, capture_output=True, text=True)
