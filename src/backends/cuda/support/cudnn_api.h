// SPDX-License-Identifier: Apache-2.0
// The part of cuDNN 9's backend (graph) API that is used, declared from its public documentation, so that no cuDNN
// header is needed to build.
#pragma once
#include <cstddef>
#include <cstdint>

namespace temper::cuda {

using CudnnStatus = int;
using CudnnHandle = struct cudnnContext*;
using CudnnDescriptor = void*;

// Values of cudnnBackendDescriptorType_t.
enum class CudnnKind : int {
  pointwise = 0,
  convolution = 1,
  engine = 2,
  engine_config = 3,
  engine_heuristics = 4,
  plan = 5,
  knob_choice = 7,
  convolution_forward = 10,
  pointwise_operation = 13,
  graph = 15,
  variant_pack = 16,
  tensor = 17,
  device_properties = 38,  // 9.8
};

// Values of cudnnBackendAttributeName_t.
enum class CudnnAttribute : int {
  pointwise_mode = 0,
  pointwise_compute_type = 1,
  pointwise_nan = 2,
  convolution_compute_type = 100,
  convolution_mode = 101,
  convolution_dilations = 102,
  convolution_strides = 103,
  convolution_post_paddings = 104,
  convolution_pre_paddings = 105,
  convolution_spatial_dims = 106,
  heuristics_mode = 200,
  heuristics_graph = 201,
  heuristics_results = 202,
  heuristics_device = 204,
  config_engine = 300,
  config_knobs = 302,
  plan_handle = 400,
  plan_config = 401,
  plan_workspace = 402,
  plan_json = 405,
  plan_device = 407,
  knob_type = 600,
  knob_value = 601,
  forward_alpha = 700,
  forward_beta = 701,
  forward_convolution = 702,
  forward_w = 703,
  forward_x = 704,
  forward_y = 705,
  operation_pointwise = 750,
  operation_x = 751,
  operation_b = 752,
  operation_y = 753,
  graph_handle = 800,
  graph_operations = 801,
  tensor_alignment = 900,
  tensor_type = 901,
  tensor_dims = 902,
  tensor_strides = 903,
  tensor_id = 906,
  tensor_is_virtual = 907,
  pack_ids = 1000,
  pack_pointers = 1001,
  pack_workspace = 1003,
  engine_graph = 1300,
  engine_index = 1301,
  engine_numerical_notes = 1303,
  engine_behaviour_notes = 1305,
  engine_device = 1307,
  device_json = 2702,
};

// Values of cudnnBackendAttributeType_t.
enum class CudnnType : int {
  handle = 0,
  data_type = 1,
  boolean = 2,
  int64 = 3,
  float32 = 4,
  pointer = 6,
  convolution_mode = 7,
  heuristics_mode = 8,
  knob_type = 9,
  nan_propagation = 10,
  numerical_note = 11,
  pointwise_mode = 14,
  descriptor = 15,
  behaviour_note = 19,
  text = 24,
};

// Values of cudnnDataType_t.
enum class CudnnData : int { f32 = 0, f16 = 2, bf16 = 9 };

// Values of cudnnPointwiseMode_t.
enum class CudnnPointwiseMode : int { add = 0, relu = 100 };

constexpr int kCudnnCrossCorrelation = 1;                           // cudnnConvolutionMode_t
constexpr int kCudnnPassNan = 1;                                    // cudnnNanPropagation_t
constexpr int kCudnnHeuristicsFallback = 2, kCudnnHeuristicsA = 3;  // cudnnBackendHeurMode_t
constexpr int kCudnnKnobs = 64;  // more than there are kinds of them (cudnnBackendKnobType_t)

// Bits by cudnnBackendNumericalNote_t.
constexpr uint32_t kCudnnTensorCore = 1u << 0, kCudnnDownConvert = 1u << 1, kCudnnReducedReduction = 1u << 2,
                   kCudnnFft = 1u << 3, kCudnnNondeterministic = 1u << 4, kCudnnWinograd = 1u << 5;
// Bits by cudnnBackendBehaviorNote_t.
constexpr uint32_t kCudnnCompiles = 1u << 0, kCudnnReordersFilter = 1u << 1, kCudnnReordersBias = 1u << 2,
                   kCudnnCallsCublasLt = 1u << 4;

struct CudnnApi {
  size_t (*version)() = nullptr;
  const char* (*error_text)(CudnnStatus) = nullptr;
  void (*last_error)(char* message, size_t bytes) = nullptr;  // 9.0
  CudnnStatus (*create)(CudnnHandle*) = nullptr;
  CudnnStatus (*destroy)(CudnnHandle) = nullptr;
  CudnnStatus (*set_stream)(CudnnHandle, struct CUstream_st*) = nullptr;
  CudnnStatus (*create_descriptor)(CudnnKind, CudnnDescriptor*) = nullptr;
  CudnnStatus (*destroy_descriptor)(CudnnDescriptor) = nullptr;
  CudnnStatus (*finalize)(CudnnDescriptor) = nullptr;
  CudnnStatus (*set)(CudnnDescriptor, CudnnAttribute, CudnnType, int64_t count, const void* values) = nullptr;
  CudnnStatus (*get)(CudnnDescriptor, CudnnAttribute, CudnnType, int64_t room, int64_t* count, void* values) = nullptr;
  CudnnStatus (*execute)(CudnnHandle, CudnnDescriptor plan, CudnnDescriptor pack) = nullptr;
};

}  // namespace temper::cuda
