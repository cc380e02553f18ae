// SPDX-License-Identifier: Apache-2.0
#include "graph/random.h"

#include "base/small_types.h"
#include "base/string_table.h"

namespace temper {
namespace {

uint64_t mixed(uint64_t x) {  // the output function of SplitMix64 (Steele, Lea, Flood 2014)
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace

void fill_random(Tensor& tensor, uint64_t seed) {
  const uint64_t start = mixed(seed + 0x9e3779b97f4a7c15u);
  if (tensor.dtype() == DType::string) {  // digits, which are numbers where a model reads them as such
    auto* codes = reinterpret_cast<uint64_t*>(tensor.raw_mutable());
    for (int64_t i = 0; i < tensor.count(); ++i)
      codes[i] = current_strings().code_of(concat(mixed(start + uint64_t(i)) % 10));
    return;
  }
  if (is_stored_only(tensor.dtype())) {
    auto* codes = reinterpret_cast<uint8_t*>(tensor.raw_mutable());
    for (int64_t i = 0; i < tensor.count(); ++i)
      codes[i] = plausible_code(tensor.dtype(), uint8_t(mixed(start + uint64_t(i) * 0x9e3779b97f4a7c15u) >> 56));
    return;
  }
  visit_dtype(tensor.dtype(), [&]<class T>() {
    T* out = tensor.data<T>();
    for (int64_t i = 0; i < tensor.count(); ++i) {
      const uint64_t bits = mixed(start + uint64_t(i) * 0x9e3779b97f4a7c15u);
      if constexpr (is_float(dtype_of<T>)) out[i] = T(double(int64_t(bits) >> 11) * 0x1p-52);
      else if constexpr (std::is_same_v<T, uint8_t> || std::is_same_v<T, int8_t>) out[i] = T(bits >> 56);
      else if constexpr (std::is_same_v<T, bool>) out[i] = bits >> 63;
      else out[i] = T((bits >> 32) % 10);
    }
  });
}

Tensor random_tensor(DType dtype, const Dims& dims, uint64_t seed) {
  Tensor tensor(dtype, dims);
  fill_random(tensor, seed);
  return tensor;
}

}  // namespace temper
