// SPDX-License-Identifier: Apache-2.0
// normalize on GPUs: layer, instance, group and RMS normalisation, with the programs around it.
#include "graph/ops/normalize.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "backends/cuda/rows/row_programs.h"
#include "base/checked.h"

namespace temper::cuda {

namespace {

const ops::Normalize* normalize_of(const Problem& problem) {
  if (const auto* fused = problem.op.get_if<ops::FusedNormalize>()) return &fused->normalize;
  return problem.op.get_if<ops::Normalize>();
}

RowsOp rows_of(const Problem& problem) {
  const ops::Normalize& op = *normalize_of(problem);
  RowsOp rows;
  rows.axes = op.walked(problem.inputs[0].dims());
  rows.entry = "normalize";
  rows.number = op.epsilon;
  if (const auto* fused = problem.op.get_if<ops::FusedNormalize>()) {
    rows.prologue = fused->prologue;
    rows.epilogue = fused->epilogue;
    rows.gives_input = fused->gives_input;
  }
  const bool wide = !is_half(given_dtype(problem, rows));
  rows.exact = wide && !is_half(problem.outputs[0].type.dtype);
  rows.constants = concat("constexpr bool CENTER = ", op.center, ", MAY_REFINE = ", wide, ";\n");
  return rows;
}

Support supports(const Problem& problem) {
  if (!normalize_of(problem)) return refused("not a normalize");
  return supports_rows(problem, rows_of(problem));
}

std::vector<Config> configs(const Problem& problem, const GpuProperties&) { return row_configs(problem); }

// Groups of channels in channels_last, in two launches (groups.cuh); nothing where the axes are others.
std::optional<Recipe::Work> groups_work(const Problem& problem, const Config& config, const RowsOp& rows,
                                        const GpuProperties& gpu) {
  const ops::Normalize& op = *normalize_of(problem);
  const Dims dims = problem.inputs[0].dims();
  if (config.inputs[0] != Layout::channels_last || dims.size() < 3 || op.axes.empty()) return {};
  const bool images = op.axes[0] == 2;  // each channel by itself
  if (op.axes[0] > 2 || op.axes[0] < 1 || op.axes.size() + size_t(op.axes[0]) != dims.size()) return {};
  const int64_t samples = dims[0], channels = dims[1], group = images ? 1 : channels / op.groups;
  const int64_t positions = element_count(Dims(dims.begin() + 2, dims.end()));
  // A sample is a row, with the channels of all groups.
  RowsOp whole = rows;
  whole.axes.clear();
  for (size_t i = 0; i < dims.size(); ++i) whole.axes.push_back({i, dims[i], 1, i > 0});
  const RowTexts texts(problem, config, whole);
  if (!texts.contiguous || samples > 65535 || !small_positions(channels * positions) ||
      given_dtype(problem, rows) == DType::f64)
    return {};
  const int64_t size = size_of(problem.inputs[0].type.dtype);
  int64_t vector = 16 / size;
  while (channels % vector) vector /= 2;
  // Whole groups and vectors, 128 bytes where there are as many.
  int64_t tile = std::lcm(group, vector);
  for (int64_t least = tile; tile < channels && (tile * size < 128 || channels % tile);) tile += least;
  const int64_t across = tile / vector, down = std::max<int64_t>(1, 256 / across), tiles = channels / tile;
  if (across > 512 || tiles > 65535) return {};
  // Parts of the positions: a few blocks for each SM, some positions for each thread.
  const auto parts = [&](int64_t blocks) {
    return std::clamp<int64_t>(ceil_div(blocks * gpu.sms, samples * tiles), 1,
                               std::max<int64_t>(1, positions / (down * 4)));
  };
  const int64_t chunks = std::min<int64_t>(parts(4), 64), block = ceil_div(across * down, int64_t(32)) * 32;
  const bool exact = !is_half(given_dtype(problem, rows));
  const std::string constants = concat(
      "constexpr int THREADS = 1, ITEMS = 1, BLOCK = ", block, ", LEAST = 1, ACROSS = ", across, ", DOWN = ", down,
      ", TILE = ", tile, ", GROUP = ", group, ", CHUNKS = ", chunks, ", PARTS = ", parts(8), ", CHANNELS = ", channels,
      ", POSITIONS = ", positions,
      ";\nconstexpr bool HELD = false, LOOP = false, FULL = false, FIXED_HELD = false, EARLY = false, EXACT = ", exact,
      ", FIXED_OF_CHANNELS = ", texts.fixed_along_last(), ";\n");
  Recipe::Work out;
  for (const bool sums : {true, false}) {
    Job job = texts.job(concat("normalize/group_", sums ? "sums" : "results"), sums ? "group_sums" : "group_results",
                        vector, true, constants);
    job.slots.push_back({Slot::Kind::workspace, 0, 0});
    job.shape.block = {uint32_t(block), 1, 1};
    job.shape.grid = {uint32_t(sums ? chunks : parts(8)), uint32_t(tiles), uint32_t(samples)};
    out.jobs.push_back(std::move(job));
  }
  out.workspace = samples * chunks * (channels / group) * (exact ? 16 : 8);
  return out;
}

Recipe::Work work(const Problem& problem, const Config& config, const GpuProperties& gpu) {
  const RowsOp rows = rows_of(problem);
  if (element_count(problem.inputs[0].dims()) > 0)
    if (const RowTexts texts(problem, config, rows); !texts.contiguous || texts.n > kMostHeldRow)
      if (auto groups = groups_work(problem, config, rows, gpu)) return *groups;
  return row_programs_work(problem, config, rows, gpu);
}

}  // namespace

extern const Recipe normalize_recipe;
const Recipe normalize_recipe{"cuda.normalize", 5, supports, configs, work};

}  // namespace temper::cuda
