// SPDX-License-Identifier: Apache-2.0
#include "nvinfer/layers.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdio>

#include "base/checked.h"
#include "base/half.h"
#include "nvinfer/types.h"
#include "onnx/import.h"
#include "onnx/tensor_proto.h"

namespace temper::nvinfer {

namespace {

std::string list_of(const std::vector<int64_t>& values) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i) text += concat(i ? ", " : "", values[i]);
  return text + "]";
}
// A float in the text form of ONNX has a point or an exponent.
std::string real(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.9e", value);
  return text.data();
}

int64_t product(const Dims& dims) {
  int64_t all = 1;
  for (int64_t dim : dims) all *= dim;
  return all;
}

class Lowering {
 public:
  Lowering(Graph& graph, const Layer& layer, std::vector<ValueId> inputs, const LayerRules& its_rules)
      : rules(its_rules), graph_(graph), layer_(layer), inputs_(std::move(inputs)), is_read_(inputs_.size(), false) {}

  const LayerRules& rules;

  // ---- what the layer is told ----
  size_t input_count() const { return inputs_.size(); }
  bool has(size_t i) const { return i < inputs_.size() && inputs_[i].valid(); }
  ValueId in(size_t i) {
    if (!has(i)) bad("input ", i, " is missing");
    is_read_[i] = true;
    return inputs_[i];
  }
  // An input that nobody asked for would be left out of the answer.
  void refuse_unread() const {
    for (size_t i = 0; i < inputs_.size(); ++i)
      if (has(i) && !is_read_[i]) refuse("input ", i, " of the layer");
  }
  const TensorType& type(ValueId value) const { return graph_.type(value); }
  int64_t rank(ValueId value) const { return type(value).rank(); }
  // Null where it is no constant.
  const Tensor* known(ValueId value) const { return graph_.constant(value); }
  bool is_set(std::string_view name) const { return layer_.settings.find(name) != layer_.settings.end(); }
  std::vector<int64_t> ints(std::string_view name) const { return of<std::vector<int64_t>>(name); }
  std::vector<int64_t> ints(std::string_view name, std::vector<int64_t> otherwise) const {
    return is_set(name) ? ints(name) : std::move(otherwise);
  }
  int64_t number(std::string_view name) const {
    const std::vector<int64_t> values = ints(name);
    if (values.size() != 1) bad(name, " is no single number");
    return values[0];
  }
  int64_t number(std::string_view name, int64_t otherwise) const { return is_set(name) ? number(name) : otherwise; }
  std::vector<double> reals(std::string_view name) const { return of<std::vector<double>>(name); }
  double real_number(std::string_view name, double otherwise) const {
    if (!is_set(name)) return otherwise;
    const std::vector<double> values = reals(name);
    if (values.size() != 1) bad(name, " is no single number");
    return values[0];
  }
  const std::string& text(std::string_view name) const { return of<std::string>(name); }
  // Null where there are none, or none in it.
  const Tensor* weights(std::string_view name) const {
    if (!is_set(name)) return nullptr;
    const Tensor& tensor = of<Tensor>(name);
    return tensor.defined() && tensor.count() ? &tensor : nullptr;
  }
  // One axis, of a mask of them.
  int64_t single_axis(int64_t bits) const {
    const std::vector<int64_t> axes = axes_of(bits);
    if (axes.size() != 1) bad("axes ", bits, " are not one axis");
    return axes[0];
  }
  std::vector<int64_t> axes_of(int64_t bits) const {
    std::vector<int64_t> axes;
    for (int64_t axis = 0; axis < 32; ++axis)
      if (bits >> axis & 1) axes.push_back(axis);
    return axes;
  }

  // ---- what becomes of it ----
  ValueId constant(Tensor tensor, std::string_view what) {
    const bool is_float = is_half(tensor.dtype());
    if (is_float && !rules.keeps_float_types) tensor = tensor.converted(DType::f32);
    return graph_.add_constant(concat(layer_.name, ".", what), std::move(tensor));
  }
  // Weights as a constant of these dimensions.
  ValueId constant_of(std::string_view name, const Dims& dims) {
    const Tensor* const tensor = weights(name);
    if (!tensor) bad("the weights of ", name, " are missing");
    if (tensor->count() != product(dims))
      bad("there are ", tensor->count(), " weights of ", name, " for the dimensions ", dims);
    return constant(tensor->reshaped(dims), name);
  }
  ValueId int_list(const std::vector<int64_t>& values) {
    return graph_.add_constant(concat(layer_.name, ".ints"), Tensor::of<int64_t>({int64_t(values.size())}, values));
  }
  ValueId scalar(DType dtype, double value) {
    Tensor tensor(DType::f64, {});
    tensor.data<double>()[0] = value;
    return graph_.add_constant(concat(layer_.name, ".scalar"), tensor.converted(dtype));
  }
  // A node of ONNX: its one output, or all of `outputs`.
  std::vector<ValueId> many(std::string_view op, const std::vector<ValueId>& inputs, const std::string& attributes,
                            size_t outputs) {
    std::string in, out;
    for (size_t i = 0; i < inputs.size(); ++i) in += concat(i ? ", x" : "x", i);
    for (size_t i = 0; i < outputs; ++i) out += concat(i ? ", y" : "y", i);
    return add_onnx(graph_,
                    concat("(", in, ") => (", out, ") { ", out, " = ", op,
                           attributes.empty() ? "" : concat(" <", attributes, ">"), " (", in, ") }"),
                    inputs, layer_.name);
  }
  ValueId node(std::string_view op, const std::vector<ValueId>& inputs, const std::string& attributes = "") {
    return many(op, inputs, attributes, 1)[0];
  }
  ValueId cast(ValueId x, DType dtype) {
    return type(x).dtype == dtype ? x : node("Cast", {x}, concat("to = ", onnx_from_dtype(dtype)));
  }
  // Indices and shapes: ONNX wants 64 bits, TensorRT gives 32.
  ValueId wide(ValueId x) { return cast(x, DType::i64); }
  ValueId narrow(ValueId x) { return cast(x, DType::i32); }
  ValueId swapped(ValueId x) {  // its last two axes
    const int64_t n = rank(x);
    if (n < 2) bad("a transposed matrix has ", n, " dimensions");
    std::vector<int64_t> perm;
    for (int64_t i = 0; i < n; ++i) perm.push_back(i);
    std::swap(perm[size_t(n - 2)], perm[size_t(n - 1)]);
    return node("Transpose", {x}, concat("perm = ", list_of(perm)));
  }

