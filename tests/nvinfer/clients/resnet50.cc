// SPDX-License-Identifier: Apache-2.0
// ResNet-50, layer by layer: batch normalization as a scale by channel, residual sums, a dense layer behind the mean.
// usage: resnet50 WEIGHTS [SIZE]; weights by the names of torchvision, the input [1, 3, SIZE, SIZE] is its entry
// "input"
#include <cmath>

#include "weights.h"

using namespace nvinfer1;

namespace {

class Net {
 public:
  Net(INetworkDefinition& network, const WeightsFile& file) : network_(network), file_(file) {}

  ITensor* conv(ITensor& x, int maps, int window, int stride, const std::string& name) {
    IConvolutionLayer* layer = network_.addConvolutionNd(
        x, maps, DimsHW{window, window}, file_.weights(name + ".weight"), Weights{DataType::kFLOAT, nullptr, 0});
    EXPECT(layer);
    layer->setStrideNd(DimsHW{stride, stride});
    layer->setPaddingNd(DimsHW{window / 2, window / 2});
    layer->setName(name.c_str());
    return layer->getOutput(0);
  }
  // (x - mean) / sqrt(var + 1e-5) * gamma + beta
  ITensor* norm(ITensor& x, const std::string& name) {
    const std::vector<float>&gamma = file_[name + ".weight"], &beta = file_[name + ".bias"],
          &mean = file_[name + ".running_mean"], &var = file_[name + ".running_var"];
    std::vector<float> scale(gamma.size()), shift(gamma.size()), power(gamma.size(), 1.f);
    for (std::size_t i = 0; i < gamma.size(); ++i) {
      scale[i] = gamma[i] / std::sqrt(var[i] + 1e-5f);
      shift[i] = beta[i] - mean[i] * scale[i];
    }
    IScaleLayer* layer = network_.addScale(x, ScaleMode::kCHANNEL, WeightsFile::of(shift), WeightsFile::of(scale),
                                           WeightsFile::of(power));
    EXPECT(layer);
    return layer->getOutput(0);
  }
  ITensor* relu(ITensor& x) { return network_.addActivation(x, ActivationType::kRELU)->getOutput(0); }

  ITensor* bottleneck(ITensor& x, int maps, int stride, bool projects, const std::string& name) {
    ITensor* y = relu(*norm(*conv(x, maps, 1, 1, name + ".conv1"), name + ".bn1"));
    y = relu(*norm(*conv(*y, maps, 3, stride, name + ".conv2"), name + ".bn2"));
    y = norm(*conv(*y, maps * 4, 1, 1, name + ".conv3"), name + ".bn3");
    ITensor* past = projects ? norm(*conv(x, maps * 4, 1, stride, name + ".downsample.0"), name + ".downsample.1") : &x;
    return relu(*network_.addElementWise(*past, *y, ElementWiseOperation::kSUM)->getOutput(0));
  }

 private:
  INetworkDefinition& network_;
  const WeightsFile& file_;
};

}  // namespace

int main(int argc, char** argv) {
  EXPECT(argc == 2 || argc == 3);
  const WeightsFile file(argv[1]);
  const int size = argc == 3 ? std::atoi(argv[2]) : 224;
  Logger logger;
  auto builder = std::unique_ptr<IBuilder>(createInferBuilder(logger));
  auto network = std::unique_ptr<INetworkDefinition>(builder->createNetworkV2(0U));
  ITensor* x = network->addInput("data", DataType::kFLOAT, Dims4{1, 3, size, size});
  Net net(*network, file);
  x = net.relu(*net.norm(*net.conv(*x, 64, 7, 2, "conv1"), "bn1"));
  IPoolingLayer* pool = network->addPoolingNd(*x, PoolingType::kMAX, DimsHW{3, 3});
  pool->setStrideNd(DimsHW{2, 2});
  pool->setPaddingNd(DimsHW{1, 1});
  x = pool->getOutput(0);
  const int blocks[] = {3, 4, 6, 3};
  for (int stage = 0; stage < 4; ++stage)
    for (int i = 0; i < blocks[stage]; ++i)
      x = net.bottleneck(*x, 64 << stage, i == 0 && stage > 0 ? 2 : 1, i == 0,
                         "layer" + std::to_string(stage + 1) + "." + std::to_string(i));
  x = network->addReduce(*x, ReduceOperation::kAVG, 1u << 2 | 1u << 3, false)->getOutput(0);
  ITensor* w = network->addConstant(Dims2{1000, 2048}, file.weights("fc.weight"))->getOutput(0);
  ITensor* b = network->addConstant(Dims2{1, 1000}, file.weights("fc.bias"))->getOutput(0);
  x = network->addMatrixMultiply(*x, MatrixOperation::kNONE, *w, MatrixOperation::kTRANSPOSE)->getOutput(0);
  x = network->addElementWise(*x, *b, ElementWiseOperation::kSUM)->getOutput(0);
  EXPECT(x->getDimensions().nbDims == 2 && x->getDimensions().d[1] == 1000);
  x->setName("prob");
  network->markOutput(*x);
  EXPECT(network->getNbLayers() == 4 + 4 * 2 + 10 * 16 + 5);
  build_and_run(*builder, *network, logger, file["input"], 1000);
}
