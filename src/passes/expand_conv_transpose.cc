// SPDX-License-Identifier: Apache-2.0
// expand_conv_transpose: a transposed convolution with constant weights becomes convolutions, which have kernels
// everywhere, and an interleaving of what they give.
//
// Along an axis, output o sums x[i] * w[k] where o + pad = i * stride + k * dilation. The outputs of one phase, o mod
// stride = r, read the taps k for which stride divides r + pad - k * dilation, at i = o / stride + (r + pad - k *
// dilation) / stride: that is a plain convolution of stride 1. The phases of all axes together are
//   * one convolution with as many times the output channels, where few of its taps are ones that a phase has not:
//   these
//     are zeros, which make NaN of an infinite input. It begins with outputs that are cut off, where it has fewer
//     taps so; or
//   * a convolution for each phase, joined along the channels. So are those of each channel by itself, for which there
//     are kernels.
// The phases lie behind the positions then, and change places with those between them. The same products are summed as
// before, in another order.
//
// The epilogue stays in the convolutions, which it suits where its inputs differ by channels alone; else it stands
// behind them as a pointwise node.
#include <algorithm>
#include <cstring>
#include <optional>

#include "graph/ops/concat.h"
#include "graph/ops/conv.h"
#include "graph/ops/conv_transpose.h"
#include "graph/ops/pointwise.h"
#include "graph/ops/reshape.h"
#include "graph/ops/slice.h"
#include "graph/ops/transpose.h"
#include "passes/pass.h"
#include "passes/support/simplify.h"

namespace temper {

namespace {

// Taps that are computed for one of the weights. Above the first, phases are convolutions of their own: a kernel of 3
// by 3 with strides of 2 wastes 16 / 9, and took 1.4 to 1.7 times as long in one convolution (AVX-512), 5 by 5 wastes
// 36 / 25 and took 0.7 times as long. Above the second, the transposed convolution stays.
constexpr double kLittleWaste = 1.5, kMostWaste = 4;
// Each phase by itself is a step of its own.
constexpr int64_t kMostSteps = 8;
constexpr int64_t kMostPhases = 1 << 12;

// One axis of a transposed convolution.
struct Axis {
  int64_t size, stride, dilation, pad;  // size: of the weights
  int64_t excess;                       // the output has stride * input + excess elements
};

// The convolution along an axis that gives the outputs o = q * stride + r - front for some phases r.
struct AxisWindow {
  int64_t taps = 1, dilation = 1, begin = 0, end = 0;
};

// Which input, counted from q, the weight k is for in phase r; nothing where it is none's.
std::optional<int64_t> offset_of(const Axis& axis, int64_t front, int64_t r, int64_t k) {
  const int64_t scaled = r + axis.pad - front - k * axis.dilation;
  if (scaled % axis.stride != 0) return std::nullopt;
  return scaled / axis.stride;
}

// Reads what is at the offsets `low` to `high`.
AxisWindow window_between(const Axis& axis, int64_t front, int64_t low, int64_t high) {
  // So many more outputs has each phase than the input elements.
  const int64_t more = ceil_div(Dim(axis.excess + front), Dim(axis.stride)).value();
  // A convolution has no padding below 0: taps that are zero reach to where it would begin and end.
  const int64_t from = std::min<int64_t>(low, 0), to = std::max(high, -more);
  // With a stride of 1 the taps are as far apart as the weights are.
  const int64_t dilation = axis.stride == 1 && from == low && to == high ? axis.dilation : 1;
  return {(to - from) / dilation + 1, dilation, -from, to + more};
}

// For all phases: each weight belongs to one of them.
AxisWindow window_of_all(const Axis& axis, int64_t front) {
  const auto offset = [&](int64_t k) {
    return floor_div(Dim(axis.stride - 1 + axis.pad - front - k * axis.dilation), Dim(axis.stride)).value();
  };
  return window_between(axis, front, offset(axis.size - 1), offset(0));
}

AxisWindow window_of_one(const Axis& axis, int64_t r) {
  std::optional<int64_t> low, high;
  for (int64_t k = 0; k < axis.size; ++k)
    if (const auto at = offset_of(axis, 0, r, k)) {
      low = at;
      if (!high) high = at;
    }
  return window_between(axis, 0, low.value_or(0), high.value_or(0));
}

// A program that begins at the accumulator of a convolution of `dtype`, which may be wider.
Program from_accumulator(const Program& program, DType dtype) {
  return ops::accumulator_of(dtype, dtype) == dtype ? program : behind_cast(program, dtype);
}

class ConvTransposeExpander {
 public:
  ConvTransposeExpander(Graph& graph, NodeId id)
      : graph_(graph), node_(graph.node(id)), op_(node_.op.get<ops::ConvTranspose>()) {}

