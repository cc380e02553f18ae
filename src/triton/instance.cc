// SPDX-License-Identifier: Apache-2.0
#include "triton/instance.h"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace temper::triton {

namespace {

uint64_t now_ns() {
  return uint64_t(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

std::string text_of(const std::vector<int64_t>& dims) {
  std::string out = "[";
  for (const int64_t dim : dims) out += (out.size() == 1 ? "" : ",") + std::to_string(dim);
  return out + "]";
}

size_t bytes_of(temper_dtype dtype, const std::vector<int64_t>& dims) {
  size_t bytes = temper_dtype_size(dtype);
  for (const int64_t dim : dims) bytes *= size_t(dim);
  return bytes;
}

temper_tensor tensor_of(temper_dtype dtype, const std::vector<int64_t>& dims, const void* data) {
  static const char nothing = 0;
  return {dtype, dims.size(), dims.data(), data ? data : &nothing};
}

Place place_of(TRITONBACKEND_ModelInstance* instance) {
  TRITONSERVER_InstanceGroupKind kind;
  check(TRITONBACKEND_ModelInstanceKind(instance, &kind));
  return kind == TRITONSERVER_INSTANCEGROUPKIND_CPU   ? Place::cpu
         : kind == TRITONSERVER_INSTANCEGROUPKIND_GPU ? Place::gpu
                                                      : Place::any;
}

int32_t device_of(TRITONBACKEND_ModelInstance* instance) {
  int32_t device = 0;
  check(TRITONBACKEND_ModelInstanceDeviceId(instance, &device));
  return device;
}

}  // namespace

Instance::Instance(Model& model, TRITONBACKEND_ModelInstance* instance)
    : model_(model),
      instance_(instance),
      engine_(model.engine_for(place_of(instance), device_of(instance))),
      inputs_(engine_.inputs()),
      outputs_(engine_.outputs()),
      picture_dims_(inputs_.size()),
      state_of_output_(outputs_.size()),
      scratch_(outputs_.size()) {
  const std::string device = engine_.info().device;
  gpu_ = device.starts_with("cuda");
  if (const size_t colon = device.find(':'); colon != device.npos) gpu_id_ = std::stoll(device.substr(colon + 1));
  for (const StateNames& state : model.config().states)
    for (size_t o = 0; o < outputs_.size(); ++o)
      if (outputs_[o].name == state.output) {
        state_of_output_[o] = state.output;
        has_states_ = true;
      }
  const auto& encoded = model.config().encoded;
  for (size_t i = 0; i < inputs_.size(); ++i)
    if (std::find(encoded.begin(), encoded.end(), inputs_[i].name) != encoded.end()) {
      picture_dims_[i].resize(3);
      check(temper_picture_dims(engine_.handle(), i, nullptr, picture_dims_[i].data()));
      for (const auto& profile : engine_.profiles()) most_pictures_ = std::max(most_pictures_, profile[i].max[0]);
    }
  if (most_pictures_ < 1) most_pictures_ = 1024;  // nothing limits the batch: what one request may make is limited
  for (const auto& bucket : engine_.buckets()) {
    auto& dims = buckets_.emplace_back();
    for (const temper::Port& port : bucket) dims.push_back(port.dims);
  }
  check(temper_session_create(engine_.handle(), &session_));
  try {
    for (const auto& bucket : buckets_) shapes_for(bucket, bucket.empty() || bucket[0].empty() ? 1 : bucket[0][0]);
  } catch (...) {
    temper_session_free(session_);
    throw;
  }
}

Instance::~Instance() { temper_session_free(session_); }

// The batch that runs: of the tuned ones the next larger, where padding is at most half of it; otherwise as it came.
int64_t Instance::bucket_for(const std::vector<std::vector<int64_t>>& dims, int64_t rows) const {
  if (!model_.config().pad || model_.config().max_batch == 0) return rows;
  int64_t best = 0;
  for (const auto& bucket : buckets_) {
    bool same = bucket[0][0] >= rows && (best == 0 || bucket[0][0] < best);
    for (size_t i = 0; same && i < dims.size(); ++i)
      same =
          bucket[i].size() == dims[i].size() && std::equal(bucket[i].begin() + 1, bucket[i].end(), dims[i].begin() + 1);
    if (same) best = bucket[0][0];
  }
  return best == 0 || best > 2 * rows ? rows : best;
}

// Prepares the session for them, too. `rows`: in the place of the first dimension, where there are batches.
const Instance::Shapes& Instance::shapes_for(const std::vector<std::vector<int64_t>>& dims, int64_t rows) {
  const bool batched = model_.config().max_batch > 0;
  if (prepared_ && std::equal(dims.begin(), dims.end(), prepared_->inputs.begin(), prepared_->inputs.end(),
                              [&](const auto& asked, const auto& known) {
                                return asked.size() == known.size() &&
                                       (asked.empty() || (batched ? rows : asked[0]) == known[0]) &&
                                       (asked.empty() || std::equal(asked.begin() + 1, asked.end(), known.begin() + 1));
                              }))
    return *prepared_;
  prepared_ = nullptr;
  std::vector<std::vector<int64_t>> all = dims;
  std::vector<int64_t> key;
  for (auto& one : all) {
    if (batched && !one.empty()) one[0] = rows;
    key.insert(key.end(), one.begin(), one.end());
    key.push_back(-1);
  }
  std::vector<temper_tensor> list;
  for (size_t i = 0; i < all.size(); ++i) list.push_back(tensor_of(inputs_[i].dtype, all[i], nullptr));
  check(temper_session_prepare(session_, list.data(), list.size()));
  temper_session_statistics statistics = {};
  check(temper_session_read_statistics(session_, &statistics));
  model_.metrics().add(Count::plans_made, 0, double(statistics.plans_made - plans_made_));
  plans_made_ = statistics.plans_made;
  if (const auto it = shapes_.find(key); it != shapes_.end()) return *(prepared_ = &it->second);
  if (shapes_.size() >= 1024) shapes_.clear();  // clients choose shapes: what is kept of them is limited
  Shapes shapes;
  shapes.outputs = engine_.output_dims(all);
  for (const auto& one : shapes.outputs)
    shapes.known = shapes.known && std::find(one.begin(), one.end(), -1) == one.end();
  shapes.inputs = std::move(all);
  prepared_ = &shapes_.emplace(std::move(key), std::move(shapes)).first->second;
  return *prepared_;
}

void Instance::Taken::begin(TRITONBACKEND_Request* its) {
  request = its;
  response = nullptr;
  for (auto& list : pieces) list.clear();
  decoded.clear();
  rows = 1;
  first_row = 0;
  failed.reset();
}

// What the request holds and asks for. Throws Refusal.
void Instance::take(Taken& taken) {
  const bool batched = model_.config().max_batch > 0;
  taken.dims.resize(inputs_.size());
  taken.pieces.resize(inputs_.size());
  taken.decoded.resize(inputs_.size());
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const temper::Port& port = inputs_[i];
    const bool encoded = !picture_dims_[i].empty();
    TRITONBACKEND_Input* input = nullptr;
    check(TRITONBACKEND_RequestInput(taken.request, port.name.c_str(), &input));
    TRITONSERVER_DataType type;
    const int64_t* dims = nullptr;
    uint32_t rank = 0, buffers = 0;
    uint64_t bytes = 0;
    check(TRITONBACKEND_InputProperties(input, nullptr, &type, &dims, &rank, &bytes, &buffers));
    auto& its = taken.dims[i];
    its.assign(dims, dims + rank);
    if (type != (encoded ? TRITONSERVER_TYPE_BYTES : type_of(port.dtype)))
      refuse("input '" + port.name + "' has another type than " +
             (encoded ? "the configuration's, TYPE_STRING" : "the plan's, " + type_name(port.dtype)));
    if (batched && (its.empty() || its[0] != (taken.dims[0].empty() ? -1 : taken.dims[0][0])))
      refuse("input '" + port.name + "' is " + text_of(its) + "; its batch is not that of the other inputs");
    if (const size_t needed = bytes_of(port.dtype, its); !encoded && bytes != needed)
      refuse("input '" + port.name + "' of " + text_of(its) + " has " + std::to_string(bytes) + " bytes; it needs " +
             std::to_string(needed));
    auto& pieces = taken.pieces[i];
    size_t sum = 0;
    for (uint32_t b = 0; b < buffers; ++b) {
      Piece piece{nullptr, 0, gpu_ ? TRITONSERVER_MEMORY_GPU : TRITONSERVER_MEMORY_CPU, gpu_ ? gpu_id_ : 0};
      uint64_t size = 0;
      check(TRITONBACKEND_InputBuffer(input, b, &piece.data, &size, &piece.memory, &piece.memory_id));
      piece.bytes = size;
      sum += size;
      if (piece.memory == TRITONSERVER_MEMORY_GPU && (encoded || !gpu_ || piece.memory_id != gpu_id_))
        refuse("input '" + port.name + "' lies in the memory of GPU " + std::to_string(piece.memory_id) + ", and " +
                   (encoded ? "encoded pictures are read on the host"
                            : std::string("the plan runs on ") + engine_.info().device) +
                   ": give it in system memory or system shared memory",
               TRITONSERVER_ERROR_UNSUPPORTED);
      if (size) pieces.push_back(piece);
    }
    if (sum != bytes)
      refuse("input '" + port.name + "' came with " + std::to_string(sum) + " of " + std::to_string(bytes) + " bytes");
    if (encoded) decode(taken, i);
  }
  taken.rows = batched ? taken.dims[0][0] : 1;
  taken.wanted.assign(outputs_.size(), 0);
  uint32_t count = 0;
  check(TRITONBACKEND_RequestOutputCount(taken.request, &count));
  for (uint32_t i = 0; i < count; ++i) {
    const char* name = nullptr;
    check(TRITONBACKEND_RequestOutputName(taken.request, i, &name));
    const auto it =
        std::find_if(outputs_.begin(), outputs_.end(), [&](const temper::Port& port) { return port.name == name; });
    if (it == outputs_.end()) refuse(std::string("there is no output '") + name + "'");
    taken.wanted[size_t(it - outputs_.begin())] = 1;
  }
  check(TRITONBACKEND_ResponseNew(&taken.response, taken.request));
}

// Files of pictures, each with its length in four bytes in front, become what the plan takes, prepared as it remembers.
// Throws Refusal that names the picture which cannot be read.
void Instance::decode(Taken& taken, size_t input) {
  const std::string name = "input '" + inputs_[input].name + "'";
  std::vector<int64_t>& dims = taken.dims[input];
  const bool one_each = dims.size() == 1 || (dims.size() == 2 && dims[1] == 1);
  const int64_t count = one_each ? dims[0] : -1;
  if (count < 0 || count > most_pictures_)
    refuse(name + " is " + text_of(dims) + "; it takes a string for each of up to " + std::to_string(most_pictures_) +
           " pictures");
  std::vector<char> joined;  // where the client's bytes came in several pieces
  auto& pieces = taken.pieces[input];
  if (pieces.size() > 1)
    for (const Piece& piece : pieces)
      joined.insert(joined.end(), static_cast<const char*>(piece.data),
                    static_cast<const char*>(piece.data) + piece.bytes);
  const char* from = pieces.size() == 1 ? static_cast<const char*>(pieces[0].data) : joined.data();
  size_t left = pieces.size() == 1 ? pieces[0].bytes : joined.size();
  dims.assign(picture_dims_[input].begin(), picture_dims_[input].end());
  const size_t one = bytes_of(inputs_[input].dtype, dims);
  dims.insert(dims.begin(), count);
  auto& decoded = taken.decoded[input];
  for (int64_t i = 0; i < count; ++i) {
    uint32_t bytes = 0;
    if (left >= sizeof bytes) std::memcpy(&bytes, from, sizeof bytes);
    if (left < sizeof bytes || bytes > left - sizeof bytes)
      refuse(name + " ends in picture " + std::to_string(i) + " of " + std::to_string(count));
    decoded.resize(decoded.size() + one);
    if (temper_picture_decode(engine_.handle(), input, nullptr, from + sizeof bytes, bytes,
                              decoded.data() + decoded.size() - one, one) != TEMPER_OK)
      refuse(name + ", picture " + std::to_string(i) + ": " + temper_last_error());
    from += sizeof bytes + bytes;
    left -= sizeof bytes + bytes;
  }
  if (left) refuse(name + " has " + std::to_string(left) + " bytes behind its last picture");
  pieces.assign(1, {decoded.data(), decoded.size(), TRITONSERVER_MEMORY_CPU, 0});
  if (decoded.empty()) pieces.clear();
}

// Requests that run together: those whose shapes are the same but for the batch, up to max_batch_size.
std::vector<std::vector<Instance::Taken*>> Instance::groups_of(uint32_t count) {
  std::vector<std::vector<Taken*>> groups;
  const int64_t most = model_.config().max_batch;
  for (uint32_t r = 0; r < count; ++r) {
    Taken& taken = taken_[r];
    if (taken.failed) continue;
    const auto fits = [&](const std::vector<Taken*>& group) {
      int64_t rows = taken.rows;
      for (const Taken* const other : group) rows += other->rows;
      if (rows > most) return false;
      for (size_t i = 0; i < taken.dims.size(); ++i)
        if (!std::equal(taken.dims[i].begin() + 1, taken.dims[i].end(), group[0]->dims[i].begin() + 1,
                        group[0]->dims[i].end()))
          return false;
      return true;
    };
    const auto it = most > 0 ? std::find_if(groups.begin(), groups.end(), fits) : groups.end();
    if (it == groups.end()) groups.push_back({&taken});
    else it->push_back(&taken);
  }
  return groups;
}

void Instance::copy(void* to, bool to_gpu, const void* from, bool from_gpu, size_t bytes) {
  if (!bytes) return;
  if (!to_gpu && !from_gpu) std::memcpy(to, from, bytes);
  else
    check(temper_session_copy(session_, to, from, bytes,
                              !to_gpu    ? TEMPER_TO_HOST
                              : from_gpu ? TEMPER_ON_DEVICE
                                         : TEMPER_TO_DEVICE));
}

bool Instance::lies_in_gpu(const Taken& taken) const {
  return gpu_ && std::all_of(taken.pieces.begin(), taken.pieces.end(), [](const std::vector<Piece>& pieces) {
           return pieces.size() == 1 && pieces[0].memory == TRITONSERVER_MEMORY_GPU;
         });
}

// Memory of the server's for an output of a request; where it lies, the server says. Throws Refusal.
void* Instance::output_memory(Taken& taken, size_t output, const std::vector<int64_t>& dims, size_t bytes,
                              bool& on_gpu) {
  TRITONBACKEND_Output* its = nullptr;
  check(TRITONBACKEND_ResponseOutput(taken.response, &its, outputs_[output].name.c_str(),
                                     type_of(outputs_[output].dtype), dims.data(), uint32_t(dims.size())));
  void* buffer = nullptr;
  TRITONSERVER_MemoryType memory = on_gpu ? TRITONSERVER_MEMORY_GPU : TRITONSERVER_MEMORY_CPU;
  int64_t memory_id = on_gpu ? gpu_id_ : 0;
  check(TRITONBACKEND_OutputBuffer(its, &buffer, bytes, &memory, &memory_id));
  on_gpu = memory == TRITONSERVER_MEMORY_GPU;
  if (on_gpu && (!gpu_ || memory_id != gpu_id_))
    refuse("output '" + outputs_[output].name + "' is wanted in the memory of GPU " + std::to_string(memory_id) +
               ", and the plan runs on " + engine_.info().device +
               ": ask for it in system memory or system shared memory",
           TRITONSERVER_ERROR_UNSUPPORTED);
  return buffer;
}

// One request that fills its bucket and lies in one piece each: it is run where the server holds it, and its answers
// are written where the server wants them. False where that cannot be; then nothing has begun.
bool Instance::run_in_place(Taken& taken, const Shapes& shapes, Times& times) {
  const bool there = lies_in_gpu(taken);
  const bool whole = std::all_of(taken.pieces.begin(), taken.pieces.end(), [](const std::vector<Piece>& pieces) {
    return pieces.size() <= 1 && (pieces.empty() || pieces[0].memory != TRITONSERVER_MEMORY_GPU);
  });
  if (!there && !whole) return false;
  std::vector<temper_tensor> inputs, outputs;
  for (size_t i = 0; i < inputs_.size(); ++i)
    inputs.push_back(
        tensor_of(inputs_[i].dtype, shapes.inputs[i], taken.pieces[i].empty() ? nullptr : taken.pieces[i][0].data));
  bool into = shapes.known && !has_states_;
  if (there) into = into && std::all_of(taken.wanted.begin(), taken.wanted.end(), [](char wanted) { return wanted; });
  std::vector<char> lies_there(outputs_.size(), 0);
  for (size_t o = 0; into && o < outputs_.size(); ++o) {
    const size_t bytes = bytes_of(outputs_[o].dtype, shapes.outputs[o]);
    void* memory = nullptr;
    if (taken.wanted[o]) {
      bool on_gpu = there;
      memory = output_memory(taken, o, shapes.outputs[o], bytes, on_gpu);
      lies_there[o] = on_gpu;
    }
    outputs.push_back(tensor_of(outputs_[o].dtype, shapes.outputs[o], memory));
  }
  // Answers that do not lie where the run writes go through memory of ours.
  std::vector<void*> wanted_at(outputs_.size(), nullptr);
  for (size_t o = 0; into && o < outputs_.size(); ++o) {
    if (taken.wanted[o] && bool(lies_there[o]) == there) continue;
    if (taken.wanted[o]) wanted_at[o] = const_cast<void*>(outputs[o].data);
    if (there) {  // there is no memory of a GPU at hand: the plan's own is copied from
      into = false;
      break;
    }
    scratch_[o].resize(std::max<size_t>(bytes_of(outputs_[o].dtype, shapes.outputs[o]), 1));
    outputs[o].data = scratch_[o].data();
  }
  times.run_start = now_ns();
  if (there) {
    temper_device_run how = {};
    if (into) {
      how.outputs = outputs.data();
      how.output_count = outputs.size();
    }
    check(temper_session_run_on_device_with(session_, inputs.data(), inputs.size(), &how));
  } else {
    check(temper_session_enqueue(session_, inputs.data(), inputs.size(), into ? outputs.data() : nullptr,
                                 into ? outputs.size() : 0));
    check(temper_session_wait(session_));
  }
  times.run_end = now_ns();
  if (!outputs.empty()) {  // the server's memory is asked for once
    for (size_t o = 0; o < outputs_.size(); ++o) {
      const size_t bytes = bytes_of(outputs_[o].dtype, shapes.outputs[o]);
      if (!into && taken.wanted[o]) {
        temper_tensor result;
        check(temper_session_output(session_, o, &result));
        copy(const_cast<void*>(outputs[o].data), lies_there[o], result.data, there, bytes);
      } else if (wanted_at[o]) copy(wanted_at[o], lies_there[o], outputs[o].data, false, bytes);
    }
  } else answer({&taken}, taken.rows, there);
  return true;
}

// The rows of all requests, one behind the other, in the session's own memory; zeros behind them.
std::vector<temper_tensor> Instance::gather(const std::vector<Taken*>& group, const Shapes& shapes) {
  std::vector<temper_tensor> list;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    void* memory = nullptr;
    check(temper_session_input(session_, i, &memory));
    char* to = static_cast<char*>(memory);
    const size_t all = bytes_of(inputs_[i].dtype, shapes.inputs[i]);
    size_t at = 0;
    for (const Taken* const taken : group)
      for (const Piece& piece : taken->pieces[i]) {
        copy(to + at, false, piece.data, piece.memory == TRITONSERVER_MEMORY_GPU, piece.bytes);
        at += piece.bytes;
      }
    std::memset(to + at, 0, all - at);
    list.push_back(tensor_of(inputs_[i].dtype, shapes.inputs[i], memory));
  }
  return list;
}

