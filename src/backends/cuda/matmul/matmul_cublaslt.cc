// SPDX-License-Identifier: Apache-2.0
// Matrix products with a bias, a residual and relu by cuBLASLt: each algorithm that it has for one is a candidate, and
// time decides.
#include <algorithm>
#include <cstring>

#include "backends/cuda/machine.h"
#include "backends/cuda/matmul/cublaslt_matmul.h"

namespace temper {

namespace {

using cuda::CublasLt;
using cuda::cublaslt_matmul;
using cuda::CublasLtChoice;
using cuda::CublasLtMatmul;

// What a plan keeps: algorithms mean something else in another version.
struct Made {
  int64_t version = 0, workspace = 0;
};

// cuBLASLt takes a bias of the result's dtype and, with some dtypes, of f32, too. A constant one that it does not take
// as it is is rounded to the result's dtype, as the weights were. Such configurations say so.
constexpr std::string_view kNarrowBias = "bias of the result's dtype, ";
bool has_narrow_bias(const Config& config) { return config.text.starts_with(kNarrowBias); }
CublasLtChoice choice_of(const Config& config) {
  return CublasLtChoice::parse(std::string_view(config.text).substr(has_narrow_bias(config) ? kNarrowBias.size() : 0));
}

Config layouts(const Problem& problem, std::string text) {
  return {std::move(text), std::vector<Layout>(problem.inputs.size(), Layout::plain), {Layout::plain}};
}

std::vector<Config> configs(const Problem& problem, const Device& device) {
  const CublasLt& library = device.gpu->cublaslt();
  std::vector<Config> out;
  const CublasLtMatmul matmul = cublaslt_matmul(problem, false);
  for (const CublasLtChoice& choice : library.choices(matmul.product)) out.push_back(layouts(problem, choice.text()));
  if (!out.empty() || matmul.bias < 0 || !problem.inputs[size_t(matmul.bias)].is_constant) return out;
  for (const CublasLtChoice& choice : library.choices(cublaslt_matmul(problem, true).product))
    out.push_back(layouts(problem, concat(kNarrowBias, choice.text())));
  return out;
}

Support supports(const Problem& problem, const Device& device) {
  const CublasLtMatmul matmul = cublaslt_matmul(problem, false);
  if (!matmul.reason.empty()) return {matmul.reason};
  if (!device.gpu) return refused("no GPU is open");
  if (const std::string why = device.gpu->why_no_cublaslt(); !why.empty())
    return refused("cuBLASLt is not there: ", why);
  if (configs(problem, device).empty())
    return refused("cuBLASLt ", device.gpu->cublaslt().version(), " has no algorithm for it");
  return supported();
}

size_t bias_bytes(const Problem& problem, const Config& config) {
  return has_narrow_bias(config) ? size_t(problem.outputs[0].dims().back() * size_of(problem.outputs[0].type.dtype))
                                 : 0;
}

Packed build(const Problem& problem, const Config& config, const Device& device) {
  const CublasLtMatmul matmul = cublaslt_matmul(problem, has_narrow_bias(config));
  Packed packed;
  packed.consumed.assign(problem.inputs.size(), false);
  if (has_narrow_bias(config)) {
    const Tensor bias = problem.inputs[size_t(matmul.bias)].constant->converted(problem.outputs[0].type.dtype);
    packed.bytes.resize(size_t(bias.bytes()));
    std::memcpy(packed.bytes.data(), bias.raw().data(), packed.bytes.size());
    packed.consumed[size_t(matmul.bias)] = true;
  }
  const CublasLt& library = device.gpu->cublaslt();
  const cuda::CublasLtRun run(library, matmul.product, choice_of(config));
  const Made made{library.version(), run.workspace()};
  packed.code.resize(sizeof made);
  std::memcpy(packed.code.data(), &made, sizeof made);
  return packed;
}

class CublasLtKernel final : public Kernel {
 public:
  CublasLtKernel(const Problem& problem, const Config& config, const PackedView& packed, const Device& device)
      : machine_(device.gpu), matmul_(cublaslt_matmul(problem, has_narrow_bias(config))) {
    const CublasLt& library = machine_->cublaslt();
    Made made;
    if (packed.code.size() != sizeof made)
      fail(ErrorKind::bad_file, "cuda.matmul.cublaslt: its note has ", packed.code.size(), " bytes");
    std::memcpy(&made, packed.code.data(), sizeof made);
    if (made.version != library.version())
      fail(ErrorKind::unsupported, "cuda.matmul.cublaslt: made with cuBLASLt ", made.version, ", and here is ",
           library.version(), "; build the plan again here");
    // Not just any settings can be run, and cuBLASLt does not check them all.
    const auto choices = library.choices(matmul_.product);
    if (std::find(choices.begin(), choices.end(), choice_of(config)) == choices.end())
      fail(ErrorKind::bad_file, "cuda.matmul.cublaslt: '", config.text, "' is none of cuBLASLt's algorithms for ",
           problem.text());
    run_ = std::make_unique<cuda::CublasLtRun>(library, matmul_.product, choice_of(config));
    if (run_->workspace() != made.workspace)
      fail(ErrorKind::bad_file, "cuda.matmul.cublaslt: a workspace of ", made.workspace, " bytes is noted; ",
           run_->workspace(), " are needed");
    if (!packed.bytes.empty()) bias_ = machine_->constant(packed.bytes);
  }
  int64_t workspace() const override { return run_->workspace(); }
  bool reads(size_t input) const override {
    return input < 2 || int(input) == matmul_.residual || (int(input) == matmul_.bias && !bias_);
  }
  void launch(const Buffers& buffers) override {
    auto input = [&](int i) { return i < 0 ? 0 : cuda::address_of(buffers.inputs[size_t(i)]); };
    run_->launch(cuda::stream_of(buffers),
                 {input(1), input(0), input(matmul_.residual), cuda::address_of(buffers.outputs[0]),
                  bias_ ? bias_->address() : input(matmul_.bias), cuda::address_of(buffers.workspace)});
  }

 private:
  std::shared_ptr<const cuda::Machine> machine_;
  CublasLtMatmul matmul_;
  std::unique_ptr<cuda::CublasLtRun> run_;
  std::shared_ptr<const cuda::DeviceMemory> bias_;  // null: an input is
};

std::unique_ptr<Kernel> load(const Problem& problem, const Config& config, const PackedView& packed,
                             const Device& device) {
  const Config wanted = layouts(problem, config.text);
  expect_layouts(config, wanted.inputs, wanted.outputs);
  const int bias = cublaslt_matmul(problem, false).bias;
  if (has_narrow_bias(config) && (bias < 0 || !problem.inputs[size_t(bias)].is_constant))
    fail(ErrorKind::bad_file, "cuda.matmul.cublaslt: '", config.text, "' where no bias is constant");
  expect_packed(packed.bytes, bias_bytes(problem, config));
  return std::make_unique<CublasLtKernel>(problem, config, packed, device);
}

}  // namespace

extern const Tactic cuda_matmul_cublaslt;
const Tactic cuda_matmul_cublaslt{"cuda.matmul.cublaslt", 1, supports, configs, build, load};

}  // namespace temper
