// SPDX-License-Identifier: Apache-2.0
#include "serve/triton.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "base/concat.h"
#include "base/error.h"
#include "base/file.h"
#include "base/quote.h"

namespace temper {

namespace fs = std::filesystem;

std::vector<std::string> usual_servers() {
  std::vector<std::string> list;
  if (const char* const path = std::getenv("PATH")) {
    std::istringstream folders(path);
    for (std::string folder; std::getline(folders, folder, ':');)
      if (!folder.empty()) list.push_back(folder + "/tritonserver");
  }
  list.emplace_back("/opt/tritonserver/bin/tritonserver");
  try {
    list.push_back(cache_folder() + "/triton/bin/tritonserver");
  } catch (const Error&) {  // no cache folder, or one that others may write to
  }
  return list;
}

std::string find_server(const std::string& given) {
  if (!given.empty()) {
    if (access(given.c_str(), X_OK) != 0) fail(ErrorKind::bad_file, "--triton '", given, "' is no program");
    return given;
  }
  for (const std::string& path : usual_servers())
    if (access(path.c_str(), X_OK) == 0 && fs::is_regular_file(path)) return path;
  fail(ErrorKind::unsupported,
       "there is no tritonserver in PATH or /opt/tritonserver. NVIDIA's image of Triton has it, "
       "./dev setup triton of a checkout takes it from the package nvidia-pytriton, and --triton names it");
}

std::string find_backends(const std::string& given) {
  if (!given.empty()) {
    if (!fs::exists(fs::path(given) / "temper/libtriton_temper.so"))
      fail(ErrorKind::bad_file, "--backends '", given, "' holds no temper/libtriton_temper.so");
    return given;
  }
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error).parent_path();
  std::vector<fs::path> places{program / "backends", program / "../backends", program / "../lib/temper/backends"};
  for (fs::directory_iterator it(program / "../lib", error), end; !error && it != end; it.increment(error))
    places.push_back(it->path() / "temper/backends");  // lib/x86_64-linux-gnu
  for (const fs::path& place : places)
    if (fs::exists(place / "temper/libtriton_temper.so", error)) return fs::weakly_canonical(place, error).string();
  fail(ErrorKind::unsupported, "Temper's backend for Triton is not beside '", program.string(), "'",
       ": --backends names the folder with temper/libtriton_temper.so in it");
}

std::vector<std::string> serve_command(const std::string& repository, const TritonOptions& options) {
  const auto port = [&](int more) { return std::to_string(options.port + more); };
  std::vector<std::string> words{options.program,
                                 "--model-repository=" + repository,
                                 "--backend-directory=" + find_backends(options.backends),
                                 "--http-address=" + options.address,
                                 "--http-port=" + port(0),
                                 "--grpc-address=" + options.address,
                                 "--grpc-port=" + port(1),
                                 "--metrics-address=" + options.address,
                                 "--metrics-port=" + port(2),
                                 concat("--exit-timeout-secs=", int(options.exit_timeout_s))};
  words.insert(words.end(), options.more.begin(), options.more.end());
  return words;
}

}  // namespace temper
