// SPDX-License-Identifier: Apache-2.0
#include "tune/tuner.h"

#include <chrono>
#include <limits>

#include "backends/subnormals.h"
#include "backends/timing_text.h"
#include "base/checked.h"
#include "base/log.h"
#include "base/threads.h"
#include "graph/ops/attention.h"
#include "graph/ops/fused_decode.h"
#include "graph/random.h"
#include "plan/memory.h"
#include "plan/shared_places.h"

namespace temper {

namespace {

// Numbers in [-1, 1) for floats, small ones for integers: neither denormals nor an all-zero input flatters a kernel.
// Wide integers may be indices, and 0 and -1 lie within every axis.
void fill(Tensor& tensor) {
  uint32_t state = 12345;
  if (is_stored_only(tensor.dtype())) return fill_random(tensor, state);
  visit_dtype(tensor.dtype(), [&]<class T>() {
    for (int64_t i = 0; i < tensor.count(); ++i) {
      state = state * 1664525u + 1013904223u;
      if constexpr (std::is_same_v<T, bool>) tensor.data<T>()[i] = (state >> 31) != 0;
      else if constexpr (std::is_integral_v<T> && std::is_signed_v<T> && sizeof(T) >= 4)
        tensor.data<T>()[i] = -T((state >> 16) % 2);
      else if constexpr (std::is_integral_v<T>) tensor.data<T>()[i] = T((state >> 16) % 3);
      else tensor.data<T>()[i] = static_cast<T>(double(int32_t(state)) / 2147483648.0);
    }
  });
}

// Where a number says how much there is to do, it is all: of the keys of an attention; and a cache has room. A program
// may make an index of 0 alone that lies within every axis.
std::optional<int64_t> number_for(const Problem& problem, size_t input) {
  if (problem.op.is<ops::Attention>() && input == 4) return problem.inputs[1].dims()[1];
  if (problem.op.is<ops::Append>() && input == 2) return 0;
  if (problem.op.is<ops::AppendingAttention>() && input >= 5) {
    const int64_t positions = problem.inputs[1].dims()[1];
    if (input == 5) return positions - problem.inputs[2].dims()[1];
    if (input == 7) return positions;
  }
  if (problem.op.is<ops::ComputedGather>() && input == 1) return 0;  // which its program makes an index of
  return std::nullopt;
}

void flush_line(const void* address) {
#if defined(__x86_64__)
  __builtin_ia32_clflush(address);
#else
  (void)address;
#endif
}

}  // namespace

// Memory that the candidates use one after the other: fresh pages for each would cost more than timing it.
class Tuner::Scratch {
 public:
  explicit Scratch(Queue* queue) : queue_(queue) {}
  void reset() {
    for (auto& [key, pool] : pools_) pool.chunk = 0, pool.used = 0;
  }
  // Aligned; valid until the next reset. `filled`: with plausible values, which the caller does not write to.
  std::byte* take(DType dtype, int64_t elements, bool filled) {
    Pool& pool = pools_[{dtype, filled}];
    const int64_t bytes = round_up<int64_t>(std::max<int64_t>(1, elements) * size_of(dtype), kBufferAlignment);
    while (pool.chunk < pool.chunks.size() && pool.used + bytes > pool.chunks[pool.chunk].bytes)
      ++pool.chunk, pool.used = 0;
    if (pool.chunk == pool.chunks.size()) {
      pool.chunks.push_back(make_chunk(dtype, std::max(bytes, kChunk), filled));
      pool.used = 0;
    }
    std::byte* at = pool.chunks[pool.chunk].data + pool.used;
    pool.used += bytes;
    return at;
  }

 private:
  static constexpr int64_t kChunk = int64_t(4) << 20;
  struct Chunk {
    std::shared_ptr<void> owner;
    std::byte* data;
    int64_t bytes;
  };
  struct Pool {
    std::vector<Chunk> chunks;
    size_t chunk = 0;
    int64_t used = 0;
  };
  Queue* queue_;

