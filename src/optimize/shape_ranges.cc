// SPDX-License-Identifier: Apache-2.0
#include "optimize/shape_ranges.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>

namespace temper {
namespace {

std::string example_shape(const TensorType& type) {
  std::string out;
  for (size_t i = 0; i < type.shape.size(); ++i) {
    if (i) out += 'x';
    out += type.shape[i].is_constant() ? concat(type.shape[i]) : i == 0 ? "1" : is_float(type.dtype) ? "224" : "128";
  }
  return out;
}

std::string text_of(const Dims& dims) {
  std::string out;
  for (const int64_t dim : dims) out += concat(out.empty() ? "" : "x", dim);
  return out;
}

}  // namespace

std::map<std::string, ShapeRange> complete_shapes(const Graph& graph, std::map<std::string, ShapeRange> shapes,
                                                  const std::vector<int64_t>& buckets,
                                                  std::vector<std::string>& notes) {
  const auto [least, largest] = std::ranges::minmax(buckets.empty() ? std::vector<int64_t>{1} : buckets);
  if (least < 1) fail(ErrorKind::usage, "a plan for batch ", least, " is asked for; a batch is 1 or more");
  const auto& inputs = graph.inputs();
  const auto names = [&] {
    std::string all;
    for (ValueId id : inputs) all += concat(all.empty() ? "" : ", ", graph.value(id).name);
    return all;
  };
  if (auto unnamed = shapes.extract("")) {
    if (inputs.size() != 1)
      fail(ErrorKind::usage, "--shapes names no input, and the model has ", inputs.size(), ": ", names());
    unnamed.key() = graph.value(inputs[0]).name;
    shapes.insert(std::move(unnamed));
  }
  std::unordered_set<std::string_view> known;
  for (ValueId id : inputs) known.insert(graph.value(id).name);
  for (const auto& [name, range] : shapes)
    if (!known.contains(name))
      fail(ErrorKind::usage, "--shapes names the input '", name,
           "', which the model does not have; its inputs: ", names());
  std::string open, missing;  // the first axis, and what to add for all
  for (ValueId id : graph.inputs()) {
    const Value& input = graph.value(id);
    if (auto it = shapes.find(input.name); it != shapes.end()) {
      const ShapeRange& range = it->second;
      for (const Dims* dims : {&range.min, &range.opt, &range.max}) {
        bool fits = dims->size() == input.type.shape.size();
        for (size_t i = 0; fits && i < dims->size(); ++i)
          fits = (*dims)[i] >= 0 && (!input.type.shape[i].is_constant() || input.type.shape[i].value() == (*dims)[i]) &&
                 range.min[i] <= range.opt[i] && range.opt[i] <= range.max[i];
        if (!fits)
          fail(ErrorKind::usage, "--shapes ", input.name, "=", *dims, " does not fit the input ", input.type,
               " (min <= opt <= max, no dimension below 0)");
      }
      continue;
    }
    Dims dims;
    bool every_bucket = false;
    for (size_t i = 0; i < input.type.shape.size(); ++i) {
      const Dim& dim = input.type.shape[i];
      if (dim.is_constant()) dims.push_back(dim.value());
      else if (i == 0) {
        dims.push_back(largest);
        every_bucket = true;
        const std::string built = least == largest ? concat(largest) : concat(least, " to ", largest);
        notes.push_back(concat("the first axis of '", input.name, "' ('", dim, "') is open: built for ", built,
                               "; --shapes ", input.name, "=", example_shape(input.type), " chooses another"));
      } else {
        if (open.empty()) open = concat("axis ", i, " of the input '", input.name, "' ('", dim, "') is open");
        missing += concat(" --shapes ", input.name, "=", example_shape(input.type));
        break;
      }
    }
    ShapeRange& range = shapes[input.name] = {dims, dims, dims};
    if (every_bucket) range.min[0] = least;
  }
  if (!open.empty()) fail(ErrorKind::usage, open, ": add", missing, " (or MIN:OPT:MAX)");
  const auto takes_them = [least = least, largest = largest](const auto& shape) {
    const ShapeRange& range = shape.second;
    return !range.opt.empty() && (range.min[0] != range.max[0] || (least == largest && range.opt[0] == least));
  };
  if (!buckets.empty() && std::ranges::none_of(shapes, takes_them))
    fail(ErrorKind::usage, "plans for batches ", least, " to ", largest,
         " are asked for, and no input has a first axis of several sizes: give it a range in --shapes, or export the "
         "model with an open first axis");
  return shapes;
}

std::string text_of(const ShapeRange& range) {
  if (range.min == range.opt && range.opt == range.max) return text_of(range.opt);
  return concat(text_of(range.min), ':', text_of(range.opt), ':', text_of(range.max));
}

std::map<std::string, ShapeRange> around(const std::vector<std::map<std::string, ShapeRange>>& profiles) {
  std::map<std::string, ShapeRange> all = profiles.front();
  for (const auto& profile : profiles)
    for (auto& [name, range] : all) {
      const ShapeRange& its = profile.at(name);
      for (size_t i = 0; i < range.min.size(); ++i) {
        range.min[i] = std::min(range.min[i], its.min[i]);
        range.max[i] = std::max(range.max[i], its.max[i]);
      }
    }
  return all;
}

}  // namespace temper
