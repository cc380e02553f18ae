// SPDX-License-Identifier: Apache-2.0
#include "plan/manifest.h"

#include <algorithm>
#include <limits>

#include "base/hash.h"
#include "base/parse.h"
#include "base/strict_json.h"

namespace temper {

using strict::Json;
using strict::Object;

namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr std::array<std::string_view, 6> kind_names{"none", "input", "output", "shared", "local", "constant"};

template <size_t N>
size_t index_of(const std::array<std::string_view, N>& names, const std::string& name, std::string_view what) {
  const auto it = std::find(names.begin(), names.end(), name);
  if (it == names.end())
    fail(ErrorKind::bad_file, "the manifest is damaged: there is no ", what, " '", name.substr(0, 80), "'");
  return size_t(it - names.begin());
}

Json ports_json(const std::vector<PortInfo>& ports) {
  Json json = Json::array();
  for (const PortInfo& port : ports) json.push_back({port.name, port.type.text()});
  return json;
}
std::vector<PortInfo> read_ports(const Json& json) {
  std::vector<PortInfo> ports;
  for (const Json& port : strict::list(json)) {
    const auto& pair = strict::list(port, 2);
    ports.push_back({strict::text(pair[0]), TensorType::parse(strict::text(pair[1]))});
  }
  return ports;
}

// One text of 16 digits each: there may be many thousands.
std::string hashes_text(const std::vector<uint64_t>& hashes) {
  std::string text;
  for (uint64_t hash : hashes) text += hex(hash);
  return text;
}
std::vector<uint64_t> read_hashes(const std::string& text) {
  std::vector<uint64_t> hashes;
  for (size_t at = 0; at < text.size(); at += 16) {
    const auto value = parse_number<uint64_t>(std::string_view(text).substr(at, 16), 16);
    if (at + 16 > text.size() || !value)
      fail(ErrorKind::bad_file, "the manifest is damaged: 'calibration_hashes' is no list of hashes");
    hashes.push_back(*value);
  }
  return hashes;
}

Json info_json(const EngineInfo& info) {
  Json shapes = Json::object();
  for (const auto& [name, range] : info.shapes) shapes[name] = {range.min, range.opt, range.max};
  return {{"model_name", info.model_name},
          {"model_sha256", info.model_sha256},
          {"source_sha256", info.source_sha256},
          {"source_path", info.source_path},
          {"producer", info.producer},
          {"precision", info.precision},
          {"calibration_sha256", info.calibration_sha256},
          {"calibration_hashes", hashes_text(info.calibration_hashes)},
          {"placeholder", info.placeholder},
          {"products", info.products},
          {"lowered_products", info.lowered_products},
          {"not_lowered", info.not_lowered},
          {"device", info.device},
          {"fingerprint", info.fingerprint},
          {"version", info.version},
          {"revision", info.revision},
          {"command", info.command},
          {"build_s", info.build_s},
          {"shapes", shapes},
          {"notes", info.notes}};
}
EngineInfo read_engine_info(const Json& json) {
  Object object(json);
  EngineInfo info;
  for (auto [key, value] : {std::pair{"model_name", &info.model_name},
                            {"model_sha256", &info.model_sha256},
                            {"source_sha256", &info.source_sha256},
                            {"source_path", &info.source_path},
                            {"producer", &info.producer},
                            {"precision", &info.precision},
                            {"calibration_sha256", &info.calibration_sha256},
                            {"device", &info.device},
                            {"fingerprint", &info.fingerprint},
                            {"version", &info.version},
                            {"revision", &info.revision},
                            {"command", &info.command}})
    *value = strict::text(object[key]);
  info.build_s = strict::number(object["build_s"]);
  const Json& shapes = object["shapes"];
  if (!shapes.is_object()) fail(ErrorKind::bad_file, "the manifest is damaged: 'shapes' is no object");
  for (const auto& [name, range] : shapes.items()) {
    const auto& three = strict::list(range, 3);
    info.shapes[name] = {strict::integers(three[0]), strict::integers(three[1]), strict::integers(three[2])};
  }
  for (const Json& note : strict::list(object["notes"])) info.notes.push_back(strict::text(note));
  for (const Json& line : strict::list(object["not_lowered"])) info.not_lowered.push_back(strict::text(line));
  info.calibration_hashes = read_hashes(strict::text(object["calibration_hashes"]));
  info.placeholder = strict::flag(object["placeholder"]);
  info.products = strict::integer(object["products"], 0, kMost);
  info.lowered_products = strict::integer(object["lowered_products"], 0, kMost);
  object.done();
  return info;
}

// A port of a step: type ('*' behind it marks a constant, '+' one without negative numbers, '=' one that is in place,
// "_" an absent input), layout, where it is, distance of slices; and of a part of a larger tensor its offset and pitch.
Json port_json(const Port& port, Layout layout, const BufferRef& ref) {
  Json json{port.present ? concat(port.type,
                                  port.is_constant    ? "*"
                                  : port.no_negatives ? "+"
                                                      : "",
                                  port.in_place ? "=" : "")
                         : "_",
            name_of(layout), kind_names[size_t(ref.kind)], ref.at, ref.slice_bytes};
  if (ref.offset || port.pitch) json.insert(json.end(), {ref.offset, port.pitch});
  return json;
}
void read_port(const Json& json, std::vector<Port>& ports, std::vector<Layout>& layouts, std::vector<BufferRef>& refs) {
  const auto& items = strict::list(json);
  if (items.size() != 5 && items.size() != 7)
    fail(ErrorKind::bad_file, "the manifest is damaged: a port has ", items.size(), " items");
  std::string_view type = strict::text(items[0]);
  Port& port = ports.emplace_back();
  port.present = type != "_";
  if (port.present) {
    port.in_place = type.ends_with('=');
    if (port.in_place) type.remove_suffix(1);
    port.is_constant = type.ends_with('*');
    port.no_negatives = type.ends_with('+');
    if (port.is_constant || port.no_negatives) type.remove_suffix(1);
    port.type = TensorType::parse(type);
  }
  layouts.push_back(Layout(index_of(enum_names(Layout{}), strict::text(items[1]), "layout")));
  refs.push_back({BufferRef::Kind(index_of(kind_names, strict::text(items[2]), "kind of buffer")),
                  strict::integer(items[3], 0, kMost), strict::integer(items[4], 0, kMost)});
  if (items.size() == 7) {
    refs.back().offset = strict::integer(items[5], 0, kMost);
    port.pitch = strict::integer(items[6], 0, kMost);
  }
}

Json step_json(const PlanStep& step) {
  Json inputs = Json::array(), outputs = Json::array();
  for (size_t i = 0; i < step.inputs.size(); ++i)
    inputs.push_back(port_json(step.problem.inputs[i], step.config.inputs[i], step.inputs[i]));
  for (size_t i = 0; i < step.outputs.size(); ++i)
    outputs.push_back(port_json(step.problem.outputs[i], step.config.outputs[i], step.outputs[i]));
  Json json{{"node", step.node},           {"inputs", inputs},  {"outputs", outputs}, {"threads", step.problem.threads},
            {"workspace", step.workspace}, {"code", step.code}, {"ms", step.ms},      {"tactic", nullptr}};
  if (!step.is_reorder())
    json["tactic"] = {{"name", step.tactic},
                      {"version", step.tactic_version},
                      {"config", step.config.text},
                      {"op", name_of(step.problem.op)},
                      {"fields", fields_text(step.problem.op)},
                      {"packed", step.packed}};
  return json;
}
PlanStep read_step(const Json& json, const std::vector<std::shared_ptr<const Tensor>>& constants) {
  Object object(json);
  PlanStep step;
  step.node = strict::text(object["node"]);
  with_context([&] { return concat("step '", step.node, "'"); },
               [&] {
                 for (const Json& port : strict::list(object["inputs"]))
                   read_port(port, step.problem.inputs, step.config.inputs, step.inputs);
                 for (const Json& port : strict::list(object["outputs"]))
                   read_port(port, step.problem.outputs, step.config.outputs, step.outputs);
                 step.problem.threads = int(strict::integer(object["threads"], 1, 1024));
                 step.workspace = strict::integer(object["workspace"], 0, kMost);
                 step.code = int(strict::integer(object["code"], -1, int64_t(constants.size()) - 1));
                 step.ms = strict::number(object["ms"]);
                 if (const Json& chosen = object["tactic"]; !chosen.is_null()) {
                   Object tactic(chosen);
                   step.tactic = strict::text(tactic["name"]);
                   if (step.tactic.empty()) fail(ErrorKind::bad_file, "the manifest is damaged: a tactic has no name");
                   step.tactic_version = int(strict::integer(tactic["version"], 0, 1 << 30));
                   step.config.text = strict::text(tactic["config"]);
                   step.problem.op = parse_op(strict::text(tactic["op"]), strict::text(tactic["fields"]));
                   step.packed = int(strict::integer(tactic["packed"], -1, int64_t(constants.size()) - 1));
                   tactic.done();
                 }
                 object.done();
                 for (size_t i = 0; i < step.inputs.size(); ++i) {
                   const BufferRef& ref = step.inputs[i];
                   if (step.problem.inputs[i].is_constant && ref.kind == BufferRef::Kind::constant &&
                       ref.at < int64_t(constants.size()))
                     step.problem.inputs[i].constant = constants[size_t(ref.at)].get();
                 }
               });
  return step;
}

Json whole_json(const WholeTime& whole) {
  if (!whole.is_measured()) return nullptr;
  return {{"ms", whole.ms}, {"low", whole.low}, {"high", whole.high}, {"runs", whole.runs}, {"load", whole.load}};
}
WholeTime read_whole(const Json& json) {
  WholeTime whole;
  if (json.is_null()) return whole;
  Object object(json);
  whole.ms = strict::number(object["ms"]);
  whole.low = strict::number(object["low"]);
  whole.high = strict::number(object["high"]);
  whole.runs = strict::integer(object["runs"], 0, kMost);
  whole.load = strict::number(object["load"]);
  object.done();
  return whole;
}

Json plan_json(const Plan& plan, const std::vector<int>& constants) {
  Json segments = Json::array();
  for (const Segment& segment : plan.segments) {
    Json steps = Json::array();
    for (const PlanStep& step : segment.steps) steps.push_back(step_json(step));
    segments.push_back({{"slices", segment.slices},
                        {"parallel", segment.parallel},
                        {"local_bytes", segment.local_bytes},
                        {"workspace_at", segment.workspace_at},
                        {"steps", steps}});
  }
  return {{"inputs", ports_json(plan.inputs)},
          {"outputs", ports_json(plan.outputs)},
          {"shared_bytes", plan.shared_bytes},
          {"measured", whole_json(plan.whole)},
          {"constants", constants},
          {"segments", segments}};
}

std::vector<int> read_indices(const Json& json, size_t count) {
  std::vector<int> indices;
  for (const Json& index : strict::list(json)) indices.push_back(int(strict::integer(index, 0, int64_t(count) - 1)));
  return indices;
}

// Calls f on each step that a tactic runs, in one order for writing and reading.
template <class PlanType, class F>
void for_each_decision(PlanType& plan, F&& f) {
  for (auto& segment : plan.segments)
    for (auto& step : segment.steps)
      if (!step.is_reorder()) f(step);
}

}  // namespace

