// SPDX-License-Identifier: Apache-2.0
// A recipe describes how one kind of kernel computes a problem. From a problem and a configuration it makes a list of
// launches: the texts to compile, and the grids, arguments and constants to launch them with. A recipe needs no GPU, no
// driver and no compiler, so choosing and planning can be tested anywhere. A tactic (recipe_tactic.h) compiles the
// launches when a plan is built, and runs them when the plan runs.
#pragma once
#include <cstring>
#include <utility>

#include "backends/cuda/support/compiler.h"
#include "backends/cuda/support/driver.h"
#include "backends/tactic.h"
#include "base/aligned.h"
#include "base/checked.h"

namespace temper::cuda {

// A slot is a pointer argument of a kernel. It says which buffer the pointer is resolved to at launch.
struct Slot {
  // `packed`: the recipe's prepacked constants. `fault`: a struct Fault (machine.h), which a kernel fills in when it
  // meets invalid data; the next wait() throws it.
  enum class Kind { input, output, workspace, packed, fault };
  Kind kind = Kind::input;
  int index = 0;       // of the problem's inputs or outputs
  int64_t offset = 0;  // bytes, into the workspace or the prepacked constants
  bool operator==(const Slot&) const = default;
};

// A job is one launch of one kernel. The kernel's arguments are a pointer for each slot, then the tensor maps, and
// then, unless `parameters` is empty, one struct with those bytes, passed by value. Sizes are parameters rather than
// constants of the text wherever that costs no speed, so one cubin serves many shapes.
struct Job {
  // A tensor map (the descriptor that TMA wants) over the buffer of a slot.
  struct Map {
    Slot slot;
    TensorMapSpec spec;
  };
  std::string entry;
  KernelSource source;
  LaunchShape shape;
  std::vector<Slot> slots;
  std::vector<Map> maps;
  std::vector<std::byte> parameters;
  // Programmatic dependent launch (PDL): the kernel itself waits for the previous kernel (wait_for_inputs in
  // support/memory.cuh), so it may start before that one has ended.
  bool overlap = false;
  // Where in `parameters` a u32 says that results are made from the last one to the first: all bits set, or none; -1:
  // nowhere.
  int64_t backwards_at = -1;
};

// The properties of a GPU that configurations and grids are chosen by. There is no default: the caller says which GPU
// it is, and tests that compile without one say which they mean.
struct GpuProperties {
  explicit GpuProperties(const GpuInfo& gpu)
      : sms(gpu.sms),
        shared_per_block(gpu.shared_per_block),
        l2_bytes(gpu.l2_bytes),
        capability(gpu.major * 10 + gpu.minor) {}
  int sms;                   // streaming multiprocessors
  int64_t shared_per_block;  // bytes of shared memory that a block may have
  int64_t l2_bytes;
  int capability;  // compute capability: 90 = 9.0
};

struct Recipe {
  std::string_view name;  // "cuda.pointwise"
  int version;            // raise it when the kernel changes
  Support (*supports)(const Problem& problem);
  // The likeliest first; never empty for a supported problem.
  std::vector<Config> (*configs)(const Problem& problem, const GpuProperties& gpu);
  // The work that a recipe makes of one configuration: its jobs in launch order (none if the outputs have no elements),
  // and the memory that they need.
  struct Work {
    std::vector<Job> jobs;
    int64_t workspace = 0;  // bytes
    // Prepacked constants (mostly weights), copied to the GPU once. They are empty if the problem lacks the constant,
    // as it does at load, when a plan holds the prepacked bytes already. `packed_bytes` is their size in either case.
    AlignedBytes packed;
    int64_t packed_bytes = 0;
    std::vector<bool> consumed;  // inputs that kernels read from `packed` alone; empty: none

