# SPDX-License-Identifier: Apache-2.0
# The static libraries of Temper, and the shared ones of the system that they were built with.
include(CMakeFindDependencyMacro)
find_dependency(OpenMP)
find_dependency(dnnl)
find_dependency(OpenSSL COMPONENTS Crypto)
find_dependency(Protobuf)
find_dependency(JPEG)
find_dependency(PkgConfig)
pkg_check_modules(ZIP REQUIRED IMPORTED_TARGET libzip)
include("${CMAKE_CURRENT_LIST_DIR}/temper_targets.cmake")
