// SPDX-License-Identifier: Apache-2.0
// Random attentions on the CPU's kernels, in tensors of their own and as parts of larger ones, on every instruction set
// of this machine. TEMPER_RANDOM_SHAPES says how many; 50 else.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "../attention_lines.h"
#include "../case_files.h"
#include "../run_tactic.h"
#include "backends/cpu/cpu.h"
#include "backends/cpu/isa.h"
#include "bench/cases.h"

namespace temper {
namespace {

using testing::Draw;

// A line of tests/cases.
std::string random_line(uint64_t seed) {
  Draw draw{std::mt19937_64(seed)};
  const char* const dtypes[] = {"f32", "f32", "f32", "f16", "bf16"};
  const std::string dtype = dtypes[draw(0, 4)];
  const int64_t batch = draw(1, 3), kv_heads = draw(1, 3), heads = kv_heads * (draw.chance(30) ? draw(2, 3) : 1),
                queries = draw.chance(20) ? draw(1, 7) : draw(1, 150), keys = draw.chance(40) ? queries : draw(1, 200),
                size = draw.chance(20) ? 64 : draw(1, 40), value_size = draw.chance(60) ? size : draw(1, 40);
  auto type = [&](int64_t rows, int64_t width) { return concat(dtype, '[', batch, ',', rows, ',', width, ']'); };
  std::string line = concat("attention(", type(queries, heads * size), ", ", type(keys, kv_heads * size), ", ",
                            type(keys, kv_heads * value_size));
  line += testing::draw_masks(draw, {"f32", "bf16", "bool"}, batch, heads, queries, keys).text;
  line += concat(") heads=", heads, " kv_heads=", kv_heads, " scale=", draw.chance(80) ? "0.125" : "1");
  if (draw.chance(20)) line += concat(" left=", draw(0, 80));
  if (draw.chance(40)) line += concat(" right=", draw.chance(70) ? 0 : draw(0, 80));
  if (draw.chance(40)) line += " from_end=true";
  if (draw.chance(20)) line += " softcap=3";
  if (draw.chance(50)) line += " zero_nan=true";
  return line;
}

// The kernels that take a problem, on this instruction set of this machine.
struct Way {
  std::string name;
  const Tactic& kernel;
  Device device;
};
std::vector<Way> ways(Isa isa, DType dtype) {
  const Device own = cpu_device();
  Device plain = own;
  plain.avx512_bf16 = plain.amx = false;
  std::vector<Way> list{{"f32", *find_tactic("cpu.attention"), plain}};
  if (isa != best_isa() || dtype != DType::bf16 || !own.avx512_bf16) return list;
  const Tactic& bf16 = *find_tactic("cpu.attention.bf16");
  if (own.amx) list.push_back({"bf16 by tiles", bf16, own});
  Device pairs = own;
  pairs.amx = false;
  list.push_back({"bf16 by pairs", bf16, pairs});
  return list;
}

// q, k, v and the result as parts of larger tensors.
Tensor run_in_parts(const Tactic& kernel, Problem problem, const Config& config, const std::vector<Tensor>& inputs,
                    const Device& device) {
  std::vector<testing::Guarded> in;
  std::vector<const void*> in_pointers;
  for (size_t i = 0; i < inputs.size(); ++i) {
    Port& port = problem.inputs[i];
    if (i < 3) port.pitch = port.dims().back() + int64_t(i) * 5 + 3;
    const auto bytes =
        port.present ? layout_bytes(port.type.dtype, port.dims(), Layout::plain, port.pitch) : int64_t(0);
    in.emplace_back(bytes, 0xff);
    if (port.present) testing::store_layout(inputs[i], Layout::plain, in.back().data(), port.pitch);
    in_pointers.push_back(port.present ? in.back().data() : nullptr);
  }
  Port& y = problem.outputs[0];
  y.pitch = y.dims().back() + 7;
  EXPECT_TRUE(kernel.takes(problem, config));
  testing::Guarded out(layout_bytes(y.type.dtype, y.dims(), Layout::plain, y.pitch), 0xa5);
  out.fill(0xff);
  void* const out_pointers[] = {out.data()};
  const auto loaded = kernel.load(problem, config, {}, device);
  testing::Guarded workspace(loaded->workspace(), 0xff);
  loaded->launch({in_pointers, out_pointers, workspace.data()});
  EXPECT_TRUE(workspace.intact() && out.intact()) << "wrote beside a buffer";
  return testing::load_layout(y.type.dtype, y.dims(), Layout::plain, out.data(), y.pitch);
}

// What bf16 explains, which has 8 bits. The result and the reference are rounded to it, each by up to 2^-8 of it. The
// kernel rounds the shares as well: the largest is 1 and has no error, of two keys the other is at most half of the
// sum, so the result is off by 2^-9 of the largest value; with more keys errors have either sign. Of 384 random shapes,
// by tiles and by pairs, the worst was off by 0.30 of 2^-8 beyond the roundings, the median by 0.17.
testing::Tolerance bf16_tolerance(const Tensor& values) {
  double largest = 0;
  for (const double value : values.to_doubles()) largest = std::max(largest, std::abs(value));
  return {0x1p-7, 0x1p-9 * largest};
}

TEST(CpuAttention, GivesTheReferencesResultsForRandomShapes) {
  const uint64_t count = uint64_t(testing::shapes_asked_for().value_or(50));
  const Isa best = best_isa();
  for (uint64_t seed = 0; seed < count && !HasFailure(); ++seed) {
    const std::string text = random_line(seed);
    SCOPED_TRACE(text);
    const KernelCase line = parse_cases(text).at(0);
    const std::vector<Tensor> inputs = make_case_inputs(line, seed);
    Tensor want;
    for (const Isa isa : {Isa::base, Isa::avx2, Isa::avx512}) {
      if (isa > best) continue;
      SCOPED_TRACE(concat("isa=", int(isa)));
      set_isa(isa);
      const Problem problem = make_case_problem(line, inputs, 1 + int(seed % 3));
      const std::vector<TensorType> types{problem.outputs[0].type};
      if (!want.defined()) want = reference(line.op, inputs, types).at(0);
      testing::Tolerance t = testing::tolerance_of(want.dtype());
      if (want.dtype() == DType::f32) t = {1e-5, 1e-5};  // sums of a hundred weights, each with the error of exp
      for (const auto& [name, kernel, device] : ways(isa, want.dtype())) {
        SCOPED_TRACE(name);
        if (name != "f32") t = bf16_tolerance(inputs[2]);
        ASSERT_TRUE(kernel.supports(problem, device).yes());
        const Config config = kernel.configs(problem, device).at(0);
        const Tensor whole = testing::run_tactic(kernel, problem, config, inputs, device).at(0);
        EXPECT_EQ(testing::difference(whole, want, t.relative, t.absolute), "");
        EXPECT_TRUE(run_in_parts(kernel, problem, config, inputs, device).same_bits(whole));
      }
    }
  }
  set_isa(best);
}

}  // namespace
}  // namespace temper
