// SPDX-License-Identifier: Apache-2.0
// Shared by verbs that run a model over data: the batch, the engine for it, the loop, and the outputs of all batches as
// one.
#pragma once
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/model.h"
#include "data/dataset.h"

namespace temper::cli {

// Of an imported model, as open_dataset wants them.
std::vector<InputSpec> input_specs(const Graph& imported);

struct BatchSizes {
  int64_t size = 1;  // samples at a time; the last batch may be smaller
  int64_t min = 1;   // fewest samples that the engine takes: a smaller last batch is filled up to that with copies of
                     // its last sample, whose outputs are cut off again
};

// A MODEL|PLAN argument between two moments: its inputs are needed to open the data, and the data to know the shapes to
// build for.
class DataModel {
 public:
  DataModel(const std::string& path, const ModelFlags& flags, const Context& context);

  const std::vector<InputSpec>& inputs() const { return inputs_; }
  const std::vector<std::string>& outputs() const { return outputs_; }
  // `asked` is --batch, 0 where it was not given: then what the model fixes, the shape that a plan is tuned for, or all
  // samples up to 32. Throws Error{usage} where the model does not take that many.
  BatchSizes choose_batch(const Dataset& data, int64_t asked) const;
  // A plan as it is; an ONNX model built for this batch and for the smaller last one of `count` samples (0: all).
  // `measured` false: built as a trial, for its answers.
  std::shared_ptr<const Engine> engine(const Dataset& data, const BatchSizes& batch, int64_t count = 0,
                                       bool measured = true);
  // As choose_batch, for a batch that another engine has chosen already.
  void accept_batch(const Dataset& data, BatchSizes& batch) const;

 private:
  std::string path_;
  const ModelFlags& flags_;
  const Context& context_;
  std::shared_ptr<const Engine> engine_;  // null: still to be built
  std::vector<InputSpec> inputs_;
  std::vector<std::string> outputs_;
};

// --samples of the data in `path`, chosen by the seed: `standard` of them where `asked` is 0, all where that is 0 too.
// Fewer than asked for is a warning, none at all Error{usage}.
std::vector<int64_t> samples_of(const Dataset& data, const std::string& path, int64_t asked, uint64_t seed,
                                int64_t standard = 0);

// Takes out of `samples` those whose picture cannot be read: a warning with their number and the first names. With
// `strict` nothing is looked at, and the first such picture is an error when it is reached. Throws the picture's own
// error where there is one sample, and Error{bad_file} where none of several can be read.
std::vector<Unreadable> leave_out(const Dataset& data, const std::string& path, std::vector<int64_t>& samples,
                                  bool strict, const Context& context);
nlohmann::ordered_json json_of(const std::vector<Unreadable>& left_out);  // a list of picture, why

// The samples batch by batch, in the order given. `what` ("evaluating") is shown as progress.
void for_each_batch(const Dataset& data, std::span<const int64_t> samples, const BatchSizes& sizes,
                    const std::string& what, const Context& context,
                    const std::function<void(const Batch& batch)>& use);
// Runs a batch, filled up to the fewest samples that the engine takes; what was filled in is cut off the outputs again.
std::vector<Tensor> run_batch(Session& session, const Dataset& data, const Batch& batch, const BatchSizes& sizes);

using UseOutputs = std::function<void(const Batch& batch, const std::vector<Tensor>& outputs)>;
// Runs every batch of these samples.
void for_each_batch(Session& session, const Dataset& data, std::span<const int64_t> samples, const BatchSizes& sizes,
                    const std::string& what, const Context& context, const UseOutputs& use);

// The outputs of all batches, joined along the first axis. A single batch may give anything; with more, each output
// must have the samples on its first axis and the same shape behind it (Error{unsupported}, naming the output,
// otherwise).
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

}  // namespace temper::cli
