// SPDX-License-Identifier: Apache-2.0
#include "plan/choose.h"

#include <algorithm>
#include <limits>
#include <set>
#include <unordered_map>

#include "base/checked.h"
#include "graph/ops/concat.h"
#include "graph/ops/reshape.h"
#include "graph/signs.h"
#include "plan/place.h"

namespace temper {

bool is_view(const Node& node) { return node.op.is<ops::Reshape>() && node.inputs.size() == 1; }

namespace {

struct Option {
  const Tactic* tactic;
  Config config;
  double ms;  // for one run over the whole batch; an estimate by list order where nothing is known
  bool timed;
  bool hopeless = false;  // not timed for that reason
};
struct Options {
  std::vector<Option> list;
  std::vector<Candidate> refusals;
};

constexpr std::string_view kHopeless = "not timed: too slow for this op on another shape";

// A reorder reads and writes once; the constants are typical of one core of a server CPU and only break ties, because
// the search measures whole plans afterwards.
constexpr double kReorderBytesPerMs = 6e6, kReorderStartMs = 0.002;

// What a concat of more inputs need not copy is not counted while choosing: to look at all of them for each that makes
// one takes their number squared.
constexpr size_t kCountedParts = 512;

// About what one core's share of a last-level cache keeps from one run to the next.
constexpr int64_t kWarmBytes = int64_t(16) << 20;

double reorder_ms(const TensorType& type, Layout from, Layout to, int threads) {
  const Dims dims = type.dims();
  if (same_memory(dims, from, to)) return 0;
  return kReorderStartMs + 2.0 * double(byte_count(type.dtype, dims)) / (kReorderBytesPerMs * threads);
}

class Chooser {
 public:
  Chooser(const Graph& graph, const BatchInfo& batch, const std::vector<SliceOf>& slices, const Backend& backend,
          const Device& device, const PlanOptions& options)
      : graph_(graph),
        batch_(batch),
        slices_(slices),
        backend_(backend),
        device_(device),
        options_(options),
        times_(options.times ? *options.times : no_times_) {
    int64_t constants = 0;
    for (int32_t v = 0; v < graph.value_count(); ++v)
      if (const Tensor* constant = graph.constant({v})) constants += constant->bytes();
    cold_constants_ = constants > kWarmBytes;
    signs_ = values_without_negatives(graph);
  }

  std::vector<CandidateRef> compilable() {
    find_problems();
    std::vector<CandidateRef> all;
    std::set<std::string> seen;
    for (size_t n = 0; n < problems_.size(); ++n) {
      const Problem& problem = problems_[n];
      if (is_view(graph_.node({int32_t(n)})) || !seen.insert(problem.text()).second) continue;
      for (const Tactic* tactic : backend_.tactics())
        if (tactic->compile && tactic->supports(problem, device_).yes())
          for (Config& config : tactic->configs(problem, device_)) all.push_back({&problem, tactic, std::move(config)});
    }
    return all;
  }

  std::vector<NodeChoice> run() {
    const size_t nodes = size_t(graph_.node_count());
    find_problems();
    for (size_t n = 0; n < nodes; ++n) {
      const Node& node = graph_.node({int32_t(n)});
      candidates_.push_back(&with_context([&] { return concat(name_of(node.op), " '", node.name, "'"); },
                                          [&]() -> Options& { return options_for(n); }));
    }
    std::vector<int> best;
    double best_cost = std::numeric_limits<double>::infinity();
    // Starting points: each node's fastest, then one per layout. The descent from the best of them wins.
    for (int start = -1; start < kLayoutCount; ++start) {
      std::vector<int> choice = descend(starting_point(start));
      const double cost = total(choice);
      if (cost < best_cost) {
        best_cost = cost;
        best = std::move(choice);
      }
    }
    std::vector<NodeChoice> result;
    for (size_t n = 0; n < nodes; ++n) {
      const Options& options = *candidates_[n];
      NodeChoice choice{problems_[n], {}, options.refusals};
      const Option& chosen = options.list[size_t(best[n])];
      choice.chosen = {chosen.tactic, chosen.config, chosen.timed ? chosen.ms : -1};
      for (size_t c = 0; c < options.list.size(); ++c)
        if (int(c) != best[n] && options.list[c].tactic)
          choice.losers.push_back({std::string(options.list[c].tactic->name), describe(options.list[c].config),
                                   options.list[c].timed ? options.list[c].ms : -1,
                                   options.list[c].hopeless ? std::string(kHopeless) : ""});
      result.push_back(std::move(choice));
    }
    return result;
  }

