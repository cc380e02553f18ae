// SPDX-License-Identifier: Apache-2.0
#include "passes/support/simplify.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <tuple>

namespace temper {

namespace {

// The integers that a float dtype holds exactly: up to 2^digits.
int digits_of(DType dtype) {
  switch (dtype) {
    case DType::f32: return 24;
    case DType::f16: return 11;
    case DType::bf16: return 8;
    case DType::f64: return 53;
    default: return 0;
  }
}
int bits_of(DType dtype) { return int(size_of(dtype) * 8) - is_signed_int(dtype); }  // of an integer's magnitude

// Every value of `from` is a value of `to`.
bool widens(DType from, DType to) {
  if (from == to) return true;
  if (from == DType::boolean) return true;
  if (to == DType::boolean) return false;
  if (is_float(from)) return is_float(to) && (to == DType::f64 || (to == DType::f32 && from != DType::f64));
  if (is_float(to)) return bits_of(from) <= digits_of(to);
  return bits_of(from) <= bits_of(to) && (is_signed_int(to) || !is_signed_int(from));
}

bool is_commutative(Scalar op) {
  switch (op) {
    case Scalar::add:
    case Scalar::mul:
    case Scalar::min:
    case Scalar::max:
    case Scalar::bit_and:
    case Scalar::bit_or:
    case Scalar::bit_xor:
    case Scalar::equal:
    case Scalar::logical_and:
    case Scalar::logical_or:
    case Scalar::logical_xor: return true;
    default: return false;
  }
}

Tensor scalar_tensor(const Step& constant) {
  Tensor tensor(constant.dtype, {});
  visit_dtype(constant.dtype, [&]<class T>() {
    if constexpr (std::is_integral_v<T>) *tensor.data<T>() = static_cast<T>(constant.integer);
    else *tensor.data<T>() = static_cast<T>(constant.number);
  });
  return tensor;
}

Step constant_of(const Tensor& tensor) {
  Step step{Scalar::constant, tensor.dtype()};
  visit_dtype(tensor.dtype(), [&]<class T>() {
    if constexpr (std::is_integral_v<T>) step.integer = int64_t(*tensor.data<T>());
    else step.number = double(*tensor.data<T>());
  });
  return step;
}

class Simplifier {
 public:
  // `steps`: how many the program has.
  Simplifier(std::span<const DType> dtypes, size_t steps) : inputs_(int(dtypes.size())) {
    values_.reserve(dtypes.size() + steps + 2);
    for (size_t i = 0; i < dtypes.size(); ++i)
      values_.push_back({{Scalar::constant, dtypes[i]}, uint64_t(1) << std::min<size_t>(i, 63), 0});
  }

  Program run(const Program& program) {
    std::vector<int> map(static_cast<size_t>(inputs_));
    map.reserve(size_t(inputs_) + program.steps.size());
    std::iota(map.begin(), map.end(), 0);
    for (Step step : program.steps) {
      for (int a = 0; a < arity_of(step.op); ++a) step.args[size_t(a)] = map[size_t(step.args[size_t(a)])];
      map.push_back(make(step));
    }
    return emit(map[size_t(program.result())]);
  }

 private:
  struct Made {
    Step step;           // args are indices of values
    uint64_t reads = 0;  // which inputs it depends on; the last bit stands for all inputs from 63 on
    int depth = 0;       // the longest chain of steps behind it
  };
  int inputs_;
  std::vector<Made> values_;  // the first `inputs_` stand for the inputs
  std::vector<int> known_;    // the values that are steps, at the places that their hashes give; -1 is free
                              // empty: they are few, and looked through

  const Step& at(int v) const { return values_[size_t(v)].step; }
  const Made& made(int v) const { return values_[size_t(v)]; }
  DType dtype(int v) const { return at(v).dtype; }
  bool is_step(int v, Scalar op) const { return v >= inputs_ && at(v).op == op; }
  bool is_constant(int v) const { return is_step(v, Scalar::constant); }
  // Of a constant; integers above 2^53 are not looked at as numbers.
  double number(int v) const { return is_float(dtype(v)) ? at(v).number : double(at(v).integer); }
  bool is_number(int v, double wanted) const { return is_constant(v) && number(v) == wanted; }
  int constant(DType type, double value) { return make(constant_step(type, value)); }
  int make(Scalar op, DType type, int a, int b = -1, int c = -1) { return make(Step{op, type, {a, b, c}}); }

