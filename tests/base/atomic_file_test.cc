// SPDX-License-Identifier: Apache-2.0
// What a file that is written may replace, what it keeps, and what a writer that was killed leaves behind.
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <set>

#include "../data/helpers.h"

namespace temper {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRanges = R"({"schema": "temper.ranges/1"})";

std::set<std::string> names_in(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename().string());
  return names;
}
unsigned mode_of(const std::string& path) {
  struct stat info;
  EXPECT_EQ(stat(path.c_str(), &info), 0) << path;
  return info.st_mode & 0777;
}
Output ranges(const std::string& path, bool force = false) { return {path, FileKind::ranges, force, "-o"}; }

// Both ways to write: with a file that has no name until the end, and with one that has.
class AtomicFiles : public ::testing::TestWithParam<bool> {
 protected:
  void write(Output output, std::string_view text) const {
    AtomicFile file(std::move(output), GetParam());
    file.write(text.data(), text.size());
    file.commit();
  }
  const std::string folder = test_folder();
};
INSTANTIATE_TEST_SUITE_P(, AtomicFiles, ::testing::Bool(),
                         [](const auto& each) { return each.param ? "Unnamed" : "Named"; });

TEST_P(AtomicFiles, NothingButTheTargetIsLeft) {
  write(ranges(folder + "a"), kRanges);
  write(ranges(folder + "a"), "{}");
  EXPECT_EQ(read_file(folder + "a"), "{}");
  { AtomicFile given_up(ranges(folder + "b"), GetParam()); }
  EXPECT_EQ(names_in(folder), std::set<std::string>{"a"});
}

TEST_P(AtomicFiles, AnExistingFileKeepsItsModeAndANewOneHasTheUsual) {
  const mode_t mask = umask(027);
  write(ranges(folder + "new"), kRanges);
  umask(mask);
  EXPECT_EQ(mode_of(folder + "new"), 0640u);
  for (unsigned mode : {0600u, 0664u, 0644u}) {
    ASSERT_EQ(chmod((folder + "new").c_str(), mode), 0);
    write(ranges(folder + "new"), kRanges);
    EXPECT_EQ(mode_of(folder + "new"), mode);
  }
}

TEST_P(AtomicFiles, SymbolicLinksAreFollowedAndStay) {
  fs::create_directory(folder + "there");
  fs::create_symlink("there/a", folder + "link");
  fs::create_symlink("link", folder + "second");
  write(ranges(folder + "second"), kRanges);  // where it leads to is no file yet
  EXPECT_EQ(read_file(folder + "there/a"), kRanges);
  write(ranges(folder + "second"), "{}");
  EXPECT_EQ(read_file(folder + "there/a"), "{}");
  EXPECT_TRUE(fs::is_symlink(folder + "link") && fs::is_symlink(folder + "second"));
  fs::create_symlink("circle", folder + "circle");
  error_of(ErrorKind::usage, [&] { write(ranges(folder + "circle"), kRanges); });
}

TEST_P(AtomicFiles, OtherHardLinksKeepTheOldContent) {
  write(ranges(folder + "a"), kRanges);
  fs::create_hard_link(folder + "a", folder + "b");
  write(ranges(folder + "a"), "{}");
  EXPECT_EQ(read_file(folder + "b"), kRanges);
}

// What a process that was killed in the middle leaves is gone after the next write in that folder, whatever its number
// was and whatever it wrote. The writer that lives keeps its file.
TEST_P(AtomicFiles, LeftoversOfKilledWritersGoAndThoseOfLivingOnesStay) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  for (int i = 0; i < 3; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      AtomicFile file(ranges(folder + "killed"), false);
      file.write("half", 4);
      if (::write(ready[1], "x", 1) == 1) pause();
      _exit(0);
    }
    char byte;
    ASSERT_EQ(read(ready[0], &byte, 1), 1);
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
  close(ready[0]);
  close(ready[1]);
  EXPECT_GE(names_in(folder).size(), 1u);  // each writer cleans up behind the one before it
  AtomicFile living(ranges(folder + "living"), false);
  living.write("{}", 2);
  EXPECT_EQ(names_in(folder).size(), 1u);
  write(ranges(folder + "a"), kRanges);
  EXPECT_EQ(names_in(folder).size(), 2u);
  living.commit();
  EXPECT_EQ(names_in(folder), (std::set<std::string>{"a", "living"}));
}

