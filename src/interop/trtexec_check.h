// SPDX-License-Identifier: Apache-2.0
// Checks whether the numbers of a trtexec log agree with each other. They are redundant: means add up, throughput is
// queries over time, order statistics are ordered. A log that was edited, mixed or cut in the middle of a number fails.
#pragma once
#include "interop/trtexec_log.h"

namespace temper {

struct TrtexecChecks {
  int done = 0;                       // checks for which the log has the numbers
  std::vector<std::string> failures;  // one sentence each
  // Timed queries: of the text, or where the text does not say, as they follow from throughput, time and total GPU
  // time, if that leaves no doubt.
  std::optional<int64_t> queries;
  std::optional<double> about_queries;  // where doubt remains: throughput × time
  bool queries_derived = false;
};

// `implicit_batch`: N of --batch=N with an implicit batch dimension, in which case the log counts N for each query;
// else 1.
TrtexecChecks check_numbers(const TrtexecRun& run, int64_t implicit_batch);

// Which element of N sorted times trtexec takes as the percentile, counted from the largest: 0 is the maximum itself.
int64_t trtexec_percentile_excludes(double percent, int64_t queries);

}  // namespace temper
