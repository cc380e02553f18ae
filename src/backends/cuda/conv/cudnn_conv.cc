// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/conv/cudnn_conv.h"

#include <algorithm>
#include <cstring>

#include "backends/cuda/support/host_transpose.h"
#include "graph/ops/conv.h"
#include "graph/ops/window.h"

namespace temper::cuda {

namespace {

constexpr int64_t kLargest = (int64_t(1) << 31) - 1;

bool data_of(DType dtype, CudnnData& out) {
  switch (dtype) {
    case DType::f32: out = CudnnData::f32; return true;
    case DType::f16: out = CudnnData::f16; return true;
    case DType::bf16: out = CudnnData::bf16; return true;
    default: return false;
  }
}

// cuDNN knows two and three spatial axes.
Dims with_two_axes(Dims dims) {
  if (dims.size() == 3) dims.insert(dims.begin() + 2, 1);
  return dims;
}
Dims spatial(std::vector<int64_t> sizes, int64_t missing) {
  if (sizes.size() == 1) sizes.insert(sizes.begin(), missing);
  return Dims(sizes.begin(), sizes.end());
}

Dims channels_last_strides(const Dims& dims) {
  Dims strides(dims.size(), 1);
  int64_t stride = dims[1];
  for (size_t axis = dims.size(); axis-- > 2;) {
    strides[axis] = stride;
    stride *= dims[axis];
  }
  strides[0] = stride;
  return strides;
}
Dims plain_strides(const Dims& dims) {
  Dims strides(dims.size(), 1);
  for (size_t axis = dims.size() - 1; axis-- > 0;) strides[axis] = strides[axis + 1] * dims[axis + 1];
  return strides;
}

class Translator {
 public:
  explicit Translator(const Problem& problem) : problem_(problem) {}

  CudnnConv run() {
    out_.reason = translate();
    return std::move(out_);
  }

 private:
  using Where = CudnnValue::Where;
  using Mode = CudnnPointwiseMode;
  static constexpr int kUnread = -1;  // an input of the program that no step has read yet
  int add(CudnnData type, const Dims& dims, const Dims& strides, Where where, int port) {
    out_.graph.values.push_back({type, dims, strides, where});
    out_.ports.push_back(port);
    return int(out_.graph.values.size()) - 1;
  }
  int add_inside() {
    return add(CudnnData::f32, out_dims_, channels_last_strides(out_dims_), Where::inside, CudnnConv::kNone);
  }

  std::string translate() {
    const auto* op = problem_.op.get_if<ops::Conv>();
    if (!op) return "not a convolution";
    const Port &x = problem_.inputs[0], &w = problem_.inputs[1], &y = problem_.outputs[0];
    CudnnData type, result_type;
    if (!data_of(x.type.dtype, type) || w.type.dtype != x.type.dtype)
      return concat("a product of ", x.type.dtype, " and ", w.type.dtype);
    if (!data_of(y.type.dtype, result_type)) return concat("a result of ", y.type.dtype);
    if (!w.is_constant) return "the weights are not constant";
    const Dims in = with_two_axes(x.dims()), weights = with_two_axes(w.dims());
    out_dims_ = with_two_axes(y.dims());
    if (in.size() < 4 || in.size() > 5) return concat(x.dims().size(), " axes");
    for (const Dims& dims : {in, weights, out_dims_})
      for (int64_t size : dims)
        if (size < 1 || size > kLargest) return concat("an axis of ", size, " elements");
    CudnnGraph& graph = out_.graph;
    const ops::Window window = op->window(w.dims());
    std::vector<int64_t> before, after;
    for (size_t axis = 0; axis < window.strides.size(); ++axis) {
      const auto pads = ops::window_pads(window, int64_t(axis), x.dims()[axis + 2]);
      before.push_back(pads.first);
      after.push_back(pads.second);
    }
    graph.strides = spatial(window.strides, 1);
    graph.dilations = spatial(window.dilations, 1);
    graph.pads_before = spatial(before, 0);
    graph.pads_after = spatial(after, 0);
    for (const Dims* dims : {&graph.strides, &graph.dilations, &graph.pads_before, &graph.pads_after})
      for (int64_t number : *dims)
        if (number < 0 || number > kLargest) return concat("a stride, dilation or padding of ", number);
    graph.x = add(type, in, channels_last_strides(in), Where::caller, 0);
    graph.w = add(type, weights, channels_last_strides(weights), Where::caller, 1);
    graph.sum = add_inside();
    if (std::string reason = translate_program(op->epilogue); !reason.empty()) return reason;
    sort_sums();
    if (std::string reason = why_compiled(); !reason.empty()) return reason;
    CudnnValue& result = graph.values[size_t(graph.steps.empty() ? graph.sum : graph.steps.back().y)];
    result.type = result_type;
    result.where = Where::caller;
    out_.ports[size_t(&result - graph.values.data())] = CudnnConv::kOutput;
    return "";
  }

  std::string translate_program(const Program& program) {
    values_.assign(size_t(program.inputs), kUnread);
    values_[0] = out_.graph.sum;
    for (const Step& step : program.steps) {
      CudnnData type;
      if (!data_of(step.dtype, type)) return concat("its epilogue computes in ", step.dtype);
      if (step.dtype != DType::f32 && step.dtype != problem_.outputs[0].type.dtype)
        return concat("its epilogue rounds to ", step.dtype, " in between");
      if (std::string reason = translate_step(program, step); !reason.empty()) return reason;
    }
    const int last = out_.graph.steps.empty() ? out_.graph.sum : out_.graph.steps.back().y;
    if (values_[size_t(program.result())] != last) return "its epilogue's result is not what its last step computes";
    return "";
  }

