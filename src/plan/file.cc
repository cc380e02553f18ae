// SPDX-License-Identifier: Apache-2.0
#include "plan/file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <unordered_map>

#include "base/checked.h"
#include "base/file_copy.h"
#include "base/hash.h"
#include "base/version.h"
#include "plan/check.h"
#include "plan/manifest.h"
#include "plan/nearest.h"

namespace temper {

namespace {

// Names of the sections. Tensors that only the graph needs stand apart: a plan that is only run never touches them.
constexpr const char *kConstants = "constants", *kGraphConstants = "graph_constants", *kGraph = "graph",
                     *kTimings = "timings", *kCandidates = "candidates";

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}
std::string_view text_of(const Section& section) {
  return {reinterpret_cast<const char*>(section.bytes.data()), section.bytes.size()};
}

// Tensors of equal type and content are stored once, whichever plan they belong to.
class TensorTable {
 public:
  std::vector<StoredTensor> stored;
  SectionToWrite constants{kConstants, true, {}}, graph_constants{kGraphConstants, true, {}};

  // Side by side what add() asks for.
  void hash(const std::vector<const Tensor*>& tensors) {
    std::vector<std::span<const std::byte>> fresh;
    for (const Tensor* tensor : tensors)
      if (hashes_.emplace(tensor->raw().data(), 0).second) fresh.push_back(tensor->raw());
    const std::vector<uint64_t> hashes = xxh3_of_each(fresh);
    for (size_t i = 0; i < fresh.size(); ++i) hashes_[fresh[i].data()] = hashes[i];
  }

  int add(const Tensor& tensor, bool in_plans) {
    const std::string type = tensor.type().text();
    auto [known, fresh] = by_address_.emplace(concat(reinterpret_cast<uintptr_t>(tensor.raw().data()), type), -1);
    if (!fresh) return known->second;
    auto& same_hash = by_content_[concat(hex(hashes_.at(tensor.raw().data())), type)];
    for (const auto& [other, index] : same_hash)
      if (std::memcmp(other.data(), tensor.raw().data(), other.size()) == 0) return known->second = index;
    SectionToWrite& section = in_plans ? constants : graph_constants;
    int64_t& end = in_plans ? constants_end_ : graph_end_;
    end = round_up(end, kSectionAlignment);
    const int index = int(stored.size());
    stored.push_back({tensor.type(), in_plans, end});
    end += tensor.bytes();
    section.parts.push_back(tensor.raw());
    same_hash.push_back({tensor.raw(), index});
    return known->second = index;
  }

