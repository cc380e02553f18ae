# SPDX-License-Identifier: Apache-2.0
"""The process that times candidates of NVIDIA's libraries for a build."""
import pathlib
import subprocess
import tempfile
import unittest

from common import Case

import temper
from temper._serve_timings import command


class ServeTimingsTest(Case):
    def test_it_starts_in_any_folder_and_says_who_it_is(self):
        with tempfile.TemporaryDirectory() as folder:
            stranger = pathlib.Path(folder, "temper")
            stranger.mkdir()
            (stranger / "__init__.py").write_text("raise SystemExit('a stranger')")
            done = subprocess.run([*command(), "cpu"], input="not a question\n", capture_output=True, text=True, cwd=folder, timeout=60)
        lines = done.stdout.splitlines()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(lines[0].startswith(f"temper {temper.__version__} "), lines)
        self.assertIn("failed", lines[1])


if __name__ == "__main__":
    unittest.main()
