// SPDX-License-Identifier: Apache-2.0
#include "plan/execute.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>

#include "base/bytes.h"
#include "base/checked.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/threads.h"

namespace temper {

Arena::Arena(const Device& device) : queue_(open_queue(device)) {}

void Arena::reserve(int64_t bytes, int64_t staging_bytes) {
  if (bytes > bytes_) {
    bytes = round_up<int64_t>(bytes, 4096);
    if (!queue_) check_free_memory(bytes - bytes_, "activations need");
    if (queue_) {
      queue_->wait();
      data_.reset();  // before the larger one is asked for
      bytes_ = 0;
      ++moves_;  // also where there is none now
      data_ = queue_->allocate(bytes);
    } else {
      data_.reset(std::aligned_alloc(4096, size_t(bytes)), std::free);
      bytes_ = 0;
      ++moves_;
      if (!data_)
        fail(ErrorKind::machine, "out of memory: ", format_bytes(double(bytes)),
             " for activations; a smaller batch would fit");
    }
    bytes_ = bytes;
  }
  if (staging_bytes > staging_bytes_) {
    staging_ = queue_->allocate_host(staging_bytes);
    staging_bytes_ = staging_bytes;
    ++moves_;
  }
}

namespace {

struct BoundStep {
  std::unique_ptr<Kernel> kernel;
  const PlanStep* step;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
};

// The steps on buffers of the caller's that lie in the device's memory.
struct InPlace {
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  std::unique_ptr<Queue::Recording> recording;  // null: seen once, and copied
};

// What a plan needs on a device with memory of its own. The caller's buffers are copied through staging memory of the
// host to buffers behind the plan's own part of the arena.
struct DeviceSide {
  std::vector<std::shared_ptr<const void>> constants;  // by index in the plan; null for those that no step reads
  std::vector<int64_t> inputs_at, outputs_at;          // in the staging memory, and behind the plan's part of the arena
  int64_t bytes = 0;
  std::vector<const void*> inputs;  // addresses on the device
  std::vector<void*> outputs;
  std::unique_ptr<Queue::Recording> recording;
  std::vector<InPlace> in_place;  // the latest first
  int moves = -1;                 // of the arena, when addresses were last taken
};

}  // namespace

struct Executor::Impl {
  const Plan& plan;
  Arena& arena;
  // [segment][chain][step]
  std::vector<std::vector<std::vector<BoundStep>>> bound;
  DeviceSide device_side;

