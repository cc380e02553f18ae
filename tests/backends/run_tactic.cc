// SPDX-License-Identifier: Apache-2.0
#include "run_tactic.h"

#include <algorithm>
#include <cstring>

namespace temper::testing {

int64_t layout_offset(Dims dims, Layout layout, const Dims& index, int64_t pitch) {
  if (pitch) (layout == Layout::plain ? dims.back() : dims[1]) = pitch;
  if (layout == Layout::plain) {
    int64_t offset = 0;
    for (size_t i = 0; i < dims.size(); ++i) offset = offset * dims[i] + index[i];
    return offset;
  }
  const int64_t block = block_of(layout) > 1 ? block_of(layout) : std::max<int64_t>(dims[1], 1);
  int64_t offset = index[0] * ((dims[1] + block - 1) / block) + index[1] / block;
  for (size_t i = 2; i < dims.size(); ++i) offset = offset * dims[i] + index[i];
  return offset * block + index[1] % block;
}

void store_layout(const Tensor& tensor, Layout layout, std::byte* to, int64_t pitch) {
  const size_t size = size_t(size_of(tensor.dtype()));
  std::fill_n(to, layout_bytes(tensor.dtype(), tensor.dims(), layout, pitch), pitch ? std::byte{0xff} : std::byte{0});
  for_each_index(tensor.dims(), [&](const Dims& index, int64_t i) {
    std::memcpy(to + size_t(layout_offset(tensor.dims(), layout, index, pitch)) * size,
                tensor.raw().data() + size_t(i) * size, size);
  });
}

Tensor load_layout(DType dtype, const Dims& dims, Layout layout, const std::byte* from, int64_t pitch) {
  Tensor out(dtype, dims);
  const size_t size = size_t(size_of(dtype));
  std::vector<char> own(pitch ? size_t(layout_bytes(dtype, dims, layout, pitch)) : 0);
  for_each_index(dims, [&](const Dims& index, int64_t i) {
    const size_t at = size_t(layout_offset(dims, layout, index, pitch)) * size;
    std::memcpy(out.raw_mutable() + size_t(i) * size, from + at, size);
    if (pitch) std::fill_n(own.begin() + ptrdiff_t(at), size, 1);
  });
  for (size_t at = 0; at < own.size(); ++at)
    if (!own[at] && from[at] != std::byte(0xff)) {
      ADD_FAILURE() << "wrote between the rows, at byte " << at;
      break;
    }
  if (block_of(layout) > 1 && dims[1] % block_of(layout) != 0) {
    Dims padded = dims;
    padded[1] = round_up(padded[1], block_of(layout));
    for_each_index(padded, [&](const Dims& index, int64_t) {
      if (index[1] < dims[1]) return;
      for (size_t b = 0; b < size; ++b)
        EXPECT_EQ(from[size_t(layout_offset(dims, layout, index)) * size + b], std::byte(0))
            << "padding channel " << index[1];
    });
  }
  return out;
}

std::vector<Tensor> run_tactic(const Tactic& tactic, Problem problem, const Config& config,
                               const std::vector<Tensor>& inputs, const Device& device) {
  for (size_t i = 0; i < inputs.size(); ++i)
    problem.inputs[i].constant = problem.inputs[i].is_constant ? &inputs[i] : nullptr;
  EXPECT_EQ(config.inputs.size(), problem.inputs.size());
  EXPECT_EQ(config.outputs.size(), problem.outputs.size());
  Packed packed;
  if (tactic.build) packed = tactic.build(problem, config, device);
  Guarded packed_memory(int64_t(packed.bytes.size()), 0xff);
  if (!packed.bytes.empty()) std::memcpy(packed_memory.data(), packed.bytes.data(), packed.bytes.size());
  packed.consumed.resize(inputs.size(), false);
  for (size_t i = 0; i < inputs.size(); ++i)
    if (packed.consumed[i]) problem.inputs[i].constant = nullptr;
  auto kernel = tactic.load(problem, config, {{packed_memory.data(), packed.bytes.size()}, packed.code}, device);
  kernel->prepare();

  std::vector<Guarded> in, out;
  std::vector<const void*> in_pointers;
  std::vector<void*> out_pointers;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool handed = problem.inputs[i].present && !packed.consumed[i];
    in.emplace_back(handed ? layout_bytes(inputs[i].dtype(), inputs[i].dims(), config.inputs[i]) : 0, 0xff);
    if (handed) store_layout(inputs[i], config.inputs[i], in.back().data());
    in_pointers.push_back(handed ? in.back().data() : nullptr);
  }
  for (size_t i = 0; i < problem.outputs.size(); ++i) {
    const Port& port = problem.outputs[i];
    out.emplace_back(port.present ? layout_bytes(port.type.dtype, port.dims(), config.outputs[i]) : 0, 0xa5);
    out_pointers.push_back(port.present ? out.back().data() : nullptr);
  }
  const int64_t workspace_bytes = kernel->workspace();
  Guarded workspace(workspace_bytes, 0xa5);
  std::vector<Tensor> first, second;
  for (std::vector<Tensor>* results : {&first, &second}) {
    for (Guarded& buffer : out) buffer.fill(0xff);
    workspace.fill(0xff);
    kernel->launch({in_pointers, out_pointers, workspace_bytes ? workspace.data() : nullptr});
    for (size_t i = 0; i < problem.outputs.size(); ++i) {
      const Port& port = problem.outputs[i];
      results->push_back(port.present ? load_layout(port.type.dtype, port.dims(), config.outputs[i], out[i].data())
                                      : Tensor());
    }
  }
  for (size_t i = 0; i < first.size(); ++i)
    EXPECT_TRUE(!first[i].defined() || first[i].same_bits(second[i]))
        << "output " << i << " differs between two launches";
  EXPECT_TRUE(packed_memory.intact()) << "wrote beside the packed constants";
  EXPECT_TRUE(workspace.intact()) << "wrote beside the workspace";
  for (size_t i = 0; i < in.size(); ++i) {
    EXPECT_TRUE(in[i].intact()) << "wrote beside input " << i;
    if (in_pointers[i]) {
      Guarded again(layout_bytes(inputs[i].dtype(), inputs[i].dims(), config.inputs[i]), 0);
      store_layout(inputs[i], config.inputs[i], again.data());
      EXPECT_EQ(std::memcmp(again.data(), in[i].data(),
                            size_t(layout_bytes(inputs[i].dtype(), inputs[i].dims(), config.inputs[i]))),
                0)
          << "input " << i << " was changed";
    }
  }
  for (size_t i = 0; i < out.size(); ++i) EXPECT_TRUE(out[i].intact()) << "wrote beside output " << i;
  return first;
}

