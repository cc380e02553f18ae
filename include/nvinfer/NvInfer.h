// SPDX-License-Identifier: Apache-2.0
// Building engines from ONNX: IBuilder, IBuilderConfig, INetworkDefinition, calibrators. Temper's own text, for
// programs that were written for TensorRT; docs/tensorrt-cpp.md says what is there. What is not does not compile, or is
// refused by name when it is asked for.
#pragma once
#include <initializer_list>
#include <memory>
#include <vector>

#include "NvInferLayers.h"

namespace nvinfer1 {

enum class NetworkDefinitionCreationFlag : int32_t {
#if TEMPER_NVINFER_API < 1000
  kEXPLICIT_BATCH = 0,
  kSTRONGLY_TYPED = 2,  // Temper's own number: the release does not have it
#elif TEMPER_NVINFER_API < 1100
  kEXPLICIT_BATCH = 0,
  kSTRONGLY_TYPED = 1,
#else
  kSTRONGLY_TYPED = 0,  // in any case
#endif
};
using NetworkDefinitionCreationFlags = uint32_t;

// Those of precisions are permissions. What asks for something that is not in Temper ends the build by name. Releases
// have numbers of their own (src/nvinfer/flags.cc).
enum class BuilderFlag : int32_t {
#if TEMPER_NVINFER_API < 1000
  kFP16 = 0,
  kINT8 = 1,
  kDEBUG = 2,
  kGPU_FALLBACK = 3,
  kSTRICT_TYPES = 4,
  kREFIT = 5,
  kDISABLE_TIMING_CACHE = 6,
  kTF32 = 7,
  kSPARSE_WEIGHTS = 8,
  kSAFETY_SCOPE = 9,
  kOBEY_PRECISION_CONSTRAINTS = 10,
  kPREFER_PRECISION_CONSTRAINTS = 11,
  kDIRECT_IO = 12,
  kREJECT_EMPTY_ALGORITHMS = 13,
  kENABLE_TACTIC_HEURISTIC = 14,
  kVERSION_COMPATIBLE = 15,
  kEXCLUDE_LEAN_RUNTIME = 16,
  kFP8 = 17,
  kBF16 = 18,  // Temper's own number: the release does not have it
#elif TEMPER_NVINFER_API < 1100
  kFP16 = 0,
  kINT8 = 1,
  kDEBUG = 2,
  kGPU_FALLBACK = 3,
  kREFIT = 4,
  kDISABLE_TIMING_CACHE = 5,
  kTF32 = 6,
  kSPARSE_WEIGHTS = 7,
  kSAFETY_SCOPE = 8,
  kOBEY_PRECISION_CONSTRAINTS = 9,
  kPREFER_PRECISION_CONSTRAINTS = 10,
  kDIRECT_IO = 11,
  kREJECT_EMPTY_ALGORITHMS = 12,
  kVERSION_COMPATIBLE = 13,
  kEXCLUDE_LEAN_RUNTIME = 14,
  kFP8 = 15,
  kERROR_ON_TIMING_CACHE_MISS = 16,
  kBF16 = 17,
  kDISABLE_COMPILATION_CACHE = 18,
  kSTRIP_PLAN = 19,
  kWEIGHT_STREAMING = 21,
#else
  kDEBUG = 2,
  kGPU_FALLBACK = 3,
  kREFIT = 4,
  kDISABLE_TIMING_CACHE = 5,
  kTF32 = 6,
  kSPARSE_WEIGHTS = 7,
  kSAFETY_SCOPE = 8,
  kDIRECT_IO = 11,
  kVERSION_COMPATIBLE = 12,
  kEXCLUDE_LEAN_RUNTIME = 13,
  kERROR_ON_TIMING_CACHE_MISS = 15,
  kDISABLE_COMPILATION_CACHE = 17,
  kSTRIP_PLAN = 18,
  kWEIGHT_STREAMING = 20,
#endif
};
using BuilderFlags = uint32_t;

enum class MemoryPoolType : int32_t {
  kWORKSPACE = 0,
  kDLA_MANAGED_SRAM = 1,
  kDLA_LOCAL_DRAM = 2,
  kDLA_GLOBAL_DRAM = 3,
  kTACTIC_DRAM = 4,
#if TEMPER_NVINFER_API >= 1000
  kTACTIC_SHARED_MEMORY = 5,
#endif
};
// What is being tried out in TensorRT; it is kept, and changes nothing here.
enum class PreviewFeature : int32_t {
#if TEMPER_NVINFER_API < 1000
  kFASTER_DYNAMIC_SHAPES_0805 = 0,
  kDISABLE_EXTERNAL_TACTIC_SOURCES_FOR_CORE_0805 = 1,
  kPROFILE_SHARING_0806 = 2,
#elif TEMPER_NVINFER_API < 1100
  kPROFILE_SHARING_0806 = 0,
  kALIASED_PLUGIN_IO_10_03 = 1,
  kRUNTIME_ACTIVATION_RESIZE_10_10 = 2,
#else
  kALIASED_PLUGIN_IO_10_03 = 0,
  kRUNTIME_ACTIVATION_RESIZE_10_10 = 1,
#endif
};
#if TEMPER_NVINFER_API < 1100
enum class QuantizationFlag : int32_t { kCALIBRATE_BEFORE_FUSION = 0 };
using QuantizationFlags = uint32_t;
#endif
#if TEMPER_NVINFER_API >= 1000
// A plan is for the machine that it was measured on: a build for another platform is refused.
enum class RuntimePlatform : int32_t { kSAME_AS_BUILD = 0, kWINDOWS_AMD64 = 1 };
enum class TilingOptimizationLevel : int32_t { kNONE = 0, kFAST = 1, kMODERATE = 2, kFULL = 3 };
#endif
template <>
constexpr int32_t EnumMax<MemoryPoolType>() noexcept {
  return TEMPER_NVINFER_API < 1000 ? 5 : 6;
}

class IBuilder;

namespace stand_in {
struct Profile final : IOptimizationProfile {};
#if TEMPER_NVINFER_API >= 1000
using Count = int64_t;
#else
using Count = int32_t;
#endif
}  // namespace stand_in

// A network, which a parser fills, or the program layer by layer. What cannot be added is null, with an error in the
// log. Layers and tensors belong to it, and live until it is filled by a parser.
class INetworkDefinition : public stand_in::Recorded {
 public:
  INetworkDefinition(IBuilder& builder, stand_in::Lines const& lines, NetworkDefinitionCreationFlags flags)
      : Recorded(lines),
        builder_(builder),
#if TEMPER_NVINFER_API >= 1000
        flags_(flags),
#endif
        network_(temper_nv_network_new(flags, TEMPER_NVINFER_API, lines_.log()), lines_.log()) {
  }

