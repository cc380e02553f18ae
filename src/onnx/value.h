// SPDX-License-Identifier: Apache-2.0
// The value that a name of an ONNX model stands for while it is imported. It is a tensor, a sequence of tensors, or
// what a condition chooses of two such. A graph has tensors alone: a sequence is a list of them, and what is done to it
// is done to the list. An optional is what is in it.
#pragma once
#include <memory>

#include "graph/graph.h"

namespace temper {

struct OnnxSequence {
  std::vector<ValueId> elements;
  // Where valid: the sequence goes on with the slices of this value along its first axis, whose number data may decide.
  ValueId stacked;
  // Where valid: what a loop carries, inside of its body, and this is the loop's iteration. What is in the sequence
  // before the elements is not known there; they are what the body has appended.
  ValueId grows_in;
};

struct OnnxEither;

// None of the three: an input that is absent, an optional without a value.
struct OnnxValue {
  ValueId tensor;
  std::shared_ptr<const OnnxSequence> sequence;
  std::shared_ptr<const OnnxEither> either;

  OnnxValue() = default;
  OnnxValue(ValueId value) : tensor(value) {}  // NOLINT: implicit on purpose, most values are tensors
  OnnxValue(OnnxSequence list) : sequence(std::make_shared<const OnnxSequence>(std::move(list))) {}  // NOLINT: the same
  OnnxValue(OnnxEither two);                                                                         // NOLINT: the same
  bool valid() const { return tensor.valid() || sequence || either; }
};

// For two values that one tensor or sequence cannot stand for, the one that the condition names in a run. Import
// functions see none: a node is imported for each of the two.
struct OnnxEither {
  ValueId condition;
  OnnxValue then, other;
};
inline OnnxValue::OnnxValue(OnnxEither two) : either(std::make_shared<const OnnxEither>(std::move(two))) {}

}  // namespace temper
