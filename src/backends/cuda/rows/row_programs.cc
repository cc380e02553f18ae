// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/rows/row_programs.h"

#include <algorithm>
#include <bit>

#include "backends/axes.h"
#include "backends/cuda/support/constants.h"
#include "backends/cuda/support/program_code.h"
#include "base/checked.h"

namespace temper::cuda {

namespace {

using Tensors = RowTexts::Tensors;

Tensors tensors_of(const Problem& problem, const Config& config) {
  const Dims dims = problem.inputs[0].dims();
  const Layout layout = config.inputs[0];
  Tensors out;
  const auto add = [&](std::string name, std::string type, Slot slot, Dims strides) {
    out.names.push_back(std::move(name));
    out.types.push_back(std::move(type));
    out.slots.push_back(slot);
    out.strides.push_back(std::move(strides));
  };
  const auto add_input = [&](size_t i) {
    const Port& port = problem.inputs[i];
    add(concat("in", i), concat("const ", memory_type(port.type.dtype)), {Slot::Kind::input, int(i), 0},
        port.dims() == dims ? logical_strides(dims, layout) : broadcast_strides(port.dims(), dims));
  };
  out.outputs = problem.outputs.size();
  add_input(0);
  for (size_t i = 0; i < problem.outputs.size(); ++i)
    add(concat("out", i), std::string(memory_type(problem.outputs[i].type.dtype)), {Slot::Kind::output, int(i), 0},
        logical_strides(dims, layout));
  for (size_t i = 1; i < problem.inputs.size(); ++i) add_input(i);
  return out;
}

constexpr int64_t kMostHeld = 48;  // values of a thread: more are spilled where 512 share a row

// How the threads of a block share rows of n elements, V of which are moved at a time. `least`: blocks of an SM that
// their registers must leave room for.
struct Shares {
  int64_t threads = 1, items = 1, block = 256, least = 1;
  bool held = false, loop = false, fixed_held = false;