  IBuilder& getBuilder() const noexcept { return builder_; }
  char const* getName() const noexcept { return temper_nv_network_name(network_.native); }
  void setName(char const* name) noexcept { temper_nv_network_set_name(network_.native, name); }
  int32_t getNbLayers() const noexcept { return temper_nv_network_layers(network_.native); }
  int32_t getNbInputs() const noexcept { return temper_nv_network_inputs(network_.native); }
  int32_t getNbOutputs() const noexcept { return temper_nv_network_outputs(network_.native); }
  // Null for an index that there is not.
  ILayer* getLayer(int32_t index) const noexcept { return network_.layer(index); }
  ITensor* getInput(int32_t index) const noexcept {
    return network_.tensor(temper_nv_network_input(network_.native, index));
  }
  ITensor* getOutput(int32_t index) const noexcept {
    return network_.tensor(temper_nv_network_output(network_.native, index));
  }
#if TEMPER_NVINFER_API < 1100
  bool hasImplicitBatchDimension() const noexcept { return false; }
#endif
#if TEMPER_NVINFER_API >= 1000
  NetworkDefinitionCreationFlags getFlags() const noexcept { return flags_; }
  bool getFlag(NetworkDefinitionCreationFlag flag) const noexcept { return flags_ >> static_cast<int32_t>(flag) & 1; }
#endif

  ITensor* addInput(char const* name, DataType type, Dims const& dimensions) noexcept {
    stand_in::Wide const wide(dimensions);
    return network_.tensor(
        temper_nv_network_add_input(network_.native, name, static_cast<int32_t>(type), wide.d, wide.rank));
  }
  void markOutput(ITensor& tensor) noexcept { temper_nv_network_mark(network_.native, tensor.number_in(network_), 1); }
  void unmarkOutput(ITensor& tensor) noexcept {
    temper_nv_network_mark(network_.native, tensor.number_in(network_), 0);
  }

