// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/support/program_code.h"

#include <cmath>

#include "backends/cuda/support/half_steps.h"
#include "backends/half_values.h"
#include "base/hash.h"

namespace temper::cuda {

std::string_view memory_type(DType dtype) {
  return dtype == DType::boolean ? "bool" : name_of(dtype == DType::f8e4m3fn ? dtype : carrier_of(dtype));
}

std::string_view word_type(int64_t bytes) {
  return bytes == 1 ? "u8" : bytes == 2 ? "u16" : bytes == 4 ? "u32" : "u64";
}

std::string_view held_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
    case DType::f16:
    case DType::bf16:
    case DType::f8e4m3fn: return "float";
    case DType::f64: return "double";
    default: return memory_type(dtype);
  }
}

namespace {

std::string constant_text(const Step& step) {
  if (step.dtype == DType::boolean) return step.integer ? "true" : "false";
  if (step.dtype == DType::f64)
    return concat("__longlong_as_double(0x", hex(std::bit_cast<uint64_t>(step.number)), "ll)");
  if (is_float(step.dtype)) {
    float value = 0;
    visit_dtype(step.dtype, [&]<class T>() { value = float(static_cast<T>(step.number)); });
    return concat("__int_as_float(0x", hex(uint64_t(std::bit_cast<uint32_t>(value))).substr(8), ')');
  }
  return concat(memory_type(step.dtype), "(0x", hex(uint64_t(step.integer)), "ull)");
}

// Whether a result in fp16 or bf16 is rounded already: rounding again would change nothing.
bool is_rounded(Scalar op) { return op == Scalar::constant || op == Scalar::cast || keeps_half_values(op); }

std::string cast_text(DType to, const std::string& x) {
  switch (to) {
    case DType::f16: return concat("op::round_f16(float(", x, "))");
    case DType::bf16: return concat("op::round_bf16(float(", x, "))");
    case DType::f8e4m3fn: return concat("op::round_f8e4m3fn(float(", x, "))");
    case DType::boolean: return concat("op::cast_bool(", x, ')');
    default: return concat("op::cast<", held_type(to), ">(", x, ')');
  }
}

}  // namespace

bool wants_bytes_as_floats(const Program& program, int input, DType dtype) {
  bool only_cast = (dtype == DType::i8 || dtype == DType::u8) && program.result() != input;
  for (const Step& step : program.steps)
    for (int a = 0; a < arity_of(step.op); ++a)
      if (step.args[size_t(a)] == input) only_cast &= step.op == Scalar::cast && step.dtype == DType::f32;
  return only_cast;
}

std::string byte_argument(std::string_view type, std::string_view loaded) {
  return concat(", byte_as_float<", type, ">(", loaded, ", v, (columns).pattern)");
}

void want_byte_pattern(std::string& column_fields, std::string& column_loads) {
  if (column_fields.find("pattern") != std::string::npos) return;
  column_fields += "u32 pattern; ";
  column_loads += "(to).pattern = kept(kByteAsFloat); ";
}

