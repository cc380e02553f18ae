// SPDX-License-Identifier: Apache-2.0
#include "plan/manifest.h"

#include <algorithm>
#include <limits>

#include "base/hash.h"
#include "base/json_struct.h"
#include "base/parse.h"

namespace temper {

using strict::Json;

// A port of a step: type ('*' behind it marks a constant, '+' one without negative numbers, '=' one that is in place,
// "_" an absent input), layout, where it is, distance of slices; and of a part of a larger tensor its offset and pitch.
struct PlacedPort {
  Port port;
  Layout layout;
  BufferRef ref;
};

namespace {

constexpr std::string_view kSchema = "the manifest";
constexpr std::array<std::string_view, 6> kind_names{"none", "input", "output", "shared", "local", "constant"};
// Sizes, offsets and counts of whatever a plan holds.
constexpr Within kSize{};
constexpr Within kThreads{1, 1024};

template <size_t N>
size_t index_of(const std::array<std::string_view, N>& names, const JsonInput& in, std::string_view what) {
  const auto it = std::find(names.begin(), names.end(), in.text());
  if (it == names.end()) in.refuse("there is no ", what, " '", in.text().substr(0, 80), "'");
  return size_t(it - names.begin());
}

// One text of 16 digits each: there may be many thousands.
struct HashesAsText {
  void write(Json& out, const std::vector<uint64_t>& hashes) const {
    std::string text;
    for (uint64_t hash : hashes) text += hex(hash);
    out = std::move(text);
  }
  void read(const JsonInput& in, std::vector<uint64_t>& hashes) const {
    const std::string& text = in.text();
    for (size_t at = 0; at < text.size(); at += 16) {
      const auto value = parse_number<uint64_t>(std::string_view(text).substr(at, 16), 16);
      if (at + 16 > text.size() || !value) in.refuse("it is no list of hashes");
      hashes.push_back(*value);
    }
  }
};

// What the tactic of a step is.
struct Chosen {
  std::string name, config, op, fields;
  int version = 0, packed = -1;
};

// Indices into Plan::constants, -1: none. Whether the plan has them is asked when its constants are known.
constexpr Within kIndex{-1, std::numeric_limits<int>::max()};

std::vector<PlacedPort> placed(const std::vector<Port>& ports, const std::vector<Layout>& layouts,
                               const std::vector<BufferRef>& refs) {
  std::vector<PlacedPort> list;
  for (size_t i = 0; i < refs.size(); ++i) list.push_back({ports[i], layouts[i], refs[i]});
  return list;
}
void spread(std::vector<PlacedPort>&& list, std::vector<Port>& ports, std::vector<Layout>& layouts,
            std::vector<BufferRef>& refs) {
  for (PlacedPort& item : list) {
    ports.push_back(std::move(item.port));
    layouts.push_back(item.layout);
    refs.push_back(item.ref);
  }
}

}  // namespace

static void write_json(Json& out, const TensorType& type) { out = type.text(); }
static void read_json(const JsonInput& in, TensorType& type) {
  type = with_context([&] { return in.place(); }, [&] { return TensorType::parse(in.text()); });
}

static void write_json(Json& out, const PlacedPort& placed) {
  const auto& [port, layout, ref] = placed;
  out = Json{port.present ? concat(port.type,
                                   port.is_constant    ? "*"
                                   : port.no_negatives ? "+"
                                                       : "",
                                   port.in_place ? "=" : "")
                          : "_",
             name_of(layout), kind_names[size_t(ref.kind)], ref.at, ref.slice_bytes};
  if (ref.offset || port.pitch) out.insert(out.end(), {ref.offset, port.pitch});
}
static void read_json(const JsonInput& in, PlacedPort& placed) {
  const auto& items = in.list();
  if (items.size() != 5 && items.size() != 7) in.refuse("a port has ", items.size(), " items");
  const auto item = [&](size_t i) { return JsonInput(items[i], in, i); };
  std::string_view type = item(0).text();
  auto& [port, layout, ref] = placed;
  port.present = type != "_";
  if (port.present) {
    port.in_place = type.ends_with('=');
    if (port.in_place) type.remove_suffix(1);
    port.is_constant = type.ends_with('*');
    port.no_negatives = type.ends_with('+');
    if (port.is_constant || port.no_negatives) type.remove_suffix(1);
    port.type = with_context([&] { return item(0).place(); }, [&] { return TensorType::parse(type); });
  }
  layout = Layout(index_of(enum_names(Layout{}), item(1), "layout"));
  ref.kind = BufferRef::Kind(index_of(kind_names, item(2), "kind of buffer"));
  kSize.read(item(3), ref.at);
  kSize.read(item(4), ref.slice_bytes);
  if (items.size() == 7) {
    kSize.read(item(5), ref.offset);
    kSize.read(item(6), port.pitch);
  }
}

template <class V, Is<ShapeRange> T>
static void json_items(V& v, T& range) {
  v.item("least", range.min);
  v.item("optimal", range.opt);
  v.item("most", range.max);
}

template <class V, Is<EngineInfo> T>
static void json_fields(V& v, T& info) {
  v.field("model_name", info.model_name);
  v.field("model_sha256", info.model_sha256);
  v.field("source_sha256", info.source_sha256);
  v.field("source_path", info.source_path);
  v.field("producer", info.producer);
  v.field("precision", info.precision);
  v.field("calibration_sha256", info.calibration_sha256);
  v.field("calibration_hashes", info.calibration_hashes, HashesAsText());
  if constexpr (V::kReads) v.may_lack("preprocess", info.preprocess);
  else v.field("preprocess", info.preprocess);
  v.field("placeholder", info.placeholder);
  v.field("products", info.products, kSize);
  v.field("lowered_products", info.lowered_products, kSize);
  v.field("not_lowered", info.not_lowered);
  v.field("device", info.device);
  v.field("fingerprint", info.fingerprint);
  v.field("version", info.version);
  v.field("revision", info.revision);
  v.field("command", info.command);
  v.field("build_s", info.build_s);
  v.field("shapes", info.shapes);
  v.field("profiles", info.profiles);
  v.field("notes", info.notes);
}

template <class V, Is<PortInfo> T>
static void json_items(V& v, T& port) {
  v.item("name", port.name);
  v.item("type", port.type);
}

template <class V, Is<Chosen> T>
static void json_fields(V& v, T& chosen) {
  v.field("name", chosen.name);
  v.field("version", chosen.version, Within{0, 1 << 30});
  v.field("config", chosen.config);
  v.field("op", chosen.op);
  v.field("fields", chosen.fields);
  v.field("packed", chosen.packed, kIndex);
}

template <class V, Is<PlanStep> T>
static void json_fields(V& v, T& step) {
  v.field("node", step.node);
  v.field("threads", step.problem.threads, kThreads);
  v.field("workspace", step.workspace, kSize);
  v.field("backwards", step.backwards);
  v.field("code", step.code, kIndex);
  v.field("ms", step.ms);
  std::vector<PlacedPort> inputs, outputs;
  std::optional<Chosen> chosen;
  if constexpr (!V::kReads) {
    inputs = placed(step.problem.inputs, step.config.inputs, step.inputs);
    outputs = placed(step.problem.outputs, step.config.outputs, step.outputs);
    if (!step.is_reorder())
      chosen = Chosen{
          step.tactic,         step.config.text, std::string(name_of(step.problem.op)), fields_text(step.problem.op),
          step.tactic_version, step.packed};
  }
  v.field("inputs", inputs);
  v.field("outputs", outputs);
  v.field("tactic", chosen);
  if constexpr (V::kReads) {
    spread(std::move(inputs), step.problem.inputs, step.config.inputs, step.inputs);
    spread(std::move(outputs), step.problem.outputs, step.config.outputs, step.outputs);
    if (!chosen) return;
    if (chosen->name.empty()) v.refuse("tactic", "a tactic has no name");
    step.problem.op = with_context([&] { return concat("step '", step.node, "'"); },
                                   [&] { return parse_op(chosen->op, chosen->fields); });
    step.tactic = chosen->name;
    step.tactic_version = chosen->version;
    step.config.text = chosen->config;
    step.packed = chosen->packed;
  }
}

template <class V, Is<Segment> T>
static void json_fields(V& v, T& segment) {
  v.field("slices", segment.slices, Within{1});
  v.field("parallel", segment.parallel);
  v.field("local_bytes", segment.local_bytes, kSize);
  v.field("workspace_at", segment.workspace_at, kSize);
  v.field("steps", segment.steps);
}

template <class V, Is<WholeTime> T>
static void json_fields(V& v, T& whole) {
  v.field("ms", whole.ms);
  v.field("low", whole.low);
  v.field("high", whole.high);
  v.field("runs", whole.runs, kSize);
  v.field("load", whole.load);
}

namespace {

// A time that nobody measured is null.
struct WholeTimeOrNull {
  void write(Json& out, const WholeTime& whole) const {
    if (whole.is_measured()) write_json(out, whole);
    else out = nullptr;
  }
  void read(const JsonInput& in, WholeTime& whole) const {
    if (!in.is_null()) read_json(in, whole);
  }
};

}  // namespace

template <class V, Is<StoredTensor> T>
static void json_items(V& v, T& tensor) {
  v.item("type", tensor.type);
  v.item("in_plans", tensor.in_plans);
  v.item("offset", tensor.offset, kSize);
}

template <class V, Is<Candidate> T>
static void json_items(V& v, T& candidate) {
  v.item("tactic", candidate.tactic);
  v.item("config", candidate.config);
  v.item("ms", candidate.ms);
  v.item("refusal", candidate.refusal);
}

namespace {

// `constants` are indices into the table of tensors, which has `tensors` (when it is read).
template <class V, class P, class Indices>
void visit_plan(V& v, P& plan, Indices& constants, size_t tensors) {
  v.field("inputs", plan.inputs);
  v.field("outputs", plan.outputs);
  v.field("shared_bytes", plan.shared_bytes, kSize);
  v.field("measured", plan.whole, WholeTimeOrNull());
  v.field("not_measured", plan.not_measured);
  v.field("constants", constants, Each{Within{0, int64_t(tensors) - 1}});
  v.field("segments", plan.segments);
}

// What is known of a step when the plan's constants are there.
void take_constants(PlanStep& step, const std::vector<std::shared_ptr<const Tensor>>& constants) {
  const auto count = int64_t(constants.size());
  for (int index : {step.code, step.packed})
    if (index >= count)
      fail(ErrorKind::bad_file, "the manifest is damaged: step '", step.node, "' takes constant ", index, " of ",
           count);
  for (size_t i = 0; i < step.inputs.size(); ++i) {
    const BufferRef& ref = step.inputs[i];
    if (step.problem.inputs[i].is_constant && ref.kind == BufferRef::Kind::constant && ref.at < count)
      step.problem.inputs[i].constant = constants[size_t(ref.at)].get();
  }
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
  JsonWriter<Json> root;
  root.field("info", file.info);
  root.field("threads", file.threads);
  root.field("inputs", file.inputs);
  root.field("outputs", file.outputs);
  root.field("tensors", manifest.tensors);
  root.field("graph_constants", file.graph ? std::optional(manifest.graph_constants) : std::nullopt);
  Json& plans = root.object["plans"] = Json::array();
  for (size_t p = 0; p < file.plans.size(); ++p) {
    JsonWriter<Json> plan;
    visit_plan(plan, *file.plans[p], manifest.plan_constants[p], manifest.tensors.size());
    plans.push_back(std::move(plan.object));
  }
  return strict::dump(root.object);
}

struct ManifestReader::Impl {
  Json json;
  JsonInput root{json, "", kSchema};
  explicit Impl(std::string_view text) : json(strict::parse(text, "the manifest")) {}
};

ManifestReader::ManifestReader(std::string_view text) : impl_(std::make_unique<Impl>(text)) {
  JsonReader root(impl_->root);
  for (const char* key : {"info", "threads", "inputs", "outputs", "tensors", "graph_constants", "plans"}) root[key];
  root.finish();
}
ManifestReader::~ManifestReader() = default;

void ManifestReader::read_info(PlanFile& file) const {
  JsonReader root(impl_->root);
  root.field("info", file.info);
  root.field("threads", file.threads, kThreads);
  root.field("inputs", file.inputs);
  root.field("outputs", file.outputs);
}

Manifest ManifestReader::read_tables() const {
  JsonReader root(impl_->root);
  Manifest manifest;
  root.field("tensors", manifest.tensors);
  const Each<Within> indices{Within{0, int64_t(manifest.tensors.size()) - 1}};
  const JsonInput plans = root["plans"];
  for (size_t p = 0; p < plans.list().size(); ++p) {
    const JsonInput plan(plans.list()[p], plans, p);
    JsonReader(plan).field("constants", manifest.plan_constants.emplace_back(), indices);
  }
  if (has_graph()) root.field("graph_constants", manifest.graph_constants, indices);
  return manifest;
}

bool ManifestReader::has_graph() const { return JsonReader(impl_->root).has("graph_constants"); }

std::vector<Plan> ManifestReader::read_plans(const Manifest& manifest,
                                             const std::vector<std::shared_ptr<const Tensor>>& tensors) const {
  std::vector<Plan> plans;
  JsonReader root(impl_->root);
  int threads = 0;
  root.field("threads", threads, kThreads);
  const JsonInput list = root["plans"];
  for (size_t p = 0; p < list.list().size(); ++p) {
    const JsonInput item(list.list()[p], list, p);
    JsonReader reader(item);
    Plan& plan = plans.emplace_back();
    plan.threads = threads;
    std::vector<int> constants;
    visit_plan(reader, plan, constants, manifest.tensors.size());
    reader.finish();
    for (int index : constants) plan.constants.push_back(tensors[size_t(index)]);
    for (Segment& segment : plan.segments)
      for (PlanStep& step : segment.steps) take_constants(step, plan.constants);
  }
  return plans;
}

std::string write_candidates(const std::vector<std::shared_ptr<const Plan>>& plans) {
  Json json = Json::array();
  for (const auto& plan : plans) {
    Json decisions = Json::array();
    for_each_decision(*plan, [&](const PlanStep& step) { write_json(decisions.emplace_back(), step.losers); });
    json.push_back(std::move(decisions));
  }
  return strict::dump(json);
}

void read_candidates(std::string_view text, std::vector<Plan>& plans) {
  const Json json = strict::parse(text, "the list of candidates");
  const JsonInput root(json, "the list of candidates", kSchema);
  if (root.list().size() != plans.size())
    root.refuse("it is damaged: it has ", root.list().size(), " of ", plans.size(), " plans");
  for (size_t p = 0; p < plans.size(); ++p) {
    const JsonInput decisions(root.list()[p], root, p);
    size_t next = 0;
    for_each_decision(plans[p], [&](PlanStep& step) {
      if (next >= decisions.list().size()) decisions.refuse("it is damaged: it is too short");
      read_json(JsonInput(decisions.list()[next], decisions, next), step.losers);
      ++next;
    });
    if (next != decisions.list().size()) decisions.refuse("it is damaged: it is too long");
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
  const JsonInput root(json, "the list of times", "");
  for (const auto& [group, candidates] : root.members()) {
    const JsonInput in_group(candidates, root, group);
    for (const auto& [candidate, ms] : in_group.members())
      timings.emplace_hint(timings.end(), concat(group, " | ", candidate), JsonInput(ms, in_group, candidate).number());
  }
  return timings;
}

}  // namespace temper
