// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backends/cpu/cpu.h"
#include "run_tactic.h"

namespace temper {
namespace {

TEST(CpuReorder, EveryPairOfLayoutsKeepsEveryElementAndZeroesThePadding) {
  const std::vector<Dims> shapes = {{1, 3, 9, 9},  {2, 16, 5, 7}, {2, 32, 8, 8},    {1, 17, 6, 5},
                                    {3, 24, 4, 4}, {1, 40, 3},    {2, 31, 2, 3, 4}, {1, 64, 40, 40},
                                    {1, 1, 5, 5},  {2, 16, 1, 1}, {2, 5, 1, 1},     {0, 16, 3, 3}};
  for (const Dims& dims : shapes)
    for (DType dtype : {DType::f32, DType::u8, DType::f16, DType::i64})
      for (int from = 0; from < kLayoutCount; ++from)
        for (int to = 0; to < kLayoutCount; ++to)
          for (int threads : {1, 2}) {
            Tensor x(dtype, dims);
            for (int64_t i = 0; i < x.bytes(); ++i) x.raw_mutable()[i] = std::byte(1 + i % 251);
            auto kernel = make_cpu_reorder(x.type(), Layout(from), Layout(to), threads);
            testing::Guarded in(layout_bytes(dtype, dims, Layout(from)), 0xff),
                out(layout_bytes(dtype, dims, Layout(to)), 0xa5), workspace(kernel->workspace(), 0xa5);
            testing::store_layout(x, Layout(from), in.data());
            out.fill(0xff);
            const void* inputs[] = {in.data()};
            void* outputs[] = {out.data()};
            kernel->launch({inputs, outputs, workspace.data()});
            EXPECT_TRUE(testing::load_layout(dtype, dims, Layout(to), out.data()).same_bits(x))
                << x.type().text() << ' ' << name_of(Layout(from)) << " to " << name_of(Layout(to));
            EXPECT_TRUE(out.intact() && in.intact() && workspace.intact());
          }
}

TEST(CpuReorder, LayoutsThatATensorCannotHaveAreRefused) {
  EXPECT_THROW(make_cpu_reorder(type_of(DType::f32, {4, 4}), Layout::plain, Layout::blocked16, 1), Error);
}

}  // namespace
}  // namespace temper
