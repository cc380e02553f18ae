// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include "../run_node.h"

namespace temper {
namespace {

using Values = std::vector<double>;

TEST(ImportBroadcast, TileOfOpset1TakesOneAxisAsNumbersOfTheTypeOfItsInput) {
  NodeCase test{"Tile", 1, {Tensor::of<float>({2, 1}, {1, 2}), Tensor::of<float>({}, {3}), Tensor::of<float>({}, {1})}};
  test.constants = {1, 2};
  const Tensor y = run_node(test)[0];
  EXPECT_EQ(y.dims(), (Dims{2, 3}));
  EXPECT_EQ(y.to_doubles(), (Values{1, 1, 1, 2, 2, 2}));
  test.inputs[1] = Tensor::of<float>({}, {1.5f});
  EXPECT_EQ(import_error(test), ErrorKind::bad_file);
}

}  // namespace
}  // namespace temper
