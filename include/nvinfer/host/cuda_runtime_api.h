// SPDX-License-Identifier: Apache-2.0
// Stands in for the few calls of the CUDA runtime by which programs for TensorRT hold buffers, on a machine without a
// GPU. "Device memory" is memory of the host. It is for one compilation that asks for it (temper as-tensorrt --device
// cpu). Events, graphs and times are there for headers that speak of them, and fail with cudaErrorNotSupported when
// they are used; what is not here, kernels for one, does not compile.
#pragma once
#ifndef __cplusplus
#error "this stand-in for the CUDA runtime is for C++"
#endif
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <set>

#include "../temper_nvinfer.h"

#define TEMPER_HOST_CUDA 1
// CUDA's own headers, which a command line may name, have nothing to add then.
#define __CUDA_RUNTIME_API_H__
#define __CUDA_RUNTIME_H__
#define CUDART_VERSION 0  // of no CUDA

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidMemcpyDirection = 21,
  cudaErrorInvalidDevice = 101,
  cudaErrorInvalidResourceHandle = 400,
  cudaErrorNotSupported = 801,
  cudaErrorStreamCaptureInvalidated = 901,
};
enum cudaMemcpyKind {
  cudaMemcpyHostToHost = 0,
  cudaMemcpyHostToDevice = 1,
  cudaMemcpyDeviceToHost = 2,
  cudaMemcpyDeviceToDevice = 3,
  cudaMemcpyDefault = 4,
};
typedef struct CUstream_st* cudaStream_t;
typedef struct CUevent_st* cudaEvent_t;
typedef struct CUgraph_st* cudaGraph_t;
typedef struct CUgraphExec_st* cudaGraphExec_t;
typedef struct CUgraphNode_st* cudaGraphNode_t;
typedef void (*cudaHostFn_t)(void* userData);
enum { cudaStreamDefault = 0, cudaStreamNonBlocking = 1 };
enum { cudaEventDefault = 0, cudaEventBlockingSync = 1, cudaEventDisableTiming = 2 };
enum { cudaHostAllocDefault = 0, cudaHostAllocPortable = 1, cudaHostAllocMapped = 2 };
enum { cudaDeviceScheduleSpin = 1, cudaDeviceScheduleYield = 2, cudaDeviceScheduleBlockingSync = 4 };
enum cudaStreamCaptureMode {
  cudaStreamCaptureModeGlobal = 0,
  cudaStreamCaptureModeThreadLocal = 1,
  cudaStreamCaptureModeRelaxed = 2,
};
enum cudaDeviceAttr { cudaDevAttrComputeCapabilityMajor = 75, cudaDevAttrComputeCapabilityMinor = 76 };

// Says that it is none: everything but the name is 0.
struct cudaDeviceProp {
  char name[256];
  std::size_t totalGlobalMem, sharedMemPerBlock;
  int warpSize, maxThreadsPerBlock, clockRate, major, minor, multiProcessorCount, memoryClockRate, memoryBusWidth,
      l2CacheSize;
};

namespace temper_host {
inline cudaError_t& last() noexcept {
  static thread_local cudaError_t error = cudaSuccess;
  return error;
}
inline cudaError_t said(cudaError_t error) noexcept {
  if (error != cudaSuccess) last() = error;
  return error;
}
inline void announce() noexcept {
  static bool const once =
      std::fputs("temper: the CUDA runtime is a stand-in in this process: its device memory is the host's\n", stderr) >=
      0;
  static_cast<void>(once);
}
inline cudaError_t allocate(void** memory, std::size_t size, int pinned) noexcept {
  announce();
  if (!memory) return said(cudaErrorInvalidValue);
  *memory = size ? temper_nv_host_allocate(size, pinned) : nullptr;
  return said(!size || *memory ? cudaSuccess : cudaErrorMemoryAllocation);
}
inline cudaError_t release(void* memory, int pinned) noexcept {
  std::size_t beyond = 0;
  if (memory && !temper_nv_host_free(memory, pinned, &beyond)) return said(cudaErrorInvalidValue);
  if (beyond) std::fprintf(stderr, "temper: the program wrote %zu bytes beyond a buffer\n", beyond);
  return cudaSuccess;
}
// Everything that is put into a stream is done at once: it is a number. Never destroyed, as programs destroy streams in
// destructors of their own globals.
struct Streams {
  std::mutex mutex;
  std::set<std::uintptr_t> live;
  std::uintptr_t last = 0;
};
inline Streams& streams() noexcept {
  static Streams* const the_one = new Streams;
  return *the_one;
}
// A number in the place of an address that may be null.
inline cudaError_t tell(int* to, int value) noexcept {
  if (!to) return said(cudaErrorInvalidValue);
  *to = value;
  return cudaSuccess;
}
}  // namespace temper_host

