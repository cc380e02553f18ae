// SPDX-License-Identifier: Apache-2.0
// Tensors and layers of a network that a program builds by itself. Temper's own text, for programs that were written
// for TensorRT; NvInfer.h includes it. What a layer is told goes to src/nvinfer/layers.cc, by the names there.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "NvInferRuntime.h"

namespace nvinfer1 {

enum class LayerType : int32_t {
#if TEMPER_NVINFER_API >= 1000
  kCONVOLUTION = 0,
  kCAST = 1,
  kACTIVATION = 2,
  kPOOLING = 3,
  kLRN = 4,
  kSCALE = 5,
  kSOFTMAX = 6,
  kDECONVOLUTION = 7,
  kCONCATENATION = 8,
  kELEMENTWISE = 9,
  kPLUGIN = 10,
  kUNARY = 11,
  kPADDING = 12,
  kSHUFFLE = 13,
  kREDUCE = 14,
  kTOPK = 15,
  kGATHER = 16,
  kMATRIX_MULTIPLY = 17,
  kRAGGED_SOFTMAX = 18,
  kCONSTANT = 19,
  kIDENTITY = 20,
  kPLUGIN_V2 = 21,
  kSLICE = 22,
  kSHAPE = 23,
  kPARAMETRIC_RELU = 24,
  kRESIZE = 25,
  kSELECT = 29,
  kFILL = 30,
  kQUANTIZE = 31,
  kDEQUANTIZE = 32,
  kSCATTER = 36,
  kEINSUM = 37,
  kONE_HOT = 39,
  kNON_ZERO = 40,
  kGRID_SAMPLE = 41,
  kNMS = 42,
  kREVERSE_SEQUENCE = 43,
  kNORMALIZATION = 44,
  kSQUEEZE = 46,
  kUNSQUEEZE = 47,
  kCUMULATIVE = 48,
#else
  kCONVOLUTION = 0,
  kFULLY_CONNECTED = 1,
  kACTIVATION = 2,
  kPOOLING = 3,
  kLRN = 4,
  kSCALE = 5,
  kSOFTMAX = 6,
  kDECONVOLUTION = 7,
  kCONCATENATION = 8,
  kELEMENTWISE = 9,
  kPLUGIN = 10,
  kUNARY = 11,
  kPADDING = 12,
  kSHUFFLE = 13,
  kREDUCE = 14,
  kTOPK = 15,
  kGATHER = 16,
  kMATRIX_MULTIPLY = 17,
  kRAGGED_SOFTMAX = 18,
  kCONSTANT = 19,
  kRNN_V2 = 20,
  kIDENTITY = 21,
  kPLUGIN_V2 = 22,
  kSLICE = 23,
  kSHAPE = 24,
  kPARAMETRIC_RELU = 25,
  kRESIZE = 26,
  kSELECT = 31,
  kFILL = 32,
  kQUANTIZE = 33,
  kDEQUANTIZE = 34,
  kSCATTER = 38,
  kEINSUM = 39,
  kONE_HOT = 41,
  kNON_ZERO = 42,
  kGRID_SAMPLE = 43,
  kNMS = 44,
  kREVERSE_SEQUENCE = 45,
  kNORMALIZATION = 46,
  kCAST = 47,
#endif
};
enum class ActivationType : int32_t {
  kRELU = 0,
  kSIGMOID = 1,
  kTANH = 2,
  kLEAKY_RELU = 3,
  kELU = 4,
  kSELU = 5,
  kSOFTSIGN = 6,
  kSOFTPLUS = 7,
  kCLIP = 8,
  kHARD_SIGMOID = 9,
  kSCALED_TANH = 10,
  kTHRESHOLDED_RELU = 11,
  kGELU_ERF = 12,
  kGELU_TANH = 13
};
enum class PoolingType : int32_t { kMAX = 0, kAVERAGE = 1, kMAX_AVERAGE_BLEND = 2 };
enum class ElementWiseOperation : int32_t {
  kSUM = 0,
  kPROD = 1,
  kMAX = 2,
  kMIN = 3,
  kSUB = 4,
  kDIV = 5,
  kPOW = 6,
  kFLOOR_DIV = 7,
  kAND = 8,
  kOR = 9,
  kXOR = 10,
  kEQUAL = 11,
  kGREATER = 12,
  kLESS = 13
};
enum class UnaryOperation : int32_t {
  kEXP = 0,
  kLOG = 1,
  kSQRT = 2,
  kRECIP = 3,
  kABS = 4,
  kNEG = 5,
  kSIN = 6,
  kCOS = 7,
  kTAN = 8,
  kSINH = 9,
  kCOSH = 10,
  kASIN = 11,
  kACOS = 12,
  kATAN = 13,
  kASINH = 14,
  kACOSH = 15,
  kATANH = 16,
  kCEIL = 17,
  kFLOOR = 18,
  kERF = 19,
  kNOT = 20,
  kSIGN = 21,
  kROUND = 22,
  kISINF = 23,
  kISNAN = 24
};
enum class ReduceOperation : int32_t { kSUM = 0, kPROD = 1, kMAX = 2, kMIN = 3, kAVG = 4 };
enum class MatrixOperation : int32_t { kNONE = 0, kTRANSPOSE = 1, kVECTOR = 2 };
enum class TopKOperation : int32_t { kMAX = 0, kMIN = 1 };
enum class ScaleMode : int32_t { kUNIFORM = 0, kCHANNEL = 1, kELEMENTWISE = 2 };
enum class GatherMode : int32_t { kDEFAULT = 0, kELEMENT = 1, kND = 2 };
enum class ScatterMode : int32_t { kELEMENT = 0, kND = 1 };
enum class InterpolationMode : int32_t { kNEAREST = 0, kLINEAR = 1, kCUBIC = 2 };
enum class ResizeCoordinateTransformation : int32_t { kALIGN_CORNERS = 0, kASYMMETRIC = 1, kHALF_PIXEL = 2 };
enum class ResizeSelector : int32_t { kFORMULA = 0, kUPPER = 1 };
enum class ResizeRoundMode : int32_t { kHALF_UP = 0, kHALF_DOWN = 1, kFLOOR = 2, kCEIL = 3 };
enum class FillOperation : int32_t { kLINSPACE = 0, kRANDOM_UNIFORM = 1, kRANDOM_NORMAL = 2 };
enum class BoundingBoxFormat : int32_t { kCORNER_PAIRS = 0, kCENTER_SIZES = 1 };
enum class PaddingMode : int32_t {
  kEXPLICIT_ROUND_DOWN = 0,
  kEXPLICIT_ROUND_UP = 1,
  kSAME_UPPER = 2,
  kSAME_LOWER = 3,
#if TEMPER_NVINFER_API < 1000
  kCAFFE_ROUND_DOWN = 4,
  kCAFFE_ROUND_UP = 5,
#endif
};
enum class SampleMode : int32_t {
  kSTRICT_BOUNDS = 0,
#if TEMPER_NVINFER_API < 1000
  kDEFAULT = kSTRICT_BOUNDS,
#endif
  kWRAP = 1,
  kCLAMP = 2,
  kFILL = 3,
  kREFLECT = 4,
};
#if TEMPER_NVINFER_API < 1000
using ResizeMode = InterpolationMode;
using SliceMode = SampleMode;
#else
enum class CumulativeOperation : int32_t { kSUM = 0 };
#endif

// An order of axes.
class Permutation {
 public:
  int32_t order[Dims::MAX_DIMS];
};

class ITensor;
class ILayer;

namespace stand_in {
struct Tensor;
// What tensors and layers share: the network of the library, and their wrappers, which live as long as it.
class Network {
 public:
  Network(temper_nv_network* made, temper_nv_log its_log) noexcept : native(made), log(its_log) {}
  Network(Network const&) = delete;
  Network& operator=(Network const&) = delete;
  ~Network() { temper_nv_network_free(native); }
  temper_nv_network* const native;
  temper_nv_log const log;
  inline ITensor* tensor(int32_t number);  // null for -1
  inline ILayer* layer(int32_t number);    // null for one that there is not
  void forget() noexcept {
    tensors_.clear();
    layers_.clear();
  }

