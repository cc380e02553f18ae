// SPDX-License-Identifier: Apache-2.0
// Imports ops of the domain com.microsoft that ONNX has got since, or that are a few of its ops: ExpandDims, Pad,
// Range, Trilu, Unique, GridSample, CDist and GatherBlockQuantized.
#include <algorithm>
#include <initializer_list>

#include "base/small_types.h"
#include "onnx/node.h"

namespace temper::microsoft {

namespace {

// `least` to `most` inputs, of which those are there.
void set_body(OnnxNode& node, size_t least, size_t most, const std::string& text) {
  const size_t count = node.input_count();
  if (count < least || count > most) node.bad("it has ", count, " inputs, not ", least, " to ", most);
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < count; ++i) inputs.push_back(i < least ? node.input(i) : node.optional_input(i));
  const auto outputs = node.body(text, inputs);
  for (size_t i = 0; i < outputs.size() && i < node.output_count(); ++i)
    if (node.wants_output(i)) node.set_output(i, outputs[i]);
}

// One of these words, which become part of a body.
std::string word_of(OnnxNode& node, const char* name, const std::string& standard,
                    std::initializer_list<std::string_view> words) {
  std::string word = node.string_attribute(name, standard);
  if (std::find(words.begin(), words.end(), word) == words.end()) node.unsupported(name, " = '", word, "'");
  return word;
}

}  // namespace

void import_ExpandDims(OnnxNode& node) {
  set_body(node, 2, 2,
           "(x, axis) => (y) { one = Constant <value_ints = [1]> () axes = Reshape(axis, one) "
           "wide = Cast <to = 7> (axes) y = Unsqueeze(x, wide) }");
}

void import_Pad(OnnxNode& node) {
  const std::string mode = word_of(node, "mode", "constant", {"constant", "reflect", "edge"});
  const bool filled = node.has(2) && mode == "constant";
  set_body(node, 2, 3,
           concat("(x, pads", node.input_count() > 2 ? ", value" : "",
                  ") => (y) { all = Constant <value_ints = [-1]> () flat = Reshape(pads, all) y = Pad <mode = \"", mode,
                  "\"> (x, flat", filled ? ", value" : "", ") }"));
}

// The step is 1 where there is none.
void import_Range(OnnxNode& node) {
  const bool stepped = node.has(2);
  set_body(
      node, 2, 3,
      concat("(start, limit", node.input_count() > 2 ? ", step" : "",
             ") => (y) { none = Constant <value_ints = [-1]> () zero = Constant <value_int = 0> () "
             "one = Constant <value_int = 1> () starts = Reshape(start, none) first = Gather(starts, zero) "
             "limits = Reshape(limit, none) last = Gather(limits, zero) ",
             stepped ? "steps = Reshape(step, none) delta = Gather(steps, zero) " : "delta = CastLike(one, first) ",
             "y = Range(first, last, delta) }"));
}

void import_Trilu(OnnxNode& node) {
  const int64_t upper = node.int_attribute("upper", 1) != 0;
  set_body(node, 1, 2,
           concat("(x", node.input_count() > 1 ? ", k" : "", ") => (y) { y = Trilu <upper = ", upper, "> (x",
                  node.has(1) ? ", k" : "", ") }"));
}

// In the order in which the values first appear; the second output says which of them each element is.
void import_Unique(OnnxNode& node) {
  set_body(node, 1, 1, "(x) => (y, index, counts) { y, firsts, index, counts = Unique <sorted = 0> (x) }");
}

void import_GridSample(OnnxNode& node) {
  const std::string mode = word_of(node, "mode", "bilinear", {"bilinear", "nearest", "bicubic"});
  const std::string padding = word_of(node, "padding_mode", "zeros", {"zeros", "border", "reflection"});
  // Where ONNX takes the elements around a place, and those outside from the border, this moves the place first.
  if (mode == "bicubic" && padding == "border") node.unsupported("mode = 'bicubic' with padding_mode = 'border'");
  const int64_t align = node.int_attribute("align_corners", 0) != 0;
  set_body(node, 2, 2,
           concat("(x, grid) => (y) { y = GridSample <mode = \"",
                  mode == "bilinear"  ? "linear"
                  : mode == "bicubic" ? "cubic"
                                      : "nearest",
                  "\", padding_mode = \"", padding, "\", align_corners = ", align, "> (x, grid) }"));
}

// The distance of each row of a from each row of b.
void import_CDist(OnnxNode& node) {
  const std::string metric = word_of(node, "metric", "sqeuclidean", {"euclidean", "sqeuclidean"});
  if (node.type(0).rank() != 2 || node.type(1).rank() != 2) node.bad("rows of ", node.type(0), " and ", node.type(1));
  set_body(node, 2, 2,
           concat("(a, b) => (y) { one = Constant <value_ints = [1]> () zero = Constant <value_ints = [0]> () "
                  "two = Constant <value_ints = [2]> () rows = Unsqueeze(a, one) others = Unsqueeze(b, zero) "
                  "off = Sub(rows, others) square = Mul(off, off) sum = ReduceSum <keepdims = 0> (square, two) y = ",
                  metric == "euclidean" ? "Sqrt(sum)" : "Identity(sum)", " }"));
}

// Data that are quantized in blocks, of which some are picked along an axis.
void import_GatherBlockQuantized(OnnxNode& node) {
  const TensorType data = node.type(0);
  const int64_t gather = normalize_axis(node.int_attribute("gather_axis", 0), data.rank()),
                quantize = normalize_axis(node.int_attribute("quantize_axis", 1), data.rank()),
                block = node.int_attribute("block_size", 128), bits = node.int_attribute("bits", 4);
  if (!is_small_int(data.dtype)) node.unsupported("data ", data, " of ", bits, " bits");
  if (bits != 4) node.bad("bits is ", bits, " of data ", data);
  if (block < 16 || (block & (block - 1)) != 0) node.bad("block_size is ", block);
  if (gather == quantize) node.unsupported("blocks along the axis that is picked from");
  const int64_t moved = quantize < gather ? quantize : quantize + node.type(1).rank() - 1;
  const bool shifted = node.has(3);
  const std::string pick = concat("Gather <axis = ", gather, "> ");
  set_body(node, 3, 4,
           concat("(data, index, scales", node.input_count() > 3 ? ", zeros" : "", ") => (y) { picked = ", pick,
                  "(data, index) scale = ", pick, "(scales, index) ",
                  shifted ? concat("zero = ", pick, "(zeros, index) ") : "", "y = DequantizeLinear <axis = ", moved,
                  ", block_size = ", block, "> (picked, scale", shifted ? ", zero" : "", ") }"));
}

}  // namespace temper::microsoft
