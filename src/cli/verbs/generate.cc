// SPDX-License-Identifier: Apache-2.0
// temper generate: goes on from a prompt, token by token.
#include "runtime/generate.h"

#include <cstdio>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/json_struct.h"
#include "base/parse.h"
#include "base/quote.h"
#include "base/version.h"
#include "cli/json_text.h"
#include "cli/model.h"
#include "cli/tokenizer.h"
#include "plan/file.h"

namespace temper::cli {

// What a line of --pipe asks for.
struct Asked {
  std::vector<std::vector<int64_t>> ids;  // the prompts, by row
  int64_t most = 1;
  bool logits = false;  // those behind the prompts, in the place of tokens
};
template <class V, Is<Asked> T>
void json_fields(V& v, T& asked) {
  v.field("ids", asked.ids);
  v.may_lack("most", asked.most);
  v.may_lack("logits", asked.logits);
}

namespace {

struct GenerateFlags {
  std::string model, tokenizer, python, seed = "0";
  ModelFlags flags;
  std::vector<std::string> prompts, prompt_ids, stops;
  std::vector<int64_t> stop_ids;
  GenerateOptions generate;
  bool ignore_end = false, pipe = false;
};

std::vector<int64_t> parse_ids(const std::string& text) {
  std::vector<int64_t> ids;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const auto id = parse_number<int64_t>(std::string_view(text).substr(at, end - at));
    if (!id) fail(ErrorKind::usage, "--prompt-ids '", text, "': write token ids with commas between, like 464,3290");
    ids.push_back(*id);
    at = end + 1;
  }
  return ids;
}

// The tokenizer that is named, a file or the folder that has it; else that beside the model. "": none.
std::string tokenizer_file(const GenerateFlags& options) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path named =
      options.tokenizer.empty() ? fs::path(options.model).parent_path() : fs::path(options.tokenizer);
  const fs::path file = fs::is_directory(named, error) || named.empty() ? named / "tokenizer.json" : named;
  if (fs::exists(file, error)) return file.string();
  if (!options.tokenizer.empty()) fail(ErrorKind::bad_file, "'", file.string(), "' does not exist");
  return "";
}

struct Row {
  std::vector<int64_t> prompt, tokens;
  std::unique_ptr<GrowingText> text;  // null: without a tokenizer
};

// For a parent that compares several engines (benchmarks/language_models.py): what the plan is, and for every line of
// JSON on standard input one with the tokens, or the logits, and the times. The caches and what was recorded stay.
void pipe(const GenerateFlags& options, Context& context) {
  if (!is_plan(options.model)) fail(ErrorKind::usage, "--pipe takes a plan file");
  if (!options.prompts.empty() || !options.prompt_ids.empty())
    fail(ErrorKind::usage, "with --pipe prompts come on standard input; leave out --prompt and --prompt-ids");
  TokenReader reader(load_or_build(options.model, options.flags, context));
  const auto say = [](const nlohmann::ordered_json& json) {
    std::printf("%s\n", strict::dump(json).c_str());
    std::fflush(stdout);
  };
  say({{"version", version()},
       {"batch", reader.batch()},
       {"positions", reader.positions()},
       {"vocabulary", reader.vocabulary()}});
  for (std::string line; std::getline(std::cin, line);) {
    const strict::Json json = strict::parse(line, "what is asked");
    Asked asked;
    read_json(JsonInput(json, "", ""), asked);
    reader.reset();
    nlohmann::ordered_json answer;
    if (asked.logits) {
      reader.read(asked.ids);
      for (int64_t row = 0; row < reader.batch(); ++row) {
        const std::span<const float> logits = reader.logits(row);
        answer["logits"].push_back(std::vector<float>(logits.begin(), logits.end()));
      }
    } else {
      GenerateOptions generate = options.generate;
      generate.most = asked.most;
      Generator generator(reader, asked.ids, generate);
      std::vector<std::vector<int64_t>> tokens(asked.ids.size());
      for (std::vector<int64_t> chosen; !(chosen = generator.next()).empty();)
        for (size_t row = 0; row < chosen.size(); ++row)
          if (chosen[row] >= 0) tokens[row].push_back(chosen[row]);
      const double behind = double(generator.tokens() - reader.batch()), rest = generator.rest_ms() / 1000;
      answer = {{"tokens", tokens}, {"first_ms", generator.first_ms()}};
      answer["rate"] = behind > 0 && rest > 0 ? nlohmann::ordered_json(behind / rest) : nlohmann::ordered_json();
    }
    say(answer);
  }
}

