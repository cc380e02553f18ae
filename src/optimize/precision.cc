// SPDX-License-Identifier: Apache-2.0
#include "optimize/precision.h"

#include <algorithm>
#include <span>

#include "base/hash.h"
#include "base/parse.h"
#include "data/dataset.h"
#include "graph/product.h"
#include "onnx/write.h"
#include "optimize/noise_run.h"
#include "optimize/pictures_in.h"
#include "passes/pipeline.h"
#include "passes/smooth_channels.h"
#include "quantize/overflow.h"

namespace temper {

std::optional<PrecisionParts> parts_of(const std::string& precision) {
  static const std::map<std::string, PrecisionParts> all{{"fp32", {}},
                                                         {"tf32", {.tf32 = true}},
                                                         {"fp16", {.half = DType::f16}},
                                                         {"bf16", {.half = DType::bf16}},
                                                         {"int8", {.bytes = DType::i8}},
                                                         {"int8+fp16", {.bytes = DType::i8, .half = DType::f16}},
                                                         {"int8+bf16", {.bytes = DType::i8, .half = DType::bf16}},
                                                         {"fp8", {.bytes = DType::f8e4m3fn}},
                                                         {"fp8+fp16", {.bytes = DType::f8e4m3fn, .half = DType::f16}},
                                                         {"fp8+bf16", {.bytes = DType::f8e4m3fn, .half = DType::bf16}}};
  const auto found = all.find(precision);
  return found == all.end() ? std::nullopt : std::optional(found->second);
}

std::vector<std::string> precisions_of_device(const std::string& device) {
  std::vector<std::string> list;
  for (const char* precision :
       {"fp32", "tf32", "bf16", "fp16", "int8", "int8+bf16", "int8+fp16", "fp8", "fp8+bf16", "fp8+fp16"})
    if (lacks_precision(device, precision).empty()) list.emplace_back(precision);
  return list;
}

DType dtype_in(const std::string& precision, DType dtype) {
  if (dtype != DType::f16 && dtype != DType::bf16) return dtype;
  const auto parts = parts_of(precision);
  return parts && parts->half == dtype ? dtype : DType::f32;
}

std::string word_of(DType bytes) { return bytes == DType::i8 ? "int8" : "fp8"; }

bool quantizes(const std::string& precision) {
  const auto parts = parts_of(precision);
  return parts && parts->bytes.has_value();
}

bool needs_ranges(const std::string& precision) { return quantizes(precision) || precision == "fp16"; }

PlacementOptions taken_by(const std::string& precision, const PlacementOptions& all) {
  if (quantizes(precision)) return all;
  PlacementOptions taken;
  if (precision != "fp32")
    for (const auto& [layer, dtype] : all.keep_nodes)
      if (dtype == DType::f32) taken.keep_nodes.emplace(layer, dtype);
  return taken;
}

std::string lacks_precision(const std::string& device, const std::string& precision) {
  const bool gpu = find_backend(device).name == "cuda", bf16 = computes_bf16(device);
  const auto parts = parts_of(precision);
  if (!parts)
    fail(ErrorKind::unsupported, "--precision ", precision, " is not supported on the device '", device, "'; ",
         gpu    ? "fp32, tf32, fp16, bf16, int8, fp8, each of these two with +fp16 or +bf16, and best are"
         : bf16 ? "fp32, bf16, int8, int8+bf16 and best are"
                : "fp32, int8 and best are");
  const bool float8 = parts->bytes == DType::f8e4m3fn;
  if (float8 && !multiplies_float8(device))
    return concat(gpu ? "the matrix units of this GPU know no 8-bit floats, which those of compute capability 8.9 and "
                        "later do"
                      : "the CPU has no arithmetic for 8-bit floats",
                  "; use --precision int8", parts->half == DType::f16 && gpu ? "+fp16" : "");
  if (gpu) {
    const bool bf16_or_tf32 = parts->tf32 || parts->half == DType::bf16;
    if (bf16_or_tf32 && open_device(device).architecture == "sm_75")
      return concat("the matrix units of this GPU (compute capability 7.5) know fp16 and int8 alone; use --precision ",
                    parts->bytes ? "int8+fp16" : "fp16");
    return "";
  }
  if (parts->half == DType::f16)
    return concat("the CPU computes fp16 in fp32; use --precision ",
                  parts->bytes ? (bf16 ? "int8+bf16" : "int8") : (bf16 ? "bf16" : "fp32"));
  if (parts->tf32) return "the CPU has no arithmetic for tf32; use --precision fp32";
  if (parts->half == DType::bf16 && !bf16)
    return concat(why_no_bf16(), "; use --precision ", parts->bytes ? "int8" : "fp32 or int8");
  return "";
}

void check_precision(const BuildOptions& options) {
  const std::string& precision = options.precision;
  if (precision == kBestPrecision) {
    const PlacementOptions& kept = options.placement;
    if (kept.keep_first || kept.keep_last || !kept.keep_nodes.empty() || !options.qdq.empty() ||
        !options.layer_types.empty())
      fail(ErrorKind::usage,
           "types of single layers, layers to keep and --qdq belong to a precision that is named, not to --precision "
           "best");
    if (kept.activation_scales != ActivationScales::tensor)
      fail(ErrorKind::usage,
           "--activation-scales token belongs to a precision that is named, with int8, not to --precision best");
    if (!options.measure)
      fail(ErrorKind::usage,
           "--precision best is the one that is measured to be the fastest: it needs a build that measures");
    return;
  }
  if (const std::string why = lacks_precision(options.device, precision); !why.empty())
    fail(ErrorKind::unsupported, "--precision ", precision, " is not supported here: ", why);
  const PrecisionParts parts = parts_of(precision).value();
  if (options.ranges && !options.calibration.empty())
    fail(ErrorKind::usage, "ranges are given twice: themselves, and as the file ", options.calibration);
  const bool by_token = options.placement.activation_scales == ActivationScales::token;
  if (by_token && parts.bytes != DType::i8)
    fail(ErrorKind::usage, "--activation-scales token belongs to --precision int8, with or without 16 bits, not to ",
         precision);
  if (by_token && !options.qdq.empty())
    fail(ErrorKind::unsupported,
         "--qdq together with --activation-scales token: QuantizeLinear has no scales that are computed for each row");
  if (parts.bytes && !by_token && !options.is_calibrated())
    fail(ErrorKind::usage, "--precision ", precision,
         " needs the ranges of the model's values: run `temper calibrate MODEL --data D -o ranges.json` and add "
         "--calibration ranges.json; products of a transformer need none with --activation-scales token");
  const PlacementOptions& placement = options.placement;
  const auto keeps = [&](DType dtype) {
    return std::ranges::find_if(placement.keep_nodes, [&](const auto& kept) { return kept.second == dtype; });
  };
  const auto none = placement.keep_nodes.end();
  if (const auto kept = keeps(DType::bf16); kept != none && !computes_bf16(options.device))
    fail(ErrorKind::unsupported, "layer '", kept->first, "' cannot be kept in bf16: ", why_no_bf16(),
         "; use --keep-fp32");
  if (!parts.bytes && parts.half != DType::f16 && options.is_calibrated())
    fail(ErrorKind::usage,
         "--calibration belongs to --precision int8 and fp8, with or without 16 bits, and fp16, not to ", precision);
  if (!parts.bytes && !options.qdq.empty())
    fail(ErrorKind::usage, "--qdq belongs to --precision int8 and fp8, with or without 16 bits, not to ", precision);
  if (!parts.bytes && (placement.keep_first || placement.keep_last || keeps(DType::bf16) != none))
    fail(ErrorKind::usage, "--keep-first, --keep-last and --keep-bf16 belong to --precision int8 and fp8, not to ",
         precision);
  if (keeps(DType::bf16) != none && parts.half == DType::f16)
    fail(ErrorKind::usage, "--keep-bf16 belongs to --precision int8 and fp8, alone or with bf16, not to ", precision);
  if (keeps(DType::f16) != none && !(parts.bytes && parts.half == DType::f16))
    fail(ErrorKind::usage, "--keep-fp16 belongs to --precision int8+fp16 and fp8+fp16, not to ", precision);
  if (!parts.bytes && !parts.half && !parts.tf32 && !placement.keep_nodes.empty())
    fail(ErrorKind::usage, "--keep-fp32 belongs to --precision int8, fp8, fp16, bf16 and tf32, not to ", precision);
}

// oneDNN emulates bf16 on AVX-512: slower than fp32, and no more exact. Nobody asks for that knowingly.
bool computes_bf16(const std::string& device) { return device != "cpu" || open_device("cpu").avx512_bf16; }

bool multiplies_float8(const std::string& device) {
  const std::string architecture = open_device(device).architecture;  // "sm_90a"
  if (!architecture.starts_with("sm_")) return false;
  const std::string_view number = std::string_view(architecture).substr(3);
  return parse_number<int>(number.substr(0, number.find_first_not_of("0123456789"))).value_or(0) >= 89;
}

// Floats of which a model's products are computed in f32.
static std::set<DType> not_multiplied(const std::string& device) {
  std::set<DType> narrow;
  if (!multiplies_float8(device)) narrow.insert(DType::f8e4m3fn);
  if (find_backend(device).name == "cpu") narrow.insert(DType::f16);
  if (!computes_bf16(device)) narrow.insert(DType::bf16);
  return narrow;
}

std::string_view why_no_bf16() {
#if defined(__x86_64__)
  return "this CPU has no AVX512_BF16 instructions";
#else
  return "bf16 is not implemented for CPUs other than x86-64";
#endif
}

std::shared_ptr<const Ranges> ranges_of(const BuildOptions& options) {
  if (options.ranges || options.calibration.empty()) return options.ranges;
  return std::make_shared<const Ranges>(load_ranges(options.calibration));
}

namespace {

std::map<std::string, SeenChannels> seen_channels(const Ranges& ranges) {
  std::map<std::string, SeenChannels> seen;
  for (const auto& [name, range] : ranges.values)
    if (!range.channels.empty() && range.is_usable())
      seen[name] = {range.channels, range.histogram.mean_square(), double(range.scale)};
  return seen;
}

// The quantize pipeline, by ranges that came from `file`. What is returned has the graph as placed. `lowered_next`:
// what is kept in 16 bits is left to the precision pipeline. `told`, where it is not null, gets what was smoothed.
Placement quantize(Graph& graph, const Ranges& ranges, const std::string& file, const PlacementOptions& options,
                   bool lowered_next, const PassOptions& passes, std::vector<SmoothedValue>* told) {
  std::set<std::string> bf16;
  for (const auto& [name, dtype] : options.keep_nodes)
    if (dtype == DType::bf16 && !lowered_next) bf16.insert(name);
  Placement placement;
  Ranges own = ranges;  // of what is smoothed, too
  const auto smooth = [&](Graph& to_smooth, const PassOptions& of_pass) {
    if (options.dtype != DType::i8) return false;  // floats hold small channels beside large ones
    std::set<std::string> kept;
    for (const auto& [name, dtype] : options.keep_nodes) kept.insert(name);
    const std::vector<SmoothedValue> smoothed = smooth_channels(to_smooth, seen_channels(ranges), kept, of_pass.time);
    for (const SmoothedValue& value : smoothed)
      own.values[value.smoothed] = {-value.largest, value.largest, scale_of(value.largest), "minmax", 0, {}, {}};
    if (told) *told = smoothed;
    return !smoothed.empty();
  };
  const auto place = [&](Graph& to_place, const PassOptions& of_pass) {
    placement =
        with_context([&] { return file; }, [&] { return place_quantization(to_place, own, options, of_pass.time); });
    to_place = placement.graph;
    return std::ranges::any_of(placement.nodes, [](const PlacedNode& node) { return node.integer; });
  };
  run_passes(graph, passes, quantize_pipeline(smooth, place, std::move(bf16)));
  return placement;
}

PlacementOptions placed_in(DType dtype, PlacementOptions options) {
  options.dtype = dtype;
  return options;
}

// What the ranges are called in errors.
std::string name_of_ranges(const BuildOptions& options) {
  return options.ranges ? "ranges" : options.is_calibrated() ? options.calibration : "without ranges";
}

Ranges ranges_for(EngineInfo& info, const BuildOptions& options) {
  Ranges ranges = *ranges_of(options);
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
  for (const std::string& input : options.input_pictures)  // the range is that of what pictures become
    if (auto range = ranges.values.extract(input)) {
      range.key() = prepared_name(input);
      ranges.values.insert(std::move(range));
    }
  for (const auto& [input, words] : ranges.preprocess) {
    if (options.input_pictures.contains(input)) continue;  // take_pictures knows
    std::string& said = info.preprocess[input];
    if (options.preprocess.empty()) said = words;
    else if (said != words)
      info.notes.push_back(
          concat("pictures of '", input, "' were prepared otherwise for the calibration: ", words, "; here: ", said));
  }
  return ranges;
}

void note_if_disabled(std::string_view pass, EngineInfo& info, const BuildOptions& options) {
  if (options.passes.disabled.contains(pass))
    info.notes.push_back(concat("the pass ", pass, " is disabled: nothing computes in ", options.precision));
}

// Gives Placement::row_scales.
std::set<std::string> quantize(Graph& graph, const Ranges& ranges, const PrecisionParts& parts,
                               const PlacementOptions& kept, EngineInfo& info, const BuildOptions& options) {
  info.placeholder = ranges.placeholder;
  if (ranges.placeholder)
    info.notes.push_back("calibrated on noise: what this plan answers is meaningless for accuracy");
  note_if_disabled("place_quantization", info, options);
  std::vector<SmoothedValue> smoothed;
  Placement placement = quantize(graph, ranges, name_of_ranges(options), placed_in(*parts.bytes, kept),
                                 parts.half.has_value(), options.passes, &smoothed);
  std::vector<std::string> without_effect;
  check_in_bytes(options.layer_types, placement.nodes, without_effect);
  report(options.layer_types, without_effect, info);
  if (!smoothed.empty()) {
    std::vector<std::string> names;
    names.reserve(smoothed.size());
    for (const SmoothedValue& value : smoothed) names.push_back(value.value);
    info.notes.push_back(concat("values whose channels were evened out for int8 (smooth_channels): ", first_of(names)));
  }
  if (!placement.row_scales.empty())
    info.notes.push_back("what matrix products read has one scale for each token, computed as it comes");
  info.notes.insert(info.notes.end(), placement.warnings.begin(), placement.warnings.end());
  info.products = placement.products;
  info.lowered_products = placement.integer_products;
  for (const PlacedNode& node : placement.nodes)
    if (!node.integer) info.not_lowered.push_back(concat(node.node, " (", node.op, "): ", node.reason));
  if (!options.qdq.empty()) write_onnx(placement.graph, options.qdq, info.source_sha256, options.force);
  return std::move(placement.row_scales);
}

// Behind quantize() what is lowered adds to what is in int8.
void lower(Graph& graph, PrecisionTarget target, EngineInfo& info, const BuildOptions& options) {
  note_if_disabled(target.tf32 ? "allow_tf32" : "lower_precision", info, options);
  LoweringReport report;
  run_passes(graph, options.passes, precision_pipeline(std::move(target), &report));
  if (quantizes(options.precision)) {
    info.notes.push_back(concat(info.lowered_products, " of ", info.products, " convolutions and products in ",
                                word_of(*parts_of(options.precision)->bytes), ", ", report.lowered_products, " in ",
                                options.precision.substr(options.precision.find('+') + 1)));
    info.not_lowered.clear();
  } else {
    info.products = report.products;
  }
  info.lowered_products += report.lowered_products;
  for (const LoweredNode& node : report.nodes)
    if (!node.reason.empty()) info.not_lowered.push_back(concat(node.node, " (", node.op, "): ", node.reason));
}

// What was asked for by name: products in f32, what other nodes give, and values. Throws Error{usage} where a name is
// no node's of the graph.
void keep_by_name(const Graph& graph, const PlacementOptions& placement, LoweringOptions& options) {
  options.in_f32 = placement.keep_values;
  KeptNodes asked = placement.keep_nodes;
  std::erase_if(asked, [](const auto& kept) { return kept.second != DType::f32; });
  check_kept(graph, asked);
  for (int32_t n = 0; n < graph.node_count(); ++n) {
    const Node& node = graph.node({n});
    const auto product = product_name(node.op, node.name);
    const std::string& name = product ? *product : node.name;
    if (!asked.contains(name)) continue;
    if (product) options.kept.try_emplace(name, "kept by its name");
    else
      for (ValueId id : node.outputs)
        if (id.valid()) options.in_f32.insert(graph.value(id).name);
  }
}

PrecisionTarget target_of(const Graph& graph, DType dtype, UnfitForF16 unfit, const PlacementOptions& placement,
                          const std::string& device) {
  LoweringOptions options;
  options.kept = std::move(unfit.products);
  options.wide = std::move(unfit.values);
  keep_by_name(graph, placement, options);
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

// By ranges, which say what fp16 does not hold. What placement dequantized has the range of what it quantized.
PrecisionTarget target_of(const Graph& graph, const PrecisionParts& parts, const Ranges& ranges,
                          const PlacementOptions& placement, const std::string& device) {
  if (parts.tf32) {
    PrecisionTarget target{.tf32 = true};
    keep_by_name(graph, placement, target.options);
    return target;
  }
  if (parts.half == DType::bf16) return target_of(graph, DType::bf16, {}, placement, device);
  Largest largest = largest_of(ranges);
  if (parts.bytes)
    for (const auto& [name, range] : ranges.values) largest[concat(name, "/dequantized")] = largest.at(name);
  return target_of(graph, DType::f16, unfit_for_f16(graph, largest, "in calibration"), placement, device);
}

}  // namespace

Placement placement_of(Graph graph, const Ranges& ranges, const PlacementOptions& options, const PassOptions& passes) {
  return quantize(graph, ranges, "the ranges", options, false, passes, nullptr);
}

Graph in_precision(Graph graph, const std::string& precision, const Ranges& ranges, const PlacementOptions& placement,
                   const std::string& device, const PassOptions& passes) {
  const PrecisionParts parts = parts_of(precision).value();
  Placement placed;
  if (parts.bytes)
    placed = quantize(graph, ranges, "the ranges", placed_in(*parts.bytes, placement), parts.half.has_value(), passes,
                      nullptr);
  if (parts.half || parts.tf32) {
    PrecisionTarget target = target_of(graph, parts, ranges, placement, device);
    target.options.row_scales = std::move(placed.row_scales);
    run_passes(graph, passes, precision_pipeline(std::move(target), nullptr));
  }
  return graph;
}

std::map<std::string, std::vector<std::string>> layers_in_bytes(const Graph& graph, const BuildOptions& options) {
  const std::shared_ptr<const Ranges> given = ranges_of(options);
  const Ranges ranges = given ? *given : Ranges();
  const DType dtype = parts_of(options.precision).value().bytes.value();
  const Placement placement = place_quantization(graph, ranges, placed_in(dtype, options.placement));
  std::map<std::string, std::vector<std::string>> layers;
  for (int32_t n = 0; n < graph.node_count(); ++n) {
    const Node& node = graph.node({n});
    if (!is_product(node.op) || !placement.nodes[size_t(n)].integer) continue;
    for (ValueId id : node.inputs)
      if (id.valid() && !graph.constant(id)) layers[node.name].push_back(graph.value(id).name);
  }
  return layers;
}

void apply_precision(Graph& graph, EngineInfo& info, const BuildOptions& options, TimingCache& cache) {
  const std::string& precision = options.precision;
  const PrecisionParts parts = parts_of(precision).value();
  std::vector<std::string> without_effect;
  const PlacementOptions placement =
      placement_with(options.layer_types, graph, parts, options.placement, without_effect);
  report(options.layer_types, without_effect, info);
  Ranges ranges;
  if (options.is_calibrated()) ranges = ranges_for(info, options);
  run_passes(graph, options.passes, widen_pipeline(not_multiplied(options.device)));
  std::set<std::string> row_scales;
  if (parts.bytes) row_scales = quantize(graph, ranges, parts, placement, info, options);
  if (!parts.half && !parts.tf32) return;
  with_context([&] { return concat("precision ", precision); },
               [&] {
                 PrecisionTarget target;
                 if (parts.half == DType::f16 && !options.is_calibrated())
                   target = target_of(graph, DType::f16, unfit_on_noise(graph, info, options, cache), placement,
                                      options.device);
                 else target = target_of(graph, parts, ranges, placement, options.device);
                 target.options.row_scales = std::move(row_scales);
                 target.blocks = target.dtype && find_backend(options.device).fuses;
                 lower(graph, std::move(target), info, options);
               });
}

}  // namespace temper
