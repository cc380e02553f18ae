// SPDX-License-Identifier: Apache-2.0
#include "tune/helper.h"

#include <sys/wait.h>

#include <cmath>
#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/version.h"

namespace temper {

namespace {

// Opening the GPU and its libraries, and a candidate that its library compiles first, take seconds.
constexpr int kSecondsToStart = 60, kSecondsToTime = 60;

}  // namespace

TimingHelper::TimingHelper(std::vector<std::string> command, std::string device, const DeviceSettings& settings)
    : command_(std::move(command)), given_up_(command_.empty()) {
  command_.push_back(std::move(device));
  command_.insert(command_.end(), settings.library_folders.begin(), settings.library_folders.end());
}

TimingHelper::~TimingHelper() {
  bool by_itself = false;
  end(by_itself);
}

std::string TimingHelper::greeting() { return concat("temper ", version(), ' ', revision(), " times candidates"); }

void TimingHelper::start() {
  if (given_up_ || process_.is_started()) return;
  ready_ = false;
  const int error = process_.start(command_);
  if (error == 0) return;
  given_up_ = true;
  log(LogLevel::debug, "candidates of other libraries are timed in this process: '", command_[0],
      "' cannot be started: ", std::strerror(error));
}

std::string TimingHelper::end(bool& by_itself) {
  by_itself = false;
  if (!process_.is_started()) return "it did not start";
  const ChildProcess::End end = process_.end();  // unless it waits for the GPU, it ends with its input
  const int status = end.status;
  by_itself = end.was_killed || !WIFSIGNALED(status) || (WTERMSIG(status) != SIGKILL && WTERMSIG(status) != SIGTERM);
  if (end.was_killed) return concat("it did not end within ", kSecondsToTime, " seconds");
  return WIFSIGNALED(status) ? concat("its process was ended by signal ", WTERMSIG(status))
                             : concat("its process ended with code ", WEXITSTATUS(status));
}

TimingHelper::Answer TimingHelper::time(const std::string& key, double best_ms, int64_t workspace_limit) {
  start();
  if (given_up_) return {};
  std::string line;
  bool by_itself = false;
  if (!ready_ && (!process_.conversation().receive_line(line, kSecondsToStart) || line != greeting())) {
    given_up_ = true;
    const std::string how = end(by_itself);
    log(LogLevel::debug, "candidates of other libraries are timed in this process: '", command_[0],
        "' does not serve timings: ", line.empty() ? how : line);
    return {};
  }
  ready_ = true;
  nlohmann::json question{{"key", key}, {"workspace", workspace_limit}};
  if (std::isfinite(best_ms)) question["best_ms"] = best_ms;
  if (!process_.conversation().send(question.dump() + "\n") ||
      !process_.conversation().receive_line(line, kSecondsToTime)) {
    const std::string how = end(by_itself);
    if (!by_itself) return {};
    return {Answer::Kind::faulted, 0, how};
  }
  const auto answer = nlohmann::json::parse(line, nullptr, false);
  const auto text = [&](const char* name) {
    return answer.is_object() && answer.contains(name) && answer[name].is_string() ? answer[name].get<std::string>()
                                                                                   : std::string();
  };
  if (const std::string why = text("lost"); !why.empty()) {
    end(by_itself);
    return {Answer::Kind::faulted, 0, why};
  }
  if (answer.is_object() && answer.contains("ms") && answer["ms"].is_number()) {
    const double ms = answer["ms"].get<double>();
    return ms < 0 ? Answer{Answer::Kind::too_much_workspace, 0, ""} : Answer{Answer::Kind::timed, ms, ""};
  }
  log(LogLevel::debug, "not timed in a process of its own: ", text("failed"));
  return {};
}

}  // namespace temper