std::string write_manifest(const PlanFile& file, const Manifest& manifest) {
  Json tensors = Json::array(), plans = Json::array();
  for (const StoredTensor& tensor : manifest.tensors)
    tensors.push_back({tensor.type.text(), tensor.in_plans, tensor.offset});
  for (size_t p = 0; p < file.plans.size(); ++p) plans.push_back(plan_json(*file.plans[p], manifest.plan_constants[p]));
  return strict::dump({{"info", info_json(file.info)},
                       {"threads", file.threads},
                       {"inputs", ports_json(file.inputs)},
                       {"outputs", ports_json(file.outputs)},
                       {"tensors", tensors},
                       {"graph_constants", file.graph ? Json(manifest.graph_constants) : Json(nullptr)},
                       {"plans", plans}});
}

struct ManifestReader::Impl {
  Json root;
};

ManifestReader::ManifestReader(std::string_view text)
    : impl_(std::make_unique<Impl>(Impl{strict::parse(text, "the manifest")})) {
  Object object(impl_->root);
  for (const char* key : {"info", "threads", "inputs", "outputs", "tensors", "graph_constants", "plans"}) object[key];
  object.done();
}
ManifestReader::~ManifestReader() = default;

void ManifestReader::read_info(PlanFile& file) const {
  const Json& root = impl_->root;
  file.info = read_engine_info(root["info"]);
  file.threads = int(strict::integer(root["threads"], 1, 1024));
  file.inputs = read_ports(root["inputs"]);
  file.outputs = read_ports(root["outputs"]);
}

