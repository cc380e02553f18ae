// SPDX-License-Identifier: Apache-2.0
// Mixed precision under a budget: which layers of an int8 model go back to FP32 so that its answers stay within a drop.
#pragma once
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace temper {

// What a candidate loses against FP32 on the samples it is tried on.
struct Loss {
  double drop = 0;   // by the metric of the budget, as a share
  double noise = 0;  // noise / signal of the worst output: tells layers apart where the metric of few samples does not
};

struct LayerLoss {
  std::string layer;
  Loss alone;           // of the model with this one layer in int8
  bool raised = false;  // stays in FP32
};

struct LayerSearch {
  std::vector<LayerLoss> layers;  // the worst first
  std::set<std::string> keep;     // PlacementOptions::keep_nodes: those that are raised
  Loss loss;                      // of the result
  Loss all;                       // of the model with every layer in int8
  bool holds = false;             // the drop is within the budget
  int trials = 0;                 // candidates tried
};

// Partial quantization after H. Wu et al., "Integer quantization for deep learning inference" (2020), section 6.1: the
// layers are tried one at a time in int8 with all others in FP32, sorted by what that loses (noise first, then drop, then
// their order), and the worst are raised. How many is found by bisection, which takes it that raising more layers does not
// lose more; the number that is returned was itself tried and holds. Where every layer in int8 holds, none is tried alone.
// Where the budget does not hold even with all of them raised, `holds` is false and all are.
// `try_keeping` measures the model with these layers in FP32; the same set must give the same loss.
LayerSearch search_layers(const std::vector<std::string>& layers, double max_drop, const std::function<Loss(const std::set<std::string>& keep)>& try_keeping);

}  // namespace temper
