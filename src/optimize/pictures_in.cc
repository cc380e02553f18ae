// SPDX-License-Identifier: Apache-2.0
#include "optimize/pictures_in.h"

#include <algorithm>
#include <utility>

#include "data/carried.h"
#include "data/preprocess.h"
#include "graph/ops/pointwise.h"
#include "graph/ops/transpose.h"
#include "optimize/precision.h"
#include "optimize/shape_ranges.h"

namespace temper {
namespace {

std::set<std::string> names_of(const Graph& graph, const std::set<std::string>& asked) {
  std::set<std::string> names;
  for (const ValueId id : graph.inputs())
    if (asked.contains(graph.value(id).name) ||
        (asked.contains("") && is_float(graph.type(id).dtype) && takes_pictures(graph.type(id))))
      names.insert(graph.value(id).name);
  if (names.empty())
    fail(ErrorKind::usage,
         "pictures are asked for, and no input of the model takes them: floats, [batch, channels, height, width] or "
         "[batch, height, width, channels] with 1 or 3 channels");
  for (const std::string& name : asked)
    if (!name.empty() && !names.contains(name))
      fail(ErrorKind::usage, "pictures are asked for '", name, "', which is no input of the model");
  return names;
}

// [n, c, h, w] as [n, h, w, c].
Dims as_pictures(const Dims& dims) { return {dims[0], dims[2], dims[3], dims[1]}; }

// (pixel * scale - mean) / std for each channel, as factor and shift.
Program values_program(DType dtype) {
  Program program;
  program.inputs = 3;
  const int pixel = program.push({Scalar::cast, DType::f32, {0, -1, -1}});
  const int value = program.push({Scalar::fma, DType::f32, {pixel, 1, 2}});
  if (dtype != DType::f32) program.push({Scalar::cast, dtype, {value, -1, -1}});
  return program;
}

Tensor per_channel(const Preprocess& p, double (*value)(const Preprocess&, size_t)) {
  const bool nchw = p.layout == PixelLayout::nchw;
  Tensor tensor(DType::f32, nchw ? Dims{p.channels, 1, 1} : Dims{p.channels});
  for (int64_t c = 0; c < p.channels; ++c) {
    const int64_t source = p.order == ChannelOrder::bgr ? p.channels - 1 - c : c;  // mean and std are red, green, blue
    tensor.data<float>()[c] = float(value(p, size_t(source)));
  }
  return tensor;
}

}  // namespace

std::string prepared_name(const std::string& input) { return input + "/prepared"; }

Graph take_pictures(const Graph& graph, EngineInfo& info, BuildOptions& options) {
  if (!options.profiles.empty() && !options.shapes.empty())
    fail(ErrorKind::usage, "shapes and profiles are given: give one of them");
  options.input_pictures = names_of(graph, options.input_pictures);
  const auto ranges = ranges_of(options);
  Graph out;
  out.name = graph.name;
  std::vector<ValueId> map(size_t(graph.value_count()));
  std::set<std::string> turned;  // from [n, c, h, w]
  for (const ValueId id : graph.inputs()) {
    const std::string& name = graph.value(id).name;
    TensorType type = graph.type(id);
    if (!options.input_pictures.contains(name)) {
      map[size_t(id.index)] = out.add_input(name, type);
      continue;
    }
    if (type.dtype == DType::u8) fail(ErrorKind::usage, "input '", name, "' takes pictures of u8 already");
    const auto words_in = [&](const std::map<std::string, std::string>& words) {
      auto it = words.find(name);
      if (it == words.end() && options.input_pictures.size() == 1) it = words.find("");  // of the only one
      return it == words.end() ? "" : it->second;
    };
    PreprocessOptions said = parse_preprocess(words_in(info.preprocess));
    if (ranges) said = over(said, parse_preprocess(words_in(ranges->preprocess)));
    if (const std::string asked = words_in(options.preprocess); !asked.empty()) {
      const PreprocessOptions all = over(said, named_preprocess(asked));
      if (ranges && ranges->preprocess.contains(name) && !(all == said))
        info.notes.push_back(concat("pictures of '", name, "' were prepared otherwise for the calibration: ",
                                    text_of(said), "; here: ", text_of(all)));
      said = all;
    }
    const Preprocess values = complete_values(said, type, name);
    if (said.mean.empty() || said.std.empty() || !said.scale)
      info.notes.push_back(concat("the plan prepares the pictures of '", name, "' itself: nobody said ",
                                  said.mean.empty() ? "mean, " : "", said.std.empty() ? "std, " : "",
                                  said.scale ? "and " : "scale, and ",
                                  "the usual values are taken (docs/data.md); --mean, --std and --scale say others"));
    if (values.layout == PixelLayout::nchw) {
      turned.insert(name);
      type.shape = {type.shape[0], type.shape[2], type.shape[3], type.shape[1]};
    }
    const DType own = std::exchange(type.dtype, DType::u8);
    ValueId pixels = out.add_input(name, type);
    // As u8: it is the same bytes where what reads it takes channels_last, and the cheapest change where not.
    if (values.layout == PixelLayout::nchw)
      pixels = out.add_single(ops::Transpose{{0, 3, 1, 2}}, {pixels}, name + "/turned");
    const ValueId factor = out.add_constant(
        name + "/factor", per_channel(values, [](const Preprocess& p, size_t c) { return p.scale / p.std[c]; }));
    const ValueId shift = out.add_constant(
        name + "/shift", per_channel(values, [](const Preprocess& p, size_t c) { return -p.mean[c] / p.std[c]; }));
    map[size_t(id.index)] = out.add(ops::Pointwise{values_program(own)}, {pixels, factor, shift}, prepared_name(name),
                                    {prepared_name(name)})[0];
    said.mean.clear();
    said.std.clear();
    said.scale.reset();
    said.channels = values.order;
    said.layout = PixelLayout::nhwc;
    info.preprocess[name] = text_of(said);
  }
  const auto mapped = [&](ValueId id) {
    if (!id.valid()) return id;
    ValueId& to = map[size_t(id.index)];
    if (!to.valid()) to = out.add_constant(graph.value(id).name, *graph.constant(id));
    return to;
  };
  for (int32_t n = 0; n < graph.node_count(); ++n) {
    const Node& node = graph.node({n});
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) inputs.push_back(mapped(input));
    std::vector<std::string> names;
    for (const ValueId output : node.outputs) names.push_back(graph.value(output).name);
    const auto made = out.add(node.op, std::move(inputs), node.name, names);
    for (size_t o = 0; o < made.size(); ++o) map[size_t(node.outputs[o].index)] = made[o];
  }
  for (const GraphOutput& output : graph.outputs()) out.add_output(output.name, mapped(output.value));

  options.preprocess.clear();  // it is said in `info` now
  // Completed here, so that notes and errors have the axes of the model.
  const auto turn = [&](std::map<std::string, ShapeRange>& shapes) {
    shapes = complete_shapes(graph, shapes, options.buckets, info.notes);
    for (const std::string& name : turned) {
      ShapeRange& range = shapes.at(name);
      range = {as_pictures(range.min), as_pictures(range.opt), as_pictures(range.max)};
    }
  };
  if (options.profiles.empty()) turn(options.shapes);
  for (auto& profile : options.profiles) turn(profile);
  return out;
}

}  // namespace temper
