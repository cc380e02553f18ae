// SPDX-License-Identifier: Apache-2.0
// The CUDA driver: GPUs, their memory, streams, events, kernels and graphs, as objects that clean up after themselves.
// Every call that can fail goes through Driver::call, so failures can be planned in tests and are reported in one form:
// Error{machine}, or Error{unsupported} where the machine lacks what is needed.
#pragma once
#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/cuda/support/by_content.h"
#include "backends/cuda/support/driver_api.h"
#include "backends/cuda/support/library.h"

namespace temper::cuda {

// The kinds of calls that tests plan failures of.
enum class Operation { other, allocate, launch };

// A countdown for each kind: N makes the N-th such call from now on fail as the driver would (1 = the next one), every
// later one works again; 0 = none. For tests only; the counts are of the whole process.
struct PlannedFailures {
  std::atomic<int64_t> allocate{0}, launch{0}, other{0};
};
PlannedFailures& planned_failures();

struct GpuInfo {
  int ordinal = 0;
  std::string name, pci_bus_id;
  int major = 0, minor = 0;  // compute capability
  int sms = 0;               // streaming multiprocessors
  int64_t memory_bytes = 0, l2_bytes = 0, shared_per_block = 0;
  int clock_khz = 0, memory_clock_khz = 0, memory_bus_bits = 0;  // highest clocks; 0 where the driver does not say
  // The name that NVRTC compiles for: "sm_80", "sm_90a" (from 9.0 on with the features of just this architecture).
  std::string architecture() const;
  // Why Temper does not run on it; empty where it does.
  std::string why_too_old() const;
};
std::string architecture_of(int major, int minor);

class Driver {
 public:
  // Opens libcuda and starts it. Throws Error{unsupported} where there is no driver or no GPU for it.
  static std::shared_ptr<const Driver> open(const LibrarySearch& search);
  // Makes one of the caller's functions, for tests with a scripted driver.
  static std::shared_ptr<const Driver> scripted(const DriverApi& api);

  const std::string& path() const { return path_; }
  int version() const { return version_; }  // of CUDA that it supports: 13000 = 13.0
  const std::vector<GpuInfo>& gpus() const { return gpus_; }
  const DriverApi& api() const { return api_; }

  // Calls `function(arguments...)`; throws if it, or the plan of a test, says so. `what`: "allocating 12 MiB".
  template <class... P, class... A>
  void call(Operation operation, std::string_view what, Result (*function)(P...), A... arguments) const {
    fail_if_planned(operation, what);
    if (const Result result = function(arguments...); result != 0) raise(result, what, false);
  }
  // The first part of call(). Calls of NVIDIA's libraries that launch go through it, too.
  void fail_if_planned(Operation operation, std::string_view what) const {
    if (fails_as_planned(operation)) raise(operation == Operation::allocate ? kOutOfMemory : kLaunchFailed, what, true);
  }
  [[noreturn]] void raise(Result result, std::string_view what, bool planned) const;

 private:
  void start();
  static bool fails_as_planned(Operation operation);
  DriverApi api_;
  std::string path_;
  int version_ = 0;
  std::vector<GpuInfo> gpus_;
};

class Module;

// A GPU's primary context, which is shared with other libraries of the process (cuDNN, cuBLASLt), or one of the
// caller's. Everything below keeps the Gpu that it came from alive and makes it current on the calling thread where the
// driver needs that.
class Gpu : public std::enable_shared_from_this<Gpu> {
 public:
  // `context`: a CUcontext of this GPU that outlives the Gpu; null: its primary one. Throws Error{usage} for one of
  // another GPU.
  static std::shared_ptr<const Gpu> open(std::shared_ptr<const Driver> driver, int ordinal,
                                         ContextHandle context = nullptr);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  const Driver& driver() const { return *driver_; }
  const GpuInfo& info() const { return driver_->gpus()[size_t(ordinal_)]; }
  ContextHandle context() const { return context_; }
  void make_current() const;
  // The same where nothing can be thrown: false if the device is lost.
  bool try_make_current() const noexcept;
  struct Memory {
    int64_t free = 0, total = 0;
  };
  Memory memory() const;
  // Waits for everything in flight. Errors of earlier launches surface here (or at any later call).
  void synchronize() const;
  // A cubin, loaded: one for equal bytes, as long as somebody holds it, so that layers of one kernel find its
  // instructions in the caches. Throws Error{unsupported} where it is for another GPU.
  std::shared_ptr<const Module> module(std::span<const std::byte> cubin) const;

