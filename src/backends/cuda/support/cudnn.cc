// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/support/cudnn.h"

#include <algorithm>
#include <bit>
#include <chrono>

#include "base/log.h"
#include "base/parse.h"

namespace temper::cuda {

namespace {

constexpr size_t kRecentPlans = 64;
// Not everywhere does cuDNN note of this engine that it calls cuBLASLt (9.19, bf16 with three channels).
constexpr int64_t kCudnnCublasLtEngine = 39;
constexpr double kOperationsForCublasLt = 2e9;
// This engine computes in 16 bits and less without the tensor cores: on an H200 it took 230 to 1,600 times as long as
// the best for 53 convolutions of more operations than this, up to half a second a run, which was a third of a build.
constexpr int64_t kCudnnPlainEngine = 0;
constexpr double kOperationsForTensorCores = 1e9;

double operations_of(const CudnnGraph& graph) {
  double operations = 2;
  for (int64_t size : graph.values.at(size_t(graph.sum)).dims) operations *= double(size);
  const Dims& weights = graph.values.at(size_t(graph.w)).dims;
  for (size_t axis = 1; axis < weights.size(); ++axis) operations *= double(weights[axis]);
  return operations;
}

std::string dims_text(const Dims& dims) {
  std::string out;
  for (int64_t size : dims) out += concat(out.empty() ? "" : ",", size);
  return out;
}

}  // namespace

std::string CudnnGraph::text() const {
  std::string out = concat("conv ", x, ' ', w, ' ', sum, " by ", dims_text(strides), ' ', dims_text(dilations), ' ',
                           dims_text(pads_before), ' ', dims_text(pads_after));
  for (const CudnnValue& value : values)
    out +=
        concat("; ", int(value.type), ' ', int(value.where), ' ', dims_text(value.dims), ' ', dims_text(value.strides));
  for (const CudnnStep& step : steps) out += concat("; ", int(step.mode), ' ', step.x, ' ', step.b, ' ', step.y);
  return out;
}

std::string CudnnChoice::text() const {
  std::string out = concat("engine ", engine);
  for (const auto& knob : knobs) out += concat(' ', knob.first, ':', knob.second);
  return out;
}

CudnnChoice CudnnChoice::parse(std::string_view text) {
  CudnnChoice choice;
  const std::string_view whole = text;
  auto number = [&](int64_t least, int64_t most) {
    const auto leading = parse_leading<int64_t>(text);
    if (!leading || leading->value < least || leading->value > most)
      fail(ErrorKind::bad_file, "'", whole, "' is no choice of cuDNN's engines");
    text = leading->rest;
    return leading->value;
  };
  auto expect = [&](std::string_view prefix) {
    if (!text.starts_with(prefix)) fail(ErrorKind::bad_file, "'", whole, "' is no choice of cuDNN's engines");
    text.remove_prefix(prefix.size());
  };
  expect("engine ");
  choice.engine = number(0, 1 << 20);
  while (!text.empty()) {
    expect(" ");
    const int kind = int(number(0, kCudnnKnobs - 1));
    expect(":");
    if (!choice.knobs.empty() && choice.knobs.back().first >= kind)
      fail(ErrorKind::bad_file, "'", whole, "' names a knob twice or out of order");
    choice.knobs.emplace_back(kind, number(-(int64_t(1) << 40), int64_t(1) << 40));
  }
  if (choice.text() != whole) fail(ErrorKind::bad_file, "'", whole, "' is no choice of cuDNN's engines");
  return choice;
}

CudnnObject::CudnnObject(const CudnnApi& api, CudnnKind kind) : api_(&api) {
  if (const CudnnStatus status = api.create_descriptor(kind, &handle_); status != 0)
    fail(ErrorKind::machine, "cuDNN cannot make a descriptor of kind ", int(kind), ": ", api.error_text(status));
}
CudnnObject::~CudnnObject() {
  if (handle_) api_->destroy_descriptor(handle_);
}

void Cudnn::open(const LibrarySearch& search) {
  const Library library = Library::open({"libcudnn.so.9"}, search, "convolutions by NVIDIA's library",
                                        "install NVIDIA's cuDNN 9, or 'pip install nvidia-cudnn-cu13' and name the "
                                        "site-packages folder with --cuda-path");
  path_ = library.path();
  library.bind(api_.version, "cudnnGetVersion");
  library.bind(api_.error_text, "cudnnGetErrorString");
  library.bind(api_.last_error, "cudnnGetLastErrorString");
  library.bind(api_.create, "cudnnCreate");
  library.bind(api_.destroy, "cudnnDestroy");
  library.bind(api_.set_stream, "cudnnSetStream");
  library.bind(api_.create_descriptor, "cudnnBackendCreateDescriptor");
  library.bind(api_.destroy_descriptor, "cudnnBackendDestroyDescriptor");
  library.bind(api_.finalize, "cudnnBackendFinalize");
  library.bind(api_.set, "cudnnBackendSetAttribute");
  library.bind(api_.get, "cudnnBackendGetAttribute");
  library.bind(api_.execute, "cudnnBackendExecute");
  version_ = int(api_.version());
}

Cudnn::Cudnn(GpuRef gpu, const LibrarySearch& search) : gpu_(std::move(gpu)) {
  open(search);
  gpu_->make_current();
  if (const CudnnStatus status = api_.create(&handle_); status != 0)
    fail(ErrorKind::unsupported, "cuDNN ", version_, " ('", path_, "') does not start on ", gpu_->info().name, ": ",
         api_.error_text(status), "; install a version that fits the GPU and its driver");
}

Cudnn::Cudnn(const LibrarySearch& search, std::string_view device) {
  open(search);
  if (version_ < 90800)
    fail(ErrorKind::unsupported, "cuDNN ", version_, " cannot choose without a GPU; 9.8 and later can");
  device_.emplace(api_, CudnnKind::device_properties);
  check(api_.set(device_->get(), CudnnAttribute::device_json, CudnnType::text, int64_t(device.size()), device.data()),
        "reading a description of a GPU");
  finish(*device_, "a description of a GPU");
}

Cudnn::~Cudnn() {
  recent_.clear();
  if (handle_ && gpu_->try_make_current()) api_.destroy(handle_);
}

void Cudnn::check(CudnnStatus status, std::string_view what) const {
  if (status == 0) return;
  char more[512] = "";
  api_.last_error(more, sizeof more);
  more[sizeof more - 1] = 0;
  // 2xxx: a parameter is wrong, 3xxx: not supported, 4001: a kernel that it wrote does not compile; what is left is the
  // machine's fault.
  fail((status >= 2000 && status < 4000) || status == 4001 ? ErrorKind::unsupported : ErrorKind::machine, "cuDNN ",
       version_, ", ", what, ": ", api_.error_text(status), more[0] ? " (" : "", more, more[0] ? ")" : "");
}

template <class T>
void Cudnn::set(const CudnnObject& object, CudnnAttribute attribute, CudnnType type,
                const std::vector<T>& values) const {
  check(api_.set(object.get(), attribute, type, int64_t(values.size()), values.data()),
        concat("setting attribute ", int(attribute)));
}

template <class T>
std::vector<T> Cudnn::get(CudnnDescriptor object, CudnnAttribute attribute, CudnnType type, size_t room) const {
  std::vector<T> values(room);
  int64_t count = 0;
  check(api_.get(object, attribute, type, int64_t(room), &count, values.data()),
        concat("reading attribute ", int(attribute)));
  values.resize(size_t(std::clamp<int64_t>(count, 0, int64_t(room))));
  return values;
}

std::vector<CudnnObject> Cudnn::get_objects(CudnnDescriptor object, CudnnAttribute attribute, CudnnKind kind,
                                            size_t room) const {
  std::vector<CudnnObject> objects;
  std::vector<CudnnDescriptor> handles;
  for (size_t i = 0; i < room; ++i) {
    objects.emplace_back(api_, kind);
    handles.push_back(objects.back().get());
  }
  int64_t count = 0;
  check(api_.get(object, attribute, CudnnType::descriptor, int64_t(room), &count, handles.data()),
        concat("reading attribute ", int(attribute)));
  while (int64_t(objects.size()) > std::max<int64_t>(count, 0)) objects.pop_back();
  return objects;
}

void Cudnn::finish(const CudnnObject& object, std::string_view what) const { check(api_.finalize(object.get()), what); }

void Cudnn::describe(const CudnnGraph& graph, std::vector<CudnnObject>& objects) const {
  using A = CudnnAttribute;
  using T = CudnnType;
  std::vector<CudnnDescriptor> tensors, operations;
  auto add = [&](CudnnKind kind) -> const CudnnObject& { return objects.emplace_back(api_, kind); };
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const CudnnValue& value = graph.values[i];
    const CudnnObject& tensor = add(CudnnKind::tensor);
    set(tensor, A::tensor_id, T::int64, int64_t(i) + 1);
    set(tensor, A::tensor_type, T::data_type, int(value.type));
    set(tensor, A::tensor_dims, T::int64, value.dims);
    set(tensor, A::tensor_strides, T::int64, value.strides);
    set(tensor, A::tensor_alignment, T::int64, int64_t(16));
    const auto yes = std::vector<char>{1};
    if (value.where == CudnnValue::Where::inside) set(tensor, A::tensor_is_virtual, T::boolean, yes);
    finish(tensor, concat("describing tensor ", i));
    tensors.push_back(tensor.get());
  }
  auto tensor = [&](int value) { return tensors.at(size_t(value)); };

