// SPDX-License-Identifier: Apache-2.0
#include "onnx/summary.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "base/checked.h"
#include "onnx/read.h"
#include "onnx/tensor_proto.h"

namespace temper {

namespace {

std::string type_name(int32_t data_type) {
  try {
    return std::string(name_of(dtype_from_onnx(data_type, "")));
  } catch (const Error&) {  // ONNX knows it, Temper does not
    const std::string name = onnx::TensorProto_DataType_Name(onnx::TensorProto_DataType(data_type));
    return name.empty() ? concat("type ", data_type) : name;
  }
}

std::string type_text(const onnx::TypeProto& type) {
  if (type.has_sequence_type()) return concat("sequence of ", type_text(type.sequence_type().elem_type()));
  if (type.has_optional_type()) return concat("optional ", type_text(type.optional_type().elem_type()));
  if (type.has_map_type()) return "map";
  if (!type.has_tensor_type()) return "of no type";
  std::string text = type_name(type.tensor_type().elem_type());
  if (!type.tensor_type().has_shape()) return text + " of any shape";
  text += '[';
  for (int i = 0; i < type.tensor_type().shape().dim_size(); ++i) {
    const auto& dim = type.tensor_type().shape().dim(i);
    text += concat(i ? "," : "", dim.has_dim_value()       ? concat(int64_t(dim.dim_value()))
                                 : dim.dim_param().empty() ? std::string("?")
                                                           : dim.dim_param());
  }
  return text + "]";
}

class Counter {
 public:
  explicit Counter(ModelSummary& summary) : summary_(summary) {}

  void count(const onnx::GraphProto& graph) {
    for (const auto& tensor : graph.initializer()) count(tensor);
    for (const auto& node : graph.node()) {
      const std::string& domain = node.domain();
      ++summary_.nodes;
      ++summary_.ops[domain.empty() || domain == "ai.onnx" ? node.op_type() : concat(domain, ".", node.op_type())];
      for (const auto& attribute : node.attribute()) {
        if (attribute.has_t() && node.op_type() == "Constant") count(attribute.t());
        if (attribute.has_g()) count(attribute.g());  // read_onnx has limited their depth
        for (const auto& body : attribute.graphs()) count(body);
      }
    }
  }

 private:
  void count(const onnx::TensorProto& tensor) {
    int64_t elements = 1;
    for (const int64_t dim : tensor.dims()) elements = checked_mul(elements, std::max<int64_t>(dim, 0));
    summary_.parameters += elements;
    summary_.parameters_by_type[type_name(tensor.data_type())] += elements;
    try {
      summary_.parameter_bytes += byte_count(dtype_from_onnx(tensor.data_type(), ""), {elements});
    } catch (const Error&) {  // of a type that Temper has not: the model is refused for it
    }
  }

  ModelSummary& summary_;
};

}  // namespace

ModelSummary summarise_onnx(const std::string& path, const ImportOptions& options) {
  OnnxModel model = read_onnx(path, options.limits);
  ModelSummary summary;
  return with_context([&] { return path; },
                      [&] {
                        const onnx::ModelProto& proto = *model.proto;
                        summary.name = proto.graph().name();
                        summary.producer = concat(proto.producer_name(), proto.producer_version().empty() ? "" : " ",
                                                  proto.producer_version());
                        summary.sha256 = model.sha256;
                        summary.files = model.files;
                        summary.ir_version = proto.ir_version();
                        for (const auto& opset : proto.opset_import())
                          summary.opsets[opset.domain().empty() ? "ai.onnx" : opset.domain()] = opset.version();
                        for (const auto& entry : proto.metadata_props()) summary.metadata[entry.key()] = entry.value();
                        summary.functions = proto.functions_size();
                        std::unordered_set<std::string_view> stored;
                        for (const auto& tensor : proto.graph().initializer()) stored.insert(tensor.name());
                        for (const auto& input : proto.graph().input())
                          if (!stored.contains(input.name()))
                            summary.inputs.push_back({input.name(), type_text(input.type())});
                        for (const auto& output : proto.graph().output())
                          summary.outputs.push_back({output.name(), type_text(output.type())});
                        Counter(summary).count(proto.graph());
                        try {
                          summary.model = import_onnx(OnnxModel(model), options);
                        } catch (const Error& error) {
                          if (error.kind() != ErrorKind::unsupported) throw;
                          Refusals refusals = refusals_of(model, options);
                          summary.refused = std::move(refusals.refused);
                          summary.not_looked_at = refusals.not_looked_at;
                          // One that only the whole shows, such as a combination of branches.
                          if (summary.refused.empty()) summary.refused.push_back({"", "", error.what()});
                        }
                        return std::move(summary);
                      });
}

}  // namespace temper
