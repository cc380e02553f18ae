// SPDX-License-Identifier: Apache-2.0
// How long work tells the front end how far it is.
#pragma once
#include <functional>
#include <string>

#include "base/concat.h"

namespace temper {

// Called with a line of text now and then. Empty: nobody is told.
using Progress = std::function<void(const std::string& text)>;

// Puts the line together only where somebody is told.
template <class... Parts>
void tell(const Progress& progress, const Parts&... parts) {
  if (progress) progress(concat(parts...));
}

}  // namespace temper
