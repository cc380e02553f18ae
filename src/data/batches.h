// SPDX-License-Identifier: Apache-2.0
// Samples in batches: which of the data are taken, how many at a time, and what a session makes of them.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/progress.h"
#include "data/dataset.h"
#include "graph/graph.h"
#include "runtime/engine.h"

namespace temper {

// The inputs of an imported model, as open_dataset wants them.
std::vector<InputSpec> input_specs(const Graph& imported);

// The samples that a workflow is asked to use.
struct DataRequest {
  std::string path;                      // "": the arrays
  std::map<std::string, Tensor> arrays;  // see open_arrays
  DatasetOptions options;
  int64_t samples = 0;  // so many of them, chosen by the seed; 0: what is usual
  uint64_t seed = 0;
  bool strict = false;                                // a picture that cannot be read is an error
  std::optional<std::vector<Unreadable>> unreadable;  // found before, by find_unreadable: nothing is looked at again

  std::string name() const { return path.empty() ? "<arrays>" : path; }  // for messages
  Dataset open(const std::vector<InputSpec>& inputs) const;
};

struct BatchSizes {
  int64_t size = 1;  // samples at a time; the last batch may be smaller
  int64_t min = 1;   // fewest samples that the engine takes: a smaller last batch is filled up to that with copies of
                     // its last sample, whose outputs are cut off again
};

// --samples of the data in `path`, chosen by the seed: `standard` of them where `asked` is 0, all where that is 0 too.
// Fewer than asked for is a warning, none at all Error{usage}.
std::vector<int64_t> samples_of(const Dataset& data, const std::string& path, int64_t asked, uint64_t seed,
                                int64_t standard = 0);
std::vector<int64_t> samples_of(const Dataset& data, const DataRequest& request, int64_t standard = 0);

// The samples that one of several workers takes of a list that all of them have: every `of`-th batch, from `number` on.
// Batches stay what they are for one worker, so that all numbers come out the same.
struct BatchShare {
  int64_t number = 0, of = 1;
};
std::vector<int64_t> share_of(std::span<const int64_t> samples, int64_t batch, const BatchShare& share);

// Those of the samples whose picture cannot be read.
std::vector<Unreadable> find_unreadable(const Dataset& data, std::span<const int64_t> samples,
                                        const Progress& progress = {});

// Takes out of `samples` those whose picture cannot be read: a warning with their number and the first names. With
// `strict` nothing is looked at, and the first such picture is an error when it is reached. Throws the picture's own
// error where there is one sample, and Error{bad_file} where none of several can be read.
std::vector<Unreadable> leave_out(const Dataset& data, const std::string& path, std::vector<int64_t>& samples,
                                  bool strict, const Progress& progress = {});
std::vector<Unreadable> leave_out(const Dataset& data, const DataRequest& request, std::vector<int64_t>& samples,
                                  const Progress& progress = {});

// The samples batch by batch, in the order given. `what` ("evaluating") is shown as progress.
void for_each_batch(const Dataset& data, std::span<const int64_t> samples, const BatchSizes& sizes,
                    const std::string& what, const Progress& progress,
                    const std::function<void(const Batch& batch)>& use);
// Runs a batch, filled up to the fewest samples that the engine takes; what was filled in is cut off the outputs again.
std::vector<Tensor> run_batch(Session& session, const Dataset& data, const Batch& batch, const BatchSizes& sizes);

// The outputs of all batches, joined along the first axis. A single batch may give anything; with more, each output
// must have the samples on its first axis and the same shape behind it (Error{unsupported}, naming the output,
// otherwise). What is undefined stays so.
class OutputCollector {
 public:
  explicit OutputCollector(std::vector<std::string> names) : names_(std::move(names)), pieces_(names_.size()) {}
  void add(const Batch& batch, const std::vector<Tensor>& outputs);
  std::vector<Tensor> finish();

 private:
  std::vector<std::string> names_;
  std::vector<std::vector<Tensor>> pieces_;  // by output, then by batch
  std::vector<int64_t> counts_;              // samples, by batch
};

}  // namespace temper
