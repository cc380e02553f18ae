// SPDX-License-Identifier: Apache-2.0
// Observes a model in FP32 on the samples of a data set, or on noise.
#pragma once
#include <memory>
#include <vector>

#include "calibrate/observer.h"
#include "cli/verb.h"
#include "data/dataset.h"
#include "onnx/import.h"

namespace temper::cli {

// Runs samples of a data set and observes. Memory does not depend on their number, but for 8 bytes each.
class SampleObserver {
 public:
  // The samples come in parts, of which the first is not empty, each in batches of `batch`; 0: so that all values of a
  // batch take at most 256 MiB.
  SampleObserver(const ImportedModel& model, const Dataset& data, std::vector<std::vector<int64_t>> parts,
                 int64_t batch, BuildOptions options, const Context& context);

  void observe(size_t part);
  const Observation& seen() const { return observer_->seen(); }
  const std::vector<uint64_t>& hashes() const { return hashes_; }  // of the samples so far
  int64_t batch() const { return batch_; }
  Observation finish();

 private:
  const Dataset& data_;
  const Context& context_;
  std::vector<std::vector<int64_t>> parts_;
  int64_t batch_ = 1, fixed_ = 0;  // the model's own batch, 0 where it is open
  std::unique_ptr<Observer> observer_;
  std::vector<uint64_t> hashes_;
};
// The same on seeded noise, for want of data. Shapes are those of the options; open batches are 1.
Observation observe_noise(const ImportedModel& model, int64_t samples, uint64_t seed, BuildOptions options,
                          const Context& context);

}  // namespace temper::cli
