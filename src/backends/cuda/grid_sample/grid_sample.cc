// SPDX-License-Identifier: Apache-2.0
// grid_sample on GPUs, in any number of axes.
#include "graph/ops/grid_sample.h"

#include "backends/cuda/channel_groups.h"
#include "backends/cuda/support/constants.h"
#include "backends/cuda/support/program_code.h"

namespace temper::cuda {

namespace {

constexpr int64_t kUnrolled = 64;  // taps of one element, all axes together

Support supports(const Problem& problem) {
  if (!problem.op.is<ops::GridSample>()) return refused("not a grid_sample");
  for (int64_t size : problem.inputs[0].dims())
    if (!small_positions(size)) return refused("an axis of ", size, " elements");
  int64_t points = 1;
  for (size_t axis = 2; axis < problem.outputs[0].dims().size(); ++axis) points *= problem.outputs[0].dims()[axis];
  if (!small_positions(points)) return refused("a grid of ", points, " positions");
  return supported();
}

std::vector<Config> configs(const Problem& problem, const GpuProperties&) { return image_configs(problem); }

Recipe::Work work(const Problem& problem, const Config& config, const GpuProperties&) {
  const auto& op = problem.op.get<ops::GridSample>();
  const DType dtype = problem.inputs[0].type.dtype;
  const Dims in = problem.inputs[0].dims(), dims = problem.outputs[0].dims();
  Recipe::Work out;
  const int64_t count = element_count(dims);
  if (count == 0) return out;
  const bool last = config.outputs[0] == Layout::channels_last, moves = op.kind == ops::SampleKind::nearest;
  const int64_t channels = in[1], points = count / (dims[0] * channels);
  const auto [each, groups, threads] = channel_groups(dtype, config.outputs[0], dims[0], channels, points);
  const Dims strides = logical_strides(in, config.inputs[0]), to = logical_strides(dims, config.outputs[0]);
  const size_t axes = in.size() - 2;
  const int64_t taps = moves ? 1 : op.kind == ops::SampleKind::linear ? 2 : 4;
  int64_t all = 1;
  for (size_t i = 0; i < axes; ++i) all *= taps;

  Job job;
  job.entry = "grid_sample";
  job.overlap = true;
  job.slots = {{Slot::Kind::input, 0, 0}, {Slot::Kind::input, 1, 0}, {Slot::Kind::output, 0, 0}};
  job.source.text = concat("#include \"backends/cuda/support/memory.cuh\"\n",
                           type_alias("T", moves ? word_type(size_of(dtype)) : memory_type(dtype)),
                           type_alias("Place", memory_type(problem.inputs[1].type.dtype)),
                           type_alias("Index", small_positions(threads) ? "u32" : "u64"),
                           int_constants({{"AXES", int64_t(axes)},
                                          {"TAPS", taps},
                                          {"ALL_TAPS", all},
                                          {"UNROLL", all > kUnrolled ? 1 : all},
                                          {"PADDING", int64_t(op.padding)},
                                          {"EACH", each}}),
                           bool_constants({{"ALIGN_CORNERS", op.align_corners}, {"CHANNELS_LAST", last}}),
                           "#include \"backends/cuda/grid_sample/grid_sample.cu\"\n");
  job.shape.block = {256, 1, 1};
  job.shape.grid = {blocks_for(threads, 256), 1, 1};
  ParameterWriter writer;
  writer.put(uint64_t(threads)).put_divisor(groups).put_divisor(points).put(int32_t(channels));
  for (size_t i = 0; i < axes; ++i) writer.put(int32_t(in[i + 2]));
  for (size_t i = 0; i < axes; ++i) writer.put(strides[i + 2]);
  writer.put(strides[0]).put(strides[1]).put(to[0]).put(to[1]);
  job.parameters = writer.finish();
  out.jobs.push_back(std::move(job));
  return out;
}

}  // namespace

extern const Recipe grid_sample_recipe;
const Recipe grid_sample_recipe{"cuda.grid_sample", 1, supports, configs, work};

}  // namespace temper::cuda
