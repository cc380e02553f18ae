// SPDX-License-Identifier: Apache-2.0
// resize on GPUs.
#include "graph/ops/resize.h"

#include <algorithm>

#include "backends/cuda/copy/copy.h"
#include "backends/cuda/support/program_code.h"

namespace temper::cuda {

namespace {

constexpr int64_t kMaxTaps = 64;  // of one element, all axes together: they are unrolled

struct TableEntry {  // struct Tap of resize.cu
  int32_t index, padding;
  double weight;
};

const ops::Resize& op_of(const Problem& problem) { return problem.op.get<ops::Resize>(); }

bool moves_elements(const ops::Resize& op) {
  return op.kind == ops::ResizeKind::nearest && op.coordinate != ops::ResizeCoordinate::tf_crop_and_resize;
}

std::vector<size_t> resized_axes(const Problem& problem) {
  const Dims in = problem.inputs[0].dims(), out = problem.outputs[0].dims();
  std::vector<size_t> axes;
  for (size_t axis = 0; axis < in.size(); ++axis)
    if (!op_of(problem).is_identity_along(axis, in[axis], out[axis])) axes.push_back(axis);
  return axes;
}

Support supports(const Problem& problem) {
  if (!problem.op.is<ops::Resize>()) return refused("not a resize");
  for (size_t i = 1; i < problem.inputs.size(); ++i)
    if (problem.inputs[i].present) return refused("its size is data");
  if (problem.inputs[0].type.dtype == DType::boolean && !moves_elements(op_of(problem)))
    return refused("an interpolation of bool");
  const Dims in = problem.inputs[0].dims(), out = problem.outputs[0].dims();
  for (int64_t size : out)
    if (size >= int64_t(1) << 26) return refused("an axis of ", size, " elements");
  if (element_count(out) == 0) return supported();
  int64_t taps = 1;
  if (!moves_elements(op_of(problem)))
    for (size_t axis : resized_axes(problem)) taps *= op_of(problem).table(axis, in[axis], out[axis]).taps;
  if (taps > kMaxTaps) return refused("each element is a sum of ", taps, " others; at most ", kMaxTaps);
  return supported();
}

Recipe::Work work(const Problem& problem, const Config& config, const GpuProperties&) {
  const auto& op = op_of(problem);
  const TensorType& x = problem.inputs[0].type;
  const Dims in = x.dims(), dims = problem.outputs[0].dims();
  const int64_t count = element_count(dims);
  Recipe::Work out;
  if (count == 0) return out;
  const Dims in_strides = logical_strides(problem.inputs[0], config.inputs[0]),
             out_strides = logical_strides(problem.outputs[0], config.outputs[0]);
  std::vector<size_t> order(dims.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return out_strides[a] > out_strides[b]; });
  const std::vector<size_t> resized = resized_axes(problem);
  if (resized.empty())
    return {copy_jobs(size_of(x.dtype), dims, in_strides, out_strides, 0, 0, {Slot::Kind::input, 0, 0},
                      {Slot::Kind::output, 0, 0}),
            0,
            {},
            {}};
  Dims sizes;
  std::vector<Dims> walk(2);
  for (size_t axis : order) {
    const bool is_resized = std::find(resized.begin(), resized.end(), axis) != resized.end();
    sizes.push_back(dims[axis]);
    walk[0].push_back(is_resized ? 0 : in_strides[axis]);
    walk[1].push_back(out_strides[axis]);
  }
  std::string taps, axes;
  std::vector<uint32_t> starts;
  std::vector<TableEntry> table;
  for (size_t axis : resized) {
    const ops::ResizeTable t = op.table(axis, in[axis], dims[axis]);
    const bool move = moves_elements(op);
    starts.push_back(uint32_t(table.size()));
    taps += concat(taps.empty() ? "" : ", ", move ? 1 : t.taps);
    axes += concat(axes.empty() ? "" : ", ", std::find(order.begin(), order.end(), axis) - order.begin());
    for (size_t i = 0; i < t.index.size(); ++i) table.push_back({int32_t(t.index[i]), 0, move ? 1.0 : t.weight[i]});
  }
  Job job;
  const bool narrow = x.dtype == DType::f32 || x.dtype == DType::f16 || x.dtype == DType::bf16;
  job.entry = "resize";
  job.overlap = true;
  job.slots = {{Slot::Kind::input, 0, 0}, {Slot::Kind::packed, 0, 0}, {Slot::Kind::output, 0, 0}};
  job.source.text =
      concat("#include \"backends/cuda/support/scalar.cuh\"\nconstexpr int RANK = ", sizes.size(),
             ", RESIZED = ", starts.size(), ";\n__device__ constexpr int TAPS[] = {", taps, "}, AXIS[] = {", axes,
             "};\nconstexpr bool NEAREST = ", moves_elements(op), ", ROUND = ", !is_float(x.dtype),
             ";\nusing Index = ", small_positions(count) ? "u32" : "u64", ";\nusing Input = ", memory_type(x.dtype),
             ";\nusing Wide = ", narrow ? "float" : "double", ";\n#include \"backends/cuda/resize/resize.cu\"\n");
  job.shape.block = {256, 1, 1};
  job.shape.grid = {blocks_for(count, 256), 1, 1};
  ParameterWriter writer;
  writer.put(uint64_t(count)).put(op.extrapolation).put_walk(sizes, walk);
  for (size_t axis : resized) writer.put(in_strides[axis]);
  for (uint32_t start : starts) writer.put(start);
  job.parameters = writer.finish();
  out.packed.resize(table.size() * sizeof(TableEntry));
  std::memcpy(out.packed.data(), table.data(), out.packed.size());
  out.packed_bytes = int64_t(out.packed.size());
  out.jobs.push_back(std::move(job));
  return out;
}

}  // namespace

extern const Recipe resize_recipe;
const Recipe resize_recipe{"cuda.resize", 1, supports, same_layout_configs, work, {}, takes_all_parts};

}  // namespace temper::cuda