 private:
  std::map<int32_t, std::unique_ptr<ITensor>> tensors_;
  std::map<int32_t, std::unique_ptr<ILayer>> layers_;
};
}  // namespace stand_in

// A tensor of a network: an input, or what a layer gives. It belongs to the network.
class ITensor {
 public:
  ITensor(ITensor const&) = delete;
  ITensor& operator=(ITensor const&) = delete;
  virtual ~ITensor() = default;
  char const* getName() const noexcept { return (name_ = temper_nv_tensor_name(network_.native, number_)).c_str(); }
  void setName(char const* name) noexcept { temper_nv_tensor_set_name(network_.native, number_, name); }
  // nbDims is -1, with an error in the log, where a layer before it does not hold.
  Dims getDimensions() const noexcept {
    temper_nv_tensor seen;
    return temper_nv_tensor_describe(network_.native, number_, &seen) ? stand_in::dims_of(seen.dims, seen.rank)
                                                                      : stand_in::no_dims();
  }
  void setDimensions(Dims const& dimensions) noexcept {
    stand_in::Wide const wide(dimensions);
    temper_nv_tensor_set_dims(network_.native, number_, wide.d, wide.rank);
  }
  DataType getType() const noexcept {
    temper_nv_tensor seen;
    temper_nv_tensor_describe(network_.native, number_, &seen);
    return static_cast<DataType>(seen.dtype);
  }
  // Of an input or output: what the program gives and gets.
  void setType(DataType type) noexcept {
    temper_nv_tensor_set_type(network_.native, number_, static_cast<int32_t>(type));
  }
  bool isNetworkInput() const noexcept { return temper_nv_tensor_is_input(network_.native, number_) != 0; }
  bool isNetworkOutput() const noexcept { return temper_nv_tensor_is_output(network_.native, number_) != 0; }
  bool isShapeTensor() const noexcept { return false; }
  bool isExecutionTensor() const noexcept { return true; }
  TensorLocation getLocation() const noexcept { return TensorLocation::kDEVICE; }
  // It is where the engine runs: a warning for another place.
  void setLocation(TensorLocation location) noexcept {
    if (location != TensorLocation::kDEVICE)
      stand_in::warning(network_.log, "setLocation: a tensor is where the engine runs, whatever is asked for");
  }
  // Builds fail where rows (kLINEAR) are not among them.
  void setAllowedFormats(TensorFormats formats) noexcept {
    if (formats & 1u) formats_ = formats;
    else refuse("setAllowedFormats: inputs and outputs are in rows (kLINEAR): not in Temper");
  }
  TensorFormats getAllowedFormats() const noexcept { return formats_; }
#if TEMPER_NVINFER_API < 1100
  // False, and builds fail: INT8 has the ranges that a calibrator or the model (Q/DQ) gives.
  bool setDynamicRange(float, float) noexcept {
    refuse("setDynamicRange: ranges of single tensors: not in Temper; give a calibrator, or a model with Q/DQ");
    return false;
  }
  bool dynamicRangeIsSet() const noexcept { return false; }
  void resetDynamicRange() noexcept {}
  void setBroadcastAcrossBatch(bool) noexcept {}  // of implicit batches, which there are none of
  bool getBroadcastAcrossBatch() const noexcept { return false; }
#endif
  // Dimensions of inputs with one name are equal when it runs.
  void setDimensionName(int32_t index, char const* name) noexcept {
    temper_nv_tensor_name_dim(network_.native, number_, index, name);
  }
  char const* getDimensionName(int32_t index) const noexcept {
    char const* const name = temper_nv_tensor_dim_name(network_.native, number_, index);
    return name ? (dim_name_ = name).c_str() : nullptr;
  }
  // -2, which no network has, in another network than its own.
  int32_t number_in(stand_in::Network const& network) const noexcept {
    if (&network == &network_) return number_;
    stand_in::error(network.log, "a tensor of another network was given");
    return -2;
  }

 protected:
  ITensor(stand_in::Network& network, int32_t number) noexcept : network_(network), number_(number) {}