 private:
  const Graph& graph_;
  const BatchInfo& batch_;
  const std::vector<SliceOf>& slices_;
  const Backend& backend_;
  const Device& device_;
  const PlanOptions& options_;
  TimeSource no_times_;
  TimeSource& times_;
  bool cold_constants_ = false;
  std::vector<char> signs_;
  std::vector<Problem> problems_;
  std::vector<Options*> candidates_;
  std::unordered_map<std::string, Options> known_;

  static std::string describe(const Config& config) {
    std::string out = config.text;
    for (Layout l : config.inputs) out += concat(out.empty() ? "" : " ", l);
    out += " ->";
    for (Layout l : config.outputs) out += concat(' ', l);
    return out;
  }

  TensorType type_of_value(ValueId id, const SliceOf& slice) const {
    const TensorType& type = graph_.type(id);
    return slice.slice && batch_.value_batched[size_t(id.index)] ? slice_type(type, slice.slice) : type;
  }

  Problem problem_of(size_t n) const {
    const Node& node = graph_.node({int32_t(n)});
    const SliceOf& slice = slices_[n];
    Problem problem;
    problem.op = slice.slice ? slice_op(node.op, slice.slice) : node.op;
    problem.threads = slice.parallel ? 1 : options_.threads;
    problem.cold_constants = cold_constants_;
    for (ValueId id : node.inputs) {
      Port port;
      port.present = id.valid();
      if (id.valid()) {
        port.type = type_of_value(id, slice);
        port.constant = graph_.constant(id);
        port.is_constant = port.constant != nullptr;
        // Only products of integers ask; elsewhere it would make equal problems differ.
        port.no_negatives = problem.inputs.empty() && epilogue_of(node.op) && port.type.dtype == DType::i8 &&
                            !port.is_constant && signs_[size_t(id.index)];
      }
      problem.inputs.push_back(std::move(port));
    }
    for (ValueId id : node.outputs) problem.outputs.push_back({type_of_value(id, slice)});
    if (options_.threads_of && !slice.parallel)
      problem.threads = std::clamp(options_.threads_of(problem), 1, options_.threads);
    return problem;
  }

  void find_problems() {
    for (size_t n = 0; n < size_t(graph_.node_count()); ++n) problems_.push_back(problem_of(n));
  }

  Options& options_for(size_t n) {
    const Node& node = graph_.node({int32_t(n)});
    const Problem& problem = problems_[n];
    const SliceOf& slice = slices_[n];
    const int chains = slice.parallel ? options_.threads : 1;
    auto [it, fresh] = known_.try_emplace(concat(problem.text(), " chains=", chains, " slices=", slice.slices));
    Options& options = it->second;
    if (!fresh) return options;
    if (is_view(node)) {
      options.list.push_back({nullptr, uniform_config_of(problem), 0, true});
      return options;
    }
    // A chain does its share of the slices; otherwise they run one after the other.
    const double runs = double(slice.slices) / double(chains);
    if (DecidedCandidate known = times_.decided(problem); known.tactic) {
      options.list.push_back({known.tactic, std::move(known.config), known.ms * runs, true});
      return options;
    }
    double guess = 1e-3;  // list order, where nothing is known
    for (const Tactic* tactic : backend_.tactics()) {
      if (const Support support = tactic->supports(problem, device_); !support.yes()) {
        options.refusals.push_back({std::string(tactic->name), "", -1, support.reason});
        continue;
      }
      if (tactic->last_resort) {  // not timed at all
        if (options.list.empty())
          options.list.push_back({tactic, tactic->configs(problem, device_).at(0), guess * runs, false});
        continue;
      }
      for (Config& config : tactic->configs(problem, device_)) {
        using Kind = CandidateTime::Kind;
        const auto refuse = [&](std::string why) {
          options.refusals.push_back({std::string(tactic->name), describe(config), -1, std::move(why)});
        };
        const auto faulted = [&] {
          const std::string what = times_.fault(problem, *tactic, config);
          if (!what.empty()) refuse(concat("faulted on this GPU: ", what));
          return !what.empty();
        };
        if (faulted()) continue;
        const CandidateTime time = times_.time(problem, *tactic, config, chains);
        if (!time.is_known() && faulted()) continue;
        if (time.kind == Kind::over_workspace) {
          refuse(concat("needs more than the ", options_.workspace_limit, " bytes of workspace allowed"));
          continue;
        }
        // Nobody knows what workspace it needs.
        if (time.kind == Kind::hopeless && options_.workspace_limit >= 0) {
          refuse(std::string(kHopeless));
          continue;
        }
        options.list.push_back({tactic, std::move(config), (time.is_known() ? time.ms : guess) * runs, time.is_known(),
                                time.kind == Kind::hopeless});
        guess *= 1.25;
      }
    }
    if (options.list.empty())
      fail(ErrorKind::unsupported, "no tactic of the device '", backend_.name, "' supports ", problem.text());
    refine(problem, chains, runs, options);
    // A candidate that nobody timed must not win against one that was.
    double slowest = 0;
    for (const Option& option : options.list)
      if (option.timed) slowest = std::max(slowest, option.ms);
    if (slowest > 0)
      for (Option& option : options.list)
        if (!option.timed) option.ms += 10 * slowest;
    return options;
  }

