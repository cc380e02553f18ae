// SPDX-License-Identifier: Apache-2.0
// Ops of random shapes on their kernels, of CPUs and of GPUs, against the reference. On the emulator a few; on a GPU as
// many as TEMPER_RANDOM_SHAPES says, or 200.
#include "../draw.h"
#include "backends/cpu/cpu.h"
#include "bench/cases.h"
#include "cuda/all_configs.h"
#include "cuda/cuda_test_helpers.h"
#include "cuda/emulated_gpu.h"
#include "cuda/run_recipe.h"
#include "graph/op.h"
#include "put_values.h"
#include "run_tactic.h"

namespace temper {
namespace {

using testing::Draw;

// A line as in tests/cases, and how far a result may be from the reference: 0 asks for the same bits.
struct Line {
  std::string text;
  double relative = 0, absolute = 0;
};

// Floats with all the digits that their dtype has, so that it shows in which order they were summed.
void fill_with_digits(Draw& draw, const KernelCase& line, std::vector<Tensor>& inputs) {
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].defined() && is_float(inputs[i].dtype()) && !line.inputs[i].value.defined())
      visit_dtype(inputs[i].dtype(), [&]<class T>() {
        for (int64_t k = 0; k < inputs[i].count(); ++k)
          inputs[i].data<T>()[k] = static_cast<T>(std::uniform_real_distribution<double>(-2, 2)(draw.random));
      });
}

void check(const Line& line, Draw& draw, testing::Cubins& cubins, const cuda::GpuRef& gpu, bool digits,
           const std::vector<double>& put = {}) {
  SCOPED_TRACE(line.text);
  const KernelCase one = parse_cases(line.text).at(0);
  std::vector<Tensor> inputs = make_case_inputs(one, draw.random());
  if (digits) fill_with_digits(draw, one, inputs);
  inputs = testing::put_values(inputs, one, put);
  const Problem problem = make_case_problem(one, inputs, int(draw(1, 2)));
  std::vector<TensorType> types;
  for (const Port& port : problem.outputs) types.push_back(port.type);
  const std::vector<Tensor> want = reference(one.op, inputs, types);
  auto expect = [&](const std::vector<Tensor>& got) {
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_EQ(testing::difference(got[i], want[i], line.relative, line.absolute), "") << "output " << i;
      EXPECT_TRUE(line.relative > 0 || got[i].same_bits(want[i])) << "output " << i;
    }
  };
  const Device cpu = cpu_device();
  for (const Tactic* tactic : find_backend("cpu").tactics()) {
    if (tactic->name == "reference" || !tactic->supports(problem, cpu).yes()) continue;
    for (const Config& config : tactic->configs(problem, cpu)) {
      SCOPED_TRACE(concat(tactic->name, ' ', config.text));
      expect(testing::run_tactic(*tactic, problem, config, inputs, cpu));
    }
  }
  const cuda::Stream stream(gpu);
  const cuda::GpuProperties properties(gpu->info());
  int runs = 0;
  for (const cuda::Recipe* recipe : cuda::recipes()) {
    if (!recipe_supports(*recipe, problem, gpu->info().architecture()).yes()) continue;
    for (const Config& config : testing::all_configs(*recipe, problem, properties)) {
      SCOPED_TRACE(concat(recipe->name, ' ', config.text));
      const cuda::Recipe::Work work = recipe->work(problem, config, properties);
      std::vector<cuda::KernelSource> sources;
      for (const cuda::Job& job : work.jobs) sources.push_back(job.source);
      cubins.prepare(sources);
      expect(testing::run_recipe(stream, cubins, problem, config, work, inputs));
      ++runs;
    }
  }
  EXPECT_GT(runs, 0);
}

std::string text_of(const Dims& dims) {
  std::string out;
  for (int64_t size : dims) out += concat(out.empty() ? "[" : ",", size);
  return out.empty() ? "[]" : out + "]";
}
Dims random_dims(Draw& draw, int64_t least_rank, int64_t most_rank, int64_t most_size) {
  Dims dims(static_cast<size_t>(draw(least_rank, most_rank)));
  for (int64_t& size : dims) size = draw(1, most_size);
  return dims;
}
template <size_t N>
std::string_view one_of(Draw& draw, const std::string_view (&names)[N]) {
  return names[draw(0, int64_t(N) - 1)];
}

