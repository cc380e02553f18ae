// SPDX-License-Identifier: Apache-2.0
#include "report/vega.h"

#include "base/gunzip.h"

namespace temper {

std::string_view vega_bundle_gz();  // embedded (cmake/embed.cmake)

const std::string& vega_bundle() {
  static const std::string bundle = gunzip(vega_bundle_gz(), "Vega-Lite's JavaScript");
  return bundle;
}

}  // namespace temper
