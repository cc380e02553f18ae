// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/string_cast.h"

#include <charconv>
#include <cmath>

#include "base/parse.h"
#include "base/quote.h"
#include "base/string_table.h"
#include "graph/strings.h"

namespace temper::ops {

namespace {

// "d.ddde±xx" as NumPy writes it: without an exponent from 1e-4 to below 1e16.
template <class T>
std::string shortest(T value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
  std::string text(buffer, end);
  const size_t e = text.find('e');
  const int exponent = std::atoi(text.c_str() + e + 1);
  if (value != 0 && (exponent < -4 || exponent >= 16)) return text;
  const bool negative = text[0] == '-';
  std::string digits;
  for (char c : text.substr(0, e))
    if (c >= '0' && c <= '9') digits += c;
  std::string plain;
  if (exponent < 0) {
    plain = "0." + std::string(size_t(-exponent) - 1, '0') + digits;
  } else {
    const size_t whole = size_t(exponent) + 1;
    if (digits.size() < whole) digits.append(whole - digits.size(), '0');
    const std::string rest = digits.substr(whole);
    plain = digits.substr(0, whole) + '.' + (rest.empty() ? "0" : rest);
  }
  return negative ? '-' + plain : plain;
}

template <class T>
std::string text_of(T value) {
  if constexpr (std::is_same_v<T, bool>) return value ? "True" : "False";
  else if constexpr (std::is_integral_v<T>) return concat(static_cast<Wide<T>>(value));
  else if constexpr (std::is_same_v<T, double>) return shortest(value);
  else if constexpr (std::is_same_v<T, float>) return shortest(value);
  else return shortest(float(value));  // of 16 bits: all digits that its float needs
}

template <class T>
T number_of(std::string_view given) {
  std::string_view text = given;
  const auto is_blank = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  if constexpr (is_float(dtype_of<T>)) {
    // In one rounding, but for the types of 16 bits, which go over f32.
    using Read = std::conditional_t<std::is_same_v<T, double>, double, float>;
    Read value;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool whole = !text.empty() && end == text.data() + text.size();
    if (whole && error == std::errc()) return T(value);
    if (long double wide = 0; whole && error == std::errc::result_out_of_range)  // beyond it, or below the smallest
      if (std::from_chars(text.data(), text.data() + text.size(), wide).ec == std::errc()) return T(Read(wide));
  } else {
    if (const auto value = parse_number<T>(text)) return *value;
  }
  fail(ErrorKind::usage, "'", printable(cut_in_middle(given, 80)), "' is no number of type ", dtype_of<T>);
}

}  // namespace

std::vector<TensorType> StringCast::infer(const InferContext& context) const {
  context.expect_inputs(1, 1);
  const TensorType& x = context.type(0);
  const DType number = x.dtype == DType::string ? dtype : x.dtype;
  if ((x.dtype == DType::string) == (dtype == DType::string)) fail(ErrorKind::bad_file, "a cast of ", x, " to ", dtype);
  if (is_stored_only(number) || (dtype == DType::boolean && x.dtype == DType::string))
    fail(ErrorKind::unsupported, "a cast of ", x, " to ", dtype);
  return {{dtype, x.shape}};
}

std::vector<Tensor> StringCast::reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const {
  StringTable& table = current_strings();
  const Tensor& x = inputs[0];
  if (x.dtype() == DType::string) {
    Tensor out(dtype, outputs[0].dims());
    const std::span<const uint64_t> codes = codes_of(x);
    visit_dtype(dtype, [&]<class T>() {
      if constexpr (!std::is_same_v<T, bool>)
        for (int64_t i = 0; i < x.count(); ++i) out.data<T>()[i] = number_of<T>(table.at(codes[size_t(i)]));
    });
    return {out};
  }
  Tensor codes(DType::u64, outputs[0].dims());
  visit_dtype(x.dtype(), [&]<class T>() {
    for (int64_t i = 0; i < x.count(); ++i) codes.data<uint64_t>()[i] = table.code_of(text_of<T>(x.data<T>()[i]));
  });
  return {codes.with_bits_as(DType::string)};
}

}  // namespace temper::ops
