# SPDX-License-Identifier: Apache-2.0
"""How pictures become inputs is remembered: by ranges, engines and plans, and read out of what a model carries."""
import json
import os
import pathlib
import tempfile
import unittest

import numpy
import onnx
import PIL.Image
from common import Case
from onnx import TensorProto, helper

import temper

BUILD = {"threads": 1, "measure": False}


def model(size="side", channels=3, metadata=None):
    """A convolution of pictures; the size is a symbol or a number."""
    weights = numpy.random.default_rng(0).normal(0, 0.2, (4, channels, 3, 3)).astype("float32")
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1], name="conv"), helper.make_node("GlobalAveragePool", ["c"], ["p"]),
             helper.make_node("Flatten", ["p"], ["y"])]  # fmt: skip
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", channels, size, size])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 4])], [onnx.numpy_helper.from_array(weights, "w")])  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    for key, value in (metadata or {}).items():
        made.metadata_props.add(key=key, value=value)
    return made.SerializeToString()


class PreprocessTest(Case):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)
        rng = numpy.random.default_rng(3)
        (self.folder / "photos").mkdir()
        for i, (height, width) in enumerate([(40, 60), (48, 48), (70, 30), (33, 64)]):
            small = PIL.Image.fromarray(rng.integers(0, 256, (5, 7, 3), dtype="uint8"))
            small.resize((width, height)).save(self.folder / "photos" / f"{i}.png")
        self.photos = str(self.folder / "photos")

    def said(self, call):
        lines = []
        temper.set_log_callback(lambda level, message: lines.append(message) if level == "warning" else None)
        try:
            result = call()
        finally:
            temper.set_log_callback(None)
        return result, lines

    def input_of(self, engine, data, **build):
        return next(iter(temper.batches(engine, data, runs=False, **build))).inputs["x"]

    def test_ranges_engines_and_plans_remember_and_warn_where_told_otherwise(self):
        data = temper.Data(self.photos, preprocess="unit", fit="letterbox", crop=32, bgr=True)
        ranges = temper.calibrate(model(), data, method="minmax", threads=1)
        words = ranges.preprocess["x"]
        for word in ("fit=letterbox", "crop=32x32", "scale=1/255", "mean=0", "std=1", "order=bgr", "pad=114", "layout=nchw", "filter=bilinear"):
            self.assertIn(word, words.replace("mean=0,0,0", "mean=0").replace("std=1,1,1", "std=1").split())
        saved = str(self.folder / "ranges.json")
        ranges.save(saved)
        self.assertEqual(temper.Ranges.load(saved).preprocess, ranges.preprocess)
        wanted = self.input_of(model(), data)
        engine = temper.build(model(), precision="int8", calibration=saved, shapes=(1, 3, 32, 32), **BUILD)
        self.assertEqual(engine.preprocess, ranges.preprocess)
        plan = temper.load(engine.to_bytes())
        self.assertEqual(plan.preprocess, ranges.preprocess)
        got, warned = self.said(lambda: self.input_of(plan, self.photos))
        numpy.testing.assert_array_equal(got, wanted[:1])
        self.assertEqual(warned, [])
        other, warned = self.said(lambda: self.input_of(plan, temper.Data(self.photos, mean=0.5)))
        self.assertEqual(len(warned), 1)
        self.assertIn("prepared otherwise than the plan remembers", warned[0])
        numpy.testing.assert_allclose(other, wanted[:1] - 0.5, atol=1e-6)

    def test_another_size_scales_what_is_remembered(self):
        built = temper.build(model(), shapes=(1, 3, 48, 48), preprocess="fit=crop resize=36 crop=32x32 mean=0 std=1 scale=1", **BUILD)
        got = self.input_of(built, self.photos)
        picture = PIL.Image.open(self.folder / "photos/0.png").resize((81, 54), PIL.Image.BILINEAR).crop((16, 3, 64, 51))
        numpy.testing.assert_allclose(got[0], numpy.asarray(picture, dtype="float32").transpose(2, 0, 1), atol=1)

    def test_a_letterbox_holds_the_whole_picture_in_the_middle(self):
        got = self.input_of(model(), temper.Data(self.photos, preprocess="yolo", crop=32, scale=1))
        picture = numpy.asarray(PIL.Image.open(self.folder / "photos/0.png").resize((32, 21), PIL.Image.BILINEAR), dtype="float32").transpose(2, 0, 1)
        self.assertEqual(set(got[0][:, :5].ravel()) | set(got[0][:, 26:].ravel()), {114.0})
        numpy.testing.assert_allclose(got[0][:, 5:26], picture, atol=1)

    def test_a_model_says_itself_how_pictures_become_inputs(self):
        plain = self.input_of(model(32), temper.Data(self.photos, preprocess="fit=stretch scale=1 mean=0 std=1"))
        for metadata, wanted in (
            ({"temper.preprocess": "fit=stretch scale=1 mean=0 std=1"}, plain),
            ({"Image.NominalPixelRange": "NominalRange_0_255"}, plain),
            ({"Image.BitmapPixelFormat": "Bgr8", "Image.NominalPixelRange": "NominalRange_0_255"}, plain[:, ::-1]),
            ({"author": "Ultralytics", "task": "detect"}, self.input_of(model(32), temper.Data(self.photos, preprocess="yolo"))),
        ):
            got = self.input_of(model(32, metadata=metadata), self.photos)
            numpy.testing.assert_allclose(got, wanted, atol=1e-5)
            self.assertTrue(temper.build(model(32, metadata=metadata), **BUILD).preprocess)
        broken, warned = self.said(lambda: self.input_of(model(32, metadata={"temper.preprocess": "fit=round"}), self.photos))
        self.assertIn("is not used", warned[0])
        self.assertEqual(broken.shape, (4, 3, 32, 32))
        self.assertEqual(temper.build(model(32), **BUILD).preprocess, {})

    def test_configurations_of_transformers_and_timm_are_read(self):
        (self.folder / "m.onnx").write_bytes(model(32))
        path = str(self.folder / "m.onnx")
        transformers = {"image_processor_type": "ViTImageProcessor", "do_resize": True, "size": {"shortest_edge": 36}, "do_center_crop": True,
                        "crop_size": {"height": 32, "width": 32}, "resample": 3, "do_rescale": True, "rescale_factor": 0.00392156862745098,
                        "do_normalize": True, "image_mean": [0.5, 0.4, 0.3], "image_std": [0.2, 0.3, 0.4]}  # fmt: skip
        timm = {"architecture": "x", "pretrained_cfg": {"input_size": [3, 32, 32], "interpolation": "bicubic", "crop_pct": 0.875, "crop_mode": "center",
                                                        "mean": [0.5, 0.4, 0.3], "std": [0.2, 0.3, 0.4]}}  # fmt: skip
        wanted = self.input_of(model(32), temper.Data(self.photos, resize=36, mean=(0.5, 0.4, 0.3), std=(0.2, 0.3, 0.4), filter="bicubic"))
        for name, config in (("preprocessor_config.json", transformers), ("config.json", timm)):
            (self.folder / name).write_text(json.dumps(config))
            numpy.testing.assert_allclose(self.input_of(path, self.photos, **BUILD), wanted, atol=1e-6)
            given = temper.Data(self.photos, preprocess=self.folder / name)
            (self.folder / name).rename(self.folder / f"given-{name}")
            given = temper.Data(self.photos, preprocess=self.folder / f"given-{name}")
            numpy.testing.assert_allclose(self.input_of(model(32), given), wanted, atol=1e-6)
        (self.folder / "config.json").write_text(json.dumps({"model_type": "bert"}))  # says nothing of pictures
        self.assertEqual(temper.build(path, **BUILD).preprocess, {})
        odd = {**transformers, "resample": 0}
        (self.folder / "odd.json").write_text(json.dumps(odd))
        self.assertRefused("unsupported", "resample 0", self.input_of, model(32), temper.Data(self.photos, preprocess=self.folder / "odd.json"))
        (self.folder / "cut.json").write_text("{")
        self.assertRefused("bad_file", "cut.json", self.input_of, model(32), temper.Data(self.photos, preprocess=self.folder / "cut.json"))

    def test_presets_are_what_their_frameworks_do(self):
        pixels = self.input_of(model(32), temper.Data(self.photos, preprocess="none", fit="stretch"))
        for name, wanted in (
            ("unit", pixels / 255),
            ("tf", pixels / 127.5 - 1),
        ):
            numpy.testing.assert_allclose(self.input_of(model(32), temper.Data(self.photos, preprocess=name, fit="stretch")), wanted, atol=1e-5)
        caffe = self.input_of(model(32), temper.Data(self.photos, preprocess="caffe", fit="stretch"))
        numpy.testing.assert_allclose(caffe, pixels[:, ::-1] - numpy.array([103.939, 116.779, 123.68]).reshape(3, 1, 1), atol=1e-4)
        self.assertRefused("usage", "'imagnet' is no preset", self.input_of, model(32), temper.Data(self.photos, preprocess="imagnet"))
        self.assertRefused("usage", "'fit=round' says nothing", self.input_of, model(32), temper.Data(self.photos, preprocess="fit=round"))
        self.assertRefused("usage", "pad is 300", self.input_of, model(32), temper.Data(self.photos, pad=300))

    def test_a_budget_takes_sizes_from_the_shapes_and_remembers(self):
        engine = temper.build(model(), precision="int8", shapes=(1, 3, 32, 32), data=temper.Data(self.photos, preprocess="unit"), max_drop=1.0, metric="snr",
                              method="minmax", **BUILD)  # fmt: skip
        self.assertIn("crop=32x32", engine.preprocess["x"])
        self.assertIn("scale=1/255", engine.preprocess["x"])
        self.assertEqual(engine.mixed.ranges.preprocess, engine.preprocess)


if __name__ == "__main__":
    unittest.main()
