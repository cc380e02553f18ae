// SPDX-License-Identifier: Apache-2.0
#include "triton/config.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "triton/server.h"

namespace temper::triton {

namespace {

using Json = nlohmann::ordered_json;

struct TypePair {
  temper_dtype dtype;
  TRITONSERVER_DataType type;
  const char* name;
};
constexpr TypePair kTypes[] = {
    {TEMPER_BOOL, TRITONSERVER_TYPE_BOOL, "TYPE_BOOL"},    {TEMPER_U8, TRITONSERVER_TYPE_UINT8, "TYPE_UINT8"},
    {TEMPER_U16, TRITONSERVER_TYPE_UINT16, "TYPE_UINT16"}, {TEMPER_U32, TRITONSERVER_TYPE_UINT32, "TYPE_UINT32"},
    {TEMPER_U64, TRITONSERVER_TYPE_UINT64, "TYPE_UINT64"}, {TEMPER_I8, TRITONSERVER_TYPE_INT8, "TYPE_INT8"},
    {TEMPER_I16, TRITONSERVER_TYPE_INT16, "TYPE_INT16"},   {TEMPER_I32, TRITONSERVER_TYPE_INT32, "TYPE_INT32"},
    {TEMPER_I64, TRITONSERVER_TYPE_INT64, "TYPE_INT64"},   {TEMPER_F16, TRITONSERVER_TYPE_FP16, "TYPE_FP16"},
    {TEMPER_F32, TRITONSERVER_TYPE_FP32, "TYPE_FP32"},     {TEMPER_F64, TRITONSERVER_TYPE_FP64, "TYPE_FP64"},
    {TEMPER_BF16, TRITONSERVER_TYPE_BF16, "TYPE_BF16"},
};

const TypePair* pair_of(temper_dtype dtype) {
  for (const TypePair& pair : kTypes)
    if (pair.dtype == dtype) return &pair;
  return nullptr;
}

Json parsed(const std::string& json) {
  try {
    return Json::parse(json);
  } catch (const Json::exception& error) {
    refuse("the server's configuration is no JSON: " + std::string(error.what()));
  }
}

const Json& member(const Json& object, const char* name) {
  static const Json none;
  const auto it = object.find(name);
  return it == object.end() ? none : *it;
}

std::string text(const Json& value) { return value.is_string() ? value.get<std::string>() : std::string(); }

// Protobuf writes 64-bit integers as text.
int64_t number(const Json& value) {
  if (value.is_number_integer()) return value.get<int64_t>();
  if (value.is_string()) return std::strtoll(value.get<std::string>().c_str(), nullptr, 10);
  return 0;
}

std::string parameter(const Json& config, const char* name) {
  return text(member(member(member(config, "parameters"), name), "string_value"));
}

std::string as_text(const std::vector<int64_t>& dims) {
  std::string out = "[";
  for (const int64_t dim : dims) out += (out.size() == 1 ? " " : ", ") + std::to_string(dim);
  return out + " ]";
}

// Dimensions as a configuration says them: without the batch, and one of 1 where the tensor is a scalar.
struct Said {
  std::vector<int64_t> dims;
  bool scalar = false;
};
Said said_of(const temper::Port& port, bool batched) {
  Said said{{port.dims.begin() + (batched ? 1 : 0), port.dims.end()}, false};
  if (said.dims.empty()) said = {{1}, true};
  return said;
}

Json io_of(const temper::Port& port, bool batched) {
  const Said said = said_of(port, batched);
  Json io{{"name", port.name}, {"data_type", type_name(port.dtype)}, {"dims", said.dims}};
  if (said.scalar) io["reshape"] = {{"shape", Json::array()}};
  return io;
}

std::vector<int64_t> dims_of(const Json& io) {
  const Json& reshape = member(io, "reshape");
  std::vector<int64_t> dims;
  const Json& list = reshape.is_object() ? member(reshape, "shape") : member(io, "dims");
  if (list.is_array())
    for (const Json& dim : list) dims.push_back(number(dim));
  return dims;
}

// The names that a configuration gives to what is no ordinary input or output.
std::vector<StateNames> states_of(const Json& config) {
  std::vector<StateNames> states;
  const Json& list = member(member(config, "sequence_batching"), "state");
  if (list.is_array())
    for (const Json& state : list)
      states.push_back({text(member(state, "input_name")), text(member(state, "output_name"))});
  return states;
}
std::set<std::string> control_inputs(const Json& config) {
  std::set<std::string> names;
  const Json& list = member(member(config, "sequence_batching"), "control_input");
  if (list.is_array())
    for (const Json& control : list) names.insert(text(member(control, "name")));
  return names;
}

// Pictures in files: a string for each, behind the batch where there are batches.
bool is_encoded(const Json& io) { return text(member(io, "data_type")) == "TYPE_STRING"; }

void check_encoded(const Json& io, const temper::Port& port, bool batched, bool takes_pictures) {
  const std::string name = "config.pbtxt: input '" + port.name + "' ";
  if (!takes_pictures)
    refuse(name + "has the type TYPE_STRING, and no picture can become it. Write data_type: " + type_name(port.dtype));
  const std::vector<int64_t> dims = dims_of(io);
  const int64_t most = batched ? 1 : port.dims[0];
  if (dims.size() != 1 || (dims[0] != most && !(most == -1 && dims[0] > 0)))
    refuse(name + "has dims " + as_text(dims) + "; encoded pictures are a string each. Write dims: " + as_text({most}));
}

void check_io(const Json& io, const temper::Port& port, const char* kind, bool batched) {
  const std::string name = std::string("config.pbtxt: ") + kind + " '" + port.name + "' ";
  const std::string type = type_name(port.dtype), given = text(member(io, "data_type"));
  if (given != type) refuse(name + "has the type " + given + "; the plan has " + type + ". Write data_type: " + type);
  const std::vector<int64_t> dims = dims_of(io);
  const std::vector<int64_t> plan(port.dims.begin() + (batched ? 1 : 0), port.dims.end());
  bool fits = dims.size() == plan.size();
  for (size_t i = 0; fits && i < dims.size(); ++i) fits = dims[i] == plan[i] || plan[i] == -1 || dims[i] == -1;
  if (plan.empty() && dims == std::vector<int64_t>{1})
    refuse(name + "is a scalar in the plan. Write dims: [ 1 ] reshape: { shape: [ ] }");
  if (!fits)
    refuse(name + "has dims " + as_text(dims) + "; the plan has " + as_text(plan) +
           (batched ? " behind the batch" : "") + ". Write dims: " + as_text(said_of(port, batched).dims) +
           (batched ? "" : ", or a max_batch_size, if the first one is the batch"));
}

const temper::Port* find(const std::vector<temper::Port>& ports, const std::string& name) {
  for (const temper::Port& port : ports)
    if (port.name == name) return &port;
  return nullptr;
}

std::string names_of(const std::vector<temper::Port>& ports) {
  std::string out;
  for (const temper::Port& port : ports) out += (out.empty() ? "'" : ", '") + port.name + "'";
  return out;
}

// Whether some tensor is written with the batch in front.
bool has_batch(const Json& config, const PlanShape& plan) {
  const auto any = [&](const char* key, const std::vector<temper::Port>& ports) {
    for (const Json& io : member(config, key))
      if (is_encoded(io)) continue;
      else if (const temper::Port* const port = find(ports, text(member(io, "name")));
               port && dims_of(io).size() == port->dims.size())
        return true;
    return false;
  };
  return any("input", plan.inputs) || any("output", plan.outputs);
}

}  // namespace

std::string type_name(temper_dtype dtype) {
  const TypePair* const pair = pair_of(dtype);
  return pair ? pair->name : "";
}

TRITONSERVER_DataType type_of(temper_dtype dtype) {
  const TypePair* const pair = pair_of(dtype);
  return pair ? pair->type : TRITONSERVER_TYPE_INVALID;
}

ModelConfig read_config(const std::string& json) {
  const Json config = parsed(json);
  ModelConfig out;
  out.max_batch = number(member(config, "max_batch_size"));
  out.file = text(member(config, "default_model_filename"));
  out.states = states_of(config);
  for (const Json& io : member(config, "input"))
    if (is_encoded(io)) out.encoded.push_back(text(member(io, "name")));
  for (const auto& [name, value] : member(config, "parameters").items()) {
    if (name == "pad" || name == "device" || name.starts_with("TRITON_")) continue;
    refuse("config.pbtxt: there is no parameter '" + name + "'; there are pad and device");
  }
  const std::string pad = parameter(config, "pad");
  if (!pad.empty() && pad != "on" && pad != "off")
    refuse("config.pbtxt: the parameter 'pad' is '" + pad + "'; it is on or off");
  out.pad = pad != "off";
  out.device = parameter(config, "device");
  return out;
}

Place place_of_groups(const std::string& json) {
  const Json config = parsed(json);
  std::set<std::string> kinds;
  for (const Json& group : member(config, "instance_group")) kinds.insert(text(member(group, "kind")));
  if (kinds.size() != 1) return Place::any;
  return *kinds.begin() == "KIND_CPU" ? Place::cpu : *kinds.begin() == "KIND_GPU" ? Place::gpu : Place::any;
}

std::string complete_config(const std::string& json, const PlanShape& plan) {
  Json config = parsed(json);
  const bool sequences = member(config, "sequence_batching").is_object();
  int64_t max_batch = number(member(config, "max_batch_size"));
  // 0 is what the server has where nobody wrote it; tensors that were written say whether the batch is one of theirs.
  if (max_batch == 0 && !sequences && !has_batch(config, plan)) max_batch = plan.max_batch;
  config["max_batch_size"] = max_batch;
  const bool batched = max_batch > 0;
  const auto states = states_of(config);
  const std::set<std::string> controls = control_inputs(config);
  const auto fill = [&](const char* key, const std::vector<temper::Port>& ports, bool inputs) {
    if (!member(config, key).empty()) return;
    Json list = Json::array();
    for (const temper::Port& port : ports) {
      const bool state = std::any_of(states.begin(), states.end(), [&](const StateNames& names) {
        return (inputs ? names.input : names.output) == port.name;
      });
      if (!state && !(inputs && controls.count(port.name))) list.push_back(io_of(port, batched));
    }
    config[key] = std::move(list);
  };
  fill("input", plan.inputs, true);
  fill("output", plan.outputs, false);
  if (max_batch > 1 && !sequences && !member(config, "dynamic_batching").is_object()) {
    Json preferred = Json::array();
    for (const int64_t bucket : plan.buckets)
      if (bucket > 1 && bucket <= max_batch) preferred.push_back(bucket);
    config["dynamic_batching"] = Json::object();
    if (!preferred.empty()) config["dynamic_batching"]["preferred_batch_size"] = std::move(preferred);
  }
  return config.dump();
}

void check_config(const std::string& json, const PlanShape& plan) {
  const Json config = parsed(json);
  const int64_t max_batch = number(member(config, "max_batch_size"));
  if (max_batch > 0 && plan.max_batch == 0)
    refuse("config.pbtxt: max_batch_size is " + std::to_string(max_batch) + ", and requests cannot be joined: " +
           plan.why_no_batch + ". Write max_batch_size: 0, and dims with the first dimension");
  if (max_batch > plan.max_batch)
    refuse("config.pbtxt: max_batch_size is " + std::to_string(max_batch) + "; the plan takes batches up to " +
           std::to_string(plan.max_batch) + ". Write max_batch_size: " + std::to_string(plan.max_batch) +
           ", or build the plan with larger --shapes");
  const bool batched = max_batch > 0;
  const auto states = states_of(config);
  std::set<std::string> given_inputs = control_inputs(config);
  for (const StateNames& state : states) {
    given_inputs.insert(state.input);
    const temper::Port* const input = find(plan.inputs, state.input);
    const temper::Port* const output = find(plan.outputs, state.output);
    if (!input)
      refuse("config.pbtxt: the state's input_name '" + state.input + "' is none of the plan's inputs, which are " +
             names_of(plan.inputs));
    if (!output)
      refuse("config.pbtxt: the state's output_name '" + state.output + "' is none of the plan's outputs, which are " +
             names_of(plan.outputs));
    if (input->dtype != output->dtype)
      refuse("config.pbtxt: the state '" + state.input + "' cannot be '" + state.output + "', which has another type");
  }
  const Json& inputs = member(config, "input");
  for (const Json& io : inputs) {
    const std::string name = text(member(io, "name"));
    const temper::Port* const port = find(plan.inputs, name);
    if (!port)
      refuse("config.pbtxt: there is no input '" + name + "' in the plan; its inputs are " + names_of(plan.inputs));
    if (is_encoded(io)) check_encoded(io, *port, batched, plan.pictures[size_t(port - plan.inputs.data())]);
    else check_io(io, *port, "input", batched);
    if (member(io, "optional").is_boolean() && member(io, "optional").get<bool>())
      refuse("config.pbtxt: input '" + name + "' is optional; the plan needs all of its inputs. Leave optional out");
    given_inputs.insert(name);
  }
  for (const temper::Port& port : plan.inputs)
    if (!given_inputs.count(port.name))
      refuse("config.pbtxt: the plan's input '" + port.name + "' is missing. Write input { name: \"" + port.name +
             "\" data_type: " + type_name(port.dtype) + " dims: " + as_text(said_of(port, batched).dims) + " }");
  for (const Json& io : member(config, "output")) {
    const std::string name = text(member(io, "name"));
    const temper::Port* const port = find(plan.outputs, name);
    if (!port)
      refuse("config.pbtxt: there is no output '" + name + "' in the plan; its outputs are " + names_of(plan.outputs));
    check_io(io, *port, "output", batched);
  }
}

}  // namespace temper::triton
