// SPDX-License-Identifier: Apache-2.0
#include "cases.h"

#include <onnx/onnx-data.pb.h>
#include <onnx/onnx_pb.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

#include "graph/strings.h"
#include "onnx/tensor_proto.h"

namespace temper::conformance {

namespace fs = std::filesystem;

std::vector<Case> list_cases(const std::string& root, const std::string& suite) {
  std::vector<Case> cases;
  const fs::path folder = fs::path(root) / suite;
  if (!fs::is_directory(folder)) fail(ErrorKind::usage, "there is no suite '", suite, "' in ", root);
  for (const auto& entry : fs::directory_iterator(folder)) {
    const fs::path& path = entry.path();
    if (suite == "light") {
      if (path.extension() != ".onnx") continue;
      Case test{path.stem().string(), path.string(), ""};
      if (test.name == "light_densenet121") test.rtol = 2e-3;  // as its data.json says
      cases.push_back(test);
    } else if (fs::exists(path / "model.onnx")) {
      cases.push_back({path.filename().string(), (path / "model.onnx").string(), path.string()});
    }
  }
  std::sort(cases.begin(), cases.end(), [](const Case& a, const Case& b) { return a.name < b.name; });
  return cases;
}

namespace {

onnx::ModelProto load_model(const std::string& path) {
  onnx::ModelProto model;
  std::ifstream file(path, std::ios::binary);
  if (!model.ParseFromIstream(&file)) fail(ErrorKind::bad_file, path, " cannot be parsed");
  return model;
}

// ONNX's formula for models without data: 0, 1/n, 2/n, ...
Tensor ramp(const onnx::ValueInfoProto& input) {
  Dims dims;
  for (const auto& dim : input.type().tensor_type().shape().dim())
    dims.push_back(dim.has_dim_value() ? dim.dim_value() : 1);
  Tensor tensor(DType::f32, dims);
  for (int64_t i = 0; i < tensor.count(); ++i) tensor.data<float>()[i] = float(double(i) / double(tensor.count()));
  return tensor;
}

struct DataSet {
  std::vector<Tensor> inputs, outputs;
  ImportOptions options;  // the shapes of the elements of sequences
};

template <class Message>
Message read_message(const fs::path& file) {
  Message message;
  std::ifstream stream(file, std::ios::binary);
  if (!message.ParseFromIstream(&stream)) fail(ErrorKind::bad_file, file.string(), " cannot be parsed");
  return message;
}

// Appends the elements of a sequence, under the names that they have as inputs, if `shapes` is wanted.
void append_sequence(const onnx::SequenceProto& sequence, const std::string& name, std::vector<Tensor>& values,
                     std::map<std::string, Dims>* shapes) {
  for (int i = 0; i < sequence.tensor_values_size(); ++i) {
    values.push_back(tensor_from_proto(sequence.tensor_values(i), std::nullopt));
    if (shapes) (*shapes)[concat(name, '[', i, ']')] = values.back().dims();
  }
}

// Appends a value to those of the data set. What kind it is of stands in the model; the file itself does not say what
// message it holds.
void append_value(const fs::path& file, const onnx::ValueInfoProto& info, std::vector<Tensor>& values,
                  std::map<std::string, Dims>* shapes) {
  const onnx::TypeProto& type = info.type();
  if (type.has_tensor_type()) {
    values.push_back(read_tensor_proto_file(file.string()));
  } else if (type.has_sequence_type()) {
    append_sequence(read_message<onnx::SequenceProto>(file), info.name(), values, shapes);
  } else if (type.has_optional_type()) {
    const auto optional = read_message<onnx::OptionalProto>(file);
    if (optional.has_tensor_value()) values.push_back(tensor_from_proto(optional.tensor_value(), std::nullopt));
    else if (optional.has_sequence_value()) append_sequence(optional.sequence_value(), info.name(), values, shapes);
    else fail(ErrorKind::unsupported, "the test data '", info.name(), "' is an optional without a value");
  } else {
    fail(ErrorKind::unsupported, "the test data '", info.name(), "' is a map");
  }
}

std::vector<DataSet> load_data(const Case& test, const onnx::ModelProto& model) {
  std::vector<DataSet> sets;
  std::set<std::string> initializers;
  for (const auto& tensor : model.graph().initializer()) initializers.insert(tensor.name());
  if (test.folder.empty()) {
    DataSet set;
    for (const auto& input : model.graph().input())
      if (!initializers.count(input.name())) set.inputs.push_back(ramp(input));
    const std::string stem = test.model.substr(0, test.model.size() - std::string_view(".onnx").size());
    for (int i = 0; i < model.graph().output_size(); ++i)
      set.outputs.push_back(read_tensor_proto_file(concat(stem, "_output_", i, ".pb")));
    return {set};
  }
  for (const auto& entry : fs::directory_iterator(test.folder)) {
    if (entry.path().filename().string().rfind("test_data_set", 0) != 0) continue;
    DataSet set;
    for (int i = 0; fs::exists(entry.path() / concat("input_", i, ".pb")); ++i)
      append_value(entry.path() / concat("input_", i, ".pb"), model.graph().input(i), set.inputs, &set.options.shapes);
    for (int i = 0; fs::exists(entry.path() / concat("output_", i, ".pb")); ++i)
      append_value(entry.path() / concat("output_", i, ".pb"), model.graph().output(i), set.outputs, nullptr);
    sets.push_back(std::move(set));
  }
  if (sets.empty()) fail(ErrorKind::bad_file, "no test_data_set in ", test.folder);
  return sets;
}

// The slices of a tensor along its first axis.
std::vector<Tensor> unstacked(const Tensor& all) {
  const Dims dims(all.dims().begin() + 1, all.dims().end());
  std::vector<Tensor> slices;
  for (int64_t i = 0; i < all.dims().at(0); ++i) {
    Tensor slice(all.dtype(), dims);
    std::memcpy(slice.raw_mutable(), all.raw().data() + i * slice.bytes(), size_t(slice.bytes()));
    slices.push_back(std::move(slice));
  }
  return slices;
}

// What a run gives for the outputs of the model, a sequence as its elements. One whose length only the run knows is one
// tensor, or has its length beside as many outputs as it may have elements.
std::vector<Tensor> flattened(const Ran& ran, const onnx::ModelProto& model) {
  std::map<std::string, Tensor> by_name;
  for (size_t i = 0; i < ran.outputs.size(); ++i) by_name[ran.names.at(i)] = ran.outputs[i];
  std::vector<Tensor> values;
  for (const auto& output : model.graph().output()) {
    const bool is_tensor =
        output.type().has_tensor_type() ||
        (output.type().has_optional_type() && output.type().optional_type().elem_type().has_tensor_type());
    const auto whole = by_name.find(output.name()), length = by_name.find(output.name() + ".length");
    if (whole != by_name.end()) {
      const auto own = is_tensor ? std::vector<Tensor>{whole->second} : unstacked(whole->second);
      values.insert(values.end(), own.begin(), own.end());
      continue;
    }
    const int64_t most = length == by_name.end() ? int64_t(by_name.size()) : length->second.to_ints().at(0);
    for (int64_t i = 0; i < most; ++i) {
      const auto element = by_name.find(concat(output.name(), '[', i, ']'));
      if (element == by_name.end()) break;
      values.push_back(element->second);
    }
  }
  return values;
}

// Empty when equal by the rule.
std::string difference(const Tensor& got, const Tensor& want, double rtol, double atol) {
  if (!got.defined()) return "is missing";
  if (got.type() != want.type()) return concat("is ", got.type(), ", expected ", want.type());
  if (got.dtype() == DType::string) {
    const std::vector<std::string> a = strings_of(got), b = strings_of(want);
    for (size_t i = 0; i < a.size(); ++i)
      if (a[i] != b[i]) return concat(got.type(), ": element ", i, " is '", a[i], "', expected '", b[i], "'");
    return "";
  }
  const std::vector<double> a = got.to_doubles(), b = want.to_doubles();
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    if (a[i] == b[i]) continue;
    if (!(std::isfinite(a[i]) && std::isfinite(b[i])) || !(std::fabs(a[i] - b[i]) <= atol + rtol * std::fabs(b[i])))
      return concat(got.type(), ": element ", i, " is ", a[i], ", expected ", b[i]);
  }
  return "";
}

// ONNX names no generator of random numbers: what such a test can tell is the type and the shape of its results.
bool is_random(const onnx::ModelProto& model, const DataSet& set) {
  static const std::set<std::string> random{"Bernoulli",        "Multinomial",   "RandomNormal",
                                            "RandomNormalLike", "RandomUniform", "RandomUniformLike"};
  for (const auto& node : model.graph().node()) {
    if (random.count(node.op_type())) return true;
    // Dropout in training mode, where the ratio is not 0.
    if (node.op_type() == "Dropout" && node.input_size() == 3 && set.inputs.size() == 3 &&
        set.inputs[2].to_ints().at(0) != 0 && set.inputs[1].to_doubles().at(0) != 0)
      return true;
  }
  return false;
}

// Tests whose expected values hold errors of FP32 that are larger than what the tolerance allows: what is 0 stands
// there as 2e-7. Whoever computes better does not pass. They count as refused where they agree within FP32's errors.
bool is_inexact(const Case& test) { return test.name == "test_dft_inverse" || test.name == "test_dft_inverse_opset19"; }

}  // namespace

