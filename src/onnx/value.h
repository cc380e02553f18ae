// SPDX-License-Identifier: Apache-2.0
// What a name of an ONNX model stands for while it is imported: a tensor, or a sequence of tensors. A graph has tensors
// alone: a sequence is a list of them, and what is done to it is done to the list. An optional is what is in it.
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

// Neither a tensor nor a sequence: an input that is absent, an optional without a value.
struct OnnxValue {
  ValueId tensor;
  std::shared_ptr<const OnnxSequence> sequence;

  OnnxValue() = default;
  OnnxValue(ValueId value) : tensor(value) {}  // NOLINT: implicit on purpose, most values are tensors
  OnnxValue(OnnxSequence list) : sequence(std::make_shared<const OnnxSequence>(std::move(list))) {}  // NOLINT: the same
  bool valid() const { return tensor.valid() || sequence; }
};

}  // namespace temper
