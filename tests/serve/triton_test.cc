// SPDX-License-Identifier: Apache-2.0
// Where Triton's server and Temper's backend for it are looked for, and the command that serves a repository.
#include "serve/triton.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "../cli/program.h"
#include "base/error.h"

namespace temper {
namespace {

namespace fs = std::filesystem;

// A variable of the environment, put back at the end.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* const before = std::getenv(name)) before_ = before;
    setenv(name, value.c_str(), 1);
  }
  ~Variable() { before_.empty() ? unsetenv(name_) : setenv(name_, before_.c_str(), 1); }

 private:
  const char* name_;
  std::string before_;
};

void put_program(const std::string& path) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path) << "#!/bin/sh\n";
  chmod(path.c_str(), 0755);
}

TEST(FindTriton, TheServerOfThePathComesBeforeTheOneOfTheCache) {
  const std::string folder = test_folder_without_slash();
  fs::create_directories(folder + "/empty");
  const Variable cache("XDG_CACHE_HOME", folder + "/cache"), path("PATH", folder + "/empty:" + folder + "/bin");
  const std::vector<std::string> places = usual_servers();
  ASSERT_EQ(places.size(), 4u);
  EXPECT_EQ(places[1], folder + "/bin/tritonserver");
  EXPECT_EQ(places[2], "/opt/tritonserver/bin/tritonserver");
  EXPECT_EQ(places[3], folder + "/cache/temper/triton/bin/tritonserver");
  if (fs::exists(places[2])) GTEST_SKIP() << "this machine has a server in /opt";
  EXPECT_CONTAINS(error_of(ErrorKind::unsupported, [] { find_server(""); }), "./dev setup triton");
  put_program(places[3]);
  EXPECT_EQ(find_server(""), places[3]);
  fs::create_directories(folder + "/empty/tritonserver");  // a folder of that name is no program
  put_program(places[1]);
  EXPECT_EQ(find_server(""), places[1]);
  EXPECT_EQ(find_server(places[3]), places[3]);
  EXPECT_CONTAINS(error_of(ErrorKind::bad_file, [&] { find_server(folder + "/missing"); }), "is no program");
}

TEST(FindTriton, TheBackendIsLookedForInTheFolderThatIsNamed) {
  const std::string folder = test_folder_without_slash();
  EXPECT_CONTAINS(error_of(ErrorKind::bad_file, [&] { find_backends(folder); }), "holds no temper/libtriton_temper.so");
  fs::create_directories(folder + "/temper");
  std::ofstream(folder + "/temper/libtriton_temper.so") << "x";
  EXPECT_EQ(find_backends(folder), folder);
}

TEST(FindTriton, TheCommandListensWhereItIsToldOnThreePorts) {
  const std::string folder = test_folder_without_slash();
  fs::create_directories(folder + "/temper");
  std::ofstream(folder + "/temper/libtriton_temper.so") << "x";
  TritonOptions options;
  options.program = "/t/tritonserver";
  options.backends = folder;
  options.port = 9000;
  options.exit_timeout_s = 7;
  options.more = {"--log-verbose=1"};
  EXPECT_EQ(serve_command("/r", options),
            (std::vector<std::string>{"/t/tritonserver", "--model-repository=/r", "--backend-directory=" + folder,
                                      "--http-address=127.0.0.1", "--http-port=9000", "--grpc-address=127.0.0.1",
                                      "--grpc-port=9001", "--metrics-address=127.0.0.1", "--metrics-port=9002",
                                      "--exit-timeout-secs=7", "--log-verbose=1"}));
}

}  // namespace
}  // namespace temper