  static auto key(const Step& step) {
    return std::tuple(step.op, step.dtype, step.args, std::bit_cast<uint64_t>(step.number), step.integer);
  }

  // Where `step` stands in known_, or where it belongs.
  size_t place_of(const Step& step) const {
    uint64_t hash = uint64_t(step.op) << 8 | uint64_t(step.dtype);
    for (const uint64_t part : {uint64_t(step.args[0]), uint64_t(step.args[1]), uint64_t(step.args[2]),
                                std::bit_cast<uint64_t>(step.number), uint64_t(step.integer)})
      hash = (hash ^ part ^ part >> 32) * 0x9e3779b97f4a7c15;
    size_t place = (hash >> 32) & (known_.size() - 1);
    while (known_[place] >= 0 && key(at(known_[place])) != key(step)) place = (place + 1) & (known_.size() - 1);
    return place;
  }

  int intern(const Step& step) {
    constexpr size_t kFew = 8;
    const auto next = int(values_.size());
    if (values_.size() < size_t(inputs_) + kFew) {
      for (int v = inputs_; v < next; ++v)
        if (key(at(v)) == key(step)) return v;
    } else {
      if (known_.size() < 2 * (values_.size() + 1)) {
        known_.assign(std::bit_ceil(4 * (values_.size() + 1)), -1);
        for (int v = inputs_; v < next; ++v) known_[place_of(at(v))] = v;
      }
      int& known = known_[place_of(step)];
      if (known >= 0) return known;
      known = next;
    }
    Made value{step};
    for (int a = 0; a < arity_of(step.op); ++a) {
      value.reads |= made(step.args[size_t(a)]).reads;
      value.depth = std::max(value.depth, made(step.args[size_t(a)]).depth + 1);
    }
    values_.push_back(value);
    return next;
  }

  // Whether `b` is the better first argument: see simplify.h on constants, silu and residuals.
  bool in_wrong_order(int a, int b) const {
    if (is_constant(a) != is_constant(b)) return is_constant(a);
    const bool plain_a = a > 0 && a < inputs_, plain_b = b > 0 && b < inputs_;
    if (plain_a && b >= inputs_) return (made(b).reads & made(a).reads) == 0;
    if (plain_b && a >= inputs_) return (made(a).reads & made(b).reads) != 0;
    return std::pair(made(a).depth, a) > std::pair(made(b).depth, b);
  }

  int evaluate(const Step& step) {
    Program program;
    program.inputs = arity_of(step.op);
    Step local = step;
    std::vector<Tensor> arguments;
    for (int a = 0; a < program.inputs; ++a) {
      arguments.push_back(scalar_tensor(at(step.args[size_t(a)])));
      local.args[size_t(a)] = a;
    }
    program.steps.push_back(local);
    return intern(constant_of(run_program(program, arguments, {})));
  }

  int make(Step step) {
    if (step.op == Scalar::constant) {
      step.args = {-1, -1, -1};
      if (is_float(step.dtype)) step.integer = 0;
      else step.number = 0;
      return intern(step);
    }
    step.number = 0, step.integer = 0;
    for (int a = arity_of(step.op); a < 3; ++a) step.args[size_t(a)] = -1;
    bool all_constant = true;
    for (int a = 0; a < arity_of(step.op); ++a) all_constant &= is_constant(step.args[size_t(a)]);
    if (all_constant) return evaluate(step);
    auto& [a, b, c] = step.args;
    if (is_commutative(step.op) && in_wrong_order(a, b)) std::swap(a, b);
    if (const int simpler = rewrite(step); simpler >= 0) return simpler;
    return intern(step);
  }

