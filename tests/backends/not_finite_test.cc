// SPDX-License-Identifier: Apache-2.0
// NaN and infinity in, on every CPU tactic, every config and every instruction set of this machine: what comes out is
// what the op's reference gives. docs/data.md lists the exceptions, which are tested to be what it says.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "../paths.h"
#include "backends/cpu/cpu.h"
#include "backends/cpu/isa.h"
#include "base/file.h"
#include "bench/cases.h"
#include "case_files.h"
#include "graph/ops/conv.h"
#include "levels.h"
#include "put_values.h"
#include "run_tactic.h"

namespace temper {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();

using Skip = bool (*)(const Problem& problem, const Tactic& tactic, const Config& config);

void expect_reference(const std::string& file, const std::vector<double>& values, Skip skip) {
  const Isa before = cpu_isa();
  int checked = 0;
  for (const KernelCase& kernel_case :
       parse_cases(read_file(concat(paths::source_folder(), "/tests/cases/", file, ".cases")))) {
    SCOPED_TRACE(concat(file, ".cases:", kernel_case.line, ": ", kernel_case.text));
    const std::vector<Tensor> inputs =
        testing::put_values(make_case_inputs(kernel_case, uint64_t(kernel_case.line)), kernel_case, values);
    const Problem problem = make_case_problem(kernel_case, inputs, 1);
    if (problem.outputs[0].type.dtype != DType::i64 && !is_float(problem.outputs[0].type.dtype))
      continue;  // rounding of NaN to integers is not a matter of kernels
    std::vector<TensorType> types;
    for (const Port& port : problem.outputs) types.push_back(port.type);
    const std::vector<Tensor> want = reference(kernel_case.op, inputs, types);
    if (want[0].count() > 100000) continue;
    for (const testing::CpuOfLevel& machine : testing::cpus_of_levels()) {
      set_isa(machine.isa);
      for (const Tactic* tactic : find_backend("cpu").tactics()) {
        if (tactic->name == "reference" || !tactic->supports(problem, machine.device).yes()) continue;
        for (const Config& config : tactic->configs(problem, machine.device)) {
          if (skip(problem, *tactic, config)) continue;
          SCOPED_TRACE(concat(tactic->name, " '", config.text, "' ",
                              config.outputs.empty() ? "" : name_of(config.outputs[0]), " isa ",
                              enum_names(IsaLevel{})[size_t(machine.level)]));
          const std::vector<Tensor> got = testing::run_tactic(*tactic, problem, config, inputs, machine.device);
          for (size_t i = 0; i < got.size(); ++i) {
            const testing::Tolerance t = testing::tolerance_of(want[i].dtype());
            EXPECT_EQ(testing::difference(got[i], want[i], t.relative, t.absolute), "") << "output " << i;
            ++checked;
          }
        }
      }
    }
  }
  set_isa(before);
  EXPECT_GT(checked, 0);
}

bool none(const Problem&, const Tactic&, const Config&) { return false; }

TEST(NotFinite, SoftmaxMaxPoolReductionsAndComparisonsGiveWhatTheReferenceGives) {
  for (const std::vector<double>& values :
       {std::vector<double>{kNan}, {kNan, kInfinity, -kInfinity}, {kInfinity}, {-kInfinity}})
    for (const char* file : {"softmax", "pool", "reduce", "arg_reduce"}) expect_reference(file, values, none);
}

TEST(NotFinite, WhatIsOrderedMovedAndSummedIsWhatTheReferenceGives) {
  for (const std::vector<double>& values : {std::vector<double>{kNan}, {kNan, kInfinity, -kInfinity}, {kInfinity}})
    for (const char* file : {"topk", "scatter", "cumulative", "sample"}) expect_reference(file, values, none);
}

TEST(NotFinite, PointwiseProgramsGiveWhatTheReferenceGives) {
  for (const std::vector<double>& values : {std::vector<double>{kNan}, {kInfinity}, {-kInfinity}})
    expect_reference("pointwise", values, none);
}

// Functions that oneDNN computes inside a convolution or product (relu, clip, sigmoid, tanh).
bool has_dnnl_function(const Problem& problem, const Tactic& tactic, const Config& config) {
  const Program* epilogue = epilogue_of(problem.op);
  if (!epilogue || tactic.name.find("onednn") == tactic.name.npos || config.text.ends_with(" bias")) return false;
  return std::any_of(epilogue->steps.begin(), epilogue->steps.end(), [](const Step& step) {
    return step.op == Scalar::relu || step.op == Scalar::sigmoid || step.op == Scalar::tanh;
  });
}
// Winograd's transforms carry a NaN to its whole tile, and channels that only fill a block up get one, too. A row of an
// AMX tile that channels do not fill has those of the next pixel behind them, which are multiplied by zeros. Weights
// that are data hold NaN here, and a convolution that is unfolded into a product multiplies the padding's zeros by it.
bool spreads(const Problem& problem, const Config& config) {
  constexpr int64_t kTileRow = 32;  // of bf16
  const int64_t block = block_of(config.outputs[0]);
  const bool unfolded = config.text.find("gemm") != config.text.npos;
  return (unfolded && !problem.inputs[1].is_constant && problem.op.is<ops::Conv>()) ||
         config.text.starts_with("winograd") || (block > 1 && problem.outputs[0].dims()[1] % block != 0) ||
         (config.text.find("amx") != config.text.npos && problem.inputs[1].dims()[1] % kTileRow != 0);
}

TEST(NotFinite, ConvolutionsAndProductsGiveWhatTheReferenceGivesButForOnednnsFunctions) {
  for (const char* file : {"conv", "matmul"})
    expect_reference(file, {kNan}, [](const Problem& problem, const Tactic& tactic, const Config& config) {
      return spreads(problem, config) || has_dnnl_function(problem, tactic, config);
    });
}

}  // namespace
}  // namespace temper
