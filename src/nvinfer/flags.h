// SPDX-License-Identifier: Apache-2.0
// Reads the bits of a program's flags as the release defines them that it was written for: their numbers changed.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "nvinfer/layers.h"

namespace temper::nvinfer {

enum class Release : uint8_t { v8_6, v10_13, v11_1 };  // as in kApiReleases

// The release of a number as TEMPER_NVINFER_API has it: 806, 1013, 1101.
Release release_of(int api);

// Temper's own numbers of BuilderFlag, those of 10.13; flags that it does not have stand behind them.
enum class Flag : uint8_t {
  fp16 = 0,
  int8 = 1,
  refit = 4,
  disable_timing_cache = 5,
  tf32 = 6,
  safety_scope = 8,
  obey_precision_constraints = 9,
  prefer_precision_constraints = 10,
  version_compatible = 13,
  fp8 = 15,
  error_on_timing_cache_miss = 16,
  bf16 = 17,
  strip_plan = 19,
  refit_identical = 20,
  weight_streaming = 21,
  int4 = 22,
  refit_individual = 23,
  strict_nans = 24,
  fp4 = 26,
  distributive_independence = 28,
  strict_types = 30,
};
// A set of them.
struct Flags {
  uint32_t bits = 0;
  bool has(Flag flag) const { return (bits >> uint32_t(flag) & 1) != 0; }
};

// A program's mask of 1 << BuilderFlag. Throws Error{usage} for a bit that is no flag of that release.
Flags flags_of(uint32_t mask, Release release);
// The names of BuilderFlag that a release has, or is shown, with its numbers.
std::vector<std::pair<std::string, int>> builder_flags(Release release);

// How a network that was created with a mask of 1 << NetworkDefinitionCreationFlag takes what programs leave open.
LayerRules rules_of(uint32_t creation_flags, Release release);

}  // namespace temper::nvinfer
