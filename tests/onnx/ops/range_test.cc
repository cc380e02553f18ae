// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/range.h"

#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include "../run_node.h"

namespace temper {
namespace {

NodeCase reverse_sequence(const Dims& dims, const std::vector<int64_t>& lengths, int64_t time, int64_t batch) {
  Tensor x(DType::f32, dims);
  for (int64_t i = 0; i < x.count(); ++i) x.data<float>()[i] = float(i);
  NodeCase test{"ReverseSequence", 10, {x, Tensor::of<int64_t>({int64_t(lengths.size())}, lengths)}};
  test.attributes = [=](onnx::NodeProto& node) {
    set_attribute(node, "time_axis", time);
    set_attribute(node, "batch_axis", batch);
  };
  return test;
}

TEST(ImportReverseSequence, ReversesTheBeginningOfEachSequenceAlongEitherAxis) {
  // 3 steps of 2 sequences of 2 numbers
  EXPECT_EQ(run_node(reverse_sequence({3, 2, 2}, {2, 3}, 0, 1))[0].to_doubles(),
            (std::vector<double>{4, 5, 10, 11, 0, 1, 6, 7, 8, 9, 2, 3}));
  EXPECT_EQ(run_node(reverse_sequence({2, 3, 2}, {2, 3}, 1, 0))[0].to_doubles(),
            (std::vector<double>{2, 3, 0, 1, 4, 5, 10, 11, 8, 9, 6, 7}));
  EXPECT_EQ(run_node(reverse_sequence({2, 3}, {1, 2}, 1, 0))[0].to_doubles(), (std::vector<double>{0, 1, 2, 4, 3, 5}));
}

TEST(ImportReverseSequence, AxesAreTheFirstTwo) {
  EXPECT_EQ(import_error(reverse_sequence({2, 3, 4}, {1, 2}, 2, 0)), ErrorKind::bad_file);
  EXPECT_EQ(import_error(reverse_sequence({2, 3, 4}, {1, 2}, 0, 0)), ErrorKind::bad_file);
}

}  // namespace
}  // namespace temper
