// SPDX-License-Identifier: Apache-2.0
#include "report/vega.h"

#include <zlib.h>

#include <string_view>

#include "base/error.h"

namespace temper {

std::string_view vega_bundle_gz();  // embedded (cmake/embed.cmake)

static std::string gunzip(std::string_view packed) {
  z_stream stream{};
  if (inflateInit2(&stream, 16 + MAX_WBITS) != Z_OK) fail(ErrorKind::machine, "zlib has no memory");
  std::string out;
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = uInt(packed.size());
  int result;
  do {
    char step[1 << 16];
    stream.next_out = reinterpret_cast<Bytef*>(step);
    stream.avail_out = sizeof step;
    result = inflate(&stream, Z_NO_FLUSH);
    out.append(step, sizeof step - stream.avail_out);
  } while (result == Z_OK);
  inflateEnd(&stream);
  if (result != Z_STREAM_END) fail(ErrorKind::machine, "Vega-Lite's JavaScript in this program is damaged");
  return out;
}

const std::string& vega_bundle() {
  static const std::string bundle = gunzip(vega_bundle_gz());
  return bundle;
}

}  // namespace temper
