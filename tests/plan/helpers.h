// SPDX-License-Identifier: Apache-2.0
// Small engines for tests of plans.
#pragma once
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "backends/backend.h"
#include "plan/container.h"
#include "plan/execute.h"
#include "plan/planner.h"
#include "runtime/engine.h"

namespace temper {

Tensor noise(Dims dims, uint32_t seed);
Tensor scaled(Dims dims, uint32_t seed, float factor);  // that noise, times so much

// Convolution with bias and relu, pool, a second convolution that adds a residual, reshape, matrix product,
// softmax-free pointwise end. `batch` may be a number or a symbol.
Graph small_graph(const std::string& batch);

// The least that has a constant, a pointwise op and two steps.
Graph tiny_graph();

EngineInfo info_of(const std::string& device);

// What the engine is made of, with its graph.
PlanFile made_of(const Engine& engine);

// Engines are immutable: these are others, with what is new.
std::shared_ptr<Engine> with_plan(const Engine& engine, Plan plan);
void add_plan(std::shared_ptr<Engine>& engine, const std::vector<Dims>& shapes,
              const std::vector<SegmentSpec>& segments = {});

const PlanStep& step_of(const Plan& plan, const std::string& node);

std::shared_ptr<Engine> tiny_engine(const std::string& device = "reference");

// What a plan file of the engine holds, at an address as a map would have it.
Tensor file_bytes(const Engine& engine);

// The file with another manifest text and further changes of its sections, and all hashes right.
Tensor repacked(const Tensor& file,
                const std::function<void(std::string& manifest, std::vector<SectionToWrite>& sections)>& change);

// Why the bytes are refused: the kind of the error and its message. A test in which nothing is thrown fails.
std::pair<ErrorKind, std::string> refusal(std::span<const std::byte> bytes);

void expect_close(const std::vector<Tensor>& got, const std::vector<Tensor>& want, double tolerance = 1e-5);

}  // namespace temper
