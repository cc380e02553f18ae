// SPDX-License-Identifier: Apache-2.0
// The ONNX node that an op is, as data, for ops that are one node of the same inputs and outputs (onnx/write_ops.cc
// writes it). Attributes that an op would leave at ONNX's default may be left out.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/dtype.h"

namespace temper {

struct OnnxAttribute {
  std::string_view name;
  // A truth value is written as 0 or 1, a dtype as ONNX's number of it. A double that 32 bits do not hold is refused.
  std::variant<bool, int64_t, double, DType, std::string_view, std::vector<int64_t>> value;
};

struct OnnxForm {
  std::string_view type;  // "Softmax"
  std::vector<OnnxAttribute> attributes;
  std::string refusal;  // not empty: the op is not written; why, and what to do instead

  // For an op that ONNX does not have.
  static OnnxForm none(std::string why) { return {"", {}, std::move(why)}; }
};

}  // namespace temper