  IConvolutionLayer* addConvolutionNd(ITensor& input, stand_in::Count nbOutputMaps, Dims const& kernelSize,
                                      Weights kernelWeights, Weights biasWeights) noexcept {
    IConvolutionLayer* const layer = add<IConvolutionLayer>("CONVOLUTION", {&input});
    if (layer) {
      layer->put_int("maps", nbOutputMaps);
      layer->put_dims("kernel_size", kernelSize);
      layer->put_weights("kernel", kernelWeights);
      layer->put_weights("bias", biasWeights);
    }
    return layer;
  }
  IDeconvolutionLayer* addDeconvolutionNd(ITensor& input, stand_in::Count nbOutputMaps, Dims const& kernelSize,
                                          Weights kernelWeights, Weights biasWeights) noexcept {
    IDeconvolutionLayer* const layer = add<IDeconvolutionLayer>("DECONVOLUTION", {&input});
    if (layer) {
      layer->put_int("maps", nbOutputMaps);
      layer->put_dims("kernel_size", kernelSize);
      layer->put_weights("kernel", kernelWeights);
      layer->put_weights("bias", biasWeights);
    }
    return layer;
  }
  IPoolingLayer* addPoolingNd(ITensor& input, PoolingType type, Dims const& windowSize) noexcept {
    IPoolingLayer* const layer = add<IPoolingLayer>("POOLING", {&input});
    if (layer) {
      layer->put_enum("operation", type);
      layer->put_dims("window", windowSize);
    }
    return layer;
  }
  IActivationLayer* addActivation(ITensor& input, ActivationType type) noexcept {
    IActivationLayer* const layer = add<IActivationLayer>("ACTIVATION", {&input});
    if (layer) { layer->put_enum("operation", type); }
    return layer;
  }
  ILRNLayer* addLRN(ITensor& input, int64_t window, float alpha, float beta, float k) noexcept {
    ILRNLayer* const layer = add<ILRNLayer>("LRN", {&input});
    if (layer) {
      layer->put_int("window", window);
      layer->put_real("alpha", static_cast<double>(alpha));
      layer->put_real("beta", static_cast<double>(beta));
      layer->put_real("k", static_cast<double>(k));
    }
    return layer;
  }
  IScaleLayer* addScaleNd(ITensor& input, ScaleMode mode, Weights shift, Weights scale, Weights power,
                          int32_t channelAxis) noexcept {
    IScaleLayer* const layer = add<IScaleLayer>("SCALE", {&input});
    if (layer) {
      layer->put_enum("mode", mode);
      layer->put_weights("shift", shift);
      layer->put_weights("scale", scale);
      layer->put_weights("power", power);
      layer->put_int("channel_axis", channelAxis);
    }
    return layer;
  }
  ISoftMaxLayer* addSoftMax(ITensor& input) noexcept { return add<ISoftMaxLayer>("SOFTMAX", {&input}); }
  IElementWiseLayer* addElementWise(ITensor& input1, ITensor& input2, ElementWiseOperation op) noexcept {
    IElementWiseLayer* const layer = add<IElementWiseLayer>("ELEMENTWISE", {&input1, &input2});
    if (layer) { layer->put_enum("operation", op); }
    return layer;
  }
  IUnaryLayer* addUnary(ITensor& input, UnaryOperation operation) noexcept {
    IUnaryLayer* const layer = add<IUnaryLayer>("UNARY", {&input});
    if (layer) { layer->put_enum("operation", operation); }
    return layer;
  }
  IPaddingLayer* addPaddingNd(ITensor& input, Dims const& prePadding, Dims const& postPadding) noexcept {
    IPaddingLayer* const layer = add<IPaddingLayer>("PADDING", {&input});
    if (layer) {
      layer->put_dims("pre_padding", prePadding);
      layer->put_dims("post_padding", postPadding);
    }
    return layer;
  }
  IShuffleLayer* addShuffle(ITensor& input) noexcept { return add<IShuffleLayer>("SHUFFLE", {&input}); }
  IReduceLayer* addReduce(ITensor& input, ReduceOperation operation, uint32_t reduceAxes,
                          bool keepDimensions) noexcept {
    IReduceLayer* const layer = add<IReduceLayer>("REDUCE", {&input});
    if (layer) {
      layer->put_enum("operation", operation);
      layer->put_int("axes", reduceAxes);
      layer->put_int("keep", keepDimensions);
    }
    return layer;
  }
  ITopKLayer* addTopK(ITensor& input, TopKOperation op, int32_t k, uint32_t reduceAxes) noexcept {
    ITopKLayer* const layer = add<ITopKLayer>("TOPK", {&input});
    if (layer) {
      layer->put_enum("operation", op);
      layer->put_int("k", k);
      layer->put_int("axes", reduceAxes);
    }
    return layer;
  }
  IGatherLayer* addGather(ITensor& data, ITensor& indices, int32_t axis) noexcept {
    IGatherLayer* const layer = add<IGatherLayer>("GATHER", {&data, &indices});
    if (layer) { layer->put_int("axis", axis); }
    return layer;
  }
  IGatherLayer* addGatherV2(ITensor& data, ITensor& indices, GatherMode mode) noexcept {
    IGatherLayer* const layer = add<IGatherLayer>("GATHER", {&data, &indices});
    if (layer) { layer->put_enum("mode", mode); }
    return layer;
  }
  IScatterLayer* addScatter(ITensor& data, ITensor& indices, ITensor& updates, ScatterMode mode) noexcept {
    IScatterLayer* const layer = add<IScatterLayer>("SCATTER", {&data, &indices, &updates});
    if (layer) { layer->put_enum("mode", mode); }
    return layer;
  }
  IMatrixMultiplyLayer* addMatrixMultiply(ITensor& input0, MatrixOperation op0, ITensor& input1,
                                          MatrixOperation op1) noexcept {
    IMatrixMultiplyLayer* const layer = add<IMatrixMultiplyLayer>("MATRIX_MULTIPLY", {&input0, &input1});
    if (layer) {
      layer->put_enum("operation0", op0);
      layer->put_enum("operation1", op1);
    }
    return layer;
  }
  IConstantLayer* addConstant(Dims const& dimensions, Weights weights) noexcept {
    IConstantLayer* const layer = add<IConstantLayer>("CONSTANT", {});
    if (layer) {
      layer->put_dims("dims", dimensions);
      layer->put_weights("weights", weights);
    }
    return layer;
  }
  IIdentityLayer* addIdentity(ITensor& input) noexcept { return add<IIdentityLayer>("IDENTITY", {&input}); }
  ICastLayer* addCast(ITensor& input, DataType toType) noexcept {
    ICastLayer* const layer = add<ICastLayer>("CAST", {&input});
    if (layer) { layer->put_enum("to", toType); }
    return layer;
  }
  ISliceLayer* addSlice(ITensor& input, Dims const& start, Dims const& size, Dims const& stride) noexcept {
    ISliceLayer* const layer = add<ISliceLayer>("SLICE", {&input});
    if (layer) {
      layer->put_dims("start", start);
      layer->put_dims("size", size);
      layer->put_dims("stride", stride);
    }
    return layer;
  }
  IShapeLayer* addShape(ITensor& input) noexcept { return add<IShapeLayer>("SHAPE", {&input}); }
  IParametricReLULayer* addParametricReLU(ITensor& input, ITensor& slope) noexcept {
    return add<IParametricReLULayer>("PARAMETRIC_RELU", {&input, &slope});
  }
  ISelectLayer* addSelect(ITensor& condition, ITensor& thenInput, ITensor& elseInput) noexcept {
    return add<ISelectLayer>("SELECT", {&condition, &thenInput, &elseInput});
  }
  IResizeLayer* addResize(ITensor& input) noexcept { return add<IResizeLayer>("RESIZE", {&input}); }
  IQuantizeLayer* addQuantize(ITensor& input, ITensor& scale) noexcept {
    return add<IQuantizeLayer>("QUANTIZE", {&input, &scale});
  }
  IDequantizeLayer* addDequantize(ITensor& input, ITensor& scale) noexcept {
    return add<IDequantizeLayer>("DEQUANTIZE", {&input, &scale});
  }
  IOneHotLayer* addOneHot(ITensor& indices, ITensor& values, ITensor& depth, int32_t axis) noexcept {
    IOneHotLayer* const layer = add<IOneHotLayer>("ONE_HOT", {&indices, &values, &depth});
    if (layer) { layer->put_int("axis", axis); }
    return layer;
  }
  INonZeroLayer* addNonZero(ITensor& input) noexcept { return add<INonZeroLayer>("NON_ZERO", {&input}); }
  IGridSampleLayer* addGridSample(ITensor& input, ITensor& grid) noexcept {
    return add<IGridSampleLayer>("GRID_SAMPLE", {&input, &grid});
  }
  INMSLayer* addNMS(ITensor& boxes, ITensor& scores, ITensor& maxOutputBoxesPerClass) noexcept {
    return add<INMSLayer>("NMS", {&boxes, &scores, &maxOutputBoxesPerClass});
  }
  INormalizationLayer* addNormalization(ITensor& input, ITensor& scale, ITensor& bias, uint32_t axesMask) noexcept {
    INormalizationLayer* const layer = add<INormalizationLayer>("NORMALIZATION", {&input, &scale, &bias});
    if (layer) { layer->put_int("axes", axesMask); }
    return layer;
  }
  IReverseSequenceLayer* addReverseSequence(ITensor& input, ITensor& sequenceLens) noexcept {
    return add<IReverseSequenceLayer>("REVERSE_SEQUENCE", {&input, &sequenceLens});
  }
  IFillLayer* addFill(Dims const& dimensions, FillOperation op) noexcept {
    IFillLayer* const layer = add<IFillLayer>("FILL", {});
    if (layer) {
      layer->put_dims("dims", dimensions);
      layer->put_enum("operation", op);
    }
    return layer;
  }
  IConcatenationLayer* addConcatenation(ITensor* const* inputs, int32_t nbInputs) noexcept {
    return add_of<IConcatenationLayer>("CONCATENATION", inputs, nbInputs);
  }
  IEinsumLayer* addEinsum(ITensor* const* inputs, int32_t nbInputs, char const* equation) noexcept {
    IEinsumLayer* const layer = add_of<IEinsumLayer>("EINSUM", inputs, nbInputs);
    if (layer) layer->setEquation(equation);
    return layer;
  }
#if TEMPER_NVINFER_API >= 1000
  IFillLayer* addFill(Dims const& dimensions, FillOperation op, DataType outputType) noexcept {
    IFillLayer* const layer = add<IFillLayer>("FILL", {});
    if (layer) {
      layer->put_dims("dims", dimensions);
      layer->put_enum("operation", op);
      layer->put_enum("to", outputType);
    }
    return layer;
  }
  ISqueezeLayer* addSqueeze(ITensor& input, ITensor& axes) noexcept {
    return add<ISqueezeLayer>("SQUEEZE", {&input, &axes});
  }
  IUnsqueezeLayer* addUnsqueeze(ITensor& input, ITensor& axes) noexcept {
    return add<IUnsqueezeLayer>("UNSQUEEZE", {&input, &axes});
  }
  ICumulativeLayer* addCumulative(ITensor& input, ITensor& axis, CumulativeOperation, bool exclusive,
                                  bool reverse) noexcept {
    ICumulativeLayer* const layer = add<ICumulativeLayer>("CUMULATIVE", {&input, &axis});
    if (layer) {
      layer->put_int("exclusive", exclusive);
      layer->put_int("reverse", reverse);
    }
    return layer;
  }
#else
  IConvolutionLayer* addConvolution(ITensor& input, int32_t nbOutputMaps, DimsHW kernelSize, Weights kernelWeights,
                                    Weights biasWeights) noexcept {
    return addConvolutionNd(input, nbOutputMaps, kernelSize, kernelWeights, biasWeights);
  }
  IDeconvolutionLayer* addDeconvolution(ITensor& input, int32_t nbOutputMaps, DimsHW kernelSize, Weights kernelWeights,
                                        Weights biasWeights) noexcept {
    return addDeconvolutionNd(input, nbOutputMaps, kernelSize, kernelWeights, biasWeights);
  }
  IPoolingLayer* addPooling(ITensor& input, PoolingType type, DimsHW windowSize) noexcept {
    return addPoolingNd(input, type, windowSize);
  }
  IPaddingLayer* addPadding(ITensor& input, DimsHW prePadding, DimsHW postPadding) noexcept {
    return addPaddingNd(input, prePadding, postPadding);
  }
  IFullyConnectedLayer* addFullyConnected(ITensor& input, int32_t nbOutputs, Weights kernelWeights,
                                          Weights biasWeights) noexcept {
    IFullyConnectedLayer* const layer = add<IFullyConnectedLayer>("FULLY_CONNECTED", {&input});
    if (layer) {
      layer->put_int("maps", nbOutputs);
      layer->put_weights("kernel", kernelWeights);
      layer->put_weights("bias", biasWeights);
    }
    return layer;
  }
#endif
  IScaleLayer* addScale(ITensor& input, ScaleMode mode, Weights shift, Weights scale, Weights power) noexcept {
    return addScaleNd(input, mode, shift, scale, power, 1);
  }

