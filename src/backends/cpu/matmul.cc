// SPDX-License-Identifier: Apache-2.0
// Matrix products of f32 or bf16 by oneDNN: its matmul for everything, its inner product for constant 2-D weights (the
// better one at batch 1), and with AMX its convolution of one tap, whose kernels for tiles are the better ones. Weights
// are packed into the format that the primitive asks for.
#include "graph/ops/matmul.h"

#include <array>
#include <cstring>

#include "backends/cpu/onednn.h"

namespace temper {

namespace {

using dnnl::memory;

struct Built {
  AbsorbedEpilogue epilogue;
  std::optional<dnnl::matmul::primitive_desc> matmul;
  std::optional<dnnl::inner_product_forward::primitive_desc> inner;
  std::optional<dnnl::convolution_forward::primitive_desc> convolution;
  memory::desc stored_weights;  // as the model has them, seen as the primitive's logical weights
};

bool packs_weights(const Problem& problem) {
  const Dims b = problem.inputs[1].dims();
  if (!problem.inputs[1].is_constant) return false;
  for (size_t i = 0; i + 2 < b.size(); ++i)
    if (b[i] != 1) return false;
  return true;
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

// One matrix b multiplies the rows of all leading axes of a: [M,K] times [K,N]. `problem` itself where an epilogue's
// input tells these axes apart.
Problem as_rows(const Problem& problem) {
  const Dims a = problem.inputs[0].dims(), b = problem.inputs[1].dims(), y = problem.outputs[0].dims();
  if (y.size() == 2 || problem.op.get<ops::MatMul>().transpose_a) return problem;
  for (size_t i = 0; i + 2 < b.size(); ++i)
    if (b[i] != 1) return problem;
  const int64_t n = y.back(), m = element_count(Dims(y.begin(), y.end() - 1));
  Problem rows = problem;
  for (size_t i = 2; i < rows.inputs.size(); ++i) {
    Shape& shape = rows.inputs[i].type.shape;
    const Dims own = problem.inputs[i].dims();
    if (own == y) shape = {Dim(m), Dim(n)};
    else if (element_count(own) == 1) shape = {};
    else if (own.back() == n && element_count(own) == n) shape = {Dim(n)};
    else return problem;
  }
  rows.inputs[0].type.shape = {Dim(m), Dim(a.back())};
  rows.inputs[1].type.shape = {Dim(b[b.size() - 2]), Dim(b.back())};
  rows.outputs[0].type.shape = {Dim(m), Dim(n)};
  return rows;
}

// `problem` as rows. inner: by weights [N,K].
Built describe(const Problem& problem, bool inner) {
  const auto& op = problem.op.get<ops::MatMul>();
  const Dims a = problem.inputs[0].dims(), b = problem.inputs[1].dims(), y = problem.outputs[0].dims();
  const DType dtype = problem.inputs[0].type.dtype;
  const TensorType& output = problem.outputs[0].type;
  const size_t rank = y.size();
  Built built;
  if (inner && rank != 2) return built;
  built.epilogue =
      absorb_epilogue(op.epilogue, dtype, extra_types(problem, 2), output, rank - 1, Layout::plain, Absorb::all);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  attributes.set_post_ops(built.epilogue.post_ops);
  if (inner) {
    const int64_t m = y[0], n = y[1], k = a[1];
    if (!built.epilogue.rest.is_identity()) return built;
    built.stored_weights =
        op.transpose_b ? dnnl_plain_desc(dtype, {n, k}) : memory::desc({n, k}, dnnl_dtype(dtype), Dims{1, n});
    built.inner = dnnl_try([&] {
      const auto kind = dnnl::prop_kind::forward_inference;
      const auto src = dnnl_plain_desc(dtype, {m, k}), weights = dnnl_any_desc(dtype, {n, k}),
                 dst = dnnl_plain_desc(built.epilogue.stored, {m, n});
      const dnnl::inner_product_forward::desc desc(kind, src, weights, any_bias_desc(built.epilogue.bias >= 0, {n}),
                                                   dst);
      return dnnl::inner_product_forward::primitive_desc(desc, attributes, dnnl_cpu_engine());
    });
    return built;
  }
  const memory::desc src = operand(dtype, a, op.transpose_a, rank),
                     dst = operand(built.epilogue.stored, y, false, rank);
  built.stored_weights = operand(dtype, b, op.transpose_b, rank);
  const memory::desc weights =
      packs_weights(problem) ? memory::desc(built.stored_weights.dims(), dnnl_dtype(dtype), memory::format_tag::any)
                             : built.stored_weights;
  built.matmul = dnnl_try([&] {
    Dims bias(rank, 1);
    bias.back() = y.back();
    const dnnl::matmul::desc desc(src, weights, plain_bias_desc(built.epilogue.bias >= 0, bias), dst);
    return dnnl::matmul::primitive_desc(desc, attributes, dnnl_cpu_engine());
  });
  return built;
}

// Rows [M,K] are a picture of one line of M pixels with K channels, channels last; nothing where oneDNN has no such
// convolution, where more than it takes stands behind the product, or where `absorb` is in_place and there is no
// residual.
Built describe_convolution(const Problem& problem, Absorb absorb) {
  const auto& op = problem.op.get<ops::MatMul>();
  const Dims b = problem.inputs[1].dims(), y = problem.outputs[0].dims();
  const DType dtype = problem.inputs[0].type.dtype;
  const TensorType& output = problem.outputs[0].type;
  const int64_t k = op.transpose_b ? b.back() : b[b.size() - 2], n = y.back(), m = element_count(y) / n;
  Built built;
  std::vector<TensorType> extras = extra_types(problem, 2);
  for (TensorType& type : extras) {
    const Dims own = type.dims();
    if (type.shape == output.shape) type.shape = {Dim(1), Dim(n), Dim(1), Dim(m)};
    else if (!own.empty() && own.back() == n && element_count(own) == n) type.shape = {Dim(n), Dim(1), Dim(1)};
    else if (element_count(own) != 1) return built;
    else type.shape = {};
  }
  built.epilogue = absorb_epilogue(op.epilogue, dtype, extras, type_of(output.dtype, {1, n, 1, m}), 1,
                                   Layout::channels_last, absorb);
  if (!built.epilogue.rest.is_identity() || (absorb == Absorb::in_place && built.epilogue.residual < 0)) return built;
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  attributes.set_post_ops(built.epilogue.post_ops);
  built.stored_weights =
      memory::desc({n, k, 1, 1}, dnnl_dtype(dtype), op.transpose_b ? Dims{k, 1, 1, 1} : Dims{1, n, 1, 1});
  built.convolution = dnnl_try([&] {
    using Operation = dnnl::convolution_forward::desc;
    const auto kind = dnnl::prop_kind::forward_inference;
    const auto how = dnnl::algorithm::convolution_direct;
    const auto src = dnnl_desc(dtype, {1, k, 1, m}, Layout::channels_last),
               weights = dnnl_any_desc(dtype, {n, k, 1, 1}),
               dst = dnnl_desc(built.epilogue.stored, {1, n, 1, m}, Layout::channels_last);
    const Dims one{1, 1}, zero{0, 0};
    const Operation operation(kind, how, src, weights, any_bias_desc(built.epilogue.bias >= 0, {n}), dst, one, zero,
                              zero, zero);
    return dnnl::convolution_forward::primitive_desc(operation, attributes, dnnl_cpu_engine());
  });
  // The others are not better than its products, and one of them adds the wrong elements of a residual (conv.cc).
  if (built.convolution && std::string_view(built.convolution->impl_info_str()).find("amx") == std::string_view::npos)
    built.convolution.reset();
  return built;
}

Support supports(const Problem& problem, const Device& device) {
  if (auto s = needs_op<ops::MatMul>(problem); !s.yes()) return s;
  if (auto s = dnnl_float_supported(problem, device); !s.yes()) return s;
  const Dims y = problem.outputs[0].dims(), a = problem.inputs[0].dims();
  if (y.size() > 6) return refused("rank ", y.size());
  if (element_count(y) == 0 || element_count(a) == 0) return refused("an empty tensor");
  const Built built = describe(as_rows(problem), false);
  if (auto s = EpilogueTail::supports(problem, built.epilogue.stored, built.epilogue.rest, Layout::plain); !s.yes())
    return refused("its epilogue: ", s.reason);
  return built.matmul ? supported() : refused("oneDNN has no such product");
}

// What `config.text` may be for constant weights.
constexpr std::array<std::pair<std::string_view, Absorb>, 2> convolutions{
    {{"convolution", Absorb::all}, {"convolution in_place", Absorb::in_place}}};
// How much a configuration's convolution absorbs; nothing where it is none.
std::optional<Absorb> convolution_of(const Config& config) {
  for (const auto& [name, absorb] : convolutions)
    if (config.text == name) return absorb;
  return std::nullopt;
}

std::vector<Config> configs(const Problem& given, const Device& device) {
  const Problem problem = as_rows(given);
  const ThreadScope threads(problem.threads);
  std::vector<Config> result;
  const auto& op = problem.op.get<ops::MatMul>();
  if (packs_weights(problem) && !op.transpose_a && describe(problem, true).inner)
    result.push_back(uniform_config(problem, Layout::plain, "inner_product"));
  if (device.amx && problem.inputs[0].type.dtype == DType::bf16 && packs_weights(problem) && !op.transpose_a)
    for (const auto& [name, absorb] : convolutions)
      if (describe_convolution(problem, absorb).convolution)
        result.push_back(uniform_config(problem, Layout::plain, std::string(name)));
  result.push_back(uniform_config(problem, Layout::plain, "matmul"));
  return result;
}

memory::desc weights_desc(const Built& built) {
  return built.convolution ? built.convolution->weights_desc()
         : built.inner     ? built.inner->weights_desc()
                           : built.matmul->weights_desc();
}

Built choose(const Problem& problem, const Config& config) {
  const auto absorb = convolution_of(config);
  Built built = absorb ? describe_convolution(problem, *absorb) : describe(problem, config.text == "inner_product");
  if (!built.convolution && !built.inner && !built.matmul)
    fail(ErrorKind::unsupported, "oneDNN on this machine has no ", config.text, " for ", problem.text(),
         "; build the plan again here");
  return built;
}

Packed build(const Problem& given, const Config& config, const Device&) {
  const Problem problem = as_rows(given);
  Packed packed;
  packed.consumed.assign(problem.inputs.size(), false);
  if (!packs_weights(problem)) return packed;
  const ThreadScope threads(problem.threads);
  const Built built = choose(problem, config);
  packed.bytes.resize(weights_desc(built).get_size());
  dnnl_pack(built.stored_weights, problem.inputs[1].constant->raw(), weights_desc(built), packed.bytes.data());
  packed.consumed[1] = true;
  return packed;
}

class MatMulKernel final : public Kernel {
 public:
  MatMulKernel(const Problem& problem, const Config& config, std::span<const std::byte> packed)
      : packed_(packs_weights(problem)) {
    const ThreadScope threads(problem.threads);
    const Config plain = uniform_config(problem, Layout::plain);
    expect_layouts(config, plain.inputs, plain.outputs);
    const bool of_weights = config.text == "inner_product" || convolution_of(config);
    if ((!of_weights && config.text != "matmul") ||
        (of_weights && (!packed_ || problem.op.get<ops::MatMul>().transpose_a)))
      fail(ErrorKind::bad_file, "cpu.matmul.onednn: the configuration '", config.text, "' is not one of its own");
    Built built = choose(problem, config);
    expect_packed(packed, packed_ ? weights_desc(built).get_size() : 0);
    auto setup = [&](const auto& d, dnnl::primitive primitive) {
      call_ = DnnlCall(std::move(primitive));
      src_ = call_.add(DNNL_ARG_SRC, d.src_desc());
      dst_ = call_.add(DNNL_ARG_DST, d.dst_desc());
      weights_ = call_.add(DNNL_ARG_WEIGHTS, d.weights_desc());
      if (packed_) call_.set(weights_, packed.data());
      extras_ = add_binary_inputs(call_, built.epilogue);
      if (built.epilogue.bias >= 0)
        extras_.push_back({call_.add(DNNL_ARG_BIAS, d.bias_desc()), size_t(built.epilogue.bias) + 2});
      scratch_bytes_ = int64_t(d.scratchpad_desc().get_size());
      scratch_ = call_.add(DNNL_ARG_SCRATCHPAD, d.scratchpad_desc());
    };
    if (built.convolution) setup(*built.convolution, dnnl::convolution_forward(*built.convolution));
    else if (built.inner) setup(*built.inner, dnnl::inner_product_forward(*built.inner));
    else setup(*built.matmul, dnnl::matmul(*built.matmul));
    const AbsorbedEpilogue& taken = built.epilogue;
    tail_ = EpilogueTail(problem, taken.stored, taken.rest, Layout::plain, taken.residual);
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
    for (const auto& [index, input] : extras_) call_.set(index, buffers.inputs[input]);
    call_.execute();
    tail_.run(buffers);
  }

 private:
  bool packed_;
  DnnlCall call_;
  size_t src_ = 0, dst_ = 0, weights_ = 0, scratch_ = 0;
  std::vector<std::pair<size_t, size_t>> extras_;
  int64_t scratch_bytes_ = 0;
  EpilogueTail tail_;
};

std::unique_ptr<Kernel> load(const Problem& problem, const Config& config, const PackedView& packed, const Device&) {
  return std::make_unique<MatMulKernel>(as_rows(problem), config, packed);
}

}  // namespace

extern const Tactic cpu_matmul_onednn;
const Tactic cpu_matmul_onednn{"cpu.matmul.onednn", 5, supports, configs, build, load};

}  // namespace temper
