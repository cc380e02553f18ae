// SPDX-License-Identifier: Apache-2.0
#include "cli/calibrate_run.h"

#include <algorithm>
#include <mutex>
#include <optional>

#include "base/threads.h"
#include "build/trial.h"
#include "cli/model.h"
#include "data/random.h"
#include "data/sample.h"
#include "quantize/observe.h"

namespace temper::cli {

namespace {

constexpr int64_t kMostBytes = int64_t(256) << 20;  // of all values of a batch: they are outputs, so all live at once

Tensor first_samples(const Tensor& tensor, int64_t count) {
  Dims dims = tensor.dims();
  dims[0] = count;
  return Tensor::view(tensor.dtype(), dims, tensor.raw().data());
}

// One batch: inputs as run, of which the first samples, as many as there are names, are real.
void observe_batch(Observation& all, const ObservedModel& model, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs, const std::vector<std::string>& names, int64_t filled) {
  const auto count = int64_t(names.size());
  std::vector<std::pair<int, const Tensor*>> work;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (model.inputs[i] >= 0) work.emplace_back(model.inputs[i], &inputs[i]);
  for (size_t i = 0; i < outputs.size(); ++i)
    for (int place : model.outputs[i]) work.emplace_back(place, &outputs[i]);
  std::mutex mutex;
  std::optional<Error> failure;
  int failed_place = 0;
  // One value is one piece of work, so no two threads meet in a histogram.
  parallel_for(int64_t(work.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto& [place, tensor] = work[size_t(i)];
      const std::string& name = model.order[size_t(place)];
      const bool cut = filled > count && tensor->rank() > 0 && tensor->dims()[0] == filled;
      try {
        observe(all.values.at(name), cut ? first_samples(*tensor, count) : *tensor, name, names);
      } catch (const Error& error) {
        // Of several, the one nearest to the inputs: the others follow from it.
        const std::lock_guard lock(mutex);
        if (!failure || place < failed_place) failure = error, failed_place = place;
      }
    }
  });
  if (failure) throw *failure;
}

// Runs batch after batch into the same buffers: every value is an output, and memory that is given back and taken again
// for each batch would leave the heap in pieces.
class Runner {
 public:
  explicit Runner(std::shared_ptr<const Engine> engine) : session_(std::move(engine)) {}
  const std::vector<Tensor>& run(const std::vector<Tensor>& inputs) {
    std::vector<Dims> shapes;
    for (const Tensor& input : inputs) shapes.push_back(input.dims());
    if (shapes_ != shapes) {
      outputs_.clear();
      const std::vector<TensorType> types = session_.prepare(shapes);
      shapes_ = shapes;
      if (!session_.is_staged())
        for (const TensorType& type : types) outputs_.emplace_back(type.dtype, type.dims());
    }
    if (session_.is_staged()) return outputs_ = session_.run(inputs);
    std::vector<const void*> in;
    std::vector<void*> out;
    for (const Tensor& input : inputs) in.push_back(input.raw().data());
    for (Tensor& output : outputs_) out.push_back(output.raw_mutable());
    session_.run_prepared(in, out);
    return outputs_;
  }

 private:
  Session session_;
  std::vector<Dims> shapes_;
  std::vector<Tensor> outputs_;
};

Observation start(const ObservedModel& model) {
  Observation all;
  all.order = model.order;
  for (const std::string& name : model.order) all.values[name];
  return all;
}

int64_t observed_bytes(const Graph& graph) {
  int64_t bytes = 0;
  for (ValueId id : observed_values(graph))
    if (graph.type(id).is_concrete()) bytes += byte_count(DType::f32, graph.type(id).dims());
  return bytes;
}

}  // namespace

ObservedModel observe_model(const ImportedModel& model, const BuildOptions& options) {
  ObservedModel observed;
  EngineInfo info;
  observed.graph = optimised_graph(model.graph, info, options);
  Graph all = observed.graph;
  for (ValueId id : observed_values(observed.graph)) {
    const Value& value = observed.graph.value(id);
    observed.order.push_back(value.name);
    const auto& inputs = observed.graph.inputs();
    const bool is_input = std::find(inputs.begin(), inputs.end(), id) != inputs.end();
    if (!is_input && !observed.graph.is_output(id)) all.add_output(value.name, id);
  }
  auto place_of = [&](ValueId id) {
    const auto it = std::find(observed.order.begin(), observed.order.end(), all.value(id).name);
    const bool observes = all.type(id).dtype == DType::f32 && !all.value(id).constant;
    return observes && it != observed.order.end() ? int(it - observed.order.begin()) : -1;
  };
  std::vector<bool> taken(observed.order.size());
  for (ValueId id : all.inputs()) {
    observed.inputs.push_back(place_of(id));
    if (observed.inputs.back() >= 0) taken[size_t(observed.inputs.back())] = true;
  }
  for (const GraphOutput& output : all.outputs()) {
    // A value that is two outputs, or input and output, counts once.
    const int place = place_of(output.value);
    observed.outputs.push_back(place >= 0 && !taken[size_t(place)] ? std::vector<int>{place} : std::vector<int>{});
    if (place >= 0) taken[size_t(place)] = true;
  }
  observed.shapes = info.shapes;
  BuildOptions quick = options;
  quick.shapes = info.shapes;
  observed.engine = trial_engine(std::move(all), quick);
  return observed;
}

