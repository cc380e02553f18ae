// SPDX-License-Identifier: Apache-2.0
// Launches of kernels in which a thread computes a few channels at one point of one image (support/channel_groups.cuh).
#pragma once
#include "backends/cuda/recipe.h"
#include "base/checked.h"

namespace temper::cuda {

struct ChannelGroups {
  int64_t each, groups, threads;
};
// In channels_last what 16 bytes hold, and what the channels are a multiple of; otherwise some planes.
inline ChannelGroups channel_groups(DType dtype, Layout layout, int64_t images, int64_t channels, int64_t points) {
  const bool last = layout == Layout::channels_last;
  int64_t each = last ? 16 / size_of(dtype) : 4;
  while (last && channels % each) each /= 2;
  const int64_t groups = ceil_div(channels, each);
  return {each, groups, images * groups * points};
}
// The images in either layout, all other inputs plain.
inline std::vector<Config> image_configs(const Problem& problem) {
  std::vector<Config> out;
  for (Layout layout : {Layout::channels_last, Layout::plain})
    if (layout_fits(problem.outputs[0].dims(), layout)) {
      Config config = plain_config(problem, "");
      config.inputs[0] = config.outputs[0] = layout;
      out.push_back(std::move(config));
    }
  return out;
}

}  // namespace temper::cuda