  const CudnnObject& convolution = add(CudnnKind::convolution);
  set(convolution, A::convolution_compute_type, T::data_type, int(CudnnData::f32));
  set(convolution, A::convolution_mode, T::convolution_mode, kCudnnCrossCorrelation);
  set(convolution, A::convolution_dilations, T::int64, graph.dilations);
  set(convolution, A::convolution_strides, T::int64, graph.strides);
  set(convolution, A::convolution_pre_paddings, T::int64, graph.pads_before);
  set(convolution, A::convolution_post_paddings, T::int64, graph.pads_after);
  set(convolution, A::convolution_spatial_dims, T::int64, int64_t(graph.strides.size()));
  finish(convolution, "describing the convolution");
  const CudnnDescriptor convolution_handle = convolution.get();

  const CudnnObject& forward = add(CudnnKind::convolution_forward);
  set(forward, A::forward_alpha, T::float32, 1.0f);
  set(forward, A::forward_beta, T::float32, 0.0f);
  set(forward, A::forward_convolution, T::descriptor, convolution_handle);
  set(forward, A::forward_x, T::descriptor, tensor(graph.x));
  set(forward, A::forward_w, T::descriptor, tensor(graph.w));
  set(forward, A::forward_y, T::descriptor, tensor(graph.sum));
  finish(forward, "describing the convolution's operands");
  operations.push_back(forward.get());