  Chunk make_chunk(DType dtype, int64_t bytes, bool filled) const {
    if (queue_ && !filled) {
      auto memory = queue_->allocate(bytes);
      return {memory, static_cast<std::byte*>(memory.get()), bytes};
    }
    auto host = std::make_shared<Tensor>(dtype, Dims{(queue_ ? std::min(bytes, kChunk) : bytes) / size_of(dtype)});
    if (filled) fill(*host);
    if (!queue_) return {host, host->raw_mutable(), host->bytes()};
    auto memory = queue_->allocate(bytes);
    for (int64_t at = 0; at < bytes; at += host->bytes())  // the same numbers again and again
      queue_->copy_to_device(static_cast<std::byte*>(memory.get()) + at, host->raw().data(),
                             std::min(host->bytes(), bytes - at));
    queue_->wait();
    return {memory, static_cast<std::byte*>(memory.get()), bytes};
  }
  std::map<std::pair<DType, bool>, Pool> pools_;
};

// One chain's kernel and buffers.
struct Tuner::Instance {
  std::unique_ptr<Kernel> kernel;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  std::vector<std::shared_ptr<const void>> constants;
  void *workspace = nullptr, *stream = nullptr;

  Instance(Scratch& scratch, const Problem& problem, const Tactic& tactic, const Config& config, const Packed& packed,
           const Device& device, Queue* queue)
      : stream(queue ? queue->stream() : nullptr) {
    const std::vector<bool>& consumed = packed.consumed;
    // As at the load of a plan, lest what was packed is packed again.
    Problem packed_problem = problem;
    for (size_t i = 0; i < consumed.size(); ++i)
      if (consumed[i]) packed_problem.inputs[i].constant = nullptr;
    kernel = tactic.load(packed_problem, config, {packed.bytes, packed.code}, device);
    kernel->prepare();
    for (size_t i = 0; i < problem.inputs.size(); ++i) {
      const Port& port = problem.inputs[i];
      // A plan reorders a constant that is wanted in another layout, which may take more memory.
      const bool as_it_is = port.constant && same_memory(port.dims(), Layout::plain, config.inputs[i]);
      if (!port.present || (i < consumed.size() && consumed[i])) inputs.push_back(nullptr);
      else if (as_it_is && queue) {
        constants.push_back(queue->constant(port.constant->raw()));
        inputs.push_back(constants.back().get());
      } else if (as_it_is) inputs.push_back(port.constant->raw().data());
      else if (const auto number = number_for(problem, i)) inputs.push_back(all_of(*number, port, queue));
      else inputs.push_back(scratch.take(port.type.dtype, layout_elements(port.dims(), config.inputs[i]), true));
    }
    for (size_t o = 0; o < problem.outputs.size(); ++o)
      outputs.push_back(scratch.take(problem.outputs[o].type.dtype,
                                     layout_elements(problem.outputs[o].dims(), config.outputs[o]), false));
    // As most plans will have it. What comes out does not matter.
    if (const int shared = kernel->in_place(); shared >= 0) inputs[size_t(shared)] = outputs[0];
    for (const auto& [cache, grown] : caches_of(problem.op))
      if (config.inputs[cache] == Layout::plain && config.outputs[grown] == Layout::plain)
        inputs[cache] = outputs[grown];
    workspace = scratch.take(DType::u8, kernel->workspace(), false);
  }
  void launch() { kernel->launch({inputs, outputs, workspace, stream}); }

