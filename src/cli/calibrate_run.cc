// SPDX-License-Identifier: Apache-2.0
#include "cli/calibrate_run.h"

#include <algorithm>

#include "cli/model.h"
#include "data/sample.h"
#include "graph/random.h"
#include "quantize/observe.h"

namespace temper::cli {

namespace {

constexpr int64_t kMostBytes = int64_t(256) << 20;  // of all values of a batch: they are outputs, so all live at once

int64_t observed_bytes(const Graph& graph) {
  int64_t bytes = 0;
  for (ValueId id : observed_values(graph))
    if (graph.type(id).is_concrete()) bytes += byte_count(DType::f32, graph.type(id).dims());
  return bytes;
}

}  // namespace

SampleObserver::SampleObserver(const ImportedModel& model, const Dataset& data, std::vector<std::vector<int64_t>> parts,
                               int64_t batch, BuildOptions options, const Context& context)
    : data_(data), context_(context), parts_(std::move(parts)) {
  const Graph& graph = model.graph;
  const std::vector<Tensor> sample = data.batch(parts_.at(0).at(0), 1).inputs;
  const auto count = int64_t(parts_[0].size());
  for (size_t i = 0; i < sample.size(); ++i)
    if (data.has_samples(i))
      if (const Dim& dim = graph.type(graph.inputs()[i]).shape[0]; dim.is_constant()) fixed_ = dim.value();
  if (fixed_ && batch && batch != fixed_)
    fail(ErrorKind::usage, "the model takes batches of ", fixed_, ", not of ", batch, "; leave --batch out");
  if (fixed_) {
    batch_ = fixed_;
  } else if (batch) {
    batch_ = std::min(count, batch);
  } else {
    // As imported, more values exist than are observed later: the estimate is on the safe side.
    std::vector<Dims> dims;
    for (const Tensor& input : sample) dims.push_back(input.dims());
    const int64_t bytes = observed_bytes(specialize(graph, bind_shapes(graph, dims)));
    batch_ = std::clamp<int64_t>(kMostBytes / std::max<int64_t>(bytes, 1), 1, std::min<int64_t>(count, 32));
  }
  int64_t rest = batch_;  // the smallest batch
  for (const auto& part : parts_)
    if (const int64_t last = int64_t(part.size()) % batch_; last && !fixed_) rest = std::min(rest, last);
  for (size_t i = 0; i < sample.size(); ++i) {
    Dims dims = sample[i].dims(), least = dims;
    if (data.has_samples(i)) dims[0] = batch_, least[0] = rest;
    options.shapes[graph.value(graph.inputs()[i]).name] = {least, dims, dims};
  }
  observer_ = std::make_unique<Observer>(graph, options);
}

void SampleObserver::observe(size_t part_number) {
  const std::vector<int64_t>& samples = parts_.at(part_number);
  const auto count = int64_t(samples.size());
  Progress progress(context_);
  for (int64_t first = 0; first < count; first += batch_) {
    progress.show(concat("calibrating: ", first, " of ", count, " samples"));
    Batch part =
        gather_batch(data_, std::span(samples).subspan(size_t(first), size_t(std::min(batch_, count - first))));
    fill_up(data_, part.inputs, fixed_);
    observer_->observe(part.inputs, part.names, fixed_);
    hashes_.insert(hashes_.end(), part.hashes.begin(), part.hashes.end());
  }
}

Observation SampleObserver::finish() {
  Observation all = observer_->finish(std::move(hashes_));
  all.batch = batch_;
  return all;
}

Observation observe_noise(const ImportedModel& model, int64_t samples, uint64_t seed, BuildOptions options,
                          const Context& context) {
  Observer observer(model.graph, options);
  Progress progress(context);
  for (int64_t s = 0; s < samples; ++s) {
    progress.show(concat("calibrating on noise: ", s, " of ", samples));
    std::vector<Tensor> inputs;
    for (const PortInfo& port : observer.engine().inputs()) {
      const Dims& dims = observer.engine().info().shapes.at(port.name).opt;
      inputs.push_back(
          random_tensor(port.type.dtype, dims, seed + uint64_t(s) * observer.engine().inputs().size() + inputs.size()));
    }
    observer.observe(inputs, {concat(s)});
  }
  Observation all = observer.finish();
  all.batch = 1;
  return all;
}

}  // namespace temper::cli
