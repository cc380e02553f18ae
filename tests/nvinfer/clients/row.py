# SPDX-License-Identifier: Apache-2.0
"""What the rows of run.py share: where they work, what they run, and how they fail."""
import importlib.util
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[3]
MODEL = ROOT / "models/digits_cnn.onnx"
PROGRAMS = pathlib.Path(__file__).resolve().parent / "programs"


class Failed(Exception):
    pass


class LeftOut(Exception):
    pass


def expect(fact, what):
    if not fact:
        raise Failed(what)


def needs(*packages):
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        raise LeftOut(f"{', '.join(missing)}: not installed")


class Row:
    """One row of the list: it works in `work`, and `codes` are the exit codes of what it ran, and `acted` says whether programs of ours did."""

    def __init__(self, options, work):
        self.options, self.work, self.codes, self.acted = options, pathlib.Path(work), [], False
        self.tolerance = 1e-4 if options.device == "cpu" else 5e-3  # of what is around 1: on a GPU TF32 is on, as it is in TensorRT

    def public(self, name, text):
        """The program of that name under the folder that holds this text."""
        for path in sorted(self.options.folder.rglob(name)) if self.options.folder else ():
            if text in path.read_text(errors="replace"):
                return path
        raise LeftOut(f"{name} is not in the folder")

    def program(self, name, text, ours):
        """The program of that name under the folder that holds this text; without one, ours that acts as it does."""
        try:
            return self.public(name, text)
        except LeftOut:
            self.acted = True
            return PROGRAMS / ours

    def run(self, *words, api=None, environment=None, folder=None):
        """(exit code, standard output, standard error) of a command that finds Temper in TensorRT's place; LeftOut where it needs a package that is not here."""
        release = [] if api is None else ["--api", api]
        command = [self.options.temper, "as-tensorrt", *release, "--device", self.options.device, "--", *map(str, words)]
        done = subprocess.run(command, cwd=folder or self.work, capture_output=True, text=True, env={**os.environ, **(environment or {})})
        self.codes.append(done.returncode)
        if done.returncode and "ModuleNotFoundError: No module named 'pycuda'" in done.stderr:  # which Temper stands in for without a GPU
            raise LeftOut("pycuda: not installed")
        return done.returncode, done.stdout, done.stderr

    def temper(self, *words):
        return subprocess.run([self.options.temper, *map(str, words)], cwd=self.work, capture_output=True, text=True)
