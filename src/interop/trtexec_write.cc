// SPDX-License-Identifier: Apache-2.0
#include "interop/trtexec_write.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <numeric>

#include "base/strict_json.h"
#include "base/version.h"
#include "interop/trtexec_check.h"
#include "measure/statistics.h"

namespace temper {

namespace {

using Json = nlohmann::ordered_json;

// As TensorRT writes the type of a tensor in rows; read_layer_info finds the precision in it.
std::string format_text(const LayerTensor& tensor) {
  const std::string layout = tensor.format == "plain" ? "Row major linear" : tensor.format;
  return concat(layout, " ", upper(tensor.precision), tensor.format == "plain" ? " format" : "");
}

Json tensors_json(const std::vector<LayerTensor>& tensors) {
  Json list = Json::array();
  for (const LayerTensor& tensor : tensors)
    list.push_back({{"Name", tensor.name},
                    {"Location", "Device"},
                    {"Dimensions", tensor.dims},
                    {"Format/Datatype", format_text(tensor)}});
  return list;
}

// The word that tells TensorRT's kinds of layers, where there is one that says the same.
std::string layer_type(const EngineLayer& layer) {
  switch (layer.kind) {
    case LayerKind::convolution: return "Convolution";
    case LayerKind::matmul: return "MatrixMultiply";
    case LayerKind::pooling: return "Pooling";
    case LayerKind::reduction: return "Reduce";
    case LayerKind::pointwise: return "PointWise";
    case LayerKind::softmax: return "SoftMax";
    case LayerKind::normalization: return "Normalization";
    case LayerKind::reformat: return "Reformat";
    case LayerKind::quantize: return "Quantize";
    case LayerKind::dequantize: return "Dequantize";
    default: return layer.op;
  }
}

Json layer_json(const EngineLayer& layer) {
  return {{"Name", layer.name},
          {"LayerType", layer_type(layer)},
          {"Inputs", tensors_json(layer.inputs)},
          {"Outputs", tensors_json(layer.outputs)},
          {"TacticName", layer.tactic},
          {"StreamId", 0},
          {"Metadata", ""}};
}

}  // namespace

std::string trtexec_banner(std::string_view word, const std::string& command) {
  return concat("&&&& ", word, " Temper.trtexec [Temper v", version(), "] # ", command);
}

std::string trtexec_lines(char severity, std::string_view text) {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char stamp[40];
  std::strftime(stamp, sizeof stamp, "[%m/%d/%Y-%H:%M:%S] ", &local);
  std::string lines;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines += concat(std::string_view(stamp), "[", severity, "] ", text.substr(at, end - at), "\n");
    at = end + 1;
  }
  return lines;
}

std::string trtexec_number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

std::string trtexec_dims(const std::vector<int64_t>& dims) {
  std::string text;
  for (size_t i = 0; i < dims.size(); ++i) text += concat(i ? "x" : "", dims[i]);
  return text;
}

TrtexecStats trtexec_stats(const std::vector<double>& ms, const std::vector<double>& percentiles) {
  std::vector<double> sorted = ms;
  std::sort(sorted.begin(), sorted.end());
  const size_t n = sorted.size();
  TrtexecStats stats;
  stats.min = sorted.front();
  stats.max = sorted.back();
  stats.mean = std::accumulate(ms.begin(), ms.end(), 0.0) / double(n);
  stats.median = n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
  for (double percent : percentiles) {
    const int64_t excluded = trtexec_percentile_excludes(percent, int64_t(n));
    stats.percentiles.push_back({percent, sorted[size_t(std::max<int64_t>(int64_t(n) - 1 - excluded, 0))]});
  }
  return stats;
}

std::string trtexec_stats_line(std::string_view name, const TrtexecStats& stats) {
  std::string line =
      concat(name, ": min = ", trtexec_number(*stats.min), " ms, max = ", trtexec_number(*stats.max),
             " ms, mean = ", trtexec_number(*stats.mean), " ms, median = ", trtexec_number(*stats.median), " ms");
  for (const auto& [percent, value] : stats.percentiles)
    line += concat(", percentile(", trtexec_number(percent), "%) = ", trtexec_number(value), " ms");
  return line;
}

