// SPDX-License-Identifier: Apache-2.0
// Loading and running engines: IRuntime, ICudaEngine, IExecutionContext. What a plan of Temper is made of lies in the
// library; these classes are a skin over temper_nvinfer.h.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "NvInferLegacyDims.h"

namespace nvinfer1 {

enum class OptProfileSelector : int32_t { kMIN = 0, kOPT = 1, kMAX = 2 };
enum class ProfilingVerbosity : int32_t { kLAYER_NAMES_ONLY = 0, kNONE = 1, kDETAILED = 2 };
enum class EngineCapability : int32_t { kSTANDARD = 0, kSAFETY = 1, kDLA_STANDALONE = 2 };
enum class DeviceType : int32_t { kGPU = 0, kDLA = 1 };
template <>
constexpr int32_t EnumMax<OptProfileSelector>() noexcept {
  return 3;
}
template <>
constexpr int32_t EnumMax<ProfilingVerbosity>() noexcept {
  return 3;
}
template <>
constexpr int32_t EnumMax<DeviceType>() noexcept {
  return 2;
}

// Where TensorRT looks for kernels. Any mask is taken, and kernels are Temper's own.
enum class TacticSource : int32_t {
#if TEMPER_NVINFER_API < 1100
  kCUBLAS = 0,
  kCUBLAS_LT = 1,
  kCUDNN = 2,
  kEDGE_MASK_CONVOLUTIONS = 3,
  kJIT_CONVOLUTIONS = 4,
#else
  kEDGE_MASK_CONVOLUTIONS = 0,
  kJIT_CONVOLUTIONS = 1,
#endif
};
using TacticSources = uint32_t;  // 1 << TacticSource
template <>
constexpr int32_t EnumMax<TacticSource>() noexcept {
  return TEMPER_NVINFER_API < 1100 ? 5 : 2;
}
// Which files a runtime may make: none are made.
enum class TempfileControlFlag : int32_t { kALLOW_IN_MEMORY_FILES = 0, kALLOW_TEMPORARY_FILES = 1 };
using TempfileControlFlags = uint32_t;
template <>
constexpr int32_t EnumMax<TempfileControlFlag>() noexcept {
  return 2;
}
// A plan is for the machine that it was measured on: a build for others is refused.
enum class HardwareCompatibilityLevel : int32_t {
  kNONE = 0,
  kAMPERE_PLUS = 1,
#if TEMPER_NVINFER_API >= 1000
  kSAME_COMPUTE_CAPABILITY = 2,
#endif
};
#if TEMPER_NVINFER_API >= 1000
enum class ExecutionContextAllocationStrategy : int32_t { kSTATIC = 0, kON_PROFILE_CHANGE = 1, kUSER_MANAGED = 2 };
#endif

namespace stand_in {

// The device that this program's engines are of. One that was compiled with host/cuda_runtime_api.h has buffers in the
// host's memory; `temper as-tensorrt --device` tells others.
#ifdef TEMPER_HOST_CUDA
inline char const* device() noexcept { return "cpu"; }
constexpr int32_t kGuarded = 1;
#else
inline char const* device() noexcept { return std::getenv("TEMPER_NVINFER_DEVICE"); }
constexpr int32_t kGuarded = 0;
#endif

inline int32_t size_of(DataType type) noexcept {
  switch (type) {
    case DataType::kFLOAT:
    case DataType::kINT32: return 4;
    case DataType::kHALF:
    case DataType::kBF16: return 2;
    case DataType::kINT64: return 8;
    default: return 1;
  }
}

inline bool tensor_at(temper_nv_engine const* engine, int32_t index, temper_nv_tensor& tensor) noexcept {
  return temper_nv_engine_tensor(engine, index, &tensor) != 0;
}
inline bool tensor_at(temper_nv_context const* context, int32_t index, temper_nv_tensor& tensor) noexcept {
  return temper_nv_context_tensor(context, index, &tensor) != 0;
}

}  // namespace stand_in

// Bytes that the library made.
class IHostMemory : public stand_in::Object {
 public:
  explicit IHostMemory(temper_nv_bytes* bytes) noexcept : bytes_(bytes) {}
  ~IHostMemory() override { temper_nv_bytes_free(bytes_); }
  void* data() const noexcept { return const_cast<void*>(temper_nv_bytes_data(bytes_)); }
  std::size_t size() const noexcept { return temper_nv_bytes_size(bytes_); }
  DataType type() const noexcept { return DataType::kINT8; }

 private:
  temper_nv_bytes* bytes_;
};

// The program's own: told of every layer of a run with the time that it took.
class IProfiler {
 public:
  virtual void reportLayerTime(char const* layerName, float ms) noexcept = 0;
  virtual ~IProfiler() noexcept = default;
};

// The program's own: memory for an output, once its size is known.
class IOutputAllocator {
 public:
#if TEMPER_NVINFER_API < 1000
  // At least `size` bytes; null ends the run. `currentMemory`: what the output had, null at first.
  virtual void* reallocateOutput(char const* tensorName, void* currentMemory, uint64_t size,
                                 uint64_t alignment) noexcept = 0;
#else
  // At least `size` bytes; null ends the run. `currentMemory`: what the output had, null at first. One of them is
  // overridden.
  virtual void* reallocateOutput(char const*, void*, uint64_t, uint64_t) noexcept { return nullptr; }
  virtual void* reallocateOutputAsync(char const* tensorName, void* currentMemory, uint64_t size, uint64_t alignment,
                                      cudaStream_t) {
    return reallocateOutput(tensorName, currentMemory, size, alignment);
  }
#endif
  // Before the memory is written.
  virtual void notifyShape(char const* tensorName, Dims const& dims) noexcept = 0;
  virtual ~IOutputAllocator() = default;
};

using AllocatorFlags = uint32_t;
enum class AllocatorFlag : int32_t { kRESIZABLE = 0 };

// The program's own: memory of the device that contexts work in, aligned as is asked for; null ends the run. It is not
// asked to resize.
class IGpuAllocator {
 public:
  virtual void* allocate(uint64_t const size, uint64_t const alignment, AllocatorFlags const flags) noexcept = 0;
  virtual void* reallocate(void*, uint64_t, uint64_t) noexcept { return nullptr; }
#if TEMPER_NVINFER_API < 1000
  virtual void free(void* const memory) noexcept = 0;
  virtual bool deallocate(void* const memory) noexcept {
    this->free(memory);
    return true;
  }
#else
  virtual bool deallocate(void* const memory) noexcept = 0;
  virtual void* allocateAsync(uint64_t const size, uint64_t const alignment, AllocatorFlags const flags,
                              cudaStream_t) noexcept {
    return allocate(size, alignment, flags);
  }
  virtual bool deallocateAsync(void* const memory, cudaStream_t) noexcept { return deallocate(memory); }
#endif
  IGpuAllocator() = default;
  virtual ~IGpuAllocator() = default;

