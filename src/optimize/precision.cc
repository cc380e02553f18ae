// SPDX-License-Identifier: Apache-2.0
#include "optimize/precision.h"

#include <algorithm>
#include <span>

#include "base/hash.h"
#include "graph/product.h"
#include "onnx/write.h"
#include "optimize/noise_run.h"
#include "passes/pipeline.h"
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
  if (options.ranges && !options.calibration.empty())
    fail(ErrorKind::usage, "ranges are given twice: themselves, and as the file ", options.calibration);
  if (precision == "int8" && !options.is_calibrated())
    fail(ErrorKind::usage,
         "--precision int8 needs the ranges of the model's values: run `temper calibrate MODEL --data D -o "
         "ranges.json` and add --calibration ranges.json");
  for (const auto& [name, dtype] : options.placement.keep_nodes)
    if (dtype == DType::bf16 && !computes_bf16(options.device))
      fail(ErrorKind::unsupported, "layer '", name,
           "' cannot be kept in bf16 on this CPU, which has no AVX512_BF16 instructions; use --keep-fp32");
  if (precision != "int8" && precision != "fp16" && options.is_calibrated())
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

Placement quantize(Graph& graph, const Ranges& ranges, const std::string& file, const PlacementOptions& options,
                   const PassOptions& passes) {
  std::set<std::string> bf16;
  for (const auto& [name, dtype] : options.keep_nodes)
    if (dtype == DType::bf16) bf16.insert(name);
  Placement placement;
  const auto place = [&](Graph& to_place, const PassOptions&) {
    placement = with_context([&] { return file; }, [&] { return place_quantization(to_place, ranges, options); });
    to_place = placement.graph;
    return std::ranges::any_of(placement.nodes, [](const PlacedNode& node) { return node.integer; });
  };
  run_passes(graph, passes, quantize_pipeline(place, std::move(bf16)));
  return placement;
}

namespace {

// What the ranges are called in errors.
std::string name_of_ranges(const BuildOptions& options) { return options.ranges ? "ranges" : options.calibration; }

Ranges ranges_for(EngineInfo& info, const BuildOptions& options) {
  Ranges ranges = options.ranges ? *options.ranges : load_ranges(options.calibration);
  with_context([&] { return name_of_ranges(options); },
               [&] {
                 if (!info.model_sha256.empty()) check_model(ranges, info.model_sha256);
               });
  if (options.ranges) {
    const std::string text = to_json(ranges);  // a file of them has these bytes
    info.calibration_sha256 = sha256_hex(std::as_bytes(std::span(text)));
  } else {
    info.calibration_sha256 = sha256_of_file(options.calibration);
  }
  info.calibration_hashes = ranges.sample_hashes;
  return ranges;
}

void note_if_disabled(std::string_view pass, EngineInfo& info, const BuildOptions& options) {
  if (options.passes.disabled.contains(pass))
    info.notes.push_back(concat("the pass ", pass, " is disabled: nothing computes in ", options.precision));
}

void quantize(Graph& graph, EngineInfo& info, const BuildOptions& options) {
  const Ranges ranges = ranges_for(info, options);
  info.placeholder = ranges.placeholder;
  if (ranges.placeholder)
    info.notes.push_back("calibrated on noise: what this plan answers is meaningless for accuracy");
  note_if_disabled("place_quantization", info, options);
  const Placement placement = quantize(graph, ranges, name_of_ranges(options), options.placement, options.passes);
  info.notes.insert(info.notes.end(), placement.warnings.begin(), placement.warnings.end());
  info.products = placement.products;
  info.lowered_products = placement.integer_products;
  for (const PlacedNode& node : placement.nodes)
    if (!node.integer) info.not_lowered.push_back(concat(node.node, " (", node.op, "): ", node.reason));
  if (!options.qdq.empty()) write_onnx(placement.graph, options.qdq, info.source_sha256, options.force);
}

void lower(Graph& graph, PrecisionTarget target, EngineInfo& info, const BuildOptions& options) {
  note_if_disabled(target.tf32 ? "allow_tf32" : "lower_precision", info, options);
  LoweringReport report;
  run_passes(graph, options.passes, precision_pipeline(std::move(target), &report));
  info.products = report.products;
  info.lowered_products = report.lowered_products;
  for (const LoweredNode& node : report.nodes)
    if (!node.reason.empty()) info.not_lowered.push_back(concat(node.node, " (", node.op, "): ", node.reason));
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

PrecisionTarget target_of(const Graph& graph, DType dtype, UnfitForF16 unfit, const KeptNodes& keep,
                          const std::string& device) {
  unfit.products.merge(kept_by_name(graph, keep));
  LoweringOptions options;
  options.kept = std::move(unfit.products);
  options.wide = std::move(unfit.values);
  options.narrow_biases = find_backend(device).queue != nullptr;
  options.narrow_rows = find_backend(device).fuses;
  return {dtype, std::move(options)};
}

// What fp16 does not hold, where no ranges say so: as a run on noise shows.
UnfitForF16 unfit_on_noise(const Graph& graph, EngineInfo& info, const BuildOptions& options, TimingCache& cache) {
  std::string why_not;
  const auto largest = largest_on_noise(graph, info, options, cache, why_not);
  UnfitForF16 unfit = unfit_for_f16(graph, largest ? *largest : Largest(), "on noise");
  const size_t found = unfit.values.size() + unfit.products.size();
  info.notes.push_back(largest ? concat("values that fp16 does not hold were looked for on noise alone",
                                        found ? concat(", and ", found, " found") : "",
                                        "; --calibration RANGES looks for them in your data")
                               : concat("values that fp16 does not hold (beyond 65504) were not looked for: ", why_not,
                                        "; --calibration RANGES looks for them in your data"));
  return unfit;
}

// By ranges, of fp16 alone.
PrecisionTarget target_of(const Graph& graph, const std::string& precision, const Ranges& ranges, const KeptNodes& keep,
                          const std::string& device) {
  if (precision == "bf16") return target_of(graph, DType::bf16, {}, keep, device);
  return target_of(graph, DType::f16, unfit_for_f16(graph, largest_of(ranges), "in calibration"), keep, device);
}

}  // namespace

Lowering lowered_to(const Graph& graph, const std::string& precision, const Ranges& ranges, const KeptNodes& keep,
                    const std::string& device) {
  Lowering lowering;
  lowering.graph = graph;
  run_passes(lowering.graph, {}, precision_pipeline(target_of(graph, precision, ranges, keep, device), &lowering));
  return lowering;
}

void apply_precision(Graph& graph, EngineInfo& info, const BuildOptions& options, TimingCache& cache) {
  const std::string& precision = options.precision;
  const KeptNodes& keep = options.placement.keep_nodes;
  if (precision == "int8") return quantize(graph, info, options);
  if (precision == "fp32") return;
  with_context([&] { return concat("precision ", precision); },
               [&] {
                 PrecisionTarget target;
                 if (precision == "tf32") target.tf32 = true;
                 else if (precision == "fp16" && !options.is_calibrated())
                   target =
                       target_of(graph, DType::f16, unfit_on_noise(graph, info, options, cache), keep, options.device);
                 else
                   target = target_of(graph, precision, precision == "fp16" ? ranges_for(info, options) : Ranges(),
                                      keep, options.device);
                 lower(graph, std::move(target), info, options);
               });
}

}  // namespace temper
