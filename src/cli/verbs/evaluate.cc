// SPDX-License-Identifier: Apache-2.0
// temper evaluate: measures how often a model is right, and how far its outputs are from those of FP32.
#include "evaluate/evaluate.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "backends/devices.h"
#include "cli/data_flags.h"
#include "cli/json_text.h"
#include "cli/outputs.h"
#include "cli/print_evaluation.h"
#include "cli/verb.h"

namespace temper::cli {
namespace {

struct EvaluateFlags {
  std::string model;
  ModelFlags flags;
  DataFlags data;
  std::string path, output, metric, reference;
  int64_t batch = 0, samples = 0;
  uint64_t seed = 0;
};

void evaluate(EvaluateFlags options, Context& context) {
  check_files(with_build_files({{options.model, options.reference}, {options.path, options.data.class_names}, {}},
                               options.flags));
  ProgressLine progress(context);
  EvaluateOptions what;
  if (!options.metric.empty()) what.metric = parse_metric(options.metric);
  what.batch = options.batch;
  what.classes = options.output;
  what.plain = build_options({}, options.model, context);
  what.plain.device_settings.library_folders = options.flags.cuda_path;
  what.devices = take_devices(options.flags.device, {options.flags.cuda_path});
  what.progress = progress.callback();
  DataModel model = data_model(options.model, options.flags, context, progress);
  what.data =
      options.data.request(options.path, options.samples, options.seed, memory_limit_of(options.flags.memory_limit));
  std::optional<DataModel> reference;
  if (!options.reference.empty()) reference = data_model(options.reference, {}, context, progress);
  const Evaluated evaluated = temper::evaluate(model, reference ? &*reference : nullptr, what);
  clear_progress();
  if (context.json) {
    print_json(json_of(evaluated, options.model));
  } else {
    const EngineInfo& info = evaluated.engine->info();
    if (info.placeholder) std::printf("%s\n", precision_text(info).c_str());
    print_evaluation(evaluated.evaluation);
  }
}

}  // namespace

void add_evaluate(Command& verb, Context& context) {
  auto options = std::make_shared<EvaluateFlags>();
  verb.add_option("model", options->model, "an ONNX model, which is built first, or a plan").required();
  add_model_flags(verb, options->flags);
  verb.add_option(
          "--data", options->path,
          "samples to evaluate on: a folder of pictures (labelled if each class has a sub-folder), .npz "
          "(labelled by 'labels'), CSV (labelled by a 'label' column), .npy, or .txt of token ids, a sample a line")
      .required();
  verb.add_option("--metric", options->metric,
                  "metric that must be reported: top1 (needs labels), or agreement, perplexity (language models, texts "
                  "of token ids), cosine, snr or difference (against FP32); by default all that the data allow");
  verb.add_option("--reference", options->reference,
                  "the MODEL or PLAN to compare with; by default the same model in FP32");
  verb.add_option("--samples", options->samples, "number of samples to use, chosen by --seed; all of them by default")
      .check(whole_number(1));
  verb.add_option("--seed", options->seed, "seed for choosing the samples").capture_default_str();
  verb.add_option("--batch", options->batch, "number of samples in a batch; the last batch may be smaller")
      .check(whole_number(1));
  verb.add_option("--output-name", options->output,
                  "name of the output that holds the classes; needed if there are several such outputs, or if the "
                  "output is a sequence");
  options->data.add_to(verb);
  verb.callback([options, &context] { evaluate(*options, context); });
}

}  // namespace temper::cli
