// SPDX-License-Identifier: Apache-2.0
// cuBLASLt: products of matrices with a bias, a residual and relu.
#pragma once
#include <map>
#include <mutex>

#include "backends/cuda/support/cublaslt_api.h"
#include "backends/cuda/support/driver.h"

namespace temper::cuda {

// d[m,n] = relu(alpha a[m,k] b[k,n] + c[m,n] + bias[m]), summed in f32; or d[m,n] = a[m,k] b[k,n] of i8 in i32, where
// alpha is 1 and nothing else is done. Matrices are column-major as cuBLASLt has them: `ld` elements lie between
// columns. A transposed operand is stored as [k,m] or [n,k].
struct CublasLtProduct {
  struct Matrix {
    bool transposed = false;
    int64_t ld = 0, batch_stride = 0;  // in elements; a stride of 0 uses one matrix for all
    bool operator==(const Matrix&) const = default;
  };
  CublasData type = CublasData::f32, result = CublasData::f32;  // of a and b; of c and d
  bool tf32 = false;                                            // f32 operands may be rounded to TF32
  int64_t m = 0, n = 0, k = 0, batch = 1;
  Matrix a, b, c, d;
  float alpha = 1;
  bool adds_c = false, adds_bias = false, relu = false;
  CublasData bias = CublasData::f32;
  bool operator==(const CublasLtProduct&) const = default;
  std::string text() const;
};

// An algorithm as its id and settings, from which it is rebuilt. They mean the same to one version of cuBLASLt on one
// kind of GPU.
struct CublasLtChoice {
  // Id, tile, stages, split-k, reduction, swizzle, custom option, inner shape, cluster shape.
  std::array<int64_t, 9> numbers{};
  std::string text() const;                            // "algorithm 66 604 35 1 0 0 0 0 2"
  static CublasLtChoice parse(std::string_view text);  // throws Error{bad_file}
  bool operator==(const CublasLtChoice&) const = default;
};

class CublasLt;

// One product with one algorithm and the addresses of a run. One thread at a time.
class CublasLtRun {
 public:
  // Throws Error{unsupported} where cuBLASLt has no such algorithm for the product.
  CublasLtRun(const CublasLt& library, const CublasLtProduct& product, const CublasLtChoice& choice);
  CublasLtRun(const CublasLtRun&) = delete;
  ~CublasLtRun();
  int64_t workspace() const { return workspace_; }
  // Addresses that the product does not use are not looked at. At least 16-byte aligned.
  struct Addresses {
    DevicePointer a = 0, b = 0, c = 0, d = 0, bias = 0, workspace = 0;
  };
  void launch(const Stream& stream, const Addresses& addresses);

 private:
  friend class CublasLt;
  void put_in(StreamHandle stream, const Addresses& addresses);
  struct Descriptions;
  const CublasLt& library_;
  std::unique_ptr<Descriptions> descriptions_;
  CublasLtAlgorithm algorithm_{};
  int64_t workspace_ = 0;
  uint32_t alpha_ = 0, beta_ = 0;  // bits of f32, or of i32 where that is summed
  bool adds_bias_ = false;
  DevicePointer bias_ = 0;  // as the description has it
};

class CublasLt {
 public:
  // Throws Error{unsupported} where cuBLASLt is missing, with what to install.
  CublasLt(GpuRef gpu, const LibrarySearch& search);
  // For tests: with functions of the caller's.
  CublasLt(GpuRef gpu, const CublasLtApi& api);
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;

  int version() const { return version_; }  // 130100 = 13.1.0
  const std::string& path() const { return path_; }

  static constexpr int64_t kWorkspace = int64_t(32) << 20;  // bytes, at most
  // Algorithms that give the same bits each time and sum in f32 (i8: in i32), the likeliest first; empty: none. At most
  // `most`.
  std::vector<CublasLtChoice> choices(const CublasLtProduct& product, size_t most = 6) const;

 private:
  friend class CublasLtRun;
  void start();
  void check(CublasStatus status, std::string_view what) const;
  CublasLtAlgorithm algorithm(const CublasLtProduct& product, const CublasLtChoice& choice) const;
  CublasLtChoice choice_of(const CublasLtAlgorithm& algorithm) const;

  CublasLtApi api_;
  std::string path_;
  int version_ = 0;
  GpuRef gpu_;
  CublasLtHandle handle_ = nullptr;
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::vector<CublasLtChoice>> choices_;
};

}  // namespace temper::cuda
