// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/append.h"

#include <gtest/gtest.h>

#include "backends/backend.h"
#include "graph/graph.h"

namespace temper {
namespace {

std::vector<double> run(const std::vector<Tensor>& inputs) {
  return run_node(ops::Append{}, inputs, "append")[0].to_doubles();
}
Tensor ones_to(int64_t count, Dims dims) {
  Tensor tensor(DType::f32, std::move(dims));
  for (int64_t i = 0; i < count; ++i) tensor.data<float>()[i] = float(i + 1);
  return tensor;
}

TEST(Append, PutsRowsBehindThoseThatEachRowOfTheBatchHolds) {
  const Tensor x(DType::f32, {2, 4, 1});
  EXPECT_EQ(run({x, ones_to(4, {2, 2, 1}), Tensor::of<int64_t>({2}, {0, 2})}),
            (std::vector<double>{1, 2, 0, 0, 0, 0, 3, 4}));
}

TEST(Append, RefusesALengthThatLeavesNoRoom) {
  const Tensor x(DType::f32, {1, 4, 1}), rows(DType::f32, {1, 2, 1});
  for (const int64_t length : {int64_t(-1), int64_t(3)})
    EXPECT_THROW(run({x, rows, Tensor::of<int64_t>({1}, {length})}), Error);
}

TEST(Append, RefusesRowsThatDoNotFit) {
  const Tensor x(DType::f32, {1, 4, 2}), length = Tensor::of<int64_t>({1}, {0});
  EXPECT_THROW(run({x, Tensor(DType::f32, {1, 5, 2}), length}), Error);
  EXPECT_THROW(run({x, Tensor(DType::f32, {1, 1, 3}), length}), Error);
  EXPECT_THROW(run({x, Tensor(DType::f16, {1, 1, 2}), length}), Error);
  EXPECT_THROW(run({x, Tensor(DType::f32, {1, 1, 2}), Tensor::of<int64_t>({2}, {0, 0})}), Error);
}

// The CPU's kernel writes nothing but the new rows where the cache is its output, and nothing where there is no room.
TEST(Append, TouchesOnlyTheNewRowsOfACacheInPlace) {
  Problem problem;
  problem.op = ops::Append{};
  for (const TensorType& type :
       {type_of(DType::f32, {2, 3, 1}), type_of(DType::f32, {2, 1, 1}), type_of(DType::i64, {2})})
    problem.inputs.push_back({type});
  problem.outputs.push_back({problem.inputs[0].type});
  const Backend& cpu = find_backend("cpu");
  const Device device = open_device("cpu", {});
  for (const Tactic* tactic : cpu.tactics()) {
    if (tactic->name != "cpu.append") continue;
    const auto kernel = tactic->load(problem, tactic->configs(problem, device)[0], {}, device);
    Tensor cache(DType::f32, {2, 3, 1});
    const Tensor rows = ones_to(2, {2, 1, 1});
    const auto launch = [&](const Tensor& lengths) {
      const void* const in[] = {cache.raw().data(), rows.raw().data(), lengths.raw().data()};
      void* const out[] = {cache.raw_mutable()};
      kernel->launch({in, out});
    };
    launch(Tensor::of<int64_t>({2}, {2, 0}));
    EXPECT_EQ(cache.to_doubles(), (std::vector<double>{0, 0, 1, 2, 0, 0}));
    EXPECT_THROW(launch(Tensor::of<int64_t>({2}, {0, 3})), Error);
    EXPECT_EQ(cache.to_doubles(), (std::vector<double>{0, 0, 1, 2, 0, 0}));
    return;
  }
  FAIL() << "no cpu.append";
}

}  // namespace
}  // namespace temper
