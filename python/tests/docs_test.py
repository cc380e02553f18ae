# SPDX-License-Identifier: Apache-2.0
"""The snippets of the documents run as they stand."""
import os
import re
import tempfile
import unittest

from common import ROOT, Case, python


def snippets(document):
    return re.findall(r"^```python\n(.*?)^```", (ROOT / document).read_text(), re.S | re.M)


class DocsTest(Case):
    def test_the_five_lines_read_a_digit(self):
        for document in ("README.md", "docs/python.md"):
            with self.subTest(document=document):
                lines = snippets(document)[0]
                self.assertEqual(len(lines.splitlines()), 5)
                self.assertEqual(python(lines), "this is a 7\n")

    def test_the_page_runs_from_start_to_end(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("models", "examples"):
                os.symlink(ROOT / name, os.path.join(folder, name))
            out = python("".join(snippets("docs/python.md")), folder=folder, timeout=200)
            self.assertIn("usage input 'image' was given float64; expected is float32", out)
            self.assertEqual(sorted(os.listdir(folder)), ["both.json", "digits.plan", "examples", "models", "optimised.onnx", "photos", "ranges.json", "report.html", "study"])


if __name__ == "__main__":
    unittest.main()
