// SPDX-License-Identifier: Apache-2.0
// Random small models of quantized layers, as ONNX: Q/DQ around Conv, MatMul and Gemm, QLinearConv and QLinearMatMul,
// residual sums, relu and clip between, scales per channel, zero points 0 to 3 (and the ends of the range), weights
// with zero points.
#pragma once
#include <onnx/onnx_pb.h>

#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "onnx/tensor_proto.h"

namespace temper::testing {

struct QuantizedModel {
  std::string bytes;
  std::vector<Tensor> inputs;
  float last_scale =
      1;  // of the only layer, where the model is one layer; what its sums of absolute values can be in units of that
  double most = 0;
};

class RandomQuantized {
 public:
  // `exact`: the scales are small numbers times powers of two, those that divide are powers of two, so that every sum
  // and quotient is exact in f32 and half of all numbers of steps are ties. Else they are any numbers.
  RandomQuantized(uint32_t seed, bool exact) : random_(seed), exact_(exact) {}

  QuantizedModel layers() {
    const int inputs = 1 + int(below(2));
    for (int i = 0; i < inputs; ++i) {
      add_input({2, 4, 5, 5});
      add_input({6, 8});
    }
    const int count = 2 + int(below(6));
    for (int i = 0; i < count; ++i) add_layer();
    for (const Quantized& v : values_)
      if (used_[v.integers] + used_[v.floats] == 0 || chance(0.2)) add_output(chance(0.5) ? v.integers : v.floats);
    return finish();
  }
  // One product between its input's and its result's quantization, or without the latter, which `open` leaves out.
  QuantizedModel one_layer(bool open) {
    const bool conv = chance(0.5);
    add_input(conv ? Dims{2, 4, 5, 5} : Dims{6, 8});
    const Product p = conv ? convolution(values_[0]) : product(values_[0]);
    const std::string y = chance(0.5) ? op("Relu", {p.name}) : p.name;
    const Quantized q = quantized(y, p.dims, p.size);
    add_output(open ? y : q.integers);
    result_.last_scale = q.s;
    result_.most = p.most / double(q.s);
    return finish();
  }

 private:
  struct Quantized {
    std::string integers, floats, scale, zero;
    Dims dims;
    float s = 1;
    int z = 0;
    DType dtype = DType::i8;
    double size = 1;  // about how large its values are
  };
  struct Product {
    std::string name;
    Dims dims;
    double size = 1, most = 1;
  };
  struct Weights {
    std::string integers, floats, scale, zero;
    std::vector<float> scales;
  };

  std::mt19937 random_;
  bool exact_;
  onnx::ModelProto model_;
  QuantizedModel result_;
  std::vector<Quantized> values_;
  std::map<std::string, int> used_;
  int counter_ = 0;

  size_t below(size_t n) { return random_() % n; }
  int between(int low, int high) { return low + int(below(size_t(high - low + 1))); }
  bool chance(double p) { return double(random_()) < p * 4294967296.0; }
  std::string name(const char* what) { return concat(what, counter_++); }
  onnx::GraphProto& graph() { return *model_.mutable_graph(); }

  std::string constant(const Tensor& tensor) {
    auto& out = *graph().add_initializer();
    out.set_name(name("c"));
    out.set_data_type(onnx_from_dtype(tensor.dtype()));
    for (int64_t dim : tensor.dims()) out.add_dims(dim);
    out.set_raw_data(tensor.raw().data(), tensor.raw().size());
    return out.name();
  }
  std::string scalar(float value) { return constant(Tensor::of<float>({}, {value})); }
  onnx::NodeProto& node(const std::string& type, const std::vector<std::string>& inputs, const std::string& output) {
    auto& out = *graph().add_node();
    out.set_op_type(type);
    out.set_name(output);
    for (const std::string& input : inputs) out.add_input(input), ++used_[input];
    out.add_output(output);
    return out;
  }
  std::string op(const std::string& type, const std::vector<std::string>& inputs) {
    return node(type, inputs, name("v")).output(0);
  }
  static void set(onnx::NodeProto& node, const char* attribute, std::vector<int64_t> values) {
    auto& out = *node.add_attribute();
    out.set_name(attribute);
    out.set_type(onnx::AttributeProto::INTS);
    for (int64_t value : values) out.add_ints(value);
  }
  static void set(onnx::NodeProto& node, const char* attribute, int64_t value) {
    auto& out = *node.add_attribute();
    out.set_name(attribute);
    out.set_type(onnx::AttributeProto::INT);
    out.set_i(value);
  }

