# SPDX-License-Identifier: Apache-2.0
# cmake -DROOT=src -DFILES=a.cu,b.cuh -DOUTPUT=x.txt -P embed_texts.cmake: the name and the text of each file, every one with a
# byte 1 behind it, as support/kernel_text.cc reads them; without comments and indentation, which are a quarter of them. Lines keep
# their numbers, so that a compiler's message fits the file. No string in them holds " //".
string(REPLACE "," ";" FILES "${FILES}")
string(ASCII 1 end)
file(WRITE ${OUTPUT} "")
foreach(file IN LISTS FILES)
  file(READ "${ROOT}/${file}" text)
  string(REGEX REPLACE "(^|[ \t\n])//[^\n]*" "\\1" text "${text}")
  string(REGEX REPLACE "[ \t]+(\n|$)" "\\1" text "${text}")
  string(REGEX REPLACE "(^|\n)[ \t]+" "\\1" text "${text}")
  file(APPEND ${OUTPUT} "${file}${end}${text}${end}")
endforeach()