  std::string constants(bool full, bool early, bool exact) const {
    return int_constants({{"THREADS", threads}, {"ITEMS", items}, {"BLOCK", block}, {"LEAST", least}}) +
           bool_constants({{"HELD", held},
                           {"LOOP", loop},
                           {"FULL", full},
                           {"FIXED_HELD", fixed_held},
                           {"EARLY", early},
                           {"EXACT", exact}});
  }
};

// Rows so few that with a warp each they leave an SM without enough of them.
bool are_few(int64_t rows, const GpuProperties& gpu) { return rows <= 8 * gpu.sms; }

// `wide`: more threads than a warp that is alone would be; for some hundred rows as many as a row has vectors, so that
// all of it is on its way at once.
Shares shares_of(int64_t rows, int64_t n, int64_t vector, bool aligned, bool wide, const GpuProperties& gpu) {
  Shares out;
  // A row that does not begin at a vector touches one more.
  const int64_t vectors = ceil_div(n + (aligned ? 0 : vector - 1), vector), most = std::max<int64_t>(1, 32 / vector);
  const auto power = [](int64_t x) { return int64_t(std::bit_ceil(uint64_t(std::max<int64_t>(x, 1)))); };
  if ((rows <= 2 * gpu.sms || (wide && are_few(rows, gpu))) && vectors <= 256 * most)
    out.threads = std::min<int64_t>(power(vectors), 256);
  else if (vectors <= 32 * most)
    out.threads = std::min<int64_t>(power(ceil_div(vectors, std::min<int64_t>(most, 2))), 32);
  else out.threads = std::min<int64_t>(power(ceil_div(vectors, most)), 512);
  if (wide && !are_few(rows, gpu)) out.threads = std::min<int64_t>(2 * out.threads, 512);
  out.items = ceil_div(vectors, out.threads);
  out.held = out.items * vector <= kMostHeld;
  out.block = std::max<int64_t>(out.threads, rows * out.threads <= int64_t(gpu.sms) * 128 ? 32 : 128);
  return out;
}

}  // namespace

DType given_dtype(const Problem& problem, const RowsOp& op) {
  std::vector<DType> dtypes(size_t(op.prologue.inputs));
  for (size_t i = 0; i < dtypes.size(); ++i) dtypes[i] = problem.inputs[i].type.dtype;
  return op.prologue.infer(dtypes);
}

Support supports_rows(const Problem& problem, const RowsOp& op) {
  constexpr size_t kMostTensors = 16, kMostSteps = 500;
  const DType given = given_dtype(problem, op);
  const bool alone = op.prologue.is_identity() && op.epilogue.is_identity() && !op.gives_input;
  if (!is_float(given)) return refused("rows of ", given);
  if (given == DType::f64 && !alone) return refused("programs around rows of f64");
  if (problem.inputs.size() + problem.outputs.size() > kMostTensors)
    return refused("a problem of ", problem.inputs.size(), " inputs; kernels along rows take few");
  int64_t n = 1;
  for (const auto& axis : op.axes) n *= axis.along ? axis.size : 1;
  if (op.prologue.inputs > 1 && n > kMostHeldRow) return refused("a sum of rows of ", n, ", which are read again");
  if (op.prologue.steps.size() + op.epilogue.steps.size() > kMostSteps) return refused("programs of too many steps");
  return supported();
}

std::vector<Config> row_configs(const Problem& problem) {
  const Dims dims = problem.inputs[0].dims();
  std::vector<Config> out;
  for (Layout layout : {Layout::plain, Layout::channels_last}) {
    if (!layout_fits(dims, layout)) continue;
    Config config{"", {}, std::vector<Layout>(problem.outputs.size(), layout)};
    for (const Port& input : problem.inputs) config.inputs.push_back(input.dims() == dims ? layout : Layout::plain);
    out.push_back(std::move(config));
  }
  return out;
}

RowTexts::RowTexts(const Problem& problem, const Config& config, const RowsOp& op)
    : problem_(problem), op_(op), tensors_(tensors_of(problem, config)) {
  // Axes in the order of memory, so that neighbouring threads find neighbouring elements.
  std::vector<ops::Normalize::Axis> order = op.axes;
  const auto stride = [&](const ops::Normalize::Axis& axis, size_t t) {
    return tensors_.strides[t][axis.axis] * axis.step;
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](const auto& a, const auto& b) { return stride(a, 0) > stride(b, 0); });
  const size_t count = tensors_.names.size();
  kept = reduced = {{}, std::vector<Dims>(count)};
  for (const auto& axis : order) {
    Axes& to = axis.along ? reduced : kept;
    (axis.along ? n : rows) *= axis.size;
    to.sizes.push_back(axis.size);
    for (size_t t = 0; t < count; ++t) to.strides[t].push_back(stride(axis, t));
    if (axis.along && axis.size > 1) inner = to.strides[0].back();
  }
  merge_axes(reduced);
  merge_axes(kept);
  contiguous = reduced.strides[0] == row_major_strides(reduced.sizes);
  for (size_t t = 1; t <= tensors_.outputs; ++t)
    contiguous &= kept.strides[t] == kept.strides[0] && reduced.strides[t] == reduced.strides[0];
}

bool RowTexts::aligned(int64_t vector) const {
  bool out = n % vector == 0;
  for (int64_t stride : kept.strides[0]) out &= stride % vector == 0;
  return out;
}

// How tensor t is read V at a time: the names are those of row_programs.cuh.
bool RowTexts::is_fixed(size_t input) const {
  const Dims& between = kept.strides[tensors_.outputs + input];
  return input >= size_t(op_.prologue.inputs) &&
         std::all_of(between.begin(), between.end(), [](int64_t stride) { return stride == 0; });
}

bool RowTexts::fixed_along_last() const {
  bool out = true;
  for (size_t i = 0; i < problem_.inputs.size(); ++i) {
    if (!is_fixed(i)) continue;
    const Dims& along = reduced.strides[tensors_.outputs + i];
    for (size_t axis = 0; axis + 1 < along.size(); ++axis) out &= along[axis] == 0;
  }
  return out;
}

RowTexts::Held RowTexts::held(int64_t vector) const {
  Held out;
  for (size_t i = 0; i < problem_.inputs.size(); ++i) {
    const bool one = access(i ? tensors_.outputs + i : 0, vector, true) == "kUniform";
    const int64_t words = one ? 0 : ceil_div(vector * size_of(problem_.inputs[i].type.dtype), int64_t(4));
    if (i < size_t(op_.prologue.inputs)) out.given += words;
    if (is_fixed(i)) out.fixed += words, out.constant &= problem_.inputs[i].is_constant;
  }
  return out;
}

