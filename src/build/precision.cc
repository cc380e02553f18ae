// SPDX-License-Identifier: Apache-2.0
#include "build/precision.h"

#include "base/hash.h"
#include "onnx/write.h"
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
    fail(ErrorKind::usage, "--precision int8 needs the ranges of the model's values: run `temper calibrate MODEL --data D -o ranges.json` and add --calibration ranges.json");
  for (const auto& [name, dtype] : options.placement.keep_nodes)
    if (dtype == DType::bf16 && !computes_bf16(options.device))
      fail(ErrorKind::unsupported, "layer '", name, "' cannot be kept in bf16 on this CPU, which has no AVX512_BF16 instructions; use --keep-fp32");
  if (precision != "int8" && precision != "fp16" && !options.calibration.empty())
    fail(ErrorKind::usage, "--calibration belongs to --precision int8 and fp16, not to ", precision);
  if (precision != "int8" && !options.qdq.empty()) fail(ErrorKind::usage, "--qdq belongs to --precision int8, not to ", precision);
  const PlacementOptions& placement = options.placement;
  if (precision != "int8" && (placement.keep_first || placement.keep_last || !placement.keep_nodes.empty()))
    fail(ErrorKind::usage, "--keep-first, --keep-last, --keep-fp32 and --keep-bf16 belong to --precision int8, not to ", precision);
}

// oneDNN emulates bf16 on AVX-512: slower than fp32, and no more exact. Nobody asks for that knowingly.
bool computes_bf16(const std::string& device) { return device != "cpu" || open_device("cpu").avx512_bf16; }

void lower_kept(Graph& graph, const PlacementOptions& placement, const PassOptions& passes) {
  std::set<std::string> bf16;
  for (const auto& [name, dtype] : placement.keep_nodes)
    if (dtype == DType::bf16) bf16.insert(name);
  if (bf16.empty()) return;
  graph = with_context([] { return "pass lower_precision"; }, [&] { return lower_precision(graph, DType::bf16, {.only = &bf16}).graph; });
  if (passes.verify) verify(graph);
}

namespace {

Ranges ranges_for(EngineInfo& info, const BuildOptions& options) {
  Ranges ranges = load_ranges(options.calibration);
  with_context([&] { return options.calibration; }, [&] {
    if (!info.model_sha256.empty()) check_model(ranges, info.model_sha256);
  });
  info.calibration_sha256 = sha256_of_file(options.calibration);
  info.calibration_hashes = ranges.sample_hashes;
  return ranges;
}

void quantize(Graph& graph, EngineInfo& info, const BuildOptions& options) {
  const Ranges ranges = ranges_for(info, options);
  info.placeholder = ranges.placeholder;
  if (ranges.placeholder) info.notes.push_back("calibrated on noise: what this plan answers is meaningless for accuracy");
  Placement placement = with_context([&] { return options.calibration; }, [&] { return place_quantization(graph, ranges, options.placement); });
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

// Layers whose values fp16 does not hold stay in fp32, where calibration saw them.
void lower_to_f16(Graph& graph, EngineInfo& info, const BuildOptions& options) {
  std::map<std::string, std::string> kept;
  if (options.calibration.empty())
    info.notes.push_back("values beyond what fp16 holds (65504) were not looked for; --calibration RANGES does");
  else
    kept = overflows_of_f16(graph, ranges_for(info, options));
  take(lower_precision(graph, DType::f16, {.kept = &kept, .narrow_biases = true}), graph, info, options);
}

}  // namespace

void apply_precision(Graph& graph, EngineInfo& info, const BuildOptions& options) {
  if (options.precision == "int8") quantize(graph, info, options);
  with_context([&] { return concat("precision ", options.precision); }, [&] {
    const bool gpu = find_backend(options.device).queue != nullptr;
    if (options.precision == "bf16") take(lower_precision(graph, DType::bf16, {.narrow_biases = gpu}), graph, info, options);
    if (options.precision == "fp16") lower_to_f16(graph, info, options);
    if (options.precision == "tf32") take(allow_tf32(graph), graph, info, options);
  });
}

}  // namespace temper
