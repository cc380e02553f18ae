// SPDX-License-Identifier: Apache-2.0
// THE list of what a build refuses.
#include "nvinfer/refuse.h"

#include "base/concat.h"

namespace temper::nvinfer {

namespace {

struct Refused {
  Flag flag;
  const char *name, *why, *instead;
};
constexpr const char* kBuiltAgain = "an engine that is refitted is built again, for whatever weights";
constexpr const char* kNoKernels = "there are no kernels of this precision";
constexpr const char* kSpeed = "kernels are chosen by speed";
// Every other flag has an effect, or changes nothing here.
using enum Flag;
constexpr Refused kRefusedFlags[] = {
    {safety_scope, "SAFETY_SCOPE", "there is no safety runtime", "build for the standard capability"},
    {version_compatible, "VERSION_COMPATIBLE", "a plan is for the version that built it",
     "build it again where Temper changes"},
    {error_on_timing_cache_miss, "ERROR_ON_TIMING_CACHE_MISS", "what is not measured yet is measured", "leave it out"},
    {strip_plan, "STRIP_PLAN", "a plan holds its weights", "leave it out"},
    {refit_identical, "REFIT_IDENTICAL", kBuiltAgain, "set REFIT"},
    {weight_streaming, "WEIGHT_STREAMING", "a plan's weights stay on the device", "leave it out"},
    {int4, "INT4", kNoKernels, "leave it out"},
    {refit_individual, "REFIT_INDIVIDUAL", kBuiltAgain, "set REFIT"},
    {strict_nans, "STRICT_NANS", kSpeed, "leave it out"},
    {fp4, "FP4", kNoKernels, "leave it out"},
    {distributive_independence, "DISTRIBUTIVE_INDEPENDENCE", kSpeed, "leave it out"},
};

std::string text_of(const char* name, const char* why, const char* instead) {
  return concat(name, ": not in Temper (", why, "); instead, ", instead);
}

}  // namespace

std::vector<std::string> refusals(const Asked& asked) {
  constexpr const char *kMachine = "a plan is for the machine that it was measured on", *kLeave = "leave it as it is";
  std::vector<std::string> texts;
  for (const Refused& refused : kRefusedFlags)
    if (asked.flags.has(refused.flag))
      texts.push_back(text_of(concat("BuilderFlag ", refused.name).c_str(), refused.why, refused.instead));
  if (asked.on_dla)
    texts.push_back(text_of("DLA", "it runs on CPUs and GPUs", "leave the device type and the core as they are"));
  if (asked.capability) texts.push_back(text_of("EngineCapability", "there is STANDARD alone", kLeave));
  if (asked.hardware_compatibility) texts.push_back(text_of("HardwareCompatibilityLevel", kMachine, kLeave));
  if (asked.platform) texts.push_back(text_of("RuntimePlatform", kMachine, kLeave));
  return texts;
}

}  // namespace temper::nvinfer
