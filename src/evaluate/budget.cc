// SPDX-License-Identifier: Apache-2.0
#include "evaluate/budget.h"

#include "base/log.h"
#include "calibrate/dataset.h"

namespace temper {

MixedSearch keep_budget(const ModelSource& source, BuildOptions& build, const BudgetOptions& options) {
  const std::string& precision = build.precision;
  if (precision != "int8" && precision != "fp16" && precision != "bf16")
    fail(ErrorKind::usage, "--max-drop is a budget for --precision int8, fp16 or bf16");
  if (precision != "int8" && options.raise_to == "bf16")
    fail(ErrorKind::usage, "--raise-to bf16 belongs to --precision int8; layers in ", precision, " go back to fp32");
  const Budget budget{options.max_drop, options.metric,
                      precision == "int8" && raises_to_bf16(options.raise_to, build.device)};
  const ImportedModel model = source.import(build.memory_limit);
  const Dataset data = options.data.open(input_specs(model.graph));
  auto samples = samples_of(data, options.data, 500);
  std::vector<Unreadable> left_out = leave_out(data, options.data, samples, build.progress);
  check_metric(budget.metric, budget.max_drop, model.graph, data, options.classes, int64_t(samples.size()));
  BuildOptions plain = build;
  plain.precision = "fp32";
  plain.calibration.clear();
  plain.ranges.reset();
  plain.shapes.clear();
  if (!build.is_calibrated() && precision != "bf16") {
    Ranges made =
        calibrate_on(model, data, samples,
                     {precision == "fp16" ? "minmax" : options.method, options.data.seed, 0, build.progress}, plain);
    log_notes(made.notes);
    if (options.calibrated) options.calibrated(made);
    build.ranges = std::make_shared<const Ranges>(std::move(made));
  }
  Ranges ranges;
  if (build.ranges) ranges = *build.ranges;
  else if (precision != "bf16") ranges = load_ranges(build.calibration);
  if (precision != "bf16" && !model.sha256.empty()) check_model(ranges, model.sha256);
  MixedSearch mixed = search_mixed(model.graph, ranges, data, samples, options.classes, budget, plain, precision);
  if (!mixed.search.holds) log(LogLevel::warning, text_of(mixed));
  // The times of both precisions, layer by layer, for the shapes that are built.
  BuildOptions narrow = build;
  narrow.segments = narrow.batch_buckets = false;
  narrow.qdq.clear();
  BuildOptions wide = narrow;
  wide.precision = "fp32";
  wide.calibration.clear();
  wide.ranges.reset();
  wide.placement = {};
  const auto times = [&](BuildOptions& one) -> TimedBuild {
    return [&](const std::set<std::string>& doubted) {
      one.doubted = doubted;
      return layer_times(*build_engine(source, one));
    };
  };
  mixed.saved_ms = saved_times(times(wide), times(narrow));
  build.placement.keep_nodes.insert(mixed.search.keep.begin(), mixed.search.keep.end());
  mixed.left_out = std::move(left_out);
  return mixed;
}

}  // namespace temper
