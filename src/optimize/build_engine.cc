// SPDX-License-Identifier: Apache-2.0
#include "optimize/build_engine.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <optional>
#include <set>
#include <system_error>
#include <thread>

#include "backends/backend.h"
#include "base/file.h"
#include "base/log.h"
#include "base/time_spent.h"
#include "data/carried.h"
#include "graph/ops/blocked_matmul.h"
#include "measure/environment.h"
#include "onnx/import.h"
#include "optimize/background_compiler.h"
#include "optimize/caches_in.h"
#include "optimize/fusion.h"
#include "optimize/in_context.h"
#include "optimize/layers_by_speed.h"
#include "optimize/memory.h"
#include "optimize/model_source.h"
#include "optimize/pictures_in.h"
#include "optimize/precision.h"
#include "optimize/search_limit.h"
#include "optimize/segments.h"
#include "optimize/settle.h"
#include "optimize/shape_ranges.h"
#include "passes/pipeline.h"
#include "plan/choose.h"
#include "plan/nearest.h"
#include "plan/planner.h"
#include "runtime/partitions.h"
#include "tune/tuner.h"

namespace temper {

namespace {

// The shapes that are tuned ahead: the optimum, and batch sizes 1, 2, 4, ... between min and max where axis 0 varies.
std::vector<std::vector<Dims>> tuned_shapes(const Graph& graph, const std::map<std::string, ShapeRange>& shapes,
                                            const BuildOptions& options) {
  std::vector<std::vector<Dims>> list;
  std::vector<Dims> opt;
  std::vector<int64_t> batches;
  for (ValueId id : graph.inputs()) {
    const ShapeRange& range = shapes.at(graph.value(id).name);
    opt.push_back(range.opt);
    if (!range.opt.empty() && range.min[0] != range.max[0]) {
      batches = options.buckets;
      for (int64_t b : batches)
        if (b < range.min[0] || b > range.max[0])
          fail(ErrorKind::usage, "a plan for batch ", b, " is asked for, outside of ", range.min[0], " to ",
               range.max[0]);
      if (!batches.empty()) continue;
      batches = {range.min[0], range.max[0]};
      for (int64_t b = 1; b < range.max[0]; b *= 2)
        if (b > range.min[0]) batches.push_back(b);
    }
  }
  list.push_back(opt);
  if (!options.batch_buckets) return list;
  std::sort(batches.begin(), batches.end());
  for (int64_t batch : batches) {
    std::vector<Dims> dims = opt;
    for (size_t i = 0; i < dims.size(); ++i) {
      const ShapeRange& range = shapes.at(graph.value(graph.inputs()[i]).name);
      if (!dims[i].empty() && range.min[0] != range.max[0]) dims[i][0] = std::clamp(batch, range.min[0], range.max[0]);
    }
    if (std::find(list.begin(), list.end(), dims) == list.end()) list.push_back(dims);
  }
  return list;
}

// Those of all profiles.
std::vector<std::vector<Dims>> tuned_shapes(const Graph& graph, const EngineInfo& info, const BuildOptions& options) {
  std::vector<std::vector<Dims>> shapes;
  for (const auto& profile : info.profiles.empty() ? std::vector{info.shapes} : info.profiles)
    for (auto& dims : tuned_shapes(graph, profile, options))
      if (std::find(shapes.begin(), shapes.end(), dims) == shapes.end()) shapes.push_back(std::move(dims));
  return shapes;
}

int64_t elements_of(const std::vector<Dims>& inputs) {
  int64_t all = 0;
  for (const Dims& dims : inputs) all += element_count(dims);
  return all;
}

// What a step that runs on the host has copied, both ways.
std::string format_copied(const PlanStep& step) {
  int64_t bytes = 0;
  for (const Port& port : step.problem.inputs)
    if (port.present && !port.is_constant) bytes += byte_count(port.type.dtype, port.dims());
  for (const Port& port : step.problem.outputs) bytes += byte_count(port.type.dtype, port.dims());
  return concat(bytes, " bytes");
}

// Each step that runs on the scalar reference for want of a kernel, once, with what it costs.
void warn_of_reference(const Plan& plan, const Backend& backend, std::set<std::string>& warned) {
  if (backend.name == "reference") return;
  for (const Segment& segment : plan.segments)
    for (const PlanStep& step : segment.steps) {
      if (step.tactic != "reference" || !warned.insert(step.node).second) continue;
      std::string why;
      for (const Candidate& c : step.losers)
        if (!c.refusal.empty() && !c.refusal.starts_with("not a ")) why += concat("; ", c.tactic, ": ", c.refusal);
      const std::string cost =
          plan.whole.ms > 0 && step.ms >= 0
              ? concat(", ", std::round(100 * step.ms) / 100, " ms of ", std::round(100 * plan.whole.ms) / 100)
              : "";
      log(LogLevel::warning, "'", step.node, "' (", name_of(step.problem.op), ") runs on the slow scalar reference",
          cost, ": there is no kernel for it", why);
    }
}

// What others did meanwhile is in the times.
void warn_of_load(const Tuner& tuner, const std::vector<std::shared_ptr<const Plan>>& plans) {
  double load = tuner.most_load();
  for (const auto& plan : plans) load = std::max(load, plan->whole.load);
  if (load < kLoadThatCounts) return;
  const Environment environment = read_environment(0);
  log(LogLevel::warning, "other processes used up to ", load, " of ", environment.allowed_cores,
      " cores while times were taken",
      tuner.suspect()
          ? concat("; ", tuner.suspect(), " of them are marked, and the next build on a quiet machine takes them again")
          : std::string("; build again on a quiet machine"));
}

void add_to(std::list<ToCompile>& list, const CandidateRef& candidate, size_t shape,
            const std::shared_ptr<SearchAhead>& search) {
  list.push_back({*candidate.problem, candidate.tactic, candidate.config, shape, search});
  for (Port& port : list.back().problem.inputs) port.constant = nullptr;
}

// The tuner's times, as the options of a build ask for them. Where nothing is measured, what faulted is known still.
class TunerTimes final : public TimeSource {
 public:
  // `compiling`: null where nothing is compiled beside it.
  TunerTimes(Tuner& tuner, const BuildOptions& options, const std::shared_ptr<SearchAhead>& search,
             BackgroundCompiler* compiling, const Device& device, bool on_gpu)
      : tuner_(tuner),
        options_(options),
        search_(search),
        limit_(search->limit),
        compiling_(compiling),
        device_(device),
        on_gpu_(on_gpu) {}
  CandidateTime time(const Problem& problem, const Tactic& tactic, const Config& config, int chains) override {
    options_.limits.time.check();
    if (!options_.measure) return {};
    if (limit_.is_over() && !must_fit(problem)) {
      if (const auto known = tuner_.known(problem, tactic, config, chains)) return *known;
      limit_.leave_out(tactic.name, timing_key(timing_group(device_.fingerprint, problem, chains), tactic, config));
      return {CandidateTime::Kind::out_of_time};
    }
    const CandidateTime time = measure(problem, tactic, config, chains);
    if (time.is_known() && options_.workspace >= 0) fits_.insert(problem.text());
    return time;
  }
  std::string fault(const Problem& problem, const Tactic& tactic, const Config& config) override {
    return tuner_.fault(problem, tactic, config);
  }
  std::vector<double> refine(const Problem& problem, const std::vector<CandidateRef>& contenders, int chains) override {
    options_.limits.time.check();
    return options_.measure && !is_over() ? tuner_.refine(problem, contenders, chains) : std::vector<double>();
  }
  bool is_over() override {
    options_.limits.time.check();
    return limit_.is_over();
  }
  void expect(const std::vector<CandidateRef>& candidates) override {
    if (!compiling_ || !compiling_->has_processes()) return;
    std::list<ToCompile> next;
    for (const CandidateRef& candidate : candidates)
      if (candidate.tactic->compile) add_to(next, candidate, search_->shape(), search_);
    compiling_->add_next(std::move(next));
  }
  void at_node(int64_t node, int64_t nodes) override {
    options_.limits.time.check();
    node_ = node, nodes_ = nodes;
  }
  int64_t node() const { return node_; }
  int64_t nodes() const { return nodes_; }

