// SPDX-License-Identifier: Apache-2.0
#include "bench/scaling.h"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <exception>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>

#include "backends/devices.h"
#include "base/numa.h"
#include "bench/bench_engine.h"
#include "measure/clock.h"

namespace temper {

namespace {

using Json = nlohmann::ordered_json;

double seconds_now() { return host_clock().now_ms() / 1e3; }

// What one device runs, by its own thread from the making of its memory on.
class Load {
 public:
  Load(std::shared_ptr<const Engine> engine, const std::vector<Dims>& shapes, const GivenInputs& given,
       const ScalingOptions& options)
      : engine_(std::move(engine)), resident_(!options.transfers) {
    const std::vector<Tensor> inputs = first_inputs(*engine_, shapes, given, {});
    for (int i = 0; i < (engine_->device().gpu && !resident_ ? options.streams : 1); ++i)
      streams_.push_back(std::make_unique<Stream>(engine_, shapes, inputs));
    streams_[0]->run();  // a resident run finds its inputs on the device
  }

  // Puts some runs in, of which those before may be done by then; returns how many are.
  int64_t step() {
    if (resident_) {
      const double start = seconds_now();
      streams_[0]->session.run_on_device(runs_, true);
      // The host comes back now and then, a hundredth of a second or so, and the device does not wait for it.
      const double took = seconds_now() - start;
      const int64_t done = runs_;
      if (took < kStep / 2) runs_ = std::min(2 * runs_, kMostRuns);
      else if (took > 2 * kStep) runs_ = std::max(runs_ / 2, 1);
      return done;
    }
    Stream& stream = *streams_[next_];
    next_ = (next_ + 1) % streams_.size();
    const bool was_running = stream.running;
    if (was_running) stream.finish();
    stream.start();
    return was_running;
  }
  int64_t drain() {
    int64_t done = 0;
    for (size_t i = 0; i < streams_.size(); ++i, next_ = (next_ + 1) % streams_.size()) {
      if (!streams_[next_]->running) continue;
      streams_[next_]->finish();
      ++done;
    }
    return done;
  }

 private:
  static constexpr double kStep = 0.02;  // seconds
  static constexpr int kMostRuns = 256;

  // A session with its inputs in memory of its own, from which it copies nothing on the host.
  struct Stream {
    Stream(const std::shared_ptr<const Engine>& engine, const std::vector<Dims>& shapes,
           const std::vector<Tensor>& inputs)
        : session(engine) {
      const std::vector<TensorType> types = session.prepare(shapes);
      if (session.is_partitioned()) {
        tensors = inputs;
        return;
      }
      for (const TensorType& type : types) tensors.emplace_back(type.dtype, type.dims());
      for (Tensor& output : tensors) out.push_back(output.raw_mutable());
      for (size_t i = 0; i < inputs.size(); ++i) {
        void* memory = session.input_memory(i);
        const std::span<const std::byte> bytes = inputs[i].raw();
        std::copy(bytes.begin(), bytes.end(), static_cast<std::byte*>(memory));
        in.push_back(memory);
      }
    }
    void start() {
      if (session.is_partitioned()) session.run(tensors);
      else session.start_prepared(in, out);
      running = true;
    }
    void finish() {
      if (!session.is_partitioned()) session.finish();
      running = false;
    }
    void run() {
      start();
      finish();
    }
    Session session;
    std::vector<Tensor> tensors;  // the outputs; of a model in partitions the inputs
    std::vector<const void*> in;
    std::vector<void*> out;
    bool running = false;
  };

  std::shared_ptr<const Engine> engine_;
  bool resident_;
  std::vector<std::unique_ptr<Stream>> streams_;
  size_t next_ = 0;
  int runs_ = 1;
};

// Threads that measure in turns: a turn begins when all have come, and ends when all are through.
class ScalingTurns {
 public:
  ScalingTurns(const Engines& engines, const std::vector<Dims>& shapes, const ScalingOptions& options,
               const GivenInputs& given, double seconds)
      : seconds_(seconds), barrier_(std::ptrdiff_t(engines.size()) + 1), rates_(engines.size()) {
    try {
      for (size_t d = 0; d < engines.size(); ++d)
        threads_.emplace_back(
            [this, d, &engines, &shapes, &options, &given] { serve(d, engines[d], shapes, options, given); });
    } catch (const std::system_error& error) {
      // Those that were started wait for all: the ones that are missing go for good.
      for (size_t d = threads_.size(); d < engines.size(); ++d) barrier_.arrive_and_drop();
      barrier_.arrive_and_wait();
      end();
      fail(ErrorKind::machine, "only ", threads_.size(), " of ", engines.size(),
           " threads could be started: ", std::string_view(error.what()));
    }
    barrier_.arrive_and_wait();  // all are ready
    if (error_) end();
    rethrow();
  }
  ~ScalingTurns() { end(); }

