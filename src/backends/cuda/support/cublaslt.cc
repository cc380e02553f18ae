// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/support/cublaslt.h"

#include <algorithm>
#include <bit>

#include "base/parse.h"

namespace temper::cuda {

namespace {

using Attribute = CublasLtAlgorithmAttribute;

// The order of CublasLtChoice::numbers; bytes of each as cuBLASLt wants them.
struct Setting {
  Attribute attribute;
  size_t bytes;
};
constexpr Setting kSettings[] = {{Attribute::id, 4},      {Attribute::tile, 4},        {Attribute::stages, 4},
                                 {Attribute::split_k, 4}, {Attribute::reduction, 4},   {Attribute::swizzle, 4},
                                 {Attribute::custom, 4},  {Attribute::inner_shape, 2}, {Attribute::cluster_shape, 2}};
static_assert(std::size(kSettings) == std::tuple_size_v<decltype(CublasLtChoice::numbers)>);
constexpr int64_t kLosesNaN = 20;              // the id of an algorithm whose relu gives 0 for NaN
constexpr size_t kSplitK = 3, kReduction = 4;  // a negative split-k leaves it to the algorithm

int compute_of(const CublasLtProduct& product) {
  return product.type == CublasData::i8 ? kCublasComputeI32 : product.tf32 ? kCublasComputeTf32 : kCublasCompute32;
}
// Of alpha and beta.
int scale_of(const CublasLtProduct& product) {
  return int(product.type == CublasData::i8 ? CublasData::i32 : CublasData::f32);
}

}  // namespace

std::string CublasLtProduct::text() const {
  std::string out = concat(int(type), ' ', int(result), ' ', tf32, ' ', m, 'x', n, 'x', k, " batch ", batch, " alpha ",
                           alpha, " adds ", adds_c, ' ', adds_bias, ' ', int(bias), " relu ", relu);
  for (const Matrix* matrix : {&a, &b, &c, &d})
    out += concat("; ", matrix->transposed, ' ', matrix->ld, ' ', matrix->batch_stride);
  return out;
}

std::string CublasLtChoice::text() const {
  std::string out = "algorithm";
  for (int64_t number : numbers) out += concat(' ', number);
  return out;
}

CublasLtChoice CublasLtChoice::parse(std::string_view text) {
  CublasLtChoice choice;
  const std::string_view whole = text;
  auto refuse = [&] { fail(ErrorKind::bad_file, "'", whole, "' is no choice of cuBLASLt's algorithms"); };
  if (!text.starts_with("algorithm")) refuse();
  text.remove_prefix(9);
  for (size_t i = 0; i < choice.numbers.size(); ++i) {
    if (!text.starts_with(" ")) refuse();
    text.remove_prefix(1);
    const auto number = parse_leading<int64_t>(text);
    const int64_t most = kSettings[i].bytes == 2 ? 0xffff : 0x7fffffff;
    if (!number || number->value < (i == kSplitK ? -1 : 0) || number->value > most) refuse();
    choice.numbers[i] = number->value;
    text = number->rest;
  }
  if (choice.text() != whole) refuse();
  return choice;
}

// The descriptors that cuBLASLt wants for a product.
struct CublasLtRun::Descriptions {
  const CublasLt& library;
  CublasLtObject product = nullptr;
  CublasLtObject matrices[4] = {};  // a, b, c, d

  Descriptions(const CublasLt& l, const CublasLtProduct& p) : library(l) {
    try {
      describe(p);
    } catch (...) {
      destroy();
      throw;
    }
  }
  Descriptions(const Descriptions&) = delete;
  ~Descriptions() { destroy(); }

  template <class T>
  void set(CublasLtProductAttribute attribute, T value) {
    library.check(library.api_.set_product(product, attribute, &value, sizeof value),
                  concat("setting attribute ", int(attribute), " of a product"));
  }