// Updates meet more often than not.
Line random_scatter(Draw& draw) {
  static constexpr std::string_view dtypes[] = {"f32", "f32", "f16", "bf16", "f64", "i32", "i64", "u8", "bool"},
                                    reductions[] = {"none", "none", "add", "add", "mul", "max", "min"};
  const std::string_view dtype = one_of(draw, dtypes), reduction = one_of(draw, reductions),
                         at = draw.chance(50) ? "i64" : "i32";
  const Dims x = random_dims(draw, 1, 4, 9);
  Dims index, updates;
  int64_t low = 0, high = 1;
  std::string kind;
  if (draw.chance(50)) {
    const size_t axis = size_t(draw(0, int64_t(x.size()) - 1));
    for (size_t k = 0; k < x.size(); ++k) index.push_back(k == axis ? draw(0, 40) : draw(1, x[k]));
    updates = index;
    high = x[axis];
    kind = concat("axis=", axis);
  } else {
    const size_t length = size_t(draw(1, int64_t(x.size())));
    high = *std::min_element(x.begin(), x.begin() + ptrdiff_t(length));
    index = {draw(1, draw.chance(20) ? 3000 : 40), int64_t(length)};
    updates = {index[0]};
    updates.insert(updates.end(), x.begin() + ptrdiff_t(length), x.end());
    kind = "kind=nd";
  }
  if (draw.chance(50)) low = -high;
  return {concat("scatter(", dtype, text_of(x), ", ", at, text_of(index), "{", low, "..", high, "}, ", dtype,
                 text_of(updates), ") ", kind, " reduction=", reduction)};
}

// Rows of one chunk, which share blocks or not, and of some, along any axis; equal elements are many.
Line random_topk(Draw& draw) {
  static constexpr std::string_view dtypes[] = {"f32", "f16", "bf16", "f64", "i64", "i32", "u8", "bool"};
  Dims x = random_dims(draw, 1, 3, 6);
  const size_t axis = size_t(draw(0, int64_t(x.size()) - 1));
  x[axis] = draw.chance(60) ? draw(1, 300) : draw.chance(50) ? draw(1000, 5000) : draw(8000, 40000);
  const int64_t k = draw.chance(50) ? draw(1, std::min<int64_t>(x[axis], 50)) : draw(1, x[axis]);
  return {concat("topk(", one_of(draw, dtypes), text_of(x), ") k=", k, " axis=", axis,
                 " largest=", draw.chance(60) ? "true" : "false")};
}

Line random_cumulative(Draw& draw) {
  static constexpr std::string_view dtypes[] = {"f32", "f16", "bf16", "f64", "i64", "i32", "u8"};
  Dims x = random_dims(draw, 1, 4, 5);
  const size_t axis = size_t(draw(0, int64_t(x.size()) - 1));
  x[axis] = draw.chance(40) ? draw(1, 70) : draw.chance(50) ? draw(70, 1500) : draw(1500, 6000);
  const std::string_view dtype = one_of(draw, dtypes);
  const double half = dtype == "f16" ? 1e-3 : dtype == "bf16" ? 8e-3 : 1e-6;
  return {concat("cumulative(", dtype, text_of(x), ") axis=", axis, " kind=", draw.chance(70) ? "sum" : "prod",
                 " exclusive=", draw.chance(30) ? "true" : "false", " reverse=", draw.chance(30) ? "true" : "false"),
          dtype == "f64" ? 1e-12 : half, dtype == "f64" ? 1e-11 : 1e-6};
}

// How far sums of weighted elements of size 2 may be from those in f64.
double digits_of(std::string_view dtype) {
  return dtype == "f64" ? 1e-12 : dtype == "f16" ? 2e-3 : dtype == "bf16" ? 1.6e-2 : 3e-6;
}

// Places from twice as far outside as the borders are.
Line random_grid_sample(Draw& draw) {
  static constexpr std::string_view dtypes[] = {"f32", "f32", "f16", "bf16", "f64"}, places[] = {"f32", "f32", "f64"},
                                    kinds[] = {"nearest", "linear", "cubic"},
                                    paddings[] = {"zeros", "border", "reflection"};
  const int64_t axes = draw.chance(60) ? 2 : draw(1, 3);
  Dims x{draw(1, 3), draw(1, 9)}, grid{x[0]};
  for (int64_t i = 0; i < axes; ++i) x.push_back(draw(1, 9)), grid.push_back(draw(1, 7));
  grid.push_back(axes);
  const std::string_view dtype = one_of(draw, dtypes);
  return {concat("grid_sample(", dtype, text_of(x), ", ", one_of(draw, places), text_of(grid),
                 ") kind=", one_of(draw, kinds), " padding=", one_of(draw, paddings),
                 " align_corners=", draw.chance(50) ? "true" : "false"),
          digits_of(dtype), digits_of(dtype)};
}