 private:
  std::unordered_map<const std::byte*, uint64_t> hashes_;  // by address
  std::unordered_map<std::string, int> by_address_;
  std::unordered_map<std::string, std::vector<std::pair<std::span<const std::byte>, int>>> by_content_;
  int64_t constants_end_ = 0, graph_end_ = 0;
};

// The times that a plan for another shape may ask for: of problems like those of the plans, on all threads and on as
// many as they have, one chain.
std::map<std::string, double> relevant_timings(const PlanFile& file) {
  std::set<std::string> wanted;
  for (const auto& plan : file.plans)
    for (const Segment& segment : plan->segments)
      for (const PlanStep& step : segment.steps) {
        if (step.is_reorder()) continue;
        Problem problem = step.problem;
        for (int threads : {step.problem.threads, plan->threads}) {
          problem.threads = threads;
          wanted.insert(without_shapes(timing_group(file.info.fingerprint, problem, 1)));
        }
      }
  std::map<std::string, double> result;
  for (const auto& [key, ms] : file.timings)
    if (const auto split = key.rfind(" | "); split != key.npos && wanted.contains(without_shapes(key.substr(0, split))))
      result.emplace(key, ms);
  return result;
}

// The plans serve the engine's ports and shapes.
void check_ports(const PlanFile& file) {
  auto ranged = [&](const PortInfo& port) {
    auto it = file.info.shapes.find(port.name);
    return it == file.info.shapes.end() ? nullptr : &it->second;
  };
  for (const auto& entry : file.info.shapes) {
    const std::string& name = entry.first;
    const ShapeRange& range = entry.second;
    const auto port =
        std::find_if(file.inputs.begin(), file.inputs.end(), [&](const PortInfo& p) { return p.name == name; });
    if (port == file.inputs.end()) plan_damaged("it has a range for the input '", name, "', which does not exist");
    for (const Dims* dims : {&range.min, &range.opt, &range.max}) {
      if (dims->size() != port->type.shape.size()) plan_damaged("the range of the input '", name, "' has another rank");
      check_concrete(type_of(port->type.dtype, *dims));
    }
    for (size_t axis = 0; axis < range.min.size(); ++axis)
      if (range.min[axis] > range.opt[axis] || range.opt[axis] > range.max[axis])
        plan_damaged("the range of the input '", name, "' is empty");
  }
  auto same = [&](const PortInfo& wanted, const PortInfo& port) {
    bool ok = wanted.name == port.name && wanted.type.dtype == port.type.dtype &&
              wanted.type.shape.size() == port.type.shape.size();
    for (size_t axis = 0; ok && axis < port.type.shape.size(); ++axis) {
      const Dim &known = wanted.type.shape[axis], &dim = port.type.shape[axis];
      ok = !known.is_constant() || known == dim;
      if (const ShapeRange* range = ok ? ranged(wanted) : nullptr;
          range && &wanted >= file.inputs.data() && &wanted < file.inputs.data() + file.inputs.size())
        ok = range->min[axis] <= dim.value() && dim.value() <= range->max[axis];
    }
    return ok;
  };
  std::set<std::vector<Dims>> seen;
  for (const auto& plan : file.plans) {
    if (plan->inputs.size() != file.inputs.size() || plan->outputs.size() != file.outputs.size())
      plan_damaged("a plan has another number of inputs or outputs than the model");
    std::vector<Dims> shapes;
    for (size_t i = 0; i < file.inputs.size(); ++i) {
      if (!same(file.inputs[i], plan->inputs[i]))
        plan_damaged("a plan has the input '", plan->inputs[i].name, "' ", plan->inputs[i].type,
                     " where the model has '", file.inputs[i].name, "' ", file.inputs[i].type);
      shapes.push_back(plan->inputs[i].type.dims());
    }
    for (size_t o = 0; o < file.outputs.size(); ++o)
      if (!same(file.outputs[o], plan->outputs[o]))
        plan_damaged("a plan has the output '", plan->outputs[o].name, "' ", plan->outputs[o].type,
                     " where the model has '", file.outputs[o].name, "' ", file.outputs[o].type);
    if (!seen.insert(shapes).second) plan_damaged("two plans are for the same shapes");
    if (!file.graph) continue;
    const Bindings bindings = bind_shapes(*file.graph, shapes);
    for (size_t o = 0; o < file.outputs.size(); ++o)
      for (size_t axis = 0; axis < file.outputs[o].type.shape.size(); ++axis)
        if (const Dim dim = file.outputs[o].type.shape[axis].substitute(bindings);
            dim.is_constant() && dim != plan->outputs[o].type.shape[axis])
          plan_damaged("a plan has the output '", plan->outputs[o].name, "' ", plan->outputs[o].type,
                       ", which does not follow from its inputs");
  }
}

void check_graph(const PlanFile& file) {
  const Graph& graph = *file.graph;
  bool same = graph.inputs().size() == file.inputs.size() && graph.outputs().size() == file.outputs.size();
  for (size_t i = 0; same && i < file.inputs.size(); ++i)
    same = graph.value(graph.inputs()[i]).name == file.inputs[i].name &&
           graph.type(graph.inputs()[i]) == file.inputs[i].type;
  for (size_t o = 0; same && o < file.outputs.size(); ++o)
    same =
        graph.outputs()[o].name == file.outputs[o].name && graph.type(graph.outputs()[o].value) == file.outputs[o].type;
  if (!same) plan_damaged("its graph has other inputs or outputs than its list of them");
}

// Why this program cannot run it on this machine; empty if it can. `readable`: the same program wrote it, for a device
// that it knows.
std::string refusal_here(PlanFile& file, std::string_view manifest, const DeviceSettings& settings, bool& readable) {
  const EngineInfo& info = file.info;
  const std::string hint = rebuild_hint(info.command);
  readable = false;
  if (info.version != version() || info.revision != revision())
    return concat("the plan was built by temper ", info.version, " (", info.revision, "), this is temper ", version(),
                  " (", revision(), ")", hint);
  try {
    find_backend(info.device);
  } catch (const Error&) {
    return concat("the plan is for the device '", info.device, "', which this build does not have", hint);
  }
  readable = true;
  preload(info.device, manifest, settings);
  try {
    Device device = open_device(info.device, settings);
    if (device.fingerprint != info.fingerprint)
      return concat("the plan was built for '", info.fingerprint, "', this machine is '", device.fingerprint, "'",
                    hint);
    file.device = std::move(device);
  } catch (const DeviceFull&) {
    throw;  // it is the right one
  } catch (const Error& error) {
    return concat("the plan was built for '", info.fingerprint, "', which cannot be used here: ", error.what(), hint);
  }
  return "";
}

// Views into the file. Tensors stand one behind the other, each at the next aligned byte, with zeros between.
std::vector<std::shared_ptr<const Tensor>> read_tensors(const Container& container, const Manifest& manifest,
                                                        const std::shared_ptr<const void>& owner) {
  std::vector<std::shared_ptr<const Tensor>> tensors;
  const Section* sections[2] = {container.find(kGraphConstants), container.find(kConstants)};
  int64_t end[2] = {0, 0};
  for (const StoredTensor& stored : manifest.tensors) {
    check_concrete(stored.type);
    const Section* section = sections[stored.in_plans];
    if (!section) plan_damaged("the section of a tensor is missing");
    int64_t& at = end[stored.in_plans];
    const int64_t start = round_up(at, kSectionAlignment), bytes = byte_count(stored.type.dtype, stored.type.dims());
    const auto size = int64_t(section->bytes.size());
    if (stored.offset != start || start > size || bytes > size - start)
      plan_damaged("the tensor ", tensors.size(), " is not inside its section");
    if (std::any_of(section->bytes.begin() + at, section->bytes.begin() + start,
                    [](std::byte b) { return b != std::byte{0}; }))
      plan_damaged("padding between tensors is not zero");
    at = start + bytes;
    tensors.push_back(std::make_shared<const Tensor>(
        Tensor::view(stored.type.dtype, stored.type.dims(), section->bytes.data() + start, owner)));
  }
  for (int s = 0; s < 2; ++s)
    if (sections[s] && end[s] != int64_t(sections[s]->bytes.size()))
      plan_damaged("bytes follow the last tensor of a section");
  return tensors;
}

}  // namespace

