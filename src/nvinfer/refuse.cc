// SPDX-License-Identifier: Apache-2.0
// THE list of what a build refuses.
#include "nvinfer/refuse.h"

#include "base/error.h"

namespace temper::nvinfer {

namespace {

struct Refused {
  int flag;  // the number of a BuilderFlag
  const char *name, *why, *instead;
};
constexpr Refused kFlags[] = {
    {8, "kSAFETY_SCOPE", "there is no safety runtime", "build for the standard capability"},
    {13, "kVERSION_COMPATIBLE", "a plan is for the version that built it", "build it again where Temper changes"},
    {14, "kEXCLUDE_LEAN_RUNTIME", "a plan has no runtime in it", "leave it out"},
    {16, "kERROR_ON_TIMING_CACHE_MISS", "what is not measured yet is measured", "leave it out"},
    {19, "kSTRIP_PLAN", "a plan holds its weights", "leave it out"},
    {21, "kWEIGHT_STREAMING", "a plan's weights stay on the device", "leave it out"},
};

[[noreturn]] void refuse(const char* name, const char* why, const char* instead) {
  fail(ErrorKind::unsupported, name, ": not in Temper (", why, "); instead, ", instead);
}

}  // namespace

void refuse_what_is_not_here(uint32_t flags, bool on_dla, int capability) {
  for (const Refused& refused : kFlags)
    if (flags >> refused.flag & 1) refuse(refused.name, refused.why, refused.instead);
  if (on_dla) refuse("DLA", "it runs on CPUs and GPUs", "leave the device type and the core as they are");
  if (capability != 0) refuse("EngineCapability", "there is kSTANDARD alone", "leave it as it is");
}

}  // namespace temper::nvinfer
