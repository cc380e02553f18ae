# SPDX-License-Identifier: Apache-2.0
# cmake --install build --prefix DIR: the program with its manual pages and completions, the public headers, libtemper, the
# static libraries, and what find_package(temper) and pkg-config need. ONNX's own library goes along with the static ones:
# no system has that one. Components are the Debian packages: lib (libtemper0), dev (libtemper-dev), program (temper), triton (temper-triton).
include(CMakePackageConfigHelpers)
set(CONFIG_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/temper)

install(TARGETS temper RUNTIME COMPONENT program)
install(TARGETS temper_shared temper_runtime_shared EXPORT temper LIBRARY COMPONENT lib NAMELINK_COMPONENT dev)
install(TARGETS temper_runtime temper_build onnx_cpp EXPORT temper_static ARCHIVE COMPONENT dev)
install(FILES ${TEMPER_ONNX_ROOT}/lib/libonnx.a ${TEMPER_ONNX_ROOT}/lib/libonnx_proto.a DESTINATION ${CMAKE_INSTALL_LIBDIR}/temper COMPONENT dev)
install(DIRECTORY include/temper DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev)
install(EXPORT temper NAMESPACE temper:: FILE temper_targets.cmake DESTINATION ${CONFIG_DIR} COMPONENT dev)
install(EXPORT temper_static NAMESPACE temper:: FILE temper_static_targets.cmake DESTINATION ${CONFIG_DIR} COMPONENT dev)
write_basic_package_version_file(temper-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES cmake/temper-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/temper-config-version.cmake DESTINATION ${CONFIG_DIR} COMPONENT dev)
# Relative, so that the folder may be moved.
file(RELATIVE_PATH TEMPER_PC_INCLUDES /p/${CMAKE_INSTALL_LIBDIR}/pkgconfig /p/${CMAKE_INSTALL_INCLUDEDIR})
configure_file(cmake/temper.pc.in temper.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/temper.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)
# What `temper export` hands over to; the interpreter with the framework need not have the Python package.
install(DIRECTORY python/temper DESTINATION ${CMAKE_INSTALL_DATADIR}/temper/python COMPONENT program
        FILES_MATCHING PATTERN "*.py" PATTERN __pycache__ EXCLUDE)
install(FILES LICENSE THIRD_PARTY.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)

# Read from the help, so that it cannot say something else; completions ask the program itself.
set(MANUAL ${CMAKE_CURRENT_BINARY_DIR}/manual)
add_custom_command(OUTPUT ${MANUAL}/made
  COMMAND ${TEMPER_PYTHON} ${CMAKE_SOURCE_DIR}/cmake/manual.py ${MANUAL} ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:temper>
  COMMAND ${CMAKE_COMMAND} -E touch ${MANUAL}/made
  DEPENDS temper ${CMAKE_SOURCE_DIR}/cmake/manual.py VERBATIM)
add_custom_target(manual ALL DEPENDS ${MANUAL}/made)
install(DIRECTORY ${MANUAL}/man1 DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT program)
install(FILES src/cli/completions/temper.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME temper COMPONENT program)
install(FILES src/cli/completions/temper.zsh DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions RENAME _temper COMPONENT program)
install(FILES src/cli/completions/temper.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT program)

# cpack, or ./dev deb: Debian packages of what is installed, one for each component.
set(CPACK_GENERATOR DEB)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_COMPONENTS_ALL lib dev program triton)
set(CPACK_PACKAGE_NAME temper)
set(CPACK_PACKAGE_VENDOR Temper)
set(CPACK_PACKAGE_CONTACT "Temper's developers <temper@localhost>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
if(CMAKE_CROSSCOMPILING)  # else dpkg's own
  set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE arm64)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${TEMPER_SYSROOT}/lib/aarch64-linux-gnu ${TEMPER_SYSROOT}/usr/lib/aarch64-linux-gnu)
endif()
list(APPEND CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_BINARY_DIR})  # the backend's library is in a package of ours
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
# package COMPONENT NAME SECTION SUMMARY [FIELD VALUE...]: a package, with its licence where Debian looks for it.
function(debian_package component name section summary)
  string(TOUPPER ${component} COMPONENT)
  list(APPEND fields PACKAGE_NAME ${name} PACKAGE_SECTION ${section} ${ARGN})
  while(fields)
    list(POP_FRONT fields field value)
    set(CPACK_DEBIAN_${COMPONENT}_${field} ${value} PARENT_SCOPE)
  endwhile()
  set(CPACK_COMPONENT_${COMPONENT}_DESCRIPTION ${summary} PARENT_SCOPE)
  install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${name} RENAME copyright COMPONENT ${component} EXCLUDE_FROM_ALL)
endfunction()
set(same "(= ${PROJECT_VERSION})")
debian_package(lib libtemper0 libs "runs and builds plans of ONNX models: shared libraries" PACKAGE_RECOMMENDS libtiff6)
debian_package(dev libtemper-dev libdevel "runs and builds plans of ONNX models: headers and static libraries" PACKAGE_DEPENDS "libtemper0 ${same}"
               PACKAGE_SUGGESTS "libdnnl-dev, libprotobuf-dev, libjpeg-dev, libwebp-dev, libre2-dev, zlib1g-dev, libssl-dev")
debian_package(program temper science "optimises ONNX models for this machine, runs and measures them" PACKAGE_RECOMMENDS "libtemper0 ${same}, libtiff6"
               PACKAGE_SUGGESTS "temper-triton, python3")
debian_package(triton temper-triton science "serves plans of ONNX models: the backend for Triton" PACKAGE_DEPENDS "libtemper0 ${same}, temper ${same}")
include(CPack)