  // For the parser and the builder.
  temper_nv_network* native() const noexcept { return network_.native; }
  void filled() noexcept { network_.forget(); }

 private:
  IBuilder& builder_;
#if TEMPER_NVINFER_API >= 1000
  NetworkDefinitionCreationFlags flags_;
#endif
  mutable stand_in::Network network_;

  template <class Layer>
  Layer* add_of(char const* type, ITensor const* const* inputs, int32_t count) noexcept {
    std::vector<int32_t> numbers;
    for (int32_t i = 0; i < count; ++i) numbers.push_back(inputs[i] ? inputs[i]->number_in(network_) : -1);
    return static_cast<Layer*>(
        network_.layer(temper_nv_network_add_layer(network_.native, type, numbers.data(), count)));
  }
  template <class Layer>
  Layer* add(char const* type, std::initializer_list<ITensor const*> inputs) noexcept {
    return add_of<Layer>(type, inputs.begin(), static_cast<int32_t>(inputs.size()));
  }
};

// Measured times, which builds read and extend.
class ITimingCache : public stand_in::Object {
 public:
  explicit ITimingCache(temper_nv_timings* timings) noexcept : timings_(timings) {}
  ~ITimingCache() override { temper_nv_timings_free(timings_); }
  IHostMemory* serialize() const noexcept { return new IHostMemory(temper_nv_timings_bytes(timings_)); }
  bool combine(ITimingCache const& inputCache, bool) noexcept {
    temper_nv_timings_add(timings_, inputCache.timings_);
    return true;
  }
  temper_nv_timings* native() const noexcept { return timings_; }

