// SPDX-License-Identifier: Apache-2.0
#include "plan/execute.h"

#include <chrono>
#include <cstdlib>
#include <exception>
#include <new>

#include "base/checked.h"
#include "base/threads.h"

namespace temper {

Arena::~Arena() { std::free(data_); }

void Arena::reserve(int64_t bytes) {
  if (bytes <= bytes_) return;
  bytes = round_up<int64_t>(bytes, 4096);
  auto* data = static_cast<std::byte*>(std::aligned_alloc(4096, size_t(bytes)));
  if (!data) fail(ErrorKind::machine, "out of memory: ", bytes, " bytes for activations; a smaller batch would fit");
  std::free(data_);
  data_ = data;
  bytes_ = bytes;
}

namespace {

struct BoundStep {
  std::unique_ptr<Kernel> kernel;
  const PlanStep* step;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
};

}  // namespace

struct Executor::Impl {
  const Plan& plan;
  Arena& arena;
  // [segment][chain][step]
  std::vector<std::vector<std::vector<BoundStep>>> bound;

  Impl(const Plan& p, const Device& device, Arena& a) : plan(p), arena(a) {
    for (const Segment& segment : plan.segments) {
      auto& chains = bound.emplace_back();
      for (int chain = 0; chain < (segment.parallel ? plan.threads : 1); ++chain) {
        auto& steps = chains.emplace_back();
        for (const PlanStep& step : segment.steps)
          with_context([&] { return step.node; }, [&] {
            BoundStep bound_step{load(step, device), &step, {}, {}};
            bound_step.inputs.resize(step.inputs.size());
            bound_step.outputs.resize(step.outputs.size());
            steps.push_back(std::move(bound_step));
          });
      }
    }
    arena.reserve(plan.arena_bytes());
  }

  // The plan may come from a file: what only the tactic and its kernel can tell about it is checked here.
  std::unique_ptr<Kernel> load(const PlanStep& step, const Device& device) const {
    std::unique_ptr<Kernel> kernel;
    try {
      kernel = load_unchecked(step, device);
    } catch (const Error&) {
      throw;
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& error) {  // of a library behind a tactic
      fail(ErrorKind::bad_file, "no kernel can be made of its configuration '", step.config.text, "': ", error.what());
    }
    if (kernel->workspace() != step.workspace)
      fail(ErrorKind::bad_file, "it has a workspace of ", step.workspace, " bytes where ", kernel->workspace(), " are needed; build the plan again");
    for (size_t i = 0; i < step.inputs.size(); ++i)
      if (step.inputs[i].kind == BufferRef::Kind::none && step.problem.inputs[i].present && kernel->reads(i))
        fail(ErrorKind::bad_file, "its input ", i, " has no buffer");
    return kernel;
  }

  std::unique_ptr<Kernel> load_unchecked(const PlanStep& step, const Device& device) const {
    const Backend& backend = find_backend(device.backend);
    if (step.is_reorder())
      return backend.reorder(step.problem.inputs.at(0).type, step.config.inputs.at(0), step.config.outputs.at(0), step.problem.threads);
    const Tactic* tactic = find_tactic(step.tactic);
    if (!tactic || tactic->version != step.tactic_version)
      fail(ErrorKind::unsupported, "the tactic ", step.tactic, " version ", step.tactic_version, " is not in this build; build the plan again");
    if (const Support support = tactic->supports(step.problem, device); !support.yes())
      fail(ErrorKind::bad_file, step.tactic, " does not support ", step.problem.text(), ": ", support.reason);
    if (!tactic->build) {
      const std::vector<Config> configs = tactic->configs(step.problem, device);
      if (std::find(configs.begin(), configs.end(), step.config) == configs.end())
        fail(ErrorKind::bad_file, step.tactic, " has no configuration '", step.config.text, "' in these layouts for ", step.problem.text());
    }
    const auto packed = step.packed < 0 ? std::span<const std::byte>() : plan.constants.at(size_t(step.packed))->raw();
    return tactic->load(step.problem, step.config, packed, device);
  }

  void run(std::span<const void* const> inputs, std::span<void* const> outputs, std::vector<std::vector<double>>* ms);

