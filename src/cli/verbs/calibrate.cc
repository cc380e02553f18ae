// SPDX-License-Identifier: Apache-2.0
// temper calibrate: finds the ranges of a model's values from data or from a TensorRT cache; joins ranges; checks
// caches. temper quantize: writes the model that such ranges make, or one whose weights alone are of few bits.
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>

#include "base/count_of.h"
#include "base/file.h"
#include "base/log.h"
#include "base/parse.h"
#include "bench/table.h"
#include "calibrate/dataset.h"
#include "cli/data_flags.h"
#include "cli/json_text.h"
#include "cli/model.h"
#include "cli/outputs.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "data/carried.h"
#include "evaluate/text.h"
#include "onnx/write.h"
#include "optimize/precision.h"
#include "quantize/cache.h"
#include "quantize/weights.h"

namespace temper::cli {
namespace {

using Json = nlohmann::ordered_json;

struct CalibrateFlags {
  std::string model;
  ModelFlags flags;
  DataFlags data_flags;
  bool quantizes = false;   // the verb quantize: the model goes to flags.qdq
  std::string calibration;  // of it: ranges that are there already
  std::string weights;      // of it: "int8" or "int4"; empty: activations are quantized, too
  int64_t block = -1;       // of them; -1: not given
  std::string data, method = "auto", part, output, cache, cache_version, from_cache, lint;
  std::vector<std::string> merge;
  int64_t samples = 0, batch = 0;
  uint64_t seed = 0;
  bool placeholder = false, force = false;
};

// "2/4": the second of four parts.
std::vector<int64_t> part_of(const std::vector<int64_t>& samples, const std::string& text) {
  if (text.empty()) return samples;
  const size_t slash = text.find('/');
  const auto given = parse_number<int64_t>(std::string_view(text).substr(0, slash));
  const auto of = slash == text.npos ? std::nullopt : parse_number<int64_t>(std::string_view(text).substr(slash + 1));
  const int64_t part = given.value_or(0), parts = of.value_or(0);
  if (part < 1 || part > parts) fail(ErrorKind::usage, "--part needs I/N, the I-th of N parts, not '", text, "'");
  std::vector<int64_t> own;
  for (size_t i = size_t(part - 1); i < samples.size(); i += size_t(parts)) own.push_back(samples[i]);
  if (own.empty()) fail(ErrorKind::usage, "part ", text, " of ", samples.size(), " samples is empty");
  return own;
}

// Names do not depend on sizes: what is open and not given with --shapes needs none here.
Graph optimised(const ImportedModel& model, const BuildOptions& build) {
  EngineInfo info;
  if (!build.shapes.empty()) return optimised_graph(model.graph, info, build);
  Graph graph = model.graph;
  run_passes(graph, build.passes);
  return graph;
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

Json json_of(const std::vector<MethodTrial>& trials) {
  Json list;
  for (const MethodTrial& t : trials)
    list.push_back({{"method", t.method},
                    {"agreement", t.agreement ? Json(t.agreement->rate()) : nullptr},
                    {"cosine", t.cosine},
                    {"snr_db", std::isfinite(t.snr_db) ? Json(t.snr_db) : nullptr},
                    {"chosen", t.chosen}});
  return list;
}

Table table_of(const std::vector<MethodTrial>& trials) {
  Table table{{{"method", false}, {"agreement with FP32"}, {"cosine"}, {"SNR"}, {"", false}}, {}};
  for (const MethodTrial& t : trials)
    table.rows.push_back(
        {t.method,
         t.agreement ? concat(percent_text(t.agreement->rate()), " (", t.agreement->same, " of ", t.agreement->n, ")")
                     : "n/a",
         format_number(t.cosine, 6), decibel_text(t.snr_db), t.chosen ? "chosen" : ""});
  return table;
}

void print_ranges(const Ranges& ranges, const std::string& path, const Context& context,
                  const std::vector<MethodTrial>& trials, const std::vector<Unreadable>& left_out) {
  if (context.json) {
    Json values = Json::array();
    for (const std::string& name : ranges.order) {
      const TensorRange& r = ranges.values.at(name);
      values.push_back({{"tensor", name},
                        {"min", r.min},
                        {"max", r.max},
                        {"scale", std::isfinite(r.scale) ? Json(r.scale) : Json(nullptr)},
                        {"scale_bits", float_bits(r.scale)},
                        {"method", r.method},
                        {"clipped_share", r.clipped_share}});
    }
    Json json{{"file", path},
              {"model_sha256", ranges.model_sha256},
              {"method", ranges.method},
              {"samples", ranges.samples},
              {"placeholder", ranges.placeholder},
              {"notes", ranges.notes},
              {"values", values}};
    if (!trials.empty()) json["trials"] = json_of(trials);
    json["left_out"] = temper::json_of(left_out);
    print_json(json);
    return;
  }
  if (context.verbosity < 0) return;
  if (!trials.empty()) print_table(table_of(trials), "\n");
  Table table{{{"tensor", false}, {"least"}, {"largest"}, {"kept up to"}, {"method", false}, {"clipped"}}, {}};
  for (const std::string& name : ranges.order) {
    const TensorRange& r = ranges.values.at(name);
    table.rows.push_back({name, number(r.min), number(r.max), number(127.0 * r.scale), r.method,
                          r.clipped_share == 0 ? "0" : number(100 * r.clipped_share) + " %"});
  }
  print_table(table);
}

// The Q/DQ model that these ranges give, as a file's bytes. What the model leaves open stays open, but for --shapes.
std::string qdq_of(const CalibrateFlags& options, const ImportedModel& model, const Ranges& ranges,
                   const Context& context) {
  const BuildOptions build = build_options(options.flags, options.model, context);
  Placement placed = placement_of(optimised(model, build), ranges, build.placement, build.passes);
  for (const std::string& warning : placed.warnings) log(LogLevel::warning, warning);
  log(LogLevel::info, placed.integer_products, " of ", placed.products,
      " convolutions and products are quantized: ", options.flags.qdq);
  for (const PlacedNode& node : placed.nodes)
    if (!node.integer) log(LogLevel::info, "not quantized: ", node.node, " (", node.op, "): ", node.reason);
  return with_context([&] { return concat("-o ", options.flags.qdq); },
                      [&] { return onnx_bytes(placed.graph, model.source_sha256); });
}

// `model` may be null where no Q/DQ model is asked for.
void finish(const CalibrateFlags& options, const ImportedModel* model, Ranges& ranges, const Context& context,
            const std::vector<MethodTrial>& trials = {}, const std::vector<Unreadable>& left_out = {}) {
  log_notes(ranges.notes);
  // All is made before any is written.
  const std::string cache = options.cache.empty() ? "" : to_text(cache_of(ranges, options.cache_version));
  const std::string qdq = model && !options.flags.qdq.empty() ? qdq_of(options, *model, ranges, context) : "";
  if (!options.output.empty()) save_ranges(options.output, ranges, options.force);
  if (!options.cache.empty()) write_file_atomically({options.cache, FileKind::calibration_cache, options.force}, cache);
  if (!options.flags.qdq.empty()) write_file_atomically({options.flags.qdq, FileKind::our_onnx, options.force}, qdq);
  print_ranges(ranges, options.output, context, trials, left_out);
  if (!options.output.empty())
    log(LogLevel::info, "ranges of ", count_of(ranges.values.size(), "tensor"),
        ranges.samples ? concat(" from ", count_of(ranges.samples, "sample")) : "", ": ", options.output);
}

void lint(const CalibrateFlags& options, Context& context) {
  const ImportedModel model = import_onnx(options.model, {{}, limits_of(options.flags)});
  std::vector<std::string> notes;
  const CalibrationCache cache = load_cache(options.lint, &notes);
  const BuildOptions build = build_options(options.flags, options.model, context);
  Lint found = lint_cache(cache, model.graph, optimised(model, build));
  std::vector<LintFinding> of_file;
  of_file.reserve(notes.size());
  for (const std::string& note : notes) of_file.push_back({Severity::warning, "", note});
  found.findings.insert(found.findings.begin(), of_file.begin(), of_file.end());
  constexpr const char* names[] = {"info", "warning", "error"};
  if (context.json) {
    Json findings = Json::array();
    for (const LintFinding& f : found.findings)
      findings.push_back({{"severity", names[int(f.severity)]}, {"tensor", f.tensor}, {"text", f.text}});
    const Json json{{"header", cache.header},           {"entries", found.entries}, {"known", found.known},
                    {"quantizable", found.quantizable}, {"covered", found.covered}, {"findings", findings}};
    print_json(json);
  } else {
    print_text(concat(cache.header, ": ", found.entries, " entries, ", found.known, " of them tensors of the model; ",
                      found.covered, " of the ", found.quantizable,
                      " tensors of the optimised graph have a usable scale"));
    Table table{{{"severity", false}, {"tensor", false}, {"finding", false, 7, true}}, {}};
    for (const LintFinding& f : found.findings) table.rows.push_back({names[int(f.severity)], f.tensor, f.text});
    if (!table.rows.empty()) print_table(table);
  }
  for (const LintFinding& f : found.findings)
    if (f.severity == Severity::error) context.exit_code = int(ErrorKind::check_failed);
}

// Entries that are of no tensor of the model will not be used: said, and where none is, refused.
void check_names(Ranges& ranges, const Graph& graph, const std::string& path) {
  std::set<std::string_view> names;
  for (int32_t i = 0; i < graph.value_count(); ++i) names.insert(graph.value({i}).name);
  int64_t unknown = 0;
  std::string first;
  for (const std::string& name : ranges.order)
    if (!names.contains(name) && ++unknown == 1) first = name;
  if (unknown == int64_t(ranges.order.size()))
    fail(ErrorKind::usage, path, ": no tensor of the model has a name of the cache, whose first is '", first,
         "': it is of another model, or of one exported with other names");
  if (unknown)
    ranges.notes.push_back(concat(unknown, " of the ", ranges.order.size(),
                                  " entries name no tensor of the model and quantize nothing, first '", first,
                                  "'; --lint lists them"));
}

// Whatever has no meaning beside the rest of the command line is refused, before anything takes time.
void check_use(const CalibrateFlags& options, const std::vector<Option>& observing, const std::vector<Option>& of_data,
               const std::vector<Option>& of_runs, const std::vector<Option>& of_graph) {
  const auto leave_out = [](const std::vector<Option>& group, const auto&... why) {
    for (const Option& option : group)
      if (option.given()) fail(ErrorKind::usage, why..., "; leave ", option.name(), " out");
  };
  const bool lint = !options.lint.empty(), from = !options.from_cache.empty(), merge = !options.merge.empty(),
             qdq = options.quantizes, ready = !options.calibration.empty();
  const bool writes = !options.output.empty() || !options.cache.empty() || qdq;
  if (!options.weights.empty()) {
    for (const auto* group : {&observing, &of_data})
      leave_out(*group, "--weights leaves activations as they are and observes no samples");
    if (from + merge + ready > 0 || !options.output.empty() || !options.cache.empty() || !options.cache_version.empty())
      fail(ErrorKind::usage,
           "--weights needs no ranges and makes none; leave --calibration, --from-cache, --merge, "
           "--ranges and --cache out");
    for (const auto* group : {&of_runs, &of_graph})
      leave_out(*group, "--weights quantizes the matrices as they are: nothing runs, and no pass");
    if (options.flags.keep_first || options.flags.keep_last || !options.flags.keep_bf16.empty() ||
        !options.flags.keep_fp16.empty())
      fail(ErrorKind::usage, "--weights takes --keep-fp32 alone of the options about layers");
    return check_files({{options.model}, {}, {{options.flags.qdq, FileKind::our_onnx, options.force, "-o"}}});
  }
  if (options.block >= 0)
    fail(ErrorKind::usage, "--block is that of --weights; without it activations and weights have one scale each");
  if (qdq && from + merge + ready > 1)
    fail(ErrorKind::usage, "--calibration, --from-cache and --merge are three different things; give one of them");
  if (lint + from + merge > 1)
    fail(ErrorKind::usage, "--lint, --from-cache and --merge are three different things; give one of them");
  if (lint && (writes || !options.cache_version.empty()))
    fail(ErrorKind::usage, "--lint examines a cache and writes nothing; to take its scales: --from-cache");
  if (!lint && !writes) fail(ErrorKind::usage, "say where the ranges go: -o ranges.json");
  if (options.model.empty() && (!merge || qdq))
    fail(ErrorKind::usage,
         "calibrate needs a model (only to join ranges it does not: --merge A.json B.json -o C.json)");
  const bool observes = !lint && !from && !merge && !ready;
  const char* const way = lint ? "--lint" : from ? "--from-cache" : merge ? "--merge" : "--calibration";
  if (!observes) {
    for (const auto* group : {&observing, &of_data}) leave_out(*group, way, " observes no samples");
    leave_out(of_runs, way, " runs nothing");
    if (!lint && !qdq) leave_out(of_graph, way, " takes ranges as they are, and makes no model");
  } else if (options.data.empty() == !options.placeholder)
    fail(ErrorKind::usage,
         "give the samples to calibrate on with --data, or --placeholder-data for noise (fit for measuring speed only)",
         qdq ? "; or ranges with --calibration" : "");
  if (options.placeholder) leave_out(of_data, "--placeholder-data makes its own samples, one at a time");
  if (!options.cache_version.empty()) {
    if (options.cache.empty())
      fail(ErrorKind::usage, "--cache-version is the version of the cache that is written; say where: --cache FILE");
    to_text({concat("TRT-", options.cache_version, "-EntropyCalibration2"), {}});  // refuses what is no version
  }
  const bool tries = observes && options.method == "auto" && !options.placeholder && options.part.empty();
  if (keeps(options.flags) && !qdq && !tries)
    fail(ErrorKind::usage,
         "--keep-first, --keep-last, --keep-fp32, --keep-bf16 and --keep-fp16 are for the quantized model, and no "
         "methods are tried on one here",
         observes ? "; ranges are taken of every layer" : "",
         ". Give them to temper build, to temper quantize, or beside --method auto and --data without --part");
  UsedFiles files{{options.model},
                  {options.data, options.data_flags.class_names, options.from_cache, options.lint, options.calibration},
                  {{options.flags.qdq, FileKind::our_onnx, options.force, "-o"},
                   {options.output, FileKind::ranges, options.force, qdq ? "--ranges" : "-o"},
                   {options.cache, FileKind::calibration_cache, options.force, "--cache"}}};
  files.reads.insert(files.reads.end(), options.merge.begin(), options.merge.end());
  ModelFlags rest = options.flags;
  rest.qdq.clear();
  check_files(with_build_files(std::move(files), rest, options.force));
}

// temper quantize --weights.
void quantize_weights_of(const CalibrateFlags& options, const Context& context) {
  ImportedModel model = import_onnx(options.model, {{}, limits_of(options.flags)});
  WeightFormat format{.bits = options.weights == "int4" ? 4 : 8};
  if (options.block >= 0) format.block = options.block;
  std::vector<std::string> keep;
  for (const auto& each : build_options(options.flags, options.model, context).placement.keep_nodes)
    keep.push_back(each.first);
  const WeightReport report = quantize_weights(model.graph, format, keep);
  if (report.quantized == 0)
    fail(ErrorKind::unsupported, "none of the ", report.products,
         " products has constant weights of f32 that could be quantized", report.left.empty() ? "" : "; ",
         report.left.empty() ? "" : report.left[0]);
  write_file_atomically({options.flags.qdq, FileKind::our_onnx, options.force},
                        with_context([&] { return concat("-o ", options.flags.qdq); },
                                     [&] { return onnx_bytes(model.graph, model.source_sha256); }));
  if (context.json) {
    const Json json{{"file", options.flags.qdq},
                    {"products", report.products},
                    {"quantized", report.quantized},
                    {"weight_bytes_before", report.floats},
                    {"weight_bytes_after", report.integers},
                    {"left", report.left}};
    print_json(json);
    return;
  }
  for (const std::string& left : report.left) log(LogLevel::debug, "not quantized: ", left);
  log(LogLevel::info, "the weights of ", report.quantized, " of ", report.products, " products are ", options.weights,
      ", ", format_bytes(double(report.integers)), " in the place of ", format_bytes(double(report.floats)), ": ",
      options.flags.qdq);
}

void calibrate(const CalibrateFlags& options, Context& context) {
  if (!options.weights.empty()) return quantize_weights_of(options, context);
  if (!options.calibration.empty()) {
    Ranges ranges = load_ranges(options.calibration);
    const ImportedModel model = import_onnx(options.model, {{}, limits_of(options.flags)});
    check_model(ranges, model.sha256);
    return finish(options, &model, ranges, context);
  }
  if (!options.merge.empty()) {
    std::vector<Ranges> parts;
    for (const std::string& path : options.merge) parts.push_back(load_ranges(path));
    Ranges joined = merge(parts);
    if (options.model.empty()) return finish(options, nullptr, joined, context);
    const ImportedModel model = import_onnx(options.model, {{}, limits_of(options.flags)});
    check_model(joined, model.sha256);
    return finish(options, &model, joined, context);
  }
  if (is_plan(options.model))
    fail(ErrorKind::usage, "'", options.model,
         "' is a plan, whose layers are fixed; calibrate the ONNX model it was built from");
  if (!options.lint.empty()) return lint(options, context);

  const ImportedModel model = import_onnx(options.model, {{}, limits_of(options.flags)});
  if (!options.from_cache.empty()) {
    std::vector<std::string> notes;
    Ranges ranges = ranges_of(load_cache(options.from_cache, &notes), model.sha256);
    ranges.notes.insert(ranges.notes.begin(), notes.begin(), notes.end());
    check_names(ranges, model.graph, options.from_cache);
    return finish(options, &model, ranges, context);
  }
  const bool automatic = options.method == "auto";
  if (!automatic) Method::parse(options.method);  // refused before the data is read
  // Noise judges nothing, and parts that chose for themselves could not be joined.
  const std::string method =
      automatic && (options.placeholder || !options.part.empty()) ? kUnjudged.text() : options.method;
  const BuildOptions build = build_options(options.flags, options.model, context);
  Ranges ranges;
  std::vector<MethodTrial> trials;
  std::vector<Unreadable> left_out;
  if (options.placeholder) {
    ProgressLine progress(context);
    ranges = calibrate_on_noise(model, options.samples ? options.samples : 8, method, options.seed, build,
                                progress.callback());
  } else {
    std::vector<InputSpec> specs = input_specs(model, options.model);
    fix_sizes(specs, build.shapes);
    const Dataset data =
        open_dataset(options.data, specs, options.data_flags.options(memory_limit_of(options.flags.memory_limit)));
    if (!options.flags.shapes.empty() && options.flags.qdq.empty() && data.preprocess().empty())
      fail(ErrorKind::usage, "the shapes are those of the data; leave --shapes out");
    log(LogLevel::info, data.text());
    auto samples = part_of(samples_of(data, options.data, options.samples, options.seed), options.part);
    ProgressLine progress(context);
    left_out = leave_out(data, options.data, samples, options.data_flags.strict, progress.callback());
    ranges =
        calibrate_on(model, data, samples, {method, options.seed, options.batch, progress.callback()}, build, &trials);
  }
  finish(options, &model, ranges, context, trials, left_out);
}

void add_verb(Command& verb, Context& context, bool quantizes) {
  auto options = std::make_shared<CalibrateFlags>();
  options->quantizes = quantizes;
  verb.add_option("model", options->model, quantizes ? "the ONNX model to quantize" : "the ONNX model to calibrate");
  // The options about observing samples, and those about samples in files.
  std::vector<Option> observing, of_data;
  of_data.push_back(verb.add_option(
      "--data", options->data,
      "samples to calibrate on: a folder of pictures, .npy, .npz, CSV, or .txt of token ids, a sample a "
      "line; labels are not needed"));
  observing.push_back(
      verb.add_option(
              "--method", options->method,
              "calibration method: auto (the one closest to FP32 on a held-out fifth of the samples; mse if that fifth "
              "has fewer than 16, with --part and with --placeholder-data), entropy, minmax, percentile[:99.99] or mse")
          .capture_default_str());
  observing.push_back(
      verb.add_option(
              "--samples", options->samples,
              "number of samples to use, chosen by --seed; by default all of them, and 8 with --placeholder-data")
          .check(whole_number(1)));
  of_data.push_back(verb.add_option("--batch", options->batch, "number of samples in a batch").check(whole_number(1)));
  observing.push_back(
      verb.add_option("--seed", options->seed, "seed for choosing the samples, and for the noise of --placeholder-data")
          .capture_default_str());
  of_data.push_back(verb.add_option(
      "--part", options->part,
      "use only the I-th of N parts of the samples, written I/N; --merge joins the files of the parts"));
  observing.push_back(verb.add_flag("--placeholder-data", options->placeholder,
                                    "calibrate on seeded noise, to measure speed without data"));
  if (quantizes) {
    verb.add_option("-o,--output", options->flags.qdq, "the quantized ONNX model to write").required();
    verb.add_option("--calibration", options->calibration, "file of ranges of temper calibrate, instead of samples");
    verb.add_option("--weights", options->weights,
                    "quantize the constant matrices of products alone, in blocks, without data: for models that are "
                    "bound by the memory of their weights, as language models are")
        .check(one_of({"int8", "int4"}));
    verb.add_option("--block", options->block,
                    "--weights: how many of them share a scale, a multiple of 8 (32); 0 for one scale a column")
        .check(whole_number(0));
    verb.add_option("--ranges", options->output, "file to write the ranges to as well");
  } else {
    verb.add_option("-o,--output", options->output, "the file of ranges to write");
  }
  verb.add_option("--cache", options->cache, "TensorRT calibration cache to write as well");
  verb.add_option("--cache-version", options->cache_version,
                  "version in the first line of the cache that is written, e.g. 101303; by default that of the cache "
                  "that was read, or 8501");
  verb.add_option("--from-cache", options->from_cache, "take the scales of a TensorRT calibration cache, bit for bit");
  if (!quantizes)
    verb.add_option("--lint", options->lint,
                    "check a TensorRT calibration cache against the model; exit code 1 if it has errors");
  verb.add_option("--merge", options->merge, "files of ranges of the same model and method to join into one")
      .expected(2, 1 << 16);
  add_force_flag(verb, options->force);
  add_device_flags(verb, options->flags);
  add_shape_flag(verb, options->flags);
  verb.remove_option("--buckets");  // no plan is made
  add_keep_flags(verb, options->flags);
  options->data_flags.add_to(verb);
  for (const Option& option : verb.get_options())
    if (option.group() == DataFlags::kGroup) of_data.push_back(option);
  // Those about what runs to observe, and those about the graph that is observed, checked or quantized.
  std::vector<Option> of_runs, of_graph;
  for (const char* name : {"--device", "--cuda-path", "--threads", "--isa"}) of_runs.push_back(verb.get_option(name));
  for (const char* name : {"--shapes", "--disable"}) of_graph.push_back(verb.get_option(name));
  verb.callback([=, &context] {
    check_use(*options, observing, of_data, of_runs, of_graph);
    calibrate(*options, context);
  });
}

}  // namespace

void add_calibrate(Command& verb, Context& context) { add_verb(verb, context, false); }
void add_quantize(Command& verb, Context& context) { add_verb(verb, context, true); }

}  // namespace temper::cli
