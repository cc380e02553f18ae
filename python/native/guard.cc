// SPDX-License-Identifier: Apache-2.0
#include "guard.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "arrays.h"
#include "base/error.h"
#include "base/relax.h"
#include "bind.h"
#include "measure/clock.h"

namespace nb = nanobind;

namespace temper::python {

namespace {

std::atomic<bool> has_run{false};   // this process has run kernels, so that it has threads which a fork would not copy
std::atomic<bool> orphaned{false};  // this process is such a fork
std::atomic<bool> ending{false};
std::atomic<int> working{0};  // WithoutGils of all threads
thread_local int own = 0;     // of this one: a callback may run a model in turn
std::thread::id ender;

// A thread that wants the GIL back sleeps until it is woken, which takes longer than a short run of a model does; and
// who holds it usually lets it go within a microsecond or two, at the start of the next run. So threads that come back
// wait here first, awake and for a bounded time. A hint and no lock: whoever holds the GIL may let it go elsewhere.
std::atomic<bool> returned{false};  // a thread came back and has not left again
constexpr auto kPatience = std::chrono::microseconds(20);

void take_turn() {
  if (!returned.exchange(true)) return;
  const auto start = std::chrono::steady_clock::now();
  do {
    for (int i = 0; i < 8; ++i) relax();
    if (!returned.load(std::memory_order_relaxed) && !returned.exchange(true)) return;
  } while (std::chrono::steady_clock::now() - start < kPatience);
}

void in_child() {
  returned = false;
  if (has_run) orphaned = true;
  working = own;  // the others exist in the parent only
}

bool must_sleep() { return ending && std::this_thread::get_id() != ender; }

[[noreturn]] void sleep_for_good() {
  working -= own;
  for (;;) pause();
}

void refuse_ending() { fail(ErrorKind::usage, "the interpreter is ending: Temper runs nothing any more"); }

// Called by atexit, so with the GIL, before the interpreter stops its threads. A thread that is without the GIL when it
// stops would be torn down in the middle of C++ frames, so the running calls are waited for.
void end() {
  ender = std::this_thread::get_id();
  ending = true;
  const nb::gil_scoped_release release;
  while (working > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace

bool is_ending() { return ending; }

void check_process() {
  if (orphaned)
    fail(ErrorKind::usage,
         "this process was forked from one that had used Temper, whose threads do not exist here; start workers with "
         "multiprocessing.get_context(\"spawn\"), or fork before the first engine is built or loaded");
  if (ending) refuse_ending();
}

WithoutGil::WithoutGil() {
  if (must_sleep()) {
    PyEval_SaveThread();
    sleep_for_good();
  }
  check_process();
  has_run = true;
  ++working;
  ++own;
  state_ = PyEval_SaveThread();
  returned = false;
}

WithoutGil::~WithoutGil() {
  if (must_sleep()) sleep_for_good();
  take_turn();
  PyEval_RestoreThread(state_);
  --working;
  --own;
}

void check_interrupted() {
  const nb::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
  if (ending) refuse_ending();
}

Progress progress_of(nb::object callback) {
  if (!callback.is_none() && !PyCallable_Check(callback.ptr()))
    fail(ErrorKind::usage, "progress is a ", class_of(callback),
         "; it must be a function of one string, None or False");
  // The function is copied and let go where the GIL is not held: only a pointer goes along.
  const std::shared_ptr<nb::object> shared(new nb::object(std::move(callback)), [](nb::object* object) {
    const nb::gil_scoped_acquire gil;
    delete object;
  });
  return [shared, meter = std::make_shared<ProgressMeter>()](const ProgressStep& step) {
    check_interrupted();
    if (shared->is_none()) return;
    const nb::gil_scoped_acquire gil;
    // A bar of _progress.py says how wide it is, and gets what a terminal shows; the user's function gets the words.
    std::string text = text_of(step);
    if (nb::hasattr(*shared, "bar_width"))
      text = meter->line(step, 1e-3 * host_clock().now_ms(), nb::cast<size_t>(shared->attr("bar_width")));
    (*shared)(nb::str(text.c_str(), text.size()));
  };
}

void bind_guard(nb::module_& module) {
  pthread_atfork(nullptr, nullptr, in_child);
  module.def("_end", end);
  nb::module_::import_("atexit").attr("register")(module.attr("_end"));
}

}  // namespace temper::python
