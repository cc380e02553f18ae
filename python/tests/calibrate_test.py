# SPDX-License-Identifier: Apache-2.0
"""Calibration from Python's iterators, and int8 engines made of it."""
import json
import os
import pathlib
import subprocess
import tempfile
import time
import unittest
import warnings

import numpy
from common import DIGITS, Case, digits, images

import temper


class CalibrateTest(Case):
    @classmethod
    def setUpClass(cls):
        cls.pictures, cls.labels = digits()
        cls.ranges = temper.calibrate(DIGITS, (cls.pictures[i : i + 32] for i in range(0, 320, 32)), threads=1)

    def test_any_iterator_calibrates(self):
        self.assertEqual((self.ranges.samples, self.ranges.method), (320, self.ranges.trials[[t.chosen for t in self.ranges.trials].index(True)].method))
        self.assertIn("320 samples", repr(self.ranges))
        image = self.ranges.values[0]
        self.assertEqual((image.name, image.min, image.max), ("image", 0, 1))
        self.assertTrue(0 < image.scale <= 1 / 127 + 1e-6)
        for given in ([{"image": self.pictures[:5]}], [[self.pictures[:5]]], [self.pictures[:2], self.pictures[2:5]], iter([self.pictures[:5]])):
            values = temper.calibrate(DIGITS, given, method="minmax", threads=1).values
            wanted = temper.calibrate(DIGITS, [self.pictures[:5]], method="minmax", threads=1).values
            # Bit for bit with AVX-512; without it a CPU may add up in another order where a batch has another size.
            if pathlib.Path("/proc/cpuinfo").read_text().find("avx512f") >= 0:
                self.assertEqual(values, wanted)
            for one, other in zip(values, wanted, strict=True):
                self.assertEqual((one.name, one.method), (other.name, other.method))
                for field in ("min", "max", "scale"):
                    a, b = getattr(one, field), getattr(other, field)
                    self.assertAlmostEqual(a, b, delta=1e-5 * abs(b))

    def test_the_ranges_are_those_of_the_program(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "ranges.json")
            self.ranges.save(path)
            with open(path) as file:
                self.assertEqual(json.load(file)["schema"], "temper.ranges/1")
            again = temper.Ranges.load(path)
            self.assertEqual(again.values, self.ranges.values)
            self.assertEqual(again.model_sha256, self.ranges.model_sha256)

    def test_int8_reads_the_digits_that_fp32_reads(self):
        shapes = (100, 1, 8, 8)
        x = self.pictures[-100:]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "ranges.json")
            self.ranges.save(path)
            hashes = []
            for calibration in (self.ranges, path, [self.pictures[:64]]):
                engine = temper.build(DIGITS, precision="int8", shapes=shapes, calibration=calibration, threads=1, measure=False)
                self.assertEqual(engine.precision, "int8")
                self.assertEqual(engine.inspect()["lowered_products"], 5)
                right = (engine.run(x)["logits"].argmax(1) == self.labels[-100:]).mean()
                self.assertGreater(right, 0.9)
                hashes.append(engine.inspect()["calibration_sha256"])
            self.assertEqual(hashes[0], hashes[1], "a plan knows ranges by what they are, not by how they came")
            self.assertNotEqual(hashes[0], hashes[2])
            kept = temper.build(DIGITS, precision="int8", calibration=self.ranges, keep_first=True, threads=1, measure=False)
            self.assertEqual(kept.inspect()["lowered_products"], 4)
            if "avx512_bf16" in open("/proc/cpuinfo").read():
                mix = temper.build(DIGITS, precision="int8+bf16", calibration=[self.pictures[:64]], shapes=shapes, keep_bf16=["conv1"], threads=1,
                                   quick=True)  # fmt: skip
                self.assertEqual((mix.precision, mix.inspect()["lowered_products"]), ("int8+bf16", 5))
                self.assertIn("of 4 layers that may be in int8", " ".join(mix.notes))
                self.assertGreater((mix.run(x)["logits"].argmax(1) == self.labels[-100:]).mean(), 0.9)
            self.assertRefused("unsupported", "int8+fp16", temper.build, DIGITS, precision="int8+fp16", calibration=self.ranges)
            self.assertRefused("usage", "time_limit", temper.build, DIGITS, time_limit=0)

    def test_scales_of_tokens_need_no_ranges(self):
        x = self.pictures[-100:]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            engine = temper.build(DIGITS, precision="int8", activation_scales="token", shapes=(100, 1, 8, 8), threads=1, measure=False)
        self.assertEqual(engine.inspect()["lowered_products"], 2)
        self.assertIn("one scale for each token", " ".join(engine.notes))
        self.assertGreater((engine.run(x)["logits"].argmax(1) == self.labels[-100:]).mean(), 0.9)
        both = temper.build(DIGITS, precision="int8", activation_scales="token", calibration=[self.pictures[:64]], threads=1, measure=False)
        self.assertEqual(both.inspect()["lowered_products"], 5)
        self.assertNotIn("there are no ranges", " ".join(both.notes))
        self.assertRefused("usage", "one for each tensor or token, not 'row'", temper.build, DIGITS, precision="int8", activation_scales="row")
        self.assertRefused("usage", 'activation_scales="token" belongs to precision="int8"', temper.build, DIGITS, activation_scales="token")
        self.assertRaises(TypeError, temper.build, DIGITS, precision="int8", activation_scales=True)

    def test_the_limits_of_a_build_are_those_of_its_calibration_too(self):
        def slow():
            yield self.pictures[:4]
            time.sleep(0.5)
            yield self.pictures[:4]

        build = {"precision": "int8", "threads": 1}
        self.assertRefused("check_failed", "the build takes longer than 0.5 s", temper.build, DIGITS, calibration=slow(), build_limit=0.5, **build)
        self.assertRefused("bad_file", "the limit is 1; node_limit=", temper.build, DIGITS, calibration=slow(), node_limit=1, **build)
        self.assertRefused("bad_file", "the limit is 1; node_limit=", temper.calibrate, DIGITS, slow(), node_limit=1)
        self.assertRefused("bad_file", "the limit is 1000 bytes", temper.calibrate, DIGITS, slow(), memory_limit=1000)

    def test_split_takes_limits(self):
        for limit, message in (({"node_limit": 1}, "the limit is 1; node_limit="), ({"memory_limit": 1000}, "the limit is 1000 bytes")):
            self.assertRefused("bad_file", message, temper.split, DIGITS, "image", "first.onnx", "rest.onnx", **limit)
        self.assertRefused("usage", "depth_limit is 0", temper.split, DIGITS, "image", "first.onnx", "rest.onnx", depth_limit=0)

    def test_auto_judges_the_methods_on_samples_held_apart(self):
        told = []
        ranges = temper.calibrate(DIGITS, (self.pictures[:300][i : i + 32] for i in range(0, 300, 32)), method="auto", seed=3, threads=1, progress=told.append)
        self.assertEqual(ranges.samples, 300)
        self.assertEqual([trial.method for trial in ranges.trials], ["entropy", "percentile:99.9", "percentile:99.99", "percentile:99.999", "mse", "minmax"])
        chosen = [trial for trial in ranges.trials if trial.chosen]
        self.assertEqual([ranges.method], [trial.method for trial in chosen])
        self.assertIn(f"auto chose {ranges.method} on 60 samples held apart", ranges.notes[-1])
        self.assertTrue(all(trial.agreement >= 0.95 for trial in ranges.trials))
        self.assertTrue(all(0.9 < trial.cosine < 1 and 10 < trial.snr_db < 100 for trial in ranges.trials), ranges.trials)
        self.assertEqual(told[-1], "trying the methods on samples held apart")
        again = temper.calibrate(DIGITS, [self.pictures[:300]], method="auto", seed=3, threads=1)
        self.assertEqual((again.method, again.values, [t.method for t in again.trials]), (ranges.method, ranges.values, [t.method for t in ranges.trials]))
        self.assertEqual(temper.calibrate(DIGITS, [self.pictures[:100]], method="mse", threads=1).trials, [])

    def test_auto_chooses_what_the_program_chooses(self):
        program = pathlib.Path(temper.__file__).parents[2] / "temper"
        if not program.exists():
            self.skipTest("the package stands alone")
        with tempfile.TemporaryDirectory() as folder:
            numpy.save(f"{folder}/digits.npy", self.pictures[:300])
            subprocess.run([program, "calibrate", DIGITS, "--data", f"{folder}/digits.npy", "--method", "auto", "--seed", "5", "--threads", "1", "-o", f"{folder}/r.json"],
                           check=True, capture_output=True)
            wanted = temper.Ranges.load(f"{folder}/r.json")
        got = temper.calibrate(DIGITS, [self.pictures[i : i + 20] for i in range(0, 300, 20)], method="auto", seed=5, threads=1)
        self.assertEqual((got.method, got.samples, got.notes), (wanted.method, wanted.samples, wanted.notes))
        self.assertEqual([v.name for v in got.values], [v.name for v in wanted.values])
        for mine, its in zip(got.values, wanted.values):  # oneDNN's products of other batch sizes may differ in the last digit
            numpy.testing.assert_allclose([mine.min, mine.max, mine.scale], [its.min, its.max, its.scale], rtol=1e-6)

    def test_build_takes_auto(self):
        engine = temper.build(DIGITS, precision="int8", calibration=[self.pictures[:100]], method="auto", keep_first=True, threads=1, measure=False)
        self.assertEqual(engine.inspect()["lowered_products"], 4)

    def test_auto_takes_mse_of_all_where_too_few_samples_can_judge(self):
        calibrate = lambda data: temper.calibrate(DIGITS, data, threads=1)  # noqa: E731
        for data in ([images(9)], [images(40), images(39, seed=1)], [numpy.repeat(images(1), 100, 0)]):
            ranges = calibrate(data)
            self.assertEqual((ranges.method, ranges.samples, ranges.trials), ("mse", sum(map(len, data)), []))
            self.assertIn("auto took mse: of the samples, ", ranges.notes[-1])
        self.assertRefused("usage", "empty", calibrate, [])
        broken = images(40)
        broken[:, 0, 4, 4] = numpy.inf
        self.assertRefused("check_failed", "'image' holds an infinity", calibrate, [broken])

    def test_what_the_iterator_raises_comes_back_as_itself(self):
        raised = StopAsyncIteration("mine")

        def batches():
            yield images(2)
            raise raised

        for call in (lambda: temper.calibrate(DIGITS, batches()), lambda: temper.build(DIGITS, precision="int8", calibration=batches())):
            with self.assertRaises(StopAsyncIteration) as caught:
                call()
            self.assertIs(caught.exception, raised)

        def stop(text):
            if text.startswith(unwanted):
                raise raised

        for unwanted in ("calibrating", "trying the methods"):
            with self.assertRaises(StopAsyncIteration) as caught:
                temper.calibrate(DIGITS, [images(10), images(90, seed=1)], method="auto", progress=stop)
            self.assertIs(caught.exception, raised)

    def test_wrong_data_are_refused(self):
        calibrate = temper.calibrate
        broken = images(3)
        broken[1, 0, 4, 4] = numpy.nan
        self.assertRefused("check_failed", "'image' holds a NaN for sample 4", calibrate, DIGITS, [images(3), broken])
        self.assertRefused("usage", "empty", calibrate, DIGITS, [])
        self.assertRefused("usage", "no samples", calibrate, DIGITS, [images(0)])
        self.assertRefused("usage", "float64", calibrate, DIGITS, [images(1).astype("float64")])
        self.assertRefused("usage", "shape [2,8,8]", calibrate, DIGITS, [images(2)[:, 0].copy()])
        self.assertRefused("bad_file", "the data 'digits' is not there", calibrate, DIGITS, "digits")
        self.assertRefused("usage", "entropi", calibrate, DIGITS, [images(1)], method="entropi")
        self.assertRefused("usage", "seed is -1", calibrate, DIGITS, [images(1)], seed=-1)
        self.assertRefused("usage", "for precision int8", temper.build, DIGITS, calibration=[images(1)])
        self.assertRefused("usage", "calibration", temper.build, DIGITS, precision="int8")


if __name__ == "__main__":
    unittest.main()
