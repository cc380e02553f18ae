// SPDX-License-Identifier: Apache-2.0
// A recipe turns a problem into kernel launches: what to compile, and what to launch it with. It needs no GPU, no
// driver and no compiler, so choosing and planning can be tested anywhere. A tactic compiles the jobs when a plan is
// built and launches them when it runs.
#pragma once
#include <cstring>

#include "backends/cuda/support/compiler.h"
#include "backends/cuda/support/driver.h"
#include "backends/tactic.h"

namespace temper::cuda {

// What a pointer parameter of a kernel points to.
struct Slot {
  // `fault`: a struct Fault (machine.h) that the kernel fills in where the data are wrong; the next wait() throws it.
  enum class Kind { input, output, workspace, packed, fault };
  Kind kind = Kind::input;
  int index = 0;       // of the problem's inputs or outputs
  int64_t offset = 0;  // bytes, into the workspace or the packed constants
  bool operator==(const Slot&) const = default;
};

// A tensor map of what is in a slot.
struct SlotMap {
  Slot slot;
  TensorMapSpec spec;
};

// One launch. The kernel's parameters are one pointer for each slot, the maps, and then, where `parameters` is not
// empty, one struct with those bytes. The text does not depend on sizes where that costs nothing, so one cubin serves
// many shapes.
struct Job {
  std::string entry;
  KernelSource source;
  LaunchShape shape;
  std::vector<Slot> slots;
  std::vector<SlotMap> maps;
  std::vector<std::byte> parameters;
  // The kernel waits itself for what is in front of it (wait_for_inputs in support/memory.cuh), so it may be launched
  // early.
  bool overlap = false;
};

struct Recipe {
  std::string_view name;  // "cuda.pointwise"
  int version;            // raise it when the kernel changes
  Support (*supports)(const Problem& problem);
  std::vector<Config> (*configs)(const Problem& problem);  // the likeliest first; never empty for a supported problem
  // In the order of launching. Empty where the outputs have no elements.
  struct Work {
    std::vector<Job> jobs;
    int64_t workspace = 0;  // bytes
    // Constants, to be copied to the GPU once. Empty where the problem lacks the constant (at load, when it was packed
    // before), while `packed_bytes` is its size always.
    std::vector<std::byte> packed;
    int64_t packed_bytes = 0;
    std::vector<bool> consumed;  // inputs that are in `packed` and not read otherwise; empty: none
  };
  Work (*work)(const Problem& problem, const Config& config);
  std::string_view architecture = {};  // the only one that has it, "sm_90a"; empty: all
  // As Tactic::takes_parts.
  bool (*takes_parts)(const Problem& problem, const Config& config) = nullptr;
  // Of a problem that it supports: refused where another recipe is known to be faster, so that timing this one is not
  // worth what its compilation takes. Null: worth it everywhere.
  Support (*worth_timing)(const Problem& problem, std::string_view architecture) = nullptr;
};

Support recipe_supports(const Recipe& recipe, const Problem& problem, std::string_view architecture);
// The same of the recipe as a tactic: worth_timing, too.
Support recipe_offered(const Recipe& recipe, const Problem& problem, std::string_view architecture);

// For worth_timing: refused where `faster` takes the problem.
Support unless_taken_by(const Recipe& faster, const Problem& problem, std::string_view architecture);

// THE list, in the order used when nothing may be measured.
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

// Strides in elements of the axes of a tensor of `dims` in `layout` (plain or channels_last), by logical axis; of a
// part of a larger tensor with its pitch.
Dims logical_strides(Dims dims, Layout layout, int64_t pitch = 0);
inline Dims logical_strides(const Port& port, Layout layout) {
  return logical_strides(port.dims(), layout, port.pitch);
}
inline bool simple_layout(Layout layout) { return layout == Layout::plain || layout == Layout::channels_last; }

}  // namespace temper::cuda
