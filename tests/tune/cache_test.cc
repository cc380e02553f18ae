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

}  // namespace
}  // namespace temper
