// SPDX-License-Identifier: Apache-2.0
// pad on GPUs.
#include "graph/ops/pad.h"

#include <algorithm>

#include "backends/cuda/recipe.h"
#include "backends/cuda/support/constants.h"
#include "backends/cuda/support/program_code.h"

namespace temper::cuda {

namespace {

const ops::Pad& op_of(const Problem& problem) { return problem.op.get<ops::Pad>(); }
bool has_value(const Problem& problem) { return problem.inputs.size() > 1 && problem.inputs[1].present; }

Support supports(const Problem& problem) {
  if (!problem.op.is<ops::Pad>()) return refused("not a pad");
  if (problem.inputs.size() > 2) return refused("its sizes are data");
  return supported();
}

std::vector<Config> configs(const Problem& problem, const GpuProperties&) {
  std::vector<Config> out;
  for (Layout layout : {Layout::plain, Layout::channels_last}) {
    if (!layout_fits(problem.outputs[0].dims(), layout)) continue;
    Config config{"", std::vector<Layout>(problem.inputs.size(), Layout::plain), {layout}};
    config.inputs[0] = layout;
    out.push_back(std::move(config));
  }
  return out;
}

Recipe::Work work(const Problem& problem, const Config& config, const GpuProperties&) {
  const auto& op = op_of(problem);
  const TensorType& x = problem.inputs[0].type;
  const Dims in = x.dims(), dims = problem.outputs[0].dims();
  const int64_t count = element_count(dims), bytes = size_of(x.dtype);
  Recipe::Work out;
  if (count == 0) return out;
  const Dims in_strides = logical_strides(in, config.inputs[0]), out_strides = logical_strides(dims, config.outputs[0]);
  std::vector<size_t> order(dims.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return out_strides[a] > out_strides[b]; });
  Dims sizes, before, low, size;
  std::vector<Dims> walk(2);
  for (size_t axis : order) {
    sizes.push_back(dims[axis]);
    walk[0].push_back(in_strides[axis]);
    walk[1].push_back(out_strides[axis]);
    before.push_back(op.before[axis].value());
    low.push_back(std::max<int64_t>(0, -op.before[axis].value()));
    size.push_back(in[axis] - std::max<int64_t>(0, -op.after[axis].value()) - low.back());
  }
  if (sizes.empty()) sizes = {1}, walk = {{0}, {0}}, before = {0}, low = {0}, size = {1};
  Job job;
  job.entry = "pad";
  job.overlap = true;
  job.slots = {
      {Slot::Kind::input, 0, 0}, {Slot::Kind::input, has_value(problem) ? 1 : 0, 0}, {Slot::Kind::output, 0, 0}};
  job.source.text = concat(include_line("support/scalar.cuh"), type_alias("Element", word_type(bytes)),
                           type_alias("Index", small_positions(count) ? "u32" : "u64"),
                           int_constants({{"RANK", sizes.size()}, {"KIND", int(op.kind)}}),
                           bool_constants({{"HAS_VALUE", has_value(problem)}}), include_line("pad/pad.cu"));
  job.shape.block = {256, 1, 1};
  job.shape.grid = {blocks_for(count, 256), 1, 1};
  ParameterWriter writer;
  writer.put(uint64_t(count)).put_walk(sizes, walk);
  for (const Dims* values : {&before, &low, &size})
    for (int64_t value : *values) writer.put(value);
  job.parameters = writer.finish();
  out.jobs.push_back(std::move(job));
  return out;
}

}  // namespace

extern const Recipe pad_recipe;
const Recipe pad_recipe{"cuda.pad", 1, supports, configs, work};

}  // namespace temper::cuda
