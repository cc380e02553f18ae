// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/preload.h"

#include <algorithm>
#include <system_error>
#include <thread>

#include "backends/cuda/machine.h"

namespace temper::cuda {

namespace {

struct Loads {
  std::vector<std::string_view> names;  // any of them in a manifest
  std::vector<std::string> libraries;   // opened before the GPU is there; the first finds the others by itself
  std::string (Machine::*start)() const;
};
// In the order in which they are opened: the loader opens one at a time, and a plan begins with convolutions.
const Loads kLoads[] = {
    {{"\"cuda.conv.cudnn\""}, {"libcudnn.so.9"}, &Machine::why_no_cudnn},
    // cuDNN 9's engine 39 calls cuBLASLt.
    {{"\"cuda.matmul.cublaslt\"", "\"cuda.matmul.cublaslt_int8\"", "\"cuda.conv.cublaslt_int8\"", "\"engine 39 "},
     {"libcublasLt.so.13", "libcublasLt.so.12"},
     &Machine::why_no_cublaslt},
};

void load(const Loads& loads, int ordinal, const LibrarySearch& search) {
  Library::open({"libcuda.so.1"}, search, "running on a GPU", "");
  Library::open(loads.libraries, search, "running a plan", "");
  // cuDNN opens this one when it makes its first plan.
  if (loads.start == &Machine::why_no_cudnn)
    Library::open({"libcudnn_engines_precompiled.so.9"}, search, "running a plan", "");
  const auto machine = Machine::open(ordinal, search);
  ((*machine).*loads.start)();
}

struct Threads {
  std::mutex mutex;
  bool started[std::size(kLoads)] = {};
  std::vector<std::thread> threads;
  ~Threads() {
    for (std::thread& thread : threads) thread.join();
  }
};

}  // namespace

void preload(std::string_view manifest, int ordinal, const DeviceSettings& settings) {
  // A context of the caller's may go while a thread still opens libraries in it.
  if (settings.cuda_context) return;
  static Threads threads;
  const std::lock_guard lock(threads.mutex);
  std::vector<const Loads*> wanted;
  for (size_t i = 0; i < std::size(kLoads); ++i) {
    const auto& names = kLoads[i].names;
    if (threads.started[i] || std::none_of(names.begin(), names.end(),
                                           [&](std::string_view name) { return manifest.find(name) != manifest.npos; }))
      continue;
    threads.started[i] = true;
    wanted.push_back(&kLoads[i]);
  }
  if (wanted.empty()) return;
  try {
    threads.threads.emplace_back([wanted, ordinal, search = LibrarySearch{settings.library_folders}] {
      for (const Loads* loads : wanted) try {
          load(*loads, ordinal, search);
        } catch (const std::exception&) {  // said where the library is needed
        }
    });
  } catch (const std::system_error&) {  // no room for a thread: they are loaded where they are needed
  }
}

}  // namespace temper::cuda
