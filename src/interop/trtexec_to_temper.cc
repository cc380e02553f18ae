// SPDX-License-Identifier: Apache-2.0
#include "interop/trtexec_to_temper.h"

#include <optional>
#include <set>

#include "base/concat.h"
#include "base/quote.h"
#include "interop/trtexec_settings.h"

namespace temper {

namespace {

class ToTemper {
 public:
  explicit ToTemper(const TrtexecCommand& of) : command(of) { run(); }
  std::vector<std::string> commands, differences;

 private:
  const TrtexecCommand& command;
  std::string model, plan;
  std::optional<TrtexecShapes> run_shapes;

  std::string stem(const std::string& path) const {
    const size_t slash = path.find_last_of("/\\");
    const size_t dot = path.rfind('.');
    return dot == std::string::npos || (slash != std::string::npos && dot < slash) ? path : path.substr(0, dot);
  }

  void run() {
    const auto onnx = command.value("--onnx"), loaded = command.value("--loadEngine");
    const bool old_model = command.has("--uff") || command.has("--deploy") || command.has("--model");
    const bool measures = !command.has("--skipInference") && !command.has("--buildOnly");
    model = onnx.value_or("MODEL.onnx");
    plan = stem(command.value("--saveEngine").value_or(onnx ? *onnx : loaded.value_or("MODEL"))) + ".plan";
    if (!onnx && loaded)
      differences.push_back(
          "an engine of TensorRT runs in TensorRT alone: MODEL.onnx stands for the model it was built from");
    else if (!onnx && old_model)
      differences.push_back("Temper reads ONNX alone: convert the model; MODEL.onnx stands for it");
    else if (!onnx) differences.push_back("the command names no model: MODEL.onnx stands for it");
    build();
    if (measures) bench();
    inspect();
    // What temper trtexec refuses; models and batches of other kinds are spoken of above.
    for (const TrtexecArgument& argument : command.arguments)
      if (const std::string refusal = trtexec_refusal(argument);
          !refusal.empty() && !old_model && argument.flag != "--batch" && argument.flag != "--maxBatch")
        differences.push_back(refusal);
    for (const TrtexecArgument& argument : command.arguments) {
      const bool of_ports = argument.flag == "--inputIOFormats" || argument.flag == "--outputIOFormats";
      if (of_ports && argument.value.find("16:") != std::string::npos)  // fp16, bf16
        differences.push_back(concat(argument.flag, "=", argument.value,
                                     ": temper build keeps the model's types; temper trtexec takes these"));
      if ((argument.flag == "--idleTime" || argument.flag == "--sleepTime") && argument.value != "0")
        differences.push_back(
            concat(argument.flag, "=", argument.value, ": in temper bench runs follow one another; --rate paces them"));
    }
  }

  void build() {
    std::string line = concat("temper build ", shell_quoted(model), " -o ", shell_quoted(plan),
                              " --device cuda:", command.integer("--device").value_or(0));
    if (command.has("--int8") || command.has("--best")) {
      if (const auto cache = command.value("--calib")) {
        commands.push_back(concat("temper calibrate ", shell_quoted(model), " --from-cache ", shell_quoted(*cache),
                                  " -o ranges.json"));
      } else {
        commands.push_back(concat("temper calibrate ", shell_quoted(model), " --data DATA -o ranges.json"));
        differences.push_back(
            "without --calib trtexec's INT8 scales were random, so that only its speed meant anything; DATA stands for "
            "real samples (--placeholder-data in its place gives noise, for speed alone)");
      }
      line += concat(command.has("--best")   ? " --precision best"
                     : command.has("--fp16") ? " --precision int8+fp16"
                     : command.has("--bf16") ? " --precision int8+bf16"
                                             : " --precision int8",
                     " --calibration ranges.json");
    } else if (command.has("--fp16")) {
      line += " --precision fp16";
    } else if (command.has("--bf16")) {
      line += " --precision bf16";
    } else if (!command.has("--noTF32")) {
      line += " --precision tf32";  // which TensorRT takes for FP32 unless told otherwise
    }
    if (command.has("--best"))
      differences.push_back(
          "--best: the fastest of FP32, TF32, BF16, FP16, INT8 and INT8 with 16 bits; layers are mixed in the last "
          "alone. "
          "Nobody looks at the answers: --data with --max-drop does");
    const std::string shapes = profile();
    if (!shapes.empty()) line += concat(" --shapes ", shell_quoted(shapes));
    if (const auto mib = command.integer("--workspace")) line += concat(" --workspace ", *mib, "MiB");
    if (const auto pools = command.value("--memPoolSize")) line += workspace(*pools);
    if (const auto file = command.value("--timingCacheFile"))
      line += concat(" --timing-cache ", shell_quoted(*file + ".json"));
    else if (command.has("--noBuilderCache")) line += " --no-timing-cache";
    if (command.has("--verbose")) line += " -v";
    commands.push_back(line);
  }

