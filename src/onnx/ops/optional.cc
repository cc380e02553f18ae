// SPDX-License-Identifier: Apache-2.0
// Imports Optional, OptionalHasElement and OptionalGetElement. An optional is what is in it, or absent; which of the
// two must follow from the model.
#include "onnx/node.h"

namespace temper {

void import_Optional(OnnxNode& node) {
  node.ignore_attribute("type");
  node.set_output(0, node.value(0));
}

void import_OptionalHasElement(OnnxNode& node) { node.set_output(0, node.scalar(DType::boolean, node.has(0))); }

void import_OptionalGetElement(OnnxNode& node) {
  if (!node.has(0)) node.bad("the optional has no value");
  node.set_output(0, node.value(0));
}

}  // namespace temper