 private:
  Gpu(std::shared_ptr<const Driver> driver, int ordinal) : driver_(std::move(driver)), ordinal_(ordinal) {}
  std::shared_ptr<const Driver> driver_;
  int ordinal_;
  ContextHandle context_ = nullptr;
  bool primary_ = false;  // it was retained
  mutable ByContent<Module> modules_;
};
using GpuRef = std::shared_ptr<const Gpu>;

// Base of the objects below: a handle that is returned to the driver with its last owner.
template <class Handle>
class Owned {
 public:
  Owned() = default;
  Owned(GpuRef gpu, Handle handle, Result (*release)(Handle))
      : gpu_(std::move(gpu)), handle_(handle), release_(release) {}
  Owned(Owned&& other) noexcept { swap(other); }
  Owned& operator=(Owned&& other) noexcept {
    Owned moved(std::move(other));
    swap(moved);
    return *this;
  }
  ~Owned() {
    // A lost device cannot take anything back, and there is nobody to tell.
    if (handle_ && gpu_->try_make_current()) release_(handle_);
  }
  Handle get() const { return handle_; }
  explicit operator bool() const { return handle_ != Handle(); }
  const GpuRef& gpu() const { return gpu_; }

 private:
  void swap(Owned& other) {
    std::swap(gpu_, other.gpu_);
    std::swap(handle_, other.handle_);
    std::swap(release_, other.release_);
  }
  GpuRef gpu_;
  Handle handle_ = Handle();
  Result (*release_)(Handle) = nullptr;
};

// Device memory, 256-byte aligned. Of zero bytes: no handle.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  // Throws Error{machine} with what is free and what was asked for.
  DeviceMemory(const GpuRef& gpu, int64_t bytes);
  DevicePointer address() const { return owned_.get(); }
  int64_t bytes() const { return bytes_; }

 private:
  Owned<DevicePointer> owned_;
  int64_t bytes_ = 0;
};

// Page-locked host memory: copies from and to it run while the host goes on.
class PinnedMemory {
 public:
  PinnedMemory() = default;
  PinnedMemory(const GpuRef& gpu, int64_t bytes);
  std::byte* data() const { return static_cast<std::byte*>(owned_.get()); }
  int64_t bytes() const { return bytes_; }

 private:
  Owned<void*> owned_;
  int64_t bytes_ = 0;
};

class Event {
 public:
  explicit Event(const GpuRef& gpu, bool timed = true);
  EventHandle get() const { return owned_.get(); }
  void wait() const;                                      // until it has happened
  double milliseconds_since(const Event& earlier) const;  // both have happened and are timed

 private:
  Owned<EventHandle> owned_;
};

// Work that was put into a stream once, and runs each time that it is launched: CUDA graphs, and between them calls of
// libraries, which put their kernels into the stream anew each time. Its graphs are made node by node and never by
// CUDA's stream capture: while a stream is captured, no thread may synchronize its context, and a program's other
// threads do not know of it ("CUDA Programming Guide", prohibited and unhandled operations of stream capture).
class Graph {
 public:
  using Calls = std::function<void(StreamHandle)>;

 private:
  friend class Stream;
  struct Piece {
    Owned<GraphExecHandle> nodes;  // or, without,
    Calls calls;
  };
  std::vector<Piece> pieces_;
};

struct LaunchShape {
  std::array<uint32_t, 3> grid{1, 1, 1}, block{1, 1, 1};
  uint32_t shared_bytes = 0;  // dynamic
  bool operator==(const LaunchShape&) const = default;
};

