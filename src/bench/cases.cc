// SPDX-License-Identifier: Apache-2.0
#include "bench/cases.h"

#include <algorithm>
#include <random>

#include "base/small_types.h"
#include "graph/fields.h"
#include "graph/random.h"

namespace temper {

namespace {

class LineParser {
 public:
  explicit LineParser(std::string_view text) : rest_(text) {}

  KernelCase run() {
    KernelCase out;
    out.text = std::string(rest_);
    out.reference_only = accept("reference ");
    const auto open = rest_.find('(');
    if (open == rest_.npos) error("op(type, ...)");
    const std::string_view name = rest_.substr(0, open);
    rest_.remove_prefix(open + 1);
    while (!accept(")")) {
      if (!out.inputs.empty()) expect(", ");
      out.inputs.push_back(input());
    }
    while (accept(" ")) {}
    out.op = parse_op(name, rest_);
    return out;
  }

 private:
  std::string_view rest_;

  [[noreturn]] void error(std::string_view what) {
    fail(ErrorKind::bad_file, what, " is expected at '", rest_.substr(0, 40), "'");
  }
  bool accept(std::string_view word) {
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  void expect(std::string_view word) {
    if (!accept(word)) error(concat('\'', word, '\''));
  }
  std::string_view until(char end) {
    const auto at = rest_.find(end);
    if (at == rest_.npos) error(concat('\'', end, '\''));
    std::string_view word = rest_.substr(0, at + 1);
    rest_.remove_prefix(at + 1);
    return word;
  }
  CaseInput input() {
    CaseInput out;
    if (accept("_")) return out.present = false, out;
    out.type = TensorType::parse(until(']'));
    out.constant = accept("*");
    out.no_negatives = !out.constant && accept("+");
    if (accept("=")) {
      out.value = Tensor(out.type.dtype, out.type.dims());
      const std::string_view list = until(']');
      visit_dtype(out.type.dtype, [&]<class T>() {
        std::vector<std::conditional_t<std::is_integral_v<T>, int64_t, double>> values;
        parse_field(list, values);
        if (int64_t(values.size()) != out.value.count())
          fail(ErrorKind::bad_file, out.type, " is given ", values.size(), " elements");
        for (size_t i = 0; i < values.size(); ++i) out.value.data<T>()[i] = static_cast<T>(values[i]);
      });
    } else if (accept("{")) {
      std::string_view range = until('}');
      const auto dots = range.find("..");
      if (dots == range.npos) fail(ErrorKind::bad_file, "a range is {low..high}, not {", range);
      parse_field(range.substr(0, dots), out.low);
      parse_field(range.substr(dots + 2, range.size() - dots - 3), out.high);
      if (out.low >= out.high) fail(ErrorKind::bad_file, "the range {", range, " is empty");
    }
    return out;
  }
};

}  // namespace

std::vector<KernelCase> parse_cases(std::string_view text) {
  std::vector<KernelCase> out;
  int line = 0;
  while (!text.empty()) {
    ++line;
    const auto end = text.find('\n');
    std::string_view row = text.substr(0, end);
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
    row = row.substr(0, row.find('#'));
    while (!row.empty() && (row.back() == ' ' || row.back() == '\r')) row.remove_suffix(1);
    if (row.empty()) continue;
    with_context([&] { return concat("line ", line); }, [&] { out.push_back(LineParser(row).run()); });
    out.back().line = line;
  }
  return out;
}

std::vector<Tensor> make_case_inputs(const KernelCase& kernel_case, uint64_t seed) {
  std::vector<Tensor> out;
  std::mt19937_64 random(seed);
  for (const CaseInput& input : kernel_case.inputs) {
    if (!input.present || input.value.defined()) {
      out.push_back(input.value);
      continue;
    }
    Tensor tensor(input.type.dtype, input.type.dims());
    const bool ranged = input.low < input.high;
    const auto quarters = [](uint64_t bits) { return (double(bits % 33) - 16) / 4; };
    if (input.type.dtype == DType::f8e4m3fn) {
      for (int64_t i = 0; i < tensor.count(); ++i)
        tensor.raw_mutable()[i] = std::byte(float_to_e4m3(float(quarters(random()))));
      out.push_back(std::move(tensor));
      continue;
    }
    if (input.type.dtype == DType::string) {
      fill_random(tensor, random());
      out.push_back(std::move(tensor));
      continue;
    }
    visit_dtype(input.type.dtype, [&]<class T>() {
      for (int64_t i = 0; i < tensor.count(); ++i) {
        const auto bits = random();
        if (ranged) tensor.data<T>()[i] = static_cast<T>(input.low + int64_t(bits % uint64_t(input.high - input.low)));
        else if constexpr (std::is_same_v<T, bool>) tensor.data<T>()[i] = bits & 1;
        else if constexpr (std::is_integral_v<T>)
          tensor.data<T>()[i] = static_cast<T>(std::is_signed_v<T> ? int64_t(bits % 17) - 8 : int64_t(bits % 16));
        else tensor.data<T>()[i] = static_cast<T>(quarters(bits));
      }
    });
    out.push_back(std::move(tensor));
  }
  return out;
}

Problem make_case_problem(const KernelCase& kernel_case, const std::vector<Tensor>& inputs, int threads) {
  Problem problem{kernel_case.op, {}, {}, threads};
  std::vector<Operand> operands;
  std::vector<Contents> contents(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const CaseInput& input = kernel_case.inputs[i];
    const Tensor* constant = input.constant ? &inputs[i] : nullptr;
    problem.inputs.push_back({input.type, constant, input.constant, input.present, input.no_negatives});
    Operand operand;
    if (input.present) operand.type = &input.type;
    operand.constant = constant;
    if (constant && is_int(constant->dtype()) && constant->count() <= kMaxContents) {
      for (int64_t value : constant->to_ints()) contents[i].push_back(value);
      operand.contents = &contents[i];
    }
    operands.push_back(operand);
  }
  std::vector<TensorType> types = infer(kernel_case.op, InferContext(operands, "case"));
  if (!std::ranges::all_of(types, &TensorType::is_concrete)) {  // only the inputs say how large the results are
    for (size_t i = 0; i < operands.size(); ++i) operands[i].constant = operands[i].type ? &inputs[i] : nullptr;
    types = infer(kernel_case.op, InferContext(operands, "case"));
  }
  for (TensorType& type : types) problem.outputs.push_back({std::move(type)});
  return problem;
}

}  // namespace temper
