// SPDX-License-Identifier: Apache-2.0
// Recurrent nets on GPUs, all steps in one launch (recurrent.cu): a block for some rows of the batch, or on Hopper a
// cluster of blocks, which share out the units.
#include "graph/ops/recurrent.h"

#include <algorithm>
#include <bit>
#include <stdexcept>

#include "backends/cuda/recipe.h"
#include "backends/cuda/support/constants.h"
#include "base/checked.h"

namespace temper::cuda {

namespace {

using ops::Activation, ops::Recurrent, ops::RecurrentKind;

enum Input : size_t { kX, kW, kR, kB, kLengths, kH0, kC0, kPeepholes };

constexpr int kMostRows = 8, kFewThreads = 256, kMostThreads = 512;

struct Sizes {
  int64_t steps, batch, hidden, directions, gates;
};
Sizes sizes_of(const Problem& problem) {
  const Recurrent& op = problem.op.get<Recurrent>();
  const Dims x = problem.inputs[kX].dims();
  return {x[0], x[1], problem.inputs[kR].dims()[2], op.directions(), op.gates()};
}
bool resets_state(const Recurrent& op) { return op.kind == RecurrentKind::gru && !op.linear_before_reset; }

// How the units of a net are shared out.
struct Shares {
  int64_t blocks;  // of a cluster
  int64_t units;   // of a block
  int64_t parts, column_threads, depth;
  bool resident;
  int64_t threads() const { return column_threads * parts; }
  int64_t turns(int64_t gates) const { return ceil_div(gates * units, column_threads); }
};
Shares shares_of(const Sizes& s, int64_t blocks) {
  Shares shares{blocks, ceil_div(s.hidden, blocks), 1, 0, 0, false};
  const int64_t columns = s.gates * shares.units;
  while (shares.parts < 8 && columns * shares.parts * 2 <= kMostThreads && shares.parts * 8 <= s.hidden)
    shares.parts *= 2;
  shares.column_threads = std::min<int64_t>(round_up<int64_t>(columns, 32), kMostThreads / shares.parts);
  shares.depth = ceil_div(s.hidden, 4 * shares.parts) * 4;
  // A thread has 255 registers where there are few, 128 where there are many.
  shares.resident = shares.turns(s.gates) == 1 && shares.depth <= (shares.threads() <= kFewThreads ? 128 : 64);
  return shares;
}

int64_t shared_bytes(const Sizes& s, const Shares& shares, bool resets, int64_t rows) {
  const int64_t state = shares.depth * shares.parts;
  return (2 * rows * state + (resets ? rows : 1) * state + rows * s.gates * shares.units) * int64_t(sizeof(float));
}
// Rows of a block: as many as leave a cluster for every place on the GPU.
int64_t rows_of(const Problem& problem, const Sizes& s, const Shares& shares, const GpuProperties& gpu) {
  const bool resets = resets_state(problem.op.get<Recurrent>());
  int64_t rows = std::clamp<int64_t>(ceil_div(s.batch * s.directions, std::max<int64_t>(1, gpu.sms / shares.blocks)), 1,
                                     kMostRows);
  rows = std::min(rows, std::max<int64_t>(1, s.batch));
  while (rows > 1 && shared_bytes(s, shares, resets, rows) > gpu.shared_per_block) --rows;
  return rows;
}

Support supports(const Problem& problem) {
  if (!problem.op.is<Recurrent>()) return refused("not a recurrent net");
  const Recurrent& op = problem.op.get<Recurrent>();
  if (!op.projected) return refused("the product of its inputs is not taken out of it");
  if (problem.inputs[kX].type.dtype != DType::f32) return refused("not of f32");
  if (!problem.inputs[kR].is_constant) return refused("its weights are not constant");
  const Sizes s = sizes_of(problem);
  if (s.hidden > 4096) return refused(s.hidden, " units");
  if (s.steps >= int64_t(1) << 30 || s.batch >= int64_t(1) << 16)
    return refused("a batch of ", s.batch, " sequences of ", s.steps);
  return supported();
}

// Clusters: as few blocks as keep the weights in registers, or else as many as there may be.
std::vector<Config> configs_of(const Problem& problem, std::span<const int64_t> clusters) {
  const Sizes s = sizes_of(problem);
  int64_t blocks = clusters.back();
  for (size_t i = clusters.size(); i-- > 0;)
    if (shares_of(s, clusters[i]).resident) blocks = clusters[i];
  return {plain_config(problem, concat("blocks=", blocks))};
}
constexpr int64_t kAlone[] = {1}, kClusters[] = {1, 2, 4, 8};
std::vector<Config> configs(const Problem& problem, const GpuProperties&) { return configs_of(problem, kAlone); }
std::vector<Config> cluster_configs(const Problem& problem, const GpuProperties&) {
  return configs_of(problem, kClusters);
}

std::string text_of(Activation kind) {
  switch (kind) {
    case Activation::tanh: return "::tanhf(x)";
    case Activation::sigmoid: return "1.0f / (1.0f + ::expf(-x))";
    case Activation::relu: return "fmaxf(x, 0.0f)";
    case Activation::softsign: return "x / (1.0f + fabsf(x))";
    case Activation::softplus: return "x > 30.0f ? x : ::log1pf(::expf(x))";
    case Activation::affine: return "ALPHA * x + BETA";
    case Activation::leaky_relu: return "x >= 0.0f ? x : ALPHA * x";
    case Activation::thresholded_relu: return "x >= ALPHA ? x : 0.0f";
    case Activation::scaled_tanh: return "ALPHA * ::tanhf(BETA * x)";
    case Activation::hard_sigmoid: return "fminf(fmaxf(ALPHA * x + BETA, 0.0f), 1.0f)";
    case Activation::elu: return "x >= 0.0f ? x : ALPHA * ::expm1f(x)";
  }
  throw std::logic_error("an activation without a text");
}
std::string function_text(const Recurrent& op, size_t which) {
  const Activation kind = which == 0 ? op.f : which == 1 ? op.g : op.h;
  auto number = [&](const std::vector<double>& of) {
    return concat("__uint_as_float(", std::bit_cast<uint32_t>(of.empty() ? 0.0f : float(of[which])), "u)");
  };
  return concat("DEVICE float function_", "fgh"[which],
                "(float x) {\n  [[maybe_unused]] const float ALPHA = ", number(op.alpha), ", BETA = ", number(op.beta),
                ";\n  return ", text_of(kind), ";\n}\n");
}

// [direction][block][turn][k][thread]: thread t has column t / parts of the turn, and of the state's elements four of
// every four times `parts`.
AlignedBytes packed_weights(const Sizes& s, const Shares& shares, const Tensor& r) {
  const int64_t threads = shares.threads(), turns = shares.turns(s.gates);
  AlignedBytes out(size_t(s.directions * shares.blocks * turns * shares.depth * threads) * sizeof(float));
  float* to = reinterpret_cast<float*>(out.data());
  for (int64_t d = 0; d < s.directions; ++d)
    for (int64_t block = 0; block < shares.blocks; ++block)
      for (int64_t turn = 0; turn < turns; ++turn)
        for (int64_t k = 0; k < shares.depth; ++k)
          for (int64_t t = 0; t < threads; ++t, ++to) {
            const int64_t column = turn * shares.column_threads + t / shares.parts, gate = column / shares.units,
                          unit = block * shares.units + column % shares.units,
                          element = k / 4 * 4 * shares.parts + t % shares.parts * 4 + k % 4;
            if (gate < s.gates && unit < s.hidden && element < s.hidden)
              *to = r.data<float>()[((d * s.gates + gate) * s.hidden + unit) * s.hidden + element];
          }
  return out;
}

Recipe::Work work(const Problem& problem, const Config& config, const GpuProperties& gpu) {
  const Recurrent& op = problem.op.get<Recurrent>();
  const Sizes s = sizes_of(problem);
  int64_t blocks = 0;
  for (int64_t each : kClusters)
    if (config.text == concat("blocks=", each)) blocks = each;
  if (!blocks) fail(ErrorKind::bad_file, "a recurrent net has no '", config.text, "'");
  const Shares shares = shares_of(s, blocks);
  const int64_t rows = rows_of(problem, s, shares, gpu);
  Recipe::Work out;
  if (s.batch == 0 || s.hidden == 0) return out;
  out.packed_bytes =
      s.directions * blocks * shares.turns(s.gates) * shares.depth * shares.threads() * int64_t(sizeof(float));
  if (const Tensor* r = problem.inputs[kR].constant) out.packed = packed_weights(s, shares, *r);
  out.consumed.assign(problem.inputs.size(), false);
  out.consumed[kR] = true;

  Job job;
  job.entry = "recurrent";
  job.overlap = true;
  std::string arguments, absent;
  auto argument = [&](std::string_view type, std::string_view name, Slot slot, bool present) {
    if (present) {
      arguments += concat(arguments.empty() ? "" : ", ", type, "* ", name);
      job.slots.push_back(slot);
    } else {
      absent += concat("constexpr ", type, "* ", name, " = nullptr;\n");
    }
  };
  auto input = [&](std::string_view type, std::string_view name, size_t i) {
    argument(type, name, {Slot::Kind::input, int(i), 0}, problem.inputs.size() > i && problem.inputs[i].present);
  };
  input("const float", "x", kX);
  argument("const float", "packed", {Slot::Kind::packed, 0, 0}, true);
  input("const float", "bias", kB);
  input("const i32", "lengths", kLengths);
  input("const float", "h0", kH0);
  input("const float", "c0", kC0);
  input("const float", "peepholes", kPeepholes);
  argument("float", "y", {Slot::Kind::output, 0, 0}, true);
  argument("float", "last_h", {Slot::Kind::output, 1, 0}, true);
  argument("float", "last_c", {Slot::Kind::output, 2, 0}, problem.outputs.size() > 2);
  argument("Fault", "fault", {Slot::Kind::fault, 0, 0}, true);
  job.source.text = concat(
      "#include \"backends/cuda/support/scalar.cuh\"\n", macro("ARGUMENTS", arguments), macro("CLUSTER", blocks),
      absent,
      int_constants({{"KIND", int(op.kind)},
                     {"GATES", s.gates},
                     {"HIDDEN", s.hidden},
                     {"UNITS", shares.units},
                     {"PARTS", shares.parts},
                     {"COLUMN_THREADS", shares.column_threads},
                     {"ROWS", rows}}),
      bool_constants(
          {{"RESIDENT", shares.resident}, {"RESETS_STATE", resets_state(op)}, {"COUPLED", op.couple_input_forget}}),
      function_text(op, 0), function_text(op, 1), function_text(op, 2),
      "#include \"backends/cuda/recurrent/recurrent.cu\"\n");
  job.shape.block = {uint32_t(shares.threads()), 1, 1};
  job.shape.grid = {uint32_t(blocks * ceil_div(s.batch, rows)), uint32_t(s.directions), 1};
  job.shape.shared_bytes = uint32_t(shared_bytes(s, shares, resets_state(op), rows));
  ParameterWriter parameters;
  parameters.put(int32_t(s.steps)).put(int32_t(s.batch)).put(int32_t(s.directions));
  parameters.put(uint32_t(op.direction == ops::RecurrentDirection::reverse)).put(float(op.clip));
  job.parameters = parameters.finish();
  out.jobs.push_back(std::move(job));
  return out;
}

}  // namespace

extern const Recipe recurrent_recipe, recurrent_cluster_recipe;
const Recipe recurrent_cluster_recipe{"cuda.recurrent.cluster", 1, supports, cluster_configs, work, "sm_90a"};

namespace {

// Where clusters run, one block alone is slower.
Support worth_timing(const Problem& problem, std::string_view architecture) {
  return unless_taken_by(recurrent_cluster_recipe, problem, architecture);
}

}  // namespace

const Recipe recurrent_recipe{"cuda.recurrent", 1, supports, configs, work, {}, nullptr, worth_timing};

}  // namespace temper::cuda
