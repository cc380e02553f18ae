// SPDX-License-Identifier: Apache-2.0
#include "zoo/builder.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/dtype.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/version.h"

namespace temper::zoo {

static_assert(std::endian::native == std::endian::little, "raw_data is little-endian");

namespace {

// SplitMix64 (Steele, Lea, Flood 2014) at position `index` of the stream `key`.
uint64_t random_bits(uint64_t key, uint64_t index) {
  uint64_t z = key + (index + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// Mean 0, variance 1: the sum of four 16-bit uniform numbers. It needs no function of the C library, whose last bits
// differ from one to the next, so the same seed gives the same weights everywhere. (2^32 - 1) / 3 is the sum's
// variance.
double normal(uint64_t key, uint64_t index) {
  const uint64_t bits = random_bits(key, index);
  const int64_t sum =
      int64_t(bits & 0xffff) + int64_t(bits >> 16 & 0xffff) + int64_t(bits >> 32 & 0xffff) + int64_t(bits >> 48);
  return double(sum - 2 * 65535) / std::sqrt(4294967295.0 / 3.0);
}

void set_type(onnx::ValueInfoProto& value, const std::string& name, onnx::TensorProto::DataType type,
              const std::vector<Axis>& shape) {
  value.set_name(name);
  auto& tensor = *value.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(type);
  tensor.mutable_shape();
  for (const Axis& axis : shape) {
    auto& dim = *tensor.mutable_shape()->add_dim();
    if (axis.symbol.empty()) dim.set_dim_value(axis.size);
    else dim.set_dim_param(axis.symbol);
  }
}

void set_attribute(onnx::NodeProto& node, const Attributes::value_type& attribute) {
  onnx::AttributeProto& made = *node.add_attribute();
  made.set_name(attribute.first);
  if (const auto* whole = std::get_if<int64_t>(&attribute.second)) {
    made.set_type(onnx::AttributeProto::INT);
    made.set_i(*whole);
  } else if (const auto* real = std::get_if<float>(&attribute.second)) {
    made.set_type(onnx::AttributeProto::FLOAT);
    made.set_f(*real);
  } else if (const auto* wholes = std::get_if<std::vector<int64_t>>(&attribute.second)) {
    made.set_type(onnx::AttributeProto::INTS);
    for (int64_t value : *wholes) made.add_ints(value);
  } else {
    made.set_type(onnx::AttributeProto::STRING);
    made.set_s(std::get<const char*>(attribute.second));
  }
}

}  // namespace

Builder::Builder(std::string_view graph_name, uint64_t seed, int opset)
    : graph_(model_.mutable_graph()), seed_(seed), opset_(opset) {
  // The first IR version whose release knew the opset.
  model_.set_ir_version(opset <= 14 ? 7 : opset <= 18 ? 8 : opset <= 20 ? 9 : 10);
  model_.set_producer_name("temper");
  model_.set_producer_version(std::string(version()));
  model_.add_opset_import()->set_version(opset);
  graph_->set_name(std::string(graph_name));
}

onnx::NodeProto& Builder::node(const std::string& op, const std::string& name, const std::vector<std::string>& inputs) {
  onnx::NodeProto& node = *graph_->add_node();
  node.set_op_type(op);
  node.set_name(name);
  for (const std::string& input : inputs) node.add_input(input);
  node.add_output(name);
  return node;
}

void Builder::input(const std::string& name, onnx::TensorProto::DataType type, const std::vector<Axis>& shape) {
  set_type(*graph_->add_input(), name, type, shape);
}

void Builder::output(const std::string& name, const std::vector<Axis>& shape) {
  set_type(*graph_->add_output(), name, onnx::TensorProto::FLOAT, shape);
}

std::string Builder::op(const std::string& type, const std::string& name, const std::vector<std::string>& inputs,
                        const Attributes& attributes, const std::vector<std::string>& more_outputs) {
  onnx::NodeProto& made = node(type, name, inputs);
  for (const std::string& output : more_outputs) made.add_output(output);
  for (const auto& attribute : attributes) set_attribute(made, attribute);
  return name;
}

onnx::TensorProto* Builder::constant(const std::string& name, onnx::TensorProto::DataType type) {
  if (!constants_.insert(name).second) return nullptr;
  onnx::TensorProto& tensor = *graph_->add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(type);
  return &tensor;
}

std::string Builder::integers(const std::vector<int64_t>& values) {
  std::string name = "integers";
  for (int64_t value : values) name += concat('_', value);
  if (onnx::TensorProto* tensor = constant(name, onnx::TensorProto::INT64)) {
    tensor->add_dims(int64_t(values.size()));
    for (int64_t value : values) tensor->add_int64_data(value);
  }
  return name;
}

std::string Builder::integer(int64_t value) {
  std::string name = concat("integer_", value);
  if (onnx::TensorProto* tensor = constant(name, onnx::TensorProto::INT64)) tensor->add_int64_data(value);
  return name;
}

std::string Builder::number(float value) {
  std::string name = concat("number_", value);
  if (onnx::TensorProto* tensor = constant(name, onnx::TensorProto::FLOAT)) tensor->add_float_data(value);
  return name;
}

std::string Builder::numbers(const std::vector<float>& values) {
  std::string name = "numbers";
  for (float value : values) name += concat('_', value);
  if (onnx::TensorProto* tensor = constant(name, onnx::TensorProto::FLOAT)) {
    tensor->add_dims(int64_t(values.size()));
    for (float value : values) tensor->add_float_data(value);
  }
  return name;
}

std::string Builder::weights(const std::string& name, const std::vector<int64_t>& dims, double mean, double deviation) {
  return weights(name, dims, mean, deviation, -1e30);
}

std::string Builder::weights(const std::string& name, const std::vector<int64_t>& dims, double mean, double deviation,
                             double least) {
  onnx::TensorProto& tensor = *graph_->add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(half_ ? onnx::TensorProto::FLOAT16 : onnx::TensorProto::FLOAT);
  size_t count = 1;
  for (int64_t dim : dims) {
    tensor.add_dims(dim);
    count *= size_t(dim);
  }
  const uint64_t key = random_bits(seed_, xxh3(name));  // one stream a tensor: no weight depends on the order of layers
  std::string& raw = *tensor.mutable_raw_data();
  const size_t width = half_ ? sizeof(Half) : sizeof(float);
  raw.resize(count * width);
  for (size_t i = 0; i < count; ++i) {
    const float value = float(std::max(least, mean + deviation * normal(key, i)));
    const uint16_t half = float_to_half_bits(value);
    std::memcpy(raw.data() + i * width, half_ ? static_cast<const void*>(&half) : &value, width);
  }
  return half_ ? op("Cast", name + ".f32", {name}, {{"to", int64_t(onnx::TensorProto::FLOAT)}}) : name;
}

std::string Builder::dense(const std::string& name, const std::string& x, int64_t in, int64_t out, bool bias) {
  const std::string weight = weights(name + ".weight", {out, in}, 0, std::sqrt(1.0 / double(in)));
  const std::string turned = op("Transpose", name + ".weight.T", {weight}, {{"perm", std::vector<int64_t>{1, 0}}});
  if (!bias) return op("MatMul", name, {x, turned});
  const std::string product = op("MatMul", name + ".product", {x, turned});
  return op("Add", name, {product, weights(name + ".bias", {out}, 0, 0.05)});
}

std::string Builder::layer_norm(const std::string& name, const std::string& x, int64_t width, float epsilon) {
  if (opset_ < 17) fail(ErrorKind::usage, "opset ", opset_, " has no layer normalization: this model needs 17 to 22");
  return op("LayerNormalization", name,
            {x, weights(name + ".weight", {width}, 1, 0.1), weights(name + ".bias", {width}, 0, 0.1)},
            {{"axis", int64_t(-1)}, {"epsilon", epsilon}});
}

std::string Builder::finish() {
  std::string bytes;
  if (!model_.SerializeToString(&bytes)) fail(ErrorKind::unsupported, "the model is larger than an ONNX file may be");
  return bytes;
}

Flow Builder::image(int64_t channels, int64_t height, int64_t width) {
  input("image", onnx::TensorProto::FLOAT, {"batch", channels, height, width});
  return {"image", channels};
}

Flow Builder::conv(const std::string& name, const Flow& in, const ConvOptions& o) {
  const int64_t fan_in = in.channels / o.groups * o.kernel * o.kernel, pad = o.kernel / 2;
  std::vector<std::string> inputs{in.name,
                                  weights(name + ".weight", {o.out, in.channels / o.groups, o.kernel, o.kernel}, 0,
                                          std::sqrt(2.0 / double(fan_in)))};
  if (o.bias) inputs.push_back(weights(name + ".bias", {o.out}, 0, 0.05));
  op("Conv", name, inputs,
     {{"dilations", std::vector<int64_t>{1, 1}},
      {"group", o.groups},
      {"kernel_shape", std::vector<int64_t>{o.kernel, o.kernel}},
      {"pads", std::vector<int64_t>{pad, pad, pad, pad}},
      {"strides", std::vector<int64_t>{o.stride, o.stride}}});
  return {name, o.out};
}

Flow Builder::batch_norm(const std::string& name, const Flow& in, double gain) {
  op("BatchNormalization", name,
     {in.name, weights(name + ".weight", {in.channels}, gain, 0.1 * gain),
      weights(name + ".bias", {in.channels}, 0, 0.1), weights(name + ".running_mean", {in.channels}, 0, 0.1),
      weights(name + ".running_var", {in.channels}, 1, 0.2, 0.25)},
     {{"epsilon", 1e-5f}});
  return {name, in.channels};
}

Flow Builder::relu(const std::string& name, const Flow& in) {
  node("Relu", name, {in.name});
  return {name, in.channels};
}

Flow Builder::relu6(const std::string& name, const Flow& in) {
  node("Clip", name, {in.name, number(0), number(6)});
  return {name, in.channels};
}

Flow Builder::add(const std::string& name, const Flow& a, const Flow& b) {
  node("Add", name, {a.name, b.name});
  return {name, a.channels};
}

Flow Builder::max_pool(const std::string& name, const Flow& in, int64_t kernel, int64_t stride, int64_t padding) {
  op("MaxPool", name, {in.name},
     {{"kernel_shape", std::vector<int64_t>{kernel, kernel}},
      {"pads", std::vector<int64_t>{padding, padding, padding, padding}},
      {"strides", std::vector<int64_t>{stride, stride}}});
  return {name, in.channels};
}

Flow Builder::global_average_pool(const std::string& name, const Flow& in) {
  node("GlobalAveragePool", name, {in.name});
  return {name, in.channels};
}

Flow Builder::flatten(const std::string& name, const Flow& in, int64_t features) {
  op("Flatten", name, {in.name}, {{"axis", int64_t(1)}});
  return {name, features};
}

Flow Builder::linear(const std::string& name, const Flow& in, int64_t out) {
  op("Gemm", name,
     {in.name, weights(name + ".weight", {out, in.channels}, 0, std::sqrt(1.0 / double(in.channels))),
      weights(name + ".bias", {out}, 0, 0.05)},
     {{"transB", int64_t(1)}});
  return {name, out};
}

std::string Builder::finish(const Flow& logits) {
  graph_->mutable_node(graph_->node_size() - 1)->set_output(0, "logits");
  output("logits", {"batch", logits.channels});
  return finish();
}

}  // namespace temper::zoo
