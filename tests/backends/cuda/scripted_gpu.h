// SPDX-License-Identifier: Apache-2.0
// A driver of two H100 in host memory: what a plan needs of a driver, with every handle an object that is counted and
// checked, copies done, and kernels recorded; those that were compiled for the CPU (emulator/nvrtc.cc) are run, too. So
// choosing, memory planning, building, saving, loading and running are tested with no GPU, and every failure of a
// driver can be played.
#pragma once
#include <elf.h>

#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <set>

#include "backends/cuda/machine.h"
#include "cuda_test_helpers.h"
#include "emulator/emulator.h"

namespace temper::testing {

class ScriptedGpus {
 public:
  static constexpr int kGpus = 2;
  struct Object {
    std::string kind;  // "memory", "stream", ...
    int gpu = 0;
    int64_t bytes = 0;                                   // memory
    bool capturing = false;                              // streams
    std::vector<std::function<cuda::Result()>> actions;  // of a capture so far, and of graphs
    double ms = 0;                                       // events: when it happened
    std::string name;                                    // functions
    std::shared_ptr<emulator::KernelLibrary> library;    // modules and functions whose kernels are run
    std::string code;                                    // modules of others
  };

  int driver_version = 13900;
  int multiprocessors = 132, major = 9, minor = 0;
  std::string gpu_name = "Scripted H100";
  int64_t memory_bytes = int64_t(1) << 30;  // of each
  int64_t calls = 0;                        // by any GPU
  int64_t lost_at = -1;                     // the call from which on GPU 0 fails in all it is asked for
  std::vector<std::string> launches;        // names of kernels that ran, in order
  int64_t graphs_recorded = 0, copies_on_device = 0;
  std::vector<std::string> misuses;  // what no program may do: freeing twice, copying outside of memory, ...

  static ScriptedGpus& get() {
    static ScriptedGpus gpus;
    return gpus;
  }
  void reset() {
    const std::lock_guard lock(mutex_);
    driver_version = 13900;
    multiprocessors = 132, major = 9, minor = 0;
    gpu_name = "Scripted H100";
    memory_bytes = int64_t(1) << 30;
    calls = graphs_recorded = copies_on_device = 0;
    lost_at = -1;
    launches.clear();
    misuses.clear();
    for (auto& [address, object] : objects_)
      if (object.kind == "memory" || object.kind == "pinned") std::free(const_cast<void*>(address));
    objects_.clear();
    clock_ = 0;
  }
  std::map<std::string, int> alive() const {
    std::map<std::string, int> out;
    for (const auto& [address, object] : objects_)
      if (object.kind != "function") ++out[object.kind];
    return out;
  }
  int64_t used_bytes(int gpu) const {
    int64_t bytes = 0;
    for (const auto& [address, object] : objects_)
      bytes += object.gpu == gpu && object.kind == "memory" ? object.bytes : 0;
    return bytes;
  }

  static cuda::DriverApi api();

 private:
  using Result = cuda::Result;
  // The GPU whose context is current on this thread; -1: none.
  static int& current() {
    static thread_local int gpu = -1;
    return gpu;
  }
  static constexpr Result kInvalidValue = 1, kInvalidContext = 201, kInvalidHandle = 400, kCaptureUnsupported = 900;

