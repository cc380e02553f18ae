// SPDX-License-Identifier: Apache-2.0
// Writes the nodes and seeded weights of a network, layer by layer, under PyTorch's parameter names.
#pragma once
#include <onnx/onnx_pb.h>

#include <string>
#include <vector>

namespace temper::zoo {

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

  onnx::NodeProto& node(const std::string& op, const std::string& name, const std::vector<std::string>& inputs);
  // mean + deviation * n(0,1) for each element, cut at `least`.
  std::string weights(const std::string& name, const std::vector<int64_t>& dims, double mean, double deviation,
                      double least = -1e30);
};

}  // namespace temper::zoo
