# SPDX-License-Identifier: Apache-2.0
"""Other packages with an ONNX or a protobuf of their own live in the same process, whichever came first."""
import importlib.util
import subprocess
import unittest

from common import DIGITS, Case, python

USE = """
import sys
import numpy
for name in sys.argv[2].split(): __import__(name)
import temper
for name in sys.argv[3].split(): __import__(name)
engine = temper.build(sys.argv[1], measure=False)
x = numpy.random.default_rng(0).uniform(0, 1, (1, 1, 8, 8)).astype("float32")
answer = engine.run(x)["logits"]
if "torch" in sys.modules:
    import torch
    tensor = torch.from_numpy(x)
    assert (engine.run(tensor)["logits"] == answer).all()
    assert torch.from_dlpack(answer).shape == (1, 10)
    torch.nn.functional.conv2d(tensor, torch.ones(2, 1, 3, 3))
    try: engine.run(tensor.clone().requires_grad_())
    except temper.Error as error: assert "detach()" in str(error) and error.kind == "usage", error
if "tensorflow" in sys.modules:
    import tensorflow
    tensorflow.nn.conv2d(x.reshape(1, 8, 8, 1), numpy.ones((3, 3, 1, 2), "float32"), 1, "SAME")
import onnx
model = onnx.load(sys.argv[1])
onnx.checker.check_model(model, full_check=True)
onnx.version_converter.convert_version(model, 20)
import onnxruntime
other = onnxruntime.InferenceSession(sys.argv[1]).run(None, {"image": x})[0]
assert abs(answer - other).max() < 1e-3
assert temper.Graph.from_onnx(model.SerializeToString()) == temper.Graph.from_onnx(sys.argv[1])
for bad in (b"", b"nonsense"):
    try: temper.build(bad)
    except temper.Error as error: assert error.kind == "bad_file", error
    try: onnx.load_from_string(b"nonsense")
    except Exception as error: assert "pars" in str(error).lower(), error
print("fine")
"""


class FrameworksTest(Case):
    def test_others_may_be_imported_before_or_after(self):
        for name in ("onnx", "onnxruntime", "google.protobuf.descriptor_pb2", "torch", "tensorflow"):
            if not importlib.util.find_spec(name.split(".")[0]):
                continue
            with self.subTest(name=name):
                self.assertIn("fine", python(USE, DIGITS, name, ""))
                self.assertIn("fine", python(USE, DIGITS, "", name))

    def test_the_native_module_shows_one_symbol(self):
        from temper import _temper

        shown = subprocess.run(["nm", "-D", "--defined-only", _temper.__file__], capture_output=True, text=True, check=True).stdout
        self.assertEqual([line.split()[-1] for line in shown.splitlines()], ["PyInit__temper"])


if __name__ == "__main__":
    unittest.main()
