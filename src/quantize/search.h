// SPDX-License-Identifier: Apache-2.0
// Mixed precision under a budget: which layers of an int8 model go back to a float so that its answers stay good
// enough; of a bf16 or fp16 model likewise, where "int8" below means that.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "quantize/placement.h"

namespace temper {

// The loss of a candidate against FP32 on the samples that it is tried on.
struct Loss {
  double drop = 0;   // by the metric of the budget, as a share
  double noise = 0;  // noise / signal of the worst output: tells layers apart where the metric of few samples does not
  bool holds = false;  // its answers are good enough, as whoever tries it judges (data/judge.h)
  int trial = 0;       // what whoever tries it numbers it by
};

struct LayerLoss {
  std::string layer;
  Loss alone;                  // of the model with this one layer in int8, the others in FP32
  DType decision = DType::i8;  // or f32, bf16, f16
};

struct LayerSearch {
  std::vector<LayerLoss> layers;  // the worst first
  KeptNodes keep;                 // those that are raised
  Loss loss;                      // of the result
  Loss all;                       // of the model with every layer in int8
  bool holds = false;             // so does the result
  int trials = 0;                 // candidates tried
};

// Partial quantization after H. Wu et al., "Integer quantization for deep learning inference" (2020), section 6.1: the
// layers are tried one at a time in int8 with all others in FP32, sorted by what that loses (noise first, then drop,
// then their order), and the worst are raised. How many is found by bisection, which takes it that raising more layers
// does not lose more; the number that is returned was itself tried and holds. With `half` (bf16 or f16), a second
// bisection finds how many of them, the worst again, need FP32: the others are raised to that. Where every layer in
// int8 holds, none is tried alone. Where the budget does not hold even with all of them in FP32, `holds` is false and
// all are.
// `try_keeping` measures the model with these layers raised, and judges it; the same must give the same loss.
LayerSearch search_layers(const std::vector<std::string>& layers, std::optional<DType> half,
                          const std::function<Loss(const KeptNodes& keep)>& try_keeping);

// How many candidates that tries at most.
int64_t most_trials(size_t layers, bool half);

}  // namespace temper
