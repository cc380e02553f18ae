// SPDX-License-Identifier: Apache-2.0
#include "scripted_server.h"

#include <cstring>

using temper::testing::Answered;
using temper::testing::ScriptedServer;
using temper::testing::SentInput;

struct TRITONSERVER_Error {
  TRITONSERVER_Error_Code code;
  std::string text;
};
struct TRITONSERVER_Message {
  std::string json;
};
struct TRITONSERVER_Parameter {
  std::string name, value;
};
struct TRITONSERVER_MetricFamily {
  std::string name;
};
struct TRITONSERVER_Metric {
  std::string name;
};
struct TRITONBACKEND_BackendAttribute {
  std::vector<TRITONSERVER_InstanceGroupKind> kinds;
  bool parallel = false;
};
struct TRITONBACKEND_Backend {
  void* state = nullptr;
};
struct TRITONBACKEND_Model {
  std::string name, folder, config;
  TRITONBACKEND_Backend* backend = nullptr;
  void* state = nullptr;
};
struct TRITONBACKEND_ModelInstance {
  TRITONBACKEND_Model* model = nullptr;
  TRITONSERVER_InstanceGroupKind kind = TRITONSERVER_INSTANCEGROUPKIND_MODEL;
  int32_t device = 0;
  void* state = nullptr;
};
struct TRITONBACKEND_Input {
  std::string name;
  SentInput* sent;
};
struct TRITONBACKEND_Output {
  TRITONBACKEND_Request* request;
  std::string name;
  Answered answered;
};
struct TRITONBACKEND_State {
  TRITONBACKEND_Request* request;
  std::string name;
  Answered answered;
};
struct TRITONBACKEND_Response {
  TRITONBACKEND_Request* request;
  std::vector<std::unique_ptr<TRITONBACKEND_Output>> outputs;
  std::map<std::string, int64_t> parameters;
};

namespace {

ScriptedServer& server() { return ScriptedServer::get(); }
std::mutex mutex;

// Views that live as long as their request does.
std::map<TRITONBACKEND_Request*, std::vector<std::unique_ptr<TRITONBACKEND_Input>>> inputs_of;
std::map<TRITONBACKEND_Request*, std::vector<std::unique_ptr<TRITONBACKEND_State>>> states_by_request;

void count(const char* kind, int by) {
  const std::lock_guard lock(mutex);
  if ((server().alive[kind] += by) < 0) server().misuses.push_back(std::string(kind) + " was deleted twice");
  if (server().alive[kind] == 0) server().alive.erase(kind);
}

TRITONSERVER_Error* error_of(TRITONSERVER_Error_Code code, const std::string& text) {
  count("errors", 1);
  return new TRITONSERVER_Error{code, text};
}

// An answer of the call, unless it is the one to fail.
template <class Body>
TRITONSERVER_Error* call(const char* name, Body&& body) {
  if (server().fails(name)) return error_of(TRITONSERVER_ERROR_INTERNAL, std::string("scripted: ") + name);
  body();
  return nullptr;
}

void expect_unreleased(TRITONBACKEND_Request* request) {
  if (request->answer.released) server().misuses.push_back("a request was used after its release");
}

}  // namespace

namespace temper::testing {

ScriptedServer& ScriptedServer::get() {
  static ScriptedServer one;
  return one;
}

void ScriptedServer::reset() {
  *this = ScriptedServer();
  inputs_of.clear();
  states_by_request.clear();
}

bool ScriptedServer::fails(const char* name) {
  const std::lock_guard lock(mutex);
  if (++calls != fails_at) return false;
  failed_call = name;
  return true;
}

struct ScriptedModel::Parts {
  TRITONBACKEND_Backend backend;
  TRITONBACKEND_BackendAttribute attribute;
  TRITONBACKEND_Model model;
  TRITONBACKEND_ModelInstance instance;
  bool backend_is_there = false, model_is_there = false, instance_is_there = false;

