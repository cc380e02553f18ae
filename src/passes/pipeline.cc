// SPDX-License-Identifier: Apache-2.0
// THE lists of passes, in the order in which they run. A pass may stand there twice; disabling its name skips both.
#include "passes/pipeline.h"

#include <algorithm>

#include "passes/blocked_products.h"
#include "passes/fuse_few_rows.h"
#include "passes/sink_resizes.h"

namespace temper {

const Pipeline& portable_pipeline() {
  static const Pipeline pipeline{
      1,
      "portable",
      {
          // Shapes that import could not fold, weights behind casts and transposes: everything below looks for
          // constants.
          {"fold_constants", fold_constants},
          {"remove_no_ops", remove_no_ops},
          // Before fusing: a transpose between two pointwise nodes keeps them apart. What it turns into a reshape may
          // be nothing.
          {"cancel_transposes", cancel_transposes},
          {"remove_no_ops", remove_no_ops},
          // What imports and folds leave; whoever reads it takes it into a program next.
          {"narrow_constants", narrow_constants},
          // Before fusing: two equal branches are one value with two users, which forbids fusing either of them alone.
          {"merge_equal_nodes", merge_equal_nodes},
          // Leaves alone what the next pass takes into an epilogue.
          {"fuse_pointwise", fuse_pointwise},
          // Reads programs as fuse_pointwise leaves them, and takes values out of them that an epilogue would otherwise
          // hold.
          {"recognise_normalize", recognise_normalize},
          // What it moves behind a reshape may meet a scale and a shift there.
          {"recognise_groups", recognise_groups},
          {"fuse_pointwise", fuse_pointwise, "recognise_groups"},
          {"fuse_epilogues", fuse_epilogues},
          // After fuse_epilogues: a bias stood between the product and the reshape.
          {"unflatten_products", unflatten_products},
          {"fuse_pointwise", fuse_pointwise, "unflatten_products"},
          {"fuse_epilogues", fuse_epilogues, "unflatten_products"},
          // After fuse_epilogues: a batch norm is the beginning of its convolution's epilogue by now.
          {"fold_scales_into_weights", fold_scales_into_weights},
          // After fuse_epilogues: what stands between a product and its quantize node is one program by now.
          {"commute_quantization", commute_quantization},
          // Needs quantize and dequantize next to the products.
          {"fold_quantized_products", fold_quantized_products},
          // What the two leave.
          {"fold_quantization", fold_quantization},
          // Two programs that meet now are one, and what was quantized may be a constant.
          {"fold_constants", fold_constants, "fold_quantization"},
          {"fuse_pointwise", fuse_pointwise, "fold_quantization"},
          // Whole programs from byte to byte, as they are by now.
          {"scale_bytes", scale_bytes},
          // Constants that the passes made more than once.
          {"merge_equal_nodes", merge_equal_nodes},
          // Last: the others see all that a concat joins.
          {"nest_concats", nest_concats},
      }};
  return pipeline;
}

namespace {

// Quantization and lower precisions are about weights as floats.
bool fold_all_blocks(Graph& graph, const PassOptions& options) {
  return fold_blocks(graph, [](const Graph&, const Op&, const std::vector<ValueId>&) { return false; }, options.time);
}

// But for those that products alone read, where kernels may do so: the device is asked when precisions are settled.
bool fold_other_blocks(Graph& graph, const PassOptions& options) {
  return fold_blocks(graph, [](const Graph&, const Op&, const std::vector<ValueId>&) { return true; }, options.time);
}

bool take(Lowering lowering, Graph& graph, LoweringReport* report) {
  const bool changed = lowering.changed;
  graph = std::move(lowering.graph);
  if (report) *report = std::move(lowering);
  return changed;
}

}  // namespace

Pipeline quantize_pipeline(PassFunction smooth, PassFunction place, std::set<std::string> bf16) {
  Pipeline pipeline{2,
                    "quantize",
                    {{"fold_blocks", fold_all_blocks},
                     {"smooth_channels", std::move(smooth)},
                     // Into what computes the value, which is what gets a quantize node next.
                     {"fuse_pointwise", fuse_pointwise, "smooth_channels"},
                     {"fuse_epilogues", fuse_epilogues, "smooth_channels"},
                     {"place_quantization", std::move(place), "", true}}};
  const auto& fold = portable_pipeline().passes;
  pipeline.passes.insert(pipeline.passes.end(), fold.begin(), fold.end());
  PassFunction lower = [bf16 = std::move(bf16)](Graph& graph, const PassOptions& options) {
    return !bf16.empty() && take(lower_precision(graph, DType::bf16, {.only = bf16}, options.time), graph, nullptr);
  };
  pipeline.passes.push_back({"fold_blocks", fold_all_blocks});
  pipeline.passes.push_back({"lower_precision", std::move(lower), "", true});
  return pipeline;
}

Pipeline widen_pipeline(std::set<DType> narrow) {
  PassFunction widen = [narrow = std::move(narrow)](Graph& graph, const PassOptions& options) {
    return widen_products(graph, narrow, options);
  };
  return {1,
          "widen",
          {{"widen_products", std::move(widen)},
           // Operands that were rounded are so in the program that computed them.
           {"fuse_pointwise", fuse_pointwise, "widen_products"},
           {"fuse_epilogues", fuse_epilogues, "widen_products"}}};
}

Pipeline precision_pipeline(PrecisionTarget target, LoweringReport* report) {
  PassFunction allow = [tf32 = target.tf32, kept = target.options.kept, report](Graph& graph,
                                                                                const PassOptions& options) {
    return tf32 && take(allow_tf32(graph, kept, options.time), graph, report);
  };
  const PassFunction blocks = target.blocks ? fold_other_blocks : fold_all_blocks;
  PassFunction lower = [target = std::move(target), report](Graph& graph, const PassOptions& options) {
    return target.dtype && take(lower_precision(graph, *target.dtype, target.options, options.time), graph, report);
  };
  return {
      3,
      "precision",
      {{"fold_blocks", blocks},
       // A recurrent net stays in f32, the product of its inputs need not.
       {"project_recurrent", project_recurrent},
       // Convolutions have narrower forms.
       {"expand_conv_transpose", expand_conv_transpose},
       {"lower_precision", std::move(lower), "", true},
       {"allow_tf32", std::move(allow), "", true}},
  };
}

Pipeline device_pipeline(const FusionTaken& taken, bool by_rows) {
  PassFunction patches = [taken, by_rows](Graph& graph, const PassOptions& options) {
    return by_rows && patches_as_products(graph, taken, options.time);
  };
  PassFunction sink = [by_rows](Graph& graph, const PassOptions& options) {
    return by_rows && sink_rows(graph, options);
  };
  PassFunction turn = [by_rows](Graph& graph, const PassOptions& options) {
    return by_rows && turn_products(graph, options);
  };
  PassFunction gather = [by_rows](Graph& graph, const PassOptions& options) {
    return by_rows && gather_rows(graph, options);
  };
  PassFunction channels = [by_rows](Graph& graph, const PassOptions& options) {
    return by_rows && gather_channels(graph, options);
  };
  PassFunction resizes = [by_rows](Graph& graph, const PassOptions& options) {
    return !by_rows && sink_resizes(graph, options);  // measured on CPUs alone
  };
  PassFunction recognise = [taken](Graph& graph, const PassOptions& options) {
    return recognise_attention(graph, taken, options.time);
  };
  PassFunction expand = [taken](Graph& graph, const PassOptions& options) {
    return expand_attention(graph, taken, options.time);
  };
  PassFunction fuse = [taken](Graph& graph, const PassOptions& options) {
    return fuse_neighbours(graph, taken, options.time);
  };
  PassFunction fold = [taken](Graph& graph, const PassOptions& options) {
    return fold_blocks(graph, taken, options.time);
  };
  return {4,
          "device",
          {
              // First: what no kernel reads as integers are plain weights for all the others.
              {"fold_blocks", std::move(fold)},
              {"project_recurrent", project_recurrent},
              {"expand_conv_transpose", expand_conv_transpose},
              // While convolutions are convolutions, and before transposes move.
              {"sink_resizes", std::move(resizes)},
              {"patches_as_products", std::move(patches)},
              // What it writes may meet reshapes and transposes.
              {"remove_no_ops", remove_no_ops, "patches_as_products"},
              // Before attentions are recognised: where positions come first, the batch would be of heads.
              {"sink_rows", std::move(sink)},
              {"recognise_attention", std::move(recognise)},
              // What it writes is in no canonical form: sums of masks are constants, transposes may cancel.
              {"fold_constants", fold_constants, "recognise_attention"},
              {"cancel_transposes", cancel_transposes, "recognise_attention"},
              {"remove_no_ops", remove_no_ops, "recognise_attention"},
              {"merge_equal_nodes", merge_equal_nodes, "recognise_attention"},
              // Their results have rows of positions again, which the product behind them may have flattened.
              {"unflatten_products", unflatten_products, "recognise_attention"},
              {"expand_attention", std::move(expand)},
              // Likewise, and programs belong into products.
              {"cancel_transposes", cancel_transposes, "expand_attention"},
              {"remove_no_ops", remove_no_ops, "expand_attention"},
              {"fuse_pointwise", fuse_pointwise, "expand_attention"},
              {"fuse_epilogues", fuse_epilogues, "expand_attention"},
              {"merge_equal_nodes", merge_equal_nodes, "expand_attention"},
              // Behind attentions, whose transposes of heads are gone.
              {"turn_products", std::move(turn)},
              // A transpose stood between a product and a residual sum.
              {"fuse_sums", fuse_sums, "turn_products"},
              // It joins whole epilogues of products that an attention reads.
              {"merge_products", merge_products},
              // After attentions are recognised, whose windows it would hide.
              {"gather_rows", std::move(gather)},
              {"remove_no_ops", remove_no_ops, "gather_rows"},
              {"gather_channels", std::move(channels)},
              {"fuse_neighbours", std::move(fuse)},
          }};
}

Pipeline blocks_pipeline(FusionTaken taken) {
  PassFunction fuse = [taken = std::move(taken)](Graph& graph, const PassOptions& options) {
    return fuse_blocks(graph, taken, options.time);
  };
  return {5, "blocks", {{"fuse_blocks", std::move(fuse)}}};
}

Pipeline rows_pipeline(FusionTaken taken) {
  PassFunction fuse = [taken = std::move(taken)](Graph& graph, const PassOptions& options) {
    return fuse_few_rows(graph, taken, options.time);
  };
  return {6,
          "rows",
          {
              // Shapes are numbers now: a range may be one zero, and nothing be left of a sum with it.
              {"fuse_pointwise", fuse_pointwise},
              {"fuse_few_rows", std::move(fuse)},
          }};
}

Pipeline shapes_pipeline(FusionTaken taken, PairWanted wanted, std::vector<ConvPair>* made) {
  PassFunction chain = [taken, wanted = std::move(wanted), made](Graph& graph, const PassOptions& options) {
    std::vector<ConvPair> pairs = chain_convs(graph, taken, wanted, options.time);
    const bool changed = !pairs.empty();
    if (made) *made = std::move(pairs);
    return changed;
  };
  PassFunction join = [taken = std::move(taken)](Graph& graph, const PassOptions& options) {
    return join_shortcuts(graph, taken, options.time);
  };
  return {7,
          "shapes",
          {
              // Its shortcut goes with a convolution into a chain.
              {"join_shortcuts", std::move(join)},
              {"chain_convs", std::move(chain)},
          }};
}

std::vector<std::string_view> pass_names() {
  std::vector<std::string_view> names;
  for (const Pipeline& pipeline :
       {portable_pipeline(), widen_pipeline({}), quantize_pipeline({}, {}, {}), precision_pipeline({}, nullptr),
        device_pipeline({}), blocks_pipeline({}), rows_pipeline({}), shapes_pipeline({}, {}, nullptr)})
    for (const Pass& pass : pipeline.passes)
      if (std::ranges::find(names, pass.name) == names.end()) names.push_back(pass.name);
  return names;
}

}  // namespace temper
