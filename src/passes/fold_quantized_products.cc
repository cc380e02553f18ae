// SPDX-License-Identifier: Apache-2.0
// fold_quantized_products: convolutions and matrix products of dequantized 8-bit operands become products of the
// integers. A convolution or matrix product of dequantized operands,
//   sum (sx (x - zx)) (sw[c] w) = sx sw[c] (sum x w - zx sum w),
// becomes the integer product sum x w with an epilogue that starts at its i32 accumulator, all in f32 and in this
// order:
//   t = cast(acc) + bias[c]       the model's bias in units of sx sw[c], less zx sum w
//   t = t * m[c]                  sx sw[c], or sx sw[c] / sy where the result is quantized with the scale sy
//   t = fma(cast(r) - zr, sr / sy, t)   for a residual r with scale sr and zero point zr
//   the rest of the epilogue; then round, + zero point, cast
// which is what integer kernels do. The zero point is added to what is whole already, as quantize does: an odd one
// would turn every tie the other way. Dividing by sy early needs an epilogue that scales with its argument (relu, clip,
// sums); any other is computed as it stands and its result divided by sy.
// A matrix product of f8e4m3fn and constant weights of it becomes sum x w in f32, times sx sw[c]; the rest stays as it
// stands.
#include <algorithm>
#include <cmath>

#include "graph/ops/conv.h"
#include "graph/ops/dequantize.h"
#include "graph/ops/matmul.h"
#include "graph/ops/pad.h"
#include "graph/ops/window.h"
#include "passes/pass.h"
#include "passes/support/quantized.h"

namespace temper {

namespace {

// The beginning of an epilogue: (acc + bias) * scale, one element each or one per channel.
struct Affine {
  std::vector<double> bias{0}, scale{1};
  int value = 0;  // of the program, that is this
};

double at(const std::vector<double>& v, size_t i) { return v[v.size() == 1 ? 0 : i]; }

template <class F>
std::vector<double> combine(const std::vector<double>& a, const std::vector<double>& b, F&& f) {
  std::vector<double> result(std::max(a.size(), b.size()));
  for (size_t i = 0; i < result.size(); ++i) result[i] = f(at(a, i), at(b, i));
  return result;
}

// Everything that the epilogue computes after `value`, as a program with that in the place of input 0; nothing where it
// looks at the accumulator in another way too.
std::optional<Program> rest_after(const Program& program, int value) {
  Program rest;
  rest.inputs = program.inputs;
  std::vector<int> map(size_t(program.inputs) + program.steps.size(), -1);
  for (int i = 1; i < program.inputs; ++i) map[size_t(i)] = i;
  map[size_t(value)] = 0;
  if (value == program.result()) return rest;
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const int v = program.inputs + int(i);
    if (v == value) continue;
    Step step = program.steps[i];
    bool known = true;
    for (int a = 0; a < arity_of(step.op); ++a) {
      const int from = map[size_t(step.args[size_t(a)])];
      known &= from >= 0;
      step.args[size_t(a)] = from;
    }
    if (known) map[size_t(v)] = rest.push(step);
    else if (v > value) return std::nullopt;
  }
  return rest;
}

class ProductFolder {
 public:
  ProductFolder(Graph& graph, const BuildTime& time) : graph_(graph), time_(time) {}

  bool run() {
    bool changed = false;
    const int32_t count = graph_.node_count();
    for (int32_t n = 0; n < count; ++n) {
      time_.check_at(n);
      const Node& node = graph_.node({n});
      if ((node.op.is<ops::Conv, ops::MatMul>()) &&
          (!graph_.value(node.outputs[0]).users.empty() || graph_.is_output(node.outputs[0])))
        changed |= visit({n});
    }
    return changed;
  }

 private:
  Graph& graph_;
  const BuildTime& time_;

  struct Product {
    Node node;
    Op op;                                     // with another padding where that has become a node
    int64_t rank = 0, axis = 0, channels = 0;  // of the output; channels 0: not known
    ValueId x, w;
    Affine affine;
    bool float8 = false;  // sums are f32
  };

