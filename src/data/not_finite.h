// SPDX-License-Identifier: Apache-2.0
// Finds, counts and names NaN and infinity in what goes into a model and in what comes out.
#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "graph/tensor.h"

namespace temper {

class NotFinite {
 public:
  // `what` ("the input 'x'") is what warnings begin with; `samples` are the names of those along the first axis. A
  // tensor without that axis is looked at as one. Only floats hold such values.
  void look(const std::string& what, const Tensor& tensor, std::span<const std::string> samples);

  struct Found {
    int64_t values = 0, samples = 0;  // how many there are, and in how many samples
    std::string sample;               // the first
    std::string value;                // "NaN" or "infinity"
    Dims index;                       // in that sample; of a tensor without samples, in it
  };
  const std::map<std::string, Found>& found() const { return found_; }
  // Adds what was found in later samples.
  void join(const std::map<std::string, Found>& next);
  // "the input 'x' holds 3 values that are NaN or infinite, in 1 of 200 samples, first NaN at [0,3,3] of sample '150'"
  std::vector<std::string> warnings(int64_t samples) const;

 private:
  std::map<std::string, Found> found_;
};

}  // namespace temper
