// SPDX-License-Identifier: Apache-2.0
// A process of our own program that works for this one: each reads what the other writes, over a socket.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace temper {

// Waits for a child process to end; its status, as waitpid gives it.
int wait_for_end(int process);

// One side's end of the socket, for one thread at a time.
class Conversation {
 public:
  // Closes it in the end. -1: none yet.
  explicit Conversation(int socket = -1) : socket_(socket) {}
  ~Conversation() { close(); }
  Conversation(const Conversation&) = delete;

  // False where the other side has ended, or nothing came within `seconds`; negative: without limit.
  bool send(std::string_view bytes);
  bool receive_line(std::string& line, int seconds);  // without its end
  bool receive(std::string& bytes, size_t count, int seconds);

  void open(int socket);
  void close();

 private:
  int socket_;
  std::string received_;
  bool receive_more(int64_t until_ms);
};

class ChildProcess {
 public:
  ChildProcess() = default;
  ~ChildProcess() { kill(); }
  ChildProcess(const ChildProcess&) = delete;

  // Starts the program command[0] with the arguments behind it. Its descriptors 0 and 1 are the socket, 2 is /dev/null,
  // and no other is open. The number of the error, or 0.
  int start(std::vector<std::string> command);
  bool is_started() const { return process_ > 0; }
  Conversation& conversation() { return conversation_; }

  struct End {
    bool was_killed = false;  // by this call, since it did not end
    int status = 0;           // as waitpid gives it
  };
  // Ends a process that was started: by the end of its input, and where that is not enough within a second, by SIGKILL.
  End end();
  // The same at once, started or not.
  void kill();

 private:
  int process_ = -1;
  Conversation conversation_;
};

}  // namespace temper
