// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/bundle.h"

#include "bench/cases.h"
#include "cuda_test_helpers.h"

namespace temper {
namespace {

cuda::Recipe::Work work_of(const char* text) {
  const KernelCase line = parse_cases(text).at(0);
  const std::vector<Tensor> inputs = make_case_inputs(line, 1);
  const Problem problem = make_case_problem(line, inputs, 1);
  for (const cuda::Recipe* recipe : cuda::recipes())
    if (recipe->supports(problem).yes()) return recipe->work(problem, recipe->configs(problem).at(0));
  fail(ErrorKind::usage, "no recipe for ", text);
}

TEST(CudaBundle, HoldsWhatItWasMadeOfAndEqualTextsOnce) {
  TEMPER_NEEDS_NVRTC(compiler);
  const auto concatenation = work_of("concat(f32[2,4], f32[2,4], f32[2,4]) axis=0");
  ASSERT_EQ(concatenation.jobs.size(), 3u);
  const AlignedBytes bytes = cuda::make_bundle(concatenation.jobs, *compiler, "sm_80");
  const cuda::Bundle bundle(bytes, concatenation.jobs, "sm_80");
  EXPECT_EQ(bundle.cubin(0).data(), bundle.cubin(2).data());
}

TEST(CudaBundle, RefusesDamagedBytesOtherTextsAndOtherGpus) {
  TEMPER_NEEDS_NVRTC(compiler);
  const auto work = work_of("softmax(f32[3,1000]) axis=1"), other = work_of("softmax(f32[3,1000]) axis=1 log=true");
  const AlignedBytes bytes = cuda::make_bundle(work.jobs, *compiler, "sm_80");
  const auto kind_of = [](std::span<const std::byte> damaged, const cuda::Recipe::Work& for_work,
                          const char* architecture) {
    try {
      const cuda::Bundle bundle(damaged, for_work.jobs, architecture);
    } catch (const Error& error) { return std::optional(error.kind()); }
    return std::optional<ErrorKind>();
  };
  EXPECT_EQ(kind_of(bytes, work, "sm_80"), std::nullopt);
  EXPECT_EQ(kind_of(bytes, other, "sm_80"), ErrorKind::bad_file);
  EXPECT_EQ(kind_of(bytes, work, "sm_90a"), ErrorKind::unsupported);
  for (size_t length : {size_t(0), size_t(20), size_t(60), size_t(100), size_t(256), bytes.size() / 2})
    EXPECT_EQ(kind_of(std::span(bytes).first(length), work, "sm_80"), ErrorKind::bad_file) << length;
  // No bit of the head and the entries may lead outside.
  for (size_t bit = 0; bit < 72 * 8; ++bit) {
    AlignedBytes damaged = bytes;
    damaged[bit / 8] ^= std::byte(1u << (bit % 8));
    try {
      const cuda::Bundle bundle(damaged, work.jobs, "sm_80");
      const auto inside = [&](std::span<const std::byte> part) {
        return part.data() >= damaged.data() && part.data() + part.size() <= damaged.data() + damaged.size();
      };
      EXPECT_TRUE(inside(bundle.cubin(0))) << bit;
    } catch (const Error&) {}
  }
}

}  // namespace
}  // namespace temper
