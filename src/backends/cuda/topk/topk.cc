// SPDX-License-Identifier: Apache-2.0
// topk on GPUs: chunks of rows are sorted in shared memory, and runs merged until one is left of each row. All steps
// keep no more than k elements of a run, so a small k costs little more than reading x, and any k is possible.
#include "backends/cuda/topk/topk.h"

#include <algorithm>
#include <bit>

#include "backends/cuda/support/constants.h"
#include "backends/cuda/support/program_code.h"
#include "base/checked.h"
#include "graph/ops/topk.h"

namespace temper::cuda {

namespace {

constexpr int64_t kWays = 4;      // runs that are merged at a time
constexpr int64_t kChunk = 4096;  // elements at most: 48 KB of 8-byte keys and of places

Support supports(const Problem& problem) {
  if (!problem.op.is<ops::TopK>()) return refused("not a topk");
  if (problem.inputs.size() > 1 && problem.inputs[1].present) return refused("its k is data");
  // Chunks that are not full take places, too.
  if (!small_positions(2 * element_count(problem.inputs[0].dims()))) return refused("more than 1073709056 elements");
  return supported();
}

std::vector<Config> configs(const Problem& problem, const GpuProperties&) { return {plain_config(problem, "")}; }

Recipe::Work work(const Problem& problem, const Config&, const GpuProperties&) {
  const auto& op = problem.op.get<ops::TopK>();
  const TensorType& x = problem.inputs[0].type;
  const Dims dims = x.dims(), out_dims = problem.outputs[0].dims();
  Recipe::Work out;
  if (element_count(out_dims) == 0) return out;
  const int64_t n = dims[size_t(op.axis)];
  out.workspace = add_sort({memory_type(x.dtype),
                            size_of(x.dtype),
                            op.largest,
                            element_count(dims) / n,
                            n,
                            out_dims[size_t(op.axis)],
                            row_major_strides(dims)[size_t(op.axis)],
                            {Slot::Kind::input, 0, 0},
                            {Slot::Kind::output, 0, 0},
                            {Slot::Kind::output, 1, 0}},
                           out.jobs);
  return out;
}

}  // namespace

int64_t add_sort(const RowSort& sort, std::vector<Job>& jobs) {
  const int64_t rows = sort.rows, n = sort.n, k = sort.k;
  const int64_t size = std::clamp<int64_t>(int64_t(std::bit_ceil(uint64_t(n))), 2, kChunk);
  const int64_t key_bytes = sort.bytes == 8 ? 8 : 4;
  const std::string head = concat(include_line("support/memory.cuh"), type_alias("Element", sort.element),
                                  bool_constants({{"LARGEST", sort.largest}}), int_constants({{"WAYS", kWays}}));

  // Runs of each row, how much of a row each is of, and how many elements it has at most.
  struct Level {
    int64_t runs, span, kept;
  };
  std::vector<Level> levels{{ceil_div(n, size), size, std::min(k, size)}};
  while (levels.back().runs > 1) {
    const int64_t span = levels.back().span * kWays;
    levels.push_back({ceil_div(levels.back().runs, kWays), span, std::min(k, span)});
  }
  int64_t most = 0;
  for (size_t l = 0; l + 1 < levels.size(); ++l) most = std::max(most, rows * levels[l].runs * levels[l].kept);
  // Two sets of runs, from one to the other: keys and places.
  const int64_t keys = round_up<int64_t>(most * key_bytes, 256), set = keys + round_up<int64_t>(most * 4, 256);
  auto keys_of = [&](size_t level) {
    return Slot{Slot::Kind::workspace, 0, sort.workspace + int64_t(level % 2) * set};
  };
  auto places_of = [&](size_t level) {
    return Slot{Slot::Kind::workspace, 0, sort.workspace + int64_t(level % 2) * set + keys};
  };

  Job first;
  first.entry = "topk_sort";
  first.overlap = true;
  first.slots = {sort.input, sort.values, sort.indices, keys_of(0), places_of(0)};
  first.source.text = head + "#include \"backends/cuda/topk/topk_sort.cu\"\n";
  const int64_t threads = std::min<int64_t>(size / 2, 1024), block = std::max<int64_t>(threads, 256),
                slots = block / threads, chunks = rows * levels[0].runs;
  first.parameters = ParameterWriter()
                         .put(uint32_t(chunks))
                         .put(uint32_t(n))
                         .put(uint32_t(k))
                         .put(uint32_t(levels[0].kept))
                         .put(uint32_t(size))
                         .put(uint32_t(std::countr_zero(uint64_t(threads))))
                         .put_divisor(levels[0].runs)
                         .put_divisor(sort.inner)
                         .finish(4);
  first.shape.block = {uint32_t(block), 1, 1};
  first.shape.grid = {blocks_for(chunks, slots), 1, 1};
  first.shape.shared_bytes = uint32_t(slots * size * (key_bytes + 4));
  jobs.push_back(std::move(first));

  for (size_t l = 0; l + 1 < levels.size(); ++l) {
    const Level &from = levels[l], &to = levels[l + 1];
    Job merge;
    merge.entry = "topk_merge";
    merge.overlap = true;
    merge.slots = {sort.input, sort.values, sort.indices, keys_of(l), places_of(l), keys_of(l + 1), places_of(l + 1)};
    merge.source.text = head + "#include \"backends/cuda/topk/topk_merge.cu\"\n";
    const int64_t count = rows * from.runs * from.kept;
    merge.parameters = ParameterWriter()
                           .put(uint32_t(count))
                           .put(uint32_t(n))
                           .put(uint32_t(k))
                           .put(uint32_t(from.span))
                           .put(uint32_t(from.kept))
                           .put(uint32_t(to.kept))
                           .put(uint32_t(to.runs))
                           .put_divisor(from.runs)
                           .put_divisor(from.kept)
                           .put_divisor(sort.inner)
                           .finish(4);
    merge.shape.block = {256, 1, 1};
    merge.shape.grid = {blocks_for(count, 256), 1, 1};
    jobs.push_back(std::move(merge));
  }
  return levels.size() > 2 ? 2 * set : levels.size() > 1 ? set : 0;
}

extern const Recipe topk_recipe;
const Recipe topk_recipe{"cuda.topk", 1, supports, configs, work};

}  // namespace temper::cuda