  // Items a second would be these times the batch: runs a second of each device; 0 of those that are not in it.
  std::vector<double> turn(const std::vector<char>& taking_part) {
    taking_part_ = taking_part;
    active_ = int(std::count(taking_part.begin(), taking_part.end(), 1));
    warm_ = measured_ = 0;
    std::fill(rates_.begin(), rates_.end(), 0);
    barrier_.arrive_and_wait();
    barrier_.arrive_and_wait();
    rethrow();
    return rates_;
  }

 private:
  void end() {
    if (ended_) return;
    ended_ = true;
    stop_ = true;
    barrier_.arrive_and_wait();
    for (std::thread& thread : threads_) thread.join();
  }
  void rethrow() {
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }
  void remember(std::exception_ptr error) {
    if (!failed_.exchange(true)) error_ = std::move(error);
  }

  void serve(size_t d, const std::shared_ptr<const Engine>& engine, const std::vector<Dims>& shapes,
             const ScalingOptions& options, const GivenInputs& given) {
    stay_on(cores_beside(engine->device()));
    std::unique_ptr<Load> load;
    const auto guarded = [&](auto&& body) {
      try {
        with_context([&] { return engine->info().device; }, body);
      } catch (...) { remember(std::current_exception()); }  // NOLINT(bugprone-empty-catch): thrown to the caller
    };
    guarded([&] { load = std::make_unique<Load>(engine, shapes, given, options); });
    barrier_.arrive_and_wait();
    for (;;) {
      barrier_.arrive_and_wait();
      if (stop_) return;
      if (taking_part_[d] && load) guarded([&] { measure_turn(d, *load); });
      barrier_.arrive_and_wait();
    }
  }

  // From when all are warm on, and until all have measured: none is measured while another one rests.
  void measure_turn(size_t d, Load& load) {
    const auto others = [&](const std::atomic<int>& count) { return count < active_ && !failed_; };
    const double begin = seconds_now();
    bool is_warm = false;
    do {
      load.step();
      if (!is_warm && seconds_now() - begin >= kWarm * seconds_) {
        is_warm = true;
        ++warm_;
      }
    } while (!is_warm || others(warm_));
    int64_t runs = 0;
    const double start = seconds_now();
    double took = 0;
    while (took < seconds_ || runs == 0) {
      runs += load.step();
      took = seconds_now() - start;
    }
    rates_[d] = double(runs) / took;
    ++measured_;
    while (others(measured_)) load.step();
    load.drain();
  }

