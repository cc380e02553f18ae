// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/recipe_tactic.h"

#include <algorithm>
#include <optional>

#include "backends/cuda/bundle.h"

namespace temper::cuda {

namespace {

class RecipeKernel final : public Kernel {
 public:
  // `packed` must stay alive until prepare() was called.
  RecipeKernel(const Recipe::Work& work, const PackedView& packed, const Device& device)
      : machine_(device.gpu), work_(work), bundle_(packed.code, work.jobs, device.architecture), bytes_(packed.bytes) {}
  int64_t workspace() const override { return work().workspace; }
  bool reads(size_t input) const override { return cuda::reads(work(), int(input)); }
  bool go_backwards() override { return cuda::go_backwards(work_); }
  void prepare() override {
    loaded_.emplace(machine_->gpu(), std::move(work_), bundle_);
    if (!bytes_.empty()) packed_ = machine_->constant(bytes_);
  }
  void launch(const Buffers& buffers) override {
    inputs_.clear();
    outputs_.clear();
    for (const void* input : buffers.inputs) inputs_.push_back(address_of(input));
    for (void* output : buffers.outputs) outputs_.push_back(address_of(output));
    loaded_->launch(stream_of(buffers), {inputs_, outputs_, address_of(buffers.workspace),
                                         packed_ ? packed_->address() : 0, work_stream_of(buffers).fault_address()});
  }

 private:
  const Recipe::Work& work() const { return loaded_ ? loaded_->work() : work_; }

  std::shared_ptr<const Machine> machine_;
  Recipe::Work work_;  // until prepare()
  const Bundle bundle_;
  const std::span<const std::byte> bytes_;
  std::optional<LoadedWork> loaded_;  // from prepare() on
  std::shared_ptr<const DeviceMemory> packed_;
  std::vector<DevicePointer> inputs_, outputs_;
};

}  // namespace

Problem without_constants(Problem problem) {
  for (Port& port : problem.inputs) port.constant = nullptr;
  return problem;
}

GpuProperties properties_of(const Device& device) { return GpuProperties(device.gpu->gpu()->info()); }

std::vector<Config> recipe_configs(const Recipe& recipe, const Problem& problem, const Device& device) {
  const GpuProperties gpu = properties_of(device);
  std::vector<Config> configs = offered_configs(recipe, problem, gpu);
  const Problem bare = without_constants(problem);
  const int64_t most = gpu.shared_per_block;
  std::erase_if(configs, [&](const Config& config) {
    const Recipe::Work work = recipe.work(bare, config, gpu);
    return std::any_of(work.jobs.begin(), work.jobs.end(),
                       [&](const Job& job) { return int64_t(job.shape.shared_bytes) > most; });
  });
  if (configs.empty())
    fail(ErrorKind::unsupported, recipe.name, " needs more than the ", most,
         " bytes of shared memory that a block has on this GPU, for ", problem.text());
  return configs;
}

void compile_recipe(const Recipe& recipe, const Problem& problem, const Config& config, const Device& device) {
  const Problem bare = without_constants(problem);
  for (const Job& job : recipe.work(bare, config, properties_of(device)).jobs)
    device.gpu->compiler().compile_ahead(job.source, device.architecture);
}

Packed build_recipe(const Recipe& recipe, const Problem& problem, const Config& config, const Device& device) {
  Recipe::Work work = recipe.work(problem, config, properties_of(device));
  Packed packed;
  packed.bytes = std::move(work.packed);
  packed.consumed = std::move(work.consumed);
  packed.code = make_bundle(work.jobs, device.gpu->compiler(), device.architecture);
  return packed;
}

std::unique_ptr<Kernel> load_recipe(const Recipe& recipe, const Problem& problem, const Config& config,
                                    const PackedView& packed, const Device& device) {
  const GpuProperties gpu = properties_of(device);
  const std::vector<Config> configs = recipe.configs(problem, gpu);
  if (std::find(configs.begin(), configs.end(), config) == configs.end())
    fail(ErrorKind::bad_file, recipe.name, " has no configuration '", config.text, "' in these layouts for ",
         problem.text());
  const Recipe::Work work = recipe.work(problem, config, gpu);
  expect_packed(packed.bytes, size_t(work.packed_bytes));
  return std::make_unique<RecipeKernel>(work, packed, device);
}

std::unique_ptr<Kernel> make_kernel(const Recipe::Work& work, const PackedView& packed, const Device& device) {
  return std::make_unique<RecipeKernel>(work, packed, device);
}

}  // namespace temper::cuda
