// SPDX-License-Identifier: Apache-2.0
// Runs one tactic on one problem with everything around it watched: guard bands around every buffer, NaN in scratch and
// outputs, constants handed over as a plan would, two launches that must give the same bits, zero padding channels.
#pragma once
#include <gtest/gtest.h>

#include <cstring>

#include "backends/backend.h"
#include "base/checked.h"

namespace temper::testing {

int64_t layout_offset(Dims dims, Layout layout, const Dims& index, int64_t pitch = 0);

// 64-byte aligned memory between two bands of `pattern`.
class Guarded {
 public:
  Guarded(int64_t bytes, uint8_t pattern)
      : bytes_(bytes), pattern_(pattern), memory_(DType::u8, {bytes + 2 * kBand + 64}) {
    std::memset(memory_.raw_mutable(), pattern, size_t(memory_.bytes()));
  }
  std::byte* data() { return memory_.raw_mutable() + kBand; }
  void fill(uint8_t value) { std::memset(data(), value, size_t(bytes_)); }
  bool intact() const {
    for (int64_t i = 0; i < memory_.bytes(); ++i)
      if ((i < kBand || i >= kBand + bytes_) && memory_.raw()[size_t(i)] != std::byte(pattern_)) return false;
    return true;
  }

 private:
  static constexpr int64_t kBand = 256;
  int64_t bytes_;
  uint8_t pattern_;
  Tensor memory_;
};

// What lies between the rows of a part of a larger tensor is NaN, or as good as that.
void store_layout(const Tensor& tensor, Layout layout, std::byte* to, int64_t pitch = 0);

// Also checks that padding channels are zero, and that what lies between the rows of a part is as before (all ones).
Tensor load_layout(DType dtype, const Dims& dims, Layout layout, const std::byte* from, int64_t pitch = 0);

// The outputs in plain layout. `inputs` are plain; those of absent ports are undefined tensors.
std::vector<Tensor> run_tactic(const Tactic& tactic, Problem problem, const Config& config,
                               const std::vector<Tensor>& inputs, const Device& device);

// |got - want| <= absolute + relative * |want|; NaN and infinities must agree. "" or the first difference.
std::string difference(const Tensor& got, const Tensor& want, double relative, double absolute);

}  // namespace temper::testing
