// SPDX-License-Identifier: Apache-2.0
// The cases in tests/passes/*.test. A file belongs to the pass of its name and holds cases separated by lines "====";
// a case is "# the fact it states", a graph, a line "----", and the graph after the pass ("unchanged": the same graph).
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <ostream>

#include "../paths.h"
#include "base/file.h"
#include "graph/ops/attention.h"
#include "graph/ops/fused.h"
#include "passes/pipeline.h"

namespace temper {
namespace {

struct Case {
  std::string pass, fact, before, after;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.pass << ": " << c.fact; }

std::vector<std::string> split(const std::string& text, const std::string& line) {
  std::vector<std::string> parts{""};
  size_t at = 0;
  while (at < text.size()) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string here = text.substr(at, end - at);
    if (here == line) parts.emplace_back();
    else parts.back() += here + '\n';
    at = end + 1;
  }
  return parts;
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(paths::source_folder() + "/tests/passes"))
    if (entry.path().extension() == ".test") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const auto& file : files)
    for (const std::string& text : split(read_file(file.string()), "====")) {
      const auto halves = split(text, "----");
      const auto hash = halves[0].find("# ");
      const auto line_end = halves[0].find('\n', hash);
      if (halves.size() != 2 || hash != 0)
        throw std::runtime_error("a malformed case in " + file.string() + ":\n" + text);
      cases.push_back({file.stem(), halves[0].substr(2, line_end - 2), halves[0].substr(line_end + 1), halves[1]});
    }
  return cases;
}

class PassCase : public ::testing::TestWithParam<Case> {};

// Of the pipelines whose passes need more than the graph.
std::vector<Pipeline> bound_pipelines(bool by_rows) {
  // No backend takes a convolution of more than four channels, an attention of more than four heads, a chain with more
  // than 64 channels between, a shortcut of more than 64 channels read, or more than eight rows at once.
  const FusionTaken few = [](const Graph& g, const Op& op, const std::vector<ValueId>& inputs) {
    if (const auto* attention = op.get_if<ops::Attention>()) return attention->heads <= 4;
    return !conv_of(op) || g.type(inputs[1]).shape[1].value() <= 4;
  };
  const FusionTaken narrow = [](const Graph& g, const Op& op, const std::vector<ValueId>& inputs) {
    const auto* joined = op.get_if<ops::ShortcutConv>();
    if (joined) return g.type(inputs[size_t(joined->conv_inputs)]).shape[1].value() <= 64;
    return g.type(inputs[1]).shape[0].value() <= 64;
  };
  const auto wanted = [](const ConvPair& pair) { return !pair.name.ends_with("unwanted"); };
  const FusionTaken few_rows = [](const Graph& g, const Op&, const std::vector<ValueId>& inputs) {
    return g.type(inputs[0]).shape[0].value() <= 8;
  };
  return {widen_pipeline({DType::f8e4m3fn, DType::f16}),
          precision_pipeline({.dtype = DType::bf16}, nullptr),
          device_pipeline(few, by_rows),
          blocks_pipeline(few),
          rows_pipeline(few_rows),
          shapes_pipeline(narrow, wanted, nullptr)};
}

// The passes that a file is about. Those of quantization were written for all of them together.
Pipeline pipeline_of(const std::string& name) {
  Pipeline pipeline{1, name, {}};
  const auto& portable = portable_pipeline().passes;
  const auto named = [&](std::string_view wanted) {
    return [wanted](const Pass& pass) { return pass.name == wanted; };
  };
  if (name == "fold_quantization") {
    const auto first = std::ranges::find_if(portable, named("commute_quantization"));
    const auto last = std::ranges::find_if(first, portable.end(), named("merge_equal_nodes"));
    pipeline.passes.assign(first, last);
    return pipeline;
  }
  std::vector<Pass> all = portable;
  for (const Pipeline& bound : bound_pipelines(name != "sink_resizes"))
    all.insert(all.end(), bound.passes.begin(), bound.passes.end());
  const auto found = std::ranges::find_if(all, named(name));
  if (found == all.end()) return pipeline;
  pipeline.passes = {*found};
  pipeline.passes[0].after = {};  // alone
  return pipeline;
}

TEST_P(PassCase, GivesTheGraphThatItsCaseStates) {
  const Case& c = GetParam();
  const Pipeline pipeline = pipeline_of(c.pass);
  ASSERT_FALSE(pipeline.passes.empty()) << c.pass;
  Graph graph = parse_graph(c.before);
  const std::string printed = print(graph);
  const std::string wanted = c.after == "unchanged\n" ? printed : print(parse_graph(c.after));
  const auto run = [&] {
    const auto timings = run_passes(graph, {}, pipeline);
    return std::ranges::any_of(timings, [](const PassTiming& timing) { return timing.changed; });
  };
  const bool changed = run();
  graph.compact();
  verify(graph);
  EXPECT_EQ(print(graph), wanted) << c.fact;
  EXPECT_EQ(changed, printed != wanted) << "what the pass says of itself";
  // A pass that has done its work finds nothing more to do.
  EXPECT_FALSE(run()) << c.fact << ", run again:\n" << print(graph);
}

INSTANTIATE_TEST_SUITE_P(Passes, PassCase, ::testing::ValuesIn(all_cases()), [](const auto& each) {
  std::string name = each.param.pass + "__" + each.param.fact;
  for (char& c : name)
    if (!isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
});

}  // namespace
}  // namespace temper
