// SPDX-License-Identifier: Apache-2.0
// The scripted GPUs as a libcuda.so.1, for tests of other languages: a whole process runs on them.
#include "scripted_gpu.h"

namespace {

temper::cuda::Result no_text(temper::cuda::Result, const char** text) { return *text = nullptr, 0; }

}  // namespace

// The driver's names jump to the functions of the script.
#define TEMPER_EXPORT(member, symbol, ...)                                       \
  extern "C" {                                                                   \
  __attribute__((visibility("hidden"), used)) void* scripted_##member = nullptr; \
  }                                                                              \
  asm(".text\n.globl " symbol "\n.type " symbol ",@function\n" symbol ":\n\tjmp *scripted_" #member "(%rip)\n");
TEMPER_CUDA_DRIVER_FUNCTIONS(TEMPER_EXPORT)
TEMPER_EXPORT(launch_kernel_ex, "cuLaunchKernelEx")
TEMPER_EXPORT(graph_add_edges, "cuGraphAddDependencies_v2")
TEMPER_EXPORT(tensor_map_tiled, "cuTensorMapEncodeTiled")
TEMPER_EXPORT(tensor_map_im2col, "cuTensorMapEncodeIm2col")
#undef TEMPER_EXPORT

__attribute__((constructor)) static void fill() {
  temper::cuda::DriverApi api = temper::testing::ScriptedGpus::api();
  api.error_name = api.error_text = no_text;
#define TEMPER_FILL(member, symbol, ...) scripted_##member = reinterpret_cast<void*>(api.member);
  TEMPER_CUDA_DRIVER_FUNCTIONS(TEMPER_FILL)
  TEMPER_FILL(launch_kernel_ex, )
  TEMPER_FILL(graph_add_edges, )
  TEMPER_FILL(tensor_map_tiled, )
  TEMPER_FILL(tensor_map_im2col, )
#undef TEMPER_FILL
  if (const char* gpu = std::getenv("SCRIPTED_FULL")) temper::testing::ScriptedGpus::get().full = {std::atoi(gpu)};
  if (const char* at = std::getenv("SCRIPTED_LOST_AT")) temper::testing::ScriptedGpus::get().lost_at = std::atoll(at);
}

// From so many calls on GPU 0 fails in all that it is asked for.
extern "C" __attribute__((visibility("default"))) void scripted_lose(int64_t calls) {
  temper::testing::ScriptedGpus& gpus = temper::testing::ScriptedGpus::get();
  gpus.lost_at = gpus.calls + calls;
}

// What no program may do and this one did, a line each.
extern "C" __attribute__((visibility("default"))) const char* scripted_misuses() {
  static std::string text;
  text.clear();
  for (const std::string& misuse : temper::testing::ScriptedGpus::get().misuses) text += misuse + "\n";
  return text.c_str();
}
