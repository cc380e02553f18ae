// SPDX-License-Identifier: Apache-2.0
// CUDA C text to cubins, by NVRTC, with a cache on disk. Texts may include the embedded ones and nothing else, so that
// they compile where there is no CUDA toolkit.
#pragma once
#include <atomic>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/cuda/support/library.h"

namespace temper::cuda {

struct KernelSource {
  std::string text;
  std::vector<std::string> options;  // besides those that every kernel gets
  bool operator==(const KernelSource&) const = default;
};

struct KernelResources {
  std::string name;
  int registers = 0;
  int64_t spill_stores = 0, spill_loads = 0, stack = 0, shared = 0;  // bytes; shared: static
};

struct Cubin {
  std::vector<std::byte> bytes;
  std::vector<KernelResources> kernels;
  std::vector<std::string> losses;
  bool from_cache = false;
};

// The resources of each kernel as ptxas reports them, from the compiler's log.
std::vector<KernelResources> parse_resources(std::string_view log);
// The places where ptxas gave up what the text asks for: products that it serialises, registers that it does not move.
std::vector<std::string> parse_losses(std::string_view log);

class CompileProcesses;

class Compiler {
 public:
  struct Compiled {
    std::string log;
    std::vector<std::byte> cubin;
  };

  // Opens NVRTC 13 or 12. `cache_folder` is made where it is missing (make_private_folder); empty: no cache on disk,
  // and so it is, with a warning, where it cannot be made, written or trusted: a cache is never worth a failure.
  // `driver_version` (13000 = 13.0; 0: none to respect): throws Error{unsupported} where the driver cannot load what
  // this NVRTC makes, with what to install.
  Compiler(const LibrarySearch& search, std::string cache_folder, int driver_version = 0);
  ~Compiler();
  // `architecture`: "sm_90a". Thread-safe; what was compiled once is kept in memory. Throws Error{unsupported} for an
  // architecture that this NVRTC does not know, and Error{machine} with the compiler's log where the text does not
  // compile.
  Cubin compile(const KernelSource& source, const std::string& architecture) const;
  // For who does not need the kernel yet: false, at once, where it is known or another thread compiles it now. So
  // threads that compile ahead are never idle while there is a text that nobody has begun.
  bool compile_ahead(const KernelSource& source, const std::string& architecture) const;
  // As long as what is returned lives, texts are compiled in up to `processes` processes beside this one, whose
  // arguments begin with `command` (serve_kernels.h): NVRTC keeps the threads of one process waiting for each other.
  // 319 texts took 15 threads of an H200's host 10.9 s, and 15 processes 5.3. Where there is no such process or it
  // fails, and for more texts at once, the caller's thread compiles.
  std::shared_ptr<void> compile_in(std::vector<std::string> command, int processes) const;
  // Past the caches and in this process; throws as compile() does.
  Compiled compile_here(const KernelSource& source, const std::string& architecture) const;
  // Names the compiler: this program with this NVRTC.
  std::string greeting() const;
  int major() const { return major_; }
  int minor() const { return minor_; }
  const std::string& path() const;
  std::string version() const { return concat(major_, '.', minor_); }
  bool knows(const std::string& architecture) const;

 private:
  Cubin make(std::promise<Cubin>& promise, const std::string& key, const KernelSource& source,
             const std::string& architecture) const;
  std::string cache_path(const KernelSource& source, const std::string& architecture) const;
  Cubin find_or_run(const KernelSource& source, const std::string& architecture) const;
  struct Api;
  std::unique_ptr<Api> api_;
  const LibrarySearch search_;
  std::string cache_folder_;
  mutable std::atomic<bool> keeps_ = true;  // until a kernel cannot be written
  int major_ = 0, minor_ = 0;
  std::vector<int> architectures_;
  mutable std::mutex mutex_;
  mutable std::weak_ptr<CompileProcesses> processes_;
  mutable std::map<std::string, std::shared_future<Cubin>> known_;  // by architecture, options and text
};

}  // namespace temper::cuda
