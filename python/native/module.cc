// SPDX-License-Identifier: Apache-2.0
// temper._temper: what the Python package calls. Arguments are checked here; what users read is in python/temper/*.py.
#include <new>

#include "base/error.h"
#include "base/version.h"
#include "bind.h"
#include "guard.h"

namespace nb = nanobind;

namespace temper::python {

namespace {

constexpr const char* kind_name(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::check_failed: return "check_failed";
    case ErrorKind::usage: return "usage";
    case ErrorKind::bad_file: return "bad_file";
    case ErrorKind::unsupported: return "unsupported";
    case ErrorKind::machine: return "machine";
  }
  return "machine";
}

void raise(const char* message, ErrorKind kind) {
  const nb::object type = nb::module_::import_("temper._error").attr("Error");
  // Messages may hold names out of files that are not UTF-8.
  const nb::object text =
      nb::steal(PyUnicode_DecodeUTF8(message, Py_ssize_t(std::char_traits<char>::length(message)), "replace"));
  PyErr_SetObject(type.ptr(), type(text, kind_name(kind)).ptr());
}

void translate(const std::exception_ptr& pointer, void*) {
  try {
    std::rethrow_exception(pointer);
  } catch (const Error& error) { raise(error.what(), error.kind()); } catch (const std::bad_alloc&) {
    raise("out of memory", ErrorKind::machine);
  }
}

}  // namespace

NB_MODULE(_temper, module) {
  nb::set_leak_warnings(false);  // an interpreter that ends leaves what its daemon threads hold
  nb::register_exception_translator(translate);
  module.attr("__version__") = std::string(version());
  bind_guard(module);
  bind_device_array(module);
  bind_engine(module);
  bind_session(module);
  bind_graph(module);
  bind_bench(module);
  bind_calibrate(module);
  bind_evaluate(module);
  bind_log(module);
}

}  // namespace temper::python