  template <class... Parts>
  [[noreturn]] void bad(const Parts&... parts) const {
    fail(ErrorKind::usage, parts...);
  }
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    fail(ErrorKind::unsupported, parts..., ": not in Temper");
  }

 private:
  Graph& graph_;
  const Layer& layer_;
  std::vector<ValueId> inputs_;
  std::vector<bool> is_read_;  // by input

  template <class T>
  const T& of(std::string_view name) const {
    const auto it = layer_.settings.find(name);
    if (it == layer_.settings.end()) bad(name, " is not set");
    const T* const value = std::get_if<T>(&it->second);
    if (!value) bad(name, " was set to something of another kind");
    return *value;
  }
};

using Values = std::vector<ValueId>;

// What a concatenation or softmax that names no axis runs along: the channels of a picture.
int64_t usual_axis(int64_t rank) { return std::max<int64_t>(0, rank - 3); }

// ---- convolutions and pooling ----

// Where windows lie along their axes. `reaches`: what one takes of each, dilation included.
enum class Window { convolution, deconvolution, pooling };

// Paddings and strides of a window of so many axes, as attributes.
std::string window_of(Lowering& l, Window window, const Dims& reaches) {
  enum { down, up, same_upper, same_lower, caffe_down, caffe_up };
  const size_t axes = reaches.size();
  const Dims ones(axes, 1), none(axes, 0);
  const auto given = [&](std::string_view name, const Dims& otherwise) {
    Dims dims = l.ints(name, otherwise);
    if (dims.size() != axes) l.bad(name, " has ", dims.size(), " dimensions; the window has ", axes);
    return dims;
  };
  const Dims stride = given("stride", ones);
  for (int64_t step : stride)
    if (step < 1) l.bad("stride is ", stride);
  std::string text = concat("strides = ", list_of(stride));
  const int64_t mode = l.number("padding_mode", down);
  Dims before = given("pre_padding", none), behind = given("post_padding", none);
  if (mode == same_upper || mode == same_lower) {
    if (window != Window::deconvolution)
      return concat(text, ", auto_pad = \"SAME_", mode == same_upper ? "UPPER\"" : "LOWER\"");
    // A stride beyond the window leaves gaps, and nothing to cut off; ONNX would fill the last one.
    for (size_t i = 0; i < axes; ++i) {
      const int64_t all = std::max<int64_t>(reaches[i] - stride[i], 0);
      before[i] = mode == same_upper ? all / 2 : all - all / 2;
      behind[i] = all - before[i];
    }
  } else if (mode == up || mode == caffe_up) {
    if (window == Window::pooling) {
      text += ", ceil_mode = 1";
      // TensorRT counts a last window that begins in the padding behind the input, ONNX does not.
      for (size_t i = 0; i < axes; ++i) {
        if (behind[i] == 0 && stride[i] <= reaches[i]) continue;
        if (l.rank(l.in(0)) < int64_t(axes)) l.bad("the input has ", l.rank(l.in(0)), " dimensions");
        const Dim& dim = l.type(l.in(0)).shape[size_t(l.rank(l.in(0))) - axes + i];
        if (!dim.is_constant()) l.refuse("a size of a pooling that is rounded up, of an axis of unknown size");
        const int64_t room = dim.value() + before[i];
        if (ceil_div<int64_t>(room + behind[i] - reaches[i], stride[i]) * stride[i] >= room)
          l.refuse("a last window of a pooling that begins behind its input");
      }
    }
    // As many zeros behind the input as the last window reaches beyond it.
    for (size_t i = 0; window == Window::convolution && i < axes; ++i) {
      if (l.rank(l.in(0)) < int64_t(axes)) l.bad("the input has ", l.rank(l.in(0)), " dimensions");
      const Dim& dim = l.type(l.in(0)).shape[size_t(l.rank(l.in(0))) - axes + i];
      if (stride[i] == 1) continue;
      if (!dim.is_constant()) l.refuse("a size of a convolution that is rounded up, of an axis of unknown size");
      const int64_t rest = (dim.value() + before[i] + behind[i] - reaches[i]) % stride[i];
      if (rest > 0) behind[i] += stride[i] - rest;
    }
  } else if (mode != down && mode != caffe_down) l.bad("padding_mode ", mode, " is none");
  before.insert(before.end(), behind.begin(), behind.end());
  return concat(text, ", pads = ", list_of(before));
}

// Weights of a kernel, or input 1; `maps` first, and as many channels as there are weights for.
ValueId kernel_of(Lowering& l, bool is_transposed) {
  if (l.has(1)) return l.in(1);
  const Tensor* const weights = l.weights("kernel");
  if (!weights) l.bad("the weights of kernel are missing");
  const int64_t maps = l.number("maps"), groups = l.number("groups", 1);
  Dims dims = l.ints("kernel_size");
  // A convolution's are [maps, channels / groups, ...], a deconvolution's [channels, maps / groups, ...].
  const int64_t known = product(dims) * (is_transposed ? maps / std::max<int64_t>(groups, 1) : maps);
  if (known <= 0 || weights->count() % known)
    l.bad("there are ", weights->count(), " weights of kernel, for ", maps, " maps and a window of ", dims);
  const int64_t other = weights->count() / known;
  const Dims first = is_transposed ? Dims{other, maps / groups} : Dims{maps, other};
  dims.insert(dims.begin(), first.begin(), first.end());
  return l.constant_of("kernel", dims);
}

Values convolve(Lowering& l, const char* op, bool is_transposed) {
  const size_t axes = l.ints("kernel_size").size();
  const ValueId kernel = kernel_of(l, is_transposed);
  std::vector<ValueId> inputs = {l.in(0), kernel};
  if (l.has(2)) inputs.push_back(l.in(2));
  else if (l.weights("bias")) inputs.push_back(l.constant_of("bias", {l.number("maps")}));
  const Dims dilation = l.ints("dilation", Dims(axes, 1));
  if (dilation.size() != axes) l.bad("dilation has ", dilation.size(), " dimensions; the window has ", axes);
  Dims reaches = l.ints("kernel_size");
  for (size_t i = 0; i < axes; ++i) reaches[i] = (reaches[i] - 1) * dilation[i] + 1;
  const std::string window = window_of(l, is_transposed ? Window::deconvolution : Window::convolution, reaches);
  return {l.node(op, inputs, concat(window, ", dilations = ", list_of(dilation), ", group = ", l.number("groups", 1)))};
}
Values convolution(Lowering& l) { return convolve(l, "Conv", false); }
Values deconvolution(Lowering& l) { return convolve(l, "ConvTranspose", true); }

