// SPDX-License-Identifier: Apache-2.0
#include "graph/signs.h"

#include <gtest/gtest.h>

namespace temper {
namespace {

// The names of values that are known to hold nothing below zero.
std::string without_negatives(std::string_view text) {
  const Graph graph = parse_graph(text);
  const auto known = values_without_negatives(graph);
  std::string names;
  for (int32_t v = 0; v < graph.value_count(); ++v)
    if (known[size_t(v)]) names += graph.value({v}).name + ' ';
  return names;
}

TEST(Signs, AreKnownBehindARelu) {
  EXPECT_EQ(without_negatives(R"g(graph "g"
input %x: i8[n,2,4]
const %w: i8[2,2,1] = [1,2,-3,4]
%a: i8[n,2,4] = conv(%x, %w) strides=[1] dilations=[1] pads=[0,0] epilogue="(1) 1=cast.f32(0) 2=relu.f32(1) 3=round.f32(2) 4=cast.i8(3)"
%b: i8[n,2,4] = conv(%x, %w) strides=[1] dilations=[1] pads=[0,0] epilogue="(1) 1=cast.f32(0) 2=round.f32(1) 3=cast.i8(2)"
output "a" = %a
output "b" = %b
)g"),
            "a ");
}

TEST(Signs, FollowWhatMovesNumbersAndStopAtWhatMayNot) {
  EXPECT_EQ(without_negatives(R"g(graph "g"
input %x: f32[1,2,4,4]
%r: f32[1,2,4,4] = pointwise(%x) program="(1) 1=relu.f32(0)"
%pool: f32[1,2,2,2] = pool(%r) kernel=[2,2] strides=[2,2] dilations=[1,1] pads=[0,0,0,0]
%far: f32[1,2,4,4] = pool(%r) kernel=[2,2] strides=[2,2] dilations=[1,1] pads=[2,2,2,2]
%both: f32[1,4,4,4] = concat(%r, %r) axis=1
%mixed: f32[1,4,4,4] = concat(%r, %x) axis=1
const %indices: i64[1] = [-1]
%picked: f32[1,1,4,4] = gather(%r, %indices) axis=1
%less: f32[1,2,4,4] = pointwise(%r) program="(1) 1=constant.f32[-1] 2=add.f32(0,1)"
%more: f32[1,2,4,4] = pointwise(%r) program="(1) 1=constant.f32[1] 2=add.f32(0,1)"
%wrapped: i8[1,2,4,4] = pointwise(%r) program="(1) 1=cast.i32(0) 2=cast.i8(1)"
%saturated: i8[1,2,4,4] = pointwise(%r) program="(1) 1=cast.i8(0)"
output "1" = %pool
output "2" = %far
output "3" = %both
output "4" = %mixed
output "5" = %less
output "6" = %more
output "7" = %wrapped
output "8" = %saturated
output "9" = %picked
)g"),
            "r pool both picked more saturated ");
}

}  // namespace
}  // namespace temper