 private:
  void destroy() {
    for (CublasLtObject matrix : matrices)
      if (matrix) library.api_.destroy_matrix(matrix);
    if (product) library.api_.destroy_product(product);
  }
  void describe(const CublasLtProduct& p) {
    library.check(library.api_.create_product(&product, compute_of(p), scale_of(p)), "describing a product");
    using A = CublasLtProductAttribute;
    set(A::transpose_a, int(p.a.transposed));
    set(A::transpose_b, int(p.b.transposed));
    set(A::epilogue,
        uint32_t(!p.relu && !p.adds_bias ? kCublasLtNoEpilogue
                                         : (p.relu ? kCublasLtRelu : 0) | (p.adds_bias ? kCublasLtBias : 0)));
    if (p.adds_bias) set(A::bias_type, int(p.bias));
    matrix(0, p.type, p.m, p.k, p.a, p.batch);
    matrix(1, p.type, p.k, p.n, p.b, p.batch);
    matrix(2, p.result, p.m, p.n, p.adds_c ? p.c : p.d, p.batch);
    matrix(3, p.result, p.m, p.n, p.d, p.batch);
  }
  void matrix(size_t which, CublasData type, int64_t rows, int64_t columns, const CublasLtProduct::Matrix& m,
              int64_t batch) {
    if (m.transposed) std::swap(rows, columns);
    CublasLtObject& made = matrices[which];
    library.check(library.api_.create_matrix(&made, int(type), uint64_t(rows), uint64_t(columns), m.ld),
                  "describing a matrix");
    if (batch == 1) return;
    const int32_t count = int32_t(batch);
    const auto set_matrix = library.api_.set_matrix;
    library.check(set_matrix(made, CublasLtMatrixAttribute::batch_count, &count, sizeof count), "describing a batch");
    library.check(set_matrix(made, CublasLtMatrixAttribute::batch_stride, &m.batch_stride, sizeof m.batch_stride),
                  "describing a batch");
  }
};

CublasLt::CublasLt(GpuRef gpu, const LibrarySearch& search) : gpu_(std::move(gpu)) {
  const Library library = Library::open(
      {"libcublasLt.so.13", "libcublasLt.so.12"}, search, "matrix products by NVIDIA's library",
      "install NVIDIA's cuBLAS 13 or 12, or 'pip install nvidia-cublas' and name the site-packages folder "
      "with --cuda-path");
  path_ = library.path();
  library.bind(api_.version, "cublasLtGetVersion");
  library.bind(api_.status_name, "cublasLtGetStatusName");
  library.bind(api_.create, "cublasLtCreate");
  library.bind(api_.destroy, "cublasLtDestroy");
  library.bind(api_.create_product, "cublasLtMatmulDescCreate");
  library.bind(api_.destroy_product, "cublasLtMatmulDescDestroy");
  library.bind(api_.set_product, "cublasLtMatmulDescSetAttribute");
  library.bind(api_.create_matrix, "cublasLtMatrixLayoutCreate");
  library.bind(api_.destroy_matrix, "cublasLtMatrixLayoutDestroy");
  library.bind(api_.set_matrix, "cublasLtMatrixLayoutSetAttribute");
  library.bind(api_.create_preference, "cublasLtMatmulPreferenceCreate");
  library.bind(api_.destroy_preference, "cublasLtMatmulPreferenceDestroy");
  library.bind(api_.set_preference, "cublasLtMatmulPreferenceSetAttribute");
  library.bind(api_.heuristics, "cublasLtMatmulAlgoGetHeuristic");
  library.bind(api_.algorithm_init, "cublasLtMatmulAlgoInit");
  library.bind(api_.algorithm_check, "cublasLtMatmulAlgoCheck");
  library.bind(api_.algorithm_can, "cublasLtMatmulAlgoCapGetAttribute");
  library.bind(api_.algorithm_set, "cublasLtMatmulAlgoConfigSetAttribute");
  library.bind(api_.algorithm_get, "cublasLtMatmulAlgoConfigGetAttribute");
  library.bind(api_.matmul, "cublasLtMatmul");
  start();
}

CublasLt::CublasLt(GpuRef gpu, const CublasLtApi& api) : api_(api), path_("a scripted cuBLASLt"), gpu_(std::move(gpu)) {
  start();
}

void CublasLt::start() {
  version_ = int(api_.version());
  gpu_->make_current();
  if (const CublasStatus status = api_.create(&handle_); status != 0)
    fail(ErrorKind::unsupported, "cuBLASLt ", version_, " ('", path_, "') does not start on ", gpu_->info().name, ": ",
         api_.status_name(status), "; install a version that fits the GPU and its driver");
}

CublasLt::~CublasLt() {
  if (handle_ && gpu_->try_make_current()) api_.destroy(handle_);
}

void CublasLt::check(CublasStatus status, std::string_view what) const {
  if (status == 0) return;
  const bool lacking = status == kCublasInvalidValue || status == kCublasArchMismatch || status == kCublasNotSupported;
  fail(lacking ? ErrorKind::unsupported : ErrorKind::machine, "cuBLASLt ", version_, ", ", what, ": ",
       api_.status_name(status));
}

CublasLtChoice CublasLt::choice_of(const CublasLtAlgorithm& algorithm) const {
  CublasLtChoice choice;
  for (size_t i = 0; i < std::size(kSettings); ++i) {
    uint32_t value = 0;
    size_t written = 0;
    check(api_.algorithm_get(&algorithm, kSettings[i].attribute, &value, kSettings[i].bytes, &written),
          concat("reading setting ", int(kSettings[i].attribute), " of an algorithm"));
    choice.numbers[i] = i == kSplitK ? int64_t(int32_t(value)) : int64_t(value);
  }
  return choice;
}

CublasLtAlgorithm CublasLt::algorithm(const CublasLtProduct& product, const CublasLtChoice& choice) const {
  if (choice.numbers[kReduction] & ~int64_t(kCublasLtReduceInComputeType))
    fail(ErrorKind::unsupported, "cuBLASLt's ", choice.text(), " does not sum in f32");
  if (product.relu && choice.numbers[0] == kLosesNaN)
    fail(ErrorKind::unsupported, "cuBLASLt's ", choice.text(), " loses NaN in relu");
  CublasLtAlgorithm out{};
  const int type = int(product.type), result = int(product.result);
  check(api_.algorithm_init(handle_, compute_of(product), scale_of(product), type, type, result, result,
                            int(choice.numbers[0]), &out),
        concat("taking ", choice.text()));
  for (size_t i = 1; i < std::size(kSettings); ++i) {
    // Older algorithms have no shapes to choose.
    if (kSettings[i].bytes == 2 && choice.numbers[i] == 0) continue;
    const uint32_t value = uint32_t(choice.numbers[i]);
    check(api_.algorithm_set(&out, kSettings[i].attribute, &value, kSettings[i].bytes),
          concat("setting up ", choice.text()));
  }
  uint64_t flags = 0;
  size_t written = 0;
  check(api_.algorithm_can(&out, kCublasLtNumericalFlags, &flags, sizeof flags, &written), "asking how it computes");
  uint64_t refused = kCublasLtSumsIn16Bits;
  if (product.type == CublasData::f32 && !product.tf32) refused |= kCublasLtTensorCores | kCublasLtRoundsToTf32;
  if (flags & refused)
    fail(ErrorKind::unsupported, "cuBLASLt's ", choice.text(), " computes less exactly than asked for");
  return out;
}

std::vector<CublasLtChoice> CublasLt::choices(const CublasLtProduct& product, size_t most) const {
  const std::string key = concat(product.text(), " most=", most);
  const std::lock_guard lock(mutex_);
  if (const auto known = choices_.find(key); known != choices_.end()) return known->second;
  gpu_->make_current();
  std::vector<CublasLtChoice> out;
  std::unique_ptr<CublasLtRun::Descriptions> described;
  try {
    described = std::make_unique<CublasLtRun::Descriptions>(*this, product);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::unsupported) throw;
    return choices_[key] = out;  // what it cannot describe it cannot compute
  }
  CublasLtObject made = nullptr;
  check(api_.create_preference(&made), "stating preferences");
  const std::unique_ptr<void, CublasStatus (*)(void*)> preference(made, api_.destroy_preference);
  using P = CublasLtPreferenceAttribute;
  auto prefer = [&](P attribute, auto value) {
    check(api_.set_preference(made, attribute, &value, sizeof value), "stating preferences");
  };
  prefer(P::workspace, uint64_t(kWorkspace));
  prefer(P::reduction_schemes, kCublasLtReduceInComputeType);
  for (P alignment : {P::alignment_a, P::alignment_b, P::alignment_c, P::alignment_d}) prefer(alignment, uint32_t(16));
  constexpr int kAsked = 16;
  CublasLtResult results[kAsked] = {};
  int count = 0;
  auto* const matrices = described->matrices;
  const CublasStatus status = api_.heuristics(handle_, described->product, matrices[0], matrices[1], matrices[2],
                                              matrices[3], made, kAsked, results, &count);
  if (status != kCublasNotSupported && status != kCublasInvalidValue && status != kCublasArchMismatch)
    check(status, "asking for algorithms");
  for (int i = 0; i < std::min(count, kAsked) && out.size() < most; ++i) {
    if (results[i].state != 0) continue;
    const CublasLtChoice choice = choice_of(results[i].algorithm);
    if (std::find(out.begin(), out.end(), choice) != out.end()) continue;
    try {  // what can be rebuilt from the choice alone
      const CublasLtAlgorithm rebuilt = algorithm(product, choice);
      CublasLtResult checked{};
      check(api_.algorithm_check(handle_, described->product, matrices[0], matrices[1], matrices[2], matrices[3],
                                 &rebuilt, &checked),
            "checking an algorithm");
      if (int64_t(checked.workspace) > kWorkspace) continue;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::unsupported) throw;
      continue;
    }
    out.push_back(choice);
  }
  return choices_[key] = out;
}

