# SPDX-License-Identifier: Apache-2.0
# A precompiled header for all sources of a target, which must be compiled with the same options. ccache keeps it and what was
# compiled with it, in any checkout: it goes by the text of the headers if it is told that no macro stands between (pch_defines).
function(temper_precompile target header)
  if(TEMPER_SANITIZE)
    return()
  endif()
  target_precompile_headers(${target} PRIVATE ${header})
  set_target_properties(${target} PROPERTIES PCH_WARN_INVALID ON)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -fpch-preprocess)
  endif()
endfunction()
