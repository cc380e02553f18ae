// SPDX-License-Identifier: Apache-2.0
// Runs a tactic on a GPU with everything around it watched: guard bands, NaN in outputs and workspace, constants handed
// over as a plan would, a launch and the same launch as a graph that must give the same bits.
#pragma once
#include "backends/cuda/machine.h"
#include "run_recipe.h"

namespace temper::testing {

// Null, with the reason, where there is no GPU.
inline std::shared_ptr<const cuda::Machine> machine(std::string& why_not) {
  static std::string reason;
  static const std::shared_ptr<const cuda::Machine> machine = [] {
    try {
      return cuda::Machine::open(0, cuda_search());
    } catch (const Error& error) {
      reason = error.what();
      return std::shared_ptr<const cuda::Machine>();
    }
  }();
  why_not = reason;
  return machine;
}
#define TEMPER_NEEDS_MACHINE(name)                                                                \
  std::string no_gpu;                                                                             \
  const std::shared_ptr<const ::temper::cuda::Machine> name = ::temper::testing::machine(no_gpu); \
  if (!name) GTEST_SKIP() << "no GPU: " << no_gpu

inline Device cuda_device(std::shared_ptr<const cuda::Machine> machine) {
  Device device;
  device.backend = "cuda";
  device.fingerprint = "test";
  device.architecture = machine->gpu()->info().architecture();
  device.gpu = std::move(machine);
  return device;
}

// The outputs in plain layout. `inputs` are plain; those of absent ports are undefined tensors.
inline std::vector<Tensor> run_cuda_tactic(const Tactic& tactic, Problem problem, const Config& config,
                                           const std::vector<Tensor>& inputs, const Device& device) {
  for (size_t i = 0; i < inputs.size(); ++i)
    problem.inputs[i].constant = problem.inputs[i].is_constant ? &inputs[i] : nullptr;
  Packed packed;
  if (tactic.build) packed = tactic.build(problem, config, device);
  packed.consumed.resize(inputs.size(), false);
  for (size_t i = 0; i < inputs.size(); ++i)
    if (packed.consumed[i]) problem.inputs[i].constant = nullptr;
  EXPECT_EQ(tactic.supports(problem, device).reason, "") << "refused at load what it was built for";
  PackedView view;
  view.bytes = packed.bytes;
  view.code = packed.code;
  const auto kernel = tactic.load(problem, config, view, device);
  kernel->prepare();

  cuda::WorkStream work(device.gpu->gpu());
  const cuda::Stream& stream = work.stream;
  std::vector<std::unique_ptr<GuardedDevice>> in, out;
  std::vector<const void*> in_pointers;
  std::vector<void*> out_pointers;
  auto pointer = [](const GuardedDevice& buffer) { return reinterpret_cast<void*>(buffer.address()); };
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool handed = problem.inputs[i].present && !packed.consumed[i] && kernel->reads(i);
    in.push_back(std::make_unique<GuardedDevice>(
        stream, handed ? layout_bytes(inputs[i].dtype(), inputs[i].dims(), config.inputs[i]) : 0));
    if (handed) {
      std::vector<std::byte> bytes(static_cast<size_t>(in.back()->bytes()));
      store_layout(inputs[i], config.inputs[i], bytes.data());
      stream.copy_to_device(in.back()->address(), bytes.data(), in.back()->bytes());
      stream.synchronize();
    }
    in_pointers.push_back(handed ? pointer(*in.back()) : nullptr);
  }
  for (size_t i = 0; i < problem.outputs.size(); ++i) {
    const Port& port = problem.outputs[i];
    out.push_back(
        std::make_unique<GuardedDevice>(stream, layout_bytes(port.type.dtype, port.dims(), config.outputs[i])));
    out_pointers.push_back(pointer(*out.back()));
  }
  const GuardedDevice workspace(stream, kernel->workspace());
  Buffers buffers{in_pointers, out_pointers, pointer(workspace), &work};
  auto poison = [&] {
    for (const auto& buffer : out) stream.fill(buffer->address(), 0xff, buffer->bytes());
    stream.fill(workspace.address(), 0xff, workspace.bytes());
  };
  auto read = [&] {
    std::vector<Tensor> results;
    for (size_t i = 0; i < out.size(); ++i) {
      const Port& port = problem.outputs[i];
      results.push_back(load_layout(port.type.dtype, port.dims(), config.outputs[i], out[i]->read(stream).data()));
    }
    workspace.read(stream);
    return results;
  };
  poison();
  kernel->launch(buffers);
  const std::vector<Tensor> first = read();
  poison();
  stream.begin_graph();
  kernel->launch(buffers);
  const cuda::Graph graph = stream.end_graph();
  stream.launch(graph);
  const std::vector<Tensor> second = read();
  for (size_t i = 0; i < first.size(); ++i)
    EXPECT_TRUE(first[i].same_bits(second[i])) << "output " << i << " differs between a launch and a replay";
  for (size_t i = 0; i < in.size(); ++i) {
    if (!in_pointers[i]) continue;
    std::vector<std::byte> bytes(static_cast<size_t>(in[i]->bytes()));
    store_layout(inputs[i], config.inputs[i], bytes.data());
    EXPECT_EQ(in[i]->read(stream), bytes) << "input " << i << " was changed";
  }
  return first;
}

}  // namespace temper::testing