void write_plan(const PlanFile& file, const ByteSink& sink) {
  const Backend& backend = find_backend(file.info.device);
  for (const auto& plan : file.plans) check_plan(*plan, backend);
  if (file.graph) check_graph(file);
  check_ports(file);
  TensorTable table;
  Manifest manifest;
  std::string graph_text = file.graph_text;
  std::vector<Tensor> blobs;
  if (file.graph) graph_text = print(*file.graph, &blobs);
  std::vector<const Tensor*> tensors;
  for (const auto& plan : file.plans)
    for (const auto& constant : plan->constants) tensors.push_back(constant.get());
  for (const Tensor& blob : blobs) tensors.push_back(&blob);
  table.hash(tensors);
  for (const auto& plan : file.plans) {
    auto& indices = manifest.plan_constants.emplace_back();
    for (const auto& constant : plan->constants) indices.push_back(table.add(*constant, true));
  }
  for (const Tensor& blob : blobs) manifest.graph_constants.push_back(table.add(blob, false));
  manifest.tensors = table.stored;

  const std::string timings = file.graph ? write_timings(relevant_timings(file)) : "";
  const std::string candidates = write_candidates(file.plans);
  std::vector<SectionToWrite> sections;
  auto add = [&](const char* name, bool required, std::string_view text) {
    sections.push_back({name, required, {bytes_of(text)}});
  };
  add(kGraph, true, graph_text);
  if (file.graph) add(kTimings, true, timings);
  add(kCandidates, false, candidates);
  if (!table.graph_constants.parts.empty()) sections.push_back(std::move(table.graph_constants));
  if (!table.constants.parts.empty()) sections.push_back(std::move(table.constants));
  write_container({concat("temper ", file.info.version, " (", file.info.revision, ")"), file.info.command},
                  write_manifest(file, manifest), sections, sink);
}

