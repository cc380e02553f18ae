// SPDX-License-Identifier: Apache-2.0
#include "calibrate/observer.h"

#include <algorithm>
#include <mutex>
#include <optional>

#include "base/threads.h"
#include "data/sample.h"
#include "graph/control.h"
#include "optimize/trial.h"
#include "quantize/observe.h"

namespace temper {

// Runs batch after batch into the same buffers: every value is an output, and memory that is given back and taken again
// for each batch would leave the heap in pieces.
struct Observer::Runner {
  explicit Runner(std::shared_ptr<const Engine> engine) : session(std::move(engine)) {}
  const std::vector<Tensor>& run(const std::vector<Tensor>& inputs) {
    std::vector<Dims> shapes;
    shapes.reserve(inputs.size());
    for (const Tensor& input : inputs) shapes.push_back(input.dims());
    if (kept != shapes) {
      outputs.clear();
      const std::vector<TensorType> types = session.prepare(shapes);
      kept = shapes;
      if (!session.is_partitioned())
        for (const TensorType& type : types) outputs.emplace_back(type.dtype, type.dims());
    }
    if (session.is_partitioned()) return outputs = session.run(inputs);
    std::vector<const void*> in;
    in.reserve(inputs.size());
    std::vector<void*> out;
    out.reserve(outputs.size());
    for (const Tensor& input : inputs) in.push_back(input.raw().data());
    for (Tensor& output : outputs) out.push_back(output.raw_mutable());
    session.run_prepared(in, out);
    return outputs;
  }

  Session session;
  std::vector<Dims> kept;  // shapes of the last run
  std::vector<Tensor> outputs;
};

Observer::Observer(const Graph& graph, const BuildOptions& options) {
  EngineInfo info;
  seen_.graph = optimised_graph(graph, info, options);
  if (has_control_flow(seen_.graph))
    fail(ErrorKind::unsupported,
         "data decide which branches of the model run, or how often its loops do; ranges of what lies in them are not "
         "observed. Build it in a float (--precision bf16 or fp16), or give shapes by which its conditions are known");
  Graph all = seen_.graph;
  for (ValueId id : observed_values(seen_.graph)) {
    const Value& value = seen_.graph.value(id);
    seen_.order.push_back(value.name);
    seen_.values[value.name].channels.resize(size_t(observed_channels(seen_.graph, id)));
    const auto& inputs = seen_.graph.inputs();
    const bool is_input = std::find(inputs.begin(), inputs.end(), id) != inputs.end();
    if (!is_input && !seen_.graph.is_output(id)) all.add_output(value.name, id);
  }
  auto place_of = [&](ValueId id) {
    const auto it = std::find(seen_.order.begin(), seen_.order.end(), all.value(id).name);
    const bool observes = all.type(id).dtype == DType::f32 && !all.value(id).constant;
    return observes && it != seen_.order.end() ? int(it - seen_.order.begin()) : -1;
  };
  std::vector<bool> taken(seen_.order.size());
  for (ValueId id : all.inputs()) {
    inputs_.push_back(place_of(id));
    if (inputs_.back() >= 0) taken[size_t(inputs_.back())] = true;
  }
  for (const GraphOutput& output : all.outputs()) {
    // A value that is two outputs, or input and output, counts once.
    const int place = place_of(output.value);
    outputs_.push_back(place >= 0 && !taken[size_t(place)] ? std::vector<int>{place} : std::vector<int>{});
    if (place >= 0) taken[size_t(place)] = true;
  }
  seen_.shapes = info.shapes;
  BuildOptions quick = options;
  quick.replace_shapes(info.shapes);
  runner_ = std::make_unique<Runner>(trial_engine(std::move(all), quick));
}
Observer::~Observer() = default;
Observer::Observer(Observer&&) noexcept = default;

const Engine& Observer::engine() const { return runner_->session.engine(); }

void Observer::observe(const std::vector<Tensor>& inputs, const std::vector<std::string>& names, int64_t filled) {
  const std::vector<Tensor>& outputs = runner_->run(inputs);
  const auto count = int64_t(names.size());
  std::vector<std::pair<int, const Tensor*>> work;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs_[i] >= 0) work.emplace_back(inputs_[i], &inputs[i]);
  for (size_t i = 0; i < outputs.size(); ++i)
    for (int place : outputs_[i]) work.emplace_back(place, &outputs[i]);
  std::mutex mutex;
  std::optional<Error> failure;
  int failed_place = 0;
  // One value is one piece of work, so no two threads meet in a histogram.
  parallel_for(int64_t(work.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto& [place, tensor] = work[size_t(i)];
      const std::string& name = seen_.order[size_t(place)];
      const bool cut = filled > count && tensor->rank() > 0 && tensor->dims()[0] == filled;
      try {
        temper::observe(seen_.values.at(name), cut ? first_samples(*tensor, count) : *tensor, name, names);
      } catch (const Error& error) {
        // Of several failures the one nearest to the inputs counts: the others follow from it.
        const std::lock_guard lock(mutex);
        if (!failure || place < failed_place) failure = error, failed_place = place;
      }
    }
  });
  if (failure) throw *failure;
  seen_.samples += count;
}

void sort_uniquely(std::vector<uint64_t>& sample_hashes) {
  std::sort(sample_hashes.begin(), sample_hashes.end());
  sample_hashes.erase(std::unique(sample_hashes.begin(), sample_hashes.end()), sample_hashes.end());
}

Observation Observer::finish(std::vector<uint64_t> sample_hashes) {
  sort_uniquely(sample_hashes);
  seen_.sample_hashes = std::move(sample_hashes);
  return std::move(seen_);
}

Ranges make_ranges(const Observation& seen, const Method& method) {
  Ranges ranges;
  ranges.method = method.text();
  ranges.samples = seen.samples;
  ranges.sample_hashes = seen.sample_hashes;
  ranges.order = seen.order;
  for (const std::string& name : seen.order)
    ranges.values[name] = make_range(name, method, seen.values.at(name), ranges.notes);
  return ranges;
}

}  // namespace temper