 private:
  const void* all_of(int64_t number, const Port& port, Queue* queue) {
    auto tensor = std::make_shared<Tensor>(port.type.dtype, port.dims());
    std::fill_n(tensor->data<int64_t>(), tensor->count(), number);
    if (queue) constants.push_back(queue->constant(tensor->raw()));
    else constants.push_back(std::shared_ptr<const void>(tensor, tensor->raw().data()));
    return constants.back().get();
  }
};

struct Tuner::Ready {
  Packed packed;
  std::vector<Instance> instances;  // one a chain
  bool cold_constants = false;
  int64_t workspace() const { return instances[0].kernel->workspace(); }
};

// A time is marked with the load of about a second around it: that the kernel's ticks of 10 ms can tell.
static constexpr double kWindowSeconds = 1;

Tuner::Tuner(const Device& device, TimingCache& cache, const Instruments& instruments, TimingHelper* helper)
    : device_(device),
      cache_(cache),
      helper_(helper),
      instruments_(instruments),
      window_(*instruments.load),
      queue_(open_queue(device)),
      scratch_(std::make_unique<Scratch>(queue_.get())) {}
Tuner::~Tuner() {
  for (const auto& [tactic, spent] : spent_)
    log(LogLevel::debug, "timed ", spent.candidates, " candidates of ", tactic, " in ", spent.seconds, " s");
}

bool Tuner::is_lost() const { return queue_ && queue_->is_lost(); }

std::string Tuner::fault(const Problem& problem, const Tactic& tactic, const Config& config) const {
  return tactic.foreign
             ? cache_.fault(timing_key(timing_group(device_.fingerprint, problem, 1), tactic, config)).value_or("")
             : "";
}

std::optional<CandidateTime> Tuner::known(const Problem& problem, const Tactic& tactic, const Config& config,
                                          int chains) {
  const std::string key = timing_key(timing_group(device_.fingerprint, problem, chains), tactic, config);
  if (const auto entry = cache_.entry(key); entry && is_believed(key, problem, *entry)) {
    if (!fresh_.contains(key)) from_file_.insert(problem.text());
    return CandidateTime::of(entry->ms);
  }
  if (tactic.foreign && cache_.fault(key)) return CandidateTime();
  return std::nullopt;
}

CandidateTime Tuner::time(const Problem& problem, const Tactic& tactic, const Config& config, int chains,
                          int64_t workspace_limit, double best_ms) {
  const std::string group = timing_group(device_.fingerprint, problem, chains);
  const std::string key = timing_key(group, tactic, config);
  double& best = best_.try_emplace(group, std::numeric_limits<double>::infinity()).first->second;
  if (const auto before = known(problem, tactic, config, chains)) {
    if (before->is_known()) best = std::min(best, before->ms);
    return *before;
  }
  best = std::min(best, best_ms);
  if (progress) progress(timed_, problem.text());
  ++timed_;
  const QuickOptions options{.best_ms = best, .give_up = 1.5, .max_ms = 25, .max_runs = 6};
  const auto start = std::chrono::steady_clock::now();
  const CandidateTime time = tactic.foreign && queue_
                                 ? measure_foreign(key, problem, tactic, config, workspace_limit, options)
                                 : measure(problem, tactic, config, chains, workspace_limit, options);
  Spent& spent = spent_[tactic.name];
  ++spent.candidates;
  spent.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!time.is_known()) return time;
  best = std::min(best, time.ms);
  keep(key, time.ms);
  return time;
}

bool Tuner::doubt(const std::string& problem) {
  doubted_.insert(problem);
  std::erase_if(best_,
                [&](const auto& group) { return group.first.find(without_numbers(problem)) != std::string::npos; });
  return from_file_.contains(problem);
}

// On a GPU times are its own, which the host's load does not disturb.
bool Tuner::is_believed(const std::string& key, const Problem& problem, const TimedEntry& known) {
  if (fresh_.contains(key)) return true;
  if (doubted_.contains(problem.text())) return false;
  return queue_ || !known.suspect() || !is_quiet();
}

bool Tuner::is_quiet() {
  const auto load = last_load_ && window_.seconds() < kWindowSeconds ? std::nullopt : window_.load_after_waiting();
  if (load) close_window(*load);
  return last_load_ && *last_load_ < kLoadThatCounts;
}

