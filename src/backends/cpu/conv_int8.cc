// SPDX-License-Identifier: Apache-2.0
// Convolution of 8-bit integers by oneDNN, in channels_last, which its int8 kernels want. Every implementation that it
// has is a candidate. The epilogue goes into the primitive as far as oneDNN computes the same bits; the rest is a
// second step.
#include <cstring>

#include "backends/cpu/int8_epilogue.h"
#include "base/threads.h"
#include "graph/ops/conv.h"

namespace temper {

namespace {

using dnnl::memory;
using Descriptor = dnnl::convolution_forward::primitive_desc;
constexpr Layout kLayout = Layout::channels_last;

// config.text: "jit:avx512_core_vnni all"
struct Choice {
  std::string implementation;
  IntegerAbsorb absorb = IntegerAbsorb::all;
};

Choice parse_choice(const std::string& text) {
  const auto blank = text.rfind(' ');
  const auto names = enum_names(IntegerAbsorb{});
  const auto found = std::find(names.begin(), names.end(), blank == text.npos ? "" : text.substr(blank + 1));
  if (found == names.end())
    fail(ErrorKind::bad_file, "cpu.conv.int8: the configuration '", text, "' is not one of its own");
  return {text.substr(0, blank), IntegerAbsorb(found - names.begin())};
}

// A single input channel is more than oneDNN's fast kernels take, in ordinary convolutions: three channels of zeros
// beside it change no sum. The input is copied to that form.
bool is_padded(const Problem& problem) {
  return problem.inputs[0].dims()[1] == 1 && problem.op.get<ops::Conv>().group == 1;
}
Dims with_padding(const Problem& problem, Dims dims) {
  if (is_padded(problem)) dims[1] = 4;
  return dims;
}

struct Built {
  IntegerEpilogue epilogue;
  std::shared_ptr<const dnnl::convolution_forward::desc> operation;  // next_impl() goes on reading it
  std::optional<Descriptor> descriptor;
};

Built describe(const Problem& problem, IntegerAbsorb absorb, const std::vector<float>& scales) {
  const auto& op = problem.op.get<ops::Conv>();
  Built built;
  auto epilogue = absorb_integer_epilogue(problem, op.epilogue, 1, absorb);
  if (!epilogue) return built;
  built.epilogue = std::move(*epilogue);
  const Dims x = with_padding(problem, problem.inputs[0].dims()), y = problem.outputs[0].dims();
  const ConvGeometry geometry = conv_geometry(problem);
  const memory::desc src = dnnl_desc(integer_input_dtype(problem), x, kLayout),
                     dst = dnnl_desc(built.epilogue.stored, y, kLayout);
  const memory::desc weights = dnnl_any_desc(DType::i8, with_padding(problem, geometry.weights));
  built.descriptor = dnnl_try([&] {
    const auto kind = dnnl::prop_kind::forward_inference;
    const auto algorithm = dnnl::algorithm::convolution_direct;
    using Operation = dnnl::convolution_forward::desc;
    const memory::desc bias = any_bias_desc(built.epilogue.has_bias(), {y[1]});
    built.operation = std::make_shared<const Operation>(kind, algorithm, src, weights, bias, dst, op.strides,
                                                        geometry.dilates, geometry.begin, geometry.end);
    return Descriptor(*built.operation, int8_attributes(built.epilogue, 1 << 1, scales), dnnl_cpu_engine());
  });
  return built;
}

// Scales that stand in where only existence matters: what exists must not depend on their values, but on their number.
std::vector<float> any_scales(const Problem& problem, IntegerAbsorb absorb) {
  const auto epilogue = absorb_integer_epilogue(problem, problem.op.get<ops::Conv>().epilogue, 1, absorb);
  if (!epilogue || epilogue->scale < 0) return {2.f};
  return std::vector<float>(size_t(element_count(problem.inputs[size_t(epilogue->scale) + 2].dims())), 2.f);
}

std::vector<Layout> input_layouts(const Problem& problem) {
  std::vector<Layout> layouts{kLayout, Layout::plain};
  for (const TensorType& extra : extra_types(problem, 2))
    layouts.push_back(extra_layout(extra, problem.outputs[0].type, kLayout));
  return layouts;
}

std::vector<Config> configs(const Problem& problem, const Device&) {
  const ThreadScope threads(problem.threads);
  std::vector<Config> result;
  std::vector<std::string> found;
  for (IntegerAbsorb absorb : {IntegerAbsorb::all, IntegerAbsorb::scale, IntegerAbsorb::nothing}) {
    if (absorb == IntegerAbsorb::nothing &&
        (!result.empty() || !sums_fit_f32(problem, problem.outputs[0].dims()[1], true)))
      continue;
    Built built = describe(problem, absorb, any_scales(problem, absorb));
    if (!built.descriptor ||
        !EpilogueTail::supports(problem, built.epilogue.stored, built.epilogue.rest, kLayout).yes())
      continue;
    do {
      const std::string name = built.descriptor->impl_info_str();
      if (std::find(found.begin(), found.end(), name) != found.end()) continue;
      // Their products of pairs saturate at 16 bits.
      if (name.ends_with(":avx2") || name.ends_with(":sse41")) continue;
      found.push_back(name);
      result.push_back(
          {concat(name, ' ', enum_names(IntegerAbsorb{})[size_t(absorb)]), input_layouts(problem), {kLayout}});
    } while (built.descriptor->next_impl());
  }
  // oneDNN's own reference is thousands of times slower: it is a candidate only where it is the only one.
  std::vector<Config> fast;
  std::copy_if(result.begin(), result.end(), std::back_inserter(fast),
               [](const Config& c) { return !c.text.starts_with("ref"); });
  return fast.empty() ? result : fast;
}

Support supports(const Problem& problem, const Device& device) {
  if (auto s = needs_op<ops::Conv>(problem); !s.yes()) return s;
  const DType x = problem.inputs[0].type.dtype;
  if (x != DType::i8 && x != DType::u8) return refused("only i8 and u8, not ", x);
  if (problem.inputs[1].type.dtype != DType::i8) return refused("only i8 weights");
  if (!device.avx512_vnni) return refused("without AVX512-VNNI oneDNN's products of 8 bits saturate");
  if (!problem.inputs[1].is_constant) return refused("the weights are not constant");
  if (element_count(problem.outputs[0].dims()) == 0 || element_count(problem.inputs[0].dims()) == 0)
    return refused("an empty tensor");
  if (problem.inputs[1].constant && configs(problem, device).empty())
    return refused("oneDNN has no such convolution of integers");
  return supported();
}

Built choose(const Problem& problem, const Config& config) {
  const Choice choice = parse_choice(config.text);
  Built built = describe(problem, choice.absorb, any_scales(problem, choice.absorb));
  if (built.descriptor)
    built =
        describe(problem, choice.absorb,
                 built.epilogue.stored == DType::i32 ? std::vector<float>{1.f} : scales_of(problem, built.epilogue));
  while (built.descriptor && choice.implementation != built.descriptor->impl_info_str())
    if (!built.descriptor->next_impl()) built.descriptor.reset();
  if (!built.descriptor)
    fail(ErrorKind::unsupported, "oneDNN on this machine has no convolution '", config.text, "' for ", problem.text(),
         "; build the plan again here");
  return built;
}

// Weights in the primitive's own format, with what it adds for i8 inputs.
Packed build(const Problem& problem, const Config& config, const Device&) {
  const ThreadScope threads(problem.threads);
  const Built built = choose(problem, config);
  const memory::desc to = built.descriptor->weights_desc();
  Packed packed;
  packed.bytes.resize(round_up<size_t>(to.get_size(), 64));
  const Dims weights = conv_geometry(problem).weights, padded = with_padding(problem, weights);
  std::span<const std::byte> from = problem.inputs[1].constant->raw();
  AlignedBytes with_zeros;
  if (padded != weights) {
    const size_t window = size_t(element_count(weights) / weights[0]);
    with_zeros.assign(size_t(element_count(padded)), std::byte(0));
    for (size_t o = 0; o < size_t(weights[0]); ++o)
      std::memcpy(with_zeros.data() + o * window * size_t(padded[1]), from.data() + o * window, window);
    from = with_zeros;
  }
  dnnl_pack(dnnl_plain_desc(DType::i8, padded), from, to, packed.bytes.data());
  packed.consumed.assign(problem.inputs.size(), false);
  packed.consumed[1] = true;
  return packed;
}

class ConvInt8Kernel final : public Kernel {
 public:
  ConvInt8Kernel(const Problem& problem, const Config& config, std::span<const std::byte> packed) {
    const ThreadScope threads(problem.threads);
    const Built built = choose(problem, config);
    expect_layouts(config, input_layouts(problem), {kLayout});
    if (!EpilogueTail::supports(problem, built.epilogue.stored, built.epilogue.rest, kLayout).yes())
      fail(ErrorKind::bad_file, "its epilogue is not supported");
    const Descriptor& d = *built.descriptor;
    expect_packed(packed, round_up<size_t>(d.weights_desc().get_size(), 64));
    call_ = DnnlCall(dnnl::convolution_forward(d));
    src_ = call_.add(DNNL_ARG_SRC, d.src_desc());
    dst_ = call_.add(DNNL_ARG_DST, d.dst_desc());
    call_.set(call_.add(DNNL_ARG_WEIGHTS, d.weights_desc()), packed.data());
    if (built.epilogue.has_bias()) {
      const std::vector<float> bias = bias_of(problem, built.epilogue, problem.outputs[0].dims()[1]);
      bias_ = Tensor::of<float>({int64_t(bias.size())}, bias);
      call_.set(call_.add(DNNL_ARG_BIAS, d.bias_desc()), bias_.raw().data());
    }
    scratch_bytes_ = int64_t(d.scratchpad_desc().get_size());
    if (is_padded(problem)) {
      scratch_bytes_ = round_up<int64_t>(scratch_bytes_, 64);
      padded_at_ = scratch_bytes_;
      pixels_ = element_count(problem.inputs[0].dims());
      scratch_bytes_ += 4 * pixels_;
      threads_ = problem.threads;
    }
    scratch_ = call_.add(DNNL_ARG_SCRATCHPAD, d.scratchpad_desc());
    tail_ = EpilogueTail(problem, built.epilogue.stored, built.epilogue.rest, kLayout, built.epilogue.residual);
  }
  int64_t workspace() const override { return tail_.workspace(scratch_bytes_); }
  bool reads(size_t input) const override { return input != 1; }
  int in_place() const override { return tail_.in_place(); }
  void launch(const Buffers& buffers) override {
    tail_.before(buffers);
    const void* source = buffers.inputs[0];
    if (pixels_ > 0) {
      const auto* from = static_cast<const uint8_t*>(source);
      auto* to = reinterpret_cast<uint32_t*>(static_cast<std::byte*>(tail_.scratch(buffers)) + padded_at_);
      parallel_for_threads(threads_, pixels_, 16384, [&](int, int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) to[i] = from[i];  // little end first: the byte, then three zeros
      });
      source = to;
    }
    call_.set(src_, source);
    call_.set(dst_, tail_.destination(buffers));
    call_.set(scratch_, tail_.scratch(buffers));
    call_.execute();
    tail_.run(buffers);
  }

 private:
  DnnlCall call_;
  size_t src_ = 0, dst_ = 0, scratch_ = 0;
  int64_t scratch_bytes_ = 0, padded_at_ = 0, pixels_ = 0;
  int threads_ = 1;
  Tensor bias_;
  EpilogueTail tail_;
};

std::unique_ptr<Kernel> load(const Problem& problem, const Config& config, const PackedView& packed, const Device&) {
  return std::make_unique<ConvInt8Kernel>(problem, config, packed);
}

}  // namespace

extern const Tactic cpu_conv_int8;
const Tactic cpu_conv_int8{"cpu.conv.int8", 5, supports, configs, build, load};

}  // namespace temper
