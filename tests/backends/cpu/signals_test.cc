// SPDX-License-Identifier: Apache-2.0
// Handlers of signals write to the stack of the thread that they interrupt, and to nothing else of its memory.
#include <gtest/gtest.h>

#if defined(__x86_64__)
#include <pthread.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <functional>
#include <optional>
#include <thread>

#include "../run_tactic.h"
#include "backends/cpu/cpu.h"
#include "backends/cpu/onednn.h"
#include "base/concat.h"
#include "base/team.h"
#include "bench/cases.h"

namespace temper {
namespace {

constexpr int kThreads = 2;

// Of the calling thread, where a handler finds it.
thread_local uintptr_t stack_begin = 0, stack_end = 0;
std::atomic<int> handled{0}, elsewhere{0};

void look(int, siginfo_t*, void* context) {
  const auto at = uintptr_t(static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_RSP]);
  if (at < stack_begin || at >= stack_end) ++elsewhere;
  ++handled;
}

// What handlers of a thread run on meanwhile, so that a test that fails leaves the heap as it is.
struct HandlerStack {
  pid_t thread = 0;
  stack_t before{};
  std::array<std::byte, 1 << 16> memory;

  void use() {
    pthread_attr_t attributes;
    void* begin = nullptr;
    size_t bytes = 0;
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstack(&attributes, &begin, &bytes);
    pthread_attr_destroy(&attributes);
    stack_begin = uintptr_t(begin);
    stack_end = stack_begin + bytes;
    const stack_t stack{memory.data(), 0, memory.size()};
    sigaltstack(&stack, &before);
    thread = pid_t(syscall(SYS_gettid));
  }
  void leave() const { sigaltstack(&before, nullptr); }
};

// On the caller and its workers.
template <class Body>
void on_each(Body&& body) {
  run_parts(
      kThreads, Parts::together,
      [](void* call, int member) {
        (*static_cast<std::remove_reference_t<Body>*>(call))(member);
        wait_for_members();  // so none runs two parts
      },
      &body);
}

// Calls `body` while signals come to all of its threads; how many of them did not find the stack.
int signals_elsewhere(const std::function<void()>& body) {
  constexpr int kEnough = 400;
  std::array<HandlerStack, kThreads> stacks;
  on_each([&](int member) { stacks[size_t(member)].use(); });
  struct sigaction action{}, before;
  action.sa_sigaction = look;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
  sigaction(SIGPROF, &action, &before);
  handled = elsewhere = 0;
  std::atomic<bool> ends{false};
  std::thread sender([&] {
    while (!ends) {
      for (const HandlerStack& stack : stacks) syscall(SYS_tgkill, getpid(), stack.thread, SIGPROF);
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  });
  while (handled < kEnough) body();
  ends = true;
  sender.join();
  on_each([&](int member) { stacks[size_t(member)].leave(); });  // what is pending has come by now
  sigaction(SIGPROF, &before, nullptr);
  return elsewhere;
}

TEST(Signals, FindTheStackWhileOnednnMultipliesByItsSgemm) {
  const int64_t m = 96, k = 400, n = 128;
  std::vector<float> x(size_t(m * k), 1.f), w(size_t(k * n), 2.f), y(size_t(m * n));
  std::optional<DnnlCall> call;
  {
    const ThreadScope scope(kThreads);
    const auto a = dnnl_plain_desc(DType::f32, {m, k}), b = dnnl_plain_desc(DType::f32, {k, n}),
               c = dnnl_plain_desc(DType::f32, {m, n});
    const dnnl::matmul::desc product(a, b, c);
    dnnl::matmul::primitive_desc desc(product, dnnl_cpu_engine());
    while (std::string_view(desc.impl_info_str()) != "gemm:jit")
      if (!desc.next_impl()) GTEST_SKIP() << "another build of oneDNN";
    call.emplace(dnnl::matmul(desc));
    call->set(call->add(DNNL_ARG_SRC, a), x.data());
    call->set(call->add(DNNL_ARG_WEIGHTS, b), w.data());
    call->set(call->add(DNNL_ARG_DST, c), y.data());
  }
  EXPECT_EQ(signals_elsewhere([&] { call->execute(); }), 0);
  EXPECT_EQ(y.front(), 800.f);
  EXPECT_EQ(y.back(), 800.f);
}

TEST(Signals, FindTheStackInsideOfATransposedConvolution) {
  // One block of channels, whose product all threads make; and a block for each thread.
  for (const int batch : {1, 2}) {
    const std::string text = concat("conv_transpose(f32[", batch, ",512,16,16], f32[512,4,4,4]) strides=[2,2] ",
                                    "dilations=[1,1] pads=[1,1,1,1] output_padding=[0,0] epilogue=\"(1)\"");
    SCOPED_TRACE(text);
    const KernelCase test = parse_cases(text).at(0);
    const std::vector<Tensor> inputs = make_case_inputs(test, 1);
    const Problem problem = make_case_problem(test, inputs, kThreads);
    const Device device = cpu_device();
    const Tactic* tactic = nullptr;
    for (const Tactic* one : find_backend("cpu").tactics())
      if (one->name == "cpu.conv_transpose") tactic = one;
    ASSERT_TRUE(tactic && tactic->supports(problem, device).yes());
    const Config config = tactic->configs(problem, device).at(0);
    EXPECT_EQ(signals_elsewhere([&] { testing::run_tactic(*tactic, problem, config, inputs, device); }), 0);
  }
}

}  // namespace
}  // namespace temper
#endif
