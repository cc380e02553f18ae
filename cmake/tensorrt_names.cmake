# SPDX-License-Identifier: Apache-2.0
# A folder, in the build folder and in an installation, that holds TensorRT's names for the headers and for libtemper_nvinfer. Nothing
# searches it unasked: `temper as-tensorrt` puts it into the paths of one command.
#   include/         the headers; include/api/RELEASE chooses their names
#   include/host/    the stand-in for the CUDA runtime, with lib/host/libcudart.a, in which there is nothing: -lcudart links
#   lib/             the names that programs link by, and the library's own, for the loader
set(TENSORRT_FOLDER ${CMAKE_INSTALL_LIBDIR}/temper/tensorrt)
file(RELATIVE_PATH TENSORRT_BESIDE_PROGRAM /p/${CMAKE_INSTALL_BINDIR} /p/${TENSORRT_FOLDER})
set_source_files_properties(src/cli/verbs/as_tensorrt.cc PROPERTIES
  COMPILE_DEFINITIONS "TEMPER_TENSORRT_FOLDER=\"${TENSORRT_BESIDE_PROGRAM}\"")

set(here ${CMAKE_BINARY_DIR}/tensorrt)
file(MAKE_DIRECTORY ${here}/lib/host)
file(WRITE ${here}/lib/host/libcudart.a "!<arch>\n")
file(CREATE_LINK ${CMAKE_SOURCE_DIR}/include/nvinfer ${here}/include SYMBOLIC)
set(library libtemper_nvinfer.so.${PROJECT_VERSION_MAJOR})
file(RELATIVE_PATH up /p/${TENSORRT_FOLDER}/lib /p/${CMAKE_INSTALL_LIBDIR})
foreach(name libnvinfer.so libnvonnxparser.so libnvinfer_plugin.so ${library})
  file(CREATE_LINK ../../${library} ${here}/lib/${name} SYMBOLIC)
  install(CODE "file(MAKE_DIRECTORY \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${TENSORRT_FOLDER}/lib\")
    file(CREATE_LINK ${up}${library} \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${TENSORRT_FOLDER}/lib/${name}\" SYMBOLIC)" COMPONENT lib)
endforeach()
install(TARGETS temper_nvinfer LIBRARY COMPONENT lib NAMELINK_SKIP)
install(DIRECTORY include/nvinfer/ DESTINATION ${TENSORRT_FOLDER}/include COMPONENT lib)
install(FILES ${here}/lib/host/libcudart.a DESTINATION ${TENSORRT_FOLDER}/lib/host COMPONENT lib)