Verdict judge(const Case& test, const Runner& runner) {
  try {
    const onnx::ModelProto model = load_model(test.model);
    std::vector<DataSet> sets;
    try {
      sets = load_data(test, model);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::unsupported) throw;
      // The data is of a kind that Temper has not. The model must then be refused too.
      try {
        runner(test.model, {}, {});
      } catch (const Error& refusal) {
        if (refusal.kind() == ErrorKind::unsupported) return {Outcome::refused, refusal.what()};
      }
      return {Outcome::refused, concat("(data): ", error.what())};
    }
    std::set<std::string> on_host;
    for (const DataSet& set : sets) {
      const Ran ran = runner(test.model, set.options, set.inputs);
      const std::vector<Tensor> outputs = flattened(ran, model);
      on_host.insert(ran.on_host.begin(), ran.on_host.end());
      if (outputs.size() != set.outputs.size())
        return {Outcome::wrong, concat(outputs.size(), " outputs, expected ", set.outputs.size())};
      const bool random = is_random(model, set);
      for (size_t i = 0; i < outputs.size(); ++i) {
        if (random && outputs[i].defined() && outputs[i].type() == set.outputs[i].type()) continue;
        const std::string text = difference(outputs[i], set.outputs[i], test.rtol, test.atol);
        if (text.empty()) continue;
        if (is_inexact(test) && difference(outputs[i], set.outputs[i], test.rtol, 1e-6).empty())
          return {Outcome::refused, concat("(data): the expected values are not exact enough: ", text)};
        return {Outcome::wrong, concat("output ", i, ' ', text)};
      }
    }
    Verdict passed{Outcome::pass, ""};
    for (const std::string& op : on_host) passed.message += concat(passed.message.empty() ? "" : ", ", op);
    return passed;
  } catch (const Error& error) {
    return {error.kind() == ErrorKind::unsupported ? Outcome::refused : Outcome::crashed, error.what()};
  } catch (const std::exception& error) { return {Outcome::crashed, error.what()}; }
}

}  // namespace temper::conformance