CublasLtRun::CublasLtRun(const CublasLt& library, const CublasLtProduct& product, const CublasLtChoice& choice)
    : library_(library) {
  library.gpu_->make_current();
  alpha_ = product.type == CublasData::i8 ? 1 : std::bit_cast<uint32_t>(product.alpha);
  beta_ = product.adds_c ? std::bit_cast<uint32_t>(1.0f) : 0;
  adds_bias_ = product.adds_bias;
  descriptions_ = std::make_unique<Descriptions>(library, product);
  algorithm_ = library.algorithm(product, choice);
  CublasLtResult result{};
  auto* const matrices = descriptions_->matrices;
  library.check(library.api_.algorithm_check(library.handle_, descriptions_->product, matrices[0], matrices[1],
                                             matrices[2], matrices[3], &algorithm_, &result),
                concat("checking ", choice.text()));
  workspace_ = int64_t(result.workspace);
  if (workspace_ < 0 || workspace_ > CublasLt::kWorkspace)
    fail(ErrorKind::unsupported, "cuBLASLt's ", choice.text(), " needs a workspace of ", workspace_, " bytes");
}
CublasLtRun::~CublasLtRun() = default;

void CublasLtRun::launch(const Stream& stream, const Addresses& addresses) {
  stream.put_in([this, addresses](StreamHandle into) { put_in(into, addresses); });
}

void CublasLtRun::put_in(StreamHandle stream, const Addresses& addresses) {
  if (adds_bias_ && addresses.bias != bias_) {
    descriptions_->set(CublasLtProductAttribute::bias_pointer, reinterpret_cast<const void*>(addresses.bias));
    bias_ = addresses.bias;
  }
  auto pointer = [](DevicePointer address) { return reinterpret_cast<void*>(address); };
  library_.gpu_->driver().fail_if_planned(Operation::launch, "multiplying");
  auto* const matrices = descriptions_->matrices;
  const void* c = pointer(beta_ != 0 ? addresses.c : addresses.d);
  library_.check(
      library_.api_.matmul(library_.handle_, descriptions_->product, &alpha_, pointer(addresses.a), matrices[0],
                           pointer(addresses.b), matrices[1], &beta_, c, matrices[2], pointer(addresses.d), matrices[3],
                           &algorithm_, pointer(addresses.workspace), size_t(workspace_), stream),
      "multiplying");
}

}  // namespace temper::cuda
