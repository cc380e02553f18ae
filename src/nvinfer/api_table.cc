// SPDX-License-Identifier: Apache-2.0
// THE table of TensorRT's Python names. Facts of the public bindings of each release; no text of theirs.
#include "nvinfer/api_table.h"

#include <algorithm>

#include "base/error.h"

namespace temper::nvinfer {

namespace {

struct RefusedNames {
  const char* why;
  const char* names;
};
// A class, or the module (""), with its range of releases; the names that are here, and those that are not. A name has
// the range of its class unless "@8.6", "@8.6-10.13" or "@10.13-" says another; a range without an end holds to the
// last release. "+": it harms nobody, and is shown before its first release, too.
struct Owner {
  const char* name;
  const char* range;
  const char* here;
  std::vector<RefusedNames> refused;
};

// Why.
constexpr const char* kFlow = "loops and conditions are not built layer by layer; an ONNX model may hold them";
constexpr const char* kNoLayer = "there is no such layer; an ONNX model may hold what it is made of";
constexpr const char* kPlugins = "plugins of TensorRT cannot be run; a model may hold operators of ONNX alone";
constexpr const char* kByRefitter = "weights are replaced by a Refitter, by the names that it lists";
constexpr const char* kDla = "there is no DLA here";
constexpr const char* kDebug = "tensors inside a plan are not shown; temper verify finds the layer that differs";
constexpr const char* kStreaming = "weights are in the device's memory";
constexpr const char* kAllocator = "a context works in memory of the gpu_allocator, or of its own";
constexpr const char* kImplicit = "there are no implicit batches: the batch is a dimension of the shapes";
constexpr const char* kShapeValues = "there are no inputs whose values are shapes";
constexpr const char* kSearch =
    "the search is Temper's own; temper inspect --why NODE shows what was chosen and what lost";
constexpr const char* kOnnx = "ONNX models alone are read; convert the model";
constexpr const char* kWhole = "a model is read as a whole or refused, with the nodes that are not there named";
constexpr const char* kEntries = "single entries of a timing cache are not shown; combine adds all of another";
constexpr const char* kOneForm = "a plan has one form";
constexpr const char* kPrecision = "there are no kernels of this precision";
constexpr const char* kSizes = "temper inspect PLAN shows sizes";

const std::vector<Owner>& owners() {
  static const std::vector<Owner> list = {
      {"",
       "8.6-",
       "ResizeMode@8.6 SliceMode@8.6 bfloat16@10.13-+ bool float16 float32 get_nv_onnx_parser_version "
       "init_libnvinfer_plugins int32 int64@10.13-+ int8 nptype uint8 volume",
       {{kFlow,
         "IAssertionLayer IConditionLayer IIfConditional IIfConditionalBoundaryLayer IIfConditionalInputLayer "
         "IIfConditionalOutputLayer IIteratorLayer ILoop ILoopBoundaryLayer ILoopOutputLayer IRecurrenceLayer "
         "ITripLimitLayer LoopOutput TripLimit"},
        {kNoLayer,
         "AttentionIOForm@11.1- AttentionNormalizationOp@11.1- CausalMaskKind@11.1- CollectiveOperation@11.1- "
         "DimensionOperation@10.13- IAttention@11.1- IAttentionBoundaryLayer@11.1- IAttentionInputLayer@11.1- "
         "IAttentionOutputLayer@11.1- IDistCollectiveLayer@11.1- IDynamicQuantizeLayer@10.13- "
         "IKVCacheUpdateLayer@11.1- "
         "IMoELayer@11.1- IRNNv2Layer@8.6 IRaggedSoftMaxLayer IRotaryEmbeddingLayer@11.1- KVCacheMode@11.1- "
         "MoEActType@11.1- RNNDirection@8.6 RNNGateType@8.6 RNNInputMode@8.6 RNNOperation@8.6"},
        {kPlugins,
         "DimsExprs@10.13- DynamicPluginTensorDesc@10.13- ICaffePluginFactoryV2@8.6 IDimensionExpr@10.13- "
         "IExprBuilder@10.13- IPluginCapability@10.13- IPluginCreator IPluginCreatorInterface@10.13- "
         "IPluginCreatorV3One@10.13- IPluginCreatorV3Quick@10.13- IPluginRegistry IPluginResource@10.13- "
         "IPluginResourceContext@10.13- IPluginV2 IPluginV2DynamicExt@10.13- IPluginV2DynamicExtBase@10.13- "
         "IPluginV2Ext IPluginV2Layer IPluginV3@10.13- IPluginV3Layer@10.13- IPluginV3OneBuild@10.13- "
         "IPluginV3OneBuildV2@10.13- IPluginV3OneCore@10.13- IPluginV3OneRuntime@10.13- "
         "IPluginV3QuickAOTBuild@10.13- IPluginV3QuickBuild@10.13- IPluginV3QuickCore@10.13- "
         "IPluginV3QuickRuntime@10.13- ISymExpr@10.13- ISymExprs@10.13- KernelLaunchParams@10.13- "
         "PluginArgDataType@10.13- PluginArgType@10.13- PluginCapabilityType@10.13- PluginCreatorVersion@10.13- "
         "PluginField PluginFieldCollection PluginFieldCollection_ PluginFieldType PluginTensorDesc@10.13- "
         "QuickPluginCreationRequest@10.13- TensorRTPhase@10.13- get_builder_plugin_registry get_plugin_registry"},
        {kOnnx,
         "CaffeParser@8.6 FieldCollection@8.6 FieldMap@8.6 FieldType@8.6 IBlobNameToTensor@8.6 UffInputOrder@8.6 "
         "UffParser@8.6 shutdown_protobuf_library@8.6"},
        {kSearch,
         "IAlgorithm@8.6-10.13 IAlgorithmContext@8.6-10.13 IAlgorithmIOInfo@8.6-10.13 IAlgorithmSelector@8.6-10.13 "
         "IAlgorithmVariant@8.6-10.13"},
        {kPrecision, "e8m0@10.13- fp4@10.13- fp8 int4@10.13-"},
        {"interfaces have no versions of their own here",
         "APILanguage@10.13- IVersionedInterface@10.13- InterfaceInfo@10.13-"},
        {kOneForm, "ISerializationConfig@10.13- SerializationFlag@10.13-"},
        {kWhole, "NodeIndices SubGraphCollection@8.6-10.13"},
        {kByRefitter, "OnnxParserRefitter@10.13-"},
        {kEntries, "TimingCacheKey@10.13- TimingCacheValue@10.13-"},
        {kSizes, "EngineStat@11.1-"},
        {"texts are Python's", "FallbackString"},
        {kDebug, "IDebugListener@10.13-"}}},
      {"Builder",
       "8.6-",
       "error_recorder gpu_allocator build_engine@8.6 build_engine_with_config@10.13- build_serialized_network "
       "build_serialized_network_to_stream@10.13- create_builder_config create_network create_optimization_profile "
       "is_network_supported logger max_batch_size@8.6 max_threads num_DLA_cores platform_has_fast_fp16@8.6-10.13 "
       "platform_has_fast_int8@8.6-10.13 platform_has_tf32@8.6-10.13 reset",
       {{kPlugins, "get_plugin_registry"}, {kDla, "max_DLA_batch_size"}}},
      {"BuilderFlag",
       "8.6-",
       "BF16@10.13+ DEBUG DIRECT_IO DISABLE_COMPILATION_CACHE@10.13- DISABLE_TIMING_CACHE "
       "DISTRIBUTIVE_INDEPENDENCE@10.13- EDITABLE_TIMING_CACHE@10.13- ENABLE_TACTIC_HEURISTIC@8.6 "
       "ERROR_ON_TIMING_CACHE_MISS@10.13- EXCLUDE_LEAN_RUNTIME FP16@8.6-10.13 FP4@10.13 FP8@8.6-10.13 GPU_FALLBACK "
       "INT4@10.13 INT8@8.6-10.13 MONITOR_MEMORY@10.13- OBEY_PRECISION_CONSTRAINTS@8.6-10.13 "
       "PREFER_PRECISION_CONSTRAINTS@8.6-10.13 REFIT REFIT_IDENTICAL@10.13- REFIT_INDIVIDUAL@10.13- "
       "REJECT_EMPTY_ALGORITHMS@8.6-10.13 SAFETY_SCOPE SPARSE_WEIGHTS STRICT_NANS@10.13- STRICT_TYPES@8.6 "
       "STRIP_PLAN@10.13- TF32 VERSION_COMPATIBLE WEIGHTLESS@10.13 WEIGHT_STREAMING@10.13-",
       {}},
      {"CalibrationAlgoType",
       "8.6-10.13",
       "ENTROPY_CALIBRATION ENTROPY_CALIBRATION_2 LEGACY_CALIBRATION MINMAX_CALIBRATION",
       {}},
      {"DataType",
       "8.6-",
       "BF16@10.13-+ BOOL FLOAT HALF INT32 INT64@10.13-+ INT8 UINT8 itemsize",
       {{kPrecision, "E8M0@10.13- FP4@10.13- FP8 INT4@10.13-"}}},
      {"DeviceType", "8.6-", "DLA GPU", {}},
      {"Dims", "8.6-", "MAX_DIMS", {}},
      {"Dims2", "8.6-", "", {}},
      {"Dims3", "8.6-", "", {}},
      {"Dims4", "8.6-", "", {}},
      {"DimsHW", "8.6-", "h w", {}},
      {"EngineCapability", "8.6-", "DEFAULT@8.6 DLA_STANDALONE SAFETY SAFE_DLA@8.6 SAFE_GPU@8.6 STANDARD", {}},
      {"EngineInspector", "8.6-", "error_recorder execution_context get_engine_information get_layer_information", {}},
      {"ExecutionContextAllocationStrategy", "10.13-", "ON_PROFILE_CHANGE STATIC USER_MANAGED", {}},
      {"HardwareCompatibilityLevel", "8.6-", "AMPERE_PLUS NONE SAME_COMPUTE_CAPABILITY@10.13-", {}},
      {"IBuilderConfig",
       "8.6-",
       "DLA_core add_optimization_profile avg_timing_iterations builder_optimization_level clear_flag "
       "clear_quantization_flag@8.6-10.13 create_timing_cache default_device_type engine_capability flags "
       "get_calibration_profile@8.6-10.13 get_flag get_memory_pool_limit get_preview_feature "
       "get_quantization_flag@8.6-10.13 get_tactic_sources get_timing_cache hardware_compatibility_level "
       "int8_calibrator@8.6-10.13 l2_limit_for_tiling@10.13- max_aux_streams max_num_tactics@10.13- "
       "max_workspace_size@8.6 min_timing_iterations@8.6 num_optimization_profiles plugins_to_serialize "
       "profile_stream profiling_verbosity progress_monitor@10.13-+ quantization_flags@8.6-10.13 reset "
       "runtime_platform@10.13- set_calibration_profile@8.6-10.13 set_flag set_memory_pool_limit set_preview_feature "
       "set_quantization_flag@8.6-10.13 set_tactic_sources set_timing_cache tiling_optimization_level@10.13-",
       {{kDla, "can_run_on_DLA get_device_type is_device_type_set reset_device_type set_device_type"},
        {"one plan is built, by measuring; temper study compares precisions",
         "all_build_routes@11.1- build_route@11.1- remote_auto_tuning_config@10.13-"},
        {kSearch, "algorithm_selector@8.6-10.13"}}},
      {"ICudaEngine",
       "8.6-",
       "error_recorder __getitem__ __len__@8.6 binding_is_input@8.6 create_engine_inspector create_execution_context "
       "create_execution_context_without_device_memory@8.6-10.13 create_runtime_config@10.13- "
       "device_memory_size@8.6-10.13 device_memory_size_v2@10.13- engine_capability get_aliased_input_tensor@11.1- "
       "get_binding_bytes_per_component@8.6 get_binding_components_per_element@8.6 get_binding_dtype@8.6 "
       "get_binding_format@8.6 get_binding_format_desc@8.6 get_binding_index@8.6 get_binding_name@8.6 "
       "get_binding_shape@8.6 get_binding_vectorized_dim@8.6 get_device_memory_size_for_profile@10.13 "
       "get_device_memory_size_for_profile_v2@10.13- get_location@8.6 get_profile_shape@8.6 "
       "get_tensor_bytes_per_component get_tensor_components_per_element get_tensor_dtype get_tensor_format "
       "get_tensor_format_desc get_tensor_location get_tensor_mode get_tensor_name get_tensor_profile_shape "
       "get_tensor_profile_values@10.13- get_tensor_shape get_tensor_vectorized_dim hardware_compatibility_level "
       "has_implicit_batch_dimension@8.6-10.13 is_debug_tensor@10.13- is_execution_binding@8.6 is_shape_binding@8.6 "
       "is_shape_inference_io max_batch_size@8.6 name num_aux_streams num_bindings@8.6 num_io_tensors num_layers "
       "num_optimization_profiles profiling_verbosity refittable serialize tactic_sources",
       {{kStreaming,
         "get_weight_streaming_automatic_budget@10.13- minimum_weight_streaming_budget@10.13 "
         "streamable_weights_size@10.13- weight_streaming_budget@10.13 weight_streaming_budget_v2@10.13- "
         "weight_streaming_scratch_memory_size@10.13-"},
        {kOneForm, "create_serialization_config@10.13- serialize_with_config@10.13-"},
        {kSizes, "get_engine_stat@11.1-"},
        {kShapeValues, "get_profile_shape_input@8.6"}}},
      {"IExecutionContext",
       "8.6-",
       "error_recorder active_optimization_profile all_binding_shapes_specified all_shape_inputs_specified@8.6-10.13 "
       "debug_sync "
       "device_memory engine enqueue_emits_profile execute_async_v2@8.6 execute_async_v3 execute_v2 "
       "get_binding_shape@8.6 get_max_output_size get_output_allocator get_strides@8.6 get_tensor_address "
       "get_tensor_shape get_tensor_strides infer_shapes name nvtx_verbosity persistent_cache_limit profiler "
       "report_to_profiler set_aux_streams set_binding_shape@8.6 set_device_memory@10.13- set_input_shape "
       "set_optimization_profile_async set_output_allocator set_tensor_address "
       "update_device_memory_size_for_shapes@10.13-",
       {{kDebug,
         "get_debug_listener@10.13- get_debug_state@10.13- set_all_tensors_debug_state@10.13- "
         "set_debug_listener@10.13- set_tensor_debug_state@10.13- unfused_tensors_debug_state@10.13-"},
        {kImplicit, "execute@8.6 execute_async@8.6"},
        {"a run waits for no one: record an event behind it in the stream",
         "get_input_consumed_event set_input_consumed_event"},
        {kShapeValues, "get_shape@8.6 set_shape_input@8.6"},
        {"a context owns its memory in any case", "get_runtime_config@10.13-"},
        {"an engine runs on one GPU", "set_communicator@11.1-"},
        {kAllocator, "temporary_allocator"}}},
      {"IHostMemory", "8.6-", "dtype nbytes", {}},
      {"IInt8Calibrator",
       "8.6-10.13",
       "get_algorithm get_batch get_batch_size read_calibration_cache write_calibration_cache",
       {}},
      {"IInt8EntropyCalibrator",
       "8.6-10.13",
       "get_algorithm get_batch get_batch_size read_calibration_cache write_calibration_cache",
       {}},
      {"IInt8EntropyCalibrator2",
       "8.6-10.13",
       "get_algorithm get_batch get_batch_size read_calibration_cache write_calibration_cache",
       {}},
      {"IInt8LegacyCalibrator",
       "8.6-10.13",
       "get_algorithm get_batch get_batch_size read_calibration_cache write_calibration_cache",
       {}},
      {"IInt8MinMaxCalibrator",
       "8.6-10.13",
       "get_algorithm get_batch get_batch_size read_calibration_cache write_calibration_cache",
       {}},
      {"ILayer",
       "8.6-",
       "get_input get_output get_output_type metadata name num_inputs num_outputs output_type_is_set@8.6-10.13 "
       "precision@8.6-10.13 precision_is_set@8.6-10.13 reset_output_type@8.6-10.13 reset_precision@8.6-10.13 set_input "
       "set_output_type@8.6-10.13 type",
       {{"an engine runs on one GPU", "num_ranks@11.1-"}}},
      {"ILogger", "8.6-", "ERROR INFO INTERNAL_ERROR Severity VERBOSE WARNING log", {}},
      {"INetworkDefinition",
       "8.6-",
       "error_recorder __getitem__ __len__ add_activation add_cast add_concatenation add_constant add_convolution@8.6 "
       "add_convolution_nd add_cumulative@10.13- add_deconvolution@8.6 add_deconvolution_nd add_dequantize add_einsum "
       "add_elementwise add_fill add_fully_connected@8.6 add_gather add_gather_v2 add_grid_sample add_identity "
       "add_input add_lrn add_matrix_multiply add_nms add_non_zero add_normalization add_one_hot add_padding@8.6 "
       "add_padding_nd add_parametric_relu add_pooling@8.6 add_pooling_nd add_quantize add_reduce add_resize "
       "add_reverse_sequence add_scale add_scale_nd add_scatter add_select add_shape add_shuffle add_slice add_softmax "
       "add_squeeze@10.13- add_topk add_unary add_unsqueeze@10.13- builder flags@10.13-+ get_flag@10.13-+ get_input "
       "get_layer get_output has_explicit_precision@8.6 has_implicit_batch_dimension mark_output name num_inputs "
       "num_layers num_outputs unmark_output",
       {{kFlow, "add_assertion add_if_conditional add_loop"},
        {kNoLayer,
         "add_attention@11.1- add_attention_v2@11.1- add_dist_collective@11.1- add_dynamic_quantize@10.13- "
         "add_dynamic_quantize_v2@11.1- add_kv_cache_update@11.1- add_moe@11.1- add_normalization_v2@11.1- "
         "add_ragged_softmax add_rnn_v2@8.6 add_rotary_embedding@11.1-"},
        {kShapeValues, "mark_output_for_shapes unmark_output_for_shapes"},
        {"a tensor that nothing uses costs nothing", "remove_tensor"},
        {kDebug,
         "is_debug_tensor@10.13- mark_debug@10.13- mark_unfused_tensors_as_debug_tensors@10.13- unmark_debug@10.13- "
         "unmark_unfused_tensors_as_debug_tensors@10.13-"},
        {kByRefitter,
         "are_weights_marked_refittable@10.13- mark_weights_refittable@10.13- set_weights_name "
         "unmark_weights_refittable@10.13-"},
        {kPlugins, "add_plugin@10.13- add_plugin_v2 add_plugin_v3@10.13-"},
        {"a network is its ONNX model", "serialize"}}},
      {"IOptimizationProfile",
       "8.6-",
       "extra_memory_target get_shape set_shape",
       {{kShapeValues, "get_shape_input set_shape_input"}}},
      {"IOutputAllocator", "8.6-", "notify_shape reallocate_output reallocate_output_async@10.13-+", {}},
      {"IProfiler", "8.6-", "report_layer_time", {}},
      {"IProgressMonitor", "10.13-+", "phase_finish phase_start step_complete", {}},
      {"IRuntimeConfig",
       "10.13-",
       "get_execution_context_allocation_strategy set_execution_context_allocation_strategy",
       {}},
      {"IStreamReader", "10.13+", "read", {}},
      {"IStreamReaderV2", "10.13-", "read seek", {}},
      {"IStreamWriter", "10.13-", "write", {}},
      {"ITensor",
       "8.6-",
       "allowed_formats broadcast_across_batch dtype get_dimension_name is_execution_tensor is_network_input "
       "is_network_output is_shape_tensor location name set_dimension_name shape",
       {{"ranges come from a calibrator, or are in the model (Q/DQ)",
         "dynamic_range@8.6-10.13 reset_dynamic_range@8.6-10.13 set_dynamic_range@8.6-10.13"}}},
      {"ITimingCache", "8.6-", "combine reset serialize", {{kEntries, "query@10.13- queryKeys@10.13- update@10.13-"}}},
      {"LayerType",
       "8.6-",
       "ACTIVATION ASSERTION ATTENTION_INPUT@11.1- ATTENTION_OUTPUT@11.1- CAST CONCATENATION CONDITION "
       "CONDITIONAL_INPUT CONDITIONAL_OUTPUT CONSTANT CONVOLUTION CUMULATIVE@10.13- DECONVOLUTION DEQUANTIZE "
       "DIST_COLLECTIVE@11.1- DYNAMIC_QUANTIZE@10.13- EINSUM ELEMENTWISE FILL FULLY_CONNECTED@8.6 GATHER GRID_SAMPLE "
       "IDENTITY ITERATOR KV_CACHE_UPDATE@11.1- LOOP_OUTPUT LRN MATRIX_MULTIPLY MOE@11.1- NMS NON_ZERO NORMALIZATION "
       "ONE_HOT PADDING PARAMETRIC_RELU PLUGIN PLUGIN_V2 PLUGIN_V3@10.13- POOLING QUANTIZE RAGGED_SOFTMAX RECURRENCE "
       "REDUCE RESIZE REVERSE_SEQUENCE RNN_V2@8.6 ROTARY_EMBEDDING@11.1- SCALE SCATTER SELECT SHAPE SHUFFLE SLICE "
       "SOFTMAX SQUEEZE@10.13- TOPK TRIP_LIMIT UNARY UNSQUEEZE@10.13-",
       {}},
      {"LayerInformationFormat", "8.6-", "JSON ONELINE", {}},
      {"Logger", "8.6-", "ERROR INFO INTERNAL_ERROR Severity VERBOSE WARNING log min_severity", {}},
      {"MemoryPoolType",
       "8.6-",
       "DLA_GLOBAL_DRAM DLA_LOCAL_DRAM DLA_MANAGED_SRAM TACTIC_DRAM TACTIC_SHARED_MEMORY@10.13- WORKSPACE",
       {}},
      {"NetworkDefinitionCreationFlag",
       "8.6-",
       "EXPLICIT_BATCH@8.6-10.13 EXPLICIT_PRECISION@8.6 STRONGLY_TYPED@10.13-+",
       {{kPlugins, "PREFER_AOT_PYTHON_PLUGINS@10.13- PREFER_JIT_PYTHON_PLUGINS@10.13-"}}},
      {"OnnxParser",
       "8.6-",
       "clear_errors clear_flag flags get_error get_flag get_subgraph_nodes@10.13- get_used_vc_plugin_libraries "
       "is_subgraph_supported@10.13- num_errors num_subgraphs@10.13- parse parse_from_file "
       "parse_with_weight_descriptors@8.6-10.13 set_builder_config@11.1- set_flag supports_model@8.6-10.13 "
       "supports_model_v2@10.13- supports_operator",
       {{"a model is read by parse or parse_from_file",
         "load_initializer@10.13- load_model_proto@10.13- parse_model_proto@10.13-"},
        {"tensors of a model are those of the network's layers", "get_layer_output_tensor@10.13-"}}},
      {"OnnxParserFlag",
       "8.6-",
       "NATIVE_INSTANCENORM",
       {{kDla, "ADJUST_FOR_DLA@11.1- ENABLE_UINT8_AND_ASYMMETRIC_QUANTIZATION_DLA@10.13- REPORT_CAPABILITY_DLA@11.1-"},
        {kPlugins, "ENABLE_PLUGIN_OVERRIDE@11.1-"}}},
      {"ParserError",
       "8.6-",
       "code desc file func line node",
       {{"an error of the parser is a text, which names the node",
         "local_function_stack@10.13- local_function_stack_size@10.13- node_name@10.13- node_operator@10.13-"}}},
      {"PreviewFeature",
       "8.6-",
       "ALIASED_PLUGIN_IO_10_03@10.13- DISABLE_EXTERNAL_TACTIC_SOURCES_FOR_CORE_0805@8.6 "
       "FASTER_DYNAMIC_SHAPES_0805@8.6 PROFILE_SHARING_0806@8.6-10.13 RUNTIME_ACTIVATION_RESIZE_10_10@10.13-",
       {}},
      {"Profiler", "8.6-", "report_layer_time", {}},
      {"ProfilingVerbosity", "8.6-", "DEFAULT@8.6 DETAILED LAYER_NAMES_ONLY NONE VERBOSE@8.6", {}},
      {"QuantizationFlag", "8.6-10.13", "CALIBRATE_BEFORE_FUSION", {}},
      {"Refitter",
       "8.6-",
       "error_recorder get_all get_all_weights get_missing get_missing_weights get_weights_prototype@10.13- logger "
       "max_threads "
       "refit_cuda_engine refit_cuda_engine_async@10.13- set_named_weights set_weights weights_validation@10.13-",
       {{"ranges come from a calibrator, or are in the model (Q/DQ)",
         "get_dynamic_range@8.6-10.13 get_tensors_with_dynamic_range@8.6-10.13 set_dynamic_range@8.6-10.13"},
        {kByRefitter, "get_named_weights@10.13- get_weights_location@10.13- unset_named_weights@10.13-"}}},
      {"Runtime",
       "8.6-",
       "error_recorder gpu_allocator deserialize_cuda_engine engine_host_code_allowed logger max_threads num_DLA_cores "
       "tempfile_control_flags "
       "temporary_directory",
       {{kDla, "DLA_core"}, {kPlugins, "get_plugin_registry"}, {"there is one runtime, the full one", "load_runtime"}}},
      {"RuntimePlatform", "10.13-", "SAME_AS_BUILD WINDOWS_AMD64", {}},
      {"SeekPosition", "10.13-", "CUR END SET", {}},
      {"TacticSource",
       "8.6-",
       "CUBLAS@8.6-10.13 CUBLAS_LT@8.6-10.13 CUDNN@8.6-10.13 EDGE_MASK_CONVOLUTIONS JIT_CONVOLUTIONS",
       {}},
      {"TempfileControlFlag", "8.6-", "ALLOW_IN_MEMORY_FILES ALLOW_TEMPORARY_FILES", {}},
      {"TensorFormat", "8.6-", "CDHW32 CHW16 CHW2 CHW32 CHW4 DHWC DHWC8 DLA_HWC4 DLA_LINEAR HWC HWC16 HWC8 LINEAR", {}},
      {"TensorIOMode", "8.6-", "INPUT NONE OUTPUT", {}},
      {"TensorLocation", "8.6-", "DEVICE HOST", {}},
      {"ActivationType",
       "8.6-",
       "CLIP ELU GELU_ERF@10.13-+ GELU_TANH@10.13-+ HARD_SIGMOID LEAKY_RELU RELU SCALED_TANH SELU SIGMOID "
       "SOFTPLUS SOFTSIGN TANH THRESHOLDED_RELU",
       {}},
      {"BoundingBoxFormat", "8.6-", "CENTER_SIZES CORNER_PAIRS", {}},
      {"CumulativeOperation", "10.13-", "SUM", {}},
      {"ElementWiseOperation", "8.6-", "AND DIV EQUAL FLOOR_DIV GREATER LESS MAX MIN OR POW PROD SUB SUM XOR", {}},
      {"FillOperation", "8.6-", "LINSPACE RANDOM_NORMAL RANDOM_UNIFORM", {}},
      {"GatherMode", "8.6-", "DEFAULT ELEMENT ND", {}},
      {"IActivationLayer", "8.6-", "alpha beta type", {}},
      {"ICastLayer", "8.6-", "to_type", {}},
      {"IConcatenationLayer", "8.6-", "axis", {}},
      {"IConstantLayer", "8.6-", "shape weights", {}},
      {"IConvolutionLayer",
       "8.6-",
       "bias dilation@8.6 dilation_nd kernel kernel_size@8.6 kernel_size_nd num_groups num_output_maps "
       "padding@8.6 padding_mode padding_nd post_padding pre_padding stride@8.6 stride_nd",
       {}},
      {"ICumulativeLayer", "10.13-", "exclusive op reverse", {}},
      {"IDeconvolutionLayer",
       "8.6-",
       "bias dilation@8.6 dilation_nd kernel kernel_size@8.6 kernel_size_nd num_groups num_output_maps "
       "padding@8.6 padding_mode padding_nd post_padding pre_padding stride@8.6 stride_nd",
       {}},
      {"IDequantizeLayer", "8.6-", "axis", {}},
      {"IEinsumLayer", "8.6-", "equation", {}},
      {"IElementWiseLayer", "8.6-", "op", {}},
      {"IFillLayer", "8.6-", "alpha beta operation shape", {}},
      {"IFullyConnectedLayer", "8.6", "bias kernel num_output_channels", {}},
      {"IGatherLayer", "8.6-", "axis mode num_elementwise_dims", {}},
      {"IGridSampleLayer", "8.6-", "align_corners interpolation_mode sample_mode", {}},
      {"IIdentityLayer", "8.6-", "", {}},
      {"ILRNLayer", "8.6-", "alpha beta k window_size", {}},
      {"IMatrixMultiplyLayer", "8.6-", "op0 op1", {}},
      {"INMSLayer", "8.6-", "bounding_box_format topk_box_limit", {}},
      {"INonZeroLayer", "8.6-", "", {}},
      {"INormalizationLayer", "8.6-", "axes compute_precision epsilon num_groups", {}},
      {"IOneHotLayer", "8.6-", "axis", {}},
      {"IPaddingLayer", "8.6-", "post_padding@8.6 post_padding_nd pre_padding@8.6 pre_padding_nd", {}},
      {"IParametricReLULayer", "8.6-", "", {}},
      {"IPoolingLayer",
       "8.6-",
       "average_count_excludes_padding blend_factor padding@8.6 padding_mode padding_nd post_padding "
       "pre_padding stride@8.6 stride_nd type window_size@8.6 window_size_nd",
       {}},
      {"IQuantizeLayer", "8.6-", "axis", {}},
      {"IReduceLayer", "8.6-", "axes keep_dims op", {}},
      {"IResizeLayer",
       "8.6-",
       "coordinate_transformation cubic_coeff exclude_outside nearest_rounding resize_mode scales "
       "selector_for_single_pixel shape",
       {}},
      {"IReverseSequenceLayer", "8.6-", "batch_axis sequence_axis", {}},
      {"IScaleLayer", "8.6-", "channel_axis mode power scale shift", {}},
      {"IScatterLayer", "8.6-", "axis mode", {}},
      {"ISelectLayer", "8.6-", "", {}},
      {"IShapeLayer", "8.6-", "", {}},
      {"IShuffleLayer", "8.6-", "first_transpose reshape_dims second_transpose zero_is_placeholder", {}},
      {"ISliceLayer", "8.6-", "mode shape start stride", {}},
      {"ISoftMaxLayer", "8.6-", "axes", {}},
      {"ISqueezeLayer", "10.13-", "", {}},
      {"ITopKLayer", "8.6-", "axes k op", {}},
      {"IUnaryLayer", "8.6-", "op", {}},
      {"IUnsqueezeLayer", "10.13-", "", {}},
      {"InterpolationMode", "8.6-", "CUBIC LINEAR NEAREST", {}},
      {"MatrixOperation", "8.6-", "NONE TRANSPOSE VECTOR", {}},
      {"PaddingMode",
       "8.6-",
       "CAFFE_ROUND_DOWN@8.6 CAFFE_ROUND_UP@8.6 EXPLICIT_ROUND_DOWN EXPLICIT_ROUND_UP SAME_LOWER SAME_UPPER",
       {}},
      {"Permutation", "8.6-", "", {}},
      {"PoolingType", "8.6-", "AVERAGE MAX MAX_AVERAGE_BLEND", {}},
      {"ReduceOperation", "8.6-", "AVG MAX MIN PROD SUM", {}},
      {"ResizeCoordinateTransformation", "8.6-", "ALIGN_CORNERS ASYMMETRIC HALF_PIXEL", {}},
      {"ResizeRoundMode", "8.6-", "CEIL FLOOR HALF_DOWN HALF_UP", {}},
      {"ResizeSelector", "8.6-", "FORMULA UPPER", {}},
      {"SampleMode", "8.6-", "CLAMP DEFAULT@8.6 FILL REFLECT STRICT_BOUNDS WRAP", {}},
      {"ScaleMode", "8.6-", "CHANNEL ELEMENTWISE UNIFORM", {}},
      {"ScatterMode", "8.6-", "ELEMENT ND", {}},
      {"TopKOperation", "8.6-", "MAX MIN", {}},
      {"UnaryOperation",
       "8.6-",
       "ABS ACOS ACOSH ASIN ASINH ATAN ATANH CEIL COS COSH ERF EXP FLOOR ISINF ISNAN@10.13-+ LOG NEG NOT "
       "RECIP ROUND SIGN SIN SINH SQRT TAN",
       {}},
      {"Weights", "8.6-", "dtype nbytes numpy size", {}},
      {"WeightsRole", "8.6-", "ANY BIAS CONSTANT KERNEL SCALE SHIFT", {}},
      {"ErrorCode",
       "8.6-",
       "INTERNAL_ERROR INVALID_GRAPH INVALID_NODE INVALID_VALUE MEM_ALLOC_FAILED MODEL_DESERIALIZE_FAILED "
       "REFIT_FAILED@10.13- SUCCESS UNSUPPORTED_GRAPH UNSUPPORTED_NODE UNSUPPORTED_NODE_ATTR@10.13- "
       "UNSUPPORTED_NODE_DATATYPE@10.13- UNSUPPORTED_NODE_DYNAMIC@10.13- UNSUPPORTED_NODE_INPUT@10.13- "
       "UNSUPPORTED_NODE_SHAPE@10.13-",
       {}},
      {"ErrorCodeTRT",
       "8.6-",
       "FAILED_ALLOCATION FAILED_COMPUTATION FAILED_EXECUTION FAILED_INITIALIZATION INTERNAL_ERROR INVALID_ARGUMENT "
       "INVALID_CONFIG INVALID_STATE SUCCESS UNSPECIFIED_ERROR UNSUPPORTED_STATE",
       {}},
      {"AllocatorFlag", "8.6-", "RESIZABLE", {}},
      {"IGpuAllocator", "8.6-", "allocate allocate_async@10.13- deallocate deallocate_async@10.13- reallocate", {}},
      {"IGpuAsyncAllocator", "10.13-", "allocate allocate_async deallocate deallocate_async", {}},
      {"IErrorRecorder", "8.6-", "clear get_error_code get_error_desc has_overflowed num_errors report_error", {}},
      {"TilingOptimizationLevel", "10.13-", "FAST FULL MODERATE NONE", {}}};
  return list;
}

int release_of(std::string_view text) {
  const auto it = std::find(kApiReleases.begin(), kApiReleases.end(), text);
  if (it == kApiReleases.end()) fail(ErrorKind::usage, "no release ", text, " in the table of names");
  return int(it - kApiReleases.begin());
}

struct Range {
  int first, last;
};
Range range_of(std::string_view text) {
  const size_t dash = text.find('-');
  const int first = release_of(text.substr(0, dash));
  if (dash == text.npos) return {first, first};
  const std::string_view end = text.substr(dash + 1);
  return {first, end.empty() ? int(kApiReleases.size()) - 1 : release_of(end)};
}

void add(std::vector<ApiName>& list, const Owner& owner, std::string_view names, const char* why) {
  while (!names.empty()) {
    const size_t blank = std::min(names.find(' '), names.size());
    std::string_view word = names.substr(0, blank);
    names.remove_prefix(std::min(blank + 1, names.size()));
    const bool early = word.ends_with('+');
    if (early) word.remove_suffix(1);
    const size_t at = word.find('@');
    std::string_view of_owner = owner.range;
    const bool early_owner = of_owner.ends_with('+');
    if (early_owner) of_owner.remove_suffix(1);
    const Range range = range_of(at == word.npos ? of_owner : word.substr(at + 1));
    list.push_back({owner.name, std::string(word.substr(0, at)), range.first, range.last, early || early_owner, why});
  }
}

}  // namespace

const std::vector<ApiName>& api_names() {
  static const std::vector<ApiName> list = [] {
    std::vector<ApiName> names;
    for (const Owner& owner : owners()) {
      if (*owner.name) add(names, {"", owner.range, "", {}}, owner.name, "");
      add(names, owner, owner.here, "");
      for (const RefusedNames& refused : owner.refused) add(names, owner, refused.names, refused.why);
    }
    return names;
  }();
  return list;
}

std::string api_list() {
  std::string text;
  const auto line = [&](const ApiName& name) {
    text += concat("  ", name.owner.empty() ? "" : concat(name.owner, "."), name.name, "  ",
                   kApiReleases[size_t(name.first)], " ", kApiReleases[size_t(name.last)]);
    if (name.early) text += concat("  (shown from ", kApiReleases[0], " on)");
    if (!name.refused.empty()) text += concat("  ", name.refused);
    text += "\n";
  };
  for (const bool here : {true, false}) {
    text += here ? "What is there in Python (name, first and last release):\n" : "\nWhat is refused in Python:\n";
    for (const ApiName& name : api_names())
      if (name.refused.empty() == here) line(name);
  }
  text += "\nWhat is there in C++; what is not does not compile:\n";
  for (const CppClass& of : cpp_classes()) {
    std::vector<ApiName> names;
    add(names, {"", of.range, "", {}}, of.name, "");
    add(names, {of.name, of.range, "", {}}, of.members, "");
    for (const ApiName& name : names) line(name);
  }
  return text;
}

}  // namespace temper::nvinfer