inline cudaError_t cudaMalloc(void** devPtr, std::size_t size) noexcept {
  return temper_host::allocate(devPtr, size, 0);
}
inline cudaError_t cudaFree(void* devPtr) noexcept { return temper_host::release(devPtr, 0); }
inline cudaError_t cudaMallocHost(void** ptr, std::size_t size) noexcept { return temper_host::allocate(ptr, size, 1); }
inline cudaError_t cudaHostAlloc(void** pHost, std::size_t size, unsigned int) noexcept {
  return temper_host::allocate(pHost, size, 1);
}
inline cudaError_t cudaFreeHost(void* ptr) noexcept { return temper_host::release(ptr, 1); }
inline cudaError_t cudaMemcpy(void* dst, void const* src, std::size_t count, cudaMemcpyKind kind) noexcept {
  if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault)
    return temper_host::said(cudaErrorInvalidMemcpyDirection);
  int32_t const either = kind == cudaMemcpyDefault ? 2 : 0;
  int32_t const to = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice ? 1 : either;
  int32_t const from = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice ? 1 : either;
  return temper_host::said(temper_nv_host_copy(dst, to, src, from, count) ? cudaSuccess : cudaErrorInvalidValue);
}
inline cudaError_t cudaMemcpyAsync(void* dst, void const* src, std::size_t count, cudaMemcpyKind kind,
                                   cudaStream_t = nullptr) noexcept {
  return cudaMemcpy(dst, src, count, kind);
}
inline cudaError_t cudaMemset(void* devPtr, int value, std::size_t count) noexcept {
  return temper_host::said(temper_nv_host_set(devPtr, value, count) ? cudaSuccess : cudaErrorInvalidValue);
}
inline cudaError_t cudaMemsetAsync(void* devPtr, int value, std::size_t count, cudaStream_t = nullptr) noexcept {
  return cudaMemset(devPtr, value, count);
}

inline cudaError_t cudaStreamCreate(cudaStream_t* pStream) noexcept {
  if (!pStream) return temper_host::said(cudaErrorInvalidValue);
  temper_host::Streams& all = temper_host::streams();
  std::lock_guard<std::mutex> const lock(all.mutex);
  all.live.insert(++all.last);
  *pStream = reinterpret_cast<cudaStream_t>(all.last);
  return cudaSuccess;
}
inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* pStream, unsigned int) noexcept {
  return cudaStreamCreate(pStream);
}
inline cudaError_t cudaStreamDestroy(cudaStream_t stream) noexcept {
  temper_host::Streams& all = temper_host::streams();
  std::lock_guard<std::mutex> const lock(all.mutex);
  bool const is_there = all.live.erase(reinterpret_cast<std::uintptr_t>(stream)) != 0;
  return temper_host::said(is_there ? cudaSuccess : cudaErrorInvalidResourceHandle);
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t) noexcept { return cudaSuccess; }
inline cudaError_t cudaDeviceSynchronize() noexcept { return cudaSuccess; }

inline cudaError_t cudaGetDeviceCount(int* count) noexcept { return temper_host::tell(count, 1); }
inline cudaError_t cudaGetDevice(int* device) noexcept { return temper_host::tell(device, 0); }
inline cudaError_t cudaSetDevice(int device) noexcept {
  return temper_host::said(device ? cudaErrorInvalidDevice : cudaSuccess);
}
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* prop, int device) noexcept {
  if (!prop) return temper_host::said(cudaErrorInvalidValue);
  if (device) return temper_host::said(cudaErrorInvalidDevice);
  *prop = cudaDeviceProp{};
  std::strcpy(prop->name, "host memory (no CUDA device)");
  return cudaSuccess;
}

// Of compute capability 0.0.
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int device) noexcept {
  return device ? temper_host::said(cudaErrorInvalidDevice) : temper_host::tell(value, 0);
}
// Of no CUDA.
inline cudaError_t cudaDriverGetVersion(int* driverVersion) noexcept { return temper_host::tell(driverVersion, 0); }
inline cudaError_t cudaRuntimeGetVersion(int* runtimeVersion) noexcept { return temper_host::tell(runtimeVersion, 0); }