  static constexpr double kWarm = 0.25;  // of a turn
  const double seconds_;
  std::barrier<> barrier_;
  // Written between turns, by one thread.
  std::vector<char> taking_part_;
  int active_ = 0;
  bool stop_ = false, ended_ = false;
  std::atomic<int> warm_{0}, measured_{0};
  std::atomic<bool> failed_{false};
  std::exception_ptr error_;  // of the first that failed
  std::vector<double> rates_;
  std::vector<std::thread> threads_;
};

// By round.
std::vector<double> shares(std::vector<double> parts, const std::vector<double>& wholes) {
  for (size_t r = 0; r < parts.size(); ++r) parts[r] /= wholes[r];
  return parts;
}

}  // namespace

std::vector<double> Scaling::sums() const {
  std::vector<double> sums(devices.at(0).alone.size());
  for (const OnDevice& device : devices)
    for (size_t r = 0; r < sums.size(); ++r) sums[r] += device.alone[r];
  return sums;
}

std::vector<double> Scaling::together() const {
  std::vector<double> all(devices.at(0).together.size());
  for (const OnDevice& device : devices)
    for (size_t r = 0; r < all.size(); ++r) all[r] += device.together[r];
  return all;
}

double Scaling::of_sum() const { return median(shares(together(), sums())); }
std::optional<Interval> Scaling::of_sum_interval() const { return median_interval(shares(together(), sums())); }

bool can_stay_on(const Engines& engines, const std::vector<Dims>& shapes) {
  return std::all_of(engines.begin(), engines.end(),
                     [&](const auto& engine) { return engine->device().gpu && engine->plan_for(shapes); });
}

Scaling measure_scaling(const Engines& engines, const std::vector<Dims>& shapes, const ScalingOptions& options,
                        const GivenInputs& given) {
  if (engines.size() < 2) fail(ErrorKind::usage, "scaling is of two devices at least, like cuda:0,1; one was given");
  if (options.rounds < 1 || options.streams < 1 || !(options.seconds > 0))
    fail(ErrorKind::usage, "scaling is measured in one round at least, with one stream, for some time");
  Scaling scaling;
  const auto gpus = std::count_if(engines.begin(), engines.end(), [](const auto& e) { return e->device().gpu; });
  if (!options.transfers) {
    for (const auto& engine : engines) {
      if (!engine->device().gpu)
        fail(ErrorKind::usage, engine->info().device,
             " works on the host's memory, so inputs are nowhere else; measure with transfers");
      if (!engine->plan_for(shapes))
        fail(ErrorKind::unsupported, engine->info().device,
             ": shapes inside this model depend on data, so inputs cannot stay there; measure with transfers");
    }
    scaling.inputs = "on the device";
  } else {
    scaling.inputs = gpus ? "in pinned memory of the host" : "in the host's memory";
    if (gpus) scaling.streams = options.streams;
  }
  const auto on_host = int64_t(engines.size()) - gpus;
  if (on_host > 1)
    scaling.notes.push_back(concat(on_host,
                                   " of the devices share the cores of one CPU: together they do more than one "
                                   "only where one leaves cores idle"));
  for (const auto& engine : engines) scaling.devices.push_back({engine->info().device, {}, {}});
  scaling.seconds = options.seconds / options.rounds;
  scaling.items = batch_of(shapes);
  const size_t count = engines.size();
  ScalingTurns turns(engines, shapes, options, given, scaling.seconds);
  const std::vector<char> all(count, 1);
  tell(options.progress, {"warming up"});
  turns.turn(all);
  const int steps = options.rounds * int(count + 1);
  for (int round = 0, step = 0; round < options.rounds; ++round)
    for (size_t i = 0; i <= count; ++i, ++step) {
      tell(options.progress, {"devices in turns", double(step), double(steps), "turns"});
      const size_t who = round % 2 ? count - i : i;  // what drifts is in both
      std::vector<char> one(count, 0);
      if (who < count) one[who] = 1;
      const std::vector<double> rates = turns.turn(who < count ? one : all);
      for (size_t d = 0; d < count; ++d) {
        if (who < count && d != who) continue;
        (who < count ? scaling.devices[d].alone : scaling.devices[d].together)
            .push_back(rates[d] * double(scaling.items));
      }
    }
  return scaling;
}

std::string text_of(const Scaling& scaling) {
  return concat("inputs and outputs ", scaling.inputs,
                scaling.streams > 1 ? concat(", ", scaling.streams, " streams a GPU") : "", "; items/s, medians of ",
                scaling.devices.at(0).alone.size(), " turns of ", format_number(scaling.seconds, 2), " s");
}

Table table_of(const Scaling& scaling) {
  Table table{{{"device", false}, {"alone"}, {"together"}, {"of alone"}}, {}};
  const auto row = [&](const std::string& name, const std::vector<double>& alone, const std::vector<double>& together) {
    table.rows.push_back({name, format_number(median(alone)), format_number(median(together)),
                          percent(median(shares(together, alone)), 4)});
  };
  for (const Scaling::OnDevice& device : scaling.devices) row(device.device, device.alone, device.together);
  row("sum", scaling.sums(), scaling.together());
  return table;
}

std::string verdict_of(const Scaling& scaling) {
  const auto interval = scaling.of_sum_interval();
  return concat("together ", percent(scaling.of_sum(), 4), " of the sum of singles (",
                interval ? concat("95 % interval ", percent(interval->low, 4), " to ", percent(interval->high, 4))
                         : "too few rounds for an interval",
                "): ", format_number(scaling.times_one()), " times one device");
}

nlohmann::ordered_json json_of(const Scaling& scaling) {
  Json devices = Json::array();
  for (const Scaling::OnDevice& device : scaling.devices)
    devices.push_back({{"device", device.device},
                       {"alone_per_s", median(device.alone)},
                       {"together_per_s", median(device.together)},
                       {"alone_rounds", device.alone},
                       {"together_rounds", device.together}});
  const auto interval = scaling.of_sum_interval();
  return {{"inputs", scaling.inputs},
          {"streams", scaling.streams},
          {"batch", scaling.items},
          {"turn_s", scaling.seconds},
          {"devices", devices},
          {"sum_of_singles_per_s", median(scaling.sums())},
          {"together_per_s", median(scaling.together())},
          {"of_sum", scaling.of_sum()},
          {"of_sum_ci95", interval ? Json{interval->low, interval->high} : Json(nullptr)},
          {"times_one", scaling.times_one()},
          {"notes", scaling.notes}};
}

}  // namespace temper
