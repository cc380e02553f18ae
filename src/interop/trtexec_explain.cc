// SPDX-License-Identifier: Apache-2.0
#include "interop/trtexec_explain.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/quote.h"
#include "interop/trtexec_flags.h"
#include "interop/trtexec_to_temper.h"

namespace temper {

namespace {

constexpr size_t kReleases = kTrtexecReleases.size();
constexpr size_t kFirstOf11 = 7;

std::string text_of(const TrtexecArgument& a) {
  return a.flag.empty() ? a.value : a.has_value ? concat(a.flag, "=", a.value) : a.flag;
}

// "8.6.1 to 10.16": gaps within are releases that only do not list the flag.
std::string range_of(size_t first, size_t last) {
  if (last + 1 == kReleases) return first == 0 ? "8.6.1 to 11.1" : concat("since ", kTrtexecReleases[first]);
  if (last == 0) return concat(kTrtexecReleases[0], " and before");
  return first == last ? concat(kTrtexecReleases[first], " only")
                       : concat(kTrtexecReleases[first], " to ", kTrtexecReleases[last]);
}

// The flag that stands in the place of one that was taken away.
std::string_view replacement(std::string_view flag) {
  static const std::map<std::string_view, std::string_view> places{
      {"--workspace", "--memPoolSize=workspace:MIB"},
      {"--buildOnly", "--skipInference"},
      {"--nvtxMode", "--profilingVerbosity"},
      {"--weightless", "--stripWeights"},
      {"--explicitBatch", "nothing: the batch is always explicit"},
      {"--explicitPrecision", "nothing: the model's Q/DQ nodes say it"},
      {"--batch", "the first dimension in --shapes"},
      {"--maxBatch", "the first dimension in --maxShapes"},
      {"--minTiming", "nothing"},
      {"--heuristic", "nothing; a lower --builderOptimizationLevel searches less"},
      {"--fp16", "a model whose own types are FP16"},
      {"--bf16", "a model whose own types are BF16"},
      {"--fp8", "a model with FP8 Q/DQ nodes"},
      {"--int4", "a model with INT4 weights"},
      {"--int8", "a model with Q/DQ nodes"},
      {"--best", "a model whose own types say it"},
      {"--calib", "a model with Q/DQ nodes: temper quantize MODEL --from-cache CACHE -o MODEL_qdq.onnx"},
      {"--calibProfile", "a model with Q/DQ nodes"},
      {"--minShapesCalib", "a model with Q/DQ nodes"},
      {"--optShapesCalib", "a model with Q/DQ nodes"},
      {"--maxShapesCalib", "a model with Q/DQ nodes"},
      {"--layerPrecisions", "casts in the model"},
      {"--layerOutputTypes", "casts in the model"},
      {"--precisionConstraints", "nothing: the model's types are orders"},
      {"--restricted", "nothing"},
      {"--model", "an ONNX model"},
      {"--deploy", "an ONNX model"},
      {"--uff", "an ONNX model"},
      {"--uffInput", "an ONNX model"},
      {"--uffNHWC", "an ONNX model"},
      {"--output", "an ONNX model with these outputs"},
  };
  const auto found = places.find(flag);
  return found == places.end() ? std::string_view() : found->second;
}

// Flags that 11.0 accepts, warns about and ignores, since they are its default now.
std::string_view ignored_since_11(std::string_view flag) {
  if (flag == "--noDataTransfers")
    return "since 11.0 it is the default and the flag is ignored; --includeDataTransfers is the opposite";
  if (flag == "--useCudaGraph")
    return "since 11.0 it is the default and the flag is ignored; --noCudaGraph is the opposite";
  if (flag == "--useSpinWait")
    return "since 11.0 it is the default and the flag is ignored; --noSpinWait is the opposite";
  if (flag == "--separateProfileRun") return "since 11.0 it is always so and the flag is ignored";
  if (flag == "--stronglyTyped") return "since 11.0 it is always so and the flag is ignored";
  return {};
}

std::string releases_of(const TrtexecFlag& flag) {
  const size_t first = flag.releases.find('x'), last = flag.releases.rfind('x');
  std::string text = range_of(first, last);
  if (last + 1 < kReleases) {
    text += concat("; ", kTrtexecReleases[last + 1], " stops with 'Unknown option'");
    if (const auto instead = replacement(flag.name); !instead.empty()) text += concat("; in its place: ", instead);
  }
  if (const auto why = ignored_since_11(flag.name); !why.empty()) text += concat("; ", why);
  return text;
}

std::string in_temper(const TrtexecArgument& a) {
  static const std::map<std::string_view, std::string_view> places{
      {"--onnx", "the model of temper build"},
      {"--saveEngine", "temper build -o PLAN"},
      {"--loadEngine", "no: an engine runs in TensorRT alone"},
      {"--minShapes", "temper build --shapes NAME=MIN:OPT:MAX"},
      {"--optShapes", "temper build --shapes NAME=MIN:OPT:MAX"},
      {"--maxShapes", "temper build --shapes NAME=MIN:OPT:MAX"},
      {"--shapes", "temper build --shapes, temper bench --batch"},
      {"--batch", "temper bench --batch"},
      {"--workspace", "temper build --workspace"},
      {"--memPoolSize", "temper build --workspace, for that pool"},
      {"--int8", "temper build --precision int8 --calibration"},
      {"--bf16", "temper build --precision bf16"},
      {"--fp16", "temper build --precision fp16, on a GPU"},
      {"--best", "temper study"},
      {"--calib", "temper calibrate --from-cache"},
      {"--noTF32", "temper build --precision fp32, which is strict; tf32 is a precision of its own"},
      {"--layerPrecisions", "temper build --keep-fp32, --keep-bf16, --keep-fp16"},
      {"--timingCacheFile", "temper build --timing-cache, a file of another kind"},
      {"--noBuilderCache", "temper build --no-timing-cache"},
      {"--buildOnly", "temper build alone"},
      {"--skipInference", "temper build alone"},
      {"--iterations", "temper bench --iterations, an exact count"},
      {"--warmUp", "until stable; temper bench --warmup fixes the count"},
      {"--duration", "temper bench --duration"},
      {"--exportTimes", "temper bench --json holds every sample"},
      {"--percentile", "p90, p95 and p99, where there are samples enough"},
      {"--avgRuns", "temper bench --json holds every sample"},
      {"--loadInputs", "temper run --input"},
      {"--dumpOutput", "temper run"},
      {"--exportOutput", "temper run --output-dir"},
      {"--dumpLayerInfo", "temper inspect --layers"},
      {"--exportLayerInfo", "temper inspect --layers --json"},
      {"--dumpProfile", "temper profile"},
      {"--exportProfile", "temper profile --json"},
      {"--verbose", "-v"},
      {"--noDataTransfers", "so by default; temper bench --transfers has them in"},
      {"--includeDataTransfers", "temper bench --transfers"},
      {"--useCudaGraph", "so by default"},
      {"--noCudaGraph", "temper bench --no-cuda-graph"},
      {"--infStreams", "temper bench --streams, with --transfers"},
      {"--device", "--device cuda:N"},
      {"--explicitBatch", "always so"},
      {"--stronglyTyped", "always so without --precision"},
      {"--help", "temper VERB --help"},
  };
  const auto found = places.find(a.flag);
  return std::string(found == places.end() ? "no counterpart" : found->second);
}

}  // namespace

TrtexecExplanation explain_trtexec(const TrtexecCommand& command) {
  TrtexecExplanation result;
  std::vector<bool> accepts(kReleases, true);
  bool unknown = false;
  for (const TrtexecArgument& a : command.arguments) {
    const TrtexecFlag* flag = a.flag.empty() ? nullptr : find_trtexec_flag(a.flag);
    if (!flag) {
      unknown = true;
      result.flags.push_back(
          {text_of(a),
           a.flag.empty() ? "no flag; trtexec takes --FLAG=VALUE in one word" : "not a flag of 8.6.1 to 11.1", "none",
           "no counterpart"});
      continue;
    }
    const size_t first = flag->releases.find('x'), last = flag->releases.rfind('x');
    for (size_t i = 0; i < kReleases; ++i) accepts[i] = accepts[i] && i >= first && i <= last;
    result.flags.push_back({text_of(a), std::string(flag->meaning), releases_of(*flag), in_temper(a)});
  }
  const auto first = std::find(accepts.begin(), accepts.end(), true);
  const auto last = std::find(accepts.rbegin(), accepts.rend(), true);
  result.releases = unknown || first == accepts.end()
                        ? "none"
                        : range_of(size_t(first - accepts.begin()), size_t(accepts.rend() - last - 1));
  const TemperCommands temper = temper_commands_for(command);
  result.commands = temper.commands;
  result.differences = temper.differences;
  return result;
}

namespace {

size_t release_of(std::string_view name) {
  if (name == "8" || name == "8.6") return 0;
  if (name == "10") return kFirstOf11 - 1;
  if (name == "11") return kReleases - 1;
  for (size_t i = 0; i < kReleases; ++i)
    if (kTrtexecReleases[i] == name || kTrtexecReleases[i].substr(0, kTrtexecReleases[i].rfind('.')) == name) return i;
  fail(ErrorKind::usage, "the flags of trtexec ", name, " are not known; say 8.6, 10, 11 or one of ",
       concat(std::vector<std::string_view>(kTrtexecReleases.begin(), kTrtexecReleases.end())));
}

// Whether the command is one of 11.x, whose defaults are other ones.
bool reads_as_11(const TrtexecCommand& command, std::string_view from, std::vector<std::string>& remarks) {
  if (!from.empty()) return release_of(from) >= kFirstOf11;
  bool not_in_11 = false;
  for (const TrtexecArgument& a : command.arguments) {
    const TrtexecFlag* flag = find_trtexec_flag(a.flag);
    if (!flag) continue;
    if (flag->releases.find('x') >= kFirstOf11) return true;
    not_in_11 |= !flag->in(kReleases - 1);
  }
  if (!not_in_11)
    remarks.push_back(
        "every release could have run this command; it is read as one of 10.x or before, whose defaults differ from "
        "those of 11 (--from 11 reads it as one of 11)");
  return false;
}

}  // namespace

TrtexecTranslation translate_trtexec(const TrtexecCommand& command, std::string_view to, std::string_view from) {
  TrtexecTranslation result;
  const size_t target = release_of(to);
  result.release = std::string(kTrtexecReleases[target]);
  const bool from_11 = reads_as_11(command, from, result.remarks), to_11 = target >= kFirstOf11;
  result.command = "trtexec";
  auto put = [&](const std::string& text) { result.command += " " + shell_quoted(text); };
  auto lose = [&](const std::string& what, std::string_view why) { result.lost.push_back(concat(what, ": ", why)); };

  // Said by default on one side and by a flag on the other: written below.
  static const std::set<std::string_view> meanings{"--noDataTransfers",    "--includeDataTransfers", "--useCudaGraph",
                                                   "--noCudaGraph",        "--useSpinWait",          "--noSpinWait",
                                                   "--separateProfileRun", "--stronglyTyped"};
  for (const TrtexecArgument& a : command.arguments) {
    if (meanings.contains(a.flag)) continue;
    const TrtexecFlag* flag = a.flag.empty() ? nullptr : find_trtexec_flag(a.flag);
    if (!flag) {
      lose(text_of(a),
           a.flag.empty() ? "no flag; trtexec takes --FLAG=VALUE in one word" : "not a flag of 8.6.1 to 11.1");
    } else if (target <= flag->releases.rfind('x') && target >= flag->releases.find('x')) {
      put(text_of(a));
    } else if (a.flag == "--workspace" && !command.has("--memPoolSize")) {
      put(concat("--memPoolSize=workspace:", a.value));
    } else if (a.flag == "--buildOnly") {
      if (!command.has("--skipInference")) put("--skipInference");
    } else if (a.flag == "--weightless" && find_trtexec_flag("--stripWeights")->in(target)) {
      if (!command.has("--stripWeights")) put("--stripWeights");
    } else if (a.flag == "--nvtxMode" && (a.value == "default" || a.value == "verbose" || a.value == "none")) {
      put(concat("--profilingVerbosity=", a.value == "default"   ? "layer_names_only"
                                          : a.value == "verbose" ? "detailed"
                                                                 : "none"));
    } else if (a.flag == "--explicitBatch") {
      result.remarks.push_back("--explicitBatch is left out: it is always so there");
    } else if (a.flag == "--stripAllWeights" && find_trtexec_flag("--stripWeights")->in(target)) {
      put("--refit");
      put("--stripWeights");
    } else if (target > flag->releases.rfind('x')) {
      const auto instead = replacement(a.flag);
      lose(text_of(a), concat("gone since ", kTrtexecReleases[flag->releases.rfind('x') + 1],
                              instead.empty() ? "" : concat("; in its place: ", instead)));
    } else {
      lose(text_of(a), concat("came with ", kTrtexecReleases[flag->releases.find('x')]));
    }
  }

  const bool measures = !command.has("--skipInference") && !command.has("--buildOnly");
  struct Default {
    const char *turned_on, *turned_off;  // until 10.x off and turned on; from 11.0 on on and turned off
  };
  for (const Default& d : {Default{"--noDataTransfers", "--includeDataTransfers"},
                           {"--useCudaGraph", "--noCudaGraph"},
                           {"--useSpinWait", "--noSpinWait"}}) {
    const bool on = from_11 ? !command.has(d.turned_off) : command.has(d.turned_on);
    if (on && !to_11 && (measures || command.has(d.turned_on))) put(d.turned_on);
    if (!on && to_11 && (measures || command.has(d.turned_off))) put(d.turned_off);
  }
  const bool profiles = command.has("--dumpProfile") || command.has("--exportProfile");
  const bool separate = from_11 || command.has("--separateProfileRun");
  if (profiles && separate && !to_11) put("--separateProfileRun");
  if (profiles && !separate && to_11)
    lose("profiling in the timed run", "since 11.0 layers are always profiled in a run of their own");
  const bool typed = from_11 || command.has("--stronglyTyped");
  if (typed && !to_11) {
    if (find_trtexec_flag("--stronglyTyped")->in(target)) put("--stronglyTyped");
    else lose("the model's own types as orders", "strongly typed networks came with 10.0.1");
  }
  return result;
}

}  // namespace temper
