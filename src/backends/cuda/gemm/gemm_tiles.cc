// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/gemm/gemm_tiles.h"

#include <algorithm>
#include <cmath>

#include "base/checked.h"
#include "base/parse.h"

namespace temper::cuda {

namespace {

constexpr GemmTile kMatrixTiles[] = {
    {"tile=128x256", 128, 256, 256, 4, 1, 1, 64, 64, true}, {"tile=256x128", 256, 128, 256, 4, 1, 1, 64, 64, true},
    {"tile=128x128", 128, 128, 256, 3, 0, 2, 64, 32, true}, {"tile=128x64", 128, 64, 256, 4, 0, 2, 32, 32, true},
    {"tile=64x128", 64, 128, 128, 4, 0, 2, 32, 64, true},   {"tile=64x64", 64, 64, 128, 4, 0, 3, 32, 32, true},
    {"tile=64x32", 64, 32, 128, 4, 0, 4, 16, 32, true},     {"tile=32x64", 32, 64, 128, 4, 0, 4, 16, 32, false}};
constexpr GemmTile kPlainTiles[] = {{"tile=128x64", 128, 64, 256, 1, 0, 1, 0, 0, false},
                                    {"tile=64x64", 64, 64, 256, 1, 0, 1, 0, 0, false}};
constexpr int kSplits[] = {1, 2, 4, 8};  // blocks of a cluster; more than 8 are not portable

std::span<const GemmTile> tiles_of(bool matrix) {
  return matrix ? std::span<const GemmTile>(kMatrixTiles) : std::span<const GemmTile>(kPlainTiles);
}

// A rough estimate in clocks, with the throughputs of an H100, which ranks candidates.
double expected_clocks(const GemmShape& shape, const GemmTile& tile, int splits, bool matrix, int sms) {
  constexpr double kStart = 2500, kFromCache = 40, kFromMemory = 14;
  const int64_t size = size_of(shape.a), per_slice = (matrix ? 128 : 64) / size;
  const double tiles =
      double(ceil_div(shape.rows, int64_t(tile.rows)) * ceil_div(shape.columns, int64_t(tile.columns)) * shape.batches);
  const double slices = double(ceil_div(ceil_div(shape.depth, per_slice), int64_t(splits)));
  const double blocks = tiles * splits, at_once = double(sms) * tile.blocks;
  const double waves = std::max(1.0, blocks / at_once < 3 ? std::ceil(blocks / at_once) : blocks / at_once);
  const double sharing = std::min(double(tile.blocks), std::ceil(blocks / sms));
  const double bytes = (tile.rows + tile.columns) * (matrix ? 128.0 : 64.0);
  // 32 clocks for 64 by 64 by 32 bytes; one with fewer columns takes the same time for reading a.
  const double units = matrix ? tile.rows / 64.0 * std::max(tile.columns, 64) / 64 *
                                    (tile.groups && shape.a != DType::f32 ? 1 : 1.7) * 4 * 32
                              : double(tile.rows) * tile.columns * double(per_slice) / 100;
  const double slice = std::max({units * sharing, bytes / kFromCache * sharing, 350.0});
  const double finish =
      double(tile.rows * tile.columns) / splits * (double(shape.result_bytes) / kFromMemory + 0.2) * sharing;
  return waves * (kStart + (splits > 1 ? 1500 : 0) + slices * slice + finish);
}

}  // namespace

int64_t gemm_result_bytes(const Problem& problem) {
  int64_t bytes = size_of(problem.outputs[0].type.dtype);
  for (size_t i = 2; i < problem.inputs.size(); ++i)
    if (problem.inputs[i].present && problem.inputs[i].dims() == problem.outputs[0].dims())
      bytes += size_of(problem.inputs[i].type.dtype);
  return bytes;
}

int gemm_stages(const GemmTile& tile, const GpuProperties& gpu) {
  return gpu.capability < 80 ? std::min(tile.stages, 2) : tile.stages;
}

int64_t gemm_shared_bytes(const GemmTile& tile, bool matrix, int64_t stages, int64_t sum_bytes) {
  const int64_t both = tile.rows + tile.columns;
  return std::max<int64_t>(matrix ? stages * both * 128 : 2 * both * (64 + 16),
                           int64_t(tile.rows) * (tile.columns + 8) * sum_bytes);
}

GemmChoice gemm_choice(bool matrix, std::string_view text) {
  GemmChoice choice;
  std::string_view name = text;
  constexpr std::string_view kSplitsText = " splits=";
  if (const size_t at = text.find(kSplitsText); at != text.npos) {
    name = text.substr(0, at);
    const auto splits = parse_number<int>(text.substr(at + kSplitsText.size()));
    for (int known : kSplits)
      if (known == splits) choice.splits = known;
    if (choice.splits == 1) fail(ErrorKind::bad_file, "there is no tile '", text, "'");
  }
  for (const GemmTile& tile : tiles_of(matrix))
    if (tile.text == name) choice.tile = &tile;
  if (!choice.tile) fail(ErrorKind::bad_file, "there is no tile '", text, "'");
  return choice;
}

double gemm_expected_clocks(const GemmShape& shape, std::string_view text, const GpuProperties& gpu) {
  const bool matrix = on_matrix_units(shape.a, shape.b, shape.tf32, gpu);
  const GemmChoice choice = gemm_choice(matrix, text);
  return expected_clocks(shape, *choice.tile, choice.splits, matrix, gpu.sms);
}

std::vector<std::string> gemm_tiles(const GemmShape& shape, size_t most, const GpuProperties& gpu) {
  struct Candidate {
    double clocks;
    std::string text;
  };
  const bool matrix = on_matrix_units(shape.a, shape.b, shape.tf32, gpu);
  const int64_t per_slice = (matrix ? 128 : 64) / size_of(shape.a);
  std::vector<Candidate> candidates;
  for (const GemmTile& tile : tiles_of(matrix)) {
    // Gathering element by element keeps many addresses.
    if (matrix && !shape.vector && tile.rows * tile.columns > 128 * 64) continue;
    if (gemm_shared_bytes(tile, matrix, gemm_stages(tile, gpu), size_of(shape.a) == 8 ? 8 : 4) > gpu.shared_per_block)
      continue;
    if (shape.b_by_rows && tile.columns % 64 != 0) continue;
    for (int splits : kSplits) {
      // A part has at least two slices, and only tiles that do not fill a GPU are shared.
      if (splits > 1 && (ceil_div(shape.depth, per_slice) < 2 * splits || tile.rows * tile.columns > 128 * 128 ||
                         ceil_div(shape.rows, int64_t(tile.rows)) * ceil_div(shape.columns, int64_t(tile.columns)) *
                                 shape.batches * splits >
                             2 * gpu.sms * tile.blocks))
        continue;
      candidates.push_back({expected_clocks(shape, tile, splits, matrix, gpu.sms),
                            splits == 1 ? std::string(tile.text) : concat(tile.text, " splits=", splits)});
    }
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.clocks < b.clocks; });
  std::vector<std::string> out;
  for (const Candidate& candidate : candidates)
    if (out.size() < most) out.push_back(candidate.text);
  return out;
}

}  // namespace temper::cuda
