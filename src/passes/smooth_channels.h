// SPDX-License-Identifier: Apache-2.0
// Products whose input has a few channels that are far larger than the others, on the way to 8 bits.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/build_time.h"
#include "graph/graph.h"

namespace temper {

// The statistics that calibration took of a value that products read.
struct SeenChannels {
  std::vector<float> maxima;  // the largest |x| of each entry of the last axis
  double mean_square = 0;     // of all its elements
  double scale = 0;           // of 8 bits for the value as it is
};

struct SmoothedValue {
  std::string value;     // as it was called, and seen
  std::string smoothed;  // divided by the factors
  float largest = 0;     // |x| of that
  double strength = 0;   // the exponent
};

// smooth_channels: x W = (x / s) (s W), with a factor s for each channel of x. One scale for a whole tensor gives a
// channel that is a hundred times smaller than the largest one no more than one or two of 127 levels; weights have more
// room, as each of their columns has its own scale. After G. Xiao et al., "SmoothQuant" (2023): s = max|x|^a /
// max|w|^(1-a), from the maxima over all products that read x. Powers of two alone: then x / s and s W are exact, and
// the product is bit for bit what it was. The exponent a is the one of a few, or none of them, with the least noise
// that rounding adds to the products by the usual model (a twelfth of the square of a step, or all of a value that is
// below), where that is less than half.
//
// x / s is a node of its own, which the fusing passes take into what computes x: the scale and shift of a
// normalisation, the epilogue of a product; behind an attention it is done where the value is rounded. What nothing of
// these computes stays as it is: pools and their like keep their 8 bits. Programs and epilogues that read x otherwise,
// as residual sums do, read (x / s) * s. Any other reader, or x being an output, forbids it. Products named in `kept`
// do not count. `seen` is by the names of values. Returns what was changed.
std::vector<SmoothedValue> smooth_channels(Graph& graph, const std::map<std::string, SeenChannels>& seen,
                                           const std::set<std::string>& kept, const BuildTime& time = {});

}  // namespace temper
