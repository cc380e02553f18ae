// SPDX-License-Identifier: Apache-2.0
// What the other headers of nvinfer1 share: dimensions, types of data, the logger. Temper's own text, for programs that
// were written for TensorRT; docs/tensorrt-cpp.md says what is there.
#pragma once
#include <cstddef>
#include <cstdint>

#include "NvInferVersion.h"
#include "temper_nvinfer.h"

#ifdef __has_include
#if __has_include(<temper_nvinfer_host.h>)
#include <temper_nvinfer_host.h>
#endif
#if __has_include(<cuda_runtime_api.h>)
#include <cuda_runtime_api.h>
#define TEMPER_NVINFER_HAS_CUDA
#endif
#endif
#ifndef TEMPER_NVINFER_HAS_CUDA
typedef struct CUstream_st* cudaStream_t;
typedef struct CUevent_st* cudaEvent_t;
#endif

namespace nvinfer1 {

using char_t = char;
using AsciiChar = char_t;

#if TEMPER_NVINFER_API >= 1000
// Dimensions; -1: open. Those behind nbDims say nothing.
class Dims64 {
 public:
  static constexpr int32_t MAX_DIMS = 8;
  int32_t nbDims;
  int64_t d[MAX_DIMS];
};
using Dims = Dims64;
namespace stand_in {
using Dim = int64_t;
}
#else
// Dimensions; -1: open. Those behind nbDims say nothing.
class Dims32 {
 public:
  static constexpr int32_t MAX_DIMS = 8;
  int32_t nbDims;
  int32_t d[MAX_DIMS];
};
using Dims = Dims32;
namespace stand_in {
using Dim = int32_t;
}
#endif

enum class DataType : int32_t {
  kFLOAT = 0,
  kHALF = 1,
  kINT8 = 2,
  kINT32 = 3,
  kBOOL = 4,
  kUINT8 = 5,
  kFP8 = 6,
  kBF16 = 7,
  kINT64 = 8,
#if TEMPER_NVINFER_API >= 1000
  kINT4 = 9,
  kFP4 = 10,
  kE8M0 = 11,
#endif
};

// Inputs and outputs are in rows, kLINEAR; a program that allows no more than others for one is refused.
enum class TensorFormat : int32_t {
  kLINEAR = 0,
  kCHW2 = 1,
  kHWC8 = 2,
  kCHW4 = 3,
  kCHW16 = 4,
  kCHW32 = 5,
  kDHWC8 = 6,
  kCDHW32 = 7,
  kHWC = 8,
  kDLA_LINEAR = 9,
  kDLA_HWC4 = 10,
  kHWC16 = 11,
  kDHWC = 12,
};
using TensorFormats = uint32_t;  // 1 << TensorFormat

// How many members the enumeration has.
template <typename T>
constexpr int32_t EnumMax() noexcept;
template <>
constexpr int32_t EnumMax<DataType>() noexcept {
  return TEMPER_NVINFER_API < 1000 ? 9 : 12;
}
template <>
constexpr int32_t EnumMax<TensorFormat>() noexcept {
  return 13;
}
enum class TensorLocation : int32_t { kDEVICE = 0, kHOST = 1 };
enum class TensorIOMode : int32_t { kNONE = 0, kINPUT = 1, kOUTPUT = 2 };

// The program's own. Lines come from any thread.
class ILogger {
 public:
  enum class Severity : int32_t { kINTERNAL_ERROR = 0, kERROR = 1, kWARNING = 2, kINFO = 3, kVERBOSE = 4 };
  virtual void log(Severity severity, AsciiChar const* msg) noexcept = 0;
  ILogger() = default;
  virtual ~ILogger() = default;

 protected:
  ILogger(ILogger const&) = default;
  ILogger(ILogger&&) = default;
  ILogger& operator=(ILogger const&) & = default;
  ILogger& operator=(ILogger&&) & = default;
};

enum class ErrorCode : int32_t {
  kSUCCESS = 0,
  kUNSPECIFIED_ERROR = 1,
  kINTERNAL_ERROR = 2,
  kINVALID_ARGUMENT = 3,
  kINVALID_CONFIG = 4,
  kFAILED_ALLOCATION = 5,
  kFAILED_INITIALIZATION = 6,
  kFAILED_EXECUTION = 7,
  kFAILED_COMPUTATION = 8,
  kINVALID_STATE = 9,
  kUNSUPPORTED_STATE = 10,
};

// The program's own: told of errors, beside the logger, from any thread. Who has it counts itself by incRefCount(), and
// out again when it is given another or goes. An error's code is kUNSPECIFIED_ERROR: its text says what it is.
class IErrorRecorder {
 public:
  using ErrorDesc = char const*;
  using RefCount = int32_t;
  static constexpr std::size_t kMAX_DESC_LENGTH = 127;
  virtual int32_t getNbErrors() const noexcept = 0;
  virtual ErrorCode getErrorCode(int32_t errorIdx) const noexcept = 0;
  virtual ErrorDesc getErrorDesc(int32_t errorIdx) const noexcept = 0;
  virtual bool hasOverflowed() const noexcept = 0;
  virtual void clear() noexcept = 0;
  virtual bool reportError(ErrorCode val, ErrorDesc desc) noexcept = 0;  // `desc` lives for the call
  virtual RefCount incRefCount() noexcept = 0;
  virtual RefCount decRefCount() noexcept = 0;
  IErrorRecorder() = default;
  virtual ~IErrorRecorder() noexcept = default;