  for (const CudnnStep& step : graph.steps) {
    const CudnnObject& pointwise = add(CudnnKind::pointwise);
    set(pointwise, A::pointwise_mode, T::pointwise_mode, int(step.mode));
    set(pointwise, A::pointwise_compute_type, T::data_type, int(CudnnData::f32));
    if (step.mode == CudnnPointwiseMode::relu) set(pointwise, A::pointwise_nan, T::nan_propagation, kCudnnPassNan);
    finish(pointwise, "describing a pointwise step");
    const CudnnDescriptor mode = pointwise.get();
    const CudnnObject& operation = add(CudnnKind::pointwise_operation);
    set(operation, A::operation_pointwise, T::descriptor, mode);
    set(operation, A::operation_x, T::descriptor, tensor(step.x));
    if (step.b >= 0) set(operation, A::operation_b, T::descriptor, tensor(step.b));
    set(operation, A::operation_y, T::descriptor, tensor(step.y));
    finish(operation, "describing a pointwise step's operands");
    operations.push_back(operation.get());
  }

  const CudnnObject& all = add(CudnnKind::graph);
  if (handle_) set(all, A::graph_handle, T::handle, handle_);
  set(all, A::graph_operations, T::descriptor, operations);
  finish(all, "describing the graph");
}

std::vector<CudnnObject> Cudnn::candidates(CudnnDescriptor graph, int mode) const {
  const CudnnObject heuristics(api_, CudnnKind::engine_heuristics);
  set(heuristics, CudnnAttribute::heuristics_graph, CudnnType::descriptor, graph);
  set(heuristics, CudnnAttribute::heuristics_mode, CudnnType::heuristics_mode, mode);
  if (device_) set(heuristics, CudnnAttribute::heuristics_device, CudnnType::descriptor, device_->get());
  // It says so in this way where it knows no engine.
  if (api_.finalize(heuristics.get()) != 0) return {};
  return get_objects(heuristics.get(), CudnnAttribute::heuristics_results, CudnnKind::engine_config, 64);
}

CudnnChoice Cudnn::choice_of(CudnnDescriptor config) const {
  CudnnChoice choice;
  const auto engine = get_objects(config, CudnnAttribute::config_engine, CudnnKind::engine, 1);
  choice.engine = get<int64_t>(engine.at(0).get(), CudnnAttribute::engine_index, CudnnType::int64, 1).at(0);
  for (const CudnnObject& knob : get_objects(config, CudnnAttribute::config_knobs, CudnnKind::knob_choice, kCudnnKnobs))
    choice.knobs.emplace_back(get<int>(knob.get(), CudnnAttribute::knob_type, CudnnType::knob_type, 1).at(0),
                              get<int64_t>(knob.get(), CudnnAttribute::knob_value, CudnnType::int64, 1).at(0));
  std::sort(choice.knobs.begin(), choice.knobs.end());
  return choice;
}