  bool visit(NodeId id) {
    Product p;
    p.node = graph_.node(id);
    p.op = p.node.op;
    const Shape& shape = graph_.type(p.node.outputs[0]).shape;
    p.rank = int64_t(shape.size());
    p.axis = p.op.is<ops::Conv>() ? 1 : p.rank - 1;
    if (shape[size_t(p.axis)].is_constant()) p.channels = shape[size_t(p.axis)].value();
    const auto sink = only_quantized(graph_, p.node.outputs[0]);
    const DType x = graph_.type(p.node.inputs[0]).dtype;
    const Program& epilogue = *epilogue_of(p.node.op);
    if (x == DType::f32) {
      if (!read_float8(p) && !read_operands(p)) return false;
    } else if ((x == DType::i8 || x == DType::u8) && graph_.type(p.node.outputs[0]).dtype == DType::f32) {
      p.x = p.node.inputs[0], p.w = p.node.inputs[1];
      const bool integers = read_integer_prefix(p, epilogue);
      if (!sink && !integers) return false;
      if (p.affine.value == 0) return false;
    } else {
      return false;
    }
    std::optional<Program> rest = rest_after(epilogue, p.affine.value);
    if (!rest) return false;
    if (x == DType::f32 && !p.float8 && !take_bias(p, *rest)) return false;
    emit(p, *rest, sink);
    return true;
  }

  // ---- operands ----

  bool read_operands(Product& p) {
    const auto x = dequantization_of(graph_, p.node.inputs[0]), w = dequantization_of(graph_, p.node.inputs[1]);
    if (!x || !w || !x->per_tensor() || !x->is_narrow() || !w->is_narrow()) return false;
    const bool conv = p.op.is<ops::Conv>();
    const int64_t rank_w = graph_.type(w->value).rank();
    const auto* product = p.op.get_if<ops::MatMul>();
    const int64_t channel_axis = conv ? 0 : rank_w - (product->transpose_b ? 2 : 1);
    if (!w->per_tensor() && (w->axis != channel_axis || (!conv && rank_w != 2))) return false;
    p.x = x->value;
    p.affine.scale = w->scales;
    for (double& s : p.affine.scale) s *= x->scales[0];
    const Tensor* constant = graph_.constant(w->value);
    if (!constant) {
      p.w = w->value;
      return w->dtype == DType::i8 && w->is_symmetric() && x->is_symmetric();
    }
    Tensor weights = *constant;
    if (w->dtype == DType::i8 && w->is_symmetric()) p.w = w->value;
    else if (!centered(*constant, *w, weights)) return false;
    if (!x->is_symmetric() && !take_off_zero_point(p, weights, channel_axis, *x)) return false;
    if (!p.w.valid()) p.w = graph_.add_constant(concat(p.node.name, "/weights"), std::move(weights));
    return true;
  }

  bool read_float8(Product& p) const {
    const auto* product = p.op.get_if<ops::MatMul>();
    const auto x = dequantization_of(graph_, p.node.inputs[0]), w = dequantization_of(graph_, p.node.inputs[1]);
    if (!product || !x || !w || !x->is_float8() || !w->is_float8() || !x->per_tensor()) return false;
    const int64_t rank_w = graph_.type(w->value).rank();
    if (!graph_.constant(w->value) || rank_w != 2) return false;
    if (!w->per_tensor() && w->axis != rank_w - (product->transpose_b ? 2 : 1)) return false;
    p.x = x->value, p.w = w->value;
    p.affine.scale = w->scales;
    for (double& s : p.affine.scale) s *= x->scales[0];
    return p.float8 = true;
  }