 protected:
  IGpuAllocator(IGpuAllocator const&) = default;
  IGpuAllocator(IGpuAllocator&&) = default;
  IGpuAllocator& operator=(IGpuAllocator const&) & = default;
  IGpuAllocator& operator=(IGpuAllocator&&) & = default;
};

#if TEMPER_NVINFER_API >= 1000
// The same, in the order of a stream: that of none, here.
class IGpuAsyncAllocator : public IGpuAllocator {
 public:
  void* allocateAsync(uint64_t const size, uint64_t const alignment, AllocatorFlags const flags,
                      cudaStream_t stream) noexcept override = 0;
  bool deallocateAsync(void* const memory, cudaStream_t stream) noexcept override = 0;
  void* allocate(uint64_t const size, uint64_t const alignment, AllocatorFlags const flags) noexcept override {
    return allocateAsync(size, alignment, flags, nullptr);
  }
  bool deallocate(void* const memory) noexcept override { return deallocateAsync(memory, nullptr); }
};

// The program's own: a plan is read from it. So many bytes as it wrote to `destination`, 0 where there are no more;
// less than 0 where it cannot.
class IStreamReader {
 public:
  virtual int64_t read(void* destination, int64_t nbBytes) = 0;
  IStreamReader() = default;
  virtual ~IStreamReader() = default;

 protected:
  IStreamReader(IStreamReader const&) = default;
  IStreamReader(IStreamReader&&) = default;
  IStreamReader& operator=(IStreamReader const&) & = default;
  IStreamReader& operator=(IStreamReader&&) & = default;
};

enum class SeekPosition : int32_t { kSET = 0, kCUR = 1, kEND = 2 };

// The same. `destination` is the host's, and the stream none; seek() is not called: a plan is read from where the
// reader is.
class IStreamReaderV2 {
 public:
  virtual int64_t read(void* destination, int64_t nbBytes, cudaStream_t stream) noexcept = 0;
  virtual bool seek(int64_t offset, SeekPosition where) noexcept = 0;
  IStreamReaderV2() = default;
  virtual ~IStreamReaderV2() = default;

 protected:
  IStreamReaderV2(IStreamReaderV2 const&) = default;
  IStreamReaderV2(IStreamReaderV2&&) = default;
  IStreamReaderV2& operator=(IStreamReaderV2 const&) & = default;
  IStreamReaderV2& operator=(IStreamReaderV2&&) & = default;
};
#endif

namespace stand_in {
inline temper_nv_memory memory_of(IGpuAllocator& allocator) noexcept {
  return {&allocator,
          [](void* self, uint64_t size, uint64_t alignment) -> void* {
            IGpuAllocator& its = *static_cast<IGpuAllocator*>(self);
#if TEMPER_NVINFER_API < 1000
            return its.allocate(size, alignment, 0);
#else
            return its.allocateAsync(size, alignment, 0, nullptr);
#endif
          },
          [](void* self, void* memory) {
            IGpuAllocator& its = *static_cast<IGpuAllocator*>(self);
#if TEMPER_NVINFER_API < 1000
            its.deallocate(memory);
#else
            its.deallocateAsync(memory, nullptr);
#endif
          }};
}

inline temper_nv_allocator allocator_of(IOutputAllocator& allocator) noexcept {
  return {&allocator,
          [](void* self, char const* name, void* current, uint64_t size, uint64_t alignment, void* stream) -> void* {
            IOutputAllocator& its = *static_cast<IOutputAllocator*>(self);
#if TEMPER_NVINFER_API < 1000
            static_cast<void>(stream);
            return its.reallocateOutput(name, current, size, alignment);
#else
            return its.reallocateOutputAsync(name, current, size, alignment, static_cast<cudaStream_t>(stream));
#endif
          },
          [](void* self, char const* name, int64_t const* dims, int32_t rank) {
            static_cast<IOutputAllocator*>(self)->notifyShape(name, dims_of(dims, rank));
          }};
}
}  // namespace stand_in

class ICudaEngine;

// Runs an engine, for one thread at a time. Addresses are of the GPU's memory; of the host's for an engine of a CPU. It
// may outlive the engine, whose object getEngine() then must not be used for.
class IExecutionContext : public stand_in::Recorded {
 public:
  // native() is null, with an error in the log, where it cannot be made.
  IExecutionContext(temper_nv_engine const* native, ICudaEngine const& engine, int32_t profiles,
                    IGpuAllocator* allocator, stand_in::Lines const& lines) noexcept
      : Recorded(lines), engine_(engine) {
#if TEMPER_NVINFER_API < 1000
    profiles_ = profiles;
#else
    static_cast<void>(profiles);
#endif
    temper_nv_memory memory{};
    if (allocator) memory = stand_in::memory_of(*allocator);
    context_ = temper_nv_context_new(native, allocator ? &memory : nullptr, lines_.log());
  }
  ~IExecutionContext() override { temper_nv_context_free(context_); }

