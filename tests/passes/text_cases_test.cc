// SPDX-License-Identifier: Apache-2.0
// The cases in tests/passes/*.test. A file belongs to the pass of its name and holds cases separated by lines "====";
// a case is "# the fact it states", a graph, a line "----", and the graph after the pass ("unchanged": the same graph).
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <ostream>

#include "../paths.h"
#include "base/file.h"
#include "passes/chain_convs.h"
#include "passes/lower_precision.h"
#include "passes/pass.h"

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

class PassCase : public testing::TestWithParam<Case> {};

// Not in the pipeline: it runs behind it, where a precision is asked for.
constexpr Pass kLowerPrecision{"lower_precision", [](Graph& graph, const PassOptions&) {
                                 Lowering lowering = lower_precision(graph, DType::bf16);
                                 const bool changed = print(lowering.graph) != print(graph);
                                 graph = std::move(lowering.graph);
                                 return changed;
                               }};

constexpr Pass kFuseNeighbours{"fuse_neighbours", [](Graph& graph, const PassOptions&) {
                                 // No backend takes a convolution of more than four channels.
                                 return fuse_neighbours(
                                     graph, [](const Graph& g, const Op& op, const std::vector<ValueId>& inputs) {
                                       return !conv_of(op) || g.type(inputs[1]).shape[1].value() <= 4;
                                     });
                               }};

constexpr Pass kChainConvs{"chain_convs", [](Graph& graph, const PassOptions&) {
                             // No backend takes a chain with more than 64 channels between.
                             return !chain_convs(
                                         graph,
                                         [](const Graph& g, const Op&, const std::vector<ValueId>& inputs) {
                                           return g.type(inputs[1]).shape[0].value() <= 64;
                                         },
                                         [](const std::string& name) { return !name.ends_with("unwanted"); })
                                         .empty();
                           }};

TEST_P(PassCase, GivesTheGraphThatItsCaseStates) {
  const Case& c = GetParam();
  const Pass* pass = nullptr;
  for (const Pass* behind : {&kLowerPrecision, &kFuseNeighbours, &kChainConvs})
    if (behind->name == c.pass) pass = behind;
  for (const Pass& candidate : pass_pipeline())
    if (candidate.name == c.pass) pass = &candidate;
  ASSERT_NE(pass, nullptr) << c.pass;
  Graph graph = parse_graph(c.before);
  const std::string printed = print(graph);
  const std::string wanted = c.after == "unchanged\n" ? printed : print(parse_graph(c.after));
  const bool changed = pass->run(graph, {});
  graph.compact();
  verify(graph);
  EXPECT_EQ(print(graph), wanted) << c.fact;
  EXPECT_EQ(changed, printed != wanted) << "what the pass says of itself";
  // A pass that has done its work finds nothing more to do.
  EXPECT_FALSE(pass->run(graph, {})) << c.fact << ", run again:\n" << print(graph);
}

INSTANTIATE_TEST_SUITE_P(Passes, PassCase, testing::ValuesIn(all_cases()), [](const auto& each) {
  std::string name = each.param.pass + "__" + each.param.fact;
  for (char& c : name)
    if (!isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
});

}  // namespace
}  // namespace temper
