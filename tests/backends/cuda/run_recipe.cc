// SPDX-License-Identifier: Apache-2.0
#include "run_recipe.h"

#include <atomic>
#include <thread>

namespace temper::testing {

void Cubins::prepare(const std::vector<cuda::KernelSource>& sources) {
  std::vector<const cuda::KernelSource*> todo;
  for (const auto& source : sources)
    if (cubins_.try_emplace(source.text).second) todo.push_back(&source);
  std::atomic<size_t> next{0};
  std::vector<std::string> errors(todo.size());
  auto work = [&] {
    for (size_t i; (i = next++) < todo.size();) try {
        cubins_.at(todo[i]->text) = compiler_.compile(*todo[i], architecture_);
      } catch (const Error& error) { errors[i] = concat(error.what(), "\n", todo[i]->text); }
  };
  std::vector<std::thread> threads;
  for (unsigned t = 1; t < std::max(1u, std::thread::hardware_concurrency()); ++t) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  for (const std::string& error : errors)
    if (!error.empty()) ADD_FAILURE() << error;
}

std::vector<std::byte> GuardedDevice::read(const cuda::Stream& stream) const {
  std::vector<std::byte> all(static_cast<size_t>(memory_.bytes()));
  stream.copy_to_host(all.data(), memory_.address(), memory_.bytes());
  stream.synchronize();
  for (int64_t i = 0; i < kBand; ++i) {
    if (all[size_t(i)] != std::byte(0xff) || all[size_t(kBand + bytes_ + i)] != std::byte(0xff)) {
      ADD_FAILURE() << "wrote beside a buffer";
      break;
    }
  }
  return {all.begin() + kBand, all.begin() + kBand + bytes_};
}

Prepared::Prepared(const cuda::Stream& stream, const Cubins& cubins, const Problem& problem, const Config& config,
                   const cuda::Recipe::Work& work, const std::vector<Tensor>& inputs)
    : stream_(stream), problem_(problem), config_(config) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool handed = problem.inputs[i].present && (work.consumed.empty() || !work.consumed[i]);
    in_.push_back(std::make_unique<GuardedDevice>(
        stream,
        handed ? layout_bytes(inputs[i].dtype(), inputs[i].dims(), config.inputs[i], problem.inputs[i].pitch) : 0));
    if (!handed) continue;
    std::vector<std::byte> bytes(static_cast<size_t>(in_.back()->bytes()));
    store_layout(inputs[i], config.inputs[i], bytes.data(), problem.inputs[i].pitch);
    stream.copy_to_device(in_.back()->address(), bytes.data(), in_.back()->bytes());
    stream.synchronize();
  }
  for (size_t i = 0; i < problem.outputs.size(); ++i) {
    const Port& port = problem.outputs[i];
    out_.push_back(std::make_unique<GuardedDevice>(
        stream, layout_bytes(port.type.dtype, port.dims(), config.outputs[i], port.pitch)));
  }
  workspace_ = std::make_unique<GuardedDevice>(stream, work.workspace);
  fault_ = std::make_unique<GuardedDevice>(stream, sizeof(cuda::Fault));
  packed_ = std::make_unique<GuardedDevice>(stream, int64_t(work.packed.size()));
  stream.copy_to_device(packed_->address(), work.packed.data(), packed_->bytes());
  bundle_ = cubins.bundle_of(work);
  loaded_ = std::make_unique<cuda::LoadedWork>(stream.gpu(), work,
                                               cuda::Bundle(bundle_, work.jobs, stream.gpu()->info().architecture()));
  for (const auto& in : in_) in_addresses_.push_back(in->address());
  for (const auto& out : out_) out_addresses_.push_back(out->address());
  stream.synchronize();
}

void Prepared::launch() const {
  loaded_->launch(stream_,
                  {in_addresses_, out_addresses_, workspace_->address(), packed_->address(), fault_->address()});
}

void Prepared::poison() const {
  for (const auto& out : out_) stream_.fill(out->address(), 0xff, out->bytes());
  stream_.fill(workspace_->address(), 0xff, workspace_->bytes());
}

std::vector<Tensor> Prepared::read() const {
  std::vector<Tensor> outputs;
  for (size_t i = 0; i < out_.size(); ++i) {
    const Port& port = problem_.outputs[i];
    outputs.push_back(
        load_layout(port.type.dtype, port.dims(), config_.outputs[i], out_[i]->read(stream_).data(), port.pitch));
  }
  workspace_->read(stream_);
  return outputs;
}

std::vector<Tensor> run_recipe(const cuda::Stream& stream, const Cubins& cubins, const Problem& problem,
                               const Config& config, const cuda::Recipe::Work& work,
                               const std::vector<Tensor>& inputs) {
  const Prepared prepared(stream, cubins, problem, config, work, inputs);
  prepared.poison();
  prepared.launch();
  const std::vector<Tensor> first = prepared.read();
  if (work.jobs.empty()) return first;
  prepared.poison();
  stream.begin_graph();
  prepared.launch();
  const cuda::Graph graph = stream.end_graph();
  stream.launch(graph);
  const std::vector<Tensor> second = prepared.read();
  for (size_t i = 0; i < first.size(); ++i)
    EXPECT_TRUE(first[i].same_bits(second[i])) << "output " << i << " differs between a launch and a replay";
  return first;
}

}  // namespace temper::testing