  ICudaEngine const& getEngine() const noexcept { return engine_; }
  void setName(char const* name) noexcept { std::snprintf(name_, sizeof name_, "%s", name ? name : ""); }
  char const* getName() const noexcept { return name_; }
  void setDebugSync(bool sync) noexcept { debug_sync_ = sync; }
  bool getDebugSync() const noexcept { return debug_sync_; }

  // False, with an error in the log, for a name that is no input, and for dimensions that no profile holds.
  bool setInputShape(char const* tensorName, Dims const& dims) noexcept {
    stand_in::Wide const wide(dims);
    if (!wide.is_valid()) {
      lines_.error("setInputShape: the dimensions are not valid");
      return false;
    }
    return temper_nv_context_set_shape(context_, tensorName, wide.d, wide.rank) != 0;
  }
  // Of an output as it follows from the inputs; -1 for what is open still.
  Dims getTensorShape(char const* tensorName) const noexcept {
    int64_t dims[TEMPER_NV_MAX_DIMS];
    int32_t rank = 0;
    return temper_nv_context_shape(context_, tensorName, dims, &rank) ? stand_in::dims_of(dims, rank)
                                                                      : stand_in::no_dims();
  }
  // In elements, row-major; 0 where a dimension behind is open still.
  Dims getTensorStrides(char const* tensorName) const noexcept {
    Dims const shape = getTensorShape(tensorName);
    Dims strides = shape;
    stand_in::Dim step = 1;
    for (int32_t i = shape.nbDims - 1; i >= 0; --i) {
      strides.d[i] = step;
      step = shape.d[i] < 0 ? 0 : step * shape.d[i];
    }
    return strides;
  }
  bool allInputDimensionsSpecified() const noexcept {
    return temper_nv_context_without_shape(context_, nullptr, 0) == 0;
  }
  bool allInputShapesSpecified() const noexcept { return true; }  // no input's values decide a shape before a run
  // How many inputs lack a shape; as many of their names as there is room for.
  int32_t inferShapes(int32_t nbMaxNames, char const** tensorNames) noexcept {
    return temper_nv_context_without_shape(context_, tensorNames, nbMaxNames);
  }

  bool setTensorAddress(char const* tensorName, void* data) noexcept {
    return temper_nv_context_set_address(context_, tensorName, data) != 0;
  }
  bool setInputTensorAddress(char const* tensorName, void const* data) noexcept {
    return temper_nv_context_set_address(context_, tensorName, data) != 0;
  }
#if TEMPER_NVINFER_API >= 1000
  bool setOutputTensorAddress(char const* tensorName, void* data) noexcept {
    return temper_nv_context_set_address(context_, tensorName, data) != 0;
  }
#endif
  void const* getTensorAddress(char const* tensorName) const noexcept {
    return temper_nv_context_address(context_, tensorName);
  }
  void* getOutputTensorAddress(char const* tensorName) const noexcept {
    return temper_nv_context_address(context_, tensorName);
  }

  // The allocator takes the place of the output's address; null takes it away. False for a name that is no output.
  bool setOutputAllocator(char const* tensorName, IOutputAllocator* outputAllocator) noexcept {
    temper_nv_allocator asked{};
    if (outputAllocator) asked = stand_in::allocator_of(*outputAllocator);
    if (!temper_nv_context_set_allocator(context_, tensorName, outputAllocator ? &asked : nullptr)) return false;
    allocators_[tensorName] = outputAllocator;
    return true;
  }
  IOutputAllocator* getOutputAllocator(char const* tensorName) const noexcept {
    auto const found = allocators_.find(tensorName ? tensorName : "");
    return found == allocators_.end() ? nullptr : found->second;
  }
  // Bytes that the output takes at most; -1 where that depends on data, or there is no such output.
  int64_t getMaxOutputSize(char const* tensorName) const noexcept {
    return temper_nv_context_max_output_bytes(context_, tensorName);
  }

  // With a profiler runs wait for themselves and are timed layer by layer.
  void setProfiler(IProfiler* profiler) noexcept {
    profiler_ = profiler;
    auto const told = [](void* self, char const* layer, float ms) {
      static_cast<IProfiler*>(self)->reportLayerTime(layer, ms);
    };
    temper_nv_context_set_layer_times(context_, profiler, profiler ? +told : nullptr);
  }
  IProfiler* getProfiler() const noexcept { return profiler_; }
  // False: layers are reported by reportToProfiler() alone, which is false where no run was timed.
  void setEnqueueEmitsProfile(bool enqueueEmitsProfile) noexcept {
    emits_ = enqueueEmitsProfile;
    temper_nv_context_tell_layers_at_once(context_, enqueueEmitsProfile);
  }
  bool getEnqueueEmitsProfile() const noexcept { return emits_; }
  bool reportToProfiler() const noexcept { return temper_nv_context_report_layers(context_) != 0; }

  // Puts the run into the stream and returns. On a CPU it has run then.
  bool enqueueV3(cudaStream_t stream) noexcept { return temper_nv_context_run(context_, stream, 0) != 0; }
  // Waits. The addresses are in the order of the engine's tensors; where an engine of 8.6 has several profiles, those
  // of the active one stand behind as many for each profile before it.
  bool executeV2(void* const* bindings) noexcept {
    return take(bindings) && temper_nv_context_run(context_, nullptr, 1) != 0;
  }

  // Shapes of inputs are those of the active profile; those that were set for another one are no longer.
  bool setOptimizationProfileAsync(int32_t profileIndex, cudaStream_t) noexcept {
    return temper_nv_context_set_profile(context_, profileIndex) != 0;
  }
  int32_t getOptimizationProfile() const noexcept { return temper_nv_context_profile(context_); }