  Result misuse(std::string what, Result result) {
    misuses.push_back(std::move(what));
    return result;
  }
  // Counts a call; the error of a lost GPU, or 0.
  Result begin(int gpu) {
    ++calls;
    return gpu == 0 && lost_at >= 0 && calls >= lost_at ? cuda::kLaunchFailed : 0;
  }
  // The same for calls that need a current context.
  Result begin() {
    if (current() < 0) return misuse("a call without a context", kInvalidContext);
    return begin(current());
  }
  template <class Handle>
  Object* find(Handle handle, const char* kind) {
    auto it = objects_.find(reinterpret_cast<const void*>(handle));
    if (it == objects_.end() || it->second.kind != kind) {
      misuse(concat("something that is no ", kind), 0);
      return nullptr;
    }
    return &it->second;
  }
  template <class Handle>
  Result make(Handle* out, Object object) {
    void* address = reinterpret_cast<void*>(next_ += 16);
    objects_[address] = std::move(object);
    *out = reinterpret_cast<Handle>(address);
    return 0;
  }
  template <class Handle>
  Result destroy(Handle handle, const char* kind) {
    if (const Result lost = begin()) return lost;
    if (!find(handle, kind)) return kInvalidHandle;
    objects_.erase(reinterpret_cast<const void*>(handle));
    return 0;
  }
  Result allocate(void** out, int64_t bytes, const char* kind) {
    if (const Result lost = begin()) return lost;
    for (const auto& [address, object] : objects_)
      if (object.kind == "stream" && object.gpu == current() && object.capturing && capturing_thread() == &current())
        return misuse("allocating while a graph is recorded", kCaptureUnsupported);
    const bool device = kind == std::string("memory");
    if (device && bytes > memory_bytes - used_bytes(current())) return cuda::kOutOfMemory;
    void* address = std::aligned_alloc(256, size_t((bytes + 255) / 256 * 256));
    if (!address) return cuda::kOutOfMemory;
    std::memset(address, 0xff, size_t(bytes));
    objects_[address] = {kind, current(), bytes};
    *out = address;
    return 0;
  }
  Result release(const void* address, const char* kind) {
    const Result lost = begin();
    auto it = objects_.find(address);
    if (it == objects_.end() || it->second.kind != kind)
      return misuse(concat("freeing what is no ", kind), kInvalidValue);
    if (lost) return lost;
    std::free(const_cast<void*>(address));
    objects_.erase(it);
    return 0;
  }
  bool inside(const void* address, size_t bytes) {
    auto it = objects_.upper_bound(address);
    if (it == objects_.begin()) return false;
    --it;
    const auto* first = static_cast<const char*>(it->first);
    return it->second.kind == "memory" && static_cast<const char*>(address) + bytes <= first + it->second.bytes;
  }
  // Does it now or, while a graph is recorded, later.
  Result put_in(cuda::StreamHandle handle, std::function<Result()> action) {
    if (const Result lost = begin()) return lost;
    Object* stream = find(handle, "stream");
    if (!stream) return kInvalidHandle;
    if (stream->gpu != current()) return misuse("a stream of another GPU", kInvalidContext);
    if (stream->capturing) return stream->actions.push_back(std::move(action)), 0;
    return action();
  }
  Result copy(void* to, const void* from, size_t bytes, const void* device, cuda::StreamHandle stream) {
    return put_in(stream, [=, this]() -> Result {
      if (!inside(device, bytes)) return misuse("a copy outside of memory", cuda::kIllegalAddress);
      std::memcpy(to, from, bytes);
      return clock_ += 0.001, 0;
    });
  }
  Result launch(cuda::FunctionHandle handle, const cuda::LaunchConfig& config, void** parameters) {
    Object* function = find(handle, "function");
    if (!function) return kInvalidHandle;
    const auto library = function->library;
    const std::shared_ptr<emulator::Bound> bound = library ? library->bind(function->name, parameters) : nullptr;
    emulator::LaunchOptions options;
    options.grid = {config.grid[0], config.grid[1], config.grid[2]};
    options.block = {config.block[0], config.block[1], config.block[2]};
    options.shared_bytes = config.shared_bytes;
    return put_in(config.stream, [this, name = function->name, library, bound, options]() mutable -> Result {
      launches.push_back(name);
      clock_ += 0.01;
      if (!bound) return 0;
      options.seed = launches.size();
      const std::string problem = library->run(name, *bound, options);
      return problem.empty() ? 0 : misuse(concat(name, ": ", problem), cuda::kLaunchFailed);
    });
  }
  static emulator::TensorMap tensor_map(int dtype, uint32_t rank, void* address, const uint64_t* sizes,
                                        const uint64_t* strides, int swizzle) {
    emulator::TensorMap map;
    map.magic = emulator::kTensorMapMagic;
    map.base = static_cast<const unsigned char*>(address);
    map.tf32 = dtype == 11;
    map.element_bytes = map.tf32 ? 4 : 1 << dtype;
    map.rank = int32_t(rank);
    map.swizzle = swizzle ? 16 << swizzle : 0;
    for (uint32_t i = 0; i < rank; ++i) {
      map.sizes[i] = uint32_t(sizes[i]);
      map.strides[i] = i ? int64_t(strides[i - 1]) : map.element_bytes;
    }
    return map;
  }
  // What the driver asks of every map.
  Result keep(void* to, const emulator::TensorMap& map) {
    bool well = reinterpret_cast<uintptr_t>(map.base) % 16 == 0 && reinterpret_cast<uintptr_t>(to) % 64 == 0;
    for (int i = 0; i < map.rank; ++i)
      well &= map.sizes[i] > 0 && (i == 0 || (map.strides[i] % 16 == 0 && map.strides[i] < int64_t(1) << 40));
    if (!well) return misuse("a tensor map that no driver takes", kInvalidValue);
    std::memcpy(to, &map, sizeof map);
    return 0;
  }
  Result wait(cuda::StreamHandle handle) {
    if (const Result lost = begin()) return lost;
    Object* stream = find(handle, "stream");
    if (!stream) return kInvalidHandle;
    return stream->capturing ? misuse("waiting while a graph is recorded", kCaptureUnsupported) : 0;
  }
  Result happen(cuda::EventHandle handle, cuda::StreamHandle stream) {
    if (!find(handle, "event")) return kInvalidHandle;
    return put_in(stream, [this, handle]() -> Result {
      Object* event = find(handle, "event");
      if (!event) return kInvalidHandle;
      return event->ms = clock_, 0;
    });
  }
  static const void*& capturing_thread() {
    static const void* thread = nullptr;
    return thread;
  }

