// SPDX-License-Identifier: Apache-2.0
// The few helpers over oneDNN (v2 API) that tactics share. Included by .cc files of backends/cpu only.
#pragma once
#include <algorithm>
#include <dnnl.hpp>
#include <functional>
#include <optional>

#include "backends/cpu/cpu.h"
#include "backends/cpu/onednn_threads.h"
#include "base/checked.h"
#include "base/signals.h"
#include "base/team.h"

namespace temper {

dnnl::engine& dnnl_cpu_engine();
dnnl::memory::data_type dnnl_dtype(DType dtype);  // throws Error{unsupported} for types oneDNN has not
dnnl::memory::desc dnnl_desc(DType dtype, const Dims& dims, Layout layout);
// Weights [M,C,k...] or grouped [G,M/G,C/G,k...], row-major.
dnnl::memory::desc dnnl_plain_desc(DType dtype, const Dims& dims);
dnnl::memory::desc dnnl_any_desc(DType dtype, const Dims& dims);
// Weights as `stored`, rewritten into a primitive's own format at `into`, which has room for `packed`.
void dnnl_pack(const dnnl::memory::desc& stored, std::span<const std::byte> weights, const dnnl::memory::desc& packed,
               std::byte* into);

// oneDNN takes the number of threads of a primitive from what OpenMP says on the calling thread: of some when they are
// created, of others each time they run. Everything of oneDNN that works is called inside of one of these. Throws
// Error{machine} where the system gives no more threads.
//
// The code that oneDNN makes for products of f32 (dnnl_sgemm, and what it calls gemm:jit) has its stack pointer in
// memory of the heap where a sum has more than 84 terms or so. The handler of a signal that came meanwhile, such as
// Ctrl-C in Python, would write its frame over what lies below (oneDNN's issue 4845; no version 2 is mended). So they
// run with `holds_signals`, which takes two calls of the system.
class ThreadScope {
 public:
  explicit ThreadScope(int threads, Parts parts = Parts::together, bool holds_signals = false);
  ~ThreadScope();
  ThreadScope(const ThreadScope&) = delete;

 private:
  DnnlWork before_;
  int libgomp_before_ = 0;  // 0: oneDNN's regions are not libgomp's
  std::optional<SignalsHeld> held_;
};

// Calls `create`; a dnnl::error becomes nullopt (the candidate does not exist) with the reason in `why`.
template <class F>
auto dnnl_try(F&& create, std::string* why = nullptr) -> std::optional<decltype(create())> {
  try {
    return create();
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_out_of_memory) fail(ErrorKind::machine, "oneDNN is out of memory");
    if (why) *why = error.what();
    return std::nullopt;
  }
}

// A primitive with its memory objects made once; a launch only sets pointers and executes, through the C API, which
// needs no container built per call. Runs on as many threads as the ThreadScope has in which it was made.
class DnnlCall {
 public:
  DnnlCall() = default;
  explicit DnnlCall(dnnl::primitive primitive);
  // The returned index names the argument in set().
  size_t add(int argument, const dnnl::memory::desc& desc);
  void set(size_t index, const void* data) { memories_[index].set_data_handle(const_cast<void*>(data)); }
  void execute();

 private:
  dnnl::primitive primitive_;
  int threads_ = 1;
  Parts parts_ = Parts::together;
  bool holds_signals_ = false;
  std::vector<dnnl::memory> memories_;
  std::vector<dnnl_exec_arg_t> arguments_;
};

