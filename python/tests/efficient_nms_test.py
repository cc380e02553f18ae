# SPDX-License-Identifier: Apache-2.0
"""EfficientNMS_TRT, which exports of detectors for TensorRT hold, beside what its text says, box by box in numpy."""
import unittest

import numpy
from common import Case
from onnx import TensorProto, helper

import temper

CANDIDATES = 4096


def overlap(a, b):
    """Intersection over union, as the plugin takes it: 0 where nothing is shared."""
    a0, a1, b0, b1 = numpy.minimum(a[:2], a[2:]), numpy.maximum(a[:2], a[2:]), numpy.minimum(b[:2], b[2:]), numpy.maximum(b[:2], b[2:])
    shared = numpy.maximum(numpy.minimum(a1, b1) - numpy.maximum(a0, b0), 0).prod()
    return shared / ((a1 - a0).prod() + (b1 - b0).prod() - shared) if shared > 0 else 0


def chosen(boxes, scores, anchors=None, score_threshold=0.5, iou_threshold=0.5, max_output_boxes=100, background_class=-1, score_activation=0,
           class_agnostic=0, box_coding=0):  # fmt: skip
    """The four outputs, by walking over the candidates from the best on."""
    n, b, c = scores.shape
    counts, out = numpy.zeros((n, 1), "int32"), [numpy.zeros((n, max_output_boxes, 4), "float32"), numpy.zeros((n, max_output_boxes), "float32")]
    classes = numpy.zeros((n, max_output_boxes), "int32")
    given = 1 / (1 + numpy.exp(-scores)) if score_activation else scores
    for image in range(n):
        candidates = [(given[image, i, k], i, k) for i in range(b) for k in range(c) if k != background_class and given[image, i, k] >= score_threshold]
        kept = []
        for score, i, k in sorted(candidates, key=lambda each: -each[0])[:CANDIDATES]:
            box = boxes[image, i] if boxes.ndim == 3 else boxes[image, i, k if boxes.shape[2] > 1 else 0]
            if anchors is not None:
                anchor = anchors[image if len(anchors) > 1 else 0, i]
                box = numpy.concatenate([box[:2] * anchor[2:] + anchor[:2], anchor[2:] * numpy.exp(box[2:])]) if box_coding else numpy.concatenate(
                    [numpy.minimum(box[:2], box[2:]) + numpy.minimum(anchor[:2], anchor[2:]), numpy.maximum(box[:2], box[2:]) + numpy.maximum(anchor[:2], anchor[2:])])  # fmt: skip
            if box_coding:
                box = numpy.concatenate([box[:2] - box[2:] / 2, box[:2] + box[2:] / 2])
            if len(kept) < max_output_boxes and all((not class_agnostic and k != other) or overlap(box, past) < iou_threshold for past, _, other in kept):
                kept.append((box, score, k))
        counts[image] = len(kept)
        for at, (box, score, k) in enumerate(kept):
            out[0][image, at], out[1][image, at], classes[image, at] = box, score, k
    return counts, *out, classes


