// SPDX-License-Identifier: Apache-2.0
#include "cli/inspect_model.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/count_of.h"
#include "bench/table.h"
#include "cli/json_text.h"
#include "cli/terminal.h"
#include "data/batches.h"
#include "data/given_inputs.h"
#include "onnx/summary.h"
#include "optimize/model_source.h"
#include "plan/work.h"
#include "runtime/partitions.h"

namespace temper::cli {

namespace {

using Json = nlohmann::ordered_json;

// What running the model on this machine would take, by plans that nobody timed.
struct Planned {
  std::map<std::string, Dims> shapes;
  std::vector<std::string> open;  // dimensions that nobody decides: nothing is planned
  int64_t steps = 0, products = 0, others = 0, constant_bytes = 0, activation_bytes = 0;
  bool in_partitions = false;  // what it computes depends on data: counted is what is known without a run
  struct Slow {
    std::string node, op, why;
  };
  std::vector<Slow> on_reference, on_host;  // the second: steps of a GPU's plan that the CPU computes
  std::vector<std::string> notes;
};

// One sample where the model leaves the batch open; other open dimensions are decided by --shapes alone.
Planned shapes_of(const Graph& graph, const std::map<std::string, ShapeRange>& given) {
  Planned planned;
  const std::vector<InputSpec> specs = input_specs(graph);
  Bindings bindings;
  for (const InputSpec& spec : specs) {
    const auto range = given.contains(spec.name) ? given.find(spec.name) : given.find("");
    if (range == given.end()) continue;
    if (range->second.opt.size() != spec.type.shape.size())
      fail(ErrorKind::usage, "--shapes: the input '", spec.name, "' is ", spec.type);
    for (size_t axis = 0; axis < spec.type.shape.size(); ++axis)
      if (const auto name = spec.type.shape[axis].text(); !spec.type.shape[axis].is_constant())
        bindings.emplace(name, range->second.opt[axis]);
  }
  if (const std::string batch = batch_symbol(specs); !batch.empty()) bindings.emplace(batch, 1);
  for (const InputSpec& spec : specs) {
    Dims& dims = planned.shapes[spec.name];
    for (const Dim& dim : spec.type.shape) {
      const Dim bound = dim.substitute(bindings);
      if (bound.is_constant()) dims.push_back(bound.value());
      else if (std::find(planned.open.begin(), planned.open.end(), dim.text()) == planned.open.end())
        planned.open.push_back(dim.text());
    }
  }
  return planned;
}

std::string reasons_of(const PlanStep& step) {
  std::string why;
  for (const Candidate& c : step.losers)
    if (!c.refusal.empty() && !c.refusal.starts_with("not a "))
      why += concat(why.empty() ? "" : "; ", c.tactic, ": ", c.refusal);
  return why.empty() ? "there is no kernel for it" : why;
}

void add(Planned& planned, const Plan& plan) {
  planned.activation_bytes = std::max(planned.activation_bytes, plan.arena_bytes());
  for (const auto& constant : plan.constants) planned.constant_bytes += int64_t(constant->raw().size());
  for (const Segment& segment : plan.segments)
    for (const PlanStep& step : segment.steps) {
      ++planned.steps;
      const int64_t products = product_operations_of(segment, step);
      planned.products += products;
      planned.others += operations_of(segment, step).value_or(products) - products;
      if (step.tactic == "reference") planned.on_reference.push_back({step.node, op_of(step), reasons_of(step)});
      if (step.tactic == "cuda.host") planned.on_host.push_back({step.node, op_of(step), reasons_of(step)});
    }
}

Planned plan_of(const ImportedModel& model, const std::string& path, const ModelFlags& flags, const Context& context) {
  BuildOptions options = build_options(flags, path, context);
  Planned planned = shapes_of(model.graph, options.shapes);
  if (!planned.open.empty()) return planned;
  options.replace_shapes(planned.shapes);
  options.measure = options.segments = false;
  options.timing_cache.clear();
  options.threads = 1;  // nothing runs, and a system without room for threads is looked at, too
  const auto engine = build_engine(model.graph, engine_info_of(model, path), options);
  planned.notes = engine->info().notes;
  const auto plans = engine->plans();
  for (const auto& plan : plans) add(planned, *plan);
  if (!plans.empty()) return planned;
  planned.in_partitions = true;
  std::vector<Dims> shapes;
  for (const PortInfo& port : engine->inputs()) shapes.push_back(planned.shapes.at(port.name));
  for (const Partition& partition : Session(engine).partitions(shapes))
    if (partition.plan) add(planned, *partition.plan);
  return planned;
}

// "4.09 G"
std::string count_text(double count) {
  for (const auto& [unit, name] :
       {std::pair(1e12, " T"), std::pair(1e9, " G"), std::pair(1e6, " M"), std::pair(1e3, " k")})
    if (count >= unit) return concat(format_number(count / unit, 3), name);
  return concat(int64_t(count));
}

// The most frequent first.
std::vector<std::pair<std::string, int64_t>> ordered(const std::map<std::string, int64_t>& counts) {
  std::vector<std::pair<std::string, int64_t>> out(counts.begin(), counts.end());
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  return out;
}

int64_t bytes_of_files(const std::vector<std::string>& files) {
  int64_t bytes = 0;
  for (const std::string& file : files) {
    std::error_code error;
    if (const auto size = std::filesystem::file_size(file, error); !error) bytes += int64_t(size);
  }
  return bytes;
}

void print_summary(const std::string& path, const ModelSummary& summary, const Planned* planned,
                   const ModelFlags& flags) {
  const auto& line = print_line;
  std::string opsets;
  for (const auto& [domain, version] : summary.opsets)
    opsets += concat(opsets.empty() ? "" : ", ", domain == "ai.onnx" ? "" : concat(domain, " "), version);
  line("model", concat(path, ", ", format_bytes(double(bytes_of_files(summary.files))),
                       summary.files.size() > 1 ? concat(" in ", summary.files.size(), " files") : "",
                       summary.name.empty() ? "" : concat(", '", summary.name, "'")));
  if (!summary.producer.empty()) line("producer", summary.producer);
  line("opset", concat(opsets, ", IR version ", summary.ir_version));
  for (const auto& port : summary.inputs) line("input", concat(port.name, ": ", port.type));
  for (const auto& port : summary.outputs) line("output", concat(port.name, ": ", port.type));
  std::string ops;
  for (const auto& [op, count] : ordered(summary.ops)) ops += concat(ops.empty() ? ": " : ", ", count, " ", op);
  line("nodes",
       concat(summary.nodes, ops, summary.functions ? concat("; ", summary.functions, " functions of its own") : ""));
  std::string types;
  for (const auto& [type, count] : ordered(summary.parameters_by_type))
    if (summary.parameters_by_type.size() > 1)
      types += concat(types.empty() ? ": " : ", ", count_text(double(count)), " ", type);
    else types += concat(" ", type);
  line("parameters", concat(summary.parameters ? count_text(double(summary.parameters)) : "none", types, ", ",
                            format_bytes(double(summary.parameter_bytes))));
  for (const auto& [key, value] : summary.metadata)
    line("metadata", concat(key, " = ", value.size() > 200 ? concat(value.substr(0, 200), "…") : value));
  if (planned && !planned->open.empty()) {
    std::string open;
    for (const std::string& dim : planned->open) open += concat(open.empty() ? "" : ", ", dim);
    line("runs here", concat("yes; ", open, planned->open.size() > 1 ? " are" : " is",
                             " open: --shapes NAME=SHAPE shows operations, memory and what has no kernel"));
  } else if (planned) {
    std::string shapes;
    for (const auto& [name, dims] : planned->shapes) shapes += concat(shapes.empty() ? "" : ", ", name, " ", dims);
    const char* least = planned->in_partitions ? "at least " : "";
    line("for", concat(shapes.empty() ? "no inputs" : shapes, ", on ", flags.device, ", in ", flags.precision));
    line("operations", concat(least, count_text(double(planned->products)), " in convolutions and products, ",
                              count_text(double(planned->others)), " in others"));
    line("memory", concat(least, format_bytes(double(planned->constant_bytes)), " of weights and ",
                          format_bytes(double(planned->activation_bytes)), " of activations while it runs"));
    line("runs here",
         concat("yes, in ", planned->in_partitions ? "partitions, as data decide; " : "",
                count_of(planned->steps, "step"), planned->in_partitions ? " that are known without a run" : "",
                planned->on_reference.empty() && planned->on_host.empty() ? ", each with a kernel" : ""));
    for (const auto& slow : planned->on_reference)
      line("reference", concat(slow.node, " (", slow.op, ") runs on the slow scalar reference: ", slow.why));
    for (const auto& slow : planned->on_host) line("on the CPU", concat(slow.node, " (", slow.op, "): ", slow.why));
    for (const std::string& note : planned->notes) line("note", note);
  }
  if (summary.refused.empty()) return;
  line("runs here",
       concat("no: ", summary.refused.size(), " not supported",
              summary.not_looked_at ? concat(", and ", summary.not_looked_at, " nodes behind them were not looked at")
                                    : ""));
  // Nodes of one op are often refused for one reason.
  std::map<std::string, std::vector<const Refused*>> by_reason;
  std::vector<std::string> reasons;
  for (const Refused& refused : summary.refused) {
    auto& same = by_reason[refused.op + ": " + refused.reason];
    if (same.empty()) reasons.push_back(refused.op + ": " + refused.reason);
    same.push_back(&refused);
  }
  for (const std::string& reason : reasons) {
    const auto& same = by_reason[reason];
    std::string nodes;
    for (size_t i = 0; i < same.size() && i < 3; ++i) nodes += concat(i ? ", " : "", "'", same[i]->node, "'");
    if (same.size() > 3) nodes += concat(" and ", same.size() - 3, " more");
    const bool is_node = !same[0]->node.empty() && same[0]->op != "input" && same[0]->op != "initializer";
    line("", is_node ? concat(reason, " (", nodes, ")") : same[0]->reason);
  }
}

Json json_of(const std::string& path, const ModelSummary& summary, const Planned* planned, const ModelFlags& flags,
             const std::string& graph) {
  const auto ports = [](const std::vector<ModelSummary::Port>& list) {
    Json json = Json::array();
    for (const auto& port : list) json.push_back({{"name", port.name}, {"type", port.type}});
    return json;
  };
  Json json{{"schema", "temper.model/1"},
            {"model", path},
            {"bytes", bytes_of_files(summary.files)},
            {"files", summary.files},
            {"sha256", summary.sha256},
            {"name", summary.name},
            {"producer", summary.producer},
            {"ir_version", summary.ir_version},
            {"opsets", summary.opsets},
            {"metadata", summary.metadata},
            {"inputs", ports(summary.inputs)},
            {"outputs", ports(summary.outputs)},
            {"nodes", summary.nodes},
            {"ops", summary.ops},
            {"functions", summary.functions},
            {"parameters", summary.parameters},
            {"parameter_bytes", summary.parameter_bytes},
            {"parameters_by_type", summary.parameters_by_type},
            {"supported", summary.refused.empty()},
            {"not_supported", Json::array()},
            {"not_looked_at", summary.not_looked_at},
            {"planned", nullptr}};
  for (const Refused& refused : summary.refused)
    json["not_supported"].push_back({{"node", refused.node}, {"op", refused.op}, {"reason", refused.reason}});
  if (planned && planned->open.empty()) {
    const auto slow = [](const std::vector<Planned::Slow>& list) {
      Json out = Json::array();
      for (const auto& step : list) out.push_back({{"node", step.node}, {"op", step.op}, {"why", step.why}});
      return out;
    };
    json["planned"] = {{"device", flags.device},
                       {"precision", flags.precision},
                       {"shapes", planned->shapes},
                       {"in_partitions", planned->in_partitions},
                       {"steps", planned->steps},
                       {"product_operations", planned->products},
                       {"other_operations", planned->others},
                       {"constant_bytes", planned->constant_bytes},
                       {"activation_bytes", planned->activation_bytes},
                       {"on_reference", slow(planned->on_reference)},
                       {"on_host", slow(planned->on_host)},
                       {"notes", planned->notes}};
  }
  if (planned) json["open_dimensions"] = planned->open;
  if (!graph.empty()) json["graph"] = graph;
  return json;
}

// With the passes where they are asked for.
std::string graph_text(const std::string& path, const InspectModelOptions& options, const ModelFlags& flags,
                       const Context& context) {
  const BuildOptions build = begun(build_options(flags, path, context));
  ImportedModel model = ModelSource{path, "", {}}.import(build.limits, build.shapes);
  if (options.passes || !options.dump_folder.empty() || !flags.disabled_passes.empty()) {
    PassOptions passes = build.passes;
    passes.dump_folder = options.dump_folder;
    run_passes(model.graph, passes);
  }
  return print(model.graph);
}

}  // namespace

void inspect_model(const std::string& path, const InspectModelOptions& options, const ModelFlags& flags,
                   const Context& context) {
  const std::string graph = options.graph ? graph_text(path, options, flags, context) : "";
  if (options.graph && !context.json) {
    std::fputs(graph.c_str(), stdout);
    return;
  }
  const BuildOptions build = build_options(flags, path, context);
  ImportOptions import{{}, build.limits, {}};
  ModelSummary summary = summarise_onnx(path, import);
  // What only fixed dimensions decide is decided by --shapes.
  for (const auto& [name, range] : build.shapes)
    if (!name.empty()) import.shapes[name] = range.opt;
  if (!summary.refused.empty() && !import.shapes.empty()) summary = summarise_onnx(path, import);
  std::optional<Planned> planned;
  if (summary.model)
    planned = with_context([&] { return path; }, [&] { return plan_of(*summary.model, path, flags, context); });
  if (context.json) print_json(json_of(path, summary, planned ? &*planned : nullptr, flags, graph));
  else print_summary(path, summary, planned ? &*planned : nullptr, flags);
  if (const auto& refused = summary.refused; !refused.empty())
    fail(ErrorKind::unsupported, path, ": ",
         refused[0].node.empty() ? "" : concat("node '", refused[0].node, "' (", refused[0].op, "): "),
         refused[0].reason, refused.size() > 1 ? concat(" (the first of ", refused.size(), ")") : "");
}

}  // namespace temper::cli
