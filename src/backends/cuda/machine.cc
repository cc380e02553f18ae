// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/machine.h"

#include <map>
#include <optional>

#include "backends/cuda/support/cublaslt.h"
#include "backends/cuda/support/cudnn.h"
#include "base/file.h"
#include "base/log.h"

namespace temper::cuda {

namespace {

struct OpenMachines {
  std::mutex mutex;
  // By ordinal, and the caller's context or null.
  std::map<std::pair<int, void*>, std::weak_ptr<const Machine>> known;
};
// Never destroyed: a thread that opens libraries may outlive the end of main().
OpenMachines& open_machines() {
  static auto& machines = *new OpenMachines;
  return machines;
}

}  // namespace

std::shared_ptr<const Machine> Machine::open(int ordinal, const LibrarySearch& search, void* context) {
  OpenMachines& machines = open_machines();
  const std::lock_guard lock(machines.mutex);
  if (auto known = machines.known[{ordinal, context}].lock()) return known;
  auto machine = std::make_shared<const Machine>(Driver::open(search), ordinal, search, context);
  machines.known[{ordinal, context}] = machine;
  return machine;
}

void Machine::put_in_place(int ordinal, const std::shared_ptr<const Machine>& machine, void* context) {
  OpenMachines& machines = open_machines();
  const std::lock_guard lock(machines.mutex);
  machines.known[{ordinal, context}] = machine;
}

void Machine::put_in_place(std::unique_ptr<const CublasLt> library) const {
  const std::lock_guard lock(cublaslt_.mutex);
  cublaslt_.library = std::move(library);
  cublaslt_.tried = true;
}

Machine::Machine(std::shared_ptr<const Driver> driver, int ordinal, LibrarySearch search, void* context)
    : gpu_(Gpu::open(std::move(driver), ordinal, static_cast<ContextHandle>(context))),
      search_(std::move(search)),
      upload_(gpu_) {}

Machine::~Machine() = default;

template <class T>
const T* Machine::Opened<T>::open(const Machine& machine) {
  const std::lock_guard lock(mutex);
  if (!tried) try {
      library = std::make_unique<const T>(machine.gpu_, machine.search_);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::unsupported) throw;
      problem = error.what();
    }
  tried = true;
  return library.get();
}

const Cudnn& Machine::cudnn() const {
  if (const Cudnn* library = cudnn_.open(*this)) return *library;
  fail(ErrorKind::unsupported, cudnn_.problem);
}
std::string Machine::why_no_cudnn() const { return cudnn_.open(*this) ? "" : cudnn_.problem; }
const CublasLt& Machine::cublaslt() const {
  if (const CublasLt* library = cublaslt_.open(*this)) return *library;
  fail(ErrorKind::unsupported, cublaslt_.problem);
}
std::string Machine::why_no_cublaslt() const { return cublaslt_.open(*this) ? "" : cublaslt_.problem; }

// Empty where there is none: kernels are compiled anew by every process.
static std::string kernel_cache() {
  try {
    return cache_folder() + "/kernels";
  } catch (const Error& error) {
    log(LogLevel::warning, std::string_view(error.what()), "; compiled GPU kernels are not kept");
    return {};
  }
}

const Compiler& Machine::compiler() const {
  const std::lock_guard lock(compiler_mutex_);
  if (!compiler_) compiler_ = std::make_unique<Compiler>(search_, kernel_cache(), gpu_->driver().version());
  return *compiler_;
}

std::shared_ptr<const DeviceMemory> Machine::constant(std::span<const std::byte> bytes) const {
  return constants_.get(bytes, [&] {
    gpu_->make_current();
    auto memory = std::make_shared<const DeviceMemory>(gpu_, int64_t(bytes.size()));
    if (!bytes.empty()) {
      upload_.copy_to_device(memory->address(), bytes.data(), int64_t(bytes.size()));
      upload_.synchronize();
    }
    return memory;
  });
}

