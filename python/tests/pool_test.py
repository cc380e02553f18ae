# SPDX-License-Identifier: Apache-2.0
"""Several devices that run batches of one engine, and evaluations and studies on them."""
import pickle
import tempfile
import threading
import unittest

import numpy
from common import DIGITS, Case

import temper

SHAPES = [(1, 1, 8, 8), (4, 1, 8, 8), (8, 1, 8, 8)]


class PoolTest(Case):
    @classmethod
    def setUpClass(cls):
        cls.engine = temper.build(DIGITS, shapes=SHAPES, threads=1, measure=False)
        draw = numpy.random.default_rng(0)
        cls.batches = [draw.random((1 + i % 5, 1, 8, 8), dtype=numpy.float32) for i in range(40)]
        cls.want = [cls.engine.run(batch)["logits"] for batch in cls.batches]

    def test_answers_come_in_order_and_are_those_of_one_device(self):
        for devices, count in (("cpu", 1), ("cpu,cpu,cpu", 3)):
            pool = temper.Pool(self.engine, devices)
            for form in (lambda x: x, lambda x: {"image": x}, lambda x: [x]):
                got = pool.run(form(batch) for batch in self.batches)
                self.assertEqual([list(outputs) for outputs in got], [["logits"]] * 40)
                for outputs, want in zip(got, self.want):
                    numpy.testing.assert_array_equal(outputs["logits"], want)
            self.assertEqual([(d.name, d.loss) for d in pool.devices], [("cpu", None)] * count)
            self.assertEqual(sum(d.batches for d in pool.devices), 120)
            self.assertEqual(pool.run([]), [])
            self.assertIn("cpu", repr(pool) + pool._repr_html_())

    def test_what_does_not_fit_is_refused_before_anything_runs(self):
        pool = temper.Pool(self.engine, "cpu,cpu")
        wrong = list(self.batches)
        wrong[3] = wrong[3].astype(numpy.float64)
        self.assertRefused("usage", "batch 3: |image", lambda: pool.run(wrong))
        wrong[3] = numpy.zeros((9, 1, 8, 8), numpy.float32)
        self.assertRefused("usage", "batch 3: ", lambda: pool.run(wrong))
        self.assertEqual([d.batches for d in pool.devices], [0, 0])
        for devices in ("", "cpu,", "gpu:*", "cpu,1", "cuda:0,0"):
            self.assertRefused("usage", "", lambda: temper.Pool(self.engine, devices))  # noqa: B023
        self.assertRefused("usage", "the plan is for the device 'cpu'", lambda: temper.Pool(self.engine, "cpu,reference"))
        self.assertRaises(TypeError, lambda: pickle.dumps(pool))
        numpy.testing.assert_array_equal(pool.run(self.batches[:1])[0]["logits"], self.want[0])

    def test_one_thread_at_a_time(self):
        pool, kinds = temper.Pool(self.engine, "cpu,cpu"), []

        def run():
            try:
                pool.run(self.batches * 5)
            except temper.Error as error:
                kinds.append(error.kind)

        threads = [threading.Thread(target=run) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(set(kinds) - {"usage"}, set())
        self.assertEqual(len(pool.run(self.batches)), 40)

    def test_a_closed_engine_runs_nothing(self):
        engine = temper.load(self.engine.to_bytes())
        pool = temper.Pool(engine, "cpu,cpu")
        engine.close()
        self.assertRefused("usage", "closed", lambda: pool.run(self.batches))

    def test_evaluations_and_studies_share_the_batches(self):
        data = {"image": numpy.concatenate(self.batches), "labels": numpy.arange(sum(map(len, self.batches))) % 10}
        alone = temper.evaluate(self.engine, data, batch=4)
        for device in ("cpu", "cpu,cpu"):
            self.assertEqual(temper.evaluate(self.engine, data, batch=4, device=device).record, alone.record)
        built = {"threads": 1, "measure": False, "batch": 4}
        self.assertEqual(temper.evaluate(DIGITS, data, device="cpu,cpu", **built).record, temper.evaluate(DIGITS, data, **built).record)
        self.assertRefused("usage", "all devices must be equal", lambda: temper.evaluate(DIGITS, data, device="cpu,reference", **built))
        self.assertRefused("usage", "here one device is named", lambda: temper.evaluate(DIGITS, data, device="cpu,cpu", metric=len, **built))
        with tempfile.TemporaryDirectory() as folder:
            study = temper.study(DIGITS, data, folder, precisions=["fp32"], device="cpu,cpu", duration=0.05, threads=1, quick=True, batch=4)
            self.assertEqual(study.precisions[0].precision, "fp32")


if __name__ == "__main__":
    unittest.main()
