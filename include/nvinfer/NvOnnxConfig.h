// SPDX-License-Identifier: Apache-2.0
// What NVIDIA's samples keep of a model's settings, in classes of their own: an interface, and nothing behind it.
#pragma once
#include "NvInfer.h"

namespace nvonnxparser {

// The program's own.
class IOnnxConfig {
 public:
  using Verbosity = int32_t;
  virtual ~IOnnxConfig() noexcept = default;
  virtual void setModelDtype(nvinfer1::DataType const) noexcept = 0;
  virtual nvinfer1::DataType getModelDtype() const noexcept = 0;
  virtual char const* getModelFileName() const noexcept = 0;
  virtual void setModelFileName(char const* onnxFilename) noexcept = 0;
  virtual Verbosity getVerbosityLevel() const noexcept = 0;
  virtual void addVerbosity() noexcept = 0;
  virtual void reduceVerbosity() noexcept = 0;
  virtual void setVerbosityLevel(Verbosity) noexcept = 0;
  virtual char const* getTextFileName() const noexcept = 0;
  virtual void setTextFileName(char const* textFileName) noexcept = 0;
  virtual char const* getFullTextFileName() const noexcept = 0;
  virtual void setFullTextFileName(char const* fullTextFileName) noexcept = 0;
  virtual bool getPrintLayerInfo() const noexcept = 0;
  virtual void setPrintLayerInfo(bool) noexcept = 0;
#if TEMPER_NVINFER_API < 1000
  virtual void destroy() noexcept = 0;
#endif
};

}  // namespace nvonnxparser
