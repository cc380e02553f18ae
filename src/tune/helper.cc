// SPDX-License-Identifier: Apache-2.0
#include "tune/helper.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/version.h"

extern char** environ;

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
  if (given_up_ || process_ > 0) return;
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
    given_up_ = true;
    return;
  }
  std::vector<char*> arguments;
  for (std::string& word : command_) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pair[1], 0);
  posix_spawn_file_actions_adddup2(&actions, pair[1], 1);
  posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addclosefrom_np(&actions, 3);
  pid_t process = -1;
  const int error = posix_spawn(&process, command_[0].c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(pair[1]);
  if (error != 0) {
    close(pair[0]);
    given_up_ = true;
    log(LogLevel::debug, "candidates of other libraries are timed in this process: '", command_[0],
        "' cannot be started: ", std::strerror(error));
    return;
  }
  process_ = process;
  socket_ = pair[0];
  ready_ = false;
  received_.clear();
}

bool TimingHelper::send_line(const std::string& line) {
  const std::string text = line + "\n";
  for (size_t at = 0; at < text.size();) {
    const ssize_t sent = send(socket_, text.data() + at, text.size() - at, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    at += size_t(sent);
  }
  return true;
}

bool TimingHelper::receive_line(std::string& line, int seconds) {
  using Clock = std::chrono::steady_clock;
  const auto until = Clock::now() + std::chrono::seconds(seconds);
  for (;;) {
    if (const size_t end = received_.find('\n'); end != received_.npos) {
      line = received_.substr(0, end);
      received_.erase(0, end + 1);
      return true;
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    pollfd wanted{socket_, POLLIN, 0};
    const int ready = left > 0 ? poll(&wanted, 1, int(left)) : 0;
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    char buffer[4096];
    const ssize_t got = recv(socket_, buffer, sizeof buffer, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    received_.append(buffer, size_t(got));
  }
}

std::string TimingHelper::end(bool& by_itself) {
  by_itself = false;
  if (process_ <= 0) return "it did not start";
  close(socket_);  // at the end of its input it ends, unless it waits for the GPU
  socket_ = -1;
  int status = 0;
  pid_t ended = 0;
  for (int i = 0; i < 100 && (ended = waitpid(process_, &status, WNOHANG)) == 0; ++i) usleep(10000);
  const bool hung = ended == 0;
  if (hung) {
    kill(process_, SIGKILL);
    while (waitpid(process_, &status, 0) < 0 && errno == EINTR) {}
  }
  process_ = -1;
  by_itself = hung || !WIFSIGNALED(status) || (WTERMSIG(status) != SIGKILL && WTERMSIG(status) != SIGTERM);
  if (hung) return concat("it did not end within ", kSecondsToTime, " seconds");
  return WIFSIGNALED(status) ? concat("its process was ended by signal ", WTERMSIG(status))
                             : concat("its process ended with code ", WEXITSTATUS(status));
}

TimingHelper::Answer TimingHelper::time(const std::string& key, double best_ms, int64_t workspace_limit) {
  start();
  if (given_up_) return {};
  std::string line;
  bool by_itself = false;
  if (!ready_ && (!receive_line(line, kSecondsToStart) || line != greeting())) {
    given_up_ = true;
    const std::string how = end(by_itself);
    log(LogLevel::debug, "candidates of other libraries are timed in this process: '", command_[0],
        "' does not serve timings: ", line.empty() ? how : line);
    return {};
  }
  ready_ = true;
  nlohmann::json question{{"key", key}, {"workspace", workspace_limit}};
  if (std::isfinite(best_ms)) question["best_ms"] = best_ms;
  if (!send_line(question.dump()) || !receive_line(line, kSecondsToTime)) {
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
