// SPDX-License-Identifier: Apache-2.0
// A model's configuration: what the server has of it is held against the plan, and what nobody wrote is filled in from
// the plan. The server gives and takes it as JSON.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "temper/temper.h"
#include "triton/api.h"

namespace temper::triton {

// The inputs and outputs of a plan, as far as a configuration speaks of them.
struct PlanShape {
  std::vector<temper::Port> inputs, outputs;
  // Rows of a batch; 0: requests are not joined, because some input or output has no batch as its first dimension, or
  // its rows are known, or found, to depend on each other.
  int64_t max_batch = 0;
  std::string why_no_batch;      // where max_batch is 0
  std::vector<char> pictures;    // by input: whether encoded pictures can become it
  std::vector<int64_t> buckets;  // batches that the plan was tuned for, rising
};

struct StateNames {
  std::string input, output;
};

// The parts of a configuration that the backend goes by.
struct ModelConfig {
  int64_t max_batch = 0;
  bool pad = true;     // parameter "pad": "off" plans every batch as it comes
  std::string device;  // parameter "device"; "": as the instances are
  std::string file;    // default_model_filename; "": model.temper
  std::vector<StateNames> states;
  std::vector<std::string> encoded;  // inputs that are encoded pictures: those that it gives the type TYPE_STRING
};

// "TYPE_FP32" in a configuration; "" for what the server has no type for.
std::string type_name(temper_dtype dtype);
TRITONSERVER_DataType type_of(temper_dtype dtype);  // TRITONSERVER_TYPE_INVALID for such

// The plan is not needed to know which plan is meant. Throws Refusal for a parameter that is none, or has no such
// value.
ModelConfig read_config(const std::string& json);

// The device that instances work on, by the configuration.
enum class Place { any, cpu, gpu };

// That of the instance groups, which the server has normalised; any where they are of several kinds.
Place place_of_groups(const std::string& json);

// The configuration with what nobody wrote: inputs, outputs, max_batch_size, and a dynamic batcher that prefers the
// tuned batches.
std::string complete_config(const std::string& json, const PlanShape& plan);

// Throws Refusal, with the line to write, where the configuration contradicts the plan.
void check_config(const std::string& json, const PlanShape& plan);

}  // namespace temper::triton
