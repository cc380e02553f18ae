// SPDX-License-Identifier: Apache-2.0
// Lines of tests/cases on every recipe that supports them, with every configuration, against the reference.
#pragma once
#include "../../paths.h"
#include "../case_files.h"
#include "../put_values.h"
#include "all_configs.h"
#include "base/file.h"
#include "base/hash.h"
#include "bench/cases.h"
#include "gpu_properties.h"
#include "graph/ops/attention.h"
#include "larger_tensors.h"
#include "largest_outputs.h"
#include "lowered_cases.h"
#include "run_recipe.h"

namespace temper::testing {

struct CaseChoice {
  size_t most = SIZE_MAX;        // of the kernels that would have to be compiled, take as many, drawn by their texts
  std::string_view recipes;      // a part of the names of those to take
  uint32_t blocks = UINT32_MAX;  // of a launch at most; for kernels that walk over their tiles (clusters do not)
  bool one_config = false;       // of each recipe for each line, in turns; else all
  size_t alike = 1;              // lines that take the same turn
  std::string_view config;       // instead of those that recipes offer
  std::string_view with;         // a part of the texts of configurations to take; lines without any are left out
  std::vector<double> put;       // into inputs that are no constants, see put_values
  std::optional<cuda::GpuProperties> properties = {};  // that recipes choose by, instead of the GPU's own
  bool tf32 = false;  // operands have more digits than TF32, and recipes that round them are taken
};

// More digits than TF32 has; none of the numbers is halfway between two that it has.
inline void add_digits(Tensor& tensor) {
  for (int64_t i = 0; i < tensor.count(); ++i)
    tensor.data<float>()[i] += float(i * 7919 % 65521 * 2 + 1) / float(1 << 17);
}
// To the nearest with 10 bits behind the first.
inline Tensor rounded_to_tf32(const Tensor& tensor) {
  Tensor out(DType::f32, tensor.dims());  // copies of a tensor share its elements
  for (int64_t i = 0; i < out.count(); ++i)
    out.data<float>()[i] =
        std::bit_cast<float>((std::bit_cast<uint32_t>(tensor.data<float>()[i]) + 0x1000) & 0xffffe000);
  return out;
}

inline void check_lines(const std::string& name, const std::string& text, const cuda::Compiler& compiler,
                        const cuda::GpuRef& gpu, const CaseChoice& choice = {}) {
  struct Run {
    const KernelCase* line;
    const std::vector<Tensor>* inputs;
    Problem problem;
    const cuda::Recipe* recipe;
    Config config;
    cuda::Recipe::Work work;
  };
  const auto lines = parse_cases(text);
  std::vector<std::vector<Tensor>> inputs;
  for (const KernelCase& line : lines) {
    inputs.push_back(put_values(make_case_inputs(line, uint64_t(line.line)), line, choice.put));
    if (choice.tf32)
      for (size_t i : {0, 1}) add_digits(inputs.back()[i]);
  }
  const cuda::GpuProperties properties = choice.properties.value_or(cuda::GpuProperties(gpu->info()));
  std::vector<Run> runs;
  std::vector<cuda::KernelSource> sources;
  for (size_t l = 0; l < lines.size(); ++l) {
    const Problem problem = with_largest_outputs(make_case_problem(lines[l], inputs[l], 1));
    for (const cuda::Recipe* recipe : cuda::recipes()) {
      if (recipe->name.find(choice.recipes) == std::string_view::npos) continue;
      if (!recipe_supports(*recipe, problem, gpu->info().architecture()).yes()) continue;
      auto configs = all_configs(*recipe, problem, properties);
      EXPECT_FALSE(configs.empty()) << recipe->name << " supports it but offers nothing: " << lines[l].text;
      std::erase_if(configs, [&](const Config& c) { return c.text.find(choice.with) == std::string::npos; });
      if (!choice.config.empty()) configs.resize(1), configs[0].text = choice.config;
      for (size_t c = 0; c < configs.size(); ++c) {
        const Config& config = configs[c];
        if (choice.one_config && c != l / choice.alike % configs.size()) continue;
        std::vector<Problem> problems{problem};
        if (const auto parts = in_larger_tensors(*recipe, problem, config)) problems.push_back(*parts);
        for (const Problem& p : problems) {
          runs.push_back({&lines[l], &inputs[l], p, recipe, config, recipe->work(p, config, properties)});
          if (runs.size() % 2 == 0) cuda::go_backwards(runs.back().work);  // results do not depend on it
          for (cuda::Job& job : runs.back().work.jobs) {
            sources.push_back(job.source);
            if (job.shape.grid[1] == 1) job.shape.grid[0] = std::min(job.shape.grid[0], choice.blocks);
          }
        }
      }
    }
  }
  std::map<uint64_t, std::string> texts;  // by their hashes
  for (const cuda::KernelSource& source : sources) texts.emplace(xxh3(source.text), source.text);
  if (texts.size() > choice.most) {
    const uint64_t last = std::next(texts.begin(), ptrdiff_t(choice.most))->first;
    auto taken = [&](const cuda::KernelSource& source) { return xxh3(source.text) < last; };
    std::erase_if(sources, [&](const cuda::KernelSource& source) { return !taken(source); });
    std::erase_if(runs, [&](const Run& run) {
      return !std::all_of(run.work.jobs.begin(), run.work.jobs.end(),
                          [&](const cuda::Job& job) { return taken(job.source); });
    });
  }
  Cubins cubins(compiler, gpu->info().architecture());
  cubins.prepare(sources);
  if (::testing::Test::HasFailure()) return;
  const cuda::Stream stream(gpu);
  const KernelCase* last = nullptr;
  std::vector<Tensor> want;
  for (const Run& run : runs) {
    SCOPED_TRACE(concat(name, ".cases:", run.line->line, ": ", run.line->text, "\n", run.recipe->name, " '",
                        run.config.text, "' ", name_of(run.config.outputs[0]),
                        run.problem.has_parts() ? ", in larger tensors" : ""));
    if (run.line != last) {
      std::vector<TensorType> types;
      for (const Port& port : make_case_problem(*run.line, *run.inputs, 1).outputs) types.push_back(port.type);
      std::vector<Tensor> operands = *run.inputs;
      if (choice.tf32)
        for (size_t i : {0, 1}) operands[i] = rounded_to_tf32(operands[i]);
      want = reference(run.line->op, operands, types);
      last = run.line;
    }
    std::vector<Tensor> got;
    try {
      got = run_recipe(stream, cubins, run.problem, run.config, run.work, *run.inputs);
    } catch (const Error& error) {  // with the line and the configuration; the GPU answers nothing more
      FAIL() << error.what();
    }
    if (got.size() == want.size() + 1) got = without_room(run.problem, got);
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) {
      Tolerance t = tolerance_of(want[i].dtype());
      // Sums of f32 are taken in another order; those of operands that were cut off, not rounded, are further off.
      if (choice.tf32) t = {0, 2e-5 * largest(want[i])};
      // Weights, which sum to 1, are rounded to the type of the values before they are multiplied with them.
      if (run.line->op.is<ops::Attention>() && want[i].dtype() != DType::f32)
        t.absolute += largest((*run.inputs)[2]) * (want[i].dtype() == DType::bf16 ? 0x1p-8 : 0x1p-11);
      EXPECT_EQ(difference(got[i], want[i], t.relative, t.absolute), "") << "output " << i;
    }
  }
  std::printf("%s: %zu lines, %zu runs\n", name.c_str(), lines.size(), runs.size());
}

inline void check_cases(const std::string& name, const cuda::Compiler& compiler, const cuda::GpuRef& gpu,
                        const CaseChoice& choice = {}) {
  check_lines(name, read_file(concat(paths::source_folder(), "/tests/cases/", name, ".cases")), compiler, gpu, choice);
}

}  // namespace temper::testing
