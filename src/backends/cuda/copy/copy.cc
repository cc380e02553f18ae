// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/copy/copy.h"

#include <algorithm>

#include "backends/axes.h"
#include "backends/cuda/support/program_code.h"
#include "base/checked.h"

namespace temper::cuda {

namespace {

std::string prelude(int64_t bytes, size_t rank, int64_t positions, std::string_view more) {
  return concat("#include \"backends/cuda/support/scalar.cuh\"\nusing Element = ", word_type(bytes),
                ";\nconstexpr int RANK = ", rank, more, ";\nusing Index = ", small_positions(positions) ? "u32" : "u64",
                ";\n");
}

}  // namespace

std::vector<Job> copy_jobs(int64_t element_bytes, const Dims& sizes, const Dims& in_strides, const Dims& out_strides,
                           int64_t from, int64_t to, Slot in, Slot out) {
  if (element_count(sizes) == 0) return {};
  // In the order of the destination's memory.
  std::vector<size_t> order(sizes.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return out_strides[a] > out_strides[b]; });
  Axes axes{{}, {{}, {}}};
  for (size_t axis : order) {
    axes.sizes.push_back(sizes[axis]);
    axes.strides[0].push_back(in_strides[axis]);
    axes.strides[1].push_back(out_strides[axis]);
  }
  merge_axes(axes);
  const size_t rank = axes.sizes.size();
  const Dims &in_by = axes.strides[0], &out_by = axes.strides[1];
  const int64_t count = element_count(axes.sizes);
  Job job;
  job.slots = {in, out};
  job.shape.block = {256, 1, 1};

  const size_t rows = size_t(std::find(in_by.begin(), in_by.end(), 1) - in_by.begin());
  if (rank >= 2 && rows + 1 < rank && out_by.back() == 1 && axes.sizes.back() >= 8 && axes.sizes[rows] >= 8 &&
      axes.sizes.back() < (int64_t(1) << 31) && axes.sizes[rows] < (int64_t(1) << 31)) {
    Axes rest{{}, {{}, {}}};
    for (size_t axis = 0; axis + 1 < rank; ++axis) {
      if (axis == rows) continue;
      rest.sizes.push_back(axes.sizes[axis]);
      rest.strides[0].push_back(in_by[axis]);
      rest.strides[1].push_back(out_by[axis]);
    }
    merge_axes(rest);
    const int64_t columns = axes.sizes.back(), column_tiles = ceil_div(columns, int64_t(32)),
                  row_tiles = ceil_div(axes.sizes[rows], int64_t(32));
    const int64_t blocks = column_tiles * row_tiles * element_count(rest.sizes);
    if (small_positions(blocks)) {
      job.entry = "copy_tiles";
      job.overlap = true;
      job.source.text = concat(prelude(element_bytes, rest.sizes.size(), blocks, ""),
                               "#include \"backends/cuda/copy/copy_tiles.cu\"\n");
      job.shape.grid = {uint32_t(blocks), 1, 1};
      job.parameters = ParameterWriter()
                           .put(from)
                           .put(to)
                           .put(uint32_t(columns))
                           .put(uint32_t(axes.sizes[rows]))
                           .put(in_by.back())
                           .put(out_by[rows])
                           .put_divisor(column_tiles)
                           .put_divisor(row_tiles)
                           .put_walk(rest.sizes, rest.strides)
                           .finish();
      return {std::move(job)};
    }
  }

  // Neighbours that are neighbours on both sides, as far as everything else stays aligned.
  int64_t vector = 16 / element_bytes;
  if (rank == 0 || in_by.back() != 1 || out_by.back() != 1) vector = 1;
  auto aligned = [&] {
    if (axes.sizes.back() % vector || from % vector || to % vector) return false;
    for (size_t axis = 0; axis + 1 < rank; ++axis)
      if (in_by[axis] % vector || out_by[axis] % vector) return false;
    return true;
  };
  while (vector > 1 && !aligned()) vector /= 2;
  job.entry = "copy";
  job.overlap = true;
  job.source.text = concat(prelude(element_bytes, rank, count, concat(", V = ", vector)),
                           "#include \"backends/cuda/copy/copy.cu\"\n");
  job.shape.grid = {blocks_for(count / vector, 256), 1, 1};
  job.parameters =
      ParameterWriter().put(uint64_t(count / vector)).put(from).put(to).put_walk(axes.sizes, axes.strides).finish();
  return {std::move(job)};
}

std::vector<Job> reorder_jobs(const TensorType& type, Layout from, Layout to) {
  const Dims dims = type.dims();
  if (!simple_layout(from) || !simple_layout(to) || !layout_fits(dims, from) || !layout_fits(dims, to))
    fail(ErrorKind::unsupported, "a reorder of ", type, " from ", from, " to ", to, " on a GPU");
  return copy_jobs(size_of(type.dtype), dims, logical_strides(dims, from), logical_strides(dims, to), 0, 0,
                   {Slot::Kind::input, 0, 0}, {Slot::Kind::output, 0, 0});
}

}  // namespace temper::cuda
