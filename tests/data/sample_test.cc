// SPDX-License-Identifier: Apache-2.0
#include "data/sample.h"

#include "data/npy.h"
#include "helpers.h"

namespace temper {
namespace {

TEST(ChooseSamples, TheSameSeedGivesTheSameDifferentSamplesInOrder) {
  const auto one = choose_samples(1000, 100, 7);
  EXPECT_EQ(one, choose_samples(1000, 100, 7));
  EXPECT_NE(one, choose_samples(1000, 100, 8));
  ASSERT_EQ(one.size(), 100u);
  for (size_t i = 1; i < one.size(); ++i) EXPECT_LT(one[i - 1], one[i]);
  EXPECT_GE(one.front(), 0);
  EXPECT_LT(one.back(), 1000);
  EXPECT_EQ(choose_samples(3, 9, 1), (std::vector<int64_t>{0, 1, 2}));
}

TEST(ChooseSamples, EachSampleIsAsLikelyAsAnyOther) {
  std::vector<int> hits(20);
  for (uint64_t seed = 0; seed < 4000; ++seed)
    for (int64_t s : choose_samples(20, 5, seed)) ++hits[size_t(s)];
  for (int h : hits) EXPECT_NEAR(h, 1000, 6 * 27.4);  // six standard deviations of the binomial
}

TEST(GatherBatch, ScatteredSamplesComeWithTheirHashesAndNames) {
  const std::string folder = test_folder();
  run_python(folder, "np.save('x.npy', np.arange(20, dtype='f4').reshape(10, 2))\n");
  const Dataset data = open_dataset(folder + "x.npy", {{"x", TensorType::parse("f32[batch,2]")}});
  const std::vector<int64_t> samples{1, 2, 5, 9};
  const Batch batch = gather_batch(data, samples);
  ASSERT_EQ(batch.inputs.at(0).dims(), (Dims{4, 2}));
  for (size_t i = 0; i < samples.size(); ++i) {
    EXPECT_EQ(batch.inputs[0].data<float>()[2 * i], float(2 * samples[i]));
    EXPECT_EQ(batch.hashes.at(i), data.batch(samples[i], 1).hashes.at(0));
    EXPECT_EQ(batch.names.at(i), data.batch(samples[i], 1).names.at(0));
  }
}

}  // namespace
}  // namespace temper