  bool run() {
    const Tensor* weights = graph_.constant(node_.inputs[1]);
    if (!weights || !describe(weights->dims())) return false;
    const auto form = choose();
    if (!form) return false;
    const bool inside = epilogue_is_by_channels();
    Program epilogue;
    if (inside) epilogue = op_.epilogue;
    epilogue = from_accumulator(epilogue, graph_.type(node_.inputs[0]).dtype);
    const bool together_form = *form == Form::together;
    const ValueId phases = together_form ? together(*weights, epilogue, inside) : apart(*weights, epilogue, inside);
    const ValueId y = interleaved(phases, together_form ? op_.group : 1);
    std::vector<ValueId> inputs{y};
    if (!inside) {
      inputs.insert(inputs.end(), node_.inputs.begin() + 2, node_.inputs.end());
      graph_.rewrite(node_.outputs[0], ops::Pointwise{op_.epilogue}, std::move(inputs), node_.name + ".epilogue");
    } else {
      graph_.swap_names(node_.outputs[0], y);
      graph_.replace(node_.outputs[0], y);
    }
    return true;
  }

 private:
  enum class Form { together, apart };

  Graph& graph_;
  const Node node_;
  const ops::ConvTranspose op_;
  std::vector<Axis> axes_;
  Dims fronts_;  // by axis: outputs before the first
  int64_t phases_ = 1;

  bool describe(const Dims& weights) {
    const Shape &in = graph_.type(node_.inputs[0]).shape, &out = graph_.type(node_.outputs[0]).shape;
    if (!in[1].is_constant() || weights[0] == 0 || weights[1] == 0) return false;
    for (size_t i = 0; i < op_.strides.size(); ++i) {
      const int64_t stride = op_.strides[i];
      const Dim excess = out[i + 2] - in[i + 2] * Dim(stride);
      if (!excess.is_constant()) return false;
      // There are outputs, also for inputs of one element.
      if (in[i + 2] == Dim(0) || (out[i + 2].is_constant() ? out[i + 2] == Dim(0) : excess.value() <= -stride))
        return false;
      axes_.push_back({weights[i + 2], stride, op_.dilations[i], op_.pads[i], excess.value()});
      if (stride > kMostPhases || (phases_ *= stride) > kMostPhases) return false;
    }
    return true;
  }

  // Sets the fronts, too.
  std::optional<Form> choose() {
    fronts_.assign(axes_.size(), 0);
    for (size_t i = 0; i < axes_.size(); ++i)
      for (int64_t f = 1; f < axes_[i].stride; ++f)
        if (window_of_all(axes_[i], f).taps < window_of_all(axes_[i], fronts_[i]).taps) fronts_[i] = f;
    double taps = 1, together = 1, apart = 1;
    for (size_t i = 0; i < axes_.size(); ++i) {
      const Axis& axis = axes_[i];
      taps *= double(axis.size);
      together *= double(axis.stride) * double(window_of_all(axis, fronts_[i]).taps);
      double along = 0;
      for (int64_t r = 0; r < axis.stride; ++r) along += double(window_of_one(axis, r).taps);
      apart *= along;
    }
    const Shape &in = graph_.type(node_.inputs[0]).shape, &out = graph_.type(node_.outputs[0]).shape;
    const bool depthwise = op_.group > 1 && in[1] == Dim(op_.group) && out[1] == Dim(op_.group);
    const bool few = phases_ > 1 && phases_ <= kMostSteps;
    const Form form = few && (depthwise || together > kLittleWaste * taps) ? Form::apart : Form::together;
    if (form == Form::apart) fronts_.assign(axes_.size(), 0);
    if ((form == Form::apart ? apart : together) > kMostWaste * taps) return std::nullopt;
    return form;
  }

