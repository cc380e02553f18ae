// SPDX-License-Identifier: Apache-2.0
#include "quantize/observe.h"

#include <gtest/gtest.h>

namespace temper {
namespace {

TEST(Observe, ChannelsAreThoseOfWhatAProductReadsAsItsRows) {
  const Graph graph = parse_graph(
      "graph \"g\"\n"
      "input %x: f32[2,3]\n"
      "input %t: f32[3,2]\n"
      "input %c: f32[1,1,2,3]\n"
      "const %w: f32[3,2] = [1,2,3,4,5,6]\n"
      "const %k: f32[1,1,1,1] = [1]\n"
      "%a: f32[2,2] = matmul(%x, %w) epilogue=\"(1)\"\n"
      "%b: f32[2,2] = matmul(%t, %w) transpose_a=true epilogue=\"(1)\"\n"
      "%d: f32[2,2] = matmul(%a, %b) epilogue=\"(1)\"\n"
      "%e: f32[1,1,2,3] = conv(%c, %k) strides=[1,1] dilations=[1,1] pads=[0,0,0,0] epilogue=\"(1)\"\n"
      "output \"d\" = %d\n"
      "output \"e\" = %e\n");
  for (ValueId id : observed_values(graph))
    EXPECT_EQ(observed_channels(graph, id), graph.value(id).name == "x" ? 3 : 0) << graph.value(id).name;
}

TEST(Observe, TheLargestOfEachChannelIsThatOfAllBatches) {
  Observed observed;
  observed.channels.resize(3);
  const std::vector<std::string> samples{"0", "1"};
  observe(observed, Tensor::of<float>({2, 3}, {1, -2, 0, -3, 1, 0}), "x", samples);
  EXPECT_EQ(observed.channels, (std::vector<float>{3, 2, 0}));
  observe(observed, Tensor::of<float>({1, 2, 3}, {0, 1, 0, 2, 7, 0}), "x", samples);
  EXPECT_EQ(observed.channels, (std::vector<float>{3, 7, 0}));
  Observed plain;
  observe(plain, Tensor::of<float>({2, 3}, {1, -2, 0, -3, 1, 0}), "x", samples);
  EXPECT_TRUE(plain.channels.empty());
}

}  // namespace
}  // namespace temper
