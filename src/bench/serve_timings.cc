// SPDX-License-Identifier: Apache-2.0
#include "bench/serve_timings.h"

#include <unistd.h>

#include <cerrno>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "backends/cuda/support/serve_kernels.h"
#include "base/parse.h"
#include "bench/cases.h"
#include "tune/helper.h"
#include "tune/tuner.h"

namespace temper {

namespace {

bool read_line(std::string& received, std::string& line) {
  for (;;) {
    if (const size_t end = received.find('\n'); end != received.npos) {
      line = received.substr(0, end);
      received.erase(0, end + 1);
      return true;
    }
    char buffer[4096];
    const ssize_t got = read(0, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    received.append(buffer, size_t(got));
  }
}

bool write_line(const std::string& line) {
  const std::string text = line + "\n";
  for (size_t at = 0; at < text.size();) {
    const ssize_t written = write(1, text.data() + at, text.size() - at);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    at += size_t(written);
  }
  return true;
}

// A problem as its text tells it, with constants made up: how long it takes does not depend on them.
struct Told {
  std::string text;
  std::vector<Tensor> inputs;  // of constants alone
  Problem problem;
};

Told told(const std::string& text) {
  Told told{text, {}, {}};
  // "op(inputs) fields -> outputs threads=1 cold chains=1"
  constexpr std::string_view kThreads = " threads=";
  const size_t arrow = text.rfind(" -> "), at = text.rfind(kThreads);
  const auto threads =
      at == text.npos ? std::nullopt : parse_leading<int>(std::string_view(text).substr(at + kThreads.size()));
  if (arrow == text.npos || !threads || at < arrow) fail(ErrorKind::bad_file, "'", text, "' is no problem");
  const KernelCase whole = parse_cases(std::string_view(text).substr(0, arrow)).at(0);
  KernelCase constants = whole;
  for (CaseInput& input : constants.inputs) input.present = input.present && input.constant;
  told.inputs = make_case_inputs(constants, 1);
  told.problem = make_case_problem(whole, told.inputs, threads->value);
  told.problem.cold_constants = text.find(" cold", at) != text.npos;
  return told;
}

}  // namespace

int serve_timings(const std::vector<std::string>& arguments) {
  if (arguments.empty()) return int(ErrorKind::usage);
  if (arguments[0] == cuda::kServeKernels) return cuda::serve_kernels({arguments.begin() + 1, arguments.end()});
  if (!write_line(TimingHelper::greeting())) return int(ErrorKind::machine);
  std::string received, line;
  std::optional<Device> device;
  std::optional<Tuner> tuner;
  TimingCache cache;
  std::optional<Told> problem;
  const auto reply = [](const char* what, const auto& value) {
    return write_line(nlohmann::json{{what, value}}.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
  };
  // The device is opened while the other side does something else.
  std::string why_not;
  try {
    device = open_device(arguments[0], {std::vector<std::string>(arguments.begin() + 1, arguments.end())});
    tuner.emplace(*device, cache);
  } catch (const Error& error) { why_not = error.what(); }
  while (read_line(received, line)) {
    std::string key;
    try {
      const auto question = nlohmann::json::parse(line);
      key = question.at("key");
      if (!tuner) fail(ErrorKind::unsupported, why_not);
      const std::string start = device->fingerprint + " | ";
      const size_t candidate = key.rfind(" | "), chains = key.rfind(" chains=", candidate);
      if (!key.starts_with(start) || candidate == key.npos || chains == key.npos || chains < start.size())
        fail(ErrorKind::bad_file, "'", key, "' is no candidate for this device");
      const std::string text = key.substr(start.size(), chains - start.size());
      if (!problem || problem->text != text) problem = told(text);
      const auto [tactic, config] = candidate_of_key(std::string_view(key).substr(candidate + 3),
                                                     problem->problem.inputs.size(), problem->problem.outputs.size());
      if (!tactic) fail(ErrorKind::bad_file, "'", key, "' names no tactic of this program");
      if (problem->problem.text() != text)
        fail(ErrorKind::bad_file, "'", text, "' is read as '", problem->problem.text(), "'");
      const double best_ms = question.value("best_ms", std::numeric_limits<double>::infinity());
      if (!reply("ms", tuner->time(problem->problem, *tactic, config, 1, question.at("workspace"), best_ms).ms))
        return 0;
    } catch (const Error& error) {
      if (tuner && tuner->is_lost()) {
        reply("lost", cache.fault(key).value_or(error.what()));
        return int(ErrorKind::machine);
      }
      if (!reply("failed", std::string(error.what()))) return 0;
    } catch (const std::exception& error) {
      if (!reply("failed", std::string(error.what()))) return 0;
    }
  }
  return 0;
}

}  // namespace temper
