# SPDX-License-Identifier: Apache-2.0
# cmake -DROOT=src -DFILES=a.cu,b.cuh -DOUTPUT=x.cc -P embed_texts.cmake: the files as temper::cuda::kernel_texts(), without comments
# and indentation, which are a quarter of them; lines keep their numbers, so that a compiler's message fits the file. No string in
# them holds " //". Literals are cut where a compiler's limit might be, and end with a 0.
string(REPLACE "," ";" FILES "${FILES}")
set(list "")
foreach(file IN LISTS FILES)
  file(READ "${ROOT}/${file}" text)
  string(REGEX REPLACE "(^|[ \t\n])//[^\n]*" "\\1" text "${text}")
  string(REGEX REPLACE "[ \t]+(\n|$)" "\\1" text "${text}")
  string(REGEX REPLACE "(^|\n)[ \t]+" "\\1" text "${text}")
  string(HEX "${text}" text)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "\\\\x\\1" text "${text}")
  # Lines of 64 bytes.
  string(REGEX REPLACE "((\\\\x..)(\\\\x..)(\\\\x..)(\\\\x..)(\\\\x..)(\\\\x..)(\\\\x..)(\\\\x..))" "\\1\"\n\"" text "${text}")
  string(APPEND list "  {\"${file}\", \"${text}\"},\n")
endforeach()
file(WRITE ${OUTPUT} "#include \"backends/cuda/support/kernel_text.h\"
namespace temper::cuda {
static constexpr KernelText texts[] = {
${list}};
std::span<const KernelText> kernel_texts() { return texts; }
}  // namespace temper::cuda
")
