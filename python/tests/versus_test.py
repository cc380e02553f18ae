# SPDX-License-Identifier: Apache-2.0
"""temper.versus: the model in its own framework is made as it was for the export."""
import argparse
import pathlib
import tempfile
import unittest
from unittest import mock

import onnx

from temper.export import source as sources
from temper.export.errors import NOT_SUPPORTED, ExportError
from temper.versus import engine


class SourceTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = str(pathlib.Path(folder.name) / "m.onnx")

    def model(self, **notes):
        graph = onnx.helper.make_graph([], "g", [], [])
        model = onnx.helper.make_model(graph)
        onnx.helper.set_model_props(model, {f"temper.{name}": value for name, value in notes.items()})
        onnx.save(model, self.path)

    def asked_for(self, **flags):
        """What the source is loaded with: its name and options."""
        made = []

        class PyTorchSource:
            framework = "PyTorch"

        def load(spec, options):
            made.append((spec, options))
            return PyTorchSource()
        args = argparse.Namespace(**{"model": self.path, "batch": 3, "source": "", "weights": "", "lora": "", **flags})
        with mock.patch.object(sources, "load", load):
            engine.source_of(args, "PyTorch", ("PyTorchSource",))
        spec, options = made[0]
        return spec, options.batch, options.weights, options.lora, options.seed, options.half, options.past

    def test_what_the_export_noted_counts(self):
        self.model(source="hf:gpt/", seed="7", weights="w.pt", lora="adapter/", half="true", past="true")
        self.assertEqual(self.asked_for(), ("hf:gpt/", 3, "w.pt", "adapter/", 7, True, True))
        self.model(source="torchvision:resnet18")
        self.assertEqual(self.asked_for(), ("torchvision:resnet18", 3, None, None, 0, False, False))

    def test_options_come_before_notes(self):
        self.model(source="hf:gpt/", seed="7", weights="w.pt", lora="adapter/")
        self.assertEqual(self.asked_for(lora="other/"), ("hf:gpt/", 3, "w.pt", "other/", 7, False, False))
        # Notes are those of the noted source.
        self.assertEqual(self.asked_for(source="torch.py:make", weights="v.pt"), ("torch.py:make", 3, "v.pt", None, 0, False, False))

    def test_what_the_source_refuses_is_said_by_name(self):
        self.model(source="model.pt2", lora="adapter/")

        def load(spec, options):
            raise ExportError(NOT_SUPPORTED, "--lora: adapters are merged into modules of PyTorch")
        args = argparse.Namespace(model=self.path, batch=1, source="", weights="", lora="")
        with mock.patch.object(sources, "load", load), self.assertRaisesRegex(engine.Refusal, "model.pt2: --lora: adapters are merged"):
            engine.source_of(args, "PyTorch", ("PyTorchSource",))
        self.model()
        with self.assertRaisesRegex(engine.Refusal, "PyTorch reads no ONNX: --source"):
            engine.source_of(args, "PyTorch", ("PyTorchSource",))


if __name__ == "__main__":
    unittest.main()
