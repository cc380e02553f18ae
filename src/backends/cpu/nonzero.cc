// SPDX-License-Identifier: Apache-2.0
// Blocks without such an element, which are most of a mask, take one vectorised look; in the others, positions are
// written without a branch. Only what was found is taken apart into axes.
#include "backends/cpu/nonzero.h"

#include <algorithm>

#include "backends/cpu/isa.h"

namespace temper {

namespace {

constexpr int64_t kBlock = 256;

// Elements by their bits: a float is 0 where all bits but the sign are.
template <class Bits>
int64_t count_in(const Bits* x, int64_t n, Bits mask) {
  int64_t count = 0;
  int64_t* into = &count;
  vectorised([=] {
    int found = 0;
    for (int64_t i = 0; i < n; ++i) found += (x[i] & mask) != 0;
    *into = found;
  });
  return count;
}

template <class Bits>
std::vector<int64_t> positions_of(const void* data, int64_t n, Bits mask) {
  const Bits* x = static_cast<const Bits*>(data);
  std::vector<int64_t> found;
  int64_t block[kBlock + 1];
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t end = std::min(n, begin + kBlock);
    if (count_in(x + begin, end - begin, mask) == 0) continue;
    int64_t count = 0;
    for (int64_t i = begin; i < end; ++i) {
      block[count] = i;
      count += (x[i] & mask) != 0;
    }
    found.insert(found.end(), block, block + count);
  }
  return found;
}

}  // namespace

Tensor run_nonzero(const Tensor& x) {
  const bool is_signed_zero = is_float(x.dtype());
  const auto positions = [&]<class Bits>(Bits all) {
    return positions_of<Bits>(x.raw().data(), x.count(), is_signed_zero ? Bits(all >> 1) : all);
  };
  std::vector<int64_t> found;
  switch (size_of(x.dtype())) {
    case 1: found = positions(uint8_t(~0)); break;
    case 2: found = positions(uint16_t(~0)); break;
    case 4: found = positions(uint32_t(~0)); break;
    default: found = positions(~uint64_t(0)); break;
  }
  const Dims dims = x.rank() ? x.dims() : Dims{1};
  const int64_t n = int64_t(found.size());
  Tensor out(DType::i64, {int64_t(dims.size()), n});
  for (size_t axis = dims.size(); axis-- > 0;) {
    int64_t* to = out.data<int64_t>() + int64_t(axis) * n;
    const int64_t size = dims[axis];
    for (int64_t k = 0; k < n; ++k) {
      const int64_t whole = axis == 0 ? 0 : found[size_t(k)] / size;
      to[k] = found[size_t(k)] - whole * size;
      found[size_t(k)] = whole;
    }
  }
  return out;
}

}  // namespace temper
