// SPDX-License-Identifier: Apache-2.0
// A Machine is one GPU together with the libraries that were opened to use it (the driver, NVRTC, cuDNN, cuBLASLt). A
// process has one Machine for each GPU, and one more for each context of a caller that it is used in. This file
// also defines the CUDA stream that a session's kernels run on.
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
  // Opens the driver and GPU `ordinal`, or returns the Machine that is open for it already. Only the `search` of the
  // first call in a process is used. Throws Error{unsupported} without a driver or GPU, Error{usage} if there is no GPU
  // of this number. `context`: one of the caller's, which outlives the Machine; null: the GPU's primary one.
  static std::shared_ptr<const Machine> open(int ordinal, const LibrarySearch& search, void* context = nullptr);
  // For tests: open() returns this machine for the ordinal (and context) while it lives, and a machine is made with a
  // given driver.
  static void put_in_place(int ordinal, const std::shared_ptr<const Machine>& machine, void* context = nullptr);
  Machine(std::shared_ptr<const Driver> driver, int ordinal, LibrarySearch search, void* context = nullptr);
  // For tests: stands in for the library. It must be called before anybody asks for the real one.
  void put_in_place(std::unique_ptr<const CublasLt> library) const;
  ~Machine();

  const GpuRef& gpu() const { return gpu_; }
  const LibrarySearch& search() const { return search_; }
  // NVRTC is opened on first use. Throws Error{unsupported}, which says what to install, if it is missing.
  const Compiler& compiler() const;
  // cuDNN and cuBLASLt are opened on first use, and searched for only once. `why_no_`: the reason, empty if it is
  // there.
  const Cudnn& cudnn() const;
  std::string why_no_cudnn() const;
  const CublasLt& cublaslt() const;
  std::string why_no_cublaslt() const;
  // The bytes in GPU memory, 256-byte aligned. Equal bytes share one copy while anyone holds it. Waits for the upload.
  std::shared_ptr<const DeviceMemory> constant(std::span<const std::byte> bytes) const;

 private:
  // A library that is opened at most once, and the reason if that failed.
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

// Reported by a kernel that meets invalid data, such as an index out of range.
struct Fault {
  static constexpr uint32_t kIndexOutside = 1, kRegionTooLarge = 2;
  int64_t index, size;
  uint32_t raised;  // one of these
};

// The CUDA stream of a session, with the places where errors of its work are kept. Buffers::stream points to it.
struct WorkStream {
  explicit WorkStream(const GpuRef& gpu) : stream(gpu), fault_memory(gpu, sizeof(Fault)) { fault() = {}; }
  Stream stream;
  PinnedMemory fault_memory;  // kernels write to this host memory directly
  Fault& fault() { return *reinterpret_cast<Fault*>(fault_memory.data()); }
  DevicePointer fault_address() const { return reinterpret_cast<DevicePointer>(fault_memory.data()); }
  // The exception of a step that ran on the host; the next wait() throws it.
  std::mutex failure_mutex;
  std::exception_ptr failure;
};
inline WorkStream& work_stream_of(const Buffers& buffers) { return *static_cast<WorkStream*>(buffers.stream); }
inline const Stream& stream_of(const Buffers& buffers) { return work_stream_of(buffers).stream; }
inline DevicePointer address_of(const void* device) { return reinterpret_cast<DevicePointer>(device); }

std::unique_ptr<Queue> make_queue(const Device& device);

}  // namespace temper::cuda
