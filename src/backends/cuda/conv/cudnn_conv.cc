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

// Not tanh, which is NaN for large numbers in one of cuDNN's engines.
bool mode_of(Scalar op, CudnnPointwiseMode& out) {
  using M = CudnnPointwiseMode;
  static constexpr std::pair<Scalar, M> kModes[] = {{Scalar::add, M::add},     {Scalar::sub, M::sub},
                                                    {Scalar::mul, M::mul},     {Scalar::div, M::div},
                                                    {Scalar::min, M::min},     {Scalar::max, M::max},
                                                    {Scalar::neg, M::neg},     {Scalar::abs, M::abs},
                                                    {Scalar::floor, M::floor}, {Scalar::ceil, M::ceil},
                                                    {Scalar::sqrt, M::sqrt},   {Scalar::exp, M::exp},
                                                    {Scalar::log, M::log},     {Scalar::erf, M::erf},
                                                    {Scalar::sin, M::sin},     {Scalar::cos, M::cos},
                                                    {Scalar::tan, M::tan},     {Scalar::sigmoid, M::sigmoid},
                                                    {Scalar::relu, M::relu},   {Scalar::reciprocal, M::reciprocal}};
  for (const auto& [scalar, mode] : kModes)
    if (scalar == op) {
      out = mode;
      return true;
    }
  return false;
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
  // A value of the program: one of the graph or a number, which may be neither of them yet.
  struct Held {
    int value = -1;
    std::optional<double> number;
  };

  int add(CudnnData type, const Dims& dims, const Dims& strides, Where where, int port, float number = 0) {
    out_.graph.values.push_back({type, dims, strides, where, number});
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
    CudnnValue& result = graph.values[size_t(graph.steps.empty() ? graph.sum : graph.steps.back().y)];
    result.type = result_type;
    result.where = Where::caller;
    out_.ports[size_t(&result - graph.values.data())] = CudnnConv::kOutput;
    return "";
  }

  std::string translate_program(const Program& program) {
    held_.push_back({out_.graph.sum, {}});
    for (int i = 1; i < program.inputs; ++i) held_.push_back({});
    for (const Step& step : program.steps) {
      CudnnData type;
      if (!data_of(step.dtype, type)) return concat("its epilogue computes in ", step.dtype);
      if (step.op == Scalar::constant) {
        held_.push_back({-1, step.number});
        continue;
      }
      if (step.dtype != DType::f32 && step.dtype != problem_.outputs[0].type.dtype)
        return concat("its epilogue rounds to ", step.dtype, " in between");
      if (step.op == Scalar::cast) {
        if (std::string reason = value_of(program, step.args[0]); !reason.empty()) return reason;
        held_.push_back(held_[size_t(step.args[0])]);
        continue;
      }
      if (std::string reason = translate_step(program, step); !reason.empty()) return reason;
    }
    const Held& result = held_[size_t(program.result())];
    const int last = out_.graph.steps.empty() ? out_.graph.sum : out_.graph.steps.back().y;
    if (result.value != last) return "its epilogue's result is not what its last step computes";
    return "";
  }

  // Makes sure that an input of the problem is a value of the graph.
  std::string value_of(const Program& program, int argument) {
    Held& held = held_[size_t(argument)];
    if (held.value >= 0 || held.number) return "";
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
    held.value = add(type, dims, last ? channels_last_strides(dims) : plain_strides(dims), Where::caller, int(input));
    return "";
  }

  int number(double value) {
    const Dims ones(out_dims_.size(), 1);
    return add(CudnnData::f32, ones, ones, Where::number, CudnnConv::kNone, float(value));
  }
  int operand(const Held& held) { return held.number ? number(*held.number) : held.value; }
  bool inside(int value) const { return out_.graph.values[size_t(value)].where == Where::inside; }
  bool used_once(const Program& program, int argument) const {
    int uses = 0;
    for (const Step& step : program.steps)
      for (int a = 0; a < arity_of(step.op); ++a) uses += step.args[size_t(a)] == argument;
    return uses == 1;
  }

  std::string translate_step(const Program& program, const Step& step) {
    CudnnStep made{};
    if (!mode_of(step.op, made.mode))
      return concat("its epilogue has ", name_of(step.op), ", which cuDNN has no step for");
    const int arity = arity_of(step.op);
    for (int a = 0; a < arity; ++a)
      if (std::string reason = value_of(program, step.args[size_t(a)]); !reason.empty()) return reason;
    Held x = held_[size_t(step.args[0])], b = arity > 1 ? held_[size_t(step.args[1])] : Held{};
    int first = step.args[0];
    const bool swaps =
        step.op == Scalar::add || step.op == Scalar::mul || step.op == Scalar::min || step.op == Scalar::max;
    if (arity > 1 && swaps && (x.number || (!inside(x.value) && b.value >= 0 && inside(b.value)))) {
      std::swap(x, b);
      first = step.args[1];
    }
    if (x.number && (arity == 1 || b.number)) return "its epilogue computes with constants alone";
    auto& steps = out_.graph.steps;
    // Limits of both kinds are one step of cuDNN's.
    if (step.op == Scalar::max && b.number) {
      made.mode = Mode::relu;
      made.lower = float(*b.number);
    } else if (step.op == Scalar::min && b.number && !steps.empty() && steps.back().y == x.value &&
               steps.back().mode == Mode::relu && !steps.back().upper && first == last_ && used_once(program, first) &&
               *b.number >= steps.back().lower.value_or(0)) {
      steps.back().upper = float(*b.number);
      held_.push_back(x);
      return "";
    }
    made.x = operand(x);
    if (arity > 1 && made.mode != Mode::relu) made.b = operand(b);
    made.y = add_inside();
    steps.push_back(made);
    last_ = int(held_.size());
    held_.push_back({made.y, {}});
    return "";
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
  std::vector<Held> held_;  // by value of the program
  int last_ = -1;           // the program's value that the graph's last step computes
};

}  // namespace

CudnnConv cudnn_conv(const Problem& problem) { return Translator(problem).run(); }

AlignedBytes channels_last_weights(const Tensor& weights) {
  const Dims dims = weights.dims();
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
