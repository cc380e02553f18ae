// SPDX-License-Identifier: Apache-2.0
// The calls of cuda_runtime_api.h that C++ makes with pointers of its own types.
#pragma once
#include "cuda_runtime_api.h"

template <class T>
inline cudaError_t cudaMalloc(T** devPtr, std::size_t size) noexcept {
  return cudaMalloc(reinterpret_cast<void**>(devPtr), size);
}
template <class T>
inline cudaError_t cudaMallocHost(T** ptr, std::size_t size, unsigned int = 0) noexcept {
  return cudaMallocHost(reinterpret_cast<void**>(ptr), size);
}
template <class T>
inline cudaError_t cudaHostAlloc(T** pHost, std::size_t size, unsigned int flags) noexcept {
  return cudaHostAlloc(reinterpret_cast<void**>(pHost), size, flags);
}
