// SPDX-License-Identifier: Apache-2.0
// A GPU and what was opened to use it: one for each GPU of a process.
#pragma once
#include <exception>
#include <mutex>

#include "backends/cuda/support/compiler.h"
#include "backends/cuda/support/driver.h"
#include "backends/queue.h"
#include "backends/tactic.h"

namespace temper::cuda {

class Cudnn;
class CublasLt;

class Machine {
 public:
  // Opens the driver and GPU `ordinal`; where that was done before, gives the same again. The first search of a process
  // counts. Throws Error{unsupported} without driver or GPU, Error{usage} for a GPU that is not there.
  static std::shared_ptr<const Machine> open(int ordinal, const LibrarySearch& search);
  // For tests: a machine with a driver of the caller's, and one that open() gives for this ordinal while it lives.
  static void put_in_place(int ordinal, const std::shared_ptr<const Machine>& machine);
  Machine(std::shared_ptr<const Driver> driver, int ordinal, LibrarySearch search);
  // For tests: a library that was not opened. Before anybody asks for it.
  void put_in_place(std::unique_ptr<const CublasLt> library) const;
  ~Machine();

  const GpuRef& gpu() const { return gpu_; }
  const LibrarySearch& search() const { return search_; }
  // Opened when first asked for. Throws Error{unsupported} where NVRTC is missing, with what to install.
  const Compiler& compiler() const;
  // The same for NVIDIA's libraries; a missing one is looked for once. `why_no_`: empty where the library is there.
  const Cudnn& cudnn() const;
  std::string why_no_cudnn() const;
  const CublasLt& cublaslt() const;
  std::string why_no_cublaslt() const;
  // On the GPU, 256-byte aligned; one for equal bytes, as long as somebody holds it. Waits for the copy.
  std::shared_ptr<const DeviceMemory> constant(std::span<const std::byte> bytes) const;

 private:
  // A library that is opened once; where that failed, why.
  template <class T>
  struct Opened {
    std::mutex mutex;
    bool tried = false;
    std::unique_ptr<const T> library;
    std::string problem;
    const T* open(const Machine& machine);
  };
  GpuRef gpu_;
  LibrarySearch search_;
  Stream upload_;
  mutable std::mutex compiler_mutex_;
  mutable std::unique_ptr<Compiler> compiler_;
  mutable Opened<Cudnn> cudnn_;
  mutable Opened<CublasLt> cublaslt_;
  mutable ByContent<DeviceMemory> constants_;
};

// What a kernel says of data that are wrong: an index that does not exist.
struct Fault {
  int64_t index, size;
  uint32_t raised;
};

// What Buffers::stream points to.
struct WorkStream {
  explicit WorkStream(const GpuRef& gpu) : stream(gpu), fault_memory(gpu, sizeof(Fault)) { fault() = {}; }
  Stream stream;
  PinnedMemory fault_memory;  // kernels write to it where it lies
  Fault& fault() { return *reinterpret_cast<Fault*>(fault_memory.data()); }
  DevicePointer fault_address() const { return reinterpret_cast<DevicePointer>(fault_memory.data()); }
  // What a step that ran on the host threw: the next wait() throws it.
  std::mutex failure_mutex;
  std::exception_ptr failure;
};
inline WorkStream& work_stream_of(const Buffers& buffers) { return *static_cast<WorkStream*>(buffers.stream); }
inline const Stream& stream_of(const Buffers& buffers) { return work_stream_of(buffers).stream; }
inline DevicePointer address_of(const void* device) { return reinterpret_cast<DevicePointer>(device); }

std::unique_ptr<Queue> make_queue(const Device& device);

}  // namespace temper::cuda