// The constants that are scales of 8 bits, and zero points, wherever they are read, by value.
static std::vector<bool> numbers_of_quantization(const Program& program, std::span<const DType> inputs) {
  const size_t values = size_t(program.inputs) + program.steps.size();
  // Made of an integer by nothing but sums and a relu; rounded and cast to 8 bits, perhaps behind bounds and a zero
  // point, or cast to f8e4m3fn.
  std::vector<bool> of_integer(values), to_bytes(values), out(values), refused(values);
  const auto each_step = [&](auto&& f) {
    for (size_t s = 0; s < program.steps.size(); ++s) f(program.steps[s], size_t(program.inputs) + s);
  };
  each_step([&](const Step& step, size_t v) {
    if (step.dtype != DType::f32) return;
    if (step.op == Scalar::cast) {
      const DType from = program.dtype_of_value(step.args[0], inputs);
      // Sums are of i32; bytes that the kernel gives as floats are of f32 (wants_bytes_as_floats).
      of_integer[v] = from == DType::i8 || from == DType::u8 || from == DType::i32 || from == DType::f32;
    }
    if (step.op == Scalar::add || step.op == Scalar::sub || step.op == Scalar::relu)
      for (int a = 0; a < arity_of(step.op); ++a)
        if (of_integer[size_t(step.args[size_t(a)])]) of_integer[v] = true;
  });
  const auto adds_to_rounded = [&](const Step& step) {
    return step.op == Scalar::add &&
           (step_of(program, step.args[0], Scalar::round) || step_of(program, step.args[1], Scalar::round));
  };
  for (size_t s = program.steps.size(); s-- > 0;) {
    const Step& step = program.steps[s];
    const size_t first = size_t(step.args[0]);
    if (step.op == Scalar::cast && (step.dtype == DType::i8 || step.dtype == DType::u8)) {
      const Step* sum = step_of(program, step.args[0], Scalar::add);
      if (step_of(program, step.args[0], Scalar::round) || (sum && adds_to_rounded(*sum))) to_bytes[first] = true;
    }
    if (step.op == Scalar::cast && step.dtype == DType::f8e4m3fn) to_bytes[first] = true;
    if (!to_bytes[size_t(program.inputs) + s]) continue;
    if (step.op == Scalar::round || step.op == Scalar::relu || step.op == Scalar::min || step.op == Scalar::max ||
        adds_to_rounded(step))
      for (int a = 0; a < arity_of(step.op); ++a) to_bytes[size_t(step.args[size_t(a)])] = true;
  }
  each_step([&](const Step& step, size_t v) {
    for (int a = 0; a < arity_of(step.op); ++a) {
      const int constant = step.args[size_t(a)];
      const Step* made = step_of(program, constant, Scalar::constant);
      if (!made) continue;
      const int other = step.args[size_t(a == 0)];
      const bool scales =
                     step.op == Scalar::mul || (step.op == Scalar::div && a == 1) || (step.op == Scalar::fma && a < 2),
                 shifts = step.op == Scalar::add || (step.op == Scalar::sub && a == 1);
      const bool fits = std::isfinite(float(made->number)) &&
                        ((scales && (to_bytes[v] ||
                                     (step.op != Scalar::div && arity_of(step.op) > 1 && of_integer[size_t(other)]))) ||
                         (shifts && (of_integer[size_t(other)] || (to_bytes[v] && adds_to_rounded(step)))));
      (fits ? out : refused)[size_t(constant)] = true;
    }
  });
  refused[size_t(program.result())] = true;
  for (size_t v = 0; v < values; ++v) out[v] = out[v] && !refused[v];
  return out;
}

namespace {

// Where the numbers of a function are: in its text, or in those of the launch.
struct NumberTexts {
  const Program& program;
  ProgramNumbers* numbers;    // null: all in the text
  std::vector<bool> outside;  // of the text, by value
  bool used = false;

  // The constant `v` as a value. `instead`: a number that follows from it.
  std::string of(int v, const float* instead = nullptr) {
    Step step = program.steps[size_t(v - program.inputs)];
    if (instead) step.number = *instead;
    if (!numbers || !outside[size_t(v)] || !numbers->has_room()) return constant_text(step);
    used = true;
    return concat("n[", numbers->add(float(step.number)), ']');
  }
};

}  // namespace

// Value `v` of f32, which is rounded to 8 bits, or to f8e4m3fn, next: where it is a quotient by a constant, that is
// made with the constant's reciprocal.
static std::string value_for_bytes(const Program& program, int v, NumberTexts& numbers,
                                   std::string_view bytes = "bytes") {
  const Step* quotient = step_of(program, v, Scalar::div);
  const Step* divisor = quotient ? step_of(program, quotient->args[1], Scalar::constant) : nullptr;
  if (!divisor) return concat('v', v);
  const float s = float(divisor->number);
  // With so much room, nothing that is not zero in 8 bits gets denormal on the way.
  if (!(std::fabs(s) > 0x1p-60f && std::fabs(s) < 0x1p60f)) return concat('v', v);
  const float reciprocal = 1 / s;
  return concat("op::quotient_for_", bytes, "(v", quotient->args[0], ", v", quotient->args[1], ", ",
                numbers.of(quotient->args[1], &reciprocal), ')');
}

// Value `v` of f32, which is cast to 8 bits next, where it is round(x) + zero point; else nothing.
static std::string shifted_for_bytes(const Program& program, int v, NumberTexts& numbers) {
  const Step* sum = step_of(program, v, Scalar::add);
  const Step* round = sum ? step_of(program, sum->args[0], Scalar::round) : nullptr;
  const Step* zero = round ? step_of(program, sum->args[1], Scalar::constant) : nullptr;
  if (!zero || std::fabs(zero->number) > 255 || zero->number != std::nearbyint(zero->number)) return "";
  const Step* relu = step_of(program, round->args[0], Scalar::relu);
  const std::string value = value_for_bytes(program, (relu ? relu : round)->args[0], numbers);
  return concat("op::rounded_plus(", relu ? concat("op::relu(", value, ')') : value, ", v", sum->args[1], ')');
}