 private:
  temper_nv_timings* timings_;
};

#if TEMPER_NVINFER_API < 1100
enum class CalibrationAlgoType : int32_t {
  kLEGACY_CALIBRATION = 0,
  kENTROPY_CALIBRATION = 1,
  kENTROPY_CALIBRATION_2 = 2,
  kMINMAX_CALIBRATION = 3,
};

// The program's own: it gives batches by their addresses, and keeps a cache.
class IInt8Calibrator {
 public:
  // A batch has the shapes of the network, or of a profile's optimum, whatever this says.
  virtual int32_t getBatchSize() const noexcept = 0;
  // False where there is no further batch.
  virtual bool getBatch(void* bindings[], char const* names[], int32_t nbBindings) noexcept = 0;
  // Null where there is none.
  virtual void const* readCalibrationCache(std::size_t& length) noexcept = 0;
  virtual void writeCalibrationCache(void const* ptr, std::size_t length) noexcept = 0;
  virtual CalibrationAlgoType getAlgorithm() noexcept = 0;
  virtual ~IInt8Calibrator() = default;
};
class IInt8EntropyCalibrator2 : public IInt8Calibrator {
 public:
  CalibrationAlgoType getAlgorithm() noexcept override { return CalibrationAlgoType::kENTROPY_CALIBRATION_2; }
};
class IInt8EntropyCalibrator : public IInt8Calibrator {
 public:
  CalibrationAlgoType getAlgorithm() noexcept override { return CalibrationAlgoType::kENTROPY_CALIBRATION; }
};
class IInt8MinMaxCalibrator : public IInt8Calibrator {
 public:
  CalibrationAlgoType getAlgorithm() noexcept override { return CalibrationAlgoType::kMINMAX_CALIBRATION; }
};

namespace stand_in {
inline temper_nv_calibrator calibrator_of(IInt8Calibrator& calibrator) noexcept {
  return {&calibrator, static_cast<int32_t>(calibrator.getAlgorithm()),
          [](void* self, std::size_t* size) -> void const* {
            return static_cast<IInt8Calibrator*>(self)->readCalibrationCache(*size);
          },
          [](void* self, void const* cache, std::size_t size) {
            static_cast<IInt8Calibrator*>(self)->writeCalibrationCache(cache, size);
          },
          [](void* self, void** addresses, char const** names, int32_t count) -> int32_t {
            return static_cast<IInt8Calibrator*>(self)->getBatch(addresses, names, count);
          }};
}
}  // namespace stand_in
#endif

// The program's own: told of a build's phases, which lie inside each other; `parentPhase` is null for the outermost.
class IProgressMonitor {
 public:
  virtual void phaseStart(char const* phaseName, char const* parentPhase, int32_t nbSteps) noexcept = 0;
  virtual bool stepComplete(char const* phaseName, int32_t step) noexcept = 0;  // false ends the build
  virtual void phaseFinish(char const* phaseName) noexcept = 0;
  virtual ~IProgressMonitor() noexcept = default;
};

namespace stand_in {
inline temper_nv_monitor monitor_of(IProgressMonitor* monitor) noexcept {
  return {monitor,
          [](void* self, char const* phase, char const* parent, int32_t steps) {
            static_cast<IProgressMonitor*>(self)->phaseStart(phase, parent, steps);
          },
          [](void* self, char const* phase, int32_t step) -> int32_t {
            return static_cast<IProgressMonitor*>(self)->stepComplete(phase, step);
          },
          [](void* self, char const* phase) { static_cast<IProgressMonitor*>(self)->phaseFinish(phase); }};
}
}  // namespace stand_in

// What a build is to do.
class IBuilderConfig : public stand_in::Object {
 public:
  explicit IBuilderConfig(stand_in::Lines const& lines) noexcept : lines_(lines) {}

  void setFlag(BuilderFlag builderFlag) noexcept { flags_ |= 1u << static_cast<uint32_t>(builderFlag); }
  void clearFlag(BuilderFlag builderFlag) noexcept { flags_ &= ~(1u << static_cast<uint32_t>(builderFlag)); }
  bool getFlag(BuilderFlag builderFlag) const noexcept { return flags_ >> static_cast<uint32_t>(builderFlag) & 1; }
  void setFlags(BuilderFlags builderFlags) noexcept { flags_ = builderFlags; }
  BuilderFlags getFlags() const noexcept { return flags_; }

