// SPDX-License-Identifier: Apache-2.0
// LeNet-5, layer by layer: convolutions, pooling, dense layers as products with constants, softmax.
// usage: lenet WEIGHTS; the input [1, 1, 32, 32] is its entry "input"
#include "weights.h"

using namespace nvinfer1;

// relu(conv(x)), then the largest of each 2x2.
static ITensor* block(INetworkDefinition& network, ITensor& x, int maps, const WeightsFile& file, const char* name) {
  IConvolutionLayer* conv = network.addConvolutionNd(x, maps, DimsHW{5, 5}, file.weights(std::string(name) + ".weight"),
                                                     file.weights(std::string(name) + ".bias"));
  EXPECT(conv);
  conv->setStrideNd(DimsHW{1, 1});
  conv->setName(name);
  IActivationLayer* relu = network.addActivation(*conv->getOutput(0), ActivationType::kRELU);
  IPoolingLayer* pool = network.addPoolingNd(*relu->getOutput(0), PoolingType::kMAX, DimsHW{2, 2});
  pool->setStrideNd(DimsHW{2, 2});
  return pool->getOutput(0);
}

// w x + b of columns [inputs, batch].
static ITensor* dense(INetworkDefinition& network, ITensor& x, int outputs, int inputs, const WeightsFile& file,
                      const char* name) {
  ITensor* w = network.addConstant(Dims2{outputs, inputs}, file.weights(std::string(name) + ".weight"))->getOutput(0);
  ITensor* b = network.addConstant(Dims2{outputs, 1}, file.weights(std::string(name) + ".bias"))->getOutput(0);
  IMatrixMultiplyLayer* product = network.addMatrixMultiply(*w, MatrixOperation::kNONE, x, MatrixOperation::kNONE);
  EXPECT(product);
  return network.addElementWise(*product->getOutput(0), *b, ElementWiseOperation::kSUM)->getOutput(0);
}

int main(int argc, char** argv) {
  EXPECT(argc == 2);
  const WeightsFile file(argv[1]);
  Logger logger;
  auto builder = std::unique_ptr<IBuilder>(createInferBuilder(logger));
  auto network = std::unique_ptr<INetworkDefinition>(builder->createNetworkV2(0U));
  ITensor* x = network->addInput("data", DataType::kFLOAT, Dims4{1, 1, 32, 32});
  EXPECT(x && x->isNetworkInput() && x->getDimensions().d[3] == 32);
  x = block(*network, *x, 6, file, "conv1");
  x = block(*network, *x, 16, file, "conv2");
  EXPECT(x->getDimensions().nbDims == 4 && x->getDimensions().d[2] == 5);
  IShuffleLayer* flat = network->addShuffle(*x);
  flat->setReshapeDimensions(Dims2{-1, 400});
  flat->setSecondTranspose(Permutation{{1, 0}});
  x = dense(*network, *flat->getOutput(0), 120, 400, file, "fc1");
  x = network->addActivation(*x, ActivationType::kRELU)->getOutput(0);
  x = dense(*network, *x, 84, 120, file, "fc2");
  x = network->addActivation(*x, ActivationType::kRELU)->getOutput(0);
  x = dense(*network, *x, 10, 84, file, "fc3");
  ISoftMaxLayer* prob = network->addSoftMax(*x);
  EXPECT(prob->getAxes() == 1u);  // of two dimensions, the first
  prob->getOutput(0)->setName("prob");
  network->markOutput(*prob->getOutput(0));
  EXPECT(network->getNbInputs() == 1 && network->getNbOutputs() == 1 && network->getLayer(0)->getNbOutputs() == 1);
  EXPECT(std::string(network->getLayer(0)->getName()) == "conv1");
  EXPECT(network->getLayer(0)->getType() == LayerType::kCONVOLUTION);
  build_and_run(*builder, *network, logger, file["input"], 10);
}
