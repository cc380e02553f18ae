# SPDX-License-Identifier: Apache-2.0
# temper_join(TARGET SOURCES COUNT [APART FILES]): has COUNT sources of a folder compiled as one, because most of the time of a source
# that is compiled alone goes into the templates that its neighbours take, too. SOURCES names a list of absolute paths, which becomes the
# list of files that include them; TARGET, for which they are, needs the project's folder among its include directories. No path of the
# checkout is in these files, so that ccache serves them to any checkout. Names in the anonymous namespaces of a folder must differ then;
# files that are APART, such as those with options of their own, stay as they are. A new source moves the borders of its own folder alone.
function(temper_join target sources count)
  cmake_parse_arguments(JOIN "" "" APART ${ARGN})
  list(TRANSFORM JOIN_APART PREPEND ${CMAKE_SOURCE_DIR}/)
  set(files ${JOIN_APART})
  foreach(source ${${sources}})
    if(source IN_LIST JOIN_APART)
      continue()
    endif()
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${CMAKE_SOURCE_DIR})
    cmake_path(GET source PARENT_PATH folder)
    string(REPLACE "/" "_" folder ${folder})
    list(LENGTH in_${folder} before)
    list(APPEND in_${folder} ${source})
    math(EXPR group "${before} / ${count}")
    set(file ${CMAKE_CURRENT_BINARY_DIR}/joined/${target}/${folder}_${group}.cc)
    list(APPEND files ${file})
    string(APPEND ${file} "#include \"${source}\"\n")
  endforeach()
  list(REMOVE_DUPLICATES files)
  foreach(file ${files})
    if(DEFINED ${file})
      file(CONFIGURE OUTPUT ${file} CONTENT "${${file}}" @ONLY)
    endif()
  endforeach()
  set(${sources} ${files} PARENT_SCOPE)
endfunction()