  // Bytes. Only the workspace's is a limit: the other pools are of hardware that there is not.
  void setMemoryPoolLimit(MemoryPoolType pool, std::size_t poolSize) noexcept {
    pools_[static_cast<int32_t>(pool)] = poolSize, has_limit_[static_cast<int32_t>(pool)] = true;
  }
  std::size_t getMemoryPoolLimit(MemoryPoolType pool) const noexcept { return pools_[static_cast<int32_t>(pool)]; }

  // -1, with an error in the log, for one that is not valid.
  int32_t addOptimizationProfile(IOptimizationProfile const* profile) noexcept {
    if (!profile || !profile->isValid()) {
      lines_.error("addOptimizationProfile: the profile lacks shapes");
      return -1;
    }
    profiles_.push_back(profile);
    return static_cast<int32_t>(profiles_.size()) - 1;
  }
  int32_t getNbOptimizationProfiles() const noexcept { return static_cast<int32_t>(profiles_.size()); }

#if TEMPER_NVINFER_API < 1100
  void setInt8Calibrator(IInt8Calibrator* calibrator) noexcept { calibrator_ = calibrator; }
  IInt8Calibrator* getInt8Calibrator() const noexcept { return calibrator_; }
  // Its optimum is the shape of a calibrator's batches; without one, that of the first profile is.
  bool setCalibrationProfile(IOptimizationProfile const* profile) noexcept {
    calibration_profile_ = profile;
    return profile && profile->isValid();
  }
  IOptimizationProfile const* getCalibrationProfile() noexcept { return calibration_profile_; }
#endif

  // What is no cache, such as one of TensorRT, gives an empty one with a warning.
  ITimingCache* createTimingCache(void const* blob, std::size_t size) const noexcept {
    return new ITimingCache(temper_nv_timings_new(blob, size, lines_.log()));
  }
  bool setTimingCache(ITimingCache const& cache, bool) noexcept {
    cache_ = &cache;
    return true;
  }
  ITimingCache const* getTimingCache() const noexcept { return cache_; }

  void setProgressMonitor(IProgressMonitor* monitor) noexcept { monitor_ = monitor; }
  IProgressMonitor* getProgressMonitor() const noexcept { return monitor_; }

  // What follows is kept and read back, and a build is the same with it.
  void setProfileStream(cudaStream_t stream) noexcept { stream_ = stream; }
  cudaStream_t getProfileStream() const noexcept { return stream_; }
  void setBuilderOptimizationLevel(int32_t level) noexcept { level_ = level; }
  int32_t getBuilderOptimizationLevel() noexcept { return level_; }
  void setAvgTimingIterations(int32_t avgTiming) noexcept { avg_timing_ = avgTiming; }
  int32_t getAvgTimingIterations() const noexcept { return avg_timing_; }
  void setProfilingVerbosity(ProfilingVerbosity verbosity) noexcept { verbosity_ = verbosity; }
  ProfilingVerbosity getProfilingVerbosity() const noexcept { return verbosity_; }
  void setMaxAuxStreams(int32_t nbStreams) noexcept { aux_streams_ = nbStreams; }
  int32_t getMaxAuxStreams() const noexcept { return aux_streams_; }

  bool setTacticSources(TacticSources tacticSources) noexcept {
    sources_ = tacticSources;
    return true;
  }
  TacticSources getTacticSources() const noexcept { return sources_; }
  void setPreviewFeature(PreviewFeature feature, bool enable) noexcept {
    uint32_t const bit = 1u << static_cast<uint32_t>(feature);
    features_ = enable ? features_ | bit : features_ & ~bit;
  }
  bool getPreviewFeature(PreviewFeature feature) const noexcept {
    return features_ >> static_cast<uint32_t>(feature) & 1;
  }
#if TEMPER_NVINFER_API < 1100
  void setQuantizationFlags(QuantizationFlags flags) noexcept { quantization_ = flags; }
  QuantizationFlags getQuantizationFlags() const noexcept { return quantization_; }
  void setQuantizationFlag(QuantizationFlag flag) noexcept { quantization_ |= 1u << static_cast<uint32_t>(flag); }
  void clearQuantizationFlag(QuantizationFlag flag) noexcept { quantization_ &= ~(1u << static_cast<uint32_t>(flag)); }
  bool getQuantizationFlag(QuantizationFlag flag) const noexcept {
    return quantization_ >> static_cast<uint32_t>(flag) & 1;
  }
#endif
#if TEMPER_NVINFER_API >= 1000
  bool setTilingOptimizationLevel(TilingOptimizationLevel level) noexcept {
    tiling_ = level;
    return true;
  }
  TilingOptimizationLevel getTilingOptimizationLevel() const noexcept { return tiling_; }
  bool setL2LimitForTiling(int64_t size) noexcept {
    l2_limit_ = size;
    return true;
  }
  int64_t getL2LimitForTiling() const noexcept { return l2_limit_; }
  bool setMaxNbTactics(int32_t maxNbTactics) noexcept {
    max_tactics_ = maxNbTactics;
    return true;
  }
  int32_t getMaxNbTactics() const noexcept { return max_tactics_; }
#endif

