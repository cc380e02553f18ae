// SPDX-License-Identifier: Apache-2.0
// Where this checkout and its build are. Only paths.cc knows it, so that a compiler cache serves all other tests to any
// checkout.
#pragma once
#include <string>

namespace temper::paths {

std::string source_folder();
std::string program();                 // the built temper
std::string compiler();                // of C++ for the processor of the program: words of a shell
std::string emulator_folder();         // of the library that stands in for NVIDIA's compiler
std::string scripted_driver_folder();  // of the driver whose GPUs are memory of the host; it may be missing
std::string scripted_nvml_folder();    // of a management library of two GPUs

}  // namespace temper::paths