 private:
  stand_in::Network& network_;
  int32_t number_;
  TensorFormats formats_ = 1;
  mutable std::string name_, dim_name_;
  void refuse(char const* why) noexcept { temper_nv_network_end_builds(network_.native, why); }
};

namespace stand_in {
struct Tensor final : ITensor {
  Tensor(Network& network, int32_t number) noexcept : ITensor(network, number) {}
};
inline ITensor* Network::tensor(int32_t number) {
  if (number < 0) return nullptr;
  std::unique_ptr<ITensor>& kept = tensors_[number];
  if (!kept) kept.reset(new Tensor(*this, number));
  return kept.get();
}
}  // namespace stand_in

// A layer that the program added, or a node of the parser's model, which stays as it is. It belongs to the network.
class ILayer {
 public:
  ILayer(stand_in::Network& network, int32_t number) noexcept : network_(network), number_(number) {}
  ILayer(ILayer const&) = delete;
  ILayer& operator=(ILayer const&) = delete;
  virtual ~ILayer() = default;
  inline LayerType getType() const noexcept;
  void setName(char const* name) noexcept { temper_nv_layer_set_name(network_.native, number_, name); }
  char const* getName() const noexcept { return (name_ = temper_nv_layer_name(network_.native, number_)).c_str(); }
  int32_t getNbInputs() const noexcept { return temper_nv_layer_inputs(network_.native, number_); }
  ITensor* getInput(int32_t index) const noexcept {
    return network_.tensor(temper_nv_layer_input(network_.native, number_, index));
  }
  int32_t getNbOutputs() const noexcept { return temper_nv_layer_outputs(network_.native, number_); }
  ITensor* getOutput(int32_t index) const noexcept {
    return network_.tensor(temper_nv_layer_output(network_.native, number_, index));
  }
  void setInput(int32_t index, ITensor& tensor) noexcept {
    temper_nv_layer_set_input(network_.native, number_, index, tensor.number_in(network_));
  }
#if TEMPER_NVINFER_API < 1100
  // Counts with kPREFER_PRECISION_CONSTRAINTS and kOBEY_PRECISION_CONSTRAINTS; otherwise types are chosen by the flags
  // and by speed.
  void setPrecision(DataType dataType) noexcept { put_enum("precision", dataType); }
  DataType getPrecision() const noexcept { return get_enum("precision", DataType::kFLOAT); }
  bool precisionIsSet() const noexcept {
    return temper_nv_layer_ints(network_.native, number_, "precision", nullptr, 0) > 0;
  }
  void resetPrecision() noexcept { temper_nv_layer_reset(network_.native, number_, "precision"); }
  // Of an output of the network, or of an identity layer, which casts then; otherwise kept.
  void setOutputType(int32_t index, DataType dataType) noexcept {
    if (ITensor* const output = getOutput(index)) output->setType(dataType);
  }
  DataType getOutputType(int32_t index) const noexcept {
    ITensor* const output = getOutput(index);
    return output ? output->getType() : DataType::kFLOAT;
  }
  bool outputTypeIsSet(int32_t index) const noexcept {
    return temper_nv_tensor_is_type_set(network_.native, temper_nv_layer_output(network_.native, number_, index)) != 0;
  }
  void resetOutputType(int32_t index) noexcept {
    temper_nv_tensor_set_type(network_.native, temper_nv_layer_output(network_.native, number_, index), -1);
  }
#endif
  void setMetadata(char const* metadata) noexcept { put_text("metadata", metadata); }
  char const* getMetadata() const noexcept {
    char const* const kept = temper_nv_layer_text(network_.native, number_, "metadata");
    return (metadata_ = kept ? kept : "").c_str();
  }

  // Settings, for what is derived from it.
  void put_ints(char const* setting, int64_t const* values, int32_t count) noexcept {
    temper_nv_layer_set_ints(network_.native, number_, setting, values, count);
  }
  void put_int(char const* setting, int64_t value) noexcept { put_ints(setting, &value, 1); }
  template <class E>
  void put_enum(char const* setting, E value) noexcept {
    put_int(setting, static_cast<int64_t>(value));
  }
  void put_dims(char const* setting, Dims const& dims) noexcept {
    stand_in::Wide const wide(dims);
    put_ints(setting, wide.d, wide.is_valid() ? wide.rank : 0);
  }
  void put_real(char const* setting, double value) noexcept {
    temper_nv_layer_set_reals(network_.native, number_, setting, &value, 1);
  }
  void put_reals(char const* setting, double const* values, int32_t count) noexcept {
    temper_nv_layer_set_reals(network_.native, number_, setting, values, count);
  }
  void put_text(char const* setting, char const* text) noexcept {
    temper_nv_layer_set_text(network_.native, number_, setting, text);
  }
  void put_weights(char const* setting, Weights const& weights) noexcept {
    temper_nv_layer_set_weights(network_.native, number_, setting, static_cast<int32_t>(weights.type), weights.values,
                                weights.count);
  }

 protected:
  int64_t get_int(char const* setting, int64_t otherwise) const noexcept {
    int64_t value = otherwise;
    return temper_nv_layer_ints(network_.native, number_, setting, &value, 1) > 0 ? value : otherwise;
  }
  template <class E>
  E get_enum(char const* setting, E otherwise) const noexcept {
    return static_cast<E>(get_int(setting, static_cast<int64_t>(otherwise)));
  }
  // As many of `otherwise` as the setting `like` has dimensions, where it is not set.
  Dims get_dims(char const* setting, int64_t otherwise = 0, char const* like = nullptr) const noexcept {
    int64_t d[TEMPER_NV_MAX_DIMS];
    int32_t rank = temper_nv_layer_ints(network_.native, number_, setting, d, TEMPER_NV_MAX_DIMS);
    if (rank < 0) {
      rank = like ? temper_nv_layer_ints(network_.native, number_, like, d, TEMPER_NV_MAX_DIMS) : 0;
      for (int32_t i = 0; i < rank; ++i) d[i] = otherwise;
    }
    return stand_in::dims_of(d, rank < 0 ? 0 : rank);
  }
  double get_real(char const* setting, double otherwise = 0) const noexcept {
    double value = otherwise;
    return temper_nv_layer_reals(network_.native, number_, setting, &value, 1) > 0 ? value : otherwise;
  }
  Weights get_weights(char const* setting) const noexcept {
    int32_t dtype = 0;
    Weights weights{DataType::kFLOAT, nullptr, 0};
    if (temper_nv_layer_weights(network_.native, number_, setting, &dtype, &weights.values, &weights.count))
      weights.type = static_cast<DataType>(dtype);
    return weights;
  }
  char const* get_text(char const* setting) const noexcept {
    char const* const kept = temper_nv_layer_text(network_.native, number_, setting);
    return (text_ = kept ? kept : "").c_str();
  }
#if TEMPER_NVINFER_API < 1000
  DimsHW get_hw(char const* setting, int64_t otherwise, char const* like) const noexcept {
    Dims const dims = get_dims(setting, otherwise, like);
    return dims.nbDims == 2 ? DimsHW(dims.d[0], dims.d[1]) : DimsHW();
  }
#endif

