// SPDX-License-Identifier: Apache-2.0
// Convolutions, fused pairs of them and those with a shortcut on Hopper, by TMA and wgmma: the recipes of
// gemm/hopper_gemm.h.
#include <cmath>

#include "backends/cuda/gemm/hopper_gemm.h"
#include "backends/cuda/gemm/image_prologue.h"
#include "graph/ops/conv.h"
#include "graph/ops/fused.h"

namespace temper::cuda {

namespace {

Support conv_supports(const Problem& problem, bool per_image) {
  const auto* op = problem.op.get_if<ops::Conv>();
  if (!op) return refused("not a convolution");
  if (problem.inputs[0].dims().size() != 4) return refused(problem.inputs[0].dims().size() - 2, " spatial axes, not 2");
  if (op->group != 1) return refused(op->group, " groups");
  const HopperGemm s = hopper_gemm_of(problem);
  // The limits of im2col tensor maps (CUDA driver API, cuTensorMapEncodeIm2col).
  for (size_t i = 0; i < 2; ++i) {
    if (s.stride[i] < 1 || s.stride[i] > 8) return refused("a stride of ", s.stride[i]);
    if (s.kernel[i] < 1 || s.dilation[i] < 1 || (s.kernel[i] - 1) * s.dilation[i] > 255)
      return refused("a kernel of ", s.kernel[i], " taps, ", s.dilation[i], " apart");
    if (s.pad[i] < 0 || s.pad[i] > 127) return refused("a padding of ", s.pad[i]);
    if (std::abs((s.out[i] - 1) * s.stride[i] - s.pad[i] - (s.in[i] - 1)) > 127)
      return refused("a padding or kernel beyond 127");
    if (!small_positions(s.in[i])) return refused("an axis of ", s.in[i], " elements");
  }
  return hopper_gemm_supports(problem, per_image);
}

Support alone_supports(const Problem& problem) {
  const auto conv = conv_behind_prologue(problem);
  if (!conv) return conv_supports(problem, true);
  const Support support = conv_supports(*conv, true);
  return support.yes() ? hopper_prologue_supports(problem) : support;
}

// Whether an epilogue reads a tensor of its output's shape other than input `joined`.
bool reads_whole(const Problem& conv, int joined = -1) {
  for (size_t i = 2; i < conv.inputs.size(); ++i)
    if (int(i) != joined && conv.inputs[i].dims() == conv.outputs[0].dims()) return true;
  return false;
}

// Whether the shortcut can join a convolution of those dtypes: `held`, in a fused pair, whose positions it has.
Support shortcut_supports(const Problem& shortcut, const HopperGemm& joined, bool held) {
  if (Support support = conv_supports(shortcut, false); !support.yes()) return support;
  const HopperGemm s = hopper_gemm_of(shortcut);
  if (s.a != joined.a || s.b != joined.b) return refused("a product of ", joined.a, " with a shortcut of ", s.a);
  if (held && s.im2col) return refused("a shortcut of several taps, strides or padding in a fused pair");
  if (reads_whole(shortcut)) return refused("the shortcut's epilogue reads a tensor of its output's shape");
  return supported();
}

Support pair_supports(const Problem& problem) {
  if (!problem.op.is<ops::ConvChain>()) return refused("not a fused pair of convolutions");
  if (problem.inputs[0].dims().size() != 4) return refused(problem.inputs[0].dims().size() - 2, " spatial axes, not 2");
  const auto pair = conv_pair_of(problem);
  std::vector<const Problem*> parts{&pair->first, &pair->second};
  if (pair->third) parts.push_back(&*pair->third);
  for (const Problem* part : parts)
    if (Support support = conv_supports(*part, false); !support.yes()) return support;
  const HopperGemm first = hopper_gemm_of(pair->first), second = hopper_gemm_of(pair->second);
  std::vector<HopperGemm> products{first, second};
  if (pair->third) products.push_back(hopper_gemm_of(*pair->third));
  for (const HopperGemm& part : products)
    if (part.a != first.a || part.b != first.b) return refused("products of ", first.a, " and then of ", part.a);
  for (const HopperGemm& part : products)
    if (part.ragged()) return refused(part.columns, " channels of ", part.result, ", not whole multiples of 16 bytes");
  if (first.a == DType::f32) return refused("operands of f32: nothing rounds the second convolution's to TF32");
  if (reads_whole(pair->first)) return refused("the first epilogue reads a tensor of its output's shape");
  if (pair->shortcut && reads_whole(pair->second, pair->shortcut->at))
    return refused("the second epilogue reads a tensor of its output's shape");
  if (pair->third && reads_whole(*pair->third))
    return refused("the third epilogue reads a tensor of its output's shape");
  if (pair->shortcut)
    if (Support support = shortcut_supports(pair->shortcut->conv, first, true); !support.yes()) return support;
  if (pair_fits(*pair)) return supported();
  return refused(first.columns, " channels between and ", second.columns,
                 " behind, which do not fit into shared memory or registers");
}

Support shortcut_supports(const Problem& problem) {
  if (!problem.op.is<ops::ShortcutConv>()) return refused("not a convolution with a shortcut");
  if (problem.inputs[0].dims().size() != 4) return refused(problem.inputs[0].dims().size() - 2, " spatial axes, not 2");
  const auto both = with_shortcut_of(problem);
  if (Support support = conv_supports(both->conv, false); !support.yes()) return support;
  const HopperGemm conv = hopper_gemm_of(both->conv);
  if (conv.ragged()) return refused(conv.columns, " channels of ", conv.result, ", not whole multiples of 16 bytes");
  if (Support support = shortcut_supports(both->shortcut.conv, conv, false); !support.yes()) return support;
  if (reads_whole(both->conv, both->shortcut.at))
    return refused("the epilogue reads a tensor of its output's shape beside the shortcut's");
  return shortcut_fits(*both) ? supported() : refused("its sums do not fit into registers");
}

}  // namespace

extern const Recipe conv_pipeline_recipe, conv_chain_recipe, conv_shortcut_recipe;
const Recipe conv_pipeline_recipe{
    "cuda.conv.pipeline",    19,      alone_supports, hopper_gemm_configs,        hopper_gemm_work, "sm_90a",
    hopper_gemm_takes_parts, nullptr, false,          hopper_gemm_expected_clocks};
const Recipe conv_chain_recipe{"cuda.conv.chain", 17,       pair_supports,          hopper_gemm_configs,
                               hopper_gemm_work,  "sm_90a", hopper_gemm_takes_parts};
const Recipe conv_shortcut_recipe{"cuda.conv.shortcut", 4,        shortcut_supports,      hopper_gemm_configs,
                                  hopper_gemm_work,     "sm_90a", hopper_gemm_takes_parts};

}  // namespace temper::cuda
