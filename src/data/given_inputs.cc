// SPDX-License-Identifier: Apache-2.0
#include "data/given_inputs.h"

#include <algorithm>

#include "base/log.h"
#include "data/bench_session.h"
#include "data/carried.h"
#include "data/not_finite.h"
#include "data/sample.h"

namespace temper {

std::vector<InputSpec> input_specs(const Engine& engine) {
  std::vector<InputSpec> specs;
  for (const PortInfo& input : engine.inputs()) specs.push_back({input.name, input.type, false, "", ""});
  remember(specs, engine.info().preprocess, "the plan");
  return specs;
}

std::string batch_symbol(const std::vector<InputSpec>& inputs) {
  for (const InputSpec& input : inputs) {
    if (input.type.shape.empty() || input.type.shape[0].is_constant()) continue;
    if (input.type.shape[0].is_symbol()) return input.type.shape[0].text();
  }
  return "";
}

std::optional<BatchRange> batches_said(const std::vector<InputSpec>& inputs,
                                       const std::map<std::string, ShapeRange>& shapes) {
  const std::string symbol = batch_symbol(inputs);
  std::optional<BatchRange> said;
  for (const InputSpec& input : inputs) {
    const auto named = shapes.find(input.name);
    const auto found = named == shapes.end() && inputs.size() == 1 ? shapes.find("") : named;
    if (found == shapes.end() || symbol.empty()) continue;
    if (input.type.shape.empty() || input.type.shape[0].text() != symbol) continue;
    const ShapeRange& range = found->second;
    if (range.min.empty() || range.opt.empty() || range.max.empty()) continue;  // refused where it is used
    if (!said) said = {range.min[0], range.opt[0], range.max[0]};
    said->min = std::max(said->min, range.min[0]), said->max = std::min(said->max, range.max[0]);
  }
  return said;
}

void check_batch(const std::vector<InputSpec>& inputs, const std::map<std::string, ShapeRange>& shapes, int64_t batch) {
  const auto said = batches_said(inputs, shapes);
  if (!said || (said->min <= batch && batch <= said->max)) return;
  fail(ErrorKind::usage, "--batch ", batch, " contradicts --shapes, which says ",
       said->min < said->max ? concat("batches of ", said->min, " to ", said->max) : concat("a batch of ", said->opt),
       "; leave one of them out, or give a range in --shapes that has the batch");
}

GivenInputs read_given(const InputRequest& request, const std::vector<InputSpec>& inputs, int64_t batch,
                       const std::map<std::string, ShapeRange>& tuned) {
  constexpr int64_t kMost = 32;  // as where data are run in batches
  DatasetOptions options;
  options.memory_limit = request.memory_limit;
  const std::string symbol = batch_symbol(inputs);
  GivenInputs given;
  for (const auto& file : parse_input_files(request.arguments, inputs)) {
    const std::string &name = file.first, &path = file.second;
    const auto of_name = [&](const InputSpec& input) { return input.name == name; };
    auto spec = std::find_if(inputs.begin(), inputs.end(), of_name);
    if (name.empty() && inputs.size() == 1) spec = inputs.begin();
    if (spec == inputs.end()) open_input_files({{name, path}}, inputs, options);  // says what the model takes
    const Dataset data = open_input_files({{"", path}}, {*spec}, options);
    const Shape& shape = spec->type.shape;
    int64_t count = 1;
    if (data.has_samples(0)) {
      count = data.size();
      if (shape[0].is_constant()) {
        count = shape[0].value();
      } else if (shape[0].text() == symbol) {
        const auto range = tuned.find(spec->name);
        count = std::min<int64_t>(count, kMost);
        if (range != tuned.end()) count = std::clamp(count, range->second.min[0], range->second.opt[0]);
        if (batch > 0) count = batch;
      }
    }
    if (data.size() == 0 && count > 0) fail(ErrorKind::usage, "'", path, "' holds no samples");
    Batch first = data.batch(0, std::min(count, data.size()));
    std::vector<Tensor>& one = first.inputs;
    NotFinite broken;
    broken.look(concat("the input '", spec->name, "'"), one[0], first.names);
    for (const std::string& warning : broken.warnings(int64_t(first.names.size())))
      if (request.warned->insert(warning).second)
        log(LogLevel::warning, warning, "; look at the data and at the preprocessing");
    fill_up(data, one, count);
    if (!given.emplace(spec->name, std::move(one[0])).second)
      fail(ErrorKind::usage, "input '", spec->name, "' is given twice");
  }
  return given;
}

GivenInputs read_given(const InputRequest& request, const Engine& engine, int64_t batch) {
  return read_given(request, input_specs(engine), batch, engine.info().shapes);
}

Bindings bindings_of(const GivenInputs& given, const std::vector<InputSpec>& inputs) {
  Bindings bindings;
  for (const InputSpec& input : inputs) {
    const auto found = given.find(input.name);
    if (found == given.end()) continue;
    for (size_t axis = 0; axis < input.type.shape.size(); ++axis)
      if (const Dim& dim = input.type.shape[axis]; dim.is_symbol())
        bindings.emplace(dim.text(), found->second.dims()[axis]);
  }
  return bindings;
}

std::vector<Tensor> with_random(const Engine& engine, const std::vector<Dims>& shapes, const GivenInputs& given) {
  std::vector<Tensor> inputs = random_inputs(engine, shapes);
  for (size_t i = 0; i < inputs.size(); ++i)
    if (const auto found = given.find(engine.inputs()[i].name); found != given.end()) inputs[i] = found->second;
  return inputs;
}

std::vector<Tensor> first_inputs(const Engine& engine, const std::vector<Dims>& shapes, const GivenInputs& given,
                                 const std::vector<StateBinding>& states) {
  std::vector<Tensor> inputs = with_random(engine, shapes, given);
  for (const State& state : states_of(states, engine))
    if (!given.contains(engine.inputs()[state.input].name))
      inputs[state.input] = Tensor(inputs[state.input].dtype(), shapes[state.input]);
  return inputs;
}

std::string text_of(const Engine& engine, const GivenInputs& given) {
  const std::string random = "seeded random numbers, and integers wider than a byte 0, of an attention mask 1";
  if (given.empty()) return concat("inputs are ", random);
  std::string names;
  for (const auto& [name, tensor] : given) names += concat(names.empty() ? "" : ", ", name);
  return concat("inputs were given: ", names,
                given.size() < engine.inputs().size() ? concat("; the others are ", random) : std::string());
}

}  // namespace temper
