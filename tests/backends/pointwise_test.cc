// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/pointwise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "backends/cpu/cpu.h"
#include "backends/cpu/isa.h"
#include "run_tactic.h"

namespace temper {
namespace {

using testing::difference;
using testing::run_tactic;

struct Random {
  std::mt19937_64 engine;
  int64_t below(int64_t n) { return int64_t(engine() % uint64_t(n)); }
};

// Small integers, so that arithmetic is exact; now and then a special value.
Tensor random_tensor(DType dtype, const Dims& dims, Random& random) {
  Tensor out(dtype, dims);
  visit_dtype(dtype, [&]<class T>() {
    for (int64_t i = 0; i < out.count(); ++i) {
      const int64_t value = random.below(17) - (is_float(dtype) || is_signed_int(dtype) ? 8 : 0);
      if constexpr (std::is_same_v<T, bool>) out.data<T>()[i] = value % 2 != 0;
      else if constexpr (std::is_integral_v<T>)
        out.data<T>()[i] = random.below(20)  ? T(value)
                           : random.below(2) ? std::numeric_limits<T>::min()
                                             : std::numeric_limits<T>::max();
      else out.data<T>()[i] = random.below(40) ? T(float(value) * 0.25f) : T(random.below(2) ? NAN : INFINITY);
    }
  });
  return out;
}

Problem pointwise_problem(const Program& program, const std::vector<TensorType>& types, const Dims& dims, int threads) {
  std::vector<DType> dtypes;
  Problem problem{ops::Pointwise{program}, {}, {}, threads};
  for (const TensorType& type : types) {
    dtypes.push_back(type.dtype);
    problem.inputs.push_back({type});
  }
  problem.outputs.push_back({type_of(program.infer(dtypes), dims)});
  return problem;
}

void expect_matches(const Program& program, const std::vector<Tensor>& inputs, const Dims& dims, int threads,
                    double relative, double absolute) {
  std::vector<TensorType> types;
  for (const Tensor& input : inputs) types.push_back(input.type());
  const Problem problem = pointwise_problem(program, types, dims, threads);
  const Tactic* tactic = find_tactic("cpu.pointwise");
  ASSERT_NE(tactic, nullptr);
  Device device{.backend = "cpu"};
  device.avx512 = device.avx2 = true;
  ASSERT_TRUE(tactic->supports(problem, device).yes());
  const Tensor want = run_program(program, inputs, dims);
  for (const Config& config : tactic->configs(problem, device)) {
    const Tensor got = run_tactic(*tactic, problem, config, inputs, device).at(0);
    const std::string text = difference(got, want, relative, absolute);
    ASSERT_EQ(text, "") << problem.text() << " in " << name_of(config.outputs[0]);
  }
}

// The dims with some axes cut to 1 or dropped from the front.
Dims broadcast_from(const Dims& dims, Random& random) {
  if (random.below(2)) return dims;
  Dims out = dims;
  for (int64_t& d : out)
    if (random.below(2)) d = 1;
  const size_t drop = size_t(random.below(int64_t(out.size()) + 1));
  if (random.below(2)) out.erase(out.begin(), out.begin() + int64_t(drop));
  return out;
}

// A program of exact steps over values of any dtype.
Program random_program(std::vector<DType> dtypes, Random& random) {
  Program program;
  program.inputs = int(dtypes.size());
  const int count = 1 + int(random.below(12));
  for (int s = 0; s < count; ++s) {
    for (int attempt = 0; attempt < 100; ++attempt) {
      Step step{Scalar(random.below(53)), DType(random.below(kDTypeCount))};
      if (step.op >= Scalar::exp && step.op <= Scalar::atanh && step.op != Scalar::relu) continue;  // inexact
      if (step.op == Scalar::sqrt || step.op == Scalar::pow || step.op == Scalar::reciprocal ||
          step.op == Scalar::div) {
        if (is_float(step.dtype)) continue;  // an inexact result would make comparisons and rounding ambiguous
      }
      for (int a = 0; a < arity_of(step.op); ++a) step.args[size_t(a)] = int(random.below(int64_t(dtypes.size())));
      if (step.op != Scalar::cast && step.op != Scalar::constant &&
          !(step.op >= Scalar::equal && step.op <= Scalar::is_inf))
        step.dtype = dtypes[size_t(step.args[step.op == Scalar::where ? 1 : 0])];
      if (step.op >= Scalar::equal && step.op <= Scalar::is_inf) step.dtype = DType::boolean;
      if (step.op == Scalar::constant) step = constant_step(step.dtype, double(random.below(5)));
      Program longer = program;
      longer.push(step);
      try {
        std::vector<DType> inputs(dtypes.begin(), dtypes.begin() + program.inputs);
        longer.infer(inputs);
      } catch (const Error&) { continue; }
      program = longer;
      dtypes.push_back(step.dtype);
      break;
    }
  }
  return program;
}

TEST(CpuPointwise, RandomProgramsOverRandomBroadcastsEqualTheReference) {
  Random random{std::mt19937_64(1)};
  const std::vector<Dims> shapes = {{},
                                    {1},
                                    {7},
                                    {1000},
                                    {3, 5},
                                    {2, 16, 3},
                                    {2, 32, 5, 7},
                                    {1, 48, 9, 1},
                                    {3, 16, 2, 3, 4},
                                    {2, 3, 4, 1, 2, 3},
                                    {2, 0, 3},
                                    {5, 300},
                                    {2, 16, 20, 20},
                                    {2, 1, 257},
                                    {2, 17, 5, 7},
                                    {1, 40, 9},
                                    {2, 3, 20, 20},
                                    {1, 24, 30, 3}};
  for (int round = 0; round < 600 && !HasFatalFailure(); ++round) {
    set_isa(Isa(round % (int(best_isa()) + 1)));
    const Dims dims = shapes[size_t(random.below(int64_t(shapes.size())))];
    std::vector<Tensor> inputs;
    std::vector<DType> dtypes;
    const int64_t count = 1 + random.below(4);
    const DType common = DType(random.below(kDTypeCount));
    for (int64_t i = 0; i < count; ++i) {
      const DType dtype = random.below(3) ? common : DType(random.below(kDTypeCount));
      inputs.push_back(random_tensor(dtype, i == 0 ? dims : broadcast_from(dims, random), random));
      dtypes.push_back(dtype);
    }
    expect_matches(random_program(dtypes, random), inputs, dims, 1 + int(random.below(2)), 1e-6, 1e-6);
  }
  set_isa(best_isa());
}

TEST(CpuPointwise, EveryFunctionMatchesOnEveryFloat) {
  for (DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    Tensor x(dtype, {3, 700});
    visit_dtype(dtype, [&]<class T>() {
      for (int64_t i = 0; i < x.count(); ++i)
        if constexpr (!std::is_integral_v<T>) x.data<T>()[i] = T(float(i - 1000) * 0.01f);
    });
    const double relative = dtype == DType::f16    ? 2e-3
                            : dtype == DType::bf16 ? 1.6e-2
                            : dtype == DType::f64  ? 1e-14
                                                   : 1e-6;
    for (Scalar op : {Scalar::exp, Scalar::log, Scalar::erf, Scalar::sigmoid, Scalar::tanh, Scalar::sin, Scalar::cos,
                      Scalar::tan, Scalar::asin, Scalar::acos, Scalar::atan, Scalar::sinh, Scalar::cosh, Scalar::asinh,
                      Scalar::acosh, Scalar::atanh, Scalar::sqrt, Scalar::reciprocal}) {
      Program program;
      program.push({op, dtype, {0}});
      expect_matches(program, {x}, x.dims(), 1, relative, 1e-6);
    }
    for (double exponent : {0.5, 1.0, 2.0, 3.0, -1.0, 2.5}) {
      Program program;
      program.push(constant_step(dtype, exponent));
      program.push({Scalar::pow, dtype, {0, 1}});
      expect_matches(program, {x}, x.dims(), 1, relative, 1e-6);
    }
  }
}

// docs/limits.md; ONNX Runtime computes such powers in floating point.
TEST(CpuPointwise, PowersOfIntegersWrapAndNegativeOnesAreWhatIsLeft) {
  const auto check = [&]<class T>(const std::vector<T>& base, const std::vector<T>& exponent,
                                  const std::vector<T>& want) {
    const Dims dims{int64_t(base.size())};
    const auto tensor_of = [&](const std::vector<T>& values) {
      Tensor out(dtype_of<T>, dims);
      std::copy(values.begin(), values.end(), out.data<T>());
      return out;
    };
    Program program;
    program.inputs = 2;
    program.steps = {{Scalar::pow, dtype_of<T>, {0, 1}}};
    const std::vector<Tensor> inputs{tensor_of(base), tensor_of(exponent)};
    EXPECT_EQ(difference(run_program(program, inputs, dims), tensor_of(want), 0, 0), "") << name_of(dtype_of<T>);
    expect_matches(program, inputs, dims, 1, 0, 0);
  };
  check(std::vector<int32_t>{2, 3, -3, 65537, 7, 2, 1, -1, -1, 0}, {31, 21, 21, 2, 0, -1, -9, -9, -8, -2},
        {INT32_MIN, 1870418611, -1870418611, 131073, 1, 0, 1, -1, 1, 0});
  check(std::vector<int64_t>{2, 2, 3, -3, 10}, {63, 64, 41, 41, 19},
        {INT64_MIN, 0, -420491770248316829, 420491770248316829, int64_t(10000000000000000000ull)});
  check(std::vector<uint8_t>{2, 3, 16}, {8, 6, 2}, {0, 217, 0});
}

TEST(CpuPointwise, WorksInPlaceAndOnSeveralThreads) {
  const Program gelu = Program::parse(
      "(2) 2=constant.f32[0.70710677] 3=mul.f32(0,2) 4=erf.f32(3) 5=constant.f32[1] 6=add.f32(4,5) 7=mul.f32(0,6) "
      "8=constant.f32[0.5] "
      "9=mul.f32(7,8) 10=add.f32(9,1)");
  const Dims dims{2, 64, 31, 33};
  Random random{std::mt19937_64(3)};
  const Tensor x = random_tensor(DType::f32, dims, random), bias = random_tensor(DType::f32, {64, 1, 1}, random);
  const std::vector<Tensor> inputs{x, bias};
  const Tensor want = run_program(gelu, inputs, dims);
  for (Layout layout : {Layout::plain, Layout::channels_last, Layout::blocked8, Layout::blocked16}) {
    auto kernel = make_pointwise_kernel(gelu, {x.type(), bias.type()}, x.type(), layout, 2);
    testing::Guarded memory(layout_bytes(DType::f32, dims, layout), 0xa5);
    testing::store_layout(x, layout, memory.data());
    const void* in[] = {memory.data(), bias.raw().data()};
    void* out[] = {memory.data()};
    kernel->launch({in, out, nullptr});
    EXPECT_TRUE(memory.intact());
    EXPECT_EQ(difference(testing::load_layout(DType::f32, dims, layout, memory.data()), want, 1e-6, 1e-6), "")
        << name_of(layout);
  }
}

TEST(CpuPointwise, RoundingToBytesInOneStepGivesTheBitsOfItsSteps) {
  Random random{std::mt19937_64(5)};
  const float specials[] = {NAN,     INFINITY, -INFINITY, 0.f,     -0.f,  1e-40f,   3e9f,   -3e9f,
                            2.2e10f, 127.5f,   -128.5f,   32767.f, 3e38f, -70000.f, 255.5f, 0.5f};
  for (int64_t n : {1, 31, 32, 33, 1000})
    for (const char* scaled : {"2=div.f32(0,1)", "2=mul.f32(0,1)", "2=mul.f32(1,0)"})
      for (const char* to : {"i8", "u8"})
        for (const char* rest :
             {"4=cast.", "4=constant.f32[-3] 5=add.f32(3,4) 6=cast.", "4=constant.f32[128] 5=add.f32(4,3) 6=cast."}) {
          const bool shifted = std::string_view(rest).size() > 8;
          const Program program = Program::parse(
              concat("(1) 1=constant.f32[0.37] ", scaled, " 3=round.f32(2) ", rest, to, '(', shifted ? 5 : 3, ')'));
          Tensor x(DType::f32, {n});
          for (int64_t i = 0; i < n; ++i)
            x.data<float>()[i] =
                random.below(4) ? float(random.below(20000) - 10000) * 0.0185f : specials[random.below(16)];
          SCOPED_TRACE(concat(program.text(), " of ", n));
          for (const Isa isa : {Isa::base, best_isa()}) {
            set_isa(isa);
            expect_matches(program, {x}, x.dims(), 1, 0, 0);
          }
          set_isa(best_isa());
        }
  // What is within is wanted, too: the steps stay apart.
  const Program both = Program::parse(
      "(1) 1=constant.f32[0.37] 2=div.f32(0,1) 3=round.f32(2) 4=cast.i8(3) 5=cast.f32(4) 6=add.f32(5,3)");
  Tensor x(DType::f32, {100});
  for (int64_t i = 0; i < 100; ++i) x.data<float>()[i] = float(i - 50);
  expect_matches(both, {x}, x.dims(), 1, 0, 0);
}

TEST(CpuPointwise, ALayoutThatTheOutputCannotHaveIsRefused) {
  const TensorType type = type_of(DType::f32, {4, 4});
  Program relu;
  relu.push({Scalar::relu, DType::f32, {0}});
  EXPECT_FALSE(pointwise_supported(relu, {type}, type, Layout::blocked16).yes());
  EXPECT_TRUE(pointwise_supported(relu, {type}, type, Layout::plain).yes());
  EXPECT_THROW(make_pointwise_kernel(relu, {type}, type, Layout::blocked8, 1), Error);
}

}  // namespace
}  // namespace temper
