// SPDX-License-Identifier: Apache-2.0
// Loaded in front of libc: refuses threads after the first TEMPER_TEST_THREADS, as a container's limit of processes
// does.
#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                              void* argument) {
  static std::atomic<int> left{std::getenv("TEMPER_TEST_THREADS") ? std::atoi(std::getenv("TEMPER_TEST_THREADS")) : 0};
  if (left.fetch_sub(1) <= 0) return EAGAIN;
  static const auto next = reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  return next(thread, attributes, start, argument);
}
