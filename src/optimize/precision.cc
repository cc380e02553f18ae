// SPDX-License-Identifier: Apache-2.0
#include "optimize/precision.h"

#include <algorithm>

#include "base/hash.h"
#include "graph/product.h"
#include "onnx/write.h"
#include "optimize/noise_run.h"
#include "passes/lower_precision.h"
#include "quantize/overflow.h"

namespace temper {

std::string lacks_precision(const std::string& device, const std::string& precision) {
  const bool gpu = find_backend(device).name == "cuda", bf16 = computes_bf16(device);
  if (gpu && (precision == "tf32" || precision == "fp16")) return "";
  if (precision == "fp32" || precision == "int8" || (precision == "bf16" && bf16)) return "";
  if (precision == "fp16") return concat("the CPU computes fp16 in fp32; use --precision ", bf16 ? "bf16" : "fp32");
  if (precision == "tf32") return "the CPU has no arithmetic for tf32; use --precision fp32";
  if (precision == "bf16")
    return "this CPU has no AVX512_BF16 instructions; use --precision fp32, which is faster here, or int8";
  fail(ErrorKind::unsupported, "--precision ", precision, " is not supported on the device '", device, "'; ",
       gpu    ? "fp32, tf32, fp16, bf16 and int8 are"
       : bf16 ? "fp32, bf16 and int8 are"
              : "fp32 and int8 are");
}

void check_precision(const BuildOptions& options) {
  const std::string& precision = options.precision;
  if (const std::string why = lacks_precision(options.device, precision); !why.empty())
    fail(ErrorKind::unsupported, "--precision ", precision, " is not supported here: ", why);
  if (precision == "int8" && options.calibration.empty())
    fail(ErrorKind::usage,
         "--precision int8 needs the ranges of the model's values: run `temper calibrate MODEL --data D -o "
         "ranges.json` and add --calibration ranges.json");
  for (const auto& [name, dtype] : options.placement.keep_nodes)
    if (dtype == DType::bf16 && !computes_bf16(options.device))
      fail(ErrorKind::unsupported, "layer '", name,
           "' cannot be kept in bf16 on this CPU, which has no AVX512_BF16 instructions; use --keep-fp32");
  if (precision != "int8" && precision != "fp16" && !options.calibration.empty())
    fail(ErrorKind::usage, "--calibration belongs to --precision int8 and fp16, not to ", precision);
  if (precision != "int8" && !options.qdq.empty())
    fail(ErrorKind::usage, "--qdq belongs to --precision int8, not to ", precision);
  const PlacementOptions& placement = options.placement;
  const bool keeps_bf16 = std::any_of(placement.keep_nodes.begin(), placement.keep_nodes.end(),
                                      [](const auto& kept) { return kept.second == DType::bf16; });
  if (precision != "int8" && (placement.keep_first || placement.keep_last || keeps_bf16))
    fail(ErrorKind::usage, "--keep-first, --keep-last and --keep-bf16 belong to --precision int8, not to ", precision);
  if ((precision == "fp32" || precision == "tf32") && !placement.keep_nodes.empty())
    fail(ErrorKind::usage, "--keep-fp32 belongs to --precision int8, fp16 and bf16, not to ", precision);
}

// oneDNN emulates bf16 on AVX-512: slower than fp32, and no more exact. Nobody asks for that knowingly.
bool computes_bf16(const std::string& device) { return device != "cpu" || open_device("cpu").avx512_bf16; }

void lower_kept(Graph& graph, const PlacementOptions& placement, const PassOptions& passes) {
  std::set<std::string> bf16;
  for (const auto& [name, dtype] : placement.keep_nodes)
    if (dtype == DType::bf16) bf16.insert(name);
  if (bf16.empty()) return;
  graph = with_context([] { return "pass lower_precision"; },
                       [&] { return lower_precision(graph, DType::bf16, {.only = &bf16}).graph; });
  if (passes.verify) verify(graph);
}

namespace {

Ranges ranges_for(EngineInfo& info, const BuildOptions& options) {
  Ranges ranges = load_ranges(options.calibration);
  with_context([&] { return options.calibration; },
               [&] {
                 if (!info.model_sha256.empty()) check_model(ranges, info.model_sha256);
               });
  info.calibration_sha256 = sha256_of_file(options.calibration);
  info.calibration_hashes = ranges.sample_hashes;
  return ranges;
}

void quantize(Graph& graph, EngineInfo& info, const BuildOptions& options) {
  const Ranges ranges = ranges_for(info, options);
  info.placeholder = ranges.placeholder;
  if (ranges.placeholder)
    info.notes.push_back("calibrated on noise: what this plan answers is meaningless for accuracy");
  Placement placement = with_context([&] { return options.calibration; },
                                     [&] { return place_quantization(graph, ranges, options.placement); });
  info.notes.insert(info.notes.end(), placement.warnings.begin(), placement.warnings.end());
  info.products = placement.products;
  info.lowered_products = placement.integer_products;
  for (const PlacedNode& node : placement.nodes)
    if (!node.integer) info.not_lowered.push_back(concat(node.node, " (", node.op, "): ", node.reason));
  if (!options.qdq.empty()) write_onnx(placement.graph, options.qdq, info.source_sha256, options.force);
  graph = std::move(placement.graph);
  run_passes(graph, options.passes);
  lower_kept(graph, options.placement, options.passes);
}

void take(Lowering lowering, Graph& graph, EngineInfo& info, const BuildOptions& options) {
  if (options.passes.verify) verify(lowering.graph);
  info.products = lowering.products;
  info.lowered_products = lowering.lowered_products;
  for (const LoweredNode& node : lowering.nodes)
    if (!node.reason.empty()) info.not_lowered.push_back(concat(node.node, " (", node.op, "): ", node.reason));
  graph = std::move(lowering.graph);
}

// Those that were asked for by name. Throws Error{usage} where one is no product of the graph.
std::map<std::string, std::string> kept_by_name(const Graph& graph, const KeptNodes& keep) {
  std::map<std::string, std::string> kept;
  for (const auto& [name, dtype] : keep) kept[name] = "kept by its name";
  std::map<std::string, std::string> missing = kept;
  for (int32_t n = 0; n < graph.node_count(); ++n)
    if (is_product(graph.node({n}).op)) missing.erase(graph.node({n}).name);
  if (!missing.empty())
    fail(ErrorKind::usage, "--keep-fp32 names '", missing.begin()->first,
         "', which is no convolution or matrix product of the optimised graph; temper inspect MODEL --layers lists "
         "them");
  return kept;
}

Lowering lower(const Graph& graph, DType dtype, UnfitForF16 unfit, const KeptNodes& keep, const std::string& device) {
  unfit.products.merge(kept_by_name(graph, keep));
  return lower_precision(
      graph, dtype,
      {.kept = &unfit.products, .wide = &unfit.values, .narrow_biases = find_backend(device).queue != nullptr});
}

// What fp16 does not hold, where no ranges say so: as a run on noise shows.
UnfitForF16 unfit_on_noise(const Graph& graph, EngineInfo& info, const BuildOptions& options, TimingCache& cache) {
  std::string why_not;
  const auto largest = largest_on_noise(graph, info, options, cache, why_not);
  const UnfitForF16 unfit = unfit_for_f16(graph, largest ? *largest : Largest(), "on noise");
  const size_t found = unfit.values.size() + unfit.products.size();
  info.notes.push_back(largest ? concat("values that fp16 does not hold were looked for on noise alone",
                                        found ? concat(", and ", found, " found") : "",
                                        "; --calibration RANGES looks for them in your data")
                               : concat("values that fp16 does not hold (beyond 65504) were not looked for: ", why_not,
                                        "; --calibration RANGES looks for them in your data"));
  return unfit;
}

}  // namespace

Lowering lowered_to(const Graph& graph, const std::string& precision, const Ranges& ranges, const KeptNodes& keep,
                    const std::string& device) {
  if (precision == "bf16") return lower(graph, DType::bf16, {}, keep, device);
  return lower(graph, DType::f16, unfit_for_f16(graph, largest_of(ranges), "in calibration"), keep, device);
}

void apply_precision(Graph& graph, EngineInfo& info, const BuildOptions& options, TimingCache& cache) {
  if (options.precision == "int8") quantize(graph, info, options);
  with_context([&] { return concat("precision ", options.precision); },
               [&] {
                 const KeptNodes& keep = options.placement.keep_nodes;
                 if (options.precision == "bf16")
                   take(lowered_to(graph, "bf16", {}, keep, options.device), graph, info, options);
                 if (options.precision == "fp16" && !options.calibration.empty())
                   take(lowered_to(graph, "fp16", ranges_for(info, options), keep, options.device), graph, info,
                        options);
                 else if (options.precision == "fp16")
                   take(lower(graph, DType::f16, unfit_on_noise(graph, info, options, cache), keep, options.device),
                        graph, info, options);
                 if (options.precision == "tf32") take(allow_tf32(graph), graph, info, options);
               });
}

}  // namespace temper
