// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/support/kernel_text.h"

#include "base/error.h"

namespace temper::cuda {

std::string_view kernel_text(std::string_view path) {
  for (const KernelText& text : kernel_texts())
    if (text.path == path) return text.text;
  fail(ErrorKind::usage, "there is no kernel text '", path, "'");
}

}  // namespace temper::cuda
