// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/support/compile_processes.h"

#include <cstring>
#include <nlohmann/json.hpp>

#include "base/log.h"

namespace temper::cuda {

// To open NVRTC, and for a text, which takes tenths of a second where nobody else works.
static constexpr int kSecondsToStart = 60, kSecondsToCompile = 120;

CompileProcesses::CompileProcesses(std::vector<std::string> command, int most, std::string greeting)
    : greeting_(std::move(greeting)) {
  for (int i = 0; i < most; ++i) {
    auto process = std::make_unique<Process>();
    if (const int error = process->child.start(command); error != 0) {
      log(LogLevel::debug, "kernels are compiled in this process: '", command.at(0),
          "' cannot be started: ", std::strerror(error));
      return;
    }
    idle_.push_back(std::move(process));
  }
}

bool CompileProcesses::compile(const std::string& text, const std::vector<std::string>& options,
                               const std::string& architecture, std::string& log, std::vector<std::byte>& cubin) {
  std::unique_ptr<Process> process;
  {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) return false;
    process = std::move(idle_.back());
    idle_.pop_back();
  }
  Conversation& conversation = process->child.conversation();
  std::string line;
  if (!process->has_greeted) {
    if (!conversation.receive_line(line, kSecondsToStart) || line != greeting_) {
      temper::log(LogLevel::debug, "a process does not compile kernels: it says '", line, "' in place of '", greeting_,
                  "'");
      return false;
    }
    process->has_greeted = true;
  }
  const nlohmann::json question{{"architecture", architecture}, {"options", options}, {"text", text.size()}};
  std::string bytes;
  if (!conversation.send(concat(question.dump(), "\n", text)) || !conversation.receive_line(line, kSecondsToCompile)) {
    temper::log(LogLevel::debug, "a process that compiles kernels has ended");
    return false;
  }
  const auto answer = nlohmann::json::parse(line, nullptr, false);
  const auto size = [&](const char* name) -> size_t {
    return answer.is_object() && answer.contains(name) && answer[name].is_number_unsigned() ? answer[name].get<size_t>()
                                                                                            : 0;
  };
  const size_t log_size = size("log"), cubin_size = size("cubin");
  const bool is_made = cubin_size > 0;
  if (is_made) {
    if (!conversation.receive(log, log_size, kSecondsToCompile) ||
        !conversation.receive(bytes, cubin_size, kSecondsToCompile))
      return false;
    cubin.resize(bytes.size());
    std::memcpy(cubin.data(), bytes.data(), bytes.size());
  }
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(process));
  return is_made;
}

}  // namespace temper::cuda
