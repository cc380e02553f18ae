// SPDX-License-Identifier: Apache-2.0
#include "serve/repository.h"

#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "base/concat.h"
#include "base/file.h"
#include "base/new_folder.h"
#include "base/quote.h"
#include "plan/file.h"

namespace temper {

namespace {

namespace fs = std::filesystem;

int cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

void make_folders(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) fail(ErrorKind::machine, "the folder '", path.string(), "' cannot be made: ", error.message());
}

void link_or_copy(const std::string& from, const fs::path& to) {
  std::error_code error;
  fs::create_hard_link(fs::canonical(from), to, error);
  if (!error) return;
  fs::copy_file(from, to, error);
  if (error) fail(ErrorKind::machine, "'", from, "' cannot be copied to '", to.string(), "': ", error.message());
}

int64_t version_after(const fs::path& folder) {
  int64_t latest = 0;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!name.empty() && name.size() < 18 &&
        std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; }))
      latest = std::max<int64_t>(latest, std::stoll(name));
  }
  return latest + 1;
}

// By name: model.temper for the only plan, and each its own for several.
std::string file_name_of(const std::string& plan, bool only) {
  return only ? "model.temper" : fs::path(plan).stem().string() + ".temper";
}

PlanFile read(const std::string& plan, bool foreign) {
  ReadPlanOptions options;
  options.foreign = foreign;
  options.map_file = true;  // looked at, and let go
  return read_plan_file(plan, options);
}

const char* triton_type(DType dtype) {
  switch (dtype) {
    case DType::f32: return "TYPE_FP32";
    case DType::f16: return "TYPE_FP16";
    case DType::bf16: return "TYPE_BF16";
    case DType::f64: return "TYPE_FP64";
    case DType::i8: return "TYPE_INT8";
    case DType::i16: return "TYPE_INT16";
    case DType::i32: return "TYPE_INT32";
    case DType::i64: return "TYPE_INT64";
    case DType::u8: return "TYPE_UINT8";
    case DType::u16: return "TYPE_UINT16";
    case DType::u32: return "TYPE_UINT32";
    case DType::u64: return "TYPE_UINT64";
    case DType::boolean: return "TYPE_BOOL";
    default: return nullptr;
  }
}

// A string as protobuf's text form takes it, whatever is in a name.
std::string in_text_format(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += {'\\', c};
    else if (static_cast<unsigned char>(c) >= ' ' && c != 0x7f) out += c;
    else {
      char code[8];
      std::snprintf(code, sizeof code, "\\%03o", static_cast<unsigned char>(c));
      out += code;
    }
  }
  return out + "\"";
}

// A tensor in the server's form: its dimensions but the batch.
std::string tensor_text(const PortInfo& port, const char* type) {
  const Shape& shape = port.type.shape;
  const bool batched = !shape.empty() && !shape[0].is_constant();
  std::string dims;
  for (size_t i = batched ? 1 : 0; i < shape.size(); ++i)
    dims += concat(dims.empty() ? "" : ", ", shape[i].is_constant() ? shape[i].value() : int64_t(-1));
  return concat("{ name: ", in_text_format(port.name), " data_type: ", type, " dims: [ ", dims, " ]");
}

// Classes have names where scores are what comes out: the output with all that the server asks for beside the file.
std::string labelled_output(const PlanFile& plan) {
  if (plan.outputs.size() != 1)
    fail(ErrorKind::usage, "--labels is for a model with one output; it has ", plan.outputs.size());
  const PortInfo& output = plan.outputs[0];
  if (!is_float(output.type.dtype))
    fail(ErrorKind::usage, "--labels: the output '", output.name, "' holds no scores but ", output.type.dtype);
  return concat("output [ ", tensor_text(output, triton_type(output.type.dtype)),
                " label_filename: \"labels.txt\" } ]\n");
}

// All inputs, those that take pictures as strings: a list that is begun is not completed.
std::string inputs_of_pictures(const PlanFile& plan) {
  if (plan.info.preprocess.empty())
    fail(ErrorKind::usage,
         "--encoded-pictures is for plans that remember how pictures become their input; temper build "
         "--input-pictures makes one");
  std::string list;
  for (const PortInfo& input : plan.inputs) {
    list += list.empty() ? "" : ", ";
    if (plan.info.preprocess.contains(input.name)) {
      const Dim& batch = input.type.shape.at(0);
      list += concat("{ name: ", in_text_format(input.name), " data_type: TYPE_STRING dims: [ ",
                     batch.is_constant() ? batch.value() : 1, " ] }");
    } else if (const char* const type = triton_type(input.type.dtype)) {
      list += tensor_text(input, type) + " }";
    } else {
      fail(ErrorKind::unsupported, "the server has no tensors of ", input.type.dtype, ", as input '", input.name,
           "' is");
    }
  }
  return concat("input [ ", list, " ]\n");
}

