// SPDX-License-Identifier: Apache-2.0
// Imports EfficientNMS_TRT, which exports of detectors for TensorRT hold: it chooses boxes of each image, best first.
// The plugin's own text (NVIDIA/TensorRT, plugin/efficientNMSPlugin) says what it means.
#include <cmath>
#include <limits>

#include "onnx/node.h"

namespace temper::tensorrt {

namespace {

// The plugin looks at so many of the best scores of an image.
constexpr int64_t kCandidates = 4096;

// ONNX keeps what is above a threshold, the plugin what reaches it.
float just_below(double threshold) { return std::nextafter(float(threshold), -std::numeric_limits<float>::infinity()); }

}  // namespace

// boxes [N,B,4], [N,B,1,4] or [N,B,C,4], scores [N,B,C], and with a third input anchors [1 or N,B,4]
// -> how many [N,1], boxes as corners [N,M,4], scores [N,M], classes [N,M]; zeros behind the last.
void import_EfficientNMS_TRT(OnnxNode& node) {
  const double score = node.float_attribute("score_threshold", 0.5), iou = node.float_attribute("iou_threshold", 0.5);
  const int64_t most = node.int_attribute("max_output_boxes", 100), coding = node.int_attribute("box_coding", 0);
  const int64_t background = node.int_attribute("background_class", -1);
  const bool sigmoid = node.int_attribute("score_activation", 0) != 0;
  const bool agnostic = node.int_attribute("class_agnostic", 0) != 0;
  node.ignore_attribute("plugin_version");
  node.ignore_attribute("plugin_namespace");
  if (node.type(1).rank() != 3) node.bad("scores ", node.type(1), " have no 3 dimensions");
  if (node.type(0).rank() != 3 && node.type(0).rank() != 4)
    node.bad("boxes ", node.type(0), " have no 3 or 4 dimensions");
  if (most < 1) node.bad("max_output_boxes is ", most);
  if (coding != 0 && coding != 1) node.bad("box_coding is ", coding);
  if (!(iou > 0)) node.unsupported("iou_threshold = ", iou);
  const DType dtype = node.type(0).dtype;
  const Dim boxes_of_image = node.type(1).shape[1], classes = node.type(1).shape[2];
  const bool by_class = node.type(0).rank() == 4 && node.type(0).shape[2] != Dim(1);
  if (by_class && node.type(0).shape[2] != classes)
    node.bad("boxes ", node.type(0), " and scores ", node.type(1), " are of different classes");
  if (by_class && agnostic) node.unsupported("class_agnostic with a box of each class");
  if (by_class && node.has(2)) node.unsupported("a third input (anchors) with a box of each class");

  const Dim candidates = boxes_of_image * classes;
  if (!candidates.is_constant())
    node.refuse("the number of boxes or classes is not known; export the model with a fixed size of the picture");

  // The lines of a body; `b` are boxes, `s` scores, `none` a score that is none: of the background, of no candidate.
  std::string body;
  const auto line = [&](const std::string& text) { body += text + "\n"; };
  if (node.type(0).rank() == 4 && !by_class) line("b1 = Squeeze(b0, axis2)");
  else line("b1 = Identity(b0)");
  if (node.has(2)) {
    line("d, e = Split <axis = -1, num_outputs = 2> (b1)");
    line("f, g = Split <axis = -1, num_outputs = 2> (anchors)");
    if (coding) {  // of centre and size
      line("moved = Mul(d, g) first = Add(moved, f) grown = Exp(e) second = Mul(g, grown)");
    } else {  // of two corners
      line("d0 = Min(d, e) e0 = Max(d, e) f0 = Min(f, g) g0 = Max(f, g) first = Add(d0, f0) second = Add(e0, g0)");
    }
    line("b2 = Concat <axis = -1> (first, second)");
  } else line("b2 = Identity(b1)");
  if (coding) {
    line("centre, size = Split <axis = -1, num_outputs = 2> (b2)");
    line("reach = Mul(size, half) low = Sub(centre, reach) high = Add(centre, reach)");
    line("boxes = Concat <axis = -1> (low, high)");
  } else line("boxes = Identity(b2)");
  if (background >= 0)
    line(
        "shape0 = Shape(s0) classes = Gather(shape0, two) ids = Range(zero, classes, one) "
        "is_background = Equal(ids, background) s1 = Where(is_background, none, s0)");
  else line("s1 = Identity(s0)");
  line("rows = Shape <start = 0, end = 1> (s1) two_axes = Concat <axis = 0> (rows, rest)");
  if (candidates.value() > kCandidates)
    line(
        "every = Reshape(s1, two_axes) best, at = TopK <axis = 1> (every, most_candidates) "
        "least = Gather <axis = 1> (best, last) limit = Unsqueeze(least, axis2) "
        "is_candidate = GreaterOrEqual(s1, limit) s2 = Where(is_candidate, s1, none)");
  else line("s2 = Identity(s1)");
  // The best class alone: the same box of another class overlaps it, or overlaps what removes it.
  if (agnostic) line("s3 = ReduceMax <keepdims = 1> (s2, axis2) class_of = ArgMax <axis = 2, keepdims = 0> (s2)");
  else line("s3 = Identity(s2)");
  line("by_class = Transpose <perm = [0, 2, 1]> (s3)");  // [N,C,B]
  if (by_class) {                                        // as so many images of one class
    line(
        "turned = Transpose <perm = [0, 2, 1, 3]> (boxes) of_image = Concat <axis = 0> (rows, rest, four) "
        "listed = Reshape(turned, of_image) shape1 = Shape <start = 2> (turned) "
        "of_class = Concat <axis = 0> (rest, shape1) nms_boxes = Reshape(turned, of_class) "
        "shape2 = Shape <start = 2> (by_class) one_class = Concat <axis = 0> (rest, axis1, shape2) "
        "nms_scores = Reshape(by_class, one_class)");
  } else line("listed = Identity(boxes) nms_boxes = Identity(boxes) nms_scores = Identity(by_class)");
  line("picked = NonMaxSuppression(nms_boxes, nms_scores, every_box, iou, threshold)");
  line("values = GatherND(nms_scores, picked) shape3 = Shape(nms_scores) nothing = Expand(none, shape3)");
  line("kept = ScatterND(nothing, picked, values) flat = Reshape(kept, two_axes)");
  line(
      "shape4 = Concat <axis = 0> (rows, most) behind = Expand(none, shape4) longer = Concat <axis = 1> (flat, "
      "behind)");
  line("top, where = TopK <axis = 1> (longer, most) is_valid = Greater(top, none)");
  line("valid = Cast <to = 6> (is_valid) n = ReduceSum <keepdims = 1> (valid, axis1)");
  line("box_count = Gather(shape3, two) found = Where(is_valid, where, zero) class0 = Div(found, box_count)");
  line(by_class ? "index = Identity(found)" : "index = Mod(found, box_count)");
  line("index1 = Unsqueeze(index, axis2) box = GatherND <batch_dims = 1> (listed, index1)");
  if (agnostic) line("class1 = GatherND <batch_dims = 1> (class_of, index1)");
  else line("class1 = Identity(class0)");
  line(sigmoid ? "score0 = Sigmoid(top)" : "score0 = Identity(top)");
  line("score1 = Where(is_valid, score0, zero_score) valid1 = Unsqueeze(is_valid, axis2)");
  line("box1 = Where(valid1, box, zero_score) class2 = Where(is_valid, class1, zero) class = Cast <to = 6> (class2)");

  // With a sigmoid, scores are compared before it.
  const double limit = !sigmoid     ? score
                       : score <= 0 ? -32768
                       : score >= 1 ? std::numeric_limits<double>::infinity()
                                    : std::log(score / (1 - score));
  const auto real = [&](double value) { return node.scalar(DType::f32, value); };
  const auto integer = [&](int64_t value) { return node.constant(Tensor::of<int64_t>({}, {value})); };
  const std::vector<ValueId> outputs = node.body(
      concat("(b0, s0, anchors, none, half, zero_score, iou, threshold, zero, one, two, background, every_box, axis1, "
             "axis2, rest, four, most, most_candidates, last) => (n, box1, score1, class) {\n",
             body, "}"),
      {node.cast(node.input(0), DType::f32),
       node.cast(node.input(1), DType::f32),
       node.has(2) ? node.cast(node.input(2), DType::f32) : ValueId{},
       real(std::numeric_limits<float>::lowest()),
       real(0.5),
       real(0),
       real(double(just_below(iou))),
       real(double(just_below(limit))),
       integer(0),
       integer(1),
       integer(2),
       integer(background),
       node.ints({std::numeric_limits<int32_t>::max()}),
       node.ints({1}),
       node.ints({2}),
       node.ints({-1}),
       node.ints({4}),
       node.ints({most}),
       node.ints({kCandidates}),
       node.ints({kCandidates - 1})});
  node.set_output(0, outputs[0]);
  node.set_output(1, node.cast(outputs[1], dtype));
  node.set_output(2, node.cast(outputs[2], node.type(1).dtype));
  node.set_output(3, outputs[3]);
}

}  // namespace temper::tensorrt
