// SPDX-License-Identifier: Apache-2.0
// The logger of a program that was written for TensorRT, and the way an exception becomes a line of it: no exception
// crosses into such a program.
#pragma once
#include <exception>
#include <functional>
#include <string>
#include <utility>

namespace temper::nvinfer {

// The numbers are TensorRT's.
enum class Severity { internal_error = 0, error = 1, warning = 2, info = 3, verbose = 4 };
using Logger = std::function<void(Severity severity, const std::string& message)>;

// Gives what `body` gives; where it throws, a line of severity error, and `otherwise`.
template <class T, class Body>
T or_else(const Logger& logger, T otherwise, Body&& body) {
  try {
    return body();
  } catch (const std::exception& error) { logger(Severity::error, error.what()); }
  return otherwise;
}

}  // namespace temper::nvinfer
