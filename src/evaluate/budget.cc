// SPDX-License-Identifier: Apache-2.0
#include "evaluate/budget.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "bench/side_by_side.h"
#include "calibrate/dataset.h"
#include "data/carried.h"
#include "evaluate/text.h"
#include "optimize/precision.h"
#include "optimize/shape_ranges.h"

namespace temper {

namespace {

// The model, and the samples that its answers are judged on.
struct Judged {
  const BudgetOptions& options;
  ImportedModel model;
  Dataset data;
  std::vector<int64_t> samples;
  std::vector<Unreadable> left_out;
  BuildOptions plain;  // in fp32

  Judged(const ModelSource& source, const BuildOptions& build, const BudgetOptions& its_options)
      : options(its_options),
        model(source.import(build.limits)),
        data(options.data.open(specs_of(source, build))),
        samples(samples_of(data, options.data, 500)),
        left_out(leave_out(data, options.data, samples, build.progress)),
        plain(build) {
    check_metric(options.metric, options.max_drop, model.graph, data, options.classes, int64_t(samples.size()));
    plain.precision = "fp32";
    plain.calibration.clear();
    plain.ranges.reset();
    plain.shapes.clear();
    plain.input_pictures.clear();  // the data are prepared here
  }
  // What the data have to be: sizes that the build fixes are fixed, and what the ranges remember goes before what the
  // model carries.
  std::vector<InputSpec> specs_of(const ModelSource& source, const BuildOptions& build) const {
    std::vector<InputSpec> specs = input_specs(model, source.path);
    if (const auto ranges = temper::ranges_of(build)) remember(specs, ranges->preprocess, "the calibration");
    fix_sizes(specs, build.shapes);
    return specs;
  }
  // Those of the build; where it has none they are calibrated into build.ranges.
  Ranges ranges_of(BuildOptions& build, const std::string& method) const {
    if (!build.is_calibrated()) {
      Ranges made = calibrate_on(model, data, samples, {method, options.data.seed, 0, build.progress}, plain);
      log_notes(made.notes);
      if (options.calibrated) options.calibrated(made);
      build.ranges = std::make_shared<const Ranges>(std::move(made));
    }
    Ranges ranges = build.ranges ? *build.ranges : load_ranges(build.calibration);
    if (!model.sha256.empty()) check_model(ranges, model.sha256);
    return ranges;
  }
  // Gives inputs whose shapes neither the build nor the model says, those of the data, one sample at a time; axes of
  // the same name have the build's size.
  void add_shapes(BuildOptions& build) const {
    const Graph& graph = model.graph;
    if (!build.profiles.empty() || build.shapes.contains("")) return;
    std::map<std::string, std::array<int64_t, 3>> sizes;
    for (const ValueId id : graph.inputs())
      if (const auto said = build.shapes.find(graph.value(id).name); said != build.shapes.end())
        for (size_t axis = 0; axis < std::min(said->second.opt.size(), graph.type(id).shape.size()); ++axis)
          sizes[graph.type(id).shape[axis].text()] = {said->second.min[axis], said->second.opt[axis],
                                                      said->second.max[axis]};
    std::string taken;
    for (auto& [name, range] : shapes_of_data(graph, data, 1)) {
      const auto id = std::ranges::find_if(
          graph.inputs(), [&, &wanted = name](ValueId input) { return graph.value(input).name == wanted; });
      const Shape& shape = graph.type(*id).shape;
      const auto is_open = [](const Dim& dim) { return !dim.is_constant(); };
      if (build.shapes.contains(name) || std::none_of(shape.begin() + (shape.empty() ? 0 : 1), shape.end(), is_open))
        continue;
      for (size_t axis = 0; axis < shape.size(); ++axis)
        if (const auto said = sizes.find(shape[axis].text()); is_open(shape[axis]) && said != sizes.end())
          range.min[axis] = said->second[0], range.opt[axis] = said->second[1], range.max[axis] = said->second[2];
      taken += concat(" --shapes ", name, "=", text_of(range));
      build.shapes[name] = range;
    }
    if (!taken.empty()) log(LogLevel::info, "built for shapes as the data have them:", taken);
  }
  MixedSearch search(const std::string& precision, std::optional<DType> half, const Ranges& ranges) const {
    const Budget budget{options.max_drop, options.metric, half};
    return search_mixed(model.graph, ranges, data, samples, options.classes, budget, plain, precision);
  }
};

void drop_ranges(BuildOptions& build) {
  build.calibration.clear();
  build.ranges.reset();
}

}  // namespace

MixedSearch keep_budget(const ModelSource& source, BuildOptions& build, const BudgetOptions& options) {
  build = begun(std::move(build));  // all of it is one build
  const std::string precision = build.precision;
  const std::optional<PrecisionParts> parts = parts_of(precision);
  if (!parts || !(parts->bytes || parts->half || parts->tf32))
    fail(ErrorKind::usage,
         "--max-drop is a budget for --precision int8, fp8, fp16, bf16 or tf32, 8 bits with 16, or best");
  check_raise_to(options.raise_to, std::span(&precision, 1));
  const std::optional<DType> half = raised_to(options.raise_to, precision, build.device);
  Judged judged(source, build, options);
  build.preprocess = judged.data.preprocess();
  judged.add_shapes(build);
  const Ranges ranges =
      needs_ranges(precision) ? judged.ranges_of(build, parts->bytes ? options.method : "minmax") : Ranges();
  MixedSearch mixed = judged.search(precision, half, ranges);
  if (!mixed.search.holds) log(LogLevel::warning, text_of(mixed));
  // The times of both precisions, layer by layer, for the shapes that are built.
  BuildOptions narrow = build;
  narrow.segments = narrow.batch_buckets = false;
  narrow.qdq.clear();
  BuildOptions wide = narrow;
  wide.precision = "fp32";
  drop_ranges(wide);
  wide.placement = {};
  const auto times = [&](BuildOptions& one) -> TimedBuild {
    return [&](const std::set<std::string>& doubted) {
      one.doubted = doubted;
      return layer_times(*build_engine(source, one));
    };
  };
  mixed.saved_ms = saved_times(times(wide), times(narrow), precision);
  build.placement.keep_nodes.insert(mixed.search.keep.begin(), mixed.search.keep.end());
  mixed.left_out = std::move(judged.left_out);
  return mixed;
}

BestSearch keep_budget_best(const ModelSource& source, BuildOptions& build, const BudgetOptions& options) {
  build = begun(std::move(build));
  if (build.precision != kBestPrecision) fail(ErrorKind::usage, "the precision is ", build.precision, ", not best");
  check_precision(build);
  if (!options.raise_to.empty() && options.raise_to != "fp32")
    fail(
        ErrorKind::usage, "--raise-to ", options.raise_to,
        " belongs to a precision that is named; with best, layers go back to the 16 bits of each precision, or to fp32 "
        "at once with --raise-to fp32");
  Judged judged(source, build, options);
  build.preprocess = judged.data.preprocess();
  judged.add_shapes(build);
  const Ranges ranges = judged.ranges_of(build, options.method);
  BestSearch best;
  std::vector<BuildOptions> builds;
  std::vector<MixedSearch> searches;
  std::vector<std::shared_ptr<const Engine>> engines;
  std::vector<size_t> rows;  // of best.tried, by engine
  for (const std::string& precision : precisions_of_device(build.device)) {
    tell_words(build.progress, "best: ", precision);
    MixedSearch mixed = judged.search(precision, raised_to(options.raise_to, precision, build.device), ranges);
    const Judgement judgement = mixed.of(mixed.search.loss);
    best.tried.push_back({precision, judgement, mixed.search.holds, int64_t(mixed.search.keep.size()), {}});
    if (!mixed.search.holds) continue;
    BuildOptions one = build;
    one.precision = precision;
    one.placement.keep_nodes.insert(mixed.search.keep.begin(), mixed.search.keep.end());
    if (!needs_ranges(precision)) drop_ranges(one);
    builds.push_back(one);
    searches.push_back(std::move(mixed));
    rows.push_back(best.tried.size() - 1);
    one.segments = one.batch_buckets = false;
    engines.push_back(build_engine(source, one));
    if (engines.back()->plans().empty())
      fail(ErrorKind::unsupported,
           "--precision best is chosen by the time of whole plans, and this model runs in partitions, whose shapes "
           "depend on data; name a precision");
  }
  // FP32 is among them: it loses nothing against itself.
  std::vector<Dims> shapes;
  for (const PortInfo& input : engines.at(0)->plans()[0]->inputs) shapes.push_back(input.type.dims());
  size_t fastest = 0;
  if (engines.size() > 1) {
    const Turns turns =
        time_side_by_side(engines, shapes, {double(engines.size()), "timing all in turns", 0, build.progress});
    const std::vector<double> ms = medians_of(turns);
    for (size_t i = 0; i < engines.size(); ++i) {
      best.tried[rows[i]].ms = ms[i];
      if (best.tried[rows[i]].ms < best.tried[rows[fastest]].ms) fastest = i;
    }
  }
  build = builds[fastest];
  best.mixed = std::move(searches[fastest]);
  best.mixed.left_out = std::move(judged.left_out);
  return best;
}

Table table_of(const BestSearch& best) {
  Table table{{{"precision", false}, {"drop"}, {"SNR"}, {"layers raised"}, {"time"}, {"", false}}, {}};
  for (const TriedPrecision& row : best.tried)
    table.rows.push_back({row.precision, drop_text(row.judged, best.mixed.max_drop), decibel_text(row.judged.snr_db()),
                          concat(row.raised), row.ms ? format_number(*row.ms) + " ms" : "n/a",
                          row.precision == best.mixed.precision ? "the fastest that keeps the budget"
                          : row.holds                           ? ""
                                                                : "does not keep the budget"});
  return table;
}

nlohmann::ordered_json json_of(const BestSearch& best) {
  nlohmann::ordered_json json = json_of(best.mixed), tried = nlohmann::ordered_json::array();
  for (const TriedPrecision& row : best.tried)
    tried.push_back({{"precision", row.precision},
                     {"drop", row.judged.drop},
                     {"holds", row.holds},
                     {"raised", row.raised},
                     {"ms", row.ms ? nlohmann::ordered_json(*row.ms) : nlohmann::ordered_json(nullptr)}});
  json["tried"] = tried;
  return json;
}

}  // namespace temper
