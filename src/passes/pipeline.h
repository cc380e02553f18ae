// SPDX-License-Identifier: Apache-2.0
// The pipelines whose passes need more than the graph. A build runs portable_pipeline (pass.h), then what its precision
// and its device ask for of these. None of them measures: what is faster, and what fp16 does not hold, is said to them.
#pragma once
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "passes/attention.h"
#include "passes/chain_convs.h"
#include "passes/fuse_neighbours.h"
#include "passes/join_shortcuts.h"
#include "passes/lower_precision.h"
#include "passes/pass.h"
#include "passes/patches_as_products.h"

namespace temper {

// int8. `place` puts quantize and dequantize nodes into an optimised f32 graph (quantize/placement.h), which the
// portable passes fold; then the f32 products that `bf16` names are lowered to bf16.
// `smooth` does the same of the inputs of products before (passes/smooth_channels.h).
Pipeline quantize_pipeline(PassFunction smooth, PassFunction place, std::set<std::string> bf16);

// `narrow`: floats that the device does not multiply. Products of them that a model has become those of f32.
Pipeline widen_pipeline(std::set<DType> narrow);

// An optimised f32 graph to `dtype` (bf16, f16), or to products in TF32.
struct PrecisionTarget {
  std::optional<DType> dtype;
  LoweringOptions options;  // of dtype; of TF32 `kept` alone
  bool tf32 = false;
  bool blocks = false;  // the device may have kernels for weights in blocks: those that products read stay so
};
// If `report` is not null, it gets what the pass that ran says of each node. It must outlive the pipeline.
Pipeline precision_pipeline(PrecisionTarget target, LoweringReport* report);

// For a backend, of which `taken` says what its tactics take; of weights in blocks, at any shapes. Behind all
// precisions. `by_rows`: Backend::by_rows. blocks_pipeline has to follow.
Pipeline device_pipeline(const FusionTaken& taken, bool by_rows = false);

// Of weights in blocks, which products read them so: what is `taken` at one set of concrete shapes or, in a graph from
// which plans for other shapes are made, at all of them. None are left behind it.
Pipeline blocks_pipeline(FusionTaken taken);

// For one set of concrete shapes: what few rows are computed together with, and norms of rows that gathers pick.
Pipeline rows_pipeline(FusionTaken taken);

// Behind it, of shortcuts and of the pairs of convolutions that are `wanted`. `made`, where it is not null, gets the
// pairs; it must outlive the pipeline.
Pipeline shapes_pipeline(FusionTaken taken, PairWanted wanted, std::vector<ConvPair>* made);

// The names of all passes of all pipelines, each once.
std::vector<std::string_view> pass_names();

}  // namespace temper
