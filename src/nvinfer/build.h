// SPDX-License-Identifier: Apache-2.0
// Builds a network as a program for TensorRT asks for it. What TensorRT takes as permissions (precisions) is one
// precision here, from which layers with a type of their own differ; what TensorRT refuses is refused.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "nvinfer/calibrate.h"
#include "nvinfer/flags.h"
#include "nvinfer/messages.h"
#include "nvinfer/monitor.h"
#include "nvinfer/network.h"
#include "tune/cache.h"

namespace temper::nvinfer {

using Profile = std::map<std::string, ShapeRange>;  // by input

// The meaning of types that single layers were given (setPrecision): hints, which are not followed; wishes; orders.
enum class LayerConstraints { hints, wishes, orders };

struct Config {
  std::string device;  // "": GPU 0, or the CPU where there is none
  bool fp16 = false, bf16 = false, int8 = false, fp8 = false, tf32 = true;
  LayerConstraints layer_constraints = LayerConstraints::hints;
  std::shared_ptr<const Calibrator> calibrator;  // of INT8; null: the model has its quantization in it
  int64_t workspace = -1;                        // bytes; -1: no limit
  std::vector<Profile> profiles;
  std::shared_ptr<SharedTimingCache> timings;      // null: none is kept
  std::shared_ptr<const ProgressMonitor> monitor;  // null: nobody is told
  Profile calibration;                             // whose optimum batches have; empty: the first profile's
  bool refit = false;                              // the engine's weights are to be replaced (refit.h)
};

// The types that flags allow, how much types of single layers count, and whether times are kept, of which `config` has
// some.
void take_flags(Config& config, Flags flags);

// GPU 0, or the CPU where none can be used.
std::string device_of_choice();

// The bytes of a plan. Empty, with a line of severity error, where TensorRT would give null.
std::string build_serialized(const Network& network, const Config& config, const Logger& logger);

}  // namespace temper::nvinfer