  // One slice through one chain.
  void run_slice(size_t s, int chain, int64_t slice, std::span<const void* const> inputs, std::span<void* const> outputs,
                 std::vector<std::vector<double>>* ms) {
    auto& steps = bound[s][size_t(chain)];
    if (!ms || chain != 0) {
      for (BoundStep& step : steps) step.kernel->launch(bind(plan.segments[s], step, chain, slice, inputs, outputs));
      return;
    }
    auto before = std::chrono::steady_clock::now();
    for (size_t i = 0; i < steps.size(); ++i) {
      steps[i].kernel->launch(bind(plan.segments[s], steps[i], chain, slice, inputs, outputs));
      const auto now = std::chrono::steady_clock::now();
      (*ms)[s][i] += std::chrono::duration<double, std::milli>(now - before).count();
      before = now;
    }
  }

  Buffers bind(const Segment& segment, BoundStep& bound_step, int chain, int64_t slice, std::span<const void* const> inputs, std::span<void* const> outputs) {
    std::byte* local = arena.data() + plan.shared_bytes + chain * segment.local_bytes;
    auto address = [&](const BufferRef& ref) -> std::byte* {
      const int64_t offset = slice * ref.slice_bytes;
      switch (ref.kind) {
        case BufferRef::Kind::none: return nullptr;
        case BufferRef::Kind::input: return static_cast<std::byte*>(const_cast<void*>(inputs[size_t(ref.at)])) + offset;
        case BufferRef::Kind::output: return static_cast<std::byte*>(outputs[size_t(ref.at)]) + offset;
        case BufferRef::Kind::shared: return arena.data() + ref.at + offset;
        case BufferRef::Kind::local: return local + ref.at;
        case BufferRef::Kind::constant: return const_cast<std::byte*>(plan.constants[size_t(ref.at)]->raw().data());
      }
      return nullptr;
    };
    const PlanStep& step = *bound_step.step;
    for (size_t i = 0; i < step.inputs.size(); ++i) bound_step.inputs[i] = address(step.inputs[i]);
    for (size_t i = 0; i < step.outputs.size(); ++i) bound_step.outputs[i] = address(step.outputs[i]);
    return {bound_step.inputs, bound_step.outputs, local + segment.workspace_at};
  }
};

Executor::Executor(const Plan& plan, const Device& device, Arena& arena) : impl_(std::make_unique<Impl>(plan, device, arena)) {}
Executor::~Executor() = default;
Executor::Executor(Executor&&) noexcept = default;

void Executor::run(std::span<const void* const> inputs, std::span<void* const> outputs) { impl_->run(inputs, outputs, nullptr); }

void Executor::run_timed(std::span<const void* const> inputs, std::span<void* const> outputs, std::vector<std::vector<double>>& ms) {
  ms.resize(impl_->plan.segments.size());
  for (size_t s = 0; s < ms.size(); ++s) ms[s].resize(impl_->plan.segments[s].steps.size());
  impl_->run(inputs, outputs, &ms);
}

void Executor::Impl::run(std::span<const void* const> inputs, std::span<void* const> outputs, std::vector<std::vector<double>>* ms) {
  Impl& impl = *this;
  for (size_t s = 0; s < impl.plan.segments.size(); ++s) {
    const Segment& segment = impl.plan.segments[s];
    if (!segment.parallel) {
      for (int64_t slice = 0; slice < segment.slices; ++slice)
        impl.run_slice(s, 0, slice, inputs, outputs, ms);
      continue;
    }
    // An exception must not leave a parallel region: the first one is carried out of it.
    std::exception_ptr failure;
#pragma omp parallel num_threads(impl.plan.threads)
    {
      const int64_t chain = omp_get_thread_num(), chains = omp_get_num_threads();
      try {
        for (int64_t slice = segment.slices * chain / chains; slice < segment.slices * (chain + 1) / chains; ++slice)
          impl.run_slice(s, int(chain), slice, inputs, outputs, ms);
      } catch (...) {
#pragma omp critical(temper_executor_failure)
        if (!failure) failure = std::current_exception();
      }
    }
    if (failure) std::rethrow_exception(failure);
  }
}

void Executor::run_observed(std::span<const void* const> inputs, std::span<void* const> outputs, const Observer& observer) {
  Impl& impl = *impl_;
  for (size_t s = 0; s < impl.plan.segments.size(); ++s)
    for (int64_t slice = 0; slice < impl.plan.segments[s].slices; ++slice)
      for (BoundStep& step : impl.bound[s][0]) {
        const Buffers buffers = impl.bind(impl.plan.segments[s], step, 0, slice, inputs, outputs);
        if (observer.before) observer.before(*step.step, buffers);
        step.kernel->launch(buffers);
        if (observer.after) observer.after(*step.step, buffers);
      }
}

}  // namespace temper
