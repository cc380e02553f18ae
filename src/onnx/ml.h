// SPDX-License-Identifier: Apache-2.0
// Functions that the imports of ai.onnx.ml share: for attributes in two forms, scores and class labels.
#pragma once
#include "onnx/node.h"

namespace temper::ml {

// The attribute NAME, a list of floats, or NAME_as_tensor; empty where there is neither.
std::vector<double> floats_or_tensor(OnnxNode& node, const std::string& name);

// The labels of a classifier, i64 or strings of [classes].
Tensor class_labels(OnnxNode& node, const char* ints);

// Scores [samples, classes] after the post_transform of that name. Throws Error{unsupported} for SOFTMAX_ZERO and
// PROBIT.
ValueId transformed(OnnxNode& node, ValueId scores, const std::string& post_transform);

// Output 0: the label of the first of the largest scores. Output 1: `shown` as f32.
void set_classes(OnnxNode& node, ValueId scores, ValueId shown, const Tensor& labels);

}  // namespace temper::ml
