// SPDX-License-Identifier: Apache-2.0
#include "tune/cache.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.h"

namespace temper {
namespace {

std::string path_of(const std::string& name) {
  const std::string path = concat(::testing::TempDir(), "/temper_cache_", getpid(), "_", name);
  for (const char* end : {"", ".bad", ".lock"}) std::filesystem::remove(path + end);
  return path;
}

TEST(TimingCache, ATimeComesBackWithTheLoadUnderWhichItWasTaken) {
  const std::string path = path_of("load.json");
  TimingCache cache(path);
  cache.add("quiet", {1.5, 0.0, 1700000000});
  cache.add("busy", {2.5, 1.25, 1700000001});
  cache.add("unknown", {3.5, std::nullopt, 0});
  cache.save();
  const TimingCache again(path);
  EXPECT_EQ(again.find("quiet"), 1.5);
  EXPECT_FALSE(again.entry("quiet")->suspect());
  EXPECT_EQ(again.entry("quiet")->when, 1700000000);
  EXPECT_EQ(again.entry("busy")->load, 1.25);
  EXPECT_TRUE(again.entry("busy")->suspect());
  EXPECT_TRUE(again.entry("unknown")->suspect());
}

TEST(TimingCache, TimesOfTheFirstSchemaAreReadAndNotBelievedForEver) {
  const std::string path = path_of("old.json");
  write_file_atomically(path, R"({"schema": "temper.timings/1", "entries": {"a": 2.5}})");
  const TimingCache cache(path);
  EXPECT_EQ(cache.find("a"), 2.5);
  EXPECT_TRUE(cache.entry("a")->suspect());
}

TEST(TimingCache, AFileOfALaterSchemaIsLeftAsItIs) {
  const std::string path = path_of("new.json"), text = R"({"schema": "temper.timings/9", "entries": {"a": {}}})";
  write_file_atomically(path, text);
  TimingCache cache(path);
  EXPECT_FALSE(cache.is_kept());
  cache.add("a", 1);
  cache.save();
  EXPECT_EQ(read_file(path), text);
}

TEST(TimingCache, OfTwoProcessesTheOneThatMeasuredOnAQuietMachineIsBelieved) {
  const std::string path = path_of("two.json");
  TimingCache busy(path), quiet(path), reader(path);
  quiet.add("a", {1.0, 0.0, 10});
  quiet.save();
  busy.add("a", {9.0, 2.0, 20});
  busy.save();
  EXPECT_EQ(TimingCache(path).find("a"), 1.0);
  // What was only read is no reason to write it back over what another process found meanwhile.
  reader.add("b", {5.0, 0.0, 30});
  reader.save();
  EXPECT_EQ(TimingCache(path).find("a"), 1.0);
  quiet.add("a", {0.9, 0.0, 40});
  quiet.save();
  EXPECT_EQ(TimingCache(path).find("a"), 0.9);
}

TEST(TimingCache, EachKindOfRecordHasItsOwnTable) {
  const std::string path = path_of("kinds.json");
  TimingCache cache(path);
  cache.add("a", {1, 0.0, 1});
  cache.in_plans.add("a", {2, 0.0, 2});
  cache.peaks.add("a", {3, 0.0, 3});
  cache.decisions.add("a", {"x v1", 2, {4, 0.0, 4}});
  cache.fused_pairs.add("a", {{"p + q", true}, {"r + s", false}});
  cache.noise_runs.add("a", {{"v", 70000}});
  cache.noise_runs.add("b", {});
  cache.add_fault("a", "signal 11");
  cache.save();
  const TimingCache again(path);
  EXPECT_EQ(again.find("a"), 1);
  EXPECT_EQ(again.size(), 1u);
  EXPECT_EQ(again.in_plans.find("a")->ms, 2);
  EXPECT_EQ(again.peaks.find("a")->ms, 3);
  EXPECT_EQ(again.decisions.find("a")->candidate, "x v1");
  EXPECT_EQ(again.decisions.find("a")->threads, 2);
  EXPECT_EQ(again.decisions.find("a")->time.when, 4);
  EXPECT_EQ(*again.fused_pairs.find("a"), (PairDecisions{{"p + q", true}, {"r + s", false}}));
  EXPECT_EQ(*again.noise_runs.find("a"), (NoiseRun{{"v", 70000}}));
  EXPECT_TRUE(again.noise_runs.find("b")->empty());
  EXPECT_EQ(again.fault("a"), "signal 11");
  EXPECT_FALSE(again.in_plans.find("b"));
}

// Until schema 3 the keys told the kinds apart.
TEST(TimingCache, RecordsOfTheSecondSchemaComeIntoTheirTables) {
  const std::string path = path_of("second.json");
  write_file_atomically(path, R"({"schema": "temper.timings/2", "faults": {"f": "signal 11"}, "entries": {
    "gpu 9 | conv() chains=1 | t v1 x ->": [1, 0, 10],
    "in context, gpu 9 | conv() chains=1 | t v1 x ->": [2, 0, 11],
    "gpu 9 | peak memory threads=8": [3, null, 12],
    "decided for abc, gpu 9 | conv() chains=1 | t v1 x ->": [4, 0, 13],
    "decided for abc, gpu 9 | conv() chains=1 | u v1 y ->": [5, 2.5, 14],
    "decided for abc, gpu 9 | conv() chains=1 on threads": [6, 0, 15],
    "chains of abc, gpu 9: p + q": [1, 0, 16],
    "chains of abc, gpu 9: r: s": [0, 0, 17],
    "largest on noise in abc": [0, 0, 18],
    "largest on noise in abc | v": [70000, 0, 19]}})");
  TimingCache cache(path);
  for (const bool saved : {false, true}) {
    SCOPED_TRACE(saved);
    EXPECT_EQ(cache.size(), 1u + saved);
    EXPECT_EQ(cache.find("gpu 9 | conv() chains=1 | t v1 x ->"), 1);
    EXPECT_EQ(cache.in_plans.find("gpu 9 | conv() chains=1 | t v1 x ->")->ms, 2);
    EXPECT_TRUE(cache.peaks.find("gpu 9 | peak memory threads=8")->suspect());
    const Decision* decision = cache.decisions.find(decision_key("abc", "gpu 9 | conv() chains=1"));
    ASSERT_TRUE(decision);
    EXPECT_EQ(decision->candidate, "t v1 x ->") << "the other one was decided while others worked";
    EXPECT_EQ(decision->time.ms, 4);
    EXPECT_EQ(decision->threads, 6);
    EXPECT_TRUE(cache.decisions.has_prefix(decision_key("abc", "gpu 9")));
    EXPECT_EQ(*cache.fused_pairs.find(decision_key("abc", "gpu 9")), (PairDecisions{{"p + q", true}, {"r: s", false}}));
    EXPECT_EQ(*cache.noise_runs.find("abc"), (NoiseRun{{"v", 70000}}));
    EXPECT_EQ(cache.fault("f"), "signal 11");
    cache.add("new", 1);
    cache.save();
    cache = TimingCache(path);
  }
  EXPECT_NE(read_file(path).find("temper.timings/3"), std::string::npos);
}

TEST(TimingCache, ADamagedRecordOfAnyKindSetsTheFileAside) {
  for (const char* table :
       {R"("in_plans": {"a": 1})", R"("peaks": [])", R"("decisions": {"a": {"candidate": "x", "threads": 1}})",
        R"("decisions": {"a": {"candidate": "x", "threads": -1, "time": [1, 0, 0]}})",
        R"("fused_pairs": {"a": {"b": 1}})", R"("noise_runs": {"a": {"b": "much"}})", R"("faults": {"a": 1})"}) {
    const std::string path = path_of("damaged.json");
    write_file_atomically(path,
                          concat(R"({"entries": {"a": [1, 0, 0]}, )", table, R"(, "schema": "temper.timings/3"})"));
    const TimingCache cache(path);
    EXPECT_EQ(cache.size(), 0u) << table;
    EXPECT_TRUE(file_exists(path + ".bad")) << table;
  }
}

}  // namespace
}  // namespace temper