TEST_P(AtomicFiles, AForeignFileWithAFormerTemporaryNameIsNoHindrance) {
  for (const char* suffix : {".tmp.2.0", ".tmp.1.0"}) write_text(folder + "a" + suffix, "of a former version");
  write_text(folder + "a.tmp." + std::to_string(getpid()) + ".0", "of a process with this number");
  write(ranges(folder + "a"), kRanges);
  EXPECT_EQ(read_file(folder + "a"), kRanges);
}

TEST_P(AtomicFiles, OnlyForceReplacesAFileOfAnotherKind) {
  write_text(folder + "notes.txt", "mine");
  const std::string said = error_of(ErrorKind::usage, [&] { write(ranges(folder + "notes.txt"), kRanges); });
  EXPECT_CONTAINS(
      said, "-o '" + folder + "notes.txt' is a file that Temper did not write, which a file of ranges would replace");
  EXPECT_CONTAINS(said, "--force");
  EXPECT_EQ(read_file(folder + "notes.txt"), "mine");
  fs::create_symlink("notes.txt", folder + "link");
  error_of(ErrorKind::usage, [&] { write(ranges(folder + "link"), kRanges); });
  write(ranges(folder + "link", true), kRanges);
  EXPECT_EQ(read_file(folder + "notes.txt"), kRanges);
  write_text(folder + "empty", "");
  write(ranges(folder + "empty"), kRanges);
}

TEST_P(AtomicFiles, AWrongPathIsTheUsersAndARefusalIsTheMachines) {
  EXPECT_CONTAINS(error_of(ErrorKind::usage, [&] { write(ranges(folder + "no/a"), kRanges); }),
                  "there is no folder '" + folder + "no'");
  EXPECT_CONTAINS(error_of(ErrorKind::usage, [&] { write(ranges(folder), kRanges); }), "it is a folder");
  EXPECT_CONTAINS(error_of(ErrorKind::usage, [&] { write(ranges("/dev/null"), kRanges); }), "not a regular file");
  EXPECT_CONTAINS(error_of(ErrorKind::usage, [&] { write(ranges("-"), kRanges); }), "./-");
  if (geteuid() == 0) return;  // root may write anywhere
  write(ranges(folder + "kept"), kRanges);
  ASSERT_EQ(chmod((folder + "kept").c_str(), 0444), 0);
  error_of(ErrorKind::machine, [&] { write(ranges(folder + "kept"), "{}"); });
  ASSERT_EQ(chmod(folder.c_str(), 0555), 0);
  error_of(ErrorKind::machine, [&] { write(ranges(folder + "b"), kRanges); });
  ASSERT_EQ(chmod(folder.c_str(), 0755), 0);
}

TEST(CheckOutputs, NoOutputIsAnInputByWhateverName) {
  const std::string folder = test_folder();
  write_text(folder + "in", kRanges);
  fs::create_hard_link(folder + "in", folder + "hard");
  fs::create_symlink("in", folder + "soft");
  for (const std::string& name : {folder + "in", folder + "hard", folder + "soft", folder + "./in"}) {
    const std::string said = error_of(ErrorKind::usage, [&] { check_outputs({folder + "in"}, {ranges(name, true)}); });
    EXPECT_CONTAINS(said, "is one of the files to read");
    EXPECT_CONTAINS(said, name);
    error_of(ErrorKind::usage, [&] { check_outputs({name}, {ranges(folder + "in", true)}); });
  }
  check_outputs({folder + "in"}, {ranges(folder + "out"), ranges("")});
}