Observation observe_samples(const ImportedModel& model, const Dataset& data, const CalibrationData& what, BuildOptions options, const Context& context) {
  const Graph& graph = model.graph;
  const std::vector<Tensor> sample = data.batch(what.samples.at(0), 1).inputs;
  int64_t fixed = 0;  // the model's own batch
  for (size_t i = 0; i < sample.size(); ++i)
    if (data.has_samples(i))
      if (const Dim& dim = graph.type(graph.inputs()[i]).shape[0]; dim.is_constant()) fixed = dim.value();
  if (fixed && what.batch && what.batch != fixed) fail(ErrorKind::usage, "the model takes batches of ", fixed, ", not of ", what.batch, "; leave --batch out");
  const int64_t count = int64_t(what.samples.size());
  auto shapes_for = [&](int64_t batch) {
    const int64_t rest = fixed || count % batch == 0 ? batch : count % batch;
    for (size_t i = 0; i < sample.size(); ++i) {
      Dims dims = sample[i].dims(), least = dims;
      if (data.has_samples(i)) dims[0] = batch, least[0] = rest;
      options.shapes[graph.value(graph.inputs()[i]).name] = {least, dims, dims};
    }
  };
  int64_t batch = fixed ? fixed : std::min(count, what.batch ? what.batch : 1);
  if (!fixed && !what.batch) {
    // As imported, more values exist than are observed later: the estimate is on the safe side.
    std::vector<Dims> dims;
    for (const Tensor& input : sample) dims.push_back(input.dims());
    const int64_t bytes = observed_bytes(specialize(graph, bind_shapes(graph, dims)));
    batch = std::clamp<int64_t>(kMostBytes / std::max<int64_t>(bytes, 1), 1, std::min<int64_t>(count, 32));
  }
  shapes_for(batch);
  const ObservedModel observed = observe_model(model, options);
  Runner runner(observed.engine);
  Observation all = start(observed);
  all.graph = observed.graph;
  all.shapes = observed.shapes;
  all.batch = batch;
  Progress progress(context);
  for (int64_t first = 0; first < count; first += batch) {
    progress.show(concat("calibrating: ", first, " of ", count, " samples"));
    Batch part = gather_batch(data, std::span(what.samples).subspan(size_t(first), size_t(std::min(batch, count - first))));
    fill_up(data, part.inputs, fixed);
    const std::vector<Tensor>& outputs = runner.run(part.inputs);
    observe_batch(all, observed, part.inputs, outputs, part.names, fixed);
    all.sample_hashes.insert(all.sample_hashes.end(), part.hashes.begin(), part.hashes.end());
    all.samples += part.count;
  }
  std::sort(all.sample_hashes.begin(), all.sample_hashes.end());
  all.sample_hashes.erase(std::unique(all.sample_hashes.begin(), all.sample_hashes.end()), all.sample_hashes.end());
  return all;
}

Observation observe_noise(const ImportedModel& model, int64_t samples, uint64_t seed, BuildOptions options, const Context& context) {
  const ObservedModel observed = observe_model(model, options);
  Runner runner(observed.engine);
  Observation all = start(observed);
  all.batch = 1;
  Progress progress(context);
  for (int64_t s = 0; s < samples; ++s) {
    progress.show(concat("calibrating on noise: ", s, " of ", samples));
    std::vector<Tensor> inputs;
    for (const PortInfo& port : observed.engine->inputs()) {
      const Dims& dims = observed.engine->info().shapes.at(port.name).opt;
      inputs.push_back(random_tensor(port.type.dtype, dims, seed + uint64_t(s) * observed.engine->inputs().size() + inputs.size()));
    }
    observe_batch(all, observed, inputs, runner.run(inputs), {concat(s)}, 0);
    ++all.samples;
  }
  return all;
}

}  // namespace temper::cli
