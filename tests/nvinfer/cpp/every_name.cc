// SPDX-License-Identifier: Apache-2.0
// A program that says every name that there is: it adds a layer of each kind, sets what layers and configurations are
// told and reads it back, and asks an engine and a context everything.
// usage: every_name MODEL.onnx
#include <NvInferPlugin.h>

#include <algorithm>
#include <initializer_list>

#include "common.h"

using namespace nvinfer1;

// Programs give masks of these as numbers, too.
constexpr int kRelease = NV_TENSORRT_MAJOR;
static_assert(int(BuilderFlag::kREFIT) == (kRelease < 10 ? 5 : 4) && int(BuilderFlag::kTF32) == (kRelease < 10 ? 7 : 6),
              "");
static_assert(int(BuilderFlag::kVERSION_COMPATIBLE) == (kRelease < 10 ? 15 : kRelease < 11 ? 13 : 12), "");
static_assert(int(NetworkDefinitionCreationFlag::kSTRONGLY_TYPED) == (kRelease < 10 ? 2 : kRelease < 11 ? 1 : 0), "");

static Dims dims(std::initializer_list<int> list) {
  Dims made{};
  for (int dim : list) made.d[made.nbDims++] = dim;
  return made;
}
static bool operator==(const Dims& a, const Dims& b) {
  if (a.nbDims != b.nbDims) return false;
  for (int i = 0; i < a.nbDims; ++i)
    if (a.d[i] != b.d[i]) return false;
  return true;
}
static bool operator==(const Weights& a, const Weights& b) {
  return a.type == b.type && a.count == b.count &&
         std::equal(static_cast<const float*>(a.values), static_cast<const float*>(a.values) + a.count,
                    static_cast<const float*>(b.values));
}
static bool operator==(const Permutation& a, const Permutation& b) {
  return std::equal(a.order, a.order + Dims::MAX_DIMS, b.order);
}
// What is set is what is read; it was something else before.
#define KEEPS(object, name, ...)                       \
  do {                                                 \
    EXPECT(!((object)->get##name() == (__VA_ARGS__))); \
    (object)->set##name(__VA_ARGS__);                  \
    EXPECT((object)->get##name() == (__VA_ARGS__));    \
  } while (0)
#define SHAPE(layer, ...) EXPECT((layer)->getOutput(0)->getDimensions() == dims({__VA_ARGS__}))

static const std::vector<float> kOnes(72, 1.f), kTwos(72, 2.f);
static Weights ones(int64_t count) { return {DataType::kFLOAT, kOnes.data(), count}; }
static Weights twos(int64_t count) { return {DataType::kFLOAT, kTwos.data(), count}; }

static void convolve(INetworkDefinition& network, ITensor& x) {
  IConvolutionLayer* conv =
      network.addConvolutionNd(x, 4, dims({3, 3}), ones(72), Weights{DataType::kFLOAT, nullptr, 0});
  SHAPE(conv, 1, 4, 4, 4);
  KEEPS(conv, StrideNd, dims({2, 1}));
  SHAPE(conv, 1, 4, 2, 4);
  KEEPS(conv, PrePadding, dims({1, 0}));
  KEEPS(conv, PostPadding, dims({0, 1}));
  KEEPS(conv, DilationNd, dims({1, 2}));
  SHAPE(conv, 1, 4, 3, 3);
  KEEPS(conv, PaddingNd, dims({2, 2}));
  EXPECT(conv->getPostPadding() == dims({2, 2}));
  KEEPS(conv, PaddingMode, PaddingMode::kSAME_UPPER);
  KEEPS(conv, KernelSizeNd, dims({1, 1}));
  KEEPS(conv, NbOutputMaps, 2);
  KEEPS(conv, NbGroups, 2);
  KEEPS(conv, KernelWeights, twos(2));
  KEEPS(conv, BiasWeights, twos(2));
  SHAPE(conv, 1, 2, 3, 6);
  IDeconvolutionLayer* back =
      network.addDeconvolutionNd(x, 2, dims({3, 3}), ones(36), Weights{DataType::kFLOAT, nullptr, 0});
  SHAPE(back, 1, 2, 8, 8);
  KEEPS(back, StrideNd, dims({2, 2}));
  KEEPS(back, PaddingNd, dims({1, 1}));
  SHAPE(back, 1, 2, 11, 11);
  IPoolingLayer* pool = network.addPoolingNd(x, PoolingType::kMAX, dims({2, 2}));
  SHAPE(pool, 1, 2, 5, 5);
  KEEPS(pool, StrideNd, dims({2, 2}));
  KEEPS(pool, PrePadding, dims({1, 1}));
  KEEPS(pool, PostPadding, dims({1, 0}));
  SHAPE(pool, 1, 2, 4, 3);
  KEEPS(pool, PaddingNd, dims({0, 0}));
  KEEPS(pool, WindowSizeNd, dims({3, 2}));
  KEEPS(pool, PoolingType, PoolingType::kAVERAGE);
  KEEPS(pool, AverageCountExcludesPadding, false);
  KEEPS(pool, BlendFactor, 0.5f);
  SHAPE(pool, 1, 2, 2, 3);
  KEEPS(pool, PaddingMode, PaddingMode::kEXPLICIT_ROUND_UP);
#if NV_TENSORRT_MAJOR < 10
  IConvolutionLayer* old = network.addConvolution(x, 4, DimsHW(3, 3), ones(72), Weights{DataType::kFLOAT, nullptr, 0});
  KEEPS(old, Stride, DimsHW(2, 2));
  KEEPS(old, Padding, DimsHW(1, 1));
  KEEPS(old, Dilation, DimsHW(2, 2));
  KEEPS(old, KernelSize, DimsHW(1, 1));
  EXPECT(network.addDeconvolution(x, 2, DimsHW(3, 3), ones(36), Weights{DataType::kFLOAT, nullptr, 0}) != nullptr);
  IPoolingLayer* old_pool = network.addPooling(x, PoolingType::kMAX, DimsHW(2, 2));
  KEEPS(old_pool, Stride, DimsHW(2, 2));
  KEEPS(old_pool, Padding, DimsHW(1, 1));
  KEEPS(old_pool, WindowSize, DimsHW(3, 3));
  SHAPE(network.addPadding(x, DimsHW(1, 0), DimsHW(0, 2)), 1, 2, 7, 8);
  IFullyConnectedLayer* full = network.addFullyConnected(x, 1, ones(72), Weights{DataType::kFLOAT, nullptr, 0});
  SHAPE(full, 1, 1, 1, 1);
  KEEPS(full, KernelWeights, twos(72));
  KEEPS(full, BiasWeights, ones(1));
  KEEPS(full, NbOutputChannels, 2);
#endif
}

static void compute(INetworkDefinition& network, ITensor& x, ITensor& y, ITensor& c) {
  IActivationLayer* act = network.addActivation(x, ActivationType::kRELU);
  KEEPS(act, ActivationType, ActivationType::kLEAKY_RELU);
  KEEPS(act, Alpha, 0.25f);
  KEEPS(act, Beta, 0.5f);
  ILRNLayer* lrn = network.addLRN(x, 3, 1e-4f, 0.75f, 1);
  KEEPS(lrn, WindowSize, 5);
  KEEPS(lrn, Alpha, 0.25f);
  KEEPS(lrn, Beta, 0.5f);
  KEEPS(lrn, K, 2.f);
  IScaleLayer* scale = network.addScaleNd(x, ScaleMode::kUNIFORM, ones(1), ones(1), ones(1), 1);
  KEEPS(scale, Shift, twos(1));
  KEEPS(scale, Scale, twos(1));
  KEEPS(scale, Power, twos(1));
  KEEPS(scale, Mode, ScaleMode::kCHANNEL);
  KEEPS(scale, ChannelAxis, 2);
  EXPECT(network.addScale(x, ScaleMode::kUNIFORM, ones(1), ones(1), ones(1))->getChannelAxis() == 1);
  ISoftMaxLayer* soft = network.addSoftMax(x);
  KEEPS(soft, Axes, 8);
  IElementWiseLayer* sum = network.addElementWise(x, y, ElementWiseOperation::kSUM);
  KEEPS(sum, Operation, ElementWiseOperation::kPROD);
  IUnaryLayer* exponential = network.addUnary(x, UnaryOperation::kEXP);
  KEEPS(exponential, Operation, UnaryOperation::kABS);
  IReduceLayer* reduce = network.addReduce(x, ReduceOperation::kSUM, 2, true);
  SHAPE(reduce, 1, 1, 6, 6);
  KEEPS(reduce, KeepDimensions, false);
  KEEPS(reduce, ReduceAxes, 4u);
  KEEPS(reduce, Operation, ReduceOperation::kMAX);
  SHAPE(reduce, 1, 2, 6);
  IMatrixMultiplyLayer* product = network.addMatrixMultiply(x, MatrixOperation::kNONE, y, MatrixOperation::kNONE);
  product->setOperation(1, MatrixOperation::kTRANSPOSE);
  EXPECT(product->getOperation(0) == MatrixOperation::kNONE && product->getOperation(1) == MatrixOperation::kTRANSPOSE);
  INormalizationLayer* norm = network.addNormalization(x, x, x, 12);
  KEEPS(norm, Axes, 8u);
  KEEPS(norm, Epsilon, 0.5f);
  KEEPS(norm, NbGroups, 2);
  SHAPE(network.addParametricReLU(x, y), 1, 2, 6, 6);
  SHAPE(network.addSelect(c, x, y), 1, 2, 6, 6);
  ITensor* both[] = {&x, &y};
  IEinsumLayer* einsum = network.addEinsum(both, 2, "abcd,abcd->a");
  SHAPE(einsum, 1);
  EXPECT(einsum->setEquation("abcd,abcd->ab") && einsum->getEquation() == std::string("abcd,abcd->ab"));
  SHAPE(einsum, 1, 2);
  ITensor* const one = network.addConstant(dims({1}), ones(1))->getOutput(0);
  IQuantizeLayer* quantize = network.addQuantize(x, *one);
  KEEPS(quantize, Axis, 2);
  IDequantizeLayer* dequantize = network.addDequantize(*quantize->getOutput(0), *one);
  KEEPS(dequantize, Axis, 2);
  IGridSampleLayer* grid = network.addGridSample(x, y);
  KEEPS(grid, InterpolationMode, InterpolationMode::kNEAREST);
  KEEPS(grid, AlignCorners, true);
  KEEPS(grid, SampleMode, SampleMode::kREFLECT);
}

static void move(INetworkDefinition& network, ITensor& x, ITensor& y, ITensor& i) {
  IPaddingLayer* pad = network.addPaddingNd(x, dims({1, 0}), dims({0, 2}));
  SHAPE(pad, 1, 2, 7, 8);
  KEEPS(pad, PrePaddingNd, dims({2, 2}));
  KEEPS(pad, PostPaddingNd, dims({1, 1}));
  SHAPE(pad, 1, 2, 9, 9);
  IShuffleLayer* shuffle = network.addShuffle(x);
  KEEPS(shuffle, ReshapeDimensions, dims({2, 0, -1}));
  KEEPS(shuffle, FirstTranspose, Permutation{{0, 2, 1, 3, 4, 5, 6, 7}});
  SHAPE(shuffle, 2, 6, 6);
  KEEPS(shuffle, SecondTranspose, Permutation{{2, 1, 0, 3, 4, 5, 6, 7}});
  KEEPS(shuffle, ZeroIsPlaceholder, false);
  ISliceLayer* slice = network.addSlice(x, dims({0, 0, 0, 0}), dims({1, 1, 2, 2}), dims({1, 1, 1, 1}));
  SHAPE(slice, 1, 1, 2, 2);
  KEEPS(slice, Start, dims({0, 1, 1, 1}));
  KEEPS(slice, Size, dims({1, 1, 3, 2}));
  KEEPS(slice, Stride, dims({1, 1, 1, 2}));
  SHAPE(slice, 1, 1, 3, 2);
  KEEPS(slice, Mode, SampleMode::kCLAMP);
  ITopKLayer* top = network.addTopK(x, TopKOperation::kMAX, 1, 2);
  SHAPE(top, 1, 1, 6, 6);
  KEEPS(top, K, 3);
  KEEPS(top, ReduceAxes, 8u);
  KEEPS(top, Operation, TopKOperation::kMIN);
  SHAPE(top, 1, 2, 6, 3);
  EXPECT(top->getNbOutputs() == 2 && top->getOutput(1)->getType() == DataType::kINT32);
  IGatherLayer* gather = network.addGather(x, i, 2);
  SHAPE(gather, 1, 2, 3, 6);
  KEEPS(gather, GatherAxis, 3);
  SHAPE(gather, 1, 2, 6, 3);
  KEEPS(gather, NbElementWiseDims, 1);
  KEEPS(gather, Mode, GatherMode::kND);
  EXPECT(network.addGatherV2(x, i, GatherMode::kELEMENT)->getMode() == GatherMode::kELEMENT);
  IScatterLayer* scatter = network.addScatter(x, i, y, ScatterMode::kELEMENT);
  KEEPS(scatter, Axis, 2);
  KEEPS(scatter, Mode, ScatterMode::kND);
  ITensor* both[] = {&x, &y};
  IConcatenationLayer* concat = network.addConcatenation(both, 2);
  KEEPS(concat, Axis, 2);
  SHAPE(concat, 1, 2, 12, 6);
  IConstantLayer* constant = network.addConstant(dims({2, 2}), ones(4));
  KEEPS(constant, Dimensions, dims({4, 1}));
  KEEPS(constant, Weights, twos(4));
  SHAPE(constant, 4, 1);
  ICastLayer* cast = network.addCast(x, DataType::kINT32);
  EXPECT(cast->getOutput(0)->getType() == DataType::kINT32);
  KEEPS(cast, ToType, DataType::kBOOL);
  SHAPE(network.addShape(x), 4);
  SHAPE(network.addIdentity(x), 1, 2, 6, 6);
  IResizeLayer* resize = network.addResize(x);
  const float scales[] = {1, 1, 2, 2};
  resize->setScales(scales, 4);
  SHAPE(resize, 1, 2, 12, 12);
  KEEPS(resize, ResizeMode, InterpolationMode::kLINEAR);
  KEEPS(resize, CoordinateTransformation, ResizeCoordinateTransformation::kHALF_PIXEL);
  KEEPS(resize, SelectorForSinglePixel, ResizeSelector::kUPPER);
  KEEPS(resize, NearestRounding, ResizeRoundMode::kCEIL);
  KEEPS(resize, CubicCoeff, -0.5f);
  KEEPS(resize, ExcludeOutside, true);
  IResizeLayer* to = network.addResize(x);
  KEEPS(to, OutputDimensions, dims({1, 2, 3, 3}));
  SHAPE(to, 1, 2, 3, 3);
  IFillLayer* fill = network.addFill(dims({3}), FillOperation::kLINSPACE);
  KEEPS(fill, Dimensions, dims({5}));
  KEEPS(fill, Alpha, 2.0);
  KEEPS(fill, Beta, 3.0);
  SHAPE(fill, 5);
  KEEPS(fill, Operation, FillOperation::kRANDOM_UNIFORM);
  IOneHotLayer* hot = network.addOneHot(i, i, i, 0);
  KEEPS(hot, Axis, 1);
  EXPECT(network.addNonZero(x)->getType() == LayerType::kNON_ZERO);
  INMSLayer* nms = network.addNMS(x, y, i);
  KEEPS(nms, BoundingBoxFormat, BoundingBoxFormat::kCENTER_SIZES);
  KEEPS(nms, TopKBoxLimit, 7);
  IReverseSequenceLayer* reverse = network.addReverseSequence(x, i);
  KEEPS(reverse, BatchAxis, 0);
  KEEPS(reverse, SequenceAxis, 1);
#if NV_TENSORRT_MAJOR >= 10
  SHAPE(network.addFill(dims({3}), FillOperation::kLINSPACE, DataType::kFLOAT), 3);
  const int32_t number = 0;
  ITensor* const axis = network.addConstant(dims({1}), {DataType::kINT32, &number, 1})->getOutput(0);
  SHAPE(network.addSqueeze(x, *axis), 2, 6, 6);
  SHAPE(network.addUnsqueeze(x, *axis), 1, 1, 2, 6, 6);
  Dims scalar{};
  ITensor* const along = network.addConstant(scalar, {DataType::kINT32, &number, 1})->getOutput(0);
  ICumulativeLayer* cumulative = network.addCumulative(x, *along, CumulativeOperation::kSUM, false, false);
  SHAPE(cumulative, 1, 2, 6, 6);
  KEEPS(cumulative, Exclusive, true);
  KEEPS(cumulative, Reverse, true);
#endif
}

static void name_things(INetworkDefinition& network, IBuilder& builder) {
  ITensor* x = network.addInput("x", DataType::kFLOAT, dims({1, 2, 6, 6}));
  ITensor* y = network.addInput("y", DataType::kFLOAT, dims({1, 2, 6, 6}));
  ITensor* i = network.addInput("i", DataType::kINT32, dims({3}));
  ITensor* c = network.addInput("c", DataType::kBOOL, dims({1, 2, 6, 6}));
  convolve(network, *x);
  compute(network, *x, *y, *c);
  move(network, *x, *y, *i);
  EXPECT(&network.getBuilder() == &builder);
  network.setName("by hand");
  EXPECT(network.getName() == std::string("by hand"));
  x->setDimensionName(0, "batch");
  EXPECT(x->getDimensionName(0) == std::string("batch") && x->getDimensionName(1) == nullptr);
  EXPECT(x->getLocation() == TensorLocation::kDEVICE && x->isExecutionTensor() && !x->isShapeTensor());
  KEEPS(x, Dimensions, dims({-1, 2, 6, 6}));
  KEEPS(x, Type, DataType::kHALF);
  ILayer* layer = network.getLayer(0);
  layer->setMetadata("of it");
  EXPECT(layer->getMetadata() == std::string("of it") && layer->getNbInputs() == 1);
  layer->setInput(0, *y);
  EXPECT(layer->getInput(0) == y);
  network.markOutput(*layer->getOutput(0));
  EXPECT(network.getNbOutputs() == 1 && layer->getOutput(0)->isNetworkOutput());
#if NV_TENSORRT_MAJOR < 11
  EXPECT(!layer->precisionIsSet() && !layer->outputTypeIsSet(0) && !network.hasImplicitBatchDimension());
  KEEPS(layer, Precision, DataType::kHALF);
  layer->setOutputType(0, DataType::kHALF);
  EXPECT(layer->precisionIsSet() && layer->outputTypeIsSet(0) && layer->getOutputType(0) == DataType::kHALF);
  layer->resetPrecision();
  layer->resetOutputType(0);
  EXPECT(!layer->precisionIsSet() && !layer->outputTypeIsSet(0));
#endif
  network.unmarkOutput(*layer->getOutput(0));
  EXPECT(network.getNbOutputs() == 0);
#if NV_TENSORRT_MAJOR >= 10
  EXPECT(network.getFlags() == 0 && !network.getFlag(NetworkDefinitionCreationFlag::kSTRONGLY_TYPED));
#endif
}

#if NV_TENSORRT_MAJOR < 11
template <class Base>
class Kind : public Base {
  int32_t getBatchSize() const noexcept override { return 1; }
  bool getBatch(void*[], const char*[], int32_t) noexcept override { return false; }
  const void* readCalibrationCache(std::size_t&) noexcept override { return nullptr; }
  void writeCalibrationCache(const void*, std::size_t) noexcept override {}
};
#endif

static void configure(IBuilder& builder, IBuilderConfig& config) {
  KEEPS(&config, BuilderOptimizationLevel, 5);
  KEEPS(&config, AvgTimingIterations, 4);
  KEEPS(&config, MaxAuxStreams, 2);
  KEEPS(&config, ProfilingVerbosity, ProfilingVerbosity::kDETAILED);
  KEEPS(&config, DefaultDeviceType, DeviceType::kDLA);
  KEEPS(&config, DefaultDeviceType, DeviceType::kGPU);
  KEEPS(&config, DLACore, 1);
  KEEPS(&config, DLACore, -1);
  KEEPS(&config, EngineCapability, EngineCapability::kSAFETY);
  KEEPS(&config, EngineCapability, EngineCapability::kSTANDARD);
  KEEPS(&config, TacticSources, 1u << static_cast<int>(TacticSource::kJIT_CONVOLUTIONS));
  KEEPS(&config, HardwareCompatibilityLevel, HardwareCompatibilityLevel::kAMPERE_PLUS);
  KEEPS(&config, HardwareCompatibilityLevel, HardwareCompatibilityLevel::kNONE);
  PreviewFeature const feature = static_cast<PreviewFeature>(1);
  config.setPreviewFeature(feature, true);
  EXPECT(config.getPreviewFeature(feature) && !config.getPreviewFeature(static_cast<PreviewFeature>(0)));
#if NV_TENSORRT_MAJOR < 11
  KEEPS(&config, QuantizationFlags, 1u);
  config.clearQuantizationFlag(QuantizationFlag::kCALIBRATE_BEFORE_FUSION);
  EXPECT(!config.getQuantizationFlag(QuantizationFlag::kCALIBRATE_BEFORE_FUSION));
  config.setQuantizationFlag(QuantizationFlag::kCALIBRATE_BEFORE_FUSION);
  EXPECT(config.getQuantizationFlag(QuantizationFlag::kCALIBRATE_BEFORE_FUSION));
#endif
#if NV_TENSORRT_MAJOR >= 10
  KEEPS(&config, RuntimePlatform, RuntimePlatform::kWINDOWS_AMD64);
  KEEPS(&config, RuntimePlatform, RuntimePlatform::kSAME_AS_BUILD);
  KEEPS(&config, TilingOptimizationLevel, TilingOptimizationLevel::kFAST);
  KEEPS(&config, L2LimitForTiling, 4096);
  KEEPS(&config, MaxNbTactics, 5);
#endif
  KEEPS(&config, Flags, 0u);
  cudaStream_t stream;
  EXPECT(cudaStreamCreate(&stream) == cudaSuccess);
  KEEPS(&config, ProfileStream, stream);
  EXPECT(cudaStreamDestroy(stream) == cudaSuccess);
  KEEPS(&builder, MaxThreads, 3);
  EXPECT(!builder.setMaxThreads(0) && builder.getNbDLACores() == 0 && builder.getMaxDLABatchSize() == 0);
  EXPECT(builder.getLogger() && !builder.platformHasTf32());
#if NV_TENSORRT_MAJOR < 11
  EXPECT(builder.platformHasFastInt8() && !builder.platformHasFastFp16());
  Kind<IInt8EntropyCalibrator> entropy;
  Kind<IInt8EntropyCalibrator2> entropy2;
  Kind<IInt8MinMaxCalibrator> minmax;
  IInt8Calibrator* const kinds[] = {&entropy, &entropy2, &minmax};
  for (int k = 0; k < 3; ++k) EXPECT(static_cast<int>(kinds[k]->getAlgorithm()) == k + 1);
  KEEPS(&config, Int8Calibrator, kinds[0]);
  config.setInt8Calibrator(nullptr);
  IOptimizationProfile* profile = builder.createOptimizationProfile();
  EXPECT(config.setCalibrationProfile(profile) && config.getCalibrationProfile() == profile);
#endif
#if NV_TENSORRT_MAJOR < 10
  KEEPS(&config, MinTimingIterations, 2);
  KEEPS(&config, MaxWorkspaceSize, std::size_t{1} << 28);
  KEEPS(&builder, MaxBatchSize, 4);
#endif
}

static void ask(ICudaEngine& engine) {
  EXPECT(engine.getTensorFormat("image") == TensorFormat::kLINEAR && engine.getTensorVectorizedDim("image") == -1);
  EXPECT(!engine.isShapeInferenceIO("image") && engine.getName()[0] && engine.getNbLayers() > 2);
  auto context = std::unique_ptr<IExecutionContext>(engine.createExecutionContext());
  KEEPS(context, DebugSync, true);
  context->setName("mine");
  EXPECT(context->getName() == std::string("mine") && context->allInputShapesSpecified());
  context->setDeviceMemory(nullptr);
  KEEPS(context, PersistentCacheLimit, std::size_t{1} << 20);
  KEEPS(context, NvtxVerbosity, ProfilingVerbosity::kNONE);
  EXPECT(engine.getTensorBytesPerComponent("image") == 4 && engine.getTensorComponentsPerElement("image") == 1);
  EXPECT(engine.getTensorBytesPerComponent("nothing") == -1 && engine.getTensorFormatDesc("image")[0]);
  EXPECT(engine.getEngineCapability() == EngineCapability::kSTANDARD && engine.getTacticSources() == 0);
  EXPECT(engine.getHardwareCompatibilityLevel() == HardwareCompatibilityLevel::kNONE);
  EXPECT(engine.getProfilingVerbosity() == ProfilingVerbosity::kDETAILED);
  EXPECT(context->setInputConsumedEvent(nullptr) && context->getInputConsumedEvent() == nullptr);
  EXPECT(context->setInputShape("image", dims({2, 1, 8, 8})));
  EXPECT(context->getTensorStrides("image") == dims({64, 64, 8, 1}) &&
         context->getTensorStrides("logits") == dims({10, 1}));
  Buffer output(20);
  EXPECT(context->setTensorAddress("logits", output.at) && context->getOutputTensorAddress("logits") == output.at);
#if NV_TENSORRT_MAJOR >= 10
  EXPECT(context->setOutputTensorAddress("logits", output.at) && engine.getDeviceMemorySizeV2() == 0);
  context->setDeviceMemoryV2(nullptr, 0);
  EXPECT(context->updateDeviceMemorySizeForShapes() == 0);
  context.reset(engine.createExecutionContext(ExecutionContextAllocationStrategy::kUSER_MANAGED));
#endif
#if NV_TENSORRT_MAJOR < 11
  EXPECT(engine.getDeviceMemorySize() == 0 && !engine.hasImplicitBatchDimension());
  context.reset(engine.createExecutionContextWithoutDeviceMemory());
#endif
#if NV_TENSORRT_MAJOR < 10
  EXPECT(engine.getBindingDataType(1) == DataType::kFLOAT && engine.getBindingFormat(1) == TensorFormat::kLINEAR);
  EXPECT(engine.getBindingBytesPerComponent(1) == 4 && engine.getBindingComponentsPerElement(1) == 1);
  EXPECT(engine.getBindingVectorizedDim(0) == -1 && engine.getBindingFormatDesc(0)[0]);
  EXPECT(engine.getLocation(0) == TensorLocation::kDEVICE && engine.isExecutionBinding(0) && !engine.isShapeBinding(0));
  EXPECT(context->setBindingDimensions(0, dims({2, 1, 8, 8})) && context->getStrides(0) == dims({64, 64, 8, 1}));
  EXPECT(context->setOptimizationProfile(0) && !context->setOptimizationProfile(1));
  void* bindings[] = {output.at, output.at};
  EXPECT(!context->execute(2, bindings) && !context->enqueue(2, bindings, nullptr, nullptr));
#endif
}

// What is asked of tensors and is not there ends the builds of their network.
static void refuse_settings_of_tensors(IBuilder& builder, char const* model, Logger& logger) {
  for (int what = 0; what < 2; ++what) {
    auto network = std::unique_ptr<INetworkDefinition>(builder.createNetworkV2(0));
    auto parser = std::unique_ptr<nvonnxparser::IParser>(nvonnxparser::createParser(*network, logger));
    auto config = std::unique_ptr<IBuilderConfig>(builder.createBuilderConfig());
    EXPECT(parser->parseFromFile(model, 1));
    ITensor& image = *network->getInput(0);
    image.setDimensions(dims({1, 1, 8, 8}));
#if NV_TENSORRT_MAJOR < 11
    image.setBroadcastAcrossBatch(false);
    image.resetDynamicRange();
    EXPECT(!image.dynamicRangeIsSet() && !image.getBroadcastAcrossBatch());
    if (what == 0) EXPECT(!image.setDynamicRange(-1.f, 1.f));
#else
    if (what == 0) continue;
#endif
    if (what == 1) image.setAllowedFormats(1u << static_cast<int>(TensorFormat::kCHW32));
    logger.forget();
    EXPECT(!builder.buildSerializedNetwork(*network, *config) && logger.said("not in Temper"));
  }
}

int main(int, char** argv) {
  Logger logger;
  auto builder = std::unique_ptr<IBuilder>(createInferBuilder(logger));
  auto by_hand = std::unique_ptr<INetworkDefinition>(builder->createNetworkV2(0));
  name_things(*by_hand, *builder);
  auto settings = std::unique_ptr<IBuilderConfig>(builder->createBuilderConfig());
  configure(*builder, *settings);
  logger.forget();
  auto network = std::unique_ptr<INetworkDefinition>(builder->createNetworkV2(0));
  auto parser = std::unique_ptr<nvonnxparser::IParser>(nvonnxparser::createParser(*network, logger));
  EXPECT(!parser->parse("no model", 8) && parser->getError(0)->node() == -1 && parser->getError(0)->line() == 0);
  EXPECT(parser->getError(0)->func()[0] == 0 && parser->getError(0)->file()[0] == 0);
  EXPECT(parser->supportsOperator("Conv") && !parser->supportsOperator("NoSuchOperator"));
  const std::string model = bytes_of(argv[1]);
#if NV_TENSORRT_MAJOR >= 10
  EXPECT(parser->supportsModelV2(model.data(), model.size()) && parser->getNbSubgraphs() == 1);
  EXPECT(parser->isSubgraphSupported(0) && !parser->isSubgraphSupported(1));
  int64_t nodes = 0;
  EXPECT(parser->getSubgraphNodes(0, nodes)[0] == 0 && nodes > 5);
  EXPECT(parser->getSubgraphNodes(1, nodes) == nullptr && nodes == 0);
#endif
#if NV_TENSORRT_MAJOR < 11
  SubGraphCollection_t parts;
  EXPECT(parser->supportsModel(model.data(), model.size(), parts) && parts.size() == 1 && parts[0].second);
#endif
  EXPECT(parser->parseFromFile(argv[1], 1));
  KEEPS(parser, Flags, 1u << static_cast<int>(nvonnxparser::OnnxParserFlag::kNATIVE_INSTANCENORM));
  parser->clearFlag(nvonnxparser::OnnxParserFlag::kNATIVE_INSTANCENORM);
  EXPECT(!parser->getFlag(nvonnxparser::OnnxParserFlag::kNATIVE_INSTANCENORM));
  parser->setFlag(nvonnxparser::OnnxParserFlag::kNATIVE_INSTANCENORM);
  int64_t libraries = 1;
  EXPECT(!parser->getUsedVCPluginLibraries(libraries) && libraries == 0);
  auto config = std::unique_ptr<IBuilderConfig>(builder->createBuilderConfig());
#if NV_TENSORRT_MAJOR >= 11
  EXPECT(parser->setBuilderConfig(config.get()));
#endif
  ILayer* const first = network->getLayer(0);
  EXPECT(!config->canRunOnDLA(first) && !config->isDeviceTypeSet(first));
  config->setDeviceType(first, DeviceType::kDLA);
  EXPECT(config->getDeviceType(first) == DeviceType::kDLA && config->isDeviceTypeSet(first));
  EXPECT(!builder->buildSerializedNetwork(*network, *config) && logger.said("DLA: not in Temper"));
  config->resetDeviceType(first);
  EXPECT(builder->isNetworkSupported(*network, *config));
  builder->reset();
  ITensor* const image = network->getInput(0);
  KEEPS(image, AllowedFormats, 1u | 1u << static_cast<int>(TensorFormat::kCHW32));
  image->setLocation(TensorLocation::kDEVICE);
  refuse_settings_of_tensors(*builder, argv[1], logger);
  IOptimizationProfile* profile = builder->createOptimizationProfile();
  for (auto which : {OptProfileSelector::kMIN, OptProfileSelector::kOPT, OptProfileSelector::kMAX})
    EXPECT(profile->setDimensions("image", which, dims({2, 1, 8, 8})));
  EXPECT(profile->getDimensions("image", OptProfileSelector::kMAX) == dims({2, 1, 8, 8}));
  KEEPS(profile, ExtraMemoryTarget, 0.5f);
  EXPECT(profile->getNbShapeValues("image") == -1 && !profile->getShapeValues("image", OptProfileSelector::kMIN));
  int32_t const value = 1;
  EXPECT(!profile->setShapeValues("image", OptProfileSelector::kMIN, &value, 1));
  EXPECT(config->addOptimizationProfile(profile) == 0 && config->getNbOptimizationProfiles() == 1);
  auto plan = std::unique_ptr<IHostMemory>(builder->buildSerializedNetwork(*network, *config));
  auto runtime = std::unique_ptr<IRuntime>(createInferRuntime(logger));
  KEEPS(runtime, MaxThreads, 2);
  KEEPS(runtime, TempfileControlFlags, 1u << static_cast<int>(TempfileControlFlag::kALLOW_IN_MEMORY_FILES));
  runtime->setTemporaryDirectory("/tmp");
  EXPECT(std::string(runtime->getTemporaryDirectory()) == "/tmp");
  KEEPS(runtime, EngineHostCodeAllowed, true);
  EXPECT(runtime->getNbDLACores() == 0 && runtime->getDLACore() == -1 && runtime->getLogger() == &logger);
  runtime->setDLACore(0);
  EXPECT(logger.said("setDLACore: not in Temper"));
  auto engine = std::unique_ptr<ICudaEngine>(runtime->deserializeCudaEngine(plan->data(), plan->size()));
  EXPECT(engine && initLibNvInferPlugins(&logger, "") && getInferLibVersion() == NV_TENSORRT_VERSION);
  ask(*engine);
  return 0;
}
