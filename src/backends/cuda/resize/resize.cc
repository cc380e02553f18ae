// SPDX-License-Identifier: Apache-2.0
// resize on GPUs. The last two axes of images, moved or interpolated from two neighbours along an axis, have kernels of
// their own for each layout (resize_channels.cu, resize_rows.cu).
#include "graph/ops/resize.h"

#include <algorithm>

#include "backends/cuda/copy/copy.h"
#include "backends/cuda/support/constants.h"
#include "backends/cuda/support/program_code.h"
#include "base/checked.h"
#include "base/half.h"
#include "base/parse.h"

namespace temper::cuda {

namespace {

constexpr int64_t kUnrolled = 64;  // taps of one element, all axes together

struct TableEntry {  // struct Tap of resize.cu
  int32_t index, padding;
  double weight;
};

const ops::Resize& op_of(const Problem& problem) { return problem.op.get<ops::Resize>(); }

bool moves_elements(const ops::Resize& op) {
  return op.kind == ops::ResizeKind::nearest && op.coordinate != ops::ResizeCoordinate::tf_crop_and_resize;
}

std::vector<size_t> resized_axes(const Problem& problem) {
  const Dims in = problem.inputs[0].dims(), out = problem.outputs[0].dims();
  std::vector<size_t> axes;
  for (size_t axis = 0; axis < in.size(); ++axis)
    if (!op_of(problem).is_identity_along(axis, in[axis], out[axis])) axes.push_back(axis);
  return axes;
}

Support supports(const Problem& problem) {
  if (!problem.op.is<ops::Resize>()) return refused("not a resize");
  for (size_t i = 1; i < problem.inputs.size(); ++i)
    if (problem.inputs[i].present) return refused("its size is data");
  if (problem.inputs[0].type.dtype == DType::boolean && !moves_elements(op_of(problem)))
    return refused("an interpolation of bool");
  for (int64_t size : problem.outputs[0].dims())
    if (size >= int64_t(1) << 26) return refused("an axis of ", size, " elements");
  return supported();
}

struct ImageTaps {  // struct Taps of resize_taps.cuh
  int32_t index[2];
  float weight[2];
};

// Whether the kernels for images take the problem: the last one or two axes are resized, and elements move or are
// interpolated between two neighbours along each of them.
bool is_of_images(const Problem& problem) {
  const auto& op = op_of(problem);
  const DType dtype = problem.inputs[0].type.dtype;
  const Dims in = problem.inputs[0].dims(), out = problem.outputs[0].dims();
  if (out.size() < 3 || out.size() > 4 || !small_positions(element_count(out)) || !small_positions(element_count(in)))
    return false;
  for (size_t axis : {0, 1})
    if (!op.is_identity_along(axis, in[axis], out[axis])) return false;
  if (resized_axes(problem).empty() || element_count(out) == 0) return false;
  return moves_elements(op) ||
         (op.kind == ops::ResizeKind::linear && !op.antialias &&
          op.coordinate != ops::ResizeCoordinate::tf_crop_and_resize && (dtype == DType::f32 || is_half(dtype)));
}

// What its elements are made of along an axis, and of how many taps.
std::pair<std::vector<ImageTaps>, int64_t> image_taps(const Problem& problem, size_t axis) {
  const auto& op = op_of(problem);
  const int64_t in = problem.inputs[0].dims()[axis], out = problem.outputs[0].dims()[axis];
  std::vector<ImageTaps> result;
  if (op.is_identity_along(axis, in, out)) {
    for (int32_t i = 0; i < out; ++i) result.push_back({{i, i}, {1, 0}});
    return {std::move(result), 1};
  }
  const ops::ResizeTable table = op.table(axis, in, out);
  for (size_t i = 0; i < table.index.size(); i += size_t(table.taps)) {
    const size_t last = i + size_t(table.taps) - 1;
    result.push_back(
        {{int32_t(table.index[i]), int32_t(table.index[last])}, {float(table.weight[i]), float(table.weight[last])}});
  }
  return {std::move(result), table.taps};
}

constexpr std::string_view kEach = "each=";         // vectors that a thread of the kernels for images computes
constexpr std::array<int64_t, 3> kEachOf{8, 4, 1};  // the more, the more they share

// By the kernels for images.
Recipe::Work image_work(const Problem& problem, const Config& config) {
  const Port &x = problem.inputs[0], &y = problem.outputs[0];
  const DType dtype = x.type.dtype;
  const Dims dims = y.dims();
  const bool last = config.outputs[0] == Layout::channels_last, has_h = dims.size() == 4;
  const size_t w = dims.size() - 1;
  const int64_t out_h = has_h ? dims[2] : 1, out_w = dims[w], channels = dims[1];
  std::vector<ImageTaps> table{{{0, 0}, {1, 0}}};
  int64_t taps_h = 1;
  if (has_h) std::tie(table, taps_h) = image_taps(problem, 2);
  const auto [across, taps_w] = image_taps(problem, w);
  table.insert(table.end(), across.begin(), across.end());

  int64_t vector = 16 / size_of(dtype);
  while ((last ? channels : out_w) % vector) vector /= 2;
  const Dims from = logical_strides(x, config.inputs[0]), to = logical_strides(y, config.outputs[0]);
  const int64_t vectors = (last ? channels : out_w) / vector;
  const std::string_view text = config.text;
  const int64_t each = text.starts_with(kEach) ? parse_number<int64_t>(text.substr(kEach.size())).value_or(0) : 0;
  if (std::find(kEachOf.begin(), kEachOf.end(), each) == kEachOf.end())
    fail(ErrorKind::bad_file, "cuda.resize has no '", text, "' for images");
  Job job;
  job.entry = last ? "resize_channels" : "resize_rows";
  job.overlap = true;
  job.slots = {{Slot::Kind::input, 0, 0}, {Slot::Kind::packed, 0, 0}, {Slot::Kind::output, 0, 0}};
  job.source.text =
      concat("#include \"backends/cuda/support/scalar.cuh\"\n", type_alias("T", memory_type(dtype)),
             int_constants({{"V", vector}, {"TAPS_H", taps_h}, {"TAPS_W", taps_w}, {last ? "PIXELS" : "PLANES", each}}),
             "#include \"backends/cuda/resize/", job.entry, ".cu\"\n");
  ParameterWriter writer;
  int64_t count = 0;
  if (last) {
    const int64_t groups = ceil_div(out_w, each);
    count = dims[0] * out_h * groups * vectors;
    writer.put(uint32_t(count)).put_divisor(vectors).put_divisor(groups).put_divisor(out_h).put(int32_t(out_w));
    for (const Dims& strides : {from, to}) writer.put(strides[0]).put(has_h ? strides[2] : int64_t(0)).put(strides[w]);
  } else {
    const int64_t planes = dims[0] * channels;
    count = ceil_div(planes, each) * out_h * vectors;
    writer.put(uint32_t(count)).put(uint32_t(planes)).put_divisor(vectors).put_divisor(out_h);
    for (const Dims& strides : {from, to}) writer.put(strides[1]).put(has_h ? strides[2] : int64_t(0));
  }
  job.parameters = writer.finish();
  job.shape.block = {256, 1, 1};
  job.shape.grid = {blocks_for(count, 256), 1, 1};
  Recipe::Work out;
  out.packed.resize(table.size() * sizeof(ImageTaps));
  std::memcpy(out.packed.data(), table.data(), out.packed.size());
  out.packed_bytes = int64_t(out.packed.size());
  out.jobs.push_back(std::move(job));
  return out;
}

std::vector<Config> configs(const Problem& problem, const GpuProperties& gpu) {
  std::vector<Config> all;
  const Dims dims = problem.outputs[0].dims();
  for (const Config& config : same_layout_configs(problem, gpu)) {
    if (!is_of_images(problem)) {
      all.push_back(config);
      continue;
    }
    std::vector<int64_t> each(kEachOf.begin(), kEachOf.end());
    constexpr int64_t kThreads = 2048, kVector = 8;  // of an SM
    if (element_count(dims) < gpu.sms * kThreads * kVector * kEachOf[0]) std::reverse(each.begin(), each.end());
    for (int64_t e : each) all.push_back({concat(kEach, e), config.inputs, config.outputs});
  }
  return all;
}

Recipe::Work work(const Problem& problem, const Config& config, const GpuProperties&) {
  const auto& op = op_of(problem);
  const TensorType& x = problem.inputs[0].type;
  const Dims in = x.dims(), dims = problem.outputs[0].dims();
  const int64_t count = element_count(dims);
  Recipe::Work out;
  if (count == 0) return out;
  const Dims in_strides = logical_strides(problem.inputs[0], config.inputs[0]),
             out_strides = logical_strides(problem.outputs[0], config.outputs[0]);
  std::vector<size_t> order(dims.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return out_strides[a] > out_strides[b]; });
  const std::vector<size_t> resized = resized_axes(problem);
  if (resized.empty())
    return {copy_jobs(size_of(x.dtype), dims, in_strides, out_strides, 0, 0, {Slot::Kind::input, 0, 0},
                      {Slot::Kind::output, 0, 0}),
            0,
            {},
            {}};
  if (is_of_images(problem)) return image_work(problem, config);
  Dims sizes;
  std::vector<Dims> walk(2);
  for (size_t axis : order) {
    const bool is_resized = std::find(resized.begin(), resized.end(), axis) != resized.end();
    sizes.push_back(dims[axis]);
    walk[0].push_back(is_resized ? 0 : in_strides[axis]);
    walk[1].push_back(out_strides[axis]);
  }
  std::string taps, axes;
  std::vector<uint32_t> starts;
  std::vector<TableEntry> table;
  int64_t all_taps = 1;
  for (size_t axis : resized) {
    const ops::ResizeTable t = op.table(axis, in[axis], dims[axis]);
    const bool move = moves_elements(op);
    starts.push_back(uint32_t(table.size()));
    all_taps = move ? 1 : checked_mul(all_taps, t.taps);
    taps += concat(taps.empty() ? "" : ", ", move ? 1 : t.taps);
    axes += concat(axes.empty() ? "" : ", ", std::find(order.begin(), order.end(), axis) - order.begin());
    for (size_t i = 0; i < t.index.size(); ++i) table.push_back({int32_t(t.index[i]), 0, move ? 1.0 : t.weight[i]});
  }
  Job job;
  const bool narrow = x.dtype == DType::f32 || is_half(x.dtype);
  job.entry = "resize";
  job.overlap = true;
  job.slots = {{Slot::Kind::input, 0, 0}, {Slot::Kind::packed, 0, 0}, {Slot::Kind::output, 0, 0}};
  job.source.text = concat(
      include_line("support/scalar.cuh"),
      int_constants(
          {{"RANK", sizes.size()}, {"RESIZED", starts.size()}, {"UNROLL", all_taps > kUnrolled ? 1 : kUnrolled}}),
      "__device__ constexpr int TAPS[] = {", taps, "}, AXIS[] = {", axes, "};\n",
      bool_constants({{"NEAREST", moves_elements(op)}, {"ROUND", !is_float(x.dtype)}}),
      type_alias("Index", small_positions(count) ? "u32" : "u64"), type_alias("Input", memory_type(x.dtype)),
      type_alias("Wide", narrow ? "float" : "double"), include_line("resize/resize.cu"));
  job.shape.block = {256, 1, 1};
  job.shape.grid = {blocks_for(count, 256), 1, 1};
  ParameterWriter writer;
  writer.put(uint64_t(count)).put(op.extrapolation).put_walk(sizes, walk);
  for (size_t axis : resized) writer.put(in_strides[axis]);
  for (uint32_t start : starts) writer.put(start);
  job.parameters = writer.finish();
  out.packed.resize(table.size() * sizeof(TableEntry));
  std::memcpy(out.packed.data(), table.data(), out.packed.size());
  out.packed_bytes = int64_t(out.packed.size());
  out.jobs.push_back(std::move(job));
  return out;
}

}  // namespace

extern const Recipe resize_recipe;
const Recipe resize_recipe{"cuda.resize", 3, supports, configs, work, {}, takes_all_parts};

}  // namespace temper::cuda