// The last three dimensions are one vector, and its product with the kernel is [..., maps, 1, 1].
Values fully_connected(Lowering& l) {
  const ValueId x = l.in(0);
  if (l.rank(x) < 4) l.bad("the input has ", l.rank(x), " dimensions; a batch and three of features are expected");
  const Tensor* const weights = l.weights("kernel");
  const int64_t maps = l.number("maps");
  if (!weights || maps <= 0 || weights->count() % maps) l.bad("the weights of kernel do not fit ", maps, " outputs");
  const ValueId kernel = l.swapped(l.constant_of("kernel", {maps, weights->count() / maps}));
  std::vector<int64_t> copied(size_t(l.rank(x)) - 3, 0);
  copied.push_back(-1);
  ValueId y = l.node("MatMul", {l.node("Reshape", {x, l.int_list(copied)}), kernel});
  if (l.weights("bias")) y = l.node("Add", {y, l.constant_of("bias", {maps})});
  return {l.node("Unsqueeze", {y, l.int_list({-2, -1})})};
}

Values pooling(Lowering& l) {
  enum { max, average, blend };
  const ValueId x = l.in(0);
  const Dims size = l.ints("window");
  const std::string window = concat("kernel_shape = ", list_of(size), ", ", window_of(l, Window::pooling, size));
  const auto largest = [&] { return l.node("MaxPool", {x}, window); };
  const auto mean = [&] {
    return l.node("AveragePool", {x},
                  concat(window, ", count_include_pad = ", l.number("average_excludes_padding", 1) ? 0 : 1));
  };
  switch (l.number("operation")) {
    case max: return {largest()};
    case average: return {mean()};
    case blend: {  // (1 - b) max + b average
      const double b = l.real_number("blend", 0);
      return {l.node("Add", {l.node("Mul", {largest(), l.scalar(l.type(x).dtype, 1 - b)}),
                             l.node("Mul", {mean(), l.scalar(l.type(x).dtype, b)})})};
    }
    default: l.bad("there is no pooling ", l.number("operation"));
  }
}

Values lrn(Lowering& l) {
  return {l.node("LRN", {l.in(0)},
                 concat("size = ", l.number("window"), ", alpha = ", real(l.real_number("alpha", 1e-4)),
                        ", beta = ", real(l.real_number("beta", 0.75)), ", bias = ", real(l.real_number("k", 1))))};
}

// ---- one element after the other ----

Values activation(Lowering& l) {
  const ValueId x = l.in(0);
  const DType dtype = l.type(x).dtype;
  const auto with = [&](const char* op, double alpha, double beta, const char* beta_name) {
    return Values{l.node(op, {x},
                         concat("alpha = ", real(l.real_number("alpha", alpha)),
                                beta_name ? concat(", ", beta_name, " = ", real(l.real_number("beta", beta))) : ""))};
  };
  const auto scalar = [&](const char* name, double otherwise) {
    return l.scalar(dtype, l.real_number(name, otherwise));
  };
  switch (l.number("operation")) {
    case 0: return {l.node("Relu", {x})};
    case 1: return {l.node("Sigmoid", {x})};
    case 2: return {l.node("Tanh", {x})};
    case 3: return with("LeakyRelu", 0.01, 0, nullptr);
    case 4: return with("Elu", 1, 0, nullptr);
    case 5: return with("Selu", 1.67326319217681884765625, 1.05070102214813232421875, "gamma");
    case 6: return {l.node("Softsign", {x})};
    case 7:  // alpha log(exp(beta x) + 1)
      return {l.node("Mul", {l.node("Softplus", {l.node("Mul", {x, scalar("beta", 1)})}), scalar("alpha", 1)})};
    case 8:  // max(alpha, min(beta, x))
      return {l.node("Max", {l.node("Min", {x, scalar("beta", 0)}), scalar("alpha", 0)})};
    case 9: return with("HardSigmoid", 0.2, 0.5, "beta");
    case 10:  // alpha tanh(beta x)
      return {l.node("Mul", {l.node("Tanh", {l.node("Mul", {x, scalar("beta", 1)})}), scalar("alpha", 1)})};
    case 11: return with("ThresholdedRelu", 1, 0, nullptr);
    case 12: return {l.node("Gelu", {x})};
    case 13: return {l.node("Gelu", {x}, "approximate = \"tanh\"")};
    default: l.bad("there is no activation ", l.number("operation"));
  }
}

// (x * scale + shift) ^ power, each of them for all elements, by channel, or by element of a sample.
Values scale(Lowering& l) {
  enum { uniform, by_channel, by_element };
  ValueId x = l.in(0);
  const int64_t axis = l.number("channel_axis", 1), mode = l.number("mode");
  if (axis < 0 || axis >= l.rank(x)) l.bad("channel_axis is ", axis, "; the input has ", l.rank(x), " dimensions");
  const auto operand = [&](const char* name) {
    Dims dims;
    if (mode == by_element)
      for (int64_t i = axis; i < l.rank(x); ++i) dims.push_back(l.type(x).shape[size_t(i)].value());
    else if (mode == by_channel) {
      dims.assign(size_t(l.rank(x) - axis), 1);
      dims[0] = l.weights(name)->count();
    } else if (mode != uniform) l.bad("there is no mode ", mode);
    return l.constant_of(name, dims);
  };
  if (l.weights("scale")) x = l.node("Mul", {x, operand("scale")});
  if (l.weights("shift")) x = l.node("Add", {x, operand("shift")});
  if (const Tensor* const power = l.weights("power")) {
    const std::vector<double> values = power->to_doubles();
    if (std::any_of(values.begin(), values.end(), [](double p) { return p != 1; }))
      x = l.node("Pow", {x, operand("power")});
  }
  return {l.node("Identity", {x})};
}

