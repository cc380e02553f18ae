// SPDX-License-Identifier: Apache-2.0
// Finds Triton's server on this machine, and the command that serves a repository with it.
#pragma once
#include <functional>
#include <string>
#include <vector>

namespace temper {

struct TritonOptions {
  std::string program;   // tritonserver; see find_server
  std::string backends;  // folder with the folder temper in it; "": found beside this program
  std::string address = "127.0.0.1";
  int port = 8000;                // of HTTP; gRPC has the next, metrics the one after that
  double exit_timeout_s = 10;     // that requests in flight, and connections, are waited for at the end
  std::vector<std::string> more;  // options of the server's own, behind ours
};

// Where the server may be, in the order in which it is looked for: PATH, NVIDIA's image, what ./dev setup triton made.
std::vector<std::string> usual_servers();
// Throws Error{unsupported} that says how to get one.
std::string find_server(const std::string& given);
// The folder with temper/libtriton_temper.so: beside the program (a build folder, a package, an installation).
// Throws Error{unsupported} where there is none.
std::string find_backends(const std::string& given);

std::vector<std::string> serve_command(const std::string& repository, const TritonOptions& options);

}  // namespace temper
