// SPDX-License-Identifier: Apache-2.0
// The program's part of exporting: handing over to Python. What the module does: python/tests/test_export.py.
#include <gtest/gtest.h>

#include <filesystem>
#include <regex>
#include <set>

#include "../paths.h"
#include "base/file.h"
#include "program.h"

namespace temper {
namespace {

// A module that prints what it was called with and ends with 7.
std::string folder_with_module(const std::string& folder) {
  write_text(folder + "m/temper/export/__init__.py", "");
  write_text(folder + "m/temper/__init__.py", "");
  write_text(folder + "m/temper/__main__.py", "import sys\nprint(sys.argv[1:])\nsys.exit(7)\n");
  return "export PYTHONPATH='" + folder + "m';";
}

TEST(ExportVerb, HandsOverTheArgumentsAsTheyWereGivenAndTheExitCode) {
  const std::string folder = test_folder();
  const std::string before = folder_with_module(folder);
  const Outcome outcome = temper(
      folder, "export 'a b.py:f' -o m.onnx --shape x=1x3 --shape y=2:int64 --python '" TEMPER_PYTHON "' --temper /t",
      before);
  EXPECT_EQ(outcome.code, 7) << outcome.err;
  EXPECT_EQ(outcome.out,
            "['export', 'a b.py:f', '-o', 'm.onnx', '--shape', 'x=1x3', '--shape', 'y=2:int64', '--temper', '/t']\n");
}

TEST(ExportVerb, TheCheckRunsThisProgramUnlessAnotherIsNamed) {
  const std::string folder = test_folder();
  const std::string before = folder_with_module(folder);
  const Outcome outcome = temper(folder, "export torchvision:resnet18 -o m.onnx --python='" TEMPER_PYTHON "'", before);
  EXPECT_EQ(outcome.out, "['export', 'torchvision:resnet18', '-o', 'm.onnx', '--temper', '" + paths::program() + "']\n")
      << outcome.err;
}

// The module prints to standard output, which is the file's; of a failure there is no file.
TEST(ExportVerb, AFileOfJsonHoldsWhatTheModulePrinted) {
  const std::string folder = test_folder();
  const std::string before = folder_with_module(folder);
  const std::string line = "export f.py:g -o m.onnx --json=said.json --temper /t --python '" TEMPER_PYTHON "'";
  EXPECT_EQ(temper(folder, line, before).code, 7);
  EXPECT_FALSE(std::filesystem::exists(folder + "said.json"));
  write_text(folder + "m/temper/__main__.py",
             "import json, sys\nprint(json.dumps({'called': sys.argv[1:]}))\nsys.exit(1)\n");
  const Outcome outcome = temper(folder, line, before);
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(read_file(folder + "said.json"),
            "{\"called\": [\"export\", \"f.py:g\", \"-o\", \"m.onnx\", \"--json\", \"--temper\", \"/t\"]}\n");
}

TEST(VerifyVerb, WithASourceIsHandedOver) {
  const std::string folder = test_folder();
  const std::string before = folder_with_module(folder);
  const Outcome outcome =
      temper(folder, "verify m.onnx --source f.py:g --half --python '" TEMPER_PYTHON "' --temper /t", before);
  EXPECT_EQ(outcome.code, 7) << outcome.err;
  EXPECT_EQ(outcome.out, "['verify', 'm.onnx', '--source', 'f.py:g', '--half', '--temper', '/t']\n");
}

TEST(VerifyVerb, OptionsOfASourceWithoutOneAreRefused) {
  const Outcome outcome = temper(test_folder(), "verify m.onnx --weights w.pth");
  EXPECT_EQ(outcome.code, int(ErrorKind::usage));
  EXPECT_CONTAINS(outcome.err, "--source");
}

TEST(ExportVerb, AMissingInterpreterIsNamed) {
  const Outcome outcome = temper(test_folder(), "export torchvision:resnet18 -o m.onnx --python /nowhere/python3");
  EXPECT_EQ(outcome.code, int(ErrorKind::unsupported));
  EXPECT_CONTAINS(outcome.err, "'/nowhere/python3' cannot be started (No such file or directory)");
}

// A copy of the program elsewhere has no module beside it.
TEST(ExportVerb, AMissingModuleIsSaidWithTheInterpreterThatLacksIt) {
  const std::string folder = test_folder();
  const std::string command = "cd '" + folder + "' && cp '" + paths::program() +
                              "' t && env -u PYTHONPATH ./t export x.pt -o m.onnx --python '" TEMPER_PYTHON
                              "' 2>err.txt";
  const int status = std::system(command.c_str());
  EXPECT_EQ(WEXITSTATUS(status), int(ErrorKind::unsupported));
  EXPECT_CONTAINS(read_file(folder + "err.txt"), TEMPER_PYTHON " has no module 'temper'");
}

// A file temper.py in the folder where the user works is not the module.
TEST(ExportVerb, TheCurrentFolderIsNotSearched) {
  if (!TEMPER_PYTHON_PACKAGE) GTEST_SKIP() << "the Python package is not built with sanitizers and Clang";
  const std::string folder = test_folder();
  write_text(folder + "temper.py", "print('wrong')\n");
  const Outcome outcome = temper(folder, "export --no-such", "");
  EXPECT_EQ(outcome.code, int(ErrorKind::usage));
  const Outcome module = temper(folder, "export nothing.pt -o m.onnx --python '" TEMPER_PYTHON "'");
  EXPECT_EQ(module.code, int(ErrorKind::unsupported)) << module.err;  // torch is missing there
  EXPECT_CONTAINS(module.err, "nothing.pt needs torch");
  EXPECT_EQ(module.out, "");
}

std::set<std::string> flags_in(const std::string& help) {
  std::set<std::string> flags;
  const std::regex flag("--[a-z][a-z-]*");
  for (std::sregex_iterator at(help.begin(), help.end(), flag), end; at != end; ++at) flags.insert(at->str());
  return flags;
}

TEST(ExportVerb, TheProgramAndTheModuleHaveTheSameOptions) {
  const std::string folder = test_folder();
  std::set<std::string> mine = flags_in(temper(folder, "export --help").out);
  const std::string module = "cd '" + folder + "' && PYTHONPATH='" + paths::source_folder() +
                             "/python' '" TEMPER_PYTHON "' -m temper export --help >help.txt";
  ASSERT_EQ(std::system(module.c_str()), 0);
  const std::set<std::string> theirs = flags_in(read_file(folder + "help.txt"));
  for (const char* own : {"--python", "--color"}) EXPECT_EQ(mine.erase(own), 1u) << own;  // the program's alone
  EXPECT_EQ(mine, theirs);
  EXPECT_GE(mine.size(), 15u);
}

}  // namespace
}  // namespace temper