std::shared_ptr<const CudnnPlan> Cudnn::make_plan(const CudnnGraph& graph, const CudnnChoice& choice) const {
  using A = CudnnAttribute;
  using T = CudnnType;
  auto plan = std::make_shared<CudnnPlan>();
  auto& objects = plan->objects_;
  describe(graph, objects);
  const CudnnDescriptor graph_handle = objects.back().get();
  const CudnnObject& engine = objects.emplace_back(api_, CudnnKind::engine);
  set(engine, A::engine_graph, T::descriptor, graph_handle);
  set(engine, A::engine_index, T::int64, choice.engine);
  if (device_) set(engine, A::engine_device, T::descriptor, device_->get());
  finish(engine, concat("taking engine ", choice.engine));
  const CudnnDescriptor engine_handle = engine.get();
  std::vector<CudnnDescriptor> knobs;
  for (const auto& [kind, value] : choice.knobs) {
    const CudnnObject& knob = objects.emplace_back(api_, CudnnKind::knob_choice);
    set(knob, A::knob_type, T::knob_type, kind);
    set(knob, A::knob_value, T::int64, value);
    finish(knob, concat("setting knob ", kind, " to ", value));
    knobs.push_back(knob.get());
  }
  const CudnnObject& config = objects.emplace_back(api_, CudnnKind::engine_config);
  set(config, A::config_engine, T::descriptor, engine_handle);
  if (!knobs.empty()) set(config, A::config_knobs, T::descriptor, knobs);
  finish(config, concat("setting up ", choice.text()));
  const CudnnDescriptor config_handle = config.get();
  const CudnnObject& made = objects.emplace_back(api_, CudnnKind::plan);
  if (handle_) set(made, A::plan_handle, T::handle, handle_);
  set(made, A::plan_config, T::descriptor, config_handle);
  if (device_) set(made, A::plan_device, T::descriptor, device_->get());
  finish(made, concat("making a plan of ", choice.text()));
  plan->workspace_ = get<int64_t>(made.get(), A::plan_workspace, T::int64, 1).at(0);
  if (plan->workspace_ < 0) fail(ErrorKind::machine, "cuDNN asks for a workspace of ", plan->workspace_, " bytes");
  for (size_t i = 0; i < graph.values.size(); ++i)
    if (graph.values[i].where == CudnnValue::Where::caller) plan->ids_.push_back(int64_t(i) + 1);
  return plan;
}

std::shared_ptr<const CudnnPlan> Cudnn::plan(const CudnnGraph& graph, const CudnnChoice& choice) const {
  const std::string key = concat(choice.text(), " of ", graph.text());
  const std::lock_guard lock(mutex_);
  if (auto known = plans_[key].lock()) return known;
  if (gpu_) gpu_->make_current();
  auto made = make_plan(graph, choice);
  std::erase_if(plans_, [](const auto& entry) { return entry.second.expired(); });
  plans_[key] = made;
  return made;
}