  // What is said of the error, which goes.
  static std::string gone(TRITONSERVER_Error* error) {
    if (!error) return "";
    const std::string text = error->text;
    TRITONSERVER_ErrorDelete(error);
    return text.empty() ? "an error without a text" : text;
  }
};

ScriptedModel::ScriptedModel(std::string name, std::string folder, std::string config)
    : parts_(std::make_unique<Parts>()) {
  parts_->model.name = std::move(name);
  parts_->model.folder = std::move(folder);
  parts_->model.config = std::move(config);
  parts_->model.backend = &parts_->backend;
  parts_->instance.model = &parts_->model;
}

std::string ScriptedModel::load(TRITONSERVER_InstanceGroupKind kind, int32_t device) {
  Parts& its = *parts_;
  its.instance.kind = kind;
  its.instance.device = device;
  std::string error = Parts::gone(TRITONBACKEND_Initialize(&its.backend));
  its.backend_is_there = error.empty();
  if (error.empty()) error = Parts::gone(TRITONBACKEND_GetBackendAttribute(&its.backend, &its.attribute));
  if (error.empty()) {
    error = Parts::gone(TRITONBACKEND_ModelInitialize(&its.model));
    its.model_is_there = true;  // the server finalizes it also where that failed
  }
  if (error.empty()) {
    error = Parts::gone(TRITONBACKEND_ModelInstanceInitialize(&its.instance));
    its.instance_is_there = true;
  }
  return error;
}

ScriptedModel::~ScriptedModel() {
  Parts& its = *parts_;
  server().fails_at = 0;  // an end that fails leaves what it is the server's to keep
  if (its.instance_is_there) Parts::gone(TRITONBACKEND_ModelInstanceFinalize(&its.instance));
  if (its.model_is_there) Parts::gone(TRITONBACKEND_ModelFinalize(&its.model));
  if (its.backend_is_there) Parts::gone(TRITONBACKEND_Finalize(&its.backend));
}

std::string ScriptedModel::execute(const std::vector<TRITONBACKEND_Request*>& requests) {
  std::vector<TRITONBACKEND_Request*> list = requests;
  return Parts::gone(TRITONBACKEND_ModelInstanceExecute(&parts_->instance, list.data(), uint32_t(list.size())));
}

std::string ScriptedModel::config() const { return parts_->model.config; }

bool ScriptedModel::ready() const { return Parts::gone(TRITONBACKEND_ModelInstanceReady(&parts_->instance)).empty(); }

}  // namespace temper::testing

