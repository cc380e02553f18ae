// SPDX-License-Identifier: Apache-2.0
// Runs oneDNN's parallel regions on Temper's threads.
//
// oneDNN has its loops compiled with OpenMP. libgomp's workers beside those of base/team.h would wait on the same
// cores, and libgomp waits for a worker that has not begun. Of OpenMP, oneDNN's library calls six functions. Their
// entries in that library's table of imports are pointed at functions that work on base/team.h where Temper is the
// caller, and call libgomp otherwise. No other library's calls are touched, and what the application does with OpenMP
// stays its own.
//
// That this is right with whatever a region does, barriers by spinning on memory included, follows from what
// base/team.h says of parts that work together: a region of n parts has n threads, and each part is begun.
#pragma once
#include "base/team.h"

namespace temper {

// Once in a process; later calls give the same answer. False where oneDNN's library is not as expected (linked
// statically, other functions of OpenMP imported, another runtime): its regions then stay with libgomp.
bool serve_dnnl_regions();

// What oneDNN runs for the calling thread.
struct DnnlWork {
  int threads = 0;                // 0: Temper is not the caller
  Parts parts = Parts::together;  // independent: those of its regions are known not to wait for each other
  bool holds_signals = false;     // on all of its threads: onednn.h says why
};
DnnlWork dnnl_work();
void set_dnnl_work(const DnnlWork& work);

}  // namespace temper
