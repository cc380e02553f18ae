// SPDX-License-Identifier: Apache-2.0
// Values that a condition chooses which only a run knows. It is a choose of the graph where both sides have the same
// ranks and structure, else an OnnxEither. A node that reads one is imported for each of its sides, so that what both
// give may be of one rank again: a reshape, a reduction, a concatenation of a sequence.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "onnx/value.h"

namespace temper {

// By result, of as many results of each side. `name` is that of the node. Throws Error{unsupported} where a result has
// more than kMostSides sides.
std::vector<OnnxValue> either_of(Graph& graph, const std::string& name, ValueId condition,
                                 const std::vector<OnnxValue>& then, const std::vector<OnnxValue>& other);
constexpr size_t kMostSides = 32;

// Joins to one what `import` gives of each side of a condition.
struct BothSides {
  std::vector<OnnxValue> results;
  // Where one side cannot be: why, and which one is left. Results are those of `only` then.
  std::optional<Error> left_out;
  bool then = true;
};
// A side whose import ends with an error that is a `misfit` contradicts what is wanted of it, and is left out, as it is
// when a graph is specialised. Where both do, or nothing would notice, the error is thrown.
BothSides on_both_sides(Graph& graph, const std::string& name, ValueId condition,
                        const std::function<std::vector<OnnxValue>(bool then)>& import,
                        const std::function<bool(const Error&)>& misfit);

// One side alone: a run whose condition chooses the other ends with an error that says so. Nothing where the side has
// no tensor, as nothing would notice then.
std::optional<std::vector<OnnxValue>> only(Graph& graph, const std::string& name, ValueId condition,
                                           const std::vector<OnnxValue>& results, bool then);

// The sides of which `fits` is true, as one value where they allow it; nothing where there is none.
std::optional<OnnxValue> fitting(Graph& graph, const std::string& name, const OnnxValue& value,
                                 const std::function<bool(const OnnxValue& side)>& fits);

// A list of sizes or axes whose length only a run knows, as what it is with each length up to kLongestList: what reads
// it has another rank with each. `conditions` are those that name these lengths, made here where there are none yet.
constexpr int64_t kLongestList = 8;
OnnxValue of_each_length(Graph& graph, const std::string& name, ValueId list, std::vector<ValueId>& conditions);

// A sequence, or an optional of one, of which conditions choose the length: what stands for it where all is tensors.
struct OpenSequence {
  std::vector<ValueId> elements;  // of its longest side; one that a side has not has no elements there
  ValueId length;                 // i64 []; -1 where a side is an optional without a value
};
// Nothing where a side is a tensor, where loops made some of the elements, or where elements at one position have
// several ranks or dtypes.
std::optional<OpenSequence> open_sequence(Graph& graph, const std::string& name, const OnnxValue& value);

// For people: "f32[3,4] or a sequence of 2".
std::string text_of(const Graph& graph, const OnnxValue& value);

}  // namespace temper
