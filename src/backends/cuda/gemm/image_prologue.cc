// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/gemm/image_prologue.h"

#include <algorithm>

#include "backends/cuda/support/constants.h"
#include "graph/ops/conv.h"
#include "graph/ops/fused.h"

namespace temper::cuda {

const Program* prologue_of(const Problem& problem) {
  const auto* fused = problem.op.get_if<ops::FusedConv>();
  return fused && !fused->prologue.is_identity() ? &fused->prologue : nullptr;
}

size_t inputs_of_conv(const Problem& problem) {
  const auto* fused = problem.op.get_if<ops::FusedConv>();
  return fused ? fused->own_inputs(problem.inputs.size()) : problem.inputs.size();
}

Problem without_prologue(const Problem& problem) {
  Problem own = problem;
  own.inputs.resize(inputs_of_conv(problem));
  return own;
}

std::vector<DType> read_by_prologue(const Problem& problem) {
  std::vector<DType> dtypes{problem.inputs[0].type.dtype};
  for (size_t i = inputs_of_conv(problem); i < problem.inputs.size(); ++i)
    dtypes.push_back(problem.inputs[i].type.dtype);
  return dtypes;
}

DType conv_operand(const Problem& problem) {
  const Program* prologue = prologue_of(problem);
  return prologue ? prologue->infer(read_by_prologue(problem)) : problem.inputs[0].type.dtype;
}

std::optional<Problem> conv_behind_prologue(const Problem& problem) {
  const auto* fused = problem.op.get_if<ops::FusedConv>();
  if (!fused || fused->pools() || !prologue_of(problem)) return {};
  Problem conv = without_prologue(problem);
  conv.op = fused->conv;
  conv.inputs[0].type.dtype = conv_operand(problem);
  return conv;
}

namespace {

// Along which axes an input of the prologue differs: of [N,C,spatial...].
struct Along {
  bool images, channels, spatial;
};
Along along(const Problem& problem, size_t i) {
  const Dims strides = broadcast_strides(problem.inputs[i].dims(), problem.inputs[0].dims());
  return {strides[0] != 0, strides[1] != 0,
          std::any_of(strides.begin() + 2, strides.end(), [](int64_t stride) { return stride != 0; })};
}

}  // namespace

bool prologue_by_image(const Problem& problem) {
  bool by_image = false;
  for (size_t i = inputs_of_conv(problem); i < problem.inputs.size(); ++i) by_image |= along(problem, i).images;
  return by_image;
}

Support image_prologue_supports(const Problem& problem) {
  const DType from = problem.inputs[0].type.dtype, to = conv_operand(problem);
  if (size_of(from) != size_of(to)) return refused("a prologue from ", from, " to ", to);
  for (size_t i = inputs_of_conv(problem); i < problem.inputs.size(); ++i) {
    const Along axes = along(problem, i);
    if (axes.spatial) return refused("a prologue along other axes than images and channels");
    if (axes.images && !axes.channels) return refused("a prologue with one number for each image");
  }
  return supported();
}

ImagePrologue image_prologue(const Problem& problem, int64_t v, ProgramNumbers& numbers) {
  ImagePrologue out;
  std::string fields, loads, arguments;
  for (size_t i = inputs_of_conv(problem); i < problem.inputs.size(); ++i) {
    const Along axes = along(problem, i);
    const std::string name = concat('o', i);
    const std::string_view type = memory_type(problem.inputs[i].type.dtype);
    out.parameters += concat("const ", type, "* ", name, ", ");
    out.names += concat(name, ", ");
    out.slots.push_back({Slot::Kind::input, int(i), 0});
    fields += concat("Vec<", type, ", ", v, "> x", i, "; ");
    loads += concat("(to).x", i, axes.channels ? " = load_vector<" : " = load_splat<", v, ">(", name,
                    axes.images ? " + i64(image) * p.channels" : "", axes.channels ? " + (c)" : "", "); ");
    arguments += concat(", hold((extras).x", i, ".at[v])");
  }
  const ProgramCode code = finished_code(*prologue_of(problem), read_by_prologue(problem), "prologue", numbers);
  out.text = concat(code.text, type_alias("In", memory_type(problem.inputs[0].type.dtype)),
                    type_alias("Operand", memory_type(conv_operand(problem))), "struct InputExtras { ", fields, "};\n",
                    macro("INPUT_EXTRAS(to, image, c)", loads),
                    macro("PREPARED(x, extras, v)", concat(code.call, "hold(x)", arguments, ")")));
  return out;
}

}  // namespace temper::cuda