void write_plan_file(const std::string& path, const PlanFile& file, bool force) {
  AtomicFile out({path, FileKind::plan, force});
  write_plan(file, [&](std::span<const std::byte> bytes) { out.write(bytes.data(), bytes.size()); });
  out.commit();
}

PlanFile read_plan(std::span<const std::byte> bytes, const std::shared_ptr<const void>& owner,
                   const ReadPlanOptions& options) {
  const Container container = read_container(bytes);
  PlanFile file;
  file.file_bytes = int64_t(bytes.size());
  for (const Section& section : container.sections) {
    const auto& known = {kConstants, kGraphConstants, kGraph, kTimings, kCandidates};
    if (section.required && std::find(known.begin(), known.end(), section.name) == known.end())
      fail(ErrorKind::unsupported, "the plan has a section '", section.name, "', which this program does not know",
           rebuild_hint(container.preamble.command));
    if (section.name == kConstants) file.constant_bytes = int64_t(section.bytes.size());
    if (section.name == kGraphConstants) file.graph_bytes = int64_t(section.bytes.size());
  }
  const Section* graph = container.find(kGraph);
  if (!graph) plan_damaged("it has no graph");
  file.graph_text = text_of(*graph);
  const ManifestReader reader(container.manifest);
  reader.read_info(file);
  if (!options.device.empty()) {
    const auto kind = [](std::string_view device) { return device.substr(0, device.find(':')); };
    find_backend(options.device);
    if (kind(options.device) != kind(file.info.device))
      fail(ErrorKind::usage, "the plan is for the device '", file.info.device, "' and cannot run on '", options.device,
           "': build one for it");
    file.info.device = options.device;
  }
  file.refusal = refusal_here(file, container.manifest, options.settings, file.complete);
  if (!file.refusal.empty() && !options.foreign) fail(ErrorKind::unsupported, file.refusal);
  if (!file.complete) return file;

  const Backend& backend = find_backend(file.info.device);
  const Manifest manifest = reader.read_tables();
  const auto tensors = read_tensors(container, manifest, owner);
  std::vector<Plan> plans = reader.read_plans(manifest, tensors);
  if (options.candidates) {
    const Section* candidates = container.find(kCandidates);
    if (candidates) read_candidates(text_of(*candidates), plans);
  }
  for (Plan& plan : plans) {
    check_plan(plan, backend);
    file.plans.push_back(std::make_shared<const Plan>(std::move(plan)));
  }
  if (reader.has_graph()) {
    std::vector<Tensor> blobs;
    for (int index : manifest.graph_constants) blobs.push_back(*tensors[size_t(index)]);
    file.graph = parse_graph(file.graph_text, blobs);
    check_graph(file);
    const Section* timings = container.find(kTimings);
    if (!timings) plan_damaged("it has no times");
    file.timings = read_timings(text_of(*timings));
  } else {
    for (const PortInfo& input : file.inputs) check_concrete(input.type);
  }
  check_ports(file);
  return file;
}

namespace {

// Its first bytes: enough to refuse what is no plan, whatever its size.
bool begins_as_plan(const OpenFile& file) {
  std::array<std::byte, kPlanMagic.size()> start;
  const auto bytes = std::span(start).first(std::min(start.size(), file.size()));
  file.read(0, bytes);
  return looks_like_plan(bytes);
}

}  // namespace

bool is_plan(const std::string& path) { return begins_as_plan(OpenFile(path)); }

PlanFile read_plan_file(const std::string& path, const ReadPlanOptions& options) {
  return with_context([&] { return path; },
                      [&] {
                        if (options.map_file) {
                          // Hashing touches every page, on all threads: quicker than having the map filled first.
                          const auto map = std::make_shared<const MappedFile>(path);
                          return read_plan(map->bytes(), map, options);
                        }
                        const OpenFile file(path);
                        // What is no plan is not read to its end.
                        const size_t bytes =
                            begins_as_plan(file) ? file.size() : std::min(file.size(), kPlanMagic.size());
                        const auto copy = std::make_shared<const FileCopy>(file, std::vector<FileRange>{{0, bytes}});
                        return read_plan(copy->at(0, bytes), copy, options);
                      });
}

}  // namespace temper
