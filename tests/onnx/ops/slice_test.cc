// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include "../run_node.h"

namespace temper {
namespace {

using Values = std::vector<double>;

TEST(ImportSlice, SplitOfOpset1TakesItsSizesAsNumbersOfTheTypeOfItsInput) {
  NodeCase test{"Split", 1, {Tensor::of<float>({4}, {1, 2, 3, 4}), Tensor::of<float>({2}, {1, 3})}};
  test.outputs = 2;
  test.constants = {1};
  const auto parts = run_node(test);
  EXPECT_EQ(parts[0].to_doubles(), (Values{1}));
  EXPECT_EQ(parts[1].to_doubles(), (Values{2, 3, 4}));
  test.inputs[1] = Tensor::of<float>({2}, {0.5f, 3.5f});
  EXPECT_EQ(import_error(test), ErrorKind::bad_file);
}

}  // namespace
}  // namespace temper