std::string_view RowTexts::access(size_t t, int64_t vector, bool whole_rows) const {
  const Dims& along = reduced.strides[t];
  const auto fits = [&](const Dims& strides, size_t count) {
    return std::all_of(strides.begin(), strides.begin() + int64_t(count), [&](int64_t s) { return s % vector == 0; });
  };
  if (std::all_of(along.begin(), along.end(), [](int64_t stride) { return stride == 0; })) return "kUniform";
  if (!whole_rows) return "kEach";
  const bool begins = aligned(vector);
  if (along == reduced.strides[0] &&
      (begins ? fits(kept.strides[t], kept.strides[t].size()) : kept.strides[t] == kept.strides[0]))
    return "kRow";
  if (reduced.sizes.size() == 1 && along[0] == 1 && !(begins && fits(kept.strides[t], kept.strides[t].size())))
    return "kBeside";
  if (!begins || reduced.sizes.back() % vector != 0) return "kEach";
  if (along.back() == 0) return "kSplat";
  return along.back() == 1 && fits(along, along.size() - 1) && fits(kept.strides[t], kept.strides[t].size()) ? "kVector"
                                                                                                             : "kEach";
}

Job RowTexts::job(std::string_view file, std::string_view entry, int64_t vector, bool whole_rows,
                  const std::string& constants) const {
  const size_t count = tensors_.names.size();
  std::string parameters, members, pointers, moved;
  for (size_t t = 0; t < count; ++t) {
    parameters += concat(tensors_.types[t], "* ", tensors_.names[t], ", ");
    members += concat("  ", tensors_.types[t], "* ", tensors_.names[t], ";\n");
    pointers += concat(t ? ", " : "", tensors_.names[t]);
    std::string offset = concat("at[", t, ']');
    for (const PickedRow& picked : op_.picked)
      if (t == (picked.input ? tensors_.outputs + picked.input : 0))
        offset = concat("picked(tensors.index", picked.input, " + row, ", picked.count, ", tensors.fault) * ", n);
    moved += concat(t ? ", " : "", "tensors.", tensors_.names[t], " + ", offset);
  }
  for (const PickedRow& row : op_.picked) {
    parameters += concat("const i64* index", row.input, ", ");
    members += concat("  const i64* index", row.input, ";\n");
    pointers += concat(", index", row.input);
    moved += concat(", tensors.index", row.input);
  }
  if (!op_.picked.empty()) {
    parameters += "Fault* fault, ";
    members += "  Fault* fault;\n";
    pointers += ", fault";
    moved += ", tensors.fault";
  }
  const DType value = ops::row_dtype(given_dtype(problem_, op_));
  const size_t own = size_t(op_.prologue.inputs), inputs = problem_.inputs.size();
  // An input as a member of Given or Fixed, or as a vector of write_row's own.
  const auto field = [&](size_t i) {
    return concat("  Vec<", memory_type(problem_.inputs[i].type.dtype), ", V> x", i, ";\n");
  };
  const auto load = [&](size_t i, std::string_view to) {
    const size_t t = i == 0 ? 0 : tensors_.outputs + i;
    return concat("  ", to, 'x', i, " = load_of_row<", access(t, vector, whole_rows), ", ", t, ">(p, row.in", i,
                  ", first, whole);\n");
  };
  const auto argument = [&](size_t i, std::string_view of) { return concat("hold(", of, 'x', i, ".at[k])"); };
  std::string given, read_given, take, fixed, read_fixed, read_others, behind_arguments;
  for (size_t i = 0; i < inputs; ++i) {
    if (i < own) {
      given += field(i);
      read_given += load(i, "given.");
      take += concat(i ? ", " : "", argument(i, "given."));
    } else {
      const bool is = is_fixed(i);
      (is ? fixed : read_others) += is ? field(i) : load(i, "const auto ");
      if (is) read_fixed += load(i, "fixed.");
      behind_arguments += concat(", ", argument(i, is ? "fixed." : ""));
    }
  }
  const auto result = [&](size_t i, std::string_view held) {
    const std::string_view type = memory_type(problem_.outputs[i].type.dtype);
    const std::string finished = concat('f', i), stored = concat('r', i), out = concat("row.out", i);
    return concat("  Finished<", type, "> ", finished, "[V];\n#pragma unroll\n  for (int k = 0; k < V; ++k) ", finished,
                  "[k] = ", held, ";\n") +
           concat("  Vec<", type, ", V> ", stored, ";\n  store_results<", type, ", V>(", stored, ".at, ", finished,
                  ");\n") +
           concat("  store_to_row<", access(1 + i, vector, whole_rows), ", ", 1 + i, ">(p, ", out, ", first, whole, ",
                  stored, ");\n");
  };
  std::vector<DType> before, behind{value};
  for (size_t i = 0; i < inputs; ++i) (i < own ? before : behind).push_back(problem_.inputs[i].type.dtype);
  const auto structure = [](std::string_view name, std::string_view members_text) {
    return concat("struct ", name, " {\n", members_text, "};\n");
  };
  const auto function = [](std::string_view name, std::string_view more, std::string_view body) {
    return concat("DEVICE void ", name, "(const RowParameters& p, const RowTensors& row, i64 first, bool whole, ", more,
                  ") {\n", body, "}\n");
  };

  ProgramNumbers numbers;
  const ProgramCode prologue = program_code(op_.prologue, before, "prologue", numbers),
                    epilogue = finished_code(op_.epilogue, behind, "epilogue", numbers);
  Job job;
  job.entry = entry;
  job.overlap = true;
  job.slots = tensors_.slots;
  for (const PickedRow& row : op_.picked) job.slots.push_back({Slot::Kind::input, int(row.index), 0});
  if (!op_.picked.empty()) job.slots.push_back({Slot::Kind::fault, 0, 0});
  const std::string constants_text =
      int_constants(
          {{"V", vector}, {"KEPT", kept.sizes.size()}, {"REDUCED", reduced.sizes.size()}, {"OPERANDS", count}}) +
      bool_constants({{"ALIGNED", aligned(vector)}}) +
      type_alias("Index", small_positions(std::max(rows, n)) ? "u32" : "u64") + type_alias("Value", held_type(value)) +
      op_.constants + constants;
  const std::string picked_text =
      op_.picked.empty() ? ""
                         : "DEVICE i64 picked(const i64* index, i64 count, Fault* fault) {\n  i64 at = *index;\n"
                           "  return resolve_index(at, count, fault) ? at : 0;\n}\n";
  const std::string moved_text = concat(
      "DEVICE RowTensors moved(const RowTensors& tensors, const i64 (&at)[OPERANDS], [[maybe_unused]] Index row) {\n"
      "  return {",
      moved, "};\n}\n");
  const std::string take_given = concat(
      "DEVICE void take_given(const RowParameters& p, const Given& given, Value (&x)[V]) {\n#pragma unroll\n"
      "  for (int k = 0; k < V; ++k) x[k] = ",
      prologue.call, take, ");\n}\n");
  const std::string results = concat(read_others, result(0, concat(epilogue.call, "y[k]", behind_arguments, ")")),
                                     op_.gives_input ? result(1, "x[k]") : "");
  job.source.text = concat(include_line("support/memory.cuh"), constants_text, macro("NUMBERS", numbers.text()),
                           macro("PARAMETERS", parameters), macro("ROW_TENSORS", concat('{', pointers, '}')),
                           include_line("rows/row_programs.cuh"), prologue.text, epilogue.text) +
                    structure("RowTensors", members) + structure("Given", given) + structure("Fixed", fixed) +
                    picked_text + moved_text + function("read_given", "Given& given", read_given) + take_given +
                    function("read_fixed", "Fixed& fixed", read_fixed) +
                    function("write_row", "const Fixed& fixed, const Value (&x)[V], const Value (&y)[V]", results) +
                    include_line(concat(file, ".cu"));
  ParameterWriter writer;
  writer.put(uint64_t(rows))
      .put(uint64_t(n))
      .put_backwards(job)
      .put(1.0 / double(n))
      .put(op_.number)
      .put(float(1.0 / double(n)))
      .put(float(op_.number));
  job.parameters = writer.put_walk(kept.sizes, kept.strides)
                       .put_walk(reduced.sizes, reduced.strides)
                       .put_numbers(numbers.values())
                       .finish();
  return job;
}

