// SPDX-License-Identifier: Apache-2.0
#include "base/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

extern char** environ;

namespace temper {

static int64_t now_ms() {
  using namespace std::chrono;
  return duration_cast<milliseconds>(steady_clock::now().time_since_epoch()).count();
}
static int64_t until_of(int seconds) { return seconds < 0 ? -1 : now_ms() + 1000LL * seconds; }

void Conversation::open(int socket) {
  close();
  socket_ = socket;
}

void Conversation::close() {
  if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  received_.clear();
}

bool Conversation::send(std::string_view bytes) {
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t sent = ::send(socket_, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    at += size_t(sent);
  }
  return true;
}

bool Conversation::receive_more(int64_t until_ms) {
  for (;;) {
    const int64_t left = until_ms < 0 ? -1 : until_ms - now_ms();
    pollfd wanted{socket_, POLLIN, 0};
    const int ready = until_ms < 0 || left > 0 ? poll(&wanted, 1, int(left)) : 0;
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    char buffer[65536];
    const ssize_t got = recv(socket_, buffer, sizeof buffer, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    received_.append(buffer, size_t(got));
    return true;
  }
}

bool Conversation::receive_line(std::string& line, int seconds) {
  const int64_t until = until_of(seconds);
  size_t end;
  while ((end = received_.find('\n')) == received_.npos)
    if (!receive_more(until)) return false;
  line = received_.substr(0, end);
  received_.erase(0, end + 1);
  return true;
}

bool Conversation::receive(std::string& bytes, size_t count, int seconds) {
  const int64_t until = until_of(seconds);
  while (received_.size() < count)
    if (!receive_more(until)) return false;
  bytes = received_.substr(0, count);
  received_.erase(0, count);
  return true;
}

int ChildProcess::start(std::vector<std::string> command) {
  kill();
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) return errno;
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (std::string& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pair[1], 0);
  posix_spawn_file_actions_adddup2(&actions, pair[1], 1);
  posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addclosefrom_np(&actions, 3);
  pid_t process = -1;
  const int error = posix_spawn(&process, command[0].c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(pair[1]);
  if (error != 0) {
    ::close(pair[0]);
    return error;
  }
  process_ = process;
  conversation_.open(pair[0]);
  return 0;
}

int wait_for_end(int process) {
  int status = 0;
  while (waitpid(process, &status, 0) < 0 && errno == EINTR) {}
  return status;
}

ChildProcess::End ChildProcess::end() {
  End end;
  conversation_.close();
  pid_t ended = 0;
  for (int i = 0; i < 100 && (ended = waitpid(process_, &end.status, WNOHANG)) == 0; ++i) usleep(10000);
  if (end.was_killed = ended == 0; end.was_killed) {
    ::kill(process_, SIGKILL);
    end.status = wait_for_end(process_);
  }
  process_ = -1;
  return end;
}

void ChildProcess::kill() {
  if (process_ <= 0) return;
  conversation_.close();
  ::kill(process_, SIGKILL);
  wait_for_end(process_);
  process_ = -1;
}

}  // namespace temper