  // A context owns its memory: getDeviceMemorySize() of the engine is 0, and what is given is not used.
  void setDeviceMemory(void*) noexcept {}
#if TEMPER_NVINFER_API >= 1000
  void setDeviceMemoryV2(void*, int64_t) noexcept {}
  std::size_t updateDeviceMemorySizeForShapes() noexcept { return 0; }
#endif
  // What follows is kept and read back, and a run is the same with it: no part of the L2 cache is set aside, and
  // nothing is sent to NVTX.
  void setPersistentCacheLimit(std::size_t size) noexcept { cache_limit_ = size; }
  std::size_t getPersistentCacheLimit() const noexcept { return cache_limit_; }
  bool setNvtxVerbosity(ProfilingVerbosity verbosity) noexcept {
    nvtx_verbosity_ = verbosity;
    return true;
  }
  ProfilingVerbosity getNvtxVerbosity() const noexcept { return nvtx_verbosity_; }
  // False, with an error in the log: no event is recorded.
  bool setInputConsumedEvent(cudaEvent_t event) noexcept {
    if (event) lines_.error("setInputConsumedEvent: not in Temper (no event is recorded); wait for the stream instead");
    return event == nullptr;
  }
  cudaEvent_t getInputConsumedEvent() const noexcept { return nullptr; }

#if TEMPER_NVINFER_API < 1000
  // Bindings: the same tensors by number.
  bool setBindingDimensions(int32_t bindingIndex, Dims dimensions) noexcept {
    temper_nv_tensor tensor;
    if (binding_at(bindingIndex, tensor) && bindingIndex / tensors() == getOptimizationProfile())
      return setInputShape(tensor.name, dimensions);
    lines_.error("setBindingDimensions: there is no binding of that number in the active profile");
    return false;
  }
  Dims getBindingDimensions(int32_t bindingIndex) const noexcept {
    temper_nv_tensor tensor;
    return binding_at(bindingIndex, tensor) ? getTensorShape(tensor.name) : stand_in::no_dims();
  }
  Dims getStrides(int32_t bindingIndex) const noexcept {
    temper_nv_tensor tensor;
    return binding_at(bindingIndex, tensor) ? getTensorStrides(tensor.name) : stand_in::no_dims();
  }
  bool enqueueV2(void* const* bindings, cudaStream_t stream, cudaEvent_t* inputConsumed) noexcept {
    if (inputConsumed) {
      lines_.error(
          "enqueueV2: an event of consumed inputs is not in Temper; give nullptr, and wait for the stream instead");
      return false;
    }
    return take(bindings) && enqueueV3(stream);
  }
  bool setOptimizationProfile(int32_t profileIndex) noexcept {
    return setOptimizationProfileAsync(profileIndex, nullptr);
  }
  // False, with an error in the log: the batch is always a dimension of the shapes.
  bool execute(int32_t, void* const*) noexcept { return implicit_batch("execute", "executeV2"); }
  bool enqueue(int32_t, void* const*, cudaStream_t, cudaEvent_t*) noexcept {
    return implicit_batch("enqueue", "enqueueV2");
  }
#endif

  // For the inspector.
  temper_nv_context const* native() const noexcept { return context_; }

 private:
  temper_nv_context* context_;
  ICudaEngine const& engine_;
#if TEMPER_NVINFER_API < 1000
  int32_t profiles_ = 0;
#endif
  bool debug_sync_ = false, emits_ = true;
  std::size_t cache_limit_ = 0;
  ProfilingVerbosity nvtx_verbosity_ = ProfilingVerbosity::kDETAILED;
  IProfiler* profiler_ = nullptr;
  std::map<std::string, IOutputAllocator*> allocators_;
  char name_[128] = "";

  bool take(void* const* bindings) noexcept {
    if (!bindings) {
      lines_.error("the list of bindings is null");
      return false;
    }
    temper_nv_tensor tensor;
#if TEMPER_NVINFER_API < 1000
    bindings += getOptimizationProfile() * tensors();
#endif
    for (int32_t i = 0; stand_in::tensor_at(context_, i, tensor); ++i)
      if (!temper_nv_context_set_address(context_, tensor.name, bindings[i])) return false;
    return true;
  }
#if TEMPER_NVINFER_API < 1000
  int32_t tensors() const noexcept {
    temper_nv_tensor tensor;
    int32_t count = 0;
    while (stand_in::tensor_at(context_, count, tensor)) ++count;
    return count;
  }
  bool binding_at(int32_t index, temper_nv_tensor& tensor) const noexcept {
    return index >= 0 && index < tensors() * profiles_ && stand_in::tensor_at(context_, index % tensors(), tensor);
  }
  bool implicit_batch(char const* name, char const* instead) const noexcept {
    char text[160];
    std::snprintf(text, sizeof text, "%s: not in Temper (the batch is a dimension of the shapes); call %s instead",
                  name, instead);
    lines_.error(text);
    return false;
  }
#endif
};

enum class LayerInformationFormat : int32_t { kONELINE = 0, kJSON = 1 };

// Says what an engine's layers are: the steps of its plan.
class IEngineInspector : public stand_in::Recorded {
 public:
  IEngineInspector(temper_nv_engine const* engine, stand_in::Lines const& lines) noexcept
      : Recorded(lines), inspector_(temper_nv_inspector_new(engine, lines_.log())) {}
  ~IEngineInspector() override { temper_nv_inspector_free(inspector_); }
  // By the shapes that are set in it; null: by the first of the engine's plans.
  bool setExecutionContext(IExecutionContext const* context) noexcept {
    context_ = context;
    return true;
  }
  IExecutionContext const* getExecutionContext() const noexcept { return context_; }
  // They live until the next call.
  char const* getLayerInformation(int32_t layerIndex, LayerInformationFormat format) const noexcept {
    return temper_nv_inspector_describe(inspector_, native(), layerIndex < 0 ? INT32_MAX : layerIndex,
                                        static_cast<int32_t>(format));
  }
  char const* getEngineInformation(LayerInformationFormat format) const noexcept {
    return temper_nv_inspector_describe(inspector_, native(), -1, static_cast<int32_t>(format));
  }

