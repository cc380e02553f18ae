// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/support/compiler.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "backends/cuda/support/compile_processes.h"
#include "backends/cuda/support/kernel_text.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/version.h"

namespace temper::cuda {

// NVRTC's functions as its documentation declares them.
struct Compiler::Api {
  Library library;
  int (*version)(int*, int*) = nullptr;
  int (*supported_count)(int*) = nullptr;
  int (*supported)(int*) = nullptr;
  int (*create)(void**, const char*, const char*, int, const char* const*, const char* const*) = nullptr;
  int (*compile)(void*, int, const char* const*) = nullptr;
  int (*cubin_size)(void*, size_t*) = nullptr;
  int (*cubin)(void*, char*) = nullptr;
  int (*log_size)(void*, size_t*) = nullptr;
  int (*log)(void*, char*) = nullptr;
  int (*destroy)(void**) = nullptr;
  const char* (*error_text)(int) = nullptr;

  void check(int result, std::string_view what) const {
    if (result != 0) fail(ErrorKind::machine, "NVRTC, ", what, ": ", error_text(result));
  }
};

namespace {

// Exact arithmetic is the default of every kernel: no contraction to fma but where a kernel says fma, IEEE division and
// roots.
constexpr std::string_view kOptions[] = {"--std=c++20", "--fmad=false",       "--prec-div=true", "--prec-sqrt=true",
                                         "--ftz=false", "--ptxas-options=-v", "--restrict",      "-default-device"};
constexpr std::string_view kMagic = "temper cubin 1\n";

int64_t number_before(std::string_view line, std::string_view what) {
  const size_t at = line.find(what);
  if (at == line.npos) return 0;
  size_t first = at;
  while (first > 0 && (line[first - 1] == ' ')) --first;
  const size_t last = first;
  while (first > 0 && line[first - 1] >= '0' && line[first - 1] <= '9') --first;
  return parse_number<int64_t>(line.substr(first, last - first)).value_or(0);
}

// The first line, which is taken off.
std::string_view take_line(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

}  // namespace

std::vector<KernelResources> parse_resources(std::string_view log) {
  std::vector<KernelResources> out;
  while (!log.empty()) {
    const std::string_view line = take_line(log);
    constexpr std::string_view start = "Compiling entry function '";
    if (const size_t at = line.find(start); at != line.npos) {
      const std::string_view rest = line.substr(at + start.size());
      out.push_back({std::string(rest.substr(0, rest.find('\'')))});
    } else if (out.empty()) {
      continue;
    } else if (line.find("bytes spill stores") != line.npos) {
      out.back().stack = number_before(line, "bytes stack frame");
      out.back().spill_stores = number_before(line, "bytes spill stores");
      out.back().spill_loads = number_before(line, "bytes spill loads");
    } else if (line.find(" registers") != line.npos && line.find("Used ") != line.npos) {
      out.back().registers = int(number_before(line, "registers"));
      out.back().shared = number_before(line, "bytes smem");
    }
  }
  return out;
}

std::vector<std::string> parse_losses(std::string_view log) {
  std::vector<std::string> out;
  while (!log.empty()) {
    const std::string_view line = take_line(log);
    if (line.find("Potential Performance Loss") != line.npos || line.find("setmaxnreg ignored") != line.npos)
      out.emplace_back(line);
  }
  return out;
}

Compiler::Compiler(const LibrarySearch& search, std::string cache_folder, int driver_version)
    : api_(std::make_unique<Api>()), search_(search), cache_folder_(std::move(cache_folder)) {
  api_->library = Library::open({"libnvrtc.so.13", "libnvrtc.so.12"}, search, "compiling GPU kernels",
                                "install NVIDIA's CUDA toolkit, or 'pip install nvidia-cuda-nvrtc' and name the "
                                "site-packages folder with --cuda-path");
  const Library& library = api_->library;
  library.bind(api_->version, "nvrtcVersion");
  library.bind(api_->supported_count, "nvrtcGetNumSupportedArchs");
  library.bind(api_->supported, "nvrtcGetSupportedArchs");
  library.bind(api_->create, "nvrtcCreateProgram");
  library.bind(api_->compile, "nvrtcCompileProgram");
  library.bind(api_->cubin_size, "nvrtcGetCUBINSize");
  library.bind(api_->cubin, "nvrtcGetCUBIN");
  library.bind(api_->log_size, "nvrtcGetProgramLogSize");
  library.bind(api_->log, "nvrtcGetProgramLog");
  library.bind(api_->destroy, "nvrtcDestroyProgram");
  library.bind(api_->error_text, "nvrtcGetErrorString");
  api_->check(api_->version(&major_, &minor_), "asking for its version");
  int count = 0;
  api_->check(api_->supported_count(&count), "counting architectures");
  architectures_.resize(size_t(count));
  api_->check(api_->supported(architectures_.data()), "listing architectures");
  // Cubins load on every driver of the same major version (CUDA's minor version compatibility) and on later ones.
  if (driver_version && driver_version / 1000 < major_)
    fail(ErrorKind::unsupported, "the driver supports CUDA ", driver_version / 1000, '.', driver_version % 1000 / 10,
         ", which cannot load what NVRTC ", version(), " ('", path(),
         "') compiles; update the driver, or install NVRTC ", driver_version / 1000,
         " ('pip install nvidia-cuda-nvrtc-cu", driver_version / 1000, "') and name its folder with --cuda-path");
  if (!cache_folder_.empty()) try {
      make_private_folder(cache_folder_);
    } catch (const Error& error) {
      log(LogLevel::warning, std::string_view(error.what()), "; compiled GPU kernels are not kept");
      cache_folder_.clear();
    }
}
Compiler::~Compiler() = default;

const std::string& Compiler::path() const { return api_->library.path(); }

bool Compiler::knows(const std::string& architecture) const {
  if (!architecture.starts_with("sm_")) return false;
  const auto number = parse_leading<int>(std::string_view(architecture).substr(3));
  return number && std::find(architectures_.begin(), architectures_.end(), number->value) != architectures_.end();
}

std::string Compiler::cache_path(const KernelSource& source, const std::string& architecture) const {
  std::string key = concat(architecture, '\n', version(), '\n');
  for (std::string_view option : kOptions) key += concat(option, '\n');
  for (const std::string& option : source.options) key += concat(option, '\n');
  for (const KernelText& text : included_texts(source.text)) key += concat(text.path, ' ', hex(xxh3(text.text)), '\n');
  key += source.text;
  return concat(cache_folder_, '/', sha256_hex(std::as_bytes(std::span(key))), ".cubin");
}

// The file: magic, XXH3 of the rest as 16 digits, the log's size as 16 digits, the log, the cubin.
static bool read_cached(const std::string& path, Cubin& cubin) {
  if (!file_exists(path)) return false;
  std::string content;
  try {
    content = read_trusted_file(path, size_t(64) << 20);
  } catch (const Error& error) {
    if (file_exists(path)) log(LogLevel::warning, std::string_view(error.what()), "; the kernel is compiled again");
    return false;  // as good as not there
  }
  const size_t head = kMagic.size() + 32;
  if (content.size() < head || !std::string_view(content).starts_with(kMagic)) return false;
  const std::string_view body = std::string_view(content).substr(kMagic.size() + 16);
  if (hex(xxh3(body)) != std::string_view(content).substr(kMagic.size(), 16)) return false;
  const auto log_size = parse_number<uint64_t>(body.substr(0, 16), 16);
  if (!log_size || *log_size > body.size() - 16) return false;
  cubin.kernels = parse_resources(body.substr(16, *log_size));
  cubin.losses = parse_losses(body.substr(16, *log_size));
  const std::string_view bytes = body.substr(16 + *log_size);
  cubin.bytes.resize(bytes.size());
  std::memcpy(cubin.bytes.data(), bytes.data(), bytes.size());
  cubin.from_cache = true;
  return true;
}

std::string Compiler::greeting() const {
  return concat("temper ", temper::version(), ' ', revision(), " compiles with NVRTC ", version(), " of ", path());
}

std::shared_ptr<void> Compiler::compile_in(std::vector<std::string> command, int processes) const {
  command.emplace_back(search_.system ? "system" : "folders");
  command.insert(command.end(), search_.folders.begin(), search_.folders.end());
  auto made = std::make_shared<CompileProcesses>(std::move(command), processes, greeting());
  const std::lock_guard lock(mutex_);
  processes_ = made;
  return made;
}

Compiler::Compiled Compiler::compile_here(const KernelSource& source, const std::string& architecture) const {
  if (!knows(architecture))
    fail(ErrorKind::unsupported, "NVRTC ", version(), " ('", path(), "') does not compile for ", architecture,
         "; install a newer one (pip install -U nvidia-cuda-nvrtc)");
  std::vector<const char*> texts, names;
  for (const KernelText& text : included_texts(source.text)) {
    texts.push_back(text.text.data());  // embedded with a 0 behind it
    names.push_back(text.path.data());
  }
  struct Program {
    const Api& api;
    void* handle = nullptr;
    ~Program() {
      if (handle) api.destroy(&handle);
    }
  } program{*api_};
  api_->check(
      api_->create(&program.handle, source.text.c_str(), "kernel.cu", int(texts.size()), texts.data(), names.data()),
      "taking a kernel");
  const std::string target = "--gpu-architecture=" + architecture;
  std::vector<const char*> options{target.c_str()};
  for (std::string_view option : kOptions) options.push_back(option.data());
  // From NVRTC's own cache a cubin comes without the log that says what it uses; ours keeps both.
  if (major_ >= 13) options.push_back("--no-cache");
  for (const std::string& option : source.options) options.push_back(option.c_str());
  const int result = api_->compile(program.handle, int(options.size()), options.data());
  Compiled made;
  std::string& log = made.log;
  size_t size = 0;
  api_->check(api_->log_size(program.handle, &size), "asking for its log");
  log.resize(size);
  api_->check(api_->log(program.handle, log.data()), "asking for its log");
  while (!log.empty() && log.back() == '\0') log.pop_back();
  if (result != 0)
    fail(ErrorKind::machine, "a GPU kernel does not compile for ", architecture, " with NVRTC ", version(), ":\n", log);
  api_->check(api_->cubin_size(program.handle, &size), "asking for the result");
  made.cubin.resize(size);
  api_->check(api_->cubin(program.handle, reinterpret_cast<char*>(made.cubin.data())), "asking for the result");
  return made;
}

static std::string key_of(const KernelSource& source, const std::string& architecture) {
  std::string key = architecture + '\n';
  for (const std::string& option : source.options) key += option + '\n';
  key += source.text;
  return key;
}

Cubin Compiler::compile(const KernelSource& source, const std::string& architecture) const {
  const std::string key = key_of(source, architecture);
  std::promise<Cubin> promise;
  std::shared_future<Cubin> known;
  {
    const std::lock_guard lock(mutex_);
    if (auto it = known_.find(key); it != known_.end()) known = it->second;
    else known_.emplace(key, promise.get_future().share());
  }
  if (!known.valid()) return make(promise, key, source, architecture);
  Cubin cubin = known.get();  // waits where another thread compiles it
  cubin.from_cache = true;
  return cubin;
}

bool Compiler::compile_ahead(const KernelSource& source, const std::string& architecture) const {
  const std::string key = key_of(source, architecture);
  std::promise<Cubin> promise;
  {
    const std::lock_guard lock(mutex_);
    if (!known_.try_emplace(key, promise.get_future().share()).second) return false;
  }
  make(promise, key, source, architecture);
  return true;
}

Cubin Compiler::make(std::promise<Cubin>& promise, const std::string& key, const KernelSource& source,
                     const std::string& architecture) const {
  try {
    Cubin cubin = find_or_run(source, architecture);
    promise.set_value(cubin);
    return cubin;
  } catch (...) {
    promise.set_exception(std::current_exception());
    const std::lock_guard lock(mutex_);
    known_.erase(key);
    throw;
  }
}

Cubin Compiler::find_or_run(const KernelSource& source, const std::string& architecture) const {
  std::string path;
  Cubin cubin;
  if (!cache_folder_.empty()) {
    path = cache_path(source, architecture);
    if (read_cached(path, cubin)) return cubin;
  }
  const std::shared_ptr<CompileProcesses> processes = [&] {
    const std::lock_guard lock(mutex_);
    return processes_.lock();
  }();
  Compiled made;
  const auto start = std::chrono::steady_clock::now();
  if (!processes || !processes->compile(source.text, source.options, architecture, made.log, made.cubin))
    made = compile_here(source, architecture);
  const std::string& log = made.log;
  cubin.bytes = std::move(made.cubin);
  cubin.kernels = parse_resources(log);
  cubin.losses = parse_losses(log);
  temper::log(LogLevel::debug, "compiled ", cubin.kernels.empty() ? "a text" : cubin.kernels[0].name, " for ",
              architecture, " in ", std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(),
              " s");
  if (!path.empty() && keeps_) {
    std::string body = hex(log.size()) + log;
    body.append(reinterpret_cast<const char*>(cubin.bytes.data()), cubin.bytes.size());
    try {
      write_file_atomically({path, FileKind::cubin, true}, concat(kMagic, hex(xxh3(body)), body));
    } catch (const Error& error) {  // a full disk, or a folder that must not be written to
      if (keeps_.exchange(false))
        temper::log(LogLevel::warning, std::string_view(error.what()), "; compiled GPU kernels are not kept");
    }
  }
  return cubin;
}

}  // namespace temper::cuda
