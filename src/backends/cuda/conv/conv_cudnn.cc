// SPDX-License-Identifier: Apache-2.0
// Convolution with its epilogue by cuDNN: each engine that it has for the graph is a candidate, and time decides.
#include <algorithm>
#include <cstring>

#include "backends/cuda/conv/cudnn_conv.h"
#include "backends/cuda/machine.h"
#include "graph/ops/conv.h"

namespace temper {

namespace {

using cuda::Cudnn;
using cuda::CudnnChoice;
using cuda::CudnnConv;
using cuda::CudnnRules;
using cuda::DevicePointer;

// Kept in a plan. Engines and knobs mean something else in another version of cuDNN.
struct Made {
  int64_t version = 0, workspace = 0;
};

CudnnRules rules_of(const Problem& problem) {
  CudnnRules rules;
  rules.tf32 = problem.op.get<ops::Conv>().tf32;
  return rules;
}

Support supports(const Problem& problem, const Device& device) {
  const CudnnConv conv = cuda::cudnn_conv(problem);
  if (!conv.reason.empty()) return {conv.reason};
  if (const std::string why = device.gpu->why_no_cudnn(); !why.empty()) return refused("cuDNN is not there: ", why);
  // A plan has been through this, and its configuration proves it.
  if (problem.inputs[1].constant && device.gpu->cudnn().choices(conv.graph, rules_of(problem)).empty())
    return refused("cuDNN ", device.gpu->cudnn().version(), " comes with no deterministic engine for it");
  return supported();
}

Config layouts(const Problem& problem, std::string text) {
  Config config{std::move(text), std::vector<Layout>(problem.inputs.size(), Layout::plain), {Layout::channels_last}};
  config.inputs[0] = Layout::channels_last;
  for (size_t i = 2; i < problem.inputs.size(); ++i)
    if (problem.inputs[i].dims() == problem.outputs[0].dims()) config.inputs[i] = Layout::channels_last;
  return config;
}

// An engine and its knobs mean something else in another version: it is part of the text.
std::string text_of(const Cudnn& cudnn, const CudnnChoice& choice) {
  return concat("cudnn ", cudnn.version(), ' ', choice.text());
}
CudnnChoice choice_of(const Cudnn& cudnn, std::string_view text) {
  const std::string start = concat("cudnn ", cudnn.version(), ' ');
  if (!text.starts_with(start))
    fail(ErrorKind::unsupported, "cuda.conv.cudnn: '", text, "' was chosen for another version, and here is cuDNN ",
         cudnn.version(), "; build the plan again here");
  return CudnnChoice::parse(std::string(text.substr(start.size())));
}

std::vector<Config> configs(const Problem& problem, const Device& device) {
  std::vector<Config> out;
  for (const CudnnChoice& choice : device.gpu->cudnn().choices(cuda::cudnn_conv(problem).graph, rules_of(problem)))
    out.push_back(layouts(problem, text_of(device.gpu->cudnn(), choice)));
  return out;
}

Packed build(const Problem& problem, const Config& config, const Device& device) {
  const Cudnn& cudnn = device.gpu->cudnn();
  const auto plan = cudnn.plan(cuda::cudnn_conv(problem).graph, choice_of(cudnn, config.text));
  Packed packed;
  packed.bytes = cuda::channels_last_weights(*problem.inputs[1].constant);
  packed.consumed.assign(problem.inputs.size(), false);
  packed.consumed[1] = true;
  const Made made{cudnn.version(), plan->workspace()};
  packed.code.resize(sizeof made);
  std::memcpy(packed.code.data(), &made, sizeof made);
  return packed;
}

class CudnnConvKernel final : public Kernel {
 public:
  CudnnConvKernel(const Problem& problem, const Config& config, const PackedView& packed, const Device& device)
      : machine_(device.gpu),
        conv_(cuda::cudnn_conv(problem)),
        run_(machine_->cudnn(), plan_of(config, packed.code)),
        bytes_(packed.bytes) {}
  int64_t workspace() const override { return run_.plan().workspace(); }
  bool reads(size_t input) const override {
    return input != 1 && std::find(conv_.ports.begin(), conv_.ports.end(), int(input)) != conv_.ports.end();
  }
  void prepare() override { weights_ = machine_->constant(bytes_); }
  void launch(const Buffers& buffers) override {
    addresses_.clear();
    for (int port : conv_.ports)
      addresses_.push_back(port == CudnnConv::kNone     ? 0
                           : port == CudnnConv::kOutput ? cuda::address_of(buffers.outputs[0])
                           : port == 1                  ? weights_->address()
                                                        : cuda::address_of(buffers.inputs[size_t(port)]));
    run_.launch(cuda::stream_of(buffers), addresses_, cuda::address_of(buffers.workspace));
  }

 private:
  std::shared_ptr<const cuda::CudnnPlan> plan_of(const Config& config, std::span<const std::byte> code) const {
    const Cudnn& cudnn = machine_->cudnn();
    Made made;
    if (code.size() != sizeof made)
      fail(ErrorKind::bad_file, "cuda.conv.cudnn: its note of the plan has ", code.size(), " bytes");
    std::memcpy(&made, code.data(), sizeof made);
    if (made.version != cudnn.version())
      fail(ErrorKind::unsupported, "cuda.conv.cudnn: made with cuDNN ", made.version, ", and here is ", cudnn.version(),
           "; build the plan again here");
    auto plan = cudnn.plan(conv_.graph, choice_of(cudnn, config.text));
    if (plan->workspace() != made.workspace)
      fail(ErrorKind::bad_file, "cuda.conv.cudnn: a workspace of ", made.workspace, " bytes is noted; ",
           plan->workspace(), " are needed");
    return plan;
  }

  std::shared_ptr<const cuda::Machine> machine_;
  CudnnConv conv_;
  cuda::CudnnRun run_;
  const std::span<const std::byte> bytes_;
  std::shared_ptr<const cuda::DeviceMemory> weights_;  // from prepare() on
  std::vector<DevicePointer> addresses_;
};

std::unique_ptr<Kernel> load(const Problem& problem, const Config& config, const PackedView& packed,
                             const Device& device) {
  const Config wanted = layouts(problem, config.text);
  expect_layouts(config, wanted.inputs, wanted.outputs);
  expect_packed(packed.bytes, size_t(byte_count(problem.inputs[1].type.dtype, problem.inputs[1].dims())));
  return std::make_unique<CudnnConvKernel>(problem, config, packed, device);
}

}  // namespace

extern const Tactic cuda_conv_cudnn;
const Tactic cuda_conv_cudnn{"cuda.conv.cudnn", 3, supports, configs, build, load, false, nullptr, nullptr, true};

}  // namespace temper