  void refine(const Problem& problem, int chains, double runs, Options& options) {
    if (options.list.size() < 2) return;
    // The fewer are left, the longer they are compared. What has no rival needs no better time.
    for (const double within : {1.4, 1.15}) {
      double best = std::numeric_limits<double>::infinity();
      for (const Option& option : options.list)
        if (option.timed) best = std::min(best, option.ms);
      std::vector<Option*> rivals;
      for (Option& option : options.list)
        if (option.timed && option.ms <= best * within) rivals.push_back(&option);
      // Long runs are noisy by less than what is at stake between layers, and there are many slices to try.
      if (rivals.size() < 2 || best > 3.0 * runs) return;
      std::vector<CandidateRef> contenders;
      for (const Option* option : rivals) contenders.push_back({&problem, option->tactic, option->config});
      const std::vector<double> ms = times_.refine(problem, contenders, chains);
      if (ms.empty()) return;
      for (size_t i = 0; i < rivals.size(); ++i) rivals[i]->ms = runs * ms[i];
    }
  }

  static Config uniform_config_of(const Problem& problem) {
    return {"", std::vector<Layout>(problem.inputs.size(), Layout::plain),
            std::vector<Layout>(problem.outputs.size(), Layout::plain)};
  }

  std::vector<int> starting_point(int layout) const {
    std::vector<int> choice(candidates_.size(), 0);
    for (size_t n = 0; n < choice.size(); ++n) {
      double best = std::numeric_limits<double>::infinity();
      for (size_t c = 0; c < candidates_[n]->list.size(); ++c) {
        const Option& option = candidates_[n]->list[c];
        // A wrong layout costs a thousand times more than any time, but is not forbidden.
        const double ms = option.ms * (layout >= 0 && option.config.outputs[0] != Layout(layout) ? 1000 : 1);
        if (ms < best) {
          best = ms;
          choice[n] = int(c);
        }
      }
    }
    return choice;
  }

  Layout layout_of(ValueId id, const std::vector<int>& choice) const {
    const Value& value = graph_.value(id);
    if (!value.producer.valid()) return Layout::plain;
    const Node& node = graph_.node(value.producer);
    const Config& config =
        candidates_[size_t(value.producer.index)]->list[size_t(choice[size_t(value.producer.index)])].config;
    for (size_t i = 0; i < node.outputs.size(); ++i)
      if (node.outputs[i] == id) return config.outputs[i];
    return Layout::plain;
  }

  double reorders_in(size_t n, const Config& config, const std::vector<int>& choice) const {
    const Node& node = graph_.node({int32_t(n)});
    double ms = 0;
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (node.inputs[i].valid())  // constants lie in plain order; weights are taken as that, and packed
        ms += reorder_ms(graph_.type(node.inputs[i]), layout_of(node.inputs[i], choice), config.inputs[i],
                         options_.threads);
    return ms;
  }
  double reorders_out(size_t n, const Config& config, const std::vector<int>& choice) const {
    const Node& node = graph_.node({int32_t(n)});
    double ms = 0;
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      const Value& value = graph_.value(node.outputs[o]);
      for (NodeId user : value.users) {
        const Node& to = graph_.node(user);
        const Config& other = candidates_[size_t(user.index)]->list[size_t(choice[size_t(user.index)])].config;
        for (size_t i = 0; i < to.inputs.size(); ++i)
          if (to.inputs[i] == node.outputs[o]) {
            ms += reorder_ms(value.type, config.outputs[o], other.inputs[i], options_.threads);
            break;
          }
      }
      if (graph_.is_output(node.outputs[o]))
        ms += reorder_ms(value.type, config.outputs[o], Layout::plain, options_.threads);
    }
    return ms;
  }

