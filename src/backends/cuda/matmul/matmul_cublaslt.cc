// SPDX-License-Identifier: Apache-2.0
// Products by cuBLASLt: each algorithm that it has for one is a candidate, and time decides. Those of floats with a
// bias, a residual and relu are one call; those of i8 give sums, on which a kernel of ours computes the epilogue.
#include <algorithm>
#include <cstring>

#include "backends/cuda/bundle.h"
#include "backends/cuda/machine.h"
#include "backends/cuda/matmul/cublaslt_matmul.h"
#include "backends/cuda/recipe_tactic.h"
#include "base/checked.h"
#include "graph/ops/conv.h"
#include "graph/ops/matmul.h"

namespace temper {

namespace {

using cuda::CublasLt;
using cuda::cublaslt_matmul;
using cuda::CublasLtChoice;
using cuda::CublasLtIntegers;
using cuda::CublasLtMatmul;
using cuda::CublasLtProduct;
using cuda::CublasLtRun;

// Kept in a plan. Algorithms mean something else in another version of cuBLASLt.
struct Made {
  int64_t version = 0, workspace = 0;
};

std::string why_not(const Device& device) {
  if (const std::string why = device.gpu->why_no_cublaslt(); !why.empty())
    return concat("cuBLASLt is not there: ", why);
  return "";
}
Support refused_by_library(const Device& device) {
  return refused("cuBLASLt ", device.gpu->cublaslt().version(), " has no algorithm for it");
}

// What is timed of a product. Two of bytes are enough: our own kernels were 1.4 to 6 times as fast in ResNet-50's
// layers on one H200.
std::vector<CublasLtChoice> choices_for(const CublasLt& library, const CublasLtProduct& product) {
  return library.choices(product, product.type == cuda::CublasData::i8 ? 2 : 6);
}

// A product of a plan that `made` says of how it was built.
std::unique_ptr<CublasLtRun> run_of(const Problem& problem, const CublasLtProduct& product,
                                    const CublasLtChoice& choice, const Made& made, const CublasLt& library) {
  if (made.version != library.version())
    fail(ErrorKind::unsupported, "made with cuBLASLt ", made.version, ", and here is ", library.version(),
         "; build the plan again here");
  // Not just any settings can be run, and cuBLASLt does not check them all.
  const auto choices = choices_for(library, product);
  if (std::find(choices.begin(), choices.end(), choice) == choices.end())
    fail(ErrorKind::bad_file, '\'', choice.text(), "' is none of cuBLASLt's algorithms for ", problem.text());
  auto run = std::make_unique<CublasLtRun>(library, product, choice);
  if (run->workspace() != made.workspace)
    fail(ErrorKind::bad_file, "a workspace of ", made.workspace, " bytes is noted for cuBLASLt; ", run->workspace(),
         " are needed");
  return run;
}

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
  for (const CublasLtChoice& choice : choices_for(library, matmul.product))
    out.push_back(layouts(problem, choice.text()));
  if (!out.empty() || matmul.bias < 0 || !problem.inputs[size_t(matmul.bias)].is_constant) return out;
  for (const CublasLtChoice& choice : choices_for(library, cublaslt_matmul(problem, true).product))
    out.push_back(layouts(problem, concat(kNarrowBias, choice.text())));
  return out;
}

Support supports(const Problem& problem, const Device& device) {
  const CublasLtMatmul matmul = cublaslt_matmul(problem, false);
  if (!matmul.reason.empty()) return {matmul.reason};
  if (const std::string why = why_not(device); !why.empty()) return {why};
  return configs(problem, device).empty() ? refused_by_library(device) : supported();
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
  const CublasLtRun run(library, matmul.product, choice_of(config));
  const Made made{library.version(), run.workspace()};
  packed.code.resize(sizeof made);
  std::memcpy(packed.code.data(), &made, sizeof made);
  return packed;
}

class CublasLtKernel final : public Kernel {
 public:
  CublasLtKernel(const Problem& problem, const Config& config, const PackedView& packed, const Device& device)
      : machine_(device.gpu), matmul_(cublaslt_matmul(problem, has_narrow_bias(config))), bytes_(packed.bytes) {
    Made made;
    if (packed.code.size() != sizeof made)
      fail(ErrorKind::bad_file, "cuda.matmul.cublaslt: its note has ", packed.code.size(), " bytes");
    std::memcpy(&made, packed.code.data(), sizeof made);
    run_ = run_of(problem, matmul_.product, choice_of(config), made, machine_->cublaslt());
  }
  int64_t workspace() const override { return run_->workspace(); }
  bool reads(size_t input) const override {
    return input < 2 || int(input) == matmul_.residual || (int(input) == matmul_.bias && bytes_.empty());
  }
  void prepare() override {
    if (!bytes_.empty()) bias_ = machine_->constant(bytes_);
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
  std::unique_ptr<CublasLtRun> run_;
  const std::span<const std::byte> bytes_;          // of the bias, until prepare()
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

// ---- i8 ----

std::vector<Config> integer_configs(const Problem& problem, const Device& device) {
  const CublasLtIntegers integers = cuda::cublaslt_integers(problem);
  std::vector<Config> out;
  for (const CublasLtChoice& choice : choices_for(device.gpu->cublaslt(), integers.product))
    out.push_back(cuda::cublaslt_layouts(problem, integers.layout, choice.text()));
  return out;
}

template <class Op>
Support integers_support(const Problem& problem, const Device& device) {
  if (!problem.op.is<Op>()) return refused("not a ", Op::name);
  if (std::string reason = cuda::cublaslt_integers(problem).reason; !reason.empty()) return {reason};
  if (const std::string why = why_not(device); !why.empty()) return {why};
  return integer_configs(problem, device).empty() ? refused_by_library(device) : supported();
}

void compile_behind_sums(const Problem& problem, const Config&, const Device& device) {
  const Problem bare = cuda::without_constants(problem);
  for (const cuda::Job& job :
       cuda::work_behind_sums(bare, cuda::cublaslt_integers(bare), cuda::properties_of(device)).jobs)
    device.gpu->compiler().compile_ahead(job.source, device.architecture);
}

// The code: the kernel behind the sums, and then the note.
Packed build_integers(const Problem& problem, const Config& config, const Device& device) {
  const CublasLtIntegers integers = cuda::cublaslt_integers(problem);
  cuda::Recipe::Work work = cuda::work_behind_sums(problem, integers, cuda::properties_of(device));
  const CublasLt& library = device.gpu->cublaslt();
  const CublasLtRun run(library, integers.product, CublasLtChoice::parse(config.text));
  const Made made{library.version(), run.workspace()};
  Packed packed;
  packed.bytes = std::move(work.packed);
  packed.consumed = std::move(work.consumed);
  packed.code = cuda::make_bundle(work.jobs, device.gpu->compiler(), device.architecture);
  const size_t at = packed.code.size();
  packed.code.resize(at + sizeof made);
  std::memcpy(packed.code.data() + at, &made, sizeof made);
  return packed;
}

class CublasLtIntegerKernel final : public Kernel {
 public:
  CublasLtIntegerKernel(const Problem& problem, const Config& config, const CublasLtIntegers& integers,
                        const cuda::Recipe::Work& work, const PackedView& packed, const Device& device)
      : machine_(device.gpu),
        sums_bytes_(round_up(work.workspace, int64_t(256))),
        has_epilogue_(!work.jobs.empty()),
        packs_(integers.packs),
        bytes_(packed.bytes) {
    Made made;
    if (packed.code.size() < sizeof made)
      fail(ErrorKind::bad_file, "the code of a product by cuBLASLt has ", packed.code.size(), " bytes");
    const auto note = packed.code.last(sizeof made);
    std::memcpy(&made, note.data(), sizeof made);
    run_ = run_of(problem, integers.product, CublasLtChoice::parse(config.text), made, machine_->cublaslt());
    behind_ = cuda::make_kernel(work, {{}, packed.code.first(packed.code.size() - sizeof made)}, device);
  }
  int64_t workspace() const override { return sums_bytes_ + run_->workspace(); }
  bool reads(size_t input) const override { return input == 0 || (input == 1 && !packs_) || behind_->reads(input); }
  void prepare() override {
    behind_->prepare();
    if (packs_) weights_ = machine_->constant(bytes_);
  }
  void launch(const Buffers& buffers) override {
    const cuda::DevicePointer workspace = cuda::address_of(buffers.workspace);
    run_->launch(
        cuda::stream_of(buffers),
        {packs_ ? weights_->address() : cuda::address_of(buffers.inputs[1]), cuda::address_of(buffers.inputs[0]), 0,
         has_epilogue_ ? workspace : cuda::address_of(buffers.outputs[0]), 0, workspace + sums_bytes_});
    behind_->launch(buffers);
  }

 private:
  std::shared_ptr<const cuda::Machine> machine_;
  int64_t sums_bytes_;
  bool has_epilogue_, packs_;  // packs: otherwise the weights are the second input
  std::unique_ptr<CublasLtRun> run_;
  std::unique_ptr<Kernel> behind_;
  const std::span<const std::byte> bytes_;  // of the weights, until prepare()
  std::shared_ptr<const cuda::DeviceMemory> weights_;
};

std::unique_ptr<Kernel> load_integers(const Problem& problem, const Config& config, const PackedView& packed,
                                      const Device& device) {
  const CublasLtIntegers integers = cuda::cublaslt_integers(problem);
  const Config wanted = cuda::cublaslt_layouts(problem, integers.layout, config.text);
  expect_layouts(config, wanted.inputs, wanted.outputs);
  const cuda::Recipe::Work work = cuda::work_behind_sums(problem, integers, cuda::properties_of(device));
  expect_packed(packed.bytes, size_t(work.packed_bytes));
  return std::make_unique<CublasLtIntegerKernel>(problem, config, integers, work, packed, device);
}

}  // namespace

extern const Tactic cuda_matmul_cublaslt, cuda_matmul_cublaslt_int8, cuda_conv_cublaslt_int8;
const Tactic cuda_matmul_cublaslt{
    "cuda.matmul.cublaslt", 1, supports, configs, build, load, false, nullptr, nullptr, true};
const Tactic cuda_matmul_cublaslt_int8{"cuda.matmul.cublaslt_int8",
                                       1,
                                       integers_support<ops::MatMul>,
                                       integer_configs,
                                       build_integers,
                                       load_integers,
                                       false,
                                       compile_behind_sums,
                                       nullptr,
                                       true};
const Tactic cuda_conv_cublaslt_int8{"cuda.conv.cublaslt_int8",
                                     1,
                                     integers_support<ops::Conv>,
                                     integer_configs,
                                     build_integers,
                                     load_integers,
                                     false,
                                     compile_behind_sums,
                                     nullptr,
                                     true};

}  // namespace temper