 private:
  temper_nv_inspector* inspector_;
  IExecutionContext const* context_ = nullptr;
  temper_nv_context const* native() const noexcept { return context_ ? context_->native() : nullptr; }
};

// A plan of Temper that is loaded. Contexts and threads share it.
class ICudaEngine : public stand_in::Recorded {
 public:
  ICudaEngine(temper_nv_engine* engine, IGpuAllocator* allocator, stand_in::Lines const& lines) noexcept
      : Recorded(lines), engine_(engine), allocator_(allocator) {
#if TEMPER_NVINFER_API < 1000
    for (int32_t profile = 0; profile < getNbOptimizationProfiles(); ++profile)
      for (int32_t i = 0; i < getNbIOTensors(); ++i)
        bindings_.push_back(std::string(getIOTensorName(i)) +
                            (profile ? " [profile " + std::to_string(profile) + "]" : std::string()));
#endif
  }
  ~ICudaEngine() override { temper_nv_engine_free(engine_); }

  char const* getName() const noexcept { return temper_nv_engine_name(engine_); }
  int32_t getNbLayers() const noexcept { return temper_nv_engine_layers(engine_); }
  int32_t getNbOptimizationProfiles() const noexcept { return temper_nv_engine_profiles(engine_); }
  bool isRefittable() const noexcept { return temper_nv_engine_is_refittable(engine_) != 0; }

  // Inputs, then outputs.
  int32_t getNbIOTensors() const noexcept { return temper_nv_engine_tensors(engine_); }
  char const* getIOTensorName(int32_t index) const noexcept {
    temper_nv_tensor tensor;
    return stand_in::tensor_at(engine_, index, tensor) ? tensor.name : nullptr;
  }
  Dims getTensorShape(char const* tensorName) const noexcept {
    temper_nv_tensor tensor;
    return find(tensorName, tensor) ? stand_in::dims_of(tensor.dims, tensor.rank) : stand_in::no_dims();
  }
  DataType getTensorDataType(char const* tensorName) const noexcept {
    temper_nv_tensor tensor;
    return find(tensorName, tensor) ? static_cast<DataType>(tensor.dtype) : DataType::kFLOAT;
  }
  TensorIOMode getTensorIOMode(char const* tensorName) const noexcept {
    temper_nv_tensor tensor;
    if (!find(tensorName, tensor)) return TensorIOMode::kNONE;
    return tensor.is_input ? TensorIOMode::kINPUT : TensorIOMode::kOUTPUT;
  }
  TensorLocation getTensorLocation(char const*) const noexcept { return TensorLocation::kDEVICE; }
  TensorFormat getTensorFormat(char const*) const noexcept { return TensorFormat::kLINEAR; }
  int32_t getTensorVectorizedDim(char const*) const noexcept { return -1; }
  // -1 where there is no such tensor.
  int32_t getTensorBytesPerComponent(char const* tensorName) const noexcept {
    temper_nv_tensor tensor;
    return find(tensorName, tensor) ? stand_in::size_of(static_cast<DataType>(tensor.dtype)) : -1;
  }
  int32_t getTensorComponentsPerElement(char const* tensorName) const noexcept {
    temper_nv_tensor tensor;
    return find(tensorName, tensor) ? 1 : -1;
  }
  char const* getTensorFormatDesc(char const*) const noexcept { return "rows (kLINEAR)"; }
#if TEMPER_NVINFER_API >= 1000
  // The same of every profile.
  TensorFormat getTensorFormat(char const* tensorName, int32_t) const noexcept { return getTensorFormat(tensorName); }
  int32_t getTensorVectorizedDim(char const* tensorName, int32_t) const noexcept {
    return getTensorVectorizedDim(tensorName);
  }
  int32_t getTensorBytesPerComponent(char const* tensorName, int32_t) const noexcept {
    return getTensorBytesPerComponent(tensorName);
  }
  int32_t getTensorComponentsPerElement(char const* tensorName, int32_t) const noexcept {
    return getTensorComponentsPerElement(tensorName);
  }
  char const* getTensorFormatDesc(char const* tensorName, int32_t) const noexcept {
    return getTensorFormatDesc(tensorName);
  }
#endif
  EngineCapability getEngineCapability() const noexcept { return EngineCapability::kSTANDARD; }
  TacticSources getTacticSources() const noexcept { return 0; }
  HardwareCompatibilityLevel getHardwareCompatibilityLevel() const noexcept {
    return HardwareCompatibilityLevel::kNONE;
  }
  // A plan has all that an inspector shows.
  ProfilingVerbosity getProfilingVerbosity() const noexcept { return ProfilingVerbosity::kDETAILED; }
  bool isShapeInferenceIO(char const*) const noexcept { return false; }
  // Of an input; without dimensions where there is no such profile.
  Dims getProfileShape(char const* tensorName, int32_t profileIndex, OptProfileSelector select) const noexcept {
    int64_t dims[TEMPER_NV_MAX_DIMS];
    int32_t rank = 0;
    return temper_nv_engine_profile_shape(engine_, tensorName, profileIndex, static_cast<int32_t>(select), dims, &rank)
               ? stand_in::dims_of(dims, rank)
               : stand_in::no_dims();
  }

  IEngineInspector* createEngineInspector() const noexcept { return new IEngineInspector(engine_, lines_); }

