// SPDX-License-Identifier: Apache-2.0
// UFF's models are not read. Programs of 8.6 that could read some of them compile, and are given no parser.
#pragma once
#include "NvInfer.h"

#if TEMPER_NVINFER_API < 1000
namespace nvuffparser {

class IUffParser {
 public:
  IUffParser(IUffParser const&) = delete;
  IUffParser& operator=(IUffParser const&) = delete;
  virtual ~IUffParser() noexcept = default;
};
// Null.
inline IUffParser* createUffParser() noexcept { return nullptr; }
inline void shutdownProtobufLibrary() noexcept {}

}  // namespace nvuffparser
#endif
