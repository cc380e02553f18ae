// SPDX-License-Identifier: Apache-2.0
// The backend "temper" of Triton: the functions that the server calls. It is a client of the public C API and knows
// nothing else of Temper.
#include <malloc.h>

#include "triton/instance.h"

using namespace temper::triton;

namespace {

constexpr uint32_t kMajor = 1, kLeastMinor = 16;  // RequestIsCancelled came with 16

void to_server_log(temper_log_level level, const char* message, void*) {
  log(level == TEMPER_WARNING ? TRITONSERVER_LOG_WARN
      : level == TEMPER_INFO  ? TRITONSERVER_LOG_INFO
                              : TRITONSERVER_LOG_VERBOSE,
      message);
}

template <class T, class Get>
T& state_of(Get&& get) {
  void* state = nullptr;
  check(get(&state));
  if (!state) refuse("the server has lost the backend's state", TRITONSERVER_ERROR_INTERNAL);
  return *static_cast<T*>(state);
}

}  // namespace

extern "C" {

TRITONSERVER_Error* TRITONBACKEND_Initialize(TRITONBACKEND_Backend* backend) {
  return guarded([&] {
    uint32_t major = 0, minor = 0;
    check(TRITONBACKEND_ApiVersion(&major, &minor));
    if (major != kMajor || minor < kLeastMinor)
      refuse("the server's backend API is " + std::to_string(major) + "." + std::to_string(minor) +
                 "; Temper's backend needs 1.16 or a later 1, which Triton has since its release 23.10",
             TRITONSERVER_ERROR_UNSUPPORTED);
    temper_set_log_callback(to_server_log, nullptr);
    auto families = std::make_unique<MetricFamilies>();
    check(TRITONBACKEND_BackendSetState(backend, families.get()));
    static_cast<void>(families.release());  // the server keeps it
  });
}

TRITONSERVER_Error* TRITONBACKEND_Finalize(TRITONBACKEND_Backend* backend) {
  return guarded([&] {
    temper_set_log_callback(nullptr, nullptr);
    delete &state_of<MetricFamilies>([&](void** state) { return TRITONBACKEND_BackendState(backend, state); });
  });
}

// Where nobody says it, the plan says where it runs, once.
TRITONSERVER_Error* TRITONBACKEND_GetBackendAttribute(TRITONBACKEND_Backend* backend,
                                                      TRITONBACKEND_BackendAttribute* attributes) {
  return guarded([&] {
    check(TRITONBACKEND_BackendAttributeAddPreferredInstanceGroup(attributes, TRITONSERVER_INSTANCEGROUPKIND_MODEL, 1,
                                                                  nullptr, 0));
    check(TRITONBACKEND_BackendAttributeSetParallelModelInstanceLoading(attributes, true));
  });
}

TRITONSERVER_Error* TRITONBACKEND_ModelInitialize(TRITONBACKEND_Model* handle) {
  return guarded([&] {
    TRITONBACKEND_Backend* backend = nullptr;
    check(TRITONBACKEND_ModelBackend(handle, &backend));
    const auto& families =
        state_of<MetricFamilies>([&](void** state) { return TRITONBACKEND_BackendState(backend, state); });
    auto model = std::make_unique<Model>(handle, families);
    check(TRITONBACKEND_ModelSetState(handle, model.get()));
    static_cast<void>(model.release());
  });
}

TRITONSERVER_Error* TRITONBACKEND_ModelFinalize(TRITONBACKEND_Model* handle) {
  return guarded([&] {
    void* state = nullptr;
    check(TRITONBACKEND_ModelState(handle, &state));
    delete static_cast<Model*>(state);  // null where its initialisation failed
    malloc_trim(0);                     // what a model took goes back to the machine, not to the next one alone
  });
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceInitialize(TRITONBACKEND_ModelInstance* handle) {
  return guarded([&] {
    TRITONBACKEND_Model* model = nullptr;
    check(TRITONBACKEND_ModelInstanceModel(handle, &model));
    auto instance = std::make_unique<Instance>(
        state_of<Model>([&](void** state) { return TRITONBACKEND_ModelState(model, state); }), handle);
    check(TRITONBACKEND_ModelInstanceSetState(handle, instance.get()));
    static_cast<void>(instance.release());
  });
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceFinalize(TRITONBACKEND_ModelInstance* handle) {
  return guarded([&] {
    void* state = nullptr;
    check(TRITONBACKEND_ModelInstanceState(handle, &state));
    delete static_cast<Instance*>(state);
  });
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceExecute(TRITONBACKEND_ModelInstance* handle,
                                                       TRITONBACKEND_Request** requests, uint32_t count) {
  return guarded([&] {
    state_of<Instance>([&](void** state) {
      return TRITONBACKEND_ModelInstanceState(handle, state);
    }).execute(requests, count);
  });
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceReady(TRITONBACKEND_ModelInstance* handle) {
  return guarded(
      [&] { state_of<Instance>([&](void** state) { return TRITONBACKEND_ModelInstanceState(handle, state); }); });
}

}  // extern "C"
