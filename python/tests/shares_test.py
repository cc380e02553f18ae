# SPDX-License-Identifier: Apache-2.0
"""What temper.ray hands out and joins, without Ray: shares of a calibration and of an evaluation are those of one run."""
import json
import pathlib
import subprocess
import tempfile
import unittest

import numpy
from common import DIGITS, Case, images

import temper
from temper import _temper
from temper._build import build_options
from temper._data import data_of

PROGRAM = pathlib.Path(temper.__file__).parents[2] / "temper"


class SharesTest(Case):
    @classmethod
    def setUpClass(cls):
        cls.pictures = images(100)
        cls.labels = numpy.arange(100) % 10
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)

    def ranges(self, data, of, batch):
        how = {"method": "entropy", "batch": batch, "of": of}
        shares = [_temper.calibrate_share(DIGITS, {"threads": 1}, data, how | {"number": number}, None) for number in range(of)]
        shares = [_temper.Ranges.of_bytes(share.to_bytes()) for share in shares if share.samples]
        return _temper.Ranges.of_shares(shares).to_bytes()

    def test_ranges_of_shares_are_those_of_the_program_byte_for_byte(self):
        data = data_of({"image": self.pictures}, None, 0)
        wanted = self.ranges(data, 1, 8)
        for of in (2, 7, 13, 20):
            self.assertEqual(self.ranges(data, of, 8), wanted, of)
        if PROGRAM.exists():
            path = pathlib.Path(self.folder.name)
            numpy.save(path / "images.npy", self.pictures)
            subprocess.run([PROGRAM, "calibrate", DIGITS, "--data", path / "images.npy", "--method", "entropy", "--batch", "8", "--threads", "1",
                            "-o", path / "ranges.json", "--quiet"], check=True, capture_output=True)  # fmt: skip
            self.assertEqual((path / "ranges.json").read_bytes(), wanted)
        self.assertRefused("usage", "name one", _temper.calibrate_share, DIGITS, {}, data, {"of": 2, "number": 0}, None)

    def test_samples_that_are_the_same_count_as_often_as_they_are_there(self):
        data = data_of({"image": numpy.concatenate([self.pictures[:16]] * 4)}, None, 0)
        self.assertEqual(self.ranges(data, 4, 16), self.ranges(data, 1, 16))

    def test_figures_of_shares_are_those_of_one_run(self):
        shapes = ([1, 1, 8, 8], [16, 1, 8, 8], [16, 1, 8, 8])
        fp32 = temper.build(DIGITS, shapes=shapes, threads=1, measure=False)
        int8 = temper.build(DIGITS, shapes=shapes, precision="int8", calibration=[images(32, 5)], threads=1, measure=False)
        arrays = {"image": self.pictures, "labels": self.labels}
        wanted = temper.evaluate(int8, arrays, reference=fp32, batch=16).record
        for of in (1, 3, 7, 9):
            how = {"batch": 16, "of": of}
            shares = [_temper.evaluate_share(int8._native, build_options(""), fp32._native, data_of(arrays, None, 0), how | {"number": number}, None)
                      for number in range(of)]  # fmt: skip
            self.assertEqual(json.loads(_temper.join_shares(shares[::-1], {}, wanted["model"])), wanted, of)
        self.assertRefused("usage", "is there twice", _temper.join_shares, [shares[0]] * 9, {}, "")

    def test_a_fingerprint_is_that_of_the_plans_that_are_built_here(self):
        engine = temper.build(DIGITS, shapes=(1, 1, 8, 8), measure=False)
        self.assertEqual(_temper.fingerprint("cpu", []), engine.inspect()["fingerprint"])


if __name__ == "__main__":
    unittest.main()
