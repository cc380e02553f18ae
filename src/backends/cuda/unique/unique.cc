// SPDX-License-Identifier: Apache-2.0
// unique on GPUs: what is compared is sorted, elements by the kernels of topk and slices by merges; then equal ones
// stand beside each other.
#include "graph/ops/unique.h"

#include "backends/cuda/scan/scan.h"
#include "backends/cuda/support/constants.h"
#include "backends/cuda/support/program_code.h"
#include "backends/cuda/topk/topk.h"
#include "backends/sized_by_data.h"
#include "base/checked.h"

namespace temper::cuda {

namespace {

Support supports(const Problem& problem) {
  if (!problem.op.is<ops::Unique>()) return refused("not a unique");
  if (!is_largest<ops::Unique>(problem, 4)) return refused("its result has no room for the largest size");
  const TensorType& x = problem.inputs[0].type;
  if (is_stored_only(x.dtype)) return refused(name_of(x.dtype), " is not compared");
  if (!small_positions(2 * std::max(element_count(x.dims()), largest_size(problem))))
    return refused("more than 1073709056 elements");
  return supported();
}

std::vector<Config> configs(const Problem& problem, const GpuProperties&) { return {plain_config(problem, "")}; }

Recipe::Work work(const Problem& problem, const Config&, const GpuProperties&) {
  const auto& op = problem.op.get<ops::Unique>();
  const TensorType& x = problem.inputs[0].type;
  const int64_t n = largest_size(problem), elements = element_count(x.dims());
  Recipe::Work out;
  if (n == 0) return out;
  const int64_t inner = op.axis < 0 ? 1 : row_major_strides(x.dims())[size_t(op.axis)],
                outer = op.axis < 0 ? 1 : elements / (n * std::max<int64_t>(inner, 1));
  const auto output = [](int i) { return Slot{Slot::Kind::output, i, 0}; };
  const Slot input{Slot::Kind::input, 0, 0}, total = output(4);
  // A thread has a slice or an element.
  const auto add = [&](std::string entry, std::string_view head, std::vector<Slot> slots,
                       const std::vector<uint32_t>& last, int64_t threads) {
    Job job;
    job.overlap = true;
    job.source.text = concat(include_line("support/memory.cuh"), type_alias("Element", memory_type(x.dtype)), head,
                             include_line(concat("unique/", entry, ".cu")));
    job.entry = std::move(entry);
    job.slots = std::move(slots);
    ParameterWriter parameters;
    parameters.put(uint32_t(n)).put(uint32_t(outer)).put(uint32_t(inner));
    for (const uint32_t number : last) parameters.put(number);
    job.parameters = parameters.finish(4);
    job.shape.block = {256, 1, 1};
    job.shape.grid = {blocks_for(threads, 256), 1, 1};
    out.jobs.push_back(std::move(job));
  };
  Slot order = out.place(n * 8);
  if (inner == 1 && outer == 1) {
    const Slot sorted = out.place(n * size_of(x.dtype));
    out.workspace += add_sort({.element = memory_type(x.dtype),
                               .bytes = size_of(x.dtype),
                               .n = n,
                               .k = n,
                               .input = input,
                               .values = sorted,
                               .indices = order,
                               .workspace = out.workspace},
                              out.jobs);
  } else {
    Slot merged = out.place(n * 8);
    int64_t run = 1;
    do {  // of a single slice, too, so that its number is written
      add("unique_merge", "", {input, order, merged}, {uint32_t(run)}, n);
      std::swap(order, merged);
      run *= 2;
    } while (run < n);
  }
  const Slot begins = out.place(n), counts = out.place(ceil_div(n, kScanTile) * 4), begins_at = out.place(n * 4),
             group_of = out.place(n * 4), is_earliest = out.place(n), place_of = out.place(n * 4), again = out.place(8);
  const std::string flags = tiles_head(1, false);
  const auto add_tiles = [&](std::string entry, std::vector<Slot> slots) {
    std::string text = concat(flags, include_line(concat("unique/", entry, ".cu")));
    out.jobs.push_back(tiles_job(std::move(entry), std::move(text), std::move(slots),
                                 ParameterWriter().put(uint32_t(n)).finish(4), n));
  };
  add("unique_begins", "", {input, order, begins}, {}, n);
  add_count(begins, flags, n, counts, total, out.jobs);
  add_tiles("unique_groups", {begins, order, counts, begins_at, group_of, is_earliest});
  if (!op.sorted) {
    add_count(is_earliest, flags, n, counts, again, out.jobs);
    add_tiles("unique_places", {is_earliest, counts, group_of, place_of});
  }
  add("unique_write", bool_constants({{"SORTED", op.sorted}}),
      {input, order, begins_at, group_of, is_earliest, place_of, total, output(0), output(1), output(2), output(3)},
      {uint32_t(elements)}, std::max(n, elements));
  return out;
}

}  // namespace

extern const Recipe unique_recipe;
const Recipe unique_recipe{"cuda.unique", 1, supports, configs, work};

}  // namespace temper::cuda
