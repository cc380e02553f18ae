// SPDX-License-Identifier: Apache-2.0
// Trials run kernels: the reference of a transposed convolution took 13 of 16 s in which a U-Net at batch 8 was looked
// at.
#include "optimize/trial.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "graph/ops/conv_transpose.h"

namespace temper {
namespace {

Graph one_transposed_conv() {
  return parse_graph(
      "graph \"up\"\ninput %x: f32[1,1,4,4]\nconst %w: f32[1,1,3,3] = [1,2,3,4,5,6,7,8,9]\n"
      "%y: f32[1,1,7,7] = conv_transpose(%x, %w) strides=[2,2] dilations=[1,1] pads=[1,1,1,1] output_padding=[0,0] "
      "@\"up\"\noutput \"y\" = %y\n");
}

BuildOptions at_its_shape() {
  BuildOptions options;
  options.threads = 1;
  options.shapes["x"] = {{1, 1, 4, 4}, {1, 1, 4, 4}, {1, 1, 4, 4}};
  return options;
}

bool runs_transposed(const BuildOptions& options) {
  const auto engine = trial_engine(one_transposed_conv(), options);
  return std::ranges::any_of(engine->plans().at(0)->segments.at(0).steps, [](const PlanStep& step) {
    return !step.is_reorder() && step.problem.op.is<ops::ConvTranspose>();
  });
}

TEST(Trial, ATransposedConvolutionRunsAsConvolutions) { EXPECT_FALSE(runs_transposed(at_its_shape())); }

TEST(Trial, APassThatTheBuildDisablesStaysDisabled) {
  BuildOptions options = at_its_shape();
  options.passes.disabled.insert("expand_conv_transpose");
  EXPECT_TRUE(runs_transposed(options));
}

}  // namespace
}  // namespace temper
