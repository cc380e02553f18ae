// SPDX-License-Identifier: Apache-2.0
// NVRTC's interface over the compiler of the CPU: what it makes of a kernel is a shared library that an emulated GPU
// runs (emulator.h). Texts that hold PTX are replaced by those of this folder.
#define XXH_INLINE_ALL
#include <stdlib.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

struct Program {
  std::string text, log, made;
  std::map<std::string, std::string> headers;
};

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}
void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}
// A folder that goes with the object.
struct Folder {
  fs::path path;
  Folder() {
    std::string name = (fs::temp_directory_path() / "temper_emulator_XXXXXX").string();
    if (!mkdtemp(name.data())) throw fs::filesystem_error("making a folder", name, std::error_code());
    path = name;
  }
  ~Folder() {
    std::error_code error;
    fs::remove_all(path, error);
  }
};

std::string quoted(const fs::path& path) { return "'" + path.string() + "'"; }

// What the compiler said; empty where all was well.
std::string ran(const std::string& command, const fs::path& log) {
  const int result = std::system((command + " 2> " + quoted(log)).c_str());
  return result == 0 ? "" : read(log) + "(" + command + ")";
}

// Libraries of kernels that were made before: reading the text, linking it and starting what does both takes five
// times what a small kernel then runs, and ccache keeps no linked file. A name is a digest of all that a library is
// made of.
class Made {
 public:
  Made(const Program& program, int count, const char* const* options) {
    add(program.text);
    for (const auto& [name, text] : program.headers) add(name), add(text);
    for (int i = 0; i < count; ++i) add(options[i]);
    for (const std::string& text : own_texts()) add(text);
    XXH128_canonical_t bytes;
    XXH128_canonicalFromHash(&bytes, XXH3_128bits(all_.data(), all_.size()));
    std::string name;
    char digits[3];
    for (const unsigned char byte : bytes.digest) std::snprintf(digits, sizeof digits, "%02x", byte), name += digits;
    if (*TEMPER_EMULATOR_KERNELS) path_ = fs::path(TEMPER_EMULATOR_KERNELS) / (name + ".so");
  }
  std::string find() const {
    if (path_.empty()) return "";
    std::error_code error;
    fs::last_write_time(path_, fs::file_time_type::clock::now(), error);  // ./dev test removes what nobody asks for
    return error ? "" : read(path_);
  }
  void keep(const std::string& library) const {
    if (path_.empty()) return;
    // Under another name first: who looks meanwhile finds all of it or nothing.
    std::error_code error;
    fs::create_directories(path_.parent_path(), error);
    const fs::path unfinished = path_.string() + "." + std::to_string(getpid());
    std::ofstream out(unfinished, std::ios::binary);
    out << library;
    out.close();
    if (out) fs::rename(unfinished, path_, error);
    if (!out || error) fs::remove(unfinished, error);
  }

 private:
  // With its length: no two lists of texts are then the same characters.
  void add(const std::string& text) { all_ += std::to_string(text.size()) + ":" + text; }
  // The compiler, and what this folder adds to a kernel, this file included.
  static const std::vector<std::string>& own_texts() {
    static const std::vector<std::string> texts = [] {
      std::vector<fs::path> files = {"nvrtc.cc", "on_host.h", "machine.h"};
      for (const auto& entry : fs::directory_iterator(fs::path(TEMPER_EMULATOR_FOLDER) / "support"))
        files.push_back(fs::path("support") / entry.path().filename());
      std::sort(files.begin(), files.end());
      std::vector<std::string> found = {TEMPER_EMULATOR_COMPILER, TEMPER_EMULATOR_COMPILER_VERSION};
      for (const fs::path& file : files) {
        found.push_back(file.string());
        found.push_back(read(fs::path(TEMPER_EMULATOR_FOLDER) / file));
      }
      return found;
    }();
    return texts;
  }

  std::string all_;
  fs::path path_;
};

