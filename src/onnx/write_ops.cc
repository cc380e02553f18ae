// SPDX-License-Identifier: Apache-2.0
// Writes each op as ONNX. Anything that ONNX does not say exactly is refused by name.
#include <onnx/onnx_pb.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "base/half.h"
#include "base/small_types.h"
#include "graph/onnx_form.h"
#include "graph/ops/attention.h"
#include "graph/ops/bit_cast.h"
#include "graph/ops/broadcast.h"
#include "graph/ops/constant_strings.h"
#include "graph/ops/conv.h"
#include "graph/ops/conv_transpose.h"
#include "graph/ops/cumulative.h"
#include "graph/ops/dequantize.h"
#include "graph/ops/dequantize_blocks.h"
#include "graph/ops/matmul.h"
#include "graph/ops/normalize.h"
#include "graph/ops/pad.h"
#include "graph/ops/pointwise.h"
#include "graph/ops/quantize.h"
#include "graph/ops/range.h"
#include "graph/ops/recurrent.h"
#include "graph/ops/reduce.h"
#include "graph/ops/reshape.h"
#include "graph/ops/resize.h"
#include "graph/ops/slice.h"
#include "graph/ops/string_normalize.h"
#include "graph/ops/topk.h"
#include "graph/ops/window.h"
#include "onnx/tensor_proto.h"
#include "onnx/writer.h"

