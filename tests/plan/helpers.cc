// SPDX-License-Identifier: Apache-2.0
#include "helpers.h"

#include <cmath>
#include <cstring>

#include "plan/container.h"
#include "plan/execute.h"
#include "plan/planner.h"

namespace temper {

Tensor noise(Dims dims, uint32_t seed) {
  Tensor tensor(DType::f32, std::move(dims));
  for (int64_t i = 0; i < tensor.count(); ++i) {
    seed = seed * 1664525u + 1013904223u;
    tensor.data<float>()[i] = float(int32_t(seed)) / 2147483648.f;
  }
  return tensor;
}

Tensor scaled(Dims dims, uint32_t seed, float factor) {
  Tensor tensor = noise(std::move(dims), seed);
  for (int64_t i = 0; i < tensor.count(); ++i) tensor.data<float>()[i] *= factor;
  return tensor;
}

Graph small_graph(const std::string& batch) {
  const std::string n = batch;
  const std::string text =
      "graph \"small\"\n"
      "input %x: f32[" +
      n +
      ",3,8,8]\n"
      "const %w1: f32[16,3,3,3] = #0\n"
      "const %b1: f32[16,1,1] = #1\n"
      "%c1: f32[" +
      n +
      ",16,8,8] = conv(%x, %w1, %b1) strides=[1,1] dilations=[1,1] pads=[1,1,1,1] epilogue=\"(2) 2=add.f32(0,1) "
      "3=relu.f32(2)\"\n"
      "%p1: f32[" +
      n +
      ",16,4,4] = pool(%c1) kernel=[2,2] strides=[2,2] dilations=[1,1] pads=[0,0,0,0]\n"
      "const %w2: f32[16,16,3,3] = #2\n"
      "%c2: f32[" +
      n +
      ",16,4,4] = conv(%p1, %w2, %p1) strides=[1,1] dilations=[1,1] pads=[1,1,1,1] epilogue=\"(2) 2=add.f32(0,1)\"\n"
      "%flat: f32[" +
      n + ",256] = reshape(%c2) shape=[" + n +
      ",256]\n"
      "const %w3: f32[256,10] = #3\n"
      "%m: f32[" +
      n +
      ",10] = matmul(%flat, %w3)\n"
      "const %scale: f32[10] = [1,0.5,0.25,2,1,1,3,1,1,0.125]\n"
      "%y: f32[" +
      n +
      ",10] = pointwise(%m, %scale) program=\"(2) 2=mul.f32(0,1) 3=tanh.f32(2)\"\n"
      "output \"y\" = %y\n";
  const std::vector<Tensor> blobs{noise({16, 3, 3, 3}, 1), noise({16, 1, 1}, 2), noise({16, 16, 3, 3}, 3),
                                  noise({256, 10}, 4)};
  return parse_graph(text, blobs);
}

Graph tiny_graph() {
  return parse_graph(
      "graph \"tiny\"\n"
      "input %x: f32[2,4]\n"
      "const %w: f32[4,2] = [1,2,3,4,5,6,7,8]\n"
      "%m: f32[2,2] = matmul(%x, %w)\n"
      "%y: f32[2,2] = pointwise(%m) program=\"(1) 1=relu.f32(0)\"\n"
      "output \"y\" = %y\n");
}

EngineInfo info_of(const std::string& device) {
  EngineInfo info;
  info.model_name = "small";
  info.model_sha256 = std::string(64, 'a');
  info.source_path = "small.onnx";
  info.producer = "a test";
  info.device = device;
  info.command = "temper build small.onnx -o small.plan";
  info.build_s = 0.1;
  info.notes = {"a note"};
  return info;
}

PlanFile made_of(const Engine& engine) {
  PlanFile file = plan_file_of(engine);
  file.graph = engine.graph();
  file.device = engine.device();
  return file;
}

std::shared_ptr<Engine> with_plan(const Engine& engine, Plan plan) {
  PlanFile file = made_of(engine);
  file.plans.push_back(std::make_shared<const Plan>(std::move(plan)));
  return std::make_shared<Engine>(std::move(file));
}

void add_plan(std::shared_ptr<Engine>& engine, const std::vector<Dims>& shapes,
              const std::vector<SegmentSpec>& segments) {
  PlanOptions options;
  options.threads = engine->threads();
  options.segments = segments;
  const Graph concrete = specialize(engine->graph(), bind_shapes(engine->graph(), shapes));
  engine = with_plan(*engine, build_plan(concrete, find_backend(engine->info().device), engine->device(), options));
}

const PlanStep& step_of(const Plan& plan, const std::string& node) {
  for (const Segment& segment : plan.segments)
    for (const PlanStep& step : segment.steps)
      if (step.node == node) return step;
  throw std::out_of_range(node);
}

std::shared_ptr<Engine> tiny_engine(const std::string& device) {
  auto engine = std::make_shared<Engine>(info_of(device), tiny_graph(), 1);
  add_plan(engine, {{2, 4}});
  return engine;
}

Tensor file_bytes(const Engine& engine) {
  std::vector<std::byte> all;
  write_plan(plan_file_of(engine),
             [&](std::span<const std::byte> bytes) { all.insert(all.end(), bytes.begin(), bytes.end()); });
  Tensor tensor(DType::u8, {int64_t(all.size())});
  std::copy(all.begin(), all.end(), tensor.raw_mutable());
  return tensor;
}

Tensor repacked(const Tensor& file,
                const std::function<void(std::string& manifest, std::vector<SectionToWrite>& sections)>& change) {
  const Container container = read_container(file.raw());
  std::string manifest(container.manifest);
  std::vector<SectionToWrite> sections;
  for (const Section& section : container.sections)
    sections.push_back({section.name, section.required, {section.bytes}});
  change(manifest, sections);
  std::vector<std::byte> all;
  write_container(container.preamble, manifest, sections,
                  [&](std::span<const std::byte> bytes) { all.insert(all.end(), bytes.begin(), bytes.end()); });
  Tensor result(DType::u8, {int64_t(all.size())});
  std::memcpy(result.raw_mutable(), all.data(), all.size());
  return result;
}

std::pair<ErrorKind, std::string> refusal(std::span<const std::byte> bytes) {
  try {
    const Engine engine(read_plan(bytes, nullptr));
    for (const auto& plan : engine.plans()) {
      Arena arena(engine.device());
      make_executor(*plan, engine.device(), arena);
    }
  } catch (const Error& error) { return {error.kind(), error.what()}; }
  ADD_FAILURE() << "nothing was refused";
  return {ErrorKind::check_failed, ""};
}

void expect_close(const std::vector<Tensor>& got, const std::vector<Tensor>& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].type(), want[i].type());
    const auto a = got[i].to_doubles(), b = want[i].to_doubles();
    for (size_t k = 0; k < a.size(); ++k) ASSERT_NEAR(a[k], b[k], tolerance * (1 + std::fabs(b[k]))) << "element " << k;
  }
}

}  // namespace temper
