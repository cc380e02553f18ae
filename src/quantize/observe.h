// SPDX-License-Identifier: Apache-2.0
// Chooses the values that calibration observes, and adds up what a run shows of them.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "quantize/method.h"

namespace temper {

// The values of an optimised graph that calibration observes: f32, and no constants. In the graph's order.
std::vector<ValueId> observed_values(const Graph& graph);

// How many channels of the value are observed one by one: the last axis of what a product with constant weights reads
// as its rows (passes/smooth_channels.h asks for them). 0 for any other value.
int64_t observed_channels(const Graph& graph, ValueId id);

// Adds a tensor of f32 to what is known of the value `name`; `observed.channels` has as many entries as the last axis,
// or none. Throws Error{check_failed} where it holds a NaN or an infinity, naming the value and the sample: one of
// `samples`, which lie along the first axis where that is as long as they are many.
void observe(Observed& observed, const Tensor& tensor, const std::string& name, std::span<const std::string> samples);

}  // namespace temper