  Impl(const Plan& p, const Device& device, Arena& a) : plan(p), arena(a) {
    const auto start = std::chrono::steady_clock::now();
    for (const Segment& segment : plan.segments) {
      auto& chains = bound.emplace_back();
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
    const auto loaded = std::chrono::steady_clock::now();
    if (arena.queue()) with_context([&] { return needs(); }, [&] { prepare_device(); });
    const auto prepared = std::chrono::steady_clock::now();
    reserve();
    auto ms = [](auto from, auto to) { return std::chrono::duration<double, std::milli>(to - from).count(); };
    log(LogLevel::debug, "loaded kernels in ", ms(start, loaded), " ms, constants in ", ms(loaded, prepared),
        ", memory in ", ms(prepared, std::chrono::steady_clock::now()));
  }

  void reserve() {
    with_context([&] { return needs(); },
                 [&] { arena.reserve(plan.arena_bytes() + device_side.bytes, device_side.bytes); });
  }
  // What the plan takes, for those who have less.
  std::string needs() const {
    int64_t constants = 0;
    for (const auto& constant : plan.constants) constants += constant->bytes();
    auto mib = [](int64_t bytes) { return ceil_div(bytes, int64_t(1) << 20); };
    std::string inputs;
    for (const PortInfo& port : plan.inputs) inputs += concat(inputs.empty() ? "" : ", ", port.type.dims());
    return concat("the plan for inputs ", inputs, " needs ", mib(plan.arena_bytes() + device_side.bytes),
                  " MiB that grow with the batch and ", mib(constants), " MiB of constants");
  }

  void prepare_device() {
    DeviceSide& d = device_side;
    d.constants.resize(plan.constants.size());
    for (const Segment& segment : plan.segments)
      for (const PlanStep& step : segment.steps)
        for (const BufferRef& ref : step.inputs)
          if (ref.kind == BufferRef::Kind::constant && !d.constants[size_t(ref.at)])
            d.constants[size_t(ref.at)] = arena.queue()->constant(plan.constants[size_t(ref.at)]->raw());
    auto place = [&](const std::vector<PortInfo>& ports, std::vector<int64_t>& at) {
      for (const PortInfo& port : ports) {
        at.push_back(d.bytes);
        d.bytes += round_up<int64_t>(byte_count(port.type.dtype, port.type.dims()), 256);
      }
    };
    place(plan.inputs, d.inputs_at);
    place(plan.outputs, d.outputs_at);
  }

  // Takes addresses anew where the arena has moved.
  void find_device_buffers() {
    DeviceSide& d = device_side;
    reserve();  // there is less where a larger plan has asked for too much since
    if (d.moves == arena.moves()) return;
    arena.queue()->wait();
    d.recording.reset();
    d.in_place.clear();
    d.inputs.clear();
    d.outputs.clear();
    std::byte* behind = arena.data() + plan.arena_bytes();
    for (int64_t at : d.inputs_at) d.inputs.push_back(behind + at);
    for (int64_t at : d.outputs_at) d.outputs.push_back(behind + at);
    d.moves = arena.moves();
  }

  Queue& queue_of_device() {
    if (!arena.queue()) fail(ErrorKind::usage, "this device has no memory or clock of its own");
    return *arena.queue();
  }

  // Calls f(segment, step, bound step, buffers) for each step on each slice, one after the other, on the first chain.
  template <class F>
  void each_step(std::span<const void* const> inputs, std::span<void* const> outputs, F&& f) {
    for (size_t s = 0; s < plan.segments.size(); ++s)
      for (int64_t slice = 0; slice < plan.segments[s].slices; ++slice)
        for (size_t i = 0; i < bound[s][0].size(); ++i)
          f(s, i, bound[s][0][i], bind(plan.segments[s], bound[s][0][i], 0, slice, inputs, outputs));
  }
  template <class F>
  void each_step_on_device(F&& f) {
    each_step(device_side.inputs, device_side.outputs, f);
  }

  void put_in_steps(std::span<const void* const> inputs, std::span<void* const> outputs) {
    each_step(inputs, outputs,
              [](size_t, size_t, BoundStep& step, const Buffers& buffers) { step.kernel->launch(buffers); });
  }
  void put_in_steps() { put_in_steps(device_side.inputs, device_side.outputs); }
  const Queue::Recording& recording() {
    if (!device_side.recording) device_side.recording = arena.queue()->record([&] { put_in_steps(); });
    return *device_side.recording;
  }
  // Null where these buffers come for the first time: making a recording takes longer than many copies.
  const Queue::Recording* recording_on(const std::vector<const void*>& inputs, const std::vector<void*>& outputs) {
    constexpr size_t kMost = 8;
    std::vector<InPlace>& known = device_side.in_place;
    auto it = std::find_if(known.begin(), known.end(),
                           [&](const InPlace& k) { return k.inputs == inputs && k.outputs == outputs; });
    if (it == known.end()) {
      if (known.size() == kMost) known.pop_back();
      known.insert(known.begin(), {inputs, outputs, nullptr});
      return nullptr;
    }
    if (!it->recording) it->recording = arena.queue()->record([&] { put_in_steps(inputs, outputs); });
    std::rotate(known.begin(), it, it + 1);
    return known.front().recording.get();
  }
  // A buffer of the caller's that another one shares memory with must be copied: kernels may write the one while they
  // still read the other.
  bool disjoint(std::span<const void* const> inputs, std::span<void* const> outputs) const {
    std::vector<std::pair<const std::byte*, int64_t>> written;
    auto range = [](const PortInfo& port, const void* at) {
      return std::pair(static_cast<const std::byte*>(at), byte_count(port.type.dtype, port.type.dims()));
    };
    auto meets = [&](const std::pair<const std::byte*, int64_t>& a) {
      return std::any_of(written.begin(), written.end(),
                         [&](const auto& b) { return a.first < b.first + b.second && b.first < a.first + a.second; });
    };
    for (size_t o = 0; o < outputs.size(); ++o) {
      const auto output = range(plan.outputs[o], outputs[o]);
      if (meets(output)) return false;
      written.push_back(output);
    }
    for (size_t i = 0; i < inputs.size(); ++i)
      if (meets(range(plan.inputs[i], inputs[i]))) return false;
    return true;
  }
  void to_device(std::span<const void* const> inputs) {
    find_device_buffers();
    for (size_t i = 0; i < plan.inputs.size(); ++i) {
      const int64_t bytes = byte_count(plan.inputs[i].type.dtype, plan.inputs[i].type.dims());
      std::byte* staged = arena.staging() + device_side.inputs_at[i];
      std::memcpy(staged, inputs[i], size_t(bytes));
      arena.queue()->copy_to_device(const_cast<void*>(device_side.inputs[i]), staged, bytes);
    }
  }
  void to_host(std::span<void* const> outputs) {
    auto bytes = [&](size_t o) { return byte_count(plan.outputs[o].type.dtype, plan.outputs[o].type.dims()); };
    for (size_t o = 0; o < plan.outputs.size(); ++o)
      arena.queue()->copy_to_host(arena.staging() + device_side.outputs_at[o], device_side.outputs[o], bytes(o));
    arena.queue()->wait();
    for (size_t o = 0; o < plan.outputs.size(); ++o)
      std::memcpy(outputs[o], arena.staging() + device_side.outputs_at[o], size_t(bytes(o)));
  }
  std::vector<std::vector<std::vector<double>>> steps_on_device(int times);
  void run_observed_on_device(std::span<const void* const> inputs, std::span<void* const> outputs,
                              const Observer& observer);

  // The plan may come from a file: what only the tactic and its kernel can tell about it is checked here.
  std::unique_ptr<Kernel> load(const PlanStep& step, const Device& device) const {
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
    kernel->prepare();
    return kernel;
  }

  std::unique_ptr<Kernel> load_unchecked(const PlanStep& step, const Device& device) const {
    const Backend& backend = find_backend(device.backend);
    if (step.is_reorder()) return backend.reorder(step.reorder(), plan.packed_of(step).code, device);
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
    return tactic->load(step.problem, step.config, plan.packed_of(step), device);
  }

  void run(std::span<const void* const> inputs, std::span<void* const> outputs, std::vector<std::vector<double>>* ms);

  // One slice through one chain.
  void run_slice(size_t s, int chain, int64_t slice, std::span<const void* const> inputs,
                 std::span<void* const> outputs, std::vector<std::vector<double>>* ms) {
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

  Buffers bind(const Segment& segment, BoundStep& bound_step, int chain, int64_t slice,
               std::span<const void* const> inputs, std::span<void* const> outputs) {
    std::byte* local = arena.data() + plan.shared_bytes + chain * segment.local_bytes;
    auto address = [&](const BufferRef& ref) -> std::byte* {
      const int64_t offset = slice * ref.slice_bytes + ref.offset;
      switch (ref.kind) {
        case BufferRef::Kind::none: return nullptr;
        case BufferRef::Kind::input: return static_cast<std::byte*>(const_cast<void*>(inputs[size_t(ref.at)])) + offset;
        case BufferRef::Kind::output: return static_cast<std::byte*>(outputs[size_t(ref.at)]) + offset;
        case BufferRef::Kind::shared: return arena.data() + ref.at + offset;
        case BufferRef::Kind::local: return local + ref.at + offset;
        case BufferRef::Kind::constant:
          if (arena.queue())
            return static_cast<std::byte*>(const_cast<void*>(device_side.constants[size_t(ref.at)].get()));
          return const_cast<std::byte*>(plan.constants[size_t(ref.at)]->raw().data());
      }
      return nullptr;
    };
    const PlanStep& step = *bound_step.step;
    for (size_t i = 0; i < step.inputs.size(); ++i) bound_step.inputs[i] = address(step.inputs[i]);
    for (size_t i = 0; i < step.outputs.size(); ++i) bound_step.outputs[i] = address(step.outputs[i]);
    return {bound_step.inputs, bound_step.outputs, local + segment.workspace_at,
            arena.queue() ? arena.queue()->stream() : nullptr};
  }
};

Executor::Executor(const Plan& plan, const Device& device, Arena& arena)
    : impl_(std::make_unique<Impl>(plan, device, arena)) {}
Executor::~Executor() = default;
Executor::Executor(Executor&&) noexcept = default;

void Executor::run(std::span<const void* const> inputs, std::span<void* const> outputs) {
  impl_->run(inputs, outputs, nullptr);
}

void Executor::run_timed(std::span<const void* const> inputs, std::span<void* const> outputs,
                         std::vector<std::vector<double>>& ms) {
  ms.resize(impl_->plan.segments.size());
  for (size_t s = 0; s < ms.size(); ++s) ms[s].resize(impl_->plan.segments[s].steps.size());
  impl_->run(inputs, outputs, &ms);
}

void Executor::Impl::run(std::span<const void* const> inputs, std::span<void* const> outputs,
                         std::vector<std::vector<double>>* ms) {
  if (arena.queue()) {
    to_device(inputs);
    if (ms) {
      const auto once = steps_on_device(1);
      for (size_t s = 0; s < ms->size(); ++s)
        for (size_t i = 0; i < (*ms)[s].size(); ++i) (*ms)[s][i] += once[0][s][i];
    } else arena.queue()->replay(recording());
    return to_host(outputs);
  }
  reserve();
  for (size_t s = 0; s < plan.segments.size(); ++s) {
    const Segment& segment = plan.segments[s];
    if (!segment.parallel) {
      for (int64_t slice = 0; slice < segment.slices; ++slice) run_slice(s, 0, slice, inputs, outputs, ms);
      continue;
    }
    const int64_t chains = plan.threads;
    run_members(plan.threads, [&](int chain) {
      for (int64_t slice = segment.slices * chain / chains; slice < segment.slices * (chain + 1) / chains; ++slice)
        run_slice(s, chain, slice, inputs, outputs, ms);
    });
  }
}

// Step by step, with a mark between any two.
std::vector<std::vector<std::vector<double>>> Executor::Impl::steps_on_device(int times) {
  Queue& queue = *arena.queue();
  struct Timed {
    size_t segment, step;
    std::unique_ptr<Queue::Mark> after;
  };
  std::vector<Timed> timed;
  const auto start = queue.make_mark();
  each_step_on_device(
      [&](size_t s, size_t i, BoundStep&, const Buffers&) { timed.push_back({s, i, queue.make_mark()}); });
  // One behind the other without gaps that the host makes: all are in the queue before the first ends.
  const auto steps = queue.record([&] {
    queue.put_mark(*start);
    size_t next = 0;
    each_step_on_device([&](size_t, size_t, BoundStep& step, const Buffers& buffers) {
      step.kernel->launch(buffers);
      queue.put_mark(*timed[next++].after);
    });
  });
  std::vector<std::vector<std::vector<double>>> runs;
  for (int run = 0; run < times; ++run) {
    queue.replay(*steps);
    queue.wait();
    auto& ms = runs.emplace_back();
    for (const Segment& segment : plan.segments) ms.emplace_back(segment.steps.size());
    const Queue::Mark* before = start.get();
    for (const Timed& t : timed) {
      ms[t.segment][t.step] += queue.milliseconds(*before, *t.after);
      before = t.after.get();
    }
  }
  return runs;
}

std::vector<std::vector<std::vector<double>>> Executor::steps_on_device(int times) {
  impl_->queue_of_device();
  impl_->find_device_buffers();
  return impl_->steps_on_device(times);
}

std::span<void* const> Executor::run_resident(std::span<const void* const> inputs, std::span<void* const> outputs) {
  Impl& impl = *impl_;
  Queue& queue = impl.queue_of_device();
  impl.find_device_buffers();
  const DeviceSide& d = impl.device_side;
  auto bytes = [](const PortInfo& port) { return byte_count(port.type.dtype, port.type.dims()); };
  // A recording has its addresses in it, and its kernels were chosen for aligned ones.
  auto aligned = [](const void* at) { return reinterpret_cast<uintptr_t>(at) % 256 == 0; };
  std::vector<const void*> in = d.inputs;
  std::vector<void*> out = d.outputs;
  const Queue::Recording* recording = nullptr;
  if (impl.disjoint(inputs, outputs)) {
    for (size_t i = 0; i < inputs.size(); ++i)
      if (aligned(inputs[i])) in[i] = inputs[i];
    for (size_t o = 0; o < outputs.size(); ++o)
      if (aligned(outputs[o])) out[o] = outputs[o];
    if (out != d.outputs && !(recording = impl.recording_on(in, out))) out = d.outputs;  // inputs alone may come again
    if (!recording && in != d.inputs && !(recording = impl.recording_on(in, out))) in = d.inputs;
  }
  if (!recording) recording = &impl.recording();
  for (size_t i = 0; i < inputs.size(); ++i)
    if (in[i] != inputs[i]) queue.copy_on_device(const_cast<void*>(in[i]), inputs[i], bytes(impl.plan.inputs[i]));
  queue.replay(*recording);
  for (size_t o = 0; o < outputs.size(); ++o)
    if (out[o] != outputs[o]) queue.copy_on_device(outputs[o], out[o], bytes(impl.plan.outputs[o]));
  queue.wait();
  return outputs.empty() ? std::span<void* const>(d.outputs) : outputs;
}

void Executor::run_waiting(std::span<const void* const> inputs, std::span<void* const> outputs) {
  Queue& queue = impl_->queue_of_device();
  impl_->to_device(inputs);
  impl_->each_step_on_device([&](size_t, size_t, BoundStep& step, const Buffers& buffers) {
    step.kernel->launch(buffers);
    queue.wait();
  });
  impl_->to_host(outputs);
}

std::vector<double> Executor::run_on_device(int times, bool recorded) {
  Impl& impl = *impl_;
  Queue& queue = impl.queue_of_device();
  impl.find_device_buffers();
  if (recorded) impl.recording();
  std::vector<std::unique_ptr<Queue::Mark>> marks;
  for (int i = 0; i <= times; ++i) marks.push_back(queue.make_mark());
  queue.put_mark(*marks[0]);
  for (int i = 1; i <= times; ++i) {
    if (recorded) queue.replay(impl.recording());
    else impl.put_in_steps();
    queue.put_mark(*marks[size_t(i)]);
  }
  queue.wait();
  std::vector<double> ms;
  for (int i = 1; i <= times; ++i) ms.push_back(queue.milliseconds(*marks[size_t(i - 1)], *marks[size_t(i)]));
  return ms;
}

void Executor::run_observed(std::span<const void* const> inputs, std::span<void* const> outputs,
                            const Observer& observer) {
  Impl& impl = *impl_;
  if (impl.arena.queue()) return impl.run_observed_on_device(inputs, outputs, observer);
  impl.reserve();
  impl.each_step(inputs, outputs, [&](size_t, size_t, BoundStep& step, const Buffers& buffers) {
    if (observer.before) observer.before(*step.step, buffers);
    step.kernel->launch(buffers);
    if (observer.after) observer.after(*step.step, buffers);
  });
}

// The observer is shown copies on the host.
void Executor::Impl::run_observed_on_device(std::span<const void* const> inputs, std::span<void* const> outputs,
                                            const Observer& observer) {
  Queue& queue = *arena.queue();
  to_device(inputs);
  each_step_on_device([&](size_t, size_t, BoundStep& step, const Buffers& buffers) {
    std::vector<AlignedBytes> copies;
    auto copy = [&](const Port& port, Layout layout, const void* from) -> void* {
      if (!from) return nullptr;
      copies.emplace_back(size_t(layout_bytes(port.type.dtype, port.dims(), layout, port.pitch)));
      queue.copy_to_host(copies.back().data(), from, int64_t(copies.back().size()));
      return copies.back().data();
    };
    auto show = [&](const std::function<void(const PlanStep&, const Buffers&)>& see) {
      if (!see) return;
      const PlanStep& plan_step = *step.step;
      std::vector<const void*> in;
      std::vector<void*> out;
      for (size_t i = 0; i < buffers.inputs.size(); ++i)
        in.push_back(copy(plan_step.problem.inputs[i], plan_step.config.inputs[i], buffers.inputs[i]));
      for (size_t o = 0; o < buffers.outputs.size(); ++o)
        out.push_back(copy(plan_step.problem.outputs[o], plan_step.config.outputs[o], buffers.outputs[o]));
      queue.wait();
      see(plan_step, {in, out, nullptr, nullptr});
      copies.clear();
    };
    show(observer.before);
    step.kernel->launch(buffers);
    show(observer.after);
  });
  to_host(outputs);
}

}  // namespace temper