std::vector<std::string> trtexec_trace(const std::vector<double>& ms, int64_t runs, std::string_view name) {
  std::vector<std::string> lines;
  for (size_t at = 0; at + size_t(runs) <= ms.size(); at += size_t(runs)) {
    const double sum =
        std::accumulate(ms.begin() + std::ptrdiff_t(at), ms.begin() + std::ptrdiff_t(at + size_t(runs)), 0.0);
    lines.push_back(concat("Average on ", runs, " runs - ", name, ": ", trtexec_number(sum / double(runs)), " ms"));
  }
  return lines;
}

std::string trtexec_times_json(const std::vector<double>& latency_ms, const std::vector<double>* compute_ms) {
  std::string text = "[\n";
  for (size_t i = 0; i < latency_ms.size(); ++i) {
    const std::string latency = trtexec_number(latency_ms[i]),
                      compute = compute_ms ? trtexec_number((*compute_ms)[i]) : latency;
    text += concat(i ? ", " : "  ", "{ \"temper\" : \"", version(), "\", \"h2dMs\" : 0, \"computeMs\" : ", compute,
                   ", \"d2hMs\" : 0, \"latencyMs\" : ", latency, " }\n");
  }
  return text + "]\n";
}

std::string trtexec_profile_json(const EngineLayers& engine) {
  double sum = 0;
  for (const EngineLayer& layer : engine.layers) sum += layer.ms.value_or(0);
  Json list = Json::array();
  list.push_back({{"count", engine.runs}});
  for (const EngineLayer& layer : engine.layers) {
    const double ms = layer.ms.value_or(0);
    list.push_back({{"name", layer.name},
                    {"timeMs", ms * double(engine.runs)},
                    {"averageMs", ms},
                    {"medianMs", ms},
                    {"percentage", sum > 0 ? 100 * ms / sum : 0.0}});
  }
  return strict::dump(list, 1) + "\n";
}

std::string trtexec_profile_table(const EngineLayers& engine) {
  double sum = 0;
  for (const EngineLayer& layer : engine.layers) sum += layer.ms.value_or(0);
  std::string text = concat("=== Profile (", engine.runs, " iterations ) ===\n",
                            "   Time(ms)     Avg.(ms)   Median(ms)   Time(%)   Layer\n");
  char line[128];
  const auto row = [&](double ms, double share, const std::string& name) {
    std::snprintf(line, sizeof line, "%11.2f %12.4f %12.4f %9.1f   ", ms * double(engine.runs), ms, ms, share);
    text += line + name + "\n";
  };
  for (const EngineLayer& layer : engine.layers)
    row(layer.ms.value_or(0), sum > 0 ? 100 * layer.ms.value_or(0) / sum : 0, layer.name);
  row(sum, 100, "Total");
  text.pop_back();
  return text;
}

std::string trtexec_layer_json(const EngineLayer& layer) { return strict::dump(layer_json(layer), 1) + "\n"; }

std::string trtexec_layers_json(const EngineLayers& engine, bool detailed, const std::vector<std::string>& bindings) {
  Json layers = Json::array();
  for (const EngineLayer& layer : engine.layers) {
    if (!detailed) {
      layers.push_back(layer.name);
      continue;
    }
    layers.push_back(layer_json(layer));
  }
  const Json file{{"Temper", version()}, {"Layers", std::move(layers)}, {"Bindings", bindings}};
  return strict::dump(file, 1) + "\n";
}

std::string trtexec_outputs_json(const std::vector<TrtexecOutput>& outputs) {
  std::string text = "[\n";
  for (size_t i = 0; i < outputs.size(); ++i) {
    const TrtexecOutput& output = outputs[i];
    text += concat(i ? ", " : "  ", "{ \"name\" : ", strict::dump(Json(output.name)), ", \"dimensions\" : \"",
                   trtexec_dims(output.dims), "\", \"values\" : [ ");
    for (size_t v = 0; v < output.values.size(); ++v) {
      // JSON has no word for what is no number.
      const double value = output.values[v];
      text += concat(v ? ", " : "", std::isfinite(value) ? trtexec_number(value) : "null");
    }
    text += " ] }\n";
  }
  return text + "]\n";
}

std::string trtexec_output_text(const TrtexecOutput& output) {
  std::string text = concat(output.name, ": (", trtexec_dims(output.dims), ")\n");
  const size_t row = output.dims.empty() ? 1 : size_t(std::max<int64_t>(output.dims.back(), 1));
  for (size_t i = 0; i < output.values.size(); ++i)
    text += concat(trtexec_number(output.values[i]), (i + 1) % row && i + 1 < output.values.size() ? " " : "\n");
  text.pop_back();
  return text;
}

}  // namespace temper
