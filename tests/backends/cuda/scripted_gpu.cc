// SPDX-License-Identifier: Apache-2.0
#include "scripted_gpu.h"

#include <elf.h>

#include <algorithm>
#include <cmath>

namespace temper::testing {

// `./dev test --arch arm64` leaves out by their names the tests that run kernels here, compiled for this processor.
static void check_name_of_test() {
  const ::testing::TestInfo* const test = ::testing::UnitTest::GetInstance()->current_test_info();
  if (!test) return;  // the driver is loaded by the program
  const std::string_view suite = test->test_suite_name();
  for (const char* const word : {"Cuda", "Emulated", "Scripted"})
    if (suite.find(word) != suite.npos) return;
  ADD_FAILURE() << suite << " runs emulated kernels: its name must hold 'Emulated'";
}

cuda::DriverApi ScriptedGpus::api() {
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
      case DeviceAttribute::shared_per_multiprocessor: *value = get().shared_per_block; break;
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
      if (s.full.contains(d)) return kOutOfMemory;
      for (auto& [address, object] : s.objects_)
        if (object.kind == "context" && object.gpu == d) {
          ++object.retained;
          return *c = static_cast<ContextHandle>(const_cast<void*>(address)), 0;
        }
      return s.make(c, {.kind = "context", .gpu = d, .retained = 1});
    });
  };
  a.primary_release = [](DeviceHandle d) {
    return locked([&](S& s) {
      const Result lost = s.begin(d);
      for (auto it = s.objects_.begin(); it != s.objects_.end(); ++it)
        if (it->second.kind == "context" && it->second.gpu == d) {
          if (!lost && --it->second.retained == 0) s.objects_.erase(it);
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
  a.context_synchronize = [] {
    return locked([](S& s) -> Result {
      if (const Result lost = s.begin()) return lost;
      for (const auto& [address, object] : s.objects_)
        if (object.kind == "stream" && object.gpu == current() && object.capturing) return kCaptureUnsupported;
      return 0;
    });
  };
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
    return locked([&](S& s) {
      s.bytes_to_device += int64_t(n);
      return s.copy(device, from, n, device, stream);
    });
  };
  a.copy_to_host = [](void* to, DevicePointer from, size_t n, StreamHandle stream) {
    const void* device = reinterpret_cast<const void*>(from);
    return locked([&](S& s) {
      s.bytes_to_host += int64_t(n);
      return s.copy(to, device, n, device, stream);
    });
  };
  a.copy_on_device = [](DevicePointer to, DevicePointer from, size_t n, StreamHandle stream) {
    void* device = reinterpret_cast<void*>(to);
    return locked([&](S& s) {
      ++s.copies_on_device;
      return s.copy(device, reinterpret_cast<const void*>(from), n, device, stream);
    });
  };
  a.fill = [](DevicePointer to, unsigned char value, size_t n, StreamHandle stream) {
    return locked([&](S& s) { return s.put_in(stream, s.filling(to, value, n)); });
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
  a.stream_wait_event = [](StreamHandle stream, EventHandle event, unsigned) {
    return locked([&](S& s) { return s.wait_in(stream, event); });
  };
  a.stream_is_capturing = [](StreamHandle handle, int* status) {
    return locked([&](S& s) -> Result {
      if (const Result lost = s.begin()) return lost;
      const Object* stream = s.find(handle, "stream");
      if (!stream) return kInvalidHandle;
      return *status = stream->capturing || stream->joins, 0;
    });
  };
  a.context_get_device = [](DeviceHandle* d) {
    return locked([&](S& s) -> Result {
      if (const Result lost = s.begin()) return lost;
      return *d = current(), 0;
    });
  };
  a.graph_create = [](GraphHandle* graph, unsigned) {
    return locked([&](S& s) -> Result {
      if (const Result lost = s.begin()) return lost;
      ++s.graphs_recorded;
      return s.make(graph, {"graph", current()});
    });
  };
  a.graph_add_kernel = [](GraphNodeHandle* node, GraphHandle graph, const GraphNodeHandle* before, size_t n,
                          const KernelNode* k) {
    const auto& [gx, gy, gz] = k->grid;
    const auto& [bx, by, bz] = k->block;
    const LaunchConfig config{{gx, gy, gz}, {bx, by, bz}, k->shared_bytes, nullptr, nullptr, 0};
    return locked([&](S& s) { return s.add(node, graph, before, n, s.run_of(k->function, config, k->parameters)); });
  };
  a.graph_add_fill = [](GraphNodeHandle* node, GraphHandle graph, const GraphNodeHandle* before, size_t n,
                        const FillNode* f, ContextHandle) {
    return locked([&](S& s) -> Result {
      if (f->element_bytes != 1 || f->height != 1) return s.misuse("a fill of another kind", kInvalidValue);
      return s.add(node, graph, before, n, s.filling(f->to, f->value, f->width));
    });
  };
  a.graph_add_copy = [](GraphNodeHandle* node, GraphHandle graph, const GraphNodeHandle* before, size_t n,
                        const CopyNode* c, ContextHandle) {
    return locked([&](S& s) -> Result {
      if (c->height != 1 || c->depth != 1) return s.misuse("a copy of another kind", kInvalidValue);
      const auto at = [](const CopyNode::Place& place) {
        return place.kind == CopyNode::kDevice ? reinterpret_cast<void*>(place.device) : const_cast<void*>(place.host);
      };
      const bool to_device = c->to.kind == CopyNode::kDevice;
      if (to_device && c->from.kind == CopyNode::kDevice) ++s.copies_on_device;
      return s.add(node, graph, before, n,
                   s.copying(at(c->to), at(c->from), c->width_bytes, to_device ? at(c->to) : at(c->from)));
    });
  };
  a.graph_add_host = [](GraphNodeHandle* node, GraphHandle graph, const GraphNodeHandle* before, size_t n,
                        const HostNode* host) {
    return locked([&](S& s) {
      return s.add(node, graph, before, n, [h = *host]() -> Result { return h.function(h.argument), 0; });
    });
  };
  a.graph_add_event = [](GraphNodeHandle* node, GraphHandle graph, const GraphNodeHandle* before, size_t n,
                         EventHandle event) {
    return locked([&](S& s) { return s.add(node, graph, before, n, s.happening(event)); });
  };
  a.graph_add_edges = [](GraphHandle handle, const GraphNodeHandle* from, const GraphNodeHandle* to,
                         const GraphEdge* edge, size_t n) {
    return locked([&](S& s) -> Result {
      if (const Result lost = s.begin()) return lost;
      Object* graph = s.find(handle, "graph");
      if (!graph || n != 1 || *to != node_of(*graph) ||
          reinterpret_cast<uintptr_t>(*from) + 1 != graph->actions.size() || graph->waits.back() ||
          edge->type != GraphEdge::kProgrammatic || edge->from_port != edge->type)
        return s.misuse("an edge that is none of a chain", kInvalidValue);
      graph->waits.back() = true;
      return 0;
    });
  };
  a.graph_instantiate = [](GraphExecHandle* exec, GraphHandle graph, unsigned long long) {
    return locked([&](S& s) -> Result {
      if (const Result lost = s.begin()) return lost;
      const Object* from = s.find(graph, "graph");
      if (!from) return kInvalidHandle;
      if (std::ranges::find(from->waits, false) != from->waits.end())
        return s.misuse("a node that waits for nothing", kInvalidValue);
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
      if (module.library) {
        check_name_of_test();
      } else {
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

cuda::Result ScriptedGpus::begin_capture(cuda::StreamHandle handle) {
  using S = ScriptedGpus;
  return locked([&](S& s) -> Result {
    if (const Result lost = s.begin()) return lost;
    Object* stream = s.find(handle, "stream");
    if (!stream) return kInvalidHandle;
    if (stream->capturing) return s.misuse("recording twice at a time", kCaptureUnsupported);
    capturing_thread() = &current();
    return stream->capturing = true, 0;
  });
}

cuda::Result ScriptedGpus::end_capture(cuda::StreamHandle handle, cuda::GraphHandle* graph) {
  using S = ScriptedGpus;
  return locked([&](S& s) -> Result {
    if (const Result lost = s.begin()) return lost;
    Object* stream = s.find(handle, "stream");
    if (!stream) return kInvalidHandle;
    if (!stream->capturing) return s.misuse("ending what was not begun", kCaptureUnsupported);
    stream->capturing = false;
    if (const Result unjoined = s.leave(handle)) return unjoined;
    ++s.graphs_recorded;
    Object made{"graph", current()};
    made.actions.swap(stream->actions);
    return s.make(graph, std::move(made));
  });
}

}  // namespace temper::testing
