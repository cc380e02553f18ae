// SPDX-License-Identifier: Apache-2.0
#include "onnx/scales.h"

#include <cmath>

#include "base/log.h"

namespace temper {

void check_scales(OnnxNode& node, size_t i, bool divides) {
  const Tensor* scales = node.constant(i);
  if (!scales || !is_float(scales->dtype())) return;
  const std::string& name = node.graph().value(node.input(i)).name;
  const std::vector<double> values = scales->to_doubles();
  int64_t zeros = 0;
  for (size_t k = 0; k < values.size(); ++k) {
    zeros += values[k] == 0;
    if (std::isfinite(values[k]) && (values[k] > 0 || (values[k] == 0 && !divides))) continue;
    node.bad("the scale '", name, "' is ", values[k], values.size() > 1 ? concat(" for entry ", k) : "",
             "; a scale must be finite and above zero. Whatever quantized this model wrote a broken file: quantize it "
             "again");
  }
  if (zeros)
    log(LogLevel::warning, "node '", node.name(), "' (", node.op_type(), "): the scale '", name, "' is 0 for ", zeros,
        " of ", values.size(), values.size() == 1 ? " tensor" : " channels", ", which become zeros whatever they hold");
}

}  // namespace temper
