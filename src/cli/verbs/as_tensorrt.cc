// SPDX-License-Identifier: Apache-2.0
// temper as-tensorrt: runs a command that finds Temper where it looks for TensorRT's trtexec, Python module, headers
// and libraries. Nothing else of the machine or of later commands changes.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

#include "backends/backend.h"
#include "base/child_process.h"
#include "base/file.h"
#include "base/quote.h"
#include "cli/help.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "nvinfer/api_table.h"

namespace temper::cli {

namespace {

// A folder with a program `trtexec` that is this one, and a module `tensorrt` that is temper.tensorrt of whatever
// Python imports it; it goes with the object.
class PrivateFolder {
 public:
  PrivateFolder(const std::string& device, const std::string& api) {
    std::string pattern = (std::filesystem::temp_directory_path() / "temper-as-tensorrt-XXXXXX").string();
    if (!mkdtemp(pattern.data()))
      fail(ErrorKind::machine, "no folder can be made in '", std::filesystem::temp_directory_path().string(),
           "': ", std::strerror(errno));
    path_ = pattern;
    const std::string program = std::filesystem::read_symlink("/proc/self/exe").string(), script = path_ + "/trtexec";
    const std::string chosen = concat(" ", shell_quoted("--temperApi=" + api),
                                      device.empty() ? "" : concat(" ", shell_quoted("--temperDevice=" + device)));
    write_file_atomically({script, FileKind::other, true},
                          concat("#!/bin/sh\nexec ", shell_quoted(program), " trtexec", chosen, " \"$@\"\n"));
    std::filesystem::permissions(script, std::filesystem::perms::owner_all);
    std::filesystem::create_directories(modules() + "/tensorrt");
    write_file_atomically(
        {modules() + "/tensorrt/__init__.py", FileKind::other, true},
        concat("from temper.tensorrt import _api\n\n_api.stand_in(__name__, \"", api, "\", \"", device, "\")\n"));
    if (device != "cpu") return;
    // Without a GPU there is no pycuda or cuda-python: what programs hold buffers with is in the package.
    for (const char* const package : {"/pycuda", "/cuda"}) {
      std::filesystem::create_directories(modules() + package);
      write_file_atomically({modules() + package + "/__init__.py", FileKind::other, true},
                            "from temper.tensorrt import _host_cuda\n\n_host_cuda.install()\n");
    }
  }
  ~PrivateFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  PrivateFolder(const PrivateFolder&) = delete;
  const std::string& path() const { return path_; }
  std::string modules() const { return path_ + "/python"; }

