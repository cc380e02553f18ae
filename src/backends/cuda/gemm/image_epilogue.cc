// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/gemm/image_epilogue.h"

#include "backends/cuda/support/constants.h"
#include "backends/cuda/support/program_code.h"
#include "graph/ops/conv.h"
#include "graph/ops/matmul.h"

namespace temper::cuda {

namespace {

// Which axis of the output is innermost in memory: channels, or a matrix's columns.
size_t inner_axis(const Problem& problem) { return conv_of(problem.op) ? 1 : problem.outputs[0].dims().size() - 1; }

// What the text of an epilogue defines; ImageEpilogue says what it means.
struct EpilogueText {
  std::string code;              // the function epilogue
  std::string_view output, acc;  // types
  std::string column_fields, row_fields, column_loads, row_loads, epilogue;

  std::string text(bool first) const;
};

std::string EpilogueText::text(bool first) const {
  const std::string types = concat(code, type_alias("Output", output), type_alias("Acc", acc), "struct ColumnExtras { ",
                                   column_fields, "};\nstruct RowExtras { ", row_fields, "};\n");
  const std::string_view prefix = first ? "FIRST_" : "";
  return concat(first ? concat("namespace first {\n", types, "}\n") : types,
                macro(concat(prefix, "COLUMN_EXTRAS(to, c)"), column_loads),
                macro(concat(prefix, "ROW_EXTRAS(to, at)"), row_loads),
                macro(concat(prefix, "EPILOGUE(sum, columns, row, v)"), concat(first ? "first::" : "", epilogue)));
}

}  // namespace

const Program& epilogue_of(const Problem& problem) {
  const ops::Conv* conv = conv_of(problem.op);
  return conv ? conv->epilogue : problem.op.get<ops::MatMul>().epilogue;
}

Support image_epilogue_supports(const Problem& problem) {
  const Dims out = problem.outputs[0].dims();
  const size_t inner = inner_axis(problem);
  for (size_t i = 2; i < problem.inputs.size(); ++i) {
    const Dims from = problem.inputs[i].dims();
    if (from == out) continue;
    const Dims strides = broadcast_strides(from, out);
    for (size_t axis = 0; axis < out.size(); ++axis)
      if (axis != inner && strides[axis] != 0)
        return refused("an epilogue input ", from, " along other axes than channels");
  }
  return supported();
}

std::vector<Layout> image_epilogue_layouts(const Problem& problem) {
  std::vector<Layout> layouts(problem.inputs.size(), Layout::plain);
  for (size_t i = 2; i < problem.inputs.size(); ++i)
    if (problem.inputs[i].dims() == problem.outputs[0].dims()) layouts[i] = Layout::channels_last;
  return layouts;
}

bool is_channel_array(const Problem& problem, size_t i) {
  const Dims from = problem.inputs[i].dims(), out = problem.outputs[0].dims();
  return from != out && size_of(problem.inputs[i].type.dtype) == 4 &&
         broadcast_strides(from, out)[inner_axis(problem)] != 0;
}

ImageEpilogue image_epilogue(const Problem& problem, DType accumulator, int64_t v, bool first, int input) {
  const Dims out = problem.outputs[0].dims();
  ImageEpilogue epilogue;
  const Program& program = epilogue_of(problem);
  std::vector<DType> dtypes{accumulator};
  std::string call, fields[2], loads[2];  // of channels, of positions
  for (size_t i = 2; i < problem.inputs.size(); ++i) {
    const Dims from = problem.inputs[i].dims();
    const bool whole = from == out, splat = !whole && broadcast_strides(from, out)[inner_axis(problem)] == 0;
    const DType dtype = problem.inputs[i].type.dtype;
    const std::string name = concat('e', int(i) + input);
    const bool bytes = whole && v % 4 == 0 && wants_bytes_as_floats(program, int(i) - 1, dtype);
    const std::string_view type = memory_type(dtype);
    const std::string loaded = concat(whole ? "(row).x" : "(columns).x", i);
    dtypes.push_back(bytes ? DType::f32 : dtype);
    epilogue.parameters += concat("const ", type, "* ", name, ", ");
    fields[whole] += concat(bytes ? "Bytes<" : "Vec<", type, ", ", v, "> x", i, "; ");
    loads[whole] += concat("(to).x", i, " = load_",
                           splat   ? "splat"
                           : bytes ? "bytes"
                                   : "vector",
                           '<', v, ">(", name,
                           splat   ? ""
                           : whole ? " + (at)"
                                   : " + (c)",
                           "); ");
    call += bytes ? byte_argument(type, loaded) : concat(", hold(", loaded, ".at[v])");
    if (bytes) want_byte_pattern(fields[0], loads[0]);
    epilogue.names += concat(name, ", ");
    if (is_channel_array(problem, i)) epilogue.arrays.push_back(concat(type, ", ", name));
    epilogue.slots.push_back({Slot::Kind::input, int(i) + input, 0});
  }
  const EpilogueText parts{
      .code = epilogue_code(program, dtypes),
      .output = memory_type(problem.outputs[0].type.dtype),
      .acc = held_type(accumulator),
      .column_fields = fields[0],
      .row_fields = fields[1],
      .column_loads = loads[0],
      .row_loads = loads[1],
      .epilogue = concat("epilogue(", accumulator == DType::f16 ? "op::round_f16" : "", "(sum)", call, ")"),
  };
  epilogue.text = parts.text(first);
  return epilogue;
}

}  // namespace temper::cuda