std::vector<CudnnChoice> Cudnn::choices(const CudnnGraph& graph, const CudnnRules& rules) const {
  const std::string text = graph.text();
  const std::string key =
      concat(text, " tf32=", rules.tf32, " workspace=", rules.workspace, " most=", rules.most, ' ', rules.most_of_one);
  const std::lock_guard lock(mutex_);
  if (const auto known = choices_.find(key); known != choices_.end()) return known->second;
  const auto start = std::chrono::steady_clock::now();
  if (gpu_) gpu_->make_current();
  // cuBLASLt's kernels for rows that are not whole 16 bytes turn NaN into 0 in relu; its others and cuDNN's own do not.
  // And the first of its kernels makes a plan load about 100 ms longer: not for what takes microseconds in any case.
  const bool without_cublaslt = operations_of(graph) < kOperationsForCublasLt ||
                                graph.values.at(size_t(graph.x)).dims.at(1) % 8 != 0 ||
                                graph.values.at(size_t(graph.sum)).dims.at(1) % 8 != 0;
  // An engine that cuDNN compiles costs a build seconds, on the thread that searches, and in 16 bits on Hopper none
  // won.
  const uint32_t behaves_otherwise =
      kCudnnCompiles | kCudnnReordersFilter | kCudnnReordersBias | (without_cublaslt ? kCudnnCallsCublasLt : 0);
  const bool wide = graph.values.at(size_t(graph.x)).type == CudnnData::f32;
  uint32_t refused = kCudnnDownConvert | kCudnnReducedReduction | kCudnnFft | kCudnnNondeterministic | kCudnnWinograd;
  if (wide && !rules.tf32) refused |= kCudnnTensorCore;
  // A graph that cuDNN cannot even describe has no engine either.
  std::vector<CudnnObject> objects;
  try {
    describe(graph, objects);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::unsupported) throw;
    return choices_[key] = {};
  }
  std::vector<CudnnChoice> out;
  std::map<int64_t, size_t> of_one;  // tries: one that the engine refuses takes its time, too
  auto attempt = [&](const CudnnChoice& choice) {
    if (std::find(out.begin(), out.end(), choice) != out.end() || of_one[choice.engine]++ >= rules.most_of_one) return;
    std::shared_ptr<const CudnnPlan> plan;
    try {
      plan = make_plan(graph, choice);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::unsupported) throw;
      return;  // heuristics propose what the engine then refuses
    }
    if (plan->workspace() > rules.workspace) return;
    if (recent_.size() >= kRecentPlans) recent_.erase(recent_.begin());
    plans_[concat(choice.text(), " of ", text)] = plan;
    recent_.push_back(std::move(plan));
    out.push_back(choice);
  };
  for (int mode : {kCudnnHeuristicsA, kCudnnHeuristicsFallback})
    for (const CudnnObject& config : candidates(objects.back().get(), mode)) {
      if (out.size() >= rules.most) break;
      const auto engine = get_objects(config.get(), CudnnAttribute::config_engine, CudnnKind::engine, 1);
      auto bits = [&](CudnnAttribute attribute, CudnnType type) {
        uint32_t set = 0;
        for (int note : get<int>(engine.at(0).get(), attribute, type, 32)) set |= 1u << (note & 31);
        return set;
      };
      const uint32_t behaviour = bits(CudnnAttribute::engine_behaviour_notes, CudnnType::behaviour_note);
      if (bits(CudnnAttribute::engine_numerical_notes, CudnnType::numerical_note) & refused) continue;
      if (behaviour & behaves_otherwise) continue;
      const CudnnChoice choice = choice_of(config.get());
      if (without_cublaslt && choice.engine == kCudnnCublasLtEngine) continue;
      attempt(choice);
    }
  const auto is_plain = [](const CudnnChoice& choice) { return choice.engine == kCudnnPlainEngine; };
  if (!wide && operations_of(graph) > kOperationsForTensorCores && !std::all_of(out.begin(), out.end(), is_plain))
    std::erase_if(out, is_plain);
  log(LogLevel::debug, "cuDNN: ", out.size(), " candidates for ", text, ": asked in ",
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), " s");
  return choices_[key] = out;
}

CudnnRun::CudnnRun(const Cudnn& cudnn, std::shared_ptr<const CudnnPlan> plan) : cudnn_(cudnn), plan_(std::move(plan)) {}

void CudnnRun::launch(const Stream& stream, std::span<const DevicePointer> addresses, DevicePointer workspace) {
  std::vector<const void*> pointers;
  pointers.reserve(plan_->ids_.size());
  for (int64_t id : plan_->ids_) pointers.push_back(std::bit_cast<const void*>(addresses[size_t(id - 1)]));
  const void* scratch = std::bit_cast<const void*>(workspace);
  if (!pack_ || pointers != pointers_ || scratch != workspace_) {
    const auto pack = std::make_shared<CudnnObject>(cudnn_.api_, CudnnKind::variant_pack);
    cudnn_.set(*pack, CudnnAttribute::pack_ids, CudnnType::int64, plan_->ids_);
    cudnn_.set(*pack, CudnnAttribute::pack_pointers, CudnnType::pointer, pointers);
    cudnn_.set(*pack, CudnnAttribute::pack_workspace, CudnnType::pointer, scratch);
    cudnn_.finish(*pack, "naming the addresses of a run");
    pack_ = pack;
    pointers_ = std::move(pointers);
    workspace_ = scratch;
  }
  stream.put_in([this, pack = pack_](StreamHandle into) {
    cudnn_.gpu_->driver().fail_if_planned(Operation::launch, "running a convolution");
    const std::lock_guard lock(cudnn_.mutex_);
    cudnn_.check(cudnn_.api_.set_stream(cudnn_.handle_, into), "choosing a stream");
    cudnn_.check(cudnn_.api_.execute(cudnn_.handle_, plan_->objects_.back().get(), pack->get()),
                 "running a convolution");
  });
}

}  // namespace temper::cuda