 private:
  Tuner& tuner_;
  const BuildOptions& options_;
  const std::shared_ptr<SearchAhead> search_;
  SearchLimit& limit_;
  BackgroundCompiler* const compiling_;
  const Device& device_;
  const bool on_gpu_;
  int64_t node_ = 0, nodes_ = 0;
  std::set<std::string> fits_;  // problems with a candidate within the limit of workspace

  // Under a limit of workspace each problem needs one candidate that is known to keep it.
  bool must_fit(const Problem& problem) const { return options_.workspace >= 0 && !fits_.contains(problem.text()); }
  CandidateTime measure(const Problem& problem, const Tactic& tactic, const Config& config, int chains) {
    // What is slow for one batch on a GPU may be the best for another: its parallelism is that of the batch.
    // So it is with the rows of a product by weights of few bits: few unpack them in registers, many multiply by
    // panels.
    if (on_gpu_ || problem.op.is<ops::BlockedMatMul>())
      return tuner_.time(problem, tactic, config, chains, options_.workspace);
    return tuner_.time_unless_hopeless(concat(problem_family(problem), " threads=", problem.threads), problem, tactic,
                                       config, chains, options_.workspace);
  }
};

// What will be timed of all shapes: kernels of one shape serve others. A graph whose choice is known needs nothing but
// what was chosen.
std::list<ToCompile> to_compile(const std::vector<std::pair<Graph, size_t>>& graphs, const Backend& backend,
                                const Device& device, const TimingCache& cache,
                                const std::shared_ptr<SearchAhead>& search) {
  std::list<ToCompile> all;
  std::set<std::string> seen;
  for (const auto& pair : graphs) {
    const Graph& concrete = pair.first;
    const size_t shape = pair.second;  // Clang 14 has no captures of structured bindings
    if (!is_one_partition(concrete) || decided_before(concrete, device, cache)) continue;
    visit_compilable(concrete, backend, device, [&](const std::vector<CandidateRef>& candidates) {
      for (const CandidateRef& c : candidates)
        if (std::string key = timing_key(timing_group(device.fingerprint, *c.problem, 1), *c.tactic, c.config);
            !cache.find(key) && seen.insert(std::move(key)).second)
          add_to(all, c, shape, search);
    });
  }
  return all;
}

// What tactics take at the first of the shapes; weights in blocks, at any of them.
FusionTaken taken_at_shapes(const Graph& graph, const std::vector<std::vector<Dims>>& shapes, const Backend& backend,
                            const Device& device) {
  std::vector<FusionTaken> all;
  all.reserve(shapes.size());
  for (const auto& dims : shapes) all.push_back(taken_by(backend, device, bind_shapes(graph, dims)));
  return [all = std::move(all)](const Graph& in, const Op& op, const std::vector<ValueId>& inputs) {
    if (!op.is<ops::BlockedMatMul>()) return all[0](in, op, inputs);
    return std::ranges::any_of(all, [&](const FusionTaken& taken) { return taken(in, op, inputs); });
  };
}

// What tactics take at the largest shapes: of any number of rows, then.
FusionTaken taken_at_largest(const Graph& graph, const EngineInfo& info, const Backend& backend, const Device& device) {
  std::vector<Dims> largest;
  for (ValueId id : graph.inputs()) largest.push_back(info.shapes.at(graph.value(id).name).max);
  return taken_by(backend, device, bind_shapes(graph, largest));
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// What the searches of one build share: what was measured, which no other of them measures again, what works beside
// them, and the time limit.
struct Searches {
  TimingCache cache;
  TimeSpent& spent;
  double first_shape_s = 0;  // that all of them together have taken for the first shape
  std::optional<TimingHelper> helper;
  std::optional<BackgroundCompiler> compiling;
};

// A search that has measured nothing yet.
struct Prepared {
  PlanFile file;  // without plans
  std::vector<std::vector<Dims>> shapes;
  std::vector<Graph> concretes;  // one for each shape, or up to the first that runs in partitions
  std::vector<size_t> order;     // in which they are planned
  std::vector<Chains> chains;    // by shape
  std::shared_ptr<SearchAhead> search;
  double seconds = 0;  // that this took
  KeptNodes keep;
};

bool is_in_context(const BuildOptions& options) { return options.measure && find_backend(options.device).queue; }

PassOptions passes_of_shape(const BuildOptions& options, const std::vector<Dims>& shape, size_t number) {
  return options.passes.dumped_into(concat(number + 1, '-', shape.empty() ? Dims() : shape[0]));
}

// The graphs of all shapes that are tuned ahead. From here on what they ask for is compiled.
std::unique_ptr<Prepared> prepare_shapes(Graph graph, EngineInfo info, const BuildOptions& options,
                                         Searches& searches) {
  TimingCache& cache = searches.cache;
  const auto start = std::chrono::steady_clock::now();
  auto done = [&](std::string_view what) { log(LogLevel::debug, what); };
  const Backend& backend = find_backend(options.device);
  std::optional<TimeSpent::In> part;
  part.emplace(&searches.spent, "opening the device");
  const Device device = open_device(options.device, options.device_settings);
  part.emplace(&searches.spent, "passes");
  done("the device is open");
  // A GPU's plan is one chain of launches.
  const int threads = backend.queue ? 1 : options.threads > 0 ? options.threads : usable_cores(read_environment(0));
  info.device = options.device;
  info.precision = options.precision;
  info.command = options.command;
  const int64_t constants = constant_bytes(graph);
  graph = optimised_graph(std::move(graph), info, options);
  apply_precision(graph, info, options, cache);
  done("the graph is optimised");

  const std::vector<std::vector<Dims>> shapes = tuned_shapes(graph, info, options);
  if (!shapes.empty())
    run_passes(graph, options.passes,
               device_pipeline(taken_at_shapes(graph, shapes, backend, device), backend.by_rows));
  const Graph in_blocks = graph;
  if (!shapes.empty())
    run_passes(graph, options.passes, blocks_pipeline(taken_at_largest(graph, info, backend, device)));
  std::unique_ptr<Prepared> prepared(
      new Prepared{unplanned(std::move(info), graph, threads, device),
                   shapes,
                   {},
                   {},
                   {},
                   std::make_shared<SearchAhead>(options.time_limit, *options.instruments.clock),
                   0,
                   options.placement.keep_nodes});
  Prepared& made = *prepared;
  for (const auto& dims : shapes) {
    Graph& concrete = made.concretes.emplace_back(specialize(in_blocks, bind_shapes(in_blocks, dims)));
    const PassOptions own_passes = passes_of_shape(options, dims, made.concretes.size() - 1);
    run_passes(concrete, own_passes, blocks_pipeline(taken_by(backend, device, {})));
    if (!is_one_partition(concrete)) break;
    if (backend.fuses) run_passes(concrete, own_passes, rows_pipeline(taken_by(backend, device, {})));
    check_memory(concrete, constants, options.limits.memory);
  }
  const std::vector<Graph>& concretes = made.concretes;
  const bool in_context = is_in_context(options);
  // A GPU is busy longest with the largest shapes; the kernels of the others are compiled meanwhile.
  std::vector<size_t>& order = made.order;
  order.resize(concretes.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  if (in_context && is_one_partition(concretes.back()))
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return elements_of(shapes[a]) > elements_of(shapes[b]); });
  made.chains.resize(concretes.size());
  if (in_context && backend.fuses)
    for (size_t i = 0; i < concretes.size(); ++i)
      if (is_one_partition(concretes[i]))
        made.chains[i] = find_chains(made.concretes[i], passes_of_shape(options, shapes[i], i), backend, device, cache);
  part.emplace(&searches.spent, "whole plans");
  if (in_context) {
    std::vector<std::pair<Graph, size_t>> timed;  // in this order
    for (size_t k = 0; k < order.size(); ++k) {
      const Chains& own = made.chains[order[k]];
      if (!own.decided || own.list.empty()) timed.emplace_back(concretes[order[k]], k);
      if (!own.list.empty()) timed.emplace_back(own.graph, k);
    }
    // Its process opens the GPU and its libraries beside this one.
    if (!searches.helper) searches.helper.emplace(options.timing_helper, options.device, options.device_settings);
    if (std::any_of(timed.begin(), timed.end(),
                    [&](const auto& each) { return !decided_before(each.first, device, cache); }))
      searches.helper->start();
    if (!searches.compiling)
      searches.compiling.emplace(backend, device, options.timing_helper, size_t(usable_cores(read_environment(0))));
    searches.compiling->add(to_compile(timed, backend, device, cache, made.search));
  }
  made.seconds = seconds_since(start);
  return prepared;
}

// Everything but the engine: the plans for all shapes that are tuned ahead, and what is known about them.
PlanFile plan_prepared(Prepared& prepared, const BuildOptions& options, Searches& searches) {
  TimingCache& cache = searches.cache;
  const auto start = std::chrono::steady_clock::now();
  auto seconds = [&] { return prepared.seconds + seconds_since(start); };
  auto done = [&](std::string_view what) { log(LogLevel::debug, what); };
  PlanFile& file = prepared.file;
  const std::vector<std::vector<Dims>>& shapes = prepared.shapes;
  const std::vector<Graph>& concretes = prepared.concretes;
  const std::vector<size_t>& order = prepared.order;
  const Backend& backend = find_backend(options.device);
  const Device device = *file.device;
  const int threads = file.threads;
  const bool in_context = is_in_context(options);
  const std::shared_ptr<SearchAhead>& search = prepared.search;
  struct Ended {
    SearchAhead& search;
    ~Ended() { search.end(); }
  } const ended{*search};
  SearchLimit& limit = search->limit;
  TimeSpent::In in(&searches.spent, "whole plans");  // but for what the tuner counts
  Tuner tuner(device, cache, options.instruments, searches.helper ? &*searches.helper : nullptr);
  tuner.time_spent = &searches.spent;
  for (const std::string& problem : options.doubted) tuner.doubt(problem);
  BackgroundCompiler* const compiling = in_context && searches.compiling ? &*searches.compiling : nullptr;
  TunerTimes times(tuner, options, search, compiling, device, backend.queue);
  std::string shape_prefix;
  if (options.progress)
    tuner.progress = [&](int timed, const std::string&) {
      options.progress(
          {shape_prefix + "measuring candidates", double(times.node()), double(times.nodes()), "steps",
           concat(timed, " candidates, ", std::round(limit.seconds()), " of at most ", options.time_limit, " s")});
    };
  PackCache packs;
  std::set<std::string> warned;
  for (size_t k = 0; k < order.size(); ++k) {
    const size_t i = order[k];
    options.limits.time.check();
    search->begin_shape(k);
    shape_prefix = shapes.size() > 1 ? concat("shape ", shapes[i][0], ": ") : "";
    const Graph& concrete = concretes[i];
    if (!is_one_partition(concrete)) {
      file.info.notes.push_back(
          "shapes or branches inside the model depend on data: it runs in partitions, planned when they are first "
          "seen, without "
          "measuring");
      break;
    }
    PlanOptions plan_options;
    plan_options.threads = threads;
    plan_options.workspace_limit = options.workspace;
    plan_options.packs = &packs;
    plan_options.times = &times;
    const Progress progress =
        shapes.size() > 1 ? within(options.progress, concat("shape ", shapes[i][0])) : options.progress;
    const auto choose = [&] {
      return in_context ? plan_with_chains(concrete, prepared.chains[i], passes_of_shape(options, shapes[i], i),
                                           backend, device, plan_options, cache, progress)
             : options.measure && options.segments ? search_segments(concrete, backend, device, plan_options, progress)
                                                   : build_plan(concrete, backend, device, plan_options);
    };
    std::optional<Plan> decided;
    if (options.measure && !in_context && options.doubted.empty())
      decided = decided_plan(concrete, backend, device, plan_options, cache);
    Plan plan = decided ? std::move(*decided) : choose();
    for (const Segment& segment : plan.segments)
      for (const PlanStep& step : segment.steps)
        if (step.tactic == "cuda.host")
          file.info.notes.push_back(concat("'", step.node, "' (", name_of(step.problem.op), ") runs on the CPU, ",
                                           shape_prefix, format_copied(step), " copied: the GPU has no kernel for it"));
    if (options.measure) {
      plan = settle_plan(std::move(plan), {file, concrete, shapes[i], backend, plan_options, tuner, cache,
                                           options.instruments, choose, seconds(), progress});
      warn_of_reference(plan, backend, warned);
    }
    if (i == 0) searches.first_shape_s += limit.seconds();
    if (plan.not_measured = limit.left_out(); !plan.not_measured.empty())
      file.info.notes.push_back(shape_prefix + limit.text());
    file.plans.push_back(std::make_shared<const Plan>(std::move(plan)));
    done(concat("planned ", shapes[i]));
  }
  options.limits.time.check();
  tuner.finish();
  if (options.measure && !backend.queue) warn_of_load(tuner, file.plans);
  file.timings = cache.times();
  const TimeSpent::In saving(&searches.spent, "saving times");
  if (options.timings) options.timings->add_all(cache);
  else cache.save();
  file.info.build_s = seconds();
  return std::move(file);
}

PlanFile plan_shapes(Graph graph, EngineInfo info, const BuildOptions& options, Searches& searches) {
  return plan_prepared(*prepare_shapes(std::move(graph), std::move(info), options, searches), options, searches);
}

using Planner = PlanFile (*)(Graph, EngineInfo, const BuildOptions&, Searches&);

// Plans in turns, to be compared: of the first shape alone.
class Trials {
 public:
  // `share`: of the time limit, for each.
  Trials(Planner planner, const Graph& graph, const EngineInfo& info, const BuildOptions& options, Searches& searches,
         double share)
      : planner_(planner),
        graph_(graph),
        info_(info),
        asked_(options),
        options_(options),
        searches_(searches),
        share_(share),
        before_s_(searches.first_shape_s) {
    options_.batch_buckets = options_.segments = false;
    options_.qdq.clear();
    options_.passes.dump_folder.clear();
    options_.time_limit *= share;
  }
  // The plan that keeps these layers is asked for soon. Beside cores that have nothing else to do its kernels are
  // compiled while others are timed; elsewhere that would have them wait.
  void prepare(const KeptNodes& keep) {
    if (!prepared_.empty() && !(searches_.compiling && searches_.compiling->has_processes())) return;
    BuildOptions options = options_;
    options.placement.keep_nodes.insert(keep.begin(), keep.end());
    options.progress = nullptr;
    prepared_.push_back(prepare_shapes(graph_, info_, options, searches_));
  }
  // Null where the model runs in partitions, which are planned when they are first seen.
  std::shared_ptr<const Plan> plan(const std::string& what, const std::function<void(BuildOptions&)>& change) {
    BuildOptions options = options_;
    change(options);
    options.progress = within(options_.progress, what);
    // Of a plan that lost and is looked at by nobody, the graph and its constants need not stay: a file of `files_`
    // and its key know each plan.
    std::erase_if(files_, [](const auto& file) { return file.first.use_count() <= 2; });
    const auto prepared =
        std::ranges::find_if(prepared_, [&](const auto& p) { return p->keep == options.placement.keep_nodes; });
    PlanFile file = prepared != prepared_.end() ? plan_prepared(**prepared, options, searches_)
                                                : planner_(graph_, info_, options, searches_);
    if (prepared != prepared_.end()) prepared_.erase(prepared);
    device_ = file.device;
    if (file.plans.empty()) return nullptr;
    std::shared_ptr<const Plan> plan = file.plans[0];
    files_.emplace(plan, std::move(file));
    return plan;
  }
  bool is_faster(const Plan& plan, const Plan& other) const {
    const TimeSpent::In in(&searches_.spent, "whole plans");
    Workbench bench(*device_);
    return temper::is_faster(plan, other, bench, *device_, *options_.instruments.clock);
  }
  // What the limit leaves for the plan that is kept: what the trials did not take, and a share at least.
  double time_left() const {
    return std::max(share_, 1 - (searches_.first_shape_s - before_s_) / std::max(asked_.time_limit, 1e-9)) *
           asked_.time_limit;
  }
  // The trial of this plan as the build that was asked for, where it is just that: for its only shape everything was
  // measured. `note` stands before its own.
  std::optional<PlanFile> as_asked(const std::shared_ptr<const Plan>& plan, const std::string& note) {
    const auto found = files_.find(plan);
    if (found == files_.end() || !plan->not_measured.empty() || !asked_.qdq.empty() ||
        !asked_.passes.dump_folder.empty() || (asked_.segments && !find_backend(asked_.device).queue))
      return std::nullopt;
    PlanFile& file = found->second;
    if (!file.graph || tuned_shapes(*file.graph, file.info, asked_).size() != file.plans.size()) return std::nullopt;
    file.timings = searches_.cache.times();
    file.info.notes.insert(file.info.notes.begin() + int64_t(info_.notes.size()), note);
    return std::move(file);
  }

