// SPDX-License-Identifier: Apache-2.0
// The objects of the driver: on a scripted driver anywhere, and on a GPU where there is one.
#include "backends/cuda/support/driver.h"

#include <cstring>
#include <map>

#include "cuda_test_helpers.h"

namespace temper {
namespace {

using namespace cuda;

// A driver in host memory that counts what is alive. Handles are numbers.
struct Script {
  std::map<std::string, int> alive;
  uintptr_t next = 1;
  int launches = 0;
  std::vector<int> edges;     // of each node of a graph that was made: edges to others that it was made with
  std::vector<int> overlaps;  // nodes whose successors may start before they have ended; the first is 1
} script;

template <class Handle>
Handle made(const char* kind) {
  ++script.alive[kind];
  return Handle(script.next++);
}

DriverApi scripted_api() {
  script = {};
  DriverApi api;
  api.init = [](unsigned) { return 0; };
  api.driver_version = [](int* v) { return *v = 13000, 0; };
  api.device_count = [](int* n) { return *n = 2, 0; };
  api.device_get = [](DeviceHandle* d, int i) { return *d = i, 0; };
  api.device_name = [](char* name, int, DeviceHandle) { return std::strcpy(name, "Scripted GPU"), 0; };
  api.device_total_memory = [](size_t* bytes, DeviceHandle) { return *bytes = size_t(1) << 30, 0; };
  api.device_attribute = [](int* value, DeviceAttribute which, DeviceHandle) {
    return *value = which == DeviceAttribute::capability_major ? 9 : 0, 0;
  };
  api.device_pci_bus_id = [](char* id, int, DeviceHandle) { return std::strcpy(id, "0000:01:00.0"), 0; };
  api.primary_retain = [](ContextHandle* c, DeviceHandle) { return *c = made<ContextHandle>("context"), 0; };
  api.primary_release = [](DeviceHandle) { return --script.alive["context"], 0; };
  api.context_set_current = [](ContextHandle) { return 0; };
  api.context_synchronize = [] { return 0; };
  api.memory_info = [](size_t* free, size_t* total) { return *free = 1 << 20, *total = 1 << 30, 0; };
  api.memory_allocate = [](DevicePointer* p, size_t) { return *p = made<uintptr_t>("memory"), 0; };
  api.memory_free = [](DevicePointer) { return --script.alive["memory"], 0; };
  api.host_allocate = [](void** p, size_t, unsigned) { return *p = made<void*>("pinned"), 0; };
  api.host_free = [](void*) { return --script.alive["pinned"], 0; };
  api.stream_create = [](StreamHandle* s, unsigned) { return *s = made<StreamHandle>("stream"), 0; };
  api.stream_destroy = [](StreamHandle) { return --script.alive["stream"], 0; };
  api.event_create = [](EventHandle* e, unsigned) { return *e = made<EventHandle>("event"), 0; };
  api.event_destroy = [](EventHandle) { return --script.alive["event"], 0; };
  api.module_load = [](ModuleHandle* m, const void*) { return *m = made<ModuleHandle>("module"), 0; };
  api.module_unload = [](ModuleHandle) { return --script.alive["module"], 0; };
  api.module_function = [](FunctionHandle* f, ModuleHandle, const char*) {
    return *f = FunctionHandle(uintptr_t(7)), 0;
  };
  api.launch_kernel = [](FunctionHandle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                         StreamHandle, void**, void**) { return ++script.launches, 0; };
  api.graph_create = [](GraphHandle* g, unsigned) { return *g = made<GraphHandle>("graph"), 0; };
  api.graph_add_kernel = [](GraphNodeHandle* n, GraphHandle, const GraphNodeHandle*, size_t before, const KernelNode*) {
    return script.edges.push_back(int(before)), *n = GraphNodeHandle(script.edges.size()), 0;
  };
  api.graph_add_fill = [](GraphNodeHandle* n, GraphHandle, const GraphNodeHandle*, size_t before, const FillNode*,
                          ContextHandle) {
    return script.edges.push_back(int(before)), *n = GraphNodeHandle(script.edges.size()), 0;
  };
  api.graph_add_edges = [](GraphHandle, const GraphNodeHandle* from, const GraphNodeHandle*, const GraphEdge* edge,
                           size_t) {
    EXPECT_EQ(edge->type, GraphEdge::kProgrammatic);
    return script.overlaps.push_back(int(reinterpret_cast<uintptr_t>(*from))), 0;
  };
  api.graph_instantiate = [](GraphExecHandle* g, GraphHandle, unsigned long long) {
    return *g = made<GraphExecHandle>("exec"), 0;
  };
  api.graph_launch = [](GraphExecHandle, StreamHandle) { return ++script.launches, 0; };
  api.graph_destroy = [](GraphHandle) { return --script.alive["graph"], 0; };
  api.graph_exec_destroy = [](GraphExecHandle) { return --script.alive["exec"], 0; };
  return api;
}

// All kinds of object, used once.
void use_everything(const std::shared_ptr<const Driver>& driver) {
  const GpuRef gpu = Gpu::open(driver, 1);
  const DeviceMemory memory(gpu, 1000), none(gpu, 0);
  const PinnedMemory pinned(gpu, 1000);
  const Stream stream(gpu);
  const Event event(gpu);
  const std::byte cubin[8] = {};
  const Module module(gpu, cubin);
  const Function function = module.function("kernel");
  DevicePointer address = memory.address();
  void* arguments[] = {&address};
  stream.begin_graph();
  try {
    function.launch(stream, {{2, 1, 1}, {32, 1, 1}, 0}, arguments);
    const Graph graph = stream.end_graph();
    stream.launch(graph);
  } catch (const Error&) {
    stream.abandon_graph();
    throw;
  }
}

void expect_nothing_alive() {
  for (const auto& [kind, count] : script.alive) EXPECT_EQ(count, 0) << kind;
}

TEST(CudaDriver, GivesBackAllThatItMade) {
  const auto driver = Driver::scripted(scripted_api());
  ASSERT_EQ(driver->gpus().size(), 2u);
  EXPECT_EQ(driver->gpus()[0].architecture(), "sm_90a");
  use_everything(driver);
  EXPECT_EQ(script.launches, 1);
  EXPECT_EQ(script.alive.at("memory"), 0);
  EXPECT_EQ(script.alive.size(), 8u);  // kinds of object
  expect_nothing_alive();
}

TEST(CudaDriver, EveryCallMayFailAndNothingLeaks) {
  for (auto* countdown : {&planned_failures().allocate, &planned_failures().launch, &planned_failures().other}) {
    int failed = 0;
    for (int64_t n = 1; n < 100; ++n) {
      const auto driver = Driver::scripted(scripted_api());
      countdown->store(n);
      bool threw = false;
      try {
        use_everything(driver);
      } catch (const Error& error) {
        threw = true;
        EXPECT_EQ(error.kind(), ErrorKind::machine) << error.what();
        EXPECT_NE(std::string(error.what()).find("planned by a test"), std::string::npos) << error.what();
      }
      countdown->store(0);
      expect_nothing_alive();
      if (!threw) break;
      ++failed;
    }
    EXPECT_GE(failed, 2);
    EXPECT_LT(failed, 99);
  }
}

TEST(CudaDriver, AModuleIsLoadedOnceForEqualBytesWhileSomebodyHoldsIt) {
  const GpuRef gpu = Gpu::open(Driver::scripted(scripted_api()), 0);
  const std::byte cubin[8] = {}, other[8] = {std::byte{1}};
  auto first = gpu->module(cubin);
  EXPECT_EQ(gpu->module(cubin), first);
  EXPECT_EQ(script.alive.at("module"), 1);
  const auto second = gpu->module(other);
  EXPECT_NE(second, first);
  EXPECT_EQ(script.alive.at("module"), 2);
  first = nullptr;
  EXPECT_EQ(script.alive.at("module"), 1);
  first = gpu->module(cubin);
  EXPECT_EQ(script.alive.at("module"), 2);
}

TEST(CudaDriver, SaysHowMuchMemoryWasAskedForAndHowMuchIsFree) {
  const auto driver = Driver::scripted(scripted_api());
  const GpuRef gpu = Gpu::open(driver, 0);
  planned_failures().allocate = 1;
  try {
    const DeviceMemory memory(gpu, int64_t(5) << 20);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::machine);
    for (const char* part : {"allocating 5 MiB", "1 MiB of 1024 MiB free", "smaller batch"})
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(CudaDriver, RefusesAGpuThatIsNotThere) {
  const auto driver = Driver::scripted(scripted_api());
  try {
    Gpu::open(driver, 2);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    EXPECT_NE(std::string(error.what()).find("cuda:0 to cuda:1"), std::string::npos) << error.what();
  }
}

TEST(CudaDriver, RefusesAGpuThatIsTooOldByItsCapability) {
  DriverApi api = scripted_api();
  api.device_attribute = [](int* value, DeviceAttribute which, DeviceHandle) {
    return *value = which == DeviceAttribute::capability_major ? 7 : 0, 0;
  };
  try {
    Gpu::open(Driver::scripted(api), 0);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    EXPECT_STREQ(error.what(),
                 "GPU 0 (Scripted GPU) cannot be used: its compute capability is 7.0, and kernels are compiled for 7.5 "
                 "(Turing) and later; use --device cpu");
  }
}

TEST(CudaDriver, ErrorsSayWhetherTheMachineLacksSomethingOrFailed) {
  const auto driver = Driver::scripted(scripted_api());
  const auto kind_of = [&](Result result) {
    try {
      driver->raise(result, "a call", false);
    } catch (const Error& error) { return error.kind(); }
  };
  EXPECT_EQ(kind_of(kNoDevice), ErrorKind::unsupported);
  EXPECT_EQ(kind_of(kNoBinaryForGpu), ErrorKind::unsupported);
  EXPECT_EQ(kind_of(kOutOfMemory), ErrorKind::machine);
  EXPECT_EQ(kind_of(kIllegalAddress), ErrorKind::machine);
}

// A kernel that overlaps has an edge of that kind to the kernel in front of it, and to other work a plain one. A
// library's calls end a graph, run anew each time, and the next node begins another.
TEST(CudaDriver, AGraphIsAChainOfNodesBetweenTheCallsOfLibraries) {
  const auto driver = Driver::scripted(scripted_api());
  const GpuRef gpu = Gpu::open(driver, 0);
  const Stream stream(gpu);
  const std::byte cubin[8] = {};
  const Module module(gpu, cubin);
  const Function kernel = module.function("kernel");
  const DeviceMemory memory(gpu, 64);
  int calls = 0;
  stream.begin_graph();
  kernel.launch(stream, {}, {}, true);
  kernel.launch(stream, {}, {}, true);
  stream.fill(memory.address(), 0, 64);
  kernel.launch(stream, {}, {}, true);
  stream.put_in([&](StreamHandle) {
    EXPECT_EQ(script.launches, 2 * calls + 1) << "between the graphs";
    ++calls;
  });
  kernel.launch(stream, {}, {}, true);
  const Graph graph = stream.end_graph();
  EXPECT_EQ(script.edges, (std::vector{0, 0, 1, 1, 0}));
  EXPECT_EQ(script.overlaps, std::vector{1});
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(script.launches, 0);
  stream.launch(graph);
  stream.launch(graph);
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(script.launches, 4);
  kernel.launch(stream, {}, {});
  EXPECT_EQ(script.launches, 5) << "behind a graph's end work is put in at once";
}

TEST(CudaGpu, CopiesFillsRecordsAndReplays) {
  TEMPER_NEEDS_GPU(gpu);
  const Stream stream(gpu);
  const DeviceMemory a(gpu, 1 << 20), b(gpu, 1 << 20);
  const PinnedMemory host(gpu, 1 << 20);
  std::memset(host.data(), 0, 1 << 20);
  stream.begin_graph();
  stream.fill(a.address(), 0x5a, 1 << 20);
  stream.copy_on_device(b.address(), a.address(), 1 << 20);
  stream.copy_to_host(host.data(), b.address(), 1 << 20);
  const Graph graph = stream.end_graph();
  EXPECT_EQ(host.data()[12345], std::byte(0)) << "a capture runs nothing";
  const Event start(gpu), stop(gpu);
  stream.record(start);
  stream.launch(graph);
  stream.record(stop);
  stop.wait();
  for (int i = 0; i < 1 << 20; ++i) ASSERT_EQ(host.data()[i], std::byte(0x5a));
  EXPECT_GT(stop.milliseconds_since(start), 0);
  std::printf("%s, driver of CUDA %d\n", gpu->info().name.c_str(), gpu->driver().version());
}

TEST(CudaGpu, AskingForMoreMemoryThanThereIsIsAnErrorAndTheGpuGoesOn) {
  TEMPER_NEEDS_GPU(gpu);
  EXPECT_THROW(DeviceMemory(gpu, int64_t(1) << 42), Error);
  const DeviceMemory fits(gpu, 1 << 20);
  gpu->synchronize();
}

}  // namespace
}  // namespace temper
