// SPDX-License-Identifier: Apache-2.0
#include "cases.h"

#include <onnx/onnx_pb.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

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

// The kind of value is in the model; the file itself does not say what message it holds.
Tensor read_value(const fs::path& file, const onnx::ValueInfoProto& info) {
  if (!info.type().has_tensor_type())
    fail(ErrorKind::unsupported, "the test data '", info.name(), "' is no tensor but a sequence, map or optional");
  return read_tensor_proto_file(file.string());
}

struct DataSet {
  std::vector<Tensor> inputs, outputs;
};

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
      set.inputs.push_back(read_value(entry.path() / concat("input_", i, ".pb"), model.graph().input(i)));
    for (int i = 0; fs::exists(entry.path() / concat("output_", i, ".pb")); ++i)
      set.outputs.push_back(read_value(entry.path() / concat("output_", i, ".pb"), model.graph().output(i)));
    sets.push_back(std::move(set));
  }
  if (sets.empty()) fail(ErrorKind::bad_file, "no test_data_set in ", test.folder);
  return sets;
}

// Empty when equal by the rule.
std::string difference(const Tensor& got, const Tensor& want, double rtol, double atol) {
  if (!got.defined()) return "is missing";
  if (got.type() != want.type()) return concat("is ", got.type(), ", expected ", want.type());
  const std::vector<double> a = got.to_doubles(), b = want.to_doubles();
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    if (a[i] == b[i]) continue;
    if (!(std::isfinite(a[i]) && std::isfinite(b[i])) || !(std::fabs(a[i] - b[i]) <= atol + rtol * std::fabs(b[i])))
      return concat(got.type(), ": element ", i, " is ", a[i], ", expected ", b[i]);
  }
  return "";
}

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
        runner(test.model, {});
      } catch (const Error& refusal) {
        if (refusal.kind() == ErrorKind::unsupported) return {Outcome::refused, refusal.what()};
      }
      return {Outcome::refused, concat("(data): ", error.what())};
    }
    for (const DataSet& set : sets) {
      const std::vector<Tensor> outputs = runner(test.model, set.inputs);
      if (outputs.size() != set.outputs.size())
        return {Outcome::wrong, concat(outputs.size(), " outputs, expected ", set.outputs.size())};
      for (size_t i = 0; i < outputs.size(); ++i)
        if (const std::string text = difference(outputs[i], set.outputs[i], test.rtol, test.atol); !text.empty())
          return {Outcome::wrong, concat("output ", i, ' ', text)};
    }
    return {Outcome::pass, ""};
  } catch (const Error& error) {
    return {error.kind() == ErrorKind::unsupported ? Outcome::refused : Outcome::crashed, error.what()};
  } catch (const std::exception& error) { return {Outcome::crashed, error.what()}; }
}

}  // namespace temper::conformance
