// SPDX-License-Identifier: Apache-2.0
#include "nvinfer/address.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.h"

namespace temper::nvinfer {

void check_mapped(uintptr_t address, int64_t bytes, const std::string& what) {
  static const auto page = uintptr_t(sysconf(_SC_PAGESIZE));
  const uintptr_t begin = address / page * page, end = address + uintptr_t(bytes);
  // Asked for nothing but this, the kernel looks whether every page is there (msync(2): ENOMEM).
  const bool is_there = end >= address && (msync(at_address(begin), end - begin, MS_ASYNC) == 0 || errno != ENOMEM);
  if (!is_there)
    fail(ErrorKind::usage, "the address of '", what, "' is wrong: there is no memory of this process for ", bytes,
         " bytes at ", address);
}

}  // namespace temper::nvinfer
