// SPDX-License-Identifier: Apache-2.0
// Matrix products of 8-bit integers by oneDNN: its matmul, and its inner product for constant 2-D weights. The epilogue
// goes into the primitive as far as oneDNN computes the same bits; the rest is a second step.
#include <cstring>

#include "backends/cpu/int8_epilogue.h"
#include "graph/ops/matmul.h"

namespace temper {

namespace {

using dnnl::memory;

struct Built {
  IntegerEpilogue epilogue;
  std::optional<dnnl::matmul::primitive_desc> matmul;
  std::optional<dnnl::inner_product_forward::primitive_desc> inner;
  memory::desc stored_weights;  // as the model has them, seen as the primitive's logical weights
  bool exists() const { return matmul || inner; }
  memory::desc weights() const { return inner ? inner->weights_desc() : matmul->weights_desc(); }
  memory::desc scratchpad() const { return inner ? inner->scratchpad_desc() : matmul->scratchpad_desc(); }
  memory::desc source() const { return inner ? inner->src_desc() : matmul->src_desc(); }
  memory::desc destination() const { return inner ? inner->dst_desc() : matmul->dst_desc(); }
  memory::desc bias() const { return inner ? inner->bias_desc() : matmul->bias_desc(); }
  std::string implementation() const { return inner ? inner->impl_info_str() : matmul->impl_info_str(); }
};

// config.text: "inner_product all"
struct Choice {
  bool inner = false;
  IntegerAbsorb absorb = IntegerAbsorb::all;
};
Choice parse_choice(const std::string& text) {
  for (bool inner : {true, false})
    for (IntegerAbsorb absorb : {IntegerAbsorb::all, IntegerAbsorb::scale, IntegerAbsorb::nothing})
      if (text == concat(inner ? "inner_product " : "matmul ", enum_names(absorb)[size_t(absorb)]))
        return {inner, absorb};
  fail(ErrorKind::bad_file, "cpu.matmul.int8: the configuration '", text, "' is not one of its own");
}

bool packs_weights(const Problem& problem) {
  return problem.inputs[1].is_constant && problem.inputs[1].dims().size() == 2;
}

// The last two axes swapped by strides where the operand is stored transposed; leading axes filled up with 1.
memory::desc operand(DType dtype, const Dims& dims, bool transposed, size_t rank) {
  Dims full(rank - dims.size(), 1);
  full.insert(full.end(), dims.begin(), dims.end());
  Dims strides = row_major_strides(full);
  if (transposed) {
    std::swap(full[rank - 1], full[rank - 2]);
    std::swap(strides[rank - 1], strides[rank - 2]);
  }
  return memory::desc(full, dnnl_dtype(dtype), strides);
}

Built describe(const Problem& problem, const Choice& choice, const std::vector<float>& scales) {
  const auto& op = problem.op.get<ops::MatMul>();
  const Dims a = problem.inputs[0].dims(), b = problem.inputs[1].dims(), y = problem.outputs[0].dims();
  const DType x = integer_input_dtype(problem);
  const size_t rank = y.size();
  Built built;
  auto epilogue = absorb_integer_epilogue(problem, op.epilogue, rank - 1, choice.absorb);
  if (!epilogue) return built;
  built.epilogue = std::move(*epilogue);
  const int64_t n = y.back();
  if (choice.inner) {
    const int64_t k = op.transpose_b ? b[1] : b[0], m = element_count(y) / n;
    built.stored_weights =
        op.transpose_b ? dnnl_plain_desc(DType::i8, {n, k}) : memory::desc({n, k}, memory::data_type::s8, Dims{1, n});
    built.inner = dnnl_try([&] {
      const auto kind = dnnl::prop_kind::forward_inference;
      const auto src = dnnl_plain_desc(x, {m, k}), weights = dnnl_any_desc(DType::i8, {n, k}),
                 dst = dnnl_plain_desc(built.epilogue.stored, {m, n});
      const dnnl::inner_product_forward::desc desc(kind, src, weights, any_bias_desc(built.epilogue.has_bias(), {n}),
                                                   dst);
      return dnnl::inner_product_forward::primitive_desc(desc, int8_attributes(built.epilogue, 1 << 1, scales),
                                                         dnnl_cpu_engine());
    });
    return built;
  }
  built.stored_weights = operand(DType::i8, b, op.transpose_b, rank);
  built.matmul = dnnl_try([&] {
    const memory::desc src = operand(x, a, op.transpose_a, rank), dst = operand(built.epilogue.stored, y, false, rank);
    const memory::desc weights = packs_weights(problem) ? memory::desc(built.stored_weights.dims(),
                                                                       memory::data_type::s8, memory::format_tag::any)
                                                        : built.stored_weights;
    const auto attributes = int8_attributes(built.epilogue, 1 << int(rank - 1), scales);
    Dims bias(rank, 1);
    bias.back() = n;
    const dnnl::matmul::desc desc(src, weights, plain_bias_desc(built.epilogue.has_bias(), bias), dst);
    return dnnl::matmul::primitive_desc(desc, attributes, dnnl_cpu_engine());
  });
  return built;
}

std::vector<float> any_scales(const Problem& problem, IntegerAbsorb absorb) {
  const auto epilogue = absorb_integer_epilogue(problem, problem.op.get<ops::MatMul>().epilogue,
                                                problem.outputs[0].dims().size() - 1, absorb);
  if (!epilogue || epilogue->scale < 0) return {2.f};
  return std::vector<float>(size_t(element_count(problem.inputs[size_t(epilogue->scale) + 2].dims())), 2.f);
}

std::vector<Config> configs(const Problem& problem, const Device&) {
  const ThreadScope threads(problem.threads);
  std::vector<Config> result, slow;
  const auto& op = problem.op.get<ops::MatMul>();
  for (bool inner : {true, false}) {
    if (inner && (!packs_weights(problem) || op.transpose_a)) continue;
    for (IntegerAbsorb absorb : {IntegerAbsorb::all, IntegerAbsorb::scale, IntegerAbsorb::nothing}) {
      if (absorb == IntegerAbsorb::nothing) {
        const int64_t k = problem.inputs[0].dims()[problem.inputs[0].dims().size() - (op.transpose_a ? 2 : 1)];
        const bool exact =
            problem.inputs[1].is_constant
                ? packs_weights(problem) && sums_fit_f32(problem, problem.outputs[0].dims().back(), op.transpose_b)
                : k * 255 * 128 < (int64_t(1) << 24);
        if (!exact) continue;
      }
      const Built built = describe(problem, {inner, absorb}, any_scales(problem, absorb));
      if (!built.exists() ||
          !EpilogueTail::supports(problem, built.epilogue.stored, built.epilogue.rest, Layout::plain).yes())
        continue;
      (built.implementation().starts_with("ref") ? slow : result)
          .push_back(uniform_config(problem, Layout::plain,
                                    concat(inner ? "inner_product " : "matmul ", enum_names(absorb)[size_t(absorb)])));
      break;
    }
  }
  return result.empty() ? slow : result;
}

Support supports(const Problem& problem, const Device& device) {
  if (auto s = needs_op<ops::MatMul>(problem); !s.yes()) return s;
  const DType x = problem.inputs[0].type.dtype;
  if (x != DType::i8 && x != DType::u8) return refused("only i8 and u8, not ", x);
  if (problem.inputs[1].type.dtype != DType::i8) return refused("only i8 weights");
  if (!device.avx512_vnni) return refused("without AVX512-VNNI oneDNN's products of 8 bits saturate");
  const Dims y = problem.outputs[0].dims();
  if (y.size() > 6) return refused("rank ", y.size());
  if (element_count(y) == 0 || element_count(problem.inputs[0].dims()) == 0) return refused("an empty tensor");
  if (configs(problem, device).empty()) return refused("oneDNN has no such product of integers");
  return supported();
}

Built choose(const Problem& problem, const Config& config) {
  const Choice choice = parse_choice(config.text);
  if (choice.inner && !packs_weights(problem))
    fail(ErrorKind::bad_file, "cpu.matmul.int8: an inner product without constant weights");
  Built built = describe(problem, choice, any_scales(problem, choice.absorb));
  if (built.exists() && built.epilogue.stored != DType::i32)
    built = describe(problem, choice, scales_of(problem, built.epilogue));
  if (!built.exists())
    fail(ErrorKind::unsupported, "oneDNN on this machine has no ", config.text, " for ", problem.text(),
         "; build the plan again here");
  return built;
}

Packed build(const Problem& problem, const Config& config, const Device&) {
  Packed packed;
  packed.consumed.assign(problem.inputs.size(), false);
  if (!packs_weights(problem)) return packed;
  const ThreadScope threads(problem.threads);
  const Built built = choose(problem, config);
  const memory::desc to = built.weights();
  packed.bytes.resize(round_up<size_t>(to.get_size(), 64));
  dnnl_pack(built.stored_weights, problem.inputs[1].constant->raw(), to, packed.bytes.data());
  packed.consumed[1] = true;
  return packed;
}

class MatMulInt8Kernel final : public Kernel {
 public:
  MatMulInt8Kernel(const Problem& problem, const Config& config, std::span<const std::byte> packed)
      : packed_(packs_weights(problem)) {
    const ThreadScope threads(problem.threads);
    const Built built = choose(problem, config);
    expect_layouts(config, uniform_config(problem, Layout::plain).inputs, {Layout::plain});
    if (!EpilogueTail::supports(problem, built.epilogue.stored, built.epilogue.rest, Layout::plain).yes())
      fail(ErrorKind::bad_file, "its epilogue is not supported");
    expect_packed(packed, packed_ ? round_up<size_t>(built.weights().get_size(), 64) : 0);
    call_ = DnnlCall(built.inner ? dnnl::primitive(dnnl::inner_product_forward(*built.inner))
                                 : dnnl::primitive(dnnl::matmul(*built.matmul)));
    src_ = call_.add(DNNL_ARG_SRC, built.source());
    dst_ = call_.add(DNNL_ARG_DST, built.destination());
    weights_ = call_.add(DNNL_ARG_WEIGHTS, built.weights());
    if (packed_) call_.set(weights_, packed.data());
    if (built.epilogue.has_bias()) {
      const std::vector<float> bias = bias_of(problem, built.epilogue, problem.outputs[0].dims().back());
      bias_ = Tensor::of<float>({int64_t(bias.size())}, bias);
      call_.set(call_.add(DNNL_ARG_BIAS, built.bias()), bias_.raw().data());
    }
    scratch_bytes_ = int64_t(built.scratchpad().get_size());
    scratch_ = call_.add(DNNL_ARG_SCRATCHPAD, built.scratchpad());
    tail_ = EpilogueTail(problem, built.epilogue.stored, built.epilogue.rest, Layout::plain, built.epilogue.residual);
  }
  int64_t workspace() const override { return tail_.workspace(scratch_bytes_); }
  bool reads(size_t input) const override { return input != 1 || !packed_; }
  int in_place() const override { return tail_.in_place(); }
  void launch(const Buffers& buffers) override {
    tail_.before(buffers);
    call_.set(src_, buffers.inputs[0]);
    call_.set(dst_, tail_.destination(buffers));
    call_.set(scratch_, tail_.scratch(buffers));
    if (!packed_) call_.set(weights_, buffers.inputs[1]);
    call_.execute();
    tail_.run(buffers);
  }

 private:
  bool packed_;
  DnnlCall call_;
  size_t src_ = 0, dst_ = 0, weights_ = 0, scratch_ = 0;
  int64_t scratch_bytes_ = 0;
  Tensor bias_;
  EpilogueTail tail_;
};

std::unique_ptr<Kernel> load(const Problem& problem, const Config& config, const PackedView& packed, const Device&) {
  return std::make_unique<MatMulInt8Kernel>(problem, config, packed);
}

}  // namespace

extern const Tactic cpu_matmul_int8;
const Tactic cpu_matmul_int8{"cpu.matmul.int8", 4, supports, configs, build, load};

}  // namespace temper