void Instance::answer_state(Taken& taken, size_t output, const std::vector<int64_t>& dims, const char* from,
                            size_t bytes, bool from_gpu) {
  TRITONBACKEND_State* state = nullptr;
  check(TRITONBACKEND_StateNew(&state, taken.request, state_of_output_[output]->c_str(),
                               type_of(outputs_[output].dtype), dims.data(), uint32_t(dims.size())));
  void* buffer = nullptr;
  TRITONSERVER_MemoryType memory = TRITONSERVER_MEMORY_CPU;
  int64_t memory_id = 0;
  check(TRITONBACKEND_StateBuffer(state, &buffer, bytes, &memory, &memory_id));
  copy(buffer, memory == TRITONSERVER_MEMORY_GPU, from, from_gpu, bytes);
  check(TRITONBACKEND_StateUpdate(state));
}

// Gives each request its rows of the session's outputs. What fails is the failure of that request alone.
void Instance::answer(const std::vector<Taken*>& group, int64_t rows, bool results_on_gpu) {
  for (size_t o = 0; o < outputs_.size(); ++o) {
    const bool wanted = std::any_of(group.begin(), group.end(), [&](const Taken* taken) { return taken->wanted[o]; });
    if (!wanted && !state_of_output_[o]) continue;
    temper_tensor result;
    check(temper_session_output(session_, o, &result));
    std::vector<int64_t> dims(result.dims, result.dims + result.rank);
    const size_t all = bytes_of(result.dtype, dims);
    const bool batched = model_.config().max_batch > 0;
    const size_t row = batched ? all / size_t(std::max<int64_t>(rows, 1)) : all;
    for (Taken* const taken : group) {
      if (taken->failed) continue;
      try {
        if (batched) dims[0] = taken->rows;
        const char* const from = static_cast<const char*>(result.data) + (batched ? size_t(taken->first_row) * row : 0);
        const size_t bytes = batched ? size_t(taken->rows) * row : all;
        if (taken->wanted[o]) {
          bool on_gpu = results_on_gpu;
          void* const to = output_memory(*taken, o, dims, bytes, on_gpu);
          copy(to, on_gpu, from, results_on_gpu, bytes);
        }
        if (state_of_output_[o]) answer_state(*taken, o, dims, from, bytes, results_on_gpu);
      } catch (const Refusal& refusal) { taken->failed = refusal; }
    }
  }
}

