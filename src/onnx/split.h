// SPDX-License-Identifier: Apache-2.0
// Splits an ONNX model in two: what depends on some of its inputs alone, and the rest. What the first part gives is
// computed once while these inputs stay as they are, as the keys and values of a prompt in all steps of a diffusion
// model.
#pragma once
#include <string>
#include <vector>

#include "base/file.h"
#include "onnx/read.h"

namespace temper {

struct SplitModel {
  std::string first, rest;                             // serialized; weights in external data stay where they are
  std::vector<std::string> between;                    // values that `first` gives and `rest` takes
  std::vector<std::string> inputs_of_rest;             // of the named ones those that the rest reads, too
  int64_t nodes = 0, first_nodes = 0, rest_nodes = 0;  // nodes may be in both, and those that nothing needs in none
};

// `inputs`: names of inputs of the model. The first part has them as inputs, and gives every output of the model that
// follows from them alone; the rest takes the other inputs and the values between, and gives the other outputs. Nodes
// keep their names, and are copied as they are.
//
// The cut is behind the last node that computes: what only moves elements, or multiplies by one number, is done again
// in the rest, where a kernel takes it as strides and factors. Integers are not cut, either: shapes stay known.
// Throws Error{usage} for names that are no inputs, where nothing is left to compute beforehand, and where nothing else
// is left; Error{unsupported} for a value between that is no tensor of a known type.
SplitModel split_onnx(const OnnxModel& model, const std::vector<std::string>& inputs);

// The same of a file, written as two. Throws as read_onnx and check_outputs, too, and Error{usage} where weights lie in
// files beside the model and a part would not.
SplitModel split_onnx_file(const std::string& path, const std::vector<std::string>& inputs, const Output& first,
                           const Output& rest, const ModelLimits& limits = {});

}  // namespace temper
