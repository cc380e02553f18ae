// SPDX-License-Identifier: Apache-2.0
// Functions that recipes share.
#include <map>

#include "backends/cuda/recipe.h"
#include "base/checked.h"

namespace temper::cuda {

Support recipe_supports(const Recipe& recipe, const Problem& problem, std::string_view architecture) {
  if (!recipe.architecture.empty() && recipe.architecture != architecture)
    return refused("a kernel for ", recipe.architecture, " alone; this is ", architecture);
  if (recipe.matrix_units && architecture == "sm_75")
    for (const Port& port : problem.inputs)
      if (port.present && port.type.dtype == DType::bf16)
        return refused("the matrix units of ", architecture, " do not multiply bf16");
  return recipe.supports(problem);
}

Support recipe_offered(const Recipe& recipe, const Problem& problem, std::string_view architecture) {
  const Support support = recipe_supports(recipe, problem, architecture);
  return support.yes() && recipe.worth_timing ? recipe.worth_timing(problem, architecture) : support;
}

std::vector<Config> offered_configs(const Recipe& recipe, const Problem& problem, const GpuProperties& gpu) {
  std::vector<Config> configs = recipe.configs(problem, gpu);
  if (!recipe.worth_offering) return configs;
  const size_t most = recipe.worth_offering(problem, gpu);
  std::map<std::pair<std::vector<Layout>, std::vector<Layout>>, size_t> offered;
  std::erase_if(configs, [&](const Config& config) { return offered[{config.inputs, config.outputs}]++ >= most; });
  return configs;
}

Support unless_taken_by(const Recipe& faster, const Problem& problem, std::string_view architecture) {
  if (!recipe_supports(faster, problem, architecture).yes()) return supported();
  return refused(faster.name, " takes it, and is faster on ", architecture);
}

ParameterWriter& ParameterWriter::put_divisor(int64_t divisor) {
  // (mulhi(n, multiplier) + n) >> shift = n / divisor for n < 2^31: shift = ceil(log2(divisor)).
  uint32_t shift = 0;
  while ((int64_t(1) << shift) < divisor && shift < 31) ++shift;
  const uint64_t power = uint64_t(1) << shift, d = uint64_t(divisor);
  const uint64_t multiplier = power >= d ? ((uint64_t(1) << 32) * (power - d)) / d + 1 : 1;
  return put(uint32_t(divisor)).put(uint32_t(multiplier)).put(shift);
}

ParameterWriter& ParameterWriter::put_walk(const Dims& sizes, const std::vector<Dims>& strides) {
  align(8);
  for (int64_t size : sizes) put_divisor(size);
  if (sizes.empty()) put_divisor(1);
  for (const Dims& operand : strides) {
    for (int64_t stride : operand) put(stride);
    if (operand.empty()) put(int64_t(0));
  }
  if (strides.empty())
    for (size_t axis = 0; axis < std::max<size_t>(1, sizes.size()); ++axis) put(int64_t(0));
  return *this;
}

uint32_t blocks_for(int64_t count, int64_t block) {
  const int64_t blocks = ceil_div(count, block);
  if (blocks > 0x7fffffff)
    fail(ErrorKind::unsupported, "a launch of ", blocks, " blocks; a GPU takes at most 2147483647");
  return uint32_t(blocks);
}

std::vector<Config> same_layout_configs(const Problem& problem, const GpuProperties&) {
  std::vector<Config> out;
  for (Layout layout : {Layout::plain, Layout::channels_last}) {
    Config config;
    bool fits = true;
    auto add = [&](const Port& port, std::vector<Layout>& layouts) {
      fits &= layout_fits(port.dims(), layout);
      layouts.push_back(layout);
    };
    for (const Port& port : problem.inputs) add(port, config.inputs);
    for (const Port& port : problem.outputs) add(port, config.outputs);
    if (fits) out.push_back(std::move(config));
  }
  return out;
}

Dims logical_strides(Dims dims, Layout layout, int64_t pitch) {
  // The leading dimension replaces the length of rows; all outer strides follow from it.
  if (pitch) (layout == Layout::channels_last ? dims[1] : dims.back()) = pitch;
  Dims strides = row_major_strides(dims);
  if (layout != Layout::channels_last) return strides;
  strides[1] = 1;
  int64_t stride = dims[1];
  for (size_t axis = dims.size(); axis-- > 2;) {
    strides[axis] = stride;
    stride *= dims[axis];
  }
  strides[0] = stride;
  return strides;
}

}  // namespace temper::cuda
