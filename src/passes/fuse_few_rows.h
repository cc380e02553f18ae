// SPDX-License-Identifier: Apache-2.0
// Fuses products of few rows with what stands before them, for backends with such kernels (graph/ops/fused_decode.h): a
// token of a model that generates takes as long as its launches.
#pragma once
#include "passes/fuse_neighbours.h"

namespace temper {

// A normalisation of rows of which a gather picks some is of those alone. One that begins with rows that gathers pick
// of tables, as of words and their places, picks them itself, be they few or many. One that only products read goes
// into each of them; two appends of which one attention reads the results go into it. Where `taken` says so: it depends
// on the number of rows, so shapes are concrete.
bool fuse_few_rows(Graph& graph, const FusionTaken& taken, const BuildTime& time = {});

}  // namespace temper