Values elementwise(Lowering& l) {
  constexpr std::array<const char*, 14> ops = {"Add", "Mul", "Max", "Min", "Sub",   "Div",     "Pow",
                                               "",    "And", "Or",  "Xor", "Equal", "Greater", "Less"};
  const ValueId a = l.in(0), b = l.in(1);
  if (l.rank(a) != l.rank(b))
    l.bad("the inputs have ", l.rank(a), " and ", l.rank(b), " dimensions; as many are expected");
  const int64_t op = l.number("operation");
  if (op < 0 || op >= int64_t(ops.size())) l.bad("there is no operation ", op, " of two tensors");
  if (*ops[size_t(op)]) return {l.node(ops[size_t(op)], {a, b})};
  // Division that rounds down. ONNX's division of integers rounds towards zero.
  const ValueId q = l.node("Div", {a, b});
  if (const DType dtype = l.type(a).dtype; dtype == DType::f32 || is_half(dtype)) return {l.node("Floor", {q})};
  const ValueId rest = l.node("Sub", {a, l.node("Mul", {q, b})}), zero = l.scalar(l.type(a).dtype, 0);
  const ValueId differ = l.node("Less", {l.node("Mul", {rest, b}), zero});
  return {l.node("Sub", {q, l.cast(differ, l.type(a).dtype)})};
}

Values unary(Lowering& l) {
  constexpr std::array<const char*, 25> ops = {
      "Exp",  "Log",   "Sqrt",  "Reciprocal", "Abs",  "Neg",   "Sin", "Cos", "Tan",  "Sinh",  "Cosh",  "Asin", "Acos",
      "Atan", "Asinh", "Acosh", "Atanh",      "Ceil", "Floor", "Erf", "Not", "Sign", "Round", "IsInf", "IsNaN"};
  const int64_t op = l.number("operation");
  if (op < 0 || op >= int64_t(ops.size())) l.bad("there is no operation ", op, " of one tensor");
  return {l.node(ops[size_t(op)], {l.in(0)})};
}

Values parametric_relu(Lowering& l) { return {l.node("PRelu", {l.in(0), l.in(1)})}; }
Values select(Lowering& l) { return {l.node("Where", {l.in(0), l.in(1), l.in(2)})}; }

DType type_setting(Lowering& l, std::string_view name) {
  const auto dtype = type_of_number(int32_t(l.number(name)));
  if (!dtype) l.refuse("the type ", l.number(name), " of TensorRT");
  return *dtype;
}
// A float that is no f32 is f32 in a network whose flags choose precisions.
DType kept(const Lowering& l, DType dtype) { return is_half(dtype) && !l.rules.keeps_float_types ? DType::f32 : dtype; }
// Until 10.x an identity whose output has a type of its own is a cast.
Values identity(Lowering& l) {
  const ValueId y = l.is_set("output_type") ? l.cast(l.in(0), kept(l, type_setting(l, "output_type"))) : l.in(0);
  return {l.node("Identity", {y})};
}
Values cast(Lowering& l) { return {l.node("Identity", {l.cast(l.in(0), kept(l, type_setting(l, "to")))})}; }

// ---- sums, products, orders ----

Values reduce(Lowering& l) {
  constexpr std::array<const char*, 5> ops = {"ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin", "ReduceMean"};
  const int64_t op = l.number("operation");
  if (op < 0 || op >= int64_t(ops.size())) l.bad("there is no reduction ", op);
  // ONNX takes no axes for all of them.
  if (l.number("axes") == 0) l.bad("a reduction along no axis (axes = 0)");
  return {l.node(ops[size_t(op)], {l.in(0), l.int_list(l.axes_of(l.number("axes")))},
                 concat("keepdims = ", l.number("keep", 0)))};
}

Values matrix_multiply(Lowering& l) {
  enum { none, transpose, vector };
  std::array<ValueId, 2> operands;
  for (size_t i = 0; i < 2; ++i) {
    const int64_t op = l.number(i ? "operation1" : "operation0");
    operands[i] = l.in(i);
    if (op == transpose) operands[i] = l.swapped(operands[i]);
    else if (op == vector) operands[i] = l.node("Unsqueeze", {operands[i], l.int_list({i ? -1 : -2})});
    else if (op != none) l.bad("there is no operation ", op, " of a matrix");
  }
  if (l.rank(operands[0]) != l.rank(operands[1]))
    l.bad("the matrices have ", l.rank(operands[0]), " and ", l.rank(operands[1]), " dimensions; as many are expected");
  ValueId y = l.node("MatMul", {operands[0], operands[1]});
  if (l.number("operation1") == vector) y = l.node("Squeeze", {y, l.int_list({-1})});
  if (l.number("operation0") == vector)
    y = l.node("Squeeze", {y, l.int_list({l.number("operation1") == vector ? -1 : -2})});
  return {y};
}

Values softmax(Lowering& l) {
  const ValueId x = l.in(0);
  const int64_t bits = l.number("axes", int64_t(1) << usual_axis(l.rank(x)));
  return {l.node("Softmax", {x}, concat("axis = ", l.single_axis(bits)))};
}

Values topk(Lowering& l) {
  enum { max, min };
  if (!l.has(1) && l.number("k") < 1) l.bad("k = ", l.number("k"), ": at least 1 is expected");
  const ValueId k = l.has(1) ? l.node("Reshape", {l.wide(l.in(1)), l.int_list({1})}) : l.int_list({l.number("k")});
  const Values found = l.many(
      "TopK", {l.in(0), k},
      concat("axis = ", l.single_axis(l.number("axes")), ", largest = ", l.number("operation") == max ? 1 : 0), 2);
  return {found[0], l.narrow(found[1])};
}

// (x - mean) / sqrt(variance + epsilon) * scale + bias over the axes; with groups, over each group of channels and all
// behind it.
Values normalization(Lowering& l) {
  ValueId x = l.in(0);
  const DType dtype = l.type(x).dtype;
  const int64_t groups = l.number("groups", 1);
  std::vector<int64_t> axes = l.axes_of(l.number("axes"));
  const ValueId before = x;
  if (groups != 1) {
    x = l.node("Reshape", {x, l.int_list({0, groups, -1})});
    axes = {2};
  }
  const ValueId over = l.int_list(axes);
  const ValueId centred = l.node("Sub", {x, l.node("ReduceMean", {x, over}, "keepdims = 1")});
  const ValueId variance = l.node("ReduceMean", {l.node("Mul", {centred, centred}), over}, "keepdims = 1");
  const ValueId deviation =
      l.node("Sqrt", {l.node("Add", {variance, l.scalar(dtype, l.real_number("epsilon", 1e-5))})});
  ValueId y = l.node("Div", {centred, deviation});
  if (groups != 1) y = l.node("Reshape", {y, l.node("Shape", {before})});
  return {l.node("Add", {l.node("Mul", {y, l.in(1)}), l.in(2)})};
}