class Stream {
 public:
  explicit Stream(const GpuRef& gpu);
  StreamHandle get() const { return owned_.get(); }
  const GpuRef& gpu() const { return owned_.gpu(); }
  // Asynchronous where the host memory is pinned. The memory must live until the stream has got there.
  void copy_to_device(DevicePointer to, const void* from, int64_t bytes) const;
  void copy_to_host(void* to, DevicePointer from, int64_t bytes) const;
  void copy_on_device(DevicePointer to, DevicePointer from, int64_t bytes) const;
  void fill(DevicePointer to, uint8_t value, int64_t bytes) const;
  void record(const Event& event) const;
  // The function is called, in its turn, on a thread of the driver's. It must not throw or use CUDA.
  void call_host(void (*function)(void*), void* argument) const;
  void wait(const Event& event) const;  // work put in later waits for it
  // The same of a stream that somebody else owns, of the same context; null: its default stream.
  void record_in(StreamHandle other, const Event& event) const;
  void let_wait(StreamHandle other, const Event& event) const;
  bool is_captured(StreamHandle other) const;  // whether work put into it goes into a graph now
  void synchronize() const;
  // Calls of a library that put work into the stream that they are given. `calls` may be kept for a graph: what it
  // refers to must live as long.
  void put_in(Graph::Calls calls) const;
  // Work that is put in between the two calls goes into a graph and does not run. Only the object knows of it.
  void begin_graph() const;
  Graph end_graph() const;
  // Discards what was put in, after an error.
  void abandon_graph() const noexcept { unfinished_.reset(); }
  void launch(const Graph& graph) const;

 private:
  friend class Function;
  // A graph so far.
  struct Unfinished {
    Graph graph;
    Owned<GraphHandle> nodes;  // of its last piece
    GraphNodeHandle last = nullptr;
    bool last_is_kernel = false;
  };
  Owned<StreamHandle> owned_;
  mutable std::unique_ptr<Unfinished> unfinished_;

  // A kernel's node with `overlap` may start before the previous kernel has ended.
  struct NodeKind {
    bool is_kernel = false, overlap = false;
  };
  template <class Add, class... Arguments>
  void add_node(std::string_view what, NodeKind kind, Add add, Arguments... arguments) const;
  void add_copy(std::string_view what, const CopyNode::Place& from, const CopyNode::Place& to, int64_t bytes) const;
  void end_piece(Unfinished& of) const;
};

// How a tensor lies in memory, innermost axis first, and in which boxes TMA (Hopper and later) moves it
// (CUDA driver API, "Tensor map object management"). Boxes whose innermost axis is `swizzle` bytes long (32, 64, 128)
// are swizzled by as much in shared memory. What lies outside of the tensor reads as zeros.
struct TensorMapSpec {
  int element_bytes = 1;          // 1, 2 or 4
  bool tf32 = false;              // elements are f32 and rounded to TF32 on their way
  std::vector<uint64_t> sizes;    // elements
  std::vector<uint64_t> strides;  // bytes, of the axes but the innermost; multiples of 16
  std::vector<uint32_t> steps;    // elements from one that is read to the next
  std::vector<uint32_t> box;      // of tiles
  // For images (channels, width, height, image): `channels` of `pixels` in a row. They run over the base positions from
  // `low` to size - 1 + `high` of width and height, by `steps`, image after image.
  uint32_t channels = 0, pixels = 0;
  std::vector<int> low, high;
  int swizzle = 0;
  bool operator==(const TensorMapSpec&) const = default;
};
struct alignas(64) TensorMap {
  std::byte bytes[128];
};
// `address`: 16-byte aligned. Throws Error{unsupported} where the driver is too old.
TensorMap make_tensor_map(const Gpu& gpu, const TensorMapSpec& spec, DevicePointer address);

class Function {
 public:
  // Each argument is a pointer to one kernel parameter. `overlap`: programmatic dependent launch (PDL). The kernel may
  // start before the previous kernel of the stream has ended, and waits itself (griddepcontrol.wait) before it reads
  // its inputs.
  void launch(const Stream& stream, const LaunchShape& shape, std::span<void* const> arguments,
              bool overlap = false) const;
  int attribute(FunctionAttribute which) const;
  // Dynamic shared memory above 48 KiB must be asked for once; what was allowed before stays so.
  void allow_shared(int64_t bytes) const;

 private:
  friend class Module;
  Function(GpuRef gpu, FunctionHandle handle, std::string name)
      : gpu_(std::move(gpu)), handle_(handle), name_(std::move(name)) {}
  GpuRef gpu_;
  FunctionHandle handle_;
  std::string name_;
};

// A cubin on a GPU. Must outlive the functions taken from it.
class Module {
 public:
  // Throws Error{unsupported} where the cubin is for another GPU.
  Module(const GpuRef& gpu, std::span<const std::byte> cubin);
  Function function(const std::string& name) const;

 private:
  Owned<ModuleHandle> owned_;
};

}  // namespace temper::cuda
