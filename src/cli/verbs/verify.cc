// SPDX-License-Identifier: Apache-2.0
// temper verify: checks a built model's outputs against the scalar reference.
#include <algorithm>
#include <cstdio>

#include "backends/backend.h"
#include "base/log.h"
#include "base/strict_json.h"
#include "cli/model.h"
#include "cli/outputs.h"
#include "cli/python.h"
#include "cli/terminal.h"
#include "graph/random.h"
#include "onnx/import.h"
#include "optimize/fusion.h"
#include "optimize/model_source.h"
#include "runtime/beside.h"

namespace temper::cli {

namespace {

struct VerifyFlags {
  std::string model;
  std::string source;
  PythonFlags python;  // of --source
  ModelFlags flags;
  Tolerance tolerance;
  uint64_t seed = 1;
  bool nodes = false;
};

nlohmann::json json_of(const Difference& d) {
  return {{"max_difference", d.largest},
          {"max_relative_difference", d.largest_relative},
          {"elements_beyond_tolerance", d.beyond},
          {"ok", d.beyond == 0}};
}

std::string text_of(const StepDifference& step) {
  char numbers[100];
  std::snprintf(numbers, sizeof numbers, "largest difference %.3g (relative %.3g), %lld elements beyond",
                step.difference.largest, step.difference.largest_relative,
                static_cast<long long>(step.difference.beyond));
  return concat(step.node, " (", step.op, ", ", step.tactic, ") -> ", step.type, ": ", std::string_view(numbers));
}

// Which part of the road the drift comes from: a node of the plan, or the passes before it.
nlohmann::json find_drift(Session& session, const std::vector<Tensor>& inputs, const std::vector<Tensor>& want,
                          const VerifyFlags& options, const Context& context) {
  const Engine& engine = session.engine();
  std::vector<Dims> shapes;
  shapes.reserve(inputs.size());
  for (const Tensor& input : inputs) shapes.push_back(input.dims());
  const Graph graph = graph_of_plan(specialize(engine.graph(), bind_shapes(engine.graph(), shapes)),
                                    session.current_plan(), build_options(options.flags, options.model, context).passes,
                                    find_backend(engine.info().device), engine.device());
  const auto steps = run_beside_reference(session, graph, inputs, options.tolerance);
  const auto first =
      std::find_if(steps.begin(), steps.end(), [](const StepDifference& s) { return s.difference.beyond > 0; });
  bool optimised_differs = false;
  const auto optimised = run_reference(graph, inputs);
  for (size_t o = 0; o < want.size(); ++o)
    optimised_differs |= compare(optimised[o], want[o], options.tolerance).beyond > 0;
  nlohmann::json json = {
      {"first_node", nullptr}, {"optimised_graph_differs", optimised_differs}, {"nodes", nlohmann::json::array()}};
  for (const StepDifference& step : steps) {
    nlohmann::json entry = json_of(step.difference);
    entry.update({{"node", step.node}, {"op", step.op}, {"tactic", step.tactic}, {"type", step.type.text()}});
    json["nodes"].push_back(std::move(entry));
    if (!context.json && options.nodes) std::printf("  %s\n", in_short_words(text_of(step)).c_str());
  }
  if (first != steps.end()) json["first_node"] = first->node;
  if (context.json) return json;
  if (first != steps.end())
    std::printf("the first node that drifts, given the same inputs as the reference: %s\n",
                in_short_words(text_of(*first)).c_str());
  else std::printf("each node alone agrees with the reference on its inputs\n");
  const std::string& precision = engine.info().precision;
  if (optimised_differs && precision != "fp32")
    std::printf(
        "that is what %s rounds, on the reference too: temper build --max-drop finds the layers that lose most, "
        "--keep-fp32 keeps them\n",
        precision.c_str());
  else if (optimised_differs)
    std::printf(
        "the optimised graph gives another answer than the model on the reference too: leave passes out with --disable "
        "to find the one\n");
  return json;
}

}  // namespace

void add_verify(Command& verb, Context& context) {
  auto options = std::make_shared<VerifyFlags>();
  verb.add_option("model", options->model, "the ONNX model to check").required();
  verb.add_option("--rtol", options->tolerance.relative, "relative tolerance of the comparison").capture_default_str();
  verb.add_option("--atol", options->tolerance.absolute, "absolute tolerance of the comparison").capture_default_str();
  verb.add_flag("--nodes", options->nodes, "compare every node with the reference, even if the outputs agree");
  verb.add_option("--seed", options->seed, "seed for the random inputs").capture_default_str();
  add_model_flags(verb, options->flags);
  Command beside =
      verb.add_option_group("Beside its source", "with --source, Python does the work: see temper export --help");
  const Option source = beside
                            .add_option("--source", options->source,
                                        "the model that the file was exported from, named as for temper export; its "
                                        "outputs are compared with those of ONNX Runtime and Temper")
                            .type_name("SPEC");
  add_source_options(beside, options->python);
  for (const Option& option : beside.get_options())
    if (option != source) option.needs(source);
  verb.callback([options, source, &context] {
    if (source.given()) return hand_over_to_python(options->python.python, context);
    check_files(with_build_files({{options->model}, {}, {}}, options->flags));
    if (is_plan(options->model))
      fail(ErrorKind::usage, "'", options->model,
           "' is a plan, which has no reference in it any more; verify the ONNX model (with the same --shapes)");
    const auto engine = load_or_build(options->model, options->flags, context);
    const ImportedModel model = ModelSource{options->model, "", {}}.import(
        limits_of(options->flags), engine->info().shapes);  // as imported: no pass has touched it
    std::vector<Tensor> inputs;
    for (size_t i = 0; i < engine->inputs().size(); ++i) {
      const PortInfo& port = engine->inputs()[i];
      inputs.push_back(random_tensor(port.type.dtype, engine->info().shapes.at(port.name).opt, options->seed + i));
    }
    Session session(engine);
    const auto got = session.run(inputs);
    const auto want = run_reference(model.graph, inputs);
    nlohmann::json outputs = nlohmann::json::array(), drift;
    bool good = true;
    Table table{{{"output", false, 9},
                 {"type", false, 4},
                 {"largest difference", true, 8},
                 {"relative", true, 6},
                 {"beyond", true, 7},
                 {"answers", false, 9}},
                {}};
    for (size_t o = 0; o < got.size(); ++o) {
      const std::string& name = engine->outputs()[o].name;
      const Difference d = with_context([&] { return concat("output '", name, "'"); },
                                        [&] { return compare(got[o], want[o], options->tolerance); });
      good &= d.beyond == 0;
      nlohmann::json entry = json_of(d);
      entry.update({{"output", name}, {"type", got[o].type().text()}});
      outputs.push_back(std::move(entry));
      char largest[32], relative[32];
      std::snprintf(largest, sizeof largest, "%.3g", d.largest);
      std::snprintf(relative, sizeof relative, "%.3g", d.largest_relative);
      table.rows.push_back(
          {name, got[o].type().text(), largest, relative, concat(d.beyond), d.beyond ? "DIFFERS" : "ok"});
    }
    const EngineInfo& info = engine->info();
    if (!context.json) print_table(table);
    if (info.precision != "fp32" && !context.json)
      print_text(concat(info.lowered_products, " of ", info.products, " convolutions and products in ", info.precision,
                        "; ", info.not_lowered.size(), " other nodes are not, temper build says which and why"));
    if (!good || options->nodes) {
      if (session.is_partitioned())
        log(LogLevel::warning,
            "shapes or branches inside this model depend on data, so its nodes are not looked at one by one");
      else drift = find_drift(session, inputs, want, *options, context);
    }
    if (context.json)
      std::printf("%s\n", strict::dump(nlohmann::json{{"outputs", outputs}, {"drift", drift}}, 1).c_str());
    else
      print_text(concat("beyond: elements outside of rtol ", options->tolerance.relative, ", atol ",
                        options->tolerance.absolute, "; inputs: seeded random numbers (--seed ", options->seed,
                        "); against the scalar reference on the graph as imported"));
    if (!good) context.exit_code = int(ErrorKind::check_failed);
  });
}

}  // namespace temper::cli
