# SPDX-License-Identifier: Apache-2.0
# The element temperinfer of GStreamer: gstreamer-1.0/libgsttemper.so, in the build folder and in what
# `cmake --install build --component video` installs. It calls the public C API in libtemper_runtime. What of it knows nothing of
# GStreamer is always compiled, for its tests.
file(GLOB VIDEO_SOURCES CONFIGURE_DEPENDS src/video/*.cc)
set(VIDEO_CORE src/video/batcher.cc src/video/labeller.cc src/video/regions.cc)
list(TRANSFORM VIDEO_CORE PREPEND ${CMAKE_SOURCE_DIR}/)
list(REMOVE_ITEM VIDEO_SOURCES ${VIDEO_CORE})
add_library(temper_video_objects OBJECT ${VIDEO_CORE})
target_include_directories(temper_video_objects PUBLIC ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
# For tests/check_lint.py: sources that no target compiles here are no mistake where GStreamer is missing.
file(WRITE ${CMAKE_BINARY_DIR}/not_compiled.txt "")
if(NOT TEMPER_VIDEO)
  list(JOIN VIDEO_SOURCES "\n" left_out)
  file(WRITE ${CMAKE_BINARY_DIR}/not_compiled.txt "${left_out}\n")
  return()
endif()
find_package(PkgConfig REQUIRED)
pkg_check_modules(GSTREAMER REQUIRED IMPORTED_TARGET gstreamer-video-1.0>=1.20)
add_library(gsttemper MODULE ${VIDEO_SOURCES} $<TARGET_OBJECTS:temper_video_objects> $<TARGET_OBJECTS:temper_clients>)
target_include_directories(gsttemper PRIVATE ${CMAKE_SOURCE_DIR}/src)
target_link_libraries(gsttemper PRIVATE temper_runtime_shared PkgConfig::GSTREAMER nlohmann_json::nlohmann_json)
set_source_files_properties(src/video/plugin.cc PROPERTIES COMPILE_DEFINITIONS "TEMPER_VERSION=\"${PROJECT_VERSION}\"")
target_link_options(gsttemper PRIVATE -Wl,--version-script=${CMAKE_SOURCE_DIR}/cmake/video.map -Wl,--gc-sections)
set_target_properties(gsttemper PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/gstreamer-1.0
                      LINK_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/video.map BUILD_RPATH "$ORIGIN/.." INSTALL_RPATH "$ORIGIN/..")
install(TARGETS gsttemper LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/gstreamer-1.0 COMPONENT video EXCLUDE_FROM_ALL)