// Gives the batch that ran.
int64_t Instance::run(const std::vector<Taken*>& group, Times& times) {
  int64_t rows = 0;
  for (Taken* const taken : group) {
    taken->first_row = rows;
    rows += taken->rows;
  }
  const bool batched = model_.config().max_batch > 0;
  const int64_t bucket = batched ? bucket_for(group[0]->dims, rows) : 1;
  const Shapes& shapes = shapes_for(group[0]->dims, bucket);
  if (group.size() > 1 || (batched && bucket != rows) || !run_in_place(*group[0], shapes, times)) {
    const std::vector<temper_tensor> inputs = gather(group, shapes);
    times.run_start = now_ns();
    check(temper_session_enqueue(session_, inputs.data(), inputs.size(), nullptr, 0));
    check(temper_session_wait(session_));
    times.run_end = now_ns();
    answer(group, bucket, false);
  }
  for (Taken* const taken : group) {
    if (taken->failed) continue;
    try {
      check(TRITONBACKEND_ResponseSetIntParameter(taken->response, "temper_bucket", bucket));
      check(TRITONBACKEND_ResponseSetIntParameter(taken->response, "temper_row", taken->first_row));
    } catch (const Refusal& refusal) { taken->failed = refusal; }
  }
  return bucket;
}

// Sends what there is: the answer or the error.
void Instance::send(Taken& taken) noexcept {
  TRITONSERVER_Error* error = nullptr;
  if (taken.failed) {
    error = TRITONSERVER_ErrorNew(taken.failed->code(), taken.failed->what());
    if (!taken.response) {
      TRITONSERVER_Error* const none = TRITONBACKEND_ResponseNew(&taken.response, taken.request);
      if (none) taken.response = nullptr;
      log_error(none, "a request that failed cannot be answered");
    }
  }
  if (taken.response)
    log_error(TRITONBACKEND_ResponseSend(taken.response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, error),
              "a response was not sent");
  if (error) TRITONSERVER_ErrorDelete(error);
}

