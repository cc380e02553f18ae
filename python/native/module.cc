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
  // Messages may hold names out of files that are not UTF-8.
  const nb::object text =
      nb::steal(PyUnicode_DecodeUTF8(message, Py_ssize_t(std::char_traits<char>::length(message)), "replace"));
  const nb::object error = nb::module_::import_("temper._error").attr("raised")(text, kind_name(kind));
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
}

void translate(const std::exception_ptr& pointer, void*) {
  try {
    std::rethrow_exception(pointer);
  } catch (const Error& error) { raise(error.what(), error.kind()); } catch (const std::bad_alloc&) {
    raise("out of memory", ErrorKind::machine);
  } catch (const nb::cast_error&) {  // the package checks what it is given; this is for what it does not
    raise("an argument is of a type that is not taken", ErrorKind::usage);
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
  bind_pool(module);
  bind_generate(module);
  bind_graph(module);
  bind_bench(module);
  bind_calibrate(module);
  bind_evaluate(module);
  bind_log(module);
  bind_nvinfer(module);
  bind_reports(module);
  bind_samples(module);
}

}  // namespace temper::python