// Until the window is closed nobody knows what others did: the time counts as suspect.
void Tuner::keep(const std::string& key, double ms) {
  fresh_.insert(key);
  if (queue_) return cache_.add(key, ms);
  in_window_.push_back(key);
  cache_.add(key, {ms, std::nullopt, 0});
  if (window_.seconds() >= kWindowSeconds) finish();
}

void Tuner::finish() {
  if (in_window_.empty()) return;
  // A rest that is too short is taken for what came before it; where nothing did, and the times are kept, it is worth
  // the waiting to know.
  auto load = window_.load();
  if (!load) load = last_load_ || !cache_.is_kept() ? last_load_ : window_.load_after_waiting();
  if (load) close_window(*load);
}

void Tuner::close_window(double load) {
  for (const std::string& key : in_window_)
    if (const auto entry = cache_.entry(key)) cache_.add(key, entry->ms, load);
  if (load >= kLoadThatCounts) suspect_ += int64_t(in_window_.size());
  if (!in_window_.empty()) most_load_ = std::max(most_load_, load);
  last_load_ = load;
  in_window_.clear();
  window_.start();
}

CandidateTime Tuner::time_unless_hopeless(const std::string& family, const Problem& problem, const Tactic& tactic,
                                          const Config& config, int chains, int64_t workspace_limit) {
  Family& known = families_[family];
  const std::string problem_text = concat(problem.text(), chains), candidate = timing_key("", tactic, config);
  if (known.first.empty()) known.first = problem_text;
  if (known.first != problem_text) {
    auto it = known.ms.find(candidate);
    if (it != known.ms.end() && it->second > kHopeless * known.best) return {CandidateTime::Kind::hopeless};
    return time(problem, tactic, config, chains, workspace_limit);
  }
  const CandidateTime taken = time(problem, tactic, config, chains, workspace_limit);
  if (taken.is_known()) {
    known.ms[candidate] = taken.ms;
    known.best = std::min(known.best, taken.ms);
  }
  return taken;
}

std::vector<double> Tuner::refine(const Problem& problem, const std::vector<CandidateRef>& contenders, int chains) {
  constexpr int kRounds = 3;
  const std::string group = timing_group(device_.fingerprint, problem, chains);
  std::vector<double> ms;
  std::vector<std::string> keys;
  std::vector<std::optional<Ready>> ready;
  for (const CandidateRef& c : contenders) {
    keys.push_back(timing_key(group, *c.tactic, c.config));
    ms.push_back(cache_.find(keys.back()).value());
    ready.emplace_back();
    if (fresh_.contains(keys.back())) ready.back().emplace(prepare(problem, *c.tactic, c.config, chains));
  }
  for (int round = 0; round < kRounds; ++round)
    for (size_t i = 0; i < ready.size(); ++i)
      if (ready[i]) ms[i] = std::min(ms[i], look(*ready[i], {.max_ms = 8, .max_runs = 4}));
  for (size_t i = 0; i < ready.size(); ++i)
    if (ready[i]) keep(keys[i], ms[i]);
  return ms;
}

CandidateTime Tuner::measure_foreign(const std::string& key, const Problem& problem, const Tactic& tactic,
                                     const Config& config, int64_t workspace_limit, const QuickOptions& options) {
  using Kind = TimingHelper::Answer::Kind;
  if (helper_) {
    const TimeSpent::In in(time_spent, "timing candidates");
    const TimingHelper::Answer answer = helper_->time(
        timing_key(exact_group(device_.fingerprint, problem, 1), tactic, config), options.best_ms, workspace_limit);
    if (answer.kind == Kind::timed) return CandidateTime::of(answer.ms);
    if (answer.kind == Kind::too_much_workspace) return {CandidateTime::Kind::over_workspace};
    if (answer.kind == Kind::faulted) {
      log(LogLevel::warning, tactic.name, " (", config.text, ") faulted on this GPU and is left out: ", answer.text);
      cache_.add_fault(key, answer.text);
      return {};
    }
  }
  try {
    return measure(problem, tactic, config, 1, workspace_limit, options);
  } catch (const Error& error) {
    if (!is_lost()) throw;
    const std::string_view what = error.what();
    const std::string cause(what.substr(0, what.find("; ")));  // without the driver's advice
    cache_.add_fault(key, cause);
    cache_.save();  // nothing else of this process will
    fail(ErrorKind::machine, tactic.name, " (", config.text, ") faulted and took the GPU from this process: ", cause,
         cache_.is_kept() ? "; the timing cache remembers it, so start again"
                          : "; build with a timing cache, which remembers it");
  }
}