Values cumulative(Lowering& l) {
  const ValueId axis = l.node("Reshape", {l.wide(l.in(1)), l.int_list({})});
  return {l.node("CumSum", {l.in(0), axis},
                 concat("exclusive = ", l.number("exclusive", 0), ", reverse = ", l.number("reverse", 0)))};
}

Values einsum(Lowering& l) {
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < l.input_count(); ++i) inputs.push_back(l.in(i));
  const std::string& equation = l.text("equation");
  if (equation.find_first_of("\"\\") != std::string::npos) l.bad("the equation is none: ", equation);
  return {l.node("Einsum", inputs, concat("equation = \"", equation, "\""))};
}

// ---- where elements go ----

Values constant(Lowering& l) { return {l.node("Identity", {l.constant_of("weights", l.ints("dims"))})}; }

Values concatenation(Lowering& l) {
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < l.input_count(); ++i) inputs.push_back(l.in(i));
  if (inputs.empty()) l.bad("a concatenation of nothing");
  return {l.node("Concat", inputs, concat("axis = ", l.number("axis", usual_axis(l.rank(inputs[0])))))};
}

// The first transpose, the reshape, the second transpose: each where it is asked for.
Values shuffle(Lowering& l) {
  ValueId x = l.in(0);
  const auto transpose = [&](const char* name) {
    if (!l.is_set(name)) return;
    std::vector<int64_t> perm = l.ints(name);
    if (int64_t(perm.size()) > l.rank(x)) perm.resize(size_t(l.rank(x)));
    x = l.node("Transpose", {x}, concat("perm = ", list_of(perm)));
  };
  transpose("first_transpose");
  const std::string zeros = concat("allowzero = ", l.number("zero_is_placeholder", 1) ? 0 : 1);
  if (l.has(1)) x = l.node("Reshape", {x, l.wide(l.in(1))}, zeros);
  else if (l.is_set("reshape")) x = l.node("Reshape", {x, l.int_list(l.ints("reshape"))}, zeros);
  transpose("second_transpose");
  return {l.node("Identity", {x})};
}

// Only spaces of width and height; what is negative is cut off.
Values padding(Lowering& l) {
  const Dims pre = l.ints("pre_padding"), post = l.ints("post_padding");
  const ValueId x = l.in(0);
  if (pre.size() != post.size() || int64_t(pre.size()) > l.rank(x)) l.bad("paddings ", pre, " and ", post);
  Dims pads(size_t(l.rank(x)) * 2, 0);
  std::copy_backward(pre.begin(), pre.end(), pads.begin() + l.rank(x));
  std::copy_backward(post.begin(), post.end(), pads.end());
  return {l.node("Pad", {x, l.int_list(pads)})};
}

// Elements start, start + stride, ... of each axis, all of which lie in the input.
ValueId sliced(Lowering& l, ValueId x, const Dims& start, const Dims& size, Dims step) {
  Dims end = start, axes;
  bool repeats = false;
  for (size_t i = 0; i < start.size(); ++i) {
    axes.push_back(int64_t(i));
    if (size[i] < 0 || start[i] < 0) l.bad("start ", start, " and size ", size);
    // ONNX leaves out what lies beyond the input, and does not say so.
    const Dim& dim = l.type(x).shape[i];
    const int64_t last = start[i] + (size[i] - 1) * step[i];
    if (size[i] && (last < 0 || (dim.is_constant() && std::max(last, start[i]) >= dim.value())))
      l.bad("elements ", start[i], " to ", last, " of axis ", i, ", which has ", dim);
    end[i] = step[i] < 0 && start[i] + size[i] * step[i] < 0 ? INT64_MIN : start[i] + size[i] * step[i];
    if (step[i] == 0) repeats = true, end[i] = start[i] + 1, step[i] = 1;
  }
  const ValueId y = l.node("Slice", {x, l.int_list(start), l.int_list(end), l.int_list(axes), l.int_list(step)});
  return repeats ? l.node("Expand", {y, l.int_list(size)}) : y;
}

enum class SampleMode : uint8_t { strict, wrap, clamp, fill, reflect };

// The element that stands where `at` is, outside of 0 to n - 1.
int64_t inside(SampleMode mode, int64_t at, int64_t n) {
  const auto modulo = [](int64_t value, int64_t period) { return ((value % period) + period) % period; };
  if (mode == SampleMode::clamp) return std::clamp<int64_t>(at, 0, n - 1);
  if (mode == SampleMode::wrap) return modulo(at, n);
  const int64_t period = std::max<int64_t>(2 * (n - 1), 1), place = modulo(at, period);  // the edges are not repeated
  return place < n ? place : period - place;
}

// A slice that may leave its input: there it has a value, or elements of the input that an index tells.
ValueId sampled(Lowering& l, SampleMode mode, ValueId x, Dims start, const Dims& size, Dims step) {
  const size_t rank = start.size();
  Dims before(rank, 0), behind(rank, 0), whole = size;
  std::vector<std::pair<size_t, std::vector<int64_t>>> indices;  // by axis
  for (size_t i = 0; i < rank; ++i) {
    if (size[i] < 0) l.bad("size ", size);
    if (size[i] == 0) {
      start[i] = 0;
      continue;
    }
    const Dim& dim = l.type(x).shape[i];
    if (!dim.is_constant()) l.refuse("SampleMode ", int(mode), " along axis ", i, " of unknown size");
    const int64_t n = dim.value(), last = start[i] + (size[i] - 1) * step[i];
    const int64_t low = std::min(start[i], last), high = std::max(start[i], last);
    if (low >= 0 && high < n) continue;
    if (mode == SampleMode::fill) {
      before[i] = std::max<int64_t>(0, -low);
      behind[i] = std::max<int64_t>(0, high - n + 1);
      start[i] += before[i];
      continue;
    }
    if (n == 0) l.bad("there is nothing along axis ", i, " of which size ", size, " could be taken");
    auto& [axis, list] = indices.emplace_back(i, std::vector<int64_t>());
    for (int64_t k = 0; k < size[i]; ++k) list.push_back(inside(mode, start[i] + k * step[i], n));
    start[i] = 0, whole[i] = n, step[i] = 1;
  }
  if (mode == SampleMode::fill) {
    const DType dtype = l.type(x).dtype;
    const ValueId value = l.has(4) ? l.node("Reshape", {l.cast(l.in(4), dtype), l.int_list({})}) : l.scalar(dtype, 0);
    before.insert(before.end(), behind.begin(), behind.end());
    if (std::any_of(before.begin(), before.end(), [](int64_t pad) { return pad != 0; }))
      x = l.node("Pad", {x, l.int_list(before), value});
  }
  x = sliced(l, x, start, whole, step);
  for (const auto& [axis, list] : indices) x = l.node("Gather", {x, l.int_list(list)}, concat("axis = ", axis));
  return x;
}