namespace {

struct CapturedWork final : Queue::Capture {
  explicit CapturedWork(Graph g) : graph(std::move(g)) {}
  Graph graph;
};
struct CudaEvent final : Queue::Event {
  explicit CudaEvent(const GpuRef& gpu) : event(gpu) {}
  cuda::Event event;
};

class CudaQueue final : public Queue {
 public:
  explicit CudaQueue(std::shared_ptr<const Machine> machine) : machine_(std::move(machine)), work_(machine_->gpu()) {}
  void* stream() const override { return const_cast<WorkStream*>(&work_); }
  void* handle() const override { return work_.stream.get(); }

  std::shared_ptr<void> allocate(int64_t bytes) override {
    auto memory = std::make_shared<DeviceMemory>(machine_->gpu(), bytes);
    void* address = reinterpret_cast<void*>(memory->address());
    return std::shared_ptr<void>(std::move(memory), address);
  }
  std::shared_ptr<void> allocate_host(int64_t bytes) override {
    auto memory = std::make_shared<PinnedMemory>(machine_->gpu(), bytes);
    void* address = memory->data();
    return std::shared_ptr<void>(std::move(memory), address);
  }
  std::shared_ptr<const void> constant(std::span<const std::byte> bytes) override {
    auto memory = machine_->constant(bytes);
    const void* address = reinterpret_cast<const void*>(memory->address());
    return std::shared_ptr<const void>(std::move(memory), address);
  }

  void copy_to_device(void* to, const void* from, int64_t bytes) override {
    work_.stream.copy_to_device(address_of(to), from, bytes);
  }
  void copy_to_host(void* to, const void* from, int64_t bytes) override {
    work_.stream.copy_to_host(to, address_of(from), bytes);
  }
  void copy_on_device(void* to, const void* from, int64_t bytes) override {
    work_.stream.copy_on_device(address_of(to), address_of(from), bytes);
  }
  void wait() override {
    work_.stream.synchronize();
    if (const Fault fault = std::exchange(work_.fault(), Fault{}); fault.raised) {
      if (fault.raised == Fault::kRegionTooLarge)
        fail(ErrorKind::usage, "region ", fault.index, " is out of all proportion");
      fail(ErrorKind::usage, "the index ", fault.index, " is outside of an axis of ", fault.size, " elements");
    }
    const std::lock_guard lock(work_.failure_mutex);
    if (work_.failure) std::rethrow_exception(std::exchange(work_.failure, nullptr));
  }
  bool is_captured(void* stream) override { return work_.stream.is_captured(static_cast<StreamHandle>(stream)); }
  void wait_for(void* stream) override {
    if (!before_) before_.emplace(machine_->gpu(), false);
    work_.stream.record_in(static_cast<StreamHandle>(stream), *before_);
    work_.stream.wait(*before_);
  }
  void let_wait(void* stream) override {
    if (!behind_) behind_.emplace(machine_->gpu(), false);
    work_.stream.record(*behind_);
    work_.stream.let_wait(static_cast<StreamHandle>(stream), *behind_);
  }
  bool is_lost() noexcept override {
    try {
      work_.stream.synchronize();
      return false;
    } catch (const Error&) { return true; }
  }
  void launch(const Capture& capture) override { work_.stream.launch(static_cast<const CapturedWork&>(capture).graph); }
  std::unique_ptr<Event> make_event() override { return std::make_unique<CudaEvent>(machine_->gpu()); }
  void record(Event& event) override { work_.stream.record(static_cast<CudaEvent&>(event).event); }
  double milliseconds(const Event& from, const Event& to) override {
    return static_cast<const CudaEvent&>(to).event.milliseconds_since(static_cast<const CudaEvent&>(from).event);
  }

 protected:
  void begin_capture() override { work_.stream.begin_graph(); }
  std::unique_ptr<Capture> end_capture() override { return std::make_unique<CapturedWork>(work_.stream.end_graph()); }
  void abandon_capture() noexcept override { work_.stream.abandon_graph(); }

 private:
  std::shared_ptr<const Machine> machine_;
  WorkStream work_;
  std::optional<cuda::Event> before_, behind_;  // a caller's stream and this one wait for each other by them
};

}  // namespace

std::unique_ptr<Queue> make_queue(const Device& device) { return std::make_unique<CudaQueue>(device.gpu); }

}  // namespace temper::cuda