  // Null, with an error in the log, where memory ends.
  IHostMemory* serialize() const noexcept {
    temper_nv_bytes* const bytes = temper_nv_engine_bytes(engine_, lines_.log());
    return bytes ? new IHostMemory(bytes) : nullptr;
  }

#if TEMPER_NVINFER_API >= 1000
  IExecutionContext* createExecutionContext(
      ExecutionContextAllocationStrategy = ExecutionContextAllocationStrategy::kSTATIC) noexcept {
    return context();
  }
#else
  IExecutionContext* createExecutionContext() noexcept { return context(); }
#endif
#if TEMPER_NVINFER_API < 1100
  IExecutionContext* createExecutionContextWithoutDeviceMemory() noexcept { return context(); }
  std::size_t getDeviceMemorySize() const noexcept { return 0; }  // a context owns its memory
  bool hasImplicitBatchDimension() const noexcept { return false; }
#endif
#if TEMPER_NVINFER_API >= 1000
  int64_t getDeviceMemorySizeV2() const noexcept { return 0; }
#endif

#if TEMPER_NVINFER_API < 1000
  // Bindings: the same tensors by number, once for each profile; "x [profile 1]" is the x of the second.
  int32_t getNbBindings() const noexcept { return static_cast<int32_t>(bindings_.size()); }
  int32_t getBindingIndex(char const* name) const noexcept {
    for (std::size_t i = 0; name && i < bindings_.size(); ++i)
      if (bindings_[i] == name) return static_cast<int32_t>(i);
    return -1;
  }
  char const* getBindingName(int32_t bindingIndex) const noexcept {
    bool const is_there = bindingIndex >= 0 && bindingIndex < getNbBindings();
    return is_there ? bindings_[static_cast<std::size_t>(bindingIndex)].c_str() : nullptr;
  }
  bool bindingIsInput(int32_t bindingIndex) const noexcept {
    temper_nv_tensor tensor;
    return binding_at(bindingIndex, tensor) && tensor.is_input;
  }
  Dims getBindingDimensions(int32_t bindingIndex) const noexcept {
    temper_nv_tensor tensor;
    return binding_at(bindingIndex, tensor) ? stand_in::dims_of(tensor.dims, tensor.rank) : stand_in::no_dims();
  }
  DataType getBindingDataType(int32_t bindingIndex) const noexcept {
    temper_nv_tensor tensor;
    return binding_at(bindingIndex, tensor) ? static_cast<DataType>(tensor.dtype) : DataType::kFLOAT;
  }
  TensorLocation getLocation(int32_t) const noexcept { return TensorLocation::kDEVICE; }
  TensorFormat getBindingFormat(int32_t) const noexcept { return TensorFormat::kLINEAR; }
  char const* getBindingFormatDesc(int32_t) const noexcept { return getTensorFormatDesc(nullptr); }
  int32_t getBindingVectorizedDim(int32_t) const noexcept { return -1; }
  int32_t getBindingComponentsPerElement(int32_t bindingIndex) const noexcept {
    temper_nv_tensor tensor;
    return binding_at(bindingIndex, tensor) ? 1 : -1;
  }
  int32_t getBindingBytesPerComponent(int32_t bindingIndex) const noexcept {
    temper_nv_tensor tensor;
    return binding_at(bindingIndex, tensor) ? getTensorBytesPerComponent(tensor.name) : -1;
  }
  bool isShapeBinding(int32_t) const noexcept { return false; }
  bool isExecutionBinding(int32_t) const noexcept { return true; }
  int32_t getMaxBatchSize() const noexcept { return 1; }
  Dims getProfileDimensions(int32_t bindingIndex, int32_t profileIndex, OptProfileSelector select) const noexcept {
    temper_nv_tensor tensor;
    return binding_at(bindingIndex, tensor) ? getProfileShape(tensor.name, profileIndex, select) : stand_in::no_dims();
  }
#endif

  // For the refitter.
  temper_nv_engine* native() const noexcept { return engine_; }

 private:
  temper_nv_engine* engine_;
  IGpuAllocator* allocator_;
#if TEMPER_NVINFER_API < 1000
  std::vector<std::string> bindings_;

  bool binding_at(int32_t index, temper_nv_tensor& tensor) const noexcept {
    return index >= 0 && index < getNbBindings() && stand_in::tensor_at(engine_, index % getNbIOTensors(), tensor);
  }
#endif
  bool find(char const* name, temper_nv_tensor& tensor) const noexcept {
    if (stand_in::tensor_at(engine_, temper_nv_engine_index(engine_, name), tensor)) return true;
    char text[200];
    std::snprintf(text, sizeof text, "there is no tensor with the name '%s'", name ? name : "(null)");
    lines_.error(text);
    return false;
  }
  IExecutionContext* context() noexcept {
    std::unique_ptr<IExecutionContext> made(
        new IExecutionContext(engine_, *this, getNbOptimizationProfiles(), allocator_, lines_));
    return made->native() ? made.release() : nullptr;
  }
};

// Loads plans.
class IRuntime : public stand_in::Recorded {
 public:
  explicit IRuntime(ILogger& logger) noexcept : Recorded(logger) {}
  explicit IRuntime(stand_in::Lines const& lines) noexcept : Recorded(lines) {}
  ILogger* getLogger() const noexcept { return &lines_.logger(); }
  // Contexts of engines that are loaded from then on work in its memory; null: in memory of their own. Constants of a
  // plan are not in it. It lives as long as these contexts.
  void setGpuAllocator(IGpuAllocator* allocator) noexcept { allocator_ = allocator; }

