// SPDX-License-Identifier: Apache-2.0
// normalize on GPUs: layer, instance, group and RMS normalisation, with the programs around it.
#include "graph/ops/normalize.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "backends/cuda/rows/row_programs.h"
#include "backends/cuda/support/constants.h"
#include "backends/cuda/support/half_steps.h"
#include "base/checked.h"
#include "graph/ops/fused_decode.h"

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

// Of gathered rows the normalisation alone: rows in the place of the tables that they are picked from.
Problem behind_tables(const Problem& problem, const ops::GatheredNormalize& op) {
  Problem out = problem;
  out.op = ops::FusedNormalize(op.fused);
  out.inputs.resize(problem.inputs.size() - size_t(op.tables));
  for (size_t i = 0; i < size_t(op.tables); ++i) {
    out.inputs[i] = {};
    out.inputs[i].type = {problem.inputs[i].type.dtype, problem.outputs[0].type.shape};
    out.inputs[i].present = true;
  }
  return out;
}

Support gathered_supports(const Problem& problem, const ops::GatheredNormalize& op) {
  const Dims dims = problem.outputs[0].dims();
  if (op.fused.normalize.groups != 1 || op.fused.normalize.axes != std::vector<int64_t>{int64_t(dims.size()) - 1})
    return refused("gathered rows that are not normalised each by itself");
  // The kernel reads whole vectors of rows that begin at one, wherever in their tables they do.
  if (dims.back() * size_of(problem.inputs[0].type.dtype) % 16 != 0)
    return refused("gathered rows of ", dims.back(), " elements, which are no whole vectors");
  const Problem rows = behind_tables(problem, op);
  return supports_rows(rows, rows_of(rows));
}

Support supports(const Problem& problem) {
  if (const auto* gathered = problem.op.get_if<ops::GatheredNormalize>()) return gathered_supports(problem, *gathered);
  if (!normalize_of(problem)) return refused("not a normalize");
  return supports_rows(problem, rows_of(problem));
}

// What groups.cuh is to normalise: samples of [positions, channels] in memory, `group` channels at all positions.
struct Groups {
  RowsOp rows;  // a row is a sample
  int64_t samples = 0, positions = 0, channels = 0, group = 0, vector = 1;
  int64_t pitch = 0;    // elements from one position of input 0 to the next
  bool images = false;  // channels_last; else a sample is a row
  bool exact = false;   // inputs of f32
  int64_t size = 1;     // of an element in memory
  int64_t given = 1;    // bytes of struct Given (row_programs.cc): a vector of each of the prologue's inputs
  int64_t moments() const { return exact ? 16 : 8; }  // bytes of struct Moments
  // Groups that a vector may have channels of.
  int64_t slots() const {
    return group % vector == 0 ? 1 : vector % group == 0 ? vector / group : (vector - 2) / group + 2;
  }
};