CandidateTime Tuner::measure(const Problem& problem, const Tactic& tactic, const Config& config, int chains,
                             int64_t workspace_limit, const QuickOptions& options) {
  Ready ready = prepare(problem, tactic, config, chains);
  if (workspace_limit >= 0 && ready.workspace() > workspace_limit) return {CandidateTime::Kind::over_workspace};
  return CandidateTime::of(look(ready, options));
}

// The buffers are those of the candidate before: nobody looks at what is in them.
Tuner::Ready Tuner::prepare(const Problem& problem, const Tactic& tactic, const Config& config, int chains) {
  const TimeSpent::In in(time_spent, "compiling");  // or waiting until another thread has; and packing weights
  Ready ready;
  if (tactic.build) ready.packed = tactic.build(problem, config, device_);
  ready.cold_constants = problem.cold_constants;
  scratch_->reset();
  for (int c = 0; c < chains; ++c)
    ready.instances.emplace_back(*scratch_, problem, tactic, config, ready.packed, device_, queue_.get());
  return ready;
}

double Tuner::look(Ready& ready, const QuickOptions& options) {
  const TimeSpent::In in(time_spent, "timing candidates");
  auto& instances = ready.instances;
  if (queue_) {
    const double ms = time_on_device(instances[0], options);
    last_ = std::move(instances[0].kernel);  // its weights stay on the device for the next candidate of the problem
    return ms;
  }
  QuickOptions timing = options;
  const AlignedBytes& bytes = ready.packed.bytes;
  if (ready.cold_constants && bytes.size() > (1 << 16))
    timing.before = [&] {
      for (const std::byte* line = bytes.data(); line < bytes.data() + bytes.size(); line += 64) flush_line(line);
    };
  const int chains = int(instances.size());
  const SubnormalsAsZero subnormals(takes_subnormals_for_zero(device_));
  return quick_time_ms([&] { run_members(chains, [&](int chain) { instances[size_t(chain)].launch(); }); }, timing,
                       *instruments_.clock);
}

// On the device's clock. A capture of several launches, so that what lies between two launches of a plan is in the
// time and what the host does is not. The buffers are those of the launch before: as warm in the caches as their size
// allows.
double Tuner::time_on_device(Instance& instance, const QuickOptions& options) {
  const auto start = queue_->make_event(), end = queue_->make_event();
  auto time = [&](auto&& put_in) {
    queue_->record(*start);
    put_in();
    queue_->record(*end);
    queue_->wait();
    return queue_->milliseconds(*start, *end);
  };
  instance.launch();
  queue_->wait();
  const double once = time([&] { instance.launch(); });
  // A single launch carries the host's time for it: about this much.
  constexpr double kHostMs = 0.03;
  if (once - kHostMs > options.best_ms * std::max(options.give_up, 2.0)) return once;
  constexpr double kRecordedMs = 0.25;
  const int launches = int(std::clamp(kRecordedMs / std::max(once, 1e-4), 1.0, 24.0));
  const auto capture = queue_->capture([&] {
    for (int i = 0; i < launches; ++i) instance.launch();
  });
  double best = std::numeric_limits<double>::infinity();
  for (int run = 0; run < options.max_runs; ++run) {
    const double ms = time([&] { queue_->launch(*capture); }) / launches;
    if (run > 0) best = std::min(best, ms);  // the first moves the capture to the device
    if (run > 1 && best > options.best_ms * options.give_up) break;
  }
  return best;
}

}  // namespace temper
