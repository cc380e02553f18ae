# SPDX-License-Identifier: Apache-2.0
"""What the tests of the Python package share."""
import pathlib
import subprocess
import sys
import threading
import unittest

import numpy

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DIGITS = str(ROOT / "models/digits_cnn.onnx")


def digits():
    """The handwritten digits of scikit-learn as digits_cnn takes them, and their labels."""
    sys.path.append(str(ROOT / "python"))  # behind the built package: the one that lies there has no native module
    import digits_data

    pictures, labels = digits_data.load_digits()
    return (pictures / 16).astype(numpy.float32)[:, None], labels


def images(count, seed=0):
    """Float pictures of 8x8 pixels in the range that digits_cnn was trained on."""
    return numpy.random.default_rng(seed).uniform(0, 1, (count, 1, 8, 8)).astype(numpy.float32)


def python(text, *arguments, timeout=60, folder=ROOT):
    """Runs `text` in a Python of its own, with this one's path; its output, or a failure with what it said."""
    done = subprocess.run([sys.executable, "-c", text, *arguments], capture_output=True, text=True, timeout=timeout, cwd=folder)
    if done.returncode:
        raise AssertionError(f"exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


class Case(unittest.TestCase):
    def assertOneThreadAtATime(self, call):
        """Of four threads that call at once some are refused, and by that alone. They go on until the first is, however long it takes."""
        import temper

        refusals = []

        def work():
            while not refusals:
                try:
                    call()
                except temper.Error as error:
                    refusals.append((error.kind, str(error)))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for kind, text in refusals:
            self.assertEqual(kind, "usage")
            self.assertIn("running in another thread", text)

    def assertRefused(self, kind, words, call, *arguments, **named):
        """The call ends in a temper.Error of this kind, whose message holds all of these words."""
        import temper

        with self.assertRaises(temper.Error) as caught:
            call(*arguments, **named)
        self.assertEqual(caught.exception.kind, kind, str(caught.exception))
        for word in words.split("|"):
            self.assertIn(word, str(caught.exception))
