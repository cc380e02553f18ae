// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/support/driver.h"

#include "backends/queue.h"
#include "base/checked.h"

namespace temper::cuda {

PlannedFailures& planned_failures() {
  static PlannedFailures failures;
  return failures;
}

bool Driver::fails_as_planned(Operation operation) {
  auto& countdown = operation == Operation::allocate ? planned_failures().allocate
                    : operation == Operation::launch ? planned_failures().launch
                                                     : planned_failures().other;
  if (countdown.load(std::memory_order_relaxed) <= 0) return false;
  return countdown.fetch_sub(1) == 1;
}

std::string architecture_of(int major, int minor) {
  return concat("sm_", major * 10 + minor, major == 9 || major == 10 ? "a" : "");
}
std::string GpuInfo::architecture() const { return architecture_of(major, minor); }
std::string GpuInfo::why_too_old() const {
  if (major * 10 + minor >= 75) return "";
  return concat("its compute capability is ", major, '.', minor,
                ", and kernels are compiled for 7.5 (Turing) and later; use --device cpu");
}

std::shared_ptr<const Driver> Driver::open(const LibrarySearch& search) {
  const Library library = Library::open({"libcuda.so.1"}, search, "running on a GPU",
                                        "it comes with NVIDIA's driver: install that, or use --device cpu");
  auto driver = std::make_shared<Driver>();
  driver->path_ = library.path();
#define TEMPER_BIND(member, symbol, ...) library.bind(driver->api_.member, symbol);
  TEMPER_CUDA_DRIVER_FUNCTIONS(TEMPER_BIND)
#undef TEMPER_BIND
  driver->api_.launch_kernel_ex =
      reinterpret_cast<decltype(driver->api_.launch_kernel_ex)>(library.find("cuLaunchKernelEx"));
  driver->api_.graph_add_edges =
      reinterpret_cast<decltype(driver->api_.graph_add_edges)>(library.find("cuGraphAddDependencies_v2"));
  driver->api_.tensor_map_tiled =
      reinterpret_cast<decltype(driver->api_.tensor_map_tiled)>(library.find("cuTensorMapEncodeTiled"));
  driver->api_.tensor_map_im2col =
      reinterpret_cast<decltype(driver->api_.tensor_map_im2col)>(library.find("cuTensorMapEncodeIm2col"));
  driver->start();
  return driver;
}

std::shared_ptr<const Driver> Driver::scripted(const DriverApi& api) {
  auto driver = std::make_shared<Driver>();
  driver->path_ = "a scripted driver";
  driver->api_ = api;
  driver->start();
  return driver;
}

void Driver::start() {
  call(Operation::other, "starting the CUDA driver", api_.init, 0u);
  call(Operation::other, "asking for the driver's version", api_.driver_version, &version_);
  int count = 0;
  call(Operation::other, "counting GPUs", api_.device_count, &count);
  for (int i = 0; i < count; ++i) {
    DeviceHandle device = 0;
    call(Operation::other, "looking at a GPU", api_.device_get, &device, i);
    GpuInfo gpu;
    gpu.ordinal = i;
    char text[256] = {};
    call(Operation::other, "asking for a GPU's name", api_.device_name, text, 255, device);
    gpu.name = text;
    call(Operation::other, "asking for a GPU's bus", api_.device_pci_bus_id, text, 64, device);
    gpu.pci_bus_id = text;
    size_t bytes = 0;
    call(Operation::other, "asking for a GPU's memory", api_.device_total_memory, &bytes, device);
    gpu.memory_bytes = int64_t(bytes);
    auto attribute = [&](DeviceAttribute which) {
      int value = 0;
      call(Operation::other, "asking for a GPU's properties", api_.device_attribute, &value, which, device);
      return value;
    };
    // Drivers stopped to report the clocks here (13.0); 0 then.
    auto optional = [&](DeviceAttribute which) {
      int value = 0;
      return api_.device_attribute(&value, which, device) == 0 ? value : 0;
    };
    gpu.major = attribute(DeviceAttribute::capability_major);
    gpu.minor = attribute(DeviceAttribute::capability_minor);
    gpu.sms = attribute(DeviceAttribute::multiprocessors);
    gpu.l2_bytes = attribute(DeviceAttribute::l2_bytes);
    gpu.shared_per_block = attribute(DeviceAttribute::shared_per_block_optin);
    gpu.clock_khz = optional(DeviceAttribute::clock_khz);
    gpu.memory_clock_khz = optional(DeviceAttribute::memory_clock_khz);
    gpu.memory_bus_bits = optional(DeviceAttribute::memory_bus_bits);
    gpus_.push_back(std::move(gpu));
  }
}

void Driver::raise(Result result, std::string_view what, bool planned) const {
  const char *name = nullptr, *text = nullptr;
  if (api_.error_name) api_.error_name(result, &name);
  if (api_.error_text) api_.error_text(result, &text);
  const std::string cause =
      concat(what, ": ", text ? text : "unknown error", " (", name ? std::string(name) : concat("error ", result),
             planned ? ", planned by a test" : "", ")");
  switch (result) {
    case kNoDevice:
      fail(ErrorKind::unsupported, cause, ": the driver sees no GPU; check nvidia-smi, or use --device cpu");
    case kSystemDriverMismatch:
      fail(ErrorKind::unsupported, cause,
           ": the driver's library and its kernel module are of different versions; restart the machine or "
           "reinstall the driver");
    case kNoBinaryForGpu:
    case kInvalidSource:
    case kUnsupportedPtx:
      fail(ErrorKind::unsupported, cause,
           ": the kernels were compiled for another GPU or a newer driver; build the plan again on this machine");
    case kNotFound:
      fail(ErrorKind::bad_file, cause, ": the compiled kernels are not those that the plan names; build it again");
    case kOutOfMemory:
      throw DeviceFull(concat(cause, "; use a smaller batch, or close other programs that use this GPU"));
    default:
      fail(
          ErrorKind::machine, cause,
          "; nothing more can be done on this GPU in this process if that repeats: start again, or use another device");
  }
}

std::shared_ptr<const Gpu> Gpu::open(std::shared_ptr<const Driver> driver, int ordinal, ContextHandle context) {
  const auto count = driver->gpus().size();
  if (ordinal < 0 || size_t(ordinal) >= count)
    fail(ErrorKind::usage, "there is no GPU ", ordinal, "; this machine has ", count,
         count ? concat(": cuda:0 to cuda:", count - 1) : std::string());
  const GpuInfo& info = driver->gpus()[size_t(ordinal)];
  if (const std::string why = info.why_too_old(); !why.empty())
    fail(ErrorKind::unsupported, "GPU ", ordinal, " (", info.name, ") cannot be used: ", why);
  std::shared_ptr<Gpu> gpu(new Gpu(std::move(driver), ordinal));
  const DriverApi& api = gpu->driver_->api();
  DeviceHandle device = 0;
  gpu->driver_->call(Operation::other, "looking at a GPU", api.device_get, &device, ordinal);
  if (context) {
    gpu->context_ = context;
    gpu->make_current();
    DeviceHandle its = 0;
    gpu->driver_->call(Operation::other, "looking at the given context", api.context_get_device, &its);
    if (its != device) fail(ErrorKind::usage, "the given context is of another GPU than cuda:", ordinal);
    return gpu;
  }
  gpu->driver_->call(Operation::other, concat("opening GPU ", ordinal), api.primary_retain, &gpu->context_, device);
  gpu->primary_ = true;
  gpu->make_current();
  return gpu;
}

Gpu::~Gpu() {
  if (!primary_) return;
  DeviceHandle device = 0;
  if (driver_->api().device_get(&device, ordinal_) == 0) driver_->api().primary_release(device);
}

void Gpu::make_current() const {
  driver_->call(Operation::other, "making a GPU current", driver_->api().context_set_current, context_);
}
bool Gpu::try_make_current() const noexcept { return driver_->api().context_set_current(context_) == 0; }

Gpu::Memory Gpu::memory() const {
  make_current();
  size_t free = 0, total = 0;
  driver_->call(Operation::other, "asking for free memory", driver_->api().memory_info, &free, &total);
  return {int64_t(free), int64_t(total)};
}

void Gpu::synchronize() const {
  make_current();
  driver_->call(Operation::other, "waiting for the GPU", driver_->api().context_synchronize);
}

static std::string mib(int64_t bytes) { return concat(ceil_div(bytes, int64_t(1) << 20), " MiB"); }

DeviceMemory::DeviceMemory(const GpuRef& gpu, int64_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  gpu->make_current();
  const Driver& driver = gpu->driver();
  DevicePointer address = 0;
  with_context(
      [&] {
        size_t free = 0, total = 0;
        driver.api().memory_info(&free, &total);
        return concat("GPU ", gpu->info().ordinal, " (", mib(int64_t(free)), " of ", mib(int64_t(total)), " free)");
      },
      [&] {
        driver.call(Operation::allocate, concat("allocating ", mib(bytes)), driver.api().memory_allocate, &address,
                    size_t(bytes));
      });
  owned_ = {gpu, address, driver.api().memory_free};
}

PinnedMemory::PinnedMemory(const GpuRef& gpu, int64_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  gpu->make_current();
  void* address = nullptr;
  gpu->driver().call(Operation::allocate, concat("allocating ", mib(bytes), " of pinned host memory"),
                     gpu->driver().api().host_allocate, &address, size_t(bytes), 0u);
  owned_ = {gpu, address, gpu->driver().api().host_free};
}

Event::Event(const GpuRef& gpu, bool timed) {
  gpu->make_current();
  EventHandle event = nullptr;
  constexpr unsigned kDisableTiming = 2;
  gpu->driver().call(Operation::allocate, "creating an event", gpu->driver().api().event_create, &event,
                     timed ? 0u : kDisableTiming);
  owned_ = {gpu, event, gpu->driver().api().event_destroy};
}
void Event::wait() const {
  const Driver& driver = owned_.gpu()->driver();
  owned_.gpu()->make_current();
  driver.call(Operation::other, "waiting for an event", driver.api().event_synchronize, get());
}
double Event::milliseconds_since(const Event& earlier) const {
  const Driver& driver = owned_.gpu()->driver();
  float milliseconds = 0;
  owned_.gpu()->make_current();
  driver.call(Operation::other, "reading a time", driver.api().event_elapsed, &milliseconds, earlier.get(), get());
  return double(milliseconds);
}

Stream::Stream(const GpuRef& gpu) {
  gpu->make_current();
  StreamHandle stream = nullptr;
  constexpr unsigned kNonBlocking = 1;  // does not wait for the legacy default stream
  gpu->driver().call(Operation::allocate, "creating a stream", gpu->driver().api().stream_create, &stream,
                     kNonBlocking);
  owned_ = {gpu, stream, gpu->driver().api().stream_destroy};
}

// Calls with a stream need its context to be current.
#define TEMPER_IN_STREAM(operation, what, member, ...)              \
  do {                                                              \
    const Driver& driver = gpu()->driver();                         \
    gpu()->make_current();                                          \
    driver.call(operation, what, driver.api().member, __VA_ARGS__); \
  } while (false)

// Puts a node behind the last one of the graph that is being made. `add`: the driver's function for nodes of its kind.
template <class Add, class... Arguments>
void Stream::add_node(std::string_view what, NodeKind kind, Add add, Arguments... arguments) const {
  const Driver& driver = gpu()->driver();
  const DriverApi& api = driver.api();
  Unfinished& to = *unfinished_;
  gpu()->make_current();
  if (!to.nodes) {
    GraphHandle graph = nullptr;
    driver.call(Operation::allocate, "beginning a graph", api.graph_create, &graph, 0u);
    to.nodes = {gpu(), graph, api.graph_destroy};
  }
  // As a launch into a stream: a kernel that overlaps waits for other work as every node does.
  const bool by_edge = kind.overlap && to.last_is_kernel && api.graph_add_edges;
  GraphNodeHandle node = nullptr;
  const GraphNodeHandle* const before = &to.last;
  driver.call(Operation::launch, what, add, &node, to.nodes.get(), before, size_t(to.last && !by_edge ? 1 : 0),
              arguments...);
  if (by_edge) {
    const GraphEdge edge{GraphEdge::kProgrammatic, 0, GraphEdge::kProgrammatic, {}};
    const GraphNodeHandle* const added = &node;
    driver.call(Operation::launch, what, api.graph_add_edges, to.nodes.get(), before, added, &edge, size_t(1));
  }
  to.last = node;
  to.last_is_kernel = kind.is_kernel;
}

static CopyNode::Place on_host(const void* at) { return {.kind = CopyNode::kHost, .host = at}; }
static CopyNode::Place on_device(DevicePointer at) { return {.kind = CopyNode::kDevice, .device = at}; }

void Stream::copy_to_device(DevicePointer to, const void* from, int64_t bytes) const {
  constexpr std::string_view kWhat = "copying to the GPU";
  if (bytes == 0) return;
  if (!unfinished_) TEMPER_IN_STREAM(Operation::launch, kWhat, copy_to_device, to, from, size_t(bytes), get());
  else add_copy(kWhat, on_host(from), on_device(to), bytes);
}
void Stream::copy_to_host(void* to, DevicePointer from, int64_t bytes) const {
  constexpr std::string_view kWhat = "copying from the GPU";
  if (bytes == 0) return;
  if (!unfinished_) TEMPER_IN_STREAM(Operation::launch, kWhat, copy_to_host, to, from, size_t(bytes), get());
  else add_copy(kWhat, on_device(from), on_host(to), bytes);
}
void Stream::copy_on_device(DevicePointer to, DevicePointer from, int64_t bytes) const {
  constexpr std::string_view kWhat = "copying on the GPU";
  if (bytes == 0) return;
  if (!unfinished_) TEMPER_IN_STREAM(Operation::launch, kWhat, copy_on_device, to, from, size_t(bytes), get());
  else add_copy(kWhat, on_device(from), on_device(to), bytes);
}
void Stream::add_copy(std::string_view what, const CopyNode::Place& from, const CopyNode::Place& to,
                      int64_t bytes) const {
  const CopyNode copy{from, to, size_t(bytes), 1, 1};
  add_node(what, {}, gpu()->driver().api().graph_add_copy, &copy, gpu()->context());
}
void Stream::fill(DevicePointer to, uint8_t value, int64_t bytes) const {
  constexpr std::string_view kWhat = "filling memory";
  if (bytes == 0) return;
  if (!unfinished_) {
    TEMPER_IN_STREAM(Operation::launch, kWhat, fill, to, value, size_t(bytes), get());
  } else {
    const FillNode node{to, 0, value, 1, size_t(bytes), 1};
    add_node(kWhat, {}, gpu()->driver().api().graph_add_fill, &node, gpu()->context());
  }
}
void Stream::record(const Event& event) const {
  if (unfinished_ && unfinished_->nodes)
    return add_node("recording an event", {}, gpu()->driver().api().graph_add_event, event.get());
  // Behind a library's call it is one of those calls: a graph of its own would start later.
  put_in([this, event = event.get()](StreamHandle stream) {
    gpu()->driver().call(Operation::other, "recording an event", gpu()->driver().api().event_record, event, stream);
  });
}
void Stream::call_host(void (*function)(void*), void* argument) const {
  constexpr std::string_view kWhat = "calling the host";
  if (!unfinished_) {
    TEMPER_IN_STREAM(Operation::launch, kWhat, launch_host, get(), function, argument);
  } else {
    const HostNode node{function, argument};
    add_node(kWhat, {}, gpu()->driver().api().graph_add_host, &node);
  }
}
void Stream::wait(const Event& event) const {
  TEMPER_IN_STREAM(Operation::other, "waiting for another stream", stream_wait_event, get(), event.get(), 0u);
}
void Stream::record_in(StreamHandle other, const Event& event) const {
  TEMPER_IN_STREAM(Operation::other, "recording an event in the given stream", event_record, event.get(), other);
}
void Stream::let_wait(StreamHandle other, const Event& event) const {
  TEMPER_IN_STREAM(Operation::other, "letting the given stream wait", stream_wait_event, other, event.get(), 0u);
}
bool Stream::is_captured(StreamHandle other) const {
  int status = 0;
  TEMPER_IN_STREAM(Operation::other, "looking at the given stream", stream_is_capturing, other, &status);
  return status != 0;
}
void Stream::synchronize() const {
  TEMPER_IN_STREAM(Operation::other, "waiting for the GPU", stream_synchronize, get());
}

void Stream::put_in(Graph::Calls calls) const {
  if (unfinished_) {
    end_piece(*unfinished_);
    unfinished_->graph.pieces_.push_back({{}, std::move(calls)});
  } else {
    gpu()->make_current();
    calls(get());
  }
}

void Stream::begin_graph() const { unfinished_ = std::make_unique<Unfinished>(); }

Graph Stream::end_graph() const {
  const std::unique_ptr<Unfinished> ended = std::move(unfinished_);
  end_piece(*ended);
  return std::move(ended->graph);
}

void Stream::end_piece(Unfinished& of) const {
  if (!of.nodes) return;
  GraphExecHandle exec = nullptr;
  TEMPER_IN_STREAM(Operation::allocate, "making a graph ready", graph_instantiate, &exec, of.nodes.get(), 0ull);
  of.graph.pieces_.push_back({{gpu(), exec, gpu()->driver().api().graph_exec_destroy}, {}});
  of.nodes = {};
  of.last = nullptr;
  of.last_is_kernel = false;
}

void Stream::launch(const Graph& graph) const {
  gpu()->make_current();
  for (const Graph::Piece& piece : graph.pieces_)
    if (piece.nodes)
      gpu()->driver().call(Operation::launch, "running a graph", gpu()->driver().api().graph_launch, piece.nodes.get(),
                           get());
    else piece.calls(get());
}
#undef TEMPER_IN_STREAM

Module::Module(const GpuRef& gpu, std::span<const std::byte> cubin) {
  gpu->make_current();
  ModuleHandle module = nullptr;
  gpu->driver().call(Operation::allocate, "loading kernels", gpu->driver().api().module_load, &module,
                     static_cast<const void*>(cubin.data()));
  owned_ = {gpu, module, gpu->driver().api().module_unload};
}

std::shared_ptr<const Module> Gpu::module(std::span<const std::byte> cubin) const {
  return modules_.get(cubin, [&] { return std::make_shared<const Module>(shared_from_this(), cubin); });
}

Function Module::function(const std::string& name) const {
  const Driver& driver = owned_.gpu()->driver();
  FunctionHandle handle = nullptr;
  owned_.gpu()->make_current();
  driver.call(Operation::other, concat("finding the kernel ", name), driver.api().module_function, &handle,
              owned_.get(), name.c_str());
  return Function(owned_.gpu(), handle, name);
}

int Function::attribute(FunctionAttribute which) const {
  int value = 0;
  gpu_->make_current();
  gpu_->driver().call(Operation::other, concat("asking about the kernel ", name_),
                      gpu_->driver().api().function_attribute, &value, which, handle_);
  return value;
}

void Function::allow_shared(int64_t bytes) const {
  static std::mutex mutex;  // who shares the function may ask for more meanwhile, and keeps it
  const std::lock_guard lock(mutex);
  if (attribute(FunctionAttribute::max_dynamic_shared) >= bytes) return;
  gpu_->driver().call(Operation::other, concat("giving the kernel ", name_, ' ', bytes, " bytes of shared memory"),
                      gpu_->driver().api().function_set_attribute, handle_, FunctionAttribute::max_dynamic_shared,
                      int(bytes));
}

TensorMap make_tensor_map(const Gpu& gpu, const TensorMapSpec& spec, DevicePointer address) {
  const DriverApi& api = gpu.driver().api();
  if (!api.tensor_map_tiled || !api.tensor_map_im2col)
    fail(ErrorKind::unsupported, "the driver has no tensor maps; update it to 12.0 or later");
  // Values of CUtensorMapDataType, CUtensorMapSwizzle and CUtensorMapL2promotion; what lies outside reads as zeros.
  constexpr int kTfloat32 = 11;
  const int dtype = spec.tf32 ? kTfloat32 : spec.element_bytes == 1 ? 0 : spec.element_bytes == 2 ? 1 : 2;
  const int swizzle = spec.swizzle == 128 ? 3 : spec.swizzle == 64 ? 2 : spec.swizzle == 32 ? 1 : 0;
  constexpr int kNoInterleave = 0, kPromoteTo256 = 3, kZeros = 0;
  const uint32_t rank = uint32_t(spec.sizes.size());
  void* at = reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr): the GPU's
  TensorMap map;
  if (spec.pixels == 0)
    gpu.driver().call(Operation::other, "describing a matrix", api.tensor_map_tiled, map.bytes, dtype, rank, at,
                      spec.sizes.data(), spec.strides.data(), spec.box.data(), spec.steps.data(), kNoInterleave,
                      swizzle, kPromoteTo256, kZeros);
  else
    gpu.driver().call(Operation::other, "describing images", api.tensor_map_im2col, map.bytes, dtype, rank, at,
                      spec.sizes.data(), spec.strides.data(), spec.low.data(), spec.high.data(), spec.channels,
                      spec.pixels, spec.steps.data(), kNoInterleave, swizzle, kPromoteTo256, kZeros);
  return map;
}