Manifest ManifestReader::read_tables() const {
  const Json& root = impl_->root;
  Manifest manifest;
  for (const Json& tensor : strict::list(root["tensors"])) {
    const auto& three = strict::list(tensor, 3);
    manifest.tensors.push_back(
        {TensorType::parse(strict::text(three[0])), strict::flag(three[1]), strict::integer(three[2], 0, kMost)});
  }
  for (const Json& plan : strict::list(root["plans"]))
    manifest.plan_constants.push_back(read_indices(Object(plan)["constants"], manifest.tensors.size()));
  if (!root["graph_constants"].is_null())
    manifest.graph_constants = read_indices(root["graph_constants"], manifest.tensors.size());
  return manifest;
}

bool ManifestReader::has_graph() const { return !impl_->root["graph_constants"].is_null(); }

std::vector<Plan> ManifestReader::read_plans(const Manifest& manifest,
                                             const std::vector<std::shared_ptr<const Tensor>>& tensors) const {
  std::vector<Plan> plans;
  const int threads = int(strict::integer(impl_->root["threads"], 1, 1024));
  for (const Json& json : strict::list(impl_->root["plans"])) {
    Object object(json);
    object["constants"];
    Plan& plan = plans.emplace_back();
    plan.threads = threads;
    plan.inputs = read_ports(object["inputs"]);
    plan.outputs = read_ports(object["outputs"]);
    plan.shared_bytes = strict::integer(object["shared_bytes"], 0, kMost);
    plan.whole = read_whole(object["measured"]);
    for (int index : manifest.plan_constants[plans.size() - 1]) plan.constants.push_back(tensors[size_t(index)]);
    for (const Json& item : strict::list(object["segments"])) {
      Object part(item);
      Segment& segment = plan.segments.emplace_back();
      segment.slices = strict::integer(part["slices"], 1, kMost);
      segment.parallel = strict::flag(part["parallel"]);
      segment.local_bytes = strict::integer(part["local_bytes"], 0, kMost);
      segment.workspace_at = strict::integer(part["workspace_at"], 0, kMost);
      for (const Json& step : strict::list(part["steps"])) segment.steps.push_back(read_step(step, plan.constants));
      part.done();
    }
    object.done();
  }
  return plans;
}