  // About `size`: a power of two, or that times 3; or any number.
  float scale_near(double size, bool divides) {
    const double power = std::exp2(std::round(std::log2(size)));
    if (exact_) return float(divides || chance(0.6) ? power : power * 0.75);
    return float(power * (0.7 + double(random_()) / 4294967296.0 * 0.7));
  }
  int zero_of(DType dtype) {
    const int zero = between(0, 3);
    if (dtype == DType::u8) return chance(0.2) ? 128 - zero : zero;
    return chance(0.1) ? -128 : chance(0.2) ? -zero : zero;
  }
  std::string zero_constant(DType dtype, int zero) {
    return constant(Tensor::of<int64_t>({}, {zero}).converted(dtype));
  }

  Quantized parameters(Dims dims, double size) {
    Quantized q;
    q.dims = std::move(dims);
    q.size = size;
    q.dtype = chance(0.5) ? DType::u8 : DType::i8;
    q.z = zero_of(q.dtype);
    q.s = scale_near(size / 40, true);
    q.scale = scalar(q.s);
    q.zero = zero_constant(q.dtype, q.z);
    return q;
  }
  Quantized& keep(Quantized q) {
    q.floats = op("DequantizeLinear", {q.integers, q.scale, q.zero});
    --used_[q.integers];
    values_.push_back(std::move(q));
    return values_.back();
  }
  Quantized quantized(const std::string& y, const Dims& dims, double size) {
    Quantized q = parameters(dims, size);
    q.integers = op("QuantizeLinear", {y, q.scale, q.zero});
    return keep(std::move(q));
  }
  void add_input(const Dims& dims) {
    auto& input = *graph().add_input();
    input.set_name(name("x"));
    auto& type = *input.mutable_type()->mutable_tensor_type();
    type.set_elem_type(onnx::TensorProto::FLOAT);
    for (int64_t dim : dims) type.mutable_shape()->add_dim()->set_dim_value(dim);
    const Quantized q = quantized(input.name(), dims, 1);
    // Whole and half steps.
    Tensor x(DType::f32, dims);
    for (int64_t i = 0; i < x.count(); ++i) x.data<float>()[i] = float(between(-140, 140)) * 0.5f * q.s;
    result_.inputs.push_back(std::move(x));
  }
  void add_output(const std::string& value) {
    auto& output = *graph().add_output();
    output.set_name(value);
    // The checker wants some type; import infers its own.
    output.mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::FLOAT);
    output.mutable_type()->mutable_tensor_type()->mutable_shape();
  }