Values slice(Lowering& l) {
  const ValueId x = l.in(0);
  const int64_t number = l.number("mode", 0);
  if (number < 0 || number > int64_t(SampleMode::reflect)) l.bad("there is no mode ", number);
  const auto mode = SampleMode(number);
  if (l.has(5)) l.refuse("the axes of a slice as an input");
  const auto known = [&](size_t i) { return !l.has(i) || l.known(l.in(i)); };
  const auto given = [&](size_t i, const char* name) { return l.has(i) ? l.known(l.in(i))->to_ints() : l.ints(name); };
  if (known(1) && known(2) && known(3)) {
    const Dims start = given(1, "start"), size = given(2, "size"), step = given(3, "stride");
    if (start.size() != size.size() || start.size() != step.size() || int64_t(start.size()) != l.rank(x))
      l.bad("start ", start, ", size ", size, " and stride ", step, " for ", l.rank(x), " dimensions");
    if (mode == SampleMode::strict) return {sliced(l, x, start, size, step)};
    return {sampled(l, mode, x, start, size, step)};
  }
  if (mode != SampleMode::strict)
    l.refuse("a slice beyond its input (SampleMode ", number, ") whose start, size or stride comes as data");
  // Strides that come as data are taken as forward.
  const auto value = [&](size_t i, const char* name) { return l.has(i) ? l.wide(l.in(i)) : l.int_list(l.ints(name)); };
  if (known(3))
    for (int64_t step : given(3, "stride"))
      if (step <= 0) l.refuse("a stride of ", step, " where the start or the size comes as data");
  const ValueId start = value(1, "start"), size = value(2, "size"), step = value(3, "stride");
  Dims axes;
  for (int64_t i = 0; i < l.rank(x); ++i) axes.push_back(i);
  const ValueId end = l.node("Add", {start, l.node("Mul", {size, step})});
  return {l.node("Slice", {x, start, end, l.int_list(axes), step})};
}

Values shape(Lowering& l) {
  const ValueId y = l.node("Shape", {l.in(0)});
  return {l.rules.integers_are_int32 ? l.narrow(y) : y};
}

// Rows of a batch, each by indices of its own. The axis goes to the front of what is gathered from, and what was
// gathered back to where it was.
ValueId gather_of_batch(Lowering& l, int64_t axis) {
  ValueId x = l.in(0), at = l.in(1);
  const int64_t rank = l.rank(x), more = l.rank(at) - 1;
  if (rank < 2 || more < 0 || axis < 1 || axis >= rank)
    l.bad("axis ", axis, " of ", rank, " dimensions, by indices of ", more + 1, ", with one elementwise dimension");
  const Dim rows = l.type(x).shape[0], lists = l.type(at).shape[0];
  const auto spread = [&](ValueId value, const Dim& to) {  // a single one serves all
    if (!to.is_constant()) l.refuse("an elementwise dimension of 1 beside one of unknown size");
    Dims dims(size_t(l.rank(value)), 1);
    dims[0] = to.value();
    return l.node("Expand", {value, l.int_list(dims)});
  };
  if (rows != lists) {
    if (rows == Dim(1)) x = spread(x, lists);
    else if (lists == Dim(1)) at = spread(at, rows);
    else l.refuse("elementwise dimensions of ", rows, " and ", lists);
  }
  Dims front = {0, axis}, back = {0};
  for (int64_t i = 1; i < rank; ++i)
    if (i != axis) front.push_back(i);
  if (axis != 1) x = l.node("Transpose", {x}, concat("perm = ", list_of(front)));
  ValueId y = l.node("GatherND", {x, l.node("Unsqueeze", {l.wide(at), l.int_list({-1})})}, "batch_dims = 1");
  if (axis == 1) return y;
  for (int64_t i = 0; i < axis - 1; ++i) back.push_back(1 + more + i);
  for (int64_t i = 0; i < more; ++i) back.push_back(1 + i);
  for (int64_t i = axis - 1; i < rank - 2; ++i) back.push_back(1 + more + i);
  return l.node("Transpose", {y}, concat("perm = ", list_of(back)));
}

Values gather(Lowering& l) {
  enum { whole, element, nd };
  const int64_t batch = l.number("elementwise_dims", 0), axis = l.number("axis", 0);
  switch (l.number("mode", whole)) {
    case whole:
      if (batch == 1) return {gather_of_batch(l, axis)};
      if (batch) l.bad("a gather with ", batch, " elementwise dimensions outside of GatherMode.ND");
      return {l.node("Gather", {l.in(0), l.in(1)}, concat("axis = ", axis))};
    case element: return {l.node("GatherElements", {l.in(0), l.in(1)}, concat("axis = ", axis))};
    case nd: return {l.node("GatherND", {l.in(0), l.wide(l.in(1))}, concat("batch_dims = ", batch))};
    default: l.bad("there is no mode ", l.number("mode"));
  }
}

Values scatter(Lowering& l) {
  enum { element, nd };
  if (l.number("mode") == element)
    return {l.node("ScatterElements", {l.in(0), l.in(1), l.in(2)}, concat("axis = ", l.number("axis", 0)))};
  return {l.node("ScatterND", {l.in(0), l.wide(l.in(1)), l.in(2)})};
}

