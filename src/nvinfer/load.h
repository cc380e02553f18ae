// SPDX-License-Identifier: Apache-2.0
// Loads engines as a program for TensorRT does, and answers what it asks of them.
#pragma once
#include <memory>
#include <span>

#include "nvinfer/build.h"
#include "runtime/engine.h"

namespace temper::nvinfer {

// Loads the bytes of a plan or of a refittable engine (refit.h), which are copied. Null, with a line of severity error,
// for what is damaged, of another version or machine, or not Temper's; of an engine of TensorRT the line says so. An
// engine of a GPU lies in the context that is current, as the program's memory does; without one in the primary
// context.
std::shared_ptr<const Engine> load(std::span<const std::byte> plan, const DeviceSettings& settings,
                                   const Logger& logger);

// At least one: an engine that was built without profiles has its inputs' shapes for one.
std::vector<Profile> profiles_of(const Engine& engine);

}  // namespace temper::nvinfer
