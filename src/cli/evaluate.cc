// SPDX-License-Identifier: Apache-2.0
// temper evaluate: measures how often a model is right, and how far its outputs are from those of FP32.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "cli/data_flags.h"
#include "cli/evaluate_run.h"
#include "cli/json_text.h"
#include "cli/outputs.h"
#include "cli/verb.h"
#include "data/sample.h"

namespace temper::cli {
namespace {

struct Options {
  std::string model;
  ModelFlags flags;
  DataFlags data;
  std::string path, output, metric, reference;
  int64_t batch = 0, samples = 0;
  uint64_t seed = 0;
};

void evaluate(const Options& options, Context& context) {
  check_files(with_build_files({{options.model, options.reference}, {options.path, options.data.class_names}, {}},
                               options.flags));
  std::optional<Metric> metric;
  if (!options.metric.empty()) metric = parse_metric(options.metric);
  DataModel model(options.model, options.flags, context);
  const Dataset data =
      open_dataset(options.path, model.inputs(), options.data.options(memory_limit_of(options.flags.memory_limit)));
  const bool compares = metric && *metric != Metric::top1;
  if (!data.has_labels() && (!metric || !compares) && options.reference.empty())
    fail(ErrorKind::usage, "'", options.path,
         "' says nothing about the right answers: give a folder with one sub-folder a class, an .npz with 'labels', or "
         "a CSV with a 'label' column; or compare with FP32: --metric "
         "agreement, cosine or snr, or --reference MODEL|PLAN");
  EvaluationData what{data, samples_of(data, options.path, options.samples, options.seed),
                      model.choose_batch(data, options.batch), options.output};
  const std::vector<Unreadable> left_out = leave_out(data, options.path, what.samples, options.data.strict, context);
  const int64_t count = int64_t(what.samples.size());
  log(LogLevel::info, data.text(), count < data.size() ? concat(", ", count, " of them") : "", ", in batches of ",
      what.batch.size);
  const auto engine = model.engine(data, what.batch, count);
  std::shared_ptr<const Engine> reference;
  std::string why;
  if (!options.reference.empty()) {
    ModelFlags plain;
    plain.threads = engine->threads();
    if (is_plan(options.reference)) plain.threads = 0;
    DataModel other(options.reference, plain, context);
    other.accept_batch(data, what.batch);
    reference = other.engine(data, what.batch, count, false);
  } else if (compares || engine->info().precision != "fp32") {
    reference = fp32_reference(options.model, *engine, what, context, why);
    if (!reference && compares) fail(ErrorKind::usage, "--metric ", options.metric, " compares with FP32, and ", why);
    if (!reference) log(LogLevel::warning, "no comparison with FP32: ", why);
  }
  const Evaluation result = evaluate_engines(what, reference, {engine}, context).at(0);
  if (metric) {
    // Asked for by name: absent is an error, not a gap in the table.
    if (*metric == Metric::top1 && !result.accuracy)
      fail(ErrorKind::usage,
           "no output, or more than one, is that of a classifier ([batch, classes] of floats); say which one holds the "
           "classes: --output-name NAME");
    if (compares) drop_of(result, *metric);
  } else if (!result.accuracy && !reference) {
    fail(ErrorKind::usage,
         "no output, or more than one, is that of a classifier ([batch, classes] of floats); say which one holds the "
         "classes (--output-name NAME), or compare with FP32 (--metric snr)");
  }
  if (context.json) {
    auto json = json_of(result);
    json["model"] = options.model;
    json["precision"] = engine->info().precision;
    json["placeholder"] = engine->info().placeholder;
    json["batch"] = what.batch.size;
    json["left_out"] = json_of(left_out);
    std::fputs(json_text(json).c_str(), stdout);
  } else {
    if (engine->info().placeholder) std::printf("%s\n", precision_text(engine->info()).c_str());
    print_evaluation(result);
  }
}

}  // namespace

void add_evaluate(CLI::App& verb, Context& context) {
  auto options = std::make_shared<Options>();
  verb.add_option("model", options->model, "an ONNX model, which is built first, or a plan")->required();
  add_model_flags(verb, options->flags);
  verb.add_option("--data", options->path,
                  "samples to evaluate on: a folder of pictures (labelled if each class has a sub-folder), .npz "
                  "(labelled by 'labels'), CSV (labelled by a 'label' column) or .npy")
      ->required();
  verb.add_option("--metric", options->metric,
                  "metric that must be reported: top1 (needs labels), or agreement, cosine or snr (against FP32); by "
                  "default all that the data allow");
  verb.add_option("--reference", options->reference,
                  "the MODEL or PLAN to compare with; by default the same model in FP32");
  verb.add_option("--samples", options->samples, "number of samples to use, chosen by --seed; all of them by default")
      ->check(whole_number(1));
  verb.add_option("--seed", options->seed, "seed for choosing the samples")->capture_default_str();
  verb.add_option("--batch", options->batch, "number of samples in a batch; the last batch may be smaller")
      ->check(whole_number(1));
  verb.add_option("--output-name", options->output,
                  "name of the output that holds the classes; needed if there are several such outputs, or if the "
                  "output is a sequence");
  options->data.add_to(verb);
  verb.callback([options, &context] { evaluate(*options, context); });
}

}  // namespace temper::cli