void Function::launch(const Stream& stream, const LaunchShape& shape, std::span<void* const> arguments,
                      bool overlap) const {
  const Driver& driver = gpu_->driver();
  void** parameters = const_cast<void**>(arguments.data());
  const std::string_view what = name_;
  const auto& [gx, gy, gz] = shape.grid;
  const auto& [bx, by, bz] = shape.block;
  if (stream.unfinished_) {
    const KernelNode node{handle_, {gx, gy, gz}, {bx, by, bz}, shape.shared_bytes, parameters, nullptr};
    return stream.add_node(what, {true, overlap}, driver.api().graph_add_kernel, &node);
  }
  gpu_->make_current();
  if (overlap && driver.api().launch_kernel_ex) {
    LaunchAttribute attribute{kProgrammaticStreamSerialization, 0, {}};
    attribute.value.number = 1;
    const LaunchConfig config{{gx, gy, gz}, {bx, by, bz}, shape.shared_bytes, stream.get(), &attribute, 1};
    driver.call(Operation::launch, what, driver.api().launch_kernel_ex, &config, handle_, parameters,
                static_cast<void**>(nullptr));
    return;
  }
  driver.call(Operation::launch, what, driver.api().launch_kernel, handle_, gx, gy, gz, bx, by, bz, shape.shared_bytes,
              stream.get(), parameters, static_cast<void**>(nullptr));
}

}  // namespace temper::cuda
