// SPDX-License-Identifier: Apache-2.0
// THE list of BuilderFlag's numbers by release.
#include "nvinfer/flags.h"

#include <bit>

#include "base/error.h"
#include "nvinfer/api_table.h"

namespace temper::nvinfer {

namespace {

struct Row {
  const char* name;
  int own;
  std::array<int, kApiReleases.size()> numbers;  // -1: not there
};
constexpr Row kFlags[] = {
    {"FP16", 0, {0, 0, -1}},
    {"INT8", 1, {1, 1, -1}},
    {"DEBUG", 2, {2, 2, 2}},
    {"GPU_FALLBACK", 3, {3, 3, 3}},
    {"STRICT_TYPES", 30, {4, -1, -1}},
    {"REFIT", 4, {5, 4, 4}},
    {"DISABLE_TIMING_CACHE", 5, {6, 5, 5}},
    {"TF32", 6, {7, 6, 6}},
    {"SPARSE_WEIGHTS", 7, {8, 7, 7}},
    {"SAFETY_SCOPE", 8, {9, 8, 8}},
    {"OBEY_PRECISION_CONSTRAINTS", 9, {10, 9, -1}},
    {"PREFER_PRECISION_CONSTRAINTS", 10, {11, 10, -1}},
    {"DIRECT_IO", 11, {12, 11, 11}},
    {"REJECT_EMPTY_ALGORITHMS", 12, {13, 12, -1}},
    {"ENABLE_TACTIC_HEURISTIC", 29, {14, -1, -1}},
    {"VERSION_COMPATIBLE", 13, {15, 13, 12}},
    {"EXCLUDE_LEAN_RUNTIME", 14, {16, 14, 13}},
    {"FP8", 15, {17, 15, -1}},
    {"ERROR_ON_TIMING_CACHE_MISS", 16, {-1, 16, 15}},
    {"BF16", 17, {18, 17, -1}},  // in 8.6 it is Temper's own, behind the flags that there are
    {"DISABLE_COMPILATION_CACHE", 18, {-1, 18, 17}},
    {"STRIP_PLAN", 19, {-1, 19, 18}},
    {"WEIGHTLESS", 19, {-1, 19, -1}},
    {"REFIT_IDENTICAL", 20, {-1, 20, 19}},
    {"WEIGHT_STREAMING", 21, {-1, 21, 20}},
    {"INT4", 22, {-1, 22, -1}},
    {"REFIT_INDIVIDUAL", 23, {-1, 23, 22}},
    {"STRICT_NANS", 24, {-1, 24, 23}},
    {"MONITOR_MEMORY", 25, {-1, 25, 24}},
    {"FP4", 26, {-1, 26, -1}},
    {"EDITABLE_TIMING_CACHE", 27, {-1, 27, 26}},
    {"DISTRIBUTIVE_INDEPENDENCE", 28, {-1, 28, 27}},
};

}  // namespace

Release release_of(int api) { return api < 1000 ? Release::v8_6 : api < 1100 ? Release::v10_13 : Release::v11_1; }

Flags flags_of(uint32_t mask, Release release) {
  Flags flags;
  uint32_t known = 0;
  for (const Row& row : kFlags) {
    const int number = row.numbers[size_t(release)];
    if (number < 0) continue;
    known |= uint32_t(1) << number;
    if (mask >> number & 1) flags.bits |= uint32_t(1) << row.own;
  }
  if (const uint32_t other = mask & ~known)
    fail(ErrorKind::usage, "there is no BuilderFlag ", std::countr_zero(other), " in TensorRT ",
         kApiReleases[size_t(release)]);
  return flags;
}

std::vector<std::pair<std::string, int>> builder_flags(Release release) {
  std::vector<std::pair<std::string, int>> flags;
  for (const Row& row : kFlags)
    if (const int number = row.numbers[size_t(release)]; number >= 0) flags.emplace_back(row.name, number);
  return flags;
}

LayerRules rules_of(uint32_t creation_flags, Release release) {
  // 8.6, which has EXPLICIT_PRECISION where 10.x has STRONGLY_TYPED, shows that by a number of its own. Since 11.0
  // every network is strongly typed.
  constexpr uint32_t kOf8 = 1u << 2, kOf10 = 1u << 1;
  const bool is_typed = release == Release::v11_1 || (creation_flags & (release == Release::v8_6 ? kOf8 : kOf10)) != 0;
  return {is_typed, release == Release::v8_6};
}

}  // namespace temper::nvinfer
