// SPDX-License-Identifier: Apache-2.0
// temper repository and temper serve as a user calls them, without a server.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "../paths.h"
#include "base/file.h"
#include "program.h"

namespace temper {
namespace {

namespace fs = std::filesystem;

std::string with_plan() {
  const std::string folder = test_folder();
  const Outcome built = temper(folder, "build '" + paths::source_folder() +
                                           "/models/digits_cnn.onnx' -o digits.plan --shapes "
                                           "image=1x1x8x8:1x1x8x8:4x1x8x8 --threads 1 --no-measure");
  EXPECT_EQ(built.code, 0) << built.err;
  return folder;
}

TEST(RepositoryVerb, AddsVersionsAndSaysWhere) {
  const std::string folder = with_plan();
  EXPECT_EQ(temper(folder, "repository add r digits digits.plan").out, "r/digits/1\n");
  const Outcome second = temper(folder, "repository add r digits digits.plan --json");
  const auto json = nlohmann::json::parse(second.out);
  EXPECT_EQ(json.at("schema"), "temper.repository/1");
  EXPECT_EQ(json.at("folder"), "r/digits/2");
  EXPECT_EQ(temper(folder, "repository add r digits digits.plan --version 9").out, "r/digits/9\n");
  const Outcome again = temper(folder, "repository add r digits digits.plan --version 9");
  EXPECT_EQ(again.code, 2);
  EXPECT_CONTAINS(again.err, "versions are never replaced");
  EXPECT_EQ(temper(folder, "repository add r digits missing.plan").code, 3);
  EXPECT_EQ(temper(folder, "repository add r 'a/b' digits.plan").code, 2);
  EXPECT_EQ(temper(folder, "repository take r digits digits.plan").code, 2);
  const Outcome pictures = temper(folder, "repository add r pictures digits.plan --encoded-pictures");
  EXPECT_EQ(pictures.code, 2);
  EXPECT_CONTAINS(pictures.err, "--input-pictures");
  EXPECT_FALSE(fs::exists(folder + "/r/pictures"));
}

TEST(RepositoryVerb, OptionsOfANewModelAreRefusedOfAKnownOne) {
  const std::string folder = with_plan();
  ASSERT_EQ(temper(folder, "repository add r digits digits.plan --instances 2").code, 0);
  std::ofstream(folder + "/names.txt") << "zero\n";
  const std::string config = read_file(folder + "/r/digits/config.pbtxt");
  for (const char* option : {"--instances 4", "--max-delay 0", "--labels names.txt", "--encoded-pictures"}) {
    const Outcome refused = temper(folder, concat("repository add r digits digits.plan ", std::string_view(option)));
    EXPECT_EQ(refused.code, 2) << option;
    const std::string name = std::string(option).substr(0, std::string(option).find(' '));
    EXPECT_CONTAINS(refused.err, concat("'digits' is there and its config.pbtxt stays; leave ", name, " out"));
  }
  EXPECT_FALSE(fs::exists(folder + "/r/digits/labels.txt"));
  EXPECT_FALSE(fs::exists(folder + "/r/digits/2"));
  EXPECT_EQ(read_file(folder + "/r/digits/config.pbtxt"), config);
}

TEST(ServeVerb, OptionsOfPlansAreRefusedOfARepository) {
  const std::string folder = with_plan();
  ASSERT_EQ(temper(folder, "repository add r digits digits.plan").code, 0);
  for (const char* option : {"--instances 4", "--max-delay 0", "--encoded-pictures"}) {
    const Outcome refused = temper(folder, concat("serve --repository r --dry-run ", std::string_view(option)));
    EXPECT_EQ(refused.code, 2) << option;
    EXPECT_EQ(refused.out, "");
    const std::string name = std::string(option).substr(0, std::string(option).find(' '));
    EXPECT_CONTAINS(refused.err, name + " is of plans that are served");
  }
}

TEST(ServeVerb, ADryRunWritesTheRepositoryAndPrintsTheCommand) {
  const std::string folder = with_plan();
  const Outcome dry = temper(folder,
                             "serve digits.plan other=digits.plan --repository r --instances 2 --max-delay 100 --port "
                             "9100 --server-option=--log-verbose=1 --dry-run");
  EXPECT_EQ(dry.code, 0) << dry.err;
  EXPECT_CONTAINS(dry.out, "--model-repository=r ");
  EXPECT_CONTAINS(dry.out, "--http-address=127.0.0.1 --http-port=9100 --grpc-address=127.0.0.1 --grpc-port=9101");
  EXPECT_CONTAINS(dry.out, "--log-verbose=1\n");
  for (const char* name : {"digits", "other"}) {
    const std::string config = read_file(concat(folder, "/r/", name, "/config.pbtxt"));
    EXPECT_CONTAINS(config, "count: 2 }");
    EXPECT_CONTAINS(config, "max_queue_delay_microseconds: 100");
    EXPECT_TRUE(fs::exists(concat(folder, "/r/", name, "/1/model.temper")));
  }
  const Outcome full = temper(folder, "serve digits.plan --repository r --dry-run");
  EXPECT_EQ(full.code, 2);
  EXPECT_CONTAINS(full.err, "is not empty");
  EXPECT_EQ(temper(folder, "serve --repository r --dry-run").code, 0);
  const Outcome nothing = temper(folder, "serve --dry-run");
  EXPECT_EQ(nothing.code, 2);
  EXPECT_CONTAINS(nothing.err, "serve needs a plan");
  EXPECT_EQ(temper(folder, "serve --repository missing --dry-run").code, 3);
  std::ofstream(folder + "/no.plan") << "x";
  const Outcome no_plan = temper(folder, "serve no.plan --dry-run");
  EXPECT_EQ(no_plan.code, 3);
  EXPECT_CONTAINS(no_plan.err, "temper build");
  const Outcome no_server = temper(folder, "serve digits.plan --triton ./missing");
  EXPECT_EQ(no_server.code, 3);
  EXPECT_CONTAINS(no_server.err, "is no program");
}

// Signals and the exit code are the server's: the program becomes it.
TEST(ServeVerb, TheProgramBecomesTheServer) {
  const std::string folder = with_plan();
  std::ofstream(folder + "/server") << "#!/bin/sh\necho \"$$ $1\"\nexit 7\n";
  fs::permissions(folder + "/server", fs::perms(0755));
  const Outcome served = temper(folder, "serve digits.plan --repository r --triton ./server");
  EXPECT_EQ(served.code, 7) << served.err;
  EXPECT_CONTAINS(served.out, " --model-repository=r\n");
}

TEST(ServeVerb, TheCommandIsThereAsAListOfWords) {
  const std::string folder = with_plan();
  const std::string serve = "serve digits.plan --port 9100 --server-option=--log-verbose=1 --repository ";
  const Outcome dry = temper(folder, serve + "'a b' --dry-run --json");
  ASSERT_EQ(dry.code, 0) << dry.err;
  const auto json = nlohmann::json::parse(dry.out);
  EXPECT_EQ(json.at("schema"), "temper.serve/1");
  EXPECT_EQ(json.at("repository"), "a b");
  const auto words = json.at("command").get<std::vector<std::string>>();
  for (const char* word : {"--model-repository=a b", "--http-port=9100", "--log-verbose=1"})
    EXPECT_EQ(std::count(words.begin(), words.end(), word), 1) << word;
  // The server would print to what becomes the file, and nobody would write it.
  const Outcome refused = temper(folder, serve + "r --json=serve.json");
  EXPECT_EQ(refused.code, 2);
  EXPECT_CONTAINS(refused.err, "--json is for --dry-run");
  EXPECT_FALSE(fs::exists(folder + "/r"));
}

}  // namespace
}  // namespace temper
