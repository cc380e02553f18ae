// SPDX-License-Identifier: Apache-2.0
// The part of cuBLASLt (12 and 13) that is used, declared from its public documentation, so that no cuBLAS header is
// needed to build.
#pragma once
#include <cstddef>
#include <cstdint>

namespace temper::cuda {

using CublasStatus = int;
using CublasLtHandle = struct cublasLtContext*;
using CublasLtObject = void*;  // a description of a product, of a matrix, or a preference

// Values of cudaDataType_t.
enum class CublasData : int { f32 = 0, f16 = 2, i8 = 3, i32 = 10, bf16 = 14 };

// Values of cublasComputeType_t.
constexpr int kCublasCompute32 = 68, kCublasComputeI32 = 72, kCublasComputeTf32 = 77;
// Values of cublasStatus_t that are told apart.
constexpr CublasStatus kCublasInvalidValue = 7, kCublasArchMismatch = 8, kCublasNotSupported = 15;

// Values of cublasLtMatmulDescAttributes_t and of cublasLtEpilogue_t.
enum class CublasLtProductAttribute : int {
  transpose_a = 3,  // int: 0 or 1
  transpose_b = 4,
  epilogue = 7,      // uint32
  bias_pointer = 8,  // void*
  bias_type = 26,    // int
};
constexpr uint32_t kCublasLtNoEpilogue = 1, kCublasLtRelu = 2, kCublasLtBias = 4;

// Values of cublasLtMatrixLayoutAttribute_t.
enum class CublasLtMatrixAttribute : int { batch_count = 5, batch_stride = 6 };  // int32, int64 in elements

// Values of cublasLtMatmulPreferenceAttributes_t.
enum class CublasLtPreferenceAttribute : int {
  workspace = 1,          // uint64, bytes
  reduction_schemes = 3,  // uint32: bits of those that are allowed
  alignment_a = 5,        // uint32, bytes
  alignment_b = 6,
  alignment_c = 7,
  alignment_d = 8,
};
constexpr uint32_t kCublasLtReduceInComputeType = 2;

// Values of cublasLtMatmulAlgoConfigAttributes_t.
enum class CublasLtAlgorithmAttribute : int {
  id = 0,             // int32
  tile = 1,           // uint32
  split_k = 2,        // int32
  reduction = 3,      // uint32
  swizzle = 4,        // uint32
  custom = 5,         // uint32
  stages = 6,         // uint32
  inner_shape = 7,    // uint16
  cluster_shape = 8,  // uint16
};

// cublasLtMatmulAlgoCapAttributes_t: numerical implementation flags (uint64), and bits of them.
constexpr int kCublasLtNumericalFlags = 15;
constexpr uint64_t kCublasLtTensorCores = 0xfe, kCublasLtSumsIn16Bits = 0x100, kCublasLtRoundsToTf32 = 0x40000;

struct CublasLtAlgorithm {
  uint64_t data[8];
};
struct CublasLtResult {
  CublasLtAlgorithm algorithm;
  size_t workspace;
  CublasStatus state;
  float waves;
  int reserved[4];
};
static_assert(sizeof(CublasLtResult) == 96);

struct CublasLtApi {
  size_t (*version)() = nullptr;
  const char* (*status_name)(CublasStatus) = nullptr;
  CublasStatus (*create)(CublasLtHandle*) = nullptr;
  CublasStatus (*destroy)(CublasLtHandle) = nullptr;
  CublasStatus (*create_product)(CublasLtObject*, int compute, int scale_type) = nullptr;
  CublasStatus (*destroy_product)(CublasLtObject) = nullptr;
  CublasStatus (*set_product)(CublasLtObject, CublasLtProductAttribute, const void*, size_t) = nullptr;
  CublasStatus (*create_matrix)(CublasLtObject*, int type, uint64_t rows, uint64_t columns, int64_t ld) = nullptr;
  CublasStatus (*destroy_matrix)(CublasLtObject) = nullptr;
  CublasStatus (*set_matrix)(CublasLtObject, CublasLtMatrixAttribute, const void*, size_t) = nullptr;
  CublasStatus (*create_preference)(CublasLtObject*) = nullptr;
  CublasStatus (*destroy_preference)(CublasLtObject) = nullptr;
  CublasStatus (*set_preference)(CublasLtObject, CublasLtPreferenceAttribute, const void*, size_t) = nullptr;
  // Objects: the product, matrices a, b, c and d.
  CublasStatus (*heuristics)(CublasLtHandle, CublasLtObject, CublasLtObject, CublasLtObject, CublasLtObject,
                             CublasLtObject, CublasLtObject preference, int room, CublasLtResult*,
                             int* count) = nullptr;
  CublasStatus (*algorithm_init)(CublasLtHandle, int compute, int scale_type, int a, int b, int c, int d, int id,
                                 CublasLtAlgorithm*) = nullptr;
  CublasStatus (*algorithm_check)(CublasLtHandle, CublasLtObject, CublasLtObject, CublasLtObject, CublasLtObject,
                                  CublasLtObject, const CublasLtAlgorithm*, CublasLtResult*) = nullptr;
  CublasStatus (*algorithm_can)(const CublasLtAlgorithm*, int, void*, size_t, size_t* written) = nullptr;
  CublasStatus (*algorithm_set)(CublasLtAlgorithm*, CublasLtAlgorithmAttribute, const void*, size_t) = nullptr;
  CublasStatus (*algorithm_get)(const CublasLtAlgorithm*, CublasLtAlgorithmAttribute, void*, size_t,
                                size_t* written) = nullptr;
  CublasStatus (*matmul)(CublasLtHandle, CublasLtObject product, const void* alpha, const void* a, CublasLtObject,
                         const void* b, CublasLtObject, const void* beta, const void* c, CublasLtObject, void* d,
                         CublasLtObject, const CublasLtAlgorithm*, void* workspace, size_t workspace_bytes,
                         struct CUstream_st*) = nullptr;
};

}  // namespace temper::cuda
