// SPDX-License-Identifier: Apache-2.0
#include "passes/smooth_channels.h"

#include <algorithm>
#include <cmath>

#include "base/threads.h"
#include "graph/finite.h"
#include "graph/ops/matmul.h"
#include "graph/ops/pointwise.h"
#include "graph/ops/reshape.h"
#include "graph/ops/transpose.h"
#include "passes/support/simplify.h"

namespace temper {

namespace {

constexpr double kLevels = 127, kTwelfth = 1.0 / 12;
constexpr double kStrengths[] = {0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1};
// Less noise than this share of it is worth factors.
constexpr double kWorth = 0.5;

// What the columns of the weights of one product are, channel by channel of its input.
struct Columns {
  NodeId node;
  int64_t channels = 0, columns = 0;
  const float* values = nullptr;  // [channels, columns]: the weights themselves, or `turned`
  std::vector<float> turned;
};

class Smoother {
 public:
  Smoother(Graph& graph, const std::map<std::string, SeenChannels>& seen, const std::set<std::string>& kept,
           const BuildTime& time)
      : graph_(graph), seen_(seen), kept_(kept), time_(time) {}

  std::vector<SmoothedValue> run() {
    // By name: a product that was rewritten has another value.
    std::vector<std::string> names;
    for (int32_t v = 0; v < graph_.value_count(); ++v) {
      time_.check_at(v);
      if (seen_.contains(graph_.value({v}).name)) names.push_back(graph_.value({v}).name);
    }
    for (const std::string& name : names) {
      time_.check();  // weights are read for each
      if (const ValueId id = graph_.find(name); id.valid() && !graph_.value(id).constant) visit(id, seen_.at(name));
    }
    return std::move(smoothed_);
  }

 private:
  Graph& graph_;
  const std::map<std::string, SeenChannels>& seen_;
  const std::set<std::string>& kept_;
  const BuildTime& time_;
  std::vector<SmoothedValue> smoothed_;

  // Inputs of a node that belong to its program: all of a pointwise node's, the last ones of one with an epilogue.
  static size_t first_of_program(const Node& node) {
    if (node.op.is<ops::Pointwise>()) return 0;
    const Program* epilogue = epilogue_of(node.op);
    return epilogue ? node.inputs.size() - size_t(epilogue->inputs - 1) : node.inputs.size();
  }

  // The product, where it may be one of 8 bits that reads `x` as its rows.
  std::optional<Columns> columns_of(ValueId x, NodeId id) const {
    const Node& node = graph_.node(id);
    const auto* product = node.op.get_if<ops::MatMul>();
    if (!product || node.inputs[0] != x || product->transpose_a) return std::nullopt;
    const Tensor* weights = graph_.constant(node.inputs[1]);
    if (!weights || weights->rank() != 2 || weights->dtype() != DType::f32) return std::nullopt;
    const int64_t rows = weights->dims()[0], columns = weights->dims()[1];
    const float* from = weights->data<float>();
    if (!all_finite(*weights)) return std::nullopt;
    Columns all{id, rows, columns, from, {}};
    if (product->transpose_b) {
      std::swap(all.channels, all.columns);
      all.turned.resize(size_t(weights->count()));
      parallel_for(columns, 16, [&](int64_t begin, int64_t end) {
        for (int64_t n = 0; n < rows; ++n)
          for (int64_t c = begin; c < end; ++c) all.turned[size_t(c * rows + n)] = from[n * columns + c];
      });
      all.values = all.turned.data();
    }
    return all;
  }

  void visit(ValueId x, const SeenChannels& seen) {
    const TensorType& type = graph_.type(x);
    const auto channels = int64_t(seen.maxima.size());
    if (type.dtype != DType::f32 || type.rank() < 2 || type.shape.back() != Dim(channels) || channels < 2 ||
        graph_.is_output(x) || !may_divide(x))
      return;
    std::vector<Columns> products;
    std::vector<const Columns*> counting;
    std::vector<NodeId> users(graph_.value(x).users.begin(), graph_.value(x).users.end());
    std::ranges::sort(users);
    users.erase(std::unique(users.begin(), users.end()), users.end());
    // Where all are kept, nothing counts, and no weights need be looked at.
    if (std::ranges::all_of(users, [&](NodeId user) { return kept_.contains(graph_.node(user).name); })) return;
    for (NodeId user : users) {
      const Node& node = graph_.node(user);
      std::optional<Columns> columns = columns_of(x, user);
      const size_t program = first_of_program(node);
      for (size_t i = columns ? 1 : 0; i < node.inputs.size(); ++i)
        if (node.inputs[i] == x && !may_scale(node, i, program, channels)) return;
      if (!columns) continue;
      products.push_back(std::move(*columns));
    }
    for (const Columns& product : products)
      if (!kept_.contains(graph_.node(product.node).name)) counting.push_back(&product);
    double strength = 0;
    const std::vector<float> factors = choose(seen, counting, strength);
    if (!factors.empty()) apply(x, seen, factors, strength, products, users);
  }

