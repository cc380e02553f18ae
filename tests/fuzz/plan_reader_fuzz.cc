// SPDX-License-Identifier: Apache-2.0
// Any bytes either end in an Error or are plans that may be run: what reading accepts is executed on small buffers.
// Mutations start from plans made here (a plan belongs to one build of the program, so none can be kept as a seed).
// Half of them get valid hashes again, so that the checks behind the hashes are reached.
#include <cstdint>
#include <cstring>
#include <random>

#include "plan/execute_host.h"
#include "plan/file.h"
#include "plan/planner.h"
#include "runtime/engine.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

using namespace temper;

constexpr int64_t kMaxRunBytes = 1 << 20;  // larger plans are read and checked, but not run

constexpr std::string_view graphs[] = {
    "graph \"matmul\"\n"
    "input %x: f32[2,4]\n"
    "const %w: f32[4,2] = [1,2,3,4,5,6,7,8]\n"
    "%m: f32[2,2] = matmul(%x, %w)\n"
    "%y: f32[2,2] = pointwise(%m) program=\"(1) 1=relu.f32(0)\"\n"
    "output \"y\" = %y\n",
    "graph \"conv\"\n"
    "input %x: f32[4,1,4,4]\n"
    "const %w: f32[1,1,3,3] = [1,2,3,4,5,6,7,8,9]\n"
    "%c: f32[4,1,4,4] = conv(%x, %w) strides=[1,1] dilations=[1,1] pads=[1,1,1,1]\n"
    "%p: f32[4,1,2,2] = pool(%c) kernel=[2,2] strides=[2,2] dilations=[1,1] pads=[0,0,0,0]\n"
    "%f: f32[4,4] = reshape(%p) shape=[4,4]\n"
    "%s: f32[4,4] = softmax(%f) axis=1\n"
    "output \"s\" = %s\n",
    "graph \"open\"\n"
    "input %x: f32[batch,2]\n"
    "const %b: f32[2] = [1,-1]\n"
    "%y: f32[batch,2] = pointwise(%x, %b) program=\"(2) 2=add.f32(0,1)\"\n"
    "output \"y\" = %y\n",
};

std::string make_plan(std::string_view text) {
  PlanFile file;
  const Graph graph = parse_graph(text);
  const Backend& backend = find_backend("reference");
  EngineInfo info;
  info.model_name = "fuzz";
  info.device = "reference";
  info.command = "temper build fuzz.onnx -o fuzz.plan";
  const Engine engine(info, graph, 1);
  file.info = engine.info();
  file.inputs = engine.inputs();
  file.outputs = engine.outputs();
  file.graph_text = text;
  const bool open = !graph.type(graph.inputs()[0]).is_concrete();
  if (open) file.graph = graph;
  for (const int64_t batch : open ? std::vector<int64_t>{1, 3} : std::vector<int64_t>{0}) {
    const Graph concrete = open ? specialize(graph, {{"batch", batch}}) : graph;
    PlanOptions options;
    if (concrete.node_count() > 2)
      options.segments = {{.first = 0, .last = 1, .slice = 2}, {.first = 2, .last = concrete.node_count() - 1}};
    file.plans.push_back(std::make_shared<const Plan>(build_plan(concrete, backend, engine.device(), options)));
  }
  std::string bytes;
  write_plan(file, [&](std::span<const std::byte> part) {
    bytes.append(reinterpret_cast<const char*>(part.data()), part.size());
  });
  return bytes;
}

const std::vector<std::string>& made_plans() {
  static const std::vector<std::string> plans = [] {
    std::vector<std::string> out;
    for (const std::string_view text : graphs) out.push_back(make_plan(text));
    return out;
  }();
  return plans;
}

void execute(const Plan& plan) {
  int64_t total = plan.arena_bytes();
  for (const auto* ports : {&plan.inputs, &plan.outputs})
    for (const PortInfo& port : *ports) total += byte_count(port.type.dtype, port.type.dims());
  for (const Segment& segment : plan.segments) total += segment.slices * int64_t(segment.steps.size()) * 1024;
  if (total > kMaxRunBytes) return;
  std::vector<Tensor> tensors;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  for (const PortInfo& port : plan.inputs)
    inputs.push_back(tensors.emplace_back(port.type.dtype, port.type.dims()).raw().data());
  for (const PortInfo& port : plan.outputs)
    outputs.push_back(tensors.emplace_back(port.type.dtype, port.type.dims()).raw_mutable());
  static const Device device = open_device("reference");
  Arena arena(device);
  HostExecutor executor(plan, device, arena);
  executor.run(inputs, outputs);
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  std::minstd_rand random(seed);
  if (size < 64 || random() % 8 == 0) {
    const std::string& plan = made_plans()[random() % made_plans().size()];
    if (plan.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
    std::memcpy(data, plan.data(), size = plan.size());
  }
  // Lengths and offsets are checked before all else, so most mutations keep the size.
  for (auto times = random() % 3 + 1; times > 0; --times) {
    const size_t at = random() % size, length = std::min<size_t>(size - at, random() % 24 + 1);
    if (random() % 16 == 0) size = LLVMFuzzerMutate(data, size, max_size);
    else LLVMFuzzerMutate(data + at, length, length);
  }
  if (random() % 2) seal_container({reinterpret_cast<std::byte*>(data), size});
  return size;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Tensor aligned(DType::u8, {int64_t(size)});  // read_plan wants 64-byte alignment
  std::memcpy(aligned.raw_mutable(), data, size);
  try {
    const PlanFile file = read_plan(aligned.raw(), nullptr, {.candidates = true});
    for (const auto& plan : file.plans) execute(*plan);
  } catch (const Error&) {}
  if (size % 8) return 0;  // the rest takes as long again
  try {
    read_plan(aligned.raw(), nullptr, {.foreign = true});
  } catch (const Error&) {}
  return 0;
}
