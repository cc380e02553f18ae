// SPDX-License-Identifier: Apache-2.0
// Passes the library's messages to a Python function.
#include "base/log.h"

#include "arrays.h"
#include "base/error.h"
#include "bind.h"
#include "guard.h"

namespace nb = nanobind;

namespace temper::python {

namespace {

nb::object* sink = nullptr;  // never freed: messages may come while the interpreter ends

void to_sink(LogLevel level, std::string_view message) {
  if (is_ending()) return;
  const nb::gil_scoped_acquire gil;
  const nb::object function = *sink;  // set_log_callback may run meanwhile
  if (function.is_none()) return;
  constexpr const char* names[] = {"debug", "info", "warning"};
  try {
    function(names[int(level)], nb::str(message.data(), message.size()));
  } catch (nb::python_error& error) {
    error.discard_as_unraisable("the callback of temper.set_log_callback");  // a message may come from any thread
  }
}

}  // namespace

void bind_log(nb::module_& module) {
  module.def(
      "set_log_callback",
      [](nb::object function) {
        if (!function.is_none() && !PyCallable_Check(function.ptr()))
          fail(ErrorKind::usage, "the log callback is a ", class_of(function),
               "; it must be a function of a level and a message, or None");
        if (!sink) sink = new nb::object;
        const bool any = !function.is_none();
        *sink = std::move(function);
        temper::set_log_callback(any ? to_sink : nullptr);
      },
      nb::arg("callback").none());
}

}  // namespace temper::python