  // What computes the value takes the division in; behind the product of an attention, whose heads become channels by
  // views, it is done where the value is rounded. Other movers stay in 8 bits with what is in front of them.
  bool may_divide(ValueId x) const {
    const Node* node = graph_.producer(x);
    if (node && (node->op.is<ops::Pointwise>() || node->op.is<ops::MatMul>())) return true;
    while (node && (node->op.is<ops::Reshape>() || node->op.is<ops::Transpose>()))
      node = graph_.producer(node->inputs[0]);
    return node && node->op.is<ops::MatMul>() && !graph_.constant(node->inputs[1]);
  }

  // Factors of channels lie along the last axis of the program's result.
  bool may_scale(const Node& node, size_t input, size_t first, int64_t channels) const {
    if (input < first || node.outputs.size() != 1) return false;
    const Program& program =
        node.op.is<ops::Pointwise>() ? node.op.get<ops::Pointwise>().program : *epilogue_of(node.op);
    const Shape& shape = graph_.type(node.outputs[0]).shape;
    return !shape.empty() && shape.back() == Dim(channels) && program.inputs < kMaxProgramInputs &&
           program.steps.size() + 2 < kMaxProgramSteps;
  }

  // Factors to compare, and the scale of what they make of the value; noise() fills in `sum`, what rounding adds to all
  // elements of a row of all products together, as a mean of squares.
  struct Trial {
    std::vector<float> factors;
    double scale = 0, sum = 0;
  };

  // Weights are many, and read once: each channel's squares do not depend on the factors, and a column's largest is
  // found for all trials at a time.
  static void noise(const SeenChannels& seen, const std::vector<const Columns*>& counting, std::vector<Trial>& trials) {
    // Squares of channels as if all had the same form.
    double squares = 0;
    for (float most : seen.maxima) squares += double(most) * most;
    const double share = squares > 0 ? seen.mean_square * double(seen.maxima.size()) / squares : 0;
    for (const Columns* counted : counting) {
      const Columns& product = *counted;
      const auto channels = size_t(product.channels), columns = size_t(product.columns);
      std::vector<double> sums(channels, 0);  // of squares of weights
      parallel_for(product.channels, 16, [&](int64_t begin, int64_t end) {
        for (auto c = size_t(begin); c < size_t(end); ++c)
          for (size_t n = 0; n < columns; ++n)
            sums[c] += double(product.values[c * columns + n]) * product.values[c * columns + n];
      });
      std::vector<std::vector<float>> most(trials.size(), std::vector<float>(columns, 0));
      parallel_for(product.columns, 128, [&](int64_t begin, int64_t end) {
        for (size_t c = 0; c < channels; ++c) {
          const float* weights = product.values + c * columns;
          for (size_t t = 0; t < trials.size(); ++t) {
            const float s = trials[t].factors[c];
            float* largest = most[t].data();
#pragma omp simd
            for (int64_t n = begin; n < end; ++n) {
              const float w = std::fabs(s * weights[n]);
              largest[n] = largest[n] < w ? w : largest[n];
            }
          }
        }
      });
      for (size_t t = 0; t < trials.size(); ++t) {
        Trial& trial = trials[t];
        double rows = 0;  // squares of the smoothed input
        for (size_t c = 0; c < channels; ++c) {
          const double s = trial.factors[c], x2 = share * double(seen.maxima[c]) * seen.maxima[c] / (s * s);
          trial.sum += s * s * sums[c] * std::min(x2, trial.scale * trial.scale * kTwelfth);
          rows += x2;
        }
        for (double w : most[t]) trial.sum += rows * (w / kLevels) * (w / kLevels) * kTwelfth;
      }
    }
  }

  static float power_of_two(double s) {
    return float(std::ldexp(1.0, std::clamp(int(std::lround(std::log2(s))), -30, 30)));
  }