Values resize(Lowering& l) {
  constexpr std::array<const char*, 3> modes = {"nearest", "linear", "cubic"};
  constexpr std::array<const char*, 3> coordinates = {"align_corners", "asymmetric", "half_pixel"};
  constexpr std::array<const char*, 4> roundings = {"round_prefer_ceil", "round_prefer_floor", "floor", "ceil"};
  const auto word = [&](const auto& words, const char* name, int64_t otherwise) {
    const int64_t number = l.number(name, otherwise);
    if (number < 0 || number >= int64_t(words.size())) l.bad("there is no ", name, " ", number);
    return std::string(words[size_t(number)]);
  };
  const ValueId x = l.in(0);
  std::string coordinate = word(coordinates, "coordinate", 1);
  if (coordinate == "half_pixel" && l.number("selector", 0) == 1) coordinate = "pytorch_half_pixel";
  const std::string mode = word(modes, "mode", 0);
  std::string attributes = concat("mode = \"", mode, "\", coordinate_transformation_mode = \"", coordinate, "\"");
  if (mode == "nearest") attributes += concat(", nearest_mode = \"", word(roundings, "rounding", 2), "\"");
  if (mode == "cubic")
    attributes += concat(", cubic_coeff_a = ", real(l.real_number("cubic", -0.75)),
                         ", exclude_outside = ", l.number("exclude_outside", 0));
  if (l.has(1)) return {l.node("Resize", {x, {}, {}, l.wide(l.in(1))}, attributes)};
  if (l.is_set("size")) return {l.node("Resize", {x, {}, {}, l.int_list(l.ints("size"))}, attributes)};
  const std::vector<double> scales = l.reals("scales");
  std::vector<float> narrow(scales.begin(), scales.end());
  const ValueId factors = l.constant(Tensor::of<float>({int64_t(narrow.size())}, narrow), "scales");
  return {l.node("Resize", {x, {}, factors}, attributes)};
}

Values grid_sample(Lowering& l) {
  constexpr std::array<const char*, 3> modes = {"nearest", "linear", "cubic"};
  constexpr std::array<const char*, 5> paddings = {"", "", "border", "zeros", "reflection"};
  const int64_t mode = l.number("mode", 1), outside = l.number("sample_mode", 3);
  if (mode < 0 || mode > 2) l.bad("there is no mode ", mode);
  if (outside < 0 || outside > 4 || !*paddings[size_t(outside)]) l.refuse("SampleMode ", outside, " of a grid sample");
  return {l.node("GridSample", {l.in(0), l.in(1)},
                 concat("mode = \"", modes[size_t(mode)], "\", padding_mode = \"", paddings[size_t(outside)],
                        "\", align_corners = ", l.number("align_corners", 0)))};
}

Values squeeze(Lowering& l) { return {l.node("Squeeze", {l.in(0), l.wide(l.in(1))})}; }
Values unsqueeze(Lowering& l) { return {l.node("Unsqueeze", {l.in(0), l.wide(l.in(1))})}; }
Values non_zero(Lowering& l) { return {l.narrow(l.node("NonZero", {l.in(0)}))}; }
Values one_hot(Lowering& l) {
  return {l.node("OneHot", {l.in(0), l.in(2), l.in(1)}, concat("axis = ", l.number("axis", -1)))};
}
Values reverse_sequence(Lowering& l) {
  return {l.node("ReverseSequence", {l.in(0), l.wide(l.in(1))},
                 concat("batch_axis = ", l.number("batch_axis", 1), ", time_axis = ", l.number("sequence_axis", 0)))};
}

// alpha + beta[0] i + beta[1] j + ..., of numbers that come as data, or of a size that does.
ValueId line(Lowering& l, DType dtype) {
  const ValueId size = l.has(0) ? l.node("Reshape", {l.wide(l.in(0)), l.int_list({-1})}) : l.int_list(l.ints("dims"));
  const Dim& count = l.type(size).shape[0];
  if (!count.is_constant()) l.refuse("a fill of as many dimensions as data say");
  const int64_t rank = count.value();
  ValueId alpha, beta;
  if (l.has(1)) {
    if (l.type(l.in(1)).dtype != l.type(l.in(2)).dtype) l.bad("alpha and beta are of different types");
    alpha = l.node("Reshape", {l.cast(l.in(1), dtype), l.int_list({})});
    beta = l.node("Reshape", {l.cast(l.in(2), dtype), l.int_list({rank})});
  } else {
    if (rank != 1) l.bad("a fill of ", rank, " dimensions, by one beta");
    alpha = l.scalar(dtype, l.real_number("alpha", 0));
    beta = l.node("Reshape", {l.scalar(dtype, l.real_number("beta", 1)), l.int_list({1})});
  }
  ValueId sum = alpha;
  const auto single = [&](ValueId list, int64_t i) {
    return l.node("Gather", {list, l.scalar(DType::i64, double(i))}, "axis = 0");
  };
  for (int64_t i = 0; i < rank; ++i) {
    const ValueId steps = l.node("Range", {l.scalar(DType::i64, 0), single(size, i), l.scalar(DType::i64, 1)});
    Dims dims(size_t(rank), 1);
    dims[size_t(i)] = -1;
    sum = l.node("Add",
                 {sum, l.node("Mul", {l.node("Reshape", {l.cast(steps, dtype), l.int_list(dims)}), single(beta, i)})});
  }
  return rank ? sum : l.node("Reshape", {sum, l.int_list({})});
}

// Numbers of the standard distribution, moved and stretched.
ValueId random(Lowering& l, bool is_normal, DType dtype) {
  if (!is_float(dtype)) l.bad("random numbers of ", dtype);
  if (l.has(0)) l.refuse("a fill with random numbers whose size comes as data");
  const std::string shape = concat("shape = ", list_of(l.ints("dims")), ", dtype = ", onnx_from_dtype(dtype));
  if (!l.has(1)) {
    const std::string alpha = real(l.real_number("alpha", 0)), beta = real(l.real_number("beta", 1));
    return is_normal ? l.node("RandomNormal", {}, concat(shape, ", mean = ", alpha, ", scale = ", beta))
                     : l.node("RandomUniform", {}, concat(shape, ", low = ", alpha, ", high = ", beta));
  }
  const auto number = [&](size_t i) { return l.node("Reshape", {l.cast(l.in(i), dtype), l.int_list({})}); };
  const ValueId alpha = number(1), beta = number(2);
  const ValueId width = is_normal ? beta : l.node("Sub", {beta, alpha});
  return l.node("Add",
                {l.node("Mul", {l.node(is_normal ? "RandomNormal" : "RandomUniform", {}, shape), width}), alpha});
}

