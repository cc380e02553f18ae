// SPDX-License-Identifier: Apache-2.0
// Gives inputs of a model other dimensions before it is imported: a program may make a static model dynamic, and back.
#pragma once
#include <map>
#include <string>

#include "base/dim.h"
#include "onnx/read.h"

namespace temper {

// By the names of inputs; -1: open, by the name that the model has for it if it has one. What the file states of values
// behind the inputs is not read by an import. Throws Error{unsupported} for what is no input of one tensor.
void set_input_dims(OnnxModel& model, const std::map<std::string, Dims>& inputs);

}  // namespace temper
