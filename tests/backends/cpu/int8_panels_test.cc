// SPDX-License-Identifier: Apache-2.0
// Products of bytes where the CPU has no AVX512-VNNI, at the values for which sums of pairs do not fit 16 bits.
#include <gtest/gtest.h>

#include "../run_tactic.h"
#include "backends/cpu/cpu.h"
#include "backends/cpu/isa.h"
#include "bench/cases.h"

namespace temper {
namespace {

class Int8Panels : public ::testing::Test {
 protected:
  void TearDown() override { set_isa(best_isa()); }
};

// All of `x` and all of `w` the same. `tactics`: how many compute it with AVX2, and with a dot product besides; one
// does without.
void expect_exact(const std::string& text, int x, int w, int tactics = 1) {
  SCOPED_TRACE(concat(text, ' ', x, " times ", w));
  const KernelCase test = parse_cases(text).at(0);
  std::vector<Tensor> inputs = make_case_inputs(test, 1);
  std::memset(inputs[0].raw_mutable(), x, size_t(inputs[0].bytes()));
  for (int64_t i = 0; i < inputs[1].count(); ++i) inputs[1].data<int8_t>()[i] = int8_t(w);
  const Problem problem = make_case_problem(test, inputs, 2);
  std::vector<TensorType> types;
  for (const Port& port : problem.outputs) types.push_back(port.type);
  const Tensor want = reference(test.op, inputs, types).at(0);
  Device device = cpu_device();
  device.avx512 = device.avx512_bf16 = device.avx512_vnni = false;
  const bool has_avx2 = best_isa() >= Isa::avx2;
  std::vector<std::pair<Isa, bool>> cpus{{Isa::base, false}};
  if (has_avx2) cpus.emplace_back(Isa::avx2, false);
  if (cpu_device().dot_product) cpus.emplace_back(std::min(Isa::avx2, best_isa()), true);
  int ran = 0, expected = 0;
  for (const auto& [isa, dot_product] : cpus) {
    set_isa(isa);
    device.avx2 = isa == Isa::avx2;
    device.dot_product = dot_product;
    expected += device.avx2 ? tactics : 1;
    for (const Tactic* tactic : find_backend("cpu").tactics()) {
      if (tactic->name.find("int8") == std::string_view::npos || !tactic->supports(problem, device).yes()) continue;
      for (const Config& config : tactic->configs(problem, device)) {
        ++ran;
        EXPECT_TRUE(testing::run_tactic(*tactic, problem, config, inputs, device).at(0).same_bits(want));
      }
    }
  }
  EXPECT_EQ(ran, expected);
}

TEST_F(Int8Panels, LargestProductsDoNotSaturate) {
  for (const int x : {0, 1, 255})
    for (const int w : {-128, -127, 127}) {
      expect_exact("matmul(u8[13,77], i8[77,35]*)", x, w);
      expect_exact("matmul(u8[7,1000], i8[1000,16]*)", x, w);
      expect_exact("conv(u8[2,5,7,6], i8[33,5,3,3]*) strides=[1,2] pads=[1,1,1,1] dilations=[1,1] epilogue=\"(1)\"", x,
                   w);
      expect_exact(
          "conv(u8[1,24,5,7], i8[24,4,3,3]*) strides=[1,1] pads=[1,1,1,1] dilations=[1,1] group=6 epilogue=\"(1)\"", x,
          w);
      expect_exact(
          "conv(u8[2,37,9,7], i8[37,1,5,5]*) strides=[1,2] pads=[2,2,2,2] dilations=[1,1] group=37 epilogue=\"(1)\"", x,
          w, 2);
    }
}

TEST_F(Int8Panels, SignedBytesTimesSignedBytesAreExact) {
  for (const int x : {-128, -1, 127})
    for (const int w : {-128, 127}) {
      expect_exact("matmul(i8[13,77], i8[77,35]*)", x, w);
      expect_exact("conv(i8[2,5,7,6], i8[33,5,3,3]*) strides=[1,2] pads=[1,1,1,1] dilations=[1,1] epilogue=\"(1)\"", x,
                   w);
      expect_exact(
          "conv(i8[1,24,5,7], i8[24,4,3,3]*) strides=[1,1] pads=[1,1,1,1] dilations=[1,1] group=6 epilogue=\"(1)\"", x,
          w);
    }
}

}  // namespace
}  // namespace temper
