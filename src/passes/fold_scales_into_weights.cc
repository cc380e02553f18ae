// SPDX-License-Identifier: Apache-2.0
// fold_scales_into_weights: an epilogue that begins with additions and multiplications by constants per output channel
// (bias, batch norm, Gemm's alpha) computes s*acc + t; the s goes into the weights and one bias t stays.
// s and t are computed in double and rounded once. The weights of this node alone change: it gets its own constant.
#include <algorithm>
#include <cmath>

#include "base/threads.h"
#include "graph/ops/conv.h"
#include "graph/ops/conv_transpose.h"
#include "graph/ops/matmul.h"
#include "passes/pass.h"
#include "passes/support/simplify.h"

namespace temper {

namespace {

// Where an op keeps constant weights, and which axes of weights and output are its output channels.
struct Weights {
  size_t input = 0;  // of the node
  int64_t weight_axis = 0;
  int64_t output_axis = 0;
  int64_t channels = 0;  // of the output
  int64_t groups = 1;    // of a transposed convolution: axis 0 of its weights says which, axis 1 holds channels/groups
};

std::optional<Weights> weights_of(const Graph& graph, const Node& node, int64_t output_axis) {
  auto dims = [&](size_t i) { return graph.type(node.inputs[i]).dims(); };
  const int64_t rank = graph.type(node.outputs[0]).rank();
  if (node.op.is<ops::Conv>()) {
    if (output_axis != 1 || !graph.constant(node.inputs[1])) return std::nullopt;
    return Weights{1, 0, 1, dims(1)[0]};
  }
  if (const auto* transposed = node.op.get_if<ops::ConvTranspose>()) {
    if (output_axis != 1 || !graph.constant(node.inputs[1])) return std::nullopt;
    return Weights{1, 1, 1, dims(1)[1] * transposed->group, transposed->group};
  }
  if (const auto* matmul = node.op.get_if<ops::MatMul>()) {
    const size_t side = output_axis == rank - 1 ? 1 : 0;
    if (output_axis < rank - 2 || !graph.constant(node.inputs[side])) return std::nullopt;
    const Dims d = dims(side);
    const bool last = side == 1 ? !matmul->transpose_b : matmul->transpose_a;
    const int64_t axis = int64_t(d.size()) - (last ? 1 : 2);
    return Weights{side, axis, output_axis, d[size_t(axis)]};
  }
  return std::nullopt;
}

// The axes that may be output channels, the usual one first.
std::vector<int64_t> channel_axes(const Graph& graph, const Node& node) {
  const int64_t rank = graph.type(node.outputs[0]).rank();
  if (node.op.is<ops::Conv, ops::ConvTranspose>()) return {1};
  if (node.op.is<ops::MatMul>()) return {rank - 1, rank - 2};
  return {};
}

class Folder {
 public:
  Folder(Graph& graph, NodeId id) : graph_(graph), node_(graph.node(id)), program_(*epilogue_of(node_.op)) {
    own_ = node_.inputs.size() - size_t(program_.inputs - 1);
  }

  bool run() {
    if (program_.is_identity()) return false;
    const DType dtype = accumulator_dtype(graph_, node_);
    // Weights narrower than the accumulator would be rounded again.
    if (!is_float(dtype) || graph_.type(node_.inputs[1]).dtype != dtype) return false;
    count_uses();
    for (int64_t axis : channel_axes(graph_, node_))
      if (auto weights = weights_of(graph_, node_, axis))
        if (fold(*weights, dtype)) return true;
    return false;
  }

 private:
  Graph& graph_;
  const Node node_;
  const Program program_;
  size_t own_ = 0;
  std::vector<int> uses_;  // of each value of the program

  // acc becomes scale * acc + shift; one entry, or one for each channel.
  struct Affine {
    std::vector<double> scale{1}, shift{0};
    int value = 0;  // the program's value that this is
    size_t adds = 0, muls = 0;
  };

  void count_uses() {
    uses_.assign(size_t(program_.inputs) + program_.steps.size(), 0);
    for (const Step& step : program_.steps)
      for (int a = 0; a < arity_of(step.op); ++a) ++uses_[size_t(step.args[size_t(a)])];
    ++uses_[size_t(program_.result())];
  }

