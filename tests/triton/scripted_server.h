// SPDX-License-Identifier: Apache-2.0
// A server in the place of Triton: the functions of its C API that the backend calls, with every object counted, every
// wrong use noted, and any call made to fail. Requests and answers are values that tests make and look at.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "triton/api.h"

namespace temper::testing {

struct SentInput {
  TRITONSERVER_DataType type = TRITONSERVER_TYPE_FP32;
  std::vector<int64_t> dims;
  std::vector<std::vector<char>> pieces;                       // in the host's memory
  std::vector<std::pair<const void*, size_t>> elsewhere = {};  // instead of pieces: in the memory of a GPU
  TRITONSERVER_MemoryType memory = TRITONSERVER_MEMORY_CPU;
  int64_t memory_id = 0;
};

struct Answered {
  TRITONSERVER_DataType type;
  std::vector<int64_t> dims;
  std::vector<char> bytes;  // empty where it lies in a GPU
  void* at = nullptr;       // where the backend was told to write
};

// What came of a request.
struct Answer {
  int sent = 0, released = 0;
  bool failed = false;
  TRITONSERVER_Error_Code code = TRITONSERVER_ERROR_UNKNOWN;
  std::string error;
  std::map<std::string, Answered> outputs;
  std::map<std::string, int64_t> parameters;
  std::map<std::string, Answered> states;  // that were updated
  int statistics = 0;
  bool success = false;
};

}  // namespace temper::testing

struct TRITONBACKEND_Request {
  std::map<std::string, temper::testing::SentInput> inputs;
  std::vector<std::string> outputs;
  bool cancelled = false;
  // Memory of a GPU for outputs, by name; others are written in the host's.
  std::map<std::string, void*> output_in_gpu = {};
  temper::testing::Answer answer = {};
};

namespace temper::testing {

class ScriptedServer {
 public:
  static ScriptedServer& get();
  void reset();

  uint32_t major = 1, minor = 19;
  // The call, from 1 on, that fails; 0: none. Deleting and asking for texts cannot fail.
  int64_t fails_at = 0;
  int64_t calls = 0;
  std::string failed_call;
  bool auto_complete = true;

  std::vector<std::string> lines;  // of the log
  std::vector<std::string> misuses;
  std::map<std::string, int> alive;       // objects by kind
  std::map<std::string, double> metrics;  // "name{model=m,version=1,bucket=4}"
  std::vector<uint64_t> batches;          // of batch statistics
  int64_t runs_of_instances = 0;

  // True where this call is the one to fail.
  bool fails(const char* name);
};

// A model in the server: its life cycle as the server goes through it.
class ScriptedModel {
 public:
  // `folder`: of the model, with version folders in it.
  ScriptedModel(std::string name, std::string folder, std::string config);
  ~ScriptedModel();  // what was begun is ended
  ScriptedModel(const ScriptedModel&) = delete;
  // The text of the error; "" where it succeeded.
  std::string load(TRITONSERVER_InstanceGroupKind kind = TRITONSERVER_INSTANCEGROUPKIND_MODEL, int32_t device = 0);
  std::string execute(const std::vector<TRITONBACKEND_Request*>& requests);
  std::string config() const;
  bool ready() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace temper::testing
