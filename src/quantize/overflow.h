// SPDX-License-Identifier: Apache-2.0
// Which layers fp16 is too narrow for: its largest number is 65504.
#pragma once
#include <map>
#include <string>

#include "graph/graph.h"
#include "quantize/ranges.h"

namespace temper {

// Convolutions and matrix products of an optimised f32 graph that must not be lowered to fp16, with the reason: a
// constant operand does not stay finite; a value that calibration saw beyond half of 65504 (data that were not seen may
// be larger) is their result, or reaches them through ops that only move elements or work on each.
std::map<std::string, std::string> overflows_of_f16(const Graph& graph, const Ranges& ranges);

}  // namespace temper