  // w less its zero points, where that fits into i8.
  static bool centered(const Tensor& w, const Quantization& q, Tensor& out) {
    out = Tensor(DType::i8, w.dims());
    const std::vector<int64_t> from = w.to_ints();
    const int64_t inner = q.per_tensor() ? 1 : row_major_strides(w.dims())[size_t(q.axis)],
                  n = q.per_tensor() ? 1 : w.dims()[size_t(q.axis)];
    for (int64_t i = 0; i < w.count(); ++i) {
      const int64_t value = from[size_t(i)] - q.zeros[size_t(i / inner % n)];
      if (value < -128 || value > 127) return false;
      out.data<int8_t>()[i] = int8_t(value);
    }
    return true;
  }

  // - zx sum w goes into the bias. Padding stands for the zero point, so it becomes a node of its own.
  bool take_off_zero_point(Product& p, const Tensor& w, int64_t channel_axis, const Quantization& x) {
    if (auto* conv = p.op.get_if<ops::Conv>()) {
      if (conv->pad_mode != ops::PadMode::explicit_pads) return false;
      if (conv->pads != Dims(conv->pads.size(), 0)) {
        ops::Pad pad{Shape(size_t(p.rank), Dim(0)), Shape(size_t(p.rank), Dim(0)), ops::PadKind::constant};
        const size_t spatial = size_t(p.rank) - 2;
        for (size_t i = 0; i < spatial; ++i) {
          pad.before[i + 2] = Dim(conv->pads[i]);
          pad.after[i + 2] = Dim(conv->pads[i + spatial]);
        }
        const Tensor zero = Tensor::of<int64_t>({}, {x.zeros[0]}).converted(x.dtype);
        p.x = graph_.add_single(pad, {p.x, graph_.add_constant(concat(p.node.name, "/zero_point"), zero)},
                                concat(p.node.name, "/pad"));
        conv->pads.assign(conv->pads.size(), 0);
      }
    } else if (w.rank() != 2) {
      return false;
    }
    const int64_t inner = row_major_strides(w.dims())[size_t(channel_axis)], n = w.dims()[size_t(channel_axis)];
    std::vector<double> sums(static_cast<size_t>(n), 0);
    for (int64_t i = 0; i < w.count(); ++i)
      sums[size_t(i / inner % n)] -= double(x.zeros[0]) * double(w.data<int8_t>()[i]);
    p.affine.bias = std::move(sums);
    return true;
  }

  // ---- the beginning of the epilogue ----

  std::optional<std::vector<double>> constant_of(const Product& p, const Program& program, int value) const {
    if (value < program.inputs) {
      if (value == 0 || p.channels == 0) return std::nullopt;
      const size_t own = p.node.inputs.size() - size_t(program.inputs - 1);
      return channel_constants(graph_, p.node.inputs[own + size_t(value) - 1], p.rank, p.axis, p.channels);
    }
    const Step& step = program.steps[size_t(value - program.inputs)];
    if (step.op != Scalar::constant) return std::nullopt;
    return std::vector<double>{is_float(step.dtype) ? step.number : double(step.integer)};
  }
  static int other_argument(const Step& step, int value) {
    if (step.args[0] == value && step.args[1] != value) return step.args[1];
    if (step.args[1] == value && step.args[0] != value && step.op != Scalar::sub) return step.args[0];
    return -1;
  }

  // acc + constants, cast to f32, + constants, * constants. True: there are steps on integers, which it is worth to
  // rewrite.
  bool read_integer_prefix(Product& p, const Program& program) const {
    bool integers = false, floats = false;
    int value = 0;
    for (size_t i = 0; i < program.steps.size(); ++i) {
      const Step& step = program.steps[i];
      if (step.op == Scalar::constant) continue;
      if (step.op == Scalar::cast && !floats && step.args[0] == value && step.dtype == DType::f32) {
        floats = true;
        value = p.affine.value = program.inputs + int(i);
        continue;
      }
      const bool sum = step.op == Scalar::add || step.op == Scalar::sub;
      const auto other = sum || (step.op == Scalar::mul && floats)
                             ? constant_of(p, program, other_argument(step, value))
                             : std::nullopt;
      if (!other) break;
      value = program.inputs + int(i);
      if (sum)
        p.affine.bias =
            combine(p.affine.bias, *other, [&](double a, double b) { return step.op == Scalar::sub ? a - b : a + b; });
      else p.affine.scale = *other;
      if (floats) p.affine.value = value;
      else integers = true;
      if (!sum) break;
    }
    for (double s : p.affine.scale)
      if (!(s > 0) || !std::isfinite(s)) p.affine.value = 0;
    return integers && floats;
  }

