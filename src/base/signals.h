// SPDX-License-Identifier: Apache-2.0
// Holds back signals from a thread that must not be interrupted.
#pragma once
#include <pthread.h>

#include <csignal>
#include <initializer_list>

namespace temper {

// While it lives, handlers of signals do not run on the calling thread: other threads of the process get them, or they
// wait. Threads that are made meanwhile get none either, ever. Faults stay where they happen, and so do the `others`.
// `how`: SIG_SETMASK lets faults and the others through even if the thread had blocked them.
class SignalsHeld {
 public:
  explicit SignalsHeld(std::initializer_list<int> others = {}, int how = SIG_BLOCK) {
    sigset_t all;
    sigfillset(&all);
    for (int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) sigdelset(&all, fault);
    for (int other : others) sigdelset(&all, other);
    pthread_sigmask(how, &all, &before_);
  }
  ~SignalsHeld() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsHeld(const SignalsHeld&) = delete;

 private:
  sigset_t before_;
};

}  // namespace temper
