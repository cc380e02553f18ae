// SPDX-License-Identifier: Apache-2.0
// A problem that no kernel of the GPU computes runs on the CPU: its inputs are copied to the host and its outputs back,
// in the order of work of the stream (and inside a CUDA graph). The last resort, and never silent: the build names each
// such node with the bytes that it copies.
#include <algorithm>
#include <cstring>

#include "backends/backend.h"
#include "backends/cpu/eager.h"
#include "backends/cuda/machine.h"
#include "backends/cuda/recipe.h"
#include "base/checked.h"
#include "base/string_table.h"

namespace temper {

namespace cuda {
namespace {

const Device& cpu_here() {
  static const Device device = open_device("cpu");
  return device;
}

Support supports(const Problem& problem, const Device&) {
  return plain_way(problem, cpu_here()).tactic ? supported() : refused("the CPU has no way to compute it either");
}

std::vector<Config> configs(const Problem& problem, const Device&) {
  return {plain_config(problem, std::string(plain_way(problem, cpu_here()).tactic->name))};
}

Packed build(const Problem& problem, const Config&, const Device&) {
  const PlainWay inner = plain_way(problem, cpu_here());
  return inner.tactic->build ? inner.tactic->build(problem, inner.config, cpu_here()) : Packed{};
}

class HostKernel final : public Kernel {
 public:
  HostKernel(const Problem& problem, const PlainWay& inner, const PackedView& packed, const GpuRef& gpu)
      : kernel_(inner.tactic->load(problem, inner.config, packed, cpu_here())) {
    int64_t bytes = 0;
    auto place = [&](const Port& port) {
      const int64_t at = bytes;
      bytes += round_up<int64_t>(byte_count(port.type.dtype, port.dims()), 64);
      return at;
    };
    std::vector<int64_t> in, out;
    for (size_t i = 0; i < problem.inputs.size(); ++i) {
      const Port& port = problem.inputs[i];
      const bool copied = port.present && !port.is_constant;
      in.push_back(copied ? place(port) : -1);
      in_bytes_.push_back(copied ? byte_count(port.type.dtype, port.dims()) : 0);
      inputs_.push_back(port.constant ? port.constant->raw().data() : nullptr);
    }
    for (const Port& port : problem.outputs) {
      out.push_back(place(port));
      out_bytes_.push_back(byte_count(port.type.dtype, port.dims()));
    }
    memory_ = PinnedMemory(gpu, bytes);
    for (size_t i = 0; i < in.size(); ++i)
      if (in[i] >= 0) inputs_[i] = memory_.data() + in[i];
    for (int64_t at : out) outputs_.push_back(memory_.data() + at);
    workspace_.resize(size_t(kernel_->workspace()));
  }
  bool reads(size_t input) const override { return in_bytes_[input] > 0; }
  void prepare() override { kernel_->prepare(); }
  void launch(const Buffers& buffers) override {
    work_ = &work_stream_of(buffers);
    strings_ = &current_strings();
    for (size_t i = 0; i < inputs_.size(); ++i)
      if (in_bytes_[i])
        work_->stream.copy_to_host(const_cast<void*>(inputs_[i]), address_of(buffers.inputs[i]), in_bytes_[i]);
    work_->stream.call_host([](void* self) { static_cast<HostKernel*>(self)->run(); }, this);
    for (size_t o = 0; o < outputs_.size(); ++o)
      work_->stream.copy_to_device(address_of(buffers.outputs[o]), outputs_[o], out_bytes_[o]);
  }

 private:
  void run() {
    try {
      const UseStrings used(*strings_);
      kernel_->launch({inputs_, outputs_, workspace_.data(), nullptr});
    } catch (...) {  // thrown again by wait()
      const std::lock_guard lock(work_->failure_mutex);
      work_->failure = std::current_exception();
    }
  }
  std::unique_ptr<Kernel> kernel_;
  WorkStream* work_ = nullptr;
  StringTable* strings_ =
      nullptr;  // the session's: a thread of the driver runs the kernel, in later runs of a graph, too
  PinnedMemory memory_;
  std::vector<const void*> inputs_;
  std::vector<void*> outputs_;
  std::vector<int64_t> in_bytes_, out_bytes_;
  AlignedBytes workspace_;
};

std::unique_ptr<Kernel> load(const Problem& problem, const Config& config, const PackedView& packed,
                             const Device& device) {
  const PlainWay inner = plain_way(problem, cpu_here());
  if (!inner.tactic) fail(ErrorKind::bad_file, "the CPU has no way to compute this step");
  if (config != plain_config(problem, std::string(inner.tactic->name)))
    fail(ErrorKind::bad_file, "the CPU computes it by ", inner.tactic->name, ", not '", config.text, "'");
  if (!inner.tactic->build) expect_packed(packed.bytes, 0);
  return std::make_unique<HostKernel>(problem, inner, packed, device.gpu->gpu());
}

}  // namespace
}  // namespace cuda

extern const Tactic cuda_host;
const Tactic cuda_host{"cuda.host", 1, cuda::supports, cuda::configs, cuda::build, cuda::load, true};

}  // namespace temper