  // The bias that the epilogue of a product of floats adds first, in units of the integer product.
  bool take_bias(Product& p, Program& rest) const {
    for (size_t i = 0; i < rest.steps.size(); ++i) {
      const Step& step = rest.steps[i];
      if (step.op == Scalar::constant) continue;
      if (step.op != Scalar::add || other_argument(step, 0) < 0) return true;
      const auto bias = constant_of(p, rest, other_argument(step, 0));
      if (!bias) return true;
      auto without = rest_after(rest, rest.inputs + int(i));
      if (!without) return true;
      const auto units = combine(*bias, p.affine.scale, [](double b, double s) {
        // A bias that was stored as an integer has been rounded to f32 since.
        const double exact = b / s, whole = std::nearbyint(exact);
        return std::fabs(exact - whole) <= std::fabs(exact) * 0x1p-22 ? whole : exact;
      });
      p.affine.bias = combine(p.affine.bias, units, [](double a, double b) { return a + b; });
      rest = std::move(*without);
      return true;
    }
    return true;
  }

  // ---- the new epilogue ----

  // A f32 constant along the channels, or a number.
  ValueId channel_constant(const Product& p, const std::vector<double>& values, std::string_view what) {
    const bool equal =
        std::all_of(values.begin(), values.end(), [&](double v) { return float(v) == float(values[0]); });
    Dims dims;
    if (!equal) {
      dims.push_back(int64_t(values.size()));
      dims.resize(size_t(p.rank - p.axis), 1);
    }
    Tensor tensor(DType::f32, dims);
    for (int64_t i = 0; i < tensor.count(); ++i) tensor.data<float>()[i] = float(values[size_t(i)]);
    return graph_.add_constant(concat(p.node.name, what), std::move(tensor));
  }

  // (cast(acc) + bias) * scale; inputs: acc, bias, scale. Without a cast and a bias of sums that are f32.
  BoundProgram affine_program(const Product& p, double divisor) {
    std::vector<double> scale = p.affine.scale;
    for (double& s : scale) s /= divisor;
    BoundProgram bound{{}, {ValueId{}}, 1, p.float8 ? DType::f32 : DType::i32};
    bound.program.inputs = 1;
    const bool biased = std::any_of(p.affine.bias.begin(), p.affine.bias.end(), [](double b) { return b != 0; });
    if (biased) bound.inputs.push_back(channel_constant(p, p.affine.bias, "/bias"));
    bound.inputs.push_back(channel_constant(p, scale, "/scale"));
    bound.program.inputs = int(bound.inputs.size());
    int t = p.float8 ? 0 : bound.program.push({Scalar::cast, DType::f32, {0, -1, -1}});
    if (biased) t = bound.program.push({Scalar::add, DType::f32, {t, 1, -1}});
    bound.program.push({Scalar::mul, DType::f32, {t, bound.program.inputs - 1, -1}});
    return bound;
  }

  // `consumer` (a program whose input 0 is the value so far) after `producer`, whose accumulator stays the first input.
  static BoundProgram append(const BoundProgram& producer, const BoundProgram& consumer) {
    const Program joined = splice(producer.program, consumer.program, 0);
    const int others = consumer.program.inputs - 1;
    std::vector<int> order;
    order.reserve(size_t(others + producer.program.inputs));
    for (int i = 0; i < others; ++i) order.push_back(producer.program.inputs + i);
    for (int i = 0; i < producer.program.inputs; ++i) order.push_back(i);
    BoundProgram result{remap_inputs(joined, order, joined.inputs), producer.inputs, producer.fixed,
                        producer.accumulator};
    result.inputs.insert(result.inputs.end(), consumer.inputs.begin() + 1, consumer.inputs.end());
    return result;
  }

