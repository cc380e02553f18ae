// SPDX-License-Identifier: Apache-2.0
// THE pass list, in the order in which the passes run. A pass may stand here twice; disabling its name skips both.
#include "passes/pass.h"

namespace temper {

namespace {
constexpr Pass pipeline[] = {
    // Shapes that import could not fold, weights behind casts and transposes: everything below looks for constants.
    {"fold_constants", fold_constants},
    {"remove_no_ops", remove_no_ops},
    // Before fusing: a transpose between two pointwise nodes keeps them apart. What it turns into a reshape may be
    // nothing.
    {"cancel_transposes", cancel_transposes},
    {"remove_no_ops", remove_no_ops},
    // Before fusing: two equal branches are one value with two users, which forbids fusing either of them alone.
    {"merge_equal_nodes", merge_equal_nodes},
    // Leaves alone what the next pass takes into an epilogue.
    {"fuse_pointwise", fuse_pointwise},
    // Reads programs as fuse_pointwise leaves them, and takes values out of them that an epilogue would otherwise hold.
    {"recognise_normalize", recognise_normalize},
    {"fuse_epilogues", fuse_epilogues},
    // After fuse_epilogues: a batch norm is the beginning of its convolution's epilogue by now.
    {"fold_scales_into_weights", fold_scales_into_weights},
    // After fuse_epilogues: what stands between a product and its quantize node is one program by now. The calibrated
    // model
    // comes here once more.
    {"fold_quantization", fold_quantization},
    // Constants that the passes made more than once.
    {"merge_equal_nodes", merge_equal_nodes},
    // Last: the others see all that a concat joins.
    {"nest_concats", nest_concats},
};
}  // namespace

std::span<const Pass> pass_pipeline() { return pipeline; }

}  // namespace temper