void run(GenerateFlags& options, Context& context) {
  const auto seed = parse_number<uint64_t>(options.seed);
  if (!seed) fail(ErrorKind::usage, "--seed '", options.seed, "': it is a whole number from 0 to 2^64-1");
  options.generate.sample.seed = *seed;
  check(options.generate.sample);
  if (options.pipe) return pipe(options, context);
  const bool text = !options.prompts.empty();
  if (text != options.prompt_ids.empty()) fail(ErrorKind::usage, "give either --prompt or --prompt-ids");
  for (const std::string& stop : options.stops)
    if (stop.empty()) fail(ErrorKind::usage, "--stop is empty: it is a text to stop at");
  const std::string file = tokenizer_file(options);
  if (text && file.empty())
    fail(ErrorKind::usage, "--prompt needs a tokenizer: no tokenizer.json lies beside '", options.model,
         "'; name one with --tokenizer, or give token ids with --prompt-ids");
  std::unique_ptr<Tokenizer> tokenizer;
  if (text || !options.tokenizer.empty() || !options.stops.empty()) {
    if (file.empty()) fail(ErrorKind::usage, "--stop needs a tokenizer; name one with --tokenizer");
    tokenizer = std::make_unique<Tokenizer>(file, options.python);
  }
  std::vector<Row> rows;
  for (const std::string& prompt : options.prompts) rows.push_back({tokenizer->encode(prompt), {}, {}});
  for (const std::string& ids : options.prompt_ids) rows.push_back({parse_ids(ids), {}, {}});
  for (Row& row : rows)
    if (tokenizer) row.text = std::make_unique<GrowingText>(*tokenizer, options.stops);

  if (!is_plan(options.model)) {
    if (!options.flags.cache)
      fail(ErrorKind::usage, "'", options.model,
           "' is no plan: say with --cache POSITIONS how many tokens, prompt and answer together, it shall keep");
    if (options.flags.shapes.empty() && rows.size() > 1)
      options.flags.shapes = {concat("input_ids=", rows.size(), "x1:", rows.size(), "x32:", rows.size(), "x",
                                     std::min<int64_t>(128, options.flags.cache))};
  }
  const auto engine = load_or_build(options.model, options.flags, context);
  TokenReader reader(engine);
  if (int64_t(rows.size()) != reader.batch())
    fail(ErrorKind::usage, "there are ", rows.size(), " prompts, and the plan has a batch of ", reader.batch());
  options.generate.end_with = options.stop_ids;
  if (tokenizer && !options.ignore_end)
    for (const int64_t end : tokenizer->ends())
      if (end < reader.vocabulary()) options.generate.end_with.push_back(end);
  std::vector<std::vector<int64_t>> prompts;
  prompts.reserve(rows.size());
  for (const Row& row : rows) prompts.push_back(row.prompt);

  const bool streams = rows.size() == 1 && !context.json;
  const auto show = [&](const std::string& piece) {
    if (!streams || piece.empty()) return;
    std::fputs(printable_lines(piece).c_str(), stdout);
    std::fflush(stdout);
  };
  Generator generator(reader, std::move(prompts), options.generate);
  for (std::vector<int64_t> chosen; !(chosen = generator.next()).empty();)
    for (size_t i = 0; i < rows.size(); ++i) {
      if (chosen[i] < 0) continue;
      Row& row = rows[i];
      row.tokens.push_back(chosen[i]);
      if (!row.text) {
        show(concat(row.tokens.size() > 1 ? "," : "", chosen[i]));
        continue;
      }
      if (generator.why(int64_t(i)) == "end") continue;  // the token that ends it is no text
      bool stopped = false;
      show(row.text->add(chosen[i], stopped));
      if (stopped) generator.end(int64_t(i), "stop");
    }
  for (Row& row : rows)
    if (row.text) show(row.text->rest());

  const double rest = generator.rest_ms() / 1000;
  const int64_t behind = generator.tokens() - int64_t(rows.size());
  const double rate = rest > 0 ? double(behind) / rest : 0;
  if (context.json) {
    nlohmann::ordered_json json = {
        {"first_ms", generator.first_ms()}, {"tokens", generator.tokens()}, {"rows", nlohmann::ordered_json::array()}};
    json["tokens_per_s"] = behind > 0 ? nlohmann::ordered_json(rate) : nlohmann::ordered_json();
    for (size_t i = 0; i < rows.size(); ++i) {
      nlohmann::ordered_json entry = {
          {"prompt_ids", rows[i].prompt}, {"ids", rows[i].tokens}, {"why", generator.why(int64_t(i))}};
      if (rows[i].text) entry["text"] = rows[i].text->text();
      json["rows"].push_back(std::move(entry));
    }
    std::printf("%s\n", json_text(json).c_str());
    return;
  }
  if (!streams)
    for (size_t i = 0; i < rows.size(); ++i) {
      std::string line = rows[i].text ? rows[i].text->text() : "";
      for (size_t k = 0; !rows[i].text && k < rows[i].tokens.size(); ++k)
        line += concat(k ? "," : "", rows[i].tokens[k]);
      std::printf("%zu: %s\n", i + 1, printable_lines(line).c_str());
    }
  else std::printf("\n");
  if (context.verbosity < 0) return;
  std::fflush(stdout);
  std::fprintf(stderr, "%lld tokens behind %lld, the first after %.1f ms", (long long)generator.tokens(),
               (long long)(reader.length(0) + 1 - int64_t(rows[0].tokens.size())), generator.first_ms());
  if (behind > 0) std::fprintf(stderr, ", then %.1f tokens/s", rate);
  std::fprintf(stderr, "\n");
}

}  // namespace