  // The constant that a value of the program is, one number or one for each channel.
  std::optional<std::vector<double>> channel_constant(int value, const Weights& weights) const {
    if (value >= program_.inputs) {
      const Step& step = program_.steps[size_t(value - program_.inputs)];
      if (step.op != Scalar::constant) return std::nullopt;
      return std::vector<double>{step.number};
    }
    if (value == 0) return std::nullopt;
    const Tensor* tensor = graph_.constant(node_.inputs[own_ + size_t(value) - 1]);
    if (!tensor || (tensor->count() != 1 && tensor->count() != weights.channels)) return std::nullopt;
    const int64_t skip = graph_.type(node_.outputs[0]).rank() - tensor->rank();
    for (int64_t axis = 0; axis < tensor->rank(); ++axis)
      if (tensor->dims()[size_t(axis)] != 1 && axis + skip != weights.output_axis) return std::nullopt;
    return tensor->to_doubles();
  }

  // Follows acc through the steps for as long as each is an addition or a multiplication by a channel constant.
  Affine follow(const Weights& weights, DType dtype) const {
    Affine affine;
    const auto combine = [&](std::vector<double>& to, const std::vector<double>& with, auto&& f) {
      if (to.size() < with.size()) to.resize(with.size(), to[0]);
      for (size_t i = 0; i < to.size(); ++i) to[i] = f(to[i], with[with.size() == 1 ? 0 : i]);
    };
    const auto plus = [](double a, double b) { return a + b; };
    const auto times = [](double a, double b) { return a * b; };
    const auto over = [](double a, double b) { return a / b; };
    for (size_t i = 0; i < program_.steps.size(); ++i) {
      const Step& step = program_.steps[i];
      const int result = program_.inputs + int(i);
      int reads = -1;
      for (int a = 0; a < arity_of(step.op); ++a)
        if (step.args[size_t(a)] == affine.value) reads = a;
      if (reads < 0) continue;
      if (uses_[size_t(affine.value)] != 1 || step.dtype != dtype) return affine;
      if (step.op == Scalar::neg) {
        combine(affine.scale, {-1}, times);
        combine(affine.shift, {-1}, times);
        ++affine.muls;
        affine.value = result;
        continue;
      }
      if (arity_of(step.op) != 2) return affine;
      const auto other = channel_constant(step.args[size_t(1 - reads)], weights);
      if (!other) return affine;
      switch (step.op) {
        case Scalar::add:
          combine(affine.shift, *other, plus);
          ++affine.adds;
          break;
        case Scalar::sub:
          if (reads == 0) {
            combine(affine.shift, *other, [](double a, double b) { return a - b; });
          } else {
            combine(affine.scale, {-1}, times);
            combine(affine.shift, *other, [](double a, double b) { return b - a; });
            ++affine.muls;
          }
          ++affine.adds;
          break;
        case Scalar::mul:
          combine(affine.scale, *other, times);
          combine(affine.shift, *other, times);
          ++affine.muls;
          break;
        case Scalar::div:
          if (reads != 0) return affine;
          combine(affine.scale, *other, over);
          combine(affine.shift, *other, over);
          ++affine.muls;
          break;
        default: return affine;
      }
      affine.value = result;
    }
    return affine;
  }

  // The weights with each output channel multiplied; nothing where a weight would leave the range in which its dtype is
  // exact to its usual precision.
  std::optional<Tensor> scaled(const Tensor& weights, const Weights& where, const std::vector<double>& scale) const {
    Tensor out(weights.dtype(), weights.dims());
    const size_t axis = size_t(where.weight_axis);
    const int64_t inner = row_major_strides(weights.dims())[axis], along = weights.dims()[axis];
    const int64_t group_size = weights.count() / where.groups;
    std::vector<double> largest(size_t(where.channels), 0);  // of each channel; infinity where one is not finite
    visit_dtype(weights.dtype(), [&]<class T>() {
      if constexpr (std::is_same_v<Wide<T>, double>) {
        parallel_for(
            where.channels, std::max<int64_t>(1, 65536 * where.channels / std::max<int64_t>(1, weights.count())),
            [&](int64_t begin, int64_t end) {
              for (int64_t channel = begin; channel < end; ++channel) {
                const double factor = scale[scale.size() == 1 ? 0 : size_t(channel)];
                const int64_t start = channel / along * group_size + channel % along * inner;
                double most = 0;
                for (int64_t run = start; run < (channel / along + 1) * group_size; run += along * inner)
                  for (int64_t i = run; i < run + inner; ++i) {
                    const T scaled = static_cast<T>(double(weights.data<T>()[i]) * factor);
                    out.data<T>()[i] = scaled;
                    const double size = std::fabs(double(scaled));
                    most = size <= most ? most : std::isnan(size) ? std::numeric_limits<double>::infinity() : size;
                  }
                largest[size_t(channel)] = most;
              }
            });
      }
    });
    if (std::any_of(largest.begin(), largest.end(), [](double size) { return std::isinf(size); })) return std::nullopt;
    // Below 2^-14 half floats lose precision; 2^-10 leaves four bits for the smaller weights of a channel.
    const double least = weights.dtype() == DType::f16 ? 0x1p-10 : weights.dtype() == DType::f64 ? 0x1p-1000 : 0x1p-100;
    for (size_t i = 0; i < largest.size(); ++i)
      if (largest[i] != 0 && largest[i] < least && std::fabs(scale[scale.size() == 1 ? 0 : i]) < 1) return std::nullopt;
    // All of them too small for half floats, in which the product may be asked for (quantize/overflow.h), as by the
    // layer scales of 1e-6 that ConvNeXt begins its training with: f32 keeps the factor in the epilogue.
    constexpr double kSmall = 0x1p-15;
    const double whole = *std::max_element(largest.begin(), largest.end());
    const auto shrinks = [](double s) { return std::fabs(s) < 1; };
    if (weights.dtype() == DType::f32 && whole != 0 && whole < kSmall &&
        std::all_of(scale.begin(), scale.end(), shrinks))
      return std::nullopt;
    return out;
  }