class EfficientNmsTest(Case):
    def check(self, boxes, scores, anchors=None, domain="", **attributes):
        inputs = {"boxes": boxes, "scores": scores, **({} if anchors is None else {"anchors": anchors})}
        node = helper.make_node("EfficientNMS_TRT", list(inputs), ["num", "box", "score", "class"], domain=domain, plugin_version="1", **attributes)
        ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, x.shape) for name, x in inputs.items()]
        kinds = ((TensorProto.INT32, ["n", 1]), (TensorProto.FLOAT, ["n", "m", 4]), (TensorProto.FLOAT, ["n", "m"]), (TensorProto.INT32, ["n", "m"]))
        outputs = [helper.make_tensor_value_info(name, *kind) for name, kind in zip(node.output, kinds)]
        opsets = [helper.make_opsetid("", 13)] + ([helper.make_opsetid(domain, 1)] if domain else [])
        model = helper.make_model(helper.make_graph([node], "detector", ports, outputs), opset_imports=opsets, ir_version=8)
        got = temper.build(model.SerializeToString(), measure=False).run(inputs)
        expected = chosen(boxes, scores, anchors, **attributes)
        self.assertGreater(expected[0].min(), 1, "the case chooses nothing")
        for name, want in zip(node.output, expected):
            self.assertEqual((got[name].shape, got[name].dtype), (want.shape, want.dtype), name)
            numpy.testing.assert_allclose(got[name], want, rtol=1e-5, atol=1e-5, err_msg=name)
        return expected

    def drawn(self, *shape, seed=0):
        random = numpy.random.default_rng(seed)
        corner, size = random.uniform(0, 6, (*shape, 2)), random.uniform(1, 3, (*shape, 2))
        return numpy.concatenate([corner, corner + size], -1).astype("float32"), numpy.concatenate([corner + size / 2, size], -1).astype("float32")

    def scores(self, *shape, seed=1):
        """All different, so that their order is one."""
        count = numpy.prod(shape)
        return (numpy.random.default_rng(seed).permutation(count).reshape(shape) / count).astype("float32")

    def test_boxes_by_class(self):
        corners, centres = self.drawn(2, 40)
        scores = self.scores(2, 40, 3)
        expected = self.check(corners, scores, score_threshold=0.25, iou_threshold=0.45, max_output_boxes=20)
        self.assertEqual(expected[0].max(), 20)
        self.check(corners[:, :, None], scores, domain="TRT", score_threshold=0.25, iou_threshold=0.2, max_output_boxes=200, background_class=-1)
        self.check(centres, scores, score_threshold=0.5, iou_threshold=0.1, box_coding=1, background_class=1)

    def test_one_class_for_each_place(self):
        corners, _ = self.drawn(2, 40)
        self.check(corners, self.scores(2, 40, 3), score_threshold=0.25, iou_threshold=0.3, class_agnostic=1, background_class=0)

    def test_boxes_of_each_class_and_raw_scores(self):
        corners, _ = self.drawn(2, 20, 3)
        self.check(corners, 4 * self.scores(2, 20, 3) - 2, score_threshold=0.5, iou_threshold=0.3, max_output_boxes=16, score_activation=1)

    def test_anchors(self):
        corners, centres = self.drawn(1, 30)
        moved = numpy.random.default_rng(3).normal(0, 0.2, (2, 30, 4)).astype("float32")
        self.check(moved, self.scores(2, 30, 2), centres, score_threshold=0.3, iou_threshold=0.4, box_coding=1)
        self.check(moved, self.scores(2, 30, 2), corners, score_threshold=0.3, iou_threshold=0.4)

    def test_candidates_beyond_the_limit(self):
        # Two piles of boxes: the 4,096 best scores all lie in the first, so that the second is not looked at.
        boxes = numpy.zeros((1, 5000, 4), "float32")
        boxes[0, :, :2], boxes[0, :, 2:] = numpy.arange(5000)[:, None] % 2, numpy.arange(5000)[:, None] % 2 + 1
        scores = self.scores(1, 5000, 1) / 4
        scores[0, :4200:1] += numpy.float32(0.5)
        boxes[0, 4200:] += 10
        expected = self.check(boxes, scores, score_threshold=0.0001, iou_threshold=0.5)
        self.assertEqual(expected[0][0, 0], 2)

    def test_what_is_not_there_is_refused(self):
        corners, _ = self.drawn(1, 4)
        with self.assertRaisesRegex(temper.Error, "iou_threshold"):
            self.check(corners, self.scores(1, 4, 2), iou_threshold=0.0)
        with self.assertRaisesRegex(temper.Error, "class_agnostic"):
            self.check(self.drawn(1, 4, 2)[0], self.scores(1, 4, 2), class_agnostic=1)


if __name__ == "__main__":
    unittest.main()