// Corners are where they are drawn, so half of the regions are turned around.
Line random_roi_align(Draw& draw) {
  static constexpr std::string_view dtypes[] = {"f32", "f32", "f16", "bf16", "f64"};
  const std::string_view dtype = one_of(draw, dtypes), half_pixel = draw.chance(50) ? "true" : "false";
  const int64_t regions = draw(1, 6), pictures = draw(1, 3);
  return {concat("roi_align(", dtype, text_of({pictures, draw(1, 9), draw(1, 12), draw(1, 12)}), ", ", dtype, "[",
                 regions, ",4], ", draw.chance(50) ? "i64" : "i32", "[", regions, "]{", -pictures, "..", pictures,
                 "}) kind=", draw.chance(50) ? "max" : "avg", " height=", draw(1, 4), " width=", draw(1, 4),
                 " sampling_ratio=", draw(0, 3), " spatial_scale=", draw(1, 9), " half_pixel=", half_pixel),
          digits_of(dtype), digits_of(dtype)};
}

Line random_lrn(Draw& draw) {
  static constexpr std::string_view dtypes[] = {"f32", "f16", "bf16", "f64"};
  const std::string_view dtype = one_of(draw, dtypes);
  return {concat("lrn(", dtype, text_of(random_dims(draw, 2, 5, 9)), ") size=", draw(1, 12),
                 " alpha=0.5 beta=0.75 bias=1.5"),
          digits_of(dtype), digits_of(dtype)};
}

using Make = Line (*)(Draw&);
void check_random(Make make, bool digits, int count, uint64_t first, const cuda::Compiler& compiler,
                  const cuda::GpuRef& gpu) {
  testing::Cubins cubins(compiler, gpu->info().architecture());
  for (uint64_t seed = first; seed < first + uint64_t(count); ++seed) {
    SCOPED_TRACE(seed);
    Draw draw{std::mt19937_64(seed)};
    check(make(draw), draw, cubins, gpu, digits);
  }
}
void check_emulated(Make make, bool digits) {
  const testing::EmulatedGpu emulated;
  check_random(make, digits, testing::shapes_asked_for().value_or(8), testing::first_seed(), emulated.compiler(),
               emulated.gpu());
}
void check_on_gpu(Make make, bool digits) {
  TEMPER_NEEDS_GPU(gpu);
  TEMPER_NEEDS_NVRTC(compiler);
  check_random(make, digits, testing::shapes_asked_for().value_or(200), testing::first_seed(), *compiler, gpu);
}

// The bits of the reference, whatever meets where.
TEST(EmulatedRandomOps, ScatterGivesTheReferencesBits) { check_emulated(random_scatter, true); }
TEST(CudaRandomOps, ScatterGivesTheReferencesBits) { check_on_gpu(random_scatter, true); }

TEST(EmulatedRandomOps, TopKGivesTheReferencesBits) { check_emulated(random_topk, false); }
TEST(CudaRandomOps, TopKGivesTheReferencesBits) { check_on_gpu(random_topk, false); }
TEST(EmulatedRandomOps, RunningTotalsHaveTheReferencesDigits) { check_emulated(random_cumulative, true); }
TEST(CudaRandomOps, RunningTotalsHaveTheReferencesDigits) { check_on_gpu(random_cumulative, true); }

TEST(EmulatedRandomOps, SamplesOfGridsAreTheReferences) { check_emulated(random_grid_sample, true); }
TEST(CudaRandomOps, SamplesOfGridsAreTheReferences) { check_on_gpu(random_grid_sample, true); }
TEST(EmulatedRandomOps, AlignedRegionsAreTheReferences) { check_emulated(random_roi_align, true); }
TEST(CudaRandomOps, AlignedRegionsAreTheReferences) { check_on_gpu(random_roi_align, true); }
TEST(EmulatedRandomOps, ChannelsAreNormalisedAsByTheReference) { check_emulated(random_lrn, true); }
TEST(CudaRandomOps, ChannelsAreNormalisedAsByTheReference) { check_on_gpu(random_lrn, true); }

// NaN is the largest number, and both zeros are one.
TEST(EmulatedRandomOps, TopKOrdersNanInfinityAndZeros) {
  const testing::EmulatedGpu emulated;
  testing::Cubins cubins(emulated.compiler(), emulated.gpu()->info().architecture());
  constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  for (const char* dtype : {"f16", "f64"})
    for (const char* largest : {"true", "false"}) {
      Draw draw{std::mt19937_64(1)};
      for (const auto& [n, k] : {std::pair(60, 60), std::pair(9000, 40)})
        check({concat("topk(", dtype, "[", n, "]) k=", k, " axis=0 largest=", largest)}, draw, cubins, emulated.gpu(),
              false, {nan, -0.0, 0.0, inf, -inf, -nan, -0.0, nan, inf, 0.0});
    }
}

}  // namespace
}  // namespace temper
