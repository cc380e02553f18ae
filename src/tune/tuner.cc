// SPDX-License-Identifier: Apache-2.0
#include "tune/tuner.h"

#include <limits>

#include "base/checked.h"
#include "base/threads.h"
#include "plan/memory.h"

namespace temper {

namespace {

// Numbers in [-1, 1) for floats, small ones for integers: neither denormals nor an all-zero input flatters a kernel. Wide
// integers may be indices, and 0 and -1 lie within every axis.
void fill(Tensor& tensor) {
  uint32_t state = 12345;
  visit_dtype(tensor.dtype(), [&]<class T>() {
    for (int64_t i = 0; i < tensor.count(); ++i) {
      state = state * 1664525u + 1013904223u;
      if constexpr (std::is_same_v<T, bool>) tensor.data<T>()[i] = (state >> 31) != 0;
      else if constexpr (std::is_integral_v<T> && std::is_signed_v<T> && sizeof(T) >= 4) tensor.data<T>()[i] = -T((state >> 16) % 2);
      else if constexpr (std::is_integral_v<T>) tensor.data<T>()[i] = T((state >> 16) % 3);
      else tensor.data<T>()[i] = static_cast<T>(double(int32_t(state)) / 2147483648.0);
    }
  });
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
    while (pool.chunk < pool.chunks.size() && pool.used + bytes > pool.chunks[pool.chunk].bytes) ++pool.chunk, pool.used = 0;
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
      queue_->copy_to_device(static_cast<std::byte*>(memory.get()) + at, host->raw().data(), std::min(host->bytes(), bytes - at));
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

  Instance(Scratch& scratch, const Problem& problem, const Tactic& tactic, const Config& config, const Packed& packed, const Device& device, Queue* queue)
      : stream(queue ? queue->stream() : nullptr) {
    const std::vector<bool>& consumed = packed.consumed;
    kernel = tactic.load(problem, config, {packed.bytes, packed.code}, device);
    kernel->prepare();
    for (size_t i = 0; i < problem.inputs.size(); ++i) {
      const Port& port = problem.inputs[i];
      if (!port.present || (i < consumed.size() && consumed[i])) inputs.push_back(nullptr);
      else if (port.constant && queue) {
        constants.push_back(queue->constant(port.constant->raw()));
        inputs.push_back(constants.back().get());
      } else if (port.constant) inputs.push_back(port.constant->raw().data());
      else inputs.push_back(scratch.take(port.type.dtype, layout_elements(port.dims(), config.inputs[i]), true));
    }
    for (size_t o = 0; o < problem.outputs.size(); ++o)
      outputs.push_back(scratch.take(problem.outputs[o].type.dtype, layout_elements(problem.outputs[o].dims(), config.outputs[o]), false));
    // As most plans will have it. What comes out does not matter.
    if (const int shared = kernel->in_place(); shared >= 0) inputs[size_t(shared)] = outputs[0];
    workspace = scratch.take(DType::u8, kernel->workspace(), false);
  }
  void launch() { kernel->launch({inputs, outputs, workspace, stream}); }
};

Tuner::Tuner(const Device& device, TimingCache& cache) : device_(device), cache_(cache), queue_(open_queue(device)), scratch_(std::make_unique<Scratch>(queue_.get())) {}
Tuner::~Tuner() = default;

double Tuner::time(const Problem& problem, const Tactic& tactic, const Config& config, int chains, int64_t workspace_limit) {
  const std::string group = timing_group(device_.fingerprint, problem, chains);
  const std::string key = timing_key(group, tactic, config);
  double& best = best_.try_emplace(group, std::numeric_limits<double>::infinity()).first->second;
  if (auto known = cache_.find(key)) {
    best = std::min(best, *known);
    return *known;
  }
  if (progress) progress(timed_, problem.text());
  ++timed_;
  const double ms = measure(problem, tactic, config, chains, workspace_limit, {.best_ms = best, .give_up = 1.5, .max_ms = 25, .max_runs = 6});
  if (ms < 0) return ms;
  best = std::min(best, ms);
  cache_.add(key, ms);
  fresh_.insert(key);
  return ms;
}

double Tuner::time_unless_hopeless(const std::string& family, const Problem& problem, const Tactic& tactic, const Config& config, int chains, int64_t workspace_limit) {
  Family& known = families_[family];
  const std::string problem_text = concat(problem.text(), chains), candidate = timing_key("", tactic, config);
  if (known.first.empty()) known.first = problem_text;
  if (known.first != problem_text) {
    auto it = known.ms.find(candidate);
    if (it != known.ms.end() && it->second > kHopeless * known.best) return -1;
    return time(problem, tactic, config, chains, workspace_limit);
  }
  const double ms = time(problem, tactic, config, chains, workspace_limit);
  if (ms >= 0) {
    known.ms[candidate] = ms;
    known.best = std::min(known.best, ms);
  }
  return ms;
}

double Tuner::refine(const Problem& problem, const Tactic& tactic, const Config& config, int chains) {
  const std::string key = timing_key(timing_group(device_.fingerprint, problem, chains), tactic, config);
  const double before = cache_.find(key).value();
  if (!fresh_.count(key)) return before;
  const double ms = std::min(before, measure(problem, tactic, config, chains, -1, {.give_up = 2, .max_ms = 25, .max_runs = 10}));
  cache_.add(key, ms);
  return ms;
}

double Tuner::measure(const Problem& problem, const Tactic& tactic, const Config& config, int chains, int64_t workspace_limit, const QuickOptions& options) {
  const Packed packed = tactic.build ? tactic.build(problem, config, device_) : Packed{};
  const AlignedBytes& bytes = packed.bytes;
  scratch_->reset();
  std::vector<Instance> instances;
  for (int c = 0; c < chains; ++c) instances.emplace_back(*scratch_, problem, tactic, config, packed, device_, queue_.get());
  if (workspace_limit >= 0 && instances[0].kernel->workspace() > workspace_limit) return -1;
  if (queue_) {
    const double ms = time_on_device(instances[0], options);
    last_ = std::move(instances[0].kernel);  // its weights stay on the device for the next candidate of the problem
    return ms;
  }
  QuickOptions timing = options;
  if (problem.cold_constants && bytes.size() > (1 << 16))
    timing.before = [&] {
      for (const std::byte* line = bytes.data(); line < bytes.data() + bytes.size(); line += 64) flush_line(line);
    };
  return quick_time_ms([&] { run_members(chains, [&](int chain) { instances[size_t(chain)].launch(); }); }, timing);
}

// On the device's clock. A recording of several launches, so that what lies between two launches of a plan is in the time
// and what the host does is not. The buffers are those of the launch before: as warm in the caches as their size allows.
double Tuner::time_on_device(Instance& instance, const QuickOptions& options) {
  const auto start = queue_->make_mark(), end = queue_->make_mark();
  auto time = [&](auto&& put_in) {
    queue_->put_mark(*start);
    put_in();
    queue_->put_mark(*end);
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
  const auto recording = queue_->record([&] {
    for (int i = 0; i < launches; ++i) instance.launch();
  });
  double best = std::numeric_limits<double>::infinity();
  for (int run = 0; run < options.max_runs; ++run) {
    const double ms = time([&] { queue_->replay(*recording); }) / launches;
    if (run > 0) best = std::min(best, ms);  // the first moves the recording to the device
    if (run > 1 && best > options.best_ms * options.give_up) break;
  }
  return best;
}

}  // namespace temper
