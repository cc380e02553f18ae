// SPDX-License-Identifier: Apache-2.0
// A tactic is one way to compute a problem on a device. Tactics compete by measured time; each refusal has a reason.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/layout.h"
#include "base/aligned.h"
#include "graph/op.h"

namespace temper {

namespace cuda {
class Machine;
}

struct Port {
  TensorType type;                   // concrete
  const Tensor* constant = nullptr;  // at build: the tensor of a constant input. At load: only if it was not packed
  bool is_constant = false;
  bool present = true;        // false: an absent optional input
  bool no_negatives = false;  // no number in it is below zero (graph/signs.h)
  int64_t pitch = 0;          // leading dimension of a strided view of a larger tensor (layout.h); 0: contiguous
  bool in_place = false;      // an input of a concat that already lies where the output wants it
  Dims dims() const { return type.dims(); }
};

// An op with concrete types. `threads` is how many the kernel may use: 1 where several chains run side by side.
struct Problem {
  Op op;
  std::vector<Port> inputs, outputs;
  int threads = 1;
  // The constants of the whole model do not fit into the last-level cache: each run reads its own from memory, and is
  // timed so. That decides, for instance, against Winograd's fourfold weights where they are large.
  bool cold_constants = false;
  // Whether some port is a strided view of a larger tensor.
  bool has_parts() const {
    for (const auto* ports : {&inputs, &outputs})
      for (const Port& port : *ports)
        if (port.pitch || port.in_place) return true;
    return false;
  }
  // One line: "conv(f32[1,64,56,56], f32[64,64,3,3]*) strides=[1,1] ... -> f32[...] threads=2"; * marks constants, +
  // inputs without numbers below zero. Strided views are not marked: kernels take as long with them.
  std::string text() const;
};

// A candidate way to run: the layouts of its ports and whatever text the tactic needs to build the same thing again.
struct Config {
  std::string text;
  std::vector<Layout> inputs, outputs;
  bool operator==(const Config&) const = default;
};

struct Support {
  std::string reason;  // why not; empty = yes
  bool yes() const { return reason.empty(); }
};
inline Support supported() { return {}; }
template <class... Parts>
Support refused(const Parts&... parts) {
  return {concat(parts...)};
}

// The result of a tactic's build. Inputs marked in `consumed` are not handed to the kernel (and not stored) any more.
// Equal bytes and equal code of several plans are stored once, so what depends on weights alone belongs into `bytes`,
// what depends on shapes into `code`.
struct Packed {
  AlignedBytes bytes;  // packed constants
  std::vector<bool> consumed;
  AlignedBytes code;  // compiled kernels
};
// The same at load; it stays alive (and 64-byte aligned) as long as the kernel.
struct PackedView {
  std::span<const std::byte> bytes, code;
  operator std::span<const std::byte>() const { return bytes; }
};

// Addresses in the memory of the device that the kernel runs on.
struct Buffers {
  std::span<const void* const> inputs;  // null for consumed and absent ones
  std::span<void* const> outputs;
  void* workspace = nullptr;  // 64-byte aligned, workspace() bytes
  void* stream = nullptr;     // Queue::stream() of the device; null where kernels run on the host
};

// A kernel belongs to one session (and one thread of it): it may keep state between launches, and no two overlap.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual int64_t workspace() const { return 0; }
  // Whether launch() reads this (present) input; false for constants that were packed.
  virtual bool reads(size_t input) const { return true; }
  // The input that output 0 should share its memory with, -1 for none. The plan does so where it is not read again.
  virtual int in_place() const { return -1; }
  // Results are made from the last one to the first from now on; false where the kernel has one way alone. Called, if
  // at all, before prepare().
  virtual bool go_backwards() { return false; }
  // Brings what the kernel needs to the device. It is called once before the first launch, while the bytes that `load`
  // was given are still there. Planning asks kernels for the above and launches none.
  virtual void prepare() {}
  virtual void launch(const Buffers& buffers) = 0;
};

// The facts that a tactic may know of the machine. They are filled in once (backends.cc); tests make their own.
struct Device {
  std::string backend;      // "cpu", "cuda", "reference"
  std::string fingerprint;  // CPU model, ISA and library versions: plans and timings are valid for equal ones
  bool avx512 = false;
  bool avx512_bf16 = false;
  bool avx512_vnni = false;
  bool amx = false;  // tiles of bf16 and of 8-bit integers
  bool avx2 = false;
  bool dot_product = false;                  // of four bytes: aarch64's, AVX-VNNI's
  std::string architecture;                  // cuda: "sm_90a"
  std::shared_ptr<const cuda::Machine> gpu;  // cuda: the GPU that is open; else null
};

// The bytes that `load` gets may come from a file that someone changed. The caller has asked `supports`, and for a
// tactic without `build` it has found the configuration among `configs`. A tactic with `build`, whose configs() may be
// slow, checks the configuration and the size of the packed bytes in `load` and throws Error{bad_file}. What it
// accepts, its kernel runs within the buffers that the problem's types and the configuration's layouts imply. Constants
// that were packed are null in `supports` and `load` then.
struct Tactic {
  std::string_view name;  // "cpu.conv.onednn"
  int version;            // part of the timing key: raise it when the kernel changes
  Support (*supports)(const Problem& problem, const Device& device);
  // Candidates to time, the likeliest first; never empty for a supported problem.
  std::vector<Config> (*configs)(const Problem& problem, const Device& device);
  // Packs constants and compiles. It may be slow, and is called at build time only. Null: there is nothing to do.
  Packed (*build)(const Problem& problem, const Config& config, const Device& device);
  // Makes the kernel; must be quick.
  std::unique_ptr<Kernel> (*load)(const Problem& problem, const Config& config, const PackedView& packed,
                                  const Device& device);
  // Such a tactic is a candidate only where there is no other.
  bool last_resort = false;
  // The part of build() that takes long and needs no constants, so that it is quick afterwards; called by several
  // threads at a time. Null: there is none.
  void (*compile)(const Problem& problem, const Config& config, const Device& device) = nullptr;
  // Whether it can read and write the ports of this problem, which it supports, that are strided views of larger
  // tensors. Null: it cannot.
  bool (*takes_parts)(const Problem& problem, const Config& config) = nullptr;
  // The tactic launches kernels of another library: one that faults takes the process's context on the GPU with it,
  // so they are timed in a process of their own (tune/helper.h).
  bool foreign = false;
  // The time that a candidate is expected to take, by a model of the kernel: a number that compares with those of other
  // candidates of the problem on the device, and with nothing else. Null, or negative: nothing is expected.
  double (*expected)(const Problem& problem, const Config& config, const Device& device) = nullptr;
  bool takes(const Problem& problem, const Config& config) const {
    return !problem.has_parts() || (takes_parts && takes_parts(problem, config));
  }
};

// Checks that `load` owes in a tactic with `build`.
inline void expect_packed(std::span<const std::byte> packed, size_t bytes) {
  if (packed.size() != bytes)
    fail(ErrorKind::bad_file, "its packed constants have ", packed.size(), " bytes; ", bytes, " are expected");
}
inline void expect_layouts(const Config& config, const std::vector<Layout>& inputs,
                           const std::vector<Layout>& outputs) {
  if (config.inputs != inputs || config.outputs != outputs)
    fail(ErrorKind::bad_file, "its layouts are not those of one of its configurations");
}

}  // namespace temper