static ProgramCode function_text(const Program& program, std::span<const DType> inputs, std::string_view name,
                                 bool finished, ProgramNumbers* numbers) {
  const DType result = program.dtype_of_value(program.result(), inputs);
  const bool bytes = finished && (result == DType::i8 || result == DType::u8);
  std::string steps;
  NumberTexts texts{program, numbers, numbers ? numbers_of_quantization(program, inputs) : std::vector<bool>()};
  const std::vector<DType> digits = wanted_digits(program, inputs);
  // A result of 16 bits, or in f8e4m3fn, is rounded where it is stored.
  const auto is_stored = [&](size_t s) { return finished && program.inputs + int(s) == program.result(); };
  for (size_t s = 0; s < program.steps.size(); ++s) {
    const Step& step = program.steps[s];
    std::string value;
    const bool last = bytes && is_stored(s);
    if (step.op == Scalar::constant) {
      value = texts.of(program.inputs + int(s));
    } else if (step.op == Scalar::cast) {
      const bool narrow = step.dtype == DType::i8 || step.dtype == DType::u8;
      const Step* round = narrow ? step_of(program, step.args[0], Scalar::round) : nullptr;
      const Step* relu = round ? step_of(program, round->args[0], Scalar::relu) : nullptr;
      const std::string shifted = narrow ? shifted_for_bytes(program, step.args[0], texts) : "";
      // Unsigned bytes saturate at 0 without a relu. Nor must one stand there: ptxas (CUDA 13) makes an F2IP of it that
      // an H200 does not know.
      const bool bounded = relu && shifted.empty() && step.dtype == DType::i8;
      const std::string to = concat(last ? "finish_rounded" : "cast_rounded", bounded ? "_relu" : "",
                                    last ? "(" : concat('<', held_type(step.dtype), ">("));
      if (!shifted.empty()) value = concat("op::", to, shifted, ')');
      else if (round) value = concat("op::", to, value_for_bytes(program, (relu ? relu : round)->args[0], texts), ')');
      else if (step.dtype == DType::f8e4m3fn)
        value = concat(is_stored(s) ? "(" : "op::round_f8e4m3fn(",
                       value_for_bytes(program, step.args[0], texts, "f8e4m3fn"), ')');
      else if (is_stored(s) && is_half(step.dtype)) value = concat("float(v", step.args[0], ')');
      else value = cast_text(step.dtype, concat('v', step.args[0]));
    } else {
      if (const auto few = half_text(program, s, digits)) {
        value = *few;
      } else {
        value = concat("op::", name_of(step.op), '(');
        for (int a = 0; a < arity_of(step.op); ++a) value += concat(a ? ", v" : "v", step.args[size_t(a)]);
        value += ')';
      }
      if (!is_rounded(step.op) && !is_stored(s) && step.dtype == DType::f16)
        value = concat("op::round_f16(", value, ')');
      if (!is_rounded(step.op) && !is_stored(s) && step.dtype == DType::bf16)
        value = concat("op::round_bf16(", value, ')');
    }
    steps +=
        concat("  const ", last ? "i32" : held_type(step.dtype), " v", program.inputs + int(s), " = ", value, ";\n");
  }
  std::string parameters = texts.used ? "const float* n" : "";
  for (int i = 0; i < program.inputs; ++i)
    parameters += concat(parameters.empty() ? "" : ", ", held_type(inputs[size_t(i)]), " v", i);
  return {concat("DEVICE ", bytes ? "i32" : held_type(result), ' ', name, '(', parameters, ") {\n", steps, "  return v",
                 program.result(), ";\n}\n"),
          concat(name, texts.used ? "(p.numbers, " : "(")};
}

std::string ProgramNumbers::text() const {
  return values_.empty() ? "" : concat("float numbers[", values_.size(), "];");
}

std::string program_code(const Program& program, std::span<const DType> inputs, std::string_view name) {
  return function_text(program, inputs, name, false, nullptr).text;
}
ProgramCode program_code(const Program& program, std::span<const DType> inputs, std::string_view name,
                         ProgramNumbers& numbers) {
  return function_text(program, inputs, name, false, &numbers);
}
std::string finished_code(const Program& program, std::span<const DType> inputs, std::string_view name) {
  return function_text(program, inputs, name, true, nullptr).text;
}
ProgramCode finished_code(const Program& program, std::span<const DType> inputs, std::string_view name,
                          ProgramNumbers& numbers) {
  return function_text(program, inputs, name, true, &numbers);
}

}  // namespace temper::cuda