  // None where the value is best left as it is.
  static std::vector<float> choose(const SeenChannels& seen, const std::vector<const Columns*>& counting,
                                   double& strength) {
    const size_t channels = seen.maxima.size();
    if (counting.empty()) return {};
    for (const Columns* product : counting)
      if (product->channels != int64_t(channels)) return {};
    std::vector<float> weights(channels, 0);
    for (const Columns* product : counting)
      parallel_for(product->channels, 16, [&](int64_t begin, int64_t end) {
        for (int64_t c = begin; c < end; ++c) {
          const float* row = product->values + c * product->columns;
          float most = weights[size_t(c)];
#pragma omp simd reduction(max : most)
          for (int64_t n = 0; n < product->columns; ++n) most = most < std::fabs(row[n]) ? std::fabs(row[n]) : most;
          weights[size_t(c)] = most;
        }
      });
    std::vector<Trial> trials(std::size(kStrengths) + 1, {std::vector<float>(channels, 1)});
    trials.back().scale = seen.scale;  // the last one leaves the value as it is
    for (size_t i = 0; i < std::size(kStrengths); ++i) {
      Trial& trial = trials[i];
      const double a = kStrengths[i];
      double largest = 0;
      for (size_t c = 0; c < channels; ++c)
        if (seen.maxima[c] > 0 && weights[c] > 0) {
          trial.factors[c] = power_of_two(std::pow(double(seen.maxima[c]), a) / std::pow(double(weights[c]), 1 - a));
          largest = std::max(largest, double(seen.maxima[c]) / trial.factors[c]);
        }
      // What no product looks at must not be the largest.
      for (size_t c = 0; c < channels; ++c)
        if (seen.maxima[c] > 0 && weights[c] == 0 && largest > 0)
          trial.factors[c] = power_of_two(2 * double(seen.maxima[c]) / largest);
      trial.scale = largest / kLevels;
    }
    noise(seen, counting, trials);
    std::vector<float> best;
    double least = kWorth * trials.back().sum;
    for (size_t i = 0; i < std::size(kStrengths); ++i) {
      if (!(trials[i].sum < least)) continue;
      least = trials[i].sum, strength = kStrengths[i];
      best = std::move(trials[i].factors);
    }
    return best;
  }

  ValueId factor_constant(const std::string& name, const std::vector<float>& factors, bool inverse) {
    std::vector<float> values = factors;
    if (inverse)
      for (float& value : values) value = 1 / value;
    return graph_.add_constant(name, Tensor::of<float>({int64_t(values.size())}, values));
  }

  void apply(ValueId x, const SeenChannels& seen, const std::vector<float>& factors, double strength,
             const std::vector<Columns>& products, const std::vector<NodeId>& users) {
    const std::string name = graph_.value(x).name;
    Program times{2, {}};
    times.push({Scalar::mul, DType::f32, {0, 1, -1}});
    const ValueId small = graph_
                              .add(ops::Pointwise{times}, {x, factor_constant(name + "/by", factors, true)},
                                   name + "/smooth", {name + "/smoothed"})
                              .at(0);
    ValueId back;  // the constant of what multiplies again
    for (NodeId user : users) {
      Node node = graph_.node(user);
      const auto product = std::ranges::find(products, user, &Columns::node);
      if (product != products.end()) {
        node.inputs[0] = small;
        node.inputs[1] = scaled(node, factors);
      }
      const size_t first = first_of_program(node);
      for (size_t i = node.inputs.size(); i-- > first;)
        if (node.inputs[i] == x) {
          if (!back.valid()) back = factor_constant(name + "/back", factors, false);
          multiply(node, i, small, back, times);
        }
      graph_.rewrite(node.outputs[0], node.op, node.inputs, node.name);
    }
    float largest = 0;
    for (size_t c = 0; c < factors.size(); ++c) largest = std::max(largest, seen.maxima[c] / factors[c]);
    smoothed_.push_back({name, graph_.value(small).name, largest, strength});
  }

  // The program reads small * back in the place of input `at`.
  static void multiply(Node& node, size_t at, ValueId small, ValueId back, const Program& times) {
    const bool plain = node.op.is<ops::Pointwise>();
    Program& program = plain ? node.op.get<ops::Pointwise>().program : *epilogue_of(node.op);
    const int fixed = plain ? 0 : 1;
    const int slot = int(at - first_of_program(node)) + fixed;
    program = splice(times, program, slot);  // its inputs: those that are left, then small and back
    node.inputs.erase(node.inputs.begin() + at, node.inputs.begin() + at + 1);
    node.inputs.push_back(small);
    node.inputs.push_back(back);
  }

  ValueId scaled(const Node& node, const std::vector<float>& factors) {
    const Tensor& weights = *graph_.constant(node.inputs[1]);
    const bool turned = node.op.get<ops::MatMul>().transpose_b;
    Tensor out(DType::f32, weights.dims());
    const int64_t columns = weights.dims()[1];
    for (int64_t i = 0; i < weights.count(); ++i)
      out.data<float>()[i] = weights.data<float>()[i] * factors[size_t(turned ? i % columns : i / columns)];
    return graph_.add_constant(graph_.value(node.inputs[1]).name, std::move(out));
  }
};

}  // namespace

std::vector<SmoothedValue> smooth_channels(Graph& graph, const std::map<std::string, SeenChannels>& seen,
                                           const std::set<std::string>& kept, const BuildTime& time) {
  return Smoother(graph, seen, kept, time).run();
}

}  // namespace temper