  // "workspace:1024,dlaSRAM:1" in MiB, or with a letter from 10.0 on.
  std::string workspace(const std::string& pools) {
    const size_t at = pools.find("workspace:");
    if (at == std::string::npos) return "";
    std::string size = pools.substr(at + 10, pools.find(',', at) - at - 10);
    const char unit = size.empty() ? 0 : size.back();
    const bool letter = std::string_view("BKMG").find(unit) != std::string_view::npos && unit != 0;
    if (letter) size.pop_back();
    if (size.empty() || size.find_first_not_of("0123456789") != std::string::npos) {
      differences.push_back(concat("--memPoolSize=", pools, ": a limit that is no whole number is left out"));
      return "";
    }
    return concat(" --workspace ", size, unit == 'B' ? "" : unit == 'K' ? "KiB" : unit == 'G' ? "GiB" : "MiB");
  }

  std::optional<TrtexecShapes> shapes(const char* flag) {
    const auto text = command.value(flag);
    if (!text) return std::nullopt;
    auto parsed = parse_trtexec_shapes(*text);
    if (!parsed)
      differences.push_back(concat(std::string_view(flag), "=", *text, " is not NAME:1x3x224x224,…, and left out"));
    return parsed;
  }

  static std::string dims_text(const std::vector<int64_t>& dims) {
    std::string text;
    for (size_t i = 0; i < dims.size(); ++i) text += concat(i ? "x" : "", dims[i]);
    return text;
  }

  std::string profile() {
    run_shapes = shapes("--shapes");
    const auto min = shapes("--minShapes"), opt = shapes("--optShapes"), max = shapes("--maxShapes");
    const auto& base = opt ? opt : run_shapes ? run_shapes : max ? max : min;
    if (!base) return "";
    std::string text;
    for (const auto& [name, dims] : *base) {
      auto of = [&, &dims = dims, &name = name](const std::optional<TrtexecShapes>& from) {
        return from && from->contains(name) ? from->at(name) : dims;
      };
      text += concat(text.empty() ? "" : ",", name, "=");
      if (min || max) text += concat(dims_text(of(min)), ":", dims_text(dims), ":", dims_text(of(max)));
      else text += dims_text(dims);
    }
    return text;
  }

  void bench() {
    std::string line = concat("temper bench ", shell_quoted(plan));
    const auto& shapes = run_shapes;
    if (shapes && command.has("--optShapes")) {
      std::set<int64_t> batches;
      for (const auto& [name, dims] : *shapes) batches.insert(dims.empty() ? 0 : dims[0]);
      if (batches.size() == 1 && *batches.begin() > 0) line += concat(" --batch ", *batches.begin());
      else
        differences.push_back("--shapes: bench takes a batch, not other shapes than those that the plan is tuned for");
    }
    if (const auto n = command.integer("--batch")) line += concat(" --batch ", *n);
    const auto seconds = command.integer("--duration"), iterations = command.integer("--iterations");
    if (seconds == 0 && iterations) {
      line += concat(" --iterations ", *iterations);
    } else {
      if (seconds && *seconds > 0) line += concat(" --duration ", *seconds, "s");
      if (iterations)
        differences.push_back(
            concat("--iterations=", *iterations,
                   ": a least count; bench stops when the median is known well enough, --iterations fixes the count"));
    }
    if (command.has("--warmUp"))
      differences.push_back("--warmUp: bench warms up until runs get no faster; --warmup N fixes the count");
    if (command.integer("--infStreams").value_or(1) > 1)
      line += concat(" --streams ", *command.integer("--infStreams"), " --transfers");
    else if (command.has("--noCudaGraph")) line += " --no-cuda-graph";
    else if (command.has("--includeDataTransfers")) line += " --transfers";
    if (const auto file = command.value("--exportTimes")) line += concat(" --json ", shell_quoted(*file));
    commands.push_back(line);
    differences.push_back(
        "bench gives the GPU's own time of one recorded graph, as 11.x does; trtexec's Latency until 10.x has the "
        "copies "
        "in it (--transfers), and its kernels were launched one by one without --useCudaGraph (--no-cuda-graph)");
    if (command.has("--loadInputs"))
      differences.push_back(
          "--loadInputs: bench takes random inputs; temper run PLAN --input NAME=FILE runs real ones");
  }

  void inspect() {
    if (command.has("--dumpLayerInfo")) commands.push_back(concat("temper inspect ", shell_quoted(plan), " --layers"));
    if (const auto file = command.value("--exportLayerInfo"))
      commands.push_back(concat("temper inspect ", shell_quoted(plan), " --layers --json > ", shell_quoted(*file)));
    if (command.has("--dumpProfile")) commands.push_back(concat("temper profile ", shell_quoted(plan)));
    if (const auto file = command.value("--exportProfile"))
      commands.push_back(concat("temper profile ", shell_quoted(plan), " --json > ", shell_quoted(*file)));
    if (command.has("--dumpOutput") || command.has("--exportOutput"))
      commands.push_back(concat("temper run ", shell_quoted(plan), " --output-dir OUT"));
  }
};

}  // namespace

TemperCommands temper_commands_for(const TrtexecCommand& command) {
  const ToTemper temper(command);
  return {temper.commands, temper.differences};
}

}  // namespace temper
