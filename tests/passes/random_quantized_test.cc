// SPDX-License-Identifier: Apache-2.0
// Quantized models give the same integers whether the passes make integer products of them or not.
#include "random_quantized.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "onnx/import.h"
#include "onnx/write.h"
#include "optimize/build_engine.h"
#include "passes/pass.h"

namespace temper {
namespace {

using testing::QuantizedModel;
using testing::RandomQuantized;

// TEMPER_QUANTIZED_SEEDS: how many models; the suite takes a few.
uint32_t seeds(uint32_t standard) {
  const char* asked = std::getenv("TEMPER_QUANTIZED_SEEDS");
  return asked ? uint32_t(std::strtoul(asked, nullptr, 10)) : standard;
}

void expect_same_bits(const Graph& graph, const std::vector<Tensor>& got, const std::vector<Tensor>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    ASSERT_EQ(got[i].type().text(), wanted[i].type().text());
    const auto a = wanted[i].to_doubles(), b = got[i].to_doubles();
    for (size_t k = 0; k < a.size(); ++k)
      ASSERT_EQ(b[k], a[k]) << "output '" << graph.outputs()[i].name << "', element " << k << '\n' << print(graph);
  }
}

// Of an epilogue that ends with round, + zero point, cast.
bool shifts(const Program& program) {
  const size_t n = program.steps.size();
  return n >= 4 && program.steps[n - 1].op == Scalar::cast && program.steps[n - 2].op == Scalar::add;
}

std::vector<Tensor> run_on_cpu(const Graph& graph, const QuantizedModel& model, bool passes) {
  BuildOptions options;
  options.threads = 1;
  options.measure = options.segments = false;
  options.passes.all_disabled = !passes;
  return Session(build_engine(graph, {}, options)).run(model.inputs);
}

TEST(RandomQuantizedModels, GiveTheSameBitsOptimisedAndNotWhereScalesAreExact) {
  int products = 0, shifted = 0, differing = 0;
  const uint32_t count = seeds(60);
  for (uint32_t seed = 0; seed < count; ++seed) {
    SCOPED_TRACE(concat("seed ", seed));
    const QuantizedModel model = RandomQuantized(seed, true).layers();
    const Graph before = import_onnx_bytes(model.bytes, "").graph;
    Graph after = before;
    ASSERT_NO_THROW(run_passes(after)) << print(before);
    for (int32_t n = 0; n < after.node_count(); ++n)
      if (const Program* epilogue = epilogue_of(after.node({n}).op);
          epilogue && !is_float(after.type(after.node({n}).inputs[0]).dtype)) {
        ++products;
        shifted += shifts(*epilogue);
      }
    const std::vector<Tensor> wanted = run_reference(before, model.inputs);
    for (const Tensor& output : wanted) {
      const auto values = output.to_doubles();
      differing += std::any_of(values.begin(), values.end(), [&](double v) { return v != values[0]; });
    }
    ASSERT_NO_FATAL_FAILURE(expect_same_bits(after, run_reference(after, model.inputs), wanted));
    // As the exported model says it, too.
    Graph written = import_onnx_bytes(onnx_bytes(before), "").graph;
    run_passes(written);
    ASSERT_NO_FATAL_FAILURE(expect_same_bits(written, run_reference(written, model.inputs), wanted));
    if (seed % 4 != 0) continue;
    for (const bool passes : {true, false})
      ASSERT_NO_FATAL_FAILURE(expect_same_bits(after, run_on_cpu(before, model, passes), wanted))
          << "on the CPU, passes " << passes;
  }
  EXPECT_GE(products, int(count)) << "the models hardly have an integer product";
  EXPECT_GE(shifted, int(count / 3)) << "hardly a zero point behind an integer product";
  EXPECT_GE(differing, int(count)) << "most outputs are the same everywhere";
}

// Other scales are multiplied once, where the model rounds each operand: a result beside a tie may fall the other way.
TEST(RandomQuantizedModels, DifferByOneStepBesideATieAloneWhereScalesAreNot) {
  int64_t elements = 0, apart = 0;
  for (uint32_t seed = 0; seed < seeds(100); ++seed) {
    SCOPED_TRACE(concat("seed ", seed));
    const QuantizedModel model = RandomQuantized(seed, false).one_layer(false),
                         open = RandomQuantized(seed, false).one_layer(true);
    const Graph before = import_onnx_bytes(model.bytes, "").graph;
    Graph after = before;
    run_passes(after);
    const std::vector<double> wanted = run_reference(before, model.inputs)[0].to_doubles(),
                              got = run_reference(after, model.inputs)[0].to_doubles(),
                              real =
                                  run_reference(import_onnx_bytes(open.bytes, "").graph, open.inputs)[0].to_doubles();
    ASSERT_EQ(got.size(), wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i) {
      ++elements;
      if (got[i] == wanted[i]) continue;
      ++apart;
      const double steps = real[i] / double(open.last_scale), to_tie = std::fabs(steps - std::floor(steps) - 0.5);
      EXPECT_EQ(std::fabs(got[i] - wanted[i]), 1) << steps;
      EXPECT_LE(to_tie, model.most * 0x1p-22) << steps;
    }
  }
  RecordProperty("elements", concat(elements));
  RecordProperty("apart", concat(apart));
  std::printf("%lld of %lld elements differ\n", static_cast<long long>(apart), static_cast<long long>(elements));
  EXPECT_LE(apart, 1 + elements / 10000);
}

}  // namespace
}  // namespace temper
