# SPDX-License-Identifier: Apache-2.0
# cmake --install build --prefix DIR: the program with its manual pages and completions, the public headers, libtemper, the
# static libraries, and what find_package(temper) and pkg-config need. ONNX's own library goes along with the static ones:
# no system has that one.
include(CMakePackageConfigHelpers)
set(CONFIG_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/temper)

install(TARGETS temper RUNTIME)
install(TARGETS temper_shared temper_runtime_shared EXPORT temper LIBRARY)
install(TARGETS temper_runtime temper_build onnx_cpp EXPORT temper_static ARCHIVE)
install(FILES ${TEMPER_ONNX_ROOT}/lib/libonnx.a ${TEMPER_ONNX_ROOT}/lib/libonnx_proto.a DESTINATION ${CMAKE_INSTALL_LIBDIR}/temper)
install(DIRECTORY include/temper DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT temper NAMESPACE temper:: FILE temper_targets.cmake DESTINATION ${CONFIG_DIR})
install(EXPORT temper_static NAMESPACE temper:: FILE temper_static_targets.cmake DESTINATION ${CONFIG_DIR})
write_basic_package_version_file(temper-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES cmake/temper-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/temper-config-version.cmake DESTINATION ${CONFIG_DIR})
# Relative, so that the folder may be moved.
file(RELATIVE_PATH TEMPER_PC_INCLUDES /p/${CMAKE_INSTALL_LIBDIR}/pkgconfig /p/${CMAKE_INSTALL_INCLUDEDIR})
configure_file(cmake/temper.pc.in temper.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/temper.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
# What `temper export` hands over to; the interpreter with the framework need not have the Python package.
install(DIRECTORY python/temper DESTINATION ${CMAKE_INSTALL_DATADIR}/temper/python FILES_MATCHING PATTERN "*.py" PATTERN __pycache__ EXCLUDE)
install(FILES LICENSE THIRD_PARTY.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

# Read from the help, so that it cannot say something else; completions ask the program itself.
set(MANUAL ${CMAKE_CURRENT_BINARY_DIR}/manual)
add_custom_command(OUTPUT ${MANUAL}/made
  COMMAND ${TEMPER_PYTHON} ${CMAKE_SOURCE_DIR}/cmake/manual.py ${TEMPER_RUNS} ${MANUAL}
  COMMAND ${CMAKE_COMMAND} -E touch ${MANUAL}/made
  DEPENDS temper ${CMAKE_SOURCE_DIR}/cmake/manual.py VERBATIM)
add_custom_target(manual ALL DEPENDS ${MANUAL}/made)
install(DIRECTORY ${MANUAL}/man1 DESTINATION ${CMAKE_INSTALL_MANDIR})
install(FILES src/cli/completions/temper.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME temper)
install(FILES src/cli/completions/temper.zsh DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions RENAME _temper)
install(FILES src/cli/completions/temper.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)

# cpack, or ./dev deb: a Debian package of what is installed.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME temper)
set(CPACK_PACKAGE_VENDOR Temper)
set(CPACK_PACKAGE_CONTACT "Temper's developers <temper@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "optimises ONNX models for this machine, runs and measures them")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
if(CMAKE_CROSSCOMPILING)  # else dpkg's own
  set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE arm64)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${TEMPER_SYSROOT}/lib/aarch64-linux-gnu ${TEMPER_SYSROOT}/usr/lib/aarch64-linux-gnu)
endif()
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS libtiff6)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS python3)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
include(CPack)