 private:
  std::string path_;
};

// TensorRT's names for C++ (cmake/tensorrt_names.cmake), in the build folder or where Temper is installed; nothing
// where only the program is.
std::optional<std::filesystem::path> names_for_cpp() {
  const auto program = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  for (const char* folder : {"tensorrt", TEMPER_TENSORRT_FOLDER})
    if (std::filesystem::exists(program / folder / "include" / "NvInfer.h"))
      return (program / folder).lexically_normal();
  return std::nullopt;
}

using Variables = std::vector<std::pair<std::string, std::string>>;

// What compilers, linkers, the loader and CMake search first.
Variables variables_for_cpp(const std::filesystem::path& names, const std::string& device, const std::string& api) {
  const std::string include = names / "include", host_include = names / "include/host", lib = names / "lib",
                    host_lib = names / "lib/host";
  const bool host = device == "cpu";
  const std::string headers = concat(include, "/api/", api, ":", include, host ? ":" + host_include : "");
  const std::string libraries = concat(lib, host ? ":" + host_lib : "");
  return {{"CPATH", headers},
          {"CMAKE_INCLUDE_PATH", headers},
          {"LIBRARY_PATH", libraries},
          {"CMAKE_LIBRARY_PATH", libraries},
          {"LD_LIBRARY_PATH", lib}};
}

// The exit code of a command as a shell gives it: 128 and the signal that ended it. Each of `first` stands before what
// the variable holds.
int run_in(const Variables& first, const std::string& device, const std::vector<std::string>& command) {
  std::vector<char*> words;
  words.reserve(command.size() + 1);
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  const auto in_front = [](const std::string& value, const char* variable, std::string_view otherwise) {
    const char* const before = std::getenv(variable);
    const std::string_view rest = before ? before : otherwise;
    return concat(value, rest.empty() ? "" : ":", rest);
  };
  Variables variables;
  for (const auto& [name, value] : first)
    variables.emplace_back(name, in_front(value, name.c_str(), name == "PATH" ? "/usr/bin:/bin" : ""));
  if (!device.empty()) variables.emplace_back("TEMPER_NVINFER_DEVICE", device);
  const pid_t child = fork();
  if (child < 0) fail(ErrorKind::machine, "no process can be started: ", std::strerror(errno));
  if (child == 0) {
    for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
    execvp(words[0], words.data());
    std::fprintf(stderr, "temper: '%s' cannot be run: %s\n", printable(command[0]).c_str(), std::strerror(errno));
    _exit(errno == ENOENT ? 127 : 126);
  }
  // The terminal sends its signals to the child, too; this process outlives it to remove the folder.
  signal(SIGINT, SIG_IGN);
  signal(SIGQUIT, SIG_IGN);
  const int status = wait_for_end(child);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void print_help() {
  const size_t width = terminal_width();
  const auto entry = [&](const char* name, const char* text) {
    std::fputs(help_entry(name, text, width).c_str(), stdout);
  };
  print_text(
      "run a command that finds Temper where it looks for TensorRT: trtexec, Python's module tensorrt, NvInfer.h");
  print_text("temper as-tensorrt [--device DEVICE] [--api RELEASE] -- COMMAND [ARGUMENTS]", 0, "Usage: ");
  std::printf("       temper as-tensorrt --list\n\nExample:\n");
  print_text("temper as-tensorrt --device cpu -- python3 benchmark.py", 2);
  std::printf("\nOptions:\n");
  entry("--device TEXT", "device that trtexec uses: cpu, cuda:0; without it GPU 0, or the CPU where there is none");
  entry("--api TEXT", "release whose names there are: 8.6 (without it), 10.13 or 11.1");
  entry("--list", "print the names of Python's module: what is there, and what is refused and why");
  std::printf("\n");
  print_text("Exit codes: those of the command; 126 or 127 where it cannot be run");
}

void as_tensorrt(Context& context) {
  std::vector<std::string> words(context.arguments.begin() + 1, context.arguments.end());
  std::string device, api = "8.6";
  size_t at = 0;
  for (; at < words.size(); ++at) {
    if (words[at] == "--device" && at + 1 < words.size()) device = words[++at];
    else if (words[at].starts_with("--device=")) device = words[at].substr(9);
    else if (words[at] == "--api" && at + 1 < words.size()) api = words[++at];
    else if (words[at].starts_with("--api=")) api = words[at].substr(6);
    else if (words[at] == "--") {
      ++at;
      break;
    } else if (words[at] == "--list") {
      std::fputs(nvinfer::api_list().c_str(), stdout);
      return;
    } else if (words[at] == "--help" || words[at] == "-h") {
      print_help();
      return;
    } else break;
  }
  if (at >= words.size())
    fail(ErrorKind::usage, "as-tensorrt needs a command: temper as-tensorrt -- python3 benchmark.py");
  if (!words[at].empty() && words[at][0] == '-')
    fail(ErrorKind::usage, "as-tensorrt: there is no option '", words[at], "'; the command stands behind --");
  if (!device.empty()) open_device(device);
  const auto& releases = nvinfer::kApiReleases;
  if (std::find(releases.begin(), releases.end(), api) == releases.end())
    fail(ErrorKind::usage, "as-tensorrt: there is no API '", api, "'; there are ", "8.6, 10.13 and 11.1");
  const PrivateFolder folder(device, api);
  Variables variables = {{"PATH", folder.path()}, {"PYTHONPATH", folder.modules()}};
  const auto names = names_for_cpp();
  if (names) {
    const Variables more = variables_for_cpp(*names, device, api);
    variables.insert(variables.end(), more.begin(), more.end());
  }
  std::fprintf(stderr, "temper: trtexec%s Python's tensorrt%s are Temper's for this command%s\n", names ? "," : " and",
               names ? " and NvInfer.h" : "", device.empty() ? "" : concat(", on ", printable(device)).c_str());
  context.exit_code = run_in(variables, device, {words.begin() + std::ptrdiff_t(at), words.end()});
}

}  // namespace

void add_as_tensorrt(Command& verb, Context& context) {
  verb.callback([&context] { as_tensorrt(context); });
}

}  // namespace temper::cli
