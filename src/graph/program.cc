// SPDX-License-Identifier: Apache-2.0
#include "graph/program.h"

#include <cmath>
#include <cstdlib>
#include <limits>

#include "base/cast_value.h"
#include "base/parse.h"
#include "base/small_types.h"

namespace temper {

static_assert(enum_names(Scalar{})[size_t(Scalar::fma)] == "fma", "enum_names(Scalar) must follow the enum");

std::string_view name_of(Scalar op) {
  static constexpr auto names = enum_names(Scalar{});
  return names[size_t(op)];
}

int arity_of(Scalar op) {
  if (op == Scalar::constant) return 0;
  if (op == Scalar::where || op == Scalar::fma) return 3;
  switch (op) {
    case Scalar::add:
    case Scalar::sub:
    case Scalar::mul:
    case Scalar::div:
    case Scalar::pow:
    case Scalar::min:
    case Scalar::max:
    case Scalar::mod:
    case Scalar::fmod:
    case Scalar::bit_and:
    case Scalar::bit_or:
    case Scalar::bit_xor:
    case Scalar::shift_left:
    case Scalar::shift_right:
    case Scalar::equal:
    case Scalar::less:
    case Scalar::less_equal:
    case Scalar::logical_and:
    case Scalar::logical_or:
    case Scalar::logical_xor: return 2;
    default: return 1;
  }
}

static bool gives_bool(Scalar op) { return op >= Scalar::equal && op <= Scalar::is_inf; }
static bool takes_bool(Scalar op) { return op >= Scalar::logical_and && op <= Scalar::logical_not; }
static bool floats_only(Scalar op) {
  return (op >= Scalar::sqrt && op <= Scalar::atanh && op != Scalar::relu) || op == Scalar::floor ||
         op == Scalar::ceil || op == Scalar::round || op == Scalar::is_nan || op == Scalar::is_inf;
}
static bool ints_only(Scalar op) {
  return (op >= Scalar::bit_and && op <= Scalar::shift_right) || op == Scalar::bit_not;
}

static bool has_cast(DType from, DType to) {
  if (from == to || (!is_stored_only(from) && !is_stored_only(to))) return true;
  const auto is_narrow = [](DType dtype) { return is_float(dtype) && dtype != DType::f64; };
  return (from == DType::f8e4m3fn && is_narrow(to)) || (to == DType::f8e4m3fn && is_narrow(from));
}

DType Program::dtype_of_value(int value, std::span<const DType> input_dtypes) const {
  return value < inputs ? input_dtypes[size_t(value)] : steps[size_t(value - inputs)].dtype;
}

std::string Program::text() const {
  std::string out;
  constexpr size_t kUsualStep = 24;
  out.reserve(8 + kUsualStep * steps.size());
  append(out, '(');
  append(out, inputs);
  append(out, ')');
  for (size_t i = 0; i < steps.size(); ++i) {
    const Step& step = steps[i];
    append(out, ' ');
    append(out, inputs + int(i));
    append(out, '=');
    append(out, name_of(step.op));
    append(out, '.');
    append(out, step.dtype);
    if (step.op == Scalar::constant) {
      append(out, '[');
      if (is_float(step.dtype)) append(out, step.number);
      else append(out, step.integer);
      append(out, ']');
      continue;
    }
    for (int a = 0, count = arity_of(step.op); a < count; ++a) {
      append(out, a ? ',' : '(');
      append(out, step.args[size_t(a)]);
    }
    append(out, ')');
  }
  return out;
}

Program Program::parse(std::string_view text) {
  auto bad = [&] { fail(ErrorKind::bad_file, "not a pointwise program: '", text.substr(0, 120), "'"); };
  auto take = [&](std::string_view& rest, char end) {
    const auto at = rest.find(end);
    if (at == rest.npos) bad();
    std::string_view word = rest.substr(0, at);
    rest.remove_prefix(at + 1);
    return word;
  };
  auto number = [&]<class T>(std::string_view word, T& value) {
    const auto parsed = parse_number<T>(word);
    if (!parsed) bad();
    value = *parsed;
  };
  Program program;
  std::string_view rest = text;
  if (rest.empty() || rest[0] != '(') bad();
  rest.remove_prefix(1);
  number(take(rest, ')'), program.inputs);
  while (!rest.empty()) {
    if (rest[0] != ' ') bad();
    rest.remove_prefix(1);
    int index = 0;
    number(take(rest, '='), index);
    if (index != program.inputs + int(program.steps.size())) bad();
    std::string_view name = take(rest, '.');
    const auto open = rest.find_first_of("([");
    if (open == rest.npos) bad();
    auto dtype = dtype_from_name(rest.substr(0, open));
    int found = -1;
    const auto names = enum_names(Scalar{});
    for (size_t i = 0; i < names.size(); ++i)
      if (names[i] == name) found = int(i);
    if (!dtype || found < 0) bad();
    Step step{Scalar(found), *dtype};
    const bool constant = rest[open] == '[';
    rest.remove_prefix(open + 1);
    std::string_view arguments = take(rest, constant ? ']' : ')');
    if (constant != (step.op == Scalar::constant)) bad();
    if (constant) {
      if (is_float(step.dtype)) number(arguments, step.number);
      else number(arguments, step.integer);
    } else {
      for (int a = 0; a < arity_of(step.op); ++a) {
        const auto comma = arguments.find(',');
        if ((comma == arguments.npos) != (a + 1 == arity_of(step.op))) bad();
        number(arguments.substr(0, comma), step.args[size_t(a)]);
        if (comma != arguments.npos) arguments.remove_prefix(comma + 1);
      }
    }
    program.steps.push_back(step);
  }
  program.verify();
  return program;
}

void Program::verify() const {
  if (inputs < 0 || inputs > 1024 || steps.size() > 100000)
    fail(ErrorKind::bad_file, "a pointwise program out of bounds");
  for (size_t i = 0; i < steps.size(); ++i)
    for (int a = 0; a < arity_of(steps[i].op); ++a)
      if (steps[i].args[size_t(a)] < 0 || steps[i].args[size_t(a)] >= inputs + int(i))
        fail(ErrorKind::bad_file, "step ", i, " of a pointwise program reads a value that does not exist yet");
  if (inputs == 0 && steps.empty()) fail(ErrorKind::bad_file, "a pointwise program without a result");
}

DType Program::infer(std::span<const DType> input_dtypes) const {
  if (int(input_dtypes.size()) != inputs)
    fail(ErrorKind::bad_file, "a pointwise program of ", inputs, " inputs was given ", input_dtypes.size());
  verify();
  for (const Step& step : steps) {
    auto arg = [&](int a) { return dtype_of_value(step.args[size_t(a)], input_dtypes); };
    auto bad = [&](std::string_view why) {
      fail(ErrorKind::bad_file, "pointwise ", name_of(step.op), ".", step.dtype, ": ", why);
    };
    if (step.op == Scalar::cast) {
      if (!has_cast(arg(0), step.dtype)) bad(concat("there is no cast from ", arg(0)));
      continue;
    }
    const auto refuse_stored_only = [&](DType dtype) {
      if (is_stored_only(dtype))
        fail(ErrorKind::unsupported, "pointwise ", name_of(step.op), " on ", dtype,
             ", a type that is only stored; cast it to a type that is computed with");
    };
    for (int a = 0; a < arity_of(step.op); ++a) refuse_stored_only(arg(a));
    refuse_stored_only(step.dtype);
    if (step.op == Scalar::constant) continue;
    if (step.op == Scalar::where) {
      if (arg(0) != DType::boolean || arg(1) != step.dtype || arg(2) != step.dtype)
        bad("the dtypes of its arguments do not fit");
      continue;
    }
    if (step.op == Scalar::fma && step.dtype != DType::f32) bad("it is defined on f32 only");
    for (int a = 1; a < arity_of(step.op); ++a)
      if (arg(a) != arg(0)) bad("its arguments differ in dtype");
    if (gives_bool(step.op) ? step.dtype != DType::boolean : step.dtype != arg(0))
      bad("the dtype of its result does not fit");
    if (takes_bool(step.op) && arg(0) != DType::boolean) bad("it needs bool");
    if (floats_only(step.op) && !is_float(arg(0))) bad("it needs floats");
    if (ints_only(step.op) && !is_int(arg(0))) bad("it needs integers");
    if (!gives_bool(step.op) && arg(0) == DType::boolean) bad("it is not defined on bool");
  }
  return dtype_of_value(result(), input_dtypes);
}

Step constant_step(DType dtype, double value) {
  Step step{Scalar::constant, dtype};
  if (is_float(dtype)) visit_dtype(dtype, [&]<class T>() { step.number = double(static_cast<T>(value)); });
  else step.integer = dtype == DType::boolean ? value != 0 : int64_t(value);
  return step;
}

Program remap_inputs(const Program& program, std::span<const int> mapping, int inputs) {
  Program result;
  result.inputs = inputs;
  result.steps.reserve(program.steps.size());
  for (Step step : program.steps) {
    for (int a = 0; a < arity_of(step.op); ++a) {
      int& arg = step.args[size_t(a)];
      arg = arg < program.inputs ? mapping[size_t(arg)] : arg - program.inputs + inputs;
    }
    result.steps.push_back(step);
  }
  return result;
}

Program splice(const Program& producer, const Program& consumer, int slot) {
  // The producer's steps come first, and its inputs behind the consumer's others: all it reads moves by as much.
  const int moved = consumer.inputs - 1, inputs = moved + producer.inputs, offset = int(producer.steps.size());
  const int produced = producer.steps.empty() ? moved : inputs + offset - 1;
  Program result;
  result.inputs = inputs;
  result.steps.reserve(producer.steps.size() + consumer.steps.size());
  for (Step step : producer.steps) {
    for (int a = 0, count = arity_of(step.op); a < count; ++a) step.args[size_t(a)] += moved;
    result.steps.push_back(step);
  }
  for (Step step : consumer.steps) {
    for (int a = 0, count = arity_of(step.op); a < count; ++a) {
      int& arg = step.args[size_t(a)];
      if (arg >= consumer.inputs) arg += inputs + offset - consumer.inputs;
      else arg = arg == slot ? produced : arg - (arg > slot);
    }
    result.steps.push_back(step);
  }
  return result;
}

Program with_constant(const Program& program, int slot, DType dtype, double number) {
  Program constant;
  constant.inputs = 0;
  constant.push(constant_step(dtype, number));
  return splice(constant, program, slot);
}

// ---- evaluation ----
namespace {

template <class W>
W binary(Scalar op, W a, W b) {
  if constexpr (std::is_floating_point_v<W>) {
    switch (op) {
      case Scalar::add: return a + b;
      case Scalar::sub: return a - b;
      case Scalar::mul: return a * b;
      case Scalar::div: return a / b;
      case Scalar::pow: return std::pow(a, b);
      case Scalar::min: return std::isnan(a) || std::isnan(b) ? std::numeric_limits<W>::quiet_NaN() : a < b ? a : b;
      case Scalar::max: return std::isnan(a) || std::isnan(b) ? std::numeric_limits<W>::quiet_NaN() : a > b ? a : b;
      case Scalar::fmod: return std::fmod(a, b);
      case Scalar::mod: {
        W r = std::fmod(a, b);
        return r != 0 && (r < 0) != (b < 0) ? r + b : r;
      }
      default: return 0;
    }
  } else {
    using U = std::make_unsigned_t<W>;  // wrap instead of undefined overflow
    switch (op) {
      case Scalar::add: return W(U(a) + U(b));
      case Scalar::sub: return W(U(a) - U(b));
      case Scalar::mul: return W(U(a) * U(b));
      case Scalar::div:
        if (b == 0) return 0;
        if constexpr (std::is_signed_v<W>)
          if (b == -1) return W(U(0) - U(a));
        return a / b;
      case Scalar::mod:
      case Scalar::fmod: {
        if (b == 0) return 0;
        if constexpr (std::is_signed_v<W>)
          if (b == -1) return 0;
        W r = a % b;
        return op == Scalar::mod && r != 0 && (r < 0) != (b < 0) ? W(r + b) : r;
      }
      case Scalar::min: return a < b ? a : b;
      case Scalar::max: return a > b ? a : b;
      case Scalar::pow: {
        if constexpr (std::is_signed_v<W>)
          if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
        U result = 1, base = U(a);
        for (U e = U(b); e; e >>= 1, base *= base)
          if (e & 1) result *= base;
        return W(result);
      }
      case Scalar::bit_and: return a & b;
      case Scalar::bit_or: return a | b;
      case Scalar::bit_xor: return a ^ b;
      default: return 0;
    }
  }
}

double unary(Scalar op, double x) {
  switch (op) {
    case Scalar::neg: return -x;
    case Scalar::abs: return std::fabs(x);
    case Scalar::sign: return x > 0 ? 1 : x < 0 ? -1 : x;
    case Scalar::floor: return std::floor(x);
    case Scalar::ceil: return std::ceil(x);
    case Scalar::round: return std::nearbyint(x);
    case Scalar::sqrt: return std::sqrt(x);
    case Scalar::reciprocal: return 1 / x;
    case Scalar::exp: return std::exp(x);
    case Scalar::log: return std::log(x);
    case Scalar::erf: return std::erf(x);
    case Scalar::sigmoid: return 1 / (1 + std::exp(-x));
    case Scalar::tanh: return std::tanh(x);
    case Scalar::relu: return x < 0 ? 0 : x;  // NaN passes
    case Scalar::sin: return std::sin(x);
    case Scalar::cos: return std::cos(x);
    case Scalar::tan: return std::tan(x);
    case Scalar::asin: return std::asin(x);
    case Scalar::acos: return std::acos(x);
    case Scalar::atan: return std::atan(x);
    case Scalar::sinh: return std::sinh(x);
    case Scalar::cosh: return std::cosh(x);
    case Scalar::asinh: return std::asinh(x);
    case Scalar::acosh: return std::acosh(x);
    case Scalar::atanh: return std::atanh(x);
    default: return 0;
  }
}

template <class W>
W unary_int(Scalar op, W x) {
  using U = std::make_unsigned_t<W>;
  switch (op) {
    case Scalar::neg: return W(U(0) - U(x));
    case Scalar::abs: return x < 0 ? W(U(0) - U(x)) : x;
    case Scalar::sign: return x > 0 ? 1 : x < 0 ? W(-1) : 0;
    case Scalar::relu: return x < 0 ? 0 : x;
    case Scalar::bit_not: return W(~U(x));
    default: return x;
  }
}

// One step over whole tensors: the reference is written for clarity, the CPU backend for speed.
Tensor run_step(const Step& step, const Tensor& a, const Tensor& b, const Tensor& c, const Dims& dims) {
  Tensor out(step.dtype, dims);
  const int64_t count = out.count();
  if (step.op == Scalar::constant) {
    visit_dtype(step.dtype, [&]<class T>() {
      T value;
      if constexpr (std::is_integral_v<T>) value = static_cast<T>(step.integer);
      else value = static_cast<T>(step.number);
      for (int64_t i = 0; i < count; ++i) out.data<T>()[i] = value;
    });
    return out;
  }
  if (step.op == Scalar::cast && step.dtype == DType::f8e4m3fn) {
    const Tensor values = a.converted(DType::f32);
    auto* codes = reinterpret_cast<uint8_t*>(out.raw_mutable());
    for (int64_t i = 0; i < count; ++i) codes[i] = float_to_e4m3(values.data<float>()[i]);
    return out;
  }
  if (step.op == Scalar::cast && is_stored_only(a.dtype())) return a.converted(step.dtype);
  if (step.op == Scalar::where) {
    visit_dtype(step.dtype, [&]<class T>() {
      for (int64_t i = 0; i < count; ++i) out.data<T>()[i] = a.data<bool>()[i] ? b.data<T>()[i] : c.data<T>()[i];
    });
    return out;
  }
  if (step.op == Scalar::fma) {
    for (int64_t i = 0; i < count; ++i)
      out.data<float>()[i] = std::fma(a.data<float>()[i], b.data<float>()[i], c.data<float>()[i]);
    return out;
  }
  visit_dtype(a.dtype(), [&]<class A>() {
    using W = Wide<A>;
    const A* x = a.data<A>();
    const A* y = b.defined() ? b.data<A>() : nullptr;
    auto wide = [](A v) { return static_cast<W>(v); };
    auto to_bool = [&](auto&& f) {
      bool* o = out.data<bool>();
      for (int64_t i = 0; i < count; ++i) o[i] = f(i);
    };
    switch (step.op) {
      case Scalar::cast:
        visit_dtype(step.dtype, [&]<class T>() {
          for (int64_t i = 0; i < count; ++i) out.data<T>()[i] = cast_value<T>(wide(x[i]));
        });
        return;
      case Scalar::equal: return to_bool([&](int64_t i) { return wide(x[i]) == wide(y[i]); });
      case Scalar::less: return to_bool([&](int64_t i) { return wide(x[i]) < wide(y[i]); });
      case Scalar::less_equal: return to_bool([&](int64_t i) { return wide(x[i]) <= wide(y[i]); });
      case Scalar::logical_and: return to_bool([&](int64_t i) { return wide(x[i]) != 0 && wide(y[i]) != 0; });
      case Scalar::logical_or: return to_bool([&](int64_t i) { return wide(x[i]) != 0 || wide(y[i]) != 0; });
      case Scalar::logical_xor: return to_bool([&](int64_t i) { return (wide(x[i]) != 0) != (wide(y[i]) != 0); });
      case Scalar::logical_not: return to_bool([&](int64_t i) { return wide(x[i]) == 0; });
      case Scalar::is_nan: return to_bool([&](int64_t i) { return std::isnan(double(wide(x[i]))); });
      case Scalar::is_inf: return to_bool([&](int64_t i) { return std::isinf(double(wide(x[i]))); });
      case Scalar::shift_left:
      case Scalar::shift_right:
        if constexpr (std::is_integral_v<A> && !std::is_same_v<A, bool>) {
          constexpr uint64_t bits = sizeof(A) * 8;
          for (int64_t i = 0; i < count; ++i) {
            const uint64_t by = uint64_t(wide(y[i]));
            out.data<A>()[i] = by >= bits                      ? A(0)
                               : step.op == Scalar::shift_left ? A(uint64_t(x[i]) << by)
                                                               : A(x[i] >> by);
          }
        }
        return;
      default: break;
    }
    A* o = out.data<A>();
    if (arity_of(step.op) == 2) {
      for (int64_t i = 0; i < count; ++i) o[i] = static_cast<A>(binary<W>(step.op, wide(x[i]), wide(y[i])));
    } else if constexpr (std::is_floating_point_v<W>) {
      for (int64_t i = 0; i < count; ++i) o[i] = static_cast<A>(unary(step.op, wide(x[i])));
    } else {
      for (int64_t i = 0; i < count; ++i) o[i] = static_cast<A>(unary_int<W>(step.op, wide(x[i])));
    }
  });
  return out;
}

Tensor broadcast(const Tensor& tensor, const Dims& dims) {
  if (tensor.dims() == dims) return tensor;
  if (const DType dtype = tensor.dtype(); is_stored_only(dtype))
    return broadcast(tensor.with_bits_as(carrier_of(dtype)), dims).with_bits_as(dtype);
  Tensor out(tensor.dtype(), dims);
  const Dims strides = broadcast_strides(tensor.dims(), dims);
  visit_dtype(tensor.dtype(), [&]<class T>() {
    const T* from = tensor.data<T>();
    T* to = out.data<T>();
    for_each_index(dims, [&](const Dims& index, int64_t i) {
      int64_t offset = 0;
      for (size_t axis = 0; axis < dims.size(); ++axis) offset += index[axis] * strides[axis];
      to[i] = from[offset];
    });
  });
  return out;
}

}  // namespace

Tensor run_program(const Program& program, std::span<const Tensor> inputs, const Dims& dims) {
  std::vector<Tensor> values;
  for (const Tensor& input : inputs) values.push_back(broadcast(input, dims));
  for (const Step& step : program.steps) {
    auto arg = [&](int a) { return a < arity_of(step.op) ? values[size_t(step.args[size_t(a)])] : Tensor(); };
    values.push_back(run_step(step, arg(0), arg(1), arg(2), dims));
  }
  return values.at(size_t(program.result()));
}

}  // namespace temper
