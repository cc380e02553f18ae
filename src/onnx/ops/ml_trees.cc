// SPDX-License-Identifier: Apache-2.0
// Imports TreeEnsemble, TreeEnsembleClassifier and TreeEnsembleRegressor: all samples go down all trees together, one
// level after the other, by gathers from tables of the nodes (as Hummingbird does, Nakandala et al. 2020); a leaf goes
// to itself. The leaves' values are summed in f64.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/checked.h"
#include "onnx/ml.h"
#include "onnx/node.h"

namespace temper::ml {

namespace {

enum class Mode { leq, lt, gte, gt, eq, neq, member };

struct Forest {
  // By node. A leaf has yes = no = itself.
  std::vector<int64_t> feature, yes, no;
  std::vector<double> split;
  std::vector<Mode> mode;
  std::vector<char> missing;  // NaN takes the way of yes
  std::vector<int64_t> roots;
  int64_t targets = 1;
  std::vector<double> values;  // [nodes, targets]

  int64_t nodes() const { return int64_t(feature.size()); }
  int64_t add() {
    const int64_t index = nodes();
    feature.push_back(0), yes.push_back(index), no.push_back(index), split.push_back(0), mode.push_back(Mode::leq);
    missing.push_back(0);
    return index;
  }
  bool is_leaf(int64_t node) const { return yes[size_t(node)] == node && no[size_t(node)] == node; }
};

// The longest way from a root to a leaf; Error{bad_file} for ways that never end.
int64_t depth_of(OnnxNode& node, const Forest& forest) {
  std::vector<int64_t> depth(size_t(forest.nodes()), -1);
  constexpr int64_t kOpen = -2;
  std::vector<int64_t> stack(forest.roots.begin(), forest.roots.end());
  while (!stack.empty()) {
    const auto at = size_t(stack.back());
    if (depth[at] >= 0 || forest.is_leaf(int64_t(at))) {
      depth[at] = std::max<int64_t>(depth[at], 0);
      stack.pop_back();
      continue;
    }
    const int64_t yes = forest.yes[at], no = forest.no[at];
    if (depth[at] == kOpen) {
      for (int64_t child : {yes, no})
        if (depth[size_t(child)] < 0) node.bad("a tree's node leads back to itself");
      depth[at] = 1 + std::max(depth[size_t(yes)], depth[size_t(no)]);
      stack.pop_back();
      continue;
    }
    depth[at] = kOpen;
    for (int64_t child : {yes, no}) {
      if (depth[size_t(child)] == kOpen) node.bad("a tree's node leads back to itself");
      if (depth[size_t(child)] < 0) stack.push_back(child);
    }
  }
  int64_t most = 0;
  for (int64_t root : forest.roots) most = std::max(most, depth[size_t(root)]);
  return most;
}

template <class T, class From>
ValueId table(OnnxNode& node, const std::vector<From>& values) {
  Tensor tensor(dtype_of<T>, {int64_t(values.size())});
  for (size_t i = 0; i < values.size(); ++i) tensor.data<T>()[i] = static_cast<T>(values[i]);
  return node.constant(tensor);
}

// The leaf of each sample in each tree, [samples, trees].
ValueId leaves_of(OnnxNode& node, const Forest& forest, ValueId x) {
  const TensorType type = node.graph().type(x);
  const int64_t depth = depth_of(node, forest);
  if (depth > 512) node.unsupported("a tree of depth ", depth);
  std::set<Mode> modes;
  bool missing = false;
  for (int64_t i = 0; i < forest.nodes(); ++i) {
    if (forest.is_leaf(i)) continue;
    modes.insert(forest.mode[size_t(i)]);
    missing |= forest.missing[size_t(i)] != 0;
    const int64_t feature = forest.feature[size_t(i)];
    if (feature < 0 || (type.shape[1].is_constant() && feature >= type.shape[1].value()))
      node.bad("a node asks for feature ", feature, " of ", type);
  }
  // Which of <, = and > lead to yes; NaN is none of them, and differs from every number.
  const auto takes = [&](std::initializer_list<Mode> list) {
    std::vector<char> flags;
    for (Mode mode : forest.mode) flags.push_back(std::find(list.begin(), list.end(), mode) != list.end());
    return table<bool>(node, flags);
  };
  std::string test;
  std::vector<ValueId> flags(4);
  if (modes.size() <= 1 && !missing) {
    const char* ops[] = {"LessOrEqual(v, s)", "Less(v, s)", "GreaterOrEqual(v, s)", "Greater(v, s)", "Equal(v, s)"};
    const Mode mode = modes.empty() ? Mode::leq : *modes.begin();
    test = mode == Mode::neq ? "same = Equal(v, s) taken = Not(same)" : concat("taken = ", ops[int(mode)]);
  } else {
    flags = {takes({Mode::leq, Mode::lt, Mode::neq}),
             takes({Mode::leq, Mode::gte, Mode::eq}),
             takes({Mode::gte, Mode::gt, Mode::neq}),
             {}};
    std::vector<char> nan(forest.missing);
    for (size_t i = 0; i < nan.size(); ++i) nan[i] = nan[i] || forest.mode[i] == Mode::neq;
    flags[3] = table<bool>(node, nan);
    test =
        "l = Less(v, s) e = Equal(v, s) g = Greater(v, s) n = IsNaN(v) fl = Gather(less, at) fe = Gather(equal, at) "
        "fg = Gather(greater, at) fn = Gather(nan, at) al = And(l, fl) ae = And(e, fe) ag = And(g, fg) an = And(n, fn) "
        "o1 = Or(al, ae) o2 = Or(ag, an) taken = Or(o1, o2)";
  }
  const std::string step = concat(
      "(x, at, feature, split, yes, no, less, equal, greater, nan) => (next) { "
      "f = Gather(feature, at) v = GatherElements <axis = 1> (x, f) s = Gather(split, at) ",
      test, " y = Gather(yes, at) n_ = Gather(no, at) next = Where(taken, y, n_) }");
  std::vector<ValueId> inputs{
      x,
      {},
      table<int32_t>(node, forest.feature),
      type.dtype == DType::f64 ? table<double>(node, forest.split) : table<float>(node, forest.split),
      table<int32_t>(node, forest.yes),
      table<int32_t>(node, forest.no)};
  inputs.insert(inputs.end(), flags.begin(), flags.end());
  inputs[1] = node.body(
      "(x, roots, trees) => (y) { n = Shape <end = 1> (x) shape = Concat <axis = 0> (n, trees) y = Expand(roots, "
      "shape) }",
      {x, table<int32_t>(node, forest.roots), node.ints({int64_t(forest.roots.size())})})[0];
  for (int64_t level = 0; level < depth; ++level) inputs[1] = node.body(step, inputs)[0];
  return inputs[1];
}

// [samples, targets] in f64, or f32 where nothing is summed.
ValueId scores_of(OnnxNode& node, const Forest& forest, ValueId x, const std::string& aggregate,
                  const std::vector<double>& base) {
  if (checked_mul(forest.nodes(), forest.targets) > (int64_t(1) << 27))
    node.unsupported("an ensemble of ", forest.nodes(), " nodes and ", forest.targets, " targets");
  Tensor values(DType::f64, {forest.nodes(), forest.targets});
  std::copy(forest.values.begin(), forest.values.end(), values.data<double>());
  const std::string reduce = aggregate == "AVERAGE" ? "Mean"
                             : aggregate == "MIN"   ? "Min"
                             : aggregate == "MAX"   ? "Max"
                                                    : "Sum";
  const ValueId sum = node.body(
      concat("(at, values) => (y) { trees = Constant <value_ints = [1]> () all = Gather(values, at) y = Reduce", reduce,
             " <keepdims = 0> (all, trees) }"),
      {leaves_of(node, forest, x), node.constant(values)})[0];
  if (base.empty()) return sum;
  if (int64_t(base.size()) != forest.targets && base.size() != 1)
    node.bad(base.size(), " base values for ", forest.targets, " targets");
  return node.pointwise(Scalar::add, {sum, table<double>(node, base)});
}

ValueId samples_of(OnnxNode& node) {
  const TensorType type = node.type(0);
  if (type.rank() != 2) node.bad("samples of type ", type, "; [samples, features] is needed");
  return type.dtype == DType::f64 ? node.input(0) : node.cast(node.input(0), DType::f32);
}

// The nodes of the older ops, and a map from (tree, node) to places in the forest.
std::map<std::pair<int64_t, int64_t>, int64_t> read_nodes(OnnxNode& node, Forest& forest) {
  node.ignore_attribute("nodes_hitrates");
  node.ignore_attribute("nodes_hitrates_as_tensor");
  const auto trees = node.ints_attribute("nodes_treeids", {}), ids = node.ints_attribute("nodes_nodeids", {}),
             features = node.ints_attribute("nodes_featureids", {}), yes = node.ints_attribute("nodes_truenodeids", {}),
             no = node.ints_attribute("nodes_falsenodeids", {});
  const auto missing = node.ints_attribute("nodes_missing_value_tracks_true", std::vector<int64_t>(ids.size(), 0));
  const auto modes = node.strings_attribute("nodes_modes", {});
  const auto splits = floats_or_tensor(node, "nodes_values");
  const size_t n = ids.size();
  if (n == 0) node.bad("there is no node");
  for (size_t size :
       {trees.size(), features.size(), yes.size(), no.size(), missing.size(), modes.size(), splits.size()})
    if (size != n) node.bad("the lists of nodes have ", n, " and ", size, " entries");
  std::map<std::pair<int64_t, int64_t>, int64_t> places;
  std::set<int64_t> begun;
  for (size_t i = 0; i < n; ++i) {
    if (!places.emplace(std::pair(trees[i], ids[i]), forest.add()).second)
      node.bad("tree ", trees[i], " has node ", ids[i], " twice");
    if (begun.insert(trees[i]).second) forest.roots.push_back(int64_t(i));
  }
  static const std::map<std::string_view, Mode> names{{"BRANCH_LEQ", Mode::leq}, {"BRANCH_LT", Mode::lt},
                                                      {"BRANCH_GTE", Mode::gte}, {"BRANCH_GT", Mode::gt},
                                                      {"BRANCH_EQ", Mode::eq},   {"BRANCH_NEQ", Mode::neq}};
  for (size_t i = 0; i < n; ++i) {
    if (modes[i] == "LEAF") continue;
    const auto mode = names.find(modes[i]);
    if (mode == names.end()) node.bad("a node's mode is '", modes[i], "'");
    forest.mode[i] = mode->second;
    forest.feature[i] = features[i];
    forest.split[i] = splits[i];
    forest.missing[i] = missing[i] != 0;
    const auto child = [&](int64_t id) {
      const auto place = places.find({trees[i], id});
      if (place == places.end()) node.bad("tree ", trees[i], " has no node ", id);
      if (place->second == int64_t(i)) node.bad("a tree's node leads back to itself");
      return place->second;
    };
    forest.yes[i] = child(yes[i]);
    forest.no[i] = child(no[i]);
  }
  return places;
}

// What the leaves hold: lists of (tree, node, target, weight) under names that begin with `prefix`.
std::vector<int64_t> read_leaves(OnnxNode& node, Forest& forest, const std::string& prefix, bool once) {
  const auto places = read_nodes(node, forest);
  const auto trees = node.ints_attribute((prefix + "_treeids").c_str(), {}),
             nodes = node.ints_attribute((prefix + "_nodeids").c_str(), {});
  auto targets = node.ints_attribute((prefix + "_ids").c_str(), {});
  const auto weights = floats_or_tensor(node, prefix + "_weights");
  if (trees.size() != weights.size() || nodes.size() != weights.size() || targets.size() != weights.size())
    node.bad("the lists of leaves have ", trees.size(), ", ", nodes.size(), ", ", targets.size(), " and ",
             weights.size(), " entries");
  if (checked_mul(forest.nodes(), forest.targets) > (int64_t(1) << 27))
    node.unsupported("an ensemble of ", forest.nodes(), " nodes and ", forest.targets, " targets");
  forest.values.assign(size_t(forest.nodes() * forest.targets), 0);
  std::vector<char> given(forest.values.size(), 0);
  for (size_t i = 0; i < weights.size(); ++i) {
    const auto place = places.find({trees[i], nodes[i]});
    if (place == places.end())
      node.bad("a weight is given for node ", nodes[i], " of tree ", trees[i], ", which is not there");
    if (targets[i] < 0 || targets[i] >= forest.targets)
      node.bad("a weight is given for target ", targets[i], " of ", forest.targets);
    const auto at = size_t(place->second * forest.targets + targets[i]);
    if (once && given[at]++) node.unsupported("a leaf with several weights of one target, where they are not summed");
    forest.values[at] += weights[i];
  }
  if (once)
    for (int64_t i = 0; i < forest.nodes(); ++i)
      for (int64_t k = 0; k < forest.targets; ++k)
        if (forest.is_leaf(i) && !given[size_t(i * forest.targets + k)])
          node.unsupported("the smallest or largest over trees whose leaves do not each have all targets");
  return targets;
}

}  // namespace

void import_TreeEnsembleRegressor(OnnxNode& node) {
  Forest forest;
  forest.targets = node.int_attribute("n_targets", 1);
  const std::string aggregate = node.string_attribute("aggregate_function", "SUM");
  if (aggregate != "SUM" && aggregate != "AVERAGE" && aggregate != "MIN" && aggregate != "MAX")
    node.bad("aggregate_function is '", aggregate, "'");
  if (forest.targets < 1) node.bad("n_targets is ", forest.targets);
  read_leaves(node, forest, "target", aggregate == "MIN" || aggregate == "MAX");
  const ValueId scores = scores_of(node, forest, samples_of(node), aggregate, floats_or_tensor(node, "base_values"));
  node.set_output(0, node.cast(transformed(node, scores, node.string_attribute("post_transform", "NONE")), DType::f32));
}

void import_TreeEnsembleClassifier(OnnxNode& node) {
  Forest forest;
  const Tensor labels = class_labels(node, "classlabels_int64s");
  forest.targets = labels.count();
  const auto ids = read_leaves(node, forest, "class", false);
  const std::string post = node.string_attribute("post_transform", "NONE");
  auto base = floats_or_tensor(node, "base_values");
  if (forest.targets < 2) node.unsupported("a classifier of ", forest.targets, " classes");
  const bool one_class = std::all_of(ids.begin(), ids.end(), [&](int64_t id) { return id == ids[0]; });
  if (!one_class || forest.targets > 2) {
    if (base.size() == 1) node.unsupported("one base value for ", forest.targets, " classes");
    const ValueId scores = scores_of(node, forest, samples_of(node), "SUM", base);
    return set_classes(node, scores, transformed(node, scores, post), labels);
  }
  // Two classes, and the weights are those of the second: a probability, or a number whose logistic is one.
  const size_t id = ids.empty() ? 0 : size_t(ids[0]);
  for (size_t i = 0; i < size_t(forest.nodes()); ++i) forest.values[i] = forest.values[2 * i + id];
  forest.values.resize(size_t(forest.nodes()));
  forest.targets = 1;
  const bool positive = std::all_of(forest.values.begin(), forest.values.end(), [](double v) { return v >= 0; });
  if (base.size() > 1) node.unsupported(base.size(), " base values for the weights of one class");
  if (post != (positive ? "NONE" : "LOGISTIC"))
    node.unsupported("two classes with the ", positive ? "positive " : "", "weights of one and post_transform ", post);
  const ValueId score = scores_of(node, forest, samples_of(node), "SUM", base);
  const auto both = node.body(positive ? "(s, one) => (y) { other = Sub(one, s) y = Concat <axis = 1> (other, s) }"
                                       : "(s, one) => (y) { other = Neg(s) y = Concat <axis = 1> (other, s) }",
                              {score, node.scalar(DType::f64, 1)});
  set_classes(node, both[0], transformed(node, both[0], post), labels);
}

void import_TreeEnsemble(OnnxNode& node) {
  Forest forest;
  node.ignore_attribute("nodes_hitrates");
  const auto features = node.ints_attribute("nodes_featureids", {}), yes = node.ints_attribute("nodes_truenodeids", {}),
             no = node.ints_attribute("nodes_falsenodeids", {}), yes_leaf = node.ints_attribute("nodes_trueleafs", {}),
             no_leaf = node.ints_attribute("nodes_falseleafs", {}), targets = node.ints_attribute("leaf_targetids", {}),
             roots = node.ints_attribute("tree_roots", {});
  const size_t n = features.size(), leaves = targets.size();
  const auto missing = node.ints_attribute("nodes_missing_value_tracks_true", std::vector<int64_t>(n, 0));
  const auto tensor = [&](const char* name) {
    return node.tensor_attribute(name).value_or(Tensor(DType::f64, {0})).to_doubles();
  };
  const auto modes = tensor("nodes_modes"), splits = tensor("nodes_splits"), weights = tensor("leaf_weights"),
             members = tensor("membership_values");
  forest.targets = node.int_attribute("n_targets", 1);
  for (size_t size :
       {yes.size(), no.size(), yes_leaf.size(), no_leaf.size(), missing.size(), modes.size(), splits.size()})
    if (size != n) node.bad("the lists of nodes have ", n, " and ", size, " entries");
  if (weights.size() != leaves || leaves == 0) node.bad(weights.size(), " weights for ", leaves, " leaves");
  if (forest.targets < 1 || checked_mul(int64_t(n + leaves + members.size()), forest.targets) > (int64_t(1) << 27))
    node.unsupported("an ensemble of ", n, " nodes and ", forest.targets, " targets");
  for (size_t i = 0; i < n + leaves; ++i) forest.add();
  auto child = [&](int64_t id, bool is_leaf) {
    if (id < 0 || id >= int64_t(is_leaf ? leaves : n)) node.bad("there is no ", is_leaf ? "leaf " : "node ", id);
    return is_leaf ? int64_t(n) + id : id;
  };
  size_t member = 0;
  for (size_t i = 0; i < n; ++i) {
    if (!(modes[i] >= 0 && modes[i] <= 6)) node.bad("a node's mode is ", modes[i]);
    forest.mode[i] = Mode(int(modes[i]));
    forest.feature[i] = features[i];
    forest.split[i] = splits[i];
    forest.missing[i] = missing[i] != 0;
    forest.yes[i] = child(yes[i], yes_leaf[i] != 0);
    forest.no[i] = child(no[i], no_leaf[i] != 0);
    if (forest.mode[i] != Mode::member) continue;
    // A set is a chain of nodes that ask for one of its members each.
    std::vector<double> set;
    while (member < members.size() && !std::isnan(members[member])) set.push_back(members[member++]);
    if (member++ >= members.size()) node.bad("membership_values end before the sets of all nodes");
    if (set.empty()) node.unsupported("a node with an empty set");
    const int64_t otherwise = forest.no[i];
    size_t at = i;
    for (size_t k = 0; k < set.size(); ++k) {
      forest.mode[at] = Mode::eq;
      forest.split[at] = set[k];
      if (k + 1 == set.size()) break;
      const auto next = size_t(forest.add());
      forest.feature[next] = forest.feature[i];
      forest.yes[next] = forest.yes[i];
      forest.no[next] = otherwise;
      forest.no[at] = int64_t(next);
      at = next;
    }
  }
  const int64_t aggregate = node.int_attribute("aggregate_function", 1), post = node.int_attribute("post_transform", 0);
  if (aggregate < 0 || aggregate > 3 || post < 0 || post > 4)
    node.bad("aggregate_function ", aggregate, ", post_transform ", post);
  if (aggregate > 1 && forest.targets > 1)
    node.unsupported("the smallest or largest over trees whose leaves do not each have all targets");
  forest.values.assign(size_t(forest.nodes() * forest.targets), 0);
  for (size_t i = 0; i < leaves; ++i) {
    if (targets[i] < 0 || targets[i] >= forest.targets)
      node.bad("a leaf has target ", targets[i], " of ", forest.targets);
    forest.values[(n + i) * size_t(forest.targets) + size_t(targets[i])] = weights[i];
  }
  for (int64_t root : roots) forest.roots.push_back(child(root, n == 0));
  if (roots.empty()) node.bad("there is no tree");
  const DType dtype = node.type(0).dtype;
  const char* aggregates[] = {"AVERAGE", "SUM", "MIN", "MAX"};
  const char* posts[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
  const ValueId scores = scores_of(node, forest, samples_of(node), aggregates[aggregate], {});
  node.set_output(0, node.cast(transformed(node, scores, posts[post]), dtype));
}

}  // namespace temper::ml
