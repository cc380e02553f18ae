// SPDX-License-Identifier: Apache-2.0
// scatter on GPUs. Two kernels where updates are combined with what is there: x is copied and the targets are found,
// then each block applies the updates of its own targets, in their order. Three where they replace it, which takes less
// time: the last of those that meet is found by a maximum, and then written. Where the output is the memory of x,
// nothing is copied; a run that fails for an index has written what other indices name.
#include "graph/ops/scatter.h"

#include <algorithm>

#include "backends/cuda/recipe.h"
#include "backends/cuda/support/constants.h"
#include "backends/cuda/support/program_code.h"
#include "base/checked.h"

namespace temper::cuda {

namespace {

const ops::Scatter& op_of(const Problem& problem) { return problem.op.get<ops::Scatter>(); }

Support supports(const Problem& problem) {
  if (!problem.op.is<ops::Scatter>()) return refused("not a scatter");
  for (const Port& port : problem.inputs)
    if (!small_positions(element_count(port.dims()))) return refused("more than 2147418112 elements");
  return supported();
}

std::vector<Config> configs(const Problem& problem, const GpuProperties&) { return {plain_config(problem, "")}; }

Recipe::Work work(const Problem& problem, const Config&, const GpuProperties& gpu) {
  const auto& op = op_of(problem);
  const TensorType& x = problem.inputs[0].type;
  const Dims dims = x.dims(), index = problem.inputs[1].dims();
  const int64_t elements = element_count(dims), updates = element_count(problem.inputs[2].dims());
  Recipe::Work out;
  if (elements == 0 && updates == 0) return out;
  const Dims strides = row_major_strides(dims);
  const bool nd = op.kind == ops::ScatterKind::nd, replaces = op.reduction == ops::ScatterReduction::none;
  const int64_t length = nd ? index.back() : 1, inner = nd ? strides[size_t(length) - 1] : 1;
  const size_t first = size_t(nd ? 0 : op.axis);
  const int64_t positions = updates == 0 ? 0 : updates / inner, targets = inner == 0 ? 0 : elements / inner;
  const int64_t bytes = elements * size_of(x.dtype);
  Dims walk_sizes, walk_strides;
  if (!nd && positions > 0)
    for (size_t k = 0; k < index.size(); ++k) {
      walk_sizes.push_back(index[k]);
      walk_strides.push_back(k == first ? 0 : strides[k]);
    }

  const int64_t owners_at = round_up<int64_t>(positions * 4, 256);
  const Slot found{Slot::Kind::workspace, 0, 0}, owners{Slot::Kind::workspace, 0, owners_at};
  out.workspace = owners_at + (replaces ? targets * 4 : 0);
  auto add = [&](std::string_view entry, const std::string& text, std::vector<Slot> slots,
                 std::vector<std::byte> parameters, int64_t blocks) {
    Job job;
    job.entry = entry;
    job.overlap = true;
    job.slots = std::move(slots);
    job.source.text = concat("#include \"backends/cuda/support/memory.cuh\"\n", text,
                             "#include \"backends/cuda/scatter/", entry, ".cu\"\n");
    job.parameters = std::move(parameters);
    job.shape.block = {256, 1, 1};
    job.shape.grid = {uint32_t(blocks), 1, 1};
    out.jobs.push_back(std::move(job));
  };

  ParameterWriter finding;
  finding.put(uint32_t(bytes / 16)).put(uint32_t(bytes % 16)).put(uint32_t(targets)).put(uint32_t(positions));
  for (int64_t k = 0; k < length; ++k) finding.put(dims[first + size_t(k)]);
  for (int64_t k = 0; k < length; ++k) finding.put(uint32_t(inner == 0 ? 0 : strides[first + size_t(k)] / inner));
  finding.put_walk(walk_sizes, {walk_strides});
  add("scatter_targets",
      concat(type_alias("At", problem.inputs[1].type.dtype == DType::i64 ? "i64" : "i32"),
             int_constants({{"LENGTH", length}, {"RANK", walk_sizes.size()}}), bool_constants({{"CLAIMS", replaces}})),
      {{Slot::Kind::input, 0, 0},
       {Slot::Kind::input, 1, 0},
       {Slot::Kind::output, 0, 0},
       found,
       owners,
       {Slot::Kind::fault, 0, 0}},
      finding.finish(), blocks_for(std::max({bytes / 16 + 16, replaces ? targets : 0, positions}), 256));
  if (positions == 0 || targets == 0) return out;

  if (!replaces) {
    const int64_t segment = ceil_div(targets, int64_t(gpu.sms) * 2);
    add("scatter_ordered",
        concat(type_alias("Element", memory_type(x.dtype)), int_constants({{"REDUCTION", int(op.reduction)}})),
        {{Slot::Kind::input, 2, 0}, found, {Slot::Kind::output, 0, 0}},
        ParameterWriter()
            .put(uint32_t(positions))
            .put(uint32_t(targets))
            .put(uint32_t(segment))
            .put(uint32_t(inner))
            .finish(4),
        ceil_div(targets, segment));
    return out;
  }
  int64_t piece = 16;
  while (inner * size_of(x.dtype) % piece) piece /= 2;
  const int64_t pieces = inner * size_of(x.dtype) / piece;
  add("scatter_claim", "", {found, owners}, ParameterWriter().put(uint32_t(positions)).finish(4),
      blocks_for(positions, 256));
  add("scatter_last", concat("using Piece = ", piece == 16 ? "Vec<u32, 4>" : word_type(piece), ";\n"),
      {{Slot::Kind::input, 2, 0}, found, owners, {Slot::Kind::output, 0, 0}},
      ParameterWriter().put(uint32_t(positions * pieces)).put_divisor(pieces).finish(4),
      blocks_for(positions * pieces, 256));
  return out;
}

}  // namespace

extern const Recipe scatter_recipe;
const Recipe scatter_recipe{"cuda.scatter", 1, supports, configs, work};

}  // namespace temper::cuda