Values fill_with(Lowering& l) {
  enum { linspace, uniform, normal };
  const int64_t operation = l.number("operation");
  if (operation < linspace || operation > normal) l.bad("there is no operation ", operation);
  if (l.has(1) != l.has(2)) l.bad("one of alpha and beta comes as data, and both do or none");
  // What comes as data has its type; a release without a type of the layer (8.6) has f32 there.
  DType dtype = l.is_set("to") ? type_setting(l, "to") : DType::f32;
  if (l.has(1)) {
    const DType given = l.type(l.in(1)).dtype;
    if (l.is_set("to") && !l.rules.integers_are_int32 && given != kept(l, dtype))
      l.bad("alpha and beta are of ", given, "; the layer gives ", dtype);
    dtype = given;
  }
  dtype = kept(l, dtype);
  if (operation != linspace) return {random(l, operation == normal, dtype)};
  if (l.has(0) || l.has(1)) return {line(l, dtype)};
  const Dims dims = l.ints("dims");
  if (dims.size() != 1) l.bad("a fill of ", dims.size(), " dimensions, by one beta");
  Tensor tensor(DType::f64, dims);
  for (int64_t i = 0; i < dims[0]; ++i)
    tensor.data<double>()[i] = l.real_number("alpha", 0) + double(i) * l.real_number("beta", 1);
  return {l.node("Identity", {l.constant(tensor.converted(dtype), "values")})};
}

// ---- quantization ----

// A scale of one element is for the whole tensor, whatever its rank is.
ValueId scale_of(Lowering& l) {
  const Shape& shape = l.type(l.in(1)).shape;
  const bool whole = std::all_of(shape.begin(), shape.end(), [](const Dim& dim) { return dim == Dim(1); });
  return whole ? l.node("Reshape", {l.in(1), l.int_list({})}) : l.in(1);
}
// TensorRT's zero points are 0.
void check_zero_point(Lowering& l) {
  if (!l.has(2)) return;
  const Tensor* const zero = l.known(l.in(2));
  if (!zero) l.refuse("a zero point that is no constant");
  const std::vector<double> values = zero->to_doubles();
  if (std::any_of(values.begin(), values.end(), [](double value) { return value != 0; }))
    l.refuse("a zero point that is not 0");
}
Values quantize(Lowering& l) {
  check_zero_point(l);
  const ValueId scale = scale_of(l);
  return {l.node("QuantizeLinear", {l.in(0), scale}, concat("output_dtype = 3, axis = ", l.number("axis", 1)))};
}
Values dequantize(Lowering& l) {
  check_zero_point(l);
  return {l.node("DequantizeLinear", {l.in(0), scale_of(l)}, concat("axis = ", l.number("axis", 1)))};
}

// ---- boxes ----

// Indices [n, 3] of (image, class, box), and how many they are. TensorRT has classes behind boxes, ONNX before them.
Values nms(Lowering& l) {
  const ValueId scores = l.swapped(l.in(1));
  // The numbers are inputs 3 (IoU) and 4 (score); 0 where they are absent.
  const auto threshold = [&](size_t input) {
    return l.node("Reshape",
                  {l.has(input) ? l.cast(l.in(input), DType::f32) : l.scalar(DType::f32, 0), l.int_list({1})});
  };
  const ValueId most = l.node("Reshape", {l.wide(l.in(2)), l.int_list({1})});
  if (l.is_set("limit")) l.refuse("a limit of the boxes that a suppression looks at");
  const ValueId found = l.node("NonMaxSuppression", {l.in(0), scores, most, threshold(3), threshold(4)},
                               concat("center_point_box = ", l.number("format", 0)));
  const ValueId count = l.node("Squeeze", {l.node("Shape", {found}, "start = 0, end = 1"), l.int_list({0})});
  return {l.narrow(found), l.narrow(count)};
}

struct Form {
  std::string_view type;
  Values (*lower)(Lowering&);
  size_t outputs = 1;
};
constexpr Form kForms[] = {
    {"ACTIVATION", activation},
    {"CAST", cast},
    {"CONCATENATION", concatenation},
    {"CONSTANT", constant},
    {"CONVOLUTION", convolution},
    {"CUMULATIVE", cumulative},
    {"DECONVOLUTION", deconvolution},
    {"DEQUANTIZE", dequantize},
    {"EINSUM", einsum},
    {"ELEMENTWISE", elementwise},
    {"FILL", fill_with},
    {"FULLY_CONNECTED", fully_connected},
    {"GATHER", gather},
    {"GRID_SAMPLE", grid_sample},
    {"IDENTITY", identity},
    {"LRN", lrn},
    {"MATRIX_MULTIPLY", matrix_multiply},
    {"NMS", nms, 2},
    {"NON_ZERO", non_zero},
    {"NORMALIZATION", normalization},
    {"ONE_HOT", one_hot},
    {"PADDING", padding},
    {"PARAMETRIC_RELU", parametric_relu},
    {"POOLING", pooling},
    {"QUANTIZE", quantize},
    {"REDUCE", reduce},
    {"RESIZE", resize},
    {"REVERSE_SEQUENCE", reverse_sequence},
    {"SCALE", scale},
    {"SCATTER", scatter},
    {"SELECT", select},
    {"SHAPE", shape},
    {"SHUFFLE", shuffle},
    {"SLICE", slice},
    {"SOFTMAX", softmax},
    {"SQUEEZE", squeeze},
    {"TOPK", topk, 2},
    {"UNARY", unary},
    {"UNSQUEEZE", unsqueeze},
};

const Form& form_of(std::string_view type) {
  for (const Form& form : kForms)
    if (form.type == type) return form;
  fail(ErrorKind::unsupported, "layers of the type ", type, " cannot be added: not in Temper");
}

}  // namespace

size_t layer_outputs(std::string_view type) { return form_of(type).outputs; }

std::string title_of(std::string_view type) {
  std::string title;
  bool starts = true;
  for (char c : type) {
    if (c == '_') {
      starts = true;
      continue;
    }
    title += starts ? c : char(std::tolower(c));
    starts = false;
  }
  return title;
}

std::vector<ValueId> add_layer(Graph& graph, const Layer& layer, const std::vector<ValueId>& inputs,
                               const LayerRules& rules) {
  return with_context([&] { return concat("layer '", layer.name, "' (", layer.type, ")"); },
                      [&] {
                        Lowering lowering(graph, layer, inputs, rules);
                        std::vector<ValueId> outputs = form_of(layer.type).lower(lowering);
                        lowering.refuse_unread();
                        return outputs;
                      });
}

std::optional<std::vector<int64_t>> setting_by_rank(const Layer& layer, std::string_view setting, int64_t rank) {
  const int64_t axis = usual_axis(rank);
  if (layer.type == "CONCATENATION" && setting == "axis") return std::vector<int64_t>{axis};
  if (layer.type == "SOFTMAX" && setting == "axes") return std::vector<int64_t>{int64_t(1) << axis};
  return std::nullopt;
}

}  // namespace temper::nvinfer