  // The value that is equal to `step` and simpler, or -1. The step's arguments are simplified already.
  int rewrite(const Step& step) {
    const auto [a, b, c] = step.args;
    const DType type = step.dtype;
    switch (step.op) {
      case Scalar::cast: return rewrite_cast(a, type);
      case Scalar::add:
        // x + 0 turns -0 into 0, so only -0 is neutral for floats.
        if (is_number(b, 0) && (!is_float(type) || std::signbit(number(b)))) return a;
        break;
      case Scalar::sub:
        if (!is_constant(b)) break;
        if (is_float(type)) return make(Scalar::add, type, a, constant(type, -number(b)));
        if (is_number(b, 0)) return a;
        break;
      case Scalar::mul:
        if (is_number(b, 1)) return a;
        return rewrite_gelu(a, b, type);
      case Scalar::erf:
        // The Gaussian's argument is x / sqrt(2) in some models and x * sqrt(1/2) in others.
        if (is_step(a, Scalar::div) && is_constant(at(a).args[1]) &&
            std::fabs(number(at(a).args[1]) - std::sqrt(2)) < 1e-6)
          return make(Scalar::erf, type, make(Scalar::mul, type, at(a).args[0], constant(type, std::sqrt(0.5))));
        break;
      case Scalar::div:
        if (is_number(b, 1)) return a;
        if (is_constant(b) && is_float(type)) {
          int exponent = 0;
          const double inverse = 1 / number(b);
          const bool power_of_two = std::isfinite(inverse) && std::fabs(std::frexp(number(b), &exponent)) == 0.5;
          // Away from the ends of the dtype's range, where the inverse itself would be rounded.
          if (power_of_two && std::abs(exponent) < 14) return make(Scalar::mul, type, a, constant(type, inverse));
        }
        break;
      case Scalar::pow:
        if (is_number(b, 1)) return a;
        // The double product of two floats of at most 32 bits is exact; integers wrap alike.
        if (is_number(b, 2) && type != DType::f64) return make(Scalar::mul, type, a, a);
        // Two roundings instead of one, of the size of the dtype's own: worth it only where they are small.
        if (is_number(b, 3) && (type == DType::f32 || is_int(type)))
          return make(Scalar::mul, type, make(Scalar::mul, type, a, a), a);
        break;
      case Scalar::neg:
        if (is_step(a, Scalar::neg)) return at(a).args[0];
        break;
      case Scalar::logical_not:
        if (is_step(a, Scalar::logical_not)) return at(a).args[0];
        break;
      case Scalar::abs:
        if (is_step(a, Scalar::abs) || is_step(a, Scalar::relu)) return a;
        break;
      case Scalar::relu: return rewrite_max(a, constant(type, 0), type, true);
      case Scalar::max:
        if (a == b) return a;
        if (is_constant(b)) return rewrite_max(a, b, type, false);
        break;
      case Scalar::min:
        if (a == b) return a;
        if (is_constant(b) && is_step(a, Scalar::min) && is_constant(at(a).args[1]) && ordered(b, at(a).args[1]))
          return make(Scalar::min, type, at(a).args[0], number(b) < number(at(a).args[1]) ? b : at(a).args[1]);
        break;
      case Scalar::where:
        if (b == c) return b;
        if (is_constant(a)) return at(a).integer ? b : c;
        break;
      default: break;
    }
    return -1;
  }

  bool ordered(int a, int b) const {  // comparable without loss: no NaN, no integer that a double cannot hold
    for (int v : {a, b})
      if (!(std::fabs(number(v)) <= 0x1p53) && !(is_float(dtype(v)) && std::isinf(number(v)))) return false;
    return true;
  }

  // max(x, b) with a constant b; relu is the case b = 0. -1 where it stays as it is.
  int rewrite_max(int x, int b, DType type, bool is_relu) {
    if (!is_float(type) && !is_signed_int(type) && is_number(b, 0)) return x;
    const auto bound = [&](int v, Scalar op) {
      return is_step(v, op) && is_constant(at(v).args[1]) && ordered(b, at(v).args[1]);
    };
    if (std::isnan(number(b)) || !ordered(b, b)) return -1;
    if (is_step(x, Scalar::relu)) return number(b) <= 0 ? x : make(Scalar::max, type, at(x).args[0], b);
    if (bound(x, Scalar::max))
      return number(at(x).args[1]) >= number(b) ? x : make(Scalar::max, type, at(x).args[0], b);
    // max(min(x, hi), lo) with lo <= hi: the bounds change places.
    if (bound(x, Scalar::min) && number(b) <= number(at(x).args[1])) {
      const int high = at(x).args[1];
      return make(Scalar::min, type, make(Scalar::max, type, at(x).args[0], b), high);
    }
    if (!is_relu && is_number(b, 0)) return make(Scalar::relu, type, x);
    return -1;
  }