namespace {

// How rows that lie without gaps are shared out, V elements at a time; not `held` where they do not stay in registers.
struct Sharing {
  Shares shares;
  int64_t vector = 1;
  bool full = false, early = false;  // FULL and EARLY of row_programs.cuh
};

// Decides what stays in registers besides a row: what all rows have in common, and the next row.
void stay_in_registers(Sharing& out, const RowTexts::Held& words, bool aligned, int64_t rows,
                       const GpuProperties& gpu) {
  constexpr int64_t kRegisters = 65536, kMost = 168, kOwn = 44;  // of an SM; of a thread; addresses and sums
  Shares& shares = out.shares;
  const int64_t given = shares.items * words.given, fixed = shares.items * words.fixed,
                needed = kOwn + shares.items * out.vector + given;
  shares.fixed_held = aligned && fixed > 0 && needed + fixed <= kMost;
  const int64_t all = round_up(needed + (shares.fixed_held ? fixed : 0), int64_t(8)),
                blocks = std::min(kRegisters / (all * shares.block), 2048 / shares.block);
  shares.loop = aligned && all <= kMost && blocks > 0 &&
                ceil_div(rows * shares.threads, shares.block) > blocks * int64_t(gpu.sms);
  if (shares.loop) shares.least = blocks;
  out.early = shares.fixed_held && words.constant;
}

Sharing sharing_of(const Problem& problem, const RowTexts& texts, const RowsOp& op, bool wide,
                   const GpuProperties& gpu) {
  Sharing out;
  out.vector = 16 / size_of(problem.inputs[0].type.dtype);
  while (out.vector > 1 && out.vector > texts.n) out.vector /= 2;
  if (!texts.contiguous || given_dtype(problem, op) == DType::f64 || !small_positions(std::max(texts.rows, texts.n)))
    return out;
  const bool aligned = texts.aligned(out.vector);
  out.shares = shares_of(texts.rows, texts.n, out.vector, aligned, wide, gpu);
  if (!out.shares.held) return out;
  out.full = aligned && texts.n == out.shares.threads * out.shares.items * out.vector;
  stay_in_registers(out, texts.held(out.vector), aligned, texts.rows, gpu);
  return out;
}

}  // namespace

