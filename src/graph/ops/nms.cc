// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/nms.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace temper::ops {

namespace {

// In single precision, as thresholds that lie on a quotient of box sizes are compared with it.
struct Box {
  float x0, y0, x1, y1;
};

Box box_at(const float* p, bool center) {
  if (center) return {p[0] - p[2] / 2, p[1] - p[3] / 2, p[0] + p[2] / 2, p[1] + p[3] / 2};
  return {std::min(p[1], p[3]), std::min(p[0], p[2]), std::max(p[1], p[3]), std::max(p[0], p[2])};
}

bool overlap(const Box& a, const Box& b, float threshold) {
  const float width = std::min(a.x1, b.x1) - std::max(a.x0, b.x0), height = std::min(a.y1, b.y1) - std::max(a.y0, b.y0);
  if (!(width > 0) || !(height > 0)) return false;
  const float both = width * height, area_a = (a.x1 - a.x0) * (a.y1 - a.y0), area_b = (b.x1 - b.x0) * (b.y1 - b.y0);
  const float either = area_a + area_b - both;
  return area_a > 0 && area_b > 0 && either > 0 && both / either > threshold;
}

std::vector<std::array<int64_t, 3>> select(const Nms& op, std::span<const Tensor* const> inputs) {
  const Tensor &boxes = *inputs[0], &scores = *inputs[1];
  auto has = [&](size_t i) { return i < inputs.size() && inputs[i] && inputs[i]->defined(); };
  const int64_t batches = boxes.dims()[0], count = boxes.dims()[1], classes = scores.dims()[1];
  const int64_t most = has(2) ? inputs[2]->to_ints().at(0) : 0;
  const float iou = has(3) ? inputs[3]->data<float>()[0] : 0;
  std::vector<std::array<int64_t, 3>> selected;
  std::vector<int64_t> order;
  for (int64_t n = 0; n < batches; ++n)
    for (int64_t c = 0; c < classes; ++c) {
      const float *score = scores.data<float>() + (n * classes + c) * count, *box = boxes.data<float>() + n * count * 4;
      order.clear();
      for (int64_t i = 0; i < count; ++i)
        if (!has(4) || score[i] > inputs[4]->data<float>()[0]) order.push_back(i);
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return score[a] > score[b]; });
      std::vector<Box> kept;
      for (int64_t i : order) {
        if (int64_t(kept.size()) >= most) break;
        const Box candidate = box_at(box + i * 4, op.center);
        if (std::any_of(kept.begin(), kept.end(), [&](const Box& other) { return overlap(candidate, other, iou); }))
          continue;
        kept.push_back(candidate);
        selected.push_back({n, c, i});
      }
    }
  return selected;
}

}  // namespace

std::vector<TensorType> Nms::infer(const InferContext& context) const {
  context.expect_inputs(2, 5);
  context.expect_rank(0, 3, 3);
  context.expect_rank(1, 3, 3);
  const TensorType &boxes = context.type(0), &scores = context.type(1);
  for (size_t i : {0, 1, 3, 4})
    if (context.has(i) && context.type(i).dtype != DType::f32)
      fail(ErrorKind::bad_file, "input ", i, " is ", context.type(i), ", not f32");
  if (context.has(2) && context.type(2).dtype != DType::i64)
    fail(ErrorKind::bad_file, "the largest number of boxes is ", context.type(2));
  for (size_t i = 2; i < 5; ++i)
    if (context.has(i) && (!context.type(i).is_concrete() || element_count(context.type(i).dims()) != 1))
      fail(ErrorKind::bad_file, "input ", i, " is ", context.type(i), ", not a scalar");
  auto differ = [](const Dim& a, const Dim& b) { return a.is_constant() && b.is_constant() && a != b; };
  if (differ(boxes.shape[2], 4) || differ(boxes.shape[0], scores.shape[0]) || differ(boxes.shape[1], scores.shape[2]))
    fail(ErrorKind::bad_file, "boxes ", boxes, " and scores ", scores, " do not fit together");
  std::vector<const Tensor*> tensors;
  bool known = true;
  for (size_t i = 0; i < context.size(); ++i) {
    tensors.push_back(context.constant(i));
    known &= !context.has(i) || context.constant(i);
  }
  return {{DType::i64, {known ? Dim(int64_t(select(*this, tensors).size())) : context.unknown(0, 0), Dim(3)}}};
}

std::vector<Tensor> Nms::reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const {
  std::vector<const Tensor*> tensors;
  for (const Tensor& tensor : inputs) tensors.push_back(&tensor);
  const auto selected = select(*this, tensors);
  Tensor out(DType::i64, outputs[0].dims());
  for (size_t i = 0; i < selected.size(); ++i)
    for (size_t k = 0; k < 3; ++k) out.data<int64_t>()[i * 3 + k] = selected[i][k];
  return {out};
}

}  // namespace temper::ops
