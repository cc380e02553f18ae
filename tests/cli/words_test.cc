// SPDX-License-Identifier: Apache-2.0
// What all verbs share on the command line: suggestions, help, --json, colours; and the cache.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "program.h"

namespace temper {
namespace {

using Json = nlohmann::json;

TEST(Words, WhatIsMistypedIsNamedWithWhatWasMeant) {
  const std::string folder = test_folder();
  for (const auto& [arguments, meant] :
       {std::pair("biuld m.onnx", "there is no verb 'biuld'; perhaps 'build' is meant"),
        {"build m.onnx --precison fp32", "there is no option '--precison'; perhaps '--precision' is meant"},
        {"build m.onnx --precison=fp32", "there is no option '--precison'; perhaps '--precision' is meant"},
        {"zoo resnet51", "there is no sample model 'resnet51'; perhaps 'resnet50' is meant"},
        {"versus m.onnx --json out.json",
         "nothing is expected at 'out.json'; --json=out.json writes the tables there"}}) {
    const Outcome outcome = temper(folder, arguments);
    EXPECT_EQ(outcome.code, int(ErrorKind::usage)) << arguments;
    EXPECT_CONTAINS(outcome.err, meant);
  }
  EXPECT_EQ(temper(folder, "frobnicate").err.find("perhaps"), std::string::npos);
  for (const char* arguments : {"help biuld", "biuld --help"}) {
    const Outcome outcome = temper(folder, arguments);
    EXPECT_EQ(outcome.code, int(ErrorKind::usage)) << arguments;
    EXPECT_CONTAINS(outcome.err, "there is no verb 'biuld'; perhaps 'build' is meant");
  }
}

TEST(Words, HelpIsAVerbAndFitsTheTerminal) {
  const std::string folder = test_folder();
  const Outcome help = temper(folder, "help bench");
  EXPECT_EQ(help.code, 0);
  EXPECT_EQ(help.out, temper(folder, "bench --help").out);
  EXPECT_CONTAINS(help.out, "Usage: temper bench ");
  EXPECT_EQ(temper(folder, "help").out, temper(folder, "--help").out);
  EXPECT_EQ(temper(folder, "-V").out, temper(folder, "--version").out);
  EXPECT_NE(temper(folder, "versus --help").out.find("  1  Temper is slower"), std::string::npos);
  const std::string narrow = temper(folder, "bench --help", "export COLUMNS=80;").out;
  for (size_t at = 0, end; at < narrow.size(); at = end + 1) {
    end = narrow.find('\n', at);
    EXPECT_LE(end - at, 80u) << narrow.substr(at, end - at);
  }
}

// The names of options in a text, without what is typed behind them.
std::set<std::string> options_in(const std::string& text) {
  static const std::regex name("(^|[ ,])(--?[a-z][a-z0-9-]*)");
  std::set<std::string> found;
  for (std::sregex_iterator at(text.begin(), text.end(), name), end; at != end; ++at) found.insert((*at)[2]);
  return found;
}

TEST(Words, HelpOfABoundedNumberHasItsUnitAndARefusalItsBounds) {
  const std::string help = temper(test_folder(), "build --help").out;
  EXPECT_CONTAINS(help, "--build-limit SECONDS ");
  EXPECT_EQ(help.find("INT"), std::string::npos);
  const Outcome refused = temper(test_folder(), "build m.onnx -o p.plan --build-limit 0");
  EXPECT_EQ(refused.code, 2);
  EXPECT_CONTAINS(refused.err, "'0' is not a whole number from 1 to 86400");
}

TEST(Words, HelpHasGroupsAndAnExampleWhoseOptionsThereAre) {
  const std::string folder = test_folder();
  const std::string help = temper(folder, "--help").out;
  static const std::regex entry("\n  ([a-z]+(-[a-z]+)*)  ");
  int verbs = 0;
  for (std::sregex_iterator at(help.begin(), help.end(), entry), end; at != end; ++at) {
    const std::string verb = (*at)[1];
    if (verb == "trtexec" || verb == "as-tensorrt") continue;  // in words of their own
    ++verbs;
    const std::string text = temper(folder, verb + " --help").out;
    const size_t example = text.find("\nExample:\n  temper " + verb);
    ASSERT_NE(example, std::string::npos) << text;
    const size_t line = text.find("  temper", example), line_end = text.find('\n', line);
    const std::set<std::string> there = options_in(text.substr(line_end));
    for (const std::string& option : options_in(text.substr(line, line_end - line)))
      EXPECT_TRUE(there.contains(option)) << verb << " has no " << option;
    EXPECT_LT(line_end, text.find("\nOptions of every verb:\n")) << text;
  }
  EXPECT_GE(verbs, 20);
  const std::string bench = temper(folder, "bench --help").out;
  EXPECT_LT(bench.find("--streams"), bench.find("\nBuilding:\n"));  // what is its own comes first
  EXPECT_LT(bench.find("\nBuilding:\n"), bench.find("--timing-cache"));
}

TEST(Words, JsonGoesToStandardOutputOrToAFileTheSameWayEverywhere) {
  const std::string folder = test_folder();
  ASSERT_EQ(temper(folder, "zoo digits_cnn -o m.onnx --quiet").code, 0);
  const std::string shown = temper(folder, "inspect m.onnx --json").out;
  EXPECT_EQ(Json::parse(shown).at("schema"), "temper.model/1");
  EXPECT_EQ(temper(folder, "inspect m.onnx --json -").out, shown);
  EXPECT_EQ(temper(folder, "inspect m.onnx --json=-").out, shown);
  const Outcome saved = temper(folder, "inspect m.onnx --json=m.json");
  EXPECT_EQ(saved.code, 0) << saved.err;
  EXPECT_EQ(saved.out, "");
  EXPECT_EQ(read_file(folder + "m.json"), shown);
  EXPECT_EQ(temper(folder, "inspect m.onnx --json=m.onnx").code, int(ErrorKind::usage));  // never what it reads
  EXPECT_CONTAINS(temper(folder, "inspect m.onnx --json=a.json --json=b.json").err,
                  "--json=a.json and --json=b.json are two places to write to; give one");
  EXPECT_EQ(temper(folder, "inspect none.onnx --json=none.json").code, int(ErrorKind::bad_file));
  EXPECT_FALSE(std::filesystem::exists(folder + "none.json"));
  // Behind as-tensorrt it is the command's own.
  EXPECT_EQ(temper(folder, "as-tensorrt -- echo --json=echo.json").out, "--json=echo.json\n");
  EXPECT_FALSE(std::filesystem::exists(folder + "echo.json"));
  const Outcome benched = temper(folder, "bench m.onnx --iterations 3 --quick --quiet --json");
  EXPECT_EQ(Json::parse(benched.out).at("schema"), "temper.result/1");
}

TEST(Words, ColoursAreWhereTheyAreAskedFor) {
  const std::string folder = test_folder();
  const char* const warns = "doctor --cuda-path . --quiet --color ";
  EXPECT_EQ(temper(folder, concat(std::string_view(warns), "never")).code, 0);
  EXPECT_EQ(temper(folder, concat(std::string_view(warns), "pink")).code, int(ErrorKind::usage));
  ASSERT_EQ(temper(folder, "zoo digits_cnn -o m.onnx --color never").err.find('\x1b'), std::string::npos);
  EXPECT_NE(temper(folder, "zoo digits_cnn -o m.onnx --color always").err.find('\x1b'), std::string::npos);
}

TEST(Cache, IsShownAndClearedByParts) {
  const std::string folder = test_folder();
  ASSERT_EQ(temper(folder, "zoo digits_cnn -o m.onnx --quiet").code, 0);
  ASSERT_EQ(temper(folder, "build m.onnx -o m.plan --quick --quiet").code, 0);
  const std::string path = temper(folder, "cache --path").out;
  const std::string cache = path.substr(0, path.size() - 1);
  ASSERT_TRUE(std::filesystem::exists(cache + "/timings.json")) << path;
  write_text(cache + "/mine.txt", "somebody's");
  const Json before = Json::parse(temper(folder, "cache --json").out);
  EXPECT_EQ(before.at("parts")[0].at("files"), 1);
  EXPECT_GT(before.at("parts")[0].at("bytes"), 100);
  EXPECT_EQ(temper(folder, "cache --clear kernels").code, 0);
  EXPECT_TRUE(std::filesystem::exists(cache + "/timings.json"));
  EXPECT_CONTAINS(temper(folder, "cache --clear all").out, "cleared");
  EXPECT_FALSE(std::filesystem::exists(cache + "/timings.json"));
  EXPECT_TRUE(std::filesystem::exists(cache + "/mine.txt"));
}

// Its path alone is printed: nothing would be cleared.
TEST(Cache, ThePathIsNotAskedForTogetherWithClearing) {
  const std::string folder = test_folder();
  const Outcome refused = temper(folder, "cache --path --clear all");
  EXPECT_EQ(refused.code, int(ErrorKind::usage));
  EXPECT_CONTAINS(refused.err, "--path excludes --clear");
}

TEST(ZooVerb, OptionsOfAModelAreRefusedWithoutItsName) {
  const std::string folder = test_folder();
  const auto refused = [&](const std::string& arguments, std::string_view part) {
    const Outcome outcome = temper(folder, "zoo " + arguments);
    EXPECT_EQ(outcome.code, int(ErrorKind::usage)) << arguments;
    EXPECT_CONTAINS(outcome.err, part);
  };
  refused("-o f.onnx", "--output is of a model that is written; a name is needed: temper zoo NAME -o f.onnx");
  refused("--seed 3", "--seed is of a model that is written; a name is needed: temper zoo NAME -o FILE.onnx");
  refused("--list --opset 17", "--opset is of a model");
  refused("digits_cnn --list -o f.onnx", "--list writes no model; leave it out, or 'digits_cnn'");
  EXPECT_CONTAINS(temper(folder, "zoo").out, "digits_cnn");
  EXPECT_EQ(temper(folder, "zoo --list").out, temper(folder, "zoo").out);
}

TEST(ZooVerb, JsonIsWrittenToAFileAgain) {
  const std::string folder = test_folder();
  for (int i = 0; i < 2; ++i) {
    const Outcome listed = temper(folder, "zoo --list --json=list.json");
    EXPECT_EQ(listed.code, 0) << listed.err;
    EXPECT_EQ(listed.out, "");
    EXPECT_GT(Json::parse(read_file(folder + "list.json")).at("models").size(), 3u);
    const Outcome written = temper(folder, "zoo digits_cnn -o m.onnx --json=written.json");
    EXPECT_EQ(written.code, 0) << written.err;
    const Json json = Json::parse(read_file(folder + "written.json"));
    EXPECT_EQ(json.at("file"), "m.onnx");
    EXPECT_EQ(json.at("bytes"), std::filesystem::file_size(folder + "m.onnx"));
  }
}

TEST(BuildVerb, JsonIsWhatInspectHasOfThePlan) {
  const std::string folder = test_folder();
  ASSERT_EQ(temper(folder, "zoo digits_cnn -o m.onnx --quiet").code, 0);
  const Outcome built = temper(folder, "build m.onnx -o m.plan --no-measure --threads 1 --quiet --json");
  ASSERT_EQ(built.code, 0) << built.err;
  Json json = Json::parse(built.out);
  EXPECT_EQ(json.at("plan_path"), "m.plan");
  EXPECT_EQ(json.at("all_cached"), false);
  EXPECT_EQ(json.at("plan_bytes"), std::filesystem::file_size(folder + "m.plan"));
  EXPECT_GT(json.at("build_s"), 0);
  EXPECT_EQ(json.at("notes").size(), 1u);
  json.erase("plan_path"), json.erase("all_cached");
  EXPECT_EQ(json, Json::parse(temper(folder, "inspect m.plan --json").out));
  const std::string again = "build m.onnx -o m.plan --quick --threads 1 --json=build.json";
  for (const bool all_cached : {false, true}) {
    const Outcome saved = temper(folder, again);
    EXPECT_EQ(saved.code, 0) << saved.err;
    EXPECT_EQ(saved.out, "");
    EXPECT_EQ(Json::parse(read_file(folder + "build.json")).at("all_cached"), all_cached);
  }
}

TEST(Cache, ThePathIsThereAsJson) {
  const std::string folder = test_folder();
  const Json json = Json::parse(temper(folder, "cache --path --json").out);
  EXPECT_EQ(json.at("schema"), "temper.cache_path/1");
  EXPECT_EQ(json.at("folder").get<std::string>() + "\n", temper(folder, "cache --path").out);
}

}  // namespace
}  // namespace temper
