// SPDX-License-Identifier: Apache-2.0
// Makes convolutions of patches products of rows, for backends where those are fastest (Backend::by_rows).
#pragma once
#include "passes/fuse_neighbours.h"

namespace temper {

// Convolutions that cut an image into patches, as vision transformers begin, become products of the patches with the
// weights. `taken` says whether a kernel for first convolutions takes one as it is (as an ops::FusedConv): it stays.
bool patches_as_products(Graph& graph, const FusionTaken& taken, const BuildTime& time = {});

}  // namespace temper
