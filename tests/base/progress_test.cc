// SPDX-License-Identifier: Apache-2.0
#include "base/progress.h"

#include <gtest/gtest.h>

namespace temper {
namespace {

TEST(Progress, WordsCountsAndTimesStandInOneLine) {
  EXPECT_EQ(text_of({"optimising the graph"}), "optimising the graph");
  EXPECT_EQ(text_of({"calibrating", 120, 500, "samples"}), "calibrating: 120 of 500 samples");
  EXPECT_EQ(text_of({"reading", 7, 0, "pictures"}), "reading: 7 pictures");
  EXPECT_EQ(text_of({"m.onnx", 2.04, 3, "s", "512 runs"}), "m.onnx: 2 of at most 3 s, 512 runs");
  std::string told;
  const Progress progress = [&](const ProgressStep& step) { told = text_of(step); };
  tell(within(progress, "int8"), {"calibrating", 1, 2});
  EXPECT_EQ(told, "int8: calibrating: 1 of 2");
  tell_words(progress, "shape ", 4);
  EXPECT_EQ(told, "shape 4");
  EXPECT_FALSE(within({}, "int8"));
}

TEST(ProgressMeter, SpeedAndTimeLeftFollowFromWhatWasDoneSinceTheWordsChanged) {
  ProgressMeter meter;
  EXPECT_EQ(meter.line({"calibrating", 0, 500, "samples"}, 10), "calibrating: 0 of 500 samples");
  EXPECT_EQ(meter.line({"calibrating", 20, 500, "samples"}, 10.5), "calibrating: 20 of 500 samples");  // too early
  EXPECT_EQ(meter.line({"calibrating", 120, 500, "samples"}, 14), "calibrating: 120 of 500 samples, 30/s, 13 s left");
  EXPECT_EQ(meter.line({"trying", 100, 200}, 20), "trying: 100 of 200");  // something else: begins anew
  EXPECT_EQ(meter.line({"trying", 101, 200}, 30), "trying: 101 of 200, 10 s each, 17 min left");
  EXPECT_EQ(meter.line({"trying", 0, 200}, 40), "trying: 0 of 200");  // the same once more
  EXPECT_EQ(meter.line({"timing", 1, 3, "s"}, 50), "timing: 1 of at most 3 s, at most 2 s left");
  EXPECT_EQ(meter.line({"over", 5, 3, "s"}, 50), "over: 3 of at most 3 s");
}

TEST(ProgressMeter, ABarStandsWhereThereIsRoomAndNoLineIsWiderThanTheTerminal) {
  ProgressMeter meter;
  EXPECT_EQ(meter.line({"calibrating", 250, 500}, 0, 60), "[##########----------] calibrating: 250 of 500");
  EXPECT_EQ(meter.line({"calibrating", 250, 500}, 0, 30), "calibrating: 250 of 500");
  EXPECT_EQ(meter.line({"größer als das", 0, 0}, 0, 6), "größer");
  EXPECT_EQ(meter.line({"with an \x1b escape"}, 0, 60).find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace temper
