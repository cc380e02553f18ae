// SPDX-License-Identifier: Apache-2.0
#include "plan/execute_device.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/aligned.h"
#include "base/checked.h"
#include "base/log.h"
#include "plan/step_ranges.h"

namespace temper {

namespace {
constexpr int64_t kApart = 256;  // buffers begin at multiples of it

int64_t bytes_of(const PortInfo& port) { return byte_count(port.type.dtype, port.type.dims()); }
}  // namespace

DeviceExecutor::DeviceExecutor(const Plan& plan, const Device& device, Arena& arena)
    : plan_(plan), arena_(arena), queue_(*arena.queue()), shared_(shared_places(plan)), steps_(plan, device, arena) {
  const auto start = std::chrono::steady_clock::now();
  with_context([&] { return steps_.needs(bytes_); }, [&] { place_buffers(); });
  const auto placed = std::chrono::steady_clock::now();
  steps_.reserve(bytes_, bytes_);
  auto ms = [](auto from, auto to) { return std::chrono::duration<double, std::milli>(to - from).count(); };
  log(LogLevel::debug, "constants on the device in ", ms(start, placed), " ms, memory in ",
      ms(placed, std::chrono::steady_clock::now()));
}

// Kernels go with the executor: what still runs them must be done. is_lost() waits, and throws nothing.
DeviceExecutor::~DeviceExecutor() {
  if (in_flight_) queue_.is_lost();
}

// Puts the constants there, and says where the caller's buffers are copied to.
void DeviceExecutor::place_buffers() {
  constants_.resize(plan_.constants.size());
  for (const Segment& segment : plan_.segments)
    for (const PlanStep& step : segment.steps)
      for (const BufferRef& ref : step.inputs)
        if (ref.kind == BufferRef::Kind::constant && !constants_[size_t(ref.at)])
          constants_[size_t(ref.at)] = queue_.constant(plan_.constants[size_t(ref.at)]->raw());
  std::vector<const void*> addresses;
  for (const auto& constant : constants_) addresses.push_back(constant.get());
  steps_.set_constants(std::move(addresses));
  const auto take = [&](const PortInfo& port) {
    return std::exchange(bytes_, bytes_ + round_up<int64_t>(bytes_of(port), kApart));
  };
  // Small inputs side by side, which one copy moves: a model that generates has three numbers for each token, and
  // caches that stay where they are.
  by_place_.resize(plan_.inputs.size());
  std::iota(by_place_.begin(), by_place_.end(), size_t(0));
  std::ranges::stable_sort(by_place_, {}, [&](size_t i) { return bytes_of(plan_.inputs[i]); });
  inputs_at_.resize(plan_.inputs.size());
  for (const size_t i : by_place_) inputs_at_[i] = take(plan_.inputs[i]);
  for (const PortInfo& port : plan_.outputs) outputs_at_.push_back(take(port));
}

// Takes addresses anew where the arena has moved.
void DeviceExecutor::find_buffers() {
  steps_.reserve(bytes_, bytes_);  // there is less where a larger plan has asked for too much since
  if (moves_ == arena_.moves()) return;
  queue_.wait();
  capture_.reset();
  in_place_.clear();
  inputs_.clear();
  outputs_.clear();
  std::byte* behind = arena_.data() + plan_.arena_bytes();
  for (int64_t at : inputs_at_) inputs_.push_back(behind + at);
  for (int64_t at : outputs_at_) outputs_.push_back(behind + at);
  // Every run brings the inputs again, so that a cache may grow where it was copied to.
  for (const auto& [input, output] : shared_) outputs_[output] = behind + inputs_at_[input];
  moves_ = arena_.moves();
}

void DeviceExecutor::put_in_steps(std::span<const void* const> inputs, std::span<void* const> outputs) {
  steps_.each(inputs, outputs, [](size_t, size_t, BoundStep& step, const Buffers& buffers) {
    const StepRange range(step.step->node);
    launch(step, buffers);
  });
}

const Queue::Capture& DeviceExecutor::capture() {
  if (!capture_) capture_ = queue_.capture([&] { put_in_steps(inputs_, outputs_); });
  return *capture_;
}

// Null where these buffers come for the first time: making a capture takes longer than many copies.
const Queue::Capture* DeviceExecutor::capture_on(const std::vector<const void*>& inputs,
                                                 const std::vector<void*>& outputs) {
  constexpr size_t kMost = 8;
  auto it = std::find_if(in_place_.begin(), in_place_.end(),
                         [&](const InPlace& k) { return k.inputs == inputs && k.outputs == outputs; });
  if (it == in_place_.end()) {
    if (in_place_.size() == kMost) {
      if (in_place_.back().capture) queue_.wait();  // it may still run
      in_place_.pop_back();
    }
    in_place_.insert(in_place_.begin(), {inputs, outputs, nullptr});
    return nullptr;
  }
  if (!it->capture) it->capture = queue_.capture([&] { put_in_steps(inputs, outputs); });
  std::rotate(in_place_.begin(), it, it + 1);
  return in_place_.front().capture.get();
}

// A buffer of the caller's that another one shares memory with must be copied: kernels may write the one while they
// still read the other; but what may be one place is left so.
bool DeviceExecutor::disjoint(std::span<const void* const> inputs, std::span<void* const> outputs) const {
  std::vector<std::pair<const std::byte*, int64_t>> written;
  auto range = [](const PortInfo& port, const void* at) {
    return std::pair(static_cast<const std::byte*>(at), bytes_of(port));
  };
  auto meets = [&](const std::pair<const std::byte*, int64_t>& a) {
    return std::any_of(written.begin(), written.end(),
                       [&](const auto& b) { return a.first < b.first + b.second && b.first < a.first + a.second; });
  };
  for (size_t o = 0; o < outputs.size(); ++o) {
    if (!outputs[o]) continue;
    const auto output = range(plan_.outputs[o], outputs[o]);
    if (meets(output)) return false;
    written.push_back(output);
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto shares = [&](const auto& pair) { return pair.first == i && outputs[pair.second] == inputs[i]; };
    if (!outputs.empty() && std::any_of(shared_.begin(), shared_.end(), shares)) continue;
    if (meets(range(plan_.inputs[i], inputs[i]))) return false;
  }
  return true;
}

void DeviceExecutor::to_device(std::span<const void* const> inputs) {
  find_buffers();
  constexpr int64_t kSmall = 4096;  // more are not worth waiting for each other
  int64_t first = 0, end = 0;       // of what is staged and not yet copied
  const auto copy = [&] {
    if (end > first)
      queue_.copy_to_device(arena_.data() + plan_.arena_bytes() + first, arena_.staging() + first, end - first);
  };
  for (const size_t i : by_place_) {
    if (!inputs[i]) continue;
    const int64_t bytes = bytes_of(plan_.inputs[i]), at = inputs_at_[i];
    std::byte* staged = arena_.staging() + at;
    if (inputs[i] != staged) std::memcpy(staged, inputs[i], size_t(bytes));
    if (at != round_up(end, kApart) || bytes > kSmall) {
      copy();
      first = at;
    }
    end = at + bytes;
  }
  copy();
}

void DeviceExecutor::to_staging(std::span<void* const> outputs, std::span<void* const> from) {
  for (size_t o = 0; o < plan_.outputs.size(); ++o)
    if (outputs[o]) queue_.copy_to_host(arena_.staging() + outputs_at_[o], from[o], bytes_of(plan_.outputs[o]));
}

void DeviceExecutor::to_host(std::span<void* const> outputs, std::span<void* const> from) {
  to_staging(outputs, from);
  queue_.wait();
  in_flight_ = false;
  for (size_t o = 0; o < plan_.outputs.size(); ++o)
    if (outputs[o]) std::memcpy(outputs[o], arena_.staging() + outputs_at_[o], size_t(bytes_of(plan_.outputs[o])));
}

void DeviceExecutor::run(std::span<const void* const> inputs, std::span<void* const> outputs) {
  to_device(inputs);
  queue_.launch(capture());
  to_host(outputs);
}

double DeviceExecutor::run_clocked(std::span<const void* const> inputs, std::span<void* const> outputs) {
  if (!begins_) {
    begins_ = queue_.make_event();
    ends_ = queue_.make_event();
  }
  to_device(inputs);
  const Queue::Capture& steps = capture();
  queue_.record(*begins_);
  queue_.launch(steps);
  queue_.record(*ends_);
  to_host(outputs);
  return queue_.milliseconds(*begins_, *ends_);
}

void DeviceExecutor::start(std::span<const void* const> inputs, std::span<void* const> outputs) {
  in_flight_ = true;
  to_device(inputs);
  queue_.launch(capture());
  to_staging(outputs, outputs_);
  started_.assign(outputs.begin(), outputs.end());
}

void DeviceExecutor::finish() {
  queue_.wait();
  in_flight_ = false;
  for (size_t o = 0; o < started_.size(); ++o)
    if (started_[o]) std::memcpy(started_[o], arena_.staging() + outputs_at_[o], size_t(bytes_of(plan_.outputs[o])));
}

void* DeviceExecutor::staging_of(size_t index) {
  find_buffers();
  return arena_.staging() + inputs_at_[index];
}

void DeviceExecutor::run_partly_there(std::span<const void* const> inputs, std::span<void* const> outputs,
                                      std::span<const void* const> inputs_there, std::span<void* const> outputs_there,
                                      std::vector<std::vector<double>>* ms, bool waits) {
  to_device(inputs);
  std::vector<const void*> in = inputs_;
  std::vector<void*> out = outputs_;
  for (size_t i = 0; i < in.size(); ++i)
    if (inputs_there[i]) in[i] = inputs_there[i];
  for (size_t o = 0; o < out.size(); ++o)
    if (outputs_there[o]) out[o] = outputs_there[o];
  // What changes places from run to run comes again every other time.
  if (ms) add_step_times(in, out, *ms);
  else if (const Queue::Capture* of_these = capture_on(in, out)) queue_.launch(*of_these);
  else put_in_steps(in, out);
  if (waits) to_host(outputs, out);
  else in_flight_ = true;
}

void DeviceExecutor::run_timed(std::span<const void* const> inputs, std::span<void* const> outputs,
                               std::vector<std::vector<double>>& ms) {
  to_device(inputs);
  add_step_times(inputs_, outputs_, ms);
  to_host(outputs);
}

void DeviceExecutor::add_step_times(std::span<const void* const> inputs, std::span<void* const> outputs,
                                    std::vector<std::vector<double>>& ms) {
  const auto once = steps_on(inputs, outputs, 1);
  ms.resize(plan_.segments.size());
  for (size_t s = 0; s < ms.size(); ++s) {
    ms[s].resize(plan_.segments[s].steps.size());
    for (size_t i = 0; i < ms[s].size(); ++i) ms[s][i] += once[0][s][i];
  }
}

void DeviceExecutor::run_waiting(std::span<const void* const> inputs, std::span<void* const> outputs) {
  to_device(inputs);
  steps_.each(inputs_, outputs_, [&](size_t, size_t, BoundStep& step, const Buffers& buffers) {
    launch(step, buffers);
    queue_.wait();
  });
  to_host(outputs);
}

std::span<void* const> DeviceExecutor::run_resident(std::span<const void* const> inputs, std::span<void* const> outputs,
                                                    std::optional<void*> stream) {
  const bool into_graph = stream && queue_.is_captured(*stream);
  if (!into_graph) find_buffers();
  else if (moves_ != arena_.moves())
    fail(ErrorKind::usage, "the given stream is being captured, and the session is not ready for these shapes: ",
         "run it once on them before the capture begins");
  // A capture has its addresses in it, and its kernels were chosen for aligned ones.
  auto aligned = [](const void* at) { return reinterpret_cast<uintptr_t>(at) % 256 == 0; };
  std::vector<const void*> in = inputs_;
  std::vector<void*> out = outputs_;
  const Queue::Capture* of_these = nullptr;
  if (disjoint(inputs, outputs)) {
    for (size_t i = 0; i < inputs.size(); ++i)
      if (aligned(inputs[i])) in[i] = inputs[i];
    for (size_t o = 0; o < outputs.size(); ++o)
      if (outputs[o] && aligned(outputs[o])) out[o] = outputs[o];
    // A capture of ours is not launched into one of the caller's.
    if (!into_graph && out != outputs_ && !(of_these = capture_on(in, out)))
      out = outputs_;  // inputs alone may come again
    if (!into_graph && !of_these && in != inputs_ && !(of_these = capture_on(in, out))) in = inputs_;
  }
  if (!of_these && !into_graph) of_these = &capture();
  in_flight_ = true;
  // What the caller did without a stream is in the default one: a copy from pageable memory returns when its bytes are
  // staged, not when they have arrived.
  queue_.wait_for(stream.value_or(nullptr));
  for (size_t i = 0; i < inputs.size(); ++i)
    if (in[i] != inputs[i]) queue_.copy_on_device(const_cast<void*>(in[i]), inputs[i], bytes_of(plan_.inputs[i]));
  if (into_graph) put_in_steps(in, out);
  else queue_.launch(*of_these);
  for (size_t o = 0; o < outputs.size(); ++o)
    if (outputs[o] && out[o] != outputs[o]) queue_.copy_on_device(outputs[o], out[o], bytes_of(plan_.outputs[o]));
  if (stream) queue_.let_wait(*stream);
  else {
    queue_.wait();
    in_flight_ = false;
  }
  if (outputs.empty()) return outputs_;
  if (std::find(outputs.begin(), outputs.end(), nullptr) == outputs.end()) return outputs;
  results_.assign(outputs.begin(), outputs.end());
  for (size_t o = 0; o < results_.size(); ++o)
    if (!results_[o]) results_[o] = out[o];
  return results_;
}

std::vector<double> DeviceExecutor::run_on_device(int times, bool captured) {
  find_buffers();
  if (captured) capture();
  std::vector<std::unique_ptr<Queue::Event>> events;
  for (int i = 0; i <= times; ++i) events.push_back(queue_.make_event());
  queue_.record(*events[0]);
  for (int i = 1; i <= times; ++i) {
    if (captured) queue_.launch(capture());
    else put_in_steps(inputs_, outputs_);
    queue_.record(*events[size_t(i)]);
  }
  queue_.wait();
  std::vector<double> ms;
  for (int i = 1; i <= times; ++i) ms.push_back(queue_.milliseconds(*events[size_t(i - 1)], *events[size_t(i)]));
  return ms;
}

std::vector<std::vector<std::vector<double>>> DeviceExecutor::steps_on_device(int times) {
  find_buffers();
  return steps_on(inputs_, outputs_, times);
}

// Step by step, with an event between any two.
std::vector<std::vector<std::vector<double>>> DeviceExecutor::steps_on(std::span<const void* const> inputs,
                                                                       std::span<void* const> outputs, int times) {
  struct Timed {
    size_t segment, step;
    std::unique_ptr<Queue::Event> after;
  };
  std::vector<Timed> timed;
  const auto start = queue_.make_event();
  steps_.each(inputs, outputs,
              [&](size_t s, size_t i, BoundStep&, const Buffers&) { timed.push_back({s, i, queue_.make_event()}); });
  // One behind the other without gaps that the host makes: all are in the queue before the first ends.
  const auto steps = queue_.capture([&] {
    queue_.record(*start);
    size_t next = 0;
    steps_.each(inputs, outputs, [&](size_t, size_t, BoundStep& step, const Buffers& buffers) {
      launch(step, buffers);
      queue_.record(*timed[next++].after);
    });
  });
  std::vector<std::vector<std::vector<double>>> runs;
  for (int run = 0; run < times; ++run) {
    queue_.launch(*steps);
    queue_.wait();
    auto& ms = runs.emplace_back();
    for (const Segment& segment : plan_.segments) ms.emplace_back(segment.steps.size());
    const Queue::Event* before = start.get();
    for (const Timed& t : timed) {
      ms[t.segment][t.step] += queue_.milliseconds(*before, *t.after);
      before = t.after.get();
    }
  }
  return runs;
}

void DeviceExecutor::run_observed(std::span<const void* const> inputs, std::span<void* const> outputs,
                                  const Observer& observer) {
  to_device(inputs);
  steps_.each(inputs_, outputs_, [&](size_t, size_t, BoundStep& step, const Buffers& buffers) {
    std::vector<AlignedBytes> copies;
    auto copy = [&](const Port& port, Layout layout, const void* from) -> void* {
      if (!from) return nullptr;
      copies.emplace_back(size_t(layout_bytes(port.type.dtype, port.dims(), layout, port.pitch)));
      queue_.copy_to_host(copies.back().data(), from, int64_t(copies.back().size()));
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
      queue_.wait();
      see(plan_step, {in, out, nullptr, nullptr});
      copies.clear();
    };
    show(observer.before);
    launch(step, buffers);
    show(observer.after);
  });
  to_host(outputs);
}

}  // namespace temper
