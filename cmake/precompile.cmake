# SPDX-License-Identifier: Apache-2.0
# A precompiled header for all sources of a target, which must be compiled with the same options: the given headers, and those of
# others that most files include. None is Temper's own, so no edit compiles it again, and no path of the checkout is in it:
# ccache then keeps it, and what was compiled with it, for every checkout. Only with GCC: what Clang compiles with one names the
# checkout, and ccache would have nothing for another.
function(temper_precompile target)
  if(TEMPER_SANITIZE OR NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    return()
  endif()
  set(headers)
  foreach(header ${ARGN} algorithm array atomic charconv chrono cmath compare concepts cstring deque functional initializer_list iterator map
          memory mutex numeric optional set span sstream string string_view system_error unordered_map utility variant vector)
    list(APPEND headers "<${header}>")
  endforeach()
  target_precompile_headers(${target} PRIVATE ${headers})
  set_target_properties(${target} PROPERTIES PCH_WARN_INVALID ON)
  target_compile_options(${target} PRIVATE -fpch-preprocess)
  if(CCACHE)
    set_target_properties(${target} PROPERTIES CXX_COMPILER_LAUNCHER
      "bash;${CMAKE_SOURCE_DIR}/cmake/precompiled_sum.sh;${CMAKE_CXX_COMPILER_LAUNCHER}")
  endif()
endfunction()