  // The output channels along `axis`.
  Weights weights(const Dims& dims, size_t axis, bool linear_conv = false) {
    const DType dtype = chance(0.7) ? DType::i8 : DType::u8;
    const bool per_channel = chance(0.6);
    Weights w;
    w.scales.resize(per_channel ? size_t(dims[axis]) : 1);
    for (float& s : w.scales) s = scale_near(0.01, false);
    std::vector<int64_t> zeros(w.scales.size());
    const bool shifted = dtype == DType::u8 || (!linear_conv && chance(0.3));
    for (int64_t& z : zeros) z = shifted ? (dtype == DType::u8 ? 128 : 0) + between(0, 3) : 0;
    Tensor integers(dtype, dims), scale(DType::f32, per_channel ? Dims{dims[axis]} : Dims{});
    std::copy(w.scales.begin(), w.scales.end(), scale.data<float>());
    const int64_t inner = row_major_strides(dims)[axis];
    for (int64_t i = 0; i < integers.count(); ++i) {
      const int64_t value = zeros[per_channel ? size_t(i / inner % dims[axis]) : 0] + between(-30, 30);
      if (dtype == DType::i8) integers.data<int8_t>()[i] = int8_t(value);
      else integers.data<uint8_t>()[i] = uint8_t(value);
    }
    w.integers = constant(integers);
    w.scale = constant(scale);
    w.zero = constant(Tensor::of<int64_t>(scale.dims(), zeros).converted(dtype));
    return w;
  }
  std::string floats(Weights& w, int64_t axis) {
    auto& out = node("DequantizeLinear", {w.integers, w.scale, w.zero}, name("w"));
    set(out, "axis", axis);
    return out.output(0);
  }
  // One a channel, in units of what the product sums; as i32 that is dequantized, or as floats.
  std::string bias(const Quantized& x, const Weights& w, int64_t channels, bool integers) {
    Tensor units(DType::i32, {channels}), scale(DType::f32, {channels}), real(DType::f32, {channels});
    for (int64_t c = 0; c < channels; ++c) {
      scale.data<float>()[c] = x.s * w.scales[w.scales.size() == 1 ? 0 : size_t(c)];
      units.data<int32_t>()[c] = between(-600, 600);
      real.data<float>()[c] = float(units.data<int32_t>()[c]) * scale.data<float>()[c];
    }
    if (integers) return constant(units);
    if (chance(0.5)) return constant(real);
    auto& out = node("DequantizeLinear", {constant(units), constant(scale)}, name("b"));
    set(out, "axis", 0);
    return out.output(0);
  }
  static double size_of_sum(const Quantized& x, const Weights& w, int64_t terms) {
    return x.size * 17 * double(w.scales[0]) * std::sqrt(double(terms));
  }
  static double most_of_sum(const Quantized& x, const Weights& w, int64_t terms) {
    return 260 * double(x.s) * 34 * 1.5 * double(w.scales[0]) * double(terms) * 2;
  }

  struct Window {
    int64_t out = 1, kernel = 1, group = 1, stride = 1, pad = 0;
    Dims weights, result;
  };
  Window window(const Quantized& x) {
    Window d;
    const int64_t in = x.dims[1];
    d.group = chance(0.2) ? in : 1;
    d.out = d.group == 1 ? between(2, 6) : in;
    d.kernel = x.dims[2] >= 3 && chance(0.7) ? 3 : 1;
    d.pad = d.kernel == 3 && chance(0.7) ? 1 : 0;
    d.stride = chance(0.2) ? 2 : 1;
    d.weights = {d.out, in / d.group, d.kernel, d.kernel};
    const int64_t side = (x.dims[2] + 2 * d.pad - d.kernel) / d.stride + 1;
    d.result = {x.dims[0], d.out, side, side};
    return d;
  }
  static void set_window(onnx::NodeProto& conv, const Window& d) {
    set(conv, "group", d.group);
    set(conv, "strides", {d.stride, d.stride});
    set(conv, "pads", {d.pad, d.pad, d.pad, d.pad});
    set(conv, "kernel_shape", {d.kernel, d.kernel});
  }
  Product convolution(const Quantized& x) {
    const Window d = window(x);
    Weights w = weights(d.weights, 0);
    std::vector<std::string> inputs{x.floats, floats(w, 0)};
    if (chance(0.5)) inputs.push_back(bias(x, w, d.out, false));
    auto& conv = node("Conv", inputs, name("v"));
    set_window(conv, d);
    const int64_t terms = element_count(d.weights) / d.out;
    return {conv.output(0), d.result, size_of_sum(x, w, terms), most_of_sum(x, w, terms + 10)};
  }
  Product product(const Quantized& x) {
    const int64_t terms = x.dims.back(), n = between(2, 8);
    const bool gemm = x.dims.size() == 2 && chance(0.5), transposed = gemm && chance(0.5);
    Weights w = weights(transposed ? Dims{n, terms} : Dims{terms, n}, transposed ? 0 : 1);
    const std::string b = floats(w, transposed ? 0 : 1);
    Dims dims = x.dims;
    dims.back() = n;
    std::string y;
    if (gemm) {
      auto& out = node("Gemm", {x.floats, b, bias(x, w, n, false)}, name("v"));
      set(out, "transB", transposed);
      y = out.output(0);
    } else {
      y = op("MatMul", {x.floats, b});
      if (chance(0.5)) y = op("Add", {y, bias(x, w, n, false)});
    }
    return {y, dims, size_of_sum(x, w, terms), most_of_sum(x, w, terms + 10)};
  }

