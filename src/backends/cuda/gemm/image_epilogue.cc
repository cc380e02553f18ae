// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/gemm/image_epilogue.h"

#include <cstring>

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
  std::string column_fields, row_fields, line_fields, image_fields, column_loads, row_loads, line_loads, image_loads,
      epilogue;
  std::string_view name = "EPILOGUE(sum, columns, row, line, v)";

  std::string text(EpiloguePart part) const;
};

std::string EpilogueText::text(EpiloguePart part) const {
  const std::string types =
      concat(code, type_alias("Output", output), type_alias("Acc", acc), "struct ImageExtras { ", image_fields,
             "};\nstruct ColumnExtras : ImageExtras { ", column_fields, "};\nstruct RowExtras { ", row_fields,
             "};\nstruct LineExtras { ", line_fields, "};\n");
  struct Names {
    std::string_view space, prefix;
  };
  constexpr Names kNames[] = {{"", ""}, {"first", "FIRST_"}, {"third", "THIRD_"}, {"shortcut", "SHORTCUT_"}};
  const auto& [space, prefix] = kNames[size_t(part)];
  const bool apart = part != EpiloguePart::only;
  return concat(apart ? concat("namespace ", space, " {\n", types, "}\n") : types,
                macro(concat(prefix, "COLUMN_EXTRAS(to, c)"), column_loads),
                macro(concat(prefix, "IMAGE_EXTRAS(to, image, c)"), image_loads),
                macro(concat(prefix, "ROW_EXTRAS(to, at)"), row_loads),
                macro(concat(prefix, "LINE_EXTRAS(to, r)"), line_loads),
                macro(concat(prefix, name), apart ? concat(space, "::", epilogue) : epilogue));
}

}  // namespace

const Program& epilogue_of(const Problem& problem) {
  const ops::Conv* conv = conv_of(problem.op);
  return conv ? conv->epilogue : problem.op.get<ops::MatMul>().epilogue;
}

// Whether input `i`, which is broadcast, differs along just those axes for which `along` is true.
template <class Along>
static bool differs_along(const Problem& problem, size_t i, Along&& along) {
  const Dims from = problem.inputs[i].dims(), out = problem.outputs[0].dims();
  if (from == out) return false;
  const Dims strides = broadcast_strides(from, out);
  for (size_t axis = 0; axis < out.size(); ++axis)
    if ((strides[axis] != 0) != along(axis)) return false;
  return true;
}

// Whether input `i` has one value for each row of a matrix; behind constant weights, of all matrices, which are one.
static bool along_rows(const Problem& problem, size_t i) {
  const Dims from = problem.inputs[i].dims(), out = problem.outputs[0].dims();
  const size_t rank = out.size();
  if (!problem.op.is<ops::MatMul>() || rank < 2 || from == out) return false;
  if (problem.inputs[1].is_constant)
    return element_count(from) > 1 && from.back() == 1 && element_count(from) * out.back() == element_count(out);
  return differs_along(problem, i, [&](size_t axis) { return axis + 2 == rank; });
}

