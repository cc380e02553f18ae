# SPDX-License-Identifier: Apache-2.0
"""What long work shows: a bar in a terminal and in a notebook, nothing in a pipe, and words for a function of the user's own."""
import io
import sys
import types
import unittest
import unittest.mock

from common import DIGITS, Case, images

import temper
from temper import _progress


class Screen(io.StringIO):
    def __init__(self, terminal):
        super().__init__()
        self.terminal = terminal

    def isatty(self):
        return self.terminal


class Display:
    """What stands in the place of IPython and of its cell's output."""

    def __init__(self):
        self.texts = []

    def module(self):
        ipython = types.ModuleType("IPython")
        ipython.get_ipython = lambda: types.SimpleNamespace(kernel=None)
        ipython.display = types.ModuleType("IPython.display")
        ipython.display.display = self.display
        return {"IPython": ipython, "IPython.display": ipython.display}

    def display(self, data, raw, display_id):
        assert raw and display_id
        self.update(data, raw)
        return self

    def update(self, data, raw):
        self.texts.append(data["text/plain"])


def read_pictures(**named):
    """Something that counts: 60 pictures, ten at a time."""
    engine = temper.build(DIGITS, shapes=(10, 1, 8, 8), measure=False, progress=False)
    return temper.run(engine, {"image": images(60)}, batch=10, **named)


class ProgressTest(Case):
    def setUp(self):
        for name in ("_QUIET", "_BETWEEN"):
            patch = unittest.mock.patch.object(_progress, name, 0)
            patch.start()
            self.addCleanup(patch.stop)

    def shown(self, terminal, **named):
        screen = Screen(terminal)
        with unittest.mock.patch.object(sys, "stderr", screen):
            read_pictures(**named)
        return screen.getvalue()

    def test_a_terminal_shows_a_bar_that_is_gone_at_the_end(self):
        with unittest.mock.patch.dict("os.environ", COLUMNS="80"):
            text = self.shown(True)
        self.assertIn("\r\x1b[K[#######-------------] running: 20 of 60 samples", text)
        self.assertTrue(text.endswith("\r\x1b[K"))
        self.assertLess(max(map(len, text.split("\r\x1b[K"))), 80)

    def test_a_pipe_shows_nothing_and_neither_does_false(self):
        self.assertEqual(self.shown(False), "")
        self.assertEqual(self.shown(True, progress=False), "")

    def test_a_function_gets_words_without_a_bar(self):
        told = []
        self.assertEqual(self.shown(True, progress=told.append), "")
        self.assertIn("running: 20 of 60 samples", told)

    def test_a_notebook_shows_one_output_that_is_updated(self):
        display = Display()
        with unittest.mock.patch.dict(sys.modules, display.module()):
            self.assertEqual(self.shown(True), "")
        self.assertTrue(any(text.startswith("[#######-------------] running: 20 of 60") for text in display.texts), display.texts)
        self.assertEqual(display.texts[-1], "")

    def test_what_is_done_at_once_shows_nothing(self):
        with unittest.mock.patch.object(_progress, "_QUIET", 60):
            self.assertEqual(self.shown(True), "")


if __name__ == "__main__":
    unittest.main()
