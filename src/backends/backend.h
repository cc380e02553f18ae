// SPDX-License-Identifier: Apache-2.0
// A backend: the devices of one kind, their tactics, and copies between their layouts.
#pragma once
#include "backends/queue.h"
#include "backends/tactic.h"

namespace temper {

// A copy between two layouts of one tensor.
struct Reorder {
  TensorType type;
  Layout from, to;
  int threads = 1;
};

struct DeviceSettings {
  std::vector<std::string> library_folders;  // where NVIDIA's libraries are looked for first (cuda::LibrarySearch)
  // A CUcontext of the GPU, in which the caller's memory and streams lie, and which outlives all that is made in it;
  // null: the GPU's primary context, that of the CUDA runtime.
  void* cuda_context = nullptr;
};

struct Backend {
  std::string_view name;
  // Describes the `ordinal`-th such device of this machine; throws Error{unsupported} where it has none.
  Device (*device)(int ordinal, const DeviceSettings& settings);
  std::span<const Tactic* const> (*tactics)();  // in the order used when nothing may be measured
  // Compiles a reorder's kernel; null: nothing is compiled.
  AlignedBytes (*compile_reorder)(const Reorder& reorder, const Device& device);
  std::unique_ptr<Kernel> (*reorder)(const Reorder& reorder, std::span<const std::byte> code, const Device& device);
  // Null: kernels read and write the host's memory and are done when launch() returns.
  std::unique_ptr<Queue> (*queue)(const Device& device);
  // Begins, beside the caller, to open what the kernels of a plan need; a hint. `manifest`: the plan file's, a text in
  // which tactics and configurations are named. Null: there is nothing to open.
  void (*preload)(std::string_view manifest, int ordinal, const DeviceSettings& settings) = nullptr;
  // As long as what is returned lives, kernels of the device are compiled in up to `processes` processes beside this
  // one. `command`: the program of BuildOptions::timing_helper. Null: kernels are not compiled.
  std::shared_ptr<void> (*compile_in)(const Device& device, std::vector<std::string> command, int processes) = nullptr;
  // Some of its tactics take ops fused with their neighbours (graph/ops/fused.h).
  bool fuses = false;
  // Products of rows by weights are its fastest, so that other forms should become such (passes/turn_products.cc,
  // passes/patches_as_products.h).
  bool by_rows = false;
};

// THE backend list. `device` is a backend's name or, where a machine may have several, "cuda:1". Throws Error{usage}
// for an unknown one.
const Backend& find_backend(std::string_view device);
std::span<const Backend* const> all_backends();
Device open_device(std::string_view device, const DeviceSettings& settings = {});
void preload(std::string_view device, std::string_view manifest, const DeviceSettings& settings);
// Null for devices that have no memory of their own.
std::unique_ptr<Queue> open_queue(const Device& device);
// Finds a tactic by full name ("cpu.conv.onednn") in any backend; null when there is none (a plan of another version).
const Tactic* find_tactic(std::string_view name);

// The key of a measured time: everything that the time depends on, as text. The part up to the last " | " is the
// problem on its device, the rest the candidate. `chains`: copies that run side by side.
std::string timing_group(std::string_view fingerprint, const Problem& problem, int chains);
std::string timing_key(const std::string& group, const Tactic& tactic, const Config& config);
// The candidate that the rest of a key, behind the group, names; the tactic is null where this build has none of that
// name and version.
std::pair<const Tactic*, Config> candidate_of_key(std::string_view rest, size_t inputs, size_t outputs);

}  // namespace temper