namespace temper {

namespace {

// An op that is one ONNX node of the same inputs and outputs.
void write_form(OnnxWriter& w, const Node& node, const OnnxForm& form) {
  if (!form.refusal.empty()) fail(ErrorKind::unsupported, form.refusal);
  onnx::NodeProto& proto = w.node(form.type, w.names(node.inputs), w.names(node.outputs));
  for (const OnnxAttribute& attribute : form.attributes) set_attribute(proto, attribute);
}

using Names = std::vector<std::string>;

std::string out(OnnxWriter& w, const Node& node, size_t i = 0) { return w.name(node.outputs.at(i)); }
const Shape& out_shape(OnnxWriter& w, const Node& node) { return w.type(node.outputs.at(0)).shape; }

// Constant dims of a shape; throws where one is symbolic.
std::vector<int64_t> known(const Shape& shape) {
  std::vector<int64_t> dims;
  for (const Dim& dim : shape) dims.push_back(dim.value());
  return dims;
}
bool is_known(const Shape& shape) {
  return std::all_of(shape.begin(), shape.end(), [](const Dim& dim) { return dim.is_constant(); });
}

// ---- conv, conv_transpose, matmul ----

// The extra input of an epilogue that begins by adding it: nothing where it begins otherwise or reads it later again.
std::optional<size_t> leading_add(const Program& epilogue) {
  if (epilogue.steps.empty() || epilogue.steps[0].op != Scalar::add) return std::nullopt;
  const auto& args = epilogue.steps[0].args;
  const int extra = args[0] == 0 ? args[1] : args[1] == 0 ? args[0] : -1;
  if (extra < 1 || extra >= epilogue.inputs) return std::nullopt;
  for (size_t i = 1; i < epilogue.steps.size(); ++i)
    for (int a = 0; a < arity_of(epilogue.steps[i].op); ++a)
      if (const int arg = epilogue.steps[i].args[size_t(a)]; arg == 0 || arg == extra) return std::nullopt;
  return size_t(extra - 1);
}

// The main op by `main(bias name or "", output name)`, then the epilogue's other steps.
template <class Main>
void with_epilogue(OnnxWriter& w, const Node& node, const Program& epilogue, DType accumulator, const std::string& bias,
                   Main main) {
  const size_t done = bias.empty() ? 0 : 1;
  const std::string result = out(w, node);
  if (epilogue.steps.size() == done) return main(bias, result);
  const std::string acc = w.fresh(concat(result, "/acc"));
  main(bias, acc);
  Names values{acc};
  std::vector<TensorType> types{{accumulator, out_shape(w, node)}};
  for (size_t i = node.inputs.size() - size_t(epilogue.inputs - 1); i < node.inputs.size(); ++i) {
    // A value that only the bias step reads was written in another shape.
    values.push_back(w.graph().constant(node.inputs[i]) && done &&
                             leading_add(epilogue) == i + size_t(epilogue.inputs - 1) - node.inputs.size()
                         ? ""
                         : w.name(node.inputs[i]));
    types.push_back(w.type(node.inputs[i]));
  }
  if (done) {
    values.push_back(acc);
    types.push_back(types[0]);
  }
  w.program(epilogue, values, types, out_shape(w, node), result);
}

// A constant that differs along the channel axis alone, as the vector that ONNX's B input is; "" where the epilogue
// does not begin with the addition of one.
std::string channel_bias(OnnxWriter& w, const Node& node, const Program& epilogue, size_t spatial, int64_t channels) {
  const auto extra = leading_add(epilogue);
  if (!extra) return "";
  const ValueId id = node.inputs.at(node.inputs.size() - size_t(epilogue.inputs - 1) + *extra);
  const Tensor* tensor = w.graph().constant(id);
  if (!tensor || tensor->count() != channels || tensor->rank() > int64_t(spatial) + 2 ||
      tensor->rank() < int64_t(spatial) + 1)
    return "";
  if (tensor->dims()[size_t(tensor->rank()) - spatial - 1] != channels) return "";
  return w.reshaped_constant(id, {channels});
}

void write_window(onnx::NodeProto& node, const ops::Window& window) {
  for (const OnnxAttribute& attribute : onnx_attributes(window)) set_attribute(node, attribute);
}

// An operand of a product in the dtype in which ONNX's op gives the graph's accumulator: fp16 and bf16 are summed in
// f32.
std::string operand(OnnxWriter& w, ValueId id) {
  if (w.type(id).dtype != DType::bf16 && w.type(id).dtype != DType::f16) return w.name(id);
  onnx::NodeProto* node = nullptr;
  std::string result = w.emit("Cast", {w.name(id)}, &node);
  set_attribute(*node, "to", int64_t(onnx_from_dtype(DType::f32)));
  return result;
}

void write(OnnxWriter& w, const Node& node, const ops::Conv& op) {
  const DType dtype = w.type(node.inputs[0]).dtype;
  const bool narrow = dtype == DType::i8 || dtype == DType::u8;
  if (!is_float(dtype) && !narrow) w.unsupported("a convolution of ", dtype);
  const Dims wd = w.type(node.inputs[1]).dims();
  const std::string bias = narrow ? "" : channel_bias(w, node, op.epilogue, wd.size() - 2, wd[0]);
  with_epilogue(w, node, op.epilogue, ops::accumulator_of(dtype, w.type(node.inputs[1]).dtype), bias,
                [&](const std::string& b, const std::string& result) {
                  onnx::NodeProto& proto =
                      w.node(narrow ? "ConvInteger" : "Conv",
                             {operand(w, node.inputs[0]), operand(w, node.inputs[1]), b}, {result});
                  write_window(proto, op.window(wd));
                  set_attribute(proto, "group", op.group);
                });
}

void write(OnnxWriter& w, const Node& node, const ops::ConvTranspose& op) {
  const Dims wd = w.type(node.inputs[1]).dims();
  const std::string bias = channel_bias(w, node, op.epilogue, wd.size() - 2, wd[1] * op.group);
  with_epilogue(
      w, node, op.epilogue, w.type(node.inputs[0]).dtype, bias, [&](const std::string& b, const std::string& result) {
        onnx::NodeProto& proto = w.node("ConvTranspose", {w.name(node.inputs[0]), w.name(node.inputs[1]), b}, {result});
        write_window(proto, {Dims(wd.begin() + 2, wd.end()), op.strides, op.dilations, op.pads,
                             ops::PadMode::explicit_pads, false});
        set_attribute(proto, "output_padding", op.output_padding);
        set_attribute(proto, "group", op.group);
      });
}

std::string transposed(OnnxWriter& w, const std::string& x, const std::vector<int64_t>& perm) {
  onnx::NodeProto* node = nullptr;
  std::string result = w.emit("Transpose", {x}, &node);
  set_attribute(*node, "perm", perm);
  return result;
}

void write(OnnxWriter& w, const Node& node, const ops::MatMul& op) {
  const TensorType &a = w.type(node.inputs[0]), &b = w.type(node.inputs[1]);
  const bool narrow = a.dtype == DType::i8 || a.dtype == DType::u8;
  const bool matrices = a.rank() == 2 && b.rank() == 2 && !narrow;
  // Gemm adds a matrix, a row or a scalar; a constant alone, as what a bias is.
  std::string bias;
  if (const auto extra = leading_add(op.epilogue); extra && matrices) {
    const ValueId id = node.inputs.at(node.inputs.size() - size_t(op.epilogue.inputs - 1) + *extra);
    if (w.graph().constant(id) && w.type(id).rank() <= 2) bias = w.name(id);
  }
  with_epilogue(w, node, op.epilogue, ops::accumulator_of(a.dtype, b.dtype), bias,
                [&](const std::string& c, const std::string& result) {
                  Names inputs{operand(w, node.inputs[0]), operand(w, node.inputs[1])};
                  if (matrices && (!c.empty() || op.transpose_a || op.transpose_b)) {
                    inputs.push_back(c);
                    onnx::NodeProto& proto = w.node("Gemm", inputs, {result});
                    if (op.transpose_a) set_attribute(proto, "transA", int64_t(1));
                    if (op.transpose_b) set_attribute(proto, "transB", int64_t(1));
                    return;
                  }
                  for (size_t i = 0; i < 2; ++i) {
                    if (!(i == 0 ? op.transpose_a : op.transpose_b)) continue;
                    std::vector<int64_t> perm(size_t((i == 0 ? a : b).rank()));
                    std::iota(perm.begin(), perm.end(), 0);
                    std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
                    inputs[i] = transposed(w, inputs[i], perm);
                  }
                  w.node(narrow ? "MatMulInteger" : "MatMul", inputs, {result});
                });
}

void write(OnnxWriter& w, const Node& node, const ops::Pointwise& op) {
  std::vector<TensorType> types;
  for (ValueId id : node.inputs) types.push_back(w.type(id));
  w.program(op.program, w.names(node.inputs), types, out_shape(w, node), out(w, node));
}

// ---- windows, reductions, normalization ----

void write(OnnxWriter& w, const Node& node, const ops::Reduce& op) {
  const char* names[] = {"ReduceSum", "ReduceMean", "ReduceMax",    "ReduceMin",       "ReduceProd",
                         "ReduceL1",  "ReduceL2",   "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"};
  const bool data = node.inputs.size() > 1;
  onnx::NodeProto& proto = w.node(
      names[int(op.kind)], {w.name(node.inputs[0]), data ? w.name(node.inputs[1]) : w.ints(op.axes)}, {out(w, node)});
  set_attribute(proto, "keepdims", int64_t(op.keepdims));
  set_attribute(proto, "noop_with_empty_axes", int64_t(data ? op.noop_with_empty_axes : op.axes.empty()));
}

// The window as a mask of bool [Sq,Sk], where the sizes are known.
std::string window_mask(OnnxWriter& w, const Node& node, const ops::Attention& op) {
  const Dim &queries = w.type(node.inputs[0]).shape[1], &keys = w.type(node.inputs[1]).shape[1];
  if (!queries.is_constant() || !keys.is_constant()) w.unsupported("a window on an unknown number of keys");
  Tensor mask(DType::boolean, {queries.value(), keys.value()});
  for (int64_t i = 0; i < queries.value(); ++i) {
    const ops::KeyRange range = ops::keys_of_query(op, i, queries.value(), keys.value(), keys.value());
    for (int64_t j = range.first; j < range.end; ++j) mask.data<bool>()[i * keys.value() + j] = true;
  }
  return w.constant(mask, concat(node.name, "/window"));
}

// A product of fp16 or bf16 sums in f32, as ONNX's Attention does where it is given f32.
void write(OnnxWriter& w, const Node& node, const ops::Attention& op) {
  const TensorType &q = w.type(node.inputs[0]), &k = w.type(node.inputs[1]);
  const bool narrow = is_half(q.dtype);
  const bool masked = node.inputs.size() > 3 && node.inputs[3].valid();
  const bool bounded = node.inputs.size() > 4 && node.inputs[4].valid();
  const bool window = op.left >= 0 || op.right >= 0;
  const bool causal = op.left < 0 && op.right == 0 && (!op.from_end || (q.shape[1] == k.shape[1] && !bounded));
  if (op.zero_nan) w.unsupported("an attention whose softmax is zeros where it would be NaN");
  if (window && !causal && (masked || bounded)) w.unsupported("an attention with a window and a mask");
  Names inputs;
  for (size_t i = 0; i < 3; ++i) inputs.push_back(operand(w, node.inputs[i]));
  if (masked) {
    const TensorType& mask = w.type(node.inputs[3]);
    if (mask.rank() == 0 || (mask.rank() == 4 && mask.shape[0] != Dim(1) && mask.shape[0] != q.shape[0]))
      w.unsupported("an attention whose mask is ", mask);
    inputs.push_back(is_float(mask.dtype) ? operand(w, node.inputs[3]) : w.name(node.inputs[3]));
    const DType computed = narrow ? DType::f32 : q.dtype;
    if (is_float(mask.dtype) && mask.dtype != computed && !(computed == DType::f32 && size_of(mask.dtype) == 2))
      w.unsupported("an attention of ", q.dtype, " with a mask of ", mask.dtype);
  } else if (window && !causal) {
    inputs.push_back(window_mask(w, node, op));
  }
  if (bounded) {
    inputs.resize(6);
    inputs.push_back(w.name(node.inputs[4]));
  }
  const std::string y = narrow ? w.fresh(concat(out(w, node), "/f32")) : out(w, node);
  onnx::NodeProto& proto = w.node("Attention", inputs, {y});
  set_attribute(proto, "q_num_heads", op.heads);
  set_attribute(proto, "kv_num_heads", op.kv_heads);
  const int64_t head_size = q.shape[2].value() / op.heads;
  if (op.scale != 1 / std::sqrt(double(head_size))) set_attribute(proto, "scale", op.scale);
  if (op.softcap > 0) set_attribute(proto, "softcap", op.softcap);
  if (causal) set_attribute(proto, "is_causal", int64_t(1));
  if (narrow) set_attribute(w.node("Cast", {y}, {out(w, node)}), "to", int64_t(onnx_from_dtype(q.dtype)));
}

Tensor filled(DType dtype, Dims dims, double value) {
  Tensor tensor(DType::f64, std::move(dims));
  for (int64_t i = 0; i < tensor.count(); ++i) tensor.data<double>()[i] = value;
  return tensor.converted(dtype);
}

// A normalization of channels of this type, with a scale of one and a shift of zero.
onnx::NodeProto& write_unscaled(OnnxWriter& w, const Node& node, const char* type, const ops::Normalize& op) {
  const TensorType& x = w.type(node.inputs[0]);
  const Dims channels{x.shape[1].value()};
  onnx::NodeProto& proto =
      w.node(type,
             {w.name(node.inputs[0]), w.constant(filled(x.dtype, channels, 1), concat(node.name, "/one")),
              w.constant(filled(x.dtype, channels, 0), concat(node.name, "/zero"))},
             {out(w, node)});
  set_attribute(proto, "epsilon", op.epsilon);
  return proto;
}

void write_groups(OnnxWriter& w, const Node& node, const ops::Normalize& op) {
  const TensorType& x = w.type(node.inputs[0]);
  if (!op.center || int64_t(op.axes.size()) != x.rank() - 1 || op.axes[0] != 1 || !x.shape[1].is_constant())
    w.unsupported("groups that GroupNormalization does not say");
  set_attribute(write_unscaled(w, node, "GroupNormalization", op), "num_groups", op.groups);
}

// Over the last axes it is LayerNormalization (without the mean: RMSNormalization), over all spatial axes
// InstanceNormalization, both with a scale of one. Other axes are moved to the end and back.
void write(OnnxWriter& w, const Node& node, const ops::Normalize& op) {
  const TensorType& x = w.type(node.inputs[0]);
  const int64_t rank = x.rank(), count = int64_t(op.axes.size()), first = rank - count;
  std::vector<int64_t> perm;
  for (int64_t axis = 0; axis < rank; ++axis)
    if (!std::binary_search(op.axes.begin(), op.axes.end(), axis)) perm.push_back(axis);
  perm.insert(perm.end(), op.axes.begin(), op.axes.end());
  Shape shape;
  for (int64_t axis : perm) shape.push_back(x.shape[size_t(axis)]);
  const bool in_place = std::is_sorted(perm.begin(), perm.end());
  const Shape last(shape.begin() + first, shape.end());
  if (count == 0) w.unsupported("a normalization over no axes");
  if (op.groups > 1) return write_groups(w, node, op);
  if (in_place && op.center && first == 2 && rank >= 3 && x.shape[1].is_constant()) {
    write_unscaled(w, node, "InstanceNormalization", op);
    return;
  }
  if (!is_known(last))
    fail(ErrorKind::unsupported, "a normalization over axes of the unknown sizes ", last,
         "; give a fixed shape with --shapes");
  const std::string one = w.constant(filled(x.dtype, known(last), 1), concat(node.name, "/one"));
  const char* name = op.center ? "LayerNormalization" : "RMSNormalization";
  onnx::NodeProto* proto = nullptr;
  if (in_place) {
    proto = &w.node(name, {w.name(node.inputs[0]), one}, {out(w, node)});
  } else {
    const std::string y = w.emit(name, {transposed(w, w.name(node.inputs[0]), perm), one}, &proto);
    std::vector<int64_t> back(perm.size());
    for (size_t i = 0; i < perm.size(); ++i) back[size_t(perm[i])] = int64_t(i);
    set_attribute(w.node("Transpose", {y}, {out(w, node)}), "perm", back);
  }
  set_attribute(*proto, "axis", first);
  set_attribute(*proto, "epsilon", op.epsilon);
}

void write(OnnxWriter& w, const Node& node, const ops::Cumulative& op) {
  const std::string axis = node.inputs.size() > 1 ? w.name(node.inputs[1]) : w.scalar(DType::i64, 0, op.axis);
  onnx::NodeProto& proto = w.node(op.kind == ops::CumulativeKind::sum ? "CumSum" : "CumProd",
                                  {w.name(node.inputs[0]), axis}, {out(w, node)});
  set_attribute(proto, "exclusive", int64_t(op.exclusive));
  set_attribute(proto, "reverse", int64_t(op.reverse));
}

// ---- data movement ----

void write(OnnxWriter& w, const Node& node, const ops::Broadcast& op) {
  w.node("Expand", {w.name(node.inputs[0]), node.inputs.size() > 1 ? w.name(node.inputs[1]) : w.dims(op.shape)},
         {out(w, node)});
}

void write(OnnxWriter& w, const Node& node, const ops::Reshape& op) {
  if (node.inputs.size() > 1) {
    set_attribute(w.node("Reshape", w.names(node.inputs), {out(w, node)}), "allowzero", int64_t(op.allow_zero));
    return;
  }
  // One open dimension is what -1 means; then no other may be 0.
  const auto open = std::count_if(op.shape.begin(), op.shape.end(), [](const Dim& dim) { return !dim.is_constant(); });
  const bool empty = std::any_of(op.shape.begin(), op.shape.end(), [](const Dim& dim) { return dim == Dim(0); });
  std::string target;
  if (open == 1 && !empty) {
    std::vector<int64_t> dims;
    for (const Dim& dim : op.shape) dims.push_back(dim.is_constant() ? dim.value() : -1);
    target = w.ints(dims);
  } else {
    target = w.dims(op.shape);
  }
  onnx::NodeProto& proto = w.node("Reshape", {w.name(node.inputs[0]), target}, {out(w, node)});
  if (empty || open > 1) set_attribute(proto, "allowzero", int64_t(1));
}

void write(OnnxWriter& w, const Node& node, const ops::Slice& op) {
  if (node.inputs.size() > 1) {
    w.node("Slice", w.names(node.inputs), {out(w, node)});
    return;
  }
  const Shape& from = w.type(node.inputs[0]).shape;
  std::vector<int64_t> axes, steps;
  Shape starts, ends;
  for (size_t i = 0; i < from.size(); ++i) {
    if (op.steps[i] == 1 && op.starts[i] == Dim(0) && op.sizes[i] == from[i]) continue;
    axes.push_back(int64_t(i));
    steps.push_back(op.steps[i]);
    starts.push_back(op.starts[i]);
    // One past the last element; before the first one has no number of its own, since negative ones count from the end.
    Dim end = op.starts[i] + (op.sizes[i] - Dim(1)) * Dim(op.steps[i]) + Dim(op.steps[i] > 0 ? 1 : -1);
    if (op.steps[i] > 1 && op.sizes[i] == Dim(0)) end = op.starts[i];
    if (op.steps[i] < 0) {
      if (!end.is_constant())
        fail(ErrorKind::unsupported, "a slice backwards to '", end, "'; give a fixed shape with --shapes");
      if (end.value() < 0) end = Dim(std::numeric_limits<int64_t>::min());
    }
    ends.push_back(end);
  }
  if (axes.empty()) {
    w.node("Identity", {w.name(node.inputs[0])}, {out(w, node)});
    return;
  }
  w.node("Slice", {w.name(node.inputs[0]), w.dims(starts), w.dims(ends), w.ints(axes), w.ints(steps)}, {out(w, node)});
}

void write(OnnxWriter& w, const Node& node, const ops::Pad& op) {
  Names inputs{w.name(node.inputs[0])};
  const std::string value = node.inputs.size() > 1 ? w.name(node.inputs[1]) : "";
  if (node.inputs.size() > 2) {
    inputs.insert(inputs.end(), {w.name(node.inputs[2]), value, node.inputs.size() > 3 ? w.name(node.inputs[3]) : ""});
  } else {
    Shape pads = op.before;
    pads.insert(pads.end(), op.after.begin(), op.after.end());
    inputs.insert(inputs.end(), {w.dims(pads), value});
  }
  set_attribute(w.node("Pad", inputs, {out(w, node)}), "mode", enum_names(ops::PadKind{})[size_t(op.kind)]);
}

void write(OnnxWriter& w, const Node& node, const ops::TopK& op) {
  const std::string k = node.inputs.size() > 1 ? w.name(node.inputs[1]) : w.dims({op.k});
  onnx::NodeProto& proto = w.node("TopK", {w.name(node.inputs[0]), k}, {out(w, node), out(w, node, 1)});
  set_attribute(proto, "axis", op.axis);
  set_attribute(proto, "largest", int64_t(op.largest));
}

void write(OnnxWriter& w, const Node& node, const ops::Resize& op) {
  if (op.coordinate == ops::ResizeCoordinate::tf_half_pixel_for_nn)
    w.unsupported("tf_half_pixel_for_nn, which newer opsets have no more");
  const Shape& from = w.type(node.inputs[0]).shape;
  Names inputs;
  if (node.inputs.size() > 1) {
    inputs = w.names(node.inputs);
  } else {
    inputs = {w.name(node.inputs[0]), "", "", ""};
    if (!op.roi.empty())
      inputs[1] = w.constant(Tensor::of<double>({int64_t(op.roi.size())}, op.roi), concat(node.name, "/roi"));
    if (op.scales.empty()) {
      inputs[3] = w.dims(op.sizes);
    } else {
      for (size_t i = 0; i < from.size(); ++i) {
        if (double(float(op.scales[i])) != op.scales[i])
          w.unsupported("a resize by the factor ", op.scales[i], ", which 32 bits do not hold");
        if (from[i].is_constant() && op.sizes[i].is_constant() &&
            int64_t(std::floor(double(from[i].value()) * op.scales[i])) != op.sizes[i].value())
          w.unsupported("a resize of ", from[i], " to ", op.sizes[i], " by the factor ", op.scales[i]);
      }
      inputs[2] = w.constant(Tensor::of<double>({int64_t(op.scales.size())}, op.scales).converted(DType::f32),
                             concat(node.name, "/scales"));
    }
  }
  onnx::NodeProto& proto = w.node("Resize", inputs, {out(w, node)});
  set_attribute(proto, "mode", enum_names(ops::ResizeKind{})[size_t(op.kind)]);
  set_attribute(proto, "coordinate_transformation_mode", enum_names(ops::ResizeCoordinate{})[size_t(op.coordinate)]);
  set_attribute(proto, "nearest_mode", enum_names(ops::ResizeNearest{})[size_t(op.nearest)]);
  set_attribute(proto, "cubic_coeff_a", op.cubic_a);
  set_attribute(proto, "exclude_outside", int64_t(op.exclude_outside));
  set_attribute(proto, "antialias", int64_t(op.antialias));
  set_attribute(proto, "extrapolation_value", op.extrapolation);
  set_attribute(proto, "keep_aspect_ratio_policy", enum_names(ops::ResizePolicy{})[size_t(op.policy)]);
  if (!op.axes.empty()) set_attribute(proto, "axes", op.axes);
}

// ---- quantization ----

// ONNX's tools look for a zero point even where it is 0.
std::string zero_point(OnnxWriter& w, const Node& node, DType dtype) {
  if (node.inputs.size() > 2 && node.inputs[2].valid()) return w.name(node.inputs[2]);
  const TensorType& scale = w.type(node.inputs[1]);
  if (scale.rank() == 0 && !is_stored_only(dtype)) return w.scalar(dtype, 0, 0);
  return scale.is_concrete() ? w.constant(Tensor(dtype, scale.dims()), concat(node.name, "/zero_point")) : "";
}

void write(OnnxWriter& w, const Node& node, const ops::Quantize& op) {
  onnx::NodeProto& proto =
      w.node("QuantizeLinear", {w.name(node.inputs[0]), w.name(node.inputs[1]), zero_point(w, node, op.dtype)},
             {out(w, node)});
  set_attribute(proto, "axis", op.axis);
  if (proto.input_size() < 3) set_attribute(proto, "output_dtype", int64_t(onnx_from_dtype(op.dtype)));
}

void write(OnnxWriter& w, const Node& node, const ops::Dequantize& op) {
  const DType dtype = w.type(node.inputs[0]).dtype;
  const bool shifted = node.inputs.size() > 2 && node.inputs[2].valid();
  onnx::NodeProto& proto = w.node("DequantizeLinear",
                                  {w.name(node.inputs[0]), w.name(node.inputs[1]),
                                   dtype == DType::i32 && !shifted ? "" : zero_point(w, node, dtype)},
                                  {out(w, node)});
  set_attribute(proto, "axis", op.axis);
  if (op.dtype != w.type(node.inputs[1]).dtype)
    set_attribute(proto, "output_dtype", int64_t(onnx_from_dtype(op.dtype)));
}

// Blocks along one axis, or one scale for each row, for each column, or for all. Integers that 4 bits hold are written
// so where there are blocks, from the opset on that has both.
void write(OnnxWriter& w, const Node& node, const ops::DequantizeBlocks& op) {
  const Tensor *x = w.graph().constant(node.inputs[0]), *scale = w.graph().constant(node.inputs[1]);
  const bool shifted = node.inputs.size() > 2 && node.inputs[2].valid();
  const Tensor* zero = shifted ? w.graph().constant(node.inputs[2]) : nullptr;
  if (!x || !scale || (shifted && !zero)) w.unsupported("weights in blocks that are not constant");
  if (op.dtype != DType::f32) w.unsupported("weights in blocks as ", op.dtype);
  const bool all_rows = op.block_rows >= x->dims()[0], all_columns = op.block_columns >= x->dims()[1];
  const bool by_column = op.block_columns == 1, by_row = op.block_rows == 1;
  const bool one = all_rows && all_columns, vector = !one && ((all_rows && by_column) || (all_columns && by_row));
  if (!one && !vector && !by_column && !by_row)
    w.unsupported("blocks of ", op.block_rows, " x ", op.block_columns, " weights");
  const bool blocks = !one && !vector;
  const int64_t axis = vector ? (all_rows && by_column ? 1 : 0) : by_column ? 0 : 1;
  DType dtype = x->dtype();
  const std::vector<int64_t> integers = x->to_ints();
  std::vector<double> zeros = zero ? zero->to_doubles() : std::vector<double>();
  const auto hold = [&](const IntRange& range) {
    return std::all_of(integers.begin(), integers.end(),
                       [&](int64_t i) { return i >= range.least && i <= range.most; }) &&
           std::all_of(zeros.begin(), zeros.end(), [&](double z) { return z >= range.least && z <= range.most; });
  };
  const DType small = dtype == DType::i8 ? DType::i4 : DType::u4;
  if (blocks && hold(range_of_small_int(small))) dtype = small;
  for (double z : zeros)
    if (z != std::floor(z) || z < (x->dtype() == DType::i8 ? -128 : 0) || z > (x->dtype() == DType::i8 ? 127 : 255))
      w.unsupported("a zero point of ", z);
  Dims dims = scale->dims();
  if (!blocks) dims = one ? Dims{} : Dims{scale->count()};
  const auto named = [&](const Tensor& tensor, ValueId id) {
    return w.constant(dtype == tensor.dtype() ? tensor : tensor.with_bits_as(dtype), w.graph().value(id).name);
  };
  Names inputs{named(*x, node.inputs[0]), w.reshaped_constant(node.inputs[1], dims)};
  if (zero) inputs.push_back(named(zero->converted(x->dtype()).reshaped(dims), node.inputs[2]));
  onnx::NodeProto& proto = w.node("DequantizeLinear", inputs, {out(w, node)});
  if (!one) set_attribute(proto, "axis", axis);
  if (blocks) set_attribute(proto, "block_size", axis == 0 ? op.block_rows : op.block_columns);
}

// ---- the rest ----

// ONNX's BitCast is between types of as many bits; an integer of 4 or 2 bits is cast from and to the byte that it is
// in.
void write(OnnxWriter& w, const Node& node, const ops::BitCast& op) {
  const DType from = w.type(node.inputs[0]).dtype;
  const bool as_number =
      (is_small_int(from) && op.dtype == carrier_of(from)) || (is_small_int(op.dtype) && from == carrier_of(op.dtype));
  const bool strings = from == DType::string || op.dtype == DType::string;
  if (strings || (!as_number && bits_of_code(from) != bits_of_code(op.dtype)))
    w.unsupported(concat("a bit_cast from ", from, " to ", op.dtype));
  onnx::NodeProto& proto = w.node(as_number ? "Cast" : "BitCast", {w.name(node.inputs[0])}, {out(w, node)});
  set_attribute(proto, "to", int64_t(onnx_from_dtype(op.dtype)));
}

void write(OnnxWriter& w, const Node& node, const ops::Range&) {
  Names inputs;
  for (ValueId id : node.inputs)
    inputs.push_back(w.type(id).rank() == 0 ? w.name(id) : w.emit("Reshape", {w.name(id), w.ints({})}));
  w.node("Range", inputs, {out(w, node)});
}

void write(OnnxWriter& w, const Node& node, const ops::Recurrent& op) {
  if (op.projected) w.unsupported("a recurrent net whose inputs are multiplied already");
  const char* kinds[] = {"LSTM", "GRU", "RNN"};
  const char* activations[] = {"Tanh",      "Sigmoid",         "Relu",       "Softsign",    "Softplus", "Affine",
                               "LeakyRelu", "ThresholdedRelu", "ScaledTanh", "HardSigmoid", "Elu"};
  Names outputs;
  for (ValueId id : node.outputs) outputs.push_back(w.name(id));
  onnx::NodeProto& proto = w.node(kinds[int(op.kind)], w.names(node.inputs), outputs);
  set_attribute(proto, "direction", enum_names(ops::RecurrentDirection{})[size_t(op.direction)]);
  set_attribute(proto, "hidden_size", w.type(node.inputs[2]).shape[2].value());
  const ops::Activation functions[] = {op.f, op.g, op.h};
  const size_t count = op.kind == ops::RecurrentKind::lstm ? 3 : op.kind == ops::RecurrentKind::gru ? 2 : 1;
  std::vector<double> alpha, beta;
  auto& names = *proto.add_attribute();
  names.set_name("activations");
  names.set_type(onnx::AttributeProto::STRINGS);
  for (int64_t d = 0; d < op.directions(); ++d)
    for (size_t i = 0; i < count; ++i) {
      names.add_strings(activations[int(functions[i])]);
      if (!op.alpha.empty()) alpha.push_back(op.alpha[i]);
      if (!op.beta.empty()) beta.push_back(op.beta[i]);
    }
  if (!alpha.empty()) set_attribute(proto, "activation_alpha", alpha);
  if (!beta.empty()) set_attribute(proto, "activation_beta", beta);
  if (op.clip > 0) set_attribute(proto, "clip", op.clip);
  if (op.couple_input_forget) set_attribute(proto, "input_forget", int64_t(1));
  if (op.linear_before_reset) set_attribute(proto, "linear_before_reset", int64_t(1));
}

void write(OnnxWriter& w, const Node& node, const ops::ConstantStrings& op) {
  auto& value = *w.node("Constant", {}, {out(w, node)}).add_attribute();
  value.set_name("value");
  value.set_type(onnx::AttributeProto::TENSOR);
  value.mutable_t()->set_data_type(onnx_from_dtype(DType::string));
  for (int64_t dim : op.shape) value.mutable_t()->add_dims(dim);
  for (const std::string& text : op.values) value.mutable_t()->add_string_data(text);
}

void write(OnnxWriter& w, const Node& node, const ops::StringNormalize& op) {
  const char* const actions[] = {"NONE", "LOWER", "UPPER"};
  onnx::NodeProto& proto = w.node("StringNormalizer", w.names(node.inputs), {out(w, node)});
  set_attribute(proto, "case_change_action", actions[int(op.letters)]);
  set_attribute(proto, "is_case_sensitive", int64_t(op.case_sensitive));
  if (op.stopwords.empty()) return;
  auto& words = *proto.add_attribute();
  words.set_name("stopwords");
  words.set_type(onnx::AttributeProto::STRINGS);
  for (const std::string& word : op.stopwords) words.add_strings(word);
}

template <class... Ts>
struct Written {
  static bool has(const Op& op) { return op.is<Ts...>(); }
  static void run(OnnxWriter& w, const Node& node) {
    (void)((node.op.is<Ts>() && (write(w, node, node.op.get<Ts>()), true)) || ...);
  }
};

// The ops whose writing needs more than data. Any other says beside it what it is (OnnxForm).
using WithFunctions = Written<ops::Attention, ops::BitCast, ops::Broadcast, ops::ConstantStrings, ops::Conv,
                              ops::ConvTranspose, ops::Cumulative, ops::Dequantize, ops::DequantizeBlocks, ops::MatMul,
                              ops::Normalize, ops::Pad, ops::Pointwise, ops::Quantize, ops::Range, ops::Recurrent,
                              ops::Reduce, ops::Reshape, ops::Resize, ops::Slice, ops::StringNormalize, ops::TopK>;

}  // namespace

bool has_write_function(const Op& op) { return WithFunctions::has(op); }

void write_op(OnnxWriter& writer, const Node& node) {
  if (const auto form = onnx_form(node.op)) return write_form(writer, node, *form);
  if (!has_write_function(node.op))
    fail(ErrorKind::unsupported, name_of(node.op), " is not among the ops that are written as ONNX");
  WithFunctions::run(writer, node);
}

}  // namespace temper