    // So many bytes more of the workspace, aligned as buffers are.
    Slot place(int64_t bytes) {
      return {Slot::Kind::workspace, 0, std::exchange(workspace, workspace + round_up<int64_t>(bytes, 256))};
    }
  };
  Work (*work)(const Problem& problem, const Config& config, const GpuProperties& gpu);
  std::string_view architecture = {};  // the only architecture that has the kernel, "sm_90a"; empty: every one
  // Tactic::takes_parts: whether the kernel reads and writes strided views of larger tensors. Null: it does not.
  bool (*takes_parts)(const Problem& problem, const Config& config) = nullptr;
  // Whether a supported problem is worth timing. A recipe refuses here where another one is known to be faster, because
  // compiling and timing it would only cost build time. Null: it is always worth timing.
  Support (*worth_timing)(const Problem& problem, std::string_view architecture) = nullptr;
  // The kernel has no other way than the matrix units. Below compute capability 8.0 they do not multiply bf16.
  bool matrix_units = false;
  // The time that a configuration is expected to take, in clocks of an H100: Tactic::expected. Null: none is expected.
  double (*expected_clocks)(const Problem& problem, const Config& config, const GpuProperties& gpu) = nullptr;
  // How many of configs(), the likeliest, are worth compiling and timing in the same layouts, at least 1. The recipe
  // computes with the others, too: a plan that has one still loads. Null: all of them.
  size_t (*worth_offering)(const Problem& problem, const GpuProperties& gpu) = nullptr;
};

Support recipe_supports(const Recipe& recipe, const Problem& problem, std::string_view architecture);
// As recipe_supports, and asks worth_timing, too: this is what the tactic made of the recipe says.
Support recipe_offered(const Recipe& recipe, const Problem& problem, std::string_view architecture);

// The recipe's configurations that are worth offering (Recipe::worth_offering), in their order.
std::vector<Config> offered_configs(const Recipe& recipe, const Problem& problem, const GpuProperties& gpu);

// An implementation of worth_timing: it refuses where `faster` takes the problem.
Support unless_taken_by(const Recipe& faster, const Problem& problem, std::string_view architecture);

// The recipes among the backend's tactics (tactics.cc), in the order of that list.
std::span<const Recipe* const> recipes();

// Writes a kernel's by-value struct: each number at its natural alignment, as a compiler would place it.
class ParameterWriter {
 public:
  template <class T>
  ParameterWriter& put(T value) {
    align(sizeof(T));
    const size_t at = bytes_.size();
    bytes_.resize(at + sizeof(T));
    std::memcpy(bytes_.data() + at, &value, sizeof(T));
    return *this;
  }
  // struct Divisor of support/memory.cuh; 1 <= divisor < 2^31 where 32-bit positions are divided.
  ParameterWriter& put_divisor(int64_t divisor);
  // A u32 of 0, for Job::backwards_at.
  ParameterWriter& put_backwards(Job& job) {
    put(uint32_t(0));
    job.backwards_at = int64_t(bytes_.size() - sizeof(uint32_t));
    return *this;
  }
  // The member that ProgramNumbers::text declares; nothing where there are none.
  ParameterWriter& put_numbers(const std::vector<float>& numbers) {
    for (const float number : numbers) put(number);
    return *this;
  }
  // struct Walk<RANK, OPERANDS>: sizes and, for each operand, strides of the same number of axes.
  ParameterWriter& put_walk(const Dims& sizes, const std::vector<Dims>& strides);
  std::vector<std::byte> finish(size_t alignment = 8) {
    align(alignment);
    return std::move(bytes_);
  }

 private:
  void align(size_t to) { bytes_.resize((bytes_.size() + to - 1) / to * to); }
  std::vector<std::byte> bytes_;
};

// Positions fit 32-bit arithmetic (and the division by multiplication above).
inline bool small_positions(int64_t count) { return count < (int64_t(1) << 31) - 65536; }
// Blocks for `count` threads of `block` each; throws Error{unsupported} beyond what a grid can have.
uint32_t blocks_for(int64_t count, int64_t block);

// Strides in elements, by logical axis, of a tensor of `dims` in `layout` (plain or channels_last). `pitch` is the
// leading dimension if the tensor is a strided view of a larger one, 0 if it is contiguous.
Dims logical_strides(Dims dims, Layout layout, int64_t pitch = 0);
inline Dims logical_strides(const Port& port, Layout layout) {
  return logical_strides(port.dims(), layout, port.pitch);
}
// All ports plain.
inline Config plain_config(const Problem& problem, std::string text) {
  return {std::move(text), std::vector<Layout>(problem.inputs.size(), Layout::plain),
          std::vector<Layout>(problem.outputs.size(), Layout::plain)};
}
// For Recipe::configs: all ports plain, and all channels_last where the tensors have channels.
std::vector<Config> same_layout_configs(const Problem& problem, const GpuProperties& gpu);
inline bool simple_layout(Layout layout) { return layout == Layout::plain || layout == Layout::channels_last; }

}  // namespace temper::cuda
