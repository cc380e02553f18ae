// SPDX-License-Identifier: Apache-2.0
// temper generate: prompts of ids and of text, with a Python that plays the tokenizer.
#include "runtime/generate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "../passes/tiny_gpt.h"
#include "optimize/build_engine.h"
#include "program.h"

namespace temper {
namespace {

using testing::TinyGpt;

// tiny.plan, with caches of 32 positions, and tokenizer.json beside it.
std::shared_ptr<const Engine> write_plan(const std::string& folder, int64_t batch = 1) {
  BuildOptions options;
  options.measure = false;
  options.threads = 1;
  options.cache = 32;
  options.shapes["input_ids"] = {{batch, 1}, {batch, 2}, {batch, 4}};
  auto engine = build_engine(TinyGpt{}.graph(), {}, options);
  save_engine(*engine, folder + "tiny.plan");
  write_text(folder + "tokenizer.json", "{}");
  return engine;
}

std::vector<int64_t> tokens_of(const std::shared_ptr<const Engine>& engine, std::vector<int64_t> prompt, int64_t most) {
  TokenReader reader(engine);
  GenerateOptions options;
  options.most = most;
  Generator generator(reader, {std::move(prompt)}, options);
  std::vector<int64_t> tokens;
  for (std::vector<int64_t> chosen; !(chosen = generator.next()).empty();) tokens.push_back(chosen[0]);
  return tokens;
}

// Tokens are letters, from a on; k, of 10, ends a text.
std::string with_tokenizer(const std::string& folder) {
  write_text(folder + "m/temper/export/__init__.py", "");
  write_text(folder + "m/temper/__init__.py", "");
  write_text(folder + "m/temper/__main__.py", R"(
import json, sys
print(json.dumps({"ends": [10]}), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    if "encode" in asked: print(json.dumps({"ids": [ord(c) - ord("a") for c in asked["encode"]]}), flush=True)
    else: print(json.dumps({"text": "".join(chr(ord("a") + i) for i in asked["decode"])}), flush=True)
)");
  return "export PYTHONPATH='" + folder + "m';";
}
std::string letters(const std::vector<int64_t>& tokens) {
  std::string text;
  for (const int64_t token : tokens) text += char('a' + token);
  return text;
}

TEST(GenerateVerb, GoesOnFromTokenIds) {
  const std::string folder = test_folder();
  const auto engine = write_plan(folder);
  const auto want = tokens_of(engine, {3, 1, 4}, 7);
  std::string line;
  for (const int64_t token : want) line += concat(line.empty() ? "" : ",", token);
  const Outcome shown = temper(folder, "generate tiny.plan --prompt-ids 3,1,4 --max-tokens 7");
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_EQ(shown.out, line + "\n");
  EXPECT_CONTAINS(shown.err, "7 tokens behind 3, the first after ");
  EXPECT_CONTAINS(shown.err, "tokens/s");
  const Outcome json = temper(folder, "generate tiny.plan --prompt-ids 3,1,4 --max-tokens 7 --json");
  const auto read = nlohmann::json::parse(json.out);
  EXPECT_EQ(read["rows"][0]["ids"], nlohmann::json(want));
  EXPECT_EQ(read["rows"][0]["why"], "most");
  EXPECT_GT(read["tokens_per_s"], 0);
}

TEST(GenerateVerb, AnswersAParentThatAsksAgainAndAgain) {
  const std::string folder = test_folder();
  const auto engine = write_plan(folder);
  const Outcome said = temper(folder, "generate tiny.plan --pipe",
                              R"(printf '%s\n' '{"ids": [[3, 1, 4]], "most": 7}' '{"ids": [[9]], "most": 1}' )"
                              R"('{"ids": [[3, 1, 4]], "logits": true}' |)");
  ASSERT_EQ(said.code, 0) << said.err;
  std::istringstream lines(said.out);
  std::vector<nlohmann::json> answers;
  for (std::string line; std::getline(lines, line);) answers.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(answers.size(), 4u);
  EXPECT_EQ(answers[0]["vocabulary"], 11);
  EXPECT_EQ(answers[1]["tokens"][0], nlohmann::json(tokens_of(engine, {3, 1, 4}, 7)));
  EXPECT_GT(answers[1]["rate"], 0);
  EXPECT_EQ(answers[2]["tokens"][0], nlohmann::json(tokens_of(engine, {9}, 1)));  // nothing is left of the text before
  EXPECT_TRUE(answers[2]["rate"].is_null());
  const std::vector<float> logits = answers[3]["logits"][0];
  EXPECT_EQ(std::max_element(logits.begin(), logits.end()) - logits.begin(), answers[1]["tokens"][0][0]);
  EXPECT_EQ(temper(folder, "generate tiny.plan --pipe", "echo what |").code, int(ErrorKind::bad_file));
  EXPECT_EQ(temper(folder, "generate tiny.plan --pipe --prompt-ids 1").code, int(ErrorKind::usage));
}

TEST(GenerateVerb, TakesSeveralPromptsAsABatch) {
  const std::string folder = test_folder();
  const auto engine = write_plan(folder);
  std::filesystem::remove(folder + "tiny.plan");
  write_plan(folder, 2);
  const Outcome json = temper(folder, "generate tiny.plan --prompt-ids 3,1,4 --prompt-ids 9 --max-tokens 5 --json");
  ASSERT_EQ(json.code, 0) << json.err;
  const auto read = nlohmann::json::parse(json.out);
  EXPECT_EQ(read["rows"][0]["ids"], nlohmann::json(tokens_of(engine, {3, 1, 4}, 5)));
  EXPECT_EQ(read["rows"][1]["ids"], nlohmann::json(tokens_of(engine, {9}, 5)));
}

TEST(GenerateVerb, ShowsTextUpToAStop) {
  const std::string folder = test_folder();
  const auto engine = write_plan(folder);
  const std::string before = with_tokenizer(folder), python = " --python '" TEMPER_PYTHON "'";
  const std::string text = letters(tokens_of(engine, {3, 1, 4}, 9));
  const Outcome whole =
      temper(folder, "generate tiny.plan --prompt dbe --max-tokens 9 --ignore-end --quiet" + python, before);
  EXPECT_EQ(whole.code, 0) << whole.err;
  EXPECT_EQ(whole.out, text + "\n");
  const std::string stop = text.substr(4, 2);
  const Outcome stopped = temper(
      folder, "generate tiny.plan --prompt dbe --max-tokens 9 --ignore-end --json --stop " + stop + python, before);
  const auto read = nlohmann::json::parse(stopped.out);
  EXPECT_EQ(read["rows"][0]["text"], text.substr(0, text.find(stop)));
  EXPECT_EQ(read["rows"][0]["why"], "stop");
}

TEST(GenerateVerb, OptionsOfDrawingNeedATemperature) {
  const std::string folder = test_folder();
  write_plan(folder);
  const std::string command = "generate tiny.plan --prompt-ids 1 --max-tokens 3";
  for (const std::string option : {" --top-k 5", " --top-p 0.9", " --seed 1"}) {
    const Outcome greedy = temper(folder, command + option);
    EXPECT_EQ(greedy.code, 2) << option;
    EXPECT_CONTAINS(greedy.err, "give --temperature above 0");
    EXPECT_EQ(temper(folder, command + option + " --temperature 0").code, 2) << option;
    EXPECT_EQ(temper(folder, command + option + " --temperature 0.8").code, 0) << option;
  }
  EXPECT_EQ(temper(folder, command + " --repetition-penalty 1.2").code, 0) << "which greedy choice takes, too";
}

TEST(GenerateVerb, RefusesWithWhatToDo) {
  const std::string folder = test_folder();
  write_plan(folder);
  const auto refused = [&](const std::string& words, const std::string& said, ErrorKind kind = ErrorKind::usage) {
    const Outcome outcome = temper(folder, "generate tiny.plan " + words);
    EXPECT_EQ(outcome.code, int(kind)) << words << ": " << outcome.err;
    EXPECT_CONTAINS(outcome.err, said);
  };
  refused("", "either --prompt or --prompt-ids");
  refused("--prompt-ids 3,x", "with commas between");
  refused("--prompt-ids 11", "outside of the vocabulary of 11");
  refused("--prompt-ids 1 --prompt-ids 2", "a batch of 1");
  refused("--prompt-ids 1 --top-p 0", "top-p");
  refused("--prompt-ids 1 --stop-ids 11", "vocabulary");
  for (const char* seed : {"-1", "x", "1.5", "18446744073709551616"})
    refused(concat("--prompt-ids 1 --temperature 1 --seed ", seed), "a whole number from 0 to 2^64-1");
  refused("--prompt a --tokenizer nowhere.json", "does not exist", ErrorKind::bad_file);
  refused("--prompt a --python /nowhere/python3", "library tokenizers", ErrorKind::unsupported);
  std::string ids = "1";
  for (int i = 0; i < 32; ++i) ids += ",1";
  refused("--prompt-ids " + ids, "a prompt of 33 tokens does not fit into a cache of 32 positions");
  refused("--prompt-ids 1 --cache 8", "--cache cannot change it");
}

}  // namespace
}  // namespace temper