  // x * 0.5 * (1 + erf or tanh): the three factors in one order. Halving is exact, so the order decides nothing else.
  int rewrite_gelu(int a, int b, DType type) {
    auto is_gate = [&](int v) {
      return is_step(v, Scalar::add) && is_number(at(v).args[1], 1) &&
             (is_step(at(v).args[0], Scalar::erf) || is_step(at(v).args[0], Scalar::tanh));
    };
    auto is_half_of = [&](int v) { return is_step(v, Scalar::mul) && is_number(at(v).args[1], 0.5); };
    for (const auto& [v, w] : {std::pair(a, b), std::pair(b, a)}) {
      // (gate * 0.5) * x
      if (is_half_of(v) && is_gate(at(v).args[0]))
        return make(Scalar::mul, type, make(Scalar::mul, type, w, constant(type, 0.5)), at(v).args[0]);
      // (x * gate) * 0.5
      if (is_number(w, 0.5) && is_step(v, Scalar::mul))
        for (int first : {0, 1}) {
          const int gate = at(v).args[size_t(1 - first)], x = at(v).args[size_t(first)];
          if (is_gate(gate) && !is_constant(x))
            return make(Scalar::mul, type, make(Scalar::mul, type, x, constant(type, 0.5)), gate);
        }
    }
    return -1;
  }

  // Two casts are one where the first keeps every value. Integers wrap when cast to integers but saturate when cast
  // from floats, so an integer may skip a float only on the way to what holds all its values.
  int rewrite_cast(int a, DType to) {
    if (dtype(a) == to) return a;
    if (!is_step(a, Scalar::cast)) return -1;
    const int x = at(a).args[0];
    const DType from = dtype(x), middle = dtype(a);
    if (!widens(from, middle)) return -1;
    if (is_int(from) && is_float(middle) && is_int(to) && !widens(from, to)) return -1;
    return make(Scalar::cast, to, x);
  }

