// SPDX-License-Identifier: Apache-2.0
// gather on GPUs: moves the elements that indices pick.
#include "graph/ops/gather.h"

#include <algorithm>

#include "backends/cuda/recipe.h"
#include "backends/cuda/support/constants.h"
#include "backends/cuda/support/program_code.h"
#include "graph/ops/fused_decode.h"

namespace temper::cuda {

namespace {

constexpr size_t kMostSteps = 100;

const ops::ComputedGather* computed(const Problem& problem) { return problem.op.get_if<ops::ComputedGather>(); }
const ops::Gather& op_of(const Problem& problem) {
  if (problem.op.is<ops::ComputedGather>()) return problem.op.get<ops::ComputedGather>().gather;
  return problem.op.get<ops::Gather>();
}

Support supports(const Problem& problem) {
  if (!problem.op.is<ops::Gather, ops::ComputedGather>()) return refused("not a gather");
  if (const auto* op = computed(problem); op && op->index.steps.size() > kMostSteps)
    return refused("an index of ", op->index.steps.size(), " steps");
  if (!small_positions(element_count(problem.outputs[0].dims())) ||
      !small_positions(element_count(problem.inputs[1].dims())))
    return refused("more than 2147418112 elements");
  return supported();
}

// Whole channels are picked by a list.
bool of_channels(const Problem& problem) {
  return problem.op.is<ops::Gather>() && op_of(problem).kind == ops::GatherKind::axis && op_of(problem).axis == 1 &&
         problem.inputs[1].dims().size() == 1 && layout_fits(problem.outputs[0].dims(), Layout::channels_last) &&
         problem.inputs[0].dims().size() == problem.outputs[0].dims().size();
}

std::vector<Config> configs(const Problem& problem, const GpuProperties&) {
  std::vector<Config> out{plain_config(problem, "")};
  if (of_channels(problem)) out.push_back({"", {Layout::channels_last, Layout::plain}, {Layout::channels_last}});
  return out;
}

// In channels_last: a thread writes neighbouring channels of a pixel.
Recipe::Work channels_work(const Problem& problem) {
  const TensorType &x = problem.inputs[0].type, &y = problem.outputs[0].type;
  const int64_t from = x.dims()[1], to = y.dims()[1], bytes = size_of(x.dtype);
  int64_t together = 16 / bytes;
  while (to % together) together /= 2;
  const int64_t count = element_count(y.dims()) / together;
  Recipe::Work out;
  if (count == 0) return out;
  Job job;
  job.entry = "gather_channels";
  job.overlap = true;
  job.slots = {
      {Slot::Kind::input, 0, 0}, {Slot::Kind::input, 1, 0}, {Slot::Kind::output, 0, 0}, {Slot::Kind::fault, 0, 0}};
  job.source.text = concat(include_line("support/memory.cuh"), type_alias("Element", word_type(bytes)),
                           type_alias("At", problem.inputs[1].type.dtype == DType::i64 ? "i64" : "i32"),
                           int_constants({{"V", together}}), include_line("gather/gather_channels.cu"));
  job.parameters = ParameterWriter().put(uint32_t(count)).put_divisor(to / together).put(from).finish();
  job.shape.block = {256, 1, 1};
  job.shape.grid = {blocks_for(count, 256), 1, 1};
  out.jobs.push_back(std::move(job));
  return out;
}

Recipe::Work work(const Problem& problem, const Config& config, const GpuProperties&) {
  if (config.outputs[0] == Layout::channels_last) return channels_work(problem);
  const auto& op = op_of(problem);
  const TensorType& x = problem.inputs[0].type;
  const Dims in = x.dims(), index = problem.inputs[1].dims(), dims = problem.outputs[0].dims();
  Recipe::Work out;
  const int64_t elements = element_count(dims);
  if (elements == 0) return out;
  const Dims strides = row_major_strides(in);
  const bool nd = op.kind == ops::GatherKind::nd, single = op.kind == ops::GatherKind::elements;
  const int64_t length = nd ? index.back() : 1;
  const size_t first = size_t(nd ? op.batch_dims : op.axis);
  const int64_t inner = single ? 1 : strides[first + size_t(length) - 1];
  // Pieces as wide as what a position picks allows.
  int64_t bytes = 16;
  while (inner * size_of(x.dtype) % bytes) bytes /= 2;
  if (single) bytes = size_of(x.dtype);
  auto pieces = [&](int64_t count) { return count * size_of(x.dtype) / bytes; };
  const int64_t count = pieces(elements), per_position = single ? 1 : pieces(inner);
  int64_t per_outer = count / per_position, outer_stride = 0;
  if (nd && op.batch_dims) {
    for (int64_t k = 0; k < op.batch_dims; ++k) per_outer /= index[size_t(k)];
    outer_stride = pieces(strides[size_t(op.batch_dims) - 1]);
  } else if (op.kind == ops::GatherKind::axis) {
    per_outer = element_count(index);
    outer_stride = pieces(in[first] * inner);
  }
  Dims walk_sizes, walk_strides;
  if (single)
    for (size_t k = 0; k < index.size(); ++k) {
      walk_sizes.push_back(index[k]);
      walk_strides.push_back(k == first ? 0 : strides[k]);
    }

  Job job;
  job.entry = "gather";
  job.overlap = true;
  job.slots = {
      {Slot::Kind::input, 0, 0}, {Slot::Kind::input, 1, 0}, {Slot::Kind::output, 0, 0}, {Slot::Kind::fault, 0, 0}};
  ProgramNumbers numbers;
  ProgramCode code;
  if (const auto* made = computed(problem)) {
    const std::vector<DType> dtypes{DType::i64};
    code = program_code(made->index, dtypes, "index_of", numbers);
  }
  job.source.text = concat(include_line("support/memory.cuh"), code.text, macro("NUMBERS", numbers.text()),
                           macro("INDEX(x)", code.call.empty() ? std::string("i64(x)") : concat(code.call, "(x))")),
                           type_alias("Piece", bytes == 16 ? "Vec<u32, 4>" : word_type(bytes)),
                           type_alias("At", problem.inputs[1].type.dtype == DType::i64 ? "i64" : "i32"),
                           int_constants({{"KIND", int(op.kind)}, {"LENGTH", length}, {"RANK", walk_sizes.size()}}),
                           include_line("gather/gather.cu"));
  ParameterWriter writer;
  writer.put(uint32_t(count)).put_divisor(per_position).put_divisor(per_outer).put(outer_stride);
  for (int64_t k = 0; k < length; ++k) writer.put(in[first + size_t(k)]);
  for (int64_t k = 0; k < length; ++k) writer.put(pieces(strides[first + size_t(k)]));
  writer.put_walk(walk_sizes, {walk_strides});
  job.parameters = writer.put_numbers(numbers.values()).finish();
  job.shape.block = {256, 1, 1};
  job.shape.grid = {blocks_for(count, 256), 1, 1};
  out.jobs.push_back(std::move(job));
  return out;
}

}  // namespace

extern const Recipe gather_recipe;
const Recipe gather_recipe{"cuda.gather", 3, supports, configs, work};

}  // namespace temper::cuda