bool may_be_wide(const Problem& problem, const Config& config, const RowsOp& op, const GpuProperties& gpu) {
  if (element_count(problem.inputs[0].dims()) == 0) return false;
  const RowTexts texts(problem, config, op);
  const Sharing usual = sharing_of(problem, texts, op, false, gpu), wide = sharing_of(problem, texts, op, true, gpu);
  if (!usual.shares.held || !wide.shares.held || usual.shares.threads == wide.shares.threads) return false;
  return are_few(texts.rows, gpu) || (wide.shares.fixed_held && !usual.shares.fixed_held);
}

Recipe::Work row_programs_work(const Problem& problem, const Config& config, const RowsOp& op,
                               const GpuProperties& gpu) {
  Recipe::Work out;
  if (element_count(problem.inputs[0].dims()) == 0) return out;
  const RowTexts texts(problem, config, op);
  const int64_t n = texts.n, rows = texts.rows;
  auto [shares, vector, full, early] = sharing_of(problem, texts, op, op.wide, gpu);
  if (!shares.held) {
    vector = 1;
    // Threads share a row where its elements are neighbours, or where there are too few rows to fill a GPU.
    shares = {.threads = n <= 4                    ? 1
                         : texts.inner == 1        ? (n > 1024 ? 256 : 32)
                         : rows >= 16384 || n < 64 ? 1
                         : n > 1024 && rows < 256  ? 256
                                                   : 32};
  }
  Job job = texts.job(concat(op.entry, '/', op.entry), op.entry, vector, shares.held,
                      shares.constants(full, early, !shares.held || op.exact));
  job.shape.block = {uint32_t(shares.block), 1, 1};
  job.shape.grid = {blocks_for(rows, shares.block / shares.threads), 1, 1};
  if (shares.loop) job.shape.grid[0] = uint32_t(shares.least * gpu.sms);
  out.jobs.push_back(std::move(job));
  return out;
}

}  // namespace temper::cuda
