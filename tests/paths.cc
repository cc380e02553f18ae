// SPDX-License-Identifier: Apache-2.0
#include "paths.h"

namespace temper::paths {

std::string source_folder() { return TEMPER_SOURCE_DIR; }
std::string program() { return TEMPER_PROGRAM; }
std::string compiler() { return TEMPER_COMPILER; }
std::string emulator_folder() { return TEMPER_EMULATOR; }
std::string scripted_driver_folder() { return TEMPER_EMULATOR "/../scripted"; }
std::string scripted_nvml_folder() { return TEMPER_EMULATOR "/../scripted_nvml"; }

}  // namespace temper::paths