// Groups of channels in channels_last, and rows that lie without gaps but do not stay in registers; nothing where the
// axes are others, and where a group is so wide that its vectors are more than a block has threads.
std::optional<Groups> groups_of(const Problem& problem, const Config& config) {
  if (element_count(problem.inputs[0].dims()) == 0) return {};
  const ops::Normalize& op = *normalize_of(problem);
  const Dims dims = problem.inputs[0].dims();
  Groups g;
  g.rows = rows_of(problem);
  const DType given = given_dtype(problem, g.rows);
  g.exact = !is_half(given);
  g.size = size_of(problem.inputs[0].type.dtype);
  g.vector = 16 / g.size;
  if (const RowTexts texts(problem, config, g.rows); texts.contiguous) {
    if (texts.n <= kMostHeldRow) return {};
    while (g.vector > 1 && !texts.aligned(g.vector)) g.vector /= 2;
    g.samples = texts.rows;
    g.positions = texts.n / g.vector;
    g.channels = g.group = g.vector;
  } else {
    if (config.inputs[0] != Layout::channels_last || dims.size() < 3 || op.axes.empty()) return {};
    const int64_t first = op.axes[0];  // from 2 on each channel is by itself
    if (first > 2 || first < 1 || op.axes.size() + size_t(first) != dims.size()) return {};
    g.images = true;
    g.samples = dims[0];
    g.positions = element_count(Dims(dims.begin() + 2, dims.end()));
    g.channels = dims[1];
    g.pitch = problem.inputs[0].pitch;
    g.group = first == 2 ? 1 : g.channels / op.groups;
    while (g.channels % g.vector || g.slots() * g.moments() > 64) g.vector /= 2;
    g.rows.axes.clear();
    for (size_t i = 0; i < dims.size(); ++i) g.rows.axes.push_back({i, dims[i], 1, i > 0});
    if (!RowTexts(problem, config, g.rows).contiguous) return {};
  }
  if (g.pitch == 0) g.pitch = g.channels;
  g.given = 0;
  int64_t widest = 1;
  for (int i = 0; i < g.rows.prologue.inputs; ++i) {
    const int64_t bytes = g.vector * size_of(problem.inputs[size_t(i)].type.dtype),
                  alignment = std::min<int64_t>(bytes, 16);
    g.given = round_up(g.given, alignment) + bytes;
    widest = std::max(widest, alignment);
  }
  g.given = round_up(g.given, widest);
  if (given == DType::f64 || !small_positions(g.positions * g.channels) || !small_positions(g.samples) ||
      std::lcm(g.group, g.vector) / g.vector > 512)
    return {};
  return g;
}

// How blocks share out a sample: each takes `tile` channels of a part of the positions, `across` threads beside each
// other and `down` of them below each other.
struct Shares {
  int64_t tile, tiles, across, down = 1, block = 32;
  bool operator==(const Shares&) const = default;

  // Whole groups and vectors, as many as make so many bytes beside each other where there are so many.
  Shares(const Groups& g, int64_t bytes) : tile(std::lcm(g.group, g.vector)) {
    for (const int64_t least = tile; tile < g.channels && (tile * g.size < bytes || g.channels % tile);) tile += least;
    tiles = g.channels / tile;
    across = tile / g.vector;
  }
  void go_down(int64_t rows) {
    down = std::max<int64_t>(rows, 1);
    block = round_up(across * down, int64_t(32));
  }
  // Shared memory beside what is held (struct Shared of groups.cuh): what threads have of their groups, groups of
  // `parts` parts, and what is made of it.
  int64_t shared(const Groups& g, int64_t parts) const {
    return block * g.slots() * g.moments() + tile / g.group * (parts * g.moments() + 12);
  }
  std::string constants(const Groups& g, const RowTexts& texts, int64_t held, int64_t ahead) const {
    return concat(int_constants({{"BLOCK", block},
                                 {"ACROSS", across},
                                 {"DOWN", down},
                                 {"TILE", tile},
                                 {"GROUP", g.group},
                                 {"CHANNELS", g.channels},
                                 {"PITCH", g.pitch},
                                 {"GIVEN_BYTES", g.given},
                                 {"HELD", held},
                                 {"AHEAD", ahead}}),
                  constants_of<int64_t>("unsigned", {{"POSITIONS", g.positions}}),
                  bool_constants({{"EXACT", g.exact}, {"FIXED_OF_CHANNELS", g.images && texts.fixed_along_last()}}));
  }
};

constexpr std::string_view kOnce = "once", kOnceFine = "once fine", kTwice = "twice", kWide = "wide";

// Whether the threads of a block share whole rows (row_programs.cuh), and no groups are cut.
bool is_by_rows(const Config& config) { return config.text.empty() || config.text == kWide; }

// In one launch: the blocks of a cluster hold a tile of a sample. `fine`: more and smaller blocks, of which an SM has
// four, so that some load while others wait for their cluster or store.
struct Once {
  Shares shares;
  int64_t splits = 1;  // blocks of a cluster
  int64_t rounds = 1, held = 1, ahead = 1, least = 1, blocks = 1;

