# SPDX-License-Identifier: Apache-2.0
"""Polygraphy, unchanged: with the runner that its entry point finds, and as a client of the module tensorrt. Needs a Python that has it."""
import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest

from common import DIGITS, Case

METADATA = "Metadata-Version: 2.1\nName: temper\nVersion: 0\n"
ENTRY_POINTS = "[polygraphy.run.plugins]\ntemper = temper.polygraphy:argument_groups\n"  # as pyproject.toml has them
RUN = "import sys; from polygraphy.tools import main; sys.exit(main())"
SHAPES = ("--input-shapes", "image:[3,1,8,8]")


@unittest.skipUnless(importlib.util.find_spec("polygraphy"), "this Python has no Polygraphy")
class PolygraphyTest(Case):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        os.makedirs(os.path.join(self.folder, "temper-0.dist-info"))
        for name, text in (("METADATA", METADATA), ("entry_points.txt", ENTRY_POINTS)):
            with open(os.path.join(self.folder, "temper-0.dist-info", name), "w") as file:
                file.write(text)
        with open(os.path.join(self.folder, "polygraphy_main.py"), "w") as file:
            file.write(RUN)

    def polygraphy(self, *words, api=None):
        launcher = [] if api is None else ["-m", "temper.tensorrt", "--api", api, "--device", "cpu"]
        path = os.pathsep.join([os.environ.get("PYTHONPATH", ""), self.folder])
        environment = {**os.environ, "PYTHONPATH": path, "POLYGRAPHY_AUTOINSTALL_DEPS": "0"}
        done = subprocess.run([sys.executable, *launcher, "polygraphy_main.py", *words], cwd=self.folder, env=environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr[-3000:])
        return done.stdout

    def test_the_runner_is_found_and_agrees_with_onnx_runtime(self):
        text = self.polygraphy("run", DIGITS, "--onnxrt", "--temper", "--temper-quick", "--temper-device", "cpu", *SHAPES)
        self.assertIn("temper-runner", text)
        self.assertIn("PASSED | simple | All outputs matched", text)

    def test_the_runner_of_a_script_takes_plans_and_open_shapes(self):
        import numpy
        from polygraphy.common import TensorMetadata

        import temper
        from temper.polygraphy import EngineFromOnnx, EngineFromPlan, TemperRunner

        plan = os.path.join(self.folder, "m.plan")
        engine = EngineFromOnnx(DIGITS, device="cpu", measure=False)()
        self.assertEqual(engine.inputs[0].shape, (1, 1, 8, 8))
        engine.save(plan)
        x = numpy.ones((1, 1, 8, 8), "float32")
        with TemperRunner(EngineFromPlan(plan)) as runner:
            self.assertIsInstance(runner.get_input_metadata(), TensorMetadata)
            numpy.testing.assert_array_equal(runner.infer({"image": x})["logits"], temper.load(plan).run(x)["logits"])

    def test_as_a_client_of_the_module_it_builds_runs_inspects_and_calibrates(self):
        for api in ("8.6", "10.13", "11.1"):
            with self.subTest(api=api):
                self.assertIn("PASSED | simple", self.polygraphy("run", DIGITS, "--onnxrt", "--trt", *SHAPES, api=api))
                self.polygraphy("convert", DIGITS, "-o", "d.engine", *SHAPES, api=api)
                self.assertIn("[Op: Convolution]", self.polygraphy("inspect", "model", "d.engine", "--model-type", "engine", "--show", "layers", api=api))
                self.assertIn("PASSED", self.polygraphy("run", "d.engine", "--model-type", "engine", "--trt", api=api))
        for api in ("8.6", "10.13"):
            text = self.polygraphy("run", DIGITS, "--onnxrt", "--trt", "--int8", "--calibration-cache", f"{api}.cache", "--atol", "2", *SHAPES, api=api)
            self.assertIn("PASSED | simple", text)
            with open(os.path.join(self.folder, f"{api}.cache"), "rb") as file:
                self.assertIn(b"EntropyCalibration2", file.readline())


if __name__ == "__main__":
    unittest.main()
