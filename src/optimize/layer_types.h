// SPDX-License-Identifier: Apache-2.0
// Types that single layers of a model are asked to compute in: what TensorRT calls precision constraints.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "quantize/placement.h"

namespace temper {

class Graph;
struct EngineInfo;
struct PrecisionParts;

// A convolution or matrix product computes in the type. Any other node computes in f32 whatever the precision is: f32
// keeps what it gives from being stored in 16 bits, and f32, f16 and bf16 keep it from moving 8-bit integers.
struct LayerTypes {
  std::map<std::string, DType> of;  // f32, f16, bf16 or i8, by the model's names of nodes; "*": of all others
  bool obeyed = false;              // where one can have no effect the build ends; otherwise the plan has a note

  // Of the model as it was read, before passes (look_up):
  std::set<std::string> unknown, products;  // those of `of` that it has not; that are convolutions or products
  std::map<std::string, std::set<std::string>> values;  // what the others give

  bool empty() const { return of.empty(); }
};

// Finds the layers in the model: nodes of a name, or those that a layer of it was written as, NAME/...; the product of
// a recurrent net has a name of its own.
void look_up(LayerTypes& types, const Graph& model);

// What of the optimised graph stays above the precision, with what the types add; types win over what is given.
// `without_effect` gets a phrase for each type that the precision or the graph does not allow.
PlacementOptions placement_with(const LayerTypes& types, const Graph& optimised, const PrecisionParts& parts,
                                PlacementOptions given, std::vector<std::string>& without_effect);

// The same for i8, which is known when nodes are placed.
void check_in_bytes(const LayerTypes& types, const std::vector<PlacedNode>& placed,
                    std::vector<std::string>& without_effect);

// A note in `info`; Error{unsupported} where types are obeyed.
void report(const LayerTypes& types, const std::vector<std::string>& without_effect, EngineInfo& info);

}  // namespace temper
