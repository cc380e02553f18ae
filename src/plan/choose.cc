// SPDX-License-Identifier: Apache-2.0
#include "plan/choose.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <unordered_map>

#include "backends/timing_text.h"
#include "base/checked.h"
#include "graph/operations.h"
#include "graph/ops/concat.h"
#include "graph/signs.h"
#include "plan/place.h"
#include "plan/view_layouts.h"

namespace temper {

namespace {

// Kernels of another library are no nodes of a plan's graph: the graph ends before them, another begins behind them,
// and no kernel begins while its neighbour ends. Measured on an H200 with BERT-large at batch 1, 24 calls of cuBLASLt
// in a plan of 173 steps; the same calls in one graph with all the others took so much less, each.
constexpr double kBetweenGraphsMs = 0.005;

struct Option {
  const Tactic* tactic;
  Config config;
  double ms;  // for one run over the whole batch; an estimate by list order where nothing is known
  bool timed;
  std::string_view untimed = "";  // why it is not timed, where that was decided
  // With what a plan takes longer for it than it takes alone.
  double ms_in_plan() const { return ms + (tactic && tactic->foreign ? kBetweenGraphsMs : 0); }
};
struct Options {
  std::vector<Option> list;
  std::vector<Candidate> refusals;
};

constexpr std::string_view kHopeless = "not timed: too slow for this op on another batch";
constexpr std::string_view kOutOfTime = "not timed: the search had taken its time (--time-limit)";

// Of candidates in the same layouts that kernels' models speak of, what is expected to take longer than the least so
// many times is neither compiled nor timed. Of 42 products and convolutions of 11 models on an H200 no
// winner was expected above 1.44 times the least, and nearly half of the candidates were above 2.
constexpr double kUnlikely = 2.5;

// A reorder reads and writes once. The constants are typical: of one core of a server CPU, and of a device with memory
// of its own as a whole. The search measures whole plans afterwards, but those of the layouts chosen here.
struct TypicalSpeed {
  double bytes_per_ms, start_ms, products_per_ms;
};
constexpr TypicalSpeed kCore{6e6, 0.002, 2e7}, kOtherDevice{2e9, 0.004, 5e10};

// What a concat of more inputs need not copy is not counted while choosing: to look at all of them for each that makes
// one takes their number squared.
constexpr size_t kCountedParts = 512;

// About what one core's share of a last-level cache keeps from one run to the next.
constexpr int64_t kWarmBytes = int64_t(16) << 20;

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
      if (is_always_view(graph_.node({int32_t(n)})) || !seen.insert(without_numbers(problem.text())).second) continue;
      for (Offer& offer : offers_of(problem, nullptr))
        if (offer.tactic->compile && !offer.is_unlikely())
          all.push_back({&problem, offer.tactic, std::move(offer.config)});
    }
    return all;
  }

  std::vector<NodeChoice> run() {
    const size_t nodes = size_t(graph_.node_count());
    find_problems();
    for (size_t n = 0; n < nodes; ++n) {
      const Node& node = graph_.node({int32_t(n)});
      times_.at_node(int64_t(n), int64_t(nodes));
      candidates_.push_back(&with_context([&] { return concat(name_of(node.op), " '", node.name, "'"); },
                                          [&]() -> Options& { return options_for(n); }));
    }
    drop_useless_views();
    find_chains();
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
          choice.losers.push_back({std::string(options.list[c].tactic->name), candidate_text(options.list[c].config),
                                   options.list[c].timed ? options.list[c].ms : -1,
                                   std::string(options.list[c].untimed)});
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
  // Nodes that may be views, each the reader of the one before it; and by node the chain that it is in, or -1.
  std::vector<std::vector<size_t>> chains_;
  std::vector<int> chain_of_;
  std::unordered_map<std::string, Options> known_;

  // A candidate before anybody times it.
  struct Offer {
    const Tactic* tactic;
    Config config;
    double expected;   // negative: by no model
    double times = 1;  // the least of those in its layouts
    bool is_unlikely() const { return times > kUnlikely; }
  };
  // Of all tactics but the last resorts, in the order of their list. `refusals`, where it is not null, gets those that
  // do not support the problem.
  std::vector<Offer> offers_of(const Problem& problem, std::vector<Candidate>* refusals) const {
    std::vector<Offer> offers;
    for (const Tactic* tactic : backend_.tactics()) {
      // It may take long to say, as the CPU's does for a GPU: it is asked where there is nothing else.
      if (tactic->last_resort) continue;
      if (const Support support = tactic->supports(problem, device_); !support.yes()) {
        if (refusals) refusals->push_back({std::string(tactic->name), "", -1, support.reason});
        continue;
      }
      for (Config& config : tactic->configs(problem, device_)) {
        const double expected = tactic->expected ? tactic->expected(problem, config, device_) : -1;
        offers.push_back({tactic, std::move(config), expected});
      }
    }
    std::map<std::pair<std::vector<Layout>, std::vector<Layout>>, double> least;
    for (const Offer& offer : offers)
      if (offer.expected > 0) {
        double& known = least.try_emplace({offer.config.inputs, offer.config.outputs}, offer.expected).first->second;
        known = std::min(known, offer.expected);
      }
    for (Offer& offer : offers)
      if (offer.expected > 0) offer.times = offer.expected / least.at({offer.config.inputs, offer.config.outputs});
    return offers;
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

  TypicalSpeed typical_speed() const { return backend_.queue ? kOtherDevice : kCore; }
  // ms that the likeliest candidate takes: what an order of candidates is worth beside a reorder.
  double guess_of(const Problem& problem) const {
    std::vector<TensorType> inputs, outputs;
    for (const Port& port : problem.inputs) inputs.push_back(port.type);
    for (const Port& port : problem.outputs) outputs.push_back(port.type);
    const auto operations = operations_of(problem.op, inputs, outputs);
    const double products = operations ? double(operations->products) : 0;
    return std::max(1e-3, products / (typical_speed().products_per_ms * std::max(1, problem.threads)));
  }

  Options& options_for(size_t n) {
    const Node& node = graph_.node({int32_t(n)});
    const Problem& problem = problems_[n];
    const SliceOf& slice = slices_[n];
    const int chains = slice.parallel ? options_.threads : 1;
    auto [it, fresh] = known_.try_emplace(concat(problem.text(), " chains=", chains, " slices=", slice.slices));
    Options& options = it->second;
    if (!fresh) return options;
    for (Config& config : view_configs(problem)) options.list.push_back({nullptr, std::move(config), 0, true});
    if (is_always_view(node)) return options;
    const size_t views = options.list.size();
    // A chain does its share of the slices; otherwise they run one after the other.
    const double runs = double(slice.slices) / double(chains);
    if (DecidedCandidate known = times_.decided(problem); known.tactic) {
      options.list.push_back({known.tactic, std::move(known.config), known.ms * runs, true});
      return options;
    }
    double guess = guess_of(problem);  // and list order, where nothing is known
    for (Offer& offer : offers_of(problem, &options.refusals)) {
      using Kind = CandidateTime::Kind;
      const Tactic* tactic = offer.tactic;
      Config& config = offer.config;
      const auto refuse = [&](std::string why) {
        options.refusals.push_back({std::string(tactic->name), candidate_text(config), -1, std::move(why)});
      };
      const auto faulted = [&] {
        const std::string what = times_.fault(problem, *tactic, config);
        if (!what.empty()) refuse(concat("faulted on this GPU: ", what));
        return !what.empty();
      };
      if (faulted()) continue;
      // The best may need more workspace than there is.
      if (offer.is_unlikely() && options_.workspace_limit < 0) {
        refuse(concat("not timed: expected to take ", std::round(10 * offer.times) / 10, " times as long as the best"));
        continue;
      }
      const CandidateTime time = times_.time(problem, *tactic, config, chains);
      if (!time.is_known() && faulted()) continue;
      if (time.kind == Kind::over_workspace) {
        refuse(concat("needs more than the ", options_.workspace_limit, " bytes of workspace allowed"));
        continue;
      }
      const std::string_view untimed = time.kind == Kind::hopeless      ? kHopeless
                                       : time.kind == Kind::out_of_time ? kOutOfTime
                                                                        : "";
      // Nobody knows what workspace it needs.
      if (!untimed.empty() && options_.workspace_limit >= 0) {
        refuse(std::string(untimed));
        continue;
      }
      options.list.push_back(
          {tactic, std::move(config), (time.is_known() ? time.ms : guess) * runs, time.is_known(), untimed});
      guess *= 1.25;
    }
    if (options.list.size() == views)  // a last resort is not timed at all
      for (const Tactic* tactic : backend_.tactics()) {
        if (!tactic->last_resort || options.list.size() > views) continue;
        if (const Support support = tactic->supports(problem, device_); support.yes())
          options.list.push_back({tactic, tactic->configs(problem, device_).at(0), guess * runs, false});
        else options.refusals.push_back({std::string(tactic->name), "", -1, support.reason});
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
      const auto is_timed = [](const Option& option) { return option.timed && option.tactic; };
      double best = std::numeric_limits<double>::infinity();
      for (const Option& option : options.list)
        if (is_timed(option)) best = std::min(best, option.ms);
      std::vector<Option*> rivals;
      for (Option& option : options.list)
        if (is_timed(option) && option.ms <= best * within) rivals.push_back(&option);
      // Long runs are noisy by less than what is at stake between layers, and there are many slices to try.
      if (rivals.size() < 2 || best > 3.0 * runs) return;
      std::vector<CandidateRef> contenders;
      contenders.reserve(rivals.size());
      for (const Option* option : rivals) contenders.push_back({&problem, option->tactic, option->config});
      const std::vector<double> ms = times_.refine(problem, contenders, chains);
      if (ms.empty()) return;
      for (size_t i = 0; i < rivals.size(); ++i) rivals[i]->ms = runs * ms[i];
    }
  }

  std::vector<int> starting_point(int layout) const {
    std::vector<int> choice(candidates_.size(), 0);
    for (size_t n = 0; n < choice.size(); ++n) {
      double best = std::numeric_limits<double>::infinity();
      for (size_t c = 0; c < candidates_[n]->list.size(); ++c) {
        const Option& option = candidates_[n]->list[c];
        // A wrong layout costs a thousand times more than any time, but is not forbidden.
        const double ms = option.ms_in_plan() * (layout >= 0 && option.config.outputs[0] != Layout(layout) ? 1000 : 1);
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
    const Config& config = config_of(size_t(value.producer.index), choice);
    for (size_t i = 0; i < node.outputs.size(); ++i)
      if (node.outputs[i] == id) return config.outputs[i];
    return Layout::plain;
  }

  double reorder_ms(const TensorType& type, Layout from, Layout to) const {
    const Dims dims = type.dims();
    if (same_memory(dims, from, to)) return 0;
    const TypicalSpeed speed = typical_speed();
    const int cores = backend_.queue ? 1 : options_.threads;
    return speed.start_ms + 2.0 * double(byte_count(type.dtype, dims)) / (speed.bytes_per_ms * cores);
  }
  double reorders_in(size_t n, const Config& config, const std::vector<int>& choice) const {
    const Node& node = graph_.node({int32_t(n)});
    double ms = 0;
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (node.inputs[i].valid())  // constants lie in plain order; weights are taken as that, and packed
        ms += reorder_ms(graph_.type(node.inputs[i]), layout_of(node.inputs[i], choice), config.inputs[i]);
    return ms;
  }
  // To the readers for which `counts` is true, and to outputs of the graph.
  template <class F>
  double reorders_out(size_t n, const Config& config, const std::vector<int>& choice, F&& counts) const {
    const Node& node = graph_.node({int32_t(n)});
    double ms = 0;
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      const Value& value = graph_.value(node.outputs[o]);
      for (NodeId user : value.users) {
        if (!counts(size_t(user.index))) continue;
        const Node& to = graph_.node(user);
        const Config& other = config_of(size_t(user.index), choice);
        for (size_t i = 0; i < to.inputs.size(); ++i)
          if (to.inputs[i] == node.outputs[o]) {
            ms += reorder_ms(value.type, config.outputs[o], other.inputs[i]);
            break;
          }
      }
      if (graph_.is_output(node.outputs[o])) ms += reorder_ms(value.type, config.outputs[o], Layout::plain);
    }
    return ms;
  }
  const Config& config_of(size_t n, const std::vector<int>& choice) const {
    return candidates_[n]->list[size_t(choice[n])].config;
  }

  // Without what a concat does not copy, as far as this depends on it and on those that make its inputs (find_parts
  // knows the rest).
  double ms_of(size_t n, const std::vector<int>& choice) const {
    const Option& option = candidates_[n]->list[size_t(choice[n])];
    const auto* op = problems_[n].op.get_if<ops::Concat>();
    const std::vector<ValueId>& inputs = graph_.node({int32_t(n)}).inputs;
    const int64_t whole = op && inputs.size() <= kCountedParts ? element_count(problems_[n].outputs[0].dims()) : 0;
    if (!whole || !option.tactic->takes_parts) return option.ms_in_plan();
    int64_t copied = 0, position = 0;
    for (ValueId input : inputs) {
      const Dims dims = graph_.type(input).dims();
      if (!writes_part(input, n, option, size_t(op->axis), position, choice)) copied += element_count(dims);
      position += dims[size_t(op->axis)];
    }
    return option.ms * double(copied) / double(whole);
  }
  bool made_by_step(NodeId producer, const std::vector<int>& choice) const {
    return candidates_[size_t(producer.index)]->list[size_t(choice[size_t(producer.index)])].tactic;
  }
  bool writes_part(ValueId input, size_t concat_node, const Option& concat_option, size_t axis, int64_t position,
                   const std::vector<int>& choice) const {
    const Value& value = graph_.value(input);
    const Layout layout = concat_option.config.outputs[0];
    if (!value.producer.valid() || value.output_uses > 0 || !made_by_step(value.producer, choice) ||
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
        if (graph_.is_output(output)) ms += reorder_ms(graph_.type(output), layout_of(output, choice), Layout::plain);
    }
    return ms;
  }

  // A view in a layout that no kernel for this graph takes is of no use, and a device may have no copies between them.
  void drop_useless_views() {
    bool taken[kLayoutCount] = {};
    taken[size_t(Layout::plain)] = true;
    for (const Options* options : candidates_)
      for (const Option& option : options->list)
        if (option.tactic)
          for (const auto* layouts : {&option.config.inputs, &option.config.outputs})
            for (Layout layout : *layouts) taken[size_t(layout)] = true;
    for (Options* options : candidates_)
      std::erase_if(options->list, [&](const Option& option) {
        return !option.tactic && !(taken[size_t(option.config.inputs[0])] && taken[size_t(option.config.outputs[0])]);
      });
  }

  void find_chains() {
    chain_of_.assign(candidates_.size(), -1);
    for (size_t n = 0; n < candidates_.size(); ++n) {
      if (candidates_[n]->list.empty() || candidates_[n]->list[0].tactic) continue;  // views come first
      const NodeId before = graph_.value(graph_.node({int32_t(n)}).inputs[0]).producer;
      const int chain = before.valid() ? chain_of_[size_t(before.index)] : -1;
      if (chain >= 0 && chains_[size_t(chain)].back() == size_t(before.index)) {
        chain_of_[n] = chain;
        chains_[size_t(chain)].push_back(n);
      } else {
        chain_of_[n] = int(chains_.size());
        chains_.push_back({n});
      }
    }
  }

  // The best candidates of the nodes of a chain for what is chosen around it, node by node: the cheapest way to each
  // candidate of one is by the cheapest of the one before it.
  void choose_chain(const std::vector<size_t>& chain, std::vector<int>& choice) const {
    struct Way {
      double ms;
      int before;
    };
    std::vector<std::vector<Way>> ways(chain.size());
    for (size_t k = 0; k < chain.size(); ++k) {
      const ValueId input = graph_.node({int32_t(chain[k])}).inputs[0];
      const auto& list = candidates_[chain[k]]->list;
      for (const Option& option : list) {
        const double own = option.ms_in_plan() + reorders_out(chain[k], option.config, choice, [&](size_t user) {
                             return k + 1 == chain.size() || user != chain[k + 1];
                           });
        Way way{std::numeric_limits<double>::infinity(), -1};
        if (k == 0) way.ms = reorder_ms(graph_.type(input), layout_of(input, choice), option.config.inputs[0]);
        else
          for (size_t c = 0; c < ways[k - 1].size(); ++c) {
            const Layout from = candidates_[chain[k - 1]]->list[c].config.outputs[0];
            const double ms = ways[k - 1][c].ms + reorder_ms(graph_.type(input), from, option.config.inputs[0]);
            if (ms < way.ms) way = {ms, int(c)};
          }
        ways[k].push_back({way.ms + own, way.before});
      }
    }
    int at = 0;
    for (size_t k = chain.size(); k-- > 0; at = ways[k][size_t(at)].before) {
      if (k + 1 == chain.size())
        for (size_t c = 1; c < ways[k].size(); ++c)
          if (ways[k][c].ms < ways[k][size_t(at)].ms) at = int(c);
      choice[chain[k]] = at;
    }
  }

  // What depends on the choice for these nodes: their times, the reorders around and between them, and concats that
  // read them.
  double cost_of(const std::vector<size_t>& nodes, const std::vector<int>& choice) const {
    double ms = 0;
    for (size_t n : nodes) {
      const Config& config = config_of(n, choice);
      ms += ms_of(n, choice) + concats_out(n, choice) + reorders_in(n, config, choice) +
            reorders_out(n, config, choice,
                         [&](size_t user) { return std::find(nodes.begin(), nodes.end(), user) == nodes.end(); });
    }
    return ms;
  }

  // The chains of views before and behind a node.
  std::vector<int> chains_around(size_t n) const {
    std::vector<int> chains;
    const auto add = [&](NodeId id) {
      if (!id.valid() || chain_of_[size_t(id.index)] < 0) return;
      const int chain = chain_of_[size_t(id.index)];
      if (std::find(chains.begin(), chains.end(), chain) == chains.end()) chains.push_back(chain);
    };
    const Node& node = graph_.node({int32_t(n)});
    for (ValueId input : node.inputs)
      if (input.valid()) add(graph_.value(input).producer);
    for (ValueId output : node.outputs)
      for (NodeId user : graph_.value(output).users) add(user);
    return chains;
  }

  // Changes one node at a time, and with it the views around it, or the views of a chain alone; true where that made
  // the sum smaller.
  bool improve(size_t n, std::vector<int>& choice) const {
    const int own_chain = chain_of_[n];
    if (own_chain >= 0 && chains_[size_t(own_chain)][0] != n) return false;
    const std::vector<int> chains = own_chain >= 0 ? std::vector{own_chain} : chains_around(n);
    std::vector<size_t> nodes;
    if (own_chain < 0) nodes.push_back(n);
    for (int chain : chains) nodes.insert(nodes.end(), chains_[size_t(chain)].begin(), chains_[size_t(chain)].end());
    const auto chosen = [&] {
      std::vector<int> of;
      of.reserve(nodes.size());
      for (size_t node : nodes) of.push_back(choice[node]);
      return of;
    };
    const auto take = [&](const std::vector<int>& of) {
      for (size_t k = 0; k < nodes.size(); ++k) choice[nodes[k]] = of[k];
    };
    const std::vector<int> first = chosen();
    std::vector<int> best = first;
    double best_ms = cost_of(nodes, choice);
    bool changed = false;
    const auto look = [&] {
      if (const double ms = cost_of(nodes, choice); ms < best_ms * (1 - 1e-9)) {
        best_ms = ms;
        best = chosen();
        changed = true;
      }
    };
    if (own_chain >= 0) {
      choose_chain(chains_[size_t(own_chain)], choice);
      look();
    } else {
      // The views follow the layouts alone: they are chosen once for candidates of the same layouts.
      std::vector<std::pair<const Config*, std::vector<int>>> followed;
      for (int c = 0; c < int(candidates_[n]->list.size()); ++c) {
        const Config& config = candidates_[n]->list[size_t(c)].config;
        const auto known = std::find_if(followed.begin(), followed.end(), [&](const auto& entry) {
          return entry.first->inputs == config.inputs && entry.first->outputs == config.outputs;
        });
        take(known == followed.end() ? first : known->second);
        choice[n] = c;
        if (known == followed.end()) {
          for (int chain : chains) choose_chain(chains_[size_t(chain)], choice);
          followed.emplace_back(&config, chosen());
        }
        look();
      }
    }
    take(best);
    return changed;
  }

  // Descent while the sum gets smaller. Ends, because it only ever gets smaller.
  std::vector<int> descend(std::vector<int> choice) const {
    for (int sweep = 0; sweep < 20; ++sweep) {
      bool changed = false;
      for (size_t n = 0; n < choice.size(); ++n) changed |= improve(n, choice);
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

std::string candidate_text(const Config& config) {
  std::string out = config.text;
  for (Layout l : config.inputs) out += concat(out.empty() ? "" : " ", l);
  out += " ->";
  for (Layout l : config.outputs) out += concat(' ', l);
  return out;
}

std::vector<NodeChoice> choose_tactics(const Graph& graph, const BatchInfo& batch, const std::vector<SliceOf>& slices,
                                       const Backend& backend, const Device& device, const PlanOptions& options) {
  return Chooser(graph, batch, slices, backend, device, options).run();
}

}  // namespace temper
