// SPDX-License-Identifier: Apache-2.0
#include "cli/cpu_precisions.h"

#include <gtest/gtest.h>

namespace temper::cli {
namespace {

std::string state_of(const std::string& precision, const std::vector<std::string>& features) {
  for (const Finding& finding : cpu_precisions(features))
    if (finding.what == precision) return finding.state;
  return "(none)";
}

TEST(CpuPrecisions, Int8NamesWhatItsKernelsUse) {
  const std::string avx2 = "yes (AVX2 kernels)";
  EXPECT_EQ(state_of("int8", {"avx2", "avx_vnni"}), "yes (AVX-VNNI)");
  EXPECT_EQ(state_of("int8", {"avx2"}), avx2);
  EXPECT_EQ(state_of("int8", {"avx2", "avx512f"}), avx2);
  EXPECT_EQ(state_of("int8", {"avx2", "avx512f", "avx512_vnni", "avx_vnni"}), "yes (AVX-512 VNNI)");
  EXPECT_EQ(state_of("int8", {"avx2", "avx512_vnni", "amx_int8"}), "yes, matrix unit (AMX)");
  EXPECT_EQ(state_of("int8", {"asimd", "asimddp"}), "yes (dot product)");
  EXPECT_NE(state_of("int8", {"sse4_2"}).find("little faster"), std::string::npos);
}

TEST(CpuPrecisions, NoKernelOfACpuComputesInFp16) {
  for (const std::vector<std::string>& features :
       {std::vector<std::string>{"avx2"}, {"avx2", "avx512_fp16"}, {"amx_fp16"}, {"fphp", "asimdhp"}})
    EXPECT_EQ(state_of("fp16", features), "no kernels for it: models stored in fp16 are computed in fp32");
}

}  // namespace
}  // namespace temper::cli