extern "C" {

TRITONSERVER_Error* TRITONSERVER_ErrorNew(TRITONSERVER_Error_Code code, const char* message) {
  return error_of(code, message);
}
void TRITONSERVER_ErrorDelete(TRITONSERVER_Error* error) {
  count("errors", -1);
  delete error;
}
TRITONSERVER_Error_Code TRITONSERVER_ErrorCode(TRITONSERVER_Error* error) { return error->code; }
const char* TRITONSERVER_ErrorMessage(TRITONSERVER_Error* error) { return error->text.c_str(); }
bool TRITONSERVER_LogIsEnabled(TRITONSERVER_LogLevel) { return true; }
TRITONSERVER_Error* TRITONSERVER_LogMessage(TRITONSERVER_LogLevel, const char*, int, const char* text) {
  return call("LogMessage", [&] {
    const std::lock_guard lock(mutex);
    server().lines.emplace_back(text);
  });
}
TRITONSERVER_Error* TRITONSERVER_MessageNewFromSerializedJson(TRITONSERVER_Message** message, const char* json,
                                                              size_t bytes) {
  return call("MessageNewFromSerializedJson", [&] {
    *message = new TRITONSERVER_Message{{json, bytes}};
    count("messages", 1);
  });
}
TRITONSERVER_Error* TRITONSERVER_MessageSerializeToJson(TRITONSERVER_Message* message, const char** json,
                                                        size_t* bytes) {
  return call("MessageSerializeToJson", [&] {
    *json = message->json.data();
    *bytes = message->json.size();
  });
}
TRITONSERVER_Error* TRITONSERVER_MessageDelete(TRITONSERVER_Message* message) {
  count("messages", -1);
  delete message;
  return nullptr;
}
TRITONSERVER_Parameter* TRITONSERVER_ParameterNew(const char* name, TRITONSERVER_ParameterType, const void* value) {
  if (server().fails("ParameterNew")) return nullptr;
  count("parameters", 1);
  return new TRITONSERVER_Parameter{name, static_cast<const char*>(value)};
}
void TRITONSERVER_ParameterDelete(TRITONSERVER_Parameter* parameter) {
  count("parameters", -1);
  delete parameter;
}
TRITONSERVER_Error* TRITONSERVER_MetricFamilyNew(TRITONSERVER_MetricFamily** family, TRITONSERVER_MetricKind,
                                                 const char* name, const char*) {
  return call("MetricFamilyNew", [&] {
    *family = new TRITONSERVER_MetricFamily{name};
    count("metric families", 1);
  });
}
TRITONSERVER_Error* TRITONSERVER_MetricFamilyDelete(TRITONSERVER_MetricFamily* family) {
  if (server().alive.count("metrics")) server().misuses.emplace_back("a family of metrics went before its metrics");
  count("metric families", -1);
  delete family;
  return nullptr;
}
TRITONSERVER_Error* TRITONSERVER_MetricNew(TRITONSERVER_Metric** metric, TRITONSERVER_MetricFamily* family,
                                           const TRITONSERVER_Parameter** labels, uint64_t label_count) {
  return call("MetricNew", [&] {
    std::string name = family->name + "{";
    for (uint64_t i = 0; i < label_count; ++i) name += (i ? "," : "") + labels[i]->name + "=" + labels[i]->value;
    *metric = new TRITONSERVER_Metric{name + "}"};
    count("metrics", 1);
  });
}
TRITONSERVER_Error* TRITONSERVER_MetricDelete(TRITONSERVER_Metric* metric) {
  count("metrics", -1);
  delete metric;
  return nullptr;
}
TRITONSERVER_Error* TRITONSERVER_MetricIncrement(TRITONSERVER_Metric* metric, double value) {
  return call("MetricIncrement", [&] {
    const std::lock_guard lock(mutex);
    server().metrics[metric->name] += value;
  });
}

TRITONSERVER_Error* TRITONBACKEND_ApiVersion(uint32_t* major, uint32_t* minor) {
  return call("ApiVersion", [&] {
    *major = server().major;
    *minor = server().minor;
  });
}
TRITONSERVER_Error* TRITONBACKEND_BackendSetState(TRITONBACKEND_Backend* backend, void* state) {
  return call("BackendSetState", [&] { backend->state = state; });
}
TRITONSERVER_Error* TRITONBACKEND_BackendState(TRITONBACKEND_Backend* backend, void** state) {
  return call("BackendState", [&] { *state = backend->state; });
}
TRITONSERVER_Error* TRITONBACKEND_BackendAttributeAddPreferredInstanceGroup(TRITONBACKEND_BackendAttribute* attributes,
                                                                            TRITONSERVER_InstanceGroupKind kind,
                                                                            uint64_t, const uint64_t*, uint64_t) {
  return call("BackendAttributeAddPreferredInstanceGroup", [&] { attributes->kinds.push_back(kind); });
}
TRITONSERVER_Error* TRITONBACKEND_BackendAttributeSetParallelModelInstanceLoading(
    TRITONBACKEND_BackendAttribute* attributes, bool enabled) {
  return call("BackendAttributeSetParallelModelInstanceLoading", [&] { attributes->parallel = enabled; });
}
TRITONSERVER_Error* TRITONBACKEND_ModelName(TRITONBACKEND_Model* model, const char** name) {
  return call("ModelName", [&] { *name = model->name.c_str(); });
}
TRITONSERVER_Error* TRITONBACKEND_ModelVersion(TRITONBACKEND_Model*, uint64_t* version) {
  return call("ModelVersion", [&] { *version = 1; });
}
TRITONSERVER_Error* TRITONBACKEND_ModelRepository(TRITONBACKEND_Model* model, TRITONBACKEND_ArtifactType* type,
                                                  const char** location) {
  return call("ModelRepository", [&] {
    *type = TRITONBACKEND_ARTIFACT_FILESYSTEM;
    *location = model->folder.c_str();
  });
}
TRITONSERVER_Error* TRITONBACKEND_ModelConfig(TRITONBACKEND_Model* model, uint32_t, TRITONSERVER_Message** config) {
  return call("ModelConfig", [&] {
    *config = new TRITONSERVER_Message{model->config};
    count("messages", 1);
  });
}
TRITONSERVER_Error* TRITONBACKEND_ModelAutoCompleteConfig(TRITONBACKEND_Model*, bool* complete) {
  return call("ModelAutoCompleteConfig", [&] { *complete = server().auto_complete; });
}
TRITONSERVER_Error* TRITONBACKEND_ModelSetConfig(TRITONBACKEND_Model* model, uint32_t, TRITONSERVER_Message* config) {
  return call("ModelSetConfig", [&] { model->config = config->json; });
}
TRITONSERVER_Error* TRITONBACKEND_ModelBackend(TRITONBACKEND_Model* model, TRITONBACKEND_Backend** backend) {
  return call("ModelBackend", [&] { *backend = model->backend; });
}
TRITONSERVER_Error* TRITONBACKEND_ModelState(TRITONBACKEND_Model* model, void** state) {
  return call("ModelState", [&] { *state = model->state; });
}
TRITONSERVER_Error* TRITONBACKEND_ModelSetState(TRITONBACKEND_Model* model, void* state) {
  return call("ModelSetState", [&] { model->state = state; });
}
TRITONSERVER_Error* TRITONBACKEND_ModelInstanceKind(TRITONBACKEND_ModelInstance* instance,
                                                    TRITONSERVER_InstanceGroupKind* kind) {
  return call("ModelInstanceKind", [&] { *kind = instance->kind; });
}
TRITONSERVER_Error* TRITONBACKEND_ModelInstanceDeviceId(TRITONBACKEND_ModelInstance* instance, int32_t* device) {
  return call("ModelInstanceDeviceId", [&] { *device = instance->device; });
}
TRITONSERVER_Error* TRITONBACKEND_ModelInstanceModel(TRITONBACKEND_ModelInstance* instance,
                                                     TRITONBACKEND_Model** model) {
  return call("ModelInstanceModel", [&] { *model = instance->model; });
}
TRITONSERVER_Error* TRITONBACKEND_ModelInstanceState(TRITONBACKEND_ModelInstance* instance, void** state) {
  return call("ModelInstanceState", [&] { *state = instance->state; });
}
TRITONSERVER_Error* TRITONBACKEND_ModelInstanceSetState(TRITONBACKEND_ModelInstance* instance, void* state) {
  return call("ModelInstanceSetState", [&] { instance->state = state; });
}
TRITONSERVER_Error* TRITONBACKEND_ModelInstanceReportStatistics(TRITONBACKEND_ModelInstance*,
                                                                TRITONBACKEND_Request* request, bool success,
                                                                uint64_t exec_start, uint64_t compute_start,
                                                                uint64_t compute_end, uint64_t exec_end) {
  expect_unreleased(request);
  if (!exec_start || exec_start > compute_start || compute_start > compute_end || compute_end > exec_end)
    server().misuses.emplace_back("times of a request are not in their order");
  return call("ModelInstanceReportStatistics", [&] {
    ++request->answer.statistics;
    request->answer.success = success;
  });
}
TRITONSERVER_Error* TRITONBACKEND_ModelInstanceReportBatchStatistics(TRITONBACKEND_ModelInstance*, uint64_t batch,
                                                                     uint64_t exec_start, uint64_t compute_start,
                                                                     uint64_t compute_end, uint64_t exec_end) {
  if (!exec_start || exec_start > compute_start || compute_start > compute_end || compute_end > exec_end)
    server().misuses.emplace_back("times of a batch are not in their order");
  return call("ModelInstanceReportBatchStatistics", [&] { server().batches.push_back(batch); });
}
TRITONSERVER_Error* TRITONBACKEND_RequestIsCancelled(TRITONBACKEND_Request* request, bool* cancelled) {
  expect_unreleased(request);
  return call("RequestIsCancelled", [&] { *cancelled = request->cancelled; });
}
TRITONSERVER_Error* TRITONBACKEND_RequestInput(TRITONBACKEND_Request* request, const char* name,
                                               TRITONBACKEND_Input** input) {
  expect_unreleased(request);
  const auto it = request->inputs.find(name);
  if (it == request->inputs.end())
    return error_of(TRITONSERVER_ERROR_INVALID_ARG, std::string("unknown request input name ") + name);
  return call("RequestInput",
              [&] { *input = inputs_of[request].emplace_back(new TRITONBACKEND_Input{name, &it->second}).get(); });
}
TRITONSERVER_Error* TRITONBACKEND_RequestOutputCount(TRITONBACKEND_Request* request, uint32_t* number) {
  return call("RequestOutputCount", [&] { *number = uint32_t(request->outputs.size()); });
}
TRITONSERVER_Error* TRITONBACKEND_RequestOutputName(TRITONBACKEND_Request* request, uint32_t index, const char** name) {
  return call("RequestOutputName", [&] { *name = request->outputs.at(index).c_str(); });
}
TRITONSERVER_Error* TRITONBACKEND_RequestRelease(TRITONBACKEND_Request* request, uint32_t flags) {
  if (flags != TRITONSERVER_REQUEST_RELEASE_ALL) server().misuses.emplace_back("a request was released in part");
  return call("RequestRelease", [&] {
    if (++request->answer.released > 1) server().misuses.emplace_back("a request was released twice");
  });
}
TRITONSERVER_Error* TRITONBACKEND_InputProperties(TRITONBACKEND_Input* input, const char** name,
                                                  TRITONSERVER_DataType* type, const int64_t** dims, uint32_t* rank,
                                                  uint64_t* bytes, uint32_t* buffer_count) {
  return call("InputProperties", [&] {
    const SentInput& sent = *input->sent;
    if (name) *name = input->name.c_str();
    *type = sent.type;
    *dims = sent.dims.data();
    *rank = uint32_t(sent.dims.size());
    *bytes = 0;
    for (const auto& piece : sent.pieces) *bytes += piece.size();
    for (const auto& piece : sent.elsewhere) *bytes += piece.second;
    *buffer_count = uint32_t(sent.pieces.size() + sent.elsewhere.size());
  });
}
TRITONSERVER_Error* TRITONBACKEND_InputBuffer(TRITONBACKEND_Input* input, uint32_t index, const void** buffer,
                                              uint64_t* bytes, TRITONSERVER_MemoryType* memory, int64_t* memory_id) {
  return call("InputBuffer", [&] {
    const SentInput& sent = *input->sent;
    *memory = sent.memory;
    *memory_id = sent.memory_id;
    if (!sent.elsewhere.empty()) {
      *buffer = sent.elsewhere.at(index).first;
      *bytes = sent.elsewhere.at(index).second;
    } else {
      *buffer = sent.pieces.at(index).data();
      *bytes = sent.pieces.at(index).size();
    }
  });
}
TRITONSERVER_Error* TRITONBACKEND_ResponseNew(TRITONBACKEND_Response** response, TRITONBACKEND_Request* request) {
  expect_unreleased(request);
  return call("ResponseNew", [&] {
    *response = new TRITONBACKEND_Response{request, {}, {}};
    count("responses", 1);
  });
}
TRITONSERVER_Error* TRITONBACKEND_ResponseSetIntParameter(TRITONBACKEND_Response* response, const char* name,
                                                          int64_t value) {
  return call("ResponseSetIntParameter", [&] { response->parameters[name] = value; });
}
TRITONSERVER_Error* TRITONBACKEND_ResponseOutput(TRITONBACKEND_Response* response, TRITONBACKEND_Output** output,
                                                 const char* name, TRITONSERVER_DataType type, const int64_t* dims,
                                                 uint32_t rank) {
  return call("ResponseOutput", [&] {
    for (const auto& other : response->outputs)
      if (other->name == name) server().misuses.push_back(std::string("output '") + name + "' was made twice");
    *output = response->outputs
                  .emplace_back(new TRITONBACKEND_Output{response->request, name,
                                                         Answered{type, {dims, dims + rank}, {}, nullptr}})
                  .get();
  });
}
TRITONSERVER_Error* TRITONBACKEND_ResponseSend(TRITONBACKEND_Response* response, uint32_t flags,
                                               TRITONSERVER_Error* error) {
  const std::unique_ptr<TRITONBACKEND_Response> owned(response);  // whatever comes of it
  count("responses", -1);
  if (flags != TRITONSERVER_RESPONSE_COMPLETE_FINAL) server().misuses.emplace_back("a response is not the last one");
  expect_unreleased(response->request);
  return call("ResponseSend", [&] {
    temper::testing::Answer& answer = response->request->answer;
    if (++answer.sent > 1) server().misuses.emplace_back("a request was answered twice");
    answer.failed = error != nullptr;
    if (error) {
      answer.code = error->code;
      answer.error = error->text;
    }
    answer.parameters = response->parameters;
    for (const auto& output : response->outputs) answer.outputs[output->name] = output->answered;
  });
}
// The bytes stay where they were given until the response goes.
TRITONSERVER_Error* TRITONBACKEND_OutputBuffer(TRITONBACKEND_Output* output, void** buffer, uint64_t bytes,
                                               TRITONSERVER_MemoryType* memory, int64_t* memory_id) {
  return call("OutputBuffer", [&] {
    const auto there = output->request->output_in_gpu.find(output->name);
    *memory = there == output->request->output_in_gpu.end() ? TRITONSERVER_MEMORY_CPU : TRITONSERVER_MEMORY_GPU;
    *memory_id = 0;
    if (*memory == TRITONSERVER_MEMORY_GPU) *buffer = there->second;
    else {
      output->answered.bytes.resize(bytes);
      *buffer = output->answered.bytes.data();
    }
    output->answered.at = *buffer;
  });
}
TRITONSERVER_Error* TRITONBACKEND_StateNew(TRITONBACKEND_State** state, TRITONBACKEND_Request* request,
                                           const char* name, TRITONSERVER_DataType type, const int64_t* dims,
                                           uint32_t rank) {
  return call("StateNew", [&] {
    *state = states_by_request[request]
                 .emplace_back(new TRITONBACKEND_State{request, name, Answered{type, {dims, dims + rank}, {}, nullptr}})
                 .get();
  });
}
TRITONSERVER_Error* TRITONBACKEND_StateBuffer(TRITONBACKEND_State* state, void** buffer, uint64_t bytes,
                                              TRITONSERVER_MemoryType* memory, int64_t* memory_id) {
  return call("StateBuffer", [&] {
    state->answered.bytes.resize(bytes);
    *buffer = state->answered.bytes.data();
    *memory = TRITONSERVER_MEMORY_CPU;
    *memory_id = 0;
  });
}
TRITONSERVER_Error* TRITONBACKEND_StateUpdate(TRITONBACKEND_State* state) {
  return call("StateUpdate", [&] { state->request->answer.states[state->name] = state->answered; });
}

}  // extern "C"