// What a GPU alone has.
namespace temper_host {
inline cudaError_t refuse(char const* name) noexcept {
  std::fprintf(stderr, "temper: %s: not in the stand-in for the CUDA runtime\n", name);
  return said(cudaErrorNotSupported);
}
}  // namespace temper_host
inline cudaError_t cudaEventCreate(cudaEvent_t*) noexcept { return temper_host::refuse("cudaEventCreate"); }
inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t*, unsigned int) noexcept {
  return temper_host::refuse("cudaEventCreateWithFlags");
}
inline cudaError_t cudaEventDestroy(cudaEvent_t) noexcept { return temper_host::refuse("cudaEventDestroy"); }
inline cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t = nullptr) noexcept {
  return temper_host::refuse("cudaEventRecord");
}
inline cudaError_t cudaEventSynchronize(cudaEvent_t) noexcept { return temper_host::refuse("cudaEventSynchronize"); }
inline cudaError_t cudaEventElapsedTime(float*, cudaEvent_t, cudaEvent_t) noexcept {
  return temper_host::refuse("cudaEventElapsedTime");
}
inline cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned int = 0) noexcept {
  return temper_host::refuse("cudaStreamWaitEvent");
}
inline cudaError_t cudaLaunchHostFunc(cudaStream_t, cudaHostFn_t, void*) noexcept {
  return temper_host::refuse("cudaLaunchHostFunc");
}
inline cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) noexcept {
  return temper_host::refuse("cudaStreamBeginCapture");
}
inline cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t*) noexcept {
  return temper_host::refuse("cudaStreamEndCapture");
}
inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t*, cudaGraph_t, unsigned long long = 0) noexcept {
  return temper_host::refuse("cudaGraphInstantiate");
}
inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t*, cudaGraph_t, cudaGraphNode_t*, char*, std::size_t) noexcept {
  return temper_host::refuse("cudaGraphInstantiate");
}
inline cudaError_t cudaGraphLaunch(cudaGraphExec_t, cudaStream_t) noexcept {
  return temper_host::refuse("cudaGraphLaunch");
}
inline cudaError_t cudaGraphDestroy(cudaGraph_t) noexcept { return temper_host::refuse("cudaGraphDestroy"); }
inline cudaError_t cudaGraphExecDestroy(cudaGraphExec_t) noexcept {
  return temper_host::refuse("cudaGraphExecDestroy");
}
inline cudaError_t cudaMallocManaged(void**, std::size_t, unsigned int = 1) noexcept {
  return temper_host::refuse("cudaMallocManaged");
}
inline cudaError_t cudaHostGetDevicePointer(void**, void*, unsigned int) noexcept {
  return temper_host::refuse("cudaHostGetDevicePointer");
}
inline cudaError_t cudaSetDeviceFlags(unsigned int) noexcept { return temper_host::refuse("cudaSetDeviceFlags"); }

inline cudaError_t cudaGetLastError() noexcept {
  cudaError_t const error = temper_host::last();
  temper_host::last() = cudaSuccess;
  return error;
}
inline cudaError_t cudaPeekAtLastError() noexcept { return temper_host::last(); }
inline char const* cudaGetErrorName(cudaError_t error) noexcept {
  switch (error) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidMemcpyDirection: return "cudaErrorInvalidMemcpyDirection";
    case cudaErrorInvalidDevice: return "cudaErrorInvalidDevice";
    case cudaErrorInvalidResourceHandle: return "cudaErrorInvalidResourceHandle";
    case cudaErrorNotSupported: return "cudaErrorNotSupported";
    case cudaErrorStreamCaptureInvalidated: return "cudaErrorStreamCaptureInvalidated";
  }
  return "unrecognized error code";
}
inline char const* cudaGetErrorString(cudaError_t error) noexcept {
  switch (error) {
    case cudaSuccess: return "no error";
    case cudaErrorInvalidValue: return "invalid argument (the bytes are in no allocation of this process)";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorInvalidMemcpyDirection: return "invalid copy direction for memcpy";
    case cudaErrorInvalidDevice: return "invalid device ordinal (there is one, which is host memory)";
    case cudaErrorInvalidResourceHandle: return "invalid resource handle";
    case cudaErrorNotSupported: return "operation not supported (there is no GPU)";
    case cudaErrorStreamCaptureInvalidated: return "operation failed due to a previous error during capture";
  }
  return "unrecognized error code";
}
