// SPDX-License-Identifier: Apache-2.0
#include "cli/complete.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <set>
#include <span>

#include "backends/cpu/isa.h"
#include "base/concat.h"
#include "base/error.h"
#include "base/file_kind.h"
#include "base/quote.h"
#include "cli/config.h"
#include "data/carried.h"
#include "graph/product.h"
#include "interop/trtexec_flags.h"
#include "optimize/model_source.h"
#include "optimize/precision.h"
#include "passes/pipeline.h"
#include "plan/file.h"
#include "zoo/zoo.h"

namespace temper::cli {

namespace {

using Words = std::vector<std::pair<std::string, std::string>>;

struct Line {
  std::span<const std::string> words;  // behind the verb, without the one that is typed
  std::string device = "cpu";

  // The first file on the line of that kind; "" where there is none.
  std::string file(FileKind kind) const {
    for (const std::string& word : words)
      if (std::filesystem::is_regular_file(word) && kind_of_file(word) == kind) return word;
    return "";
  }
  std::string model() const {
    for (const std::string& word : words)
      if (word.ends_with(".onnx") && std::filesystem::is_regular_file(word)) return word;
    return "";
  }
};

Words plain(std::initializer_list<const char*> list) {
  Words words;
  for (const char* word : list) words.emplace_back(word, "");
  return words;
}

Words devices(const Line&) {
  Words words = plain({"cpu", "reference"});
  std::error_code error;
  int gpu = 0;  // as NVIDIA's driver lists them: nothing is opened
  for (const auto& entry : std::filesystem::directory_iterator("/proc/driver/nvidia/gpus", error)) {
    words.emplace_back(concat("cuda:", gpu++), "NVIDIA GPU " + entry.path().filename().string());
  }
  return words;
}

Words precisions(const Line& line) {
  Words words;
  const bool gpu = line.device.starts_with("cuda");  // which may be another machine's: it is not opened
  const std::vector<std::string> all =
      gpu ? std::vector<std::string>{"fp32",      "tf32",      "bf16", "fp16",     "int8",
                                     "int8+bf16", "int8+fp16", "fp8",  "fp8+bf16", "fp8+fp16"}
          : precisions_of_device("cpu");
  for (const std::string& one : all) words.emplace_back(one, "");
  words.emplace_back("best", "the fastest of them, as measured");
  return words;
}

Words layers(const Line& line) {
  Words words;
  const std::string path = line.model();
  if (path.empty()) return words;
  const Graph graph = ModelSource{path, "", {}}.import().graph;
  for (int32_t n = 0; n < graph.node_count(); ++n)
    if (const Node& node = graph.node({n}); is_product(node.op))
      words.emplace_back(node.name, std::string(name_of(node.op)));
  return words;
}

Words steps(const Line& line) {
  Words words;
  const std::string path = line.file(FileKind::plan);
  if (path.empty()) return words;
  const PlanFile file = read_plan_file(path, {.foreign = true});
  for (const auto& plan : file.plans)
    for (const Segment& segment : plan->segments)
      for (const PlanStep& step : segment.steps) words.emplace_back(step.node, step.tactic);
  return words;
}

Words inputs(const Line& line) {
  Words words;
  if (const std::string path = line.file(FileKind::plan); !path.empty()) {
    for (const PortInfo& port : read_plan_file(path, {.foreign = true}).inputs)
      words.emplace_back(port.name + "=", concat(port.type));
    return words;
  }
  const std::string path = line.model();
  if (path.empty()) return words;
  const Graph graph = ModelSource{path, "", {}}.import().graph;
  for (const ValueId id : graph.inputs()) words.emplace_back(graph.value(id).name + "=", concat(graph.type(id)));
  return words;
}

Words passes(const Line&) {
  Words words{{"all", "every pass"}};
  for (const std::string_view name : pass_names()) words.emplace_back(name, "");
  return words;
}

Words presets(const Line&) {
  Words words;
  for (const std::string_view name : preset_names()) words.emplace_back(name, "");
  return words;
}

Words isa_levels(const Line&) {
  Words words;
  for (const std::string_view name : enum_names(IsaLevel())) words.emplace_back(name, "");
  return words;
}

Words samples(const Line&) {
  Words words;
  for (const ZooEntry& entry : zoo_entries()) words.emplace_back(entry.name, entry.summary);
  return words;
}

Words configured(const Line& line) {
  std::string path = kConfigFile;
  for (size_t i = 0; i + 1 < line.words.size(); ++i)
    if (line.words[i] == "--config") path = line.words[i + 1];
  Words words;
  for (const ConfiguredModel& model : read_config(path)) words.emplace_back(model.name, model.model);
  return words;
}

Words methods(const Line&) { return plain({"auto", "minmax", "percentile:99.99", "mse", "entropy"}); }
Words metrics(const Line&) { return plain({"top1", "agreement", "perplexity", "cosine", "snr", "difference"}); }
Words raised(const Line&) { return plain({"bf16", "fp16", "fp32"}); }
Words releases(const Line&) {
  Words words;
  for (const std::string_view release : kTrtexecReleases) words.emplace_back(release, "");
  return words;
}

struct Values {
  std::string_view verb;  // "": every one
  std::string_view option;
  Words (*words)(const Line&);
  std::string_view files;  // Offer::files
  bool list = false;       // several, with commas between
};

// What is not named here takes numbers or text of the user's own. The first that fits counts.
constexpr Values kValues[] = {
    {"inspect", "--precision", nullptr, "-"},  // its choices
    {"", "--precision", precisions, "-", true},
    {"explain", "--asked", precisions, "-"},
    {"", "--device", devices, "-"},
    {"", "--isa", isa_levels, "-"},
    {"", "--method", methods, "-"},
    {"", "--metric", metrics, "-"},
    {"", "--raise-to", raised, "-"},
    {"", "--preprocess", presets, ".json"},
    {"", "--disable", passes, "-", true},
    {"", "--why", steps, "-"},
    {"", "--keep-fp32", layers, "-", true},
    {"", "--keep-bf16", layers, "-", true},
    {"", "--keep-fp16", layers, "-", true},
    {"", "--only", configured, "-", true},
    {"import", "--to", releases, "-"},
    {"import", "--from", releases, "-"},
    {"", "--shapes", inputs, "-"},
    {"", "--input", inputs, "*"},
    {"", "--state", inputs, "-"},
    {"", "--data", nullptr, "*"},
    {"", "--calibration", nullptr, ".json .ranges .cache"},
    {"", "--ranges", nullptr, ".json .ranges"},
    {"", "--merge", nullptr, ".json .ranges"},
    {"", "--from-cache", nullptr, ".cache .txt"},
    {"", "--lint", nullptr, ".cache .txt"},
    {"calibrate", "--cache", nullptr, ".cache"},
    {"", "--timing-cache", nullptr, ".json"},
    {"", "--reference", nullptr, ".onnx .plan"},
    {"", "--config", nullptr, ".toml"},
    {"", "--class-names", nullptr, ".txt"},
    {"", "--source", nullptr, "*"},
    {"", "--weights", nullptr, "*"},
    {"", "--python", nullptr, "*"},
    {"", "--tokenizer", nullptr, ".json"},
    {"", "--trtexec", nullptr, "*"},
    {"", "--temper", nullptr, "*"},
    {"", "--cuda-path", nullptr, "/"},
    {"", "--dump-passes", nullptr, "/"},
    {"", "--output-dir", nullptr, "/"},
    {"study", "--output", nullptr, "/"},
    {"build", "--output", nullptr, ".plan"},
    {"export", "--output", nullptr, ".onnx"},
    {"zoo", "--output", nullptr, ".onnx"},
    {"quantize", "--output", nullptr, ".onnx"},
    {"split", "--output", nullptr, ".onnx"},
    {"split", "--rest", nullptr, ".onnx"},
    {"", "--output", nullptr, "*"},
    {"", "--qdq", nullptr, ".onnx"},
    {"bench", "--json", nullptr, ".json"},
    {"", "--result", nullptr, ".json"},
    {"", "--trace", nullptr, ".json"},
    {"", "--csv", nullptr, ".csv"},
    {"", "--markdown", nullptr, ".md"},
    {"", "--svg", nullptr, ".svg"},
    {"", "--png", nullptr, ".png"},
    {"", "--junit", nullptr, ".xml"},
    // Arguments without a name.
    {"export", "", nullptr, "*"},
    {"import", "", nullptr, "*"},
    {"as-tensorrt", "", nullptr, "*"},
    {"zoo", "", samples, "-"},
    {"cache", "", nullptr, "-"},
    {"doctor", "", nullptr, "-"},
    {"trtexec", "", nullptr, "-"},
    {"build", "", nullptr, ".onnx"},
    {"calibrate", "", nullptr, ".onnx"},
    {"quantize", "", nullptr, ".onnx"},
    {"split", "", nullptr, ".onnx"},
    {"study", "", nullptr, ".onnx"},
    {"versus", "", nullptr, ".onnx"},
    {"verify", "", nullptr, ".onnx"},
    {"inspect", "", nullptr, ".onnx .plan .json .cache .ranges"},
    {"compare", "", nullptr, ".plan .json"},
    {"explain", "", nullptr, ".plan .json"},
    {"gate", "", nullptr, ".json"},
    {"report", "", nullptr, ".json"},
    {"", "", nullptr, ".onnx .plan"},
};

const Values* values_of(const std::string& verb, std::string_view option) {
  const auto found = std::find_if(std::begin(kValues), std::end(kValues), [&](const Values& one) {
    return one.option == option && (one.verb.empty() || one.verb == verb);
  });
  return found == std::end(kValues) ? nullptr : &*found;
}

// Words that begin with what is typed, behind `before`, which is typed, too.
void offer_words(Offer& offer, const Words& words, const std::string& before, const std::string& typed) {
  std::set<std::string> seen;
  for (const auto& [word, text] : words)
    if (word.starts_with(typed) && !word.empty() && printable(word) == word && seen.insert(word).second)
      offer.words.emplace_back(before + word, text);
}

Offer offer_value(const KnownVerb& verb, const KnownOption* option, const std::string& name, const Line& line,
                  const std::string& before, std::string typed) {
  Offer offer;
  Words words;
  std::set<std::string> taken;
  if (option)
    for (const std::string& choice : option->choices) words.emplace_back(choice, "");
  const Values* values = values_of(verb.name, name);
  const bool list = (values && values->list) || name == "--with";
  std::string front = before;
  if (const size_t comma = typed.rfind(','); list && comma != typed.npos) {
    front += typed.substr(0, comma + 1);
    for (size_t at = 0, end; at <= comma; at = end + 1) {  // what is in the list already
      end = typed.find(',', at);
      taken.insert(typed.substr(at, end - at));
    }
    typed.erase(0, comma + 1);
  }
  if (values) offer.files = values->files;
  if (values && values->words && words.empty()) {
    try {
      words = values->words(line);
    } catch (const Error&) {  // of a file on the line: whoever runs the command is told
    }
  }
  std::erase_if(words, [&](const auto& word) { return taken.contains(word.first); });
  offer_words(offer, words, front, typed);
  return offer;
}

}  // namespace

Offer offer_for(const std::vector<KnownVerb>& verbs, const std::vector<std::string>& words) {
  Offer offer;
  if (words.empty()) return offer;
  const std::string& typed = words.back();
  if (words.size() == 1 || (words.size() == 2 && words[0] == "help")) {
    Words all;
    for (const KnownVerb& verb : verbs) all.emplace_back(verb.name, verb.text);
    if (words.size() == 1) all.insert(all.end(), {{"help", "the help of a verb"}, {"--help", ""}, {"--version", ""}});
    offer_words(offer, all, "", typed);
    return offer;
  }
  const auto verb =
      std::find_if(verbs.begin(), verbs.end(), [&](const KnownVerb& one) { return one.name == words[0]; });
  if (verb == verbs.end()) return offer;
  Line line{std::span(words).subspan(1, words.size() - 2)};
  for (size_t i = 0; i < line.words.size(); ++i) {
    if (line.words[i] == "--device" && i + 1 < line.words.size()) line.device = line.words[i + 1];
    if (line.words[i].starts_with("--device=")) line.device = line.words[i].substr(9);
  }
  const auto option_of = [&](const std::string& name) -> const KnownOption* {
    const auto found = std::find_if(verb->options.begin(), verb->options.end(), [&](const KnownOption& option) {
      return std::find(option.names.begin(), option.names.end(), name) != option.names.end();
    });
    return found == verb->options.end() ? nullptr : &*found;
  };
  if (verb->name == "trtexec" && typed.starts_with("-")) {
    Words flags;
    for (const TrtexecFlag& flag : trtexec_flags()) flags.emplace_back(flag.name, flag.meaning);
    offer_words(offer, flags, "", typed);
    return offer;
  }
  if (const size_t equals = typed.find('='); typed.starts_with("--") && equals != typed.npos) {
    const std::string name = typed.substr(0, equals);
    return offer_value(*verb, option_of(name), name, line, name + "=", typed.substr(equals + 1));
  }
  if (typed.starts_with("-")) {
    Words names;
    for (const KnownOption& option : verb->options)
      for (const std::string& name : option.names) names.emplace_back(name, option.text);
    offer_words(offer, names, "", typed);
    return offer;
  }
  if (words.size() > 2) {
    const std::string& before = words[words.size() - 2];
    if (const KnownOption* option = option_of(before); option && option->takes_value)
      return offer_value(*verb, option, option->names.back(), line, "", typed);
  }
  const auto argument = std::find_if(verb->options.begin(), verb->options.end(),
                                     [](const KnownOption& option) { return option.names.empty(); });
  return offer_value(*verb, argument == verb->options.end() ? nullptr : &*argument, "", line, "", typed);
}

std::string text_of(const Offer& offer) {
  std::string text = offer.files + "\n";
  for (const auto& [word, meaning] : offer.words) text += concat(word, "\t", meaning, "\n");
  return text;
}

}  // namespace temper::cli
