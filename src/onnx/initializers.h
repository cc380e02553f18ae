// SPDX-License-Identifier: Apache-2.0
// The weights of a model as its file holds them, before anything is made of them.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "graph/tensor.h"

namespace temper {

struct Initializer {
  std::string name;
  DType dtype = DType::f32;
  int64_t count = 0;
  // The first node that reads it, and as which input; "" and -1 where none of the main graph does.
  std::string node, op;
  int input = -1;
};

// Those of the main graph that are floats. Throws Error{bad_file} for bytes that are no model, and Error{unsupported}
// where weights lie outside of it.
std::vector<Initializer> float_initializers(std::string_view model);
// The model with these in the place of those of their names; of their types and numbers of elements.
std::string with_initializers(std::string_view model, const std::map<std::string, Tensor>& replaced);

}  // namespace temper
