// SPDX-License-Identifier: Apache-2.0
#include "cli/batches.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "data/sample.h"
#include "onnx/import.h"

namespace temper::cli {
DataModel::DataModel(const std::string& path, const ModelFlags& flags, const Context& context)
    : path_(path), flags_(flags), context_(context) {
  // With --shapes the user has said what to build for; otherwise the data will.
  if (is_plan(path) || !flags.shapes.empty()) {
    engine_ = load_or_build(path, flags, context);
    for (const PortInfo& input : engine_->inputs()) inputs_.push_back({input.name, input.type});
    for (const PortInfo& output : engine_->outputs()) outputs_.push_back(output.name);
    return;
  }
  const Graph graph = import_onnx(path, {{}, memory_limit_of(flags.memory_limit)}).graph;
  inputs_ = input_specs(graph);
  for (const GraphOutput& output : graph.outputs()) outputs_.push_back(output.name);
}

std::vector<InputSpec> input_specs(const Graph& imported) {
  std::vector<InputSpec> specs;
  for (ValueId id : imported.inputs()) specs.push_back({imported.value(id).name, imported.type(id)});
  return specs;
}

BatchSizes DataModel::choose_batch(const Dataset& data, int64_t asked) const {
  constexpr int64_t kMost =
      32;  // enough to fill the machine, few enough to keep decoded pictures and activations small
  BatchSizes sizes{std::clamp<int64_t>(asked > 0 ? asked : data.size(), 1, asked > 0 ? asked : kMost), 1};
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (!data.has_samples(i)) continue;
    const Dim& dim = inputs_[i].type.shape[0];
    int64_t min = 1, most = 0;
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
  const std::vector<Tensor> sample = data.batch(0, 1).inputs;
  const int64_t rest = (count ? count : data.size()) % batch.size;
  BuildOptions options = build_options(flags_, path_, context_);
  for (size_t i = 0; i < inputs_.size(); ++i) {
    Dims dims = sample[i].dims(), least = dims;
    if (data.has_samples(i)) {
      dims[0] = batch.size;
      least[0] = inputs_[i].type.shape[0].is_constant() || rest == 0 ? batch.size : rest;
    }
    options.shapes[inputs_[i].name] = {least, dims, dims};
  }
  options.batch_buckets = false;
  if (!measured) options.measure = options.segments = false;
  Progress progress(context_);
  options.progress = [&](const std::string& text) { progress.show(text); };
  return engine_ = build_engine(path_, options);
}

void DataModel::accept_batch(const Dataset& data, BatchSizes& batch) const {
  batch.min = std::max(batch.min, choose_batch(data, batch.size).min);
}

std::vector<int64_t> samples_of(const Dataset& data, const std::string& path, int64_t asked, uint64_t seed,
                                int64_t standard) {
  if (data.size() == 0) fail(ErrorKind::usage, "'", path, "' holds no samples");
  if (asked > data.size())
    log(LogLevel::warning, "--samples ", asked, ": '", path, "' holds ", data.size(), ", and all of them are taken");
  const int64_t count = asked ? asked : standard;
  return choose_samples(data.size(), count ? count : data.size(), seed);
}

std::vector<Unreadable> leave_out(const Dataset& data, const std::string& path, std::vector<int64_t>& samples,
                                  bool strict, const Context& context) {
  constexpr size_t kAtOnce = 512;  // between two steps of the progress
  std::vector<Unreadable> left_out;
  if (strict) return left_out;
  {
    Progress progress(context);
    for (size_t first = 0; first < samples.size(); first += kAtOnce) {
      if (first) progress.show(concat("looking at picture ", first, " of ", samples.size()));
      for (Unreadable& one :
           data.unreadable(std::span(samples).subspan(first, std::min(kAtOnce, samples.size() - first))))
        left_out.push_back(std::move(one));
    }
  }
  if (left_out.empty()) return left_out;
  if (samples.size() == 1) throw left_out[0].error;
  if (left_out.size() == samples.size())
    fail(ErrorKind::bad_file, "none of the ", samples.size(), " pictures of '", path,
         "' can be read; the first: ", std::string_view(left_out[0].error.what()));
  std::vector<std::string> texts;
  for (const Unreadable& one : left_out) texts.emplace_back(one.error.what());
  log(LogLevel::warning, left_out.size(), " of ", samples.size(), " pictures of '", path, "' cannot be read and ",
      left_out.size() == 1 ? "is" : "are", " left out: ", first_of(texts), "; with --strict this is an error");
  std::erase_if(samples, [&](int64_t sample) {
    return std::any_of(left_out.begin(), left_out.end(), [&](const Unreadable& one) { return one.sample == sample; });
  });
  return left_out;
}

nlohmann::ordered_json json_of(const std::vector<Unreadable>& left_out) {
  auto list = nlohmann::ordered_json::array();
  for (const Unreadable& one : left_out) list.push_back({{"picture", one.name}, {"why", one.error.what()}});
  return list;
}

void for_each_batch(const Dataset& data, std::span<const int64_t> samples, const BatchSizes& sizes,
                    const std::string& what, const Context& context, const std::function<void(const Batch&)>& use) {
  Progress progress(context);
  for (size_t first = 0; first < samples.size(); first += size_t(sizes.size)) {
    progress.show(concat(what, " ", first, " of ", samples.size()));
    use(gather_batch(data, samples.subspan(first, std::min(size_t(sizes.size), samples.size() - first))));
  }
}

std::vector<Tensor> run_batch(Session& session, const Dataset& data, const Batch& batch, const BatchSizes& sizes) {
  if (batch.count >= sizes.min) return session.run(batch.inputs);
  std::vector<Tensor> inputs = batch.inputs;
  fill_up(data, inputs, sizes.min);
  return run_filled(session, inputs, sizes.min, batch.count);
}

void for_each_batch(Session& session, const Dataset& data, std::span<const int64_t> samples, const BatchSizes& sizes,
                    const std::string& what, const Context& context, const UseOutputs& use) {
  for_each_batch(data, samples, sizes, what, context,
                 [&](const Batch& batch) { use(batch, run_batch(session, data, batch, sizes)); });
}

void OutputCollector::add(const Batch& batch, const std::vector<Tensor>& outputs) {
  counts_.push_back(batch.count);
  for (size_t i = 0; i < outputs.size(); ++i) pieces_[i].push_back(outputs[i]);
}

std::vector<Tensor> OutputCollector::finish() {
  std::vector<Tensor> joined;
  for (size_t i = 0; i < pieces_.size(); ++i) {
    const auto& pieces = pieces_[i];
    if (pieces.size() == 1) {
      joined.push_back(pieces[0]);
      continue;
    }
    int64_t total = 0;
    for (size_t b = 0; b < pieces.size(); ++b) {
      const Dims &dims = pieces[b].dims(), &first = pieces[0].dims();
      if (dims.empty() || dims[0] != counts_[b] || dims.size() != first.size() ||
          !std::equal(dims.begin() + 1, dims.end(), first.begin() + 1))
        fail(ErrorKind::unsupported, "output '", names_[i], "' ", pieces[b].type(), " for a batch of ", counts_[b],
             " cannot be joined over batches; give fewer samples, or run them in one batch (--batch)");
      total += dims[0];
    }
    Dims dims = pieces[0].dims();
    dims[0] = total;
    Tensor all(pieces[0].dtype(), dims);
    std::byte* to = all.raw_mutable();
    for (const Tensor& piece : pieces) to = std::copy(piece.raw().begin(), piece.raw().end(), to);
    joined.push_back(std::move(all));
  }
  return joined;
}

}  // namespace temper::cli