Support image_epilogue_supports(const Problem& problem, bool per_image) {
  const Dims out = problem.outputs[0].dims();
  const size_t inner = inner_axis(problem);
  for (size_t i = 2; i < problem.inputs.size(); ++i) {
    const Dims from = problem.inputs[i].dims();
    if (from == out || along_rows(problem, i) || (per_image && along_images(problem, i))) continue;
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
    if (problem.inputs[i].dims() == problem.outputs[0].dims() || along_images(problem, i))
      layouts[i] = Layout::channels_last;
  return layouts;
}

bool along_channels(const Problem& problem, size_t i) {
  const Dims from = problem.inputs[i].dims(), out = problem.outputs[0].dims();
  return from != out && broadcast_strides(from, out)[inner_axis(problem)] != 0;
}
bool along_images(const Problem& problem, size_t i) {
  return conv_of(problem.op) && differs_along(problem, i, [](size_t axis) { return axis < 2; });
}
bool is_channel_array(const Problem& problem, size_t i) {
  return size_of(problem.inputs[i].type.dtype) == 4 && along_channels(problem, i) && !along_images(problem, i);
}

// `gate`: null but for gated_epilogue, and `output` is of its result.
static ImageEpilogue epilogue_text(const Problem& problem, const Program* gate, DType output, DType accumulator,
                                   int64_t v, ProgramNumbers& numbers, EpiloguePart part,
                                   const EpilogueInputs& inputs) {
  const Dims out = problem.outputs[0].dims();
  ImageEpilogue epilogue;
  const Program& program = epilogue_of(problem);
  std::vector<DType> dtypes{accumulator};
  enum { kColumns, kRows, kLines, kImages };
  std::string call, fields[4], loads[4];  // of channels, of positions, of rows of a matrix, of channels of an image
  for (size_t i = 2; i < problem.inputs.size(); ++i) {
    const Dims from = problem.inputs[i].dims();
    const bool of_row = along_rows(problem, i), of_image = along_images(problem, i), whole = from == out,
               splat = !whole && broadcast_strides(from, out)[inner_axis(problem)] == 0;
    const int kind = whole ? kRows : of_row ? kLines : of_image ? kImages : kColumns;
    const DType dtype = problem.inputs[i].type.dtype;
    const bool joined = int(i) == inputs.joined;
    const int input = int(i) + inputs.shift - (inputs.joined >= 0 && int(i) > inputs.joined ? 1 : 0);
    const std::string name = joined ? std::string(kJoined) : concat('e', input);
    const bool bytes = whole && v % 4 == 0 && wants_bytes_as_floats(program, int(i) - 1, dtype);
    const std::string_view type = memory_type(dtype);
    const std::string loaded = concat(whole ? "(row).x" : of_row ? "(line).x" : "(columns).x", i);
    dtypes.push_back(bytes ? DType::f32 : dtype);
    fields[kind] += concat(bytes ? "Bytes<" : "Vec<", type, ", ", of_row ? 1 : v, "> x", i, "; ");
    loads[kind] += concat("(to).x", i, " = load_",
                          splat   ? "splat"
                          : bytes ? "bytes"
                                  : "vector",
                          '<', of_row ? 1 : v, ">(", name,
                          of_row     ? " + (r)"
                          : splat    ? ""
                          : whole    ? " + (at)"
                          : of_image ? " + i64(image) * p.image_ld + (c)"
                                     : " + (c)",
                          "); ");
    call += bytes ? byte_argument(type, loaded) : concat(", hold(", loaded, of_row ? ".at[0])" : ".at[v])");
    if (bytes) want_byte_pattern(fields[kColumns], loads[kColumns]);
    if (joined) continue;
    epilogue.parameters += concat("const ", type, "* ", name, ", ");
    epilogue.names += concat(name, ", ");
    if (is_channel_array(problem, i)) epilogue.arrays.push_back(concat(type, ", ", name));
    epilogue.slots.push_back({Slot::Kind::input, input, 0});
  }
  std::string arguments = concat(accumulator == DType::f16 ? "op::round_f16" : "", "(sum)", call);
  Program whole = program;
  if (gate) {
    // The gate of two programs: its second input's comes first (splice).
    whole = splice(program, splice(program, *gate, 1), 0);
    dtypes.insert(dtypes.end(), dtypes.begin(), dtypes.end());
    std::string other = arguments;
    for (const auto& [from, to] : {std::pair("(sum)", "(other)"), std::pair("(columns)", "(behind)")})
      for (size_t at = 0; (at = other.find(from, at)) != std::string::npos;) other.replace(at, strlen(from), to);
    arguments = concat(other, ", ", arguments);
  }
  const ProgramCode code = finished_code(whole, dtypes, "epilogue", numbers);
  const EpilogueText parts{
      .code = code.text,
      .output = memory_type(output),
      .acc = held_type(accumulator),
      .column_fields = fields[kColumns],
      .row_fields = fields[kRows],
      .line_fields = fields[kLines],
      .image_fields = fields[kImages],
      .column_loads = loads[kColumns],
      .row_loads = loads[kRows],
      .line_loads = loads[kLines],
      .image_loads = loads[kImages],
      .epilogue = concat(code.call, arguments, ")"),
      .name = gate ? "GATED_EPILOGUE(sum, columns, other, behind, v)" : "EPILOGUE(sum, columns, row, line, v)",
  };
  epilogue.text = parts.text(part);
  return epilogue;
}

ImageEpilogue image_epilogue(const Problem& problem, DType accumulator, int64_t v, ProgramNumbers& numbers,
                             EpiloguePart part, const EpilogueInputs& inputs) {
  return epilogue_text(problem, nullptr, problem.outputs[0].type.dtype, accumulator, v, numbers, part, inputs);
}

ImageEpilogue gated_epilogue(const Problem& problem, const Program& gate, DType output, DType accumulator, int64_t v,
                             ProgramNumbers& numbers) {
  return epilogue_text(problem, &gate, output, accumulator, v, numbers, EpiloguePart::only, {});
}

}  // namespace temper::cuda
