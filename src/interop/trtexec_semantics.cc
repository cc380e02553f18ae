// SPDX-License-Identifier: Apache-2.0
#include "interop/trtexec_semantics.h"

#include <algorithm>
#include <cstdio>

#include "base/error.h"
#include "base/parse.h"
#include "interop/trtexec_command.h"

namespace temper {

namespace {

constexpr const char* kKeys =
    "model, model_sha256, batch, precision, device, device_name, transfers, cuda_graph, spin_wait, streams, "
    "tensorrt_version";

std::pair<int, int> major_minor(const std::string& version) {
  int major = 0, minor = 0;
  std::sscanf(version.c_str(), "%d.%d", &major, &minor);
  return {major, minor};
}

std::optional<int64_t> integer(const std::string& text) {
  const auto value = parse_number<int64_t>(text);
  return value && *value > 0 ? value : std::nullopt;
}
int64_t integer_of(const std::string& key, const std::string& text) {
  const auto value = integer(text);
  if (!value || *value > 1'000'000'000)
    fail(ErrorKind::usage, "--set ", key, "=", text, ": a whole number from 1 on is expected");
  return *value;
}
bool flag_of(const std::string& key, const std::string& text) {
  if (text == "true" || text == "on" || text == "1") return true;
  if (text == "false" || text == "off" || text == "0") return false;
  fail(ErrorKind::usage, "--set ", key, "=", text, ": true or false is expected");
}

// Takes what the user knows where the log is silent; where it is not, both must say the same.
class Known {
 public:
  explicit Known(const std::map<std::string, std::string>& given) : given_(given) {}

  template <class T, class Convert>
  void take(const std::string& key, std::optional<T>& value, TrtexecSemantics& to, Convert convert) const {
    const auto found = given_.find(key);
    if (found == given_.end()) return;
    const T wanted = convert(key, found->second);
    if (value && *value != wanted) fail(ErrorKind::usage, "--set ", key, "=", found->second, ": the log says ", *value);
    value = wanted;
    to.notes[key] = "given by the user";
  }
  void check_keys() const {
    for (const auto& [key, text] : given_)
      if (concat(", ", kKeys, ", ").find(concat(", ", key, ", ")) == std::string::npos)
        fail(ErrorKind::usage, "--set ", key, ": there is no such key; there are ", kKeys);
  }

 private:
  const std::map<std::string, std::string>& given_;
};

std::string as_text(const std::string&, const std::string& text) { return text; }

// "FP32+FP16" -> "fp16": FP32 is always allowed.
std::string precision_of_option(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? char(c + 32) : c;
  text = text.substr(0, text.find(' '));
  if (text.starts_with("fp32+")) text = text.substr(5);
  return text;
}

std::string precision_of_flags(const TrtexecCommand& command) {
  if (command.has("--best")) return "best";
  std::string text;
  for (const char* flag : {"--fp16", "--bf16", "--int8", "--fp8", "--int4"})
    if (command.has(flag)) text += concat(text.empty() ? "" : "+", std::string_view(flag).substr(2));
  return text.empty() ? "fp32" : text;
}

struct Facts {
  const TrtexecRun& log;
  TrtexecCommand command;
  bool has_command;
  std::optional<int> major;

  std::optional<std::string> option(const char* name) const {
    const auto found = log.options.find(name);
    return found == log.options.end() ? std::nullopt : std::optional(found->second);
  }
  std::optional<bool> enabled(const char* name) const {
    const auto text = option(name);
    if (text == "Enabled") return true;
    if (text == "Disabled") return false;
    return std::nullopt;
  }
  // 11.0 turned the default round: until 10.x `on` turns a thing on, from 11 on `off` turns it off.
  std::optional<bool> switched(const char* on, const char* off) const {
    if (!has_command || !major) return std::nullopt;
    return *major >= 11 ? !command.has(off) : command.has(on);
  }
};

void set_model(const Facts& facts, TrtexecSemantics& to) {
  for (const char* flag : {"--onnx", "--model", "--deploy", "--uff", "--loadEngine"})
    if (!to.model) to.model = facts.command.value(flag);
  for (const char* name : {"Model", "Load engine"})
    if (!to.model) to.model = facts.option(name);
  if (to.model && to.model->empty()) to.model.reset();
}

void set_precision(const Facts& facts, TrtexecSemantics& to) {
  const bool loaded = facts.command.value("--loadEngine").value_or(facts.option("Load engine").value_or("")) != "" &&
                      !facts.command.has("--onnx");
  if (loaded) {
    to.notes["precision"] = "the engine was loaded, and the log does not say how it was built";
  } else if (facts.major.value_or(0) >= 11 || facts.command.has("--stronglyTyped") ||
             facts.option("Precision") == "Strongly Typed") {
    to.notes["precision"] = "the model's own types: the network was strongly typed";
  } else if (const auto option = facts.option("Precision"); option && !option->empty()) {
    to.precision = precision_of_option(*option);
  } else if (facts.has_command && (facts.major || facts.command.has("--fp16") || facts.command.has("--int8") ||
                                   facts.command.has("--bf16") || facts.command.has("--best"))) {
    to.precision = precision_of_flags(facts.command);
  } else {
    to.notes["precision"] = kSilent;
  }
  if (!to.precision) return;
  to.notes["precision"] =
      "what the builder was allowed beside fp32, not what each layer runs in; --exportLayerInfo tells";
  if (to.precision == "fp32")
    to.notes["precision"] =
        facts.command.has("--noTF32") ? "without TF32" : "TF32 was allowed, where the device has it";
}

void set_batch(const Facts& facts, TrtexecSemantics& to) {
  to.shapes = facts.log.shapes;
  if (const auto flag = facts.command.value(facts.command.has("--shapes") ? "--shapes" : "--optShapes");
      to.shapes.empty() && flag)
    if (const auto shapes = parse_trtexec_shapes(*flag)) to.shapes = *shapes;
  if (const auto option = facts.option("Batch")) to.implicit_batch = integer(*option);  // otherwise "Explicit"
  else if (!facts.command.has("--explicitBatch") && facts.major.value_or(8) < 10) {
    to.implicit_batch = facts.command.integer("--batch");
    const bool always_implicit =
        facts.command.has("--uff") || facts.command.has("--deploy") || facts.command.has("--model");
    if (!to.implicit_batch && always_implicit) to.implicit_batch = 1;
  }
  if (to.implicit_batch && (*to.implicit_batch < 1 || *to.implicit_batch > 1'000'000'000)) to.implicit_batch.reset();
  if (to.implicit_batch) {
    to.batch = to.implicit_batch;
    to.notes["shapes"] = "without the batch, which is implicit";
    return;
  }
  if (to.shapes.empty()) {
    to.notes["shapes"] = to.notes["batch"] = kSilent;
    return;
  }
  for (const auto& [name, dims] : to.shapes) {
    if (dims.empty() || dims[0] < 1 || (to.batch && *to.batch != dims[0])) {
      to.batch.reset();
      to.notes["batch"] = "the first dimensions of the inputs differ";
      return;
    }
    to.batch = dims[0];
  }
  to.notes["batch"] = "the first dimension of the inputs";
}

void set_transfers(const Facts& facts, TrtexecSemantics& to) {
  auto zero = [](const std::optional<TrtexecStats>& stats) { return stats && stats->max == 0.0; };
  auto positive = [](const std::optional<TrtexecStats>& stats) { return stats && stats->max && *stats->max > 0; };
  const TrtexecRun& log = facts.log;
  std::optional<bool> included = facts.enabled("Data transfers");
  if (!included && facts.has_command && facts.major)
    included =
        *facts.major >= 11 ? facts.command.has("--includeDataTransfers") : !facts.command.has("--noDataTransfers");
  const bool none = zero(log.h2d) && zero(log.d2h), some = positive(log.h2d);
  const bool managed = facts.command.has("--useManagedMemory");  // pages move on their own then
  // Results whose size the run decides are copied even where transfers are off, so D2H alone proves nothing.
  if (included == false && some)
    to.contradictions.push_back(concat("transfers are off, but copying inputs took up to ", *log.h2d->max, " ms"));
  if (included == true && none && !managed) to.contradictions.push_back("transfers are on, but took no time at all");
  if (!included && (none || some)) {
    included = some;
    to.notes["transfers"] = "from the times of the transfers";
  }
  if (included) to.transfers = *included ? "included" : "excluded";
  else to.notes["transfers"] = kSilent;
}

}  // namespace

bool version_below(const std::string& version, int major, int minor) {
  return major_minor(version) < std::pair{major, minor};
}

TrtexecSemantics semantics_of(const TrtexecRun& log, const std::map<std::string, std::string>& known) {
  TrtexecSemantics to;
  const Known given(known);
  given.check_keys();
  if (log.temper && known.contains("tensorrt_version"))
    fail(ErrorKind::usage, "--set tensorrt_version: the log is Temper's");
  to.version = log.version;
  given.take("tensorrt_version", to.version, to, as_text);
  Facts facts{log, parse_trtexec_command(log.command.value_or("")), log.command.has_value(), std::nullopt};
  if (to.version) facts.major = major_minor(*to.version).first;
  else if (log.multi_line) facts.major = 7;
  else if (log.end_to_end) facts.major = 8;
  set_model(facts, to);
  set_precision(facts, to);
  set_batch(facts, to);
  set_transfers(facts, to);
  to.device_name = facts.option("Selected Device");
  const auto device = facts.option("Device");
  if (const auto index = device ? integer(*device) : facts.command.integer("--device");
      index && *index > 0 && *index < 1000)
    to.device = concat("cuda:", *index);
  else if (!device && !facts.has_command) to.notes["device"] = "the log does not say; 0 is what trtexec takes";
  to.cuda_graph = facts.enabled("CUDA Graph");
  if (!to.cuda_graph) to.cuda_graph = facts.switched("--useCudaGraph", "--noCudaGraph");
  if (!to.cuda_graph) to.notes["cuda_graph"] = kSilent;
  to.spin_wait = facts.enabled("Spin-wait");
  if (!to.spin_wait) to.spin_wait = facts.switched("--useSpinWait", "--noSpinWait");
  if (const auto streams = facts.option("Streams")) to.streams = integer(*streams);
  else if (facts.has_command)
    to.streams = facts.command.has("--infStreams") ? facts.command.integer("--infStreams")
                 : facts.command.has("--streams")  ? facts.command.integer("--streams")
                                                   : 1;
  if (to.streams && *to.streams < 1) to.streams.reset();

  if (log.temper) {
    // What TensorRT leaves open, Temper's own logs say: a plan has the one precision that it was built for.
    if (const auto option = facts.option("Precision")) to.precision = precision_of_option(*option);
    if (to.precision) to.notes.erase("precision");
    if (device == "cpu") {
      to.device = "cpu";
      to.transfers = "none";
    }
  }

  given.take("model", to.model, to, as_text);
  given.take("model_sha256", to.model_sha256, to, as_text);
  given.take("precision", to.precision, to, as_text);
  if (known.contains("batch") && !to.implicit_batch) to.batch.reset();  // a first dimension need not be the batch
  given.take("batch", to.batch, to, integer_of);
  given.take("device_name", to.device_name, to, as_text);
  given.take("transfers", to.transfers, to, [](const std::string& key, const std::string& text) {
    if (text != "included" && text != "excluded")
      fail(ErrorKind::usage, "--set ", key, "=", text, ": included or excluded is expected");
    return text;
  });
  given.take("cuda_graph", to.cuda_graph, to, flag_of);
  given.take("spin_wait", to.spin_wait, to, flag_of);
  given.take("streams", to.streams, to, integer_of);
  if (const auto wanted = known.find("device"); wanted != known.end())
    to.device = wanted->second, to.notes["device"] = "given by the user";
  if (!to.model) to.notes["model"] = "the log does not name the model: this is where it was read; --set model=NAME";
  return to;
}

}  // namespace temper
