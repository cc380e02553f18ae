// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/support/serve_kernels.h"

#include <nlohmann/json.hpp>

#include "backends/cuda/support/compiler.h"
#include "base/child_process.h"

namespace temper::cuda {

int serve_kernels(const std::vector<std::string>& arguments) {
  if (arguments.empty()) return int(ErrorKind::usage);
  Conversation conversation(0);
  try {
    const Compiler compiler({{arguments.begin() + 1, arguments.end()}, arguments[0] == "system"}, "");
    if (!conversation.send(compiler.greeting() + "\n")) return int(ErrorKind::machine);
    std::string line;
    while (conversation.receive_line(line, -1)) {
      const auto question = nlohmann::json::parse(line);
      KernelSource source{"", question.at("options").get<std::vector<std::string>>()};
      if (!conversation.receive(source.text, question.at("text"), -1)) break;
      std::string answer;
      try {
        const auto made = compiler.compile_here(source, question.at("architecture"));
        answer = concat(nlohmann::json{{"log", made.log.size()}, {"cubin", made.cubin.size()}}.dump(), "\n", made.log);
        answer.append(reinterpret_cast<const char*>(made.cubin.data()), made.cubin.size());
      } catch (const Error& error) {
        const nlohmann::json failed{{"failed", error.what()}};
        answer = failed.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace) + "\n";
      }
      if (!conversation.send(answer)) break;
    }
  } catch (const Error& error) {  // no NVRTC: the other side has none either
    return int(error.kind());
  } catch (const nlohmann::json::exception&) {  // no question of ours
    return int(ErrorKind::usage);
  }
  return 0;
}

}  // namespace temper::cuda