  Program emit(int result) {
    Program program;
    program.inputs = inputs_;
    if (result < inputs_) {
      // Input 0 is what a program without steps gives; another input has to be named by a step.
      if (result > 0) program.push({Scalar::cast, dtype(result), {result, -1, -1}});
      return program;
    }
    program.steps.reserve(values_.size() - size_t(inputs_));
    std::vector<int> number(values_.size(), -1);
    for (int i = 0; i < inputs_; ++i) number[size_t(i)] = i;
    std::vector<int> stack{result};
    while (!stack.empty()) {
      const int v = stack.back();
      if (number[size_t(v)] >= 0) {
        stack.pop_back();
        continue;
      }
      Step step = at(v);
      bool ready = true;
      for (int a = arity_of(step.op); a-- > 0;)
        if (number[size_t(step.args[size_t(a)])] < 0) {
          stack.push_back(step.args[size_t(a)]);
          ready = false;
        }
      if (!ready) continue;
      for (int a = 0; a < arity_of(step.op); ++a) step.args[size_t(a)] = number[size_t(step.args[size_t(a)])];
      number[size_t(v)] = program.push(step);
      stack.pop_back();
    }
    return program;
  }
};

}  // namespace

Program simplify(const Program& program, std::span<const DType> input_dtypes) {
  return Simplifier(input_dtypes, program.steps.size()).run(program);
}

std::vector<DType> BoundProgram::dtypes(const Graph& graph) const {
  std::vector<DType> result;
  result.reserve(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    result.push_back(int(i) < fixed ? accumulator : graph.type(inputs[i]).dtype);
  return result;
}

DType accumulator_dtype(const Graph& graph, const Node& node) {
  Op bare = node.op;
  Program& epilogue = *epilogue_of(bare);
  const size_t own = node.inputs.size() - size_t(epilogue.inputs - 1);
  epilogue = Program();
  const auto operands = operands_of(graph, std::span(node.inputs).first(own));
  return infer(bare, InferContext(operands, node.name)).at(0).dtype;
}

std::optional<double> only_element(const Tensor* constant) {
  if (!constant || constant->count() == 0) return std::nullopt;
  if (!is_float(constant->dtype()) && constant->dtype() != DType::boolean) return std::nullopt;
  std::optional<double> only;
  visit_dtype(constant->dtype(), [&]<class T>() {
    const std::span<const T> all(constant->data<T>(), size_t(constant->count()));
    const double first = static_cast<double>(all[0]);
    if (std::ranges::all_of(all, [&](T x) { return static_cast<double>(x) == first; })) only = first;
  });
  return only;
}

std::optional<Shape> broadcast_shape(const Graph& graph, std::span<const ValueId> values) {
  Shape shape;
  for (ValueId value : values) {
    const Shape& next = graph.type(value).shape;
    if (next == shape) continue;
    // Constants that contradict are the one error of broadcast_shapes.
    for (size_t i = 1; i <= std::min(shape.size(), next.size()); ++i) {
      const Dim &x = shape[shape.size() - i], &y = next[next.size() - i];
      if (x.is_constant() && y.is_constant() && x != y && x != Dim(1) && y != Dim(1)) return std::nullopt;
    }
    shape = broadcast_shapes(shape, next);
  }
  return shape;
}

Program behind_cast(const Program& program, DType dtype) {
  Program out;
  out.inputs = program.inputs;
  const int start = out.push({Scalar::cast, dtype, {0, -1, -1}});
  for (Step step : program.steps) {
    for (int a = 0; a < arity_of(step.op); ++a) {
      int& arg = step.args[size_t(a)];
      arg = arg == 0 ? start : arg < program.inputs ? arg : arg + 1;
    }
    out.push(step);
  }
  return out;
}

void tidy(const Graph& graph, BoundProgram& bound) {
  // Constants of one element become steps, unless nothing else gives the result its rank.
  auto is_scalar = [&](size_t i) {
    if (int(i) < bound.fixed) return false;
    const Tensor* tensor = graph.constant(bound.inputs[i]);
    return tensor && tensor->count() == 1;
  };
  int64_t rank = bound.fixed ? 64 : -1;
  for (size_t i = size_t(bound.fixed); i < bound.inputs.size(); ++i)
    if (!is_scalar(i)) rank = std::max(rank, graph.type(bound.inputs[i]).rank());

  Program program;
  std::vector<ValueId> inputs;
  inputs.reserve(bound.inputs.size());
  std::vector<int> map(bound.inputs.size(), -1);
  for (size_t i = 0; i < bound.inputs.size(); ++i) {
    const ValueId id = bound.inputs[i];
    if (is_scalar(i) && graph.type(id).rank() <= rank) continue;
    if (int(i) >= bound.fixed) {
      const auto same = std::find(inputs.begin() + bound.fixed, inputs.end(), id);
      map[i] = int(same - inputs.begin());
      if (same != inputs.end()) continue;
    } else {
      map[i] = int(i);
    }
    inputs.push_back(id);
  }
  program.inputs = int(inputs.size());
  program.steps.reserve(bound.inputs.size() - inputs.size() + bound.program.steps.size() + 1);
  for (size_t i = 0; i < bound.inputs.size(); ++i)
    if (map[i] < 0) map[i] = program.push(constant_of(*graph.constant(bound.inputs[i])));
  const int offset = program.inputs + int(program.steps.size());
  const int result = bound.program.steps.empty() && !map.empty() ? map[0] : -1;
  for (Step step : bound.program.steps) {
    for (int a = 0; a < arity_of(step.op); ++a) {
      int& arg = step.args[size_t(a)];
      arg = arg < bound.program.inputs ? map[size_t(arg)] : arg - bound.program.inputs + offset;
    }
    program.steps.push_back(step);
  }
  bound.inputs = std::move(inputs);
  if (result >= 0 && result != program.result())
    program.push({Scalar::cast, program.dtype_of_value(result, bound.dtypes(graph)), {result, -1, -1}});
  bound.program = simplify(program, bound.dtypes(graph));

  // Inputs in the order in which they are read; those that nothing reads go, unless the shape needs them.
  std::vector<int> renumber(bound.inputs.size(), -1);
  std::vector<ValueId> kept;
  auto keep = [&](int input) {
    if (input >= bound.program.inputs || renumber[size_t(input)] >= 0) return;
    renumber[size_t(input)] = int(kept.size());
    kept.push_back(bound.inputs[size_t(input)]);
  };
  for (int i = 0; i < bound.fixed; ++i) keep(i);
  if (bound.program.steps.empty()) keep(0);
  for (const Step& step : bound.program.steps)
    for (int a = 0; a < arity_of(step.op); ++a) keep(step.args[size_t(a)]);
  if (bound.fixed == 0 && kept.size() < bound.inputs.size() &&
      (kept.empty() || broadcast_shape(graph, kept) != broadcast_shape(graph, bound.inputs)))
    for (int i = 0; i < bound.program.inputs; ++i) keep(i);
  if (kept == bound.inputs) return;
  bound.program = remap_inputs(bound.program, renumber, int(kept.size()));
  bound.inputs = std::move(kept);
  bound.program = simplify(bound.program, bound.dtypes(graph));  // the order of arguments follows that of the inputs
}

}  // namespace temper
