// SPDX-License-Identifier: Apache-2.0
// What stands around every call that works without the GIL.
#pragma once
#include <nanobind/nanobind.h>

#include "base/progress.h"

namespace temper::python {

// Releases the GIL while it lives. Throws Error{usage} in a process that was forked from one which had used Temper: the
// threads that kernels wait for exist only in the parent. While the interpreter ends, a thread that comes here or
// leaves sleeps for good, as threads do that ask for the GIL then; the thread that ends it gets Error{usage}.
class WithoutGil {
 public:
  WithoutGil();
  ~WithoutGil();
  WithoutGil(const WithoutGil&) = delete;

 private:
  PyThreadState* state_;
};

// Refuses as WithoutGil does, for what needs no other thread to run.
void check_process();

// A user's progress callback or a bar of _progress.py, None allowed, for code without the GIL. Looks for Ctrl-C too;
// what the callback raises, or KeyboardInterrupt, passes through the caller as nanobind::python_error.
Progress progress_of(nanobind::object callback);

// Raises what PyErr_CheckSignals has (KeyboardInterrupt), or Error{usage} where the interpreter ends. GIL not held.
void check_interrupted();

bool is_ending();  // the interpreter

void bind_guard(nanobind::module_& module);

}  // namespace temper::python
