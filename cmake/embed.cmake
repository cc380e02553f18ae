# SPDX-License-Identifier: Apache-2.0
# cmake -DINPUT=file -DOUTPUT=x.cc -DSYMBOL=name -P embed.cmake: the bytes of a file as a std::string_view temper::name().
file(READ ${INPUT} bytes HEX)
string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE ${OUTPUT} "#include <string_view>
namespace temper {
static const unsigned char bytes[] = {
${bytes}};
std::string_view ${SYMBOL}() { return {reinterpret_cast<const char*>(bytes), sizeof bytes}; }
}  // namespace temper
")
