# SPDX-License-Identifier: Apache-2.0
# find_package(temper CONFIG): temper::temper, the shared library of the public API; it needs nothing of the application.
# find_package(temper CONFIG COMPONENTS static): also temper::temper_runtime (runs plans) and temper::temper_build (all),
# with the libraries of the system that they were built with.
include("${CMAKE_CURRENT_LIST_DIR}/temper_targets.cmake")
foreach(component ${temper_FIND_COMPONENTS})
  if(component STREQUAL "static")
    include(CMakeFindDependencyMacro)
    find_dependency(OpenMP)
    find_dependency(dnnl)
    set(OPENSSL_USE_STATIC_LIBS TRUE)
    find_dependency(OpenSSL COMPONENTS Crypto)
    find_dependency(Protobuf)
    find_dependency(JPEG)
    find_dependency(ZLIB)
    include("${CMAKE_CURRENT_LIST_DIR}/temper_static_targets.cmake")
  elseif(temper_FIND_REQUIRED_${component})
    set(temper_FOUND FALSE)
    set(temper_NOT_FOUND_MESSAGE "temper has no component '${component}'; there is: static")
  endif()
endforeach()
