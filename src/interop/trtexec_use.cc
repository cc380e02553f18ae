// SPDX-License-Identifier: Apache-2.0
// THE list of what `temper trtexec` does with each flag.
#include "interop/trtexec_settings.h"

namespace temper {

namespace {

constexpr TrtexecUse X = TrtexecUse::executed, A = TrtexecUse::accepted, R = TrtexecUse::refused;

constexpr std::string_view kOnnx = "ONNX models alone are read; convert the model";
constexpr std::string_view kDla = "there is no DLA here; leave it out";
constexpr std::string_view kPlugins = "plugins of TensorRT cannot be run; the model may hold operators of ONNX alone";
constexpr std::string_view kRefit =
    "weights are not replaced in a plan; build it again, which the timing cache makes quick";
constexpr std::string_view kStrip = "a plan holds its weights";
constexpr std::string_view kSafe = "there is no safety runtime";
constexpr std::string_view kRuntime = "there is one runtime, the full one";
constexpr std::string_view kDebug = "tensors inside a plan are not shown; temper verify finds the layer that differs";
constexpr std::string_view kTyped = "there are no kernels of this precision";
constexpr std::string_view kTimes = "candidates are timed until the times are good enough";
constexpr std::string_view kSearch = "the search is Temper's own";
constexpr std::string_view kDefault = "it is so here in any case";

constexpr std::string_view kCompare =
    "temper verify PLAN compares outputs with the reference, temper compare with other plans";
constexpr std::string_view kTune = "one plan is built, by measuring; temper study compares precisions";

constexpr TrtexecFlagUse kUses[] = {
    {"--onnx", X, "the model to build"},
    {"--model", R, kOnnx},
    {"--deploy", R, kOnnx},
    {"--uff", R, kOnnx},
    {"--uffInput", R, kOnnx},
    {"--uffNHWC", R, kOnnx},
    {"--output", R, kOnnx},
    {"--maxBatch", R, "the batch is a dimension of the shapes: --shapes=NAME:8x3x224x224. A batch of 1 is accepted"},
    {"--batch", R, "the batch is a dimension of the shapes: --shapes=NAME:8x3x224x224. A batch of 1 is accepted"},
    {"--explicitBatch", A, kDefault},
    {"--explicitPrecision", A, "the quantization that is in a model is computed as it is"},
    {"--minShapes", X, "the smallest shapes of the profile"},
    {"--optShapes", X, "the shapes to tune for, and to run where --shapes is not given"},
    {"--maxShapes", X, "the largest shapes of the profile"},
    {"--shapes", X, "the shapes to run; without a profile also those to build for"},
    {"--minShapesCalib", A, "ranges come from a cache; nothing is calibrated"},
    {"--optShapesCalib", A, "ranges come from a cache; nothing is calibrated"},
    {"--maxShapesCalib", A, "ranges come from a cache; nothing is calibrated"},
    {"--profile", X, "begins another profile of shapes"},
    {"--calibProfile", A, "ranges come from a cache; nothing is calibrated"},
    {"--useProfile", X, "the profile to run with"},
    {"--inputIOFormats", X, "types of inputs in rows, fp16:chw; floats in place of floats, and int32 of int64"},
    {"--outputIOFormats", X, "types of outputs in rows, fp16:chw; floats in place of floats, and int32 of int64"},
    {"--workspace", X, "scratch memory that a kernel may take, in MiB"},
    {"--memPoolSize", X, "workspace: scratch memory that a kernel may take; other pools have no effect"},
    {"--profilingVerbosity", X, "detailed: --dumpLayerInfo and --exportLayerInfo say all that is known of a layer"},
    {"--nvtxMode", X, "the same as --profilingVerbosity; nothing is sent to NVTX"},
    {"--minTiming", A, kTimes},
    {"--avgTiming", A, kTimes},
    {"--refit", R, kRefit},
    {"--stripWeights", R, kStrip},
    {"--stripAllWeights", R, kStrip},
    {"--weightless", R, kStrip},
    {"--refitFromOnnx", R, kRefit},
    {"--versionCompatible", R, "a plan is of one version of Temper and one machine"},
    {"--pluginInstanceNorm", A, "instance normalization has kernels of its own"},
    {"--uint8AsymmetricQuantizationDLA", R, kDla},
    {"--reportCapabilityDLA", R, kDla},
    {"--adjustForDLA", R, kDla},
    {"--enablePluginOverride", R, kPlugins},
    {"--decomposableAttentions", A, kSearch},
    {"--useRuntime", R, "there is one runtime, the full one (full is accepted)"},
    {"--leanDLLPath", R, kRuntime},
    {"--excludeLeanRuntime", A, kRuntime},
    {"--sparsity", R, "there are no 2:4 sparse kernels (disable and enable are accepted: enable is a permission)"},
    {"--noTF32", X, "FP32 without TF32"},
    {"--fp16", X,
     "FP16 on a GPU, with --int8 for the layers that are faster in it; on a CPU, which computes none, layers stay in "
     "FP32"},
    {"--bf16", X, "BF16; on a CPU without AVX512_BF16 layers stay in FP32"},
    {"--int8", X, "INT8 with the ranges of --calib, or of noise, which is fit for speed alone"},
    {"--fp8", A, "a permission: matrix products of a model with FP8 quantization run in FP8 where the GPU has it"},
    {"--int4", R, kTyped},
    {"--best", X, "the precision whose plan is the fastest, of all that the device has; INT8 with --calib alone"},
    {"--stronglyTyped", X, "the model's own types; flags of precisions have no effect beside it, but for --noTF32"},
    {"--directIO", A, "inputs and outputs are in rows"},
    {"--precisionConstraints", X, "whether --layerPrecisions are hints (none), wishes (prefer) or orders (obey)"},
    {"--layerPrecisions", X, "NAME:fp32, NAME:fp16, NAME:bf16 or NAME:int8 of single layers; *:TYPE of all others"},
    {"--layerOutputTypes", R, "what a layer gives is stored as the layers that read it want it; --layerPrecisions"},
    {"--layerDeviceTypes", R, kDla},
    {"--calib", X, "a calibration cache of TensorRT, or of temper calibrate --cache"},
    {"--safe", R, kSafe},
    {"--consistency", R, kSafe},
    {"--restricted", R, kSafe},
    {"--buildDLAStandalone", R, kDla},
    {"--allowGPUFallback", A, "there is no DLA, so everything is where it would fall back to"},
    {"--saveEngine", X, "writes a plan of Temper; a file of another kind is not replaced"},
    {"--loadEngine", X, "reads a plan of Temper; an engine of TensorRT runs in TensorRT alone"},
    {"--asyncFileReader", A, "a plan is read at once"},
    {"--getPlanVersionOnly", R, "temper inspect PLAN shows the version"},
    {"--tacticSources", A, kSearch},
    {"--noBuilderCache", X, "no timing cache is read or written"},
    {"--noCompilationCache", A, kSearch},
    {"--heuristic", A, kSearch},
    {"--timingCacheFile", X, "a timing cache of Temper, read and extended; a file of another kind is not replaced"},
    {"--errorOnTimingCacheMiss", R, "a time that is not in the cache is measured"},
    {"--preview", A, kSearch},
    {"--builderOptimizationLevel", A, kSearch},
    {"--maxTactics", A, kSearch},
    {"--tilingOptimizationLevel", A, kSearch},
    {"--l2LimitForTiling", A, kSearch},
    {"--hardwareCompatibilityLevel", R, "a plan is for the machine that it was measured on (none is accepted)"},
    {"--runtimePlatform", R, "a plan is for the machine that it was measured on (SameAsBuild is accepted)"},
    {"--remoteAutoTuningConfig", R, "a plan is measured on this machine"},
    {"--cpuOnly", R, "a plan is measured on the device that runs it"},
    {"--tempdir", A, "no temporary files are made there"},
    {"--tempfileControls", A, "no temporary files are made there"},
    {"--maxAuxStreams", A, "a plan is one chain of launches"},
    {"--allowWeightStreaming", R, "weights are in the device's memory"},
    {"--weightStreamingBudget", R, "weights are in the device's memory"},
    {"--allocationStrategy", A, "a session takes the memory that its shapes need"},
    {"--markDebug", R, kDebug},
    {"--markUnfusedTensorsAsDebugTensors", R, kDebug},
    {"--saveDebugTensors", R, kDebug},
    {"--saveAllDebugTensors", R, kDebug},
    {"--monitorMemory", A, "temper build prints what a plan takes"},
    {"--dumpKernelText", R, kSafe},
    {"--buildOnly", X, "builds and does not run"},
    {"--skipInference", X, "builds and does not run"},
    {"--device", X, "the number of the GPU"},
    {"--useDLACore", R, "there is no DLA here; leave it out (-1 is accepted)"},
    {"--staticPlugins", R, kPlugins},
    {"--dynamicPlugins", R, kPlugins},
    {"--setPluginsToSerialize", R, kPlugins},
    {"--ignoreParsedPluginLibs", A, "no plugin libraries are loaded"},
    {"--safetyPlugins", R, kPlugins},
    {"--loadInputs", X, "raw elements of the inputs from files"},
    {"--iterations", X, "the least number of timed queries"},
    {"--warmUp", X, "milliseconds of warm-up"},
    {"--duration", X, "the least number of seconds to time"},
    {"--sleepTime", X, "milliseconds before the first query"},
    {"--idleTime", X, "milliseconds between two queries, of one stream; the throughput counts them"},
    {"--infStreams", X, "queries at a time, each in a session of its own"},
    {"--exposeDMA", A, kDefault},
    {"--noDataTransfers", X, "leaves the copies to and from a GPU out of the times"},
    {"--includeDataTransfers", X, "counts the copies to and from a GPU in the times"},
    {"--useManagedMemory", A, "buffers are plain memory of the device"},
    {"--useSpinWait", A, "the driver decides how to wait"},
    {"--noSpinWait", A, "the driver decides how to wait"},
    {"--threads", A, "every stream has a thread of its own in any case"},
    {"--useCudaGraph", X, "a query is one CUDA graph"},
    {"--noCudaGraph", X, "kernels are launched one by one"},
    {"--timeDeserialize", R, "temper bench --pipe PLAN says how long loading takes"},
    {"--timeRefit", R, kRefit},
    {"--separateProfileRun", A, "layers are always timed in a run of their own"},
    {"--persistentCacheRatio", A, "no part of the L2 cache is set aside"},
    {"--verbose", X, "says more"},
    {"--avgRuns", X, "queries averaged in each line of the trace"},
    {"--percentile", X, "percentiles to report"},
    {"--dumpRefit", R, kRefit},
    {"--dumpOutput", X, "prints the outputs"},
    {"--dumpRawBindingsToFile", R, "temper run PLAN --output-dir DIR writes outputs as .npy"},
    {"--dumpProfile", X, "prints times by layer"},
    {"--dumpLayerInfo", X, "prints the layers"},
    {"--dumpOptimizationProfile", A, "temper inspect PLAN shows the ranges of shapes"},
    {"--exportTimes", X, "writes the times of every query as JSON"},
    {"--exportOutput", X, "writes the outputs as JSON"},
    {"--exportProfile", X, "writes times by layer as JSON"},
    {"--exportLayerInfo", X, "writes the layers as JSON"},
    {"--help", X, "prints the flags"},
    {"--loadRefOutputs", R, kCompare},
    {"--accuracyAlgorithm", R, kCompare},
    {"--accuracyThreshold", R, kCompare},
    {"--atol", R, kCompare},
    {"--rtol", R, kCompare},
    {"--refPair", R, kCompare},
    {"--tuneBuildRoutes", R, kTune},
    {"--tuneBuildRouteFile", R, kTune},
    {"--tuningSearch", R, kTune},
    {"--tuningCacheFile", R, kTune},
    {"--tuningTimeOut", R, kTune},
    {"--saveAllEngines", R, kTune},
    {"--dryRun", R, kTune},
    {"--continue", R, kTune},
    {"--helpBuildRoute", R, kTune},
    {"--setBuildRoute", R, kTune},
    // Of releases before those of the list.
    {"--streams", X, "the same as --infStreams"},
    {"--plugins", R, kPlugins},
    // Temper's own.
    {"--temperDevice", X,
     "the device as Temper names it: cpu, cuda:0; without it GPU 0, or the CPU where there is none"},
    {"--temperApi", X,
     "the release that the command was written for, 8.6, 10.13 or 11.1: flags that were gone by then are unknown, and "
     "from 11 on copies are not in the times and a query is one CUDA graph unless a flag says otherwise"},
};

}  // namespace

std::span<const TrtexecFlagUse> trtexec_flag_uses() { return kUses; }

}  // namespace temper