  Once(const Groups& g, bool fine, const GpuProperties& gpu) : shares(g, 64) {
    // Clusters are of compute capability 9.0 and later. Blocks for all SMs, of a size that leaves room for several.
    const int64_t vectors = shares.across * g.positions, tiles = g.samples * shares.tiles;
    while (gpu.capability >= 90 && splits < 8 && 2 * splits <= g.positions && vectors > splits * 512 &&
           (tiles * splits < 2 * gpu.sms || vectors * g.given > splits * (fine ? 24 << 10 : 40 << 10)))
      splits *= 2;
    blocks = tiles * splits;
    // A few rounds, all of which are on their way at once; two blocks of an SM (`fine`: four) have registers for that.
    constexpr int64_t kFew = 128, kMost = 512;
    const int64_t kMany = fine ? 256 : 320;
    const int64_t positions = ceil_div(g.positions, splits), most_ahead = std::clamp<int64_t>(128 / g.given, 1, 8),
                  threads = positions * shares.across > kMany * most_ahead ? kMost : kMany;
    const auto rounds_of = [&](int64_t of) { return ceil_div(positions, std::max<int64_t>(1, of / shares.across)); };
    rounds = std::max(rounds_of(threads), std::min<int64_t>(rounds_of(kFew), 4));
    shares.go_down(ceil_div(positions, rounds));
    rounds = ceil_div(positions, shares.down);
    ahead = std::min(rounds, most_ahead);
    least = shares.block > kMany ? 1 : fine ? 4 : 2;
    const int64_t room = gpu.shared_per_block / (fine ? least : 1) - shares.shared(g, splits);
    held = std::clamp<int64_t>(room / (shares.block * g.given), 0, rounds);
  }
  bool all_held() const { return held == rounds; }
  bool most_held() const { return 2 * held >= rounds; }
  bool operator==(const Once& other) const = default;

  Recipe::Work work(const Problem& problem, const Config& config, const Groups& g) const {
    const RowTexts texts(problem, config, g.rows);
    Recipe::Work out;
    Job job = texts.job("normalize/group_norm", "group_norm", g.vector, true,
                        concat(shares.constants(g, texts, held, ahead), int_constants({{"LEAST", least}}),
                               bool_constants({{"ALL_HELD", all_held()}}), macro("SPLITS", splits)));
    job.shape.block = {uint32_t(shares.block), 1, 1};
    job.shape.grid = {blocks_for(blocks, 1), 1, 1};
    job.shape.shared_bytes = uint32_t(held * shares.block * g.given + shares.shared(g, splits));
    job.backwards_at = -1;  // groups have one way
    out.jobs.push_back(std::move(job));
    return out;
  }
};

// In two launches, the second of which reads the input again.
Recipe::Work twice_work(const Problem& problem, const Config& config, const Groups& g, const GpuProperties& gpu) {
  const RowTexts texts(problem, config, g.rows);
  Shares shares(g, 128);
  shares.go_down(std::min(256 / shares.across, g.positions));
  const int64_t tiles = g.samples * shares.tiles;
  // Parts of the positions: a few blocks for each SM, some positions for each thread.
  const auto parts = [&](int64_t blocks) {
    return std::clamp<int64_t>(ceil_div(blocks * gpu.sms, tiles), 1,
                               std::max<int64_t>(1, g.positions / (shares.down * 4)));
  };
  const int64_t chunks = std::min<int64_t>(parts(4), 64), most = parts(8);
  const std::string constants =
      concat(shares.constants(g, texts, 0, 4), int_constants({{"CHUNKS", chunks}, {"PARTS", most}}));
  Recipe::Work out;
  for (const bool sums : {true, false}) {
    Job job = texts.job(concat("normalize/group_", sums ? "sums" : "results"), sums ? "group_sums" : "group_results",
                        g.vector, true, constants);
    job.slots.push_back({Slot::Kind::workspace, 0, 0});
    job.shape.block = {uint32_t(shares.block), 1, 1};
    job.shape.grid = {blocks_for(tiles * (sums ? chunks : most), 1), 1, 1};
    job.shape.shared_bytes = uint32_t(shares.shared(g, 0));
    job.backwards_at = -1;  // groups have one way
    out.jobs.push_back(std::move(job));
  }
  out.workspace = g.samples * chunks * (g.channels / g.group) * g.moments();
  return out;
}

