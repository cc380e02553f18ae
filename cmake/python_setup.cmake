# SPDX-License-Identifier: Apache-2.0
# Before project(), for pip install alone: what the build needs beside a Python is set up where it is missing, as ./dev build
# does, because nobody has called ./dev then.
if(DEFINED ENV{XDG_CACHE_HOME} AND NOT "$ENV{XDG_CACHE_HOME}" STREQUAL "")
  set(cache $ENV{XDG_CACHE_HOME}/temper)
else()
  set(cache $ENV{HOME}/.cache/temper)
endif()
if(NOT TEMPER_ONNX_ROOT)
  set(TEMPER_ONNX_ROOT ${cache}/onnx-1.22.0-small CACHE PATH "where ./dev setup installed ONNX's C++ library")
  set(TEMPER_VEGA ${cache}/vega-1.9.0.js CACHE FILEPATH "Vega-Lite's JavaScript, which ./dev setup writes beside ONNX")
  find_program(compiler NAMES g++ c++ NO_CACHE)
  find_file(protobuf google/protobuf/message.h NO_CACHE PATHS /usr/include)
  find_file(dnnl dnnl.hpp NO_CACHE PATHS /usr/include)
  find_file(webp webp/decode.h NO_CACHE PATHS /usr/include)
  find_file(re2 re2/re2.h NO_CACHE PATHS /usr/include)
  file(GLOB tiff /usr/include/tiffio.h /usr/include/*/tiffio.h)
  if(NOT EXISTS ${TEMPER_ONNX_ROOT}/.done OR NOT compiler OR NOT protobuf OR NOT dnnl OR NOT webp OR NOT re2 OR NOT tiff)
    message(STATUS "Setting up what the build needs: ${CMAKE_CURRENT_SOURCE_DIR}/dev setup")
    # Without the variables and programs of pip's own build environment: ./dev's environment must not see the first, and the
    # second, a cmake among them where the system had none, do not start without the first.
    string(REGEX REPLACE "[^:]*/pip-build-env-[^:]*:?" "" path "$ENV{PATH}")
    execute_process(COMMAND ${CMAKE_COMMAND} -E env PATH=${path} --unset=PYTHONPATH --unset=PYTHONNOUSERSITE --unset=PIP_REQUIRE_VIRTUALENV
                            bash ${CMAKE_CURRENT_SOURCE_DIR}/dev setup RESULT_VARIABLE failed)
    if(failed)
      message(FATAL_ERROR "The set-up failed for the reason above. Run it by hand, then install again:\n"
                          "  ${CMAKE_CURRENT_SOURCE_DIR}/dev setup")
    endif()
  endif()
endif()