// How much of an epilogue that starts at an f32 accumulator a primitive takes over. The rest, if any, is a program
// whose input 0 is what the primitive writes.
struct AbsorbedEpilogue {
  int bias = -1;  // which extra input is the bias (per channel, first step), -1: none
  dnnl::post_ops post_ops;
  std::vector<int> binary_inputs;  // extra inputs of the binary post-ops, in their order
  int residual = -1;          // the extra input that is added from the output's own memory, where it must lie before
  DType stored = DType::f32;  // what the primitive writes
  Program rest;               // inputs: that, then every extra input of the epilogue
};
// The bias of a primitive as it is described: f32, `dims`, in any or plain order; where nothing is absorbed as one, an
// empty descriptor, which oneDNN takes for none.
inline dnnl::memory::desc any_bias_desc(bool has_bias, const Dims& dims) {
  return has_bias ? dnnl_any_desc(DType::f32, dims) : dnnl::memory::desc();
}
inline dnnl::memory::desc plain_bias_desc(bool has_bias, const Dims& dims) {
  return has_bias ? dnnl_plain_desc(DType::f32, dims) : dnnl::memory::desc();
}
// The extra inputs that binary post-ops read: the arguments of `call` that they become, and which input of an op with
// two of its own each is.
std::vector<std::pair<size_t, size_t>> add_binary_inputs(DnnlCall& call, const AbsorbedEpilogue& epilogue);
// `in_place` is `all`, but a tensor of the output's type that is added first is expected in the output's memory: oneDNN
// 2.6 has kernels for AMX that read a residual there and nowhere else.
enum class Absorb { bias_only, bias_and_relu, all, in_place };
// `extras` are the types of the epilogue's extra inputs; `channel_axis` is the output axis a bias runs along; `layout`
// that of the output and of extras of full shape. Only f32 steps are absorbed, on f32 inputs or bf16 ones that are
// cast, and the cast of the result to bf16 where the `operands` are that.
AbsorbedEpilogue absorb_epilogue(const Program& epilogue, DType operands, const std::vector<TensorType>& extras,
                                 const TensorType& output, size_t channel_axis, Layout layout, Absorb how);
// The description of a conv for oneDNN, besides types: grouped weights [G,M/G,C/G,k...] where there are groups,
// dilation less one, and paddings that give exactly the output's size.
struct ConvGeometry {
  Dims weights, dilates, begin, end;
};
ConvGeometry conv_geometry(const Problem& problem);
// The extra inputs (of an op with `first` inputs of its own) as types.
std::vector<TensorType> extra_types(const Problem& problem, size_t first);
// Whether oneDNN computes on the first input's dtype, as far as that is f32 or bf16, on this CPU.
Support dnnl_float_supported(const Problem& problem, const Device& device);

// The work around a product: before it, the residual is brought to where it is added to; behind it, the rest of its
// epilogue runs, in place, or from the workspace where it changes the dtype. before(), the primitive, run().
class EpilogueTail {
 public:
  EpilogueTail() = default;
  // `stored`: what the primitive writes, in `layout`. `residual`: the extra input that the output's memory holds
  // before, which has the output's type and layout; -1 for none.
  EpilogueTail(const Problem& problem, DType stored, const Program& rest, Layout layout, int residual = -1);
  static Support supports(const Problem& problem, DType stored, const Program& rest, Layout layout);
  // With `scratch` bytes for the primitive, which are at scratch().
  int64_t workspace(int64_t scratch) const { return stored_bytes_ + std::max(scratch, rest_ ? rest_->workspace() : 0); }
  void* scratch(const Buffers& buffers) const {
    return buffers.workspace ? static_cast<std::byte*>(buffers.workspace) + stored_bytes_ : nullptr;
  }
  // Where the primitive writes: the output, or the workspace.
  void* destination(const Buffers& buffers) const { return stored_bytes_ ? buffers.workspace : buffers.outputs[0]; }
  // The input that the output should share its memory with; -1 for none. Where it does not, before() copies it.
  int in_place() const { return residual_; }
  void before(const Buffers& buffers) const;
  void run(const Buffers& buffers);

 private:
  int64_t stored_bytes_ = 0, output_bytes_ = 0;
  int residual_ = -1, threads_ = 1;
  std::unique_ptr<Kernel> rest_;
  std::vector<const void*> rest_inputs_;
};
// Layout of each extra input: full shape as the output, others plain.
Layout extra_layout(const TensorType& extra, const TensorType& output, Layout layout);

}  // namespace temper