 protected:
  IErrorRecorder(IErrorRecorder const&) = default;
  IErrorRecorder(IErrorRecorder&&) = default;
  IErrorRecorder& operator=(IErrorRecorder const&) & = default;
  IErrorRecorder& operator=(IErrorRecorder&&) & = default;
};

// What the classes share; no part of TensorRT's interface.
namespace stand_in {

// An object of the library; programs have it by its address.
class Object {
 public:
  Object(Object const&) = delete;
  Object& operator=(Object const&) = delete;
  virtual ~Object() = default;
#if TEMPER_NVINFER_API < 1000
  void destroy() noexcept { delete this; }
#endif

 protected:
  Object() = default;
};

inline temper_nv_log log_of(ILogger& logger) noexcept {
  return {&logger, [](void* self, int32_t severity, char const* text) {
            static_cast<ILogger*>(self)->log(static_cast<ILogger::Severity>(severity), text);
          }};
}
inline void error(temper_nv_log const& log, char const* text) noexcept { log.line(log.self, 1, text); }

// Where the lines of an object go: to the program's logger, and errors to its recorder, too. What the library makes for
// the object knows its address.
class Lines {
 public:
  explicit Lines(ILogger& logger) noexcept : logger_(logger) {}
  // Of an object that another makes: it has its recorder, until it is given one.
  Lines(Lines const& maker) noexcept : logger_(maker.logger_) { set(maker.recorder_); }
  Lines& operator=(Lines const&) = delete;
  ~Lines() { set(nullptr); }
  void set(IErrorRecorder* recorder) noexcept {
    if (recorder) recorder->incRefCount();
    if (recorder_) recorder_->decRefCount();
    recorder_ = recorder;
  }
  IErrorRecorder* recorder() const noexcept { return recorder_; }
  ILogger& logger() const noexcept { return logger_; }
  temper_nv_log log() const noexcept {
    return {const_cast<Lines*>(this), [](void* self, int32_t severity, char const* text) {
              Lines const& its = *static_cast<Lines const*>(self);
              if (its.recorder_ && severity <= 1) its.recorder_->reportError(ErrorCode::kUNSPECIFIED_ERROR, text);
              its.logger_.log(static_cast<ILogger::Severity>(severity), text);
            }};
  }
  void error(char const* text) const noexcept { stand_in::error(log(), text); }
  void warning(char const* text) const noexcept { logger_.log(ILogger::Severity::kWARNING, text); }

 private:
  ILogger& logger_;
  IErrorRecorder* recorder_ = nullptr;
};

// An object whose errors a recorder is told of, and those of what it makes from then on.
class Recorded : public Object {
 public:
  void setErrorRecorder(IErrorRecorder* recorder) noexcept { lines_.set(recorder); }
  IErrorRecorder* getErrorRecorder() const noexcept { return lines_.recorder(); }

 protected:
  explicit Recorded(ILogger& logger) noexcept : lines_(logger) {}
  explicit Recorded(Lines const& maker) noexcept : lines_(maker) {}
  Lines lines_;
};
inline void warning(temper_nv_log const& log, char const* text) noexcept { log.line(log.self, 2, text); }

inline Dims dims_of(int64_t const* d, int32_t rank) noexcept {
  Dims dims{};
  dims.nbDims = rank;
  for (int32_t i = 0; i < rank; ++i) dims.d[i] = static_cast<Dim>(d[i]);
  return dims;
}
// No dimensions: those of a tensor that there is not.
inline Dims no_dims() noexcept {
  Dims dims{};
  dims.nbDims = -1;
  return dims;
}
// Dimensions of the library, from those of a program.
struct Wide {
  int64_t d[TEMPER_NV_MAX_DIMS] = {};
  int32_t rank = 0;
  explicit Wide(Dims const& dims) noexcept : rank(dims.nbDims) {
    for (int32_t i = 0; i < rank && i < TEMPER_NV_MAX_DIMS; ++i) d[i] = dims.d[i];
  }
  bool is_valid() const noexcept { return rank >= 0 && rank <= TEMPER_NV_MAX_DIMS; }
};

}  // namespace stand_in
}  // namespace nvinfer1

// The release that the program was compiled for: the number of NV_TENSORRT_VERSION.
inline int32_t getInferLibVersion() noexcept { return NV_TENSORRT_VERSION; }
