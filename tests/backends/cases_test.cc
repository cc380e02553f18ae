// SPDX-License-Identifier: Apache-2.0
// Every line of tests/cases/*.cases on every tactic of every backend that supports it, with every config it offers,
// against the op's reference.
#include "bench/cases.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "../paths.h"
#include "backends/cpu/cpu.h"
#include "backends/cpu/isa.h"
#include "base/file.h"
#include "case_files.h"
#include "graph/product.h"
#include "levels.h"
#include "run_tactic.h"

namespace temper {
namespace {

using testing::case_files;
using testing::Tolerance;
using testing::tolerance_of;

double largest(const Tensor& tensor) {
  double out = 0;
  for (double value : tensor.to_doubles()) out = std::max(out, value < 0 ? -value : value);
  return out;
}

// Sorted: oneDNN may list an implementation earlier that is in its cache.
std::vector<std::string> text_of(const std::vector<Config>& configs) {
  std::vector<std::string> out;
  for (const Config& config : configs) {
    std::string text = config.text;
    for (Layout layout : config.inputs) text += concat(' ', layout);
    for (Layout layout : config.outputs) text += concat(" -> ", layout);
    out.push_back(std::move(text));
  }
  std::sort(out.begin(), out.end());
  return out;
}

class Cases : public ::testing::TestWithParam<std::string> {};

TEST_P(Cases, AgreeWithTheReferenceOnEveryTactic) {
  const std::string path = concat(paths::source_folder(), "/tests/cases/", GetParam(), ".cases");
  // One thread with all this CPU has, and with what lies between; two threads as on the oldest CPU that Temper runs on.
  const Isa best = best_isa();
  const std::vector<testing::CpuOfLevel> cpus = testing::cpus_of_levels();
  for (const KernelCase& kernel_case : parse_cases(read_file(path))) {
    SCOPED_TRACE(concat(GetParam(), ".cases:", kernel_case.line, ": ", kernel_case.text));
    const std::vector<Tensor> inputs = make_case_inputs(kernel_case, uint64_t(kernel_case.line));
    std::vector<Tensor> want;
    bool own = false;
    for (const auto& [level, isa, device] : cpus) {
      const int threads = level == cpus.front().level && cpus.size() > 1 ? 2 : 1;
      const Problem problem = make_case_problem(kernel_case, inputs, threads);
      if (want.empty()) {
        std::vector<TensorType> types;
        for (const Port& port : problem.outputs) types.push_back(port.type);
        want = reference(kernel_case.op, inputs, types);
      }
      set_isa(isa);
      for (const Tactic* tactic : find_backend("cpu").tactics()) {
        if (!tactic->supports(problem, device).yes()) continue;
        const bool is_reference = tactic->name == "reference";
        own |= !is_reference;
        if (is_reference && want[0].count() > 1000) continue;  // the judge itself, and slow
        // oneDNN goes by the processor alone: it runs as on this CPU.
        const bool is_onednn = tactic->name.find("onednn") != std::string_view::npos;
        const bool is_between = level != cpus.front().level && level != cpus.back().level;
        if (is_between && (is_reference || is_onednn)) continue;
        const auto configs = tactic->configs(problem, device);
        EXPECT_FALSE(configs.empty()) << tactic->name << " supports it but offers nothing";
        for (const Config& config : configs) {
          SCOPED_TRACE(concat(tactic->name, " '", config.text, "' ",
                              config.outputs.empty() ? "" : name_of(config.outputs[0]), " threads=", threads,
                              " isa=", enum_names(IsaLevel{})[size_t(level)]));
          const std::vector<Tensor> got = testing::run_tactic(*tactic, problem, config, inputs, device);
          ASSERT_EQ(got.size(), want.size());
          for (size_t i = 0; i < got.size(); ++i) {
            Tolerance t = tolerance_of(want[i].dtype());
            // Winograd's transforms are not exact; their errors are of the size of the largest terms.
            if (config.text.starts_with("winograd")) t.absolute = 1e-4 + 2e-6 * largest(want[i]);
            EXPECT_EQ(testing::difference(got[i], want[i], t.relative, t.absolute), "") << "output " << i;
          }
        }
        EXPECT_EQ(text_of(tactic->configs(problem, device)), text_of(configs))
            << tactic->name << " offers something else once kernels have been made";
      }
    }
    set_isa(best);
    // CPUs without AVX512-VNNI or AVX512-BF16 leave products of bytes or of bf16 to the reference.
    const Device device = cpu_device();
    const DType w = is_product(kernel_case.op) ? inputs[1].dtype() : DType::f32;
    if (!own && ((size_of(w) == 1 && !device.avx512_vnni) || (w == DType::bf16 && !device.avx512_bf16))) continue;
    EXPECT_NE(own, kernel_case.reference_only)
        << (own ? "no longer needs the reference: remove the mark" : "runs on the reference only");
  }
}

INSTANTIATE_TEST_SUITE_P(Files, Cases, ::testing::ValuesIn(case_files()), [](const auto& each) { return each.param; });

TEST(CaseText, SaysWhatIsWrongWithALine) {
  for (const char* line : {"conv", "nothing(f32[1])", "pool(f32[1,2]", "softmax(f32[2]) axis=x",
                           "softmax(f32[2]{3..3})", "reshape(f32[6], i64[2]*=[3])"}) {
    try {
      parse_cases(concat("# comment\n", line, "\n"));
      ADD_FAILURE() << line << " was accepted";
    } catch (const Error& error) { EXPECT_EQ(std::string(error.what()).find("line 2"), 0u) << error.what(); }
  }
}

TEST(CaseText, ReadsConstantsRangesAndAbsentInputs) {
  const auto cases = parse_cases("reshape(f32[2,6], i64[2]*=[3,4])\nreference softmax(f16[4]{1..3}) axis=0 # why\n");
  ASSERT_EQ(cases.size(), 2u);
  const auto inputs = make_case_inputs(cases[0], 1);
  const Problem problem = make_case_problem(cases[0], inputs, 1);
  EXPECT_EQ(problem.outputs.at(0).type.text(), "f32[3,4]");
  EXPECT_TRUE(problem.inputs[1].is_constant);
  EXPECT_TRUE(cases[1].reference_only);
  const auto ranged = make_case_inputs(cases[1], 1);
  for (double value : ranged[0].to_doubles()) EXPECT_TRUE(value == 1 || value == 2);
}

}  // namespace
}  // namespace temper
