// SPDX-License-Identifier: Apache-2.0
// Writes the nodes and seeded weights of a network, layer by layer, under PyTorch's parameter names.
#pragma once
#include <onnx/onnx_pb.h>

#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace temper::zoo {

// An axis of an input or output: a size, or a symbol for one that stays open.
struct Axis {
  Axis(int64_t whole) : size(whole) {}
  Axis(const char* name) : symbol(name) {}
  int64_t size = 0;
  std::string symbol;
};

// The attributes of a node, by name.
using Attributes = std::vector<std::pair<const char*, std::variant<int64_t, float, std::vector<int64_t>, const char*>>>;

// A value of the network and the number of its channels (features after flatten).
struct Flow {
  std::string name;
  int64_t channels = 0;
};

struct ConvOptions {
  int64_t out = 0, kernel = 1, stride = 1, groups = 1;  // padding is kernel / 2
  bool bias = false;
};

class Builder {
 public:
  Builder(std::string_view graph_name, uint64_t seed, int opset);

  int opset() const { return opset_; }
  // Weights are stored in f16 from here on, each with a Cast to f32 behind it: half the file, and the model's
  // arithmetic stays f32. What is in the file is the nearest f16.
  void store_in_half() { half_ = true; }

  // Inputs and outputs of any type and shape, and nodes of any op. Values are named after the nodes that make them;
  // op() returns the name of its first output.
  void input(const std::string& name, onnx::TensorProto::DataType type, const std::vector<Axis>& shape);
  void output(const std::string& name, const std::vector<Axis>& shape);  // f32, of a value that there is
  std::string op(const std::string& type, const std::string& name, const std::vector<std::string>& inputs,
                 const Attributes& attributes = {}, const std::vector<std::string>& more_outputs = {});
  // Constants that are no weights: one initializer for each that differs.
  std::string integers(const std::vector<int64_t>& values);
  std::string integer(int64_t value);
  std::string number(float value);
  std::string numbers(const std::vector<float>& values);
  // mean + deviation * n(0,1) for each element.
  std::string weights(const std::string& name, const std::vector<int64_t>& dims, double mean, double deviation);
  // x @ NAME.weight, stored [out,in] as PyTorch's linear layers have it, + NAME.bias. Variances of 1 become 1. The last
  // axis of x has `in` elements.
  std::string dense(const std::string& name, const std::string& x, int64_t in, int64_t out, bool bias = true);
  std::string layer_norm(const std::string& name, const std::string& x, int64_t width, float epsilon);
  std::string finish();  // the file's bytes; outputs were declared

  Flow image(int64_t channels, int64_t height, int64_t width);
  // Weights are normal with variance 2 / fan-in (He et al. 2015), which keeps the variance of a relu network.
  Flow conv(const std::string& name, const Flow& in, const ConvOptions& options);
  // Statistics as training leaves them: not the identity. `gain` scales the weights; residual branches take a small
  // one, so that the sum over many blocks stays in range.
  Flow batch_norm(const std::string& name, const Flow& in, double gain = 1);
  Flow relu(const std::string& name, const Flow& in);
  Flow relu6(const std::string& name, const Flow& in);
  Flow add(const std::string& name, const Flow& a, const Flow& b);
  Flow max_pool(const std::string& name, const Flow& in, int64_t kernel, int64_t stride, int64_t padding);
  Flow global_average_pool(const std::string& name, const Flow& in);
  Flow flatten(const std::string& name, const Flow& in, int64_t features);
  Flow linear(const std::string& name, const Flow& in, int64_t out);

  std::string finish(const Flow& logits);  // names `logits` the output and gives the file's bytes

 private:
  onnx::ModelProto model_;
  onnx::GraphProto* graph_;
  uint64_t seed_;
  int opset_;
  bool half_ = false;
  std::set<std::string> constants_;

  onnx::NodeProto& node(const std::string& op, const std::string& name, const std::vector<std::string>& inputs);
  onnx::TensorProto* constant(const std::string& name, onnx::TensorProto::DataType type);  // null: it is there already
  // Cut at `least`.
  std::string weights(const std::string& name, const std::vector<int64_t>& dims, double mean, double deviation,
                      double least);
};

}  // namespace temper::zoo
