// SPDX-License-Identifier: Apache-2.0
// Every step of pointwise programs on every dtype that it is defined on, at values where rules meet (zeros, extremes,
// halves, infinities, NaN), on a GPU against the reference. Exact arithmetic must agree to the bit.
#include <cmath>

#include "all_configs.h"
#include "gpu_properties.h"
#include "graph/ops/pointwise.h"
#include "run_recipe.h"

namespace temper {
namespace {

Tensor interesting(DType dtype, bool second) {
  Tensor out;
  visit_dtype(dtype, [&]<class T>() {
    std::vector<double> values;
    if constexpr (std::is_same_v<Wide<T>, double>) {
      constexpr double inf = std::numeric_limits<double>::infinity();
      values = {0,
                -0.0,
                1,
                -1,
                0.5,
                -0.5,
                1.5,
                2.5,
                -2.5,
                0.1,
                -0.3,
                3.75,
                7,
                -7,
                100.25,
                127.5,
                128.5,
                -128.5,
                -129,
                255.5,
                256,
                1e-3,
                65503,
                65520,
                1e5,
                -1e9,
                2147483647.0,
                2147483648.0,
                -2147483649.0,
                4294967295.0,
                4294967296.0,
                9.3e18,
                -9.3e18,
                1.9e19,
                1e30,
                3e38,
                1e-38,
                1e-40,
                inf,
                -inf,
                std::nan("")};
    } else {
      const double low = double(std::numeric_limits<T>::lowest()), high = double(std::numeric_limits<T>::max());
      values = {0, 1, 2, 3, 5, 7, 8, 11, 16, 31, 32, 63, 64, 100, 127, low, high, low / 2, high / 2};
      if (low < 0) values.insert(values.end(), {-1, -2, -3, -5, -7, -11, -64, -100});
    }
    // All pairs: the first walks slowly, the second quickly.
    const int64_t n = int64_t(values.size());
    out = Tensor(dtype, {n * n});
    for (int64_t i = 0; i < n * n; ++i) {
      const double v = values[size_t(second ? i % n : i / n)];
      if constexpr (std::is_same_v<Wide<T>, double>) out.data<T>()[i] = static_cast<T>(v);
      else if (v >= double(std::numeric_limits<T>::max())) out.data<T>()[i] = std::numeric_limits<T>::max();
      else out.data<T>()[i] = static_cast<T>(v);
    }
  });
  return out;
}

// The rest are functions that a GPU approximates to a few units in the last place.
bool is_exact(Scalar op) {
  switch (op) {
    case Scalar::pow:
    case Scalar::exp:
    case Scalar::log:
    case Scalar::erf:
    case Scalar::sigmoid:
    case Scalar::tanh:
    case Scalar::sin:
    case Scalar::cos:
    case Scalar::tan:
    case Scalar::asin:
    case Scalar::acos:
    case Scalar::atan:
    case Scalar::sinh:
    case Scalar::cosh:
    case Scalar::asinh:
    case Scalar::acosh:
    case Scalar::atanh: return false;
    default: return true;
  }
}

// testing::difference with the same tolerance for numbers of any size: here they reach the largest doubles.
std::string difference(const Tensor& got, const Tensor& want, double relative, double absolute) {
  if (!is_float(want.dtype())) return testing::difference(got, want, relative, absolute);
  const auto g = got.to_doubles(), w = want.to_doubles();
  for (size_t i = 0; i < w.size(); ++i) {
    if (g[i] == w[i] || (std::isnan(g[i]) && std::isnan(w[i]))) continue;
    if (!std::isfinite(g[i]) || !std::isfinite(w[i]) || std::fabs(g[i] - w[i]) > absolute + relative * std::fabs(w[i]))
      return concat("element ", i, " is ", g[i], ", not ", w[i]);
  }
  return "";
}

TEST(CudaPrograms, EveryStepOnEveryDtypeAgreesWithTheReference) {
  TEMPER_NEEDS_GPU(gpu);
  TEMPER_NEEDS_NVRTC(compiler);
  struct One {
    Program program;
    std::vector<Tensor> inputs;
    Problem problem;
    Config config;
    cuda::Recipe::Work work;
  };
  std::vector<One> all;
  std::vector<cuda::KernelSource> sources;
  const cuda::Recipe* recipe = &testing::recipe_named("cuda.pointwise");
  for (int d = 0; d < kDTypeCount; ++d) {
    const DType dtype = DType(d);
    const Tensor a = interesting(dtype, false), b = interesting(dtype, true);
    auto add = [&](Step step) {
      One one;
      one.program.inputs = 2;
      one.program.push(step);
      const DType dtypes[] = {dtype, dtype};
      try {
        one.problem.outputs = {{type_of(one.program.infer(dtypes), a.dims())}};
      } catch (const Error&) {
        return;  // not defined on this dtype
      }
      one.problem.op = ops::Pointwise{one.program};
      one.problem.inputs = {{a.type()}, {b.type()}};
      one.inputs = {a, b};
      one.config = recipe->configs(one.problem, testing::kH100).at(0);
      one.work = recipe->work(one.problem, one.config, testing::kH100);
      for (const cuda::Job& job : one.work.jobs) sources.push_back(job.source);
      all.push_back(std::move(one));
    };
    for (size_t op = 0; op < enum_names(Scalar{}).size(); ++op) {
      const Scalar scalar = Scalar(op);
      if (scalar == Scalar::constant) continue;
      if (scalar == Scalar::cast) {
        for (int to = 0; to < kDTypeCount; ++to) add({scalar, DType(to), {0, -1, -1}});
        continue;
      }
      const int arity = arity_of(scalar);
      const std::array<int, 3> args{0, arity > 1 ? 1 : -1, arity > 2 ? 0 : -1};
      add({scalar, dtype, args});
      if (dtype != DType::boolean) add({scalar, DType::boolean, args});
    }
  }
  EXPECT_GT(all.size(), 400u);
  testing::Cubins cubins(*compiler, gpu->info().architecture());
  cubins.prepare(sources);
  if (HasFailure()) return;
  const cuda::Stream stream(gpu);
  int exact = 0;
  for (const One& one : all) {
    const Step& step = one.program.steps[0];
    const DType from = one.inputs[0].dtype();
    SCOPED_TRACE(concat(one.program.text(), " of ", from));
    const Tensor want = run_program(one.program, one.inputs, one.inputs[0].dims());
    const Tensor got = testing::run_recipe(stream, cubins, one.problem, one.config, one.work, one.inputs).at(0);
    // min and max leave open which zero they give; everything is compared as numbers, so zeros agree.
    double relative = 0, absolute = 0;
    if (!is_exact(step.op))
      relative = from == DType::f64 ? 1e-14 : from == DType::f32 ? 2e-6 : from == DType::f16 ? 1e-3 : 8e-3;
    if (!is_exact(step.op)) absolute = from == DType::f64 ? 1e-300 : from == DType::f16 ? 1e-7 : 1e-38;
    exact += is_exact(step.op);
    // Casts of 64-bit integers that a double cannot hold are compared by their bits.
    if (is_exact(step.op) && !is_float(want.dtype()))
      EXPECT_TRUE(got.same_bits(want)) << testing::difference(got, want, 0, 0);
    else EXPECT_EQ(difference(got, want, relative, absolute), "");
  }
  std::printf("%zu programs, %d of them exact\n", all.size(), exact);
}

// A program of one step on FP32, ready to be compiled.
struct OneStep {
  Program program;
  Tensor x = interesting(DType::f32, false);
  Problem problem;
  Config config;
  cuda::Recipe::Work work;

