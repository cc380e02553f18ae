// SPDX-License-Identifier: Apache-2.0
// THE table of the C++ names that include/nvinfer has. A test holds it to the headers.
#include "nvinfer/api_table.h"

namespace temper::nvinfer {

const std::vector<CppClass>& cpp_classes() {
  static const std::vector<CppClass> list = {
      {"ActivationType", "8.6-",
       "kCLIP kELU kGELU_ERF kGELU_TANH kHARD_SIGMOID kLEAKY_RELU kRELU kSCALED_TANH kSELU kSIGMOID kSOFTPLUS "
       "kSOFTSIGN kTANH kTHRESHOLDED_RELU"},
      {"AllocatorFlag", "8.6-", "kRESIZABLE"},
      {"BoundingBoxFormat", "8.6-", "kCENTER_SIZES kCORNER_PAIRS"},
      {"BuilderFlag", "8.6-",
       "kBF16@8.6-10.13 kDEBUG kDIRECT_IO kDISABLE_COMPILATION_CACHE@10.13- kDISABLE_TIMING_CACHE "
       "kENABLE_TACTIC_HEURISTIC@8.6 kERROR_ON_TIMING_CACHE_MISS@10.13- kEXCLUDE_LEAN_RUNTIME kFP16@8.6-10.13 "
       "kFP8@8.6-10.13 kGPU_FALLBACK kINT8@8.6-10.13 kOBEY_PRECISION_CONSTRAINTS@8.6-10.13 "
       "kPREFER_PRECISION_CONSTRAINTS@8.6-10.13 kREFIT kREJECT_EMPTY_ALGORITHMS@8.6-10.13 kSAFETY_SCOPE "
       "kSPARSE_WEIGHTS kSTRICT_TYPES@8.6 kSTRIP_PLAN@10.13- kTF32 "
       "kVERSION_COMPATIBLE kWEIGHT_STREAMING@10.13-"},
      {"CalibrationAlgoType", "8.6-10.13",
       "kENTROPY_CALIBRATION kENTROPY_CALIBRATION_2 kLEGACY_CALIBRATION kMINMAX_CALIBRATION"},
      {"CumulativeOperation", "10.13-", "kSUM"},
      {"DataType", "8.6-",
       "kBF16 kBOOL kE8M0@10.13- kFLOAT kFP4@10.13- kFP8 kHALF kINT32 kINT4@10.13- kINT64 kINT8 kUINT8"},
      {"DeviceType", "8.6-", "kDLA kGPU"},
      {"Dims2", "8.6-", ""},
      {"Dims3", "8.6-", ""},
      {"Dims32", "8.6", ""},
      {"Dims4", "8.6-", ""},
      {"Dims64", "10.13-", ""},
      {"DimsHW", "8.6-", "h w"},
      {"ElementWiseOperation", "8.6-",
       "kAND kDIV kEQUAL kFLOOR_DIV kGREATER kLESS kMAX kMIN kOR kPOW kPROD kSUB kSUM kXOR"},
      {"EngineCapability", "8.6-", "kDLA_STANDALONE kSAFETY kSTANDARD"},
      {"ErrorCode", "8.6-",
       "kFAILED_ALLOCATION kFAILED_COMPUTATION kFAILED_EXECUTION kFAILED_INITIALIZATION kINTERNAL_ERROR "
       "kINVALID_ARGUMENT kINVALID_CONFIG kINVALID_GRAPH kINVALID_NODE kINVALID_STATE kINVALID_VALUE "
       "kMEM_ALLOC_FAILED kMODEL_DESERIALIZE_FAILED kSUCCESS kUNSPECIFIED_ERROR kUNSUPPORTED_GRAPH "
       "kUNSUPPORTED_NODE kUNSUPPORTED_STATE"},
      {"ExecutionContextAllocationStrategy", "10.13-", "kON_PROFILE_CHANGE kSTATIC kUSER_MANAGED"},
      {"FillOperation", "8.6-", "kLINSPACE kRANDOM_NORMAL kRANDOM_UNIFORM"},
      {"GatherMode", "8.6-", "kDEFAULT kELEMENT kND"},
      {"HardwareCompatibilityLevel", "8.6-", "kAMPERE_PLUS kNONE kSAME_COMPUTE_CAPABILITY@10.13-"},
      {"IActivationLayer", "8.6-", "getActivationType getAlpha getBeta setActivationType setAlpha setBeta"},
      {"IBuilder", "8.6-",
       "buildEngineWithConfig@8.6 buildSerializedNetwork buildSerializedNetworkToStream@10.13- "
       "createBuilderConfig createNetworkV2 createOptimizationProfile getErrorRecorder getLogger "
       "getMaxBatchSize@8.6 getMaxDLABatchSize getMaxThreads getNbDLACores isNetworkSupported "
       "platformHasFastFp16@8.6-10.13 platformHasFastInt8@8.6-10.13 platformHasTf32 reset setErrorRecorder "
       "setGpuAllocator setMaxBatchSize@8.6 setMaxThreads"},
      {"IBuilderConfig", "8.6-",
       "addOptimizationProfile canRunOnDLA clearFlag clearQuantizationFlag@8.6-10.13 createTimingCache "
       "getAvgTimingIterations getBuilderOptimizationLevel getCalibrationProfile@8.6-10.13 getDefaultDeviceType "
       "getDeviceType getDLACore getEngineCapability getFlag getFlags getHardwareCompatibilityLevel "
       "getInt8Calibrator@8.6-10.13 getL2LimitForTiling@10.13- getMaxAuxStreams getMaxNbTactics@10.13- "
       "getMaxWorkspaceSize@8.6 getMemoryPoolLimit getMinTimingIterations@8.6 getNbOptimizationProfiles "
       "getPreviewFeature getProfileStream getProfilingVerbosity getProgressMonitor "
       "getQuantizationFlag@8.6-10.13 getQuantizationFlags@8.6-10.13 getRuntimePlatform@10.13- getTacticSources "
       "getTilingOptimizationLevel@10.13- getTimingCache isDeviceTypeSet resetDeviceType setAvgTimingIterations "
       "setBuilderOptimizationLevel setCalibrationProfile@8.6-10.13 setDefaultDeviceType setDeviceType "
       "setDLACore setEngineCapability setFlag setFlags setHardwareCompatibilityLevel "
       "setInt8Calibrator@8.6-10.13 setL2LimitForTiling@10.13- setMaxAuxStreams setMaxNbTactics@10.13- "
       "setMaxWorkspaceSize@8.6 setMemoryPoolLimit setMinTimingIterations@8.6 setPreviewFeature "
       "setProfileStream setProfilingVerbosity setProgressMonitor setQuantizationFlag@8.6-10.13 "
       "setQuantizationFlags@8.6-10.13 setRuntimePlatform@10.13- setTacticSources "
       "setTilingOptimizationLevel@10.13- setTimingCache"},
      {"ICastLayer", "8.6-", "getToType setToType"},
      {"IConcatenationLayer", "8.6-", "getAxis setAxis"},
      {"IConstantLayer", "8.6-", "getDimensions getWeights setDimensions setWeights"},
      {"IConvolutionLayer", "8.6-",
       "getBiasWeights getDilation@8.6 getDilationNd getKernelSize@8.6 getKernelSizeNd getKernelWeights "
       "getNbGroups getNbOutputMaps getPadding@8.6 getPaddingMode getPaddingNd getPostPadding getPrePadding "
       "getStride@8.6 getStrideNd setBiasWeights setDilation@8.6 setDilationNd setKernelSize@8.6 setKernelSizeNd "
       "setKernelWeights setNbGroups setNbOutputMaps setPadding@8.6 setPaddingMode setPaddingNd setPostPadding "
       "setPrePadding setStride@8.6 setStrideNd"},
      {"ICudaEngine", "8.6-",
       "bindingIsInput@8.6 createEngineInspector createExecutionContext "
       "createExecutionContextWithoutDeviceMemory@8.6-10.13 getBindingBytesPerComponent@8.6 "
       "getBindingComponentsPerElement@8.6 getBindingDataType@8.6 getBindingDimensions@8.6 getBindingFormat@8.6 "
       "getBindingFormatDesc@8.6 getBindingIndex@8.6 getBindingName@8.6 getBindingVectorizedDim@8.6 "
       "getDeviceMemorySize@8.6-10.13 getDeviceMemorySizeV2@10.13- getEngineCapability getErrorRecorder "
       "getHardwareCompatibilityLevel getIOTensorName getLocation@8.6 getMaxBatchSize@8.6 getName "
       "getNbBindings@8.6 getNbIOTensors getNbLayers getNbOptimizationProfiles getProfileDimensions@8.6 "
       "getProfileShape getProfilingVerbosity getTacticSources getTensorBytesPerComponent "
       "getTensorComponentsPerElement getTensorDataType getTensorFormat getTensorFormatDesc getTensorIOMode "
       "getTensorLocation getTensorShape getTensorVectorizedDim hasImplicitBatchDimension@8.6-10.13 "
       "isExecutionBinding@8.6 isRefittable isShapeBinding@8.6 isShapeInferenceIO serialize setErrorRecorder"},
      {"ICumulativeLayer", "10.13-", "getExclusive getReverse setExclusive setReverse"},
      {"IDeconvolutionLayer", "8.6-",
       "getBiasWeights getDilation@8.6 getDilationNd getKernelSize@8.6 getKernelSizeNd getKernelWeights "
       "getNbGroups getNbOutputMaps getPadding@8.6 getPaddingMode getPaddingNd getPostPadding getPrePadding "
       "getStride@8.6 getStrideNd setBiasWeights setDilation@8.6 setDilationNd setKernelSize@8.6 setKernelSizeNd "
       "setKernelWeights setNbGroups setNbOutputMaps setPadding@8.6 setPaddingMode setPaddingNd setPostPadding "
       "setPrePadding setStride@8.6 setStrideNd"},
      {"IDequantizeLayer", "8.6-", "getAxis setAxis"},
      {"IEinsumLayer", "8.6-", "getEquation setEquation"},
      {"IElementWiseLayer", "8.6-", "getOperation setOperation"},
      {"IEngineInspector", "8.6-",
       "getEngineInformation getErrorRecorder getExecutionContext getLayerInformation setErrorRecorder "
       "setExecutionContext"},
      {"IErrorRecorder", "8.6-",
       "clear decRefCount getErrorCode getErrorDesc getNbErrors hasOverflowed incRefCount reportError"},
      {"IExecutionContext", "8.6-",
       "allInputDimensionsSpecified allInputShapesSpecified enqueue@8.6 enqueueV2@8.6 enqueueV3 execute@8.6 "
       "executeV2 getBindingDimensions@8.6 getDebugSync getEngine getEnqueueEmitsProfile getErrorRecorder "
       "getInputConsumedEvent getMaxOutputSize getName getNvtxVerbosity getOptimizationProfile "
       "getOutputAllocator getOutputTensorAddress getPersistentCacheLimit getProfiler getStrides@8.6 "
       "getTensorAddress getTensorShape getTensorStrides inferShapes reportToProfiler setBindingDimensions@8.6 "
       "setDebugSync setDeviceMemory setDeviceMemoryV2@10.13- setEnqueueEmitsProfile setErrorRecorder "
       "setInputConsumedEvent setInputShape setInputTensorAddress setName setNvtxVerbosity "
       "setOptimizationProfile@8.6 setOptimizationProfileAsync setOutputAllocator setOutputTensorAddress@10.13- "
       "setPersistentCacheLimit setProfiler setTensorAddress updateDeviceMemorySizeForShapes@10.13-"},
      {"IFillLayer", "8.6-", "getAlpha getBeta getDimensions getOperation setAlpha setBeta setDimensions setOperation"},
      {"IFullyConnectedLayer", "8.6",
       "getBiasWeights getKernelWeights getNbOutputChannels setBiasWeights setKernelWeights setNbOutputChannels"},
      {"IGatherLayer", "8.6-", "getGatherAxis getMode getNbElementWiseDims setGatherAxis setMode setNbElementWiseDims"},
      {"IGpuAllocator", "8.6-", "allocate allocateAsync@10.13- deallocate deallocateAsync@10.13- free@8.6 reallocate"},
      {"IGpuAsyncAllocator", "10.13-", "allocate allocateAsync deallocate deallocateAsync"},
      {"IGridSampleLayer", "8.6-",
       "getAlignCorners getInterpolationMode getSampleMode setAlignCorners setInterpolationMode setSampleMode"},
      {"IHostMemory", "8.6-", "data size type"},
      {"IIdentityLayer", "8.6-", ""},
      {"IInt8Calibrator", "8.6-10.13", "getAlgorithm getBatch getBatchSize readCalibrationCache writeCalibrationCache"},
      {"IInt8EntropyCalibrator", "8.6-10.13", "getAlgorithm"},
      {"IInt8EntropyCalibrator2", "8.6-10.13", "getAlgorithm"},
      {"IInt8MinMaxCalibrator", "8.6-10.13", "getAlgorithm"},
      {"ILayer", "8.6-",
       "getInput getMetadata getName getNbInputs getNbOutputs getOutput getOutputType@8.6-10.13 "
       "getPrecision@8.6-10.13 getType outputTypeIsSet@8.6-10.13 precisionIsSet@8.6-10.13 "
       "resetOutputType@8.6-10.13 resetPrecision@8.6-10.13 setInput setMetadata setName setOutputType@8.6-10.13 "
       "setPrecision@8.6-10.13"},
      {"ILogger", "8.6-", "log"},
      {"ILRNLayer", "8.6-", "getAlpha getBeta getK getWindowSize setAlpha setBeta setK setWindowSize"},
      {"IMatrixMultiplyLayer", "8.6-", "getOperation setOperation"},
      {"INetworkDefinition", "8.6-",
       "addActivation addCast addConcatenation addConstant addConvolution@8.6 addConvolutionNd "
       "addCumulative@10.13- addDeconvolution@8.6 addDeconvolutionNd addDequantize addEinsum addElementWise "
       "addFill addFullyConnected@8.6 addGather addGatherV2 addGridSample addIdentity addInput addLRN "
       "addMatrixMultiply addNMS addNonZero addNormalization addOneHot addPadding@8.6 addPaddingNd "
       "addParametricReLU addPooling@8.6 addPoolingNd addQuantize addReduce addResize addReverseSequence "
       "addScale addScaleNd addScatter addSelect addShape addShuffle addSlice addSoftMax addSqueeze@10.13- "
       "addTopK addUnary addUnsqueeze@10.13- getBuilder getErrorRecorder getFlag@10.13- getFlags@10.13- "
       "getInput getLayer getName getNbInputs getNbLayers getNbOutputs getOutput "
       "hasImplicitBatchDimension@8.6-10.13 markOutput setErrorRecorder setName unmarkOutput"},
      {"INMSLayer", "8.6-", "getBoundingBoxFormat getTopKBoxLimit setBoundingBoxFormat setTopKBoxLimit"},
      {"INonZeroLayer", "8.6-", ""},
      {"INormalizationLayer", "8.6-", "getAxes getEpsilon getNbGroups setAxes setEpsilon setNbGroups"},
      {"InterpolationMode", "8.6-", "kCUBIC kLINEAR kNEAREST"},
      {"IOneHotLayer", "8.6-", "getAxis setAxis"},
      {"IOptimizationProfile", "8.6-",
       "getDimensions getExtraMemoryTarget getNbShapeValues getShapeValues isValid setDimensions "
       "setExtraMemoryTarget setShapeValues"},
      {"IOutputAllocator", "8.6-", "notifyShape reallocateOutput reallocateOutputAsync@10.13-"},
      {"IPaddingLayer", "8.6-", "getPostPaddingNd getPrePaddingNd setPostPaddingNd setPrePaddingNd"},
      {"IParametricReLULayer", "8.6-", ""},
      {"IParser", "8.6-",
       "clearErrors clearFlag getError getFlag getFlags getNbErrors getNbSubgraphs@10.13- getSubgraphNodes@10.13- "
       "getUsedVCPluginLibraries isSubgraphSupported@10.13- parse parseFromFile setBuilderConfig@11.1- setFlag "
       "setFlags "
       "supportsModel@8.6-10.13 supportsModelV2@10.13- supportsOperator"},
      {"IParserError", "8.6-", "code desc file func line node"},
      {"IParserRefitter", "10.13-", ""},
      {"IPoolingLayer", "8.6-",
       "getAverageCountExcludesPadding getBlendFactor getPadding@8.6 getPaddingMode getPaddingNd getPoolingType "
       "getPostPadding getPrePadding getStride@8.6 getStrideNd getWindowSize@8.6 getWindowSizeNd "
       "setAverageCountExcludesPadding setBlendFactor setPadding@8.6 setPaddingMode setPaddingNd setPoolingType "
       "setPostPadding setPrePadding setStride@8.6 setStrideNd setWindowSize@8.6 setWindowSizeNd"},
      {"IProfiler", "8.6-", "reportLayerTime"},
      {"IProgressMonitor", "8.6-", "phaseFinish phaseStart stepComplete"},
      {"IQuantizeLayer", "8.6-", "getAxis setAxis"},
      {"IReduceLayer", "8.6-",
       "getKeepDimensions getOperation getReduceAxes setKeepDimensions setOperation setReduceAxes"},
      {"IRefitter", "8.6-",
       "getAll getAllWeights getErrorRecorder getLogger getMaxThreads getMissing getMissingWeights "
       "getWeightsPrototype@10.13- getWeightsValidation@10.13- refitCudaEngine refitCudaEngineAsync@10.13- "
       "setErrorRecorder setMaxThreads setNamedWeights setWeights setWeightsValidation@10.13-"},
      {"IResizeLayer", "8.6-",
       "getCoordinateTransformation getCubicCoeff getExcludeOutside getNearestRounding getOutputDimensions "
       "getResizeMode getSelectorForSinglePixel setCoordinateTransformation setCubicCoeff setExcludeOutside "
       "setNearestRounding setOutputDimensions setResizeMode setScales setSelectorForSinglePixel"},
      {"IReverseSequenceLayer", "8.6-", "getBatchAxis getSequenceAxis setBatchAxis setSequenceAxis"},
      {"IRuntime", "8.6-",
       "deserializeCudaEngine getDLACore getEngineHostCodeAllowed getErrorRecorder getLogger getMaxThreads "
       "getNbDLACores getTempfileControlFlags getTemporaryDirectory setDLACore setEngineHostCodeAllowed "
       "setErrorRecorder setGpuAllocator setMaxThreads setTempfileControlFlags setTemporaryDirectory"},
      {"IScaleLayer", "8.6-",
       "getChannelAxis getMode getPower getScale getShift setChannelAxis setMode setPower setScale setShift"},
      {"IScatterLayer", "8.6-", "getAxis getMode setAxis setMode"},
      {"ISelectLayer", "8.6-", ""},
      {"IShapeLayer", "8.6-", ""},
      {"IShuffleLayer", "8.6-",
       "getFirstTranspose getReshapeDimensions getSecondTranspose getZeroIsPlaceholder setFirstTranspose "
       "setReshapeDimensions setSecondTranspose setZeroIsPlaceholder"},
      {"ISliceLayer", "8.6-", "getMode getSize getStart getStride setMode setSize setStart setStride"},
      {"ISoftMaxLayer", "8.6-", "getAxes setAxes"},
      {"ISqueezeLayer", "10.13-", ""},
      {"IStreamReader", "10.13-", "read"},
      {"IStreamReaderV2", "10.13-", "read seek"},
      {"IStreamWriter", "10.13-", "write"},
      {"ITensor", "8.6-",
       "dynamicRangeIsSet@8.6-10.13 getAllowedFormats getBroadcastAcrossBatch@8.6-10.13 getDimensionName "
       "getDimensions getLocation getName getType isExecutionTensor isNetworkInput isNetworkOutput "
       "isShapeTensor resetDynamicRange@8.6-10.13 setAllowedFormats setBroadcastAcrossBatch@8.6-10.13 "
       "setDimensionName setDimensions setDynamicRange@8.6-10.13 setLocation setName setType"},
      {"ITimingCache", "8.6-", "combine serialize"},
      {"ITopKLayer", "8.6-", "getK getOperation getReduceAxes setK setOperation setReduceAxes"},
      {"IUnaryLayer", "8.6-", "getOperation setOperation"},
      {"IUnsqueezeLayer", "10.13-", ""},
      {"LayerInformationFormat", "8.6-", "kJSON kONELINE"},
      {"LayerType", "8.6-",
       "kACTIVATION kCAST kCONCATENATION kCONSTANT kCONVOLUTION kCUMULATIVE@10.13- kDECONVOLUTION kDEQUANTIZE "
       "kEINSUM kELEMENTWISE kFILL kFULLY_CONNECTED@8.6 kGATHER kGRID_SAMPLE kIDENTITY kLRN kMATRIX_MULTIPLY "
       "kNMS kNON_ZERO kNORMALIZATION kONE_HOT kPADDING kPARAMETRIC_RELU kPLUGIN kPLUGIN_V2 kPOOLING kQUANTIZE "
       "kRAGGED_SOFTMAX kREDUCE kRESIZE kREVERSE_SEQUENCE kRNN_V2@8.6 kSCALE kSCATTER kSELECT kSHAPE kSHUFFLE "
       "kSLICE kSOFTMAX kSQUEEZE@10.13- kTOPK kUNARY kUNSQUEEZE@10.13-"},
      {"MatrixOperation", "8.6-", "kNONE kTRANSPOSE kVECTOR"},
      {"MemoryPoolType", "8.6-",
       "kDLA_GLOBAL_DRAM kDLA_LOCAL_DRAM kDLA_MANAGED_SRAM kTACTIC_DRAM kTACTIC_SHARED_MEMORY@10.13- kWORKSPACE"},
      {"NetworkDefinitionCreationFlag", "8.6-", "kEXPLICIT_BATCH@8.6-10.13 kSTRONGLY_TYPED"},
      {"OnnxParserFlag", "8.6-", "kNATIVE_INSTANCENORM"},
      {"OptProfileSelector", "8.6-", "kMAX kMIN kOPT"},
      {"PaddingMode", "8.6-",
       "kCAFFE_ROUND_DOWN@8.6 kCAFFE_ROUND_UP@8.6 kEXPLICIT_ROUND_DOWN kEXPLICIT_ROUND_UP kSAME_LOWER "
       "kSAME_UPPER"},
      {"Permutation", "8.6-", ""},
      {"PoolingType", "8.6-", "kAVERAGE kMAX kMAX_AVERAGE_BLEND"},
      {"PreviewFeature", "8.6-",
       "kALIASED_PLUGIN_IO_10_03@10.13- kDISABLE_EXTERNAL_TACTIC_SOURCES_FOR_CORE_0805@8.6 "
       "kFASTER_DYNAMIC_SHAPES_0805@8.6 kPROFILE_SHARING_0806@8.6-10.13 kRUNTIME_ACTIVATION_RESIZE_10_10@10.13-"},
      {"ProfilingVerbosity", "8.6-", "kDETAILED kLAYER_NAMES_ONLY kNONE"},
      {"QuantizationFlag", "8.6-10.13", "kCALIBRATE_BEFORE_FUSION"},
      {"ReduceOperation", "8.6-", "kAVG kMAX kMIN kPROD kSUM"},
      {"ResizeCoordinateTransformation", "8.6-", "kALIGN_CORNERS kASYMMETRIC kHALF_PIXEL"},
      {"ResizeRoundMode", "8.6-", "kCEIL kFLOOR kHALF_DOWN kHALF_UP"},
      {"ResizeSelector", "8.6-", "kFORMULA kUPPER"},
      {"RuntimePlatform", "10.13-", "kSAME_AS_BUILD kWINDOWS_AMD64"},
      {"SampleMode", "8.6-", "kCLAMP kDEFAULT@8.6 kFILL kREFLECT kSTRICT_BOUNDS kWRAP"},
      {"ScaleMode", "8.6-", "kCHANNEL kELEMENTWISE kUNIFORM"},
      {"ScatterMode", "8.6-", "kELEMENT kND"},
      {"SeekPosition", "10.13-", "kCUR kEND kSET"},
      {"Severity", "8.6-", "kERROR kINFO kINTERNAL_ERROR kVERBOSE kWARNING"},
      {"TacticSource", "8.6-",
       "kCUBLAS@8.6-10.13 kCUBLAS_LT@8.6-10.13 kCUDNN@8.6-10.13 kEDGE_MASK_CONVOLUTIONS kJIT_CONVOLUTIONS"},
      {"TempfileControlFlag", "8.6-", "kALLOW_IN_MEMORY_FILES kALLOW_TEMPORARY_FILES"},
      {"TensorFormat", "8.6-",
       "kCDHW32 kCHW16 kCHW2 kCHW32 kCHW4 kDHWC kDHWC8 kDLA_HWC4 kDLA_LINEAR kHWC kHWC16 kHWC8 kLINEAR"},
      {"TensorIOMode", "8.6-", "kINPUT kNONE kOUTPUT"},
      {"TensorLocation", "8.6-", "kDEVICE kHOST"},
      {"TilingOptimizationLevel", "10.13-", "kFAST kFULL kMODERATE kNONE"},
      {"TopKOperation", "8.6-", "kMAX kMIN"},
      {"UnaryOperation", "8.6-",
       "kABS kACOS kACOSH kASIN kASINH kATAN kATANH kCEIL kCOS kCOSH kERF kEXP kFLOOR kISINF kISNAN kLOG kNEG "
       "kNOT kRECIP kROUND kSIGN kSIN kSINH kSQRT kTAN"},
      {"Weights", "8.6-", ""},
      {"WeightsRole", "8.6-", "kANY kBIAS kCONSTANT kKERNEL kSCALE kSHIFT"},
  };
  return list;
}

}  // namespace temper::nvinfer