  void emit(Product& p, const Program& rest, const std::optional<Quantization>& sink) {
    const size_t own = p.node.inputs.size() - size_t(rest.inputs - 1);
    BoundProgram tail{rest, {ValueId{}}, 1, DType::f32};
    tail.inputs.insert(tail.inputs.end(), p.node.inputs.begin() + int64_t(own), p.node.inputs.end());
    BoundProgram epilogue;
    ValueId target = p.node.outputs[0];
    if (sink) {
      const NodeId user = graph_.value(target).users[0];
      target = graph_.node(user).outputs[0];
      const bool integers = !p.float8 && !sink->is_float8();
      if (auto scaled = integers ? divided(tail, sink->scales[0]) : std::nullopt) {
        finish(*scaled, *sink);
        epilogue = append(affine_program(p, sink->scales[0]), *scaled);
      } else {
        read_integers(tail);
        BoundProgram last = program_of_quantization(graph_, user);
        if (last.inputs.empty() || last.inputs[0] != p.node.outputs[0])
          throw std::logic_error("a quantize node does not read its input");
        epilogue = append(append(affine_program(p, 1), tail), last);
      }
    } else {
      read_integers(tail);
      epilogue = append(affine_program(p, 1), tail);
    }
    tidy(graph_, epilogue);
    *epilogue_of(p.op) = std::move(epilogue.program);
    std::vector<ValueId> inputs{p.x, p.w};
    inputs.insert(inputs.end(), epilogue.inputs.begin() + 1, epilogue.inputs.end());
    graph_.rewrite(target, p.op, std::move(inputs), p.node.name);
  }

  // Dequantized inputs of an epilogue are read as the integers they were.
  void read_integers(BoundProgram& tail) {
    for (size_t slot = 1; slot < tail.inputs.size(); ++slot) {
      const Value& value = graph_.value(tail.inputs[slot]);
      if (!value.producer.valid() || !graph_.node(value.producer).op.is<ops::Dequantize>() ||
          graph_.constant(tail.inputs[slot]))
        continue;
      const BoundProgram producer = program_of_quantization(graph_, value.producer);
      if (tail.inputs.size() + producer.inputs.size() > size_t(kMaxProgramInputs)) continue;
      tail.program = splice(producer.program, tail.program, int(slot));
      tail.inputs.erase(tail.inputs.begin() + int64_t(slot));
      tail.inputs.insert(tail.inputs.end(), producer.inputs.begin(), producer.inputs.end());
      --slot;
    }
  }

  // Round, + zero point, cast: the sum of two integers of which one has 8 bits is exact wherever the cast does not
  // saturate.
  static void finish(BoundProgram& tail, const Quantization& sink) {
    Program& program = tail.program;
    int t = program.push({Scalar::round, DType::f32, {program.result(), -1, -1}});
    if (sink.zeros[0] != 0) {
      const int zero = program.push(constant_step(DType::f32, double(sink.zeros[0])));
      t = program.push({Scalar::add, DType::f32, {t, zero, -1}});
    }
    program.push({Scalar::cast, sink.dtype, {t, -1, -1}});
  }