  bool fold(const Weights& weights, DType dtype) {
    const Affine affine = follow(weights, dtype);
    bool scales = false;
    for (double s : affine.scale) {
      if (!std::isfinite(s)) return false;
      scales |= s != 1;
    }
    for (double t : affine.shift)
      if (!std::isfinite(t)) return false;
    if (affine.muls == 0 && affine.adds < 2) return false;
    std::vector<ValueId> inputs(node_.inputs.begin(), node_.inputs.begin() + int64_t(own_));
    std::optional<Tensor> new_weights;
    if (scales) {
      new_weights = scaled(*graph_.constant(inputs[weights.input]), weights, affine.scale);
      if (!new_weights) return false;
    }
    bool shifts = false;
    for (double t : affine.shift) shifts |= t != 0;
    if (new_weights) {
      const ValueId old_weights = inputs[weights.input];
      inputs[weights.input] = graph_.add_constant(graph_.value(old_weights).name, std::move(*new_weights));
      if (graph_.has_single_use(old_weights)) graph_.swap_names(old_weights, inputs[weights.input]);
    }

    // The new program: acc (+ shift), then what followed.
    BoundProgram bound{Program(), {ValueId{}}, 1, dtype};
    bound.inputs.insert(bound.inputs.end(), node_.inputs.begin() + int64_t(own_), node_.inputs.end());
    bound.program.inputs = program_.inputs;
    int start = 0;
    if (shifts) {
      bound.inputs.insert(bound.inputs.begin() + 1, bias(affine, weights, dtype));
      ++bound.program.inputs;
      start = bound.program.push({Scalar::add, dtype, {0, 1, -1}});
    }
    std::vector<int> map{0};
    for (int i = 1; i < program_.inputs; ++i) map.push_back(i + shifts);
    for (size_t i = 0; i < program_.steps.size(); ++i) {
      Step step = program_.steps[i];
      for (int a = 0; a < arity_of(step.op); ++a) {
        int& arg = step.args[size_t(a)];
        arg = arg == affine.value ? start : map[size_t(arg)];
      }
      map.push_back(bound.program.push(step));  // the steps that were folded are dead and go in tidy
    }
    if (affine.value == program_.result() && bound.program.result() != start)
      bound.program.push({Scalar::cast, dtype, {start, -1, -1}});
    tidy(graph_, bound);
    Op op = node_.op;
    *epilogue_of(op) = std::move(bound.program);
    inputs.insert(inputs.end(), bound.inputs.begin() + 1, bound.inputs.end());
    graph_.rewrite(node_.outputs[0], std::move(op), std::move(inputs), node_.name);
    return true;
  }

  // [channels,1,...,1], rounded once; of one element where all channels share it.
  ValueId bias(const Affine& affine, const Weights& weights, DType dtype) {
    Dims dims;
    if (affine.shift.size() > 1) {
      dims.assign(size_t(graph_.type(node_.outputs[0]).rank() - weights.output_axis), 1);
      dims[0] = weights.channels;
    }
    return graph_.add_constant(concat(node_.name, ".bias"), Tensor::of<double>(dims, affine.shift).converted(dtype));
  }
};

}  // namespace

bool fold_scales_into_weights(Graph& graph, const PassOptions& options) {
  bool changed = false;
  const int32_t count = graph.node_count();
  for (int32_t n = 0; n < count; ++n) {
    options.time.check_at(n);
    if (epilogue_of(graph.node({n}).op) && graph.node({n}).outputs.size() == 1) changed |= Folder(graph, {n}).run();
  }
  return changed;
}

}  // namespace temper