  // Null, with an error in the log, for what is damaged, stale, of another device, or of TensorRT.
  ICudaEngine* deserializeCudaEngine(void const* blob, std::size_t size) noexcept {
    temper_nv_engine* const engine =
        temper_nv_engine_load(blob, size, stand_in::device(), stand_in::kGuarded, lines_.log());
    return engine ? new ICudaEngine(engine, allocator_, lines_) : nullptr;
  }
#if TEMPER_NVINFER_API >= 1000
  ICudaEngine* deserializeCudaEngine(IStreamReader& streamReader) {
    return read([&](void* to, int64_t size) { return streamReader.read(to, size); });
  }
  ICudaEngine* deserializeCudaEngine(IStreamReaderV2& streamReader) noexcept {
    return read([&](void* to, int64_t size) { return streamReader.read(to, size, nullptr); });
  }
#endif
#if TEMPER_NVINFER_API < 1000
  // The last argument was for plugins, before 8; it must be null.
  ICudaEngine* deserializeCudaEngine(void const* blob, std::size_t size, std::nullptr_t) noexcept {
    return deserializeCudaEngine(blob, size);
  }
#endif

  // There is no DLA: its number is that of no core.
  int32_t getNbDLACores() const noexcept { return 0; }
  int32_t getDLACore() const noexcept { return -1; }
  void setDLACore(int32_t) noexcept {
    lines_.error("setDLACore: not in Temper (it runs on CPUs and GPUs); leave it out instead");
  }
  // Kept, and read back: no files are made.
  void setTempfileControlFlags(TempfileControlFlags flags) noexcept { tempfile_flags_ = flags; }
  TempfileControlFlags getTempfileControlFlags() const noexcept { return tempfile_flags_; }
  void setTemporaryDirectory(char const* path) noexcept { temporary_ = path ? path : ""; }
  char const* getTemporaryDirectory() const noexcept { return temporary_.c_str(); }
  void setEngineHostCodeAllowed(bool allowed) noexcept { host_code_ = allowed; }
  bool getEngineHostCodeAllowed() const noexcept { return host_code_; }
  // Engines are loaded and shapes planned on as many threads as the process may use; the number is kept, and read back.
  bool setMaxThreads(int32_t maxThreads) noexcept {
    if (maxThreads < 1) return false;
    threads_ = maxThreads;
    return true;
  }
  int32_t getMaxThreads() const noexcept { return threads_; }

 private:
  IGpuAllocator* allocator_ = nullptr;
  int32_t threads_ = 1;
  TempfileControlFlags tempfile_flags_ = 3;
  std::string temporary_;
  bool host_code_ = false;

#if TEMPER_NVINFER_API >= 1000
  template <class Next>
  ICudaEngine* read(Next&& next) {
    constexpr std::size_t kPart = std::size_t{1} << 24;
    std::vector<char> bytes;
    for (std::size_t at = 0;;) {
      bytes.resize(at + kPart);
      int64_t const got = next(bytes.data() + at, static_cast<int64_t>(kPart));
      if (got == 0) return deserializeCudaEngine(bytes.data(), at);
      if (got < 0 || got > static_cast<int64_t>(kPart)) {
        lines_.error("deserializeCudaEngine: the stream reader could not read");
        return nullptr;
      }
      at += static_cast<std::size_t>(got);
    }
  }
#endif
};

// So many numbers at an address; they are copied when a layer, or a refitter, gets them.
class Weights {
 public:
  DataType type;
  void const* values;
  int64_t count;
};

// What weights are to their layer.
enum class WeightsRole : int32_t { kKERNEL = 0, kBIAS = 1, kSHIFT = 2, kSCALE = 3, kCONSTANT = 4, kANY = 5 };

// Replaces weights of an engine that was built with BuilderFlag::kREFIT, which is built again for it, with the times
// that it knows. Contexts of the engine run with the new weights from then on. What is not replaced stays as it is: no
// weights are missing.
class IRefitter : public stand_in::Recorded {
 public:
  // native() is null, with an error in the log, for an engine that was not built for it.
  IRefitter(ICudaEngine& engine, ILogger& logger) noexcept
      : Recorded(logger), refitter_(temper_nv_refitter_new(engine.native(), lines_.log())) {}
  ~IRefitter() override { temper_nv_refitter_free(refitter_); }
  ILogger* getLogger() const noexcept { return &lines_.logger(); }

  // The weights are copied. False, with an error in the log, for a name that there is not, and for another number of
  // weights. Floats of another type are converted.
  bool setNamedWeights(char const* name, Weights weights) noexcept {
    return temper_nv_refitter_set(refitter_, name, static_cast<int32_t>(weights.type), weights.values, weights.count) !=
           0;
  }
  bool setWeights(char const* layerName, WeightsRole role, Weights weights) noexcept {
    temper_nv_weights entry;
    for (int32_t i = 0; temper_nv_refitter_weights(refitter_, i, &entry); ++i)
      if (layerName && std::string(layerName) == entry.layer &&
          (role == WeightsRole::kANY || static_cast<int32_t>(role) == entry.role))
        return setNamedWeights(entry.name, weights);
    lines_.error("setWeights: the layer has no such weights");
    return false;
  }
  bool refitCudaEngine() noexcept { return temper_nv_refitter_run(refitter_) != 0; }

