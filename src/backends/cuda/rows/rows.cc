// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/rows/rows.h"

#include <algorithm>

#include "backends/axes.h"
#include "backends/cuda/support/constants.h"
#include "backends/cuda/support/program_code.h"

namespace temper::cuda {

Recipe::Work rows_work(const TensorType& x, Layout layout, const std::vector<int64_t>& axes, const Dims& out_strides,
                       DType output, std::string_view entry, const std::string& constants, double number) {
  const Dims dims = x.dims(), strides = logical_strides(dims, layout);
  // Axes in the order of x's memory, so that neighbouring threads find neighbouring elements.
  std::vector<size_t> order(dims.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return strides[a] > strides[b]; });
  Axes kept{{}, {{}, {}}}, reduced{{}, {{}, {}}};
  int64_t rows = 1, n = 1, inner_reduced = 0;
  for (size_t axis : order) {
    const bool along = std::binary_search(axes.begin(), axes.end(), int64_t(axis));
    Axes& to = along ? reduced : kept;
    (along ? n : rows) *= dims[axis];
    to.sizes.push_back(dims[axis]);
    to.strides[0].push_back(strides[axis]);
    to.strides[1].push_back(out_strides[axis]);
    if (along && dims[axis] > 1) inner_reduced = strides[axis];
  }
  Recipe::Work out;
  if (rows == 0) return out;
  if (n > 0) merge_axes(reduced);
  else reduced = {{}, {{}, {}}};
  merge_axes(kept);
  // Threads share a row where its elements are neighbours, or where there are too few rows to fill a GPU.
  const int lanes = n <= 4                    ? 1
                    : inner_reduced == 1      ? (n > 1024 ? 256 : 32)
                    : rows >= 16384 || n < 64 ? 1
                    : n > 1024 && rows < 256  ? 256
                                              : 32;
  Job job;
  job.entry = entry;
  job.overlap = true;
  job.slots = {{Slot::Kind::input, 0, 0}, {Slot::Kind::output, 0, 0}};
  job.source.text =
      concat(include_line("support/scalar.cuh"),
             int_constants({{"LANES", lanes}, {"KEPT", kept.sizes.size()}, {"REDUCED", reduced.sizes.size()}}),
             type_alias("Index", small_positions(std::max(rows, n)) ? "u32" : "u64"),
             type_alias("Input", memory_type(x.dtype)), type_alias("Output", memory_type(output)), constants,
             include_line(concat(entry, '/', entry, ".cu")));
  job.shape.block = {256, 1, 1};
  job.shape.grid = {blocks_for(rows * lanes, 256), 1, 1};
  job.parameters = ParameterWriter()
                       .put(uint64_t(rows))
                       .put(uint64_t(n))
                       .put(1.0 / double(n))
                       .put(number)
                       .put_walk(kept.sizes, kept.strides)
                       .put_walk(reduced.sizes, reduced.strides)
                       .finish();
  out.jobs.push_back(std::move(job));
  return out;
}

}  // namespace temper::cuda
