// SPDX-License-Identifier: Apache-2.0
#include "runtime/state.h"

#include <algorithm>

#include "base/concat.h"
#include "runtime/engine.h"

namespace temper {

namespace {

std::string listed(const std::vector<PortInfo>& ports) {
  std::string out;
  for (const PortInfo& port : ports) out += concat(out.empty() ? "" : ", ", port.name, " ", port.type);
  return out;
}

size_t find(const std::vector<PortInfo>& ports, std::string_view name, std::string_view role) {
  for (size_t i = 0; i < ports.size(); ++i)
    if (ports[i].name == name) return i;
  fail(ErrorKind::usage, "the model has no ", role, " '", name, "' to keep a state in; there are: ", listed(ports));
}

}  // namespace

StateBinding parse_state(std::string_view text, const std::vector<std::string>& inputs,
                         const std::vector<std::string>& outputs) {
  for (const std::string& input : inputs)
    for (const std::string& output : outputs)
      if (text == concat(input, "=", output)) return {input, output};
  const auto list = [](const std::vector<std::string>& names) {
    std::string out;
    for (const std::string& name : names) out += concat(out.empty() ? "" : ", ", name);
    return out;
  };
  fail(ErrorKind::usage, "a state is written INPUT=OUTPUT, not '", text, "'; the inputs are ", list(inputs),
       ", the outputs ", list(outputs));
}

std::vector<StateBinding> parse_states(const std::vector<std::string>& texts, const Engine& engine) {
  std::vector<std::string> inputs, outputs;
  for (const PortInfo& port : engine.inputs()) inputs.push_back(port.name);
  for (const PortInfo& port : engine.outputs()) outputs.push_back(port.name);
  std::vector<StateBinding> bindings;
  bindings.reserve(texts.size());
  for (const std::string& text : texts) bindings.push_back(parse_state(text, inputs, outputs));
  return bindings;
}

std::vector<State> states_of(const std::vector<StateBinding>& bindings, const Engine& engine) {
  std::vector<State> states;
  for (const StateBinding& binding : bindings) {
    State state;
    state.input = find(engine.inputs(), binding.input, "input");
    state.output = find(engine.outputs(), binding.output, "output");
    const TensorType &in = engine.inputs()[state.input].type, &out = engine.outputs()[state.output].type;
    bool fits = in.dtype == out.dtype && in.rank() == out.rank();
    for (size_t axis = 0; fits && axis < in.shape.size(); ++axis)
      fits = !in.shape[axis].is_constant() || !out.shape[axis].is_constant() || in.shape[axis] == out.shape[axis];
    if (fits && in.dtype == DType::string)
      fail(ErrorKind::unsupported, "the state '", binding.input,
           "' has strings, which a session keeps for one run only");
    if (!fits)
      fail(ErrorKind::usage, "the output '", binding.output, "' ", out, " cannot be the next run's input '",
           binding.input, "' ", in);
    for (const State& other : states)
      if (other.input == state.input || other.output == state.output)
        fail(ErrorKind::usage, "the ", other.input == state.input ? "input '" : "output '",
             other.input == state.input ? binding.input : binding.output, "' belongs to two states");
    states.push_back(std::move(state));
  }
  return states;
}

void add_first_shapes(const std::vector<State>& states, const std::vector<char>& given, const Engine& engine,
                      std::vector<Dims>& shapes) {
  const auto is_first = [&](const State& state) { return !state.begun && !given[state.input]; };
  if (std::none_of(states.begin(), states.end(), is_first)) return;
  Bindings bindings;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const Shape& shape = engine.inputs()[i].type.shape;
    const bool first = std::any_of(states.begin(), states.end(),
                                   [&](const State& state) { return state.input == i && is_first(state); });
    for (size_t axis = 0; !first && axis < std::min(shape.size(), shapes[i].size()); ++axis)
      if (shape[axis].is_symbol()) bindings.emplace(shape[axis].text(), shapes[i][axis]);
  }
  for (const State& state : states) {
    if (!is_first(state)) continue;
    const PortInfo& port = engine.inputs()[state.input];
    const auto range = engine.info().shapes.find(port.name);
    Dims& dims = shapes[state.input];
    dims.clear();
    for (size_t axis = 0; axis < port.type.shape.size(); ++axis) {
      const Dim dim = port.type.shape[axis].substitute(bindings);
      if (dim.is_constant()) dims.push_back(dim.value());
      else if (range != engine.info().shapes.end()) dims.push_back(range->second.opt[axis]);
      else
        fail(ErrorKind::usage, "the state '", port.name, "' ", port.type,
             " leaves its shape open: give it a value for the first run");
    }
  }
}

}  // namespace temper