TEST(CheckOutputs, WhatLiesInAFolderThatIsReadIsAnInput) {
  const std::string folder = test_folder();
  write_text(folder + "data/cat/1.jpg", "a picture");
  write_text(folder + "data/ranges.json", kRanges);  // of a former run
  fs::create_symlink("data/cat/1.jpg", folder + "link");
  for (const char* name : {"data/cat/1.jpg", "link"})
    EXPECT_CONTAINS(
        error_of(ErrorKind::usage, [&] { check_outputs({folder + "data"}, {ranges(folder + name, true)}); }),
        "is one of the files to read");
  check_outputs({folder + "data"}, {ranges(folder + "data/new.json"), ranges(folder + "data/ranges.json")});
}

TEST(CheckOutputs, TwoOutputsAreTwoFiles) {
  const std::string folder = test_folder();
  const Output cache{folder + "./a", FileKind::calibration_cache, false, "--cache"};
  EXPECT_CONTAINS(error_of(ErrorKind::usage, [&] { check_outputs({}, {ranges(folder + "a"), cache}); }),
                  "are one file");
}

// A cache is named to be read and written; where it cannot be written, that costs a warning later.
TEST(CheckOutputs, ATimingCacheIsOnlyHeldAgainstItsKind) {
  const std::string folder = test_folder();
  write_text(folder + "ranges.json", kRanges);
  check_outputs({}, {{folder + "no/times.json", FileKind::timings}});
  EXPECT_CONTAINS(
      error_of(ErrorKind::usage,
               [&] { check_outputs({}, {{folder + "ranges.json", FileKind::timings, false, "--timing-cache"}}); }),
      "--timing-cache '" + folder + "ranges.json' is a file of ranges, no timing cache");
}

TEST(FileLocks, AReaderThatHoldsALockIsWaitedForWithALimit) {
  const std::string folder = test_folder();
  { const FileLock lock(folder + "times.json"); }
  const int reader = open((folder + "times.json.lock").c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(flock(reader, LOCK_SH), 0);
  EXPECT_CONTAINS(error_of(ErrorKind::machine, [&] { FileLock(folder + "times.json", 0.05); }),
                  "another process holds");
  close(reader);
  const FileLock lock(folder + "times.json", 0.05);
}

TEST(PrivateFolders, AreMadeForTheUserAloneAndNotTrustedWhereOthersMayWrite) {
  const std::string folder = test_folder();
  make_private_folder(folder + "a/b");
  EXPECT_EQ(mode_of(folder + "a"), 0700u);
  EXPECT_EQ(mode_of(folder + "a/b"), 0700u);
  write_text(folder + "a/b/file", "x");
  ASSERT_EQ(chmod((folder + "a/b/file").c_str(), 0644), 0);
  EXPECT_EQ(read_trusted_file(folder + "a/b/file", 10), "x");
  ASSERT_EQ(chmod((folder + "a/b/file").c_str(), 0666), 0);
  EXPECT_CONTAINS(error_of(ErrorKind::bad_file, [&] { read_trusted_file(folder + "a/b/file", 10); }),
                  "everybody may write to it");
  ASSERT_EQ(chmod((folder + "a/b").c_str(), 0777), 0);
  EXPECT_CONTAINS(error_of(ErrorKind::machine, [&] { make_private_folder(folder + "a/b"); }),
                  "is not to be trusted: everybody may write to it");
  ASSERT_EQ(chmod((folder + "a/b").c_str(), 0755), 0);
  if (chown((folder + "a/b").c_str(), 12345, gid_t(-1)) != 0)
    GTEST_SKIP() << "only root gives files to another user, one that its namespace has";
  EXPECT_CONTAINS(error_of(ErrorKind::machine, [&] { make_private_folder(folder + "a/b"); }),
                  "it belongs to user 12345");
}

}  // namespace
}  // namespace temper
