# SPDX-License-Identifier: Apache-2.0
# cmake -DINPUT=file -DOUTPUT=x.cc -DSYMBOL=name [-DGZIP=ON] -P embed.cmake: the bytes of a file, or of its gzip, as a
# std::string_view temper::name().
if(GZIP)
  file(ARCHIVE_CREATE OUTPUT ${OUTPUT}.gz PATHS ${INPUT} FORMAT raw COMPRESSION GZip COMPRESSION_LEVEL 9)
  set(INPUT ${OUTPUT}.gz)
endif()
file(READ ${INPUT} bytes HEX)
if(GZIP)  # its header names the time at which it was made; without, the source is the same every time, and in the compiler's cache
  string(REGEX REPLACE "^(1f8b08..)........" "\\100000000" bytes "${bytes}")
endif()
string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE ${OUTPUT} "#include <string_view>
namespace temper {
static const unsigned char bytes[] = {
${bytes}};
std::string_view ${SYMBOL}() { return {reinterpret_cast<const char*>(bytes), sizeof bytes}; }
}  // namespace temper
")