  mutable std::recursive_mutex mutex_;
  std::map<const void*, Object> objects_;
  uintptr_t next_ = 0x1000;
  double clock_ = 0;
  template <class F>
  static Result locked(F&& f) {
    const std::lock_guard lock(get().mutex_);
    return f(get());
  }
};

inline cuda::DriverApi ScriptedGpus::api() {
  using namespace cuda;
  using S = ScriptedGpus;
  DriverApi a;
  a.init = [](unsigned) { return 0; };
  a.driver_version = [](int* v) { return *v = get().driver_version, 0; };
  a.device_count = [](int* n) { return *n = kGpus, 0; };
  a.device_get = [](DeviceHandle* d, int i) { return *d = i, 0; };
  a.device_name = [](char* name, int, DeviceHandle) { return std::strcpy(name, get().gpu_name.c_str()), 0; };
  a.device_total_memory = [](size_t* n, DeviceHandle) { return *n = size_t(get().memory_bytes), 0; };
  a.device_attribute = [](int* value, DeviceAttribute which, DeviceHandle) {
    switch (which) {
      case DeviceAttribute::capability_major: *value = get().major; break;
      case DeviceAttribute::capability_minor: *value = get().minor; break;
      case DeviceAttribute::multiprocessors: *value = get().multiprocessors; break;
      case DeviceAttribute::l2_bytes: *value = 50 << 20; break;
      case DeviceAttribute::shared_per_block_optin:
      case DeviceAttribute::shared_per_multiprocessor: *value = 232448; break;
      case DeviceAttribute::registers_per_multiprocessor: *value = 65536; break;
      default: *value = 0;
    }
    return 0;
  };
  a.device_pci_bus_id = [](char* id, int, DeviceHandle d) {
    return std::strcpy(id, d ? "0000:02:00.0" : "0000:01:00.0"), 0;
  };
  a.primary_retain = [](ContextHandle* c, DeviceHandle d) {
    return locked([&](S& s) {
      if (const Result lost = s.begin(d)) return lost;
      return s.make(c, {"context", d});
    });
  };
  a.primary_release = [](DeviceHandle d) {
    return locked([&](S& s) {
      const Result lost = s.begin(d);
      for (auto it = s.objects_.begin(); it != s.objects_.end(); ++it)
        if (it->second.kind == "context" && it->second.gpu == d) {
          if (!lost) s.objects_.erase(it);
          return lost;
        }
      return s.misuse("releasing a context that is not there", kInvalidContext);
    });
  };
  a.context_set_current = [](ContextHandle c) {
    return locked([&](S& s) -> Result {
      if (!c) return current() = -1, 0;  // none
      const Object* context = s.find(c, "context");
      if (!context) return kInvalidContext;
      if (const Result lost = s.begin(context->gpu)) return lost;
      return current() = context->gpu, 0;
    });
  };
  a.context_get_current = [](ContextHandle* c) {
    return locked([&](S& s) -> Result {
      *c = nullptr;
      for (const auto& [address, object] : s.objects_)
        if (object.kind == "context" && object.gpu == current())
          *c = reinterpret_cast<ContextHandle>(const_cast<void*>(address));
      return 0;
    });
  };
  a.context_synchronize = [] { return locked([](S& s) { return s.begin(); }); };
  a.memory_info = [](size_t* free, size_t* total) {
    return locked([&](S& s) -> Result {
      if (const Result lost = s.begin()) return lost;
      *total = size_t(s.memory_bytes);
      return *free = size_t(s.memory_bytes - s.used_bytes(current())), 0;
    });
  };
  a.memory_allocate = [](DevicePointer* p, size_t n) {
    return locked([&](S& s) {
      void* address = nullptr;
      const Result result = s.allocate(&address, int64_t(n), "memory");
      *p = reinterpret_cast<DevicePointer>(address);
      return result;
    });
  };
  a.memory_free = [](DevicePointer p) {
    return locked([&](S& s) { return s.release(reinterpret_cast<void*>(p), "memory"); });
  };
  a.host_allocate = [](void** p, size_t n, unsigned) {
    return locked([&](S& s) { return s.allocate(p, int64_t(n), "pinned"); });
  };
  a.host_free = [](void* p) { return locked([&](S& s) { return s.release(p, "pinned"); }); };
  a.copy_to_device = [](DevicePointer to, const void* from, size_t n, StreamHandle stream) {
    void* device = reinterpret_cast<void*>(to);
    return locked([&](S& s) { return s.copy(device, from, n, device, stream); });
  };
  a.copy_to_host = [](void* to, DevicePointer from, size_t n, StreamHandle stream) {
    const void* device = reinterpret_cast<const void*>(from);
    return locked([&](S& s) { return s.copy(to, device, n, device, stream); });
  };
  a.copy_on_device = [](DevicePointer to, DevicePointer from, size_t n, StreamHandle stream) {
    void* device = reinterpret_cast<void*>(to);
    return locked([&](S& s) {
      ++s.copies_on_device;
      return s.copy(device, reinterpret_cast<const void*>(from), n, device, stream);
    });
  };
  a.fill = [](DevicePointer to, unsigned char value, size_t n, StreamHandle stream) {
    return locked([&](S& s) {
      return s.put_in(stream, [&s, to, value, n]() -> Result {
        void* device = reinterpret_cast<void*>(to);
        if (!s.inside(device, n)) return s.misuse("a fill outside of memory", kIllegalAddress);
        return std::memset(device, value, n), 0;
      });
    });
  };
  a.stream_create = [](StreamHandle* handle, unsigned) {
    return locked([&](S& s) {
      if (const Result lost = s.begin()) return lost;
      return s.make(handle, {"stream", current()});
    });
  };
  a.stream_destroy = [](StreamHandle handle) { return locked([&](S& s) { return s.destroy(handle, "stream"); }); };
  a.stream_synchronize = [](StreamHandle handle) { return locked([&](S& s) { return s.wait(handle); }); };
  a.stream_query = a.stream_synchronize;
  a.stream_wait_event = [](StreamHandle, EventHandle, unsigned) { return locked([](S& s) { return s.begin(); }); };
  a.stream_begin_capture = [](StreamHandle handle, int) {
    return locked([&](S& s) -> Result {
      if (const Result lost = s.begin()) return lost;
      Object* stream = s.find(handle, "stream");
      if (!stream) return kInvalidHandle;
      if (stream->capturing) return s.misuse("recording twice at a time", kCaptureUnsupported);
      capturing_thread() = &current();
      return stream->capturing = true, 0;
    });
  };
  a.stream_end_capture = [](StreamHandle handle, GraphHandle* graph) {
    return locked([&](S& s) -> Result {
      if (const Result lost = s.begin()) return lost;
      Object* stream = s.find(handle, "stream");
      if (!stream) return kInvalidHandle;
      if (!stream->capturing) return s.misuse("ending what was not begun", kCaptureUnsupported);
      stream->capturing = false;
      ++s.graphs_recorded;
      Object made{"graph", current()};
      made.actions.swap(stream->actions);
      return s.make(graph, std::move(made));
    });
  };
  a.graph_instantiate = [](GraphExecHandle* exec, GraphHandle graph, unsigned long long) {
    return locked([&](S& s) -> Result {
      if (const Result lost = s.begin()) return lost;
      const Object* from = s.find(graph, "graph");
      if (!from) return kInvalidHandle;
      Object made{"exec", from->gpu};
      made.actions = from->actions;
      return s.make(exec, std::move(made));
    });
  };
  a.graph_launch = [](GraphExecHandle exec, StreamHandle stream) {
    return locked([&](S& s) -> Result {
      if (!s.find(exec, "exec")) return kInvalidHandle;
      return s.put_in(stream, [&s, exec]() -> Result {
        Object* graph = s.find(exec, "exec");
        if (!graph) return kInvalidHandle;
        for (const auto& action : std::vector(graph->actions))
          if (const Result result = action()) return result;
        return 0;
      });
    });
  };
  a.graph_destroy = [](GraphHandle handle) { return locked([&](S& s) { return s.destroy(handle, "graph"); }); };
  a.graph_exec_destroy = [](GraphExecHandle handle) { return locked([&](S& s) { return s.destroy(handle, "exec"); }); };
  a.event_create = [](EventHandle* handle, unsigned) {
    return locked([&](S& s) {
      if (const Result lost = s.begin()) return lost;
      return s.make(handle, {"event", current()});
    });
  };
  a.event_destroy = [](EventHandle handle) { return locked([&](S& s) { return s.destroy(handle, "event"); }); };
  a.event_record = [](EventHandle event, StreamHandle stream) {
    return locked([&](S& s) { return s.happen(event, stream); });
  };
  a.event_record_with_flags = [](EventHandle event, StreamHandle stream, unsigned) {
    return locked([&](S& s) { return s.happen(event, stream); });
  };
  a.event_synchronize = [](EventHandle) { return locked([](S& s) { return s.begin(); }); };
  a.event_elapsed = [](float* ms, EventHandle from, EventHandle to) {
    return locked([&](S& s) -> Result {
      if (const Result lost = s.begin()) return lost;
      const Object *first = s.find(from, "event"), *last = s.find(to, "event");
      if (!first || !last) return kInvalidHandle;
      return *ms = float(last->ms - first->ms), 0;
    });
  };
  a.module_load = [](ModuleHandle* handle, const void* cubin) {
    return locked([&](S& s) -> Result {
      if (const Result lost = s.begin()) return lost;
      if (std::memcmp(cubin,
                      "\x7f"
                      "ELF",
                      4) != 0)
        return kInvalidSource;
      Object module{"module", current()};
      module.library = emulator::KernelLibrary::load(cubin);
      if (!module.library) {
        Elf64_Ehdr head;
        std::memcpy(&head, cubin, sizeof head);
        module.code.assign(static_cast<const char*>(cubin), head.e_shoff + size_t(head.e_shnum) * head.e_shentsize);
      }
      return s.make(handle, std::move(module));
    });
  };
  a.module_unload = [](ModuleHandle handle) { return locked([&](S& s) { return s.destroy(handle, "module"); }); };
  a.module_function = [](FunctionHandle* handle, ModuleHandle module, const char* name) {
    return locked([&](S& s) -> Result {
      if (const Result lost = s.begin()) return lost;
      const Object* from = s.find(module, "module");
      if (!from) return kInvalidHandle;
      Object function{"function", current()};
      function.name = name;
      function.library = from->library;
      const std::string section = concat(".text.", std::string_view(name), '\0');
      if (function.library ? !function.library->has(name) : from->code.find(section) == std::string::npos)
        return cuda::kNotFound;
      return s.make(handle, std::move(function));
    });
  };
  a.function_attribute = [](int* value, FunctionAttribute, FunctionHandle) {
    return locked([&](S& s) -> Result {
      if (const Result lost = s.begin()) return lost;
      return *value = 32, 0;
    });
  };
  a.function_set_attribute = [](FunctionHandle, FunctionAttribute, int) {
    return locked([](S& s) { return s.begin(); });
  };
  a.launch_host = [](StreamHandle stream, void (*function)(void*), void* argument) {
    return locked([&](S& s) { return s.put_in(stream, [=]() -> Result { return function(argument), 0; }); });
  };
  a.launch_kernel = [](FunctionHandle function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                       unsigned bz, unsigned shared, StreamHandle stream, void** parameters, void**) {
    const LaunchConfig config{{gx, gy, gz}, {bx, by, bz}, shared, stream, nullptr, 0};
    return locked([&](S& s) { return s.launch(function, config, parameters); });
  };
  a.launch_kernel_ex = [](const LaunchConfig* config, FunctionHandle function, void** parameters, void**) {
    return locked([&](S& s) { return s.launch(function, *config, parameters); });
  };
  a.tensor_map_tiled = [](void* map, int dtype, uint32_t rank, void* address, const uint64_t* sizes,
                          const uint64_t* strides, const uint32_t* box, const uint32_t* steps, int, int swizzle, int,
                          int) {
    return locked([&](S& s) -> Result {
      emulator::TensorMap made = tensor_map(dtype, rank, address, sizes, strides, swizzle);
      uint32_t inner = uint32_t(made.element_bytes) * box[0];
      for (uint32_t i = 0; i < rank; ++i) {
        made.box[i] = uint16_t(box[i]);
        if (box[i] < 1 || box[i] > 256 || steps[i] != 1) return s.misuse("a box of a tensor map", kInvalidValue);
      }
      if (inner % 16 || (made.swizzle && inner > uint32_t(made.swizzle)))
        return s.misuse("a box that does not fit its swizzling", kInvalidValue);
      return s.keep(map, made);
    });
  };
  a.tensor_map_im2col = [](void* map, int dtype, uint32_t rank, void* address, const uint64_t* sizes,
                           const uint64_t* strides, const int* low, const int* high, uint32_t channels, uint32_t pixels,
                           const uint32_t* steps, int, int swizzle, int, int) {
    return locked([&](S& s) -> Result {
      emulator::TensorMap made = tensor_map(dtype, rank, address, sizes, strides, swizzle);
      made.im2col = 1;
      made.box[0] = uint16_t(channels);
      made.box[1] = uint16_t(pixels);
      if (rank != 4 || channels > 256 || pixels > 1024) return s.misuse("a map of images", kInvalidValue);
      for (uint32_t i = 0; i < rank; ++i) {
        if (steps[i] < 1 || steps[i] > 8) return s.misuse("steps of a tensor map", kInvalidValue);
        made.steps[i] = uint8_t(steps[i]);
      }
      for (uint32_t i = 0; i + 2 < rank; ++i) {
        if (std::abs(low[i]) > 127 || std::abs(high[i]) > 127) return s.misuse("corners of a map", kInvalidValue);
        made.low[i] = int8_t(low[i]), made.high[i] = int8_t(high[i]);
      }
      const uint32_t inner = uint32_t(made.element_bytes) * channels;
      if (inner % 16 || (made.swizzle && inner > uint32_t(made.swizzle)))
        return s.misuse("channels that do not fit their swizzling", kInvalidValue);
      return s.keep(map, made);
    });
  };
  return a;
}

// While it lives, "cuda:0" and "cuda:1" are scripted GPUs, and kernels are compiled for them by the tests' NVRTC or
// another that is found in `search`.
class ScriptedMachines {
 public:
  explicit ScriptedMachines(cuda::LibrarySearch search = cuda_search()) {
    const auto driver = cuda::Driver::scripted(ScriptedGpus::api());
    search.system = false;  // no library that would look for a real GPU
    for (int i = 0; i < ScriptedGpus::kGpus; ++i) {
      machines_.push_back(std::make_shared<const cuda::Machine>(driver, i, search));
      cuda::Machine::put_in_place(i, machines_.back());
    }
  }

 private:
  std::vector<std::shared_ptr<const cuda::Machine>> machines_;
};

}  // namespace temper::testing
