// SPDX-License-Identifier: Apache-2.0
// Statistics of counts: how often something was right.
#pragma once
#include <cstdint>

#include "measure/statistics.h"

namespace temper {

// Wilson's score interval for a proportion (E. B. Wilson, 1927); z = 1.96 gives 95 %. [0, 1] where n is 0.
Interval wilson_interval(int64_t successes, int64_t n, double z = 1.959963984540054);

// Two classifiers on the same samples (Q. McNemar, 1947): only the samples on which one is right and the other wrong
// tell them apart.
struct McNemar {
  int64_t n = 0;     // samples
  int64_t lost = 0;  // the first was right, the second wrong
  int64_t won = 0;   // the other way round
  // Exact and two-sided: were both alike, lost would be Binomial(lost + won, 1/2). 1 where both counts are 0.
  double p() const;
  double drop() const;  // (lost - won) / n: by how much the second is right less often; 0 where n is 0
  // 95 %, after A. Agresti and Y. Min (2005): Wald's interval for matched pairs after adding 1/2 to each of the four
  // counts, so that few samples without a difference do not look like proof that there is none.
  Interval drop_interval() const;
};

}  // namespace temper