void add_generate(Command& verb, Context& context) {
  auto options = std::make_shared<GenerateFlags>();
  SampleOptions& sample = options->generate.sample;
  verb.add_option("model", options->model, "plan built with --cache, or ONNX model with past keys and values")
      .required()
      .type_name("MODEL|PLAN");
  verb.add_option("--prompt", options->prompts, "text to go on from; several are a batch").allow_extra_args(false);
  verb.add_option("--prompt-ids", options->prompt_ids, "the same as token ids with commas between, e.g. 464,3290")
      .allow_extra_args(false)
      .type_name("IDS");
  verb.add_option("--tokenizer", options->tokenizer,
                  "tokenizer.json, or the folder that has one; by default that beside the model")
      .type_name("FILE");
  verb.add_option("--max-tokens", options->generate.most, "most tokens to generate")
      .check(whole_number(1))
      .capture_default_str();
  verb.add_option("--temperature", sample.temperature,
                  "number that logits are divided by before a token is drawn; 0 takes the most likely one")
      .capture_default_str();
  verb.add_option("--top-k", sample.top_k, "number of the most likely tokens to draw from; 0 for all")
      .capture_default_str();
  verb.add_option("--top-p", sample.top_p, "share of the probability that the most likely tokens to draw from have")
      .capture_default_str();
  verb.add_option("--repetition-penalty", sample.repetition_penalty,
                  "factor by which tokens that came before are made less likely; 1 for none")
      .capture_default_str();
  verb.add_option("--seed", options->seed, "seed for drawing tokens").type_name("UINT").capture_default_str();
  verb.add_option("--stop", options->stops, "text to stop at, which is not shown").allow_extra_args(false);
  verb.add_option("--stop-ids", options->stop_ids, "token ids to stop behind").delimiter(',').type_name("IDS");
  verb.add_flag("--ignore-end", options->ignore_end, "go on behind the tokens that end a text");
  verb.add_flag("--pipe", options->pipe,
                "go on from the prompts that come as JSON on standard input; for use by a parent process");
  verb.add_option("--python", options->python, "Python interpreter that has the library tokenizers")
      .type_name("PROGRAM");
  add_model_flags(verb, options->flags);
  add_cache_flag(verb, options->flags);
  verb.callback([options, verb, &context] {
    const bool draws =
        verb.get_option("--top-k").given() || verb.get_option("--top-p").given() || verb.get_option("--seed").given();
    check(options->generate.sample);
    if (draws && options->generate.sample.temperature == 0)
      fail(ErrorKind::usage, "--top-k, --top-p and --seed draw tokens; give --temperature above 0");
    run(*options, context);
  });
}

}  // namespace temper::cli
