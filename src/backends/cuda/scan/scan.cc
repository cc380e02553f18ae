// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/scan/scan.h"

namespace temper::cuda {

Job scan_job(const Slot& counts, const Slot& total, int64_t n) {
  Job job;
  job.entry = "scan_counts";
  job.overlap = true;
  job.source.text = "#include \"backends/cuda/scan/scan.cu\"\n";
  job.slots = {counts, total};
  job.parameters = ParameterWriter().put(uint32_t(n)).finish(4);
  job.shape.block = {1024, 1, 1};
  job.shape.grid = {1, 1, 1};
  return job;
}

}  // namespace temper::cuda
