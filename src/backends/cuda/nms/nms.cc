// SPDX-License-Identifier: Apache-2.0
// nms on GPUs: the scores of each class are sorted, a block chooses the boxes of one, and what all chose is written
// behind each other.
#include "graph/ops/nms.h"

#include "backends/cuda/scan/scan.h"
#include "backends/cuda/support/constants.h"
#include "backends/cuda/topk/topk.h"
#include "backends/sized_by_data.h"
#include "base/checked.h"

namespace temper::cuda {

namespace {

Support supports(const Problem& problem) {
  if (!problem.op.is<ops::Nms>()) return refused("not an nms");
  if (!is_largest<ops::Nms>(problem, 1)) return refused("its result has no room for the largest size");
  if (!small_positions(2 * element_count(problem.inputs[1].dims()))) return refused("more than 1073709056 scores");
  if (!small_positions(2 * element_count(problem.inputs[0].dims()))) return refused("more than 268427264 boxes");
  return supported();
}

std::vector<Config> configs(const Problem& problem, const GpuProperties&) { return {plain_config(problem, "")}; }

Recipe::Work work(const Problem& problem, const Config&, const GpuProperties&) {
  const Dims scores = problem.inputs[1].dims();
  const int64_t count = scores[2], classes = scores[1], rows = scores[0] * classes, entries = rows * count,
                room = largest_size(problem);
  Recipe::Work out;
  if (room == 0) return out;
  const int64_t most = room / rows;
  const auto has = [&](size_t i) { return i < problem.inputs.size() && problem.inputs[i].present; };
  const auto input = [&](int i) { return Slot{Slot::Kind::input, has(size_t(i)) ? i : 0, 0}; };
  const Slot keys = out.place(entries * 4), sorted = out.place(entries * 4), places = out.place(entries * 8),
             chosen = out.place(rows * most * 4), counts = out.place(rows * 4), boxes{Slot::Kind::output, 0, 0},
             total{Slot::Kind::output, 1, 0};
  const std::string has_least = bool_constants({{"HAS_LEAST", has(4)}});
  const auto job = [&](std::string entry, const std::string& head, std::vector<Slot> slots, int64_t blocks) {
    Job each;
    each.overlap = true;
    each.source.text = concat(head, include_line(concat("nms/", entry, ".cu")));
    each.entry = std::move(entry);
    each.slots = std::move(slots);
    each.parameters = ParameterWriter()
                          .put(uint32_t(entries))
                          .put(uint32_t(count))
                          .put(uint32_t(classes))
                          .put(uint32_t(most))
                          .put_divisor(classes)
                          .put_divisor(most)
                          .finish(4);
    each.shape.block = {256, 1, 1};
    each.shape.grid = {uint32_t(blocks), 1, 1};
    return each;
  };
  out.jobs.push_back(job("nms_keys", has_least, {input(1), input(4), keys}, blocks_for(entries, 256)));
  out.workspace += add_sort({.element = "u32",
                             .rows = rows,
                             .n = count,
                             .k = count,
                             .input = keys,
                             .values = sorted,
                             .indices = places,
                             .workspace = out.workspace},
                            out.jobs);
  out.jobs.push_back(job(
      "nms_choose", has_least + bool_constants({{"CENTER", problem.op.get<ops::Nms>().center}, {"HAS_IOU", has(3)}}),
      {input(0), input(2), input(3), sorted, places, chosen, counts}, rows));
  out.jobs.push_back(scan_job(counts, total, rows));
  out.jobs.push_back(job("nms_write", "", {chosen, counts, total, boxes}, blocks_for(rows * most, 256)));
  return out;
}

}  // namespace

extern const Recipe nms_recipe;
const Recipe nms_recipe{"cuda.nms", 1, supports, configs, work};

}  // namespace temper::cuda
