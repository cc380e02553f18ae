// SPDX-License-Identifier: Apache-2.0
#include "runtime/sample.h"

#include <cmath>
#include <random>

#include "base/error.h"

namespace temper {

void check(const SampleOptions& options) {
  if (!(options.temperature >= 0 && std::isfinite(options.temperature)))
    fail(ErrorKind::usage, "the temperature is ", options.temperature, "; it is a number from 0 on");
  if (options.top_k < 0) fail(ErrorKind::usage, "top-k is ", options.top_k, "; it is a number of tokens, or 0 for all");
  if (!(options.top_p > 0 && options.top_p <= 1))
    fail(ErrorKind::usage, "top-p is ", options.top_p, "; it is above 0 and at most 1");
  if (!(options.repetition_penalty > 0 && std::isfinite(options.repetition_penalty)))
    fail(ErrorKind::usage, "the repetition penalty is ", options.repetition_penalty, "; it is a number above 0");
}

void fill_draws(uint64_t seed, int64_t row, std::span<double> draws) {
  std::mt19937_64 random(seed + 0x9e3779b97f4a7c15u * uint64_t(row));
  for (double& draw : draws) draw = double(random() >> 11) * 0x1p-53;
}

}  // namespace temper