  // How many there are, the first `size` of which are written. Names live as long as the refitter.
  int32_t getAll(int32_t size, char const** layerNames, WeightsRole* roles) noexcept {
    temper_nv_weights entry;
    int32_t i = 0;
    for (; temper_nv_refitter_weights(refitter_, i, &entry); ++i) {
      if (i < size && layerNames) layerNames[i] = entry.layer;
      if (i < size && roles) roles[i] = static_cast<WeightsRole>(entry.role);
    }
    return i;
  }
  int32_t getAllWeights(int32_t size, char const** weightsNames) noexcept {
    temper_nv_weights entry;
    int32_t i = 0;
    for (; temper_nv_refitter_weights(refitter_, i, &entry); ++i)
      if (i < size && weightsNames) weightsNames[i] = entry.name;
    return i;
  }
  int32_t getMissing(int32_t, char const**, WeightsRole*) noexcept { return 0; }
  int32_t getMissingWeights(int32_t, char const**) noexcept { return 0; }
  // Kept, and read back: a build takes as many threads as the process may use.
  bool setMaxThreads(int32_t maxThreads) noexcept {
    if (maxThreads < 1) return false;
    threads_ = maxThreads;
    return true;
  }
  int32_t getMaxThreads() const noexcept { return threads_; }
#if TEMPER_NVINFER_API >= 1000
  // False, with an error in the log, for weights in the device's memory.
  bool setNamedWeights(char const* name, Weights weights, TensorLocation location) noexcept {
    if (location == TensorLocation::kHOST) return setNamedWeights(name, weights);
    lines_.error("setNamedWeights: weights in a GPU's memory are not in Temper; copy them to the host instead");
    return false;
  }
  // It has been done when it returns.
  bool refitCudaEngineAsync(cudaStream_t) noexcept { return refitCudaEngine(); }
  // Type and count, without numbers; a count of -1 for a name that there is not.
  Weights getWeightsPrototype(char const* weightsName) const noexcept {
    temper_nv_weights entry;
    for (int32_t i = 0; weightsName && temper_nv_refitter_weights(refitter_, i, &entry); ++i)
      if (std::string(weightsName) == entry.name) return {static_cast<DataType>(entry.dtype), nullptr, entry.count};
    return {DataType::kFLOAT, nullptr, -1};
  }
  // Kept, and read back: weights are looked at in any case.
  void setWeightsValidation(bool weightsValidation) noexcept { validates_ = weightsValidation; }
  bool getWeightsValidation() const noexcept { return validates_; }
#endif

  // For createInferRefitter().
  temper_nv_refitter const* native() const noexcept { return refitter_; }

 private:
  temper_nv_refitter* refitter_;
  int32_t threads_ = 1;
#if TEMPER_NVINFER_API >= 1000
  bool validates_ = true;
#endif
};

// Ranges of shapes by input. The builder owns it.
class IOptimizationProfile {
 public:
  IOptimizationProfile(IOptimizationProfile const&) = delete;
  IOptimizationProfile& operator=(IOptimizationProfile const&) = delete;

  // False where the dimensions are not those of a shape, or contradict what is set already.
  bool setDimensions(char const* inputName, OptProfileSelector select, Dims const& dims) noexcept {
    stand_in::Wide const wide(dims);
    if (!inputName || !wide.is_valid()) return false;
    for (int32_t i = 0; i < wide.rank; ++i)
      if (wide.d[i] < 0) return false;
    Range* range = const_cast<Range*>(find(inputName));
    Range changed = range ? *range : Range{inputName, {}, {}};
    changed.shapes[static_cast<int32_t>(select)] = dims;
    changed.is_set[static_cast<int32_t>(select)] = true;
    if (!changed.is_consistent()) return false;
    if (range) *range = changed;
    else ranges_.push_back(changed);
    return true;
  }
  // Without dimensions where none are set.
  Dims getDimensions(char const* inputName, OptProfileSelector select) const noexcept {
    Range const* const range = inputName ? find(inputName) : nullptr;
    return range && range->is_set[static_cast<int32_t>(select)] ? range->shapes[static_cast<int32_t>(select)]
                                                                : stand_in::no_dims();
  }
  // Inputs whose values are shapes are not told by a profile: False where some are given. Null: there are none.
  bool setShapeValues(char const*, OptProfileSelector, int32_t const*, int32_t nbValues) noexcept {
    return nbValues == 0;
  }
  int32_t getNbShapeValues(char const*) const noexcept { return -1; }
  int32_t const* getShapeValues(char const*, OptProfileSelector) const noexcept { return nullptr; }
  // Kept, and read back: a session takes the memory that its shapes need.
  bool setExtraMemoryTarget(float target) noexcept {
    if (!(target >= 0 && target <= 1)) return false;
    extra_memory_ = target;
    return true;
  }
  float getExtraMemoryTarget() const noexcept { return extra_memory_; }
  // Every input that is named has all three.
  bool isValid() const noexcept {
    for (Range const& range : ranges_)
      for (bool const set : range.is_set)
        if (!set) return false;
    return true;
  }

  struct Range {
    std::string input;
    Dims shapes[3];  // by OptProfileSelector
    bool is_set[3];
    bool is_consistent() const noexcept {
      for (int32_t low = 0; low < 2; ++low)
        for (int32_t high = low + 1; high < 3; ++high) {
          if (!is_set[low] || !is_set[high]) continue;
          if (shapes[low].nbDims != shapes[high].nbDims) return false;
          for (int32_t i = 0; i < shapes[low].nbDims; ++i)
            if (shapes[low].d[i] > shapes[high].d[i]) return false;
        }
      return true;
    }
  };
  std::vector<Range> const& ranges() const noexcept { return ranges_; }

 protected:
  IOptimizationProfile() = default;
  virtual ~IOptimizationProfile() = default;

 private:
  std::vector<Range> ranges_;
  float extra_memory_ = 1;
  Range const* find(char const* input) const noexcept {
    for (Range const& range : ranges_)
      if (range.input == input) return &range;
    return nullptr;
  }
};

// The logger lives as long as what is made with it.
inline IRuntime* createInferRuntime(ILogger& logger) noexcept { return new IRuntime(logger); }
// Null, with an error in the log, for an engine that was not built with BuilderFlag::kREFIT.
inline IRefitter* createInferRefitter(ICudaEngine& engine, ILogger& logger) noexcept {
  std::unique_ptr<IRefitter> made(new IRefitter(engine, logger));
  return made->native() ? made.release() : nullptr;
}

}  // namespace nvinfer1