  explicit OneStep(Scalar op) {
    program.push({op, DType::f32, {0, -1, -1}});
    problem = {ops::Pointwise{program}, {{x.type()}}, {{x.type()}}};
    const cuda::Recipe* recipe = &testing::recipe_named("cuda.pointwise");
    config = recipe->configs(problem, testing::kH100).at(0);
    work = recipe->work(problem, config, testing::kH100);
  }
};

// The first launch of a kernel may be one that is recorded.
TEST(CudaGraphs, AKernelThatNeverRanMayBeRecorded) {
  TEMPER_NEEDS_GPU(gpu);
  TEMPER_NEEDS_NVRTC(compiler);
  const OneStep one(Scalar::neg);
  const testing::Cubins cubins(*compiler, gpu->info().architecture());
  const cuda::Stream stream(gpu);
  const testing::Prepared prepared(stream, cubins, one.problem, one.config, one.work, {one.x});
  prepared.poison();
  stream.begin_graph();
  prepared.launch();
  const cuda::Graph graph = stream.end_graph();
  stream.launch(graph);
  EXPECT_EQ(testing::difference(prepared.read().at(0),
                                run_program(one.program, std::vector<Tensor>{one.x}, one.x.dims()), 0, 0),
            "");
}

// Each allocation and each launch of making work ready and running it fails once; then it works, and nothing has
// leaked.
TEST(CudaFailures, EachIsAnErrorAndTheGpuGoesOnWithoutALeak) {
  TEMPER_NEEDS_GPU(gpu);
  TEMPER_NEEDS_NVRTC(compiler);
  const OneStep one(Scalar::abs);
  const testing::Cubins cubins(*compiler, gpu->info().architecture());
  auto once = [&] {
    const cuda::Stream stream(gpu);
    const testing::Prepared prepared(stream, cubins, one.problem, one.config, one.work, {one.x});
    stream.begin_graph();
    try {
      prepared.launch();
    } catch (const Error&) {
      stream.abandon_graph();
      throw;
    }
    const cuda::Graph graph = stream.end_graph();
    stream.launch(graph);
    return prepared.read().at(0);
  };
  const Tensor want = once();
  gpu->synchronize();
  const int64_t free = gpu->memory().free;
  int failures = 0;
  for (auto* countdown : {&cuda::planned_failures().allocate, &cuda::planned_failures().launch}) {
    for (int64_t n = 1; n < 100; ++n) {
      countdown->store(n);
      bool threw = false;
      try {
        once();
      } catch (const Error& error) {
        threw = true;
        EXPECT_EQ(error.kind(), ErrorKind::machine) << error.what();
      }
      countdown->store(0);
      if (!threw) break;
      ++failures;
    }
  }
  EXPECT_GE(failures, 8);
  EXPECT_TRUE(once().same_bits(want));
  gpu->synchronize();
  EXPECT_EQ(gpu->memory().free, free);
}

}  // namespace
}  // namespace temper
