// SPDX-License-Identifier: Apache-2.0
// pointwise on GPUs: the program becomes CUDA C and is compiled.
#include "graph/ops/pointwise.h"

#include <algorithm>

#include "backends/axes.h"
#include "backends/cuda/recipe.h"
#include "backends/cuda/support/constants.h"
#include "backends/cuda/support/program_code.h"

namespace temper::cuda {

namespace {

constexpr size_t kMaxSteps = 2000;  // above that compiling takes too long
constexpr size_t kMaxInputs = 48;

const ops::Pointwise& op_of(const Problem& problem) { return problem.op.get<ops::Pointwise>(); }

Support supports(const Problem& problem) {
  if (!problem.op.is<ops::Pointwise>()) return refused("not a pointwise program");
  const size_t steps = op_of(problem).program.steps.size();
  if (steps > kMaxSteps) return refused("a program of ", steps, " steps; at most ", kMaxSteps, " are compiled");
  if (problem.inputs.size() > kMaxInputs)
    return refused("a program of ", problem.inputs.size(), " inputs; at most ", kMaxInputs, " are passed to a kernel");
  return supported();
}

constexpr int64_t kMostTurned = 4;  // channels

// The one input of the output's shape, where the program may read that in channels_last and write plain: pictures,
// whose few channels a thread turns in its registers. The other inputs are numbers, or have one for each channel. -1:
// there is none.
int turned_input(const Problem& problem) {
  const Port& output = problem.outputs[0];
  const Dims dims = output.dims();
  if (!layout_fits(dims, Layout::channels_last) || same_memory(dims, Layout::plain, Layout::channels_last) ||
      dims[1] > kMostTurned || output.pitch || !small_positions(element_count(dims)))
    return -1;
  int full = -1;
  for (size_t i = 0; i < problem.inputs.size(); ++i) {
    const Port& input = problem.inputs[i];
    if (input.pitch) return -1;
    if (input.dims() == dims) {
      if (full >= 0) return -1;
      full = int(i);
      continue;
    }
    const Dims strides = broadcast_strides(input.dims(), dims);
    for (size_t axis = 0; axis < dims.size(); ++axis)
      if (axis != 1 && strides[axis] != 0) return -1;
  }
  return full;
}

// Inputs of the output's shape have its layout, those that are broadcast are plain.
std::vector<Config> configs(const Problem& problem, const GpuProperties&) {
  const Dims dims = problem.outputs[0].dims();
  std::vector<Config> out;
  for (Layout layout : {Layout::plain, Layout::channels_last}) {
    if (!layout_fits(dims, layout) || (layout != Layout::plain && same_memory(dims, Layout::plain, layout))) continue;
    Config config{"", {}, {layout}};
    for (const Port& input : problem.inputs) config.inputs.push_back(input.dims() == dims ? layout : Layout::plain);
    out.push_back(std::move(config));
  }
  if (const int turned = turned_input(problem); turned >= 0) {
    Config config{"", std::vector<Layout>(problem.inputs.size(), Layout::plain), {Layout::plain}};
    config.inputs[size_t(turned)] = Layout::channels_last;
    out.push_back(std::move(config));
  }
  return out;
}

// Whether a configuration is that of turned_input().
bool turns(const Config& config) {
  return config.outputs[0] == Layout::plain &&
         std::find(config.inputs.begin(), config.inputs.end(), Layout::channels_last) != config.inputs.end();
}

// Which inputs a program reads: one without steps its only one.
std::vector<bool> inputs_read(const Program& program) {
  std::vector<bool> read(size_t(program.inputs), program.steps.empty());
  for (const Step& step : program.steps)
    for (int a = 0; a < arity_of(step.op); ++a)
      if (step.args[size_t(a)] < program.inputs) read[size_t(step.args[size_t(a)])] = true;
  return read;
}

Recipe::Work turning_work(const Problem& problem) {
  const Program& program = op_of(problem).program;
  const int turned = turned_input(problem);
  if (turned < 0) fail(ErrorKind::bad_file, "cuda.pointwise cannot turn ", problem.text());
  const Dims dims = problem.outputs[0].dims();
  const DType result = problem.outputs[0].type.dtype, picture = problem.inputs[size_t(turned)].type.dtype;
  const int64_t count = element_count(dims);
  Recipe::Work out;
  if (count == 0) return out;
  const int64_t plane = count / (dims[0] * dims[1]);
  int64_t vector = 16 / std::max(size_of(picture), size_of(result));
  while (plane % vector) vector /= 2;

  const std::vector<bool> read = inputs_read(program);
  std::vector<DType> dtypes;
  for (const Port& input : problem.inputs) dtypes.push_back(input.type.dtype);
  const bool bytes = vector % 4 == 0 && wants_bytes_as_floats(program, turned, picture);
  if (bytes) dtypes[size_t(turned)] = DType::f32;
  Job job;
  job.entry = "pointwise_turned";
  job.overlap = true;
  std::string inputs, columns, arguments;
  for (size_t i = 0; i < problem.inputs.size(); ++i) {
    if (i > 0) arguments += ", ";
    if (!read[i]) {
      arguments += concat(held_type(dtypes[i]), "()");
      continue;
    }
    const bool full = int(i) == turned;
    const std::string name = full ? "in" : concat("in", i);
    inputs += concat("const ", memory_type(problem.inputs[i].type.dtype), "* ", name, ", ");
    job.slots.push_back({Slot::Kind::input, int(i), 0});
    arguments += full ? "PIXEL" : concat('x', i);
    const bool one = element_count(problem.inputs[i].dims()) == 1;
    if (!full) columns += concat(" const auto x", i, " = hold(", name, one ? "[0]);" : "[c]);");
  }
  job.slots.push_back({Slot::Kind::output, 0, 0});
  ProgramNumbers numbers;
  const ProgramCode code = finished_code(program, dtypes, "program", numbers);
  job.source.text = concat(
      "#include \"backends/cuda/support/scalar.cuh\"\n", code.text, macro("NUMBERS", numbers.text()),
      type_alias("In", memory_type(picture)), type_alias("Output", memory_type(result)),
      int_constants({{"CHANNELS", dims[1]}, {"V", vector}}), macro("READ", int(read[size_t(turned)])),
      macro("AS_FLOATS", int(bytes)), macro("INPUTS", inputs), macro("COLUMNS", columns),
      macro("CALL", concat(code.call, arguments, ')')), "#include \"backends/cuda/pointwise/pointwise_turned.cu\"\n");
  job.shape.block = {256, 1, 1};
  job.shape.grid = {blocks_for(dims[0] * plane, 256 * vector), 1, 1};
  job.parameters =
      ParameterWriter().put(uint32_t(dims[0] * plane)).put_divisor(plane).put_numbers(numbers.values()).finish();
  out.jobs.push_back(std::move(job));
  return out;
}

Recipe::Work work(const Problem& problem, const Config& config, const GpuProperties&) {
  if (turns(config)) return turning_work(problem);
  const Program& program = op_of(problem).program;
  const TensorType& output = problem.outputs[0].type;
  const Dims dims = output.dims();
  const int64_t count = element_count(dims);
  Recipe::Work out;
  if (count == 0) return out;
  const Layout layout = config.outputs[0];

  const std::vector<bool> read = inputs_read(program);
  // Where each input's elements lie as the output's memory is walked.
  enum class Access { contiguous, uniform, walked };
  std::vector<Access> access;
  std::vector<int> walked;
  std::vector<DType> dtypes;
  int64_t largest = size_of(output.dtype);
  Axes axes{physical_dims(dims, layout), {}};
  for (size_t i = 0; i < problem.inputs.size(); ++i) {
    const Dims from = problem.inputs[i].dims();
    dtypes.push_back(problem.inputs[i].type.dtype);
    const int64_t elements = element_count(from);
    const bool same = from == dims || (elements == count && layout == Layout::plain);
    access.push_back(same && !problem.inputs[i].pitch ? Access::contiguous
                     : elements == 1                  ? Access::uniform
                                                      : Access::walked);
    if (!read[i]) continue;
    if (access.back() != Access::uniform) largest = std::max(largest, size_of(dtypes.back()));
    if (access.back() != Access::walked) continue;
    walked.push_back(int(i));
    axes.strides.push_back(physical_strides(
        problem.inputs[i].pitch ? logical_strides(problem.inputs[i], layout) : broadcast_strides(from, dims), layout));
  }
  const bool part = problem.outputs[0].pitch != 0;
  if (part) {
    walked.push_back(-1);
    axes.strides.push_back(physical_strides(logical_strides(problem.outputs[0], layout), layout));
  }
  merge_axes(axes);
  if (axes.sizes.empty()) {  // one element
    axes.sizes = {1};
    for (Dims& strides : axes.strides) strides = {1};
  }
  if (walked.empty()) axes.sizes.clear();
  int64_t vector = std::max<int64_t>(1, 16 / largest);
  if (!walked.empty())
    while (axes.sizes.back() % vector) vector /= 2;
  if (part && axes.strides.back().back() != 1) vector = 1;  // rows of one element

  const std::string_view index = small_positions(count) ? "u32" : "u64";
  std::string inputs, loads, call, tail;
  for (size_t i = 0; i < problem.inputs.size(); ++i) {
    const std::string name = concat("in", i);
    std::string element = concat(held_type(dtypes[i]), "()"), tail_element = element;
    if (read[i]) {
      inputs += concat("const ", memory_type(dtypes[i]), "* ", name, ", ");
      out.jobs.resize(1);
      out.jobs[0].slots.push_back({Slot::Kind::input, int(i), 0});
      std::string load;
      if (access[i] == Access::contiguous) {
        load = concat("load_vector<V>(", name, " + first)");
        tail_element = concat("hold(", name, "[first + k])");
      } else if (access[i] == Access::uniform) {
        load = concat("load_splat<V>(", name, ")");
        tail_element = concat("hold(*", name, ")");
      } else {
        const size_t w = size_t(std::find(walked.begin(), walked.end(), int(i)) - walked.begin());
        const Dims& strides = axes.strides[w];
        bool aligned = strides.back() == 1;
        for (size_t axis = 0; axis + 1 < strides.size(); ++axis) aligned &= strides[axis] % vector == 0;
        const std::string at = concat(name, " + at[", w, ']');
        if (strides.back() == 0) load = concat("load_splat<V>(", at, ')');
        else if (aligned) load = concat("load_vector<V>(", at, ')');
        else
          load = concat("load_strided<V>(", at, ", ",
                        strides.back() == 1 ? "1" : concat("p.walk.strides[", w, "][RANK - 1]"), ')');
        tail_element = element;  // walks have no tail: V divides the innermost axis
      }
      loads += concat(" const auto x", i, " = ", load, ';');
      element = concat("hold(x", i, ".at[k])");
    }
    call += concat(i ? ", " : "", element);
    tail += concat(i ? ", " : "", tail_element);
  }
  out.jobs.resize(1);
  Job& job = out.jobs[0];
  job.entry = "pointwise";
  job.overlap = true;
  job.slots.push_back({Slot::Kind::output, 0, 0});
  ProgramNumbers numbers;
  const ProgramCode code = program_code(program, dtypes, "program", numbers);
  job.source.text =
      concat(include_line("support/scalar.cuh"), code.text, macro("NUMBERS", numbers.text()),
             int_constants({{"V", vector}, {"RANK", axes.sizes.size()}, {"WALKED", walked.size()}}),
             type_alias("Index", index), type_alias("Output", memory_type(output.dtype)), macro("INPUTS", inputs),
             macro("RESULT", part ? concat("at[", walked.size() - 1, ']') : "first"), "#define LOADS", loads, '\n',
             macro("CALL", concat(code.call, call, ')')), macro("TAIL_CALL", concat(code.call, tail, ')')),
             include_line("pointwise/pointwise.cu"));
  job.shape.block = {256, 1, 1};
  job.shape.grid = {blocks_for(count, 256 * vector), 1, 1};
  job.parameters =
      ParameterWriter().put(uint64_t(count)).put_walk(axes.sizes, axes.strides).put_numbers(numbers.values()).finish();
  return out;
}

bool takes_parts(const Problem& problem, const Config& config) {
  if (turns(config)) return false;
  return std::all_of(problem.inputs.begin(), problem.inputs.end(),
                     [&](const Port& input) { return input.pitch == 0 || input.dims() == problem.outputs[0].dims(); });
}

}  // namespace

extern const Recipe pointwise_recipe;
const Recipe pointwise_recipe{"cuda.pointwise", 6, supports, configs, work, {}, takes_parts};

}  // namespace temper::cuda