std::string difference(const Tensor& got, const Tensor& want, double relative, double absolute) {
  if (got.type() != want.type()) return concat("the type is ", got.type(), ", not ", want.type());
  if (!is_float(got.dtype()) && got.dtype() != DType::f8e4m3fn) {
    const bool strings = got.dtype() == DType::string;  // equal where their codes are
    const auto g = strings ? got.with_bits_as(DType::i64).to_ints() : got.to_ints(),
               w = strings ? want.with_bits_as(DType::i64).to_ints() : want.to_ints();
    for (size_t i = 0; i < g.size(); ++i)
      if (g[i] != w[i]) return concat("element ", i, " is ", g[i], ", not ", w[i]);
    return "";
  }
  const auto g = got.to_doubles(), w = want.to_doubles();
  for (size_t i = 0; i < g.size(); ++i) {
    if (g[i] == w[i] || (g[i] != g[i] && w[i] != w[i])) continue;
    const double error = g[i] > w[i] ? g[i] - w[i] : w[i] - g[i], size = w[i] < 0 ? -w[i] : w[i];
    if (!(error <= absolute + relative * size) || size > 1e300)
      return concat("element ", i, " is ", g[i], ", not ", w[i], " (error ", error, ")");
  }
  return "";
}

}  // namespace temper::testing