  // A build for another machine, for DLA, or for a capability other than kSTANDARD, is refused by name.
  void setHardwareCompatibilityLevel(HardwareCompatibilityLevel level) noexcept { compatibility_ = level; }
  HardwareCompatibilityLevel getHardwareCompatibilityLevel() const noexcept { return compatibility_; }
#if TEMPER_NVINFER_API >= 1000
  void setRuntimePlatform(RuntimePlatform platform) noexcept { platform_ = platform; }
  RuntimePlatform getRuntimePlatform() const noexcept { return platform_; }
#endif
  // Of a single layer: one for DLA makes the build one.
  void setDeviceType(ILayer const* layer, DeviceType deviceType) noexcept { layer_types_[layer] = deviceType; }
  DeviceType getDeviceType(ILayer const* layer) const noexcept {
    auto const found = layer_types_.find(layer);
    return found == layer_types_.end() ? device_type_ : found->second;
  }
  bool isDeviceTypeSet(ILayer const* layer) const noexcept { return layer_types_.count(layer) != 0; }
  void resetDeviceType(ILayer const* layer) noexcept { layer_types_.erase(layer); }
  bool canRunOnDLA(ILayer const*) const noexcept { return false; }
  void setDefaultDeviceType(DeviceType deviceType) noexcept { device_type_ = deviceType; }
  DeviceType getDefaultDeviceType() const noexcept { return device_type_; }
  void setDLACore(int32_t dlaCore) noexcept { dla_core_ = dlaCore; }
  int32_t getDLACore() const noexcept { return dla_core_; }
  void setEngineCapability(EngineCapability capability) noexcept { capability_ = capability; }
  EngineCapability getEngineCapability() const noexcept { return capability_; }

#if TEMPER_NVINFER_API < 1000
  void setMaxWorkspaceSize(std::size_t workspaceSize) noexcept {
    setMemoryPoolLimit(MemoryPoolType::kWORKSPACE, workspaceSize);
  }
  std::size_t getMaxWorkspaceSize() const noexcept { return getMemoryPoolLimit(MemoryPoolType::kWORKSPACE); }
  void setMinTimingIterations(int32_t minTiming) noexcept { min_timing_ = minTiming; }
  int32_t getMinTimingIterations() const noexcept { return min_timing_; }
#endif

  // A plan of the network by this; null, with an error in the log, where it cannot be built.
  temper_nv_bytes* build(INetworkDefinition const& network, temper_nv_log log) const {
    std::vector<temper_nv_range> ranges;
    for (std::size_t p = 0; p < profiles_.size(); ++p) append(ranges, static_cast<int32_t>(p), *profiles_[p]);
#if TEMPER_NVINFER_API < 1100
    if (calibration_profile_) append(ranges, -1, *calibration_profile_);
    temper_nv_calibrator const asked = calibrator_ ? stand_in::calibrator_of(*calibrator_) : temper_nv_calibrator{};
    temper_nv_calibrator const* const calibrator = calibrator_ ? &asked : nullptr;
#else
    temper_nv_calibrator const* const calibrator = nullptr;
#endif
    temper_nv_config config{};
    config.device = stand_in::device();
    config.guarded = stand_in::kGuarded;
    config.flags = flags_;
    config.api = TEMPER_NVINFER_API;
    config.runs_on_dla = runs_on_dla();
    config.capability = static_cast<int32_t>(capability_);
    config.hardware_compatibility = static_cast<int32_t>(compatibility_);
#if TEMPER_NVINFER_API >= 1000
    config.platform = static_cast<int32_t>(platform_);
#endif
    config.workspace = has_limit_[0] ? static_cast<int64_t>(pools_[0]) : -1;
    config.ranges = ranges.data();
    config.range_count = static_cast<int32_t>(ranges.size());
    config.profile_count = static_cast<int32_t>(profiles_.size());
    config.timings = cache_ ? cache_->native() : nullptr;
    config.calibrator = calibrator;
    temper_nv_monitor const monitor = stand_in::monitor_of(monitor_);
    config.monitor = monitor_ ? &monitor : nullptr;
    return temper_nv_build(network.native(), &config, log);
  }

 private:
  stand_in::Lines lines_;
  BuilderFlags flags_ = 1u << static_cast<uint32_t>(BuilderFlag::kTF32);
  std::size_t pools_[6] = {};
  bool has_limit_[6] = {};
  std::vector<IOptimizationProfile const*> profiles_;
#if TEMPER_NVINFER_API < 1100
  IOptimizationProfile const* calibration_profile_ = nullptr;
  IInt8Calibrator* calibrator_ = nullptr;
#endif
  ITimingCache const* cache_ = nullptr;
  IProgressMonitor* monitor_ = nullptr;
  cudaStream_t stream_ = nullptr;
  int32_t level_ = 3, avg_timing_ = 1, aux_streams_ = 0, dla_core_ = -1;
#if TEMPER_NVINFER_API < 1000
  int32_t min_timing_ = 1;
#endif
  ProfilingVerbosity verbosity_ = ProfilingVerbosity::kLAYER_NAMES_ONLY;
  DeviceType device_type_ = DeviceType::kGPU;
  EngineCapability capability_ = EngineCapability::kSTANDARD;
  HardwareCompatibilityLevel compatibility_ = HardwareCompatibilityLevel::kNONE;
  std::map<ILayer const*, DeviceType> layer_types_;
  TacticSources sources_ = 0;
  uint32_t features_ = 0;
#if TEMPER_NVINFER_API < 1100
  QuantizationFlags quantization_ = 0;
#endif
#if TEMPER_NVINFER_API >= 1000
  RuntimePlatform platform_ = RuntimePlatform::kSAME_AS_BUILD;
  TilingOptimizationLevel tiling_ = TilingOptimizationLevel::kNONE;
  int64_t l2_limit_ = -1;
  int32_t max_tactics_ = -1;
#endif