 private:
  stand_in::Network& network_;
  int32_t number_;
  mutable std::string name_, metadata_, text_;
};

namespace stand_in {
class Convolution : public ILayer {
 public:
  using ILayer::ILayer;
  void setKernelSizeNd(Dims const& dims) noexcept { put_dims("kernel_size", dims); }
  Dims getKernelSizeNd() const noexcept { return get_dims("kernel_size"); }
  void setStrideNd(Dims const& dims) noexcept { put_dims("stride", dims); }
  Dims getStrideNd() const noexcept { return get_dims("stride", 1, "kernel_size"); }
  void setPrePadding(Dims const& dims) noexcept { put_dims("pre_padding", dims); }
  Dims getPrePadding() const noexcept { return get_dims("pre_padding", 0, "kernel_size"); }
  void setPostPadding(Dims const& dims) noexcept { put_dims("post_padding", dims); }
  Dims getPostPadding() const noexcept { return get_dims("post_padding", 0, "kernel_size"); }
  // Both sides; what is read is the side in front.
  void setPaddingNd(Dims const& padding) noexcept {
    put_dims("pre_padding", padding);
    put_dims("post_padding", padding);
  }
  Dims getPaddingNd() const noexcept { return get_dims("pre_padding", 0, "kernel_size"); }
  void setPaddingMode(PaddingMode value) noexcept { put_enum("padding_mode", value); }
  PaddingMode getPaddingMode() const noexcept { return get_enum("padding_mode", PaddingMode::kEXPLICIT_ROUND_DOWN); }
#if TEMPER_NVINFER_API < 1000
  void setKernelSize(DimsHW dims) noexcept { put_dims("kernel_size", dims); }
  DimsHW getKernelSize() const noexcept { return get_hw("kernel_size", 0, "kernel_size"); }
  void setStride(DimsHW dims) noexcept { put_dims("stride", dims); }
  DimsHW getStride() const noexcept { return get_hw("stride", 1, "kernel_size"); }
  void setPadding(DimsHW padding) noexcept { setPaddingNd(padding); }
  DimsHW getPadding() const noexcept { return get_hw("pre_padding", 0, "kernel_size"); }
#endif
  void setDilationNd(Dims const& dims) noexcept { put_dims("dilation", dims); }
  Dims getDilationNd() const noexcept { return get_dims("dilation", 1, "kernel_size"); }
#if TEMPER_NVINFER_API < 1000
  void setDilation(DimsHW dims) noexcept { put_dims("dilation", dims); }
  DimsHW getDilation() const noexcept { return get_hw("dilation", 1, "kernel_size"); }
#endif
#if TEMPER_NVINFER_API >= 1000
  void setNbOutputMaps(int64_t value) noexcept { put_int("maps", value); }
  int64_t getNbOutputMaps() const noexcept { return get_int("maps", 0); }
  void setNbGroups(int64_t value) noexcept { put_int("groups", value); }
  int64_t getNbGroups() const noexcept { return get_int("groups", 1); }
#else
  void setNbOutputMaps(int32_t value) noexcept { put_int("maps", value); }
  int32_t getNbOutputMaps() const noexcept { return static_cast<int32_t>(get_int("maps", 0)); }
  void setNbGroups(int32_t value) noexcept { put_int("groups", value); }
  int32_t getNbGroups() const noexcept { return static_cast<int32_t>(get_int("groups", 1)); }
#endif
  void setKernelWeights(Weights weights) noexcept { put_weights("kernel", weights); }
  Weights getKernelWeights() const noexcept { return get_weights("kernel"); }
  void setBiasWeights(Weights weights) noexcept { put_weights("bias", weights); }
  Weights getBiasWeights() const noexcept { return get_weights("bias"); }
};
}  // namespace stand_in

class IConvolutionLayer : public stand_in::Convolution {
 public:
  using stand_in::Convolution::Convolution;
};

class IDeconvolutionLayer : public stand_in::Convolution {
 public:
  using stand_in::Convolution::Convolution;
};

class IPoolingLayer : public ILayer {
 public:
  using ILayer::ILayer;
  void setWindowSizeNd(Dims const& dims) noexcept { put_dims("window", dims); }
  Dims getWindowSizeNd() const noexcept { return get_dims("window"); }
  void setStrideNd(Dims const& dims) noexcept { put_dims("stride", dims); }
  Dims getStrideNd() const noexcept { return get_dims("stride", 1, "window"); }
  void setPrePadding(Dims const& dims) noexcept { put_dims("pre_padding", dims); }
  Dims getPrePadding() const noexcept { return get_dims("pre_padding", 0, "window"); }
  void setPostPadding(Dims const& dims) noexcept { put_dims("post_padding", dims); }
  Dims getPostPadding() const noexcept { return get_dims("post_padding", 0, "window"); }
  // Both sides; what is read is the side in front.
  void setPaddingNd(Dims const& padding) noexcept {
    put_dims("pre_padding", padding);
    put_dims("post_padding", padding);
  }
  Dims getPaddingNd() const noexcept { return get_dims("pre_padding", 0, "window"); }
  void setPaddingMode(PaddingMode value) noexcept { put_enum("padding_mode", value); }
  PaddingMode getPaddingMode() const noexcept { return get_enum("padding_mode", PaddingMode::kEXPLICIT_ROUND_DOWN); }
#if TEMPER_NVINFER_API < 1000
  void setWindowSize(DimsHW dims) noexcept { put_dims("window", dims); }
  DimsHW getWindowSize() const noexcept { return get_hw("window", 0, "window"); }
  void setStride(DimsHW dims) noexcept { put_dims("stride", dims); }
  DimsHW getStride() const noexcept { return get_hw("stride", 1, "window"); }
  void setPadding(DimsHW padding) noexcept { setPaddingNd(padding); }
  DimsHW getPadding() const noexcept { return get_hw("pre_padding", 0, "window"); }
#endif
  void setPoolingType(PoolingType value) noexcept { put_enum("operation", value); }
  PoolingType getPoolingType() const noexcept { return get_enum("operation", PoolingType::kMAX); }
  void setBlendFactor(float value) noexcept { put_real("blend", static_cast<double>(value)); }
  float getBlendFactor() const noexcept { return static_cast<float>(get_real("blend", 0)); }
  void setAverageCountExcludesPadding(bool value) noexcept { put_int("average_excludes_padding", value); }
  bool getAverageCountExcludesPadding() const noexcept { return get_int("average_excludes_padding", 1) != 0; }
};

#if TEMPER_NVINFER_API < 1000
class IFullyConnectedLayer : public ILayer {
 public:
  using ILayer::ILayer;
  void setNbOutputChannels(int32_t value) noexcept { put_int("maps", value); }
  int32_t getNbOutputChannels() const noexcept { return static_cast<int32_t>(get_int("maps", 0)); }
  void setKernelWeights(Weights weights) noexcept { put_weights("kernel", weights); }
  Weights getKernelWeights() const noexcept { return get_weights("kernel"); }
  void setBiasWeights(Weights weights) noexcept { put_weights("bias", weights); }
  Weights getBiasWeights() const noexcept { return get_weights("bias"); }
};
#endif

class IActivationLayer : public ILayer {
 public:
  using ILayer::ILayer;
  void setActivationType(ActivationType value) noexcept { put_enum("operation", value); }
  ActivationType getActivationType() const noexcept { return get_enum("operation", ActivationType::kRELU); }
  void setAlpha(float value) noexcept { put_real("alpha", static_cast<double>(value)); }
  float getAlpha() const noexcept { return static_cast<float>(get_real("alpha", 0)); }
  void setBeta(float value) noexcept { put_real("beta", static_cast<double>(value)); }
  float getBeta() const noexcept { return static_cast<float>(get_real("beta", 0)); }
};

class ILRNLayer : public ILayer {
 public:
  using ILayer::ILayer;
  void setWindowSize(int64_t value) noexcept { put_int("window", value); }
  int64_t getWindowSize() const noexcept { return get_int("window", 0); }
  void setAlpha(float value) noexcept { put_real("alpha", static_cast<double>(value)); }
  float getAlpha() const noexcept { return static_cast<float>(get_real("alpha", 0)); }
  void setBeta(float value) noexcept { put_real("beta", static_cast<double>(value)); }
  float getBeta() const noexcept { return static_cast<float>(get_real("beta", 0)); }
  void setK(float value) noexcept { put_real("k", static_cast<double>(value)); }
  float getK() const noexcept { return static_cast<float>(get_real("k", 0)); }
};

class IScaleLayer : public ILayer {
 public:
  using ILayer::ILayer;
  void setMode(ScaleMode value) noexcept { put_enum("mode", value); }
  ScaleMode getMode() const noexcept { return get_enum("mode", ScaleMode::kUNIFORM); }
  void setShift(Weights weights) noexcept { put_weights("shift", weights); }
  Weights getShift() const noexcept { return get_weights("shift"); }
  void setScale(Weights weights) noexcept { put_weights("scale", weights); }
  Weights getScale() const noexcept { return get_weights("scale"); }
  void setPower(Weights weights) noexcept { put_weights("power", weights); }
  Weights getPower() const noexcept { return get_weights("power"); }
  void setChannelAxis(int32_t value) noexcept { put_int("channel_axis", value); }
  int32_t getChannelAxis() const noexcept { return static_cast<int32_t>(get_int("channel_axis", 1)); }
};

class ISoftMaxLayer : public ILayer {
 public:
  using ILayer::ILayer;
  void setAxes(uint32_t value) noexcept { put_int("axes", value); }
  uint32_t getAxes() const noexcept { return static_cast<uint32_t>(get_int("axes", 0)); }
};

class IConcatenationLayer : public ILayer {
 public:
  using ILayer::ILayer;
  void setAxis(int32_t value) noexcept { put_int("axis", value); }
  int32_t getAxis() const noexcept { return static_cast<int32_t>(get_int("axis", 0)); }
};

class IElementWiseLayer : public ILayer {
 public:
  using ILayer::ILayer;
  void setOperation(ElementWiseOperation value) noexcept { put_enum("operation", value); }
  ElementWiseOperation getOperation() const noexcept { return get_enum("operation", ElementWiseOperation::kSUM); }
};

class IUnaryLayer : public ILayer {
 public:
  using ILayer::ILayer;
  void setOperation(UnaryOperation value) noexcept { put_enum("operation", value); }
  UnaryOperation getOperation() const noexcept { return get_enum("operation", UnaryOperation::kEXP); }
};

class IReduceLayer : public ILayer {
 public:
  using ILayer::ILayer;
  void setOperation(ReduceOperation value) noexcept { put_enum("operation", value); }
  ReduceOperation getOperation() const noexcept { return get_enum("operation", ReduceOperation::kSUM); }
  void setReduceAxes(uint32_t value) noexcept { put_int("axes", value); }
  uint32_t getReduceAxes() const noexcept { return static_cast<uint32_t>(get_int("axes", 0)); }
  void setKeepDimensions(bool value) noexcept { put_int("keep", value); }
  bool getKeepDimensions() const noexcept { return get_int("keep", 0) != 0; }
};

class IPaddingLayer : public ILayer {
 public:
  using ILayer::ILayer;
  void setPrePaddingNd(Dims const& dims) noexcept { put_dims("pre_padding", dims); }
  Dims getPrePaddingNd() const noexcept { return get_dims("pre_padding"); }
  void setPostPaddingNd(Dims const& dims) noexcept { put_dims("post_padding", dims); }
  Dims getPostPaddingNd() const noexcept { return get_dims("post_padding"); }
};

class IParametricReLULayer : public ILayer {
 public:
  using ILayer::ILayer;
};

class ISelectLayer : public ILayer {
 public:
  using ILayer::ILayer;
};

class IShapeLayer : public ILayer {
 public:
  using ILayer::ILayer;
};

class IIdentityLayer : public ILayer {
 public:
  using ILayer::ILayer;
};

class INonZeroLayer : public ILayer {
 public:
  using ILayer::ILayer;
};

#if TEMPER_NVINFER_API >= 1000
class ISqueezeLayer : public ILayer {
 public:
  using ILayer::ILayer;
};
#endif

#if TEMPER_NVINFER_API >= 1000
class IUnsqueezeLayer : public ILayer {
 public:
  using ILayer::ILayer;
};
#endif

class ICastLayer : public ILayer {
 public:
  using ILayer::ILayer;
  void setToType(DataType value) noexcept { put_enum("to", value); }
  DataType getToType() const noexcept { return get_enum("to", DataType::kFLOAT); }
};

class IShuffleLayer : public ILayer {
 public:
  using ILayer::ILayer;
  void setFirstTranspose(Permutation permutation) noexcept { put_order("first_transpose", permutation); }
  Permutation getFirstTranspose() const noexcept { return order("first_transpose"); }
  void setReshapeDimensions(Dims const& dims) noexcept { put_dims("reshape", dims); }
  Dims getReshapeDimensions() const noexcept { return get_dims("reshape"); }
  void setSecondTranspose(Permutation permutation) noexcept { put_order("second_transpose", permutation); }
  Permutation getSecondTranspose() const noexcept { return order("second_transpose"); }
  void setZeroIsPlaceholder(bool value) noexcept { put_int("zero_is_placeholder", value); }
  bool getZeroIsPlaceholder() const noexcept { return get_int("zero_is_placeholder", 1) != 0; }

