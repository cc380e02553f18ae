// SPDX-License-Identifier: Apache-2.0
// roi_align on GPUs.
#include "graph/ops/roi_align.h"

#include "backends/cuda/channel_groups.h"
#include "backends/cuda/support/constants.h"
#include "backends/cuda/support/program_code.h"

namespace temper::cuda {

namespace {

Support supports(const Problem& problem) {
  if (!problem.op.is<ops::RoiAlign>()) return refused("not a roi_align");
  const auto& op = problem.op.get<ops::RoiAlign>();
  if (!small_positions(op.height * op.width)) return refused(op.height, " x ", op.width, " bins");
  const Dims in = problem.inputs[0].dims();
  for (int64_t size : in)
    if (!small_positions(size)) return refused("an axis of ", size, " elements");
  if (in[2] == 0 || in[3] == 0) return refused("regions of an empty picture");
  return supported();
}

std::vector<Config> configs(const Problem& problem, const GpuProperties&) { return image_configs(problem); }

Recipe::Work work(const Problem& problem, const Config& config, const GpuProperties&) {
  const auto& op = problem.op.get<ops::RoiAlign>();
  const DType dtype = problem.inputs[0].type.dtype;
  const Dims in = problem.inputs[0].dims(), dims = problem.outputs[0].dims();
  Recipe::Work out;
  if (element_count(dims) == 0) return out;
  const bool last = config.outputs[0] == Layout::channels_last;
  const int64_t channels = in[1], bins = op.height * op.width;
  const auto [each, groups, threads] = channel_groups(dtype, config.outputs[0], dims[0], channels, bins);
  const Dims from = logical_strides(in, config.inputs[0]), to = logical_strides(dims, config.outputs[0]);

  Job job;
  job.entry = "roi_align";
  job.overlap = true;
  job.slots = {{Slot::Kind::input, 0, 0},
               {Slot::Kind::input, 1, 0},
               {Slot::Kind::input, 2, 0},
               {Slot::Kind::output, 0, 0},
               {Slot::Kind::fault, 0, 0}};
  job.source.text =
      concat("#include \"backends/cuda/support/memory.cuh\"\n", type_alias("T", memory_type(dtype)),
             type_alias("Batch", problem.inputs[2].type.dtype == DType::i64 ? "i64" : "i32"),
             type_alias("Index", small_positions(threads) ? "u32" : "u64"), int_constants({{"EACH", each}}),
             bool_constants(
                 {{"MAXIMUM", op.kind == ops::RoiKind::max}, {"HALF_PIXEL", op.half_pixel}, {"CHANNELS_LAST", last}}),
             "#include \"backends/cuda/roi_align/roi_align.cu\"\n");
  job.shape.block = {256, 1, 1};
  job.shape.grid = {blocks_for(threads, 256), 1, 1};
  ParameterWriter writer;
  writer.put(uint64_t(threads))
      .put(op.spatial_scale)
      .put(1.0 / double(op.height))
      .put(1.0 / double(op.width))
      .put_divisor(groups)
      .put_divisor(bins)
      .put_divisor(op.width);
  writer.put(int32_t(op.sampling_ratio)).put(int32_t(channels));
  writer.put(int32_t(op.height)).put(int32_t(op.width)).put(int32_t(in[2])).put(int32_t(in[3]));
  for (int64_t stride : from) writer.put(stride);
  for (int64_t stride : {to[0], to[1], to[3]}) writer.put(stride);
  writer.put(in[0]);
  job.parameters = writer.finish();
  out.jobs.push_back(std::move(job));
  return out;
}

}  // namespace

extern const Recipe roi_align_recipe;
const Recipe roi_align_recipe{"cuda.roi_align", 1, supports, configs, work};

}  // namespace temper::cuda