// Of groups that cross a block one launch, of fewer or of more blocks, and two; of rows as many threads as usual, and
// more where that may be faster. On an H200 each of them is the fastest somewhere (benchmarks/README.md).
std::vector<Config> configs(const Problem& problem, const GpuProperties& gpu) {
  std::vector<Config> out;
  if (const auto* gathered = problem.op.get_if<ops::GatheredNormalize>()) {
    const Problem rows = behind_tables(problem, *gathered);
    out.push_back(plain_config(problem, ""));
    if (may_be_wide(rows, plain_config(rows, ""), rows_of(rows), gpu))
      out.push_back(plain_config(problem, std::string(kWide)));
    return out;
  }
  for (const Config& config : row_configs(problem)) {
    const auto groups = groups_of(problem, config);
    const auto add = [&](std::string_view text) {
      out.push_back(config);
      out.back().text = text;
    };
    if (!groups) {
      add("");
      if (may_be_wide(problem, config, rows_of(problem), gpu)) add(kWide);
    } else {
      const Once once(*groups, false, gpu), fine(*groups, true, gpu);
      add(once.most_held() ? kOnce : kTwice);
      if (fine.all_held() && fine != once) add(kOnceFine);
      add(once.most_held() ? kTwice : kOnce);
    }
  }
  return out;
}

Recipe::Work work(const Problem& problem, const Config& config, const GpuProperties& gpu) {
  if (const auto* gathered = problem.op.get_if<ops::GatheredNormalize>()) {
    const Problem rows = behind_tables(problem, *gathered);
    RowsOp op = rows_of(rows);
    op.wide = config.text == kWide;
    for (size_t i = 0; i < size_t(gathered->tables); ++i)
      op.picked.push_back({i, rows.inputs.size() + i, problem.inputs[i].dims()[0]});
    return row_programs_work(rows, plain_config(rows, ""), op, gpu);
  }
  if (is_by_rows(config)) {
    RowsOp rows = rows_of(problem);
    rows.wide = config.text == kWide;
    return row_programs_work(problem, config, rows, gpu);
  }
  const auto groups = groups_of(problem, config);
  if (!groups) fail(ErrorKind::bad_file, "no configuration '", config.text, "' for ", problem.text());
  const bool fine = config.text == kOnceFine;
  return fine || config.text == kOnce ? Once(*groups, fine, gpu).work(problem, config, *groups)
                                      : twice_work(problem, config, *groups, gpu);
}

// Groups of channels may be read where they lie in the channels of a concat.
bool takes_parts(const Problem& problem, const Config& config) {
  for (size_t i = 1; i < problem.inputs.size(); ++i)
    if (problem.inputs[i].pitch) return false;
  for (const Port& port : problem.outputs)
    if (port.pitch) return false;
  if (!problem.inputs[0].pitch) return true;
  if (is_by_rows(config)) return false;
  const auto groups = groups_of(problem, config);
  return groups && groups->images && groups->rows.prologue.inputs == 1 && groups->pitch % groups->vector == 0 &&
         small_positions(groups->positions * groups->pitch);
}

}  // namespace

extern const Recipe normalize_recipe;
const Recipe normalize_recipe{"cuda.normalize", 10, supports, configs, work, {}, takes_parts};

}  // namespace temper::cuda
