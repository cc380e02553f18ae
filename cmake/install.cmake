# SPDX-License-Identifier: Apache-2.0
# cmake --install build --prefix DIR: the program, the public headers, the two libraries, and what find_package(temper)
# needs to link temper::temper_runtime or temper::temper_build. ONNX's own library goes along: no system has that one.
include(CMakePackageConfigHelpers)
set(CONFIG_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/temper)

install(TARGETS temper RUNTIME)
install(TARGETS temper_runtime temper_build onnx_cpp EXPORT temper ARCHIVE)
install(FILES ${TEMPER_ONNX_ROOT}/lib/libonnx.a ${TEMPER_ONNX_ROOT}/lib/libonnx_proto.a DESTINATION ${CMAKE_INSTALL_LIBDIR}/temper)
install(DIRECTORY include/temper DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT temper NAMESPACE temper:: FILE temper_targets.cmake DESTINATION ${CONFIG_DIR})
write_basic_package_version_file(temper-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES cmake/temper-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/temper-config-version.cmake DESTINATION ${CONFIG_DIR})