  // Makes sure that an input of the problem is a value of the graph.
  std::string read(const Program& program, int argument) {
    int& value = values_[size_t(argument)];
    if (value != kUnread) return "";
    const size_t input = problem_.inputs.size() - size_t(program.inputs - 1) + size_t(argument - 1);
    const Port& port = problem_.inputs[input];
    CudnnData type;
    if (!data_of(port.type.dtype, type)) return concat("its epilogue reads ", port.type.dtype);
    Dims dims = port.dims();
    const bool full = dims == problem_.outputs[0].dims();
    const size_t rank = problem_.outputs[0].dims().size();
    dims.insert(dims.begin(), rank - dims.size(), 1);
    dims = with_two_axes(dims);
    const bool last = full || same_memory(dims, Layout::plain, Layout::channels_last);
    value = add(type, dims, last ? channels_last_strides(dims) : plain_strides(dims), Where::caller, int(input));
    return "";
  }

  bool inside(int value) const { return out_.graph.values[size_t(value)].where == Where::inside; }

  std::string translate_step(const Program& program, const Step& step) {
    if (step.op != Scalar::add && step.op != Scalar::relu && step.op != Scalar::cast)
      return concat("its epilogue has ", name_of(step.op), ", for which cuDNN would compile an engine");
    for (int a = 0; a < arity_of(step.op); ++a)
      if (std::string reason = read(program, step.args[size_t(a)]); !reason.empty()) return reason;
    const int x = values_[size_t(step.args[0])];
    if (step.op == Scalar::cast) {
      values_.push_back(x);
      return "";
    }
    CudnnStep made{Mode::relu, x};
    if (step.op == Scalar::add) {
      made.mode = Mode::add;
      made.b = values_[size_t(step.args[1])];
      if (!inside(made.x) && inside(made.b)) std::swap(made.x, made.b);
    }
    made.y = add_inside();
    out_.graph.steps.push_back(made);
    values_.push_back(made.y);
    return "";
  }

  // NVIDIA ships engines for a convolution alone, and for one with a residual, a bias and relu, in this order, of which
  // the bias alone may not be missing: what cudnnConvolutionBiasActivationForward of cuDNN 8 computed. For any other
  // epilogue cuDNN compiles an engine while it makes the plan: seconds for each of its proposals, on the thread that
  // asks, and not every engine says so beforehand (CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION). Seen with the cuDNN of
  // PyTorch 2.11 on an H100: ResNet-50 without biases took minutes to build.
  std::string why_compiled() const {
    const auto& steps = out_.graph.steps;
    if (steps.empty()) return "";
    const auto is_bias = [&](int value) {
      const Dims& dims = out_.graph.values[size_t(value)].dims;
      for (size_t axis = 0; axis < dims.size(); ++axis)
        if (dims[axis] != (axis == 1 ? out_dims_[1] : 1)) return false;
      return true;
    };
    size_t i = 0;
    int sum = out_.graph.sum;
    const auto takes = [&](Mode mode, const auto& operand) {
      const bool taken = i < steps.size() && steps[i].mode == mode && steps[i].x == sum && operand(steps[i].b);
      if (taken) sum = steps[i++].y;
      return taken;
    };
    const auto any = [](int) { return true; };
    const auto is_residual = [&](int value) {
      return !inside(value) && out_.graph.values[size_t(value)].dims == out_dims_;
    };
    if (!takes(Mode::add, is_bias)) {
      takes(Mode::add, is_residual);
      if (!takes(Mode::add, is_bias)) return "its epilogue adds no bias: cuDNN would compile an engine for it";
    }
    takes(Mode::relu, any);
    return i == steps.size() ? ""
                             : "its epilogue is more than a residual, a bias and relu: cuDNN would compile an engine";
  }

  // (sum + small) + large becomes (sum + large) + small where nothing else looks at the first sum.
  void sort_sums() {
    auto& steps = out_.graph.steps;
    auto size = [&](int value) {
      int64_t count = 1;
      for (int64_t n : out_.graph.values[size_t(value)].dims) count *= n;
      return count;
    };
    for (size_t i = 0; i + 1 < steps.size(); ++i) {
      CudnnStep &first = steps[i], &second = steps[i + 1];
      if (first.mode != Mode::add || second.mode != Mode::add || second.x != first.y || second.b == first.y) continue;
      if (inside(first.b) || inside(second.b) || size(first.b) >= size(second.b)) continue;
      int uses = 0;
      for (const CudnnStep& step : steps) uses += (step.x == first.y) + (step.b == first.y);
      if (uses == 1) std::swap(first.b, second.b);
    }
  }

  const Problem& problem_;
  CudnnConv out_;
  Dims out_dims_;
  std::vector<int> values_;  // of the graph, by value of the program
};

}  // namespace

CudnnConv cudnn_conv(const Problem& problem) { return Translator(problem).run(); }

AlignedBytes channels_last_weights(const Tensor& weights) {
  const Dims& dims = weights.dims();
  const size_t size = size_t(size_of(weights.dtype()));
  int64_t taps = 1;
  for (size_t axis = 2; axis < dims.size(); ++axis) taps *= dims[axis];
  AlignedBytes out(size_t(weights.bytes()));
  for (int64_t m = 0; m < dims[0]; ++m) {
    const size_t at = size_t(m * taps * dims[1]) * size;
    transpose_on_host(weights.raw().data() + at, dims[1], taps, int64_t(size), out.data() + at, dims[1]);
  }
  return out;
}

}  // namespace temper::cuda
