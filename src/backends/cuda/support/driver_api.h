// SPDX-License-Identifier: Apache-2.0
// The part of the CUDA driver API that is used, declared from its public documentation, so that no CUDA header is
// needed to build. Names without the cu prefix; CUDA 11.4 and later have all of them but launch_kernel_ex (11.8) and
// graph_add_edges (12.3).
#pragma once
#include <cstddef>
#include <cstdint>

namespace temper::cuda {

using Result = int;
using DeviceHandle = int;
using DevicePointer = unsigned long long;
using ContextHandle = struct CUctx_st*;
using StreamHandle = struct CUstream_st*;
using EventHandle = struct CUevent_st*;
using ModuleHandle = struct CUmod_st*;
using FunctionHandle = struct CUfunc_st*;
using GraphHandle = struct CUgraph_st*;
using GraphNodeHandle = struct CUgraphNode_st*;
using GraphExecHandle = struct CUgraphExec_st*;

// Values of CUresult that are told apart.
constexpr Result kOutOfMemory = 2, kNoDevice = 100, kInvalidSource = 300, kNotFound = 500, kNoBinaryForGpu = 209,
                 kUnsupportedPtx = 222, kEccError = 214, kIllegalAddress = 700, kLaunchFailed = 719, kNotReady = 600,
                 kSystemDriverMismatch = 803;

// Values of CUdevice_attribute.
enum class DeviceAttribute : int {
  clock_khz = 13,
  multiprocessors = 16,
  memory_clock_khz = 36,
  memory_bus_bits = 37,
  l2_bytes = 38,
  capability_major = 75,
  capability_minor = 76,
  shared_per_multiprocessor = 81,
  registers_per_multiprocessor = 82,
  shared_per_block_optin = 97,
};
// Values of CUfunction_attribute.
enum class FunctionAttribute : int { shared_bytes = 1, local_bytes = 3, registers = 4, max_dynamic_shared = 8 };

// CUlaunchAttribute and CUlaunchConfig. Of the attributes' 64-byte values only ints are used.
struct LaunchAttribute {
  int id;
  int padding;
  union {
    char bytes[64];
    int number;
  } value;
};
constexpr int kProgrammaticStreamSerialization = 6;
struct LaunchConfig {
  unsigned grid[3], block[3], shared_bytes;
  StreamHandle stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};
static_assert(sizeof(LaunchAttribute) == 72 && sizeof(LaunchConfig) == 56);

// Parameters of the nodes of a graph: CUDA_KERNEL_NODE_PARAMS_v1, CUDA_MEMSET_NODE_PARAMS_v1, CUDA_MEMCPY3D_v2 (its
// source, its target, its size), CUDA_HOST_NODE_PARAMS_v1, and CUgraphEdgeData.
struct KernelNode {
  FunctionHandle function;
  unsigned grid[3], block[3], shared_bytes;
  void** parameters;
  void** extra;
};
struct FillNode {
  DevicePointer to;
  size_t pitch;
  unsigned value, element_bytes;
  size_t width, height;
};
struct CopyNode {
  static constexpr int kHost = 1, kDevice = 2;
  struct Place {
    size_t x_bytes, y, z, level;
    int kind;
    const void* host;
    DevicePointer device;
    void *array, *reserved;
    size_t pitch, height;
  };
  Place from, to;
  size_t width_bytes, height, depth;
};
struct HostNode {
  void (*function)(void*);
  void* argument;
};
struct GraphEdge {
  static constexpr unsigned char kProgrammatic = 1;  // as a port and as a type
  unsigned char from_port, to_port, type, reserved[5];
};
static_assert(sizeof(KernelNode) == 56 && sizeof(FillNode) == 40 && sizeof(CopyNode) == 200 && sizeof(GraphEdge) == 8);

// X(member, symbol, parameters...)
#define TEMPER_CUDA_DRIVER_FUNCTIONS(X)                                                                          \
  X(init, "cuInit", unsigned)                                                                                    \
  X(driver_version, "cuDriverGetVersion", int*)                                                                  \
  X(device_count, "cuDeviceGetCount", int*)                                                                      \
  X(device_get, "cuDeviceGet", DeviceHandle*, int)                                                               \
  X(device_name, "cuDeviceGetName", char*, int, DeviceHandle)                                                    \
  X(device_total_memory, "cuDeviceTotalMem_v2", size_t*, DeviceHandle)                                           \
  X(device_attribute, "cuDeviceGetAttribute", int*, DeviceAttribute, DeviceHandle)                               \
  X(device_pci_bus_id, "cuDeviceGetPCIBusId", char*, int, DeviceHandle)                                          \
  X(primary_retain, "cuDevicePrimaryCtxRetain", ContextHandle*, DeviceHandle)                                    \
  X(primary_release, "cuDevicePrimaryCtxRelease_v2", DeviceHandle)                                               \
  X(context_set_current, "cuCtxSetCurrent", ContextHandle)                                                       \
  X(context_get_current, "cuCtxGetCurrent", ContextHandle*)                                                      \
  X(context_get_device, "cuCtxGetDevice", DeviceHandle*)                                                         \
  X(context_synchronize, "cuCtxSynchronize")                                                                     \
  X(memory_info, "cuMemGetInfo_v2", size_t*, size_t*)                                                            \
  X(memory_allocate, "cuMemAlloc_v2", DevicePointer*, size_t)                                                    \
  X(memory_free, "cuMemFree_v2", DevicePointer)                                                                  \
  X(host_allocate, "cuMemHostAlloc", void**, size_t, unsigned)                                                   \
  X(host_free, "cuMemFreeHost", void*)                                                                           \
  X(copy_to_device, "cuMemcpyHtoDAsync_v2", DevicePointer, const void*, size_t, StreamHandle)                    \
  X(copy_to_host, "cuMemcpyDtoHAsync_v2", void*, DevicePointer, size_t, StreamHandle)                            \
  X(copy_on_device, "cuMemcpyDtoDAsync_v2", DevicePointer, DevicePointer, size_t, StreamHandle)                  \
  X(fill, "cuMemsetD8Async", DevicePointer, unsigned char, size_t, StreamHandle)                                 \
  X(stream_create, "cuStreamCreate", StreamHandle*, unsigned)                                                    \
  X(stream_destroy, "cuStreamDestroy_v2", StreamHandle)                                                          \
  X(stream_synchronize, "cuStreamSynchronize", StreamHandle)                                                     \
  X(stream_query, "cuStreamQuery", StreamHandle)                                                                 \
  X(stream_wait_event, "cuStreamWaitEvent", StreamHandle, EventHandle, unsigned)                                 \
  X(stream_is_capturing, "cuStreamIsCapturing", StreamHandle, int*)                                              \
  X(event_create, "cuEventCreate", EventHandle*, unsigned)                                                       \
  X(event_destroy, "cuEventDestroy_v2", EventHandle)                                                             \
  X(event_record, "cuEventRecord", EventHandle, StreamHandle)                                                    \
  X(event_synchronize, "cuEventSynchronize", EventHandle)                                                        \
  X(event_elapsed, "cuEventElapsedTime", float*, EventHandle, EventHandle)                                       \
  X(module_load, "cuModuleLoadData", ModuleHandle*, const void*)                                                 \
  X(module_unload, "cuModuleUnload", ModuleHandle)                                                               \
  X(module_function, "cuModuleGetFunction", FunctionHandle*, ModuleHandle, const char*)                          \
  X(function_attribute, "cuFuncGetAttribute", int*, FunctionAttribute, FunctionHandle)                           \
  X(function_set_attribute, "cuFuncSetAttribute", FunctionHandle, FunctionAttribute, int)                        \
  X(launch_host, "cuLaunchHostFunc", StreamHandle, void (*)(void*), void*)                                       \
  X(launch_kernel, "cuLaunchKernel", FunctionHandle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, \
    unsigned, StreamHandle, void**, void**)                                                                      \
  X(graph_create, "cuGraphCreate", GraphHandle*, unsigned)                                                       \
  X(graph_add_kernel, "cuGraphAddKernelNode", GraphNodeHandle*, GraphHandle, const GraphNodeHandle*, size_t,     \
    const KernelNode*)                                                                                           \
  X(graph_add_fill, "cuGraphAddMemsetNode", GraphNodeHandle*, GraphHandle, const GraphNodeHandle*, size_t,       \
    const FillNode*, ContextHandle)                                                                              \
  X(graph_add_copy, "cuGraphAddMemcpyNode", GraphNodeHandle*, GraphHandle, const GraphNodeHandle*, size_t,       \
    const CopyNode*, ContextHandle)                                                                              \
  X(graph_add_host, "cuGraphAddHostNode", GraphNodeHandle*, GraphHandle, const GraphNodeHandle*, size_t,         \
    const HostNode*)                                                                                             \
  X(graph_add_event, "cuGraphAddEventRecordNode", GraphNodeHandle*, GraphHandle, const GraphNodeHandle*, size_t, \
    EventHandle)                                                                                                 \
  X(graph_instantiate, "cuGraphInstantiateWithFlags", GraphExecHandle*, GraphHandle, unsigned long long)         \
  X(graph_launch, "cuGraphLaunch", GraphExecHandle, StreamHandle)                                                \
  X(graph_destroy, "cuGraphDestroy", GraphHandle)                                                                \
  X(graph_exec_destroy, "cuGraphExecDestroy", GraphExecHandle)                                                   \
  X(error_name, "cuGetErrorName", Result, const char**)                                                          \
  X(error_text, "cuGetErrorString", Result, const char**)

struct DriverApi {
#define TEMPER_MEMBER(member, symbol, ...) Result (*member)(__VA_ARGS__) = nullptr;
  TEMPER_CUDA_DRIVER_FUNCTIONS(TEMPER_MEMBER)
#undef TEMPER_MEMBER
  // Null in drivers before 11.8, 12.3, and 12.0.
  Result (*launch_kernel_ex)(const LaunchConfig*, FunctionHandle, void**, void**) = nullptr;
  Result (*graph_add_edges)(GraphHandle, const GraphNodeHandle* from, const GraphNodeHandle* to, const GraphEdge*,
                            size_t) = nullptr;
  Result (*tensor_map_tiled)(void* map, int dtype, uint32_t rank, void* address, const uint64_t* sizes,
                             const uint64_t* strides, const uint32_t* box, const uint32_t* steps, int interleave,
                             int swizzle, int l2_promotion, int fill) = nullptr;
  Result (*tensor_map_im2col)(void* map, int dtype, uint32_t rank, void* address, const uint64_t* sizes,
                              const uint64_t* strides, const int* low, const int* high, uint32_t channels,
                              uint32_t pixels, const uint32_t* steps, int interleave, int swizzle, int l2_promotion,
                              int fill) = nullptr;
};

}  // namespace temper::cuda
