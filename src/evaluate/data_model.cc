// SPDX-License-Identifier: Apache-2.0
#include "evaluate/data_model.h"

#include <algorithm>
#include <utility>

#include "data/carried.h"
#include "data/given_inputs.h"

namespace temper {

DataModel::DataModel(std::shared_ptr<const Engine> engine, std::string plan_path)
    : plan_path_(std::move(plan_path)), engine_(std::move(engine)) {
  take_ports();
}

DataModel::DataModel(ModelSource model, BuildOptions options) : model_(std::move(model)), options_(std::move(options)) {
  // With shapes the user has said what to build for; otherwise the data will.
  if (!options_.shapes.empty()) {
    engine_ = build_engine(*model_, options_);
    take_ports();
    return;
  }
  if (!options_.buckets.empty())
    fail(ErrorKind::usage,
         "--buckets are batches of a range, and without --shapes the model is built for those of the data; leave "
         "--buckets out, or give a range in --shapes");
  read_ = model_->import(options_.limits);
  inputs_ = input_specs(*read_, model_->path);
  if (const auto ranges = ranges_of(options_)) remember(inputs_, ranges->preprocess, "the calibration");
  for (const GraphOutput& output : read_->graph.outputs()) outputs_.push_back(output.name);
}

void DataModel::take_ports() {
  inputs_ = input_specs(*engine_);
  for (const PortInfo& output : engine_->outputs()) outputs_.push_back(output.name);
}

BatchSizes DataModel::choose_batch(const Dataset& data, int64_t asked) const {
  constexpr int64_t kMost =
      32;  // enough to fill the machine, few enough to keep decoded pictures and activations small
  BatchSizes sizes{std::clamp<int64_t>(asked > 0 ? asked : data.size(), 1, asked > 0 ? asked : kMost), 1};
  if (data.size() == 0 && asked == 0) sizes = {0, 0};  // a run without a sample
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (!data.has_samples(i)) continue;
    const Dim& dim = inputs_[i].type.shape[0];
    int64_t min = sizes.min, most = 0;
    if (dim.is_constant()) {
      min = most = dim.value();
      sizes.size = asked > 0 ? asked : most;
    } else if (engine_) {
      const auto range = engine_->info().shapes.find(inputs_[i].name);
      if (range == engine_->info().shapes.end()) continue;
      min = range->second.min[0];
      most = range->second.max[0];
      if (asked == 0) sizes.size = std::clamp(data.size(), min, range->second.opt[0]);
    }
    sizes.min = std::max(sizes.min, min);
    if (most > 0 && (sizes.size < min || sizes.size > most))
      fail(ErrorKind::usage, "input '", inputs_[i].name, "' ", inputs_[i].type, " takes batches of ", min,
           min == most ? std::string() : concat(" to ", most), ", not of ", sizes.size,
           engine_ ? "; build a plan for that batch with --shapes" : "; export the model with a symbolic batch");
  }
  return sizes;
}

std::shared_ptr<const Engine> DataModel::engine(const Dataset& data, const BatchSizes& batch, int64_t count,
                                                bool measured) {
  if (engine_) return engine_;
  const std::vector<Tensor> sample = data.batch(0, std::min<int64_t>(1, data.size())).inputs;
  const int64_t rest = batch.size ? (count ? count : data.size()) % batch.size : 0;
  BuildOptions options = options_;
  std::map<std::string, ShapeRange> shapes;
  std::string symbol;  // of the batch: a state may have it, too
  for (size_t i = 0; i < inputs_.size(); ++i)
    if (data.has_samples(i) && inputs_[i].type.shape[0].is_symbol()) symbol = inputs_[i].type.shape[0].text();
  for (size_t i = 0; i < inputs_.size(); ++i) {
    Dims dims = sample[i].dims();
    for (size_t axis = 0; !symbol.empty() && axis < dims.size(); ++axis)
      if (inputs_[i].type.shape[axis].text() == symbol) dims[axis] = batch.size;
    Dims least = dims;
    if (data.has_samples(i)) {
      dims[0] = batch.size;
      least[0] = inputs_[i].type.shape[0].is_constant() || rest == 0 ? batch.size : rest;
    }
    shapes[inputs_[i].name] = {least, dims, dims};
  }
  options.replace_shapes(shapes);
  options.preprocess = data.preprocess();
  options.batch_buckets = false;
  if (!measured) options.measure = options.segments = false;
  auto read = std::exchange(read_, std::nullopt);  // a build that fails has used it up
  return engine_ = read ? build_engine(*model_, std::move(*read), options) : build_engine(*model_, options);
}

void DataModel::accept_batch(const Dataset& data, BatchSizes& batch) const {
  batch.min = std::max(batch.min, choose_batch(data, batch.size).min);
}

}  // namespace temper
