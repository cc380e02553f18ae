// SPDX-License-Identifier: Apache-2.0
// A driver of two H100 in host memory: what a plan needs of a driver, with every handle an object that is counted and
// checked, copies done, and kernels recorded; those that were compiled for the CPU (emulator/nvrtc.cc) are run, too. So
// choosing, memory planning, building, saving, loading and running are tested with no GPU, and every failure of a
// driver can be played.
#pragma once

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
    int64_t bytes = 0;            // memory
    int64_t retained = 0;         // contexts: a GPU has one, as long as somebody retains it
    bool capturing = false;       // streams
    const void* joins = nullptr;  // streams: that whose capture they are in; events: that whose capture they mark
    bool joined_back = false;     // streams that join another: it waits for them
    const void* marks = nullptr;  // events: the stream that they were recorded in
    std::vector<std::function<cuda::Result()>> actions;  // of a capture so far, and of graphs
    std::vector<bool> waits;                             // graphs: which nodes have an edge to the one in front
    double ms = 0;                                       // events: when it happened
    std::string name;                                    // functions
    std::shared_ptr<emulator::KernelLibrary> library;    // modules and functions whose kernels are run
    std::string code;                                    // modules of others
  };

  int driver_version = 13900;
  int multiprocessors = 132, major = 9, minor = 0, shared_per_block = 232448;
  std::string gpu_name = "Scripted H100";
  int64_t memory_bytes = int64_t(1) << 30;  // of each
  int64_t calls = 0;                        // by any GPU
  int64_t lost_at = -1;                     // the call from which on GPU 0 fails in all it is asked for
  std::set<int> full;                       // GPUs that have no room for a context
  std::vector<std::string> launches;        // names of kernels that ran, in order
  std::map<std::string, double> kernel_ms;  // by name; others take 0.01
  int64_t graphs_recorded = 0, copies_on_device = 0;
  int64_t bytes_to_host = 0, bytes_to_device = 0;  // of copies that streams were given, not of those in graphs
  // What streams were told, in order: "record", "wait" (for an event), "work", "synchronize".
  std::vector<std::pair<std::string, const void*>> order;
  std::vector<std::string> misuses;  // what no program may do: freeing twice, copying outside of memory, ...

  static ScriptedGpus& get() {
    static ScriptedGpus gpus;
    return gpus;
  }
  void reset() {
    const std::lock_guard lock(mutex_);
    driver_version = 13900;
    multiprocessors = 132, major = 9, minor = 0, shared_per_block = 232448;
    gpu_name = "Scripted H100";
    memory_bytes = int64_t(1) << 30;
    calls = graphs_recorded = copies_on_device = bytes_to_host = bytes_to_device = 0;
    lost_at = -1;
    full.clear();
    launches.clear();
    kernel_ms.clear();
    order.clear();
    misuses.clear();
    for (auto& [address, object] : objects_)
      if (object.kind == "memory" || object.kind == "pinned") std::free(const_cast<void*>(address));
    objects_.clear();
    default_streams_.clear();
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
  // CUDA's stream capture, which a program may use and Temper does not.
  static cuda::Result begin_capture(cuda::StreamHandle stream);
  static cuda::Result end_capture(cuda::StreamHandle stream, cuda::GraphHandle* graph);

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
    if (!handle && std::string_view(kind) == "stream") {  // the legacy default stream of the current GPU
      Object& stream = default_streams_[current()];
      if (stream.kind.empty()) stream = {"stream", current()};
      return &stream;
    }
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
  // The stream whose capture takes what is put into this one; null: none.
  Object* recorded_by(const void* handle, Object& stream) {
    if (stream.capturing) return &stream;
    if (!stream.joins) return nullptr;
    if (stream.joined_back) misuse("work in a stream that has left the capture", 0);
    return handle == stream.joins
               ? nullptr
               : find(reinterpret_cast<cuda::StreamHandle>(const_cast<void*>(stream.joins)), "stream");
  }
  // Does it now or, while a graph is recorded, later.
  Result put_in(cuda::StreamHandle handle, std::function<Result()> action, const char* what = "work") {
    if (const Result lost = begin()) return lost;
    Object* stream = find(handle, "stream");
    if (!stream) return kInvalidHandle;
    if (stream->gpu != current()) return misuse("a stream of another GPU", kInvalidContext);
    order.push_back({what, handle});
    if (Object* into = recorded_by(handle, *stream)) return into->actions.push_back(std::move(action)), 0;
    return action();
  }
  Result copy(void* to, const void* from, size_t bytes, const void* device, cuda::StreamHandle stream) {
    return put_in(stream, copying(to, from, bytes, device));
  }
  std::function<Result()> copying(void* to, const void* from, size_t bytes, const void* device) {
    return [=, this]() -> Result {
      if (!inside(device, bytes)) return misuse("a copy outside of memory", cuda::kIllegalAddress);
      std::memcpy(to, from, bytes);
      return clock_ += 0.001, 0;
    };
  }
  std::function<Result()> filling(cuda::DevicePointer to, unsigned value, size_t bytes) {
    return [=, this]() -> Result {
      void* device = reinterpret_cast<void*>(to);
      if (!inside(device, bytes)) return misuse("a fill outside of memory", cuda::kIllegalAddress);
      return std::memset(device, int(value), bytes), 0;
    };
  }
  std::function<Result()> happening(cuda::EventHandle handle) {
    return [this, handle]() -> Result {
      Object* event = find(handle, "event");
      if (!event) return kInvalidHandle;
      return event->ms = clock_, 0;
    };
  }
  // A kernel's run; empty where there is no such function.
  std::function<Result()> run_of(cuda::FunctionHandle handle, const cuda::LaunchConfig& config, void** parameters) {
    Object* function = find(handle, "function");
    if (!function) return {};
    const auto library = function->library;
    const std::shared_ptr<emulator::Bound> bound = library ? library->bind(function->name, parameters) : nullptr;
    emulator::LaunchOptions options;
    options.grid = {config.grid[0], config.grid[1], config.grid[2]};
    options.block = {config.block[0], config.block[1], config.block[2]};
    options.shared_bytes = config.shared_bytes;
    return [this, name = function->name, library, bound, options]() mutable -> Result {
      launches.push_back(name);
      const auto ms = kernel_ms.find(name);
      clock_ += ms == kernel_ms.end() ? 0.01 : ms->second;
      if (!bound) return 0;
      options.seed = launches.size();
      const std::string problem = library->run(name, *bound, options);
      return problem.empty() ? 0 : misuse(concat(name, ": ", problem), cuda::kLaunchFailed);
    };
  }
  Result launch(cuda::FunctionHandle handle, const cuda::LaunchConfig& config, void** parameters) {
    std::function<Result()> action = run_of(handle, config, parameters);
    return action ? put_in(config.stream, std::move(action)) : kInvalidHandle;
  }
  // Puts a node behind the last one of a graph, which `before` must be: what is put into a stream is a chain.
  Result add(cuda::GraphNodeHandle* node, cuda::GraphHandle handle, const cuda::GraphNodeHandle* before, size_t count,
             std::function<Result()> action) {
    if (const Result lost = begin()) return lost;
    Object* graph = find(handle, "graph");
    if (!graph || !action) return kInvalidHandle;
    if (count > 1 || (count == 1 && *before != node_of(*graph)))
      return misuse("a node out of its order", kInvalidValue);
    graph->actions.push_back(std::move(action));
    graph->waits.push_back(count == 1 || graph->actions.size() == 1);
    return *node = node_of(*graph), 0;
  }
  static cuda::GraphNodeHandle node_of(const Object& graph) {
    return reinterpret_cast<cuda::GraphNodeHandle>(graph.actions.size());
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
    order.push_back({"synchronize", handle});
    return stream->capturing || stream->joins ? misuse("waiting while a graph is recorded", kCaptureUnsupported) : 0;
  }
  // In a capture it only orders what is captured.
  Result happen(cuda::EventHandle handle, cuda::StreamHandle stream) {
    Object* recorded = find(handle, "event");
    Object* from = recorded ? find(stream, "stream") : nullptr;
    if (!from) return kInvalidHandle;
    recorded->marks = stream;
    recorded->joins = from->capturing ? stream : from->joins;
    if (recorded->joins) return order.push_back({"record", stream}), begin();
    return put_in(stream, happening(handle), "record");
  }
  Result wait_in(cuda::StreamHandle handle, cuda::EventHandle event_handle) {
    if (const Result lost = begin()) return lost;
    Object* stream = find(handle, "stream");
    const Object* event = stream ? find(event_handle, "event") : nullptr;
    if (!event) return kInvalidHandle;
    order.push_back({"wait", handle});
    if (!event->joins) return 0;
    if (event->joins != handle) return stream->joins = event->joins, stream->joined_back = false, 0;
    for (auto& [address, object] : objects_)
      if (object.kind == "stream" && address == event->marks) object.joined_back = true;
    return 0;
  }
  // The streams that took part leave the capture of this one.
  Result leave(const void* captured) {
    for (auto& [address, object] : objects_)
      if (object.kind == "stream" && object.joins == captured) {
        if (!object.joined_back) return misuse("a capture ends before all its work is joined", kCaptureUnsupported);
        object.joins = nullptr;
      }
    return 0;
  }
  static const void*& capturing_thread() {
    static const void* thread = nullptr;
    return thread;
  }

  mutable std::recursive_mutex mutex_;
  std::map<const void*, Object> objects_;
  std::map<int, Object> default_streams_;  // by GPU
  uintptr_t next_ = 0x1000;
  double clock_ = 0;
  template <class F>
  static Result locked(F&& f) {
    const std::lock_guard lock(get().mutex_);
    return f(get());
  }
};

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