 private:
  void put_order(char const* setting, Permutation const& permutation) noexcept {
    int64_t order[Dims::MAX_DIMS];
    for (int32_t i = 0; i < Dims::MAX_DIMS; ++i) order[i] = permutation.order[i];
    put_ints(setting, order, Dims::MAX_DIMS);
  }
  Permutation order(char const* setting) const noexcept {
    Permutation permutation{};
    Dims const kept = get_dims(setting);
    for (int32_t i = 0; i < Dims::MAX_DIMS; ++i)
      permutation.order[i] = i < kept.nbDims ? static_cast<int32_t>(kept.d[i]) : i;
    return permutation;
  }
};

class ISliceLayer : public ILayer {
 public:
  using ILayer::ILayer;
  void setStart(Dims const& dims) noexcept { put_dims("start", dims); }
  Dims getStart() const noexcept { return get_dims("start"); }
  void setSize(Dims const& dims) noexcept { put_dims("size", dims); }
  Dims getSize() const noexcept { return get_dims("size"); }
  void setStride(Dims const& dims) noexcept { put_dims("stride", dims); }
  Dims getStride() const noexcept { return get_dims("stride"); }
  void setMode(SampleMode value) noexcept { put_enum("mode", value); }
  SampleMode getMode() const noexcept { return get_enum("mode", SampleMode::kSTRICT_BOUNDS); }
};

class ITopKLayer : public ILayer {
 public:
  using ILayer::ILayer;
  void setOperation(TopKOperation value) noexcept { put_enum("operation", value); }
  TopKOperation getOperation() const noexcept { return get_enum("operation", TopKOperation::kMAX); }
  void setK(int32_t value) noexcept { put_int("k", value); }
  int32_t getK() const noexcept { return static_cast<int32_t>(get_int("k", 0)); }
  void setReduceAxes(uint32_t value) noexcept { put_int("axes", value); }
  uint32_t getReduceAxes() const noexcept { return static_cast<uint32_t>(get_int("axes", 0)); }
};

class IGatherLayer : public ILayer {
 public:
  using ILayer::ILayer;
  void setGatherAxis(int32_t value) noexcept { put_int("axis", value); }
  int32_t getGatherAxis() const noexcept { return static_cast<int32_t>(get_int("axis", 0)); }
  void setNbElementWiseDims(int32_t value) noexcept { put_int("elementwise_dims", value); }
  int32_t getNbElementWiseDims() const noexcept { return static_cast<int32_t>(get_int("elementwise_dims", 0)); }
  void setMode(GatherMode value) noexcept { put_enum("mode", value); }
  GatherMode getMode() const noexcept { return get_enum("mode", GatherMode::kDEFAULT); }
};

class IScatterLayer : public ILayer {
 public:
  using ILayer::ILayer;
  void setMode(ScatterMode value) noexcept { put_enum("mode", value); }
  ScatterMode getMode() const noexcept { return get_enum("mode", ScatterMode::kELEMENT); }
  void setAxis(int32_t value) noexcept { put_int("axis", value); }
  int32_t getAxis() const noexcept { return static_cast<int32_t>(get_int("axis", 0)); }
};

class IMatrixMultiplyLayer : public ILayer {
 public:
  using ILayer::ILayer;
  void setOperation(int32_t index, MatrixOperation op) noexcept { put_enum(index ? "operation1" : "operation0", op); }
  MatrixOperation getOperation(int32_t index) const noexcept {
    return get_enum(index ? "operation1" : "operation0", MatrixOperation::kNONE);
  }
};

class IConstantLayer : public ILayer {
 public:
  using ILayer::ILayer;
  void setWeights(nvinfer1::Weights weights) noexcept { put_weights("weights", weights); }
  nvinfer1::Weights getWeights() const noexcept { return get_weights("weights"); }
  void setDimensions(Dims const& dims) noexcept { put_dims("dims", dims); }
  Dims getDimensions() const noexcept { return get_dims("dims"); }
};

class IResizeLayer : public ILayer {
 public:
  using ILayer::ILayer;
  void setOutputDimensions(Dims const& dims) noexcept { put_dims("size", dims); }
  Dims getOutputDimensions() const noexcept { return get_dims("size"); }
  void setScales(float const* scales, int32_t nbScales) noexcept {
    double wide[TEMPER_NV_MAX_DIMS] = {};
    for (int32_t i = 0; i < nbScales && i < TEMPER_NV_MAX_DIMS; ++i) wide[i] = static_cast<double>(scales[i]);
    put_reals("scales", wide, nbScales < TEMPER_NV_MAX_DIMS ? nbScales : TEMPER_NV_MAX_DIMS);
  }
  void setResizeMode(InterpolationMode value) noexcept { put_enum("mode", value); }
  InterpolationMode getResizeMode() const noexcept { return get_enum("mode", InterpolationMode::kNEAREST); }
  void setCoordinateTransformation(ResizeCoordinateTransformation value) noexcept { put_enum("coordinate", value); }
  ResizeCoordinateTransformation getCoordinateTransformation() const noexcept {
    return get_enum("coordinate", ResizeCoordinateTransformation::kASYMMETRIC);
  }
  void setSelectorForSinglePixel(ResizeSelector value) noexcept { put_enum("selector", value); }
  ResizeSelector getSelectorForSinglePixel() const noexcept { return get_enum("selector", ResizeSelector::kFORMULA); }
  void setNearestRounding(ResizeRoundMode value) noexcept { put_enum("rounding", value); }
  ResizeRoundMode getNearestRounding() const noexcept { return get_enum("rounding", ResizeRoundMode::kFLOOR); }
  void setCubicCoeff(float value) noexcept { put_real("cubic", static_cast<double>(value)); }
  float getCubicCoeff() const noexcept { return static_cast<float>(get_real("cubic", -0.75)); }
  void setExcludeOutside(bool value) noexcept { put_int("exclude_outside", value); }
  bool getExcludeOutside() const noexcept { return get_int("exclude_outside", 0) != 0; }
};

class IFillLayer : public ILayer {
 public:
  using ILayer::ILayer;
  void setDimensions(Dims const& dims) noexcept { put_dims("dims", dims); }
  Dims getDimensions() const noexcept { return get_dims("dims"); }
  void setOperation(FillOperation value) noexcept { put_enum("operation", value); }
  FillOperation getOperation() const noexcept { return get_enum("operation", FillOperation::kLINSPACE); }
  void setAlpha(double value) noexcept { put_real("alpha", static_cast<double>(value)); }
  double getAlpha() const noexcept { return static_cast<double>(get_real("alpha", 0)); }
  void setBeta(double value) noexcept { put_real("beta", static_cast<double>(value)); }
  double getBeta() const noexcept { return static_cast<double>(get_real("beta", 1)); }
};

class IQuantizeLayer : public ILayer {
 public:
  using ILayer::ILayer;
  void setAxis(int32_t value) noexcept { put_int("axis", value); }
  int32_t getAxis() const noexcept { return static_cast<int32_t>(get_int("axis", 1)); }
};

class IDequantizeLayer : public ILayer {
 public:
  using ILayer::ILayer;
  void setAxis(int32_t value) noexcept { put_int("axis", value); }
  int32_t getAxis() const noexcept { return static_cast<int32_t>(get_int("axis", 1)); }
};

class IEinsumLayer : public ILayer {
 public:
  using ILayer::ILayer;
  bool setEquation(char const* equation) noexcept {
    put_text("equation", equation);
    return true;
  }
  char const* getEquation() const noexcept { return get_text("equation"); }
};

class IOneHotLayer : public ILayer {
 public:
  using ILayer::ILayer;
  void setAxis(int32_t value) noexcept { put_int("axis", value); }
  int32_t getAxis() const noexcept { return static_cast<int32_t>(get_int("axis", -1)); }
};

class IGridSampleLayer : public ILayer {
 public:
  using ILayer::ILayer;
  void setInterpolationMode(nvinfer1::InterpolationMode value) noexcept { put_enum("mode", value); }
  nvinfer1::InterpolationMode getInterpolationMode() const noexcept {
    return get_enum("mode", nvinfer1::InterpolationMode::kLINEAR);
  }
  void setAlignCorners(bool value) noexcept { put_int("align_corners", value); }
  bool getAlignCorners() const noexcept { return get_int("align_corners", 0) != 0; }
  void setSampleMode(nvinfer1::SampleMode value) noexcept { put_enum("sample_mode", value); }
  nvinfer1::SampleMode getSampleMode() const noexcept { return get_enum("sample_mode", nvinfer1::SampleMode::kFILL); }
};

class INMSLayer : public ILayer {
 public:
  using ILayer::ILayer;
  void setBoundingBoxFormat(nvinfer1::BoundingBoxFormat value) noexcept { put_enum("format", value); }
  nvinfer1::BoundingBoxFormat getBoundingBoxFormat() const noexcept {
    return get_enum("format", nvinfer1::BoundingBoxFormat::kCORNER_PAIRS);
  }
  void setTopKBoxLimit(int32_t value) noexcept { put_int("limit", value); }
  int32_t getTopKBoxLimit() const noexcept { return static_cast<int32_t>(get_int("limit", 0)); }
};

class INormalizationLayer : public ILayer {
 public:
  using ILayer::ILayer;
  void setEpsilon(float value) noexcept { put_real("epsilon", static_cast<double>(value)); }
  float getEpsilon() const noexcept { return static_cast<float>(get_real("epsilon", 1e-5)); }
  void setAxes(uint32_t value) noexcept { put_int("axes", value); }
  uint32_t getAxes() const noexcept { return static_cast<uint32_t>(get_int("axes", 0)); }
  void setNbGroups(int64_t value) noexcept { put_int("groups", value); }
  int64_t getNbGroups() const noexcept { return get_int("groups", 1); }
};

class IReverseSequenceLayer : public ILayer {
 public:
  using ILayer::ILayer;
  void setBatchAxis(int32_t value) noexcept { put_int("batch_axis", value); }
  int32_t getBatchAxis() const noexcept { return static_cast<int32_t>(get_int("batch_axis", 1)); }
  void setSequenceAxis(int32_t value) noexcept { put_int("sequence_axis", value); }
  int32_t getSequenceAxis() const noexcept { return static_cast<int32_t>(get_int("sequence_axis", 0)); }
};

#if TEMPER_NVINFER_API >= 1000
class ICumulativeLayer : public ILayer {
 public:
  using ILayer::ILayer;
  void setExclusive(bool value) noexcept { put_int("exclusive", value); }
  bool getExclusive() const noexcept { return get_int("exclusive", 0) != 0; }
  void setReverse(bool value) noexcept { put_int("reverse", value); }
  bool getReverse() const noexcept { return get_int("reverse", 0) != 0; }
};
#endif

namespace stand_in {

struct LayerKind {
  char const* word;
  LayerType type;
  ILayer* (*make)(Network& network, int32_t number);
};
template <class Layer>
ILayer* make_layer(Network& network, int32_t number) {
  return new Layer(network, number);
}
// By TensorRT's words. What has no row is a node of a model for which TensorRT has no word: it counts as a plugin.
inline LayerKind const* kind_of(char const* word) noexcept {
  static LayerKind const kinds[] = {
      {"CONVOLUTION", LayerType::kCONVOLUTION, make_layer<IConvolutionLayer>},
      {"DECONVOLUTION", LayerType::kDECONVOLUTION, make_layer<IDeconvolutionLayer>},
      {"POOLING", LayerType::kPOOLING, make_layer<IPoolingLayer>},
      {"ACTIVATION", LayerType::kACTIVATION, make_layer<IActivationLayer>},
      {"LRN", LayerType::kLRN, make_layer<ILRNLayer>},
      {"SCALE", LayerType::kSCALE, make_layer<IScaleLayer>},
      {"SOFTMAX", LayerType::kSOFTMAX, make_layer<ISoftMaxLayer>},
      {"CONCATENATION", LayerType::kCONCATENATION, make_layer<IConcatenationLayer>},
      {"ELEMENTWISE", LayerType::kELEMENTWISE, make_layer<IElementWiseLayer>},
      {"UNARY", LayerType::kUNARY, make_layer<IUnaryLayer>},
      {"REDUCE", LayerType::kREDUCE, make_layer<IReduceLayer>},
      {"PADDING", LayerType::kPADDING, make_layer<IPaddingLayer>},
      {"PARAMETRIC_RELU", LayerType::kPARAMETRIC_RELU, make_layer<IParametricReLULayer>},
      {"SELECT", LayerType::kSELECT, make_layer<ISelectLayer>},
      {"SHAPE", LayerType::kSHAPE, make_layer<IShapeLayer>},
      {"IDENTITY", LayerType::kIDENTITY, make_layer<IIdentityLayer>},
      {"NON_ZERO", LayerType::kNON_ZERO, make_layer<INonZeroLayer>},
      {"CAST", LayerType::kCAST, make_layer<ICastLayer>},
      {"SHUFFLE", LayerType::kSHUFFLE, make_layer<IShuffleLayer>},
      {"SLICE", LayerType::kSLICE, make_layer<ISliceLayer>},
      {"TOPK", LayerType::kTOPK, make_layer<ITopKLayer>},
      {"GATHER", LayerType::kGATHER, make_layer<IGatherLayer>},
      {"SCATTER", LayerType::kSCATTER, make_layer<IScatterLayer>},
      {"MATRIX_MULTIPLY", LayerType::kMATRIX_MULTIPLY, make_layer<IMatrixMultiplyLayer>},
      {"CONSTANT", LayerType::kCONSTANT, make_layer<IConstantLayer>},
      {"RESIZE", LayerType::kRESIZE, make_layer<IResizeLayer>},
      {"FILL", LayerType::kFILL, make_layer<IFillLayer>},
      {"QUANTIZE", LayerType::kQUANTIZE, make_layer<IQuantizeLayer>},
      {"DEQUANTIZE", LayerType::kDEQUANTIZE, make_layer<IDequantizeLayer>},
      {"EINSUM", LayerType::kEINSUM, make_layer<IEinsumLayer>},
      {"ONE_HOT", LayerType::kONE_HOT, make_layer<IOneHotLayer>},
      {"GRID_SAMPLE", LayerType::kGRID_SAMPLE, make_layer<IGridSampleLayer>},
      {"NMS", LayerType::kNMS, make_layer<INMSLayer>},
      {"NORMALIZATION", LayerType::kNORMALIZATION, make_layer<INormalizationLayer>},
      {"REVERSE_SEQUENCE", LayerType::kREVERSE_SEQUENCE, make_layer<IReverseSequenceLayer>},
#if TEMPER_NVINFER_API >= 1000
      {"SQUEEZE", LayerType::kSQUEEZE, make_layer<ISqueezeLayer>},
      {"UNSQUEEZE", LayerType::kUNSQUEEZE, make_layer<IUnsqueezeLayer>},
      {"CUMULATIVE", LayerType::kCUMULATIVE, make_layer<ICumulativeLayer>},
#else
      {"FULLY_CONNECTED", LayerType::kFULLY_CONNECTED, make_layer<IFullyConnectedLayer>},
#endif
  };
  for (LayerKind const& kind : kinds)
    if (std::string(kind.word) == word) return &kind;
  return nullptr;
}
inline ILayer* Network::layer(int32_t number) {
  if (number < 0 || number >= temper_nv_network_layers(native)) return nullptr;
  std::unique_ptr<ILayer>& kept = layers_[number];
  if (!kept) {
    LayerKind const* const kind = kind_of(temper_nv_layer_type(native, number));
    kept.reset(kind ? kind->make(*this, number) : new ILayer(*this, number));
  }
  return kept.get();
}

}  // namespace stand_in

inline LayerType ILayer::getType() const noexcept {
  stand_in::LayerKind const* const kind = stand_in::kind_of(temper_nv_layer_type(network_.native, number_));
  return kind ? kind->type : LayerType::kPLUGIN_V2;
}

}  // namespace nvinfer1