  // Whether all inputs of the epilogue differ along the channels alone, or not at all, and are constant where they do.
  bool epilogue_is_by_channels() const {
    const size_t rank = axes_.size() + 2;
    for (size_t i = 2; i < node_.inputs.size(); ++i) {
      const Shape& shape = graph_.type(node_.inputs[i]).shape;
      for (size_t axis = 0; axis < shape.size(); ++axis)
        if (shape[axis] != Dim(1) && (axis + rank != shape.size() + 1 || !graph_.constant(node_.inputs[i])))
          return false;
    }
    return true;
  }

  ops::Conv conv_of(const std::vector<AxisWindow>& windows, const Program& epilogue) const {
    ops::Conv conv;
    conv.strides.assign(windows.size(), 1);
    for (const AxisWindow& window : windows)
      conv.dilations.push_back(window.dilation), conv.pads.push_back(window.begin);
    for (const AxisWindow& window : windows) conv.pads.push_back(window.end);
    conv.group = op_.group;
    conv.epilogue = epilogue;
    return conv;
  }

  // Copies what the weights hold for one phase into those of a convolution, whose groups have `outputs` channels: to
  // those from `first` on.
  void put(const Tensor& from, Tensor& to, const std::vector<AxisWindow>& windows, const Dims& fronts,
           const Dims& phase, int64_t first, int64_t outputs) const {
    const size_t size = size_t(size_of(from.dtype()));
    const Dims& dims = from.dims();
    const int64_t per_group = dims[1], inputs = dims[0] / op_.group, from_taps = from.count() / (dims[0] * per_group),
                  to_taps = to.count() / (to.dims()[0] * to.dims()[1]);
    for_each_index(Dims(dims.begin() + 2, dims.end()), [&](const Dims& k, int64_t from_tap) {
      int64_t to_tap = 0;
      for (size_t i = 0; i < axes_.size(); ++i) {
        const auto at = offset_of(axes_[i], fronts[i], phase[i], k[i]);
        if (!at) return;
        to_tap = to_tap * windows[i].taps + (*at + windows[i].begin) / windows[i].dilation;
      }
      for (int64_t c = 0; c < dims[0]; ++c)
        for (int64_t m = 0; m < per_group; ++m) {
          const int64_t row = c / inputs * outputs + first + m;
          std::memcpy(to.raw_mutable() + size_t((row * inputs + c % inputs) * to_taps + to_tap) * size,
                      from.raw().data() + size_t((c * per_group + m) * from_taps + from_tap) * size, size);
        }
    });
  }

  Tensor weights_for(const Tensor& from, const std::vector<AxisWindow>& windows, int64_t outputs) const {
    Dims dims{op_.group * outputs, from.dims()[0] / op_.group};
    for (const AxisWindow& window : windows) dims.push_back(window.taps);
    return Tensor(from.dtype(), dims);
  }

  // [N, group * phases * channels of a group, positions...].
  ValueId together(const Tensor& weights, const Program& epilogue, bool inside) {
    std::vector<AxisWindow> windows;
    for (size_t i = 0; i < axes_.size(); ++i) windows.push_back(window_of_all(axes_[i], fronts_[i]));
    const int64_t per_group = weights.dims()[1], outputs = phases_ * per_group;
    Tensor all = weights_for(weights, windows, outputs);
    for_each_index(op_.strides, [&](const Dims& phase, int64_t number) {
      put(weights, all, windows, fronts_, phase, number * per_group, outputs);
    });
    std::vector<ValueId> inputs{node_.inputs[0],
                                graph_.add_constant(graph_.value(node_.inputs[1]).name + ".phases", std::move(all))};
    for (size_t i = 2; inside && i < node_.inputs.size(); ++i) inputs.push_back(for_phases(node_.inputs[i], per_group));
    return graph_.add_single(conv_of(windows, epilogue), std::move(inputs), node_.name);
  }

