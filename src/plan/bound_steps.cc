// SPDX-License-Identifier: Apache-2.0
#include "plan/bound_steps.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <new>

#include "base/checked.h"
#include "base/log.h"

namespace temper {

BoundSteps::BoundSteps(const Plan& plan, const Device& device, Arena& arena)
    : plan_(plan), arena_(arena), stream_(arena.queue() ? arena.queue()->stream() : nullptr) {
  const auto start = std::chrono::steady_clock::now();
  for (const Segment& segment : plan.segments) {
    auto& chains = bound_.emplace_back();
    for (int chain = 0; chain < (segment.parallel ? plan.threads : 1); ++chain) {
      auto& steps = chains.emplace_back();
      for (const PlanStep& step : segment.steps)
        with_context([&] { return step.node; },
                     [&] {
                       BoundStep bound_step{load(step, device), &step, {}, {}};
                       bound_step.inputs.resize(step.inputs.size());
                       bound_step.outputs.resize(step.outputs.size());
                       steps.push_back(std::move(bound_step));
                     });
    }
  }
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  log(LogLevel::debug, "loaded kernels in ", took.count(), " ms");
}

void BoundSteps::reserve(int64_t more, int64_t staging) {
  with_context([&] { return needs(more); }, [&] { arena_.reserve(plan_.arena_bytes() + more, staging); });
}

std::string BoundSteps::needs(int64_t more) const {
  int64_t constants = 0;
  for (const auto& constant : plan_.constants) constants += constant->bytes();
  auto mib = [](int64_t bytes) { return ceil_div(bytes, int64_t(1) << 20); };
  std::string inputs;
  for (const PortInfo& port : plan_.inputs) inputs += concat(inputs.empty() ? "" : ", ", port.type.dims());
  return concat("the plan for inputs ", inputs, " needs ", mib(plan_.arena_bytes() + more),
                " MiB that grow with the batch and ", mib(constants), " MiB of constants");
}

std::unique_ptr<Kernel> BoundSteps::load(const PlanStep& step, const Device& device) const {
  std::unique_ptr<Kernel> kernel;
  try {
    kernel = load_unchecked(step, device);
  } catch (const Error&) { throw; } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {  // of a library behind a tactic
    fail(ErrorKind::bad_file, "no kernel can be made of its configuration '", step.config.text, "': ", error.what());
  }
  if (kernel->workspace() != step.workspace)
    fail(ErrorKind::bad_file, "it has a workspace of ", step.workspace, " bytes where ", kernel->workspace(),
         " are needed; build the plan again");
  for (size_t i = 0; i < step.inputs.size(); ++i)
    if (step.inputs[i].kind == BufferRef::Kind::none && step.problem.inputs[i].present && kernel->reads(i))
      fail(ErrorKind::bad_file, "its input ", i, " has no buffer");
  if (step.backwards && !kernel->go_backwards())
    fail(ErrorKind::bad_file, step.tactic, " does not make its results from the last one to the first");
  kernel->prepare();
  return kernel;
}

std::unique_ptr<Kernel> BoundSteps::load_unchecked(const PlanStep& step, const Device& device) const {
  const Backend& backend = find_backend(device.backend);
  if (step.is_reorder()) return backend.reorder(step.reorder(), plan_.packed_of(step).code, device);
  const Tactic* tactic = find_tactic(step.tactic);
  if (!tactic || tactic->version != step.tactic_version)
    fail(ErrorKind::unsupported, "the tactic ", step.tactic, " version ", step.tactic_version,
         " is not in this build; build the plan again");
  if (const Support support = tactic->supports(step.problem, device); !support.yes())
    fail(ErrorKind::bad_file, step.tactic, " does not support ", step.problem.text(), ": ", support.reason);
  if (!tactic->takes(step.problem, step.config))
    fail(ErrorKind::bad_file, step.tactic, " does not read and write parts of larger tensors as the step has them");
  if (!tactic->build) {
    const std::vector<Config> configs = tactic->configs(step.problem, device);
    if (std::find(configs.begin(), configs.end(), step.config) == configs.end())
      fail(ErrorKind::bad_file, step.tactic, " has no configuration '", step.config.text, "' in these layouts for ",
           step.problem.text());
  }
  return tactic->load(step.problem, step.config, plan_.packed_of(step), device);
}

Buffers BoundSteps::bind(const Segment& segment, BoundStep& bound_step, int chain, int64_t slice,
                         std::span<const void* const> inputs, std::span<void* const> outputs) const {
  std::byte* local = arena_.data() + plan_.shared_bytes + chain * segment.local_bytes;
  auto address = [&](const BufferRef& ref) -> std::byte* {
    const int64_t offset = slice * ref.slice_bytes + ref.offset;
    switch (ref.kind) {
      case BufferRef::Kind::none: return nullptr;
      case BufferRef::Kind::input: return static_cast<std::byte*>(const_cast<void*>(inputs[size_t(ref.at)])) + offset;
      case BufferRef::Kind::output: return static_cast<std::byte*>(outputs[size_t(ref.at)]) + offset;
      case BufferRef::Kind::shared: return arena_.data() + ref.at + offset;
      case BufferRef::Kind::local: return local + ref.at + offset;
      case BufferRef::Kind::constant: return static_cast<std::byte*>(const_cast<void*>(constants_[size_t(ref.at)]));
    }
    return nullptr;
  };
  const PlanStep& step = *bound_step.step;
  for (size_t i = 0; i < step.inputs.size(); ++i) bound_step.inputs[i] = address(step.inputs[i]);
  for (size_t i = 0; i < step.outputs.size(); ++i) bound_step.outputs[i] = address(step.outputs[i]);
  return {bound_step.inputs, bound_step.outputs, local + segment.workspace_at, stream_};
}

}  // namespace temper
