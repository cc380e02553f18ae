// SPDX-License-Identifier: Apache-2.0
// Counts allocations while a session runs on known shapes. Its own program, because it replaces malloc.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "optimize/build_engine.h"

extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
void __libc_free(void*);
}

namespace {

std::atomic<bool> counting{false};
std::atomic<int> own{0}, library{0};

// By who asked: the address belongs to this program, or to a shared library (oneDNN, OpenMP, the C++ library on behalf
// of either: operator new is traced to its caller below).
void count(void* caller) {
  if (!counting) return;
  Dl_info info{};
  const bool shared = dladdr(caller, &info) && info.dli_fname && std::strstr(info.dli_fname, ".so");
  ++(shared ? library : own);
}

}  // namespace

extern "C" {
void* malloc(size_t size) {
  count(__builtin_return_address(0));
  return __libc_malloc(size);
}
void* calloc(size_t n, size_t size) {
  count(__builtin_return_address(0));
  return __libc_calloc(n, size);
}
void* realloc(void* p, size_t size) {
  count(__builtin_return_address(0));
  return __libc_realloc(p, size);
}
void* aligned_alloc(size_t alignment, size_t size) {
  count(__builtin_return_address(0));
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** out, size_t alignment, size_t size) {
  count(__builtin_return_address(0));
  *out = __libc_memalign(alignment, size);
  return *out ? 0 : ENOMEM;
}
}

void* operator new(size_t size) {
  count(__builtin_return_address(0));
  if (void* p = __libc_malloc(size)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { __libc_free(p); }
void operator delete(void* p, size_t) noexcept { __libc_free(p); }

namespace temper {
namespace {

void expect_no_allocation(const std::string& model, const std::string& input, const Dims& dims) {
  BuildOptions options;
  options.threads = 2;
  options.measure = false;
  options.shapes[input] = {dims, dims, dims};
  Session session(build_engine(model, options));
  Tensor x(DType::f32, dims);
  std::vector<Tensor> outputs;
  std::vector<void*> out;
  for (const TensorType& type : session.prepare({dims})) {
    outputs.emplace_back(type.dtype, type.dims());
    out.push_back(outputs.back().raw_mutable());
  }
  const void* in = x.raw().data();
  session.run_prepared({&in, 1}, out);  // libraries may set up their threads here
  own = library = 0;
  counting = true;
  for (int i = 0; i < 10; ++i) session.run_prepared({&in, 1}, out);
  counting = false;
  std::printf("10 runs of %zu steps: %d allocations by this program, %d by libraries\n",
              session.current_plan().segments[0].steps.size(), own.load(), library.load());
  EXPECT_EQ(own, 0);
}

TEST(Allocation, RunOnAKnownShapeAllocatesNothingInDigits) {
  expect_no_allocation(TEMPER_SOURCE_DIR "/models/digits_cnn.onnx", "image", {3, 1, 8, 8});
}

TEST(Allocation, TheCounterSeesAnAllocation) {
  own = 0;
  counting = true;
  Tensor tensor(DType::f32, {100});
  counting = false;
  EXPECT_GT(own, 0);
}

}  // namespace
}  // namespace temper
