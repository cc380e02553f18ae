// SPDX-License-Identifier: Apache-2.0
// temper evaluate: how often the model is right on labelled data.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "bench/table.h"
#include "cli/batches.h"
#include "cli/data_flags.h"
#include "cli/model.h"
#include "cli/verb.h"
#include "data/topk.h"

namespace temper::cli {
namespace {

struct Options {
  std::string model;
  ModelFlags flags;
  DataFlags data;
  std::string path, output;
  int64_t batch = 0;
};

size_t find_output(const Engine& engine, const std::string& name) {
  const auto& outputs = engine.outputs();
  std::string list;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].name == name || (name.empty() && outputs.size() == 1)) return i;
    list += concat(i ? ", " : "", outputs[i].name);
  }
  if (name.empty())
    fail(ErrorKind::usage, "the model has several outputs; say which one holds the classes: --output ", list);
  fail(ErrorKind::usage, "the model has no output '", name, "'; it has: ", list);
}

void evaluate(const Options& options, Context& context) {
  DataModel model(options.model, options.flags, context);
  const Dataset data = open_dataset(options.path, model.inputs(), options.data.options());
  if (!data.has_labels())
    fail(ErrorKind::usage, "'", options.path,
         "' says nothing about the right answers: give a folder with one sub-folder a class, an .npz with 'labels', or "
         "a CSV with a 'label' column");
  const BatchSizes batch = model.choose_batch(data, options.batch);
  log(LogLevel::info, data.text(), ", in batches of ", batch.size);

  Session session(model.engine(data, batch));
  const size_t output = find_output(session.engine(), options.output);
  const std::string& name = session.engine().outputs()[output].name;
  Accuracy accuracy;
  for_each_batch(session, data, batch, "evaluating", context,
                 [&](const Batch& part, const std::vector<Tensor>& outputs) {
                   accuracy.add(class_rows(outputs[output], name), part.labels, part.first);
                 });

  const bool five = accuracy.classes > 5;  // of five classes or fewer, the right one is always among the best five
  const Interval top1 = accuracy.top1_interval(), top5 = accuracy.top5_interval();
  if (context.json) {
    nlohmann::json json = {
        {"samples", accuracy.n},
        {"classes", accuracy.classes},
        {"batch", batch.size},
        {"output", name},
        {"top1", {{"rate", accuracy.top1_rate()}, {"right", accuracy.top1}, {"ci95", {top1.low, top1.high}}}},
        {"top5", nullptr}};
    if (five)
      json["top5"] = {{"rate", accuracy.top5_rate()}, {"right", accuracy.top5}, {"ci95", {top5.low, top5.high}}};
    std::printf("%s\n", json.dump(2).c_str());
    return;
  }
  const auto percent = [](double rate) {
    char text[32];
    std::snprintf(text, sizeof text, "%.2f %%", 100 * rate);
    return std::string(text);
  };
  Table table{{{"metric", false}, {"accuracy"}, {"95 % interval (Wilson)"}, {"right"}, {"samples"}}, {}};
  table.rows.push_back({"top-1", percent(accuracy.top1_rate()), percent(top1.low) + " to " + percent(top1.high),
                        concat(accuracy.top1), concat(accuracy.n)});
  if (five)
    table.rows.push_back({"top-5", percent(accuracy.top5_rate()), percent(top5.low) + " to " + percent(top5.high),
                          concat(accuracy.top5), concat(accuracy.n)});
  std::fputs(terminal_table(table).c_str(), stdout);
}

}  // namespace

void add_evaluate(CLI::App& verb, Context& context) {
  auto options = std::make_shared<Options>();
  verb.add_option("model", options->model, "an ONNX model, built on the spot, or a plan")->required();
  add_model_flags(verb, options->flags);
  verb.add_option("--data", options->path,
                  "labelled samples: a folder with one sub-folder of pictures a class, .npz with 'labels', or CSV with "
                  "a 'label' column")
      ->required();
  verb.add_option("--batch", options->batch, "samples at a time; the last batch may be smaller")
      ->check(CLI::PositiveNumber);
  verb.add_option("--output", options->output, "the output that holds the classes, where there are several");
  options->data.add_to(verb);
  verb.callback([options, &context] { evaluate(*options, context); });
}

}  // namespace temper::cli
