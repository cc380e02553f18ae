// SPDX-License-Identifier: Apache-2.0
// An instance of a model: a session, and what joins requests to one run and parts its answers.
#pragma once
#include <map>
#include <optional>
#include <vector>

#include "triton/model.h"
#include "triton/server.h"

namespace temper::triton {

class Instance {
 public:
  // Makes the session ready for every shape that the plan was tuned for. Throws Refusal.
  Instance(Model& model, TRITONBACKEND_ModelInstance* instance);
  ~Instance();
  Instance(const Instance&) = delete;

  // Answers every request and releases it, whatever fails.
  void execute(TRITONBACKEND_Request* const* requests, uint32_t count) noexcept;

 private:
  struct Piece {  // of an input, as the client sent it
    const void* data;
    size_t bytes;
    TRITONSERVER_MemoryType memory;
    int64_t memory_id;
  };
  struct Taken {  // a request on its way
    TRITONBACKEND_Request* request = nullptr;
    TRITONBACKEND_Response* response = nullptr;
    std::vector<std::vector<int64_t>> dims;  // by input
    std::vector<std::vector<Piece>> pieces;  // by input
    std::vector<std::vector<char>> decoded;  // by input: what its pictures became
    std::vector<char> wanted;                // by output
    int64_t rows = 1, first_row = 0;
    std::optional<Refusal> failed;
    void begin(TRITONBACKEND_Request* its);  // for another request, in the memory that the last one took
  };
  struct Times {
    uint64_t start = 0, run_start = 0, run_end = 0, end = 0;  // end: the answers lie where the server wants them
  };
  struct Shapes {  // of one run
    std::vector<std::vector<int64_t>> inputs;
    std::vector<std::vector<int64_t>> outputs;  // -1 where only a run can tell
    bool known = true;                          // no such -1
  };

  Model& model_;
  TRITONBACKEND_ModelInstance* const instance_;
  temper::Engine engine_;
  std::vector<temper::Port> inputs_, outputs_;
  std::vector<std::vector<int64_t>> picture_dims_;           // by input: of one picture; empty where they come decoded
  int64_t most_pictures_ = 0;                                // in one request
  std::vector<std::vector<std::vector<int64_t>>> buckets_;   // by bucket and input
  std::vector<std::optional<std::string>> state_of_output_;  // the state that an output is
  bool has_states_ = false;
  bool gpu_ = false;
  int64_t gpu_id_ = 0;
  temper_session* session_ = nullptr;
  std::map<std::vector<int64_t>, Shapes> shapes_;  // by all dimensions of the inputs
  const Shapes* prepared_ = nullptr;               // those of the run before, for which the session is ready
  std::vector<Taken> taken_;                       // the requests at hand; kept for their memory
  std::vector<std::vector<char>> scratch_;         // by output, of outputs that nobody asked for
  int64_t plans_made_ = 0;

  void take(Taken& taken);
  void decode(Taken& taken, size_t input);
  std::vector<std::vector<Taken*>> groups_of(uint32_t count);
  int64_t run(const std::vector<Taken*>& group, Times& times);
  int64_t bucket_for(const std::vector<std::vector<int64_t>>& dims, int64_t rows) const;
  const Shapes& shapes_for(const std::vector<std::vector<int64_t>>& dims, int64_t rows);
  std::vector<temper_tensor> gather(const std::vector<Taken*>& group, const Shapes& shapes);
  bool lies_in_gpu(const Taken& taken) const;
  void copy(void* to, bool to_gpu, const void* from, bool from_gpu, size_t bytes);
  void* output_memory(Taken& taken, size_t output, const std::vector<int64_t>& dims, size_t bytes, bool& on_gpu);
  bool run_in_place(Taken& taken, const Shapes& shapes, Times& times);
  void answer(const std::vector<Taken*>& group, int64_t rows, bool results_on_gpu);
  void answer_state(Taken& taken, size_t output, const std::vector<int64_t>& dims, const char* from, size_t bytes,
                    bool from_gpu);
  void send(Taken& taken) noexcept;
  void release(Taken& taken, const Times& times) noexcept;
};

}  // namespace temper::triton
