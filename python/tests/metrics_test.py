# SPDX-License-Identifier: Apache-2.0
"""Figures of detectors and readers: equal to pycocotools, and what a function of the user's own gets."""
import contextlib
import importlib.util
import io
import unittest

import numpy
from common import DIGITS, Case, images

import temper
from temper.metrics import Boxes, character_error_rate, iou, mean_average_precision


def scene(seed, pictures=24, classes=4):
    """True boxes of all sizes, some crowds, and boxes that were found near them, beside them and where there are none."""
    rng = numpy.random.default_rng(seed)
    found, truth = [], []
    for _ in range(pictures):
        n = int(rng.integers(0, 9))
        size = numpy.exp(rng.uniform(numpy.log(6), numpy.log(200), (n, 2)))
        low = rng.uniform(0, 400, (n, 2))
        real = numpy.concatenate([low, low + size], 1)
        labels = rng.integers(0, classes, n)
        truth.append(Boxes(real, labels, crowd=rng.uniform(size=n) < 0.1))
        moved = real + rng.normal(0, 0.08, (n, 4)) * numpy.tile(size, 2)
        moved[:, 2:] = numpy.maximum(moved[:, 2:], moved[:, :2] + 1)
        extra = rng.uniform(0, 300, (4, 2))
        boxes = numpy.concatenate([moved, moved, numpy.concatenate([extra, extra + rng.uniform(5, 150, (4, 2))], 1)])
        guess = numpy.concatenate([labels, numpy.where(rng.uniform(size=n) < 0.5, labels, (labels + 1) % classes), rng.integers(0, classes, 4)])
        kept = rng.uniform(size=len(boxes)) < 0.8
        found.append(Boxes(boxes[kept], guess[kept], scores=numpy.round(rng.uniform(0, 1, int(kept.sum())), 2)))  # some are equal
    return found, truth


class MetricsTest(Case):
    @unittest.skipUnless(importlib.util.find_spec("pycocotools"), "pycocotools is not installed")
    def test_mean_average_precision_equals_that_of_pycocotools(self):
        from pycocotools.coco import COCO
        from pycocotools.cocoeval import COCOeval

        for seed in range(4):
            found, truth = scene(seed)
            gt = {"images": [{"id": i + 1} for i in range(len(truth))], "categories": [{"id": k + 1} for k in range(4)], "annotations": []}
            for i, one in enumerate(truth):
                for box, label, crowd in zip(one.corners, one.labels, one.crowd):
                    x, y, w, h = *box[:2], *(box[2:] - box[:2])
                    gt["annotations"].append({"id": len(gt["annotations"]) + 1, "image_id": i + 1, "category_id": int(label) + 1, "bbox": [x, y, w, h],
                                              "area": w * h, "iscrowd": int(crowd)})  # fmt: skip
            results = [{"image_id": i + 1, "category_id": int(label) + 1, "bbox": [*box[:2], *(box[2:] - box[:2])], "score": float(score)}
                       for i, one in enumerate(found) for box, label, score in zip(one.corners, one.labels, one.scores)]  # fmt: skip
            with contextlib.redirect_stdout(io.StringIO()):
                coco = COCO()
                coco.dataset = gt
                coco.createIndex()
                judged = COCOeval(coco, coco.loadRes(results), "bbox")
                judged.evaluate()
                judged.accumulate()
                judged.summarize()
            got = mean_average_precision(found, truth)
            numpy.testing.assert_allclose([got.map, got.map50, got.map75, got.small, got.medium, got.large], judged.stats[:6], atol=1e-6)
            self.assertGreater(got.map, 0.1)

    def test_what_is_perfect_and_what_is_not(self):
        box = numpy.array([[10, 10, 60, 60], [100, 100, 300, 300]])
        same = Boxes(box, [0, 1], scores=[0.5, 0.9])
        got = mean_average_precision([same], [Boxes(box, [0, 1])])
        for value in (got.map, got.map50, *got.classes.values()):
            self.assertAlmostEqual(value, 1, places=12)
        self.assertEqual((got.small, list(got.classes)), (None, [0, 1]))
        none = mean_average_precision([Boxes([], [], scores=[])], [Boxes(box, [0, 1])])
        self.assertEqual((none.map, none.large), (0, 0))
        self.assertIsNone(mean_average_precision([same], [Boxes([], [])]).map)
        self.assertRefused("usage", "no scores", mean_average_precision, [Boxes(box, [0, 1])], [same])
        self.assertRefused("usage", "2 have true ones", mean_average_precision, [same], [same, same])
        self.assertRefused("usage", "[n, 4]", iou, [[1, 2, 3]], box)

    def test_overlaps_are_areas_over_areas(self):
        a, b = [[0, 0, 10, 10]], [[5, 0, 15, 10], [20, 20, 30, 30], [0, 0, 10, 10]]
        numpy.testing.assert_allclose(iou(a, b), [[50 / 150, 0, 1]])
        numpy.testing.assert_allclose(iou(a, b, crowd=[True, False, False]), [[0.5, 0, 1]])
        self.assertEqual(iou([], b).shape, (0, 3))

    def test_the_errors_of_text_are_counted_over_its_characters(self):
        self.assertEqual(character_error_rate(["kitten", ""], ["sitting", "abc"]), (3 + 3) / 10)
        self.assertEqual(character_error_rate(["same"], ["same"]), 0)
        self.assertRefused("usage", "lists", character_error_rate, "same", "same")
        self.assertRefused("usage", "no characters", character_error_rate, ["a"], [""])

    def test_a_function_of_ones_own_judges_all_answers(self):
        x = images(6)
        engine = temper.build(DIGITS, shapes=[(1, 1, 8, 8), (4, 1, 8, 8), (4, 1, 8, 8)], threads=1, measure=False)
        other = temper.build(DIGITS, threads=1, measure=False)
        labels = engine.session().run(x[:4])["logits"].argmax(1)
        labels = numpy.concatenate([labels, [0, 0]])
        seen = []

        def right(answers):
            seen.append((answers.names, answers.labels.tolist()))
            return float((answers["logits"].argmax(1) == answers.labels)[:4].mean())

        got = temper.evaluate(engine, {"image": x, "labels": labels}, metric=right, reference=other)
        self.assertEqual((got.score, got.reference_score, got.samples, got.batch, got.top1), (1.0, 1.0, 6, 4, None))
        self.assertEqual(seen, [(("0", "1", "2", "3", "4", "5"), labels.tolist())] * 2)
        with self.assertRaises(ZeroDivisionError):
            temper.evaluate(engine, {"image": x}, metric=lambda answers: 1 / 0)


if __name__ == "__main__":
    unittest.main()
