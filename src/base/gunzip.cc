// SPDX-License-Identifier: Apache-2.0
#include "base/gunzip.h"

#include <zlib.h>

#include "base/error.h"

namespace temper {

std::string gunzip(std::string_view packed, std::string_view what) {
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
  if (result != Z_STREAM_END) fail(ErrorKind::machine, what, " in this program is damaged");
  return out;
}

}  // namespace temper
