// SPDX-License-Identifier: Apache-2.0
// Checks, before anything is measured, that a model can be run in the memory that it may take.
#pragma once
#include <cstdint>

#include "graph/graph.h"

namespace temper {

// The memory that a model may take for activations unless a limit is given: so many times its constants and inputs, and
// so much beside. Networks need up to some hundred channels of the size of their input; a file of some bytes that asks
// for gigabytes is no network.
constexpr int64_t kActivationsPerByte = 256, kActivationsBeside = int64_t(512) << 20;

// Of all constants: `constants` below are those of the model as imported, as passes make more.
int64_t constant_bytes(const Graph& graph);

// For a graph of concrete shapes: Error{bad_file}, with the node, where what one node reads and writes, or what the
// graph takes and gives, is more than `limit` bytes (-1: as above); Error{machine} where so much memory is not free.
void check_memory(const Graph& graph, int64_t constants, int64_t limit);

}  // namespace temper