  const Quantized pick() {
    return values_[values_.size() - 1 - std::min(below(values_.size()), below(values_.size()))];
  }
  std::optional<Quantized> beside(const Dims& dims) {
    for (int tries = 0; tries < 6; ++tries)
      if (const Quantized v = values_[below(values_.size())]; v.dims == dims) return v;
    return std::nullopt;
  }

  void add_layer() {
    const Quantized x = pick();
    switch (below(8)) {
      case 0:
      case 1:
      case 2: {
        Product p = x.dims.size() == 4 ? convolution(x) : product(x);
        if (const auto r = beside(p.dims); r && chance(0.7))
          p = {op("Add", chance(0.5) ? std::vector{p.name, r->floats} : std::vector{r->floats, p.name}), p.dims,
               p.size + r->size};
        if (chance(0.4)) p.name = op("Relu", {p.name});
        else if (chance(0.3)) p.name = op("Clip", {p.name, scalar(0), scalar(scale_near(p.size, true))});
        quantized(p.name, p.dims, p.size);
        break;
      }
      case 3:
      case 4: linear(x); break;
      case 5:
        if (const auto r = beside(x.dims)) quantized(op("Add", {x.floats, r->floats}), x.dims, x.size + r->size);
        break;
      case 6:
        if (x.dims.size() == 4 && x.dims[2] >= 3) {
          auto& pool = node("MaxPool", {x.floats}, name("v"));
          set(pool, "kernel_shape", {2, 2});
          quantized(pool.output(0), {x.dims[0], x.dims[1], x.dims[2] - 1, x.dims[3] - 1}, x.size);
        } else if (x.dims.size() == 2) {
          quantized(op("Transpose", {x.floats}), {x.dims[1], x.dims[0]}, x.size);
        }
        break;
      default: quantized(op("Relu", {x.floats}), x.dims, x.size * (chance(0.5) ? 1 : 4)); break;
    }
  }
  void linear(const Quantized& x) {
    if (x.dims.size() == 4) {
      const Window d = window(x);
      Weights w = weights(d.weights, 0, true);
      Quantized q = parameters(d.result, size_of_sum(x, w, element_count(d.weights) / d.out));
      std::vector<std::string> inputs{x.integers, x.scale, x.zero, w.integers, w.scale, w.zero, q.scale, q.zero};
      if (chance(0.5)) inputs.push_back(bias(x, w, d.out, true));
      auto& conv = node("QLinearConv", inputs, name("v"));
      set_window(conv, d);
      q.integers = conv.output(0);
      keep(std::move(q));
    } else {
      const int64_t terms = x.dims.back(), n = between(2, 8);
      const Weights w = weights({terms, n}, 1);
      Dims dims = x.dims;
      dims.back() = n;
      Quantized q = parameters(dims, size_of_sum(x, w, terms));
      q.integers = op("QLinearMatMul", {x.integers, x.scale, x.zero, w.integers, w.scale, w.zero, q.scale, q.zero});
      keep(std::move(q));
    }
  }

  QuantizedModel finish() {
    model_.set_ir_version(8);
    model_.add_opset_import()->set_version(17);
    graph().set_name("quantized");
    result_.bytes = model_.SerializeAsString();
    return std::move(result_);
  }
};

}  // namespace temper::testing
