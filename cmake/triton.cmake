# SPDX-License-Identifier: Apache-2.0
# The backend of Triton: backends/temper/libtriton_temper.so, in the build folder and in what is installed. It calls the public C API
# in libtemper_runtime, and the server by names that the server resolves when it opens it; only its own TRITONBACKEND names show.
add_library(temper_clients OBJECT ${CMAKE_SOURCE_DIR}/src/clients/dependence.cc)  # the element of GStreamer has it, too
target_include_directories(temper_clients PUBLIC ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
file(GLOB TRITON_SOURCES CONFIGURE_DEPENDS src/triton/*.cc)
add_library(temper_triton_objects OBJECT ${TRITON_SOURCES})
target_include_directories(temper_triton_objects PUBLIC ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
target_link_libraries(temper_triton_objects PRIVATE nlohmann_json::nlohmann_json)
target_compile_options(temper_triton_objects PRIVATE ${COLD})  # what one request costs is calls of the server and of the library
add_library(triton_temper MODULE $<TARGET_OBJECTS:temper_triton_objects> $<TARGET_OBJECTS:temper_clients>)
target_link_libraries(triton_temper PRIVATE temper_runtime_shared)
target_link_options(triton_temper PRIVATE -Wl,--version-script=${CMAKE_SOURCE_DIR}/cmake/triton.map -Wl,--gc-sections)
set(TRITON_BACKEND_DIR ${CMAKE_INSTALL_LIBDIR}/temper/backends/temper)
# Its library is beside it in a package (python/package.sh), in the library folder of an installation, in the build folder; RPATH, not
# RUNPATH, holds for what that one loads in a package, too.
target_link_options(triton_temper PRIVATE -Wl,--disable-new-dtags)
set_target_properties(triton_temper PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/backends/temper
                      LINK_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/triton.map BUILD_RPATH "$ORIGIN:$ORIGIN/../..:$ORIGIN/../../lib"
                      INSTALL_RPATH "$ORIGIN:$ORIGIN/../../..:$ORIGIN/../../lib")
install(TARGETS triton_temper LIBRARY DESTINATION ${TRITON_BACKEND_DIR} COMPONENT triton)
# systemd reads /usr/lib and /usr/local/lib, whatever the libraries' folder is called.
install(FILES "src/serve/temper-serve@.service" DESTINATION lib/systemd/system COMPONENT triton)
