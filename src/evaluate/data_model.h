// SPDX-License-Identifier: Apache-2.0
// A model between two moments: its inputs are needed to open the data, and the data to know the shapes to build for.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/batches.h"
#include "optimize/model_source.h"

namespace temper {

class DataModel {
 public:
  // An engine as it is. `plan_path`: the file that it was loaded from, "" for none.
  explicit DataModel(std::shared_ptr<const Engine> engine, std::string plan_path = "");
  // A model that is built when the data are known; where the options have shapes, now.
  DataModel(ModelSource model, BuildOptions options);

  const std::vector<InputSpec>& inputs() const { return inputs_; }
  const std::vector<std::string>& outputs() const { return outputs_; }
  const std::optional<ModelSource>& model() const { return model_; }  // of what is or was built here
  const std::string& plan_path() const { return plan_path_; }
  // For what is still to be built.
  void use_threads(int threads) { options_.threads = threads; }

  // `asked` is --batch, 0 where it was not given: then what the model fixes, the shape that a plan is tuned for, or all
  // samples up to 32. Throws Error{usage} where the model does not take that many.
  BatchSizes choose_batch(const Dataset& data, int64_t asked) const;
  // The engine; a model is built for this batch and for the smaller last one of `count` samples (0: all). `measured`
  // false: built as a trial, for its outputs.
  std::shared_ptr<const Engine> engine(const Dataset& data, const BatchSizes& batch, int64_t count = 0,
                                       bool measured = true);
  // As choose_batch, for a batch that another engine has chosen already.
  void accept_batch(const Dataset& data, BatchSizes& batch) const;

 private:
  void take_ports();

  std::optional<ModelSource> model_;
  std::optional<ImportedModel> read_;  // of a model that is still to be built
  std::string plan_path_;
  BuildOptions options_;
  std::shared_ptr<const Engine> engine_;  // null: still to be built
  std::vector<InputSpec> inputs_;
  std::vector<std::string> outputs_;
};

}  // namespace temper