std::string write_candidates(const std::vector<std::shared_ptr<const Plan>>& plans) {
  Json json = Json::array();
  for (const auto& plan : plans) {
    Json decisions = Json::array();
    for_each_decision(*plan, [&](const PlanStep& step) {
      Json losers = Json::array();
      for (const Candidate& c : step.losers) losers.push_back({c.tactic, c.config, c.ms, c.refusal});
      decisions.push_back(std::move(losers));
    });
    json.push_back(std::move(decisions));
  }
  return strict::dump(json);
}

void read_candidates(std::string_view text, std::vector<Plan>& plans) {
  const Json json = strict::parse(text, "the list of candidates");
  const auto& by_plan = strict::list(json, plans.size());
  for (size_t p = 0; p < plans.size(); ++p) {
    const auto& decisions = strict::list(by_plan[p]);
    size_t next = 0;
    for_each_decision(plans[p], [&](PlanStep& step) {
      if (next >= decisions.size()) fail(ErrorKind::bad_file, "the list of candidates is damaged: it is too short");
      for (const Json& loser : strict::list(decisions[next++])) {
        const auto& four = strict::list(loser, 4);
        step.losers.push_back(
            {strict::text(four[0]), strict::text(four[1]), strict::number(four[2]), strict::text(four[3])});
      }
    });
    if (next != decisions.size()) fail(ErrorKind::bad_file, "the list of candidates is damaged: it is too long");
  }
}

// {group: {candidate: ms}}: many candidates share the text of their problem.
std::string write_timings(const std::map<std::string, double>& timings) {
  Json json = Json::object();
  for (const auto& [key, ms] : timings) {
    const auto split = key.rfind(" | ");
    if (split == key.npos) continue;
    json[key.substr(0, split)][key.substr(split + 3)] = ms;
  }
  return strict::dump(json);
}

std::map<std::string, double> read_timings(std::string_view text) {
  std::map<std::string, double> timings;
  const Json json = strict::parse(text, "the list of times");
  auto members = [](const Json& object) -> const Json::object_t& {
    if (!object.is_object()) fail(ErrorKind::bad_file, "the list of times is damaged");
    return object.get_ref<const Json::object_t&>();
  };
  for (const auto& [group, candidates] : members(json))
    for (const auto& [candidate, ms] : members(candidates))
      timings.emplace_hint(timings.end(), concat(group, " | ", candidate), strict::number(ms));
  return timings;
}

}  // namespace temper
