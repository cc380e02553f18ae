// SPDX-License-Identifier: Apache-2.0
#include "quantize/weights.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/checked.h"
#include "base/threads.h"
#include "graph/finite.h"
#include "graph/ops/dequantize_blocks.h"
#include "graph/ops/matmul.h"
#include "graph/ops/transpose.h"

namespace temper {

namespace {

// The integers of one block, `stride` floats apart, and their scale.
float quantize_block(const float* from, int64_t count, int64_t stride, int bits, int8_t* to) {
  const int most = bits == 8 ? 127 : 7;
  float largest = 0;
  for (int64_t i = 0; i < count; ++i) largest = std::max(largest, std::abs(from[i * stride]));
  if (largest == 0) {
    for (int64_t i = 0; i < count; ++i) to[i * stride] = 0;
    return 1;
  }
  const auto rounded = [&](float x, float scale) {
    return std::clamp(std::nearbyint(x / scale), -float(most), float(most));
  };
  float best = largest / float(most);
  // Of a denormal largest magnitude the quotient may be 0.
  if (best == 0) best = largest;
  if (bits == 4) {
    double least = -1;
    const float first = best;
    for (int step = 0; step < 16; ++step) {
      const float scale = first * (1 - 0.02f * float(step));
      if (scale == 0) break;
      double error = 0;
      for (int64_t i = 0; i < count; ++i) {
        const double apart = double(from[i * stride]) - double(rounded(from[i * stride], scale)) * double(scale);
        error += apart * apart;
      }
      if (least < 0 || error < least) least = error, best = scale;
    }
  }
  for (int64_t i = 0; i < count; ++i) to[i * stride] = int8_t(rounded(from[i * stride], best));
  return best;
}

// A matrix as a dequantize_blocks node; `along` is the axis of the sums.
ValueId quantized(Graph& graph, ValueId weights, int64_t along, const WeightFormat& format) {
  const Tensor& floats = *graph.constant(weights);
  const int64_t rows = floats.dims()[0], columns = floats.dims()[1], size = along == 0 ? rows : columns,
                block = format.block == 0 ? size : std::min(format.block, size), blocks = ceil_div(size, block),
                others = along == 0 ? columns : rows, stride = along == 0 ? columns : 1;
  Tensor integers(DType::i8, {rows, columns}),
      scale(DType::f32, along == 0 ? Dims{blocks, others} : Dims{others, blocks});
  const float* from = floats.data<float>();
  int8_t* to = integers.data<int8_t>();
  float* scales = scale.data<float>();
  parallel_for(others, std::max<int64_t>(1, (1 << 14) / size), [&](int64_t begin, int64_t end) {
    for (int64_t other = begin; other < end; ++other)
      for (int64_t b = 0; b < blocks; ++b) {
        const int64_t first = (along == 0 ? other : other * columns) + b * block * stride;
        scales[along == 0 ? b * others + other : other * blocks + b] =
            quantize_block(from + first, std::min(block, size - b * block), stride, format.bits, to + first);
      }
  });
  ops::DequantizeBlocks op;
  (along == 0 ? op.block_rows : op.block_columns) = block;
  const std::string name = graph.value(weights).name;
  return graph.add_single(
      op, {graph.add_constant(name + ".integers", integers), graph.add_constant(name + ".scales", scale)},
      name + ".quantized");
}

}  // namespace

WeightReport quantize_weights(Graph& graph, const WeightFormat& format, const std::vector<std::string>& keep) {
  if (format.bits != 8 && format.bits != 4)
    fail(ErrorKind::usage, "weights of ", format.bits, " bits; there are 8 and 4");
  if (format.block < 0 || format.block % 8 != 0)
    fail(ErrorKind::usage, "a block of ", format.block, " weights: it is a multiple of 8, or 0 for one scale a column");
  WeightReport report;
  std::vector<std::string> known;
  std::map<std::pair<ValueId, int64_t>, ValueId> done;  // by the constant and the axis of the sums
  const int32_t count = graph.node_count();
  for (int32_t n = 0; n < count; ++n) {
    const Node node = graph.node({n});
    const auto* product = node.op.get_if<ops::MatMul>();
    if (!product) continue;
    ++report.products;
    known.push_back(node.name);
    const auto leave = [&](const std::string& why) { report.left.push_back(concat(node.name, ": ", why)); };
    if (std::find(keep.begin(), keep.end(), node.name) != keep.end()) {
      leave("kept in fp32 as asked");
      continue;
    }
    ValueId weights = node.inputs[1];
    const Node* turned = graph.producer(weights);
    if (turned && (!turned->op.is<ops::Transpose>() || graph.type(weights).rank() != 2)) turned = nullptr;
    if (turned) weights = turned->inputs[0];
    const Tensor* floats = graph.constant(weights);
    if (!floats || graph.type(node.inputs[0]).dtype != DType::f32 || floats->dtype() != DType::f32) {
      leave(floats ? concat("its weights are ", floats->dtype()) : "its second operand is no constant");
      continue;
    }
    if (floats->rank() != 2 || floats->count() == 0) {
      leave(concat("its weights are ", floats->type()));
      continue;
    }
    if (!all_finite(*floats)) {
      leave("its weights hold NaN or infinity");
      continue;
    }
    // Columns that are stored as rows, one way or the other.
    const int64_t along = product->transpose_b != (turned != nullptr) ? 1 : 0;
    const auto [it, fresh] = done.try_emplace({weights, along});
    if (fresh) {
      it->second = quantized(graph, weights, along, format);
      report.floats += floats->bytes();
      report.integers +=
          floats->count() * format.bits / 8 + graph.constant(graph.producer(it->second)->inputs[1])->bytes();
    }
    std::vector<ValueId> inputs = node.inputs;
    inputs[1] = it->second;
    if (turned) inputs[1] = graph.add_single(turned->op, {it->second}, turned->name);
    graph.rewrite(node.outputs[0], node.op, std::move(inputs), node.name);
    ++report.quantized;
  }
  for (const std::string& name : keep)
    if (std::find(known.begin(), known.end(), name) == known.end())
      fail(ErrorKind::usage, "there is no product '", name, "' to keep in fp32");
  graph.compact();
  return report;
}

}  // namespace temper
