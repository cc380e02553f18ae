// SPDX-License-Identifier: Apache-2.0
// Convolution of f32 or bf16 by oneDNN: every algorithm, implementation and layout it has is a candidate, and time
// decides. Its own order is a poor guess for some shapes (the default 1x1 kernel is up to 1.6 times slower than another
// of its own), and it never proposes Winograd by itself at batch 1.
#include "graph/ops/conv.h"

#include <cstring>

#include "backends/cpu/onednn.h"

namespace temper {

namespace {

using dnnl::memory;
using Descriptor = dnnl::convolution_forward::primitive_desc;

// config.text: "direct jit:avx512_core all"
struct Choice {
  dnnl::algorithm algorithm;
  std::string implementation;
  Absorb absorb;
};
constexpr std::array<std::string_view, 4> absorb_names{"bias", "relu", "all", "in_place"};

Choice parse_choice(const std::string& text) {
  const auto a = text.find(' '), b = text.rfind(' ');
  if (a == text.npos || a == b)
    fail(ErrorKind::bad_file, "cpu.conv.onednn: the configuration '", text, "' is not one of its own");
  Choice choice{
      text.substr(0, a) == "winograd" ? dnnl::algorithm::convolution_winograd : dnnl::algorithm::convolution_direct,
      text.substr(a + 1, b - a - 1), Absorb::all};
  for (size_t i = 0; i < absorb_names.size(); ++i)
    if (absorb_names[i] == text.substr(b + 1)) choice.absorb = Absorb(i);
  return choice;
}

struct Built {
  AbsorbedEpilogue epilogue;
  // next_impl() goes on reading it: oneDNN's iterator keeps a pointer, not a copy.
  std::shared_ptr<const dnnl::convolution_forward::desc> operation;
  std::optional<Descriptor> descriptor;
};

// A picture of one column is a row, which lies the same in memory: oneDNN's kernels take a strip of a row at a time,
// and from a column one pixel. `problem` itself where it is none.
Problem as_row(const Problem& problem) {
  const auto& op = problem.op.get<ops::Conv>();
  const auto is_column = [](const Port& port) { return port.type.rank() == 4 && port.dims()[3] == 1; };
  if (!is_column(problem.inputs[0]) || !is_column(problem.inputs[1]) || !is_column(problem.outputs[0])) return problem;
  const ConvGeometry geometry = conv_geometry(problem);
  if (geometry.begin[1] != 0 || geometry.end[1] != 0) return problem;
  Problem row = problem;
  ops::Conv turned = op;
  turned.pad_mode = ops::PadMode::explicit_pads;
  turned.pads = {0, geometry.begin[0], 0, geometry.end[0]};
  std::swap(turned.strides[0], turned.strides[1]);
  std::swap(turned.dilations[0], turned.dilations[1]);
  row.op = std::move(turned);
  const auto turn = [](Port& port) {
    Shape& shape = port.type.shape;
    if (shape.size() >= 2) std::swap(shape[shape.size() - 2], shape[shape.size() - 1]);
  };
  std::for_each(row.inputs.begin(), row.inputs.end(), turn);
  std::for_each(row.outputs.begin(), row.outputs.end(), turn);
  return row;
}

// A channel block that does not divide the channels of a group cannot hold groups apart, unless each is one channel.
bool layout_possible(const Problem& problem, Layout layout) {
  const auto& op = problem.op.get<ops::Conv>();
  const int64_t block = block_of(layout);
  if (block == 1 || op.group == 1) return true;
  const int64_t c = problem.inputs[0].dims()[1], m = problem.outputs[0].dims()[1];
  if (op.group == c && op.group == m) return true;
  return c / op.group % block == 0 && m / op.group % block == 0;
}

Built describe(const Problem& problem, dnnl::algorithm algorithm, Layout in, Layout out, Absorb absorb) {
  const auto& op = problem.op.get<ops::Conv>();
  const Dims x = problem.inputs[0].dims(), y = problem.outputs[0].dims();
  const DType dtype = problem.inputs[0].type.dtype;
  Built built;
  built.epilogue =
      absorb_epilogue(op.epilogue, dtype, extra_types(problem, 2), problem.outputs[0].type, 1, out, absorb);
  const ConvGeometry geometry = conv_geometry(problem);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  attributes.set_post_ops(built.epilogue.post_ops);
  const memory::desc src = dnnl_desc(dtype, x, in), weights = dnnl_any_desc(dtype, geometry.weights),
                     dst = dnnl_desc(built.epilogue.stored, y, out);
  built.descriptor = dnnl_try([&] {
    const auto kind = dnnl::prop_kind::forward_inference;
    using Operation = dnnl::convolution_forward::desc;
    const memory::desc bias = any_bias_desc(built.epilogue.bias >= 0, {y[1]});
    built.operation = std::make_shared<const Operation>(kind, algorithm, src, weights, bias, dst, op.strides,
                                                        geometry.dilates, geometry.begin, geometry.end);
    return Descriptor(*built.operation, attributes, dnnl_cpu_engine());
  });
  return built;
}

Support supports(const Problem& problem, const Device& device) {
  if (auto s = needs_op<ops::Conv>(problem); !s.yes()) return s;
  if (auto s = dnnl_float_supported(problem, device); !s.yes()) return s;
  if (element_count(problem.outputs[0].dims()) == 0 || element_count(problem.inputs[0].dims()) == 0)
    return refused("an empty tensor");
  const auto epilogue =
      absorb_epilogue(problem.op.get<ops::Conv>().epilogue, problem.inputs[0].type.dtype, extra_types(problem, 2),
                      problem.outputs[0].type, 1, Layout::plain, Absorb::bias_only);
  if (auto s = EpilogueTail::supports(problem, epilogue.stored, epilogue.rest, Layout::plain); !s.yes())
    return refused("its epilogue: ", s.reason);
  return supported();
}

// The primitive that a configuration names; without a descriptor when oneDNN does not have it.
Built find(const Problem& problem, const Config& config) {
  const Choice choice = parse_choice(config.text);
  Built built = describe(problem, choice.algorithm, config.inputs[0], config.outputs[0], choice.absorb);
  while (built.descriptor && choice.implementation != built.descriptor->impl_info_str())
    if (!built.descriptor->next_impl()) built.descriptor.reset();
  return built;
}

Built choose(const Problem& problem, const Config& config) {
  Built built = find(problem, config);
  if (!built.descriptor)
    fail(ErrorKind::unsupported, "oneDNN on this machine has no convolution '", config.text, "' for ", problem.text(),
         "; build the plan again here");
  return built;
}

std::vector<Layout> input_layouts(const Problem& problem, Layout in, Layout out) {
  std::vector<Layout> layouts{in, Layout::plain};
  for (const TensorType& extra : extra_types(problem, 2))
    layouts.push_back(extra_layout(extra, problem.outputs[0].type, out));
  return layouts;
}

std::vector<Config> configs(const Problem& given, const Device& device) {
  const Problem problem = as_row(given);
  const ThreadScope threads(problem.threads);
  std::vector<Config> result;
  for (Layout in : useful_layouts(problem.inputs[0].dims(), device))
    for (Layout out : useful_layouts(problem.outputs[0].dims(), device)) {
      // The first layer may read plain images; otherwise both sides are alike.
      if (in != out && !(in == Layout::plain || (in == Layout::channels_last && problem.inputs[0].dims()[1] < 16)))
        continue;
      if (!layout_possible(problem, in) || !layout_possible(problem, out)) continue;
      for (auto algorithm : {dnnl::algorithm::convolution_direct, dnnl::algorithm::convolution_winograd}) {
        if (algorithm == dnnl::algorithm::convolution_winograd &&
            (block_of(in) == 1 || problem.inputs[0].type.dtype != DType::f32))
          continue;
        // The most absorbing form that exists for an implementation; a lesser one only for implementations that have no
        // other. A residual in place is a form of its own: which is faster differs.
        std::vector<std::string> found, found_in_place;
        for (Absorb absorb : {Absorb::in_place, Absorb::all, Absorb::bias_and_relu, Absorb::bias_only}) {
          Built built = describe(problem, algorithm, in, out, absorb);
          if (!built.descriptor || (absorb == Absorb::in_place && built.epilogue.residual < 0) ||
              !EpilogueTail::supports(problem, built.epilogue.stored, built.epilogue.rest, out).yes())
            continue;
          do {
            const std::string name = built.descriptor->impl_info_str();
            auto& names = absorb == Absorb::in_place ? found_in_place : found;
            if (std::find(names.begin(), names.end(), name) != names.end()) continue;
            // oneDNN 2.6 adds the wrong elements of a residual here.
            if (out == Layout::channels_last && !built.epilogue.binary_inputs.empty() && name.find("gemm") != name.npos)
              continue;
            names.push_back(name);
            Config config;
            config.text = concat(algorithm == dnnl::algorithm::convolution_winograd ? "winograd " : "direct ", name,
                                 ' ', absorb_names[size_t(absorb)]);
            config.inputs = input_layouts(problem, in, out);
            config.outputs = {out};
            result.push_back(std::move(config));
          } while (built.descriptor->next_impl());
        }
      }
    }
  // oneDNN's own reference is thousands of times slower: it is a candidate only where it is the only one.
  std::vector<Config> fast;
  std::copy_if(result.begin(), result.end(), std::back_inserter(fast),
               [](const Config& c) { return c.text.find(" ref") == std::string::npos; });
  // Unmeasured, the first is taken: unfolding into a matrix product is slower than a direct kernel but for odd shapes,
  // and Winograd's form is for many channels alone.
  std::stable_partition(fast.begin(), fast.end(), [](const Config& c) {
    return c.text.find("gemm") == std::string::npos && !c.text.starts_with("winograd");
  });
  return fast.empty() ? result : fast;
}

// What constant weights take in the primitive's own format.
size_t packed_weights(const Problem& problem, const Descriptor& descriptor) {
  return problem.inputs[1].is_constant ? round_up<size_t>(descriptor.weights_desc().get_size(), 64) : 0;
}

// Packed: constant weights in the primitive's own format, then the bias.
Packed build(const Problem& given, const Config& config, const Device&) {
  const Problem problem = as_row(given);
  const ThreadScope threads(problem.threads);
  const Built built = choose(problem, config);
  const memory::desc to = built.descriptor->weights_desc();
  const bool is_constant = problem.inputs[1].is_constant;
  const size_t weights_bytes = packed_weights(problem, *built.descriptor);
  const Tensor* bias = built.epilogue.bias >= 0 ? problem.inputs[size_t(built.epilogue.bias) + 2].constant : nullptr;
  Packed packed;
  packed.bytes.resize(weights_bytes + (bias ? size_t(bias->bytes()) : 0));
  if (is_constant)
    dnnl_pack(dnnl_plain_desc(problem.inputs[1].type.dtype, conv_geometry(problem).weights),
              problem.inputs[1].constant->raw(), to, packed.bytes.data());
  if (bias) std::memcpy(packed.bytes.data() + weights_bytes, bias->raw().data(), size_t(bias->bytes()));
  packed.consumed.assign(problem.inputs.size(), false);
  packed.consumed[1] = is_constant;
  if (bias) packed.consumed[size_t(built.epilogue.bias) + 2] = true;
  return packed;
}

// Weights that are data go into the primitive's format in each run, behind its scratch memory.
struct Packing {
  DnnlCall call;
  size_t from = 0, to = 0;
  int64_t at = 0;
};

class ConvKernel final : public Kernel {
 public:
  ConvKernel(const Problem& problem, const Config& config, std::span<const std::byte> packed) {
    const ThreadScope threads(problem.threads);
    Built built = choose(problem, config);
    expect_layouts(config, input_layouts(problem, config.inputs[0], config.outputs[0]), {config.outputs[0]});
    const Descriptor& d = *built.descriptor;
    call_ = DnnlCall(dnnl::convolution_forward(d));
    src_ = call_.add(DNNL_ARG_SRC, d.src_desc());
    dst_ = call_.add(DNNL_ARG_DST, d.dst_desc());
    const size_t weights_bytes = packed_weights(problem, d);
    weights_ = call_.add(DNNL_ARG_WEIGHTS, d.weights_desc());
    if (problem.inputs[1].is_constant) call_.set(weights_, packed.data());
    if (built.epilogue.bias >= 0) {
      bias_ = call_.add(DNNL_ARG_BIAS, d.bias_desc());
      const Port& bias = problem.inputs[size_t(built.epilogue.bias) + 2];
      if (bias.is_constant) {
        packed_bias_ = built.epilogue.bias + 2;
        call_.set(bias_, packed.data() + weights_bytes);
      } else {
        bias_input_ = built.epilogue.bias + 2;
      }
    }
    expect_packed(
        packed,
        weights_bytes +
            (packed_bias_ >= 0 ? size_t(byte_count(DType::f32, problem.inputs[size_t(packed_bias_)].dims())) : 0));
    extras_ = add_binary_inputs(call_, built.epilogue);
    scratch_bytes_ = int64_t(d.scratchpad_desc().get_size());
    if (!problem.inputs[1].is_constant) {
      const memory::desc plain = dnnl_plain_desc(problem.inputs[1].type.dtype, conv_geometry(problem).weights);
      const dnnl::engine engine = dnnl_cpu_engine();
      Packing& packing = packing_.emplace();
      packing.call = DnnlCall(dnnl::reorder({engine, plain, engine, d.weights_desc()}));
      packing.from = packing.call.add(DNNL_ARG_FROM, plain);
      packing.to = packing.call.add(DNNL_ARG_TO, d.weights_desc());
      packing.at = round_up<int64_t>(scratch_bytes_, 64);
      scratch_bytes_ = packing.at + int64_t(d.weights_desc().get_size());
    }
    scratch_ = call_.add(DNNL_ARG_SCRATCHPAD, d.scratchpad_desc());
    const AbsorbedEpilogue& taken = built.epilogue;
    tail_ = EpilogueTail(problem, taken.stored, taken.rest, config.outputs[0], taken.residual);
  }
  int64_t workspace() const override { return tail_.workspace(scratch_bytes_); }
  bool reads(size_t input) const override { return input == 1 ? packing_.has_value() : int64_t(input) != packed_bias_; }
  int in_place() const override { return tail_.in_place(); }
  void launch(const Buffers& buffers) override {
    tail_.before(buffers);
    call_.set(src_, buffers.inputs[0]);
    call_.set(dst_, tail_.destination(buffers));
    call_.set(scratch_, tail_.scratch(buffers));
    if (packing_) {
      void* const packed = static_cast<std::byte*>(tail_.scratch(buffers)) + packing_->at;
      packing_->call.set(packing_->from, buffers.inputs[1]);
      packing_->call.set(packing_->to, packed);
      packing_->call.execute();
      call_.set(weights_, packed);
    }
    if (bias_input_ >= 0) call_.set(bias_, buffers.inputs[size_t(bias_input_)]);
    for (const auto& [index, input] : extras_) call_.set(index, buffers.inputs[input]);
    call_.execute();
    tail_.run(buffers);
  }

 private:
  DnnlCall call_;
  std::optional<Packing> packing_;
  size_t src_ = 0, dst_ = 0, weights_ = 0, bias_ = 0, scratch_ = 0;
  int bias_input_ = -1, packed_bias_ = -1;
  std::vector<std::pair<size_t, size_t>> extras_;  // argument, input
  int64_t scratch_bytes_ = 0;
  EpilogueTail tail_;
};

std::unique_ptr<Kernel> load(const Problem& problem, const Config& config, const PackedView& packed, const Device&) {
  return std::make_unique<ConvKernel>(as_row(problem), config, packed);
}

}  // namespace

extern const Tactic cpu_conv_onednn;
const Tactic cpu_conv_onednn{"cpu.conv.onednn", 4, supports, configs, build, load};

}  // namespace temper
