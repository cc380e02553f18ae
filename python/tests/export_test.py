# SPDX-License-Identifier: Apache-2.0
"""The exporters where no framework is installed: their command line, and the check that they end with."""
import json
import os
import pathlib
import subprocess
import shlex
import sys
import tempfile
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PROGRAM = ROOT / "build/temper"

from temper.export import cli, lora, spec  # noqa: E402
from temper.export.check import check, compare  # noqa: E402
from temper.export.errors import ExportError  # noqa: E402
from temper.export.source import Input, Source, open_axes, resolve_shapes  # noqa: E402

WEIGHT = np.random.default_rng(5).normal(0, 1, (8, 4)).astype(np.float32)


def temper(*arguments, flags=()):
    """python -m temper as in a checkout that was never built."""
    return subprocess.run([sys.executable, *flags, "-m", "temper", *arguments], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT / "python")})


def model(path, weight, batch="batch"):
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["t"]), helper.make_node("Relu", ["t"], ["y"])], "g",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 8])], [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, 4])],
                              [numpy_helper.from_array(weight, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


class Numbers(Source):
    """A framework of one function."""

    framework, description = "NumPy", "a matrix"

    def __init__(self):
        self.inputs = [Input("x", (2, 8), np.dtype(np.float32), {0: "batch"})]

    def run(self, arrays):
        return [("y", np.maximum(arrays["x"] @ WEIGHT, 0))]


class TheCheck(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name) / "m.onnx"
        self.lines = []

    def check(self, weight, program):
        return check(model(self.path, weight), Numbers(), 0, 1e-3, 1e-4, program, self.lines.append)

    def engines(self):
        return [None] + ([str(PROGRAM)] if PROGRAM.exists() else [])

    def test_a_model_that_agrees_passes_at_two_batch_sizes(self):
        for program in self.engines():
            report = self.check(WEIGHT, program)
            self.assertTrue(report.ok, self.lines)
            self.assertEqual(len(report.engines), 2)
            self.assertEqual(report.sizes, ["x float32[2,8]", "x float32[3,8]"])
            self.assertEqual(len(report.differences), 4)

    def test_a_model_with_another_weight_fails_in_both_engines(self):
        wrong = WEIGHT.copy()
        wrong[3, 1] += 0.5
        for program in self.engines():
            report = self.check(wrong, program)
            self.assertFalse(report.ok)
            self.assertEqual([d.ok for d in report.differences], [False] * 4)

    def test_an_engine_that_refuses_fails_the_check_by_name(self):
        model(self.path, WEIGHT, batch=2)  # fixed, so the second size is refused
        report = check(self.path, Numbers(), 0, 1e-3, 1e-4, None, self.lines.append)
        self.assertFalse(report.ok)
        self.assertIn("ONNX Runtime", report.refusals[0])

    def test_an_output_that_hardly_varies_is_said(self):
        constant = Numbers()
        constant.run = lambda arrays: [("y", np.zeros((len(arrays["x"]), 4), np.float32))]
        check(model(self.path, WEIGHT * 0), constant, 0, 1e-3, 1e-4, None, self.lines.append)
        self.assertTrue(any("hardly varies" in line for line in self.lines), self.lines)


class Differences(unittest.TestCase):
    def difference(self, got, want):
        return compare("y", "E", np.asarray(got), np.asarray(want, np.float32), 1e-3, 1e-4)

    def test_tolerances_add(self):
        self.assertTrue(self.difference(np.float32([1.00109, 0.00009]), [1, 0]).ok)
        self.assertEqual(self.difference(np.float32([1.00112, 0.00011]), [1, 0]).beyond, 2)

    def test_nan_and_infinity_equal_only_themselves(self):
        self.assertTrue(self.difference(np.float32([np.nan, np.inf]), [np.nan, np.inf]).ok)
        self.assertEqual(self.difference(np.float32([1, -np.inf, np.nan]), [np.nan, np.inf, 1]).beyond, 3)

    def test_another_shape_or_kind_of_type_differs(self):
        self.assertIn("shape", self.difference(np.float32([[1]]), [1]).note)
        self.assertIn("type", self.difference(np.int64([1]), [1]).note)


class Shapes(unittest.TestCase):
    known = [("a", (1, 3, 4, 5), np.float32, 2), ("b", (1, 7), np.int64, 9)]

    def resolve(self, **given):
        return resolve_shapes(self.known, spec.Options(**given))

    def test_batch_is_the_first_axis_of_every_input(self):
        self.assertEqual([p.shape for p in self.resolve(batch=6)], [(6, 3, 4, 5), (6, 7)])

    def test_a_shape_wins_by_name_and_sets_the_type(self):
        ports = self.resolve(shapes=(("b", (2, 9), "int32"),))
        self.assertEqual((ports[1].shape, ports[1].dtype), ((2, 9), np.int32))

    def test_contradictions_and_unknown_names_are_refused(self):
        for given, word in ((dict(shapes=(("c", (1,), None),)), "it has a, b"), (dict(shapes=(("", (1,), None),)), "NAME=SHAPE"),
                            (dict(batch=3, shapes=(("a", (2, 3, 4, 5), None),)), "contradict"), (dict(shapes=(("a", (1,), "float99"),)), "no element type")):
            with self.assertRaises(ExportError) as caught:
                self.resolve(**given)
            self.assertEqual(caught.exception.code, 2)
            self.assertIn(word, str(caught.exception))

    def test_open_axes_follow_the_layout(self):
        self.assertEqual(open_axes((1, 3, 8, 9), ("batch", "height", "width")), {0: "batch", 2: "height", 3: "width"})
        self.assertEqual(open_axes((1, 8, 9, 3), ("height", "width"), channels_last=True), {1: "height", 2: "width"})
        self.assertEqual(open_axes((1, 16), ("batch", "sequence"), text=True), {0: "batch", 1: "sequence"})


class TheCommandLine(unittest.TestCase):
    def assertEnds(self, code, words, *arguments):
        done = temper(*arguments)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertTrue(done.stderr.startswith("temper: "), done.stderr)
        for word in words.split("|"):
            self.assertIn(word, done.stderr)

    def test_wrong_usage_is_one_line_and_ends_with_2(self):
        self.assertEnds(2, "export: the following arguments are required: -o|--help", "export", "torchvision:resnet18")
        self.assertEnds(2, "'4xx4' is not a shape", "export", "x.pt", "-o", "m.onnx", "--shape", "4xx4")
        self.assertEnds(2, "'depth' is none of batch, height", "export", "x.pt", "-o", "m.onnx", "--dynamic", "batch,depth")
        self.assertEnds(2, "'0' is not a whole number", "export", "x.pt", "-o", "m.onnx", "--batch", "0")
        self.assertEnds(2, "must end in .onnx", "export", "x.pt", "-o", "m.plan")
        self.assertEnds(2, "is ONNX already", "export", str(ROOT / "models/digits_cnn.onnx"), "-o", "m.onnx")
        self.assertEnds(2, "is none of torchvision:NAME", "export", "resnet18", "-o", "m.onnx")
        self.assertEnds(2, "needs the function", "export", "some.py", "-o", "m.onnx")

    def test_no_output_replaces_an_input_or_what_export_did_not_write(self):
        with tempfile.TemporaryDirectory() as folder:
            source, model, notes = (pathlib.Path(folder) / name for name in ("s.pt", "m.onnx", "notes.onnx"))
            source.write_bytes(b"weights")
            notes.write_text("mine")
            model.symlink_to("s.pt")
            for force in ([], ["--force"]):
                self.assertEnds(2, "is one of the files to read", "export", str(source), "-o", str(model), *force)
            self.assertEnds(2, "temper export did not write|--force", "export", str(source), "-o", str(notes))
            self.assertEqual((source.read_bytes(), notes.read_text()), (b"weights", "mine"))

    def test_a_missing_folder_ends_with_2(self):
        self.assertEnds(2, "the folder nowhere does not exist", "export", "x.pt", "-o", "nowhere/m.onnx")

    def test_a_missing_file_or_folder_ends_with_3(self):
        self.assertEnds(3, "'no.py' does not exist", "export", "no.py:f", "-o", "m.onnx")
        self.assertEnds(3, "'no.onnx' does not exist", "verify", "no.onnx", "--source", "x.pt")
        self.assertEnds(3, "without saved_model.pb", "export", str(ROOT / "docs"), "-o", "m.onnx")

    def test_a_missing_framework_is_said_with_the_pip_line(self):
        for source, packages in (("torchvision:resnet18", "torch onnxscript torchvision"), ("timm:resnet18", "torch onnxscript timm"), ("hf:folder", "torch onnxscript transformers"),
                                 ("keras:VGG16", "tensorflow-cpu tf2onnx"), ("m.keras", "tensorflow-cpu tf2onnx"), ("m.tflite", "tensorflow-cpu tf2onnx ai-edge-litert")):
            self.assertEnds(4, f"{source} needs|install with: {shlex.quote(sys.executable)} -m pip install {packages}\n", "export", source, "-o", "m.onnx")

    def test_a_folder_of_diffusers_needs_diffusers_and_not_transformers(self):
        with tempfile.TemporaryDirectory() as folder:
            for kind in spec.DIFFUSION:
                (pathlib.Path(folder) / "config.json").write_text(json.dumps({"_class_name": kind}))
                self.assertEnds(4, f"hf:{folder} needs|install with: {shlex.quote(sys.executable)} -m pip install torch onnxscript diffusers\n", "export", f"hf:{folder}", "-o", "m.onnx")

    def test_other_classes_of_diffusers_are_refused_by_name(self):
        with tempfile.TemporaryDirectory() as folder:
            config = pathlib.Path(folder) / "config.json"
            config.write_text(json.dumps({"_class_name": "FluxTransformer2DModel"}))
            self.assertEnds(4, f"{config} names FluxTransformer2DModel of diffusers|UNet2DConditionModel, UNet2DModel, AutoencoderKL are exported", "export", f"hf:{folder}", "-o", "m.onnx")
            for text, words in (("{", "JSONDecodeError"), ("[1]", "holds no object of JSON")):
                config.write_text(text)
                self.assertEnds(3, f"{config}|{words}", "export", f"hf:{folder}", "-o", "m.onnx")

    def test_a_whole_pipeline_is_refused_with_the_parts_to_export(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            index = {"_class_name": "StableDiffusionPipeline", "requires_safety_checker": True, "feature_extractor": [None, None], "safety_checker": ["stable_diffusion", "StableDiffusionSafetyChecker"],
                     "scheduler": ["diffusers", "DDIMScheduler"], "text_encoder": ["transformers", "CLIPTextModel"], "tokenizer": ["transformers", "CLIPTokenizer"],
                     "unet": ["diffusers", "UNet2DConditionModel"], "vae": ["diffusers", "AutoencoderKL"]}
            (folder / "model_index.json").write_text(json.dumps(index))
            self.assertEnds(2, "StableDiffusionPipeline|none of its parts can be exported", "export", f"hf:{folder}", "-o", "m.onnx")
            for part in ("safety_checker", "text_encoder", "unet", "vae"):
                (folder / part).mkdir()
                (folder / part / "config.json").write_text("{}")
            self.assertEnds(2, f"'{folder}' is a whole pipeline of diffusers (StableDiffusionPipeline)|"
                            f"each by itself: hf:{folder}/text_encoder, hf:{folder}/unet, hf:{folder}/vae; not exported: safety_checker (StableDiffusionSafetyChecker)\n", "export", f"hf:{folder}", "-o", "m.onnx")

    def test_without_numpy_too_the_line_names_all_that_is_missing(self):
        done = temper("export", "torchvision:resnet18", "-o", "m.onnx", flags=["-S"])  # no site-packages
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("needs torch, onnxscript, torchvision, numpy, onnx, onnxruntime", done.stderr)

    def test_a_broken_file_of_the_users_is_named_with_its_error(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "m.py"
            for text, words in (("def f(:", "SyntaxError"), ("import no_such_thing", "no_such_thing|pip install no_such_thing"), ("def g(): return 1", "has no function 'f'; it has g"),
                                ("def f(): raise ValueError('five')", "f() of|ValueError: five"), ("def f(): return 3", "returned int")):
                file.write_text(text + "\n")
                done = temper("export", f"{file}:f", "-o", f"{folder}/m.onnx")
                self.assertIn(done.returncode, (2, 3, 4), done.stderr)
                for word in words.split("|"):
                    self.assertIn(word, done.stderr)
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_an_export_that_fails_leaves_the_older_file(self):
        with tempfile.TemporaryDirectory() as folder:
            target = pathlib.Path(folder) / "m.onnx"
            target.write_bytes(b"old")

            class Refuses(Numbers):
                def write(self, path, options):
                    path.write_bytes(b"half")
                    raise ExportError(4, "no")

            args = cli.parser().parse_args(["export", "x", "-o", str(target)])
            kept, cli.load = cli.load, lambda args: Refuses()
            try:
                with self.assertRaises(ExportError):
                    cli.export(args, lambda line: None)
            finally:
                cli.load = kept
            self.assertEqual([p.name for p in pathlib.Path(folder).iterdir()], ["m.onnx"])
            self.assertEqual(target.read_bytes(), b"old")

    def test_weights_beside_a_large_model_have_its_name(self):
        """As PyTorch writes models above 2 GB."""

        class Large(Numbers):
            def write(self, path, options):
                model(path, WEIGHT)
                onnx.save(onnx.load(path), path, save_as_external_data=True, size_threshold=0, location=path.name + ".data")
                return "made"

        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            export = lambda *more: cli.export(cli.parser().parse_args(["export", "x", "-o", str(folder / "m.onnx"), "--no-check", *more]), lambda line: None)
            kept, cli.load = cli.load, lambda args: Large()
            try:
                for _ in range(2):  # the second one replaces the first one's
                    self.assertEqual(export(), 0)
                    self.assertEqual(sorted(path.name for path in folder.iterdir()), ["m.onnx", "m.onnx.data"])
                    self.assertEqual(numpy_helper.to_array(onnx.load(folder / "m.onnx").graph.initializer[0]).tolist(), WEIGHT.tolist())
                (folder / "m.onnx").unlink()
                (folder / "m.onnx.data").write_bytes(b"mine")
                with self.assertRaises(ExportError) as caught:
                    export()
                self.assertIn("would replace", str(caught.exception))
                self.assertEqual([(path.name, path.read_bytes()) for path in folder.iterdir()], [("m.onnx.data", b"mine")])
                self.assertEqual(export("--force"), 0)
            finally:
                cli.load = kept

    def test_adapters_that_cannot_be_merged_are_refused_by_name(self):
        with tempfile.TemporaryDirectory() as name:
            file = pathlib.Path(name) / "adapter_config.json"
            for settings, code, words in (({"r": 4, "lora_alpha": 8}, 0, 2.0), ({"r": 4, "lora_alpha": 8, "use_rslora": True, "rank_pattern": {}}, 0, 4.0), ({"use_dora": True}, 4, "DoRA (use_dora)"),
                                          ({"bias": "lora_only"}, 4, "bias 'lora_only'"),
                                          ({"init_lora_weights": "pissa_niter_4"}, 4, "init_lora_weights: pissa_niter_4"), ({"r": 2, "lora_alpha": 1, "init_lora_weights": "gaussian"}, 0, 0.5),
                                          ({"rank_pattern": {"q": 2}}, 4, "rank_pattern"), ({"unheard_of": 3}, 4, "unheard_of"), ({"r": 0}, 3, "needs r"),
                                          ({"peft_type": "IA3"}, 4, "IA3")):
                file.write_text(json.dumps({"peft_type": "LORA", "r": 1, "lora_alpha": 1, **settings}))
                with self.subTest(settings=settings):
                    if code == 0:
                        self.assertEqual(lora.read_config(file.parent)[1], words)
                        continue
                    with self.assertRaises(ExportError) as caught:
                        lora.read_config(file.parent)
                    self.assertEqual(caught.exception.code, code)
                    self.assertIn(words, str(caught.exception))


if __name__ == "__main__":
    unittest.main()
