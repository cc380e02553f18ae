// SPDX-License-Identifier: Apache-2.0
// Convolutions with few channels in a group, computed directly, without a product of matrices.
#include "backends/axes.h"
#include "backends/cuda/recipe.h"
#include "backends/cuda/support/constants.h"
#include "backends/cuda/support/host_transpose.h"
#include "backends/cuda/support/program_code.h"
#include "base/checked.h"
#include "graph/ops/conv.h"
#include "graph/ops/pointwise.h"
#include "graph/ops/window.h"

namespace temper::cuda {

namespace {

constexpr int64_t kMostChannels = 8;  // of a group; above, the implicit product is better in every case

const ops::Conv& op_of(const Problem& problem) { return problem.op.get<ops::Conv>(); }

bool depthwise(const Problem& problem) {
  const Dims w = problem.inputs[1].dims();
  return w[1] == 1 && w[0] == op_of(problem).group && problem.inputs[1].is_constant;
}

Support supports(const Problem& problem) {
  if (!problem.op.is<ops::Conv>()) return refused("not a convolution");
  const auto& op = op_of(problem);
  const DType a = problem.inputs[0].type.dtype, b = problem.inputs[1].type.dtype;
  if (problem.inputs[1].dims()[1] > kMostChannels)
    return refused("a group has ", problem.inputs[1].dims()[1], " channels; at most ", kMostChannels);
  if (a != b && !(a == DType::u8 && b == DType::i8)) return refused("a product of ", a, " and ", b);
  if (!small_positions(element_count(problem.outputs[0].dims()))) return refused("more than 2147418112 elements");
  for (int64_t size : problem.inputs[0].dims())
    if (!small_positions(size)) return refused("an axis of ", size, " elements");
  for (const auto* numbers : {&op.strides, &op.dilations, &op.pads})
    for (int64_t number : *numbers)
      if (number < 0 || !small_positions(number)) return refused("a stride, dilation or padding of ", number);
  if (op.epilogue.steps.size() > 1000)
    return refused("an epilogue of ", op.epilogue.steps.size(), " steps; at most 1000 are compiled");
  if (op.epilogue.inputs > 17) return refused("an epilogue of ", op.epilogue.inputs, " inputs; at most 17");
  return supported();
}

std::vector<Config> configs(const Problem& problem, const GpuProperties&) {
  const Dims out_dims = problem.outputs[0].dims();
  std::vector<Config> out;
  for (Layout layout : {Layout::channels_last, Layout::plain}) {
    Config config{"", std::vector<Layout>(problem.inputs.size(), Layout::plain), {layout}};
    config.inputs[0] = layout;
    for (size_t i = 2; i < problem.inputs.size(); ++i)
      if (problem.inputs[i].dims() == out_dims) config.inputs[i] = layout;
    out.push_back(std::move(config));
  }
  return out;
}

// The constants that conv_direct.cu is compiled with; it says what they mean.
struct DirectConvConstants {
  std::string_view a, b, output, acc, sum;  // types
  int64_t v, row_rank, operands;
  bool depthwise;
  std::string extras, epilogue;