  // What an epilogue reads for each channel, for all phases of it.
  ValueId for_phases(ValueId id, int64_t per_group) {
    const Tensor* constant = graph_.constant(id);
    if (phases_ == 1 || !constant || constant->count() == 1) return id;
    Dims dims(axes_.size() + 1, 1);
    dims[0] = constant->count() * phases_;
    Tensor out(constant->dtype(), dims);
    const int64_t bytes = per_group * size_of(constant->dtype());
    for (int64_t g = 0; g < op_.group; ++g)
      for (int64_t p = 0; p < phases_; ++p)
        std::memcpy(out.raw_mutable() + (g * phases_ + p) * bytes, constant->raw().data() + g * bytes, size_t(bytes));
    return graph_.add_constant(graph_.value(id).name + ".phases", std::move(out));
  }

  // [N, phases * channels, positions...].
  ValueId apart(const Tensor& weights, const Program& epilogue, bool inside) {
    std::vector<ValueId> parts;
    const int64_t per_group = weights.dims()[1];
    for_each_index(op_.strides, [&](const Dims& phase, int64_t number) {
      std::vector<AxisWindow> windows;
      for (size_t i = 0; i < axes_.size(); ++i) windows.push_back(window_of_one(axes_[i], phase[i]));
      Tensor own = weights_for(weights, windows, per_group);
      put(weights, own, windows, fronts_, phase, 0, per_group);
      const std::string suffix = concat(".phase", number);
      std::vector<ValueId> inputs{node_.inputs[0],
                                  graph_.add_constant(graph_.value(node_.inputs[1]).name + suffix, std::move(own))};
      if (inside) inputs.insert(inputs.end(), node_.inputs.begin() + 2, node_.inputs.end());
      parts.push_back(graph_.add_single(conv_of(windows, epilogue), std::move(inputs), node_.name));
    });
    return graph_.add_single(ops::Concat{1}, std::move(parts), node_.name + ".phases");
  }

  // The output of the convolutions as that of the transposed one. `groups` of channels lie outside of the phases.
  ValueId interleaved(ValueId y, int64_t groups) {
    if (phases_ == 1) return y;
    const size_t spatial = axes_.size();
    const Shape out = graph_.type(node_.outputs[0]).shape, phased = graph_.type(y).shape;
    const auto add = [&](Op op, std::string_view what) {
      y = graph_.add_single(std::move(op), {y}, concat(node_.name, what));
    };
    // Channels come last, so that they stay together:
    // [N, Q0, Q1, groups, s0, s1, channels] to [N, Q0, s0, Q1, s1, groups, channels].
    const int64_t n = int64_t(spatial), grouped = groups > 1;
    ops::Transpose last{{0}}, order{{0}}, first{{0, n + 1}};
    ops::Reshape cut{{out[0]}}, join{{out[0]}};
    for (int64_t i = 0; i < n; ++i) {
      last.perm.push_back(i + 2);
      order.perm.push_back(i + 1);
      order.perm.push_back(n + 1 + grouped + i);
      first.perm.push_back(i + 1);
      cut.shape.push_back(phased[size_t(i) + 2]);
      join.shape.push_back(phased[size_t(i) + 2] * Dim(axes_[size_t(i)].stride));
    }
    last.perm.push_back(1);
    if (grouped) order.perm.push_back(n + 1), cut.shape.push_back(Dim(groups));
    order.perm.push_back(2 * n + 1 + grouped);
    for (const Axis& axis : axes_) cut.shape.push_back(Dim(axis.stride));
    cut.shape.push_back(floor_div(out[1], Dim(groups)));
    join.shape.push_back(out[1]);
    add(std::move(last), ".channels_last");
    add(std::move(cut), ".cut");
    if (!std::ranges::is_sorted(order.perm)) add(std::move(order), ".order");
    add(std::move(join), ".joined");
    ops::Slice crop = ops::slice_all(graph_.type(y).shape);
    for (size_t i = 0; i < spatial; ++i) crop.starts[i + 1] = fronts_[i], crop.sizes[i + 1] = out[i + 2];
    if (crop.sizes != graph_.type(y).shape) add(std::move(crop), ".cropped");
    add(std::move(first), ".image");
    return y;
  }
};

}  // namespace

bool expand_conv_transpose(Graph& graph, const PassOptions& options) {
  bool changed = false;
  const int32_t count = graph.node_count();
  for (int32_t n = 0; n < count; ++n) {
    options.time.check_at(n);
    if (graph.node({n}).op.is<ops::ConvTranspose>()) changed |= ConvTransposeExpander(graph, {n}).run();
  }
  return changed;
}

}  // namespace temper