  bool runs_on_dla() const noexcept {
    if (device_type_ == DeviceType::kDLA || dla_core_ >= 0) return true;
    for (auto const& each : layer_types_)
      if (each.second == DeviceType::kDLA) return true;
    return false;
  }
  static void append(std::vector<temper_nv_range>& ranges, int32_t profile, IOptimizationProfile const& from) {
    for (IOptimizationProfile::Range const& range : from.ranges()) {
      temper_nv_range to{};
      to.profile = profile;
      to.input = range.input.c_str();
      to.rank = range.shapes[0].nbDims;
      for (int32_t i = 0; i < to.rank; ++i)
        to.min[i] = range.shapes[0].d[i], to.opt[i] = range.shapes[1].d[i], to.max[i] = range.shapes[2].d[i];
      ranges.push_back(to);
    }
  }
};

#if TEMPER_NVINFER_API >= 1000
// The program's own: a plan is written to it. As many bytes as it took; the build fails where these are not all.
class IStreamWriter {
 public:
  virtual int64_t write(void const* data, int64_t nbBytes) = 0;
  IStreamWriter() = default;
  virtual ~IStreamWriter() = default;

 protected:
  IStreamWriter(IStreamWriter const&) = default;
  IStreamWriter(IStreamWriter&&) = default;
  IStreamWriter& operator=(IStreamWriter const&) & = default;
  IStreamWriter& operator=(IStreamWriter&&) & = default;
};
#endif

// Builds engines.
class IBuilder : public stand_in::Recorded {
 public:
  explicit IBuilder(ILogger& logger) noexcept : Recorded(logger) {}
  ILogger* getLogger() const noexcept { return &lines_.logger(); }
  // For the contexts of engines that it makes (buildEngineWithConfig), as IRuntime's; candidates are measured in memory
  // of Temper's own.
  void setGpuAllocator(IGpuAllocator* allocator) noexcept { allocator_ = allocator; }

  // The batch is always a dimension of the shapes.
  INetworkDefinition* createNetworkV2(NetworkDefinitionCreationFlags flags) noexcept {
    return new INetworkDefinition(*this, lines_, flags);
  }
  IBuilderConfig* createBuilderConfig() noexcept { return new IBuilderConfig(lines_); }
  // It lives as long as the builder.
  IOptimizationProfile* createOptimizationProfile() noexcept {
    profiles_.emplace_back(new stand_in::Profile);
    return profiles_.back().get();
  }
  // Null, with an error in the log, where it cannot be built.
  IHostMemory* buildSerializedNetwork(INetworkDefinition& network, IBuilderConfig& config) noexcept {
    temper_nv_bytes* const plan = config.build(network, lines_.log());
    return plan ? new IHostMemory(plan) : nullptr;
  }
#if TEMPER_NVINFER_API >= 1000
  bool buildSerializedNetworkToStream(INetworkDefinition& network, IBuilderConfig& config, IStreamWriter& writer) {
    std::unique_ptr<IHostMemory> const plan(buildSerializedNetwork(network, config));
    if (!plan) return false;
    int64_t const size = static_cast<int64_t>(plan->size());
    if (writer.write(plan->data(), size) == size) return true;
    lines_.error("buildSerializedNetworkToStream: the writer did not take every byte");
    return false;
  }
#endif
#if TEMPER_NVINFER_API < 1000
  ICudaEngine* buildEngineWithConfig(INetworkDefinition& network, IBuilderConfig& config) noexcept {
    std::unique_ptr<IHostMemory> const plan(buildSerializedNetwork(network, config));
    if (!plan) return nullptr;
    IRuntime runtime(lines_);
    runtime.setGpuAllocator(allocator_);
    return runtime.deserializeCudaEngine(plan->data(), plan->size());
  }
  void setMaxBatchSize(int32_t batchSize) noexcept {
    max_batch_ = batchSize;
  }  // of implicit batches, which there are none of
  int32_t getMaxBatchSize() const noexcept { return max_batch_; }
#endif
  // Whether a model was read, or an output marked.
  bool isNetworkSupported(INetworkDefinition const& network, IBuilderConfig const&) const noexcept {
    return temper_nv_network_is_filled(network.native()) != 0;
  }
  void reset() noexcept {}  // a builder keeps nothing
#if TEMPER_NVINFER_API < 1100
  bool platformHasFastFp16() const noexcept { return computes("fp16"); }
  bool platformHasFastInt8() const noexcept { return computes("int8"); }
#endif
  bool platformHasTf32() const noexcept { return computes("tf32"); }
  int32_t getNbDLACores() const noexcept { return 0; }
  int32_t getMaxDLABatchSize() const noexcept { return 0; }
  // Kept, and read back: a build uses as many threads as the process may.
  bool setMaxThreads(int32_t maxThreads) noexcept {
    if (maxThreads < 1) return false;
    threads_ = maxThreads;
    return true;
  }
  int32_t getMaxThreads() const noexcept { return threads_; }

 private:
  IGpuAllocator* allocator_ = nullptr;
  std::vector<std::unique_ptr<stand_in::Profile>> profiles_;
  int32_t threads_ = 1;
#if TEMPER_NVINFER_API < 1000
  int32_t max_batch_ = 1;
#endif

  bool computes(char const* precision) const noexcept {
    return temper_nv_computes(stand_in::device(), precision, lines_.log()) != 0;
  }
};

// The logger lives as long as what is made with it.
inline IBuilder* createInferBuilder(ILogger& logger) noexcept { return new IBuilder(logger); }

}  // namespace nvinfer1