// Of a model whose configuration is there and stays.
void check_says_no_configuration(const ServedModel& model) {
  for (const auto& [said, option] : {std::pair(model.instances > 0, "--instances"),
                                     {model.max_delay_us >= 0, "--max-delay"},
                                     {!model.labels.empty(), "--labels"},
                                     {model.encoded_pictures, "--encoded-pictures"}})
    if (said)
      fail(ErrorKind::usage, "'", model.name, "' is there and its config.pbtxt stays; leave ", option,
           " out, or edit that file");
}

}  // namespace

void check_model_name(const std::string& name) {
  const auto fits = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-' ||
           c == '.';
  };
  if (name.empty() || name[0] == '.' || name.size() > 200 || !std::all_of(name.begin(), name.end(), fits))
    fail(ErrorKind::usage, "'", name,
         "' is no name of a model: letters, digits, _, - and . make one, as in digits=", "FILE.plan");
}

std::string model_name_of(const std::string& plan) {
  const fs::path path(plan);
  std::string stem = path.stem().string();
  if (stem == "model") {  // a file of a repository: REPOSITORY/NAME/1/model.temper
    std::string name = fs::absolute(path).parent_path().parent_path().filename().string();
    if (!name.empty()) return name;
  }
  return stem;
}

std::string config_of(const ServedModel& model, bool foreign) {
  std::string text = "# Inputs, outputs and batches come from the plan.\nbackend: \"temper\"\n";
  int instances = model.instances;
  std::string tensors;
  for (const std::string& path : model.plans) {
    const PlanFile plan = read(path, foreign);
    const bool gpu = plan.info.device.starts_with("cuda");
    if (model.instances == 0) instances = std::max({instances, 1, gpu ? 2 : cores() / std::max(plan.threads, 1)});
    if (!tensors.empty()) continue;
    if (model.encoded_pictures) tensors += inputs_of_pictures(plan);
    if (!model.labels.empty()) tensors += labelled_output(plan);
  }
  text += concat("instance_group [ { kind: KIND_MODEL count: ", instances, " } ]\n");
  if (model.max_delay_us >= 0)
    text += concat("dynamic_batching { max_queue_delay_microseconds: ", model.max_delay_us, " }\n");
  return text + tensors;
}

std::string add_to_repository(const std::string& repository, const ServedModel& model, bool foreign) {
  check_model_name(model.name);
  if (model.plans.empty()) fail(ErrorKind::usage, "a model needs a plan");
  const fs::path folder = fs::path(repository) / model.name;
  if (fs::exists(folder / "config.pbtxt")) check_says_no_configuration(model);
  const std::string config = config_of(model, foreign);
  const bool only = model.plans.size() == 1;
  make_folders(repository);
  const bool is_new = !fs::exists(folder);
  const int64_t version = model.version ? model.version : version_after(folder);
  if (version < 1) fail(ErrorKind::usage, "a version is a number from 1 on, not ", version);
  const fs::path target = folder / std::to_string(version);
  if (fs::exists(target))
    fail(ErrorKind::usage, "'", target.string(),
         "' is there; versions are never replaced: leave --version out, or give another");
  // All of a new model appears at once; of a known one the version does.
  NewFolder made(is_new ? fs::path(repository) : folder);
  const fs::path in = is_new ? made.path() / std::to_string(version) : made.path();
  if (is_new) make_folders(in);
  for (const std::string& plan : model.plans) {
    const fs::path to = in / file_name_of(plan, only);
    if (fs::exists(to)) fail(ErrorKind::usage, "two plans are called '", to.stem().string(), "'; rename one");
    link_or_copy(plan, to);
  }
  const fs::path its = is_new ? made.path() : folder;
  if (!model.labels.empty())
    write_file_atomically((its / "labels.txt").string(), read_file(model.labels, size_t(1) << 24));
  if (!fs::exists(its / "config.pbtxt")) write_file_atomically((its / "config.pbtxt").string(), config);
  made.become(is_new ? folder : target);
  return target.string();
}

}  // namespace temper
