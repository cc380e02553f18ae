# SPDX-License-Identifier: Apache-2.0
# temper._temper, the native half of the Python package: in build/python/temper beside copies of nothing, so that
# PYTHONPATH=build/python has the whole package (the Python files are links), or in a wheel where scikit-build asks.
if(NOT SKBUILD)
  set(Python_EXECUTABLE ${TEMPER_PYTHON})
endif()
# scikit-build names a component where the wheel shall serve later Pythons, too, and brings the module that finds it.
find_package(Python 3.10 COMPONENTS Interpreter Development.Module ${SKBUILD_SABI_COMPONENT} REQUIRED)
execute_process(COMMAND ${Python_EXECUTABLE} -m nanobind --cmake_dir OUTPUT_VARIABLE NANOBIND OUTPUT_STRIP_TRAILING_WHITESPACE
                RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "TEMPER_PYTHON_MODULE needs nanobind for ${Python_EXECUTABLE}: ${Python_EXECUTABLE} -m pip install nanobind")
endif()
find_package(nanobind CONFIG REQUIRED PATHS ${NANOBIND} NO_DEFAULT_PATH)

file(GLOB NATIVE_SOURCES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/python/native/*.cc)
temper_join(_temper NATIVE_SOURCES 4)
# The stable ABI (from Python 3.12 on) makes one wheel serve all later Pythons; below, nanobind leaves it out.
nanobind_add_module(_temper STABLE_ABI NB_STATIC NB_DOMAIN temper NOMINSIZE NB_SUPPRESS_WARNINGS ${NATIVE_SOURCES})
foreach(library nanobind-static nanobind-static-abi3)  # compiled here, but not ours
  if(TARGET ${library})
    target_compile_options(${library} PRIVATE -Wno-shadow)
  endif()
endforeach()
target_include_directories(_temper PRIVATE ${CMAKE_SOURCE_DIR})
target_link_libraries(_temper PRIVATE temper_build nlohmann_json::nlohmann_json)
target_compile_options(_temper PRIVATE ${COLD})
temper_precompile(_temper nanobind/nanobind.h nanobind/ndarray.h nanobind/stl/string.h nanobind/stl/vector.h)
# Nothing of Temper's libraries, of ONNX's or of protobuf's may meet what onnx, torch or tensorflow bring into the process.
target_link_options(_temper PRIVATE -Wl,--version-script=${CMAKE_SOURCE_DIR}/python/native/exports.map)
set_property(TARGET _temper APPEND PROPERTY LINK_DEPENDS ${CMAKE_SOURCE_DIR}/python/native/exports.map)

set(PACKAGE ${CMAKE_BINARY_DIR}/python/temper)
nanobind_add_stub(_temper_stub MODULE _temper OUTPUT ${PACKAGE}/_temper.pyi PYTHON_PATH $<TARGET_FILE_DIR:_temper>
                  DEPENDS _temper)
if(SKBUILD)
  install(TARGETS _temper LIBRARY DESTINATION temper COMPONENT python)
  install(FILES ${PACKAGE}/_temper.pyi DESTINATION temper COMPONENT python)
else()
  set_target_properties(_temper PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PACKAGE})
  # Links to each file, not to the folder: the native module must not land in the checkout.
  file(GLOB_RECURSE PACKAGE_FILES CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}/python/temper ${CMAKE_SOURCE_DIR}/python/temper/*.py)
  foreach(file ${PACKAGE_FILES} py.typed)
    get_filename_component(folder ${PACKAGE}/${file} DIRECTORY)
    file(MAKE_DIRECTORY ${folder})
    file(CREATE_LINK ${CMAKE_SOURCE_DIR}/python/temper/${file} ${PACKAGE}/${file} SYMBOLIC)
  endforeach()
endif()