// Says what the request took, and lets go of it.
void Instance::release(Taken& taken, const Times& times) noexcept {
  const uint64_t end = times.end ? times.end : now_ns();
  log_error(TRITONBACKEND_ModelInstanceReportStatistics(instance_, taken.request, !taken.failed, times.start,
                                                        times.run_start ? times.run_start : end,
                                                        times.run_end ? times.run_end : end, end),
            "statistics were not taken");
  log_error(TRITONBACKEND_RequestRelease(taken.request, TRITONSERVER_REQUEST_RELEASE_ALL),
            "a request was not released");
}

void Instance::execute(TRITONBACKEND_Request* const* requests, uint32_t count) noexcept {
  Times times;
  times.start = now_ns();
  const auto attempt = [](std::optional<Refusal>& failed, auto&& body) {
    try {
      body();
    } catch (const Refusal& refusal) { failed = refusal; } catch (const std::exception& error) {
      failed = Refusal(TRITONSERVER_ERROR_INTERNAL, error.what());
    }
  };
  if (taken_.size() < count) taken_.resize(count);
  for (uint32_t r = 0; r < count; ++r) {
    Taken& taken = taken_[r];
    taken.begin(requests[r]);
    attempt(taken.failed, [&] {
      bool cancelled = false;
      check(TRITONBACKEND_RequestIsCancelled(taken.request, &cancelled));
      if (cancelled) {
        model_.metrics().add(Count::cancelled, 0, 1);
        refuse("the request was cancelled before its run", TRITONSERVER_ERROR_CANCELLED);
      }
      take(taken);
    });
    if (!taken.failed) continue;
    send(taken);
    release(taken, times);
  }
  for (const std::vector<Taken*>& group : groups_of(count)) {
    Times its = times;
    std::optional<Refusal> failed;
    int64_t bucket = 0, rows = 0;
    attempt(failed, [&] { bucket = run(group, its); });
    its.end = now_ns();
    bool any = false;
    for (Taken* const taken : group) {
      if (failed && !taken->failed) taken->failed = failed;
      rows += taken->rows;
      any = any || !taken->failed;
      send(*taken);
    }
    const uint64_t sent = now_ns();
    // Behind the answers: nobody waits for it.
    for (Taken* const taken : group) release(*taken, its);
    Metrics& metrics = model_.metrics();
    if (!failed) {
      metrics.add(Count::runs, bucket, 1);
      metrics.add(Count::run_us, bucket, double(its.run_end - its.run_start) / 1000);
      metrics.add(Count::rows, 0, double(rows));
      metrics.add(Count::padded_rows, 0, double(std::max<int64_t>(bucket - rows, 0)));
      metrics.add(Count::send_us, 0, double(sent - its.end) / 1000);
    }
    if (any)
      log_error(TRITONBACKEND_ModelInstanceReportBatchStatistics(instance_, uint64_t(rows), its.start, its.run_start,
                                                                 its.run_end, its.end),
                "statistics were not taken");
  }
}

}  // namespace temper::triton