int compile(Program& program, int count, const char* const* options) {
  const Made before(program, count, options);
  program.made = before.find();
  if (!program.made.empty()) return 0;
  const Folder folder;
  const fs::path own = TEMPER_EMULATOR_FOLDER;
  for (const auto& [name, text] : program.headers) {
    const fs::path replaced = own / "support" / fs::path(name).filename();
    write(folder.path / name,
          name.starts_with("backends/cuda/support/") && fs::exists(replaced) ? read(replaced) : text);
  }
  write(folder.path / "kernel.cc", "#include \"on_host.h\"\n" + program.text);
  std::string flags = " -std=gnu++20 -w -I" + quoted(folder.path) + " -I" + quoted(own);
  for (int i = 0; i < count; ++i) {
    const std::string option = options[i], architecture = "--gpu-architecture=sm_";
    if (option.starts_with("-D")) flags += " '" + option + "'";
    if (option.starts_with(architecture)) {
      const std::string number = option.substr(architecture.size());
      flags += " -D__CUDA_ARCH__=" + std::to_string(std::stoi(number) * 10);
      if (number == "90a") flags += " -D__CUDA_ARCH_FEAT_SM90_ALL";
    }
  }
  const std::string compiler = TEMPER_EMULATOR_COMPILER;
  program.log =
      ran(compiler + flags + " -E -P " + quoted(folder.path / "kernel.cc") + " -o " + quoted(folder.path / "kernel.ii"),
          folder.path / "log");
  if (!program.log.empty()) return 6;
  const std::string preprocessed = read(folder.path / "kernel.ii");
  std::string text, entries;
  // Expressions are matched only where a kernel begins: over the whole text they take a tenth of the time of compiling
  // it.
  static const std::regex kernel(R"(extern "C"\s+__global__\s+void\s+(?:__cluster_dims__\(([^;{]*?)\)\s*)?(\w+)\()");
  auto copied = preprocessed.begin();
  for (size_t at = 0; (at = preprocessed.find("extern \"C\"", at)) != std::string::npos; ++at) {
    const auto begin = preprocessed.begin() + ptrdiff_t(at);
    std::smatch found;
    if (!std::regex_search(begin, preprocessed.end(), found, kernel, std::regex_constants::match_continuous)) continue;
    const std::string name = found[2], cluster = found[1].matched ? found[1].str() : "1";
    entries += "extern \"C\" __attribute__((visibility(\"default\"))) temper::emulator::Bound* temper_bind_" + name +
               "(void** arguments) { return new BoundKernel<decltype(&" + name + ")>(&" + name + ", arguments); }\n" +
               "extern \"C\" __attribute__((visibility(\"default\"))) const unsigned temper_cluster_" + name +
               "[3] = {" + cluster + "};\n";
    text.append(copied, begin).append("static void " + name + "(");
    copied = found[0].second;
  }
  text.append(copied, preprocessed.end());
  text += "\nextern \"C\" { __attribute__((visibility(\"default\"))) temper::emulator::Machine* temper_machine; }\n" +
          entries;
  write(folder.path / "kernel.ii", text);
  // In two steps, and from a text that names no folder (-P above): the compiler cache then has the first.
  program.log = ran(compiler +
                        " -std=gnu++20 -w -O1 -fPIC -ffp-contract=off -fno-strict-aliasing -fvisibility=hidden "
                        "-x c++-cpp-output -c " +
                        quoted(folder.path / "kernel.ii") + " -o " + quoted(folder.path / "kernel.o"),
                    folder.path / "log");
  if (!program.log.empty()) return 6;
  // Without libraries: what a kernel calls of C's the program that loads it has, and the linker would read them all.
  program.log = ran(
      compiler + " -shared -nostdlib " + quoted(folder.path / "kernel.o") + " -o " + quoted(folder.path / "kernel.so"),
      folder.path / "log");
  if (!program.log.empty()) return 6;
  program.made = read(folder.path / "kernel.so");
  before.keep(program.made);
  return 0;
}

Program& program_of(void* handle) { return *static_cast<Program*>(handle); }

}  // namespace

extern "C" {
int nvrtcVersion(int* major, int* minor) { return *major = 12, *minor = 99, 0; }
int nvrtcGetNumSupportedArchs(int* count) { return *count = 4, 0; }
int nvrtcGetSupportedArchs(int* out) { return out[0] = 75, out[1] = 80, out[2] = 89, out[3] = 90, 0; }
int nvrtcCreateProgram(void** out, const char* text, const char*, int count, const char* const* texts,
                       const char* const* names) {
  Program* program = new Program;
  program->text = text;
  for (int i = 0; i < count; ++i) program->headers[names[i]] = texts[i];
  return *out = program, 0;
}
int nvrtcCompileProgram(void* handle, int count, const char* const* options) {
  return compile(program_of(handle), count, options);
}
int nvrtcGetCUBINSize(void* handle, size_t* size) { return *size = program_of(handle).made.size(), 0; }
int nvrtcGetCUBIN(void* handle, char* to) {
  const std::string& made = program_of(handle).made;
  return std::memcpy(to, made.data(), made.size()), 0;
}
int nvrtcGetProgramLogSize(void* handle, size_t* size) { return *size = program_of(handle).log.size() + 1, 0; }
int nvrtcGetProgramLog(void* handle, char* to) {
  const std::string& log = program_of(handle).log;
  return std::memcpy(to, log.c_str(), log.size() + 1), 0;
}
int nvrtcDestroyProgram(void** handle) { return delete static_cast<Program*>(*handle), *handle = nullptr, 0; }
const char* nvrtcGetErrorString(int result) { return result ? "the text does not compile" : "well"; }
}
