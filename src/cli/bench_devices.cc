// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_devices.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/log.h"
#include "bench/bench_engine.h"
#include "bench/scaling.h"
#include "cli/json_text.h"
#include "cli/terminal.h"
#include "measure/environment.h"

namespace temper::cli {

namespace {

using Json = nlohmann::ordered_json;

// One engine for each device, of a plan or built for this batch (0: what shapes or the plan say).
Engines engines_of(const DevicesBench& options, const std::string& path, int64_t batch, const Context& context) {
  const DeviceSettings settings{options.flags.cuda_path};
  const auto make = [&](const std::string& device) {
    ModelFlags flags = options.flags;
    flags.device = device;
    return is_plan(path) || (batch == 0 && !flags.shapes.empty())
               ? load_or_build(path, flags, context)
               : build_for_batch(path, batch, flags, context, options.inputs);
  };
  return is_plan(path) ? engines_on(make(options.flags.device), options.devices, settings)
                       : engines_on(options.devices, settings, make);
}

Json measure_batch(const DevicesBench& options, const std::string& path, int64_t batch, bool shows_tables,
                   const Context& context) {
  const Engines engines = engines_of(options, path, batch, context);
  const Engine& first = *engines[0];
  const GivenInputs given = read_given(options.inputs, first, batch);
  const std::vector<Dims> shapes = shapes_for_batch(first, batch, given);
  const EngineInfo& info = first.info();
  Json run{{"model", path},
           {"model_sha256", info.model_sha256.empty() ? Json(nullptr) : Json(info.model_sha256)},
           {"precision", info.precision},
           {"placeholder", info.placeholder},
           {"threads", first.threads()},
           {"batch", batch_of(shapes)},
           {"shapes", Json::object()},
           {"scaling", Json::array()}};
  for (size_t i = 0; i < shapes.size(); ++i) run["shapes"][first.inputs()[i].name] = shapes[i];
  if (shows_tables)
    print_text(
        concat(path, ", ", precision_text(info), ", batch ", batch_of(shapes), ", on ", engines.size(), " devices:"));
  std::vector<char> ways{1};
  if (!options.transfers_only && can_stay_on(engines, shapes)) ways = {0, 1};
  for (const bool transfers : ways) {
    ProgressLine progress(context);
    const Scaling scaling = measure_scaling(engines, shapes,
                                            {.seconds = options.seconds,
                                             .transfers = transfers,
                                             .streams = options.streams,
                                             .progress = progress.callback()},
                                            given);
    clear_progress();
    run["scaling"].push_back(json_of(scaling));
    for (const std::string& note : scaling.notes) log(LogLevel::warning, note);
    if (!shows_tables) continue;
    std::printf("\n");
    print_text(text_of(scaling));
    print_table(table_of(scaling));
    print_text(verdict_of(scaling));
    std::fflush(stdout);
  }
  return run;
}

}  // namespace

void bench_devices(const DevicesBench& options, const Context& context) {
  const bool prints_json = options.json_file == "-";
  const EnvironmentSampler sampler(usable_cores(read_environment(0)));
  Json runs = Json::array();
  for (const std::string& path : options.paths) {
    std::vector<int64_t> batches = options.batches;
    if (batches.empty())  // 0: what these say
      batches = {is_plan(path) || !options.flags.shapes.empty() || !options.inputs.arguments.empty() ? 0 : 1};
    for (const int64_t batch : batches) {
      if (!prints_json && !runs.empty()) std::printf("\n");
      runs.push_back(with_context([&] { return path; },
                                  [&] { return measure_batch(options, path, batch, !prints_json, context); }));
      const std::string text = json_text({{"schema", "temper.scaling/1"},
                                          {"command", context.command},
                                          {"environment", Json::parse(to_json(sampler.finish()))},
                                          {"runs", runs}});
      if (!prints_json && !options.json_file.empty())
        write_file_atomically({options.json_file, FileKind::scaling, options.force, "--json"}, text);
      if (prints_json && path == options.paths.back() && batch == batches.back()) std::fputs(text.c_str(), stdout);
    }
  }
}

}  // namespace temper::cli