  // The program that gives tail(s t) / s for the argument t, where it exists: numbers that are added or compared are
  // divided, dequantized inputs are added by fma with their scale divided.
  std::optional<BoundProgram> divided(const BoundProgram& tail, double s) const {
    const Program& from = tail.program;
    enum class Kind { none, scaled, number, boolean };
    BoundProgram result = tail;
    Program& to = result.program;
    to.steps.clear();
    std::vector<Kind> kind(size_t(from.inputs) + from.steps.size(), Kind::none);
    std::vector<int> map(kind.size(), -1);
    std::vector<std::optional<Quantization>> integers(static_cast<size_t>(from.inputs));
    kind[0] = Kind::scaled, map[0] = 0;
    for (int i = 1; i < from.inputs; ++i) {
      map[size_t(i)] = i;
      integers[size_t(i)] = dequantization_of(graph_, tail.inputs[size_t(i)]);
      if (integers[size_t(i)] && (!integers[size_t(i)]->per_tensor() || integers[size_t(i)]->is_float8()))
        integers[size_t(i)].reset();
      if (integers[size_t(i)]) result.inputs[size_t(i)] = integers[size_t(i)]->value;
    }
    for (size_t n = 0; n < from.steps.size(); ++n) {
      Step step = from.steps[n];
      const size_t v = size_t(from.inputs) + n;
      if (step.op == Scalar::constant) {
        kind[v] = Kind::number;
        continue;
      }
      if (step.dtype != DType::f32 && step.dtype != DType::boolean) return std::nullopt;
      const auto kind_of = [&](int a) { return kind[size_t(step.args[size_t(a)])]; };
      const auto number = [&](int a) { return from.steps[size_t(step.args[size_t(a)] - from.inputs)].number; };
      // An argument of the new step: a scaled value, or a number that is divided with it.
      const auto scaled = [&](int a) {
        if (kind_of(a) == Kind::number) return to.push(constant_step(DType::f32, number(a) / s));
        return kind_of(a) == Kind::scaled ? map[size_t(step.args[size_t(a)])] : -1;
      };
      Step next{step.op, step.dtype};
      switch (step.op) {
        case Scalar::relu:
        case Scalar::neg:
        case Scalar::abs: next.args[0] = scaled(0); break;
        case Scalar::add:
          for (int a : {0, 1}) {
            const int other = step.args[size_t(1 - a)];
            if (kind_of(a) != Kind::scaled || other <= 0 || other >= from.inputs || !integers[size_t(other)]) continue;
            const Quantization& q = *integers[size_t(other)];
            int r = to.push({Scalar::cast, DType::f32, {other, -1, -1}});
            if (q.zeros[0] != 0)
              r = to.push({Scalar::add, DType::f32, {r, to.push(constant_step(DType::f32, -double(q.zeros[0]))), -1}});
            const int ratio = to.push(constant_step(DType::f32, q.scales[0] / s));
            next = {Scalar::fma, DType::f32, {r, ratio, scaled(a)}};
            break;
          }
          if (next.op == Scalar::fma) break;
          [[fallthrough]];
        case Scalar::sub:
        case Scalar::min:
        case Scalar::max:
        case Scalar::less:
        case Scalar::less_equal: next.args = {scaled(0), scaled(1), -1}; break;
        case Scalar::mul:
        case Scalar::div:
          if (kind_of(0) != Kind::scaled || kind_of(1) != Kind::number) return std::nullopt;
          next.args = {scaled(0), to.push(constant_step(DType::f32, number(1))), -1};
          break;
        case Scalar::where:
          if (kind_of(0) != Kind::boolean) return std::nullopt;
          next.args = {map[size_t(step.args[0])], scaled(1), scaled(2)};
          break;
        default: return std::nullopt;
      }
      for (int a = 0; a < arity_of(next.op); ++a)
        if (next.args[size_t(a)] < 0) return std::nullopt;
      map[v] = to.push(next);
      kind[v] = step.dtype == DType::boolean ? Kind::boolean : Kind::scaled;
    }
    const size_t last = size_t(from.result());
    if (kind[last] != Kind::scaled) return std::nullopt;
    if (!to.steps.empty() && map[last] != to.result()) return std::nullopt;
    return result;
  }
};

}  // namespace

bool fold_quantized_products(Graph& graph, const PassOptions& options) {
  return ProductFolder(graph, options.time).run();
}

}  // namespace temper