  // Without what a concat does not copy, as far as this depends on it and on those that make its inputs (find_parts
  // knows the rest).
  double ms_of(size_t n, const std::vector<int>& choice) const {
    const Option& option = candidates_[n]->list[size_t(choice[n])];
    const auto* op = problems_[n].op.get_if<ops::Concat>();
    const std::vector<ValueId>& inputs = graph_.node({int32_t(n)}).inputs;
    const int64_t whole = op && inputs.size() <= kCountedParts ? element_count(problems_[n].outputs[0].dims()) : 0;
    if (!whole || !option.tactic->takes_parts) return option.ms;
    int64_t copied = 0, position = 0;
    for (ValueId input : inputs) {
      const Dims dims = graph_.type(input).dims();
      if (!writes_part(input, n, option, size_t(op->axis), position, choice)) copied += element_count(dims);
      position += dims[size_t(op->axis)];
    }
    return option.ms * double(copied) / double(whole);
  }
  bool writes_part(ValueId input, size_t concat_node, const Option& concat_option, size_t axis, int64_t position,
                   const std::vector<int>& choice) const {
    const Value& value = graph_.value(input);
    const Layout layout = concat_option.config.outputs[0];
    if (!value.producer.valid() || value.output_uses > 0 || is_view(graph_.node(value.producer)) ||
        layout_of(input, choice) != layout)
      return false;
    const auto place =
        place_in_whole(problems_[concat_node].outputs[0].type, value.type.dims(), axis, position, layout, 0);
    if (!place || !place->pitch) return bool(place);
    const auto maker = size_t(value.producer.index);
    const Option& option = candidates_[maker]->list[size_t(choice[maker])];
    if (!option.tactic->takes_parts) return false;
    for (NodeId user : value.users)
      if (const Tactic* reader = candidates_[size_t(user.index)]->list[size_t(choice[size_t(user.index)])].tactic;
          !reader || !reader->takes_parts)
        return false;
    Problem problem = problems_[maker];
    const std::vector<ValueId>& outputs = graph_.node(value.producer).outputs;
    problem.outputs[size_t(std::find(outputs.begin(), outputs.end(), input) - outputs.begin())].pitch = place->pitch;
    return option.tactic->takes(problem, option.config);
  }
  // Of the concats that read what node `n` makes.
  double concats_out(size_t n, const std::vector<int>& choice) const {
    double ms = 0;
    for (ValueId output : graph_.node({int32_t(n)}).outputs) {
      NodeId before;  // a concat that takes the value several times stands in its users several times, one behind the
                      // other
      for (NodeId user : graph_.value(output).users) {
        if (user != before && graph_.node(user).op.is<ops::Concat>()) ms += ms_of(size_t(user.index), choice);
        before = user;
      }
    }
    return ms;
  }

  double total(const std::vector<int>& choice) const {
    double ms = 0;
    for (size_t n = 0; n < choice.size(); ++n) {
      const Option& option = candidates_[n]->list[size_t(choice[n])];
      ms += ms_of(n, choice) + reorders_in(n, option.config, choice);
      for (ValueId output : graph_.node({int32_t(n)}).outputs)
        if (graph_.is_output(output))
          ms += reorder_ms(graph_.type(output), layout_of(output, choice), Layout::plain, options_.threads);
    }
    return ms;
  }

  // Coordinate descent: change one node at a time while the sum gets smaller. Ends, because it only ever gets smaller.
  std::vector<int> descend(std::vector<int> choice) const {
    for (int sweep = 0; sweep < 20; ++sweep) {
      bool changed = false;
      for (size_t n = 0; n < choice.size(); ++n) {
        auto cost = [&](int c) {
          choice[n] = c;
          const Option& option = candidates_[n]->list[size_t(c)];
          return ms_of(n, choice) + concats_out(n, choice) + reorders_in(n, option.config, choice) +
                 reorders_out(n, option.config, choice);
        };
        int chosen = choice[n];
        double best = cost(chosen);
        for (int c = 0; c < int(candidates_[n]->list.size()); ++c)
          if (const double ms = cost(c); ms < best * (1 - 1e-9)) {
            best = ms;
            chosen = c;
            changed = true;
          }
        choice[n] = chosen;
      }
      if (!changed) break;
    }
    return choice;
  }
};

}  // namespace

void visit_compilable(const Graph& graph, const Backend& backend, const Device& device,
                      const std::function<void(const std::vector<CandidateRef>&)>& use) {
  const BatchInfo batch = analyze_batch(graph);
  const std::vector<SliceOf> slices(size_t(graph.node_count()));
  const PlanOptions options;
  Chooser chooser(graph, batch, slices, backend, device, options);
  use(chooser.compilable());
}

std::vector<NodeChoice> choose_tactics(const Graph& graph, const BatchInfo& batch, const std::vector<SliceOf>& slices,
                                       const Backend& backend, const Device& device, const PlanOptions& options) {
  return Chooser(graph, batch, slices, backend, device, options).run();
}

}  // namespace temper
