// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/scan/scan.h"

#include "backends/cuda/support/constants.h"
#include "backends/cuda/support/program_code.h"
#include "base/checked.h"

namespace temper::cuda {

std::string tiles_head(int64_t bytes, bool is_float) {
  const std::string_view word = word_type(bytes);
  return concat(include_line("support/memory.cuh"), type_alias("Word", word), "constexpr Word MASK = Word(~", word,
                "(0))", is_float ? " >> 1" : "", ";\n", constants_of<int64_t>("u32", {{"kTile", kScanTile}}));
}

Job tiles_job(std::string entry, std::string text, std::vector<Slot> slots, std::vector<std::byte> parameters,
              int64_t n) {
  Job job;
  job.entry = std::move(entry);
  job.overlap = true;
  job.source.text = std::move(text);
  job.slots = std::move(slots);
  job.parameters = std::move(parameters);
  job.shape.block = {256, 1, 1};
  job.shape.grid = {blocks_for(n, kScanTile), 1, 1};
  return job;
}

void add_count(const Slot& x, const std::string& head, int64_t n, const Slot& counts, const Slot& total,
               std::vector<Job>& jobs) {
  jobs.push_back(tiles_job("count_tiles", head + include_line("scan/count_tiles.cu"), {x, counts},
                           ParameterWriter().put(uint32_t(n)).finish(4), n));
  jobs.push_back(scan_job(counts, total, ceil_div(n, kScanTile)));
}

Job scan_job(const Slot& counts, const Slot& total, int64_t n) {
  Job job;
  job.entry = "scan_counts";
  job.overlap = true;
  job.source.text = include_line("scan/scan_counts.cu");
  job.slots = {counts, total};
  job.parameters = ParameterWriter().put(uint32_t(n)).finish(4);
  job.shape.block = {1024, 1, 1};
  job.shape.grid = {1, 1, 1};
  return job;
}

}  // namespace temper::cuda
