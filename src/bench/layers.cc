// SPDX-License-Identifier: Apache-2.0
#include "bench/layers.h"

namespace temper {

bool is_product(LayerKind kind) { return kind == LayerKind::convolution || kind == LayerKind::matmul; }
bool is_conversion(LayerKind kind) {
  return kind == LayerKind::quantize || kind == LayerKind::dequantize || kind == LayerKind::reformat;
}

int bits_of(std::string_view precision) {
  if (precision == "bool") return 8;
  if (precision == "tf32") return 32;
  int bits = 0;
  for (char c : precision)
    if (c >= '0' && c <= '9') bits = bits * 10 + (c - '0');
  return bits;
}

bool is_float(std::string_view precision) {
  return bits_of(precision) >= 16 && precision.find("int") == precision.npos;
}

bool is_low(std::string_view precision) {
  const int bits = bits_of(precision);
  return bits > 0 && bits <= 8 && precision != "bool";
}

std::string upper(std::string_view precision) {
  std::string text(precision);
  for (char& c : text)
    if (c >= 'a' && c <= 'z') c = char(c - 'a' + 'A');
  return text.empty() ? "unknown" : text;
}

}  // namespace temper
