// SPDX-License-Identifier: Apache-2.0
#include "nvinfer/context.h"

#include <algorithm>
#include <cstring>

#include "nvinfer/load.h"

namespace temper::nvinfer {

namespace {

Dims dims_of(const TensorType& type) {
  Dims dims;
  for (const Dim& dim : type.shape) dims.push_back(dim.is_constant() ? dim.value() : -1);
  return dims;
}
// Null for none.
Arena::Source source_of(std::shared_ptr<const WorkMemory> memory, bool of_gpu) {
  if (!memory) return nullptr;
  return [memory = std::move(memory), of_gpu](int64_t bytes) {
    constexpr int64_t kAlignment = 256;  // as cudaMalloc gives it
    const uintptr_t at = memory->allocate(bytes, kAlignment);
    if (!at) fail(ErrorKind::machine, "the program's allocator gave no memory for ", bytes, " bytes to work in");
    std::shared_ptr<void> owned(at_address(at), [memory, at](void*) { memory->release(at); });
    if (at % kAlignment)
      fail(ErrorKind::usage, "the program's allocator gave memory that is not aligned to ", kAlignment, " bytes");
    if (!of_gpu) check_mapped(at, bytes, "the allocator's memory");
    return owned;
  };
}
bool is_known(const Dims& dims) {
  return std::all_of(dims.begin(), dims.end(), [](int64_t dim) { return dim >= 0; });
}

}  // namespace

std::vector<IoTensor> io_tensors(const Engine& engine) {
  std::vector<IoTensor> tensors;
  for (const PortInfo& port : engine.inputs())
    tensors.push_back({port.name, port.type.dtype, dims_of(port.type), true});
  for (const PortInfo& port : engine.outputs())
    tensors.push_back({port.name, port.type.dtype, dims_of(port.type), false});
  return tensors;
}

Context::Context(std::shared_ptr<const Engine> engine, Logger logger, std::shared_ptr<const WorkMemory> memory)
    : engine_(std::move(engine)),
      logger_(std::move(logger)),
      memory_(source_of(std::move(memory), bool(engine_->device().gpu))),
      session_(std::in_place, engine_, memory_),
      tensors_(io_tensors(*engine_)) {
  for (const IoTensor& tensor : tensors_)
    if (tensor.is_input && is_known(tensor.dims)) shapes_[tensor.name] = tensor.dims;
}

void Context::move_to(std::shared_ptr<const Engine> engine) {
  session_.emplace(engine, memory_);
  engine_ = std::move(engine);
  layers_.clear();
}

const IoTensor* Context::find(const std::string& name) const {
  const auto it =
      std::find_if(tensors_.begin(), tensors_.end(), [&](const IoTensor& tensor) { return tensor.name == name; });
  return it == tensors_.end() ? nullptr : &*it;
}

std::vector<Dims> Context::input_shapes() const {
  std::vector<Dims> shapes;
  for (const PortInfo& input : engine_->inputs()) shapes.push_back(shapes_.at(input.name));
  return shapes;
}

std::vector<std::string> Context::inputs_without_shape() const {
  std::vector<std::string> names;
  for (const PortInfo& input : engine_->inputs())
    if (!shapes_.contains(input.name)) names.push_back(input.name);
  return names;
}

const std::map<std::string, ShapeRange>& Context::ranges() const {
  const EngineInfo& info = engine_->info();
  return info.profiles.empty() ? info.shapes : info.profiles[size_t(profile_)];
}

bool Context::set_profile(int profile) {
  return or_else(logger_, false, [&] {
    const int count = std::max(1, int(engine_->info().profiles.size()));
    if (profile < 0 || profile >= count)
      fail(ErrorKind::usage, "there is no optimization profile ", profile, ": the engine has ", count);
    if (profile == profile_) return true;
    profile_ = profile;
    for (const IoTensor& tensor : tensors_)
      if (tensor.is_input && !is_known(tensor.dims)) shapes_.erase(tensor.name);
    return true;
  });
}

bool Context::set_input_shape(const std::string& name, const Dims& dims) {
  return or_else(logger_, false, [&] {
    const IoTensor* tensor = find(name);
    if (!tensor || !tensor->is_input) fail(ErrorKind::usage, "there is no input with the name '", name, "'");
    if (!is_known(dims)) fail(ErrorKind::usage, "the shape ", dims, " of '", name, "' has negative dimensions");
    // It is judged by itself: inputs are set one after the other.
    const ShapeRange& range = ranges().at(name);
    bool is_in = dims.size() == range.min.size();
    for (size_t axis = 0; is_in && axis < dims.size(); ++axis)
      is_in = dims[axis] >= range.min[axis] && dims[axis] <= range.max[axis];
    if (!is_in)
      fail(ErrorKind::usage, "'", name, "' is given the shape ", dims, ", which is not in optimization profile ",
           profile_, ": it takes ", range.min, range.min == range.max ? "" : concat(" to ", range.max));
    shapes_[name] = dims;
    return true;
  });
}

std::optional<Dims> Context::shape(const std::string& name) const {
  const IoTensor* tensor = find(name);
  if (!tensor) return std::nullopt;
  if (tensor->is_input) {
    const auto it = shapes_.find(name);
    return it == shapes_.end() ? tensor->dims : it->second;
  }
  if (!inputs_without_shape().empty()) return tensor->dims;
  return or_else(logger_, tensor->dims, [&] {
    const size_t index = size_t(tensor - tensors_.data()) - engine_->inputs().size();
    return dims_of(engine_->output_types(input_shapes())[index]);
  });
}

bool Context::set_address(const std::string& name, uintptr_t address) {
  return or_else(logger_, false, [&] {
    if (!find(name)) fail(ErrorKind::usage, "there is no tensor with the name '", name, "'");
    if (!address) fail(ErrorKind::usage, "the address of '", name, "' is null");
    addresses_[name] = address;
    return true;
  });
}

uintptr_t Context::address(const std::string& name) const {
  const auto it = addresses_.find(name);
  return it == addresses_.end() ? 0 : it->second;
}

const PortInfo* Context::output(const std::string& name) const {
  const auto& outputs = engine_->outputs();
  const auto it = std::find_if(outputs.begin(), outputs.end(), [&](const PortInfo& port) { return port.name == name; });
  return it == outputs.end() ? nullptr : &*it;
}

int64_t Context::max_output_bytes(const std::string& name) const {
  return or_else(logger_, int64_t(-1), [&] {
    const PortInfo* port = output(name);
    if (!port) fail(ErrorKind::usage, "there is no output with the name '", name, "'");
    std::vector<Dims> shapes;
    for (const PortInfo& input : engine_->inputs()) {
      const auto set = shapes_.find(input.name);
      shapes.push_back(set == shapes_.end() ? ranges().at(input.name).max : set->second);
    }
    const Dims dims = dims_of(engine_->output_types(shapes)[size_t(port - engine_->outputs().data())]);
    return is_known(dims) ? byte_count(port->type.dtype, dims) : -1;
  });
}

bool Context::set_output_allocator(const std::string& name, std::shared_ptr<const OutputAllocator> allocator) {
  return or_else(logger_, false, [&] {
    if (!output(name)) fail(ErrorKind::usage, "there is no output with the name '", name, "'");
    if (allocator) allocators_[name] = std::move(allocator);
    else allocators_.erase(name);
    return true;
  });
}

bool Context::report_layers() {
  return or_else(logger_, false, [&] {
    if (!told_) fail(ErrorKind::usage, "there is no profiler to report to");
    if (layers_.empty())
      fail(ErrorKind::usage, "there are no times to report: nothing has run since there is a profiler");
    for (const auto& [layer, ms] : layers_) (*told_)(layer, ms);
    return true;
  });
}

Queue& Context::queue() {
  if (!queue_) queue_ = open_queue(engine_->device());
  return *queue_;
}

uintptr_t Context::address_of_output(const PortInfo& output, const Dims& dims, std::optional<void*> stream) {
  constexpr int64_t kAlignment = 256;
  const std::string& name = output.name;
  const auto it = allocators_.find(name);
  if (it != allocators_.end()) {
    const int64_t bytes = std::max<int64_t>(byte_count(output.type.dtype, dims), 1);
    const uintptr_t at = it->second->reallocate(name, address(name), bytes, kAlignment, stream);
    if (!at) fail(ErrorKind::machine, "the program's allocator gave no memory for '", name, "'");
    addresses_[name] = at;
    it->second->notify_shape(name, dims);
  }
  const uintptr_t at = address(name);
  if (!at) fail(ErrorKind::usage, "the address of '", name, "' is not set");
  if (!of_gpu()) check_mapped(at, byte_count(output.type.dtype, dims), name);
  return at;
}

bool Context::run(std::optional<void*> stream) {
  return or_else(logger_, false, [&] {
    layers_.clear();
    for (const std::string& name : inputs_without_shape())
      fail(ErrorKind::usage, "the shape of the input '", name, "' is not set");
    std::vector<const void*> in;
    for (const PortInfo& input : engine_->inputs()) {
      const uintptr_t at = address(input.name);
      if (!at) fail(ErrorKind::usage, "the address of '", input.name, "' is not set");
      if (!of_gpu()) check_mapped(at, byte_count(input.type.dtype, shapes_.at(input.name)), input.name);
      in.push_back(at_address(at));
    }
    const std::vector<Dims> shapes = input_shapes();
    const std::vector<TensorType> types = session_->prepare(shapes);
    if (session_->is_partitioned()) {
      run_partitions(in, shapes, stream);
      return true;
    }
    std::vector<void*> out;
    for (size_t o = 0; o < types.size(); ++o)
      out.push_back(at_address(address_of_output(engine_->outputs()[o], types[o].dims(), stream)));
    run_one_plan(in, out, stream);
    return true;
  });
}

void Context::run_one_plan(const std::vector<const void*>& in, const std::vector<void*>& out,
                           std::optional<void*> stream) {
  const bool gpu = bool(engine_->device().gpu);
  if (gpu) session_->run_resident(in, out, stream);
  else if (!told_) session_->run_prepared(in, out);
  if (!told_) return;
  if (gpu && stream && queue().is_captured(*stream)) return;  // nothing has run that could be timed
  time_layers(in, out, stream);
  if (told_at_once_)
    for (const auto& [layer, ms] : layers_) (*told_)(layer, ms);
}

// On a GPU it is a run of its own on the same inputs, whose outputs go nowhere.
void Context::time_layers(const std::vector<const void*>& in, const std::vector<void*>& out,
                          std::optional<void*> stream) {
  const Plan& plan = session_->current_plan();
  std::vector<std::vector<double>> ms;
  if (engine_->device().gpu) {
    std::vector<Tensor> inputs, outputs;
    std::vector<const void*> from;
    std::vector<void*> to;
    queue().wait_for(stream.value_or(nullptr));
    for (size_t i = 0; i < in.size(); ++i) {
      Tensor& tensor = inputs.emplace_back(plan.inputs[i].type.dtype, plan.inputs[i].type.dims());
      queue().copy_to_host(tensor.raw_mutable(), in[i], tensor.bytes());
      from.push_back(tensor.raw_mutable());
    }
    queue().wait();
    for (const PortInfo& port : plan.outputs)
      to.push_back(outputs.emplace_back(port.type.dtype, port.type.dims()).raw_mutable());
    session_->run_timed(from, to, ms);
  } else {
    session_->run_timed(in, out, ms);
  }
  for (size_t s = 0; s < ms.size(); ++s)
    for (size_t i = 0; i < ms[s].size(); ++i) layers_.emplace_back(plan.segments[s].steps[i].node, ms[s][i]);
}

// Only a run tells what size outputs have: they are made on the host, and then put where the program wants them.
void Context::run_partitions(const std::vector<const void*>& in, const std::vector<Dims>& shapes,
                             std::optional<void*> stream) {
  const bool gpu = bool(engine_->device().gpu);
  if (told_) logger_(Severity::warning, "shapes inside the model depend on data: there is no one plan to time");
  std::vector<Tensor> inputs;
  if (gpu) {
    if (stream && queue().is_captured(*stream))
      fail(ErrorKind::unsupported, "shapes inside the model depend on data: such a run cannot be captured");
    queue().wait_for(stream.value_or(nullptr));
  }
  for (size_t i = 0; i < in.size(); ++i) {
    const DType dtype = engine_->inputs()[i].type.dtype;
    if (!gpu) {
      inputs.push_back(Tensor::view(dtype, shapes[i], in[i]));
      continue;
    }
    Tensor& tensor = inputs.emplace_back(dtype, shapes[i]);
    queue().copy_to_host(tensor.raw_mutable(), in[i], tensor.bytes());
  }
  if (gpu) queue().wait();
  const std::vector<Tensor> results = session_->run(inputs);
  for (size_t o = 0; o < results.size(); ++o) {
    const Tensor& result = results[o];
    void* to = at_address(address_of_output(engine_->outputs()[o], result.dims(), stream));
    if (gpu) queue().copy_to_device(to, result.raw().data(), result.bytes());
    else std::memcpy(to, result.raw().data(), size_t(result.bytes()));
  }
  if (gpu) queue().wait();
}

}  // namespace temper::nvinfer
