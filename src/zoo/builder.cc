// SPDX-License-Identifier: Apache-2.0
#include "zoo/builder.h"

#include <algorithm>
#include <bit>
#include <cmath>

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

void add_ints(onnx::NodeProto& node, const char* name, std::initializer_list<int64_t> values) {
  onnx::AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::INTS);
  for (int64_t value : values) attribute.add_ints(value);
}

void add_int(onnx::NodeProto& node, const char* name, int64_t value) {
  onnx::AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::INT);
  attribute.set_i(value);
}

void set_type(onnx::ValueInfoProto& value, const std::string& name, std::initializer_list<int64_t> dims) {
  value.set_name(name);
  auto& tensor = *value.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(onnx::TensorProto::FLOAT);
  tensor.mutable_shape()->add_dim()->set_dim_param("batch");
  for (int64_t dim : dims) tensor.mutable_shape()->add_dim()->set_dim_value(dim);
}

}  // namespace

Builder::Builder(std::string_view graph_name, uint64_t seed, int opset) : graph_(model_.mutable_graph()), seed_(seed) {
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

std::string Builder::weights(const std::string& name, const std::vector<int64_t>& dims, double mean, double deviation,
                             double least) {
  onnx::TensorProto& tensor = *graph_->add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(onnx::TensorProto::FLOAT);
  size_t count = 1;
  for (int64_t dim : dims) {
    tensor.add_dims(dim);
    count *= size_t(dim);
  }
  const uint64_t key = random_bits(seed_, xxh3(name));  // one stream a tensor: no weight depends on the order of layers
  std::string& raw = *tensor.mutable_raw_data();
  raw.resize(count * sizeof(float));
  for (size_t i = 0; i < count; ++i) {
    const float value = float(std::max(least, mean + deviation * normal(key, i)));
    raw.replace(i * sizeof value, sizeof value, reinterpret_cast<const char*>(&value), sizeof value);
  }
  return name;
}

Flow Builder::image(int64_t channels, int64_t height, int64_t width) {
  set_type(*graph_->add_input(), "image", {channels, height, width});
  return {"image", channels};
}

Flow Builder::conv(const std::string& name, const Flow& in, const ConvOptions& o) {
  const int64_t fan_in = in.channels / o.groups * o.kernel * o.kernel, pad = o.kernel / 2;
  std::vector<std::string> inputs{in.name,
                                  weights(name + ".weight", {o.out, in.channels / o.groups, o.kernel, o.kernel}, 0,
                                          std::sqrt(2.0 / double(fan_in)))};
  if (o.bias) inputs.push_back(weights(name + ".bias", {o.out}, 0, 0.05));
  onnx::NodeProto& conv = node("Conv", name, inputs);
  add_ints(conv, "dilations", {1, 1});
  add_int(conv, "group", o.groups);
  add_ints(conv, "kernel_shape", {o.kernel, o.kernel});
  add_ints(conv, "pads", {pad, pad, pad, pad});
  add_ints(conv, "strides", {o.stride, o.stride});
  return {name, o.out};
}

Flow Builder::batch_norm(const std::string& name, const Flow& in, double gain) {
  onnx::NodeProto& norm =
      node("BatchNormalization", name,
           {in.name, weights(name + ".weight", {in.channels}, gain, 0.1 * gain),
            weights(name + ".bias", {in.channels}, 0, 0.1), weights(name + ".running_mean", {in.channels}, 0, 0.1),
            weights(name + ".running_var", {in.channels}, 1, 0.2, 0.25)});
  onnx::AttributeProto& epsilon = *norm.add_attribute();
  epsilon.set_name("epsilon");
  epsilon.set_type(onnx::AttributeProto::FLOAT);
  epsilon.set_f(1e-5f);
  return {name, in.channels};
}

Flow Builder::relu(const std::string& name, const Flow& in) {
  node("Relu", name, {in.name});
  return {name, in.channels};
}

Flow Builder::relu6(const std::string& name, const Flow& in) {
  for (const auto& limit : {std::pair{"relu6.min", 0.f}, std::pair{"relu6.max", 6.f}}) {
    const auto& all = graph_->initializer();
    if (std::any_of(all.begin(), all.end(), [&](const auto& tensor) { return tensor.name() == limit.first; })) continue;
    weights(limit.first, {}, limit.second, 0);
  }
  node("Clip", name, {in.name, "relu6.min", "relu6.max"});
  return {name, in.channels};
}

Flow Builder::add(const std::string& name, const Flow& a, const Flow& b) {
  node("Add", name, {a.name, b.name});
  return {name, a.channels};
}

Flow Builder::max_pool(const std::string& name, const Flow& in, int64_t kernel, int64_t stride, int64_t padding) {
  onnx::NodeProto& pool = node("MaxPool", name, {in.name});
  add_ints(pool, "kernel_shape", {kernel, kernel});
  add_ints(pool, "pads", {padding, padding, padding, padding});
  add_ints(pool, "strides", {stride, stride});
  return {name, in.channels};
}

Flow Builder::global_average_pool(const std::string& name, const Flow& in) {
  node("GlobalAveragePool", name, {in.name});
  return {name, in.channels};
}

Flow Builder::flatten(const std::string& name, const Flow& in, int64_t features) {
  add_int(node("Flatten", name, {in.name}), "axis", 1);
  return {name, features};
}

Flow Builder::linear(const std::string& name, const Flow& in, int64_t out) {
  onnx::NodeProto& gemm =
      node("Gemm", name,
           {in.name, weights(name + ".weight", {out, in.channels}, 0, std::sqrt(1.0 / double(in.channels))),
            weights(name + ".bias", {out}, 0, 0.05)});
  add_int(gemm, "transB", 1);
  return {name, out};
}

std::string Builder::finish(const Flow& logits) {
  graph_->mutable_node(graph_->node_size() - 1)->set_output(0, "logits");
  set_type(*graph_->add_output(), "logits", {logits.channels});
  return model_.SerializeAsString();
}

}  // namespace temper::zoo
