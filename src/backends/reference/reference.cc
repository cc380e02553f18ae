// SPDX-License-Identifier: Apache-2.0
// Runs each op's reference(): slow, obvious, and the judge of everything else. It is also the last tactic of the CPU
// backend, so that something always works.
#include <cstring>

#include "backends/backend.h"

namespace temper {

namespace {

class ReferenceKernel final : public Kernel {
 public:
  explicit ReferenceKernel(const Problem& problem) : problem_(problem) {
    for (const Port& output : problem_.outputs) types_.push_back(output.type);
    for (const Port& input : problem_.inputs) input_dims_.push_back(input.present ? input.dims() : Dims{});
  }
  void launch(const Buffers& buffers) override {
    std::vector<Tensor> inputs;
    for (size_t i = 0; i < problem_.inputs.size(); ++i)
      inputs.push_back(problem_.inputs[i].present
                           ? Tensor::view(problem_.inputs[i].type.dtype, input_dims_[i], buffers.inputs[i])
                           : Tensor());
    const std::vector<Tensor> outputs = reference(problem_.op, inputs, types_);
    for (size_t i = 0; i < outputs.size(); ++i)
      if (outputs[i].bytes()) std::memcpy(buffers.outputs[i], outputs[i].raw().data(), size_t(outputs[i].bytes()));
  }

 private:
  Problem problem_;
  std::vector<TensorType> types_;
  std::vector<Dims> input_dims_;
};

Support supports(const Problem&, const Device&) { return supported(); }
std::vector<Config> configs(const Problem& problem, const Device&) {
  return {{"", std::vector<Layout>(problem.inputs.size(), Layout::plain),
           std::vector<Layout>(problem.outputs.size(), Layout::plain)}};
}
std::unique_ptr<Kernel> load(const Problem& problem, const Config&, const PackedView&, const Device&) {
  return std::make_unique<ReferenceKernel>(problem);
}

Device device(int, const DeviceSettings&) { return {.backend = "reference", .fingerprint = "reference"}; }

}  // namespace

extern const Tactic reference_tactic;
const Tactic reference_tactic{"reference", 1, supports, configs, nullptr, load, true};

static const Tactic* const reference_tactics[] = {&reference_tactic};

namespace {

// The reference uses one layout only: what is left of a reorder is the copy, as of a constant to an output.
class CopyKernel final : public Kernel {
 public:
  explicit CopyKernel(int64_t bytes) : bytes_(size_t(bytes)) {}
  void launch(const Buffers& buffers) override {
    if (bytes_) std::memcpy(buffers.outputs[0], buffers.inputs[0], bytes_);
  }

 private:
  size_t bytes_;
};

std::unique_ptr<Kernel> copy(const Reorder& reorder, std::span<const std::byte>, const Device&) {
  if (reorder.from != Layout::plain || reorder.to != Layout::plain)
    fail(ErrorKind::unsupported, "the reference backend has no layouts but plain");
  return std::make_unique<CopyKernel>(byte_count(reorder.type.dtype, reorder.type.dims()));
}

}  // namespace

extern const Backend reference_backend;
const Backend reference_backend{"reference", device, [] { return std::span<const Tactic* const>(reference_tactics); },
                                nullptr,     copy,   nullptr};

}  // namespace temper
