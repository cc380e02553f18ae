// SPDX-License-Identifier: Apache-2.0
#include "evaluate/mixed.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/half.h"
#include "base/log.h"
#include "evaluate/text.h"
#include "graph/product.h"
#include "optimize/precision.h"
#include "optimize/trial.h"

namespace temper {

std::optional<DType> raised_to(const std::string& text, const std::string& precision, const std::string& device) {
  const std::optional<PrecisionParts> parts = parts_of(precision);
  if (!parts || !parts->bytes) return std::nullopt;
  const std::optional<DType> own = parts->half;
  if (!text.empty() && text != "bf16" && text != "fp32" && text != "fp16")
    fail(ErrorKind::usage, "--raise-to is bf16, fp16 or fp32, not '", text, "'");
  if ((own == DType::f16 && text == "bf16") || (own != DType::f16 && text == "fp16"))
    fail(ErrorKind::usage, "--raise-to ", text, " does not go with --precision ", precision,
         own ? ", whose layers are in 8 bits or its 16 bits" : "; use int8+fp16");
  if (text == "fp32") return std::nullopt;
  if (own) return own;
  if (text == "bf16" && !computes_bf16(device))
    fail(ErrorKind::unsupported, "--raise-to bf16 is not supported here: ", why_no_bf16(), "; use --raise-to fp32");
  return computes_bf16(device) ? std::optional(DType::bf16) : std::nullopt;
}

void check_raise_to(const std::string& text, std::span<const std::string> precisions) {
  if (text.empty() || text == "fp32") return;
  for (const std::string& precision : precisions)
    if (const auto parts = parts_of(precision); parts && parts->bytes) return;
  fail(ErrorKind::usage, "--raise-to ", text, " belongs to --precision int8 and fp8; other layers go back to fp32");
}

void check_metric(const std::optional<Metric>& metric, std::optional<double> max_drop, const Graph& imported,
                  const Dataset& data, const std::string& classes, int64_t samples) {
  std::vector<std::string> names;
  std::vector<TensorType> types;
  for (const GraphOutput& output : imported.outputs())
    names.push_back(output.name), types.push_back(imported.type(output.value));
  const bool text = data.token_input() >= 0 && !data.has_labels();
  const int place = classes_output(names, types, classes, text);
  if (metric == Metric::top1 && !data.has_labels())
    fail(ErrorKind::usage,
         "the metric top1 needs data with right answers; agreement, cosine, snr and difference need none");
  if (metric == Metric::perplexity && (!text || place < 0 || types[size_t(place)].shape.size() != 3))
    fail(ErrorKind::usage,
         "the metric perplexity needs texts of token ids, and an output [batch, positions, vocabulary] of what follows "
         "each token (--output-name, if it is not called logits)");
  if ((metric == Metric::top1 || metric == Metric::agreement) && place < 0)
    fail(ErrorKind::usage, "the metric ", name_of(*metric),
         " needs an output that holds classes, and none or several of the model's do (--output-name); cosine, snr and "
         "difference compare outputs of any kind");
  const bool counts = metric ? *metric == Metric::top1 || *metric == Metric::agreement : place >= 0;
  const bool positions = place >= 0 && types[size_t(place)].shape.size() == 3;  // of which a sample has many
  if (!counts || positions) return;
  const double told = max_drop.value_or(0) > 0 ? *max_drop : kToldDrop;
  const Metric counted = metric.value_or(data.has_labels() ? Metric::top1 : Metric::agreement);
  if (const int64_t needed = answers_to_tell(counted, told); samples < needed)
    log(LogLevel::warning, samples, " samples are too few to tell a drop of ", percent_text(told),
        " from none: ", needed, " would (95 %)");
}

namespace {

// Convolutions and products below f32, or in TF32, by name, which several may have.
std::vector<std::string> narrow_layers(const Graph& graph) {
  std::vector<std::string> layers;
  for (int32_t n = 0; n < graph.node_count(); ++n)
    if (const Node& node = graph.node({n}); is_product(node.op))
      if (const DType dtype = graph.type(node.inputs[0]).dtype;
          (is_half(dtype) || size_of(dtype) == 1 || allows_tf32(node.op)) &&
          std::ranges::find(layers, node.name) == layers.end())
        layers.push_back(node.name);
  return layers;
}

}  // namespace

MixedSearch search_mixed(const Graph& imported, const Ranges& ranges, const Dataset& data,
                         const std::vector<int64_t>& samples, const std::string& classes, const Budget& budget,
                         BuildOptions options, const std::string& precision) {
  const int64_t fixed = fixed_batch(imported, data),
                batch = fixed ? fixed : std::min<int64_t>(int64_t(samples.size()), 16);
  options.replace_shapes(shapes_of_data(imported, data, batch));
  EngineInfo info;
  const Graph graph = optimised_graph(imported, info, options);
  EvaluationData what{data, samples, {batch, fixed ? fixed : 1}, classes, budget.devices, options.device_settings};
  MixedSearch mixed;
  mixed.precision = precision;
  mixed.max_drop = budget.max_drop;
  const ReferenceAnswers reference = keep_answers(what, trial_engine(graph, options), options.progress);
  mixed.samples = reference.samples;
  // A model that guesses loses nothing by top1 whatever int8 does to it, so any plan would keep the budget.
  if (const std::string guessing = reference.accuracy ? chance_warning(*reference.accuracy) : ""; !guessing.empty()) {
    if (budget.metric.value_or(Metric::top1) == Metric::top1 && only_guesses(*reference.accuracy) &&
        !budget.measured_later)
      fail(ErrorKind::check_failed, "a budget by top1 needs a model that does not guess: ", guessing,
           "; --metric agreement, cosine, snr or difference judge without the labels");
    log(LogLevel::warning, guessing);
  }
  const auto with = [&](const PlacementOptions& placement) {
    return in_precision(graph, precision, ranges, placement, options.device, options.passes);
  };
  const std::vector<std::string> layers = narrow_layers(with(options.placement));
  int trials = 0;
  mixed.search = search_layers(layers, budget.half, [&](const KeptNodes& keep) {
    tell(options.progress,
         {"mixed precision", double(trials++), double(most_trials(layers.size(), budget.half.has_value())),
          "candidates at most", concat(layers.size() - keep.size(), " of ", layers.size(), " layers in ", precision)});
    PlacementOptions placement = options.placement;
    placement.keep_nodes.insert(keep.begin(), keep.end());
    const auto engine = trial_engine(with(placement), options);
    const Evaluation tried = evaluate_beside(what, reference, engine);
    const Judgement& judged = mixed.judged.emplace_back(judge(tried, budget.metric, budget.max_drop));
    return Loss{judged.drop, judged.noise, judged.holds, int(mixed.judged.size()) - 1};
  });
  return mixed;
}

std::map<std::string, double> saved_times(const TimedBuild& fp32, const TimedBuild& narrow,
                                          const std::string& precision) {
  const SavedTimes saved = saved_by(narrow, fp32);
  if (!saved.slower.empty()) {
    std::string names;
    for (size_t i = 0; i < saved.slower.size() && i < 5; ++i) names += concat(i ? "," : "", saved.slower[i]);
    log(LogLevel::warning, precision, " is slower than fp32 in ", saved.slower.size(), " of ", saved.ms.size(),
        " layers: ", names, saved.slower.size() > 5 ? ",..." : "",
        "; --keep-fp32 with their names builds them in fp32");
  }
  return saved.ms;
}

namespace {
std::string decision_text(const MixedSearch& mixed, DType dtype) {
  const bool is_kept = dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
  return is_kept ? kept_word(dtype) : mixed.precision;
}
}  // namespace

Table table_of(const MixedSearch& mixed) {
  Table table{{{"layer", false},
               {concat("drop alone in ", mixed.precision)},
               {"SNR"},
               {"cosine"},
               {concat("time ", mixed.precision, " saves")},
               {"decision", false}},
              {}};
  const bool tried = mixed.search.trials > 1;
  for (const LayerLoss& row : mixed.search.layers) {
    const auto time = mixed.saved_ms.find(row.layer);
    const Judgement& alone = mixed.of(row.alone);
    table.rows.push_back({row.layer, tried ? drop_text(alone, mixed.max_drop) : "not tried: all hold",
                          tried ? decibel_text(alone.snr_db()) : "", tried ? format_number(alone.cosine, 4) : "",
                          time == mixed.saved_ms.end() ? "n/a" : format_number(time->second) + " ms",
                          decision_text(mixed, row.decision)});
  }
  return table;
}

std::string text_of(const MixedSearch& mixed) {
  const auto answers = [&](const Loss& loss) {
    const Judgement& judged = mixed.of(loss);
    return concat(drop_text(judged, mixed.max_drop), ", SNR ", decibel_text(judged.snr_db()), ", cosine ",
                  format_number(judged.cosine, 4),
                  loss.drop <= mixed.max_drop && !loss.holds ? concat(" (", far_text(judged), ")") : "");
  };
  std::string text = concat(name_of(mixed.of(mixed.search.all).metric), " drop with every layer in ", mixed.precision,
                            ": ", answers(mixed.search.all), ", on ", mixed.samples, " samples",
                            quantizes(mixed.precision) ? " of the calibration data" : "", "; budget ",
                            format_number(100 * mixed.max_drop, 3), " %");
  if (mixed.search.keep.empty()) return text + (mixed.search.holds ? ": it holds" : ": it does not hold");
  const auto half = std::count_if(mixed.search.keep.begin(), mixed.search.keep.end(),
                                  [](const auto& entry) { return entry.second != DType::f32; });
  const auto fp32 = int64_t(mixed.search.keep.size()) - half;
  const auto is_f16 = std::ranges::any_of(mixed.search.keep, [](const auto& e) { return e.second == DType::f16; });
  text += concat("; with ", fp32 || !half ? concat(fp32, " in fp32") : "", fp32 && half ? " and " : "",
                 half ? concat(half, is_f16 ? " in fp16" : " in bf16") : "", " of ", mixed.search.layers.size(),
                 " layers: ", answers(mixed.search.loss));
  return text + (mixed.search.holds ? "" : ": it does not hold even so") +
         concat(" (", mixed.search.trials, " candidates tried)");
}

nlohmann::ordered_json json_of(const MixedSearch& mixed) {
  nlohmann::ordered_json layers = nlohmann::ordered_json::array();
  for (const LayerLoss& row : mixed.search.layers) {
    const auto time = mixed.saved_ms.find(row.layer);
    const bool tried = mixed.search.trials > 1;
    layers.push_back(
        {{"layer", row.layer},
         {"drop", tried ? nlohmann::ordered_json(row.alone.drop) : nullptr},
         {"noise_share", tried && std::isfinite(row.alone.noise) ? nlohmann::ordered_json(row.alone.noise) : nullptr},
         {"saves_ms",
          time == mixed.saved_ms.end() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(time->second)},
         {"decision", decision_text(mixed, row.decision)}});
  }
  const auto json_of_judged = [](const Judgement& j) {
    return nlohmann::ordered_json{
        {"drop", j.drop},
        {"ci95", j.answers ? nlohmann::ordered_json{j.interval.low, j.interval.high} : nlohmann::ordered_json(nullptr)},
        {"answers", j.answers},
        {"snr_db", std::isfinite(j.snr_db()) ? nlohmann::ordered_json(j.snr_db()) : nlohmann::ordered_json(nullptr)},
        {"cosine", j.cosine},
        {"near", j.near},
        {"holds", j.holds}};
  };
  const Judgement &all = mixed.of(mixed.search.all), &result = mixed.of(mixed.search.loss);
  return {{"precision", mixed.precision},
          {"metric", name_of(result.metric)},
          {"max_drop", mixed.max_drop},
          {"samples", mixed.samples},
          {concat("drop_all_", mixed.precision), all.drop},
          {"drop", result.drop},
          {concat("all_", mixed.precision), json_of_judged(all)},
          {"result", json_of_judged(result)},
          {"least_snr_db", kLeastSnrDb},
          {"least_cosine", kLeastCosine},
          {"holds", mixed.search.holds},
          {"candidates", mixed.search.trials},
          {"left_out", json_of(mixed.left_out)},
          {"layers", layers}};
}

int64_t fixed_batch(const Graph& imported, const Dataset& data) {
  for (size_t i = 0; i < imported.inputs().size(); ++i)
    if (data.has_samples(i))
      if (const Dim& dim = imported.type(imported.inputs()[i]).shape[0]; dim.is_constant()) return dim.value();
  return 0;
}

std::map<std::string, ShapeRange> shapes_of_data(const Graph& imported, const Dataset& data, int64_t batch) {
  std::map<std::string, ShapeRange> shapes;
  const std::vector<Tensor> sample = data.batch(0, 1).inputs;
  for (size_t i = 0; i < sample.size(); ++i) {
    Dims dims = sample[i].dims(), least = dims;
    if (data.has_samples(i)) {
      dims[0] = batch;
      if (imported.type(imported.inputs()[i]).shape[0].is_constant()) least[0] = batch;
    }
    shapes[imported.value(imported.inputs()[i]).name] = {least, dims, dims};
  }
  return shapes;
}

}  // namespace temper
