// SPDX-License-Identifier: Apache-2.0
#include "cli/calibrate_run.h"

#include <algorithm>

#include "cli/model.h"
#include "data/random.h"
#include "data/sample.h"
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
  Observer observer(graph, options);
  std::vector<uint64_t> hashes;
  Progress progress(context);
  for (int64_t first = 0; first < count; first += batch) {
    progress.show(concat("calibrating: ", first, " of ", count, " samples"));
    Batch part = gather_batch(data, std::span(what.samples).subspan(size_t(first), size_t(std::min(batch, count - first))));
    fill_up(data, part.inputs, fixed);
    observer.observe(part.inputs, part.names, fixed);
    hashes.insert(hashes.end(), part.hashes.begin(), part.hashes.end());
  }
  Observation all = observer.finish(std::move(hashes));
  all.batch = batch;
  return all;
}

Observation observe_noise(const ImportedModel& model, int64_t samples, uint64_t seed, BuildOptions options, const Context& context) {
  Observer observer(model.graph, options);
  Progress progress(context);
  for (int64_t s = 0; s < samples; ++s) {
    progress.show(concat("calibrating on noise: ", s, " of ", samples));
    std::vector<Tensor> inputs;
    for (const PortInfo& port : observer.engine().inputs()) {
      const Dims& dims = observer.engine().info().shapes.at(port.name).opt;
      inputs.push_back(random_tensor(port.type.dtype, dims, seed + uint64_t(s) * observer.engine().inputs().size() + inputs.size()));
    }
    observer.observe(inputs, {concat(s)});
  }
  Observation all = observer.finish();
  all.batch = 1;
  return all;
}

}  // namespace temper::cli