  std::string text() const;
};

std::string DirectConvConstants::text() const {
  return concat(type_alias("A", a), type_alias("B", b), type_alias("Output", output), type_alias("Acc", acc),
                type_alias("Sum", sum), int_constants({{"V", v}, {"ROW_RANK", row_rank}, {"OPERANDS", operands}}),
                bool_constants({{"DEPTHWISE", depthwise}}), macro("EXTRAS", extras), macro("EPILOGUE(x)", epilogue));
}

Recipe::Work work(const Problem& problem, const Config& config, const GpuProperties&) {
  const auto& op = op_of(problem);
  const Port &x = problem.inputs[0], &w = problem.inputs[1];
  const Dims in = x.dims(), weights = w.dims(), out_dims = problem.outputs[0].dims();
  Recipe::Work out;
  if (element_count(out_dims) == 0) return out;
  const Layout layout = config.outputs[0];
  const Dims in_strides = logical_strides(in, config.inputs[0]);
  const ops::Window window = op.window(weights);
  const size_t spatial = in.size() - 2, first = 3 - spatial;
  std::array<int32_t, 3> kernel{1, 1, 1}, stride{1, 1, 1}, pad{0, 0, 0}, dilation{1, 1, 1}, size{1, 1, 1};
  std::array<int64_t, 3> out_size{1, 1, 1}, spatial_stride{0, 0, 0};
  int64_t taps = 1;
  for (size_t i = 0; i < spatial; ++i) {
    const size_t s = first + i;
    kernel[s] = int32_t(weights[i + 2]);
    stride[s] = int32_t(op.strides[i]);
    dilation[s] = int32_t(op.dilations[i]);
    pad[s] = int32_t(ops::window_pads(window, int64_t(i), in[i + 2]).first);
    size[s] = int32_t(in[i + 2]);
    out_size[s] = out_dims[i + 2];
    spatial_stride[s] = in_strides[i + 2];
    taps *= weights[i + 2];
  }
  // Neighbouring channels lie side by side in channels_last only.
  const bool by_channel = depthwise(problem) && layout == Layout::channels_last;
  int64_t vector = by_channel ? std::max<int64_t>(1, 8 / size_of(x.type.dtype)) : 1;
  while (weights[0] % vector) vector /= 2;
  if (by_channel) {
    out.consumed.assign(problem.inputs.size(), false);
    out.consumed[1] = true;
    out.packed_bytes = byte_count(w.type.dtype, weights);
    if (w.constant) {  // [C, 1, taps] as [taps, C]
      out.packed.resize(size_t(out.packed_bytes));
      transpose_on_host(w.constant->raw().data(), weights[0], taps, size_of(w.type.dtype), out.packed.data(),
                        weights[0]);
    }
  }
  const DType accumulator = ops::accumulator_of(x.type.dtype, w.type.dtype);
  const std::string_view sum = accumulator == DType::f16 || accumulator == DType::f32 ? "float"
                               : accumulator == DType::f64                            ? "double"
                               : size_of(accumulator) == 8                            ? "u64"
                                                                                      : "u32";
  Axes rows{{out_dims[0]}, {}};
  rows.sizes.insert(rows.sizes.end(), out_dims.begin() + 2, out_dims.end());
  std::vector<DType> dtypes{accumulator};
  std::vector<int64_t> column_strides;
  std::string extras, call;
  Job job;
  job.entry = "conv_direct";
  job.overlap = true;
  job.slots = {{Slot::Kind::input, 0, 0}, by_channel ? Slot{Slot::Kind::packed, 0, 0} : Slot{Slot::Kind::input, 1, 0}};
  auto add = [&](const Dims& strides) {
    column_strides.push_back(strides[1]);
    rows.strides.push_back({strides[0]});
    rows.strides.back().insert(rows.strides.back().end(), strides.begin() + 2, strides.end());
  };
  add(logical_strides(out_dims, layout));
  for (size_t i = 2; i < problem.inputs.size(); ++i) {
    const Dims from = problem.inputs[i].dims();
    const size_t o = i - 1;
    add(from == out_dims ? logical_strides(from, config.inputs[i]) : broadcast_strides(from, out_dims));
    dtypes.push_back(problem.inputs[i].type.dtype);
    extras += concat("const ", memory_type(dtypes.back()), "* e", o, ", ");
    call += concat(", hold(e", o, "[at[", o, "] + i64(c) * p.column_stride[", o, "]])");
    job.slots.push_back({Slot::Kind::input, int(i), 0});
  }
  job.slots.push_back({Slot::Kind::output, 0, 0});
  int64_t row_count = 1;
  for (int64_t n : rows.sizes) row_count *= n;
  merge_axes(rows);
  ProgramNumbers numbers;
  const ProgramCode code = program_code(op.epilogue, dtypes, "epilogue", numbers);
  const DirectConvConstants constants{
      .a = memory_type(x.type.dtype),
      .b = memory_type(w.type.dtype),
      .output = memory_type(problem.outputs[0].type.dtype),
      .acc = held_type(accumulator),
      .sum = sum,
      .v = vector,
      .row_rank = int64_t(rows.sizes.size()),
      .operands = int64_t(column_strides.size()),
      .depthwise = by_channel,
      .extras = extras,
      .epilogue = concat(code.call, accumulator == DType::f16 ? "op::round_f16" : "", "(x)", call, ")"),
  };
  job.source.text =
      concat("#include \"backends/cuda/support/scalar.cuh\"\n", code.text, macro("NUMBERS", numbers.text()),
             constants.text(), "#include \"backends/cuda/conv/conv_direct.cu\"\n");
  ParameterWriter writer;
  const int64_t columns = weights[0] / vector;
  writer.put(uint32_t(row_count)).put_divisor(columns).put_divisor(weights[0] / op.group);
  for (size_t axis = 3; axis-- > 0;) writer.put_divisor(out_size[axis]);
  writer.put(int32_t(weights[1]));
  for (const auto& three : {kernel, stride, pad, dilation, size})
    for (int32_t value : three) writer.put(value);
  writer.put(in_strides[0]);
  for (int64_t value : spatial_stride) writer.put(value);
  writer.put(in_strides[1])
      .put(by_channel ? int64_t(1) : weights[1] * taps)
      .put(by_channel ? weights[0] : int64_t(1))
      .put(by_channel ? int64_t(0) : taps);
  for (int64_t value : column_strides) writer.put(value);
  job.parameters = writer.put_walk(rows.sizes, rows.strides).put_numbers(numbers.values()).finish();
  job.shape.block = {256, 1, 1};
  job.shape.grid = {blocks_for(row_count * columns, 256), 1, 1};
  out.jobs.push_back(std::move(job));
  return out;
}

}  // namespace

extern const Recipe conv_direct_recipe;
const Recipe conv_direct_recipe{"cuda.conv.direct", 2, supports, configs, work};

}  // namespace temper::cuda