 private:
  const Planner planner_;
  const Graph& graph_;
  const EngineInfo& info_;
  const BuildOptions& asked_;
  BuildOptions options_;
  Searches& searches_;
  const double share_, before_s_;
  std::optional<Device> device_;
  std::map<std::shared_ptr<const Plan>, PlanFile> files_;
  std::vector<std::unique_ptr<Prepared>> prepared_;
};

// In the precision of the options; of 8 bits with 16, with each layer in the one that is faster.
PlanFile plan_precision(Graph graph, EngineInfo info, const BuildOptions& asked, Searches& searches) {
  BuildOptions options = asked;
  const PrecisionParts parts = parts_of(options.precision).value();
  const auto start = std::chrono::steady_clock::now();
  if (options.measure && parts.bytes && parts.half) {
    constexpr double kShare = 0.25;  // of the time limit: up to three plans are looked at, and one is built
    // The portable passes run once: on what they made they change nothing. What they note, each plan notes again.
    EngineInfo optimised;
    std::optional<TimeSpent::In> part;
    part.emplace(&searches.spent, "passes");
    graph = optimised_graph(std::move(graph), optimised, options);
    const auto layers = layers_in_bytes(graph, options);
    part.reset();
    Trials trials(plan_shapes, graph, info, asked, searches, kShare);
    LayerMix mix = layers_by_speed(
        layers, word_of(*parts.bytes), *parts.half,
        [&](const std::string& what, const KeptNodes& keep) {
          return trials.plan(what,
                             [&](BuildOptions& one) { one.placement.keep_nodes.insert(keep.begin(), keep.end()); });
        },
        [&](const Plan& plan, const Plan& other) { return trials.is_faster(plan, other); },
        [&](const KeptNodes& keep) { trials.prepare(keep); });
    if (auto file = trials.as_asked(mix.plan, mix.text)) {
      file->info.build_s = seconds_since(start);
      return std::move(*file);
    }
    options.placement.keep_nodes.merge(mix.keep);
    options.time_limit = trials.time_left();
    if (!mix.text.empty()) info.notes.push_back(std::move(mix.text));
  }
  const double tried = seconds_since(start);
  PlanFile file = plan_shapes(std::move(graph), std::move(info), options, searches);
  file.info.build_s += tried;
  return file;
}

// In the precision whose plan for the first shape is the fastest, of all that the device has and the ranges allow.
PlanFile plan_best(Graph graph, EngineInfo info, const BuildOptions& asked, Searches& searches) {
  const auto start = std::chrono::steady_clock::now();
  const std::vector<std::string> precisions = precisions_of_device(asked.device);
  const double share = 1.0 / double(precisions.size() + 1);
  Trials trials(plan_precision, graph, info, asked, searches, share);
  std::string tried, left_out;
  BuildOptions options = asked;
  const auto with = [&](BuildOptions one, const std::string& precision) {
    one.precision = precision;
    if (needs_ranges(precision)) return one;
    one.calibration.clear();
    one.ranges.reset();
    return one;
  };
  std::shared_ptr<const Plan> best;
  for (const std::string& precision : precisions) {
    if (quantizes(precision) && !asked.is_calibrated()) {
      left_out += concat(left_out.empty() ? "" : ", ", precision);
      continue;
    }
    const auto plan = trials.plan(precision, [&](BuildOptions& one) { one = with(one, precision); });
    if (!plan)
      fail(ErrorKind::unsupported,
           "--precision best is chosen by the time of whole plans, and this model runs in partitions, whose shapes "
           "depend on data; name a precision");
    tried += concat(tried.empty() ? "" : ", ", precision, " ", std::round(1e4 * plan->whole.ms) / 1e4, " ms");
    if (best && !trials.is_faster(*plan, *best)) continue;
    best = plan;
    options.precision = precision;
  }
  const std::string note = concat("the fastest precision is ", options.precision, ", of ", tried,
                                  left_out.empty() ? "" : concat("; ", left_out, " not tried without --calibration"),
                                  "; nobody looked at the answers: --max-drop does");
  if (auto file = trials.as_asked(best, note)) {
    file->info.build_s = seconds_since(start);
    return std::move(*file);
  }
  const double tried_s = seconds_since(start);
  options = with(asked, options.precision);
  options.time_limit = trials.time_left();
  info.notes.push_back(note);
  PlanFile file = plan_precision(std::move(graph), std::move(info), options, searches);
  file.info.build_s += tried_s;
  return file;
}

PlanFile plan_model(Graph graph, EngineInfo info, const BuildOptions& asked, TimeSpent& spent) {
  check_precision(asked);
  BuildOptions options = begun(asked);
  look_up(options.layer_types, graph);
  if (!options.input_pictures.empty()) graph = take_pictures(graph, info, options);
  if (options.cache) graph = take_caches(graph, info, options);
  Searches searches{options.timings ? options.timings->now() : TimingCache(options.timing_cache), spent, 0, {}, {}};
  PlanFile file = (options.precision == kBestPrecision ? plan_best : plan_precision)(std::move(graph), std::move(info),
                                                                                     options, searches);
  log(LogLevel::debug, "where the time of this build went: ", spent.text());
  return file;
}

}  // namespace

void BuildOptions::replace_shapes(const std::map<std::string, ShapeRange>& by_name) {
  if (by_name.empty()) return;
  if (by_name.size() == 1) shapes.erase("");
  for (const auto& [name, range] : by_name) shapes[name] = range;
  buckets.clear();
  profiles.clear();
}

void BuildOptions::replace_shapes(const std::map<std::string, Dims>& by_name) {
  std::map<std::string, ShapeRange> fixed;
  for (const auto& [name, dims] : by_name) fixed[name] = {dims, dims, dims};
  replace_shapes(fixed);
}

BuildOptions begun(BuildOptions options) {
  options.limits.time.begin();
  options.passes.memory_limit = options.limits.memory;
  options.passes.time = options.limits.time;
  return options;
}

static void preload_for(const BuildOptions& options) {
  std::string tactics;  // any of which may be chosen
  for (const Tactic* tactic : find_backend(options.device).tactics()) tactics += concat('"', tactic->name, '"');
  preload(options.device, tactics, options.device_settings);
}

static std::shared_ptr<Engine> build_read(ImportedModel model, const std::string& onnx_path,
                                          const BuildOptions& options, TimeSpent& spent) {
  std::vector<std::string> files = model.files;
  if (!options.calibration.empty()) files.push_back(options.calibration);
  check_outputs(files, {{options.qdq, FileKind::our_onnx, options.force}, {options.timing_cache, FileKind::timings}});
  EngineInfo info = engine_info_of(model, onnx_path);
  PlanFile file = with_context([&] { return onnx_path; },
                               [&] { return plan_model(std::move(model.graph), std::move(info), options, spent); });
  return std::make_shared<Engine>(std::move(file), options.device_settings, files);
}

std::shared_ptr<Engine> build_engine(const std::string& onnx_path, const BuildOptions& asked) {
  const BuildOptions options = begun(asked);
  preload_for(options);
  TimeSpent spent;
  std::optional<TimeSpent::In> reading;
  reading.emplace(&spent, "reading the model");
  ImportedModel model = ModelSource{onnx_path, "", {}}.import(options.limits, options.shapes);
  log(LogLevel::debug, onnx_path, " is read");
  reading.reset();
  return build_read(std::move(model), onnx_path, options, spent);
}

std::shared_ptr<Engine> build_engine(ImportedModel model, const std::string& onnx_path, const BuildOptions& asked) {
  const BuildOptions options = begun(asked);
  preload_for(options);
  TimeSpent spent;
  return build_read(std::move(model), onnx_path, options, spent);
}

std::shared_ptr<Engine> build_engine(Graph graph, EngineInfo info, const BuildOptions& options) {
  TimeSpent spent;
  return std::make_shared<Engine>(plan_model(std::move(graph), std::move(info), options, spent),
                                  options.device_settings);
}

Graph optimised_graph(Graph graph, EngineInfo& info, const BuildOptions& asked) {
  const BuildOptions options = begun(asked);
  if (!options.profiles.empty() && !options.shapes.empty())
    fail(ErrorKind::usage, "shapes and profiles are given: give one of them");
  for (const auto& [input, words] : options.preprocess) {
    if (words.empty()) continue;
    const std::string name = input.empty() ? picture_input(graph) : input;
    if (name.empty())
      fail(ErrorKind::usage, "how pictures are prepared was said, and no input, or more than one, takes them");
    std::string& said = info.preprocess[name];
    said = text_of(over(parse_preprocess(said), named_preprocess(words)));
  }
  for (const auto& profile : options.profiles)
    info.profiles.push_back(complete_shapes(graph, profile, options.buckets, info.notes));
  info.shapes = info.profiles.empty() ? complete_shapes(graph, options.shapes, options.buckets, info.notes)
                                      : around(info.profiles);
  if (info.profiles.size() == 1) info.profiles.clear();
  // What is fixed is put in before the passes: they see more.
  std::vector<Dims> low, high;
  for (ValueId id : graph.inputs()) {
    low.push_back(info.shapes.at(graph.value(id).name).min);
    high.push_back(info.shapes.at(graph.value(id).name).max);
  }
  Bindings bindings = bind_shapes(graph, low);
  const Bindings upper = bind_shapes(graph, high);
  std::erase_if(bindings, [&](const auto& binding) { return upper.at(binding.first) != binding.second; });
  if (!bindings.empty()) graph = specialize(graph, bindings);
  tell_words(options.progress, "optimising the graph");
  run_passes(graph, options.passes);
  return graph;
}

}  // namespace temper
