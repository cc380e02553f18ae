// SPDX-License-Identifier: Apache-2.0
// Calibrates as a program for TensorRT does: the program keeps a cache, and hands over batches by their addresses.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "nvinfer/messages.h"
#include "nvinfer/network.h"
#include "quantize/ranges.h"
#include "runtime/keep_current_gpu.h"

namespace temper::nvinfer {

// The program's functions. Each of them may throw; that ends the build.
struct Calibrator {
  std::string method;                                   // "entropy", "minmax"
  std::function<std::string()> read_cache;              // "": it has none
  std::function<void(const std::string&)> write_cache;  // in TensorRT's form
  // Addresses of the next batch, by the names of the inputs; nothing: there are no more.
  std::function<std::optional<std::vector<uintptr_t>>(const std::vector<std::string>& names)> next;
  // Throws where an input's address may not be read; empty: every address is believed.
  std::function<void(const void* from, int64_t bytes, const std::string& input)> check;
};

// The ranges of a cache that the program has; otherwise those of its batches, whose cache it is given. A batch has the
// shapes of the network, and where these are open `shapes`, whatever the program calls its batch size: no byte beyond
// is read. Addresses are of the GPU's memory where `device` is one, in `callers` context where the program has one of
// its own, otherwise of the host's. The program's functions find that GPU current. Throws Error{usage} where no batch
// comes. Nothing, with a warning, for a cache that is none, or that knows no value of the model: TensorRT builds
// without INT8 then.
std::optional<Ranges> calibrate(const Network& network, const std::map<std::string, ShapeRange>& shapes,
                                const std::string& device, const Calibrator& calibrator, const KeepCurrentGpu& callers,
                                const Logger& logger);

}  // namespace temper::nvinfer
